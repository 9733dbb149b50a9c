//! Applications: the calls that they make, one by one, on a directory of the host.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::logged::{Log, Logged};
use sim::{Machine, Nanos, Seed, Setup};
use trace::call::Op;
use trace::compile::{Options, Program};
use trace::import::Emitter;
use trace::import::strace::{FLAGS, Importer, Start};
use trace::record::Head;
use trace::scope::Scope;
use trace::snapshot::Snapshot;
use trace::{Reader, Writer};
use vfs::Syscalls;
use workload::suite::{self, How, LoadError, Measured, Processes, Settings, Stop};
use workload::{JobError, Workload};

/// Processes on a directory, whose calls are noted.
struct Noting {
    directory: PathBuf,
    log: Log,
}

impl Processes for Noting {
    fn start(&self) -> Arc<dyn Syscalls> {
        Logged::on(&self.directory, &self.log)
    }

    fn start_plain(&self) -> Arc<dyn Syscalls> {
        self.start()
    }
}

fn load(name: &str, vars: &[(&str, &str)]) -> Result<Arc<dyn Workload>, LoadError> {
    let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    suite::by_name("app").unwrap().load(name, &Settings { vars, ..Settings::default() })
}

fn refused(name: &str, vars: &[(&str, &str)]) -> String {
    load(name, vars).expect_err("it must be refused").to_string()
}

/// Runs an application; the calls of its work.
fn run(
    workload: Arc<dyn Workload>,
    directory: &Path,
    stop: Stop,
) -> Result<(Measured, Vec<String>), JobError> {
    let (directory, log) = (directory.to_owned(), Log::default());
    sim::run(&Setup::real_clock(Machine::unit(), Seed(7)), move || {
        let processes = Arc::new(Noting { directory, log: Arc::clone(&log) });
        let how = How { stop, check: true, ..How::default() };
        let job = workload.job(&how, processes.clone())?;
        job.prepare()?;
        log.lock().unwrap().clear();
        let mut calls = Vec::new();
        let measured = job.work(&mut |phase| {
            if phase == suite::Phase::Ends {
                calls.clone_from(&log.lock().unwrap());
            }
        })?;
        job.verify(&*processes.start())?;
        Ok((measured, calls))
    })
    .unwrap_or_else(|error| panic!("{error}"))
}

const LOAD: &str = r#"# every operation
Deltree "\clients\client1" NT_STATUS_OK
Mkdir "\clients" NT_STATUS_OK
NTCreateX "\clients\client1" 0x1 0x2 1 NT_STATUS_OK
Close 1 NT_STATUS_OK
NTCreateX "\clients\client1\none" 0x40 0x1 2 NT_STATUS_OBJECT_NAME_NOT_FOUND
NTCreateX "\clients\client1\File" 0x40 0x2 3 NT_STATUS_OK
WriteX 3 65534 1 1 NT_STATUS_OK
ReadX 3 0 4096 4096 NT_STATUS_OK
LockX 3 2147483538 1 NT_STATUS_OK
UnlockX 3 2147483538 1 NT_STATUS_OK
Flush 3 NT_STATUS_OK
SET_FILE_INFORMATION 3 1004 NT_STATUS_OK
QUERY_FILE_INFORMATION 3 258 NT_STATUS_OK
Close 3 NT_STATUS_OK
QUERY_PATH_INFORMATION "\clients\client1\FILE" 1004 NT_STATUS_OBJECT_NAME_NOT_FOUND
QUERY_PATH_INFORMATION "\clients\client1\no\where" 1004 NT_STATUS_OBJECT_PATH_NOT_FOUND
FIND_FIRST "\clients\client1\F*" 260 1 1 NT_STATUS_OK
FIND_FIRST "\clients\client1\F*" 260 1366 1 NT_STATUS_OK
QUERY_FS_INFORMATION 1 NT_STATUS_OK
Rename "\clients\client1\File" "\clients\client1\New" NT_STATUS_OK
NTCreateX "\clients\client1\New" 0x40 0x5 4 NT_STATUS_OK
Close 4 NT_STATUS_OK
Unlink "\clients\client1\New" NT_STATUS_OK
NTCreateX "\clients\client1\left" 0x40 0x2 5 NT_STATUS_OK
Close 5 NT_STATUS_OK
Deltree "\clients\client1" NT_STATUS_OK
"#;

/// What dbench 4.00 does of it: read from the program by strace.
const CALLS: &str = "\
open clients/client0 = ENOENT
stat clients = ENOENT|open .|fstat .|getdents .|getdents .|close .|mkdir clients
stat clients/client0 = ENOENT|open clients|fstat clients|getdents clients|getdents clients|close clients
mkdir clients/client0|open clients/client0|fstat clients/client0
close clients/client0
stat C/none = ENOENT|LIST|open C/none = ENOENT
stat C/File = ENOENT|LIST|open C/File|fstat C/File
pwrite 1 65534 C/File
pread 4096 0 C/File
lock C/File
unlock C/File
fsync C/File
fstat C/File|utimes C/File
fstat C/File
close C/File
stat C/FILE = ENOENT|open C|fstat C|getdents C|close C
stat C/no/where = ENOENT|open C/no = ENOENT
stat C/F* = ENOENT|LIST|open C|fstat C|getdents C|close C
stat C/F* = ENOENT|LIST|LIST
statfs .
stat C/File|stat C/New = ENOENT|LIST|rename C/File
stat C/New|open C/New|fstat C/New
close C/New
stat C/New|unlink C/New
stat C/left = ENOENT|LIST|open C/left|fstat C/left
close C/left
open C|fstat C|getdents C|stat C/left|unlink C/left|getdents C|close C";

fn load_file(folder: &Path, text: &str) -> String {
    let file = folder.join("client.txt");
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn dbench_makes_the_calls_of_the_program_for_every_operation() {
    let folder = tempfile::tempdir().unwrap();
    let root = tempfile::tempdir().unwrap();
    let file = load_file(folder.path(), LOAD);
    let workload = load("dbench", &[("load", &file), ("passes", "1")]).unwrap();
    assert!(workload.ends() && workload.data_bytes() == 65535, "{}", workload.data_bytes());
    let (measured, calls) = run(workload, root.path(), Stop::After(Nanos::MAX)).unwrap();
    let expected =
        CALLS.replace("LIST", "open C|fstat C|getdents C|getdents C|close C").replace('C', "clients/client0");
    let expected: Vec<&str> = expected.split(['\n', '|']).collect();
    assert_eq!(calls, expected);
    assert_eq!((measured.ops, measured.read_bytes, measured.written_bytes), (26, 4096, 1));
    assert_eq!((measured.counters["dbench.unexpected"], measured.errors), (0, 0), "{:?}", measured.notes);
}

/// The calls of the program for some lines of its load file, from strace; none where they cannot be had.
fn of_dbench(load: &Path, seconds: u32) -> Option<Vec<String>> {
    use std::os::unix::ffi::OsStrExt as _;
    let (root, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (folder, out) = (root.path().canonicalize().unwrap(), place.path().join("out"));
    let scope = Scope::new(&[folder.as_os_str().as_bytes()]);
    let snapshot = Snapshot::take(&scope).unwrap();
    let mut strace = std::process::Command::new("strace");
    strace.args(FLAGS).arg("-o").arg(&out).arg("--").arg("dbench");
    strace.arg(format!("--loadfile={}", load.display())).arg(format!("--timelimit={seconds}")).arg("1");
    let ran = strace.current_dir(&folder).stdout(std::process::Stdio::null()).status();
    if !ran.is_ok_and(|status| status.success()) {
        return None;
    }
    let writer = Writer::new(Vec::new(), &Head::new("test", scope.base()), true).unwrap();
    let directory = folder.as_os_str().as_bytes();
    let mut importer = Importer::new(Emitter::new(writer), scope, Start::Snapshot(snapshot), directory);
    importer.read(&std::fs::read(&out).unwrap()[..], "out").unwrap();
    let (bytes, _) = importer.finish(None).unwrap();
    let reader = Reader::new(std::io::Cursor::new(bytes), "t").unwrap();
    Some(words(&Program::compile(reader, Options::default()).unwrap()))
}

/// The steps of the thread that works on the client's tree, in the words of [`Logged`].
fn words(program: &Program) -> Vec<String> {
    let un = trace::words::Table::Lock.bit(b"un").unwrap();
    let mut open = BTreeMap::new();
    let client = |step: &trace::compile::Step| program.path_of(step.call.path).ends_with(b"clients/client0");
    let thread = program.steps().iter().find(|step| client(step)).map(|step| step.thread);
    let steps = program.steps().iter().filter(|step| !step.implied && Some(step.thread) == thread);
    let mut words = Vec::new();
    for step in steps.skip_while(|step| !client(step)) {
        let call = &step.call;
        let text = String::from_utf8_lossy(program.path_of(call.path)).into_owned();
        let path = match text.trim_start_matches("./") {
            "" => ".".to_owned(),
            path => path.to_owned(),
        };
        if let Some(handle) = step.opens {
            open.insert(handle, path.clone());
        }
        let file = call.fd.and_then(|fd| open.get(&fd).cloned()).unwrap_or_default();
        let line = match call.op {
            Op::Pread | Op::Pwrite => format!("{} {} {} {file}", call.op.name(), call.len, call.offset),
            Op::Lock if call.flags & un != 0 => format!("unlock {file}"),
            op if call.path.is_some() => format!("{} {path}", op.name()),
            op => format!("{} {file}", op.name()),
        };
        let error = (step.result < 0).then(|| trace::words::error_name(step.result.unsigned_abs() as u32));
        words.push(line + &error.map_or_else(String::new, |name| format!(" = {name}")));
    }
    words
}

/// `WEIR_DBENCH_LINES=20000` compares more.
#[test]
fn dbench_makes_the_calls_of_the_installed_program() {
    let Ok(text) = std::fs::read_to_string("/usr/share/dbench/client.txt") else {
        println!("skipped: the package dbench is not installed");
        return;
    };
    let lines = std::env::var("WEIR_DBENCH_LINES").map_or(2000, |lines| lines.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let cut: String = text.split_inclusive('\n').take(lines).collect();
    let file = load_file(folder.path(), &cut);
    let root = tempfile::tempdir().unwrap();
    let workload = load("dbench", &[("load", &file), ("passes", "1")]).unwrap();
    let (measured, mut own) = run(workload, root.path(), Stop::After(Nanos::MAX)).unwrap();
    assert_eq!((measured.ops, measured.errors), (lines as u64, 0), "{:?}", measured.notes);
    // What the cut file leaves open is closed at the end.
    while own.last().is_some_and(|call| call.starts_with("close ")) {
        own.pop();
    }
    // A busy host takes longer; the program ends at its time, wherever it is.
    for seconds in [2, 10, 60, 300] {
        let Some(program) = of_dbench(file.as_ref(), seconds) else {
            println!("skipped: strace or dbench is missing, or may not trace here");
            return;
        };
        if program.len() < own.len() + 1 {
            continue;
        }
        let differs = own.iter().zip(&program).position(|(own, program)| own != program);
        assert_eq!(differs.map(|at| (at, &own[at], &program[at])), None);
        println!("{} calls of {lines} lines, difference 0", own.len());
        return;
    }
    println!("skipped: the program did not come to the end of {lines} lines in five minutes");
}

#[test]
fn clients_of_dbench_have_trees_of_their_own_and_repeat_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let root = tempfile::tempdir().unwrap();
    let file = load_file(folder.path(), LOAD);
    let workload = load("dbench", &[("load", &file), ("passes", "3"), ("clients", "4")]).unwrap();
    assert_eq!(workload.tasks(), 4);
    let (measured, calls) = run(workload, root.path(), Stop::After(Nanos::MAX)).unwrap();
    assert_eq!((measured.ops, measured.counters["dbench.passes"]), (3 * 4 * 26, 12), "{:?}", measured.notes);
    for client in 0..4 {
        let own = format!("fsync clients/client{client}/File");
        assert_eq!(calls.iter().filter(|call| **call == own).count(), 3);
    }
    assert_eq!(measured.workers.iter().map(|worker| worker.ops).collect::<Vec<_>>(), [78; 4]);
}

#[test]
fn a_line_that_ends_in_another_way_ends_the_run_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let root = tempfile::tempdir().unwrap();
    let text = "Mkdir \"\\clients\" NT_STATUS_OK\n\nUnlink \"\\clients\\none\" NT_STATUS_OK\n";
    let workload = load("dbench", &[("load", &load_file(folder.path(), text)), ("passes", "1")]).unwrap();
    let (measured, _) = run(workload, root.path(), Stop::After(Nanos::MAX)).unwrap();
    assert!(measured.errors == 1 && measured.cut_short);
    let told = &measured.notes[0];
    assert!(
        told.contains("client.txt:3: client 0: Unlink clients/none: = ENOENT, expected success"),
        "{told}"
    );
}

#[test]
fn wrong_load_files_are_refused_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    for (text, says) in [
        ("", "no operation is in the load file"),
        ("Close 5 NT_STATUS_OK\n", ":1: Close: no line before has opened handle 5"),
        ("\nFrobnicate 5 NT_STATUS_OK\n", ":2: `Frobnicate` is no operation of dbench 4"),
        ("Mkdir \"\\a NT_STATUS_OK\n", ":1: a quote has no end"),
        ("Mkdir \"\\a\"\n", ":1: Mkdir: `\\\\a` is no status"),
        ("Mkdir\n", ":1: Mkdir: the status is missing"),
        ("Mkdir \"\\..\\a\" NT_STATUS_OK\n", "is no name below the root"),
        ("NTCreateX \"\\f\" 0x40 0x2 -1 NT_STATUS_OK\n", ":1: NTCreateX: the handle is `-1`"),
        (
            "NTCreateX \"\\f\" 0 2 1 NT_STATUS_OK\nNTCreateX \"\\g\" 0 2 1 NT_STATUS_OK\n",
            ":2: NTCreateX: handle 1 is open already",
        ),
        (
            "NTCreateX \"\\f\" 0 2 1 NT_STATUS_OK\nWriteX 1 0 99999999999 1 NT_STATUS_OK\n",
            ":2: WriteX: the size is",
        ),
        (
            "NTCreateX \"\\f\" 0 2 1 NT_STATUS_OK\nWriteX 1 9223372036854775807 9 9 NT_STATUS_OK\n",
            ":2: WriteX: the range ends",
        ),
        (
            "NTCreateX \"\\f\" 0 2 1 NT_STATUS_OK\nReadX 1 0 4 5 NT_STATUS_OK\n",
            "the size that is done is `5`",
        ),
    ] {
        let told = refused("dbench", &[("load", &load_file(folder.path(), text))]);
        assert!(told.contains(says), "{text:?}: {told}");
    }
    std::fs::write(folder.path().join("binary"), b"Mkdir \xff\xfe NT_STATUS_OK\n").unwrap();
    let binary = folder.path().join("binary");
    assert!(
        refused("dbench", &[("load", binary.to_str().unwrap())]).contains("binary:1: the line is not text")
    );
    assert!(
        refused("dbench", &[("load", "/nonexistent/file")])
            .contains("load file /nonexistent/file: No such file")
    );
}

#[test]
fn wrong_variables_are_refused_with_what_is_expected() {
    for (name, variable, value, says) in [
        ("exim", "clients", "-1", "expected a whole number from 0 to 4096"),
        ("exim", "spool", "tree", "expected second, pid, single"),
        ("exim", "client", "5", "no variable \"client\"; did you mean"),
        ("exim", "period", "2h", "expected a time up to a minute"),
        ("exim", "fsync", "no", "expected true or false"),
        ("postmark", "smallest", "20000", "smallest=20000 is more than largest=10000"),
        ("postmark", "whole", "true", "takes a number of transactions"),
        ("postmark", "number", "many", "expected a whole number"),
        ("rocksdb", "num", "0", "expected a whole number from 1"),
        ("rocksdb", "stop", "10", "expected a whole number from 20"),
        ("kernel-grep", "files", "none", "expected a whole number"),
        ("mobile", "databases", "0", "expected a whole number from 1"),
        ("tpcc", "warehouses", "0", "expected a whole number from 1"),
        ("tpcc", "layer", "mysql", "expected innodb, postgres"),
        ("tpcc", "pool", "1MiB", "8 terminals need at least 10 MiB"),
        ("make-like", "misses", "31", "expected a whole number from 0 to 30"),
        ("kernel-make", "clients", "1", "app/kernel-make is not built"),
    ] {
        let told = refused(name, &[(variable, value)]);
        assert!(told.contains(says), "{name} {variable}={value}: {told}");
    }
    assert!(matches!(load("nothing", &[]), Err(LoadError::Unknown(_))));
}

/// How often each call was made; those of descriptors and paths of one kind together.
fn counts(calls: &[String]) -> BTreeMap<&str, u64> {
    let mut counts = BTreeMap::new();
    for call in calls {
        *counts.entry(call.split(' ').next().unwrap()).or_default() += 1;
    }
    counts
}

#[test]
fn a_message_of_exim_is_the_calls_of_the_program() {
    let root = tempfile::tempdir().unwrap();
    let vars = [
        ("clients", "1"),
        ("receive_us", "0"),
        ("deliver_us", "0"),
        ("transport_us", "0"),
        ("fork_us", "0"),
        ("spool", "pid"),
    ];
    let (measured, calls) = run(load("exim", &vars).unwrap(), root.path(), Stop::Operations(40)).unwrap();
    assert_eq!(measured.ops, 40, "{:?}", measured.notes);
    assert_eq!(measured.written_bytes, 40 * 1502);
    // Messages that came while the last one was delivered have begun, too: what a delivered one makes is counted by its name.
    let ids: Vec<&str> = calls
        .iter()
        .filter_map(|call| call.strip_prefix("unlink ").and_then(|path| path.strip_suffix("-J")))
        .map(|path| &path[path.len() - 16..])
        .collect();
    assert!(ids.len() >= 40, "{calls:#?}");
    for id in ids.iter().take(40) {
        let own: Vec<String> = calls.iter().filter(|call| call.contains(id)).cloned().collect();
        let of = |call: &str| own.iter().filter(|own| own.split(' ').next() == Some(call)).count();
        let writes: Vec<&str> = own.iter().filter_map(|call| call.strip_prefix("write ")).collect();
        let bytes: u64 =
            writes.iter().map(|rest| rest.split(' ').next().unwrap().parse::<u64>().unwrap()).sum();
        assert_eq!((of("fsync"), of("rename"), of("unlink"), of("lock")), (3, 1, 4, 2), "{own:#?}");
        assert_eq!((writes.len(), bytes), (6, 28 + 358 + 263 + 100 + 15 + 71), "{own:#?}");
        assert_eq!((of("fchown"), of("fchmod"), of("open"), of("close")), (4, 4, 8, 7), "{own:#?}");
        assert_eq!(own.iter().filter(|call| call.ends_with("-J = ENOENT")).count(), 1);
    }
    let all = counts(&calls);
    // What is not of one message: the mailbox and the directory are synced, lines of the log, the lock of the retries.
    assert!(all["fsync"] >= 200 && all["statfs"] >= 80 && all["utimes"] >= 40, "{all:?}");
    let mailbox = std::fs::metadata(root.path().join("mail/1")).unwrap().len();
    assert!(mailbox >= 40 * 423 && mailbox.is_multiple_of(423), "{mailbox}");
}

#[test]
fn the_spool_of_exim_is_shared_as_its_variable_says() {
    let directories = |spool: &str| {
        let root = tempfile::tempdir().unwrap();
        let vars =
            [("clients", "6"), ("messages", "2"), ("spool", spool), ("fork_us", "0"), ("receive_us", "0")];
        let stop = Stop::Operations(60);
        let (measured, calls) = run(load("exim", &vars).unwrap(), root.path(), stop).unwrap();
        assert_eq!(measured.ops, 60, "{:?}", measured.notes);
        let renamed = calls.iter().filter_map(|call| call.strip_prefix("rename spool/input/"));
        renamed.map(|path| path.split_once('/').map_or("", |(one, _)| one).to_owned()).collect::<Vec<_>>()
    };
    let distinct = |all: &[String]| all.iter().collect::<std::collections::BTreeSet<_>>().len();
    assert!(directories("single").iter().all(String::is_empty));
    assert!(distinct(&directories("pid")) > 6, "connections are spread");
    // A second or two of the clock, in which all share the directory.
    assert!(distinct(&directories("second")) <= 4);
}

#[test]
fn postmark_makes_the_operations_of_the_program() {
    let root = tempfile::tempdir().unwrap();
    let workload = load("postmark", &[("transactions", "500"), ("whole", "true")]).unwrap();
    let (measured, calls) = run(workload, root.path(), Stop::After(Nanos::MAX)).unwrap();
    let of = |name: &str| measured.steps.iter().find(|step| step.name == name).map_or(0, |step| step.count);
    assert_eq!((measured.counters["postmark.transactions"], of("read") + of("append")), (500, 500));
    assert_eq!(of("create"), of("delete"), "all are removed at the end");
    // The program with its own random numbers: 764 creations, 243 reads, 257 appends, 1,721 writes, 479 reads of pieces.
    assert!((700..=820).contains(&of("create")) && (205..=295).contains(&of("read")), "{:?}", measured.steps);
    let all = counts(&calls);
    assert_eq!(all["open"], of("create") + of("read") + of("append"));
    assert_eq!((all["close"], all["fstat"], all["unlink"]), (all["open"], all["open"], of("delete")));
    assert_eq!((all["lseek"], all.get("fsync")), (of("append"), None));
    assert!(
        all["write"] > 2 * of("create") && all["read"] > of("read") && all["read"] < 3 * of("read"),
        "{all:?}"
    );
    assert_eq!(std::fs::read_dir(root.path().join("c0")).unwrap().count(), 0);
}

#[test]
fn tpcc_syncs_its_log_for_each_commit_and_what_is_recovered_afterwards_meets_the_conditions() {
    for layer in ["postgres", "innodb"] {
        let root = tempfile::tempdir().unwrap();
        let vars = [("terminals", "2"), ("layer", layer), ("new_orders", "20"), ("row_ns", "0")];
        let workload = load("tpcc", &vars).unwrap();
        assert!(workload.ends());
        // Both checks are a part of the run and of its verification.
        let (measured, calls) = run(workload, root.path(), Stop::After(Nanos::MAX)).unwrap();
        let of = |name: &str| measured.counters[name];
        assert_eq!(of("tpcc.new_orders") + of("tpcc.rolled_back"), 20, "{layer}");
        let steps =
            |name: &str| measured.steps.iter().find(|step| step.name == name).map_or(0, |step| step.count);
        assert_eq!(steps("new_order"), 20, "{layer}");
        // Two terminals: one may be covered by the sync of the other. A Delivery commits for each district.
        let commits = of("tpcc.new_orders") + steps("payment") + 10 * steps("delivery");
        let syncs = of("tpcc.log_syncs");
        assert!((commits / 2..=commits + 2).contains(&syncs), "{layer}: {syncs} syncs of {commits} commits");
        assert!(counts(&calls)["fdatasync"] >= syncs, "{layer}");
        assert!(measured.notes[0].contains("New-Orders a minute"), "{:?}", measured.notes);
    }
}

#[test]
fn make_like_leaves_an_object_and_its_command_of_each_source_and_syncs_nothing() {
    let root = tempfile::tempdir().unwrap();
    let vars = [("objects", "30"), ("headers", "40"), ("includes", "20"), ("compile_us", "0")];
    let (measured, calls) =
        run(load("make-like", &vars).unwrap(), root.path(), Stop::After(Nanos::MAX)).unwrap();
    let all = counts(&calls);
    assert_eq!((measured.ops, all["rename"], all["unlink"]), (30, 30, 60), "{all:?}");
    assert_eq!((all.get("fsync"), all.get("fdatasync")), (None, None));
    let missing = calls.iter().filter(|call| call.starts_with("open ") && call.ends_with("= ENOENT")).count();
    assert_eq!(missing, 30 * 20, "a lookup that misses for each header");
    for ending in ["o", "o.cmd"] {
        assert!(root.path().join(format!("c0/d1/s29.{ending}")).is_file(), "{ending}");
    }
    assert_eq!(std::fs::read_dir(root.path().join("c0/tmp")).unwrap().count(), 0);
}

/// Sizes of the first writes of db_bench 7.8.3 with values of 8,192 bytes and a memtable of 4 MiB, and the calls around a flush
/// (strace): 489 records in a log, then a new one.
#[test]
fn rocksdb_makes_the_calls_of_db_bench() {
    let root = tempfile::tempdir().unwrap();
    let vars = [
        ("clients", "1"),
        ("num", "3000"),
        ("buffer", "4MiB"),
        ("table", "4MiB"),
        ("insert_ns", "0"),
        ("flush_ns", "0"),
    ];
    let (measured, calls) =
        run(load("rocksdb", &vars).unwrap(), root.path(), Stop::Operations(1200)).unwrap();
    assert_eq!((measured.ops, measured.counters["rocksdb.puts"]), (1200, 1200), "{:?}", measured.notes);
    let log = |number: &str| -> Vec<u64> {
        let end = format!(" db/{number}.log");
        let sizes = calls.iter().filter_map(|call| call.strip_prefix("write ")?.strip_suffix(&end));
        sizes.map(|len| len.parse().unwrap()).collect()
    };
    let first = log("000008");
    assert_eq!(first[..5], [8231, 8231, 8231, 8238, 8231]);
    assert!((485..=493).contains(&first.len()), "{}", first.len());
    let table = calls
        .iter()
        .filter_map(|call| call.strip_prefix("fdatasync "))
        .find(|path| Path::new(path).extension().is_some_and(|ending| ending == "sst"))
        .unwrap();
    let pieces: Vec<&String> =
        calls.iter().filter(|call| call.starts_with("write ") && call.ends_with(table)).collect();
    assert_eq!(*pieces[0], format!("write 1045591 {table}"), "whole blocks, of which 1 MiB has 127");
    assert_eq!(
        measured.counters["rocksdb.log_bytes"],
        ["000008", "000009", "000011"]
            .iter()
            .map(|of| log(of))
            .chain((10..20).filter(|of| *of != 11).map(|of| log(&format!("{of:06}"))))
            .flatten()
            .sum::<u64>()
    );
    let after: Vec<&str> = calls
        .iter()
        .skip_while(|call| !call.ends_with(table))
        .map(|call| call.split(' ').next().unwrap())
        .collect();
    for call in ["open", "write", "fdatasync", "close", "pread", "fsync", "stat", "ftruncate", "unlink"] {
        assert!(after.contains(&call), "{call}: {after:?}");
    }
}

#[test]
fn grep_reads_every_file_to_its_end_and_writes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let workload = load("kernel-grep", &[("files", "300"), ("scan_ps", "0")]).unwrap();
    let (measured, calls) = run(workload, root.path(), Stop::After(Nanos::MAX)).unwrap();
    assert_eq!(measured.ops, 300, "{:?}", measured.notes);
    let all = counts(&calls);
    assert_eq!(
        (all["open"], all["close"], all["fstat"], all.get("write")),
        (all["close"], all["open"], all["open"], None)
    );
    // 451 reads of 216 files by the program: each to its end and once more, large ones in pieces.
    assert!((1.9..2.2).contains(&(all["read"] as f64 / 300.0)), "{all:?}");
    assert_eq!(all["open"], 300 + 1 + 300 / 15, "every directory once");
}

/// Of writes below 4 KiB and of syncs, as the kinds of computers are described.
#[test]
fn made_up_computers_make_the_mix_that_they_are_said_to_have() {
    for (name, syncs) in
        [("desktop-a", true), ("desktop-b", true), ("desktop-nosync", false), ("mobile", true)]
    {
        let root = tempfile::tempdir().unwrap();
        let workload = load(name, &[("episodes", if name == "mobile" { "100" } else { "1500" })]).unwrap();
        let (measured, calls) = run(workload, root.path(), Stop::After(Nanos::MAX)).unwrap();
        assert_eq!(measured.errors, 0, "{name}: {:?}", measured.notes);
        let all = counts(&calls);
        assert_eq!(all.contains_key("fsync"), syncs, "{name}: {all:?}");
        let sizes: Vec<u64> = calls
            .iter()
            .filter(|call| call.starts_with("write ") || call.starts_with("pwrite "))
            .map(|call| call.split(' ').nth(1).unwrap().parse().unwrap())
            .collect();
        let small = sizes.iter().filter(|len| **len < 4096).count() as f64 / sizes.len() as f64;
        println!("{name}: {small:.2} of writes are below 4 KiB; {all:?}");
        assert!((0.3..0.95).contains(&small), "{name}: {small}");
        if name == "mobile" {
            // Of the telephone's trace: 14,429 writes and 997 syncs for 316 transactions.
            assert!((sizes.len() as f64 / 100.0 - 14_429.0 / 316.0).abs() < 5.0, "{}", sizes.len());
            assert_eq!(all["fsync"], 300);
        }
    }
}
