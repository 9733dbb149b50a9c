//! Start and end of a run, and what its tasks count.
//!
//! ```text
//! spawn ─▷ start ─ warm-up ─▷ begin ═══ measured ═══▷ end
//! ```
//!
//! A task looks at the clock between two operations and stops at the end. An operation counts if it ends in the measured time. The
//! end is known beforehand, or comes when enough operations were done, when all clients have nothing left to do, or when a call
//! fails in a way that the program does not expect.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use results::{Histogram, StepRecord};
use sim::Nanos;
use vfs::Errno;

use crate::suite::{How, JobError, Measured, Ready, Stop};
use crate::tree::CallFailed;

/// From the first task to the common start, for each task: longer than it takes to start one.
const LEAD: Nanos = Nanos::from_micros(100);

/// A kind of operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// Its name in results.
    pub(crate) name: &'static str,
    /// What it does.
    pub(crate) does: Does,
}

/// What an operation does with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    /// It reads.
    Reads,
    /// It writes.
    Writes,
    /// Neither.
    Other,
    /// It is a part of another one, and is not counted again.
    Part,
}

/// What a task has counted.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    kinds: Vec<(u64, u64, Histogram)>,
    counts: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// Adds to a count of the application.
    pub(crate) fn add(&mut self, name: &'static str, count: u64) {
        *self.counts.entry(name).or_default() += count;
    }

    /// Operations of all kinds.
    pub(crate) fn ops(&self, kinds: &[Kind]) -> u64 {
        let counted = kinds.iter().zip(&self.kinds).filter(|(kind, _)| kind.does != Does::Part);
        counted.map(|(_, (count, ..))| count).sum()
    }

    fn record(&mut self, kind: usize, bytes: u64, took: Nanos) {
        if self.kinds.len() <= kind {
            self.kinds.resize_with(kind + 1, || (0, 0, Histogram::new()));
        }
        let (count, moved, latency) = &mut self.kinds[kind];
        (*count, *moved) = (*count + 1, *moved + bytes);
        latency.record(took.0);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        if self.kinds.len() < other.kinds.len() {
            self.kinds.resize_with(other.kinds.len(), || (0, 0, Histogram::new()));
        }
        for ((count, moved, latency), more) in self.kinds.iter_mut().zip(&other.kinds) {
            (*count, *moved) = (*count + more.0, *moved + more.1);
            latency.merge(&more.2);
        }
        other.counts.iter().for_each(|(name, count)| self.add(name, *count));
    }
}

/// Why an application cannot go on.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    told: String,
    full: bool,
}

impl Failure {
    /// A call whose error the program does not expect.
    pub(crate) fn new(told: impl Into<String>, errno: Option<Errno>) -> Self {
        Self { told: told.into(), full: errno == Some(Errno::ENOSPC) }
    }

    /// The same, in a file called `name`.
    pub(crate) fn of(self, name: &str) -> Self {
        Self { told: format!("{name}: {}", self.told), ..self }
    }

    /// The error of a job of `workload`, written as `SUITE/NAME`, that was doing `what`.
    pub(crate) fn into_error(self, workload: &str, what: &str) -> JobError {
        let told = format!("{workload}: {what}: {}", self.told);
        if self.full { JobError::Full(told) } else { JobError::Failed(told) }
    }
}

impl From<CallFailed> for Failure {
    fn from(error: CallFailed) -> Self {
        Self::new(error.to_string(), Some(error.errno))
    }
}

/// What the tasks of a run share.
#[derive(Debug)]
pub(crate) struct Control {
    kinds: &'static [Kind],
    how: How,
    begin: Nanos,
    pub(crate) ready: Ready,
    end: AtomicU64,
    counted: AtomicU64,
    /// When the last task so far has ended.
    last: AtomicU64,
    merged: Mutex<(Tally, Option<Failure>)>,
}

impl Control {
    /// For tasks that are started now, so many of them.
    pub(crate) fn new(kinds: &'static [Kind], how: &How, tasks: u64) -> Self {
        let begin = sim::now() + LEAD * (tasks + 1) + how.warm_up;
        let end = match how.stop {
            Stop::After(time) => begin.0.saturating_add(time.0),
            Stop::Operations(_) => u64::MAX,
        };
        Self {
            kinds,
            how: how.clone(),
            begin,
            ready: Ready::default(),
            end: AtomicU64::new(end),
            counted: AtomicU64::new(0),
            last: AtomicU64::new(0),
            merged: Mutex::default(),
        }
    }

    /// When tasks begin.
    pub(crate) fn start(&self) -> Nanos {
        Nanos(self.begin.0 - self.how.warm_up.0)
    }

    /// When the measured time begins.
    pub(crate) fn begin(&self) -> Nanos {
        self.begin
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.how.interrupt.as_ref().is_some_and(|interrupt| interrupt.load(Relaxed))
    }

    /// Whether a task must stop.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        sim::now().0 >= self.end.load(Relaxed) || self.is_interrupted()
    }

    /// An operation that began at `started` ends now.
    #[inline]
    pub(crate) fn note(&self, tally: &mut Tally, kind: usize, bytes: u64, started: Nanos) {
        let is_part = self.kinds[kind].does == Does::Part;
        if let (Stop::Operations(_), false) = (self.how.stop, is_part) {
            // Each must see what the others have counted before this time.
            sim::interact();
        }
        let now = sim::now();
        if now < self.begin || now.0 > self.end.load(Relaxed) || !(is_part || self.is_wanted(now)) {
            return;
        }
        tally.record(kind, bytes, now.since(started));
    }

    /// Counts an operation that ended at `now`, and ends the run with the last that is wanted; false for one too many.
    fn is_wanted(&self, now: Nanos) -> bool {
        let Stop::Operations(wanted) = self.how.stop else { return true };
        let before = self.counted.fetch_add(1, Relaxed);
        if before + 1 == wanted {
            self.end.fetch_min(now.0, Relaxed);
        }
        before < wanted
    }

    /// Ends the run.
    pub(crate) fn fail(&self, failure: Failure) {
        self.end.fetch_min(sim::now().0, Relaxed);
        self.merged.lock().unwrap_or_else(PoisonError::into_inner).1.get_or_insert(failure);
    }

    /// A task has ended.
    pub(crate) fn ended(&self, tally: &Tally) {
        self.last.fetch_max(sim::now().0, Relaxed);
        self.merged.lock().unwrap_or_else(PoisonError::into_inner).0.merge(tally);
    }

    /// What all have counted, when all have ended.
    pub(crate) fn measured(&self) -> Result<Measured, JobError> {
        let merged = self.merged.lock().unwrap_or_else(PoisonError::into_inner);
        let (tally, failure) = &*merged;
        if let Some(Failure { told, full: true }) = failure {
            return Err(JobError::Full(told.clone()));
        }
        let end = self.end.load(Relaxed).min(self.last.load(Relaxed));
        let mut measured = Measured {
            elapsed: Nanos(end).since(self.begin),
            // Programs look for files that are not there; a call that should not have failed ends the run.
            provided_for: u64::MAX,
            ..Measured::default()
        };
        for (kind, (count, bytes, latency)) in self.kinds.iter().zip(&tally.kinds) {
            match kind.does {
                Does::Reads => {
                    measured.read_ops += count;
                    measured.read_bytes += bytes;
                }
                Does::Writes => {
                    measured.write_ops += count;
                    measured.written_bytes += bytes;
                }
                Does::Other | Does::Part => {}
            }
            let record = StepRecord {
                name: kind.name.to_owned(),
                count: *count,
                bytes: *bytes,
                latency_ns: latency.clone(),
            };
            measured.steps.extend((*count > 0).then_some(record));
        }
        measured.ops = tally.ops(self.kinds);
        measured.counters.extend(tally.counts.iter().map(|(name, count)| ((*name).to_owned(), *count)));
        if let Some(failure) = failure {
            (measured.errors, measured.cut_short) = (1, true);
            measured
                .notes
                .push(format!("{}; the run ended there, and its numbers are not valid", failure.told));
        }
        Ok(measured)
    }
}
