//! What tasks waited for in the kernel of the host, in text.

use std::fmt::Write as _;

use results::{KernelLock, KernelLocks, ResultFile};

use crate::axis;
use crate::cell::{self, Cell};
use crate::table::Table;
use crate::units::{Unit, percent};

/// Locks of a cell that are written out.
const MOST: usize = 6;
/// What waited less than this part of the time is not.
const LEAST: f64 = 0.001;

/// The locks of the first repeat of a cell, and which sources could not tell of them; empty where none were recorded.
pub(crate) fn waits(cell: &Cell<'_>) -> String {
    let Some(known) = cell.measured().find_map(|sample| sample.kernel_locks.as_ref()) else {
        return String::new();
    };
    let mut text = String::new();
    let mut line = |words: String| writeln!(text, "{words}").expect("a string takes every byte");
    if known.sources.is_empty() {
        line("  This host does not tell what tasks wait for in its kernel:".to_owned());
    } else {
        let (sources, waited) = (known.sources.join(", "), percent(known.share()));
        line(format!("  Waits in the kernel ({sources}): {waited} of the tasks' time"));
    }
    for lock in written(known) {
        let what = if lock.what.is_empty() { lock.stack.join(" < ") } else { lock.what.clone() };
        let (share, count) = (percent(share(known, lock.wait_ns)), Unit::Count.human(lock.count as f64));
        line(format!("    {:<26} {share:>6}  {count} waits, {}: {what}", lock.name, lock.kind));
    }
    let others =
        [("preempted by other tasks", known.preempted_ns), ("outside calls of files", known.elsewhere_ns)];
    for (what, ns) in others.into_iter().filter(|(_, ns)| share(known, *ns) >= LEAST) {
        line(format!("    {what:<26} {:>6}", percent(share(known, ns))));
    }
    if known.lost > 0 {
        line(format!("    {} events of the host were lost, so that waits are missing", known.lost));
    }
    known.skipped.iter().for_each(|why| line(format!("    not used: {why}")));
    text
}

fn written(known: &KernelLocks) -> impl Iterator<Item = &KernelLock> {
    known.locks.iter().take(MOST).filter(|lock| share(known, lock.wait_ns) >= LEAST)
}

fn share(known: &KernelLocks, ns: u64) -> f64 {
    if known.task_ns == 0 { 0.0 } else { ns as f64 / known.task_ns as f64 }
}

/// The lock for which the tasks of each cell waited the longest; none where no cell knows.
pub fn causes(results: &ResultFile) -> Option<Table> {
    let cells = cell::cells(results);
    let varying = cell::varying_axes(&cells);
    let mut table = Table::new("What tasks waited for in this host's kernel, with the part of their time");
    for name in varying.keys() {
        table.words(axis::title(name));
    }
    table.words("most");
    table.numbers("its waits");
    table.numbers("all waits");
    for cell in &cells {
        let Some(known) = cell.measured().find_map(|sample| sample.kernel_locks.as_ref()) else { continue };
        let mut row: Vec<String> =
            varying.keys().map(|name| cell.axis(name).unwrap_or("–").to_owned()).collect();
        let first = written(known).next();
        row.push(first.map_or_else(|| "–".to_owned(), |lock| lock.name.clone()));
        row.push(first.map_or_else(|| "–".to_owned(), |lock| percent(share(known, lock.wait_ns))));
        let told = !known.sources.is_empty();
        row.push(if told { percent(known.share()) } else { "not told".to_owned() });
        table.rows.push(row);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Why a result that was to record waits has none: the reasons of all sources.
pub fn untold(results: &ResultFile) -> Option<String> {
    let known = results.samples.iter().find_map(|sample| sample.kernel_locks.as_ref())?;
    known.sources.is_empty().then(|| known.skipped.join("; "))
}

#[cfg(test)]
mod tests {
    use results::{Clock, Sample};

    use super::*;

    fn result(known: Option<KernelLocks>) -> ResultFile {
        let mut result = ResultFile::new("t", serde_json::Value::Null, 1, Clock::Real);
        let axes = [("fs".to_owned(), "linux/ext4".to_owned())].into();
        result.samples = vec![Sample { kernel_locks: known, ..Sample::new(axes, 0, 1) }];
        result
    }

    fn known() -> KernelLocks {
        let lock = |name: &str, wait_ns| KernelLock {
            name: name.to_owned(),
            kind: "rwsem".to_owned(),
            wait_ns,
            count: 3,
            stack: vec!["down_write".to_owned()],
            ..KernelLock::default()
        };
        KernelLocks {
            sources: vec!["profile".to_owned()],
            skipped: vec!["lock tracepoints: this kernel has no tracepoint lock/contention_begin".to_owned()],
            task_ns: 1000,
            wait_ns: 700,
            locks: vec![lock("kernel.directory", 650), lock("kernel:some_function", 50)],
            ..KernelLocks::default()
        }
    }

    fn told(known: Option<KernelLocks>) -> String {
        let result = result(known);
        cell::cells(&result).iter().map(waits).collect()
    }

    #[test]
    fn locks_are_told_with_their_part_of_the_time_and_what_was_not_used_with_its_reason() {
        let text = told(Some(known()));
        for part in
            ["(profile): 70 %", "kernel.directory", "65 %", "down_write", "not used: lock tracepoints"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let table = causes(&result(Some(known()))).unwrap();
        assert_eq!(
            table.rows[0].iter().rev().take(3).collect::<Vec<_>>(),
            ["70 %", "65 %", "kernel.directory"]
        );
    }

    #[test]
    fn a_host_that_tells_nothing_is_said_to_and_claims_no_lock() {
        let nothing =
            KernelLocks { skipped: vec!["profile: root only".to_owned()], ..KernelLocks::default() };
        assert!(
            told(Some(nothing.clone())).contains("does not tell")
                && !told(Some(nothing.clone())).contains('%')
        );
        assert_eq!(causes(&result(Some(nothing))).unwrap().rows[0].last().unwrap(), "not told");
        assert_eq!(untold(&result(Some(known()))), None);
        let nothing =
            KernelLocks { skipped: vec!["profile: root only".to_owned()], ..KernelLocks::default() };
        assert_eq!(untold(&result(Some(nothing))).as_deref(), Some("profile: root only"));
        assert!(told(None).is_empty() && causes(&result(None)).is_none());
    }
}
