//! What a page shows of every cell besides the figures of its plan: how latencies are distributed by kind of operation, how the
//! rate went over time, and the samples behind each number with the command that runs that cell again.

use crate::axis;
use crate::cell::{self, Cell};
use crate::chart::Curves;
use crate::table::Table;
use crate::units::Unit;
use results::{Histogram, ResultFile, program};
use std::collections::{BTreeMap, BTreeSet};

/// Charts on a page; all numbers are in the tables.
pub(crate) const ON_PAGE: usize = 24;
/// Kinds of operations with a chart, those that take the most time first.
const MOST_KINDS: usize = 4;
/// Calls that a curve is drawn of: what fewer show is in the tables.
const FEWEST_CALLS: u64 = 20;
/// The largest quantile of a curve.
const LAST_QUANTILE: f64 = 0.9999;

/// Charts that fit on a page, and how many do not.
pub(crate) struct Charts {
    pub(crate) drawn: Vec<Curves>,
    pub(crate) left_out: usize,
}

impl Charts {
    fn of(mut drawn: Vec<Curves>, most: usize) -> Self {
        let left_out = drawn.len().saturating_sub(most);
        drawn.truncate(most);
        Self { drawn, left_out }
    }
}

/// The distributions of latencies: a chart for each place and kind of operation, a curve for each design. Where there are many
/// places, fewer kinds are drawn of each, so that there are no more than `most` charts if that can be.
pub(crate) fn latencies(results: &ResultFile, most: usize) -> Charts {
    let cells = cell::cells(results);
    let design = axis::design_axis(cell::all_axes(&cells).keys().copied());
    let places = places(&cells, design);
    let most_kinds = (most / places.len().max(1)).clamp(1, MOST_KINDS);
    let mut charts = Vec::new();
    for (place, members) in places {
        let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
        for operation in members.iter().flat_map(|cell| cell.operations()) {
            // What a program does between its calls is no call.
            if !operation.latency_ns.is_empty() && operation.kind != program::OPERATION {
                *kinds.entry(operation.kind).or_default() += operation.total_ns;
            }
        }
        let mut kinds: Vec<(String, u64)> = kinds.into_iter().collect();
        kinds.sort_by_key(|(kind, total)| (std::cmp::Reverse(*total), kind.clone()));
        for (kind, _) in kinds.into_iter().take(most_kinds) {
            let line = |cell: &&Cell<'_>| {
                let operation = cell.operations().into_iter().find(|operation| operation.kind == kind)?;
                let points = distribution(&operation.latency_ns);
                (operation.latency_ns.count() >= FEWEST_CALLS)
                    .then(|| (cell.axis(design).unwrap_or("all").to_owned(), points))
            };
            let lines: Vec<_> = members.iter().filter_map(line).collect();
            if !lines.is_empty() {
                charts.push(Curves {
                    title: joined(&place, &kind),
                    x: ("latency".to_owned(), Unit::Nanos),
                    x_log: true,
                    y: ("part of the operations (%)".to_owned(), Unit::Count),
                    y_most: Some(100.0),
                    lines,
                });
            }
        }
    }
    Charts::of(charts, most)
}

/// Points of a distribution function: latency in nanoseconds, per cent of the operations that took no longer.
fn distribution(latency: &Histogram) -> Vec<(f64, f64)> {
    let all = latency.count().max(1) as f64;
    let (mut before, mut points) = (0, Vec::new());
    for (ns, count) in latency.values() {
        // Nothing lies between two values: the curve goes on level to the next, and rises there.
        points.push((ns.max(1) as f64, before as f64 / all * 100.0));
        before += count;
        let part = before as f64 / all;
        points.push((ns.max(1) as f64, part * 100.0));
        if part > LAST_QUANTILE {
            break;
        }
    }
    // A step is drawn by its corners; neighbours that cannot be told apart are left out.
    let mut kept: Vec<(f64, f64)> = Vec::new();
    let last = points.len().saturating_sub(1);
    for (at, point) in points.into_iter().enumerate() {
        let far = kept.last().is_none_or(|(ns, part)| point.1 - part > 0.2 || point.0 / ns > 1.01);
        if far || at == last {
            kept.push(point);
        }
    }
    kept
}

/// How the rate of calls went over the measured time: a chart for each place, a curve for each design; `most` charts.
pub(crate) fn over_time(results: &ResultFile, most: usize) -> Charts {
    let cells = cell::cells(results);
    let design = axis::design_axis(cell::all_axes(&cells).keys().copied());
    let mut charts = Vec::new();
    for (place, members) in places(&cells, design) {
        let line = |cell: &&Cell<'_>| {
            let series = cell.measured().find_map(|sample| sample.series.as_ref())?;
            if series.ops.iter().sum::<u64>() < FEWEST_CALLS {
                return None;
            }
            let step = series.step_ns as f64;
            let rate = |(at, ops): (usize, &u64)| (at as f64 * step, *ops as f64 * 1e9 / step);
            let points: Vec<(f64, f64)> = series.ops.iter().enumerate().map(rate).collect();
            Some((cell.axis(design).unwrap_or("all").to_owned(), points))
        };
        let lines: Vec<_> = members.iter().filter_map(line).collect();
        if !lines.is_empty() {
            charts.push(Curves {
                title: place,
                x: ("time since the measurement began".to_owned(), Unit::Nanos),
                x_log: false,
                y: ("calls".to_owned(), Unit::OpsPerSecond),
                y_most: None,
                lines,
            });
        }
    }
    Charts::of(charts, most)
}

/// Mean, least and largest rate of the parts of the measured time, for the table under those curves.
pub(crate) fn over_time_table(results: &ResultFile) -> Table {
    let mut table =
        Table::new("Calls a second in the hundredths of the measured time, first run of each cell");
    table.words("cell");
    for name in ["mean", "least", "largest"] {
        table.numbers(name);
    }
    let cells = cell::cells(results);
    let varying = cell::varying_axes(&cells);
    for cell in &cells {
        let Some(series) = cell.measured().find_map(|sample| sample.series.as_ref()) else { continue };
        let rate = |ops: f64| Unit::OpsPerSecond.human(ops * 1e9 / series.step_ns.max(1) as f64);
        let sum: u64 = series.ops.iter().sum();
        let (least, most) = (series.ops.iter().min(), series.ops.iter().max());
        let row = vec![
            short(cell, &varying),
            rate(sum as f64 / series.ops.len().max(1) as f64),
            rate(least.copied().unwrap_or(0) as f64),
            rate(most.copied().unwrap_or(0) as f64),
        ];
        table.row_of(cell.number, row);
    }
    table
}

/// Percentiles of each kind of operation in each cell.
pub(crate) fn percentiles(results: &ResultFile) -> Table {
    let mut table = Table::new("Latency by kind of operation, all runs of a cell together");
    table.words("cell");
    table.words("operation");
    table.numbers("count");
    for name in ["mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"] {
        table.numbers(name);
    }
    let cells = cell::cells(results);
    let varying = cell::varying_axes(&cells);
    for cell in &cells {
        for operation in cell.operations().iter().filter(|operation| !operation.latency_ns.is_empty()) {
            let s = operation.latency_ns.summary();
            let ns = |value: u64| Unit::Nanos.human(value as f64);
            let mut row = vec![
                short(cell, &varying),
                operation.kind.clone(),
                Unit::Count.human(operation.count as f64),
            ];
            row.push(Unit::Nanos.human(s.mean_ns));
            row.extend([s.p50_ns, s.p90_ns, s.p99_ns, s.p99_9_ns, s.p99_99_ns, s.max_ns].map(ns));
            table.row_of(cell.number, row);
        }
    }
    table
}

/// The samples of one cell, and the command that runs it again.
pub(crate) struct Origin {
    /// The cell's number, in the order in which they ran.
    pub(crate) number: usize,
    /// The cell in words.
    pub(crate) name: String,
    /// Repeat, seed and throughput of each sample, or why there is none.
    pub(crate) samples: String,
    /// The command.
    pub(crate) command: String,
}

/// The samples behind every number of a result, which lies in `file`.
pub(crate) fn origins(results: &ResultFile, file: &str) -> Vec<Origin> {
    let cells = cell::cells(results);
    let varying = varying(results, &cells);
    let origin = |cell: &Cell<'_>| {
        let each = cell.samples.iter().map(|sample| {
            let came = match &sample.failure {
                Some(failure) => format!("failed: {}", failure.what),
                None => Unit::OpsPerSecond.human(sample.throughput_ops_per_s),
            };
            format!("run {} (seed {}): {came}", sample.repeat + 1, sample.seed)
        });
        let only = cell.axes.iter().filter(|(name, _)| varying.contains(name.as_str()));
        let only: Vec<String> =
            only.map(|(name, value)| format!(" --only {}", quoted(&format!("{name}={value}")))).collect();
        Origin {
            number: cell.number,
            name: name(cell),
            samples: each.collect::<Vec<_>>().join(" · "),
            command: format!("weir run --like {}{}", quoted(file), only.concat()),
        }
    };
    cells.iter().map(origin).collect()
}

/// The axes of which one value must be named to run a cell alone: those that vary among the cells, and those of the plan, of which
/// a run that was interrupted may have left one value.
fn varying<'r>(results: &'r ResultFile, cells: &[Cell<'r>]) -> BTreeSet<&'r str> {
    let several = |list: &serde_json::Value| list.as_array().is_some_and(|list| list.len() > 1);
    let axes = results.plan["axis"].as_array().into_iter().flatten();
    let planned = axes.filter(|axis| several(&axis["values"])).filter_map(|axis| axis["name"].as_str());
    let workload = several(&results.plan["workload"]).then_some("workload");
    cell::varying_axes(cells).into_keys().chain(planned).chain(workload).collect()
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,%".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

fn name(cell: &Cell<'_>) -> String {
    crate::compare::name(cell.axes)
}

/// The name by what varies among the cells; the whole one where nothing does.
fn short(cell: &Cell<'_>, varying: &BTreeMap<&str, Vec<&str>>) -> String {
    let axes = cell.axes.iter().filter(|(axis, _)| varying.contains_key(axis.as_str()));
    let axes: BTreeMap<String, String> = axes.map(|(axis, value)| (axis.clone(), value.clone())).collect();
    crate::compare::name(&axes)
}

/// The cells by everything but the design, with the words for each group.
fn places<'c>(cells: &'c [Cell<'c>], design: &str) -> Vec<(String, Vec<&'c Cell<'c>>)> {
    let varying = cell::varying_axes(cells);
    let mut places: Vec<(String, Vec<&Cell<'_>>)> = Vec::new();
    for cell in cells {
        let same = |place: &&mut (String, Vec<&Cell<'_>>)| cell::same_place(place.1[0], cell, design);
        if let Some(place) = places.iter_mut().find(same) {
            place.1.push(cell);
            continue;
        }
        let words = varying.keys().filter(|axis| **axis != design).filter_map(|axis| {
            let value = axis::label(cell.axis(axis)?, &varying[axis]);
            Some(if *axis == "workload" { value } else { format!("{} {value}", axis::title(axis)) })
        });
        places.push((words.collect::<Vec<_>>().join(", "), vec![cell]));
    }
    places
}

fn joined(place: &str, kind: &str) -> String {
    if place.is_empty() { kind.to_owned() } else { format!("{place}: {kind}") }
}
