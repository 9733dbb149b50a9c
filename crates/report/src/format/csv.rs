//! CSV: a row for each sample and each kind of operation in it.
//!
//! The column `operation` is `all` in the row that carries the sample's own numbers and counters; filter on
//! it. Rows of a kind (`write`) carry its ledger; rows of a workload's step are called `step:NAME`. Units
//! are in the heads; a cell is empty where the number does not exist.

use super::{Format, RenderError};
use crate::Report;
use results::{Histogram, ResultFile, Sample};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

pub(super) struct Csv;

impl Format for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn extension(&self) -> &'static str {
        "csv"
    }

    fn summary(&self) -> &'static str {
        "a row for each sample and operation, for spreadsheets"
    }

    fn bytes(&self, report: &Report) -> Result<Vec<u8>, RenderError> {
        let rows: Vec<Row> = report.sections.iter().flat_map(|section| rows(&section.results)).collect();
        let heads = heads(&rows);
        let mut writer = ::csv::Writer::from_writer(Vec::new());
        writer.write_record(&heads)?;
        for row in &rows {
            writer.write_record(heads.iter().map(|head| row.get(head).map_or("", String::as_str)))?;
        }
        Ok(writer.into_inner().map_err(|error| ::csv::Error::from(error.into_error()))?)
    }
}

/// Head to cell.
pub(super) type Row = BTreeMap<String, String>;

/// The heads that always come, in their order.
const FIXED: [&str; 16] = [
    "repeat",
    "seed",
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
pub(super) fn heads(rows: &[Row]) -> Vec<String> {
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

pub(super) fn rows(results: &ResultFile) -> Vec<Row> {
    let mut rows = Vec::new();
    for sample in &results.samples {
        rows.push(sample_row(&results.name, sample));
        for operation in &sample.operations {
            let mut row = cell_row(&results.name, sample, &operation.kind);
            put(&mut row, "count", operation.count);
            put(&mut row, "errors", operation.errors);
            put(&mut row, "bytes", operation.bytes);
            put(&mut row, "total_ns", operation.total_ns);
            put_all(&mut row, "time_ns", &operation.time_ns);
            put_all(&mut row, "lock_wait_ns", &operation.lock_wait_ns);
            put_latency(&mut row, &operation.latency_ns);
            rows.push(row);
        }
        for step in &sample.steps {
            let mut row = cell_row(&results.name, sample, &format!("step:{}", step.name));
            put(&mut row, "count", step.count);
            put(&mut row, "bytes", step.bytes);
            put_latency(&mut row, &step.latency_ns);
            rows.push(row);
        }
    }
    rows
}

fn cell_row(plan: &str, sample: &Sample, operation: &str) -> Row {
    let mut row: Row =
        sample.axes.iter().map(|(name, value)| (format!("axis.{name}"), value.clone())).collect();
    put(&mut row, "plan", plan);
    put(&mut row, "repeat", sample.repeat);
    put(&mut row, "seed", sample.seed);
    put(&mut row, "operation", operation);
    row
}

fn sample_row(plan: &str, sample: &Sample) -> Row {
    let mut row = cell_row(plan, sample, "all");
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
    put_latency(&mut row, &sample.latency_ns());
    put_all(&mut row, "counter", &sample.counters);
    row
}

fn put(row: &mut Row, head: &str, value: impl Display) {
    row.insert(head.to_owned(), value.to_string());
}

fn put_all(row: &mut Row, group: &str, values: &BTreeMap<String, u64>) {
    for (name, value) in values {
        put(row, &format!("{group}.{name}"), value);
    }
}

fn put_latency(row: &mut Row, histogram: &Histogram) {
    if histogram.is_empty() {
        return;
    }
    let s = histogram.summary();
    put(row, "latency_mean_ns", s.mean_ns);
    put(row, "latency_stddev_ns", s.stddev_ns);
    let whole = [s.min_ns, s.p50_ns, s.p90_ns, s.p95_ns, s.p99_ns, s.p99_9_ns, s.p99_99_ns, s.max_ns];
    for (name, value) in LATENCIES[2..].iter().zip(whole) {
        put(row, &format!("latency_{name}_ns"), value);
    }
}
