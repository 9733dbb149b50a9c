//! Start and end of a run, and the loop between them.
//!
//! What workers share is three words. Where each worker is a process, they lie in memory that the processes share, and their times
//! are of the host's monotonic clock, which is the same for all; elsewhere they are times of the run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use sim::host_memory::HostWords;
use sim::{Condvar, LockClass, Mutex, Nanos};

use super::run::{Ended, Plan};
use super::table::Loop;
use super::worker::{Done, Worker};
use crate::suite::{How, Ready, Stop};
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
    pub(super) ready: Ready,
    state: Mutex<State>,
    changed: Condvar,
    words: Words,
    /// What makes a time of this run one of `words`.
    offset: u64,
}

/// What the workers share: by number in memory that processes share.
enum Words {
    Own([AtomicU64; WORDS]),
    Shared(HostWords),
}

/// When the measurement begins, in nanoseconds.
const BEGIN: usize = 0;
/// Operations that end later do not count; in nanoseconds.
const END: usize = 1;
/// Counted operations; kept where they end the run.
const COUNTED: usize = 2;
/// All of them.
pub(super) const WORDS: usize = 3;

impl Words {
    fn word(&self, number: usize) -> &AtomicU64 {
        match self {
            Self::Own(words) => &words[number],
            Self::Shared(words) => words.word(number),
        }
    }
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
    /// For workers that are tasks of this run.
    pub(super) fn new(plan: &Plan, how: &How) -> Self {
        let words = [AtomicU64::new(0), AtomicU64::new(u64::MAX), AtomicU64::new(0)];
        Self::with(plan, how.interrupt.clone(), Words::Own(words), 0)
    }

    /// For workers that are processes: in each of them, and in the one that starts them, which has made the words.
    pub(super) fn shared(plan: &Plan, interrupt: Option<Arc<AtomicBool>>, words: HostWords) -> Self {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let monotonic = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        Self::with(plan, interrupt, Words::Shared(words), monotonic.saturating_sub(sim::now().0))
    }

    /// Words that no worker has seen yet.
    pub(super) fn clear(words: &HostWords) {
        words.word(END).store(u64::MAX, Relaxed);
    }

    fn with(plan: &Plan, interrupt: Option<Arc<AtomicBool>>, words: Words, offset: u64) -> Self {
        let wanted = match plan.stop {
            Stop::After(_) => u64::MAX,
            Stop::Operations(count) => count,
        };
        Self {
            plan: plan.clone(),
            interrupt,
            ordered: plan.is_ordered(),
            wanted,
            ready: Ready::default(),
            state: Mutex::new(&RUN, State::default()),
            changed: Condvar::of_class(&RUN),
            words,
            offset,
        }
    }

    /// A time of this run as one of the words, and the other way.
    pub(super) fn common(&self, time: Nanos) -> u64 {
        time.0.saturating_add(self.offset)
    }

    pub(super) fn own(&self, time: u64) -> Nanos {
        Nanos(time.saturating_sub(self.offset))
    }

    fn ends(&self) -> Nanos {
        self.own(self.words.word(END).load(Relaxed))
    }

    /// Workers that are ready now start at the time that comes first, and are measured from the second on.
    pub(super) fn set(&self) -> (Nanos, Nanos) {
        let start = sim::now() + LEAD * (self.plan.parameters.workers + 1);
        let begin = start + self.plan.parameters.warmup;
        self.words.word(BEGIN).store(self.common(begin), Relaxed);
        if let Stop::After(time) = self.plan.stop {
            self.end(begin + time);
        }
        (start, begin)
    }

    /// The main task: waits for all workers and starts them; returns when the measurement begins.
    pub(super) fn start(&self) -> Nanos {
        let mut state = self.state.lock();
        while state.ready < self.plan.parameters.workers {
            state = self.changed.wait(state);
        }
        let (start, begin) = self.set();
        state.start = Some(start);
        drop(state);
        self.changed.notify_all();
        begin
    }

    /// A worker: says that it is ready and waits for the start. One that could not open its files is ready as well: the others
    /// must not wait for it for ever.
    pub(super) fn wait_for_start(&self) {
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
        self.ready.sleep_until(start);
    }

    /// The window that began at `begin`, when all workers have ended.
    pub(super) fn window(&self, begin: Nanos) -> Window {
        let state = self.state.lock();
        let end = self.ends().min(state.last);
        // Nothing that went on beyond the end of the time counts; a run that ended by itself lasted as long as its workers.
        let end = match self.plan.stop {
            Stop::After(_) if self.interrupted() => end,
            Stop::After(_) => self.ends(),
            Stop::Operations(_) => end,
        };
        Window { elapsed: end.since(begin), failed: state.failed.clone() }
    }

    pub(super) fn interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(|interrupt| interrupt.load(Relaxed))
    }

    /// Ends the run: what ends later does not count.
    pub(super) fn end(&self, at: Nanos) {
        self.words.word(END).fetch_min(self.common(at), Relaxed);
    }

    /// When the last worker of this process has ended, and the first call that failed in it.
    pub(super) fn outcome(&self) -> (Nanos, Option<String>) {
        let state = self.state.lock();
        (state.last, state.failed.clone())
    }

    /// Notes what [`Self::outcome`] has told in another process.
    pub(super) fn note(&self, last: Nanos, failed: Option<String>) {
        let mut state = self.state.lock();
        state.last = state.last.max(last);
        state.failed = state.failed.take().or(failed);
    }

    fn fail(&self, w: u64, error: &CallFailed) {
        let told = format!("worker {w}: {error}; the cell ended there, and its numbers are not valid");
        self.state.lock().failed.get_or_insert(told);
        self.end(sim::now());
    }

    /// The whole of a worker's part; `wait` returns at the common start.
    pub(super) fn work(&self, mut worker: Worker<'_>, wait: impl FnOnce()) -> Ended {
        let mut ended = Ended::default();
        let late = self.plan.parameters.switches.open_in_window;
        let opened = if late { Ok(()) } else { worker.open() };
        wait();
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
        let begin = self.own(self.words.word(BEGIN).load(Relaxed));
        let end = self.words.word(END);
        let foreground = self.plan.is_foreground(worker.w);
        let cpu_before = sim::cpu_time();
        let mut start = sim::now();
        let mut turn = start;
        while start < self.own(end.load(Relaxed)) && !self.interrupted() {
            let done = if foreground { worker.once() } else { worker.disturb() };
            let now = sim::now();
            if self.ordered {
                sim::interact();
            }
            match done {
                Done::Moved(bytes)
                    if self.counts(begin, now, end) && (!foreground || self.is_wanted(now)) =>
                {
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
    fn counts(&self, begin: Nanos, now: Nanos, end: &AtomicU64) -> bool {
        now >= begin && (now <= self.own(end.load(Relaxed)) || self.plan.parameters.switches.mean_elapsed)
    }

    /// Counts an operation that ended at `now`, and ends the run with the last that is wanted; false for one too many.
    #[inline]
    fn is_wanted(&self, now: Nanos) -> bool {
        if self.wanted == u64::MAX {
            return true;
        }
        let before = self.words.word(COUNTED).fetch_add(1, Relaxed);
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
            sim::sleep_until((*turn).min(self.ends()));
        }
        sim::now()
    }
}
