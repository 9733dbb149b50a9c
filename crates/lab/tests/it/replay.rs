//! Recorded programs replayed: results as recorded on every design, in whatever order threads run, and differences told.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lab::{Plan, Runner, Settings, Silent};
use results::{ResultFile, Sample};
use sim::schedule::Schedule;
use sim::{Machine, Seed, Setup};
use vfs::{Credentials, Mount, MountOptions, Process, Syscalls};
use workload::suite::{self, How, Processes};

/// Two threads and what existed before: every kind of call that designs without mapped files can answer.
const EVERYTHING: &str = "\
S f 0644 9000 \"old\" =5
S f 0644 9000 \"second\" =5
S d 0700 0 \"dir\"
S f 0600 100 \"dir/f\"
S l 0777 0 \"link\" \"dir/f\"
T 1 10 10 \"one\"
T 2 10 11 \"one\"
T 3 20 20 \"two\"
F 1 2 0 thread,files
1 900 0 open \"new\" rdwr,creat,excl 0640 = 3
1 0 0 write 3 5000 = 5000
1 0 0 pwrite 3 10 9990 = 10
1 0 0 lseek 3 -10 end = 9990
1 0 0 read 3 100 = 10
1 0 0 read 3 100 = 0
2 500 0 pread 3 4096 0 = 4096
2 0 0 fsync 3 = 0
1 0 0 dup 3 - = 4
1 0 0 close 3 = 0
2 0 0 fdatasync 4 = 0
F 1 3 0 -
3 800 0 ftruncate 4 6000 = 0
3 0 0 fstat 4 = 0
3 0 0 close 4 = 0
1 0 0 close 4 = 0
1 0 0 stat \"none\" = -ENOENT
1 0 0 open \"none\" rdonly 00 = -ENOENT
1 0 0 open \"old\" wronly,creat,excl 0600 = -EEXIST
1 0 0 mkdir \"dir\" 0755 = -EEXIST
1 0 0 rmdir \"dir\" = -ENOTEMPTY
1 0 0 open \"dir\" rdonly,directory 00 = 3
1 0 0 getdents 3 32768 = 72
1 0 0 getdents 3 32768 = 0
1 0 0 close 3 = 0
1 0 0 stat \"link\" = 0
1 0 0 lstat \"link\" = 0
1 0 0 readlink \"link\" 100 = 5
1 0 0 readlink \"old\" 100 = -EINVAL
1 0 0 truncate \"link\" 50 = 0
1 0 0 access \"old\" 04 = 0
1 0 0 chmod \"old\" 0600 = 0
1 0 0 chown \"old\" 5 -1 = 0
1 0 0 utimes \"old\" now 5 = 0
1 0 0 lutimes \"link\" 1 omit = 0
1 0 0 lchown \"link\" 3 3 = 0
1 0 0 open \"old\" rdonly 00 = 3
1 0 0 fchmod 3 0644 = 0
1 0 0 fchown 3 0 0 = 0
1 0 0 futimes 3 1000000000 2000000000 = 0
1 0 0 copy 3 3 0 -1 0 = 0
1 0 0 flistxattr 3 256 = 0
1 0 0 close 3 = 0
1 0 0 write 3 4 = -EBADF
1 0 0 statfs \"\" = 0
1 0 0 getxattr \"old\" \"user.none\" 100 = -ENODATA
1 0 0 symlink \"up\" \"../elsewhere\" = 0
1 0 0 mknod \"fifo\" 010644 0 = 0
1 0 0 link \"old\" \"third\" = 0
1 0 0 unlink \"second\" = 0
1 0 0 rename \"dir\" \"moved\" - = 0
1 0 0 rename \"moved/f\" \"new\" - = 0
1 0 0 rmdir \"moved\" = 0
1 0 0 mkdir \"dir\" 0755 = 0
1 0 0 open \"\" rdonly,directory 00 = 3
1 0 0 getdents 3 32768 = 224
1 0 0 getdents 3 32768 = 0
1 0 0 close 3 = 0
1 0 0 open \"dir/secret\" wronly,creat 0600 = -EACCES
1 0 0 fadvise 3 0 0 4 = -EBADF
1 0 0 umask 022 = 18
1 0 0 sync = 0
";

struct Trace {
    folder: tempfile::TempDir,
}

impl Trace {
    fn new(records: &str) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let text = format!("#weir-trace 1\n#root /r\n#snapshot touched\n{records}");
        std::fs::write(folder.path().join("t.wtrace"), text).unwrap();
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("t.wtrace")
    }

    fn plan(&self, head: &str, axes: &str, vars: &str) -> Plan {
        let name = format!("trace:{}", self.path().display());
        let text = format!(
            "[plan]\nname = \"t\"\nwhy = \"w\"\nstop = \"end\"\n{head}\n{axes}\n\
             [[workload]]\nname = \"{name}\"\nvars = {{ {vars} }}\n"
        );
        Plan::parse("t.toml", &text, false).unwrap_or_else(|error| panic!("{error}"))
    }

    fn run(&self, head: &str, axes: &str, vars: &str) -> ResultFile {
        self.run_with(true, head, axes, vars)
    }

    /// `check`: whether the tree at the end must be the recorded one.
    fn run_with(&self, check: bool, head: &str, axes: &str, vars: &str) -> ResultFile {
        let settings = Settings { check, jobs: 1, ..Settings::default() };
        let plan = self.plan(head, axes, vars);
        Runner::new(settings, &Silent).run(&plan).unwrap_or_else(|error| panic!("{error}"))
    }
}

const ONE: &str = "[[axis]]\nfs = [\"pmfs\"]\n[[axis]]\nmedium = [\"dram\"]";

fn agrees(sample: &Sample) {
    assert!(sample.failure.is_none(), "{:?}: {:?}", sample.axes, sample.failure);
    assert_eq!(sample.errors, 0, "{:?}: {:#?}", sample.axes, sample.notes);
}

/// Each file is made by one thread, handed on by a name to the next, read by the third, removed by the fourth.
fn handed_on(rounds: usize) -> String {
    let begins = (1..=4).map(|thread| format!("T {thread} 1 {thread} \"\"\n"));
    let forks = (2..=4).map(|thread| format!("F 1 {thread} 0 thread,files\n"));
    let handed = (0..rounds).map(|round| {
        let at = |place: usize| (round + place) % 4 + 1;
        format!(
            "{} 0 0 open \"n\" wronly,creat,excl 0600 = 3\n{0} 0 0 close 3 = 0\n{} 0 0 rename \"n\" \"r\" - = 0\n\
             {} 0 0 stat \"r\" = 0\n{} 0 0 unlink \"r\" = 0\n",
            at(0),
            at(1),
            at(2),
            at(3)
        )
    });
    begins.chain(forks).chain(handed).collect()
}

#[test]
fn every_design_gives_the_recorded_results_and_leaves_the_recorded_tree() {
    let trace = Trace::new(EVERYTHING);
    // The program makes all that a file system may have.
    let whole = fs::FILE_SYSTEMS
        .iter()
        .filter(|design| design.promises(&design::Options::defaults(design.options())).left_out.is_empty());
    let designs: Vec<_> = whole.map(|design| format!("{:?}", design.name())).collect();
    assert!(designs.len() > 8, "{designs:?}");
    let axes = format!(
        "[[axis]]\nfs = [{}]\n[[axis]]\nmedium = [\"dram\"]\n[fs]\nbuffer = \"8MiB\"",
        designs.join(", ")
    );
    let file = trace.run("prices = \"originals\"", &axes, "");
    assert_eq!(file.samples.len(), designs.len());
    file.samples.iter().for_each(agrees);
    let sample = &file.samples[0];
    let told = |what: &str| sample.notes.iter().any(|note| note.contains(what));
    assert!(
        told("1 calls were not made: they had failed for the rights of their user"),
        "{:?}",
        sample.notes
    );
    assert_eq!(sample.written_bytes, 5010);
}

#[test]
fn the_hosts_kernel_gives_the_recorded_results_and_is_left_as_it_was() {
    let trace = Trace::new(EVERYTHING);
    let dir = trace.folder.path().join("dir");
    std::fs::create_dir(&dir).unwrap();
    let axes = format!("[[axis]]\nfs = [\"host:{}\", \"pmfs\"]", dir.display());
    let file = trace.run("clock = \"real\"", &axes, "");
    if rustix::process::geteuid().is_root() {
        file.samples.iter().for_each(agrees);
    } else {
        println!("skipped in part: owners are changed by root alone");
    }
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0, "nothing is left on the host");
}

#[test]
fn links_and_paths_of_a_trace_do_not_lead_out_of_a_directory_of_the_host() {
    let outside = tempfile::tempdir().unwrap();
    let victim = outside.path().join("victim");
    std::fs::write(&victim, "dear").unwrap();
    let up = "../".repeat(30);
    let records = format!(
        "T 1 1 1 \"\"\n1 0 0 symlink \"l\" \"{0}\" = 0\n1 0 0 open \"l\" wronly,creat,trunc 0600 = 3\n1 0 0 close 3 = 0\n\
         1 0 0 open \"{up}{0}\" wronly,creat,trunc 0600 = 3\n",
        victim.display()
    );
    let trace = Trace::new(&records);
    let dir = trace.folder.path().join("dir");
    std::fs::create_dir(&dir).unwrap();
    let settings = Settings { jobs: 1, ..Settings::default() };
    let plan = trace.plan("clock = \"real\"", &format!("[[axis]]\nfs = [\"host:{}\"]", dir.display()), "");
    // Whether the calls succeed is not what matters.
    let _ = Runner::new(settings, &Silent).run(&plan);
    assert_eq!(std::fs::read_to_string(victim).unwrap(), "dear");
}

#[test]
fn fifty_schedules_give_the_recorded_results_and_without_the_order_some_differs() {
    let trace = Trace::new(&handed_on(100));
    let vars = "pace = \"asap\", jitter = \"20us\"";
    let file = trace.run("repeats = 50", ONE, vars);
    assert_eq!(file.samples.len(), 50);
    file.samples.iter().for_each(agrees);
    let times: std::collections::BTreeSet<u64> =
        file.samples.iter().map(|sample| sample.elapsed_ns).collect();
    assert!(times.len() > 40, "the schedules differ: {times:?}");
    let canary = trace.run_with(false, "repeats = 5", ONE, &format!("{vars}, order = \"thread\""));
    assert!(
        canary.samples.iter().any(|sample| sample.errors > 0),
        "canary: without the order a result differs"
    );
    let total = trace.run("repeats = 5", ONE, &format!("{vars}, order = \"total\""));
    total.samples.iter().for_each(agrees);
}

#[test]
fn waits_of_the_program_for_itself_are_an_activity_and_the_ledger_balances() {
    let trace = Trace::new(
        "T 1 1 1 \"\"\nT 2 1 2 \"\"\nF 1 2 0 thread,files\n\
         1 1000000 0 open \"f\" wronly,creat 0600 = 3\n2 0 0 sync = 0\n2 0 0 stat \"f\" = 0\n",
    );
    let file = trace.run("", ONE, "");
    let sample = &file.samples[0];
    agrees(sample);
    let program = sample.operations.iter().find(|operation| operation.kind == "program").unwrap();
    assert_eq!(program.time_ns["software"] / 1_000_000, 1, "{program:?}");
    assert!(program.time_ns["trace_order"] >= 1_000_000, "{program:?}");
    assert_eq!(program.parts_ns(), program.total_ns);
    let fast = trace.run("", ONE, "cpu_scale = \"0\"");
    assert!(fast.samples[0].elapsed_ns < sample.elapsed_ns / 10);
}

/// A parent that computes before it makes a thread, which computes before its call.
const LATE: &str = "T 1 1 1 \"\"\nT 2 1 2 \"\"\n1 1000000 0 sync = 0\nF 1 2 2000000 thread,files\n\
                    2 4000000 0 stat \"\" = 0\n1 2000000 500000 fork 2 = 0\n1 100000 0 sync = 0\n";

/// How long a replay took, in microseconds.
fn took_us(trace: &Trace, head: &str, axes: &str, vars: &str) -> u64 {
    let file = trace.run(head, axes, vars);
    agrees(&file.samples[0]);
    file.samples[0].elapsed_ns / 1000
}

#[test]
fn a_thread_begins_when_its_parent_has_computed_up_to_the_fork() {
    let trace = Trace::new(LATE);
    let think = took_us(&trace, "", ONE, "");
    assert!((7_000..7_050).contains(&think), "1 ms, 2 ms, and 4 ms of the child: {think} us");
    let half = took_us(&trace, "", ONE, "cpu_scale = \"0.5\"");
    assert!((3_500..3_550).contains(&half), "{half} us");
    assert!(took_us(&trace, "", ONE, "pace = \"asap\"") < 50);
}

#[test]
fn no_call_of_a_timed_replay_begins_before_its_time() {
    let trace = Trace::new(LATE);
    let timed = took_us(&trace, "", ONE, "pace = \"timed\"");
    assert!((7_000..7_050).contains(&timed), "{timed} us");
    let fast = took_us(&trace, "", ONE, "pace = \"timed\", speed = \"2\"");
    assert!((3_500..3_550).contains(&fast), "{fast} us");
    // What the recorded calls took is part of the time, whatever they take here.
    let slow = Trace::new("T 1 1 1 \"\"\n1 0 3000000 sync = 0\n1 1000000 0 sync = 0\n");
    assert!((4_000..4_050).contains(&took_us(&slow, "", ONE, "pace = \"timed\"")));
    assert!((1_000..1_050).contains(&took_us(&slow, "", ONE, "pace = \"think\"")));
    // A busy host may be late, and is never early.
    let dir = trace.folder.path().join("dir");
    std::fs::create_dir(&dir).unwrap();
    let axes = format!("[[axis]]\nfs = [\"host:{}\", \"pmfs\"]", dir.display());
    for pace in ["timed", "think"] {
        let file = trace.run("clock = \"real\"", &axes, &format!("pace = \"{pace}\""));
        assert!(file.samples.iter().all(|sample| sample.elapsed_ns >= 7_000_000), "{pace}");
    }
}

#[test]
fn forks_that_no_program_could_have_made_hold_nothing_up() {
    let mut records =
        "T 1 1 1 \"\"\nT 2 1 2 \"\"\n2 0 0 mkdir \"d\" 0755 = 0\n1 0 0 rmdir \"d\" = 0\n".to_owned();
    records += "1 0 0 fork 2 = 0\n2 0 0 fork 1 = 0\n1 0 0 fork 1 = 0\n1 0 0 fork 9 = 0\n";
    let file = Trace::new(&records).run("", ONE, "");
    agrees(&file.samples[0]);
}

#[test]
fn copies_work_in_trees_of_their_own_or_in_one() {
    let trace = Trace::new(
        "S f 0644 5000 \"shared\"\nS d 0755 0 \"d\"\nS f 0644 10 \"d/changed\"\nT 1 1 1 \"\"\n\
         1 0 0 open \"shared\" rdonly 00 = 3\n1 0 0 read 3 9000 = 5000\n1 0 0 close 3 = 0\n\
         1 0 0 open \"d/made\" wronly,creat,excl 0600 = 3\n1 0 0 write 3 7 = 7\n1 0 0 close 3 = 0\n\
         1 0 0 rename \"d/made\" \"d/kept\" - = 0\n1 0 0 unlink \"d/changed\" = 0\n1 0 0 mkdir \"e\" 0755 = 0\n\
         1 0 0 open \"e/x\" wronly,creat,excl 0600 = 3\n1 0 0 close 3 = 0\n",
    );
    let axes = format!(
        "{ONE}\n[[axis]]\nthreads = [1, 8]\n[[axis]]\nroot = [\"private\", \"shared\"]\nsets = [\"var.root\"]"
    );
    let file = trace.run("", &axes, "");
    assert_eq!(file.samples.len(), 4);
    for sample in &file.samples {
        agrees(sample);
        let copies: u64 = sample.axis("threads").unwrap().parse().unwrap();
        assert_eq!(sample.ops, 11 * copies, "{:?}", sample.axes);
    }
}

#[test]
fn a_result_that_differs_is_counted_and_told_with_line_and_call() {
    let trace = Trace::new(
        "T 1 1 1 \"\"\n1 0 0 open \"f\" rdwr,creat 0600 = 3\n1 0 0 write 3 4096 = 4096\n1 0 0 pread 3 4096 1000 = 3096\n\
         1 0 0 rename \"f\" \"g\" - = 0\n1 0 0 stat \"f\" = 0\n1 0 0 linkfd 3 \"h\" = 0\n",
    );
    // The tree that is left differs as well: only the results are looked at.
    let settings = Settings { jobs: 1, ..Settings::default() };
    let file = Runner::new(settings, &Silent).run(&trace.plan("", ONE, "")).expect("it runs to its end");
    let sample = &file.samples[0];
    assert_eq!(sample.errors, 2, "{:#?}", sample.notes);
    let told = |what: &str| sample.notes.iter().any(|note| note.contains(what));
    assert!(told("2 of 6 results differ") && told("1 results contradict"), "{:#?}", sample.notes);
    assert!(told("t.wtrace:9: thread 1: stat \"f\" = ENOENT, recorded 0"), "{:#?}", sample.notes);
    assert!(
        told("t.wtrace:10: thread 1: linkfd of descriptor 0 = EOPNOTSUPP, recorded 0"),
        "{:#?}",
        sample.notes
    );
}

#[test]
fn a_full_file_system_ends_the_replay_with_line_and_call() {
    let mut records = "T 1 1 1 \"\"\n1 0 0 open \"f\" wronly,creat 0600 = 3\n".to_owned();
    (0..400).for_each(|_| records += "1 0 0 write 3 1048576 = 1048576\n");
    let trace = Trace::new(&records);
    let mut plan = trace.plan("", ONE, "");
    plan.region = Some(sim::Bytes::mib(64));
    let error = Runner::new(Settings::default(), &Silent).run(&plan).unwrap_err().to_string();
    assert!(error.contains("thread 1: write of descriptor 0 1048576 = ENOSPC, recorded 1048576"), "{error}");
    assert!(error.contains("--region"), "{error}");
}

#[test]
fn the_same_seed_gives_the_same_samples() {
    let trace = Trace::new(&handed_on(20));
    let samples = || trace.run("", ONE, "jitter = \"5us\", copies = \"3\"").samples;
    assert_eq!(samples(), samples());
}

/// Processes on a mount, as the laboratory starts them.
struct OnMount(Arc<Mount>);

impl Processes for OnMount {
    fn start(&self) -> Arc<dyn Syscalls> {
        Arc::new(Process::new(Arc::clone(&self.0), Credentials::root()))
    }

    fn start_plain(&self) -> Arc<dyn Syscalls> {
        self.start()
    }
}

/// Results that differ in a run whose tasks go on in an order drawn from a seed, whatever their times are.
fn explored(path: &Path, seed: u64, order: &str) -> u64 {
    let settings = suite::Settings {
        vars: [("order".to_owned(), order.to_owned())].into(),
        ..suite::Settings::default()
    };
    let workload = suite::by_name("trace").unwrap().open(path, &settings).unwrap().unwrap();
    let setup = Setup::virtual_clock(Machine::unit(), Seed(seed));
    let (ended, _) = sim::explore(&setup, &Schedule::Random, move || {
        let design = fs::by_name("pmfs").unwrap();
        let options = design::Options::defaults(design.options());
        let null = Box::new(media::nvmm::null::Null);
        let storage =
            media::Storage::of_memory(media::Region::anonymous(sim::Bytes::mib(64), null).unwrap().into());
        design.format().mkfs(&storage, &options).unwrap();
        let mounted = design.mount(&storage, &options).unwrap();
        let mount = Mount::new(mounted, MountOptions::default()).unwrap();
        let how = How { stop: suite::Stop::After(sim::Nanos::MAX), ..How::default() };
        let job = workload.job(&how, Arc::new(OnMount(mount))).unwrap();
        job.prepare().unwrap();
        job.work(&mut |_| {}).unwrap().errors
    });
    ended.unwrap_or_else(|error| panic!("seed {seed}: {error}"))
}

#[test]
fn orders_of_tasks_that_no_time_would_give_keep_the_recorded_results_too() {
    let trace = Trace::new(&handed_on(10));
    for seed in 1..=20 {
        assert_eq!(explored(&trace.path(), seed, "resource"), 0, "seed {seed}");
    }
    assert!((1..=20).any(|seed| explored(&trace.path(), seed, "thread") > 0), "canary");
}
