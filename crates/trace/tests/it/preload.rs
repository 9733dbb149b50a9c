//! Programs with the preloaded library, beside strace where it is there.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use trace::call::Op;
use trace::import::preload::{FOLDER, Importing, LIBRARY, Rings, hidden};
use trace::import::strace::{FLAGS, Importer, Start};
use trace::import::{Emitter, Sums};
use trace::record::{Head, Record, Status};
use trace::scope::Scope;
use trace::snapshot::Snapshot;
use trace::{Reader, Writer};

use crate::shared::text;

type Out = Importer<Vec<u8>>;

fn importer(folder: &Path) -> Out {
    let directory = folder.as_os_str().as_bytes();
    let scope = Scope::new(&[directory]);
    let snapshot = Snapshot::take(&scope).unwrap();
    let writer = Writer::new(Vec::new(), &Head::new("test", scope.base()), true).unwrap();
    Importer::new(Emitter::new(writer), scope, Start::Snapshot(snapshot), directory)
}

fn records(bytes: Vec<u8>) -> Vec<Record> {
    Reader::new(std::io::Cursor::new(bytes), "t").unwrap().collect::<Result<_, _>>().unwrap()
}

/// What a recorder has made of a program.
struct Recorded {
    records: Vec<Record>,
    sums: Sums,
    unseen: Vec<String>,
}

/// Runs a program in a folder with the library. Rings are read beside it, as the command does.
fn by_preload(folder: &Path, program: &[&str]) -> Recorded {
    let place = tempfile::tempdir().unwrap();
    let library = place.path().join("preload.so");
    std::fs::write(&library, LIBRARY).unwrap();
    let mut rings = Rings::new(place.path()).unwrap();
    let mut importer = importer(folder);
    importer.begins_with(Vec::new());
    let mut importing = Importing::new(importer);
    let mut child = Command::new(program[0])
        .args(&program[1..])
        .current_dir(folder)
        .env(FOLDER, place.path())
        .env("LD_PRELOAD", &library)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let status = loop {
        let status = child.try_wait().unwrap();
        importing.take(&mut rings, false).unwrap();
        if let Some(status) = status {
            break status;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    importing.take(&mut rings, true).unwrap();
    assert!(importing.any(), "the library was not loaded");
    let end = (child.id(), i64::from(status.into_raw()));
    let (bytes, sums, unseen) = importing.finish(&rings, end, None).unwrap();
    Recorded { records: records(bytes), sums, unseen }
}

/// Runs it under strace; none where that cannot be done.
fn by_strace(folder: &Path, program: &[&str]) -> Option<Recorded> {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    let mut importer = importer(folder);
    let mut strace = Command::new("strace");
    strace.args(FLAGS).arg("-o").arg(&out).arg("--").args(program).current_dir(folder).stdout(Stdio::null());
    if strace.status().is_err() || !out.exists() {
        eprintln!("skipped: strace is missing or may not trace here");
        return None;
    }
    importer.read(&std::fs::read(&out).unwrap()[..], "out").unwrap();
    let (bytes, sums) = importer.finish(None).unwrap();
    Some(Recorded { records: records(bytes), sums, unseen: Vec::new() })
}

/// The calls of each thread, by the number of the thread, without times: calls, threads and ends in the trace's words.
fn calls(recorded: &Recorded) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for record in &recorded.records {
        let line = match record {
            Record::Call(timed) => {
                let mut timed = timed.clone();
                timed.times = trace::record::Times::default();
                text(&[Record::Call(timed)])
            }
            Record::Fork(fork) => {
                let shares = fork.shares;
                format!("F {} {} {shares:?}\n", fork.parent, fork.child)
            }
            Record::Exit(exit) => format!("X {} {:?}\n", exit.thread, exit.status),
            Record::Inherited(_) => text(std::slice::from_ref(record)),
            _ => continue,
        };
        lines.push(line.trim_end().to_owned());
    }
    lines.sort_by_key(|line| {
        let mut words = line.split(' ').filter_map(|word| word.parse::<u32>().ok());
        words.next().unwrap_or(0)
    });
    lines
}

fn compiled(source: &str, folder: &Path, more: &[&str]) -> PathBuf {
    let program = folder.join(Path::new(source).file_stem().unwrap());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/programs").join(source);
    let status = Command::new("cc")
        .args(["-O1", "-w", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .args(more)
        .status()
        .expect("this crate is built with cc");
    assert!(status.success());
    program
}

fn folders() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let real = place.path().canonicalize().unwrap();
    let (one, two) = (real.join("one/same"), real.join("two/same"));
    std::fs::create_dir_all(&one).unwrap();
    std::fs::create_dir_all(&two).unwrap();
    (place, one, two)
}

#[test]
fn preload_and_strace_agree_call_by_call_on_a_program_without_stdio() {
    let (place, one, two) = folders();
    let program = compiled("calls.c", place.path(), &[]);
    let program = program.to_str().unwrap();
    let preload = by_preload(&one, &[program]);
    assert_eq!((preload.sums.losses.calls(), &preload.unseen[..]), (0, &[][..]), "{:?}", preload.sums);
    let Some(strace) = by_strace(&two, &[program]) else { return };
    let without_names = |line: &String| {
        let cut = |name: &str| line.find(name).map(|at| at + name.len());
        match cut("\"temp").or(cut("\"folder")) {
            // The six letters that the C library chose.
            Some(at) => format!("{}{}", &line[..at], &line[at + 6..]),
            None => line.clone(),
        }
    };
    let (ours, theirs) = (calls(&preload), calls(&strace));
    let ours: Vec<String> = ours.iter().map(without_names).collect();
    let theirs: Vec<String> = theirs.iter().map(without_names).collect();
    assert!(ours.len() > 150, "{}", ours.len());
    for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(ours, theirs, "call {at}");
    }
    assert_eq!(ours.len(), theirs.len());
}

fn of_op(recorded: &Recorded, op: Op) -> usize {
    recorded
        .records
        .iter()
        .filter(|record| matches!(record, Record::Call(timed) if timed.call.op == op))
        .count()
}

#[test]
fn streams_of_files_are_named_and_make_the_trace_one_that_has_lost_calls() {
    let (place, one, two) = folders();
    let program = compiled("stdio.c", place.path(), &[]);
    let program = program.to_str().unwrap();
    let outside = by_preload(&one, &[program]);
    assert_eq!((outside.sums.losses.calls(), outside.unseen.len()), (0, 0), "{:?}", outside.sums);
    let inside = by_preload(&two, &[program, "out"]);
    // 48,890 bytes, of which each write takes a block.
    assert!(inside.sums.losses.calls() >= 10, "{:?}", inside.sums);
    assert!(
        inside.unseen.iter().any(|what| what.starts_with("stdio: streams of stdio")),
        "{:?}",
        inside.unseen
    );
    assert!(
        inside.unseen.iter().any(|what| what.contains("calls that write inside libc")),
        "{:?}",
        inside.unseen
    );
    assert_eq!((of_op(&inside, Op::Open), of_op(&inside, Op::Close), of_op(&inside, Op::Write)), (1, 1, 0));
}

#[test]
fn no_call_is_lost_where_rings_fill_and_a_killed_program_leaves_all_that_it_did() {
    let (place, one, two) = folders();
    let program = compiled("threads.c", place.path(), &[]);
    let program = program.to_str().unwrap();
    for (folder, killed) in [(&one, false), (&two, true)] {
        let words = [program, "kill"];
        let recorded = by_preload(folder, &words[..=usize::from(killed)]);
        assert_eq!((of_op(&recorded, Op::Pread), of_op(&recorded, Op::Write)), (300_000, 1));
        assert_eq!(recorded.sums.losses.calls(), 0, "{:?}", recorded.sums);
        let main = recorded.records.iter().find_map(|record| match record {
            Record::Exit(exit) if exit.thread == 1 => Some(exit.status),
            _ => None,
        });
        assert_eq!(main, Some(if killed { Status::Killed(9) } else { Status::Exited(0) }));
    }
}

#[test]
fn programs_that_cannot_be_seen_are_told_with_their_reason() {
    let (place, one, _) = folders();
    let parent = compiled("starts.c", place.path(), &[]);
    assert_eq!(hidden(&parent), None);
    let go = "-Wl,--build-id=none";
    let note = place.path().join("note.s");
    let text = ".section .note.go.buildid,\"a\",%note\n.long 4, 4, 4\n.asciz \"Go\\0\"\n.long 0\n.section .note.GNU-stack,\"\"\n";
    std::fs::write(&note, text).unwrap();
    let go = compiled("stdio.c", place.path(), &[go, note.to_str().unwrap()]);
    assert!(hidden(&go).is_some_and(|why| why.contains("Go")), "{:?}", hidden(&go));
    let fixed = compiled("threads.c", place.path(), &["-static"]);
    assert!(hidden(&fixed).is_some_and(|why| why.contains("statically")));
    let script = place.path().join("script");
    std::fs::write(&script, format!("#! {} kill\n", fixed.display())).unwrap();
    assert!(hidden(&script).is_some_and(|why| why.contains("statically")));
    let recorded = by_preload(&one, &[parent.to_str().unwrap(), fixed.to_str().unwrap()]);
    assert_eq!(recorded.sums.losses.calls(), 1, "{:?}", recorded.sums);
    assert!(
        recorded.unseen[0].contains("threads: not seen: it is linked statically"),
        "{:?}",
        recorded.unseen
    );
}

/// The sizes of files that a recording says are left.
fn sizes(recorded: &Recorded) -> Vec<(String, u64)> {
    let reader = crate::shared::reader(&text(&recorded.records));
    let program = trace::compile::Program::compile(reader, trace::compile::Options::default()).unwrap();
    let name = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    program.last.iter().map(|entry| (name(&entry.path), entry.size)).collect()
}

#[test]
fn control_blocks_and_handed_descriptors_are_in_the_trace_by_either_recorder() {
    let (place, one, two) = folders();
    let program = compiled("hands.c", place.path(), &[]);
    let program = program.to_str().unwrap();
    let preload = by_preload(&one, &[program]);
    if !one.join("handed").exists() {
        eprintln!("skipped: the kernel has no asynchronous calls");
        return;
    }
    let wanted = [("handed".to_owned(), 324), ("submitted".to_owned(), 2000)];
    assert_eq!((preload.sums.losses.lines(), sizes(&preload)), (Vec::new(), wanted.to_vec()));
    let Some(strace) = by_strace(&two, &[program]) else { return };
    assert_eq!((strace.sums.losses.lines(), sizes(&strace)), (Vec::new(), wanted.to_vec()));
}

#[test]
fn a_standard_stream_that_was_a_file_is_asked_for_before_the_program_closes_it() {
    let (_place, one, two) = folders();
    // The shell itself writes to the file, and has its own standard output back when it ends.
    let shell = by_preload(
        &one,
        &["/bin/sh", "-c", "exec 5>&1 >out; cat /dev/null; printf '%s\\n' a; exec >&5; true"],
    );
    let size = std::fs::metadata(one.join("out")).unwrap().len();
    let told = shell.sums.losses.names().unwrap_or_default();
    let is_stored = of_op(&shell, Op::Write) == 1;
    assert!(size == 2 && (is_stored || told.contains("write")), "{size} {told}");
    // A program of the C library, which closes its standard output as it ends.
    let program = by_preload(&two, &["/bin/sh", "-c", "ls -d / > out"]);
    let told = program.sums.losses.names().unwrap_or_default();
    assert!(of_op(&program, Op::Write) == 1 || told.contains("write"), "{told}");
}

#[test]
fn names_that_lead_into_the_folder_by_a_symbolic_link_are_the_names_there() {
    let (place, one, _) = folders();
    std::os::unix::fs::symlink("one/same", place.path().join("link")).unwrap();
    let script =
        r#"mkdir "$0/made" "$0/sub"; mv "$0/made" "$0/sub/../moved"; rmdir "$0/sub"; ln -s moved "$0/to""#;
    let link = place.path().canonicalize().unwrap().join("link");
    let recorded = by_preload(&one, &["/bin/sh", "-c", script, link.to_str().unwrap()]);
    assert_eq!(recorded.sums.losses.lines(), Vec::<String>::new());
    assert_eq!(sizes(&recorded).into_iter().map(|(name, _)| name).collect::<Vec<_>>(), ["moved", "to"]);
}
