//! What is in a trace, in sums.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::call::Op;
use crate::error::Result;
use crate::losses::Losses;
use crate::reader::{Ending, Reader};
use crate::record::{Kind, Record, Timed};

/// The sums of a kind of call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfCall {
    /// Calls.
    pub calls: u64,
    /// Of those, calls that failed.
    pub failed: u64,
    /// Bytes read or written.
    pub bytes: u64,
    /// The time in the calls, as recorded, in nanoseconds.
    pub duration_ns: u64,
}

/// The sums of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The head.
    pub head: Vec<(String, String)>,
    /// By kind of call.
    pub calls: BTreeMap<Op, OfCall>,
    /// By error, the calls that failed.
    pub errors: BTreeMap<u32, u64>,
    /// Threads.
    pub threads: u64,
    /// Processes.
    pub processes: u64,
    /// Distinct paths in calls.
    pub paths: u64,
    /// What existed before: entries, and the bytes of files.
    pub initial: (u64, u64),
    /// From the beginning to the end of the last call, in nanoseconds.
    pub span_ns: u64,
    /// The sum of the threads' own computing, in nanoseconds; none where the recorder could not tell it from its own work.
    pub cpu_ns: Option<u64>,
    /// Whether the gaps between calls say when it computed; of a trace by strace ([`crate::record::End::tells_computing`]).
    pub tells_computing: bool,
    /// What was seen and not stored.
    pub counts: BTreeMap<String, u64>,
    /// Calls that the recorder lost.
    pub lost: u64,
    /// What is missing and why, as far as the recorder has said it.
    pub losses: Losses,
    /// Records of optional sections that this Weir does not know.
    pub passed_over: u64,
    /// The last whole line of a trace without end.
    pub cut_after: Option<u64>,
}

impl Stat {
    /// All calls.
    pub fn total(&self) -> OfCall {
        self.calls.values().fold(OfCall::default(), |sum, of| OfCall {
            calls: sum.calls + of.calls,
            failed: sum.failed + of.failed,
            bytes: sum.bytes + of.bytes,
            duration_ns: sum.duration_ns + of.duration_ns,
        })
    }
}

/// Adds up a trace.
pub fn stat(mut reader: Reader) -> Result<Stat> {
    let mut counting = Counting::default();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    counting.stat.head = reader.head().keys.iter().map(|(key, value)| (text(key), text(value))).collect();
    while let Some(record) = reader.next()? {
        counting.record(&record);
    }
    let mut stat = counting.stat;
    (stat.lost, stat.losses, stat.passed_over) =
        (reader.lost(), reader.losses().clone(), reader.passed_over());
    if let Ending::Cut(line) = reader.ending() {
        stat.cut_after = Some(line);
    }
    stat.paths = counting.paths.len() as u64;
    stat.processes = counting.processes.len() as u64;
    stat.threads = counting.threads.len() as u64;
    Ok(stat)
}

#[derive(Default)]
struct Counting {
    stat: Stat,
    paths: FxHashSet<Box<[u8]>>,
    processes: FxHashSet<u32>,
    threads: FxHashMap<u32, u64>,
}

impl Counting {
    fn record(&mut self, record: &Record) {
        match record {
            Record::Entry(entry) => {
                self.stat.initial.0 += 1;
                self.stat.initial.1 += if entry.kind == Kind::File { entry.size } else { 0 };
            }
            Record::Thread(thread) => {
                self.processes.insert(thread.pid);
                self.threads.entry(thread.number).or_insert(0);
            }
            Record::Fork(fork) => {
                let parent = self.threads.get(&fork.parent).copied().unwrap_or(0);
                self.threads.insert(fork.child, parent + fork.after_ns);
            }
            Record::Call(timed) => self.call(timed),
            Record::Count(count) => {
                let what = String::from_utf8_lossy(&count.what).into_owned();
                *self.stat.counts.entry(what).or_default() += count.count;
            }
            Record::End(end) => {
                self.stat.cpu_ns = end.user_ns;
                self.stat.tells_computing = end.tells_computing();
                self.stat.span_ns = self.stat.span_ns.max(end.at_ns);
            }
            Record::Inherited(_)
            | Record::Exit(_)
            | Record::Loss(_)
            | Record::Sent(_)
            | Record::Received(_) => {}
        }
    }

    fn call(&mut self, timed: &Timed) {
        let clock = self.threads.entry(timed.thread).or_default();
        *clock += timed.times.gap_ns + timed.times.duration_ns;
        self.stat.span_ns = self.stat.span_ns.max(*clock);
        let op = timed.call.op;
        let of = self.stat.calls.entry(op).or_default();
        of.calls += 1;
        of.duration_ns += timed.times.duration_ns;
        if timed.result < 0 {
            of.failed += 1;
            *self.stat.errors.entry(timed.result.unsigned_abs() as u32).or_default() += 1;
        } else if op.reads() || op.writes() {
            of.bytes += timed.result.unsigned_abs();
        }
        if let Some(path) = timed.call.path.as_ref().filter(|path| !self.paths.contains(*path)) {
            self.paths.insert(path.clone());
        }
    }
}
