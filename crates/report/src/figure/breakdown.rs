//! From results to the stacked bars of time: where an operation's time went, by activity.
//!
//! A panel is one kind of operation (of one value of the panel axis), a bar is one design, a segment is the
//! mean time that one operation spent on one activity. Operations of different kinds take times of different
//! orders, so each panel has its own scale.

use super::build::{only_one, panels_of, values_of};
use super::{Figure, FigureError, FigureSpec, Kind, Panel, Point, XValue, whole};
use crate::axis;
use crate::cell::{Cell, Estimate};
use crate::units::Unit;
use results::OperationRecord;
use std::collections::{BTreeMap, BTreeSet};

/// Kinds that take less of the time than this in every design are left out, unless they are asked for.
const LEAST_SHARE: f64 = 0.03;
const MOST_KINDS: usize = 4;

/// The order of known activities in a bar, bottom up along the path of a call; others follow by name.
const ACTIVITIES: [&str; 14] = [
    "software",
    "copy",
    "data",
    "metadata",
    "journal",
    "lock_wait",
    "medium_wait",
    "stall",
    "core_wait",
    "generator",
    "trace_order",
    "sleep",
    "memory_latency",
    "memory_turn",
];

/// The operations of one bar, longest first.
struct Bar<'a> {
    name: &'a str,
    cell: usize,
    operations: Vec<OperationRecord>,
}

pub(super) fn build(spec: &FigureSpec, cells: &[Cell<'_>]) -> Result<Figure, FigureError> {
    let names = values_of(cells, &spec.series)?;
    let mut groups = Vec::new();
    for panel in panels_of(cells, spec)? {
        groups.push((panel, bars(spec, cells, panel, &names)?));
    }
    let activities = activities(groups.iter().flat_map(|(_, bars)| bars));
    if activities.is_empty() {
        return Err(FigureError::Empty);
    }
    let titles: Vec<&str> = groups.iter().filter_map(|(panel, _)| *panel).collect();
    let mut panels = Vec::new();
    for (panel, bars) in &groups {
        let prefix = panel.map_or_else(String::new, |value| axis::label(value, &titles) + ": ");
        let kinds = kinds(spec, bars);
        panels.extend(kinds.iter().filter_map(|kind| panel_of(&prefix, kind, bars, &activities)));
    }
    Ok(figure(spec, &activities, panels))
}

fn bars<'a>(
    spec: &FigureSpec,
    cells: &[Cell<'a>],
    panel: Option<&str>,
    names: &[&'a str],
) -> Result<Vec<Bar<'a>>, FigureError> {
    let in_panel = |cell: &&Cell<'_>| spec.panel.as_ref().is_none_or(|axis| cell.axis(axis) == panel);
    let mut bars = Vec::new();
    for name in names {
        let here = cells.iter().filter(in_panel).filter(|cell| cell.axis(&spec.series) == Some(name));
        if let Some(cell) = only_one(&here.collect::<Vec<_>>())? {
            bars.push(Bar { name, cell: cell.number, operations: cell.operations() });
        }
    }
    Ok(bars)
}

/// Every activity that took time, in the order of [`ACTIVITIES`].
fn activities<'b>(bars: impl Iterator<Item = &'b Bar<'b>>) -> Vec<String> {
    let mut found: BTreeSet<(usize, String)> = BTreeSet::new();
    for operation in bars.flat_map(|bar| &bar.operations) {
        for (name, _) in operation.time_ns.iter().filter(|(_, time)| **time > 0) {
            found.insert((rank(name), name.clone()));
        }
    }
    found.into_iter().map(|(_, name)| name).collect()
}

/// The place of `activity` in a bar.
pub(crate) fn rank(activity: &str) -> usize {
    ACTIVITIES.iter().position(|known| *known == activity).unwrap_or(ACTIVITIES.len())
}

/// The number by which a series of a breakdown looks the same on every page: that of its activity or class, or else one for the
/// `place` of its name among the others.
pub(crate) fn fixed(series: &str, place: usize) -> usize {
    match rank(&series.replace(' ', "_")) {
        known if known < ACTIVITIES.len() => known,
        _ => class(series).unwrap_or(ACTIVITIES.len() + place),
    }
}

/// The number by which a class of a program's time looks the same on every page; none of other names.
pub(crate) fn class(series: &str) -> Option<usize> {
    Some(2 * ACTIVITIES.len() + whole::place(series)?)
}

/// The kinds to show: as asked, or those that take a good share of the time of some design.
fn kinds(spec: &FigureSpec, bars: &[Bar<'_>]) -> Vec<String> {
    if !spec.operations.is_empty() {
        return spec.operations.clone();
    }
    let mut shares: BTreeMap<&str, f64> = BTreeMap::new();
    for bar in bars {
        let total: u64 = bar.operations.iter().map(|operation| operation.total_ns).sum();
        for operation in &bar.operations {
            let share = operation.total_ns as f64 / total.max(1) as f64;
            let most = shares.entry(&operation.kind).or_default();
            *most = most.max(share);
        }
    }
    let mut kinds: Vec<_> = shares.into_iter().filter(|(_, share)| *share >= LEAST_SHARE).collect();
    kinds.sort_by(|a, b| b.1.total_cmp(&a.1));
    kinds.into_iter().take(MOST_KINDS).map(|(kind, _)| kind.to_owned()).collect()
}

fn panel_of(prefix: &str, kind: &str, bars: &[Bar<'_>], activities: &[String]) -> Option<Panel> {
    let find = |bar: &&Bar<'_>| bar.operations.iter().any(|operation| operation.kind == kind);
    let having: Vec<&Bar<'_>> = bars.iter().filter(find).collect();
    let mut points = Vec::new();
    for (x, bar) in having.iter().enumerate() {
        let operation = bar.operations.iter().find(|operation| operation.kind == kind)?;
        points.extend(segments(x, bar.cell, operation, activities));
    }
    let xs = having.iter().map(|bar| XValue { label: bar.name.to_owned(), number: None }).collect();
    let title = format!("{prefix}{kind}");
    (!points.is_empty()).then_some(Panel { title, xs, points, ..Panel::default() })
}

fn segments(x: usize, cell: usize, operation: &OperationRecord, activities: &[String]) -> Vec<Point> {
    let each = |name: &String| Some(*operation.time_ns.get(name)? as f64 / operation.count.max(1) as f64);
    let estimate = |value| Estimate { value, interval: None, repeats: 1 };
    let values = activities.iter().map(each).enumerate();
    let point = |(series, value): (usize, Option<f64>)| {
        value.map(|value| Point { x, series, y: estimate(value), cell, failed: (0, 0), cut_short: false })
    };
    values.filter_map(point).collect()
}

fn figure(spec: &FigureSpec, activities: &[String], panels: Vec<Panel>) -> Figure {
    Figure {
        id: spec.id.clone(),
        title: spec.title.clone(),
        caption: spec.caption.clone(),
        kind: Kind::Breakdown,
        x_label: axis::title(&spec.series).to_owned(),
        x_log: false,
        y_label: "mean time of one operation".to_owned(),
        unit: Unit::Nanos,
        series: activities.iter().map(|name| name.replace('_', " ")).collect(),
        panels,
    }
}
