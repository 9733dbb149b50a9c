//! Formats of other tools: they have the numbers of the result, in the terms of the tool, and none for a run that did not end.

use std::collections::BTreeMap;

use report::{Report, by_name};
use results::{
    Clock, FailureKind, InputKind, InputRecord, JobRecord, OperationRecord, ResultFile, SampleFailure,
};
use serde_json::Value;

use crate::sample;

fn bytes(format: &str, file: ResultFile) -> Result<Vec<u8>, String> {
    let report = Report::new(vec![file]).unwrap();
    by_name(format).unwrap().bytes(&report).map_err(|error| error.to_string())
}

fn json(format: &str, file: ResultFile) -> Value {
    serde_json::from_slice(&bytes(format, file).unwrap()).unwrap()
}

fn text(format: &str, file: ResultFile) -> String {
    String::from_utf8(bytes(format, file).unwrap()).unwrap()
}

/// One repeat each, of which one failed and one was cut short.
fn unfinished() -> ResultFile {
    let mut file = sample::bars();
    file.samples.retain(|sample| sample.repeat == 0);
    file.samples[0].failure = Some(SampleFailure { kind: FailureKind::Run, what: "no space".into() });
    file.samples[1].partial = true;
    file
}

fn record(name: &str, direction: &str, count: u64) -> JobRecord {
    let mut record = JobRecord {
        name: name.into(),
        direction: direction.into(),
        jobs: 1,
        count,
        bytes: count * 4096,
        elapsed_ns: 2_000_000,
        ..JobRecord::default()
    };
    (1..=count).for_each(|n| {
        record.clat_ns.record(n * 1000);
        record.lat_ns.record(n * 1000 + 7);
    });
    record
}

/// A job that reads and writes, one that only writes, and the sum of their group.
fn of_jobs() -> ResultFile {
    let mut file = sample::bars();
    file.samples.truncate(1);
    file.samples[0].axes.insert("workload".into(), "jobs.fio".into());
    file.samples[0].jobs = vec![
        record("rd", "read", 100),
        record("rd", "write", 50),
        record("wr", "write", 10),
        record("wr", "sync", 5),
        record("group 0", "write", 60),
    ];
    let text = "[global]\nbs=4k\niodepth=1\n[rd]\nrw=randrw\n[wr]\nrw=write\nfsync=2\nstonewall\n";
    file.inputs = vec![InputRecord { kind: InputKind::Workload, name: "jobs.fio".into(), text: text.into() }];
    file.environment.started_utc = Some("2026-11-26 22:51".into());
    file
}

#[test]
fn fio_json_has_rates_latencies_and_options_of_each_job() {
    let document = json("fio-json", of_jobs());
    assert_eq!(document["timestamp"], 1_795_733_460_u64);
    assert_eq!(document["global options"]["bs"], "4k");
    let jobs = document["jobs"].as_array().unwrap();
    let names: Vec<_> = jobs.iter().map(|job| job["jobname"].as_str().unwrap()).collect();
    assert_eq!(names, ["rd", "wr"], "the sum of a group is no job");
    let read = &jobs[0]["read"];
    assert_eq!((read["total_ios"].as_u64(), read["io_bytes"].as_u64()), (Some(100), Some(409_600)));
    assert_eq!(read["iops"], 50_000.0);
    assert_eq!((read["bw_bytes"].as_u64(), read["bw"].as_u64()), (Some(204_800_000), Some(200_000)));
    assert_eq!(read["clat_ns"]["N"], 100);
    let p99 = read["clat_ns"]["percentile"]["99.000000"].as_u64().unwrap();
    assert!((99_000..=99_100).contains(&p99), "{p99}");
    let bins = read["clat_ns"]["bins"].as_object().unwrap();
    assert_eq!(bins.values().filter_map(Value::as_u64).sum::<u64>(), 100);
    assert_eq!(jobs[0]["trim"]["total_ios"], 0);
    assert_eq!((&jobs[1]["sync"]["total_ios"], &jobs[1]["sync"]["lat_ns"]["N"]), (&5.into(), &5.into()));
    assert_eq!(jobs[1]["job options"]["fsync"], "2");
    assert_eq!(jobs[1]["job options"]["stonewall"], "");
    assert_eq!(jobs[0]["weir"]["clock"], "virtual");
    let shares =
        ["latency_ns", "latency_us", "latency_ms"].map(|unit| jobs[0][unit].as_object().unwrap().values());
    let all: f64 = shares.into_iter().flatten().filter_map(Value::as_f64).sum();
    assert!((all - 100.0).abs() < 1e-6, "{all}");
}

#[test]
fn fio_json_of_several_samples_names_the_cell_of_each_job() {
    let mut file = of_jobs();
    let mut other = file.samples[0].clone();
    other.axes.insert("fs".into(), "nova".into());
    file.samples.push(other);
    let document = json("fio-json", file);
    let names: Vec<_> =
        document["jobs"].as_array().unwrap().iter().map(|job| job["jobname"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 4);
    assert!(names[2].contains("nova") && names[2].ends_with(" rd"), "{names:?}");
}

#[test]
fn fio_json_of_a_result_without_jobs_is_refused_with_what_to_do() {
    let told = bytes("fio-json", sample::bars()).unwrap_err();
    assert!(told.contains("run a job file"), "{told}");
    let mut failed = of_jobs();
    failed.samples[0].partial = true;
    assert!(bytes("fio-json", failed).unwrap_err().contains("none that ran to their end"));
}

#[test]
fn a_run_that_failed_or_was_cut_short_is_a_number_in_no_format() {
    let file = unfinished();
    let left_out = [&file.samples[0], &file.samples[1]].map(|sample| sample.axes["fs"].clone());
    let workload = file.samples[0].axes["workload"].clone();
    let text = text("folded", file.clone());
    for fs in &left_out {
        assert!(!text.contains(&format!("{workload} {fs} ")), "{fs}");
    }
    assert!(text.contains(&file.samples[2].axes["fs"]));
    let skipped = |file| by_name("folded").unwrap().skips(&Report::new(vec![file]).unwrap());
    let told = skipped(file).unwrap();
    assert!(told.starts_with("2 of 20 samples failed or were cut short"), "{told}");
    assert_eq!(skipped(sample::bars()), None);
}

/// The sums of the lines of a folded document by their first two frames.
fn sums(text: &str) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for line in text.lines() {
        let (stack, ns) = line.rsplit_once(' ').unwrap();
        let call: Vec<&str> = stack.split(';').take(2).collect();
        *sums.entry(call.join(";")).or_insert(0) += ns.parse::<u64>().unwrap();
    }
    sums
}

#[test]
fn folded_stacks_of_a_call_sum_to_its_time() {
    let file = sample::bars();
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for sample in &file.samples {
        let axes = &sample.axes;
        let cell = format!("{} {} medium nvmm threads 8 (virtual clock)", axes["workload"], axes["fs"]);
        for call in sample.operations.iter().filter(|call| call.total_ns > 0) {
            *expected.entry(format!("{cell};{}", call.kind)).or_insert(0) += call.total_ns;
        }
    }
    assert!(!expected.is_empty());
    assert_eq!(sums(&text("folded", file)), expected);
}

#[test]
fn waits_for_locks_are_frames_of_their_own_and_names_cannot_break_a_line() {
    let mut file = sample::bars();
    file.samples.truncate(1);
    let mut call = OperationRecord::new("write;\nx");
    call.total_ns = 100;
    call.time_ns = [("copy".to_owned(), 60), ("lock_wait".to_owned(), 40)].into();
    call.lock_wait_ns = [("pmfs.inode".to_owned(), 30)].into();
    let mut host = OperationRecord::new("read");
    host.total_ns = 7;
    file.samples[0].operations = vec![call, host];
    let text = text("folded", file);
    let tails: Vec<&str> = text.lines().map(|line| line.split_once("clock);").unwrap().1).collect();
    let expected =
        ["write, x;copy 60", "write, x;lock_wait;pmfs.inode 30", "write, x;lock_wait 10", "read 7"];
    assert_eq!(tails, expected);
}

/// What a mount says of itself, with counters whose parts are a sum and a counter of time.
fn of_mount() -> ResultFile {
    let mut file = sample::bars();
    file.samples.truncate(1);
    file.name = "mount".into();
    file.clock = Clock::Real;
    file.plan = serde_json::json!({ "mount": "/mnt/a \"b\"" });
    let mut call =
        OperationRecord { kind: "write".into(), count: 3, bytes: 4096, ..OperationRecord::default() };
    call.time_ns = BTreeMap::from([("copy".into(), 1_500_000_000), ("lock_wait".into(), 30)]);
    call.lock_wait_ns = BTreeMap::from([("fs.inode".into(), 20)]);
    file.samples[0].operations = vec![call];
    file.samples[0].counters = [("fences", 10), ("fences.data", 7), ("fences.journal", 3), ("idle_ns", 5)]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
    file
}

#[test]
fn prometheus_has_the_calls_times_and_counters_of_a_mount_each_once() {
    let text = text("prometheus", of_mount());
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(lines.iter().all(|line| line.contains(r#"{mount="/mnt/a \"b\"",clock="real","#)), "{text}");
    let value = |name: &str, labels: &[&str]| {
        let is =
            |line: &&&str| line.starts_with(&format!("{name}{{")) && labels.iter().all(|l| line.contains(l));
        let found: Vec<_> = lines.iter().filter(is).collect();
        assert_eq!(found.len(), 1, "{name} {labels:?}: {text}");
        found[0].rsplit_once(' ').unwrap().1.to_owned()
    };
    assert_eq!(value("weir_operations_total", &[r#"operation="write""#]), "3");
    assert_eq!(value("weir_operation_bytes_total", &[]), "4096");
    assert_eq!(value("weir_operation_seconds_total", &[r#"activity="copy""#]), "1.500000000");
    assert_eq!(value("weir_operation_seconds_total", &[r#"lock="fs.inode""#]), "0.000000020");
    assert_eq!(value("weir_operation_seconds_total", &[r#"activity="lock_wait"}"#]), "0.000000010");
    assert_eq!(value("weir_fences_total", &[r#"part="data""#]), "7");
    assert_eq!(value("weir_idle_seconds_total", &[]), "0.000000005");
    assert_eq!(
        lines.iter().filter(|line| line.starts_with("weir_fences")).count(),
        2,
        "no sum beside its parts"
    );
    lines.sort_unstable();
    lines.dedup();
    let types: Vec<_> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    let names = lines.iter().map(|line| line.split('{').next().unwrap());
    assert!(names.clone().all(|name| types.iter().any(|line| line.contains(&format!(" {name} ")))), "{text}");
    assert!(bytes("prometheus", sample::bars()).unwrap_err().contains("give the directory of one"));
}
