//! A cache line that cores take from each other.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::clock;
use crate::context::{Context, RunShared};
use crate::ledger::Activity;
use crate::machine::Work;
use crate::units::Nanos;

/// A contended cache line: a counter, a list head, a lock word. Each touch is an atomic update: cheap for the
/// core that has the line, a transfer for any other, and they follow one another in the order of arrival.
#[derive(Debug)]
pub struct Line {
    /// When the last update so far is over.
    free_at: AtomicU64,
    /// The core of that update.
    core: AtomicU32,
    /// The run in which the two mean something; 0 is none.
    run: AtomicU32,
}

/// One update of a line.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    /// When it begins.
    pub(super) start: u64,
    /// How long it takes.
    pub(super) own: u64,
}

impl Line {
    /// A line that is in no core's cache.
    pub const fn new() -> Self {
        Self { free_at: AtomicU64::new(0), core: AtomicU32::new(0), run: AtomicU32::new(0) }
    }

    /// One atomic update by the current task. Does nothing under the real clock, where the caller's own
    /// atomic costs what it costs.
    #[inline]
    pub fn touch(&self) {
        if let Some((cx, scheduler)) = super::virtual_task() {
            scheduler.interact(cx);
            self.update(cx);
        }
    }

    /// One update by the current task, which has interacted already.
    #[inline]
    pub(super) fn update(&self, cx: &Context) {
        let arrival = cx.time.get();
        let turn = self.take(&cx.run, cx.core.get(), arrival);
        clock::pass(cx, cx.software(Activity::SOFTWARE), Nanos(turn.start + turn.own - arrival));
        cx.show();
    }

    /// An update that `core` asks for at `arrival`. Callers come in the order of arrival.
    #[inline]
    pub(super) fn take(&self, run: &RunShared, core: u16, arrival: u64) -> Turn {
        let mut own = run.machine.cost(Work::LOCK, 1).0;
        let mut start = arrival;
        if self.is_of(run) {
            own += run.machine.transfer(self.core.load(Relaxed) as u16, core).0;
            start = start.max(self.free_at.load(Relaxed));
        }
        self.run.store(run.number, Relaxed);
        self.core.store(u32::from(core), Relaxed);
        self.free_at.store(start + own, Relaxed);
        Turn { start, own }
    }

    /// Whether the line was touched in `run`.
    #[inline]
    pub(super) fn is_of(&self, run: &RunShared) -> bool {
        self.run.load(Relaxed) == run.number
    }
}

impl Default for Line {
    fn default() -> Self {
        Self::new()
    }
}
