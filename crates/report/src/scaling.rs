//! Curves over the number of threads: what holds each back, and its fit by the Universal Scalability Law.

use std::collections::BTreeMap;

use results::ResultFile;
use results::scaling::{Limit, Usl};
use results::statistics::median;

use crate::axis;
use crate::cell::{self, Cell};
use crate::table::Table;
use crate::units::{Unit, percent, ratio};

/// The axis of locks that take no time, and its value where all do.
const FREE: &str = "free";
const NOTHING: &str = "nothing";

/// The axis of the curves.
pub(crate) const THREADS: &str = "threads";

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

    /// What holds it back at the largest number of threads; none on a directory of the host, where nothing is known of the time in
    /// its kernel.
    pub(crate) fn limit(&self) -> Option<Limit> {
        let (few, many) = (self.cells.first()?.1, self.cells.last()?.1);
        if many.is_host() {
            return None;
        }
        Limit::of(few.samples.first()?, many.samples.first()?)
    }
}

/// The limit in words: `pmfs.inode 93 %`.
pub(crate) fn words(limit: &Limit) -> String {
    let what = match (limit.is_lock, limit.name.as_str()) {
        (true, name) => name.to_owned(),
        (false, "copy") => "memory bandwidth".to_owned(),
        (false, "medium_wait") => "the medium's bandwidth".to_owned(),
        (false, "software") => "shared cache lines and CPU work".to_owned(),
        (false, other) => other.replace('_', " "),
    };
    format!("{what} {}", percent(limit.share))
}

/// What holds each curve of the result back; none without curves.
pub(crate) fn table(results: &ResultFile, only: &BTreeMap<String, String>) -> Option<Table> {
    let mut cells = cell::cells(results);
    cells.retain(|cell| only.iter().all(|(axis, value)| cell.axis(axis) == Some(value)));
    let curves = curves(&cells);
    let first = curves.first()?;
    let varies = first.axes.contains_key(FREE);
    let mut table = Table::new(
        "What limits scaling: of the time of an operation with the most threads, the part that has grown the most",
    );
    first.axes.keys().for_each(|name| table.words(axis::title(name)));
    for name in ["threads", "throughput", "speed-up"] {
        table.numbers(name);
    }
    table.words("limit");
    if varies {
        table.numbers("speed-up if free");
    }
    for name in ["contention σ", "coherency κ", "best at", "error of the fit"] {
        table.numbers(name);
    }
    let held = curves.iter().filter(|curve| curve.axes.get(FREE).is_none_or(|free| *free == NOTHING));
    table.rows = held.filter_map(|curve| row(curve, &curves)).collect();
    Some(table)
}

fn row(curve: &Curve<'_>, all: &[Curve<'_>]) -> Option<Vec<String>> {
    let points = curve.points();
    let ((least, slow), (most, fast)) = (*points.first()?, *points.last()?);
    let mut row: Vec<String> = curve.axes.values().map(|value| axis::label(value, &[])).collect();
    row.push(format!("{least} to {most}"));
    row.push(Unit::OpsPerSecond.human(fast));
    row.push(if slow > 0.0 { ratio(fast / slow) } else { "–".to_owned() });
    let limit = curve.limit();
    row.push(limit.as_ref().map_or_else(|| "–".to_owned(), words));
    if curve.axes.contains_key(FREE) {
        let freed = limit.and_then(|limit| freed(curve, all, &limit.name));
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

/// The throughput with the most threads of the same cells with the lock `name` free.
fn freed(curve: &Curve<'_>, all: &[Curve<'_>], name: &str) -> Option<f64> {
    let same = |other: &&Curve<'_>| {
        other.axes.get(FREE) == Some(&name)
            && other.axes.iter().all(|(axis, value)| *axis == FREE || curve.axes.get(axis) == Some(value))
    };
    all.iter().find(same)?.points().last().map(|point| point.1)
}
