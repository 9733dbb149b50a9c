//! Many readers or one writer.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use parking_lot::lock_api::RawRwLock as _;

use super::line::{Turn, Turns};
use super::queue::WaitQueue;
use super::{book_granted, held_outside, is_free, order, take_turn, timed_wait, virtual_task};
use crate::context::{Context, TaskId};
use crate::ledger::LockClass;
use crate::virt::{NO_TASK, Scheduler, Waiting};

/// A readers-writer lock with a name in the ledger. Under the virtual clock it is fair: a task that finds others
/// waiting, waits behind them. Taking it for reading still moves its line to the reader's core, so readers
/// follow one another.
pub struct RwLock<T: ?Sized> {
    class: &'static LockClass,
    state: RwLockState,
    raw: parking_lot::RawRwLock,
    value: UnsafeCell<T>,
}

/// The virtual side of the lock. All but the queue means something in the run of `line` only.
///
/// | `writer` | `readers` | meaning |
/// |---|---|---|
/// | none | 0 | free; a reader may enter after `write_end`, a writer after `read_end` too |
/// | none | n | n readers, some of which may have to wait until `write_end` |
/// | id | 0 | one writer, who may have to wait until both |
struct RwLockState {
    writer: AtomicU32,
    readers: AtomicU32,
    /// When the last writer released it.
    write_end: AtomicU64,
    /// When the last of the readers so far released it.
    read_end: AtomicU64,
    waiters: WaitQueue,
    line: Turns,
}

// SAFETY: `raw` gives the value to one writer or many readers, as in any such lock; the virtual state is made
// of atomics.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T> RwLock<T> {
    /// A free lock around `value`, of the class `class`.
    pub const fn new(class: &'static LockClass, value: T) -> Self {
        let state = RwLockState {
            writer: AtomicU32::new(NO_TASK),
            readers: AtomicU32::new(0),
            write_end: AtomicU64::new(0),
            read_end: AtomicU64::new(0),
            waiters: WaitQueue::new(),
            line: Turns::new(),
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
        order::check(self.class);
        match virtual_task() {
            Some((cx, scheduler)) => {
                self.acquire(cx, scheduler, false);
                if !self.raw.try_lock_shared() {
                    held_outside(self.class);
                }
            }
            None if self.raw.try_lock_shared() => {}
            None => timed_wait(self.class, || self.raw.lock_shared()),
        }
        order::taken(self.class);
        RwLockReadGuard { lock: self, not_send: PhantomData }
    }

    /// Waits until no task has the lock and takes it for writing.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        order::check(self.class);
        match virtual_task() {
            Some((cx, scheduler)) => {
                self.acquire(cx, scheduler, true);
                if !self.raw.try_lock_exclusive() {
                    held_outside(self.class);
                }
            }
            None if self.raw.try_lock_exclusive() => {}
            None => timed_wait(self.class, || self.raw.lock_exclusive()),
        }
        order::taken(self.class);
        RwLockWriteGuard { lock: self, not_send: PhantomData }
    }

    /// One more update of the lock's line: of a count that lies on it, as that of a page's users lies beside its lock bit.
    pub fn touch(&self) {
        let Some((cx, scheduler)) = virtual_task() else { return };
        scheduler.interact(cx);
        if !self.state.line.is_of(&cx.run) {
            self.state.reset();
        }
        let turn = self.state.line.take(&cx.run, cx.core.get(), cx.time.get());
        if !is_free(cx, self.class) {
            take_turn(cx, self.class, turn);
        }
    }

    /// The value, without locking: no other task can have it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    fn acquire(&self, cx: &Context, scheduler: &Scheduler, write: bool) {
        scheduler.interact(cx);
        if self.state.enter(cx, self.class, write) {
            return;
        }
        let holder = &raw const self.state.writer;
        let waiting = Waiting { holder, wants: u64::from(write), ..Waiting::of(self.class) };
        let waited = self.state.waiters.wait(cx, scheduler, waiting);
        assert!(waited.woken, "a lock has no deadline");
        book_granted(cx, self.class, &waited);
    }
}

impl RwLockState {
    /// Takes the lock, unless a task that excludes this one has it, or any task waits for it.
    #[inline]
    fn enter(&self, cx: &Context, class: &'static LockClass, write: bool) -> bool {
        if !self.line.is_of(&cx.run) {
            self.reset();
        } else if self.excludes(write) || !self.waiters.is_empty() {
            return false;
        }
        let turn = self.admit(cx, cx.id, cx.core.get(), cx.time.get(), write);
        if !is_free(cx, class) {
            take_turn(cx, class, turn);
        }
        true
    }

    fn excludes(&self, write: bool) -> bool {
        self.writer.load(Relaxed) != NO_TASK || (write && self.readers.load(Relaxed) > 0)
    }

    /// Forgets an earlier run.
    fn reset(&self) {
        self.writer.store(NO_TASK, Relaxed);
        self.readers.store(0, Relaxed);
        self.write_end.store(0, Relaxed);
        self.read_end.store(0, Relaxed);
    }

    /// Lets a task in that came at `arrival`: its turn on the line, after those whom it must not meet have
    /// left.
    #[inline]
    fn admit(&self, cx: &Context, id: TaskId, core: u16, arrival: u64, write: bool) -> Turn {
        let mut start = arrival.max(self.write_end.load(Relaxed));
        if write {
            start = start.max(self.read_end.load(Relaxed));
            self.writer.store(id, Relaxed);
        } else {
            self.readers.store(self.readers.load(Relaxed) + 1, Relaxed);
        }
        self.line.take(&cx.run, core, start)
    }

    #[inline]
    fn leave(&self, cx: &Context, scheduler: &Scheduler, class: &'static LockClass, write: bool) {
        cx.show();
        let now = cx.time.get();
        if write {
            self.writer.store(NO_TASK, Relaxed);
            self.write_end.store(now, Relaxed);
        } else {
            self.readers.store(self.readers.load(Relaxed) - 1, Relaxed);
            self.read_end.store(self.read_end.load(Relaxed).max(now), Relaxed);
        }
        if !self.waiters.is_empty() {
            self.admit_waiters(cx, scheduler, is_free(cx, class));
        }
    }

    /// Lets the first waiter in, and with a reader all readers behind it up to the next writer.
    fn admit_waiters(&self, cx: &Context, scheduler: &Scheduler, free: bool) {
        while let Some(first) = self.waiters.first() {
            let write = scheduler.wants_of(first) > 0;
            if self.excludes(write) {
                return;
            }
            self.waiters.pop(scheduler);
            let waiter = scheduler.context_of(first);
            let turn = self.admit(cx, first, waiter.core.get(), waiter.time.get(), write);
            let (own, time) = if free { (0, waiter.time.get()) } else { (turn.own, turn.start + turn.own) };
            waiter.parking.own.set(own);
            scheduler.wake(first, time);
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

impl<T: ?Sized> RwLockWriteGuard<'_, T> {
    /// As [`super::MutexGuard::touch`]: the task writes `lines` lines that come from the core that had the lock before, for reading
    /// or writing.
    pub fn touch(guard: &Self, lines: u64) {
        guard.lock.state.line.move_data(guard.lock.class, lines);
    }
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
        order::released(self.lock.class);
        // SAFETY: the guard holds the lock for reading.
        unsafe { self.lock.raw.unlock_shared() };
        if let Some((cx, scheduler)) = virtual_task() {
            self.lock.state.leave(cx, scheduler, self.lock.class, false);
            scheduler.turn(cx);
        }
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        order::released(self.lock.class);
        // SAFETY: the guard holds the lock for writing.
        unsafe { self.lock.raw.unlock_exclusive() };
        if let Some((cx, scheduler)) = virtual_task() {
            self.lock.state.leave(cx, scheduler, self.lock.class, true);
            scheduler.turn(cx);
        }
    }
}
