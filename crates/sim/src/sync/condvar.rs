//! Waiting for a condition.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use super::mutex::MutexGuard;
use super::queue::WaitQueue;
use super::{book_wait, timed_wait, virtual_task};
use crate::clock;
use crate::context::Context;
use crate::ledger::{Activity, LockClass};
use crate::machine::Work;
use crate::units::Nanos;
use crate::virt::{Scheduler, Waiting};

pub(crate) static CONDVAR: LockClass = LockClass::new("sim.condvar");

/// A condition variable. Waits are booked on its class, or on "sim.condvar".
///
/// Under the virtual clock a notification is an interaction, waiters are woken in the order in which they
/// came, and the notifier pays a [`Work::WAKEUP`] for each, which then runs one wake-up later. No waiter
/// wakes without a reason.
///
/// Under both clocks a notification is seen for certain only by those who began to wait before the notifier
/// last had the mutex: threads are not stopped between their look at the condition and their sleep, and the
/// release of a sleeping mutex lets other tasks run.
pub struct Condvar {
    class: &'static LockClass,
    waiters: WaitQueue,
    real: RealCondvar,
}

/// `parking_lot`'s condition variable works on its own guards only. So a waiter trades the mutex for a gate,
/// a mutex of that kind, which is closed from before the release of the mutex until the waiter sleeps: a
/// notification, which takes the gate, cannot fall between.
///
/// Lock order: the mutex, then the gate. Nothing is taken under the gate.
struct RealCondvar {
    gate: parking_lot::Mutex<()>,
    called: parking_lot::Condvar,
}

impl Condvar {
    /// A condition variable that no task waits for.
    pub const fn new() -> Self {
        Self::of_class(&CONDVAR)
    }

    /// One whose waits have a name of their own in the ledger.
    pub const fn of_class(class: &'static LockClass) -> Self {
        let real = RealCondvar { gate: parking_lot::Mutex::new(()), called: parking_lot::Condvar::new() };
        Self { class, waiters: WaitQueue::new(), real }
    }

    /// Releases the lock, waits for a notification, takes the lock again.
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.wait_for(guard, Waiting::of(self.class), None).0
    }

    /// Like [`Condvar::wait`], for at most `timeout`. False when the time ran out.
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Nanos,
    ) -> (MutexGuard<'a, T>, bool) {
        self.wait_for(guard, Waiting::of(self.class), Some(timeout))
    }

    /// Like [`Condvar::wait`]; only the task whose number is in `holder` can notify.
    pub(crate) fn wait_for_end<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        holder: &AtomicU32,
    ) -> MutexGuard<'a, T> {
        self.wait_for(guard, Waiting { holder, ..Waiting::of(self.class) }, None).0
    }

    fn wait_for<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        waiting: Waiting,
        timeout: Option<Nanos>,
    ) -> (MutexGuard<'a, T>, bool) {
        let mutex = MutexGuard::mutex(&guard);
        let notified = match virtual_task() {
            Some((cx, scheduler)) => {
                let deadline = timeout.map(|timeout| (cx.now() + timeout).0);
                MutexGuard::release_to_wait(guard, cx, scheduler);
                self.wait_virtual(cx, scheduler, Waiting { deadline, ..waiting })
            }
            None => timed_wait(self.class, || self.real.wait(guard, timeout)),
        };
        (mutex.lock(), notified)
    }

    fn wait_virtual(&self, cx: &Context, scheduler: &Scheduler, waiting: Waiting) -> bool {
        let waited = self.waiters.wait(cx, scheduler, waiting);
        book_wait(cx, self.class, waited.ns);
        waited.woken
    }

    /// Wakes one waiter, if there is one.
    pub fn notify_one(&self) {
        match virtual_task() {
            Some((cx, scheduler)) => {
                scheduler.interact(cx);
                self.wake_first(cx, scheduler);
            }
            None => self.real.call(|called| {
                called.notify_one();
            }),
        }
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        match virtual_task() {
            Some((cx, scheduler)) => {
                scheduler.interact(cx);
                while self.wake_first(cx, scheduler) {}
            }
            None => self.real.call(|called| {
                called.notify_all();
            }),
        }
    }

    /// The waker pays for the wake-up call; the sleeper runs when it has been switched in.
    fn wake_first(&self, cx: &Context, scheduler: &Scheduler) -> bool {
        let Some(first) = self.waiters.pop(scheduler) else { return false };
        let wakeup = cx.run.machine.cost(Work::WAKEUP, 1);
        clock::pass(cx, cx.software(Activity::SOFTWARE), wakeup);
        cx.count_units(Work::WAKEUP, 1);
        cx.show();
        scheduler.wake(first, cx.time.get() + wakeup.0);
        true
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Condvar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Condvar({})", self.class.name())
    }
}

impl RealCondvar {
    /// Releases `guard` and waits for a call. False when the time ran out first.
    fn wait<T: ?Sized>(&self, guard: MutexGuard<'_, T>, timeout: Option<Nanos>) -> bool {
        let mut gate = self.gate.lock();
        drop(guard);
        match timeout {
            None => self.called.wait(&mut gate),
            Some(Nanos(ns)) => return !self.called.wait_for(&mut gate, Duration::from_nanos(ns)).timed_out(),
        }
        true
    }

    fn call(&self, notify: impl FnOnce(&parking_lot::Condvar)) {
        let _gate = self.gate.lock();
        notify(&self.called);
    }
}
