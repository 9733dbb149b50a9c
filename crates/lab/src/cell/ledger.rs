//! From the ledger and the timed calls of a window to the records of a sample; and the ledger of a run that goes on.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use fuse::Moved;
use results::{Clock, OperationRecord, PartRecord, ResultFile, Sample, WorkRecord};
use sim::ledger::{Counted, Snapshot};
use sim::{LINE_BYTES, Nanos, Op};
use vfs::ops;

use super::timed::Tally;
use crate::contention;
use crate::machine::{activities, works};

/// What the current run, which is on the real clock, has done until now, as a result with one sample. There are no latencies: a
/// ledger has sums. `moved` are the bytes of its reads and writes, which a ledger does not count.
pub fn so_far(name: &str, axes: BTreeMap<String, String>, since: Instant, moved: Moved) -> ResultFile {
    let window = Snapshot::of_run();
    let mut sample = Sample::new(axes, 0, 0);
    fill(&mut sample, &window, &BTreeMap::new());
    sample.finish(
        sample.operations.iter().map(|operation| operation.count).sum(),
        since.elapsed().as_nanos() as u64,
    );
    put_bytes(&mut sample, moved);
    let mut result = ResultFile::new(name, serde_json::Value::Null, 0, Clock::Real);
    "host".clone_into(&mut result.machine);
    result.lines = contention::lines_of(std::slice::from_ref(&sample));
    result.samples = vec![sample];
    result
}

/// Puts the bytes of reads and writes beside their counts.
fn put_bytes(sample: &mut Sample, moved: Moved) {
    (sample.read_bytes, sample.written_bytes) = (moved.read, moved.written);
    for (op, bytes) in [(ops::READ, moved.read), (ops::WRITE, moved.written)] {
        let found = sample.operations.iter_mut().find(|record| record.kind == op.name());
        let Some(record) = found else { continue };
        record.bytes = bytes;
        let counted = if op == ops::READ { &mut sample.read_ops } else { &mut sample.write_ops };
        *counted = record.count;
    }
}

/// The root of the mount that `dir` is on, which answers [`fuse::result_of`]; none where it is on no mount of ours.
pub(super) fn root_of_mount(dir: &Path) -> Option<PathBuf> {
    let dir = dir.canonicalize().ok()?;
    let device = dir.metadata().ok()?.dev();
    let inside = |dir: &&Path| dir.metadata().is_ok_and(|found| found.dev() == device);
    let root = dir.ancestors().take_while(inside).last()?;
    fuse::result_of(root).is_ok().then(|| root.to_owned())
}

/// What the server of the mount on `root` has done so far, by kind of operation.
pub(super) fn of_mount(root: &Path) -> Option<Vec<OperationRecord>> {
    let result: ResultFile = serde_json::from_slice(&fuse::result_of(root).ok()?).ok()?;
    result.samples.into_iter().next().map(|sample| sample.operations)
}

/// What `now` has more than `before`, by kind; without kinds of which nothing more happened.
pub(super) fn since(now: &[OperationRecord], before: &[OperationRecord]) -> Vec<OperationRecord> {
    let more = |now: &OperationRecord| match before.iter().find(|before| before.kind == now.kind) {
        Some(before) => now.since(before),
        None => now.clone(),
    };
    now.iter().map(more).filter(|record| record.count > 0 || record.total_ns > 0).collect()
}

/// What a ledger holds, by kind of operation, of calls that nothing else has timed.
pub(super) fn operations(window: &Snapshot) -> Vec<OperationRecord> {
    records(window, &BTreeMap::new())
}

fn records(window: &Snapshot, tallies: &BTreeMap<usize, Tally>) -> Vec<OperationRecord> {
    let kinds = ops::ALL.iter().chain(ops::BACKGROUND).chain(workload::charges::OPERATIONS);
    kinds.filter_map(|op| record(*op, window, tallies.get(&op.index()))).collect()
}

/// Puts what the window's ledger and tallies hold into the sample.
pub(super) fn fill(sample: &mut Sample, window: &Snapshot, tallies: &BTreeMap<usize, Tally>) {
    sample.operations = records(window, tallies);
    sample.errors = tallies.values().map(|tally| tally.errors).sum();
    for count in media::charges::COUNTS {
        sample.counters.insert(count.name().to_owned(), 0);
    }
    window.counted().iter().for_each(|counted| fill_counts(&mut sample.counters, counted));
    let lines = window.count_all(&media::charges::LINES_WRITTEN);
    sample.counters.insert("nvmm_written_bytes".to_owned(), lines * LINE_BYTES as u64);
}

/// The count in all, and by the activity in whose scope it was counted.
fn fill_counts(counters: &mut BTreeMap<String, u64>, counted: &Counted) {
    counters.insert(counted.name.to_owned(), counted.total());
    for activity in activities() {
        let number = counted.of(activity);
        if number > 0 {
            counters.insert(format!("{}.{}", counted.name, activity.name()), number);
        }
    }
}

fn by_name(waits: impl IntoIterator<Item = (&'static str, Nanos)>) -> BTreeMap<String, u64> {
    waits.into_iter().map(|(name, wait)| (name.to_owned(), wait.0)).collect()
}

/// Units of each kind of work, at the prices of the machine of this run.
fn work(op: Op, window: &Snapshot) -> BTreeMap<String, WorkRecord> {
    let priced = works().chain(sim::Work::RAN.iter().copied()).map(|work| {
        let units = window.units(op, work);
        (work.key(), WorkRecord { units, ns: sim::cost_of(work, units).0 })
    });
    let unpriced = [("copied_bytes", window.copied_bytes(op)), ("socket_lines", window.socket_lines(op))];
    let unpriced = unpriced.map(|(name, units)| (name, WorkRecord { units, ns: 0 }));
    let all = priced.chain(unpriced).filter(|(_, record)| record.units > 0);
    all.map(|(name, record)| (name.to_owned(), record)).collect()
}

/// One kind of operation; none when it did not happen.
fn record(op: Op, window: &Snapshot, tally: Option<&Tally>) -> Option<OperationRecord> {
    let background = ops::BACKGROUND.contains(&op);
    let time_ns = activities().map(|activity| (activity.name().to_owned(), window.time(op, activity).0));
    let time_ns: BTreeMap<String, u64> = time_ns.filter(|(_, ns)| *ns > 0).collect();
    let count = window.calls(op);
    if count == 0 && time_ns.is_empty() {
        return None;
    }
    let mut record = OperationRecord::new(op.name());
    record.count = count;
    // Work in the background has no call that begins and ends inside the window: its time is what was booked.
    record.total_ns = if background { time_ns.values().sum() } else { window.total(op).0 };
    record.time_ns = time_ns;
    record.lock_wait_ns = by_name(window.lock_waits(op));
    record.line_wait_ns = by_name(window.line_waits(op));
    let named = activities().map(|activity| (activity.name(), window.named(op, activity)));
    record.named_ns = by_name(named.filter(|(_, wait)| *wait > Nanos::ZERO));
    record.work = work(op, window);
    let parts = window.parts(op).into_iter();
    record.parts = parts.map(|(name, count, ns)| (name.to_owned(), PartRecord { count, ns: ns.0 })).collect();
    if let Some(tally) = tally {
        record.latency_ns = tally.latency.clone();
        (record.bytes, record.errors) = (tally.bytes, tally.errors);
    }
    Some(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_leave_out_of_calls_what_the_ledger_declares_to_be_in_the_background() {
        let told = |kinds: &[Op]| -> Vec<bool> {
            kinds.iter().map(|op| OperationRecord::new(op.name()).is_background()).collect()
        };
        assert!(told(ops::BACKGROUND).iter().all(|behind| *behind) && !told(ops::ALL).contains(&true));
        assert!(!told(workload::charges::OPERATIONS).contains(&true));
        assert_eq!(results::BACKGROUND.len(), ops::BACKGROUND.len(), "no name is left over");
    }
}
