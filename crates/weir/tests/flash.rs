//! `weir sim flash`: traces of each public format, bad input, experiments; the claims that the device alone answers.

mod shared;

use std::path::{Path, PathBuf};

use serde_json::Value;
use shared::{document, told, weir};

fn trace(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/traces").join(name)
}

/// Runs `weir sim flash` with JSON; panics with what it said unless it succeeds.
fn flash(home: &Path, file: &Path, arguments: &[&str]) -> Value {
    let output = weir(home).args(["sim", "flash", "--json"]).arg(file).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    document(&output)
}

const FORMATS: [(&str, &str); 4] =
    [("mixed.fio", "fio"), ("mixed.blktrace", "blktrace"), ("mixed.csv", "msr"), ("mixed.mqsim", "mqsim")];

#[test]
fn the_same_requests_in_each_format_take_the_same_time() {
    let home = tempfile::tempdir().unwrap();
    let operations = FORMATS.map(|(file, format)| {
        let result = flash(home.path(), &trace(file), &[]);
        assert_eq!(result["format"], format);
        let operations = result["operations"].as_array().unwrap().clone();
        let data = operations.into_iter().filter(|operation| operation["op"] != "flush");
        data.collect::<Vec<_>>()
    });
    assert_eq!(operations[0].len(), 2);
    let counts: u64 = operations[0].iter().map(|op| op["latency"]["count"].as_u64().unwrap()).sum();
    assert_eq!(counts, 200);
    assert!(operations.iter().all(|other| *other == operations[0]));
}

#[test]
fn the_same_trace_twice_gives_the_same_bytes() {
    let home = tempfile::tempdir().unwrap();
    let run = || {
        let mut command = weir(home.path());
        let command = command.args(["sim", "flash", "--json", "--device", "fast24,allocation=on"]);
        command.arg(trace("mixed.csv")).output().unwrap().stdout
    };
    assert_eq!(run(), run());
}

#[test]
fn every_kind_of_device_replays_a_trace() {
    let home = tempfile::tempdir().unwrap();
    for device in ["fast24", "fast24,allocation=on", "nvmevirt.970pro", "nvmevirt.units", "nvme-a", "nvme-b"]
    {
        let result = flash(home.path(), &trace("mixed.mqsim"), &["--device", device, "--queues", "4"]);
        assert!(result["took_ns"].as_u64().unwrap() >= result["trace_span_ns"].as_u64().unwrap(), "{device}");
        assert!(!result["die_utilisation"].as_array().unwrap().is_empty(), "{device}");
    }
}

#[test]
fn a_small_device_collects_and_says_what_it_cost() {
    let home = tempfile::tempdir().unwrap();
    // Writes without a pattern, 16 times the device.
    let line = |i: u64| format!("{} 0 {} 8 0\n", i * 1000, i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 7_500 * 8);
    let text: String = (0..60_000).map(line).collect();
    let file = home.path().join("writes");
    std::fs::write(&file, text).unwrap();
    let device = "fast24,capacity=32MiB,blocks=128";
    let result = flash(home.path(), &file, &["--device", device, "--fill", "all", "--depth", "32"]);
    assert!(result["write_amplification"].as_f64().unwrap() > 1.5);
    assert!(result["collections"].as_u64().unwrap() > 100);
    let steps = result["write_amplification_over_time"].as_array().unwrap();
    assert!(steps.len() >= 40 && steps.last().unwrap()["write_amplification"].as_f64().unwrap() > 1.5);
}

#[test]
fn bad_lines_are_refused_by_number_or_skipped() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("bad");
    std::fs::write(&file, "0 0 8 8 1\n10 0 16 8 1\nrubbish\n30 0 24 8 7\n40 0 8 8 0\n").unwrap();
    let output = weir(home.path()).args(["sim", "flash"]).arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = told(&output);
    assert!(
        said.contains("line 3") && said.contains("rubbish") && said.contains("--bad-lines skip"),
        "{said}"
    );
    let result = flash(home.path(), &file, &["--bad-lines", "skip"]);
    assert_eq!((&result["requests"], &result["bad_lines_skipped"]), (&3.into(), &2.into()));
}

#[test]
fn what_cannot_be_replayed_is_refused_with_place_reason_and_remedy() {
    let home = tempfile::tempdir().unwrap();
    let cases: [(&str, &str, &[&str], &[&str]); 8] = [
        ("far", "0 0 8 8 1\n1 0 999999999999 8 1\n", &[], &["line 2", "beyond the device", "--beyond skip"]),
        ("clock", "50 0 8 8 1\n10 0 8 8 1\n", &[], &["line 2", "backwards by 40 ns", "--backwards=clamp"]),
        ("two", "0 0 8 8 1\n10 1 8 8 1\n", &[], &["line 2", "a trace of 0", "--only"]),
        ("none", "what is this\n", &[], &["none of the formats", "--format"]),
        ("empty", "\n\n", &["--format", "msr"], &["no request"]),
        ("odd", "0,h,0,Read,100,512,1\n", &[], &["line 1", "whole sectors"]),
        ("fio1", "fio version 9 iolog\n", &[], &["line 1", "versions 2 and 3"]),
        ("huge", "0 0 18446744073709551615 8 1\n", &[], &["line 1", "too large"]),
    ];
    for (name, text, arguments, held) in cases {
        let file = home.path().join(name);
        std::fs::write(&file, text).unwrap();
        let output = weir(home.path()).args(["sim", "flash"]).arg(&file).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}");
        let said = told(&output);
        assert!(held.iter().all(|part| said.contains(part)), "{name}: {said}");
        assert!(output.stdout.is_empty(), "{name}: nothing half-run is reported");
    }
    let clock = home.path().join("clock");
    assert_eq!(flash(home.path(), &clock, &["--backwards", "clamp"])["requests"], 2);
    let far = home.path().join("far");
    assert_eq!(flash(home.path(), &far, &["--beyond", "skip"])["beyond_skipped"], 1);
}

#[test]
fn devices_and_experiments_that_cannot_be_are_named() {
    let home = tempfile::tempdir().unwrap();
    let said = |arguments: &[&str]| {
        let output = weir(home.path()).args(["sim", "flash"]).args(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        told(&output)
    };
    assert!(said(&["x", "--device", "fast23"]).contains("did you mean \"fast24\"?"));
    assert!(said(&["x", "--device", "fast24,channels=3,partitions=2"]).contains("cannot be shared"));
    assert!(said(&["--experiment", "pseud"]).contains("\"pseudo\""));
    assert!(said(&["no-such-trace"]).contains("no-such-trace"));
    assert!(said(&["/"]).contains("is no file"));
}

/// The independent model of the specification gives these throughputs of the device alone, in MiB/s.
#[test]
fn layouts_of_figure_12_take_the_devices_time() {
    let home = tempfile::tempdir().unwrap();
    let output = weir(home.path()).args(["sim", "flash", "--json", "--experiment", "hypothetical"]).output();
    let result = document(&output.unwrap());
    let rows = result["rows"].as_array().unwrap();
    let device = |case: &str| {
        let row =
            rows.iter().find(|row| row["case"] == case).unwrap_or_else(|| panic!("no {case}: {rows:?}"));
        row["device_only"].as_f64().unwrap()
    };
    for (case, expected) in [
        ("contiguous, off", 2495.0),
        ("append-worst, off", 408.0),
        ("append-worst, on", 2467.0),
        ("append-random, off", 1609.0),
        ("append-random, on", 2483.0),
        ("overwrite-worst, off", 408.0),
        ("overwrite-worst, on", 2467.0),
        ("overwrite-random, off", 1609.0),
        ("overwrite-random, on", 2483.0),
    ] {
        let is = device(case);
        assert!((is / expected - 1.0).abs() < 0.03, "{case}: {is} for {expected}");
    }
}

#[test]
fn claims_of_a_device_alone_are_measured_without_a_plan() {
    let home = tempfile::tempdir().unwrap();
    let figures = ["fragmentation/7", "fragmentation/8"];
    let output = weir(home.path()).arg("reproduce").args(figures).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let claims = document(&output)["claims"].as_array().unwrap().clone();
    let measured = claims.iter().filter(|claim| !claim["value"].is_null());
    let measured: Vec<_> = measured.map(|claim| claim["id"].as_str().unwrap()).collect();
    assert_eq!(measured, ["frag.interface.qd1", "frag.interface.qd32", "frag.alignment.stripe"]);
}
