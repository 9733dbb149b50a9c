//! A cache line that cores take from each other.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::{book_line_wait, is_free};
use crate::clock;
use crate::context::{Context, RunShared};
use crate::ledger::{Activity, LockClass};
use crate::machine::Work;
use crate::units::Nanos;

/// A contended cache line that is no lock's: a counter, a list head. Each touch is an atomic update: cheap for the
/// core that has the line, a transfer for any other, and they follow one another in the order of arrival.
///
/// The update is CPU work. What a task waits for it, for the updates before its own and for the transfer, is also booked on the
/// class of the line. If that is free in the run, the update is all that is left.
#[derive(Debug)]
pub struct Line {
    class: &'static LockClass,
    turns: Turns,
}

/// The updates of a line, one after the other: of a [`Line`], or of the word of a lock.
#[derive(Debug)]
pub(super) struct Turns {
    /// When the last update so far is over.
    free_at: AtomicU64,
    /// The core of that update, and in the upper half the one that had the line before it.
    core: AtomicU32,
    /// The run in which the two mean something; 0 is none.
    run: AtomicU32,
}

/// One update of a line.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    /// When it begins.
    pub(super) start: u64,
    /// How long it takes: [`update_ns`], and the transfer.
    pub(super) own: u64,
}

/// How long an update of a line takes that the core has.
#[inline]
pub(super) fn update_ns(run: &RunShared) -> u64 {
    run.machine.cost(Work::LOCK, 1).0
}

impl Line {
    /// A line of the class `class` ([`LockClass::of_lines`]) that is in no core's cache.
    pub const fn new(class: &'static LockClass) -> Self {
        Self { class, turns: Turns::new() }
    }

    /// An update by load and compare-and-swap, as the kernel's `lockref` and `get_page_unless_zero` do it: the load brings the line
    /// shared, and the exchange asks for it again. So it takes two transfers where another core wrote last; and, where more than
    /// one update was before it in the queue, one more transfer and update, for the exchange that another's has made fail.
    #[inline]
    pub fn exchange(&self) {
        if let Some((cx, scheduler)) = super::virtual_task() {
            scheduler.interact(cx);
            self.turns.update_by(cx, self.class, Turns::take_exchange);
        }
    }

    /// One atomic update by the current task. Does nothing under the real clock, where the caller's own
    /// atomic costs what it costs.
    #[inline]
    pub fn touch(&self) {
        if let Some((cx, scheduler)) = super::virtual_task() {
            scheduler.interact(cx);
            self.turns.update(cx, self.class);
        }
    }
}

impl Turns {
    /// Those of a line that is in no core's cache.
    pub(super) const fn new() -> Self {
        Self { free_at: AtomicU64::new(0), core: AtomicU32::new(0), run: AtomicU32::new(0) }
    }

    /// One update by the current task, which has interacted already.
    #[inline]
    pub(super) fn update(&self, cx: &Context, class: &'static LockClass) {
        self.update_by(cx, class, Self::take);
    }

    #[inline]
    fn update_by(
        &self,
        cx: &Context,
        class: &'static LockClass,
        take: impl FnOnce(&Self, &RunShared, u16, u64) -> Turn,
    ) {
        let (arrival, update) = (cx.time.get(), update_ns(&cx.run));
        let end = if is_free(cx, class) {
            arrival + update
        } else {
            let turn = take(self, &cx.run, cx.core.get(), arrival);
            turn.start + turn.own
        };
        let activity = cx.software(Activity::SOFTWARE);
        clock::pass(cx, activity, Nanos(end - arrival));
        cx.count_units(Work::LOCK, 1);
        book_line_wait(cx, activity, class, end - arrival - update);
        cx.show();
    }

    /// An update that `core` asks for at `arrival`. Callers come in the order of arrival.
    #[inline]
    pub(super) fn take(&self, run: &RunShared, core: u16, arrival: u64) -> Turn {
        let mut own = update_ns(run);
        let mut start = arrival;
        let mut from = core;
        if self.is_of(run) {
            from = self.core.load(Relaxed) as u16;
            own += run.machine.transfer(from, core).0;
            start = start.max(self.free_at.load(Relaxed));
        }
        self.run.store(run.number, Relaxed);
        self.core.store(u32::from(core) | u32::from(from) << 16, Relaxed);
        self.free_at.store(start + own, Relaxed);
        Turn { start, own }
    }

    /// The same by load and compare-and-swap ([`Line::exchange`]).
    fn take_exchange(&self, run: &RunShared, core: u16, arrival: u64) -> Turn {
        let turn = self.take(run, core, arrival);
        let transfer = turn.own - update_ns(run);
        let mut own = turn.own + transfer;
        if transfer > 0 && turn.start - arrival > own {
            own += turn.own; // the first try met another's exchange
        }
        self.free_at.store(turn.start + own, Relaxed);
        Turn { own, ..turn }
    }

    /// What each line costs that moves with this one: a transfer from the core that had it before, in nanoseconds.
    pub(super) fn moved_ns(&self, run: &RunShared) -> u64 {
        let cores = self.core.load(Relaxed);
        run.machine.transfer((cores >> 16) as u16, cores as u16).0
    }

    /// Virtual clock: the current task, which has the lock of this line, writes `lines` lines that the one before it wrote under
    /// it.
    pub(super) fn move_data(&self, class: &'static LockClass, lines: u64) {
        let Some((cx, _)) = super::virtual_task() else { return };
        let ns = if is_free(cx, class) { 0 } else { lines * self.moved_ns(&cx.run) };
        if ns > 0 {
            let activity = cx.software(Activity::SOFTWARE);
            clock::pass(cx, activity, Nanos(ns));
            book_line_wait(cx, activity, class, ns);
        }
    }

    /// Whether the line was touched in `run`.
    #[inline]
    pub(super) fn is_of(&self, run: &RunShared) -> bool {
        self.run.load(Relaxed) == run.number
    }
}
