//! `weir bench fxmark` on a directory of the host, where a worker is a process with one thread on a core of its own, as in the
//! original.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::shared::{document, told, weir};
use results::{ResultFile, Sample};
use rustix::process::{Pid, Signal, kill_process};

const SMALL: [&str; 8] =
    ["-D", "files=40", "-D", "blocks=40", "-D", "region=16KiB", "-D", "oversubscribe=true"];

/// A folder in memory, where the host has such.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn bench(home: &Path, fs: &str, arguments: &[&str]) -> ResultFile {
    let usual = ["--fs", fs, "--clock", "real", "--threads", "2", "--json"];
    let arguments = [&["bench"], arguments, &usual[..], &SMALL[..]].concat();
    let output = weir(home).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    serde_json::from_value(document(&output)).unwrap()
}

fn is_whole(sample: &Sample) {
    let what = &sample.axes;
    assert!(sample.ops > 0 && sample.errors == 0 && !sample.partial, "{what:?}: {:?}", sample.notes);
    let ops: u64 = sample.workers.iter().map(|worker| worker.ops).sum();
    assert_eq!(ops, sample.ops, "{what:?}: the workers' operations are the sample's");
    assert_eq!(sample.steps[0].latency_ns.count(), sample.ops, "{what:?}: every operation has a latency");
    let calls: u64 = sample.operations.iter().map(|operation| operation.count).sum();
    let listing = what["workload"].contains("MRD");
    assert!(calls >= sample.ops || listing, "{what:?}: the ledgers of the processes have {calls} calls");
}

#[test]
fn all_nineteen_complete_on_a_directory_of_the_host_in_processes_on_cores_of_their_own() {
    let (home, folder) = (tempfile::tempdir().unwrap(), folder());
    let fs = format!("host:{}", folder.path().display());
    let result = bench(home.path(), &fs, &["fxmark", "--runtime", "100 ops"]);
    assert_eq!(result.samples.len(), 19);
    let several = std::thread::available_parallelism().unwrap().get() > 1;
    for sample in &result.samples {
        is_whole(sample);
        let of = |what: fn(&results::WorkerRecord) -> Option<u32>| {
            sample.workers.iter().filter_map(what).collect::<BTreeSet<_>>().len()
        };
        assert_eq!(of(|worker| worker.process), 2, "{:?}", sample.workers);
        assert!(!several || of(|worker| worker.core.map(u32::from)) == 2, "{:?}", sample.workers);
        assert!(sample.workers.iter().all(|worker| worker.cpu_ns.is_some()), "{:?}", sample.workers);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left for the next run");
}

#[test]
fn variants_complete_in_processes_and_those_in_the_background_work_beside_the_others() {
    let (home, folder) = (tempfile::tempdir().unwrap(), folder());
    let fs = format!("host:{}", folder.path().display());
    for name in ["DRBL_bg", "MRPM_bg", "MRDL_bg", "MWCM-empty"] {
        let result = bench(home.path(), &fs, &[&format!("fxmark/{name}"), "--runtime", "20 ops"]);
        let sample = &result.samples[0];
        let beside = sample.workers.iter().filter(|worker| worker.background);
        assert_eq!(beside.count(), usize::from(name.ends_with("_bg")), "{name}");
        assert!(sample.ops > 0 && sample.errors == 0 && !sample.partial, "{name}: {:?}", sample.notes);
    }
}

#[test]
fn what_an_earlier_run_has_left_is_neither_measured_nor_removed() {
    let (home, folder) = (tempfile::tempdir().unwrap(), folder());
    std::fs::create_dir(folder.path().join("fxmark")).unwrap();
    let fs = format!("host:{}", folder.path().display());
    // A run has a folder of its own, and takes it away again.
    is_whole(&bench(home.path(), &fs, &["fxmark/DWOL", "--runtime", "20 ops"]).samples[0]);
    let left = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["fxmark"]);
    assert_eq!(std::fs::read_dir(folder.path().join("fxmark")).unwrap().count(), 0);
}

/// A run that would take a quarter of an hour, and its two workers.
fn long_run(home: &Path, folder: &Path) -> (Child, Vec<u32>) {
    let mut command = Command::new(weir(home).get_program());
    command
        .current_dir(home)
        .env("XDG_DATA_HOME", home.join("data"))
        .env("XDG_CONFIG_HOME", home.join("config"));
    command.args([
        "bench",
        "fxmark/DRBL",
        "--clock",
        "real",
        "--threads",
        "2",
        "--runtime",
        "900s",
        "--json",
    ]);
    command.args(["--fs", &format!("host:{}", folder.display())]).args(SMALL);
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let workers = loop {
        let workers = children(run.id());
        if workers.len() == 2 {
            break workers;
        }
        assert!(run.try_wait().unwrap().is_none(), "the run has ended before its workers were seen");
    };
    (run, workers)
}

/// Processes that work for the process `parent`.
fn children(parent: u32) -> Vec<u32> {
    let numbers = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_string_lossy().parse::<u32>().ok());
    let is_worker = |number: &u32| {
        status(*number, "PPid").as_deref() == Some(&parent.to_string())
            && std::fs::read_to_string(format!("/proc/{number}/cmdline"))
                .is_ok_and(|line| line.contains("fxmark-worker"))
    };
    numbers.filter(is_worker).collect()
}

/// A field of `/proc/PID/status`.
fn status(number: u32, field: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{number}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

#[test]
fn a_worker_that_dies_ends_the_run_which_says_how_it_died() {
    let (home, folder) = (tempfile::tempdir().unwrap(), folder());
    let (run, mut workers) = long_run(home.path(), folder.path());
    // Not only the first, for which the run waits first.
    workers.sort_unstable_by_key(|worker| std::cmp::Reverse(*worker));
    for worker in &workers {
        assert_eq!(status(*worker, "Threads").as_deref(), Some("1"), "as the original's, it has one thread");
    }
    kill_process(Pid::from_raw(workers[0].cast_signed()).unwrap(), Signal::KILL).unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", told(&output));
    let message = told(&output);
    assert!(message.contains(&format!("process {} of worker", workers[0])), "{message}");
    assert!(message.contains("SIGKILL"), "{message}");
    assert!(workers.iter().all(|worker| status(*worker, "State").is_none()), "no worker is left");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no file is left");
}

#[test]
fn ctrl_c_ends_the_workers_of_a_run_and_keeps_what_they_have_measured() {
    let (home, folder) = (tempfile::tempdir().unwrap(), folder());
    let (run, workers) = long_run(home.path(), folder.path());
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", told(&output));
    assert!(workers.iter().all(|worker| status(*worker, "State").is_none()), "no worker is left");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no file is left");
}
