//! Mutual exclusion.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use parking_lot::lock_api::RawMutex as _;

use super::line::Line;
use super::queue::WaitQueue;
use super::{book_park, charge_lock, timed_wait, wait_until};
use crate::context::{self, Context};
use crate::ledger::LockClass;
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

/// The virtual side of a mutex.
struct MutexState {
    /// When the last holder released it.
    free_at: AtomicU64,
    holder: AtomicU32,
    waiters: WaitQueue,
    line: Line,
}

// SAFETY: `raw` gives the value to one thread at a time, as in any mutex; the virtual state is made of atomics.
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
        taken.then_some(MutexGuard { mutex: self, not_send: PhantomData })
    }

    /// The value, without locking: nobody else can have it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    fn lock_virtual(&self, cx: &Context, scheduler: &Scheduler) {
        scheduler.interact(cx);
        let state = &self.state;
        let holder = state.holder.load(Relaxed);
        if holder == NOBODY {
            wait_until(cx, self.class, state.free_at.load(Relaxed));
            state.holder.store(cx.id, Relaxed);
            let (_, own) = state.line.take(cx);
            charge_lock(cx, own);
        } else {
            let parked_at = cx.now();
            state.waiters.push(scheduler, cx.id);
            scheduler.park(cx, Waiting { class: self.class, holder, write: true }, None);
            book_park(cx, self.class, parked_at);
        }
        assert!(self.raw.try_lock(), "lock {} is used by two runs at once", self.class.name());
    }

    fn try_lock_virtual(&self, cx: &Context, scheduler: &Scheduler) -> bool {
        scheduler.interact(cx);
        let state = &self.state;
        let (_, own) = state.line.take(cx);
        let free = state.holder.load(Relaxed) == NOBODY && state.free_at.load(Relaxed) <= cx.time.get();
        charge_lock(cx, own);
        if free {
            state.holder.store(cx.id, Relaxed);
            assert!(self.raw.try_lock(), "lock {} is used by two runs at once", self.class.name());
        }
        free
    }

    fn unlock_virtual(&self, cx: &Context, scheduler: &Scheduler) {
        let state = &self.state;
        let now = cx.time.get();
        match state.waiters.pop(scheduler) {
            Some(next) => {
                let transfer = cx.run.machine.transfer(cx.core, scheduler.core_of(next));
                state.holder.store(next, Relaxed);
                scheduler.wake(next, now + transfer.0);
            }
            None => {
                state.holder.store(NOBODY, Relaxed);
                state.free_at.store(now, Relaxed);
            }
        }
    }
}

/// The current task and its scheduler, under the virtual clock.
#[inline]
pub(super) fn virtual_task() -> Option<(&'static Context, &'static Scheduler)> {
    let cx = context::current()?;
    Some((cx, cx.scheduler()?))
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
            self.mutex.unlock_virtual(cx, scheduler);
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
