//! The queue of tasks parked on one lock: first in, first out, linked through the tasks themselves.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::context::TaskId;
use crate::virt::{NOBODY, Scheduler};

pub(super) struct WaitQueue {
    head: AtomicU32,
    tail: AtomicU32,
}

impl WaitQueue {
    pub(super) const fn new() -> Self {
        Self { head: AtomicU32::new(NOBODY), tail: AtomicU32::new(NOBODY) }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head.load(Relaxed) == NOBODY
    }

    pub(super) fn first(&self) -> Option<TaskId> {
        Some(self.head.load(Relaxed)).filter(|id| *id != NOBODY)
    }

    pub(super) fn push(&self, scheduler: &Scheduler, id: TaskId) {
        scheduler.set_next_of(id, NOBODY);
        match self.tail.swap(id, Relaxed) {
            NOBODY => self.head.store(id, Relaxed),
            last => scheduler.set_next_of(last, id),
        }
    }

    pub(super) fn pop(&self, scheduler: &Scheduler) -> Option<TaskId> {
        let first = self.first()?;
        let next = scheduler.next_of(first);
        self.head.store(next, Relaxed);
        if next == NOBODY {
            self.tail.store(NOBODY, Relaxed);
        }
        Some(first)
    }

    /// Takes `id` out wherever it stands: a wait with a timeout that has run out.
    pub(super) fn remove(&self, scheduler: &Scheduler, id: TaskId) {
        let mut kept = Vec::new();
        while let Some(other) = self.pop(scheduler) {
            if other != id {
                kept.push(other);
            }
        }
        for other in kept {
            self.push(scheduler, other);
        }
    }
}
