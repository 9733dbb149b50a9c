//! The table that `.csv` and `.parquet` were until version 0.1: a row for each sample and each kind of operation in it, counters
//! and ledgers as columns. `weir report --wide` writes it for one version more.
//!
//! The column `operation` is `all` in the row that carries the sample's own numbers and counters; filter on
//! it. Rows of a kind (`write`) carry its ledger; rows of a workload's step are called `step:NAME`, those of a worker
//! `worker:NUMBER`, those of a direction of one of fio's jobs `job:NAME:DIRECTION`. Units are in the heads; a cell is empty where
//! the number does not exist. Rates over time are the calls of each part, separated by spaces.

use super::{Column, Grain, Type, Value};
use crate::Report;
use results::{Histogram, HostRecord, JobRecord, ResultFile, Sample};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

/// The wide table of `report`.
pub(super) fn wide(report: &Report) -> Grain {
    let rows: Vec<Row> = report.sections.iter().flat_map(|section| rows(&section.results)).collect();
    let heads = heads(&rows);
    let column = |head: &String| Column { name: head.clone(), of: type_of(head), unit: "", meaning: "" };
    let mut grain =
        Grain::new("wide", "a sample or a kind of operation in it", heads.iter().map(column).collect());
    let cell = |row: &Row, column: &Column| row.get(&column.name).and_then(|text| typed(text, column.of));
    let cells = |row: &Row| {
        grain.columns.iter().map(|column| cell(row, column).unwrap_or(Value::Empty)).collect::<Vec<_>>()
    };
    grain.rows = rows.iter().map(cells).collect();
    grain
}

/// What the cells below a head are.
fn type_of(head: &str) -> Type {
    match head {
        "plan" | "clock" | "machine" | "operation" | "notes" | "failed" | "host_noise" | "series_ops" => {
            Type::Text
        }
        "partial" => Type::Flag,
        "throughput_ops_per_s" | "host_drift_percent" => Type::Number,
        mean if mean.ends_with("_mean_ns") || mean.ends_with("_stddev_ns") => Type::Number,
        axis if axis.starts_with("axis.") => Type::Text,
        _ => Type::Count,
    }
}

fn typed(text: &str, of: Type) -> Option<Value> {
    Some(match of {
        Type::Text => Value::Text(text.to_owned()),
        Type::Count => Value::Count(text.parse().ok()?),
        Type::Number => Value::Number(text.parse().ok()?),
        Type::Flag => Value::Flag(text.parse().ok()?),
    })
}

/// Head to cell.
type Row = BTreeMap<String, String>;

/// The heads that always come, in their order.
const FIXED: [&str; 18] = [
    "repeat",
    "seed",
    "clock",
    "machine",
    "operation",
    "count",
    "errors",
    "elapsed_ns",
    "throughput_ops_per_s",
    "read_ops",
    "write_ops",
    "read_bytes",
    "written_bytes",
    "bytes",
    "total_ns",
    "partial",
    "notes",
    "failed",
];
const LATENCIES: [&str; 10] = ["mean", "stddev", "min", "p50", "p90", "p95", "p99", "p99_9", "p99_99", "max"];

/// `plan`, the axes, the fixed heads, the latencies, then ledgers and counters by name.
fn heads(rows: &[Row]) -> Vec<String> {
    let mut heads = vec!["plan".to_owned()];
    let all: BTreeSet<&String> = rows.iter().flat_map(BTreeMap::keys).collect();
    let axes = all.iter().filter(|head| head.starts_with("axis."));
    heads.extend(axes.map(|head| (*head).clone()));
    heads.extend(FIXED.map(str::to_owned));
    heads.extend(LATENCIES.map(|name| format!("latency_{name}_ns")));
    let rest: Vec<String> = all.into_iter().filter(|head| !heads.contains(head)).cloned().collect();
    heads.extend(rest);
    heads
}

fn rows(results: &ResultFile) -> Vec<Row> {
    let mut rows = Vec::new();
    for sample in &results.samples {
        rows.push(sample_row(results, sample));
        for operation in &sample.operations {
            let mut row = cell_row(results, sample, &operation.kind);
            put(&mut row, "count", operation.count);
            put(&mut row, "errors", operation.errors);
            put(&mut row, "bytes", operation.bytes);
            put(&mut row, "total_ns", operation.total_ns);
            put_all(&mut row, "time_ns", &operation.time_ns);
            put_all(&mut row, "lock_wait_ns", &operation.lock_wait_ns);
            put_all(&mut row, "line_wait_ns", &operation.line_wait_ns);
            put_all(&mut row, "named_ns", &operation.named_ns);
            put_latency(&mut row, "latency", &operation.latency_ns);
            rows.push(row);
        }
        for step in &sample.steps {
            let mut row = cell_row(results, sample, &format!("step:{}", step.name));
            put(&mut row, "count", step.count);
            put(&mut row, "bytes", step.bytes);
            put_latency(&mut row, "latency", &step.latency_ns);
            rows.push(row);
        }
        for (number, worker) in sample.workers.iter().enumerate() {
            let mut row = cell_row(results, sample, &format!("worker:{number}"));
            put(&mut row, "count", worker.ops);
            put(&mut row, "errors", worker.errors);
            put(&mut row, "elapsed_ns", worker.elapsed_ns);
            rows.push(row);
        }
        rows.extend(sample.jobs.iter().map(|job| job_row(results, sample, job)));
    }
    rows
}

fn job_row(results: &ResultFile, sample: &Sample, job: &JobRecord) -> Row {
    let mut row = cell_row(results, sample, &format!("job:{}:{}", job.name, job.direction));
    put(&mut row, "count", job.count);
    put(&mut row, "bytes", job.bytes);
    put(&mut row, "elapsed_ns", job.elapsed_ns);
    put_latency(&mut row, "latency", &job.lat_ns);
    put_latency(&mut row, "clat", &job.clat_ns);
    put_latency(&mut row, "slat", &job.slat_ns);
    row
}

fn cell_row(results: &ResultFile, sample: &Sample, operation: &str) -> Row {
    let mut row: Row =
        sample.axes.iter().map(|(name, value)| (format!("axis.{name}"), value.clone())).collect();
    put(&mut row, "plan", &results.name);
    put(&mut row, "repeat", sample.repeat);
    put(&mut row, "seed", sample.seed);
    put(&mut row, "clock", results.clock);
    put(&mut row, "machine", &results.machine);
    put(&mut row, "operation", operation);
    row
}

fn sample_row(results: &ResultFile, sample: &Sample) -> Row {
    let mut row = cell_row(results, sample, "all");
    put(&mut row, "count", sample.ops);
    put(&mut row, "errors", sample.errors);
    put(&mut row, "elapsed_ns", sample.elapsed_ns);
    put(&mut row, "throughput_ops_per_s", sample.throughput_ops_per_s);
    put(&mut row, "read_ops", sample.read_ops);
    put(&mut row, "write_ops", sample.write_ops);
    put(&mut row, "read_bytes", sample.read_bytes);
    put(&mut row, "written_bytes", sample.written_bytes);
    put(&mut row, "partial", sample.partial);
    put(&mut row, "notes", sample.notes.join("; "));
    if let Some(failure) = &sample.failure {
        put(&mut row, "failed", &failure.what);
    }
    put_latency(&mut row, "latency", &sample.latency_ns());
    put_all(&mut row, "counter", &sample.counters);
    if let Some(host) = &sample.host {
        put_host(&mut row, host);
    }
    if let Some(series) = &sample.series {
        let ops: Vec<String> = series.ops.iter().map(u64::to_string).collect();
        put(&mut row, "series_step_ns", series.step_ns);
        put(&mut row, "series_ops", ops.join(" "));
    }
    row
}

/// What else the host did.
fn put_host(row: &mut Row, host: &HostRecord) {
    put(row, "host_noise", host.noise.join("; "));
    put(row, "host_wall_ns", host.wall_ns);
    put(row, "host_cpu_ns", host.cpu_ns);
    put(row, "host_others_ns", host.others_ns);
    put(row, "host_steal_ns", host.steal_ns);
    put(row, "host_load_percent", host.load_percent);
    put(row, "host_drift_percent", host.drift_percent);
    put(row, "host_attempts", host.attempts);
}

fn put(row: &mut Row, head: &str, value: impl Display) {
    row.insert(head.to_owned(), value.to_string());
}

fn put_all(row: &mut Row, group: &str, values: &BTreeMap<String, u64>) {
    for (name, value) in values {
        put(row, &format!("{group}.{name}"), value);
    }
}

fn put_latency(row: &mut Row, what: &str, histogram: &Histogram) {
    if histogram.is_empty() {
        return;
    }
    let s = histogram.summary();
    put(row, &format!("{what}_mean_ns"), s.mean_ns);
    put(row, &format!("{what}_stddev_ns"), s.stddev_ns);
    let whole = [s.min_ns, s.p50_ns, s.p90_ns, s.p95_ns, s.p99_ns, s.p99_9_ns, s.p99_99_ns, s.max_ns];
    for (name, value) in LATENCIES[2..].iter().zip(whole) {
        put(row, &format!("{what}_{name}_ns"), value);
    }
}
