//! Invented data for tests and for the sample page. It says so in its name, its notes and its claims:
//! nothing here was measured.

use results::claim::{Claim, Input, Origin};
use results::{
    ClaimOutcome, Clock, Environment, HypothesisOutcome, OperationRecord, PlacementRecord, ReadingOutcome,
    ResultFile, Sample, SpanRecord, StepRecord,
};
use serde_json::json;
use std::collections::BTreeMap;

const DESIGNS: [(&str, f64); 5] =
    [("pmfs", 1.0), ("hinfs", 2.7), ("ext4-dax", 0.8), ("ext2", 0.45), ("ext4", 0.38)];
const WORKLOADS: [(&str, f64); 4] = [
    ("filebench/fileserver", 21_000.0),
    ("filebench/webserver", 310_000.0),
    ("filebench/webproxy", 96_000.0),
    ("filebench/varmail", 140_000.0),
];
const REPEATS: u32 = 6;

/// Designs by workloads, with claims, hypotheses and a ledger.
pub(crate) fn bars() -> ResultFile {
    let mut file = empty("sample-bars", "Invented numbers: which design serves which workload best?");
    for repeat in 0..REPEATS {
        for (workload, base) in WORKLOADS {
            for (fs, factor) in DESIGNS {
                let axes = [("workload", workload), ("fs", fs), ("medium", "nvmm"), ("threads", "8")];
                let speed = if workload.ends_with("server") && fs == "hinfs" { 1.01 } else { factor };
                let rate = base * if workload.ends_with("fileserver") { factor } else { speed };
                let mut one = sample(&axes, repeat, rate);
                one.placement = placement(fs);
                file.samples.push(one);
            }
        }
    }
    file.claims = claims();
    file.claims.iter_mut().for_each(under_readings);
    file.hypotheses = vec![HypothesisOutcome {
        says: "hinfs/fileserver > pmfs/fileserver".into(),
        holds: true,
        ratio: Some(2.7),
        low: Some(2.66),
        high: Some(2.74),
        range: false,
        reason: Some("the interval lies above 1".into()),
    }];
    file
}

/// A file that goes round eight dies, and one on a single die.
fn placement(fs: &str) -> Option<PlacementRecord> {
    let runs = match fs {
        "hinfs" => (0..256).map(|granule| (granule % 8, 8)).collect(),
        "pmfs" => vec![(3, 2048)],
        _ => return None,
    };
    Some(PlacementRecord { dies: 8, stripe_pages: 64, runs })
}

/// Two readings and a pair with a long name.
fn under_readings(claim: &mut ClaimOutcome) {
    let names = [
        ("default", "default"),
        ("tasks", "one"),
        ("machine+a_reading_of_long_name", "one_socket+an_alternative_of_long_name"),
    ];
    let value = |at: usize| claim.value.map(|value| value * (1_u32 << at) as f64);
    let reading = |(at, (name, choice)): (usize, (&str, &str))| ReadingOutcome {
        name: name.into(),
        choice: choice.into(),
        value: value(at),
        holds: claim.holds != (at == 2),
    };
    let readings = names.into_iter().enumerate().map(reading).collect();
    *claim = claim.clone().under(readings);
}

/// Designs over threads, I/O sizes and latencies, in three results as three plans would leave them.
pub(crate) fn lines() -> Vec<ResultFile> {
    vec![
        over("threads", &["1", "2", "4", "6", "8", "10"], 0.35),
        over("iosize", &["64", "256", "1KiB", "4KiB", "16KiB", "64KiB", "1MiB"], 0.2),
        over("latency", &["50ns", "100ns", "200ns", "400ns", "800ns"], -0.3),
    ]
}

/// A replayed program on three designs: calls of every class, computing, waits for its own threads.
pub(crate) fn program() -> ResultFile {
    let mut file = empty("sample-program", "Invented numbers: on which design does a program run best?");
    file.plan = json!({"seed": 7});
    for repeat in 0..REPEATS {
        for (fs, factor) in &DESIGNS[..3] {
            let axes = [("workload", "trace:program.wtrace"), ("fs", *fs), ("medium", "nvmm")];
            let mut run = sample(&axes, repeat, 30_000.0 * factor);
            let more = ["create", "stat", "unlink", "rename", "seek"];
            run.operations.extend(more.map(|kind| {
                operation(kind, 700, 40_000.0 / factor, &[("software", 0.7), ("metadata", 0.3)])
            }));
            let own = [("software", 0.6), ("core_wait", 0.1), ("trace_order", 0.3)];
            run.operations.push(operation(results::program::OPERATION, 900, 90_000.0, &own));
            run.counters.insert("replay.differing".to_owned(), 0);
            run.spans = spans();
            file.samples.push(run);
        }
    }
    file
}

/// Long and short bars of every class, up to the end of a second.
fn spans() -> Vec<SpanRecord> {
    let classes = results::program::CLASSES.iter().enumerate();
    let of = |(at, class): (usize, &&str)| {
        let (at, name) = (at as u64, (*class).to_owned());
        (0..=at).map(move |part| SpanRecord {
            lane: name.clone(),
            kind: name.clone(),
            what: format!("{} % of the threads' time", 7 * at + 5),
            start_ps: 1_000_000_000_000 * part / (at + 1),
            end_ps: 1_000_000_000_000 * part / (at + 1) + 8_000_000_000 * (at + 1),
        })
    };
    classes.flat_map(of).collect()
}

fn over(axis: &str, values: &[&str], growth: f64) -> ResultFile {
    let mut file = empty(&format!("sample-{axis}"), "Invented numbers: how does it scale?");
    file.plan = json!({"seed": 7, "figure": [
        {"id": "8", "title": format!("Throughput over {axis}"), "kind": "lines", "x": axis,
         "panel": "workload",
         "only": {"workload": ["filebench/fileserver", "filebench/varmail"]}},
        {"id": "9", "title": "Relative to PMFS, fileserver only", "kind": "lines", "x": axis,
         "relative_to": "pmfs", "only": {"workload": "filebench/fileserver"},
         "published": [{"claim": "sample.gain", "x": values[values.len() - 1], "series": "hinfs"}]},
        {"id": "9b", "title": "Bytes written to NVMM", "kind": "bars", "x": axis,
         "metric": "counter.nvmm_written_bytes", "only": {"workload": "filebench/varmail"}},
    ]});
    for (step, value) in values.iter().enumerate() {
        for (workload, base) in [WORKLOADS[0], WORKLOADS[3]] {
            for (fs, factor) in DESIGNS {
                let axes = [("workload", workload), ("fs", fs), ("medium", "nvmm"), (axis, *value)];
                let speed = base * factor * (1.0 + growth * factor * step as f64).max(0.2);
                for repeat in 0..REPEATS {
                    file.samples.push(sample(&axes, repeat, speed));
                }
            }
        }
    }
    file.claims = claims();
    file
}

/// A result with the facts of a host and no samples.
pub(crate) fn empty(name: &str, why: &str) -> ResultFile {
    let plan =
        json!({"seed": 7, "workload": [{"suite": "filebench", "name": "varmail"}], "figure": figures()});
    let mut file = ResultFile::new(name, plan, 7, Clock::Virtual);
    file.why = why.into();
    file.command = "weir reproduce sample --seed 7".into();
    file.machine = "sample-server".into();
    file.environment = Environment {
        weir_version: "0.1.0".into(),
        cpu_model: Some("Sample CPU @ 2.6 GHz".into()),
        cores: Some(2),
        memory_bytes: Some(8 << 30),
        kernel: Some("Linux 6.1".into()),
        ..Environment::default()
    };
    file
}

fn figures() -> serde_json::Value {
    json!([
        {"id": "7", "title": "Overall performance", "kind": "bars", "relative_to": "pmfs",
         "caption": "Throughput relative to PMFS; higher is better.",
         "published": [
            {"claim": "sample.gain", "x": "filebench/fileserver", "series": "hinfs"},
            {"claim": "sample.open", "x": "filebench/webproxy", "series": "hinfs"}]},
        {"id": "7b", "title": "Absolute throughput", "kind": "bars", "x": "fs", "panel": "workload"},
        {"id": "t", "title": "Where the time of an operation went", "kind": "breakdown", "panel": "workload",
         "only": {"workload": ["filebench/fileserver", "filebench/varmail"]}},
        {"id": "x", "title": "A figure whose axis is missing", "kind": "bars", "x": "colour"},
    ])
}

fn claim(id: &str, published: Option<f64>, low: f64, high: f64) -> Claim {
    Claim {
        id: id.into(),
        paper: "Sample paper, 2016".into(),
        figure: "7".into(),
        says: format!("Invented statement {id}: X gains up to 184 % over Y"),
        published,
        low,
        high,
        fitted: id.ends_with("fitted"),
        origin: if id.ends_with("constant") { Origin::Construction } else { Origin::Paper },
        input: Input::Original,
    }
}

pub(crate) fn claims() -> Vec<ClaimOutcome> {
    vec![
        claim("sample.gain", Some(2.84), 2.41, 3.27).measured(2.7, 7, Clock::Virtual),
        claim("sample.open", None, 1.3, f64::INFINITY).measured(2.7, 7, Clock::Virtual),
        claim("sample.missed", Some(0.5), 0.0, 0.6).measured(0.9, 7, Clock::Virtual),
        claim("sample.fitted", Some(1.5), 1.2, 1.8).measured(1.5, 7, Clock::Virtual),
        claim("sample.constant", Some(17.0), 17.0, 17.0).measured(17.0, 7, Clock::Virtual),
        claim("sample.missing", None, 0.9, 1.1).not_measured(
            "needs ext4, which is not built",
            7,
            Clock::Virtual,
        ),
    ]
}

fn sample(axes: &[(&str, &str)], repeat: u32, speed: f64) -> Sample {
    let axes = axes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let mut sample = Sample::new(axes, repeat, u64::from(repeat) + 11);
    let wobble = 1.0 + (f64::from(repeat % 3) - 1.0) * 0.012;
    sample.finish((speed * wobble) as u64, 1_000_000_000);
    let each_ns = 1e9 / speed * 8.0;
    sample.operations = vec![
        operation("read", sample.ops / 3, each_ns * 0.4, &[("copy", 0.5), ("data", 0.3), ("software", 0.2)]),
        operation(
            "write",
            sample.ops / 3,
            each_ns,
            &[
                ("copy", 0.15),
                ("data", 0.3),
                ("journal", 0.15),
                ("lock_wait", 0.1),
                ("medium_wait", 0.2),
                ("software", 0.1),
            ],
        ),
        operation(
            "fsync",
            sample.ops / 9,
            each_ns * 1.5,
            &[("journal", 0.4), ("medium_wait", 0.5), ("stall", 0.1)],
        ),
    ];
    sample.steps = vec![StepRecord { name: "append".into(), count: 9, bytes: 4096, ..StepRecord::default() }];
    sample.counters = BTreeMap::from([
        ("nvmm_written_bytes".to_owned(), sample.ops * 900),
        ("fences".to_owned(), sample.ops),
    ]);
    sample.notes = vec!["sample data: invented, nothing was measured".to_owned()];
    sample
}

fn operation(kind: &str, count: u64, mean_ns: f64, parts: &[(&str, f64)]) -> OperationRecord {
    let mut record = OperationRecord::new(kind);
    record.count = count;
    record.bytes = count * 4096;
    for (part, share) in parts {
        let ns = (mean_ns * share * count as f64) as u64;
        record.time_ns.insert((*part).to_owned(), ns);
        record.total_ns += ns;
    }
    if let Some(wait) = record.time_ns.get("lock_wait") {
        record.lock_wait_ns =
            BTreeMap::from([("inode".to_owned(), wait - wait / 5), ("journal".to_owned(), wait / 5)]);
    }
    record.latency_ns.record_n(mean_ns as u64, count - count / 50);
    record.latency_ns.record_n((mean_ns * 6.0) as u64, count / 50);
    record
}
