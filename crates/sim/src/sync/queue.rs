//! The queue of tasks parked on one lock: first in, first out, linked through the tasks themselves.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::context::{Context, TaskId};
use crate::virt::{NO_TASK, Scheduler, Waiting};

/// How a wait in a queue ended.
pub(super) struct Waited {
    /// Another task took it out and woke it; otherwise its deadline came.
    pub(super) woken: bool,
    /// How long it lasted. The wait for a core that may follow is no part of it, and is booked by itself.
    pub(super) ns: u64,
}

pub(super) struct WaitQueue {
    head: AtomicU32,
    tail: AtomicU32,
}

impl WaitQueue {
    pub(super) const fn new() -> Self {
        Self { head: AtomicU32::new(NO_TASK), tail: AtomicU32::new(NO_TASK) }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head.load(Relaxed) == NO_TASK
    }

    #[inline]
    pub(super) fn first(&self) -> Option<TaskId> {
        Some(self.head.load(Relaxed)).filter(|id| *id != NO_TASK)
    }

    /// Parks the current task at the end of the queue until another task takes it out and wakes it, or its deadline comes. However
    /// it ends, also by unwinding, the task is not in the queue any more.
    pub(super) fn wait(&self, cx: &Context, scheduler: &Scheduler, waiting: Waiting) -> Waited {
        let parked_at = cx.time.get();
        self.push(scheduler, cx.id);
        let place = Place { queue: self, scheduler, id: cx.id };
        let woken = scheduler.park(cx, waiting);
        let ns = cx.time.get() - parked_at;
        if woken {
            std::mem::forget(place);
        } else {
            drop(place); // before it waits for a core: a notification is not for it any more
        }
        scheduler.enter_core(cx);
        Waited { woken, ns }
    }

    fn push(&self, scheduler: &Scheduler, id: TaskId) {
        scheduler.set_next_of(id, NO_TASK);
        match self.tail.swap(id, Relaxed) {
            NO_TASK => self.head.store(id, Relaxed),
            last => scheduler.set_next_of(last, id),
        }
    }

    #[inline]
    pub(super) fn pop(&self, scheduler: &Scheduler) -> Option<TaskId> {
        let first = self.first()?;
        let next = scheduler.next_of(first);
        self.head.store(next, Relaxed);
        if next == NO_TASK {
            self.tail.store(NO_TASK, Relaxed);
        }
        Some(first)
    }

    /// Takes `id` out wherever it stands.
    fn remove(&self, scheduler: &Scheduler, id: TaskId) {
        let (mut before, mut place) = (NO_TASK, self.head.load(Relaxed));
        while place != id {
            assert!(place != NO_TASK, "a task leaves a queue that it is in");
            (before, place) = (place, scheduler.next_of(place));
        }
        let next = scheduler.next_of(id);
        match before {
            NO_TASK => self.head.store(next, Relaxed),
            before => scheduler.set_next_of(before, next),
        }
        if next == NO_TASK {
            self.tail.store(before, Relaxed);
        }
    }
}

/// A task's place in a queue, given up when dropped.
struct Place<'a> {
    queue: &'a WaitQueue,
    scheduler: &'a Scheduler,
    id: TaskId,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.queue.remove(self.scheduler, self.id);
    }
}
