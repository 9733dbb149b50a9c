//! Locks, lines and queues that work under both clocks.
//!
//! | type | real clock | virtual clock |
//! |---|---|---|
//! | [`Mutex`], [`RwLock`], [`Condvar`] | `parking_lot` | parked tasks, first come first served |
//! | [`SpreadRwLock`] | readers by core while nothing is written | the same: a lock for each core |
//! | [`Mutex::sleeping`] | `parking_lot` | parked tasks, woken in turn; others may come between |
//! | [`Mutex::waking`] | `parking_lot` | parked tasks; a release hands the lock over by a wake-up |
//! | [`Sequence`] | a mutex and an atomic | writers one at a time; readers fetch the word after a change, and wait out a writer |
//! | [`Semaphore`] | a `parking_lot` mutex and condition variable | the same as a lock |
//! | [`Line`] | nothing: the hardware does it | transfer of a cache line between cores, one at a time |
//! | [`Server`] | reserves time, then spins | reserves time, then advances |
//! | [`AtomicU32`] and its like | those of the standard library | the same; points of an explored run |
//!
//! # How a virtual lock works
//!
//! The word of a lock is a cache line of its own: the task that acquires it pays the transfer from the core that
//! had it last and one [`crate::Work::LOCK`], after the release that it waited for. A release costs nothing
//! and does not interact. It leaves `free_at`, the virtual time of the release, behind; a task that arrives
//! at an earlier time finds the lock free on the host but waits until `free_at`. Arrivals come in the order
//! of virtual time, so the task that is first on the host is first in time, and the outcome is exactly that of a
//! lock that was held until `free_at` (`tests/reference.rs` proves it against a simulator without this
//! shortcut). With tasks in its queue, a release hands the lock to the first of them.
//!
//! A class of locks or lines can be made *free* for a run ([`crate::Setup::free`]), to measure what it costs in all: a task then
//! has such a lock at the time at which it comes, as if the line were its own and no other task held it. On the host the lock
//! excludes as ever: a task that waits there goes on at its own time, which others may have passed. Where it meets them at
//! another lock or server it comes after them, so the gain of a free lock is told rather too small than too large. Locks of
//! the sleeping kind and permits of semaphores are never free. A free [`Line`] is updated as if the core had it.
//!
//! That is a lock whose waiters spin, as the kernel's do. The locks of a program in user space are of the
//! sleeping kind, whose release does interact: its states are in the header of `mutex`.
//!
//! # The order of locks
//!
//! A class may declare below which others it is taken ([`LockClass::under`]); debug builds panic on any other order (`order.rs`).
//!
//! # Memory
//!
//! The words are relaxed atomics and the data is guarded by the `parking_lot` lock under both clocks: the
//! virtual state only decides who comes when, so no misuse of it can make two threads touch the data at once.
//! What a run leaves in them means nothing to the next run: times and holders count only in the run that the
//! lock's line names.

mod atomic;
mod condvar;
mod line;
mod mutex;
mod order;
mod queue;
mod rwlock;
mod semaphore;
mod sequence;
mod server;
mod spread;

pub(crate) use atomic::Exploring;
pub use atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Contended,
    Ordering, spin_loop,
};
pub(crate) use condvar::CONDVAR;
pub use condvar::Condvar;
pub use line::Line;
pub use mutex::{Mutex, MutexGuard};
pub(crate) use order::Held;
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::Semaphore;
pub use sequence::{Sequence, SequenceGuard};
pub use server::Server;
pub use spread::{SpreadReadGuard, SpreadRwLock, SpreadWriteGuard};

use std::cell::Cell;

use crate::context::{self, Context};
use crate::ledger::{Activity, LockClass};
use crate::machine::Work;
use crate::units::Nanos;
use crate::virt::Scheduler;
use line::{Turn, update_ns};
use queue::Waited;

/// The current task and its scheduler, under the virtual clock.
#[inline]
fn virtual_task() -> Option<(&'static Context, &'static Scheduler)> {
    let cx = context::current()?;
    Some((cx, cx.scheduler()?))
}

/// Virtual clock: the current task has its turn on a lock's line. It waits until it begins and does its own
/// part.
#[inline]
fn take_turn(cx: &Context, class: &'static LockClass, turn: Turn) {
    let arrival = cx.time.get();
    cx.time.set(turn.start + turn.own);
    cx.show();
    book_turn(cx, class, turn.start - arrival, turn.own);
}

/// Whether locks or lines of this class take no time in the run.
#[inline]
fn is_free(cx: &Context, class: &'static LockClass) -> bool {
    !cx.run.free.is_empty() && cx.run.free.iter().any(|name| name == class.name())
}

/// Whether locks and lines of this class are free in the run of the current task ([`crate::Setup::free`]). Not outside a run.
pub fn takes_no_time(class: &'static LockClass) -> bool {
    virtual_task().is_some_and(|(cx, _)| is_free(cx, class))
}

/// Virtual clock: the current task was given its turn by the task that woke it; in an explored run perhaps by one whose own time is
/// earlier.
fn book_granted(cx: &Context, class: &'static LockClass, waited: &Waited) {
    let own = cx.parking.own.get();
    book_turn(cx, class, waited.ns.saturating_sub(own), own);
}

/// Taking the lock is CPU work, also while its line comes from another core.
#[inline]
fn book_turn(cx: &Context, class: &'static LockClass, waited: u64, own: u64) {
    if waited > 0 {
        book_wait(cx, class, waited);
    }
    let activity = cx.software(Activity::SOFTWARE);
    cx.book(activity, own);
    cx.count_units(Work::LOCK, u64::from(own > 0));
    book_line_wait(cx, activity, class, own.saturating_sub(update_ns(&cx.run)));
}

/// Virtual clock: of the time that is booked on `activity`, so much was waited for a cache line.
#[inline]
fn book_line_wait(cx: &Context, activity: Activity, class: &'static LockClass, ns: u64) {
    if ns > 0 {
        cx.ledger.add_line_wait(cx.op.get(), activity, class, ns);
    }
}

/// Virtual clock: books a wait that has passed.
fn book_wait(cx: &Context, class: &'static LockClass, ns: u64) {
    let activity = cx.waiting(Activity::LOCK_WAIT);
    cx.book(activity, ns);
    cx.ledger.add_lock_wait(cx.op.get(), activity, class, ns);
}

thread_local! {
    static BEFORE_WAIT: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// Real clock: has `call` called on this thread before it waits for a lock, a notification or a permit. It may be called while the
/// thread holds other locks of this crate, and must take none of them.
pub fn before_wait(call: Option<fn()>) {
    BEFORE_WAIT.set(call);
}

/// Real clock: runs `block`, which may wait, and books the time on the lock.
#[cold]
fn timed_wait<T>(class: &'static LockClass, block: impl FnOnce() -> T) -> T {
    if let Some(call) = BEFORE_WAIT.get() {
        call();
    }
    let Some(cx) = context::current() else { return block() };
    let start = cx.now();
    let value = block();
    let Nanos(waited) = cx.now().since(start);
    let activity = cx.waiting(Activity::LOCK_WAIT);
    cx.book_real(activity, waited);
    cx.ledger.add_lock_wait(cx.op.get(), activity, class, waited);
    value
}

/// Why a lock that is free in virtual time can still not be taken.
#[cold]
fn held_outside(class: &'static LockClass) -> ! {
    panic!(
        "lock {} is held by something outside this run, or by a task that was left in a destructor",
        class.name()
    )
}
