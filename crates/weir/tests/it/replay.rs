//! `weir bench trace:FILE`: replays from the command line, what differs, and what is wrong with traces and targets.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::shared::place::{stderr, weir};

const HEAD: &str = "#weir-trace 1\n#root /r\nT 1 1 1 \"\"\n";

fn bench(home: &Path, trace: &str, more: &[&str]) -> Output {
    let name = format!("trace:{trace}");
    let words = [&["bench", &name], more].concat();
    weir().current_dir(home).env("XDG_DATA_HOME", home.join("data")).args(words).output().unwrap()
}

const ON_DRAM: [&str; 4] = ["--fs", "pmfs", "--medium", "dram"];

#[test]
fn a_trace_and_its_compiled_form_are_replayed_explained_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let lines = "1 500000 0 mkdir \"d\" 0755 = 0\n1 0 0 open \"d/f\" wronly,creat 0600 = 3\n\
                 1 0 0 write 3 5000 = 5000\n1 0 0 fsync 3 = 0\n";
    fs::write(home.join("t.wtrace"), format!("{HEAD}{lines}")).unwrap();
    let compiled =
        weir().current_dir(home).args(["trace", "compile", "t.wtrace", "-o", "t.wprog"]).output().unwrap();
    assert!(compiled.status.success(), "{}", stderr(&compiled));
    for trace in ["t.wtrace", "t.wprog"] {
        let more = ["--fs", "pmfs,nova", "--medium", "dram", "--check", "-o", "r.json"];
        let output = bench(home, trace, &more);
        assert!(output.status.success(), "{trace}: {}", stderr(&output));
        let explained = weir().current_dir(home).args(["explain", "r.json"]).output().unwrap();
        let text =
            String::from_utf8_lossy(&explained.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        for part in
            ["the program computes", "For this program", "the choice of a file system changes little."]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    let result: serde_json::Value = serde_json::from_slice(&fs::read(home.join("r.json")).unwrap()).unwrap();
    let spans = result["samples"][0]["spans"].as_array().unwrap();
    let lanes: Vec<&str> = spans.iter().map(|span| span["lane"].as_str().unwrap()).collect();
    assert!(lanes.contains(&"computes") && lanes.iter().any(|lane| *lane != "computes"), "{lanes:?}");
    let tree = weir().current_dir(home).args(["trace", "tree", "t.wprog"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&tree.stdout), "d d\nf 5000 d/f\n");
}

/// A program that prints what dbench prints, and one that is not there.
#[test]
fn a_program_is_run_in_a_directory_or_named_with_its_package() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let (bin, place) = (home.join("bin"), home.join("place"));
    fs::create_dir(&bin).unwrap();
    fs::create_dir(&place).unwrap();
    let dir = format!("host:{}", place.display());
    let run = |more: &[&str]| {
        let words = [&["bench", "app/dbench", "--program", "--runtime", "1s", "--fs", &dir], more].concat();
        let mut command = weir();
        command.env("PATH", &bin).env("XDG_DATA_HOME", home.join("data")).args(words);
        command.output().unwrap()
    };
    let absent = run(&["--clock", "real"]);
    assert_eq!(absent.status.code(), Some(3), "{}", stderr(&absent));
    assert!(stderr(&absent).contains("install the Debian package dbench"), "{}", stderr(&absent));
    let modelled = run(&[]);
    assert_eq!(modelled.status.code(), Some(2), "{}", stderr(&modelled));
    let printed = "#!/bin/sh\necho ' Operation Count AvgLat MaxLat'\necho ' ---'\necho ' ReadX 500 0.010 1.0'\n\
                   echo\necho \"Throughput 2.0 MB/sec  $2 clients\"\n: >left\n";
    for (text, code) in [(printed.to_owned(), 0), (printed.replace(": >left", "exit 7"), 4)] {
        fs::write(bin.join("dbench"), text).unwrap();
        fs::set_permissions(bin.join("dbench"), fs::Permissions::from_mode(0o755)).unwrap();
        let output = run(&["--clock", "real", "--json"]);
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        if code == 0 {
            let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            let sample = &result["samples"][0];
            assert_eq!((&sample["ops"], &sample["read_bytes"]), (&500.into(), &2_000_000.into()), "{sample}");
        }
    }
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0, "what the program has left is removed");
}

/// Programs with the names of PostgreSQL's, of which one fails.
#[test]
fn a_database_that_fails_is_told_with_the_last_words_of_its_programs() {
    use std::os::unix::fs::PermissionsExt as _;
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    if rustix::process::geteuid().is_root() && !passwd.lines().any(|line| line.starts_with("postgres:")) {
        return; // root runs the server as that user
    }
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    fs::set_permissions(home, fs::Permissions::from_mode(0o755)).unwrap();
    let (bin, place) = (home.join("bin"), home.join("place"));
    fs::create_dir(&bin).unwrap();
    fs::create_dir(&place).unwrap();
    let dir = format!("host:{}", place.display());
    let words = ["bench", "app/tpcc", "--program", "--runtime", "1s", "--clock", "real", "--fs", &dir];
    let made = ": >data/postgresql.conf";
    for (name, script, code, told) in [
        ("initdb", "exit 0", 3, "postgres is not installed: install the Debian package postgresql"),
        ("postgres", "echo 'FATAL: no memory' >&2; exit 1", 3, "psql is not installed"),
        ("psql", "exit 0", 3, "pgbench is not installed"),
        ("pgbench", "exit 0", 4, "initdb has left no"),
        (
            "initdb",
            made,
            4,
            "the server does not start: exit status: 1; the server's log ends with: FATAL: no memory",
        ),
        ("initdb", "echo 'initdb: No space left on device'; exit 1", 4, "No space left on device"),
    ] {
        fs::write(bin.join(name), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = weir();
        let output =
            command.env("PATH", &bin).env("XDG_DATA_HOME", home.join("data")).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains(told), "{}", stderr(&output));
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0, "what the programs have left is removed");
    }
}

#[test]
fn results_that_differ_end_with_exit_code_4_and_say_where() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let lines =
        "1 0 0 open \"f\" rdwr,creat 0600 = 3\n1 0 0 write 3 4096 = 4000\n1 0 0 pread 3 4096 0 = 4096\n";
    fs::write(home.join("t.wtrace"), format!("{HEAD}{lines}")).unwrap();
    let output = bench(home, "t.wtrace", &ON_DRAM);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("1 of 3 results differ from the recorded ones: pread another count 1"), "{said}");
    assert!(
        said.contains("t.wtrace:6: thread 1: pread of descriptor 0 4096 = 4000, recorded 4096"),
        "{said}"
    );
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn bad_traces_and_variables_are_refused_with_line_and_call() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let whole = format!("{HEAD}1 0 0 sync = 0\n");
    let cases: [(&str, String, &str); 7] = [
        ("foreign", "hello\n".to_owned(), "not a trace of Weir"),
        ("newer", "#weir-trace 9\n".to_owned(), "version 9"),
        (
            "unopened",
            format!("{HEAD}1 0 0 write 7 4 = 4\n"),
            "unopened:4: write: descriptor 7 was never opened",
        ),
        ("wrong", format!("{HEAD}1 0 0 write x 4 = 4\n"), "wrong:4: write: a descriptor is not a number"),
        ("lossy", format!("{HEAD}E at=0 calls=3 dropped=0 level=0\n"), "3 calls are missing"),
        ("empty", HEAD.to_owned(), "no call to replay"),
        ("zeros", "\0".repeat(5000), "not a trace of Weir"),
    ];
    for (name, text, says) in cases {
        fs::write(home.join(name), text).unwrap();
        let output = bench(home, name, &ON_DRAM);
        assert!(stderr(&output).contains(says), "{name}: {}", stderr(&output));
        assert!(matches!(output.status.code(), Some(2 | 4 | 5)), "{name}: {:?}", output.status);
    }
    fs::write(home.join("t"), &whole).unwrap();
    let variables = [
        ("pace=slow", "expected think, asap, timed"),
        ("copies=0", "expected a number from 1 to 1024"),
        ("cpu_scale=-1", "expected a number from 0"),
        ("coppies=2", "no variable \"coppies\""),
        ("jitter=often", "jitter=often"),
    ];
    for (variable, says) in variables {
        let output = bench(home, "t", &[&ON_DRAM[..], &["-D", variable]].concat());
        assert!(stderr(&output).contains(says), "{variable}: {}", stderr(&output));
        assert_eq!(output.status.code(), Some(2), "{variable}");
    }
    let missing = bench(home, "none", &ON_DRAM);
    assert!(stderr(&missing).contains("none: No such file"), "{}", stderr(&missing));
    fs::write(home.join("u"), format!("{HEAD}1 0 0 write 7 4 = 4\n1 0 0 sync = 0\n")).unwrap();
    let allowed = bench(home, "u", &[&ON_DRAM[..], &["--switch", "allow_drops"]].concat());
    assert!(allowed.status.success(), "{}", stderr(&allowed));
    assert!(
        String::from_utf8_lossy(&allowed.stdout).contains("1 calls on descriptors that no call has opened")
    );
}

#[test]
fn a_trace_without_end_is_replayed_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    fs::write(
        home.join("cut"),
        format!("{HEAD}1 0 0 mkdir \"\\xff\\x0a\" 0755 = 0\n1 0 0 stat \"\\xff\\x0a\" = 0\n1 0 0 sy"),
    )
    .unwrap();
    let output = bench(home, "cut", &[&ON_DRAM[..], &["--check"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("replayed up to line 5"), "{output:?}");
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    fs::write(home.join("t"), format!("{HEAD}1 0 0 sync = 0\n")).unwrap();
    for (dir, code, says) in [("/proc/self", 4, "host:/proc/self"), ("/nonexistent", 2, "make it first")] {
        let output = bench(home, "t", &["--fs", &format!("host:{dir}"), "--clock", "real"]);
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    }
}

/// What strace recorded on a busy host: what recording cost of the gaps varied by more than all that the program computed.
#[test]
fn where_recording_cost_more_than_the_program_computed_nothing_is_said_of_computing() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let lines = "1 500000 0 mkdir \"d\" 0755 = 0\n1 300000 0 open \"d/f\" wronly,creat 0600 = 3\n\
                 1 0 0 write 3 5000 = 5000\n";
    for (noise_ns, tells) in [(900_000, false), (1_000, true)] {
        let end = format!("E at=800000 calls=3 dropped=0 user=800000 level=0 noise={noise_ns}\n");
        let head = "#weir-trace 1\n#root /r\n#clock traced\nT 1 1 1 \"\"\n";
        fs::write(home.join("t.wtrace"), format!("{head}{lines}{end}")).unwrap();
        let output = bench(home, "t.wtrace", &["--fs", "pmfs,nova", "--medium", "dram", "-o", "r.json"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let explained = weir().current_dir(home).args(["explain", "r.json"]).output().unwrap();
        for said in [&output.stdout, &explained.stdout] {
            let text = String::from_utf8_lossy(said).split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(text.contains("cannot be told from what recording cost"), !tells, "{text}");
            assert_eq!(text.contains("itself computes for"), tells, "{text}");
            assert!(tells || !text.contains("the program computes"), "{text}");
        }
        let stat = weir().current_dir(home).args(["trace", "stat", "t.wtrace"]).output().unwrap();
        let stat = String::from_utf8_lossy(&stat.stdout).into_owned();
        assert_eq!(stat.contains("when it did cannot be told"), !tells, "{stat}");
        fs::remove_file(home.join("r.json")).unwrap();
    }
}

/// A FIFO that was there before the program, which has it open alone: opened as it was, it would wait for ever.
#[test]
fn a_replay_does_not_wait_at_a_fifo_that_was_there_before() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let lines = "1 0 0 open \"pipe\" rdonly 0 = 3\n1 0 0 read 3 100 = 6\n1 0 0 open \"got\" wronly,creat 0600 = 4\n\
                 1 0 0 copy 3 4 6 -1 -1 = 6\n1 0 0 write 4 6 = 6\n1 0 0 unlink \"pipe\" = 0\n";
    let text = format!("#weir-trace 1\n#root /r\nS p 0600 0 \"pipe\"\nT 1 1 1 \"\"\n{lines}");
    fs::write(home.join("t.wtrace"), text).unwrap();
    fs::create_dir(home.join("host")).unwrap();
    let host = format!("host:{}", home.join("host").display());
    for more in [&["--fs", "nova", "--medium", "dram"][..], &["--fs", &host, "--clock", "real"]] {
        let mut limited = std::process::Command::new("timeout");
        limited.arg("100").arg(weir().get_program()).args(["bench", "trace:t.wtrace", "--check"]).args(more);
        let output =
            limited.current_dir(home).env("XDG_DATA_HOME", home.join("data")).output().expect("coreutils");
        assert!(output.status.success(), "{more:?}: {}", stderr(&output));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("calls were not made: they are on FIFOs"), "{said}");
    }
}

#[test]
fn what_a_trace_lacks_is_told_by_its_name_in_every_place() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let lines = "1 0 0 sync = 0\nL calls 7 \"vmsplice\" \"is not followed\" \"pump\"\nE at=9 calls=1 dropped=7 level=0\n";
    fs::write(home.join("t.wtrace"), format!("{HEAD}{lines}")).unwrap();
    let refused = bench(home, "t.wtrace", &ON_DRAM);
    assert!(!refused.status.success() && stderr(&refused).contains("7 vmsplice"), "{}", stderr(&refused));
    let stat = weir().current_dir(home).args(["trace", "stat", "t.wtrace"]).output().unwrap();
    let allowed =
        bench(home, "t.wtrace", &[&ON_DRAM[..], &["--switch", "allow_drops", "-o", "r.html"]].concat());
    assert!(allowed.status.success(), "{}", stderr(&allowed));
    let page = fs::read(home.join("r.html")).unwrap();
    for said in [&stat.stdout, &allowed.stdout, &page] {
        let said = String::from_utf8_lossy(said);
        assert!(said.contains("7 vmsplice"), "{}", &said[..said.len().min(2000)]);
    }
}
