//! Locks, lines and queues that work under both clocks.
//!
//! | type | real clock | virtual clock |
//! |---|---|---|
//! | [`Mutex`], [`RwLock`], [`Condvar`] | `parking_lot` | parked tasks, first come first served in virtual time |
//! | [`Semaphore`] | the two above | the two above |
//! | [`Line`] | nothing: the hardware does it | transfer of a cache line between cores, one at a time |
//! | [`Server`] | reserves time, then spins | reserves time, then advances |
//!
//! # How a virtual lock works
//!
//! The word of a lock is a cache line of its own: whoever acquires it pays the transfer from the core that had it last, and
//! transfers queue up. A release does not interact. It leaves `free_at`, the virtual time of the release, behind; a task that
//! arrives at an earlier time finds the lock free on the host but waits until `free_at`. Arrivals come in the order of virtual
//! time, so whoever is first on the host is first in time, and the outcome is that of a lock that was held until `free_at`.
//! With tasks in its queue, a release hands the lock to the first of them.
//!
//! The words are relaxed atomics and the data is guarded by the `parking_lot` lock under both clocks: the virtual state only
//! decides who comes when, so no misuse of it can make two threads touch the data at once.

mod condvar;
mod line;
mod mutex;
mod queue;
mod rwlock;
mod semaphore;
mod server;

pub use condvar::Condvar;
pub use line::Line;
pub use mutex::{Mutex, MutexGuard};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::Semaphore;
pub use server::Server;

use crate::context::Context;
use crate::ledger::{Activity, LockClass};
use crate::units::Nanos;

/// Advances a waiting task to `until` and books the wait on the lock.
fn wait_until(cx: &Context, class: &'static LockClass, until: u64) {
    let waited = until.saturating_sub(cx.time.get());
    if waited > 0 {
        cx.time.set(until);
        book_wait(cx, class, waited);
    }
}

/// Books a wait that has passed.
fn book_wait(cx: &Context, class: &'static LockClass, ns: u64) {
    cx.ledger.add_lock_wait(cx.op.get(), class, ns);
    cx.op_charged.set(cx.op_charged.get() + ns);
}

/// Real clock: runs `block`, which may wait, and books the time on the lock.
#[cold]
fn timed_wait<T>(class: &'static LockClass, block: impl FnOnce() -> T) -> T {
    let Some(cx) = crate::context::current() else { return block() };
    let start = cx.now();
    let value = block();
    book_wait(cx, class, cx.now().since(start).0);
    value
}

/// Charges a waiter that was woken the time since it parked.
fn book_park(cx: &Context, class: &'static LockClass, parked_at: Nanos) {
    book_wait(cx, class, cx.now().since(parked_at).0);
}

/// Charges `span` of CPU time for the lock's own instructions.
fn charge_lock(cx: &Context, span: Nanos) {
    cx.time.set(cx.time.get() + span.0);
    cx.book(Activity::Software, span.0);
}
