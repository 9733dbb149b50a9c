//! Many readers or one writer.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use parking_lot::lock_api::RawRwLock as _;

use super::line::Line;
use super::mutex::virtual_task;
use super::queue::WaitQueue;
use super::{book_park, charge_lock, timed_wait, wait_until};
use crate::context::Context;
use crate::ledger::LockClass;
use crate::virt::{NOBODY, Scheduler, Waiting};

/// A readers-writer lock with a name in the ledger. Under the virtual clock it is fair: whoever finds others waiting, waits
/// behind them. Taking it for reading still moves its line to the reader's core.
pub struct RwLock<T: ?Sized> {
    class: &'static LockClass,
    state: RwLockState,
    raw: parking_lot::RawRwLock,
    value: UnsafeCell<T>,
}

/// The virtual side of the lock.
///
/// | `writer` | `readers` | meaning |
/// |---|---|---|
/// | nobody | 0 | free; a reader may enter after `write_end`, a writer after `read_end` too |
/// | nobody | n | n readers |
/// | id | 0 | one writer |
struct RwLockState {
    writer: AtomicU32,
    readers: AtomicU32,
    /// When the last writer released it.
    write_end: AtomicU64,
    /// When the last of the readers so far released it.
    read_end: AtomicU64,
    waiters: WaitQueue,
    line: Line,
}

// SAFETY: `raw` gives the value to one writer or many readers, as in any such lock; the virtual state is made of atomics.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T> RwLock<T> {
    /// A free lock around `value`, of the class `class`.
    pub const fn new(class: &'static LockClass, value: T) -> Self {
        let state = RwLockState {
            writer: AtomicU32::new(NOBODY),
            readers: AtomicU32::new(0),
            write_end: AtomicU64::new(0),
            read_end: AtomicU64::new(0),
            waiters: WaitQueue::new(),
            line: Line::new(),
        };
        Self { class, state, raw: parking_lot::RawRwLock::INIT, value: UnsafeCell::new(value) }
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no writer has the lock and takes it for reading.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        match virtual_task() {
            Some((cx, scheduler)) => {
                self.acquire(cx, scheduler, false);
                assert!(self.raw.try_lock_shared(), "lock {} is used by two runs at once", self.class.name());
            }
            None if self.raw.try_lock_shared() => {}
            None => timed_wait(self.class, || self.raw.lock_shared()),
        }
        RwLockReadGuard { lock: self, not_send: PhantomData }
    }

    /// Waits until nobody has the lock and takes it for writing.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        match virtual_task() {
            Some((cx, scheduler)) => {
                self.acquire(cx, scheduler, true);
                assert!(
                    self.raw.try_lock_exclusive(),
                    "lock {} is used by two runs at once",
                    self.class.name()
                );
            }
            None if self.raw.try_lock_exclusive() => {}
            None => timed_wait(self.class, || self.raw.lock_exclusive()),
        }
        RwLockWriteGuard { lock: self, not_send: PhantomData }
    }

    /// The value, without locking: nobody else can have it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    fn acquire(&self, cx: &Context, scheduler: &Scheduler, write: bool) {
        scheduler.interact(cx);
        let state = &self.state;
        let blocked = state.writer.load(Relaxed) != NOBODY || (write && state.readers.load(Relaxed) > 0);
        if blocked || !state.waiters.is_empty() {
            let parked_at = cx.now();
            state.waiters.push(scheduler, cx.id);
            let holder = state.writer.load(Relaxed);
            scheduler.park(cx, Waiting { class: self.class, holder, write }, None);
            return book_park(cx, self.class, parked_at);
        }
        let earliest =
            state.write_end.load(Relaxed).max(if write { state.read_end.load(Relaxed) } else { 0 });
        wait_until(cx, self.class, earliest);
        state.admit(cx.id, write);
        let (wait, own) = state.line.take(cx);
        charge_lock(cx, wait + own);
    }

    fn release(&self, cx: &Context, scheduler: &Scheduler, write: bool) {
        let state = &self.state;
        let now = cx.time.get();
        if write {
            state.writer.store(NOBODY, Relaxed);
            state.write_end.store(now, Relaxed);
        } else {
            state.readers.store(state.readers.load(Relaxed) - 1, Relaxed);
            state.read_end.store(state.read_end.load(Relaxed).max(now), Relaxed);
        }
        if !state.waiters.is_empty() {
            state.admit_waiters(cx, scheduler);
        }
    }
}

impl RwLockState {
    fn admit(&self, id: u32, write: bool) {
        if write {
            self.writer.store(id, Relaxed);
        } else {
            self.readers.store(self.readers.load(Relaxed) + 1, Relaxed);
        }
    }

    /// Lets the first waiter in, and with a reader all readers behind it up to the next writer.
    fn admit_waiters(&self, cx: &Context, scheduler: &Scheduler) {
        while let Some(next) = self.waiters.first() {
            let write = scheduler.wants_to_write(next);
            let busy = self.writer.load(Relaxed) != NOBODY || (write && self.readers.load(Relaxed) > 0);
            if busy {
                return;
            }
            self.waiters.pop(scheduler);
            let end = self.write_end.load(Relaxed).max(if write { self.read_end.load(Relaxed) } else { 0 });
            let transfer = cx.run.machine.transfer(cx.core, scheduler.core_of(next));
            self.admit(next, write);
            scheduler.wake(next, end + transfer.0);
        }
    }
}

impl<T: ?Sized> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RwLock({})", self.class.name())
    }
}

/// The right to read the value of an [`RwLock`].
#[must_use = "the lock is released when the guard is dropped"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    not_send: PhantomData<*const ()>,
}

/// The right to change the value of an [`RwLock`].
#[must_use = "the lock is released when the guard is dropped"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    not_send: PhantomData<*const ()>,
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock for reading.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock for writing.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock for writing, and is borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard holds the lock for reading.
        unsafe { self.lock.raw.unlock_shared() };
        if let Some((cx, scheduler)) = virtual_task() {
            self.lock.release(cx, scheduler, false);
        }
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard holds the lock for writing.
        unsafe { self.lock.raw.unlock_exclusive() };
        if let Some((cx, scheduler)) = virtual_task() {
            self.lock.release(cx, scheduler, true);
        }
    }
}
