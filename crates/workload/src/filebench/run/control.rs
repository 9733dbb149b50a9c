//! Start, stop, and the counts that all threads share.
//!
//! A thread stops at its first look at the clock past the stopping time. With the default policy that time
//! is known at the start and threads need not watch each other. With any other (`firstdone`, a number of
//! operations, limiters that count what others do) the run is *ordered*: every operation ends with an
//! interaction, so that all threads see the same counts at the same virtual time.
//!
//! Lock order: [`Gate`]s and filesets first, then the state of the run. Nothing is taken under the latter.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sim::{Clock, Condvar, Line, LockClass, Mutex, MutexGuard, Nanos};

use super::error::EngineError;

pub(super) static STATE: LockClass = LockClass::new("filebench.run");
pub(super) static GATE: LockClass = LockClass::new("filebench.gate");
pub(super) static STATISTICS: LockClass = LockClass::new("filebench.statistics");
pub(super) static COUNTERS: LockClass = LockClass::of_lines(
    "filebench.counters",
    "Filebench's counters of the whole run, below filebench.statistics",
);

/// From the last thread being ready to the common start.
const LEAD: Nanos = Nanos::from_micros(10);

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// Its time was over.
    Time,
    /// The wanted number of operations was done.
    Operations,
    /// One thread had nothing left to do.
    FirstDone,
    /// All threads had nothing left to do.
    AllDone,
    /// A `finishoncount` or `finishonbytes` was reached.
    Finished,
    /// The caller of the run wanted it to end: the outcome is good as far as it goes.
    Interrupted,
}

/// What the threads of one run share.
pub(crate) struct Control {
    state: Mutex<State>,
    changed: Condvar,
    /// Operations that end later do not count; in nanoseconds.
    stop_at: AtomicU64,
    /// Operations that end earlier do not count; in nanoseconds.
    begin_at: AtomicU64,
    /// When the last thread so far ran out of things to do; in nanoseconds.
    idle_since: AtomicU64,
    ordered: bool,
    wanted_ops: u64,
    /// Filebench's counters of the whole run: their place, and what it costs to come to it. None where that
    /// is not modelled.
    statistics: Option<Mutex<Line>>,
    pub(crate) totals: Totals,
}

#[derive(Default)]
struct State {
    ready: usize,
    ended: usize,
    start: Option<Nanos>,
    end: Option<EndReason>,
    error: Option<EngineError>,
}

/// Counts of the whole run; kept in ordered runs only.
#[derive(Default)]
pub(crate) struct Totals {
    /// Operations that count in the summary.
    pub(crate) ops: AtomicU64,
    /// Operations of read or write type.
    pub(crate) io_ops: AtomicU64,
    /// Operations of any class.
    pub(crate) all_ops: AtomicU64,
    /// Bytes moved by reads and writes.
    pub(crate) bytes: AtomicU64,
}

/// The measured time of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) begin: Nanos,
    pub(crate) end: Option<Nanos>,
}

impl Control {
    pub(crate) fn new(ordered: bool, wanted_ops: Option<u64>, statistics_lock: bool) -> Self {
        Self {
            state: Mutex::new(&STATE, State::default()),
            changed: Condvar::of_class(&STATE),
            stop_at: AtomicU64::new(u64::MAX),
            begin_at: AtomicU64::new(0),
            idle_since: AtomicU64::new(0),
            ordered,
            wanted_ops: wanted_ops.unwrap_or(u64::MAX),
            statistics: (statistics_lock && sim::clock() == Clock::Virtual)
                .then(|| Mutex::sleeping(&STATISTICS, Line::new(&COUNTERS))),
            totals: Totals::default(),
        }
    }

    /// A thread: says that it is ready and waits for the start.
    pub(crate) fn wait_for_start(&self) {
        let mut state = self.state.lock();
        state.ready += 1;
        self.changed.notify_all();
        while state.start.is_none() {
            state = self.changed.wait(state);
        }
        let start = state.start.unwrap_or_default();
        drop(state);
        sim::sleep_until(start);
    }

    /// The main task: waits for all threads, starts them, and returns the measured window.
    pub(crate) fn start(&self, threads: usize, warmup: Nanos, duration: Option<Nanos>) -> Window {
        let mut state = self.state.lock();
        while state.ready < threads {
            state = self.changed.wait(state);
        }
        let start = sim::now() + LEAD;
        let begin = start + warmup;
        let end = duration.map(|duration| begin + duration);
        self.begin_at.store(begin.0, Relaxed);
        self.stop_at.store(end.map_or(u64::MAX, |end| end.0), Relaxed);
        state.start = Some(start);
        drop(state);
        self.changed.notify_all();
        Window { begin, end }
    }

    /// The main task: waits until the run is over, at most until `until`. True when it is over.
    pub(crate) fn wait_for_end(&self, threads: usize, until: Option<Nanos>) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.end.is_some() || state.error.is_some() || state.ended == threads {
                return true;
            }
            state = match until {
                None => self.changed.wait(state),
                Some(until) if sim::now() >= until => return false,
                Some(until) => self.changed.wait_timeout(state, until.since(sim::now())).0,
            };
        }
    }

    /// A thread: says that it has ended.
    pub(crate) fn ended(&self) {
        self.state.lock().ended += 1;
        self.changed.notify_all();
    }

    /// A thread: says that it has nothing left to do.
    pub(crate) fn idle(&self, now: Nanos) {
        self.idle_since.fetch_max(now.0, Relaxed);
    }

    /// The main task, when every thread has ended by itself: ends the run at the time of the last.
    pub(crate) fn all_done(&self) {
        self.stop(Nanos(self.idle_since.load(Relaxed)), EndReason::AllDone);
    }

    /// Ends the run at `at`, unless it has ended before.
    pub(crate) fn stop(&self, at: Nanos, reason: EndReason) {
        let mut state = self.state.lock();
        if state.end.is_none() && state.error.is_none() {
            state.end = Some(reason);
            self.stop_at.fetch_min(at.0, Relaxed);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Ends the run without a result.
    pub(crate) fn fail(&self, error: EngineError) {
        let mut state = self.state.lock();
        state.error.get_or_insert(error);
        self.stop_at.fetch_min(sim::now().0, Relaxed);
        drop(state);
        self.changed.notify_all();
    }

    /// How the run ended.
    pub(crate) fn outcome(&self) -> Result<Option<EndReason>, EngineError> {
        let state = self.state.lock();
        match &state.error {
            Some(error) => Err(error.clone()),
            None => Ok(state.end),
        }
    }

    /// The time at which the run stops, as far as it is known.
    pub(crate) fn stop_at(&self) -> Nanos {
        Nanos(self.stop_at.load(Relaxed))
    }

    /// Whether the run is over for a thread that stands at `now`.
    #[inline]
    pub(crate) fn is_over(&self, now: Nanos) -> bool {
        now.0 >= self.stop_at.load(Relaxed)
    }

    /// Whether an operation that ended at `end` counts.
    #[inline]
    pub(crate) fn counts(&self, end: Nanos) -> bool {
        end.0 >= self.begin_at.load(Relaxed) && end.0 <= self.stop_at.load(Relaxed)
    }

    /// Whether threads must see each other's counts.
    #[inline]
    pub(crate) fn is_ordered(&self) -> bool {
        self.ordered
    }

    /// What Filebench does at the end of each operation: it adds to the counters of all threads, under their
    /// lock. The sums themselves are not Weir's (see [`Totals`]); what remains is the time that it takes.
    pub(crate) fn update_statistics(&self) {
        if let Some(statistics) = &self.statistics {
            statistics.lock().touch();
        }
    }

    /// Adds a counted operation; true when it was the last one wanted.
    pub(crate) fn add(&self, counted: bool, io: bool, bytes: u64) -> bool {
        self.totals.all_ops.fetch_add(1, Relaxed);
        if io {
            self.totals.io_ops.fetch_add(1, Relaxed);
            self.totals.bytes.fetch_add(bytes, Relaxed);
        }
        counted && self.totals.ops.fetch_add(1, Relaxed) + 1 == self.wanted_ops
    }

    /// Whether an operation is one too many.
    pub(crate) fn is_enough(&self) -> bool {
        self.totals.ops.load(Relaxed) >= self.wanted_ops
    }

    /// Waits on `changed` until it is notified or the run is over.
    pub(crate) fn wait_on<'a, T>(&self, changed: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        match self.stop_at() {
            Nanos(u64::MAX) => changed.wait(guard),
            stop_at => changed.wait_timeout(guard, stop_at.since(sim::now())).0,
        }
    }
}

/// A value that threads wait for.
pub(crate) struct Gate<T> {
    value: Mutex<T>,
    changed: Condvar,
}

impl<T> Gate<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Mutex::new(&GATE, value), changed: Condvar::of_class(&GATE) }
    }

    /// Changes the value and wakes those that wait for it.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.value.lock());
        self.changed.notify_all();
        result
    }

    /// Waits until `ready` gives a result; none when the run is over before.
    pub(crate) fn wait<R>(&self, control: &Control, mut ready: impl FnMut(&mut T) -> Option<R>) -> Option<R> {
        let mut value = self.value.lock();
        loop {
            if let Some(result) = ready(&mut value) {
                return Some(result);
            }
            if control.is_over(sim::now()) {
                return None;
            }
            value = control.wait_on(&self.changed, value);
        }
    }

    /// Makes all who wait look again: at something that is not under the lock. So who has looked before it changed, and has
    /// the lock still, must be asleep before the notification.
    pub(crate) fn wake(&self) {
        drop(self.value.lock());
        self.changed.notify_all();
    }
}
