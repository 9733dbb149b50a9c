//! The command ended from outside: what is measured is kept and marked partial, no file is left in part, and the same command goes
//! on with the cells that have not run.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::shared::{document, told, weir};
use rustix::process::{Pid, Signal, kill_process};

/// Starts the command and waits until it says that the plan has begun: from then on it listens to signals.
fn started(home: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(weir(home).get_program());
    command.current_dir(home).env("XDG_DATA_HOME", home.join("data"));
    command.args(arguments).arg("--verbose").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert!(line.starts_with("plan bench"), "{line}");
    // What else it says is of no interest, but it must be able to say it.
    std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    child
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn sigterm_and_ctrl_c_keep_what_is_measured_and_mark_it_partial() {
    // Ten minutes of virtual time take many of the host's.
    for (signal, clock) in [(Signal::TERM, "real"), (Signal::INT, "real"), (Signal::INT, "virtual")] {
        let home = tempfile::tempdir().unwrap();
        let bench = [
            "bench",
            "varmail",
            "--fs",
            "pmfs",
            "-D",
            "nfiles=1000",
            "--clock",
            clock,
            "--runtime=600s",
            "--warm-up=none",
        ];
        let interrupted = |seconds: u64| {
            let child = started(home.path(), &[&bench[..], &["--json", "-o", "out.json"]].concat());
            std::thread::sleep(Duration::from_secs(seconds));
            send(&child, signal);
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(130), "{signal:?}: {}", told(&output));
            output
        };
        // A busy host takes longer to come to the first operation.
        let measured = |output: &Output| {
            !output.stdout.is_empty()
                && document(output)["samples"].as_array().is_some_and(|all| !all.is_empty())
        };
        let output = [1, 10, 100].into_iter().map(interrupted).find(measured).expect("a result");
        let result = document(&output);
        assert_eq!(result["partial"], true, "{signal:?}");
        assert_eq!(result["samples"].as_array().map(Vec::len), Some(1), "{signal:?}: what ran is kept");
        assert!(home.path().join("out.json").exists(), "{signal:?}: the report is written");
    }
}

/// Images larger than a moment takes to write, so that the kill comes in the middle of one.
#[test]
fn a_kill_while_images_are_saved_leaves_whole_images_only() {
    let home = tempfile::tempdir().unwrap();
    let images = home.path().join("images");
    let bench =
        ["bench", "fileserver", "--fs", "pmfs", "-D", "nfiles=2000", "--runtime", "10ms", "--repeats", "20"];
    let mut child = started(home.path(), &[&bench[..], &["--jobs", "1", "--save-image", "images"]].concat());
    let deadline = Instant::now() + Duration::from_secs(300);
    while std::fs::read_dir(&images).map_or(0, Iterator::count) == 0 {
        assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none(), "no image was begun");
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(20));
    send(&child, Signal::KILL);
    child.wait().unwrap();
    let paths = std::fs::read_dir(&images).unwrap().map(|entry| entry.unwrap().path());
    for image in paths.filter(|path| path.extension().is_some_and(|extension| extension == "img")) {
        let checked = weir(home.path()).arg("fsck").arg(&image).output().unwrap();
        assert!(checked.status.success(), "{}", told(&checked));
    }
}

#[test]
fn a_run_that_was_killed_goes_on_with_the_cells_that_have_not_run() {
    let home = tempfile::tempdir().unwrap();
    let bench = ["bench", "varmail", "--fs", "pmfs", "-D", "nfiles=200", "--runtime", "30ms"];
    let bench = [&bench[..], &["--repeats", "10", "--jobs", "1", "--json"]].concat();
    let samples = |output: &Output| document(output)["samples"].clone();
    let whole = samples(&weir(home.path()).args(&bench).output().unwrap());
    let kept =
        || std::fs::read_dir(home.path().join("data/weir/cells")).into_iter().flatten().flatten().next();
    assert!(kept().is_none(), "a whole run leaves no cells");
    let lines = || {
        let text = kept().and_then(|file| std::fs::read_to_string(file.path()).ok());
        text.map_or(0, |text| text.lines().count())
    };

    let mut child = started(home.path(), &bench);
    let deadline = Instant::now() + Duration::from_secs(300);
    while lines() < 3 {
        assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none(), "no cell was kept");
        std::thread::sleep(Duration::from_millis(1));
    }
    send(&child, Signal::KILL);
    child.wait().unwrap();
    let again = weir(home.path()).args(&bench).output().unwrap();
    assert!(told(&again).contains("cells that an earlier run of this command has kept"), "{}", told(&again));
    for (one, other) in whole.as_array().unwrap().iter().zip(samples(&again).as_array().unwrap()) {
        assert_eq!((&one["ops"], &one["seed"]), (&other["ops"], &other["seed"]));
    }
    assert!(kept().is_none());
}
