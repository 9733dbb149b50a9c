//! Mutual exclusion.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use parking_lot::lock_api::RawMutex as _;

use super::line::Line;
use super::queue::WaitQueue;
use super::{book_granted, held_outside, take_turn, timed_wait, virtual_task};
use crate::clock;
use crate::context::Context;
use crate::ledger::{Activity, LockClass};
use crate::machine::Work;
use crate::virt::{NOBODY, Scheduler, Waiting};

/// A mutex with a name in the ledger. Virtual waiters get it in the order in which they came.
///
/// Size: 40 bytes besides the value.
pub struct Mutex<T: ?Sized> {
    class: &'static LockClass,
    state: MutexState,
    raw: parking_lot::RawMutex,
    value: UnsafeCell<T>,
}

/// The virtual side of a mutex. `free_at` and `holder` mean something in the run of `line` only.
struct MutexState {
    /// When the last holder released it.
    free_at: AtomicU64,
    /// The task that has it. It may have to wait until `free_at` for it.
    holder: AtomicU32,
    waiters: WaitQueue,
    line: Line,
}

// SAFETY: `raw` gives the value to one thread at a time, as in any mutex; the virtual state is made of
// atomics.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// A free mutex around `value`, of the class `class`.
    pub const fn new(class: &'static LockClass, value: T) -> Self {
        let state = MutexState {
            free_at: AtomicU64::new(0),
            holder: AtomicU32::new(NOBODY),
            waiters: WaitQueue::new(),
            line: Line::new(),
        };
        Self { class, state, raw: parking_lot::RawMutex::INIT, value: UnsafeCell::new(value) }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the mutex is free and takes it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        match virtual_task() {
            Some((cx, scheduler)) => self.lock_virtual(cx, scheduler),
            None if self.raw.try_lock() => {}
            None => timed_wait(self.class, || self.raw.lock()),
        }
        MutexGuard { mutex: self, not_send: PhantomData }
    }

    /// Takes the mutex if it is free now.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let taken = match virtual_task() {
            Some((cx, scheduler)) => self.try_lock_virtual(cx, scheduler),
            None => self.raw.try_lock(),
        };
        // Lazily: a guard that exists releases.
        taken.then(|| MutexGuard { mutex: self, not_send: PhantomData })
    }

    /// The value, without locking: nobody else can have it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    fn lock_virtual(&self, cx: &Context, scheduler: &Scheduler) {
        scheduler.interact(cx);
        if !self.state.enter(cx, self.class, u64::MAX) {
            let parked_at = cx.time.get();
            let waiting = Waiting { holder: &raw const self.state.holder, ..Waiting::of(self.class) };
            self.state.waiters.wait(cx, scheduler, waiting);
            book_granted(cx, self.class, parked_at);
        }
        if !self.raw.try_lock() {
            held_outside(self.class);
        }
    }

    fn try_lock_virtual(&self, cx: &Context, scheduler: &Scheduler) -> bool {
        scheduler.interact(cx);
        if !self.state.enter(cx, self.class, cx.time.get()) {
            // The failed attempt reads the word, which is all that is known of its cost.
            clock::pass(cx, cx.software(Activity::Software), cx.run.machine.cost(Work::Lock, 1));
            return false;
        }
        if !self.raw.try_lock() {
            held_outside(self.class);
        }
        true
    }
}

impl MutexState {
    /// Takes the mutex, unless a task has it, or has it still after `latest`.
    #[inline]
    fn enter(&self, cx: &Context, class: &'static LockClass, latest: u64) -> bool {
        let mut arrival = cx.time.get();
        if self.line.is_of(&cx.run) {
            let free_at = self.free_at.load(Relaxed);
            if self.holder.load(Relaxed) != NOBODY || free_at > latest {
                return false;
            }
            arrival = arrival.max(free_at);
        }
        self.holder.store(cx.id, Relaxed);
        take_turn(cx, class, self.line.take(&cx.run, cx.core, arrival));
        true
    }

    /// Gives the mutex to the first waiter, or leaves the time of the release behind.
    #[inline]
    fn leave(&self, cx: &Context, scheduler: &Scheduler) {
        let now = cx.time.get();
        let next = self.waiters.pop(scheduler).unwrap_or(NOBODY);
        self.holder.store(next, Relaxed);
        if next == NOBODY {
            self.free_at.store(now, Relaxed);
        } else {
            let waiter = scheduler.context_of(next);
            let turn = self.line.take(&cx.run, waiter.core, now);
            waiter.parking.own.set(turn.own);
            scheduler.wake(next, turn.start + turn.own);
        }
    }
}

impl<T: ?Sized> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mutex({})", self.class.name())
    }
}

/// The right to use the value of a [`Mutex`]; released when dropped.
#[must_use = "the lock is released when the guard is dropped"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    /// A thread releases what it took.
    not_send: PhantomData<*const ()>,
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    pub(super) fn mutex(guard: &Self) -> &'a Mutex<T> {
        guard.mutex
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock, and is borrowed exclusively.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard holds the lock.
        unsafe { self.mutex.raw.unlock() };
        if let Some((cx, scheduler)) = virtual_task() {
            self.mutex.state.leave(cx, scheduler);
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
