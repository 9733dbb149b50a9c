//! A cache line that cores take from each other.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::clock::{advance, virtual_task};
use crate::context::Context;
use crate::ledger::Activity;
use crate::machine::Work;
use crate::units::Nanos;

/// No core has had the line yet.
const NO_CORE: u32 = u32::MAX;

/// A contended cache line: a counter, a list head, a lock word. Each touch is an atomic update: cheap for the core that has
/// the line, a transfer for any other, and transfers follow one another.
#[derive(Debug)]
pub struct Line {
    free_at: AtomicU64,
    core: AtomicU32,
}

impl Line {
    /// A line that is in no core's cache.
    pub const fn new() -> Self {
        Self { free_at: AtomicU64::new(0), core: AtomicU32::new(NO_CORE) }
    }

    /// One atomic update by the current task. Does nothing under the real clock, where the caller's own atomic costs what it
    /// costs.
    #[inline]
    pub fn touch(&self) {
        if let Some(cx) = virtual_task() {
            crate::clock::interact();
            let (wait, own) = self.take(cx);
            advance(cx, Activity::Software, wait + own);
        }
    }

    /// Moves the line to the task's core: how long it waits for earlier transfers, and how long its own update takes.
    #[inline]
    pub(super) fn take(&self, cx: &Context) -> (Nanos, Nanos) {
        let machine = &cx.run.machine;
        let before = self.core.swap(u32::from(cx.core), Relaxed);
        let moved = if before == NO_CORE { Nanos::ZERO } else { machine.transfer(before as u16, cx.core) };
        let own = moved + machine.cost(Work::Lock, 1);
        let arrival = cx.time.get();
        let start = self.free_at.load(Relaxed).max(arrival);
        if moved > Nanos::ZERO || start == arrival {
            self.free_at.store(start + own.0, Relaxed);
            return (Nanos(start - arrival), own);
        }
        // The core that owns the line updates it without waiting for others' requests.
        (Nanos::ZERO, own)
    }
}

impl Default for Line {
    fn default() -> Self {
        Self::new()
    }
}
