//! Curves over the number of threads: what holds each back, and its fit by the Universal Scalability Law.

use std::collections::{BTreeMap, BTreeSet};

use results::ResultFile;
use results::scaling::{Limit, LimitKind, Usl};
use results::statistics::median;

use crate::axis;
use crate::cell::{self, Cell};
use crate::table::Table;
use crate::units::{Unit, percent, ratio};

/// The axis of locks and lines that take no time, and its value where all do.
const FREE: &str = "free";
const NOTHING: &str = "nothing";

/// The axis of the curves.
pub(crate) const THREADS: &str = "threads";

/// The cache lines of a result, with what is on them.
type Lines = BTreeMap<String, String>;

/// Cells that differ in the number of threads only.
pub(crate) struct Curve<'a> {
    /// The axes that vary among the result's cells, threads excepted.
    pub(crate) axes: BTreeMap<&'a str, &'a str>,
    /// Number of threads and cell, the smallest number first.
    pub(crate) cells: Vec<(f64, &'a Cell<'a>)>,
}

/// The curves of these cells that have at least two numbers of threads.
pub(crate) fn curves<'a>(cells: &'a [Cell<'a>]) -> Vec<Curve<'a>> {
    let varying = cell::varying_axes(cells);
    let mut curves: Vec<Curve<'a>> = Vec::new();
    for cell in cells {
        let Some(threads) = cell.axis(THREADS).and_then(|threads| threads.parse().ok()) else { continue };
        let mut axes = BTreeMap::new();
        for name in varying.keys().filter(|name| **name != THREADS) {
            axes.extend(cell.axes.get_key_value(*name).map(|(name, value)| (name.as_str(), value.as_str())));
        }
        match curves.iter_mut().find(|curve| curve.axes == axes) {
            Some(curve) => curve.cells.push((threads, cell)),
            None => curves.push(Curve { axes, cells: vec![(threads, cell)] }),
        }
    }
    for curve in &mut curves {
        curve.cells.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    curves.retain(|curve| curve.cells.len() > 1);
    curves
}

impl Curve<'_> {
    /// Number of threads and median throughput.
    pub(crate) fn points(&self) -> Vec<(f64, f64)> {
        let point = |(n, cell): &(f64, &Cell<'_>)| Some((*n, median(&cell.throughputs())?));
        self.cells.iter().filter_map(point).collect()
    }

    /// Whether nothing is free in it.
    fn is_held(&self) -> bool {
        self.axes.get(FREE).is_none_or(|free| *free == NOTHING)
    }

    /// What holds it back at the largest number of threads; none on the host where nothing is known of the time in its kernel.
    pub(crate) fn limit(&self) -> Option<Limit> {
        let (few, many) = (self.cells.first()?.1, self.cells.last()?.1);
        if many.is_host() && !many.knows_kernel() {
            return None;
        }
        Limit::of(few.measured().next()?, many.measured().next()?)
    }
}

/// The limit in words: `lock pmfs.inode 93 %`.
pub(crate) fn words(limit: &Limit, lines: &Lines) -> String {
    let what = match (limit.kind, limit.name.as_str()) {
        (LimitKind::Contended, name) if lines.contains_key(name) => format!("line {name}"),
        (LimitKind::Contended, name) => format!("lock {name}"),
        (_, "copy") => "memory bandwidth".to_owned(),
        (_, "medium_wait") => "the medium's bandwidth".to_owned(),
        (_, "memory_latency") => "the latency of memory under load".to_owned(),
        (_, "memory_turn") => "the greatest traffic of memory".to_owned(),
        (LimitKind::Part, "software") => "CPU work".to_owned(),
        (LimitKind::PartWithLines, "software") => "shared cache lines and CPU work".to_owned(),
        (_, other) => other.replace('_', " "),
    };
    format!("{what} {}", percent(limit.share))
}

/// What holds each curve of the result back, and what the cache lines among that are; none without curves.
pub(crate) fn tables(results: &ResultFile, only: &BTreeMap<String, String>) -> Vec<Table> {
    let named = named_limits(results, only);
    let mut lines = Table::new("Cache lines that limit scaling");
    lines.words("line");
    lines.words("what is on it");
    let told = results.lines.iter().filter(|(line, _)| named.contains(*line));
    lines.rows = told.map(|(line, what)| vec![line.clone(), what.clone()]).collect();
    table(results, only).into_iter().chain((!lines.rows.is_empty()).then_some(lines)).collect()
}

/// The locks and lines that hold a curve back while nothing is free.
fn named_limits(results: &ResultFile, only: &BTreeMap<String, String>) -> BTreeSet<String> {
    let cells = cells_of(results, only);
    let curves = curves(&cells);
    let limits = curves.iter().filter(|curve| curve.is_held()).filter_map(Curve::limit);
    limits.filter(|limit| limit.kind == LimitKind::Contended).map(|limit| limit.name).collect()
}

/// More names of limits than this are not written out.
const NAMES_IN_ADVICE: usize = 3;

/// How the speed-up without the limits is measured, if it was not and there are any with names.
pub(crate) fn how_to_free(results: &ResultFile, only: &BTreeMap<String, String>) -> Option<String> {
    let names = named_limits(results, only);
    if cells_of(results, only).iter().any(Cell::is_host) {
        return None;
    }
    if names.is_empty() || !results.axis_values(FREE).is_empty() {
        return None;
    }
    let flags: Vec<String> = match names.len() {
        0..=NAMES_IN_ADVICE => names.iter().map(|name| format!("--free {name}")).collect(),
        _ => vec!["--free NAME for each lock or line".to_owned()],
    };
    let flags = flags.join(" ");
    Some(format!(
        "The speed-up without a limit is measured by `weir bench` with {flags}, or by an axis \"free\" of a plan.\n"
    ))
}

fn cells_of<'a>(results: &'a ResultFile, only: &BTreeMap<String, String>) -> Vec<Cell<'a>> {
    let mut cells = cell::cells(results);
    cells.retain(|cell| only.iter().all(|(axis, value)| cell.axis(axis) == Some(value)));
    cells
}

/// What holds each curve of the result back; none without curves.
fn table(results: &ResultFile, only: &BTreeMap<String, String>) -> Option<Table> {
    let cells = cells_of(results, only);
    let curves = curves(&cells);
    let first = curves.first()?;
    let varies = first.axes.contains_key(FREE);
    let mut table = Table::new(
        "What limits scaling: the part of an operation's time that grows the most, and its share with the most threads",
    );
    first.axes.keys().filter(|name| **name != FREE).for_each(|name| table.words(axis::title(name)));
    for name in ["threads", "throughput", "speed-up"] {
        table.numbers(name);
    }
    table.words("limit");
    if varies {
        table.numbers("speed-up if free");
    }
    for name in ["contention", "coherency", "best at", "fit error"] {
        table.numbers(name);
    }
    let held = curves.iter().filter(|curve| curve.is_held());
    table.rows = held.filter_map(|curve| row(curve, &curves, &results.lines)).collect();
    Some(table)
}

fn row(curve: &Curve<'_>, all: &[Curve<'_>], lines: &Lines) -> Option<Vec<String>> {
    let points = curve.points();
    let ((least, slow), (most, fast)) = (*points.first()?, *points.last()?);
    let axes = curve.axes.iter().filter(|(name, _)| **name != FREE);
    let short = |name: &str, value: &str| {
        let all: Vec<&str> = all.iter().filter_map(|curve| curve.axes.get(name).copied()).collect();
        axis::label(value, &all)
    };
    let mut row: Vec<String> = axes.map(|(name, value)| short(name, value)).collect();
    row.push(format!("{least} to {most}"));
    row.push(Unit::OpsPerSecond.human(fast));
    row.push(if slow > 0.0 { ratio(fast / slow) } else { "–".to_owned() });
    let limit = curve.limit();
    row.push(limit.as_ref().map_or_else(|| "–".to_owned(), |limit| words(limit, lines)));
    if curve.axes.contains_key(FREE) {
        let freed = limit.and_then(|limit| freed(curve, all, (&limit.name, most)));
        row.push(freed.map_or_else(|| "–".to_owned(), |rate| ratio(rate / fast)));
    }
    match Usl::fit(&points) {
        Some(fit) => {
            let peak = fit.peak().filter(|peak| *peak < most * 10.0);
            row.extend([format!("{:.4}", fit.sigma), format!("{:.6}", fit.kappa)]);
            row.push(peak.map_or_else(|| "–".to_owned(), |peak| format!("{peak:.0}")));
            row.push(percent(fit.error));
        }
        None => row.extend(["–"; 4].map(str::to_owned)),
    }
    Some(row)
}

/// The throughput of the same cells at that number of threads with the lock or line `name` free.
fn freed(curve: &Curve<'_>, all: &[Curve<'_>], (name, threads): (&str, f64)) -> Option<f64> {
    let same = |other: &&Curve<'_>| {
        other.axes.get(FREE) == Some(&name)
            && other.axes.iter().all(|(axis, value)| *axis == FREE || curve.axes.get(axis) == Some(value))
    };
    let points = all.iter().find(same)?.points();
    points.into_iter().find(|point| point.0.total_cmp(&threads).is_eq()).map(|point| point.1)
}
