//! Start and end of a run, and the loop between them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use sim::{Condvar, LockClass, Mutex, Nanos};

use super::run::{Ended, Plan};
use super::table::Loop;
use super::worker::{Done, Worker};
use crate::suite::{How, Stop};
use crate::tree::CallFailed;

pub(super) static RUN: LockClass = LockClass::new("fxmark.run");

/// From the last worker being ready to the common start, for each worker: longer than it takes to wake one.
pub(super) const LEAD: Nanos = Nanos::from_micros(10);

/// The measured time of a run.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) elapsed: Nanos,
    /// The first call that failed.
    pub(super) failed: Option<String>,
}

/// What the workers of a run share.
pub(super) struct Control {
    plan: Plan,
    interrupt: Option<Arc<AtomicBool>>,
    ordered: bool,
    wanted: u64,
    state: Mutex<State>,
    changed: Condvar,
    /// When the measurement begins, in nanoseconds.
    begin: AtomicU64,
    /// Operations that end later do not count; in nanoseconds.
    end: AtomicU64,
    /// Counted operations; kept where they end the run.
    counted: AtomicU64,
}

#[derive(Default)]
struct State {
    ready: u64,
    start: Option<Nanos>,
    failed: Option<String>,
    /// When the last worker so far has ended.
    last: Nanos,
}

impl Control {
    pub(super) fn new(plan: &Plan, how: &How) -> Self {
        let wanted = match plan.stop {
            Stop::After(_) => u64::MAX,
            Stop::Operations(count) => count,
        };
        Self {
            plan: plan.clone(),
            interrupt: how.interrupt.clone(),
            ordered: plan.is_ordered(),
            wanted,
            state: Mutex::new(&RUN, State::default()),
            changed: Condvar::of_class(&RUN),
            begin: AtomicU64::new(0),
            end: AtomicU64::new(u64::MAX),
            counted: AtomicU64::new(0),
        }
    }

    /// The main task: waits for all workers and starts them; returns when the measurement begins.
    pub(super) fn start(&self) -> Nanos {
        let mut state = self.state.lock();
        while state.ready < self.plan.parameters.workers {
            state = self.changed.wait(state);
        }
        let start = sim::now() + LEAD * (self.plan.parameters.workers + 1);
        let begin = start + self.plan.parameters.warmup;
        self.begin.store(begin.0, Relaxed);
        if let Stop::After(time) = self.plan.stop {
            self.end.fetch_min((begin + time).0, Relaxed);
        }
        state.start = Some(start);
        drop(state);
        self.changed.notify_all();
        begin
    }

    /// A worker: says that it is ready and waits for the start. One that could not open its files is ready as well: the others
    /// must not wait for it for ever.
    fn wait_for_start(&self) {
        let mut state = self.state.lock();
        state.ready += 1;
        self.changed.notify_all();
        let start = loop {
            match state.start {
                Some(start) => break start,
                None => state = self.changed.wait(state),
            }
        };
        drop(state);
        sim::sleep_until(start);
    }

    /// The window that began at `begin`, when all workers have ended.
    pub(super) fn window(&self, begin: Nanos) -> Window {
        let state = self.state.lock();
        let end = Nanos(self.end.load(Relaxed)).min(state.last);
        // Nothing that went on beyond the end of the time counts; a run that ended by itself lasted as long as its workers.
        let end = match self.plan.stop {
            Stop::After(_) if self.interrupted() => end,
            Stop::After(_) => Nanos(self.end.load(Relaxed)),
            Stop::Operations(_) => end,
        };
        Window { elapsed: end.since(begin), failed: state.failed.clone() }
    }

    fn interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(|interrupt| interrupt.load(Relaxed))
    }

    /// Ends the run: what ends later does not count.
    fn end(&self, at: Nanos) {
        self.end.fetch_min(at.0, Relaxed);
    }

    fn fail(&self, w: u64, error: &CallFailed) {
        let told = format!("worker {w}: {error}; the cell ended there, and its numbers are not valid");
        self.state.lock().failed.get_or_insert(told);
        self.end(sim::now());
    }

    /// The whole of a worker's part.
    pub(super) fn work(&self, mut worker: Worker<'_>) -> Ended {
        let mut ended = Ended::default();
        let late = self.plan.parameters.switches.open_in_window;
        let opened = if late { Ok(()) } else { worker.open() };
        self.wait_for_start();
        match opened.and_then(|()| if late { worker.open() } else { Ok(()) }) {
            Ok(()) => self.repeat(&mut worker, &mut ended),
            Err(error) => {
                ended.errors += 1;
                self.fail(worker.w, &error);
            }
        }
        (ended.listing, ended.next) = (worker.listing(), worker.next());
        if let Err(error) = worker.close() {
            ended.errors += 1;
            self.fail(worker.w, &error);
        }
        let mut state = self.state.lock();
        state.last = state.last.max(sim::now());
        drop(state);
        ended
    }

    /// Operation after operation until the end.
    fn repeat(&self, worker: &mut Worker<'_>, ended: &mut Ended) {
        let begin = Nanos(self.begin.load(Relaxed));
        let foreground = self.plan.is_foreground(worker.w);
        let cpu_before = sim::cpu_time();
        let mut start = sim::now();
        let mut turn = start;
        while start.0 < self.end.load(Relaxed) && !self.interrupted() {
            let done = if foreground { worker.once() } else { worker.disturb() };
            let now = sim::now();
            if self.ordered {
                sim::interact();
            }
            match done {
                Done::Moved(bytes) if self.counts(begin, now) && (!foreground || self.is_wanted(now)) => {
                    ended.ops += 1;
                    ended.bytes += bytes;
                    ended.latency.record(now.since(start).0);
                }
                Done::Moved(_) => {}
                Done::NothingLeft if self.is_alone() => break,
                done @ (Done::NothingLeft | Done::Full) => {
                    ended.full = matches!(done, Done::Full);
                    self.end(now);
                    break;
                }
                Done::Failed(error) => {
                    ended.errors += 1;
                    self.fail(worker.w, &error);
                    break;
                }
            }
            start = if foreground { now } else { self.pace(&mut turn) };
        }
        ended.elapsed = sim::now().since(begin);
        ended.cpu = sim::cpu_time().zip(cpu_before).map(|(now, before)| now.since(before));
    }

    /// Whether an operation that ended at `now` is one of the window.
    #[inline]
    fn counts(&self, begin: Nanos, now: Nanos) -> bool {
        now >= begin && (now.0 <= self.end.load(Relaxed) || self.plan.parameters.switches.mean_elapsed)
    }

    /// Counts an operation that ended at `now`, and ends the run with the last that is wanted; false for one too many.
    #[inline]
    fn is_wanted(&self, now: Nanos) -> bool {
        if self.wanted == u64::MAX {
            return true;
        }
        let before = self.counted.fetch_add(1, Relaxed);
        if before + 1 == self.wanted {
            self.end(now);
        }
        before < self.wanted
    }

    /// Whether a worker that has nothing left ends alone.
    fn is_alone(&self) -> bool {
        self.plan.parameters.switches.mean_elapsed && self.plan.benchmark.work != Loop::RenameAcross
    }

    /// Waits until a worker in the background may go on.
    fn pace(&self, turn: &mut Nanos) -> Nanos {
        if let Some(pause) = 1_000_000_000_u64.checked_div(self.plan.parameters.background_rate) {
            *turn += Nanos(pause);
            sim::sleep_until((*turn).min(Nanos(self.end.load(Relaxed))));
        }
        sim::now()
    }
}
