//! Real programs under the real strace. Skipped, with a word, where strace is missing or may not trace.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use trace::call::Op;
use trace::compile::{Options, Program};
use trace::import::Emitter;
use trace::import::strace::{FLAGS, Importer, Start};
use trace::record::{Head, Kind};
use trace::scope::Scope;
use trace::snapshot::Snapshot;
use trace::{Reader, Writer};

use crate::shared::text;

/// Records a shell script in a folder; none where that cannot be done.
fn recorded(folder: &Path, script: &str) -> Option<(Program, BTreeMap<Op, usize>)> {
    let folder = folder.canonicalize().unwrap();
    let scope = Scope::new(&[folder.as_os_str().as_bytes()]);
    let snapshot = Snapshot::take(&scope).unwrap();
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    let run = Command::new("strace")
        .args(FLAGS)
        .arg("-o")
        .arg(&out)
        .args(["--", "sh", "-c", script])
        .current_dir(&folder)
        .status();
    if !run.as_ref().is_ok_and(std::process::ExitStatus::success) || !out.exists() {
        eprintln!("skipped: strace is missing or may not trace here ({run:?})");
        return None;
    }
    let writer = Writer::new(Vec::new(), &Head::new("test", scope.base()), true).unwrap();
    let directory = folder.as_os_str().as_bytes();
    let mut importer = Importer::new(Emitter::new(writer), scope, Start::Snapshot(snapshot), directory);
    let text = std::fs::read(&out).unwrap();
    importer.read(&text[..], "out").unwrap();
    assert_eq!(importer.strange(), None, "a line of the real strace is not understood");
    let (bytes, _) = importer.finish(None).unwrap();
    let program =
        Program::compile(Reader::new(std::io::Cursor::new(bytes), "t").unwrap(), Options::default()).unwrap();
    let mut counts = BTreeMap::new();
    for step in program.steps().iter().filter(|step| !step.implied && step.result >= 0) {
        *counts.entry(step.call.op).or_insert(0) += 1;
    }
    Some((program, counts))
}

fn names(program: &Program) -> Vec<String> {
    program.initial.iter().map(|entry| String::from_utf8_lossy(&entry.path).into_owned()).collect()
}

#[test]
fn cp_makes_the_calls_that_it_makes() {
    let folder = tempfile::tempdir().unwrap();
    let src = folder.path().join("src");
    std::fs::create_dir(&src).unwrap();
    std::fs::create_dir(folder.path().join("untouched")).unwrap();
    std::fs::write(src.join("f \"x\" <é>"), vec![7; 5000]).unwrap();
    std::os::unix::fs::symlink("f", src.join("link")).unwrap();
    let Some((program, counts)) = recorded(folder.path(), "exec cp -a src dst") else { return };
    assert_eq!((counts.get(&Op::Mkdir), counts.get(&Op::Symlink)), (Some(&1), Some(&1)), "{counts:?}");
    let moved: i64 = program
        .steps()
        .iter()
        .filter(|step| step.result >= 0 && (step.call.op.writes() || step.call.op == Op::Clone))
        .map(|step| if step.call.op == Op::Clone { 5000 } else { step.result })
        .sum();
    assert_eq!(moved, 5000, "{counts:?}");
    assert_eq!(program.summary.contradictions, 0);
    assert!(!names(&program).contains(&"untouched".to_owned()), "{:?}", names(&program));
    let file = program.initial.iter().find(|entry| entry.kind == Kind::File).unwrap();
    assert_eq!((file.size, &*file.path), (5000, "src/f \"x\" <é>".as_bytes()));
}

#[test]
fn a_shell_with_pipes_children_and_redirections_is_recorded_whole() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("in"), "b\na\n").unwrap();
    let script = "sort < in | cat > out; (echo x >> out; mkdir d; mv out d/o) & wait; cat d/o; rm -r d; ls > /dev/null";
    let Some((program, counts)) = recorded(folder.path(), script) else { return };
    assert_eq!(program.summary.contradictions, 0);
    assert!(program.threads.len() >= 6, "{:?}", program.threads.len());
    assert_eq!((counts.get(&Op::Rename), counts.get(&Op::Rmdir)), (Some(&1), Some(&1)), "{counts:?}");
    assert_eq!(counts.get(&Op::Unlink), Some(&1), "{counts:?}");
    let written: i64 =
        program.steps().iter().filter(|step| step.call.op.writes()).map(|step| step.result).sum();
    assert_eq!(written, 6, "{counts:?}");
    assert!(counts.get(&Op::Wait).is_some_and(|waits| *waits >= 4), "{counts:?}");
}

#[test]
fn tar_and_sqlite_leave_nothing_unexplained() {
    let folder = tempfile::tempdir().unwrap();
    let has = |name: &str| Command::new(name).arg("--version").output().is_ok();
    if !has("tar") || !has("sqlite3") {
        eprintln!("skipped: tar or sqlite3 is missing");
        return;
    }
    let script = "mkdir s; echo a > s/a; echo b > s/b; tar cf t.tar s; tar xf t.tar -C . --transform 's/^s/u/'; \
                  sqlite3 db 'create table t(a); insert into t values(1); insert into t values(2); delete from t;'";
    let Some((program, counts)) = recorded(folder.path(), script) else { return };
    assert_eq!(program.summary.contradictions, 0, "{counts:?}");
    assert!(
        counts.contains_key(&Op::Lock) && counts.contains_key(&Op::Fdatasync)
            || counts.contains_key(&Op::Fsync)
    );
    assert_eq!(program.summary.unopened, 0);
}

#[test]
fn a_program_that_is_killed_leaves_what_it_did() {
    let folder = tempfile::tempdir().unwrap();
    let script = "(echo a > f; kill -9 $(exec sh -c 'echo $PPID')); true";
    let Some((program, counts)) = recorded(folder.path(), script) else { return };
    assert_eq!(counts.get(&Op::Write), Some(&1), "{counts:?}");
    assert_eq!(program.summary.cut_after, None);
}

/// Calls of each thread, by the number of the thread, without times.
fn calls(importer: Importer<Vec<u8>>) -> Vec<String> {
    let (bytes, _) = importer.finish(None).unwrap();
    let records: Vec<_> =
        Reader::new(std::io::Cursor::new(bytes), "t").unwrap().map(Result::unwrap).collect();
    let is_call = |line: &&str| line.starts_with(|first: char| first.is_ascii_digit());
    let words = |line: &str| {
        let mut words = line.splitn(4, ' ');
        (words.next().unwrap().parse::<u32>().unwrap(), words.nth(2).unwrap().to_owned())
    };
    let mut all: Vec<_> = text(&records).lines().filter(is_call).map(words).collect();
    all.sort_by_key(|(thread, _)| *thread);
    all.into_iter().map(|(thread, call)| format!("{thread} {call}")).collect()
}

/// One process after the other, so that the order of calls is always the same; no word among those of strace.
const SCRIPT: &str = "exec 2> /dev/null; umask 022; echo a > x; mv x y; (echo b >> y); mkdir d; ln y d/l; ln -s l d/s; rm y; \
                      touch -d @5 d/l; chmod 600 d/l; truncate -s 10 d/l; ls d; cat d/s; rm -r d; sh -c 'kill -9 $$'; true";

#[test]
fn what_strace_writes_is_the_same_program_in_every_form() {
    let (folder, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = folder.path().canonicalize().unwrap();
    let root = root.as_os_str().as_bytes();
    let out = place.path().join("out");
    let importer = || {
        let writer = Writer::new(Vec::new(), &Head::new("test", root), true).unwrap();
        Importer::new(Emitter::new(writer), Scope::new(&[root]), Start::Unknown, root)
    };
    let strace = |flags: &[&str]| {
        let mut strace = Command::new("strace");
        strace.args(flags).args(["sh", "-c", SCRIPT]).current_dir(folder.path()).env_remove("LD_PRELOAD");
        strace.stdout(std::process::Stdio::null()).output()
    };
    let to_file = |flags: &[&str]| {
        let run = strace(&[flags, &["-o", out.to_str().unwrap()]].concat());
        run.ok().filter(|run| run.status.success()).map(|_| std::fs::read(&out).unwrap())
    };
    let Some(plain) = to_file(&["-f", "-y", "-ttt", "-T"]) else {
        eprintln!("skipped: strace is missing or may not trace here");
        return;
    };
    let read = |text: &[u8], flags: &[&str]| {
        let mut importer = importer();
        importer.read(text, "out").unwrap();
        assert_eq!(importer.strange(), None, "{flags:?}");
        calls(importer)
    };
    let wanted = read(&plain, &[]);
    assert!(wanted.len() > 60 && wanted.iter().any(|call| call.contains("rmdir \"d\"")), "{wanted:?}");
    let forms: [&[&str]; 9] = [
        &["-f", "-y", "-X", "verbose"],
        &["-f", "-y", "-xx", "-ttt"],
        &["-f", "-yy", "-r"],
        &["-f", "-y", "-t", "-T"],
        &["-f", "-y", "-tt"],
        &["-f", "-y", "-C"],
        &["-f", "-y", "-v", "-s", "4096"],
        &["-f", "-Y", "-y"],
        &["-f"],
    ];
    for flags in forms {
        assert_eq!(read(&to_file(flags).unwrap(), flags), wanted, "{flags:?}");
    }
    let shown = strace(&["-f", "-y"]).unwrap().stderr;
    assert!(shown.windows(4).any(|part| part == b"[pid"), "numbers stand in brackets there");
    assert_eq!(read(&shown, &["to the terminal"]), wanted);
    std::fs::remove_file(&out).unwrap();
    assert!(strace(&["-ff", "-y", "-ttt", "-T", "-o", out.to_str().unwrap()]).unwrap().status.success());
    let each = std::fs::read_dir(place.path()).unwrap().map(|file| file.unwrap().path());
    let each: Vec<_> = each
        .map(|path| (std::io::Cursor::new(std::fs::read(&path).unwrap()), path.display().to_string()))
        .collect();
    assert!(each.len() > 8, "a file of each process: {}", each.len());
    let mut files = importer();
    files.read_each(each).unwrap();
    assert_eq!(calls(files), wanted, "-ff");
    // Numbers alone would be other calls.
    let raw = to_file(&["-f", "-y", "-X", "raw"]).unwrap();
    let refused = importer().read(&raw[..], "out").unwrap_err().to_string();
    assert!(refused.contains("-X raw") && refused.contains("record with words"), "{refused}");
}
