//! What `weir explain` says of a replayed program: how much of the time is the program's own, and where it runs best.
//!
//! ```text
//! Of its threads' time the program computes 41 % and waits for its own threads 6 %; 53 % is calls: fsync 40 %, write 9 %.
//! The program runs fastest on nova (dram): 1.20 s, 2.3 times as fast as on ext4 (dram), the slowest. The largest part of the
//! difference is fsync: 0.1 s of its threads' time and not 1.4 s.
//! ```

use std::collections::BTreeMap;

use results::{OperationRecord, ResultFile};

use crate::axis;
use crate::cell::{self, Cell};
use crate::units::{Unit, percent};

/// The operation under which a replay books what the program does between its calls.
const PROGRAM: &str = "program";
/// Its activity of waiting.
const ORDER: &str = "trace_order";
/// Kinds of calls that are named.
const NAMED: usize = 4;

/// Whether a cell has replayed a program.
fn is_replay(cell: &Cell<'_>) -> bool {
    cell.measured().any(|sample| sample.counters.contains_key("replay.differing"))
}

/// How a cell's time is shared between the program and the file system; none of other workloads.
pub(crate) fn shares(cell: &Cell<'_>) -> Option<String> {
    let operations = cell.operations();
    let all: u64 = operations.iter().map(|operation| operation.total_ns).sum();
    if !is_replay(cell) || all == 0 {
        return None;
    }
    let part = |ns: u64| percent(ns as f64 / all as f64);
    let program = operations.iter().find(|operation| operation.kind == PROGRAM);
    let total = program.map_or(0, |program| program.total_ns);
    let waits = program.and_then(|program| program.time_ns.get(ORDER)).copied().unwrap_or(0);
    let calls = operations.iter().filter(|operation| operation.kind != PROGRAM && operation.count > 0);
    let named: Vec<String> = calls
        .take(NAMED)
        .map(|operation| format!("{} {}", operation.kind, part(operation.total_ns)))
        .collect();
    Some(format!(
        "  Of its threads' time the program computes {} and waits for its own threads {}; {} is calls: {}.\n",
        part(total.saturating_sub(waits)),
        part(waits),
        part(all - total),
        named.join(", "),
    ))
}

/// On which design and medium a program runs best, and why: for each group of cells that differ in these only.
pub(crate) fn best(results: &ResultFile, only: &BTreeMap<String, String>) -> Vec<String> {
    let matches = |cell: &Cell<'_>| only.iter().all(|(axis, value)| cell.axis(axis) == Some(value));
    let mut groups: BTreeMap<Vec<(&String, &String)>, Vec<Cell<'_>>> = BTreeMap::new();
    for cell in cell::cells(results).into_iter().filter(|cell| matches(cell) && is_replay(cell)) {
        let others = cell.axes.iter().filter(|(axis, _)| !["fs", "medium"].contains(&axis.as_str()));
        groups.entry(others.collect()).or_default().push(cell);
    }
    groups.values().filter_map(|cells| sentence(cells)).collect()
}

fn sentence(cells: &[Cell<'_>]) -> Option<String> {
    let by_time = |cell: &&Cell<'_>| elapsed(cell).map_or(u64::MAX, |ns| ns as u64);
    let (best, worst) = (cells.iter().min_by_key(by_time)?, cells.iter().max_by_key(by_time)?);
    let (fast, slow) = (elapsed(best)?, elapsed(worst)?);
    if std::ptr::eq(best, worst) || slow <= fast {
        return None;
    }
    let mut text = format!(
        "The program runs fastest on {}: {}, {:.2} times as fast as on {}, the slowest.",
        place(best),
        Unit::Nanos.human(fast),
        slow / fast,
        place(worst),
    );
    let (quick, tardy) = (means(best), means(worst));
    let kinds = tardy.iter().map(|(kind, ns)| (kind, *ns, quick.get(kind).copied().unwrap_or(0.0)));
    if let Some((kind, much, little)) =
        kinds.max_by(|one, other| (one.1 - one.2).total_cmp(&(other.1 - other.2)))
        && much > little
    {
        text += &format!(
            " The largest part of the difference is {kind}: {} of its threads' time and not {}.",
            Unit::Nanos.human(little),
            Unit::Nanos.human(much),
        );
    }
    Some(text + "\n")
}

/// The median time of the repeats, in nanoseconds.
fn elapsed(cell: &Cell<'_>) -> Option<f64> {
    let times: Vec<f64> = cell.measured().map(|sample| sample.elapsed_ns as f64).collect();
    results::statistics::median(&times)
}

/// The mean time of each kind of operation in a repeat, in nanoseconds.
fn means(cell: &Cell<'_>) -> BTreeMap<String, f64> {
    let repeats = cell.measured().count().max(1) as f64;
    let mean = |operation: OperationRecord| (operation.kind, operation.total_ns as f64 / repeats);
    cell.operations().into_iter().map(mean).collect()
}

/// `nova (dram)`.
fn place(cell: &Cell<'_>) -> String {
    let fs = axis::label(cell.axis("fs").unwrap_or("?"), &[]);
    cell.axis("medium").map_or_else(|| fs.clone(), |medium| format!("{fs} ({medium})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::{Clock, Sample};

    fn sample(fs: &str, elapsed_ns: u64, fsync_ns: u64) -> Sample {
        let axes = [("fs", fs), ("medium", "dram"), ("workload", "trace:x")];
        let mut sample =
            Sample::new(axes.map(|(axis, value)| (axis.to_owned(), value.to_owned())).into(), 0, 1);
        sample.finish(10, elapsed_ns);
        sample.counters.insert("replay.differing".to_owned(), 0);
        let record = |kind: &str, ns, time: &[(&str, u64)]| OperationRecord {
            count: 5,
            total_ns: ns,
            time_ns: time.iter().map(|(name, ns)| ((*name).to_owned(), *ns)).collect(),
            ..OperationRecord::new(kind)
        };
        sample.operations = vec![
            record("program", 400, &[("software", 300), ("trace_order", 100)]),
            record("fsync", fsync_ns, &[]),
        ];
        sample
    }

    #[test]
    fn a_replay_is_explained_in_two_sentences() {
        let mut result = ResultFile::new("bench", serde_json::Value::Null, 1, Clock::Virtual);
        result.samples = vec![sample("nova", 1000, 600), sample("ext4", 3000, 3600)];
        let cells = cell::cells(&result);
        let first = shares(&cells[0]).unwrap();
        assert!(
            first.contains("computes 30 % and waits for its own threads 10 %; 60 % is calls: fsync 60 %"),
            "{first}"
        );
        let best = best(&result, &BTreeMap::new());
        let told = "fastest on nova (dram): 1.00 µs, 3.00 times as fast as on ext4 (dram), the slowest. \
                    The largest part of the difference is fsync: 600 ns of its threads' time and not 3.60 µs.";
        assert!(best.len() == 1 && best[0].contains(told), "{best:?}");
    }

    #[test]
    fn other_workloads_have_no_such_sentence() {
        let mut result = ResultFile::new("bench", serde_json::Value::Null, 1, Clock::Virtual);
        result.samples = vec![sample("nova", 1000, 600), sample("ext4", 3000, 3600)];
        result.samples.iter_mut().for_each(|sample| sample.counters.clear());
        assert_eq!((shares(&cell::cells(&result)[0]), best(&result, &BTreeMap::new())), (None, Vec::new()));
    }
}
