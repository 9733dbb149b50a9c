//! Waiting for a condition.

use super::mutex::{MutexGuard, virtual_task};
use super::queue::WaitQueue;
use super::{book_park, timed_wait};
use crate::clock;
use crate::ledger::LockClass;
use crate::machine::Work;
use crate::units::Nanos;
use crate::virt::{NOBODY, Waiting};
use std::time::Duration;

static CONDVAR: LockClass = LockClass::new("sim.condvar");

/// A condition variable. Waits are booked on its class, or on "sim.condvar".
pub struct Condvar {
    class: &'static LockClass,
    waiters: WaitQueue,
    real: RealCondvar,
}

/// `parking_lot`'s condition variable works on its own guards only; over a raw lock we need its parking lot's bare parts: a
/// mutex-protected ticket and a condition variable of its own.
struct RealCondvar {
    tickets: parking_lot::Mutex<Tickets>,
    called: parking_lot::Condvar,
}

#[derive(Default)]
struct Tickets {
    /// Number of the next waiter.
    next: u64,
    /// Waiters with smaller numbers have been called.
    called: u64,
}

impl Condvar {
    /// A condition variable that nobody waits for.
    pub const fn new() -> Self {
        Self::of_class(&CONDVAR)
    }

    /// One whose waits have a name of their own in the ledger.
    pub const fn of_class(class: &'static LockClass) -> Self {
        let tickets = parking_lot::Mutex::new(Tickets { next: 0, called: 0 });
        Self {
            class,
            waiters: WaitQueue::new(),
            real: RealCondvar { tickets, called: parking_lot::Condvar::new() },
        }
    }

    /// Releases the lock, waits for a notification, takes the lock again.
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.wait_for(guard, None).0
    }

    /// Like [`Condvar::wait`], for at most `timeout`. False when the time ran out.
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Nanos,
    ) -> (MutexGuard<'a, T>, bool) {
        self.wait_for(guard, Some(timeout))
    }

    fn wait_for<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Option<Nanos>,
    ) -> (MutexGuard<'a, T>, bool) {
        let mutex = MutexGuard::mutex(&guard);
        let notified = match virtual_task() {
            Some(_) => self.wait_virtual(guard, timeout),
            None => timed_wait(self.class, || self.real.wait(guard, timeout)),
        };
        (mutex.lock(), notified)
    }

    fn wait_virtual<T: ?Sized>(&self, guard: MutexGuard<'_, T>, timeout: Option<Nanos>) -> bool {
        let (cx, scheduler) = virtual_task().expect("the caller saw one");
        let parked_at = cx.now();
        self.waiters.push(scheduler, cx.id);
        drop(guard);
        let deadline = timeout.map(|timeout| (parked_at + timeout).0);
        let notified =
            scheduler.park(cx, Waiting { class: self.class, holder: NOBODY, write: true }, deadline);
        if !notified {
            self.waiters.remove(scheduler, cx.id);
        }
        book_park(cx, self.class, parked_at);
        notified
    }

    /// Wakes one waiter, if there is one.
    pub fn notify_one(&self) {
        match virtual_task() {
            Some(_) => {
                self.wake_first();
            }
            None => self.real.call(1),
        }
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        match virtual_task() {
            Some(_) => while self.wake_first() {},
            None => self.real.call(u64::MAX),
        }
    }

    fn wake_first(&self) -> bool {
        let (cx, scheduler) = virtual_task().expect("the caller saw one");
        let Some(first) = self.waiters.pop(scheduler) else { return false };
        // The waker pays for the wake-up call; the sleeper runs when it has been switched in.
        clock::work(Work::Wakeup, 1);
        scheduler.wake(first, cx.time.get() + cx.run.machine.cost(Work::Wakeup, 1).0);
        true
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl RealCondvar {
    /// Takes a ticket, releases `guard`, and waits until the ticket is called.
    fn wait<T: ?Sized>(&self, guard: MutexGuard<'_, T>, timeout: Option<Nanos>) -> bool {
        let mut tickets = self.tickets.lock();
        let mine = tickets.next;
        tickets.next += 1;
        drop(guard);
        let deadline = timeout.map(|timeout| std::time::Instant::now() + Duration::from_nanos(timeout.0));
        while tickets.called <= mine {
            match deadline {
                None => self.called.wait(&mut tickets),
                Some(deadline) if self.called.wait_until(&mut tickets, deadline).timed_out() => {
                    return tickets.called > mine;
                }
                Some(_) => {}
            }
        }
        true
    }

    /// Calls up to `n` waiting tickets. A waiter whose time ran out may leave its ticket behind: a later call for it is a
    /// spurious wake-up for nobody.
    fn call(&self, n: u64) {
        let mut tickets = self.tickets.lock();
        let waiting = tickets.next - tickets.called;
        if waiting > 0 {
            tickets.called += waiting.min(n);
            self.called.notify_all();
        }
    }
}
