//! `weir bench --counters`, `weir characterize` and what `weir doctor` says of events.

use std::path::Path;

use lab::counters::probe;
use lab::counters::simulated::{self, Counts, Task};
use results::{ResultFile, Sample};
use serde_json::Value;

use crate::shared::{document, told, weir};

/// A short run on memory that takes no modelled time.
const SHORT: [&str; 9] =
    ["--medium", "dram", "--clock", "real", "--threads", "1", "-D", "nfiles=50", "--json"];

fn run(home: &Path, arguments: &[&str]) -> ResultFile {
    let output = weir(home).args(["bench", "varmail"]).args(arguments).args(SHORT).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    serde_json::from_value(document(&output)).unwrap()
}

/// Every event that was asked for has a count or a reason, never both and never neither.
fn is_accounted(sample: &Sample) {
    let events = sample.events.as_ref().expect("they were asked for");
    for event in &events.events {
        let counted = sample.counters.contains_key(&event.name);
        let why = event.missing.as_deref().unwrap_or_default();
        assert_eq!(counted, why.is_empty(), "{}: {why}", event.name);
    }
}

#[test]
fn events_of_the_host_are_counted_or_have_a_reason() {
    let home = tempfile::tempdir().unwrap();
    let result = run(home.path(), &["--fs", "pmfs", "--counters", "real", "--runtime", "200 ops"]);
    let sample = &result.samples[0];
    is_accounted(sample);
    let events = sample.events.as_ref().unwrap();
    assert_eq!(events.events.len(), probe::states().len());
    assert_eq!(events.of, "user", "a design in this process");
    let of_kernel = probe::states().iter().filter(|(event, _)| event.is_software());
    for (event, state) in of_kernel {
        // What the kernel counts takes no turns, so that it is always counted where it can be; whether it can is another process's
        // finding here, which a busy host may make differ for switches and the clock.
        let counted = sample.counters.contains_key(&event.counter());
        let missing = matches!(state, probe::State::Missing(_));
        assert!(missing || counted || !event.name.ends_with("faults"), "{event:?}: {state:?}");
    }
}

#[test]
fn the_doctor_names_every_event_with_its_state() {
    let home = tempfile::tempdir().unwrap();
    let output = weir(home.path()).args(["doctor", "--json"]).output().unwrap();
    let document = document(&output);
    let events = document["events"].as_array().unwrap();
    assert_eq!(events.len(), probe::states().len());
    for event in events {
        let unusable = ["missing", "implausible"].contains(&event["state"].as_str().unwrap());
        assert_eq!(unusable, event["why"].is_string(), "{event}");
    }
    let text = weir(home.path()).arg("doctor").output().unwrap();
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(probe::states().iter().all(|(event, _)| text.contains(event.name)), "{text}");
    assert!(text.contains("simulated events"), "{text}");
}

/// Throughput is of the virtual clock, the same as without counters; what is counted are the same operations under the real one.
#[test]
fn under_the_virtual_clock_the_same_operations_are_counted_and_throughput_does_not_change() {
    let home = tempfile::tempdir().unwrap();
    let measured = |more: &[&str]| {
        let arguments = ["bench", "varmail", "--fs", "pmfs", "--medium", "dram", "--runtime", "2ms"];
        let small = ["--threads", "1", "-D", "nfiles=50", "--json"];
        let output = weir(home.path()).args(arguments).args(small).args(more).output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        serde_json::from_value::<ResultFile>(document(&output)).unwrap().samples.remove(0)
    };
    let (plain, counted) = (measured(&[]), measured(&["--counters", "both"]));
    is_accounted(&counted);
    assert_eq!((plain.ops, plain.elapsed_ns), (counted.ops, counted.elapsed_ns));
    assert!(plain.events.is_none() && plain.ops > 100);
    let again = counted.counters["event.ops"];
    assert!(plain.ops.abs_diff(again) <= plain.ops / 20, "a task ends its turn: {} and {again}", plain.ops);
    if can_simulate() {
        assert!(counted.counters["sim_ops"] >= 100 && counted.counters["sim_instructions"] > 0);
    }
    assert!(counted.counters.contains_key("event.page_faults"), "{:?}", counted.events);
}

/// Whether this host can simulate; what is skipped is said.
fn can_simulate() -> bool {
    let able = simulated::able();
    if let Err(why) = able {
        assert!(why.contains("qemu-user"), "the reason names the package: {why}");
        eprintln!("skipped: {why}");
    }
    able.is_ok()
}

/// What is known of loads from every line of 64 MiB: a load of another page each time misses the data TLB 64 times as often as one
/// line after the other, and the first cache has none of the lines either way.
#[test]
fn simulated_misses_of_a_walk_by_pages_and_by_lines_are_those_that_are_known() {
    if !can_simulate() {
        return;
    }
    let command = [env!("CARGO_BIN_EXE_weir").into(), "counted-cell".into()];
    let walk = |stride| simulated::count(&Task::Walk { stride }, &command).unwrap();
    let (lines, pages): (Counts, Counts) = (walk(64), walk(4096));
    let lines_of_memory = 64_u64 << 20 >> 6;
    for counts in [&lines, &pages] {
        let missed = counts["l1d_load_misses"];
        assert!((lines_of_memory..lines_of_memory / 100 * 102).contains(&missed), "{counts:?}");
        assert!(counts["first_touches"] < 16, "all pages were touched before: {counts:?}");
    }
    assert!(pages["dtlb_misses"] >= 50 * lines["dtlb_misses"], "{lines:?} {pages:?}");
    assert!(pages["dtlb_misses_2m"] < pages["dtlb_misses"] / 1000, "32 large pages: {pages:?}");
}

#[test]
fn a_simulated_run_is_joined_to_the_sample_as_columns_of_its_own() {
    let home = tempfile::tempdir().unwrap();
    let arguments = ["--fs", "pmfs,nova", "--counters", "both", "--runtime", "50 ops", "--repeats", "2"];
    let result = run(home.path(), &arguments);
    for sample in &result.samples {
        is_accounted(sample);
        let simulated = sample.counters.keys().any(|name| name.starts_with("sim_"));
        assert_eq!(simulated, can_simulate(), "{:?}", sample.events);
        if simulated {
            let of = |name: &str| sample.counters[&format!("sim_{name}")];
            // A copy by one instruction has many accesses.
            let accesses = of("loads") + of("stores");
            assert!(of("instructions") > of("ops") && of("ops") > 0, "{:?}", sample.counters);
            assert_eq!(of("data_accesses"), accesses, "{:?}", sample.counters);
            assert!(of("l1d_load_misses") < of("loads") && of("dtlb_misses") > 0, "{:?}", sample.counters);
        }
    }
    let characterize = ["characterize", "latest", "--json", "-o", "page.html"];
    let output = weir(home.path()).args(characterize).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let document = document(&output);
    let relations = document["results"][0]["relations"].as_array().unwrap();
    let counted_by = |prefix: &str| {
        relations.iter().filter(|one| one["counter"].as_str().unwrap().starts_with(prefix)).count()
    };
    assert_eq!(counted_by("sim_") > 0, can_simulate());
    let four = Value::from(4);
    let is_whole = |one: &Value| one["correlation"].is_null() || one["correlation"]["points"] == four;
    assert!(relations.iter().all(is_whole), "two systems, two runs: {relations:?}");
    let page = std::fs::read_to_string(home.path().join("page.html")).unwrap();
    assert!(page.contains("Events and throughput") || relations.is_empty());
}

#[test]
fn what_cannot_be_simulated_says_why_and_is_measured_all_the_same() {
    let home = tempfile::tempdir().unwrap();
    let arguments =
        ["bench", "varmail", "--fs", "pmfs", "--medium", "hinfs", "--clock", "real", "--runtime", "20 ops"];
    let more = ["--threads", "1", "-D", "nfiles=20", "--counters", "simulated", "--json"];
    let output = weir(home.path()).args(arguments).args(more).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let result: ResultFile = serde_json::from_value(document(&output)).unwrap();
    let sample = &result.samples[0];
    is_accounted(sample);
    let events = &sample.events.as_ref().unwrap().events;
    assert!(sample.ops > 0 && events[0].missing.as_ref().unwrap().contains("dram"), "{events:?}");
}

#[test]
fn results_without_counters_are_told_how_to_count() {
    let home = tempfile::tempdir().unwrap();
    let bench = ["bench", "varmail", "--fs", "pmfs", "--runtime", "1ms", "-D", "nfiles=200", "--quiet"];
    assert!(weir(home.path()).args(bench).output().unwrap().status.success());
    let output = weir(home.path()).args(["characterize", "latest"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("--counters"), "{}", told(&output));
}
