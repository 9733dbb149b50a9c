//! A host that is busy with other work: the real clock sees it, marks what it measured meanwhile, and says so everywhere.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::shared::{document, told, weir};

/// Processes that take all cores, ended with the test.
struct Load(Vec<Child>);

impl Load {
    fn on_all_cores() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let busy = || {
            let mut shell = Command::new("sh");
            shell.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
            shell.spawn().expect("there is a shell")
        };
        Self((0..cores).map(|_| busy()).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn bench(home: &Path, arguments: &[&str]) -> std::process::Output {
    let small =
        ["bench", "varmail", "--fs", "pmfs", "-D", "nfiles=100", "--runtime", "500ms", "--threads", "1"];
    weir(home).args(small).args(arguments).output().unwrap()
}

#[test]
fn a_cell_on_a_busy_host_runs_again_and_is_marked_in_result_table_page_and_by_the_doctor() {
    let home = tempfile::tempdir().unwrap();
    let load = Load::on_all_cores();
    let output = bench(home.path(), &["--clock", "real", "--json", "-o", "r.html", "-o", "r.txt"]);
    let doctor = document(&weir(home.path()).args(["doctor", "--json"]).output().unwrap());
    drop(load);
    assert!(output.status.success(), "{}", told(&output));
    let host = &document(&output)["samples"][0]["host"];
    assert!(host["noise"][0].as_str().is_some_and(|noise| noise.contains("other processes took")), "{host}");
    assert_eq!(host["attempts"], 2, "one cell has a budget of one more run: {host}");
    assert!(
        host["wall_ns"].as_u64() > host["cpu_ns"].as_u64(),
        "it did not have the cores to itself: {host}"
    );
    for file in ["r.html", "r.txt"] {
        let text = std::fs::read_to_string(home.path().join(file)).unwrap();
        assert!(text.contains("The host was busy during 1 of 1 samples") && text.contains("busy"), "{file}");
    }
    let findings = doctor["findings"].as_array().unwrap();
    let load = findings.iter().find(|finding| finding["subject"] == "load").unwrap();
    assert!(load["remedy"].as_str().is_some_and(|remedy| remedy.contains("real clock")), "{load}");
}

#[test]
fn two_clocks_are_compared_only_on_a_machine_that_was_measured_on_this_host() {
    let home = tempfile::tempdir().unwrap();
    let output = bench(home.path(), &["--clock", "both"]);
    assert!(output.status.success(), "{}", told(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.contains("virtual/real"), "{text}");
    let says = "the two clocks are not compared: --machine spr-server was not measured on this host";
    assert!(told(&output).contains(says), "{}", told(&output));
    // As `weir calibrate` writes it, with the values of another machine: what it measures depends on how busy the host is.
    let capture = document(&weir(home.path()).args(["doctor", "--json"]).output().unwrap());
    let found = |finding: &&serde_json::Value| finding["subject"] == "processor";
    let processor =
        capture["findings"].as_array().unwrap().iter().find(found).unwrap()["found"].as_str().unwrap();
    let preset = concat!(env!("CARGO_MANIFEST_DIR"), "/../../presets/machines/hinfs-server.toml");
    let preset =
        std::fs::read_to_string(preset).unwrap().replace("source = \"[", "source = \"[M] weir calibrate: [");
    let folder = home.path().join("config/weir/machines");
    std::fs::create_dir_all(&folder).unwrap();
    let write = |summary: &str| {
        let summary = format!("summary = \"{summary}\"");
        let lines = preset.lines().map(|line| if line.starts_with("summary") { &*summary } else { line });
        std::fs::write(folder.join("this-host.toml"), lines.collect::<Vec<_>>().join("\n")).unwrap();
    };
    write(&format!("this host, measured by `weir calibrate` on {processor}"));
    let output = bench(home.path(), &["--clock", "both", "--machine", "this-host"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("virtual/real"), "{text}{}", told(&output));
    write("this host, measured by `weir calibrate` on a Z80");
    let output = bench(home.path(), &["--clock", "both", "--machine", "this-host"]);
    assert!(told(&output).contains("was measured on another processor"), "{}", told(&output));
}
