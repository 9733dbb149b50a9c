//! Recording programs and mounts, and what `weir trace` does with it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::shared::place::{Place, can_mount, stderr, weir};
use trace::call::Op;
use trace::compile::{Options, Program};

/// Whether strace is there and may trace.
fn can_trace() -> bool {
    let traced = Command::new("strace").args(["-o", "/dev/null", "true"]).status();
    let can = traced.is_ok_and(|status| status.success());
    if !can {
        println!("skipped: strace is missing, or may not trace here");
    }
    can
}

/// The ways to record that this host has.
fn recorders() -> impl Iterator<Item = &'static str> {
    ["preload", "strace"].into_iter().filter(|how| *how != "strace" || can_trace())
}

fn run(folder: &Path, words: &[&str]) -> Output {
    weir().current_dir(folder).args(words).output().unwrap()
}

/// Runs a command that must succeed.
fn ok(folder: &Path, words: &[&str]) -> Output {
    let output = run(folder, words);
    assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    output
}

/// The document of a command that must succeed.
fn document(folder: &Path, words: &[&str]) -> serde_json::Value {
    serde_json::from_slice(&ok(folder, words).stdout).expect("one document")
}

fn program(path: &Path) -> Program {
    Program::open(path, Options::default()).unwrap()
}

/// Bytes written by path of the file, from the steps of a program. Empty files are in it.
fn written(program: &Program) -> BTreeMap<String, i64> {
    let (mut names, mut sums) = (BTreeMap::new(), BTreeMap::new());
    for step in program.steps().iter().filter(|step| step.result >= 0) {
        if let Some(handle) = step.opens {
            let path = match step.call.op {
                Op::Dup => names.get(&step.call.fd.unwrap()).cloned().unwrap(),
                _ => String::from_utf8_lossy(program.path_of(step.call.path)).into_owned(),
            };
            if step.call.flags & trace::words::CREAT != 0 {
                sums.entry(path.clone()).or_insert(0);
            }
            names.insert(handle, path);
        }
        let to = if step.call.op == Op::Copy { step.call.fd2 } else { step.call.fd };
        if let (true, Some(handle)) = (step.call.op.writes(), to) {
            *sums.entry(names[&handle].clone()).or_insert(0) += step.result;
        }
    }
    sums
}

#[test]
fn a_program_is_recorded_with_its_exit_code_and_its_output() {
    if !can_trace() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    fs::create_dir(home.join("tree")).unwrap();
    fs::write(home.join("tree/old"), "12345").unwrap();
    let script = "cat old > new; echo said; exit 7";
    let output = run(
        home,
        &["record", "--root", "tree", "-o", "t.wtrace", "--", "sh", "-c", &format!("cd tree; {script}")],
    );
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "said\n");
    assert!(stderr(&output).contains("recorded by strace"), "{}", stderr(&output));
    let found = program(&home.join("t.wtrace"));
    assert_eq!(written(&found), [("new".to_owned(), 5)].into());
    let initial: Vec<_> = found.initial.iter().map(|entry| (&*entry.path, entry.size)).collect();
    assert_eq!(initial, [(&b"old"[..], 5)]);
    assert_eq!(found.summary.cut_after, None);
}

#[test]
fn contents_beyond_the_limit_are_told_by_the_recorder_and_by_the_sums() {
    if !can_trace() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    fs::create_dir(home.join("tree")).unwrap();
    let script = "cd tree; printf small > a; head -c 5000 /dev/zero > b";
    let recorded = |limit: &str| {
        let words = ["record", "--root", "tree", limit, "-o", "t.wtrace", "--", "sh", "-c", script];
        let told = stderr(&ok(home, &words));
        let sums = ok(home, &["trace", "stat", "t.wtrace"]);
        let unkept = document(home, &["trace", "stat", "t.wtrace", "--json"])["unkept"].clone();
        for name in ["t.wtrace", "t.wtrace.data", "tree/a", "tree/b"] {
            fs::remove_file(home.join(name)).unwrap();
        }
        (told, stderr(&sums), unkept)
    };
    let (told, sums, unkept) = recorded("--contents=1k");
    for text in [&told, &sums] {
        let parts = [
            "contents not kept",
            "calls that wrote them: ",
            "bytes beyond the limit of 1024 bytes",
            "larger --contents=LIMIT",
        ];
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
    assert_eq!(unkept.as_array().unwrap().len(), 1, "{unkept}");
    let (told, sums, unkept) = recorded("--contents");
    assert!(
        !told.contains("not kept") && !sums.contains("not kept") && unkept == serde_json::json!([]),
        "{told}{sums}"
    );
}

#[test]
fn a_trace_is_shown_added_up_made_anonymous_cut_and_compiled() {
    if !can_trace() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    fs::create_dir(home.join("src")).unwrap();
    fs::write(home.join("src/secret.txt"), vec![1; 9000]).unwrap();
    ok(home, &["record", "-o", "t.wtrace", "--", "cp", "-a", "src", "dst"]);
    let stat = document(home, &["trace", "stat", "t.wtrace", "--json"]);
    assert_eq!((&stat["schema"], &stat["processes"]), (&"weir.trace-stat/1".into(), &1.into()), "{stat}");
    let shown = ok(home, &["trace", "show", "t.wtrace"]).stdout;
    assert!(String::from_utf8_lossy(&shown).starts_with("#weir-trace 1\n"));
    assert!(!String::from_utf8_lossy(&shown).contains("\\x01"), "contents are in the trace");
    ok(home, &["trace", "anonymize", "t.wtrace", "--keep-extensions", "-o", "a.wtrace"]);
    let hidden = String::from_utf8_lossy(&ok(home, &["trace", "show", "a.wtrace"]).stdout).into_owned();
    assert!(hidden.contains(".txt\"") && !hidden.contains("secret") && !hidden.contains("dst"), "{hidden}");
    let whole = document(home, &["trace", "compile", "t.wtrace", "-o", "t.wprog", "--json"]);
    let again = document(home, &["trace", "compile", "a.wtrace", "-o", "a.wprog", "--json"]);
    assert_eq!((&whole["steps"], &whole["contradictions"]), (&again["steps"], &0.into()), "{whole}");
    assert_eq!(program(&home.join("t.wprog")).steps(), program(&home.join("t.wtrace")).steps());
    ok(home, &["trace", "cut", "t.wtrace", "--calls", "5..9", "-o", "c.wtrace"]);
    assert_eq!(document(home, &["trace", "compile", "c.wtrace", "-o", "c.wprog", "--json"])["calls"], 5);
    let refused = run(home, &["trace", "cut", "t.wtrace", "--calls", "1", "-o", "c.wtrace"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("c.wtrace exists"), "{}", stderr(&refused));
}

#[test]
fn a_program_that_removes_its_tree_or_is_killed_leaves_its_trace() {
    if !can_trace() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    fs::create_dir(home.join("tree")).unwrap();
    fs::write(home.join("tree/f"), "x").unwrap();
    let tree = home.join("tree");
    let output = run(&tree, &["record", "-o", "t.wtrace", "--", "sh", "-c", "rm -rf ../tree; kill -9 $$"]);
    assert_eq!(output.status.code(), Some(128 + 9), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("killed by signal 9"), "{said}");
    let place = said.split("; it is ").nth(1).and_then(|rest| rest.lines().next()).expect(&said);
    let found = program(Path::new(place));
    assert_eq!(found.steps().iter().filter(|step| step.call.op == Op::Unlink && step.result == 0).count(), 1);
    fs::remove_file(place).unwrap();
}

#[test]
fn a_program_is_recorded_by_preload_with_its_exit_code_and_replays_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    fs::create_dir(home.join("tree")).unwrap();
    fs::write(home.join("tree/a"), vec![1; 9000]).unwrap();
    let words = ["record", "--how", "preload", "--root", "tree", "-o", "t.wtrace", "--", "sh", "-c"];
    let output = run(home, &[&words[..], &["cd tree; cp -a a b; mv b c; rm a; exit 7"]].concat());
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    assert!(stderr(&output).contains("recorded by preload"), "{}", stderr(&output));
    let program = program(&home.join("t.wtrace"));
    assert_eq!((program.summary.contradictions, program.summary.cut_after), (0, None));
    assert_eq!(written(&program), BTreeMap::from([("b".to_owned(), 9000)]));
    let tree = ok(home, &["trace", "tree", "t.wtrace"]);
    assert_eq!(tree.stdout, b"f 9000 c\n", "{tree:?}");
    let replay =
        document(home, &["bench", "trace:t.wtrace", "--fs", "nova", "--medium", "dram", "--check", "--json"]);
    assert_eq!(replay["samples"][0]["counters"]["replay.differing"], 0, "{replay}");
}

/// A job of the shell that the program does not wait for, and which writes when the program has long ended.
#[test]
fn what_a_program_leaves_running_is_recorded_until_it_ends() {
    for how in recorders() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path();
        fs::create_dir(home.join("tree")).unwrap();
        let script = "cd tree; (sleep 0.5; printf 12345 > late) & exit 3";
        let words = ["record", "--how", how, "--root", "tree", "-o", "t.wtrace", "--", "sh", "-c", script];
        let output = run(home, &words);
        assert_eq!(output.status.code(), Some(3), "{how}: {}", stderr(&output));
        assert!(home.join("tree/late").exists(), "{how}: it has not waited");
        let tree = ok(home, &["trace", "tree", "--allow-drops", "t.wtrace"]);
        let tree = String::from_utf8_lossy(&tree.stdout).into_owned();
        let told = document(home, &["trace", "stat", "t.wtrace", "--json"]);
        assert!(
            tree.contains(" late") && (tree == "f 5 late\n" || told["lost"] != 0),
            "{how}: {tree} {told}"
        );
    }
}

/// The process id of one that was killed comes again.
#[test]
fn what_a_killed_recorder_of_the_same_process_id_left_is_no_hindrance() {
    for how in recorders() {
        let folder = tempfile::tempdir().unwrap();
        let script = format!(
            "mkdir tmp tmp/weir-record-$$-0; echo kept > tmp/weir-record-$$-0.wtrace; TMPDIR=$PWD/tmp exec {} record --how {how} -- true",
            env!("CARGO_BIN_EXE_weir")
        );
        let output = Command::new("sh").current_dir(folder.path()).args(["-c", &script]).output().unwrap();
        assert!(output.status.success(), "{how}: {}", stderr(&output));
        let left: Vec<_> =
            fs::read_dir(folder.path().join("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left.len(), 2, "{how}: {left:?}");
        assert!(
            left.iter().any(|path| fs::read(path).is_ok_and(|text| text == b"kept\n")),
            "{how}: {left:?}"
        );
        assert!(folder.path().join("true.wtrace").exists(), "{how}");
    }
}

#[test]
fn what_cannot_be_recorded_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let no_strace = weir()
        .current_dir(home)
        .env("PATH", "/nonexistent")
        .args(["record", "--", "/bin/true"])
        .output()
        .unwrap();
    assert_eq!(no_strace.status.code(), Some(3));
    assert!(stderr(&no_strace).contains("package strace"), "{}", stderr(&no_strace));
    for how in ["strace", "preload"] {
        let missing = run(home, &["record", "--how", how, "--", "no-such-program"]);
        assert_eq!(missing.status.code(), Some(if how == "strace" && !can_trace() { 3 } else { 2 }));
    }
    let folder = weir()
        .current_dir(home)
        .env("TMPDIR", "/proc")
        .args(["record", "--how", "preload", "--", "true"])
        .output();
    let folder = folder.unwrap();
    assert!(
        !folder.status.success() && stderr(&folder).contains("/proc/weir-record-"),
        "{}",
        stderr(&folder)
    );
    if !can_trace() {
        return;
    }
    let missing = run(home, &["record", "--", "no-such-program"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains("no folder of PATH has it"), "{}", stderr(&missing));
    assert_eq!(fs::read_dir(home).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn bad_traces_are_refused_with_line_and_call() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let cases: [(&str, &[u8], &str, i32); 5] = [
        ("foreign", b"hello\n", "not a trace of Weir", 2),
        ("newer", b"#weir-trace 9\n", "version 9", 2),
        (
            "unopened",
            b"#weir-trace 1\nT 1 1 1 \"\"\n1 0 0 write 7 4 = 4\n",
            "unopened:3: write: descriptor 7",
            2,
        ),
        ("wrong", b"#weir-trace 1\n1 0 0 write x 4 = 4\n", "wrong:2: write: a descriptor is not a number", 2),
        ("lossy", b"#weir-trace 1\nE at=0 calls=3 dropped=0 level=0\n", "3 calls are missing", 5),
    ];
    for (name, bytes, says, code) in cases {
        fs::write(home.join(name), bytes).unwrap();
        let refused = run(home, &["trace", "compile", name, "-o", "out"]);
        assert!(stderr(&refused).contains(says), "{name}: {}", stderr(&refused));
        assert_eq!(refused.status.code(), Some(code), "{name}");
        assert!(!home.join("out").exists() && !home.join("out.part").exists(), "{name}");
    }
    fs::write(home.join("cut"), b"#weir-trace 1\nT 1 1 1 \"\"\n1 0 0 sync = 0\n1 0 0 sy").unwrap();
    let cut = ok(home, &["trace", "stat", "cut"]);
    assert!(stderr(&cut).contains("up to line 3, the last whole one"), "{}", stderr(&cut));
}

#[test]
fn text_of_strace_is_imported() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let lines = "1 1.5 openat(AT_FDCWD</w>, \"f\", O_WRONLY|O_CREAT, 0600) = 3</w/f> <0.000010>\n1 1.6 close(3</w/f>) = 0 <0.000010>\n";
    fs::write(home.join("out.txt"), lines).unwrap();
    let sums =
        document(home, &["trace", "import", "strace", "out.txt", "--root", "/w", "-o", "t.wtrace", "--json"]);
    assert_eq!((&sums["calls"], &sums["threads"]), (&2.into(), &1.into()), "{sums}");
    let unknown = run(home, &["trace", "import", "ibench", "out.txt", "-o", "u.wtrace"]);
    assert!(stderr(&unknown).contains("none is guessed"), "{}", stderr(&unknown));
}

#[test]
fn a_mount_and_strace_agree_in_names_and_bytes() {
    if !can_mount() || !can_trace() {
        return;
    }
    let place = Place::new("pmfs");
    let home = place.folder.path();
    fs::create_dir_all(home.join("src/sub")).unwrap();
    for (name, len) in [("a", 10_000), ("sub/b", 1), ("sub/empty", 0), ("c \"x\" é", 70_000)] {
        fs::write(home.join("src").join(name), vec![7; len]).unwrap();
    }
    let (pool, dir) = (place.pool(), place.dir());
    let record = home.join("mount.wtrace");
    let words = ["mount", "pmfs", "--size", "64MiB", "-o", "cache=direct", "--record"].map(Into::into);
    let paths = [record.clone().into_os_string(), pool.into(), dir.clone().into()];
    let mounted = weir().args(words.into_iter().chain(paths)).stdin(Stdio::null()).output().unwrap();
    assert!(mounted.status.success(), "{}", stderr(&mounted));
    let root = dir.to_string_lossy().into_owned();
    let target = dir.join("dst").to_string_lossy().into_owned();
    let words = ["record", "--root", &root, "-o", "strace.wtrace", "--", "cp", "-a", "src", &target];
    let recorded = weir().current_dir(home).args(words).output().unwrap();
    place.umount();
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    let (server, strace) = (program(&record), program(&home.join("strace.wtrace")));
    assert_eq!(written(&server), written(&strace));
    assert_eq!(written(&server).values().sum::<i64>(), 80_001);
    assert_eq!((server.summary.contradictions, server.summary.cut_after), (0, None), "{:?}", server.summary);
    let again =
        weir().args(["mount", "pmfs", "--record"]).arg(&record).arg(place.pool()).arg(&dir).output().unwrap();
    assert!(stderr(&again).contains("exists"), "{}", stderr(&again));
}

#[test]
fn a_killed_recorder_leaves_a_trace_that_says_so() {
    if !can_trace() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (home, place) = (folder.path(), tempfile::tempdir().unwrap());
    fs::create_dir(home.join("tree")).unwrap();
    let file = place.path().join("t.wtrace");
    let mut recorder = weir()
        .current_dir(home)
        .args(["record", "--root", "tree", "-o"])
        .arg(&file)
        .args(["--", "sh", "-c", "cd tree; while read line; do echo $line > f; echo done; done"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = recorder.stdin.take().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(recorder.stdout.take().unwrap()));
    // The recorder hands over what it has when it sees a call two seconds after it last did.
    for _ in 0..30 {
        writeln!(input, "a").unwrap();
        lines.next().unwrap().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    drop(input);
    let found = program(&file);
    assert!(found.summary.cut_after.is_some() && found.summary.calls > 5, "{:?}", found.summary);
}
