//! From results to the stacked bars of a whole run: the time of all its threads, by class of call or by what they waited for.
//!
//! A bar is one design, on the panel of one value of the panel axis; the time is the mean of the repeats. Both ways to divide it
//! begin with what the program does itself, where it is a replayed one.

use super::build::{only_one, panels_of, values_of};
use super::{By, Figure, FigureError, FigureSpec, Kind, Panel, Point, XValue};
use crate::axis;
use crate::cell::{Cell, Estimate};
use crate::units::Unit;
use results::OperationRecord;
use results::program::{self, CLASSES, COMPUTES, OWN_ORDER};

/// What a thread waits for, in the order of a bar; a program's own parts are first.
const WAITS: [&str; 8] = [
    CLASSES[COMPUTES],
    CLASSES[OWN_ORDER],
    "code of calls",
    "the medium",
    "journal or log",
    "locks",
    "room",
    "a core",
];

pub(super) fn build(spec: &FigureSpec, cells: &[Cell<'_>]) -> Result<Figure, FigureError> {
    let all = names(spec.by);
    let bars = values_of(cells, &spec.series)?;
    let mut panels = Vec::new();
    for panel in panels_of(cells, spec)? {
        let in_panel = |cell: &&Cell<'_>| spec.panel.as_ref().is_none_or(|axis| cell.axis(axis) == panel);
        let mut built = Panel {
            title: panel.map_or_else(String::new, |value| axis::label(value, &[])),
            ..Panel::default()
        };
        for bar in &bars {
            let here = cells.iter().filter(in_panel).filter(|cell| cell.axis(&spec.series) == Some(bar));
            let Some(cell) = only_one(&here.collect::<Vec<_>>())? else { continue };
            let times = times(spec.by, cell);
            let x = built.xs.len();
            let estimate = |value| Estimate { value, interval: None, repeats: 1 };
            let segments = times.iter().enumerate().filter(|(_, ns)| **ns > 0.0);
            built.points.extend(segments.map(|(series, ns)| Point {
                x,
                series,
                y: estimate(*ns),
                cell: cell.number,
                failed: (0, 0),
                cut_short: false,
            }));
            built.xs.push(XValue { label: axis::label(bar, &bars), number: None });
        }
        panels.push(built);
    }
    let used: Vec<usize> = (0..all.len()).filter(|series| is_used(&panels, *series)).collect();
    if used.is_empty() {
        return Err(FigureError::Empty);
    }
    for point in panels.iter_mut().flat_map(|panel| &mut panel.points) {
        point.series = used.iter().position(|series| *series == point.series).unwrap_or_default();
    }
    Ok(Figure {
        id: spec.id.clone(),
        title: spec.title.clone(),
        caption: spec.caption.clone(),
        kind: Kind::Breakdown,
        x_label: axis::title(&spec.series).to_owned(),
        x_log: false,
        y_label: "time of all threads in a run".to_owned(),
        unit: Unit::Nanos,
        series: used.iter().map(|series| all[*series].to_owned()).collect(),
        panels,
    })
}

fn is_used(panels: &[Panel], series: usize) -> bool {
    panels.iter().flat_map(|panel| &panel.points).any(|point| point.series == series)
}

fn names(by: By) -> &'static [&'static str] {
    match by {
        By::Class => &CLASSES,
        By::Activity | By::Wait => &WAITS,
    }
}

/// The mean time of a run in nanoseconds, by the names of the division.
fn times(by: By, cell: &Cell<'_>) -> Vec<f64> {
    let repeats = cell.measured().count().max(1) as f64;
    let mut times = vec![0.0; names(by).len()];
    for operation in cell.operations() {
        for (place, ns) in divided(by, &operation) {
            times[place] += ns as f64 / repeats;
        }
    }
    times
}

/// The number by which a name of either division looks the same in all figures of a page; none of other names.
pub(super) fn place(name: &str) -> Option<usize> {
    let wait = || Some(WAITS.iter().position(|known| *known == name)? + OWN_ORDER - 1);
    program::place(name).or_else(wait)
}

/// The time of a kind of operation, with the places in the names that it belongs to.
fn divided(by: By, operation: &OperationRecord) -> Vec<(usize, u64)> {
    let is_program = operation.kind == program::OPERATION;
    let activities = operation.time_ns.iter();
    match by {
        By::Class if is_program => {
            let own = |activity: &str| if own(activity) == 1 { OWN_ORDER } else { COMPUTES };
            activities.map(|(activity, ns)| (own(activity), *ns)).collect()
        }
        By::Class => vec![(program::class_of(&operation.kind), operation.total_ns)],
        By::Activity | By::Wait if is_program => {
            activities.map(|(activity, ns)| (own(activity), *ns)).collect()
        }
        // A host's own file system does not say where its time goes.
        By::Activity | By::Wait if operation.time_ns.is_empty() => vec![(2, operation.total_ns)],
        By::Activity | By::Wait => activities.map(|(activity, ns)| (wait(activity), *ns)).collect(),
    }
}

/// The place in [`WAITS`] of an activity between calls. Its threads wait for each other by a lock.
fn own(activity: &str) -> usize {
    match activity {
        program::ORDER | "lock_wait" => 1,
        "core_wait" => 7,
        _ => 0,
    }
}

/// The place in [`WAITS`] of an activity of a call.
fn wait(activity: &str) -> usize {
    match activity {
        "data" | "metadata" | "medium_wait" | "memory_latency" | "memory_turn" => 3,
        "journal" => 4,
        "lock_wait" => 5,
        "stall" => 6,
        "core_wait" => 7,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(kind: &str, times: &[(&str, u64)]) -> OperationRecord {
        OperationRecord {
            count: 1,
            total_ns: times.iter().map(|(_, ns)| ns).sum(),
            time_ns: times.iter().map(|(name, ns)| ((*name).to_owned(), *ns)).collect(),
            ..OperationRecord::new(kind)
        }
    }

    #[test]
    fn a_programs_own_time_is_told_from_what_it_waits_for_in_calls() {
        let program = operation("program", &[("software", 70), ("trace_order", 30)]);
        let write = operation("write", &[("software", 5), ("copy", 4), ("data", 20), ("lock_wait", 9)]);
        let named = |by, operation: &OperationRecord| {
            let mut sums = std::collections::BTreeMap::new();
            for (place, ns) in divided(by, operation) {
                *sums.entry(names(by)[place]).or_insert(0) += ns;
            }
            sums.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(named(By::Wait, &program), [("computes", 70), ("own order", 30)]);
        assert_eq!(named(By::Class, &program), [("computes", 70), ("own order", 30)]);
        assert_eq!(named(By::Wait, &write), [("code of calls", 9), ("locks", 9), ("the medium", 20)]);
        assert_eq!(named(By::Class, &write), [("writes", 38)]);
    }
}
