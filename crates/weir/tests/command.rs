//! The command as people and scripts meet it: streams, exit codes, messages, JSON.

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

/// The command with a home of its own.
fn weir(home: &Path) -> Command {
    let mut command = Command::cargo_bin("weir").unwrap();
    command.env("XDG_DATA_HOME", home.join("data")).env("XDG_CONFIG_HOME", home.join("config"));
    command
}

fn run(arguments: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    weir(home.path()).args(arguments).output().unwrap()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", told(output)))
}

#[test]
fn every_error_has_its_code_a_remedy_and_parseable_json() {
    let cases: [(&[&str], i32, &str); 9] = [
        (&["bench", "varmial", "--fs", "pmfs"], 2, "did you mean \"filebench/varmail\"?"),
        (&["bench", "varmail", "--fs", "pmsf"], 2, "did you mean \"pmfs\"?"),
        (&["bench", "varmail", "--fs", "pmfs", "--medium", "hinfs,latncy=1ns"], 2, "latency"),
        (&["bench", "varmail", "--fs", "pmfs", "-O", "bufer=1M"], 2, "no design has the option \"bufer\""),
        (&["bench", "varmail", "--fs", "pmfs", "-D", "nfils=10"], 2, "nfils"),
        (&["bench", "varmail", "--fs", "host:/"], 2, "--clock real"),
        (&["run", "no-such-plan"], 2, "there is no plan called"),
        (&["show", "pmsf"], 2, "did you mean \"pmfs\"?"),
        (&["report", "no-such-result.json"], 2, "there is no result"),
    ];
    for (arguments, code, remedy) in cases {
        let output = run(&[arguments, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", told(&output));
        assert!(told(&output).contains(remedy), "{arguments:?}: {}", told(&output));
        let error = document(&output);
        assert_eq!(error["error"]["exit_code"], code, "{arguments:?}");
        assert!(run(arguments).stdout.is_empty(), "{arguments:?}: errors belong on the standard error");
    }
}

#[test]
fn a_wrong_flag_is_a_usage_error_even_in_json() {
    let output = run(&["list", "--jsno", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(document(&output)["error"]["message"].as_str().unwrap().contains("--jsno"));
}

#[test]
fn a_plan_error_points_at_line_and_column() {
    let home = tempfile::tempdir().unwrap();
    let plan = home.path().join("a.toml");
    let text = "[plan]\nname = \"a\"\nwhy = \"b\"\nstop = \"1s\"\n[[axis]]\nfs = [\"pmfs\"]\n[[axis]]\nthread = [1]\n";
    std::fs::write(&plan, text).unwrap();
    let output = weir(home.path()).arg("run").arg(&plan).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("a.toml:8:10: axis \"thread\" needs sets"), "{}", told(&output));
}

#[test]
fn lists_and_shows_everything_there_is() {
    for kind in ["fs", "media", "workloads", "plans", "papers", "machines"] {
        let list = document(&run(&["list", kind, "--json"]));
        for entry in list[kind].as_array().unwrap() {
            let name = entry["name"].as_str().unwrap();
            if name.starts_with("host:") || name == "this-host" {
                continue;
            }
            assert!(run(&["show", name]).status.success(), "weir show {name}");
        }
    }
}

#[test]
fn words_errors_and_exit_codes_are_explained() {
    for word in ["p99", "lock_wait", "ENOSPC", "130"] {
        let output = run(&["explain", word]);
        assert!(output.status.success() && !output.stdout.is_empty(), "{word}");
    }
}

#[test]
fn completions_exist_for_five_shells() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = run(&["completion", shell]);
        assert!(output.status.success() && output.stdout.len() > 1000, "{shell}");
    }
}

#[test]
fn there_is_a_man_page_for_every_subcommand() {
    let folder = tempfile::tempdir().unwrap();
    assert!(run(&["man", &folder.path().display().to_string()]).status.success());
    for page in ["weir.1", "weir-bench.1", "weir-reproduce.1", "weir-fsck.1"] {
        assert!(folder.path().join(page).exists(), "{page}");
    }
}

#[test]
fn an_image_is_made_checked_and_measured_and_never_changed_by_looking() {
    let home = tempfile::tempdir().unwrap();
    let image = home.path().join("a.pm").display().to_string();
    for design in ["pmfs", "hinfs"] {
        let made =
            weir(home.path()).args(["mkfs", "--force", "--fs", design, "--size", "64MiB", &image]).output();
        assert!(made.as_ref().unwrap().status.success(), "{}", told(&made.unwrap()));
        let before = std::fs::read(&image).unwrap();
        let checked = run(&["fsck", &image, "--json"]);
        assert_eq!(document(&checked)["clean"], true, "{}", told(&checked));
        assert!(document(&run(&["df", &image, "--json"]))["free_bytes"].as_u64().unwrap() > 40 << 20);
        assert!(run(&["dump", &image, "superblock"]).status.success());
        assert!(before == std::fs::read(&image).unwrap(), "looking changed the image");
    }
}

#[test]
fn a_bad_image_is_told_with_a_remedy() {
    let home = tempfile::tempdir().unwrap();
    let image = home.path().join("a.pm");
    let text = image.display().to_string();
    let missing = run(&["fsck", &text]);
    assert_eq!(missing.status.code(), Some(2), "{}", told(&missing));
    assert!(told(&missing).contains("weir mkfs"), "{}", told(&missing));
    std::fs::write(&image, vec![7_u8; 1 << 20]).unwrap();
    let stranger = run(&["fsck", &text, "--json"]);
    assert_eq!(stranger.status.code(), Some(2));
    assert!(document(&stranger)["error"]["message"].as_str().unwrap().contains("no design recognises"));
    let small = run(&["mkfs", "--fs", "pmfs", &text]);
    assert_eq!(small.status.code(), Some(2));
    assert!(told(&small).contains("--size"), "{}", told(&small));
    let full = weir(home.path()).args(["mkfs", "--fs", "pmfs", "--size", "64MiB", &text]).output().unwrap();
    assert!(full.status.success(), "{}", told(&full));
    let again = run(&["mkfs", "--fs", "pmfs", &text]);
    assert!(told(&again).contains("--force"), "{}", told(&again));
}

#[test]
fn the_doctor_finds_something_to_say() {
    assert!(document(&run(&["doctor", "--json"]))["findings"].as_array().unwrap().len() > 5);
}
