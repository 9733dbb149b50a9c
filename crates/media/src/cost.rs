//! What accesses cost: models compute, the clock charges.
//!
//! A region calls its [`CostModel`] once for each load, write-back or fence, with the number of bytes or
//! lines. The model lets the time pass through `sim`: it advances a task of the virtual clock and spins under
//! the real one. What a model charges is *extra*: the CPU's own part of a copy (`sim::copy`) and of an
//! instruction (`sim::work`) is charged by the region.
//!
//! The parts that models are made of (`docs/models/nvmm.md`):
//!
//! | part | a request of service time `s` at `now` |
//! |---|---|
//! | [`Channel`] | `start = max(now, free_at); end = free_at = start + s`, for the slot that is free first |
//! | [`Bucket`] | waits until the tokens for it have dripped in; the bucket holds at most a burst |
//!
//! Both count picoseconds, because a line of 64 B at 2.3 GB/s takes 27.8 ns and a rounded line would be 0.6 %
//! off. Time that a task waits for its turn is booked as `MediumWait`, its own service on the activity in
//! scope.

use std::fmt::Debug;
use std::sync::Arc;

use parking_lot::Mutex;
use sim::{Activity, LINE_BYTES, Memory, Nanos, Rate};

/// The cost of a memory medium.
pub trait CostModel: Send + Sync + Debug {
    /// Its name, as in the table of media.
    fn name(&self) -> &'static str;

    /// `bytes` at `off` are loaded by one copy.
    fn load(&self, off: u64, bytes: u64);

    /// A copy that has begun goes on with `bytes` at `off`.
    fn load_on(&self, off: u64, bytes: u64) {
        self.load(off, bytes);
    }

    /// Whether the time of a load is all that the access takes a processor that waits for it; otherwise it is what the medium takes
    /// longer than DRAM.
    fn loads_whole(&self) -> bool {
        false
    }

    /// `lines` cache lines from `off` on are written back or stored past the cache, by one instruction
    /// sequence. A region calls this for a page at most, so a model may hold what a writer holds for the
    /// whole call.
    fn write(&self, off: u64, lines: u64);

    /// Whether [`CostModel::write_since`] asks when a store began.
    fn posts_stores(&self) -> bool {
        false
    }

    /// As [`CostModel::write`], of a store past the caches whose copy began at `started`, where the model asks for that: the copy's
    /// time and the medium's may overlap.
    fn write_since(&self, off: u64, lines: u64, started: Nanos) {
        let _ = started;
        self.write(off, lines);
    }

    /// `bytes` at `off`, which no cache has, are about to be stored to through the caches: a processor loads their lines first.
    fn fetch(&self, off: u64, bytes: u64) {
        let _ = (off, bytes);
    }

    /// The task waits for its earlier writes.
    fn fence(&self);

    /// The memory through which lines move, where the medium is one whose latency depends on its traffic. A region then charges
    /// copy and medium by one call, and asks [`CostModel::load`] only for metadata.
    fn memory(&self) -> Option<&Arc<Memory>> {
        None
    }

    /// What writing one more line takes a task that is alone, besides the copy: what a design that decides by
    /// it (HiNFS's `L_nvmm`) is told. Zero for a medium as fast as DRAM.
    fn line_time(&self) -> Nanos {
        Nanos::ZERO
    }

    /// Queues are empty, buffers are cold, statistics are zero, as when a new run begins: times start from zero again then, and
    /// a model that outlives a run forgets by itself what another has left.
    fn reset(&self) {}

    /// What follows from its parameters and what it has counted since [`CostModel::reset`]: the effective
    /// bandwidth, the number of writers, the ratio of writes.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }
}

/// A number that a model reports about itself, with its unit last in its name.
pub type Figure = (&'static str, f64);

/// Picoseconds: the unit in which channels count.
const PS: u64 = 1_000;

/// The time of `bytes` at `rate` in picoseconds; zero when the rate is zero, which means unlimited.
pub(crate) fn service_ps(bytes: u64, rate: Rate) -> u64 {
    match rate.0 {
        0 => 0,
        rate => ((u128::from(bytes) * 1_000_000_000_000 + u128::from(rate) / 2) / u128::from(rate)) as u64,
    }
}

/// The time of one line at `rate` in picoseconds.
pub(crate) fn line_ps(rate: Rate) -> u64 {
    service_ps(LINE_BYTES as u64, rate)
}

/// Whether a clock runs: outside a run nothing is charged, and no queue may be used, because time stands
/// still.
#[inline]
pub(crate) fn clock_runs() -> bool {
    sim::task::current_id().is_some()
}

/// When a request is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// It arrived.
    pub arrival: Nanos,
    /// Its service begins.
    pub start: Nanos,
    /// Its service is over, rounded up.
    pub end: Nanos,
}

impl Turn {
    /// Lets the task pass its turn and `latency` after it.
    #[inline]
    pub fn pass(self, latency: Nanos) {
        if self.start > self.arrival {
            sim::medium_until(Activity::MEDIUM_WAIT, self.start);
        }
        sim::medium_until(sim::ledger::current_scope(), self.end + latency);
    }
}

/// What a model remembers, and the run in which it means something.
#[derive(Debug)]
struct OfRun<T> {
    run: u32,
    state: T,
}

impl<T> OfRun<T> {
    const fn new(state: T) -> Self {
        Self { run: 0, state }
    }

    /// The state, after `forget` if it is that of another run.
    #[inline]
    fn get(&mut self, forget: impl FnOnce(&mut T)) -> &mut T {
        let run = sim::task::run_number().unwrap_or(0);
        if self.run != run {
            self.run = run;
            forget(&mut self.state);
        }
        &mut self.state
    }
}

/// Slots that serve one request at a time each, first come first served.
#[derive(Debug)]
pub struct Channel {
    free_at_ps: Mutex<OfRun<Box<[u64]>>>,
}

impl Channel {
    /// A free channel of `slots` slots (at least one).
    pub fn new(slots: usize) -> Self {
        Self { free_at_ps: Mutex::new(OfRun::new(vec![0; slots.max(1)].into_boxed_slice())) }
    }

    /// Takes the next turn of `service_ps` picoseconds for the current task. Only inside a run.
    #[inline]
    pub fn reserve(&self, service_ps: u64) -> Turn {
        sim::interact();
        let arrival = sim::now();
        let mut slots = self.free_at_ps.lock();
        let slot = slots.get(|slots| slots.fill(0)).iter_mut().min().expect("at least one slot");
        let start_ps = (arrival.0 * PS).max(*slot);
        *slot = start_ps + service_ps;
        Turn { arrival, start: Nanos(start_ps / PS), end: Nanos(slot.div_ceil(PS)) }
    }

    /// Frees every slot.
    pub fn reset(&self) {
        self.free_at_ps.lock().state.fill(0);
    }
}

/// A token bucket: bytes drip in at a rate, up to a burst.
#[derive(Debug)]
pub struct Bucket {
    rate: Rate,
    burst_ps: u64,
    /// When the bucket was, or will be, empty.
    empty_at_ps: Mutex<OfRun<u64>>,
}

impl Bucket {
    /// A full bucket. Rate zero means unlimited.
    pub fn new(rate: Rate, burst_bytes: u64) -> Self {
        Self { rate, burst_ps: service_ps(burst_bytes, rate), empty_at_ps: Mutex::new(OfRun::new(0)) }
    }

    /// Takes `bytes` out; returns when they have all dripped in. Only inside a run.
    #[inline]
    pub fn take(&self, bytes: u64) -> Nanos {
        sim::interact();
        let now_ps = sim::now().0 * PS;
        let mut empty_at_ps = self.empty_at_ps.lock();
        let empty_at_ps = empty_at_ps.get(|time| *time = 0);
        *empty_at_ps =
            (*empty_at_ps).max(now_ps.saturating_sub(self.burst_ps)) + service_ps(bytes, self.rate);
        Nanos(empty_at_ps.div_ceil(PS))
    }

    /// Takes `bytes` and lets the task wait for them.
    #[inline]
    pub fn wait_for(&self, bytes: u64) {
        if self.rate.0 > 0 {
            sim::medium_until(Activity::MEDIUM_WAIT, self.take(bytes));
        }
    }

    /// Fills the bucket.
    pub fn reset(&self) {
        self.empty_at_ps.lock().state = 0;
    }
}
