//! What `weir explain` says of a replayed program: how much of the time is the program's own, and where it runs best.
//!
//! ```text
//! Of its threads' time the program computes 41 % and waits for its own threads 6 %; 53 % is calls: fsync 40 %, write 9 %.
//! For this program nova (dram) is fastest: 1.31x pmfs (dram) (95 % interval 1.30 to 1.33); it takes 1.20 s on nova (dram) and
//! 1.57 s on pmfs (dram). Of the 340 ms that its threads take longer on pmfs (dram), 80 % is the journal or log (in fsync).
//! ```

use std::collections::BTreeMap;

use results::prices::AXIS;
use results::{PricesRecord, ResultFile, program};

use crate::answer;
use crate::axis;
use crate::cell::{self, Cell};
use crate::prices;
use crate::units::{Unit, percent};
use crate::why::Why;

/// Kinds of calls that are named.
const NAMED: usize = 4;
/// A program that computes for this part of its threads' time is its own limit.
const NEARLY_ALL: f64 = 0.9;

/// Whether a cell has replayed a program.
pub(crate) fn is(cell: &Cell<'_>) -> bool {
    cell.measured().any(|sample| sample.counters.contains_key("replay.differing"))
}

/// Whether all cells that were measured have replayed programs, and there is one.
pub(crate) fn all_are(cells: &[Cell<'_>]) -> bool {
    let mut measured = cells.iter().filter(|cell| cell.measured().next().is_some()).peekable();
    measured.peek().is_some() && measured.all(is)
}

/// A cell's time in nanoseconds, all repeats and threads together.
struct Times {
    all: u64,
    computes: u64,
    waits: u64,
}

impl Times {
    fn of(cell: &Cell<'_>) -> Self {
        let operations = cell.calls();
        let program = operations.iter().find(|operation| operation.kind == program::OPERATION);
        let total = program.map_or(0, |program| program.total_ns);
        let waits = program.and_then(|program| program.time_ns.get(program::ORDER)).copied().unwrap_or(0);
        let all = operations.iter().map(|operation| operation.total_ns).sum();
        Self { all, computes: total.saturating_sub(waits), waits }
    }

    fn part(&self, ns: u64) -> f64 {
        ns as f64 / self.all.max(1) as f64
    }
}

/// Counters of a replay whose trace lacks something, and whose gaps do not say what the program computed.
const LACKS: &str = "replay.lacks";
const UNTOLD: &str = "replay.computing_untold";

/// What the traces of replays lack, in the words of the first note of their samples: a reader must know it before anything else.
pub(crate) fn lacks(results: &ResultFile) -> Vec<String> {
    let lossy = results.samples.iter().filter(|sample| sample.counters.contains_key(LACKS));
    let mut told: Vec<String> = lossy.filter_map(|sample| sample.notes.first().cloned()).collect();
    told.sort();
    told.dedup();
    told
}

/// Whether it is known what the program computed between its calls.
fn tells_computing(cell: &Cell<'_>) -> bool {
    !cell.measured().any(|sample| sample.counters.contains_key(UNTOLD))
}

/// How a cell's time is shared between the program and the file system; none of other workloads.
pub(crate) fn shares(cell: &Cell<'_>) -> Option<String> {
    let (operations, times) = (cell.calls(), Times::of(cell));
    if !is(cell) || times.all == 0 {
        return None;
    }
    let part = |ns: u64| percent(times.part(ns));
    let calls =
        operations.iter().filter(|operation| operation.kind != program::OPERATION && operation.count > 0);
    let named: Vec<String> = calls
        .take(NAMED)
        .map(|operation| format!("{} {}", operation.kind, part(operation.total_ns)))
        .collect();
    if !tells_computing(cell) {
        return Some(format!(
            "  What the program computed between its calls cannot be told from what recording cost. Of all time with that: {}.\n",
            named.join(", ")
        ));
    }
    Some(format!(
        "  Of its threads' time the program computes {} and waits for its own threads {}; {} is calls: {}.\n",
        part(times.computes),
        part(times.waits),
        part(times.all - times.computes - times.waits),
        named.join(", "),
    ))
}

/// On which design and medium a program runs best and why, in two sentences: for each group of cells that differ in these only.
pub(crate) fn best(results: &ResultFile, only: &BTreeMap<String, String>) -> Vec<String> {
    let matches = |cell: &Cell<'_>| only.iter().all(|(axis, value)| cell.axis(axis) == Some(value));
    let cells: Vec<Cell<'_>> =
        cell::cells(results).into_iter().filter(|cell| matches(cell) && is(cell)).collect();
    let varying = cell::varying_axes(&cells);
    let mut groups: BTreeMap<Vec<(&str, &str)>, Vec<&Cell<'_>>> = BTreeMap::new();
    for cell in &cells {
        let others = varying.keys().filter(|axis| ![FS, MEDIUM, AXIS].contains(*axis));
        let place = others.filter_map(|axis| Some((*axis, cell.axis(axis)?))).collect();
        groups.entry(place).or_default().push(cell);
    }
    let told = |(place, cells): (&Vec<(&str, &str)>, &Vec<&Cell<'_>>)| {
        let words = place.iter().map(|(axis, value)| match *axis {
            "workload" => format!("of {}", axis::label(value, &[])),
            axis => format!("with {} {}", axis::title(axis), axis::label(value, &[])),
        });
        let words: Vec<String> = ["For this program".to_owned()].into_iter().chain(words).collect();
        sentences(&words.join(" "), cells, results.prices.as_ref())
    };
    if prices::unranked(results).is_some() {
        return Vec::new();
    }
    groups.iter().filter_map(told).collect()
}

const FS: &str = "fs";
const MEDIUM: &str = "medium";

/// The two sentences; none where there are no two cells, which differ in design and medium.
fn sentences(start: &str, cells: &[&Cell<'_>], prices: Option<&PricesRecord>) -> Option<String> {
    // A design on a medium is one thing to choose.
    let set = |cell: &Cell<'_>| cell.axis(AXIS).map(|set| (AXIS.to_owned(), set.to_owned()));
    let of = |cell: &&Cell<'_>| [(FS.to_owned(), place(cell))].into_iter().chain(set(cell)).collect();
    let axes: Vec<BTreeMap<String, String>> = cells.iter().map(of).collect();
    let cells: Vec<Cell<'_>> =
        cells.iter().zip(&axes).map(|(cell, axes)| Cell { axes, ..(*cell).clone() }).collect();
    let found = answer::best(&cells, FS, prices)?;
    let named = |name: &str| cells.iter().find(|cell| cell.axis(FS) == Some(name));
    let (best, rival) = (named(found.name)?, named(found.rival)?);
    let first = format!(
        "{start} {}; it takes {} on {} and {} on {}.",
        found.sentence,
        Unit::Nanos.human(elapsed(best)?),
        found.name,
        Unit::Nanos.human(elapsed(rival)?),
        found.rival,
    );
    let times = Times::of(best);
    let computes = times.part(times.computes);
    if computes >= NEARLY_ALL && tells_computing(best) {
        let own = percent(computes);
        return Some(format!(
            "{first} The program itself computes for {own} of its threads' time on {}: the choice of a file system changes little.",
            found.name
        ));
    }
    // Between two that are alike there is nothing to explain.
    let by_time = |cell: &&Cell<'_>| elapsed(cell).map_or(0, |ns| ns as u64);
    let other = if found.ties.is_some() { cells.iter().max_by_key(by_time)? } else { rival };
    Some(format!("{first} {}", cause(best, other)))
}

/// Why a program's threads take longer on `other`.
fn cause(best: &Cell<'_>, other: &Cell<'_>) -> String {
    let name = other.axis(FS).unwrap_or_default();
    match Why::of_runs(best, other, FS).and_then(|why| why.cause()) {
        Some(cause) => {
            let longer = Unit::Nanos.human(cause.net);
            match cause.is_all() {
                true => format!("Of the {longer} that its threads take longer on {name}, {}.", cause.parts),
                false => format!("Its threads take {longer} longer on {name}: {cause}."),
            }
        }
        None => format!("Its threads spend as much time on {name}."),
    }
}

/// The median time of the repeats, in nanoseconds.
fn elapsed(cell: &Cell<'_>) -> Option<f64> {
    let times: Vec<f64> = cell.measured().map(|sample| sample.elapsed_ns as f64).collect();
    results::statistics::median(&times)
}

/// `nova (dram)`.
fn place(cell: &Cell<'_>) -> String {
    let fs = axis::label(cell.axis(FS).unwrap_or("?"), &[]);
    cell.axis(MEDIUM).map_or_else(|| fs.clone(), |medium| format!("{fs} ({medium})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::{Clock, OperationRecord, Sample};

    /// Runs of a program that computes for `own` ns and spends `fsync` ns in calls.
    fn samples(fs: &str, own: u64, fsync: u64) -> Vec<Sample> {
        let axes = [("fs", fs), ("medium", "dram"), ("workload", "trace:x")];
        let run = |repeat: u32| {
            let axes = axes.map(|(axis, value)| (axis.to_owned(), value.to_owned())).into();
            let mut sample = Sample::new(axes, repeat, u64::from(repeat) + 1);
            sample.finish(10, own + fsync + u64::from(repeat));
            sample.counters.insert("replay.differing".to_owned(), 0);
            let record = |kind: &str, time: &[(&str, u64)]| OperationRecord {
                count: 5,
                total_ns: time.iter().map(|(_, ns)| ns).sum(),
                time_ns: time.iter().map(|(name, ns)| ((*name).to_owned(), *ns)).collect(),
                ..OperationRecord::new(kind)
            };
            sample.operations = vec![
                record("program", &[("software", own * 3 / 4), ("trace_order", own / 4)]),
                record("fsync", &[("journal", fsync)]),
            ];
            sample
        };
        (0..6).map(run).collect()
    }

    fn result(of: &[(&str, u64, u64)]) -> ResultFile {
        let mut result = ResultFile::new("bench", serde_json::Value::Null, 1, Clock::Virtual);
        result.samples = of.iter().flat_map(|(fs, own, fsync)| samples(fs, *own, *fsync)).collect();
        result
    }

    fn told(of: &[(&str, u64, u64)]) -> String {
        let mut best = best(&result(of), &BTreeMap::new());
        assert_eq!(best.len(), 1, "{best:?}");
        best.remove(0)
    }

    #[test]
    fn a_winner_is_named_with_its_error_and_the_cause() {
        let result = result(&[("nova", 40_000, 60_000), ("ext4", 40_000, 260_000)]);
        let first = shares(&cell::cells(&result)[0]).unwrap();
        assert!(
            first.contains("computes 30 % and waits for its own threads 10 %; 60 % is calls: fsync 60 %"),
            "{first}"
        );
        let told = best(&result, &BTreeMap::new()).remove(0);
        assert!(told.starts_with("For this program nova (dram) is fastest: 3.00x ext4 (dram) ("), "{told}");
        assert!(
            told.ends_with(
                "; it takes 100 µs on nova (dram) and 300 µs on ext4 (dram). Of the 200 µs that its threads take longer on ext4 \
                 (dram), 100 % is the journal or log (in fsync)."
            ),
            "{told}"
        );
    }

    #[test]
    fn no_winner_is_named_where_no_difference_is_detectable() {
        let told = told(&[("nova", 40_000, 60_000), ("pmfs", 40_000, 60_000), ("ext4", 40_000, 260_000)]);
        assert!(told.starts_with("For this program no difference of "), "{told}");
        assert!(told.contains("Of the 200 µs that its threads take longer on ext4 (dram), 100 %"), "{told}");
        assert!(!told.contains("fastest"), "{told}");
    }

    #[test]
    fn a_program_that_computes_nearly_all_of_the_time_is_said_to() {
        let told = told(&[("nova", 4_000_000, 100_000), ("ext4", 4_000_000, 900_000)]);
        assert!(!told.contains("itself computes"), "it computes 73 %, and waits: {told}");
        let mut result = result(&[("nova", 4_000_000, 1_000), ("ext4", 4_000_000, 900_000)]);
        for sample in &mut result.samples {
            let program = &mut sample.operations[0].time_ns;
            let waits = program.insert("trace_order".to_owned(), 0).unwrap();
            *program.get_mut("software").unwrap() += waits;
        }
        let told = best(&result, &BTreeMap::new()).remove(0);
        assert!(
            told.ends_with(
                "of its threads' time on nova (dram): the choice of a file system changes little."
            ),
            "{told}"
        );
    }

    #[test]
    fn other_workloads_have_no_such_sentence() {
        let mut result = result(&[("nova", 40_000, 60_000), ("ext4", 40_000, 260_000)]);
        result.samples.iter_mut().for_each(|sample| sample.counters.clear());
        assert_eq!((shares(&cell::cells(&result)[0]), best(&result, &BTreeMap::new())), (None, Vec::new()));
    }
}
