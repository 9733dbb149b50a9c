//! Applications on designs, under both clocks: what they leave is there after the next mount, and every run is repeatable.

use lab::{Plan, Runner, Settings, Silent};
use results::{ResultFile, Sample};

/// A pass that makes, extends, reads, renames, lists and removes files.
const LOAD: &str = r#"
Deltree "\clients\client1" NT_STATUS_OK
Mkdir "\clients" NT_STATUS_OK
NTCreateX "\clients\client1" 0x1 0x2 1 NT_STATUS_OK
Close 1 NT_STATUS_OK
QUERY_PATH_INFORMATION "\clients\client1\none" 1004 NT_STATUS_OBJECT_NAME_NOT_FOUND
NTCreateX "\clients\client1\File" 0x40 0x2 3 NT_STATUS_OK
WriteX 3 65534 1 1 NT_STATUS_OK
WriteX 3 0 65536 65536 NT_STATUS_OK
ReadX 3 0 65536 65536 NT_STATUS_OK
LockX 3 100 1 NT_STATUS_OK
UnlockX 3 100 1 NT_STATUS_OK
Flush 3 NT_STATUS_OK
SET_FILE_INFORMATION 3 1004 NT_STATUS_OK
Close 3 NT_STATUS_OK
FIND_FIRST "\clients\client1\F*" 260 1366 1 NT_STATUS_OK
QUERY_FS_INFORMATION 1 NT_STATUS_OK
Rename "\clients\client1\File" "\clients\client1\New" NT_STATUS_OK
NTCreateX "\clients\client1\gone" 0x40 0x2 4 NT_STATUS_OK
Close 4 NT_STATUS_OK
Unlink "\clients\client1\gone" NT_STATUS_OK
"#;
const LINES: u64 = 20;

pub(crate) fn run(head: &str, axes: &str, workload: &str, vars: &str) -> ResultFile {
    let text = format!(
        "[plan]\nname = \"t\"\nwhy = \"w\"\n{head}\n{axes}\n[[workload]]\nname = \"{workload}\"\nvars = {{ {vars} }}\n"
    );
    let plan = Plan::parse("t.toml", &text, false).unwrap_or_else(|error| panic!("{error}"));
    let settings = Settings { check: true, jobs: 1, ..Settings::default() };
    Runner::new(settings, &Silent).run(&plan).unwrap_or_else(|error| panic!("{error}"))
}

/// The head of a plan that runs under one set of prices: what is tested depends on none.
pub(crate) fn priced(stop: &str) -> String {
    format!("stop = \"{stop}\"\nprices = \"originals\"")
}

pub(crate) fn every_design() -> String {
    let designs: Vec<_> = fs::FILE_SYSTEMS.iter().map(|design| format!("{:?}", design.name())).collect();
    format!("[[axis]]\nfs = [{}]\n[[axis]]\nmedium = [\"dram\"]\n[fs]\nbuffer = \"8MiB\"", designs.join(", "))
}

pub(crate) fn is_whole(sample: &Sample) {
    assert!(sample.failure.is_none(), "{:?}: {:?}", sample.axes, sample.failure);
    assert!(
        sample.errors == 0 && sample.ops > 0,
        "{:?}: {} operations, {:#?}",
        sample.axes,
        sample.ops,
        sample.notes
    );
}

fn load_file(folder: &tempfile::TempDir) -> String {
    let path = folder.path().join("client.txt");
    std::fs::write(&path, LOAD).unwrap();
    path.display().to_string()
}

#[test]
pub(crate) fn every_design_does_a_load_file_of_dbench_and_keeps_what_it_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let vars = format!("load = \"{}\", passes = \"2\", clients = \"3\"", load_file(&folder));
    let file = run(&priced("end"), &every_design(), "app/dbench", &vars);
    assert_eq!(file.samples.len(), fs::FILE_SYSTEMS.len());
    for sample in &file.samples {
        is_whole(sample);
        assert_eq!(sample.ops, 2 * 3 * LINES, "{:?}", sample.axes);
        assert_eq!(sample.written_bytes, 2 * 3 * 65537, "{:?}", sample.axes);
        assert_eq!(sample.counters["dbench.unexpected"], 0, "{:?}", sample.axes);
    }
}

#[test]
pub(crate) fn every_design_delivers_mail_and_keeps_what_it_leaves() {
    let file = run(
        &priced("400 ops"),
        &every_design(),
        "app/exim",
        "clients = \"4\", cores = \"2\", messages = \"5\"",
    );
    for sample in &file.samples {
        is_whole(sample);
        let count =
            |kind: &str| sample.operations.iter().find(|one| one.kind == kind).map_or(0, |one| one.count);
        // Messages at both ends of the window have a part of their calls in it.
        let per_message = |kind: &str| (count(kind) as f64 / sample.ops as f64).round() as u64;
        assert_eq!((per_message("fsync"), per_message("write")), (5, 12), "{:?}", sample.axes);
        assert_eq!(
            (per_message("rename"), per_message("unlink"), per_message("lock")),
            (1, 4, 5),
            "{:?}",
            sample.axes
        );
    }
}

#[test]
pub(crate) fn every_design_does_postmark_and_keeps_what_it_leaves() {
    let file = run(
        &priced("end"),
        &every_design(),
        "app/postmark",
        "transactions = \"200\", number = \"50\", clients = \"2\"",
    );
    let counts: Vec<_> =
        file.samples.iter().map(|sample| (sample.ops, sample.written_bytes, sample.read_bytes)).collect();
    file.samples.iter().for_each(is_whole);
    assert!(counts.iter().all(|one| *one == counts[0]), "the same seed makes the same files: {counts:?}");
}

/// Memtables, tables and levels so small that all of them change in 4,000 writes.
const DATABASE: &str = "clients = \"3\", num = \"2000\", value = \"1000\", buffer = \"256KiB\", table = \"256KiB\", \
                        base = \"512KiB\", stop = \"20\"";

#[test]
pub(crate) fn every_design_writes_a_database_and_keeps_what_it_leaves() {
    let file = run(&priced("4000 ops"), &every_design(), "app/rocksdb", DATABASE);
    for sample in &file.samples {
        is_whole(sample);
        let count = |name: &str| sample.counters[&format!("rocksdb.{name}")];
        assert!(count("flushes") >= 6 && count("merges") >= 1 && count("tables_removed") >= 8, "{sample:#?}");
        // Each record has a head of 7 bytes, and a batch one of 12; an entry is 1,020 bytes.
        let bytes = count("puts") * 1020 + count("log_writes") * 19;
        let splits = count("log_bytes") - bytes;
        assert!(
            splits < 20 * (count("log_bytes") / 32768 + 20),
            "{:?}: {splits} beyond {bytes}",
            sample.axes
        );
        assert!(count("log_writes") <= count("puts"), "{:?}", sample.axes);
    }
}

#[test]
pub(crate) fn every_design_serves_a_desktop_and_a_grep_and_keeps_what_they_leave() {
    for (workload, vars) in [
        ("app/desktop-a", "episodes = \"400\""),
        ("app/mobile", "episodes = \"40\""),
        ("app/kernel-grep", "files = \"100\""),
        ("app/make-like", "objects = \"20\", headers = \"60\""),
    ] {
        let file = run(&priced("end"), &every_design(), workload, vars);
        file.samples.iter().for_each(is_whole);
        assert!(file.samples.iter().all(|sample| sample.ops == file.samples[0].ops), "{workload}");
    }
}

#[test]
pub(crate) fn every_design_keeps_the_orders_of_tpcc_and_what_is_recovered_meets_the_conditions() {
    for layer in ["innodb", "postgres"] {
        let vars = format!("terminals = \"4\", new_orders = \"40\", layer = \"{layer}\"");
        let file = run(&priced("end"), &every_design(), "app/tpcc", &vars);
        for sample in &file.samples {
            is_whole(sample);
            let count = |name: &str| sample.counters[&format!("tpcc.{name}")];
            assert_eq!(count("new_orders") + count("rolled_back"), 40, "{layer}: {:?}", sample.axes);
            assert!((1..=1000).contains(&count("write_share_permille")), "{layer}: {:?}", sample.axes);
        }
    }
}

#[test]
fn applications_run_under_the_real_clock_on_designs_and_on_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let root = tempfile::tempdir().unwrap();
    let axes = format!("[[axis]]\nfs = [\"pmfs\", \"host:{}\"]", root.path().display());
    let vars = format!("load = \"{}\", passes = \"2\", clients = \"2\"", load_file(&folder));
    let dbench = run("stop = \"end\"\nclock = \"real\"", &axes, "app/dbench", &vars);
    let exim = run(
        "stop = \"20 ops\"\nclock = \"real\"",
        &axes,
        "app/exim",
        "clients = \"2\", receive_us = \"0\", deliver_us = \"0\"",
    );
    for sample in dbench.samples.iter().chain(&exim.samples) {
        is_whole(sample);
    }
    assert!(exim.samples.iter().all(|sample| sample.ops == 20));
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0, "nothing is left on the host");
}

#[test]
fn the_same_seed_gives_the_same_samples() {
    let axes = "[[axis]]\nfs = [\"nova\"]\n[[axis]]\nmedium = [\"dram\"]\n[[axis]]\nthreads = [1, 8]";
    let samples = || run("stop = \"10ms\"", axes, "app/exim", "clients = \"16\", spool = \"pid\"").samples;
    assert_eq!(samples(), samples());
}

#[test]
fn a_full_file_system_is_named_with_what_to_do() {
    let text = "[plan]\nname = \"t\"\nwhy = \"w\"\nstop = \"10s\"\nregion = \"16MiB\"\n[[axis]]\nfs = [\"pmfs\"]\n\
                [[axis]]\nmedium = [\"dram\"]\n[[workload]]\nname = \"app/postmark\"\nvars = { bias_create = \"10\" }\n";
    let plan = Plan::parse("t.toml", text, false).unwrap();
    let error = Runner::new(Settings::default(), &Silent).run(&plan).unwrap_err().to_string();
    assert!(error.contains("no space left on device"), "{error}");
    assert!(error.contains("--region"), "{error}");
}
