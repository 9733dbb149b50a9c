//! `weir validate` and `weir sim medium`: exit codes, documents, and what is told of rows that cannot be measured.

use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

/// The command, for a user who has calibrated nothing.
fn weir(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env("XDG_DATA_HOME", home.join("data"))
        .current_dir(home);
    command
}

/// A file of rows, each with these lines besides what every row has.
fn file(home: &Path, rows: &[&str]) -> String {
    let head = |number: usize| {
        format!("[[row]]\nid = \"r{number}\"\nclass = \"media\"\nbetter = \"low\"\nunit = \"ns\"\n")
    };
    let text: String = rows.iter().enumerate().map(|(number, row)| head(number) + row + "\n").collect();
    std::fs::write(home.join("rows.toml"), text).unwrap();
    "rows.toml".to_owned()
}

const READ: &str = "command = \"lattester optane.100 seq read 64 1 0\"\ncompare = \"yes\"\n";

/// The exit code, and the document on the standard output.
fn validate(home: &Path, rows: &[&str]) -> (i32, Value) {
    let name = file(home, rows);
    let output = weir(home).args(["validate", &name, "--json"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (
        output.status.code().unwrap(),
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")),
    )
}

#[test]
fn a_limit_that_is_missed_ends_with_1_and_one_that_holds_with_0() {
    let home = tempfile::tempdir().unwrap();
    let (code, found) = validate(home.path(), &[&format!("published = 169.4\n{READ}")]);
    assert_eq!((code, found["schema"].as_str()), (0, Some("weir.validation/1")));
    let row = &found["rows"][0];
    assert!(row["error"].as_f64().unwrap() < 0.01 && row["calibration"] == false, "{row}");
    let (code, found) = validate(home.path(), &[&format!("published = 80\n{READ}")]);
    assert_eq!(code, 1);
    let missed = |limit: &&Value| limit["state"] == "miss";
    let missed: Vec<_> =
        found["limits"].as_array().unwrap().iter().filter(missed).map(|one| one["number"].clone()).collect();
    assert_eq!(missed, [1, 2, 4, 1, 2, 4], "of all, and of those that nothing was fitted on");
}

#[test]
fn rows_that_cannot_be_measured_are_named_and_counted_and_lose_nothing() {
    let home = tempfile::tempdir().unwrap();
    let row = |command: &str| format!("published = 1.0\ncompare = \"yes\"\ncommand = \"{command}\"\n");
    let commands = [
        "weir bench none.f --fs nova --medium optane.100",
        "weir fly --fast",
        "lattester optane.101 seq read 64 1 0",
        "lattester optane.100 seq read 64 1 2",
        "rm -rf /",
        "weir doctor",
        "none: a source of constants",
        "weir bench creat.f --fs nova,pmfs --medium optane.100 --runtime end",
    ];
    let mut rows: Vec<String> = commands.iter().map(|command| row(command)).collect();
    rows.push(format!("published = 169.4\n{READ}"));
    rows.push(format!("published = 0\n{READ}"));
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let (code, found) = validate(home.path(), &rows);
    assert_eq!(code, 0, "the one row that was measured is right");
    let kinds: Vec<_> =
        found["rows"].as_array().unwrap().iter().map(|row| row["left_out"]["kind"].as_str()).collect();
    let wanted = ["preset", "command", "preset", "command", "command", "command", "constants", "preset"];
    assert_eq!(kinds[..8], wanted.map(Some), "{found:#}");
    assert_eq!(kinds[8..], [None, Some("published")]);
    let counted: u64 =
        found["left_out"].as_array().unwrap().iter().map(|one| one["rows"].as_u64().unwrap()).sum();
    assert_eq!(counted, 9);
}

#[test]
fn where_only_this_host_cannot_the_exit_code_is_3() {
    let home = tempfile::tempdir().unwrap();
    let row = "design = \"tm\"\nwhat = \"stat2\"\npublished = 1.0\ncompare = \"yes\"\ncommand = \"k.c\"\n";
    let row = row.replace("published", "unit_of = 1\npublished");
    let text = format!(
        "[[row]]\nid = \"host.tm.stat2\"\nclass = \"cpu\"\nbetter = \"low\"\nunit = \"ns CPU/call\"\n{row}"
    );
    std::fs::write(home.path().join("rows.toml"), text).unwrap();
    let output = weir(home.path()).args(["validate", "rows.toml"]).output().unwrap();
    let told =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("run `weir calibrate` once") && told.contains("unit_of"), "{told}");
}

#[test]
fn bad_input_is_a_usage_error_that_says_where() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("bad.toml"), "[[row]]\nclass = \"a\"\n").unwrap();
    std::fs::write(home.path().join("else.json"), "{\"schema\": \"else/1\"}").unwrap();
    file(home.path(), &[&format!("published = 169.4\n{READ}")]);
    let cases = [
        (&["validate", "missing.toml"][..], "missing.toml"),
        (&["validate", "bad.toml"][..], "bad.toml:1:1"),
        (
            &["validate", "rows.toml", "--class", "none"][..],
            "no row is chosen; the files have rows of the classes media",
        ),
        (&["validate", "rows.toml", "--with", "turn=3ns"][..], "medium.KEY=VALUE"),
        (&["validate", "rows.toml", "--against", "else.json"][..], "no document of `weir validate --json`"),
        (&["validate", "rows.toml", "-o", "page.pdf"][..], ".json, .md or .txt"),
        (&["sim", "medium", "optane.100", "--op", "write"][..], "is no access"),
        (&["sim", "medium", "optane.100", "--size", "0"][..], "an access has 1 B"),
        (&["sim", "medium", "optane.99"][..], "optane"),
    ];
    for (arguments, told) in cases {
        let output = weir(home.path()).args(arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && error.contains(told), "{arguments:?}: {error}");
    }
}

#[test]
fn a_document_can_be_compared_with_an_earlier_one() {
    let home = tempfile::tempdir().unwrap();
    file(home.path(), &[&format!("published = 169.4\n{READ}")]);
    let run = |arguments: &[&str]| {
        let output = weir(home.path()).arg("validate").args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(run(&["rows.toml", "-o", "before.json"]).0, Some(0));
    let (code, text) = run(&["rows.toml", "--with", "medium.read_hit=250ns", "--against", "before.json"]);
    assert!(code == Some(1) && text.contains("N4") && text.contains("worse"), "{text}");
}

#[test]
fn a_medium_is_measured_by_size_and_threads() {
    let home = tempfile::tempdir().unwrap();
    let arguments =
        ["sim", "medium", "optane.100", "--op", "read,nt", "--size", "64,256", "--threads", "1,4", "--json"];
    let output = weir(home.path()).args(arguments).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let loops = found["loops"].as_array().unwrap();
    assert_eq!((found["schema"].as_str(), loops.len()), (Some("weir.medium/1"), 8));
    let of = |access: &str, size: u64, threads: u64| {
        let is =
            |one: &&Value| one["access"] == access && one["size_bytes"] == size && one["threads"] == threads;
        loops.iter().find(is).unwrap()["bytes_per_s"].as_f64().unwrap()
    };
    assert!(of("read", 256, 4) > 3.0 * of("read", 256, 1), "threads add up while the medium has room");
    assert!(of("nt", 256, 1) > of("nt", 64, 1), "a line of 64 bytes costs a write of 256");
}
