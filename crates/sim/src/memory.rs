//! Memory that is true under load: a latency that rises with the traffic, and a greatest traffic.
//!
//! A [`Memory`] is that of a socket, or the one behind a link. Copies of the processor, media that name one, and the loops of
//! `weir sim medium` move their lines through it. A machine has one only if its preset says so ([`Machine::memory`]); otherwise its
//! copies queue for a bandwidth, as they always did, and nothing of this module runs.
//!
//! # State
//!
//! ```text
//! traffic    bytes read and bytes written in the bin of 2 us that is open; their averages, which move by a tenth with each bin
//! L(T, w)    latency of a line at the average traffic T with the share w of writes; computed once a bin
//! channel    every line takes its turn: bytes / cap(w)
//! ```
//!
//! A transfer adds its bytes to the bin, takes its turn, and is told L and the end of its turn. The task passes the longest of
//! three spans once: the core's issue of all lines with the latency that is exposed, and the turn of each memory that it uses.
//! So a copy
//! between two memories is one stream and not a sum.
//!
//! # The core
//!
//! One line of a long stream takes a core `issue + L / depth`: two constants, which are those of Golden Cove (below). The second
//! term is a latency exposed once for so many lines, where the prefetchers start again. A copy that begins exposes one latency;
//! further pages of the same copy only their part of one. Stores past the caches and write-backs are posted: `credits` lines are
//! under way, each for `accept · L`, and the task waits for the oldest when it has more. A fence waits for the last.
//!
//! | access | memory of the object | memory of the buffer, unless it is in the private cache |
//! |---|---|---|
//! | load | a line read | a line fetched and written back |
//! | store | a line fetched; written back later, by a flush where there is one | a line read |
//! | store past the caches, flush | a line written, posted | a line read |
//!
//! # Why it is built so
//!
//! * *Feedback.* A latency that follows the traffic of the last bin oscillates when tasks have no think time, and a latency alone
//!   bounds no traffic (tasks of 48 lines would pass any bound). The tenth damps the first, the channel is the second: with the
//!   channel at the greatest traffic, saturated tasks are held by it, T is the cap and L stands still. The greatest traffic and the
//!   channel's rate were two constants of the first design (0.875 and 0.93 of E · P); one is enough, since tasks that pass the
//!   first are held by the second anyway.
//! * *No double waits.* L of a curve has the waits of ordinary load in it. So a turn counts only where it ends after L has passed.
//! * *Determinism.* Bytes are integers; L and cap come from sums, products and quotients of doubles, which are the same on every
//!   host, and are rounded to picoseconds and femtoseconds once a bin. A transfer interacts first, so transfers come in the order
//!   of virtual time, and a run is one host thread: neither other runs nor the number of host threads can be seen.
//! * *Cost.* A transfer is one interaction, which the queue it replaces had too. A miss of a few lines (metadata, copies below
//!   1 KiB) looks at L and adds its bytes without an interaction: it may see a bin of its future, never a turn.
//! * *Ramps.* The first bin of a run is its average, since a run of 20 us would else see an idle memory.
//! * *Other clocks.* Under the real clock the host's memory takes its own time, and of a memory behind a link passes what it adds
//!   when idle. In explored runs times do not compare: L is idle, and there is neither window nor turn.
//! * *Rounding.* A task's time is in nanoseconds; what a transfer leaves below one is kept for the task's next transfer.
//!
//! * *Errors on purpose.* A model may be wrong in one way ([`Mutant`]): `tests/it/memory.rs` says which test finds each.
//!
//! Not modelled: banks and refresh one by one, sub-NUMA clusters, wrong prefetches, coherence of a shared card.
//!
//! [`Machine::memory`]: crate::Machine::memory

mod law;
mod model;
mod mutant;
mod stream;

pub use law::{Curve, Ddr, Law, Share};
pub use model::{ACCEPT, Core, Link, MemoryModel, Tail};
pub use mutant::Mutant;
pub(crate) use stream::{Moved, copy_lines, excess_of_misses, post_copied};
pub use stream::{Stream, copy_cost, fence, local};

use parking_lot::Mutex;

use crate::context::{self, Context};
use crate::ledger::Activity;
use crate::units::{LINE_BYTES, Nanos};
use crate::{clock, rng};

/// Length of a bin of the window.
const BIN_NS: u64 = 2_000;
/// The part of a bin in the average: one of so many.
const GAIN: i64 = 10;
/// After so many empty bins nothing of an average is left.
const FORGOTTEN: u64 = 400;
/// Fractions of a byte that averages keep.
const FRACTION: i64 = 1 << 10;

const LINE: u64 = LINE_BYTES as u64;
pub(crate) const PS: u64 = 1_000;

/// A memory: see the head of the module. Share it in an `Arc`.
#[derive(Debug)]
pub struct Memory {
    model: MemoryModel,
    idle_ps: u64,
    state: Mutex<State>,
}

/// What a memory remembers of one run.
#[derive(Clone, Debug, Default)]
struct State {
    run: u32,
    bin_end_ns: u64,
    /// Bytes read and written in the open bin.
    bin: [u64; 2],
    /// Bytes of a bin on the average, in 1,024ths.
    average: [i64; 2],
    /// A bin has been full.
    began: bool,
    latency_ps: u64,
    /// Time of a byte on the channel, in femtoseconds.
    fs_per_byte: u64,
    free_at_ps: u64,
}

/// What a transfer is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// Latency of a line now.
    pub(crate) latency_ps: u64,
    /// When the last byte has passed the channel.
    pub(crate) end_ps: u64,
}

/// A memory at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Bytes a second, read and written, on the average of the last bins.
    pub bytes_per_s: f64,
    /// The part of them that is read; 1 where there is none.
    pub reads: f64,
    /// Latency of a line, in picoseconds.
    pub latency_ps: u64,
    /// Greatest traffic at this share, in bytes a second.
    pub cap_bytes_per_s: f64,
}

impl Memory {
    /// An idle memory.
    pub fn new(model: MemoryModel) -> Self {
        let idle_ps = model.latency_ps(0.0, 0.0);
        Self { model, idle_ps, state: Mutex::default() }
    }

    /// What it is.
    pub fn model(&self) -> &MemoryModel {
        &self.model
    }

    /// Latency of a line when nothing else moves, in picoseconds.
    pub fn idle_ps(&self) -> u64 {
        self.idle_ps
    }

    /// What it is at the time of the current task.
    pub fn load(&self) -> Load {
        clock::interact();
        let mut state = self.state.lock();
        if let Some(cx) = clock::virtual_task() {
            state.enter(self, cx.run.number, cx.now().0);
        } else {
            state.enter(self, 0, 0);
        }
        let (traffic, writes) = state.traffic();
        Load {
            bytes_per_s: traffic * 1e9,
            reads: 1.0 - writes,
            latency_ps: state.latency_ps,
            cap_bytes_per_s: self.model.cap(writes) * 1e9,
        }
    }

    /// Moves so many lines for the task, which is told its turn and waits as it must.
    #[inline]
    pub(crate) fn transfer(&self, cx: &Context, reads: u64, writes: u64) -> Turn {
        let Some(scheduler) = cx.scheduler().filter(|scheduler| !scheduler.is_explored()) else {
            return Turn { latency_ps: self.idle_ps, end_ps: 0 };
        };
        scheduler.interact(cx);
        let mut state = self.state.lock();
        state.enter(self, cx.run.number, cx.time.get());
        state.bin[0] += reads * LINE;
        state.bin[1] += writes * LINE;
        let service = ((reads + writes) * LINE * state.fs_per_byte).div_ceil(1_000);
        let free_at = if self.model.is(Mutant::ChannelOfTask) { 0 } else { state.free_at_ps };
        state.free_at_ps = free_at.max(now_ps(cx)) + service;
        Turn { latency_ps: state.latency_ps, end_ps: state.free_at_ps }
    }

    /// The latency now, as seen by a miss of so many lines, which are added to the traffic without an interaction.
    #[inline]
    pub(crate) fn latency_of(&self, cx: &Context, lines: u64) -> u64 {
        if cx.scheduler().is_none_or(super::virt::Scheduler::is_explored) {
            return self.idle_ps;
        }
        let mut state = self.state.lock();
        if state.run != cx.run.number {
            state.enter(self, cx.run.number, cx.time.get());
        }
        state.bin[0] += lines * LINE;
        state.latency_ps
    }

    /// Loads so many lines, each when the one before is there, as a walk along pointers does.
    pub fn chase(&self, lines: u64) {
        let Some(cx) = context::current() else { return };
        let Some(cx) = Some(cx).filter(|cx| cx.scheduler().is_some()) else {
            return clock::medium(Nanos(self.model.extra_ps * lines / PS));
        };
        for _ in 0..lines {
            let turn = self.transfer(cx, 1, 0);
            let over = turn.latency_ps.saturating_sub(self.idle_ps);
            pass_load(cx, self.drawn(cx, turn.latency_ps), over, turn.end_ps);
        }
    }

    /// As [`Memory::chase`], of a first use of metadata: no interaction and no turn.
    pub fn touch(&self, lines: u64) {
        let Some(cx) = context::current() else { return };
        if cx.scheduler().is_none() {
            return clock::medium(Nanos(self.model.extra_ps * lines / PS));
        }
        let latency = self.latency_of(cx, lines);
        let all = (0..lines).map(|_| self.drawn(cx, latency)).sum();
        pass_load(cx, all, latency.saturating_sub(self.idle_ps) * lines, 0);
    }

    /// The latency of one load, longer or shorter where the memory has a tail: by the seed, the task and its loads so far.
    fn drawn(&self, cx: &Context, latency_ps: u64) -> u64 {
        if self.model.tail == Tail::None {
            return latency_ps;
        }
        let ordinal = cx.loads.replace(cx.loads.get() + 1);
        let drawn = rng::mix(rng::mix(cx.run.seed.0.wrapping_add(u64::from(cx.id))) ^ ordinal);
        let more = if self.model.is(Mutant::TailMovesMean) { 50 } else { 0 };
        latency_ps * (self.model.tail.per_mille((drawn >> 44) as u32) + more) / 1_000
    }

    /// What a traffic generator does: moves lines with as many under way as the core's caches have requests.
    pub fn generate(&self, reads: u64, writes: u64) {
        let Some(cx) = clock::virtual_task() else { return };
        let turn = self.transfer(cx, reads, writes);
        let core = &self.model.core;
        let step = core.issue_ps.max(turn.latency_ps / core.outstanding);
        let end = (now_ps(cx) + (reads + writes) * step).max(turn.end_ps);
        pass_until(cx, end, [], cx.activity.get());
    }

    /// Moves lines as a core does in a long loop: `goes_on` says that it does not begin here.
    pub fn stream(&self, reads: u64, writes: u64, goes_on: bool) {
        if let Some(cx) = clock::virtual_task() {
            stream::pass(cx, self, reads, writes, goes_on);
        }
    }

    /// Stores so many lines past the caches, or writes them back: the task goes on when no more than its credits are under way.
    pub fn post(&self, lines: u64) {
        let Some(cx) = context::current() else { return };
        if cx.scheduler().is_none() {
            return clock::medium(Nanos(self.model.extra_ps / PS));
        }
        let issue = lines * self.model.core.issue_ps;
        stream::post(cx, self, lines, issue, cx.activity.get());
    }
}

impl State {
    /// Comes to `time` in `run`: bins that are over move the average.
    #[inline]
    fn enter(&mut self, memory: &Memory, run: u32, time: u64) {
        if self.run != run || self.bin_end_ns == 0 {
            *self = Self { run, bin_end_ns: time - time % BIN_NS + BIN_NS, ..Self::default() };
            self.find(memory);
        }
        if time >= self.bin_end_ns {
            self.close_bins(memory, time);
        }
    }

    #[cold]
    fn close_bins(&mut self, memory: &Memory, time: u64) {
        let bins = (time - self.bin_end_ns) / BIN_NS + 1;
        let model = &memory.model;
        let fraction = if model.is(Mutant::CountedTwice) { 2 * FRACTION } else { FRACTION };
        let gain = if model.is(Mutant::GainOfOne) { 1 } else { GAIN };
        let least = if model.is(Mutant::NeverForgets) { 0 } else { i64::MIN };
        for _ in 0..bins.min(FORGOTTEN) {
            for (average, bin) in self.average.iter_mut().zip(self.bin) {
                let over = bin.cast_signed() * fraction - *average;
                *average += (if self.began { over / gain } else { over }).max(least);
            }
            (self.began, self.bin) = (true, [0; 2]);
        }
        self.bin_end_ns += bins * BIN_NS;
        self.find(memory);
    }

    /// Bytes a nanosecond, and the part that is written.
    fn traffic(&self) -> (f64, f64) {
        let [reads, writes] = self.average.map(|bytes| bytes as f64 / FRACTION as f64);
        let all = reads + writes;
        (all / BIN_NS as f64, if all > 0.0 { writes / all } else { 0.0 })
    }

    fn find(&mut self, memory: &Memory) {
        let (traffic, writes) = self.traffic();
        let model = &memory.model;
        let (unit, traffic, writes) = match model.mutant {
            Some(Mutant::SharesExchanged) => (1.0, traffic, 1.0 - writes),
            Some(Mutant::ShareIgnored) => (1.0, traffic, 0.0),
            Some(Mutant::ConstantLatency) => (1.0, 0.0, writes),
            Some(Mutant::BinaryUnits) => (1.073_741_824, traffic / 1.073_741_824, writes),
            _ => (1.0, traffic, writes),
        };
        self.latency_ps = model.latency_ps(traffic, writes);
        self.fs_per_byte = (1e6 / (model.cap(writes) * unit)).max(1.0) as u64;
    }
}

/// The time of a task of the virtual clock, in picoseconds.
#[inline]
pub(crate) fn now_ps(cx: &Context) -> u64 {
    cx.time.get().saturating_mul(PS) + cx.below_ns.get()
}

/// Lets a load pass: a latency, so much of which is there since others move lines, and what its turn takes beyond it.
fn pass_load(cx: &Context, latency_ps: u64, over_ps: u64, turn_end_ps: u64) {
    let there = now_ps(cx) + latency_ps;
    let turn = turn_end_ps.saturating_sub(there);
    let parts = [(Activity::MEMORY_LATENCY, over_ps), (Activity::MEMORY_TURN, turn)];
    pass_until(cx, there + turn, parts, cx.activity.get());
}

/// Lets a task pass until `end_ps`. Of the time, so many picoseconds are booked on each activity in turn, and the rest on `rest`.
pub(crate) fn pass_until<const N: usize>(
    cx: &Context,
    end_ps: u64,
    parts: [(Activity, u64); N],
    rest: Activity,
) {
    let mut left = (end_ps / PS).saturating_sub(cx.time.get());
    if end_ps / PS >= cx.time.get() {
        cx.below_ns.set(end_ps % PS);
    }
    for (activity, ps) in parts {
        let part = left.min(ps / PS);
        if part > 0 {
            clock::pass(cx, activity, Nanos(part));
            left -= part;
        }
    }
    clock::advance(cx, rest, Nanos(left));
}
