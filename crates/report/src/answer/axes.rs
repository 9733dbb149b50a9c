//! What other axes than the design show of the design that is highest: how much slower it is on another medium and why, and up
//! to how many threads it scales and what ends that.

use std::collections::BTreeMap;

use results::ResultFile;
use results::statistics::median;

use super::MOST_WORKLOADS;
use crate::axis;
use crate::cell::{self, Cell};
use crate::scaling::{self, THREADS, words};
use crate::units::ratio;
use crate::why::Why;

/// A step to more threads that brings less than this part of what as many more threads would bring at best ends the scaling.
const WORTH: f64 = 0.5;
/// More sentences of a kind are no answer; the rest is in the tables.
const MOST: usize = 4;

/// The sentences of both kinds; none where neither axis varies.
pub(super) fn sentences(results: &ResultFile) -> Vec<String> {
    let mut cells = cell::cells(results);
    cells.retain(|cell| rate(cell) > 0.0);
    let workloads = cell::all_axes(&cells).get("workload").map_or(0, Vec::len);
    if workloads > MOST_WORKLOADS {
        return Vec::new();
    }
    let mut all = media(&cells);
    all.truncate(MOST);
    all.extend(knees(results, &cells).into_iter().take(MOST));
    all
}

fn rate(cell: &Cell<'_>) -> f64 {
    median(&cell.throughputs()).unwrap_or(0.0)
}

/// The cells by all axes but these, of which the design is always one.
fn groups<'a>(cells: &'a [Cell<'a>], apart: &str) -> Vec<Vec<&'a Cell<'a>>> {
    let design = axis::design_axis(cell::all_axes(cells).keys().copied());
    let key = |cell: &Cell<'a>| -> BTreeMap<&'a str, &'a str> {
        let axes = cell.axes.iter().filter(|(name, _)| *name != apart && *name != design);
        axes.map(|(name, value)| (name.as_str(), value.as_str())).collect()
    };
    let mut groups: Vec<(BTreeMap<&str, &str>, Vec<&Cell<'_>>)> = Vec::new();
    for cell in cells {
        match groups.iter_mut().find(|(known, _)| *known == key(cell)) {
            Some((_, group)) => group.push(cell),
            None => groups.push((key(cell), vec![cell])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// What the values of the other axes are that vary: ` with threads 8`.
fn place(cells: &[Cell<'_>], at: &Cell<'_>, apart: &str) -> String {
    let design = axis::design_axis(cell::all_axes(cells).keys().copied());
    let varying = cell::varying_axes(cells);
    let told = varying.keys().filter(|name| ![apart, design].contains(*name)).filter_map(|name| {
        let value = axis::label(at.axis(name)?, &varying[name]);
        Some(if *name == "workload" { value } else { format!("{} {value}", axis::title(name)) })
    });
    let told = told.collect::<Vec<_>>().join(", ");
    if told.is_empty() { told } else { format!(" ({told})") }
}

/// The fastest design of each place on its slowest medium by that on its fastest, with the cause.
fn media(cells: &[Cell<'_>]) -> Vec<String> {
    const MEDIUM: &str = "medium";
    let design = axis::design_axis(cell::all_axes(cells).keys().copied());
    let told = groups(cells, MEDIUM).into_iter().filter_map(|group| {
        let first = group.first()?.axis(MEDIUM)?;
        let on_first = group.iter().filter(|cell| cell.axis(MEDIUM) == Some(first));
        let best = on_first.max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
        let own = || group.iter().copied().filter(|cell| cell.axis(design) == best.axis(design));
        let (slow, fast) = (
            own().min_by(|a, b| rate(a).total_cmp(&rate(b)))?,
            own().max_by(|a, b| rate(a).total_cmp(&rate(b)))?,
        );
        let (on_slow, on_fast) = (slow.axis(MEDIUM)?, fast.axis(MEDIUM)?);
        if on_slow == on_fast || fast.is_host() {
            return None;
        }
        let name = axis::label(best.axis(design)?, &[]);
        let why = Why::of(String::new(), fast, slow, MEDIUM).and_then(|why| why.cause());
        let why = why.map_or_else(String::new, |cause| match cause.is_all() {
            true => format!(": of what an operation takes longer there, {}", cause.parts),
            false => format!(": {cause}"),
        });
        let times = ratio(rate(fast) / rate(slow));
        Some(format!(
            "{name}{} is {times} slower on {on_slow} than on {on_fast}{why}.",
            place(cells, fast, MEDIUM)
        ))
    });
    told.collect()
}

/// Up to how many threads the design scales that is highest with the most of them, and what limits it there.
fn knees(results: &ResultFile, cells: &[Cell<'_>]) -> Vec<String> {
    let design = axis::design_axis(cell::all_axes(cells).keys().copied());
    let curves = scaling::curves(cells);
    let several = cell::all_axes(cells).get(design).is_some_and(|designs| designs.len() > 1);
    let told = groups(cells, THREADS).into_iter().filter_map(|group| {
        let most = group.iter().filter_map(|cell| cell.axis(THREADS)?.parse::<f64>().ok()).fold(0.0, f64::max);
        let with_most = group.iter().filter(|cell| cell.axis(THREADS).and_then(|n| n.parse().ok()) == Some(most));
        let best = with_most.max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
        let curve = curves.iter().find(|curve| curve.cells.last().is_some_and(|(_, cell)| cell.axes == best.axes))?;
        let points = curve.points();
        let (least, slow) = *points.first()?;
        let ends = points.windows(2).find(|step| {
            let [(few, before), (many, after)] = [step[0], step[1]];
            after / before - 1.0 < WORTH * (many / few - 1.0)
        });
        let (knee, reached) = ends.map_or(*points.last()?, |step| step[0]);
        let name = if several { axis::label(best.axis(design)?, &[]) } else { best.axis(design)?.to_owned() };
        let scales = format!("{name}{} scales to {knee} threads", place(cells, best, THREADS));
        let speed_up = format!("{} of {least}", ratio(reached / slow));
        Some(match (ends, curve.limit()) {
            (None, _) => format!("{scales}, the most that ran ({speed_up})."),
            (Some(_), Some(limit)) => format!(
                "{scales} ({speed_up}); with {most} it has {}, and what grows most is {} of an operation's time.",
                ratio(points.last()?.1 / slow),
                words(&limit, &results.lines)
            ),
            (Some(_), None) => format!("{scales} ({speed_up})."),
        })
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::{Clock, OperationRecord, Sample};

    fn result(cells: &[(&str, &str, f64, u64)]) -> ResultFile {
        let mut file = ResultFile::new("p", serde_json::Value::Null, 1, Clock::Virtual);
        for (medium, threads, rate, locked) in cells {
            let axes = [
                ("fs", "nova"),
                ("medium", *medium),
                ("threads", *threads),
                ("workload", "filebench/varmail"),
            ];
            let mut sample =
                Sample::new(axes.map(|(name, value)| (name.to_owned(), value.to_owned())).into(), 0, 1);
            (sample.throughput_ops_per_s, sample.ops) = (*rate, 10);
            let time_ns = [("lock_wait".to_owned(), *locked), ("data".to_owned(), 1_000)].into();
            let lock_wait_ns: BTreeMap<String, u64> = [("nova.inode".to_owned(), *locked)].into();
            let mut write =
                OperationRecord { count: 10, time_ns, lock_wait_ns, ..OperationRecord::new("write") };
            write.total_ns = 1_000 + locked;
            sample.operations = vec![write];
            file.samples.push(sample);
        }
        file
    }

    #[test]
    fn a_slower_medium_has_its_factor_and_the_cause() {
        let told = sentences(&result(&[("dram", "1", 20.0, 0), ("cxl.slow", "1", 10.0, 1_000)]));
        let want = "nova is 2.00x slower on cxl.slow than on dram: of what an operation takes longer there, 100 % is waiting for \
                    nova.inode (in write).";
        assert_eq!(told, [want]);
    }

    #[test]
    fn a_curve_has_its_knee_and_what_ends_it() {
        let told = sentences(&result(&[
            ("dram", "1", 10.0, 0),
            ("dram", "4", 38.0, 100),
            ("dram", "16", 50.0, 9_000),
        ]));
        assert_eq!(told.len(), 1);
        assert!(
            told[0].starts_with("nova scales to 4 threads (3.80x of 1); with 16 it has 5.00x"),
            "{told:?}"
        );
        assert!(told[0].contains("lock nova.inode 90 %"), "{told:?}");
        let told = sentences(&result(&[("dram", "1", 10.0, 0), ("dram", "4", 38.0, 0)]));
        assert_eq!(told, ["nova scales to 4 threads, the most that ran (3.80x of 1)."]);
    }
}
