//! Counted permits.

use std::ptr;

use super::line::Turns;
use super::queue::WaitQueue;
use super::{book_granted, timed_wait, virtual_task};
use crate::clock;
use crate::context::Context;
use crate::ledger::{Activity, LockClass};
use crate::machine::Work;
use crate::virt::{Scheduler, Waiting};

/// A counting semaphore. Waits are booked on its class.
///
/// Under the virtual clock waiters are served in the order in which they came, and one that needs many
/// permits keeps those behind it waiting. Acquiring and releasing are atomic updates of the semaphore's line;
/// a release pays a wake-up for each waiter that it lets go, which runs one wake-up later.
pub struct Semaphore {
    class: &'static LockClass,
    permits: parking_lot::Mutex<u64>,
    /// Real clock.
    posted: parking_lot::Condvar,
    waiters: WaitQueue,
    line: Turns,
}

impl Semaphore {
    /// A semaphore with `permits` to give.
    pub const fn new(class: &'static LockClass, permits: u64) -> Self {
        Self {
            class,
            permits: parking_lot::Mutex::new(permits),
            posted: parking_lot::Condvar::new(),
            waiters: WaitQueue::new(),
            line: Turns::new(),
        }
    }

    /// Waits for `n` permits and takes them.
    pub fn acquire(&self, n: u64) {
        match virtual_task() {
            Some((cx, scheduler)) => self.acquire_virtual(cx, scheduler, n),
            None if self.take(n) => {}
            None => timed_wait(self.class, || {
                let mut permits = self.permits.lock();
                self.posted.wait_while(&mut permits, |permits| *permits < n);
                *permits -= n;
            }),
        }
    }

    /// Takes `n` permits if they are there and no task waits.
    pub fn try_acquire(&self, n: u64) -> bool {
        if let Some((cx, scheduler)) = virtual_task() {
            scheduler.interact(cx);
            self.line.update(cx, self.class);
        }
        self.waiters.is_empty() && self.take(n)
    }

    /// Gives `n` permits.
    pub fn release(&self, n: u64) {
        if let Some((cx, scheduler)) = virtual_task() {
            return self.release_virtual(cx, scheduler, n);
        }
        *self.permits.lock() += n;
        self.posted.notify_all();
    }

    /// The permits that are there now.
    pub fn available(&self) -> u64 {
        clock::interact();
        *self.permits.lock()
    }

    fn take(&self, n: u64) -> bool {
        let mut permits = self.permits.lock();
        let enough = *permits >= n;
        if enough {
            *permits -= n;
        }
        enough
    }

    /// The semaphore is taken, or its queue joined, at the time of arrival; the update of the line comes
    /// after.
    fn acquire_virtual(&self, cx: &Context, scheduler: &Scheduler, n: u64) {
        scheduler.interact(cx);
        let taken = self.waiters.is_empty() && self.take(n);
        self.line.update(cx, self.class);
        if !taken {
            let waiting = Waiting { holder: ptr::null(), wants: n, ..Waiting::of(self.class) };
            book_granted(cx, self.class, &self.waiters.wait(cx, scheduler, waiting));
        }
    }

    fn release_virtual(&self, cx: &Context, scheduler: &Scheduler, n: u64) {
        scheduler.interact(cx);
        *self.permits.lock() += n;
        self.line.update(cx, self.class);
        let wakeup = cx.run.machine.cost(Work::WAKEUP, 1);
        while let Some(first) = self.waiters.first().filter(|first| self.take(scheduler.wants_of(*first))) {
            self.waiters.pop(scheduler);
            clock::pass(cx, cx.software(Activity::SOFTWARE), wakeup);
            cx.count_units(Work::WAKEUP, 1);
            cx.show();
            scheduler.context_of(first).parking.own.set(0);
            scheduler.wake(first, cx.time.get() + wakeup.0);
        }
    }
}

impl std::fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Semaphore({}, {})", self.class.name(), *self.permits.lock())
    }
}
