//! `weir sim logging`: bad input is told with key and legal range, traces come back, and the views show what they promise.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

use crate::shared::{document, told, weir};

fn logging(home: &Path, arguments: &[&str]) -> Output {
    weir(home).args(["sim", "logging"]).args(arguments).output().unwrap()
}

/// Enough for an answer in a moment.
const SMALL: [&str; 8] =
    ["--set", "footprint=64KiB", "--set", "warmup=20", "--ops", "200", "--set", "l2_size=128KiB"];

fn small<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    SMALL.iter().chain(arguments).copied().collect()
}

#[test]
fn what_cannot_be_simulated_is_told_with_its_key_its_range_and_an_exit_code() {
    let home = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &[&str]); 15] = [
        (&["--set", "l1_size=33KiB"], &["l1_size = 33KiB", "from 256B to 16MiB, a power of two"]),
        (&["--set", "l2_banks=3"], &["l2_banks = 3", "a power of two"]),
        (&["--set", "l1_ways=0"], &["l1_ways = 0", "from 1 to 32"]),
        (&["--set", "banks=0"], &["banks = 0", "from 1 to 64"]),
        (&["--set", "log_size=8GiB"], &["log_size = 8GiB", "at most a quarter of memory"]),
        (&["--set", "l2_size=64KiB"], &["l2_size = 64KiB", "at least cores x l1_size"]),
        (&["--set", "low_watermark=90%"], &["low_watermark = 90%", "below high_watermark"]),
        (&["--set", "footprint=16GiB"], &["set footprint or memory"]),
        (&["--set", "l1_sise=32KiB"], &["l1_sise", "did you mean \"l1_size\"?"]),
        (&["--set", "domain"], &["--set domain: write KEY=VALUE"]),
        (&["--threads", "9"], &["threads = 9: from 1 to 8"]),
        (&["--workload", "hsah"], &["hsah", "did you mean \"hash\"?"]),
        (&["--scheme", "fwd"], &["fwd", "did you mean \"fwb\"?"]),
        (&["--sweep", "log_buffer=8,64"], &["--sweep", "an axis of a plan", "weir show hw-logging-11"]),
        (&["--ablate"], &["--ablate", "weir reproduce hw-logging --choose"]),
    ];
    for (arguments, words) in cases {
        let page = home.path().join("page.html");
        let output = logging(home.path(), &[arguments, &["-o", "page.html"]].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", told(&output));
        for word in words {
            assert!(told(&output).contains(word), "{arguments:?}: {}", told(&output));
        }
        assert!(output.stdout.is_empty() && !page.exists(), "{arguments:?}: nothing half-run is a result");
    }
}

#[test]
fn a_trace_that_is_cut_off_damaged_or_of_another_version_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let done = logging(home, &small(&["--workload", "sps", "--capture", "sps.trace"]));
    assert!(done.status.success(), "{}", told(&done));
    let whole = std::fs::read(home.join("sps.trace")).unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(home.join(name), bytes).unwrap();
    let mut version = whole.clone();
    version[8] ^= 7;
    write("version.trace", &version);
    write("short.trace", &whole[..whole.len() / 2]);
    write("stump.trace", &whole[..20]);
    write("text.trace", b"\xff\xfe not a trace");
    write("lackey.trace", b"I  04001000,3\n Q 10,8\n");
    write("short.champsim", &[1; 100]);
    let cases = [
        ("version.trace", "version"),
        ("short.trace", "cut off or damaged"),
        ("stump.trace", "cut off within its header"),
        ("text.trace", "neither a trace of --capture"),
        ("lackey.trace", "line 2"),
        ("short.champsim", "ends after 36 of 64 bytes"),
        ("lost.trace", "No such file"),
    ];
    for (file, words) in cases {
        let output = logging(home, &["--trace", file, "--scheme", "fwb"]);
        assert_eq!(output.status.code(), Some(4), "{file}: {}", told(&output));
        assert!(told(&output).contains(words) && told(&output).contains(file), "{file}: {}", told(&output));
        assert!(output.stdout.is_empty(), "{file}");
    }
    let output = logging(home, &small(&["--trace", "sps.trace", "--set", "footprint=4KiB"]));
    assert!(told(&output).contains("set footprint"), "{}", told(&output));
    let replayed = logging(home, &small(&["--trace", "sps.trace", "--scheme", "fwb", "--json"]));
    let lived = logging(home, &small(&["--workload", "sps", "--scheme", "fwb", "--json"]));
    let time = |output: &Output| document(output)["runs"][0]["sample"]["elapsed_ns"].as_u64().unwrap();
    assert_eq!(time(&replayed), time(&lived));
}

#[test]
fn a_crash_campaign_does_what_its_options_say_or_refuses_them() {
    let home = tempfile::tempdir().unwrap();
    let run = |options: &[&str]| {
        let output = logging(home.path(), &[&["--crash", "200", "--json"], options].concat());
        let runs = document(&output)["runs"].as_array().unwrap().clone();
        let rows = runs.iter().map(|run| (run["scheme"].as_str().unwrap().to_owned(), run["points"].clone()));
        rows.collect::<Vec<_>>()
    };
    let chosen = run(&["--scheme", "redo-clwb", "--workload", "sps", "--threads", "2"]);
    assert!(chosen.iter().all(|(scheme, _)| scheme == "redo-clwb") && chosen.len() == 4, "{chosen:?}");
    let small = run(&["--scheme", "hwl", "--workload", "hash", "--ops", "3"]);
    let large = run(&["--scheme", "hwl", "--workload", "hash", "--ops", "3", "--set", "log_buffer=0"]);
    assert_eq!((small.len(), large.len()), (1, 1));
    assert_ne!(small, large, "a machine without a log buffer has other moments at which it can crash");
    for (options, words) in [
        (&["--scheme", "non-pers"][..], "only a scheme that promises recovery"),
        (&["--workload", "hsah"], "hash"),
        (&["--machine", "tyni"], "tiny"),
        (&["--set", "log_bufer=0"], "log_buffer"),
        (&["--trace", "x"], "cannot be used with"),
    ] {
        let output = logging(home.path(), &[&["--crash", "200"], options].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}: {}", told(&output));
        assert!(told(&output).contains(words), "{options:?}: {}", told(&output));
    }
}

#[test]
fn a_timeline_shows_the_way_of_a_store_and_is_drawn() {
    let home = tempfile::tempdir().unwrap();
    let schemes = "undo-clwb,fwb";
    let output = logging(
        home.path(),
        &small(&["--workload", "sps", "--scheme", schemes, "--timeline", "50", "-o", "page.html"]),
    );
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    for word in
        ["store", "log entry", "buffer", "queue", "bank", "fence", "waits for the log", "acknowledged"]
    {
        assert!(text.contains(word), "{word}: {text} {}", told(&output));
    }
    let page = std::fs::read_to_string(home.path().join("page.html")).unwrap();
    assert!(page.contains("Timeline: One transaction, fwb") && !page.contains("could not be drawn"));
}

#[test]
fn hardware_logging_takes_fences_and_flushes_from_file_systems() {
    let home = tempfile::tempdir().unwrap();
    let output = logging(home.path(), &["--fs", "pmfs,nova", "--json", "-o", "page.html"]);
    assert!(output.status.success(), "{}", told(&output));
    let samples = document(&output)["samples"].as_array().unwrap().clone();
    let of = |fs: &str, protocol: &str| {
        let is = |sample: &&serde_json::Value| {
            sample["axes"]["fs"] == fs && sample["axes"]["protocol"] == protocol
        };
        samples.iter().find(is).unwrap_or_else(|| panic!("{fs} {protocol}")).clone()
    };
    for fs in ["pmfs", "nova"] {
        let fences = |protocol: &str| of(fs, protocol)["counters"]["fences"].as_u64().unwrap();
        assert!(fences("its own") > fences("fwb"), "{fs}");
        assert!(of(fs, "fwb")["counters"]["hw_records"].as_u64().unwrap() > 0, "{fs}");
        let time = |protocol: &str| of(fs, protocol)["elapsed_ns"].as_u64().unwrap();
        assert!(time("nothing") <= time("fwb") && time("nothing") <= time("its own"), "{fs}");
    }
    assert!(!std::fs::read_to_string(home.path().join("page.html")).unwrap().contains("could not be drawn"));
    let other = logging(home.path(), &["--fs", "ext4"]);
    assert_eq!(other.status.code(), Some(2));
}

/// What hardware would log is found by the format, whichever design is mounted on it; where a format has no such bytes, the design
/// is refused.
#[test]
fn every_design_in_memory_has_its_journal_left_out_or_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let run = |name: &str| logging(home.path(), &["--fs", name, "--json"]);
    let mut answers = BTreeMap::new();
    for design in fs::FILE_SYSTEMS {
        let output = run(design.name());
        match output.status.code() {
            Some(0) => drop(answers.insert(design.name(), document(&output)["samples"].clone())),
            code => {
                assert_eq!(code, Some(2), "{}: {}", design.name(), told(&output));
                assert!(told(&output).contains(design.name()), "{}", told(&output));
            }
        }
    }
    assert_eq!(
        answers.keys().copied().collect::<Vec<_>>(),
        ["hinfs", "hinfs-nclfw", "hinfs-wb", "nova", "pmfs", "rcache"]
    );
    let of = |name: &str, protocol: &str, counter: &str| {
        let samples = answers[name].as_array().unwrap();
        let sample = samples.iter().find(|sample| sample["axes"]["protocol"] == protocol).unwrap();
        sample["counters"][counter].as_u64().unwrap()
    };
    // RCache reads NOVA's format, and these calls read nothing that it caches.
    for protocol in ["its own", "fwb", "nothing"] {
        for counter in ["fences", "hw_records"] {
            assert_eq!(
                of("rcache", protocol, counter),
                of("nova", protocol, counter),
                "{protocol}: {counter}"
            );
        }
    }
    // A canary: were HiNFS's journal not found, its records would be logged again, and there would be more than of PMFS.
    assert!(of("hinfs", "fwb", "hw_records") <= of("pmfs", "fwb", "hw_records") * 11 / 10);
}
