//! `weir sim flash`: traces of each public format, bad input; the claims that the device alone answers.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::shared::{document, told, weir};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use serde_json::Value;

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
        ("none", "what is this\n", &[], &["which no format has", "--format"]),
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
fn devices_of_a_merged_trace_have_space_of_their_own() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("several");
    std::fs::write(&file, "0 9 8 8 0\n10 4 8 8 0\n20 9 8 8 1\n30 4 16 8 1\n").unwrap();
    let merged = flash(home.path(), &file, &["--devices", "merge"]);
    assert_eq!(
        (&merged["requests"], &merged["devices"], &merged["touched_pages"]),
        (&4.into(), &2.into(), &3.into())
    );
    let shared = flash(home.path(), &file, &["--devices", "overlay"]);
    assert_eq!((&shared["requests"], &shared["touched_pages"]), (&4.into(), &2.into()));
    let one = flash(home.path(), &file, &["--only", "4"]);
    assert_eq!((&one["requests"], &one["touched_pages"]), (&2.into(), &2.into()));
}

#[test]
fn a_packed_trace_gives_the_same_result_as_the_trace() {
    use std::io::Write as _;
    let home = tempfile::tempdir().unwrap();
    let text = std::fs::read(trace("mixed.csv")).unwrap();
    let file = home.path().join("mixed.csv");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(&text).unwrap();
    std::fs::write(&file, packed.finish().unwrap()).unwrap();
    assert_eq!(flash(home.path(), &file, &[]), flash(home.path(), &trace("mixed.csv"), &[]));
}

#[test]
fn devices_and_traces_that_cannot_be_are_named() {
    let home = tempfile::tempdir().unwrap();
    let said = |arguments: &[&str]| {
        let output = weir(home.path()).args(["sim", "flash"]).args(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        told(&output)
    };
    assert!(said(&["x", "--device", "fast23"]).contains("did you mean \"fast24\"?"));
    assert!(said(&["x", "--device", "fast24,channels=3,partitions=2"]).contains("cannot be shared"));
    assert!(said(&["--experiment", "pseudo"]).contains("weir run fragmentation-device"));
    assert!(said(&["no-such-trace"]).contains("no-such-trace"));
    assert!(said(&["/"]).contains("is not a regular file"));
}

#[test]
fn claims_of_a_device_alone_are_measured_without_a_file_system() {
    let home = tempfile::tempdir().unwrap();
    let figures = ["fragmentation/7", "fragmentation/8"];
    let output = weir(home.path()).arg("reproduce").args(figures).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let claims = document(&output)["claims"].as_array().unwrap().clone();
    let measured = claims.iter().filter(|claim| !claim["value"].is_null());
    let measured: Vec<_> = measured.map(|claim| claim["id"].as_str().unwrap()).collect();
    assert_eq!(measured, ["frag.interface.qd1", "frag.interface.qd32", "frag.alignment.stripe"]);
}

/// What `weir explain fragmentation` says, as JSON.
fn fragmentation(home: &Path, file: &str, arguments: &[&str]) -> Value {
    let output =
        weir(home).args(["explain", "fragmentation", file, "--json"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    document(&output)
}

/// ext4 takes the blocks of small files from a chunk of the CPU that writes: on another CPU a file goes on elsewhere.
fn stay_on_this_cpu() {
    let mut one = CpuSet::new();
    one.set(sched_getcpu());
    sched_setaffinity(None, &one).unwrap();
}

/// An ext4 image with a file of 4 MiB that was appended to in turns with another, 32 KiB and 224 KiB at a time.
fn image(home: &Path) -> String {
    stay_on_this_cpu();
    let path = home.join("image.ext4");
    let options = pool::PoolOptions::new("ext4").size(pool::Bytes::mib(128));
    let options = options.option("stream_request", "4000GiB").option("journal", "8MiB");
    let pool = options.open(&path).unwrap();
    let (mut target, mut other) = (pool.create_file("target").unwrap(), pool.create_file("other").unwrap());
    for _ in 0..128 {
        for (file, kib) in [(&mut target, 32), (&mut other, 224)] {
            file.write_all(&vec![7; kib << 10]).unwrap();
            file.sync_all().unwrap();
        }
    }
    drop((target, other));
    drop(pool.create_file("empty").unwrap());
    pool.create_dir("dir").unwrap();
    pool.close().unwrap();
    path.display().to_string()
}

#[test]
fn a_file_of_an_image_is_explained_by_its_extents_and_the_image_stays_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let image = image(home.path());
    let before = std::fs::read(&image).unwrap();
    let told_of = fragmentation(home.path(), &format!("{image}:/target"), &[]);
    assert_eq!((&told_of["bytes"], &told_of["holes"]), (&(4 << 20).into(), &0.into()));
    let pieces = told_of["degree_of_fragmentation"].as_u64().unwrap();
    assert!((120..=128).contains(&pieces), "{told_of}");
    let ns = |what: &str| told_of[what]["ns"].as_u64().unwrap();
    assert!(
        ns("as_it_lies") > 4 * ns("in_one_piece") && ns("with_hints") * 10 < ns("in_one_piece") * 12,
        "{told_of}"
    );
    assert!(told_of["lost_by_splitting"].as_f64().unwrap() < 0.1, "{told_of}");
    let other = fragmentation(home.path(), &format!("{image}:/target"), &["--medium", "nvme-a"]);
    assert_eq!((&other["stripe"], other["die_runs"] == told_of["die_runs"]), (&(1 << 20).into(), false));
    assert!(before == std::fs::read(&image).unwrap(), "the image was changed");
    let text =
        weir(home.path()).args(["explain", "fragmentation", &format!("{image}:/target")]).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.contains("degree of fragmentation") && text.contains("Assumed: the device was written"),
        "{text}"
    );
}

#[test]
fn what_has_no_extents_is_refused_with_the_reason() {
    let home = tempfile::tempdir().unwrap();
    let image = image(home.path());
    let said = |arguments: &[&str], code: i32| {
        let output = weir(home.path()).arg("explain").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", told(&output));
        assert!(output.stdout.is_empty(), "{arguments:?}");
        told(&output)
    };
    let cases: [(&[&str], &str); 8] = [
        (&["fragmentation"], "name a file"),
        (&["ENOSPC", "file"], "takes no file"),
        (&["fragmentation", "no-such-file"], "POOL:/PATH"),
        (&["fragmentation", "/"], "not a regular file"),
        (&["fragmentation", &format!("{image}:/dir")], "not a regular file"),
        (&["fragmentation", &format!("{image}:/none")], "no such file"),
        (&["fragmentation", &format!("{image}:/empty")], "is empty"),
        (&["fragmentation", &format!("{image}:/target"), "--medium", "fast23"], "fast24"),
    ];
    for (arguments, held) in cases {
        assert!(said(arguments, 2).contains(held), "{arguments:?}: {}", said(arguments, 2));
    }
    let hole = home.path().join("hole");
    std::fs::File::create(&hole).unwrap().set_len(1 << 20).unwrap();
    let output = weir(home.path()).args(["explain", "fragmentation", "hole"]).output().unwrap();
    // Where the test's folder lies on tmpfs the answer is that one.
    let told_of_hole = told(&output);
    assert!(told_of_hole.contains("is one hole") || told_of_hole.contains("FIEMAP"), "{told_of_hole}");
    if let Ok(shared) = tempfile::tempdir_in("/dev/shm") {
        let file = shared.path().join("file");
        std::fs::write(&file, [1; 8192]).unwrap();
        assert!(said(&["fragmentation", &file.display().to_string()], 3).contains("tmpfs has no device"));
    }
}

#[test]
fn a_file_of_this_host_is_explained_where_its_file_system_says_where_it_lies() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("file"), vec![1; 3 << 20]).unwrap();
    let output = weir(home.path()).args(["explain", "fragmentation", "file", "--json"]).output().unwrap();
    if output.status.code() == Some(3) {
        eprintln!("SKIPPED: {}", told(&output));
        return;
    }
    let told_of = document(&output);
    let extents = told_of["extents"].as_array().unwrap();
    let bytes: u64 = extents.iter().map(|extent| extent["bytes"].as_u64().unwrap()).sum();
    assert_eq!((bytes, &told_of["bytes"]), (3 << 20, &(3 << 20).into()), "{told_of}");
}

#[test]
fn block_devices_are_listed_and_shown_among_the_media() {
    let home = tempfile::tempdir().unwrap();
    let media = document(&weir(home.path()).args(["list", "media", "--json"]).output().unwrap());
    let media = media["media"].as_array().unwrap().clone();
    for (name, words) in [("fast24", "FAST 2024"), ("loop", "RAM disk"), ("nvmevirt.970pro", "block device")]
    {
        let about = media.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        assert!(about["summary"].as_str().unwrap().contains(words), "{about}");
        assert!(weir(home.path()).args(["show", name]).output().unwrap().status.success(), "{name}");
    }
}
