//! Mutual exclusion, of two kinds that differ under the virtual clock only.
//!
//! A mutex made by [`Mutex::new`] is one of the kernel's: a task that finds it taken spins, as the kernel's
//! mutexes do while the owner runs, and a release hands it to the first waiter for the price of a cache line
//! (see [`super`]). One made by [`Mutex::sleeping`] is one of user space, as glibc's mutex of the normal
//! type: a task that finds it taken asks the kernel to put it to sleep, and a release makes the lock free
//! before it has a sleeper woken, so that others can come between.
//!
//! One made by [`Mutex::waking`] is a sleeping lock of the kernel: a semaphore, the lock of a page or a buffer. It is the first
//! kind, but its waiters do not spin: a release with waiters costs the holder a [`Work::WAKEUP`], and the waiter goes on one more
//! later. It must know its waiters, so it interacts.
//!
//! # The sleeping kind
//!
//! Its word has three states, kept in `holder` and `contended`.
//!
//! | state | an attempt | the kernel, entered after a failed attempt | release |
//! |---|---|---|---|
//! | free | the first: taken; one after a failed one: contended | tries again | – |
//! | taken | fails; contended from now on | tries again | free |
//! | contended: there may be sleepers | fails | sleeps, last in the queue | free; wakes the first |
//!
//! * A failed attempt costs one [`Work::FUTEX`]. The kernel compares the word when that has passed, so
//!   no task goes to sleep after the release that would have woken it.
//! * The release of a contended lock costs the holder one [`Work::WAKEUP`], and the sleeper tries again one
//!   more later, as with [`super::Condvar`]. With no task asleep the call is made all the same, for one
//!   [`Work::FUTEX`].
//! * A sleeper on its way back does not have the lock. If another has it by then, it sleeps again, at the
//!   end of the queue.
//! * No wake-up is lost. A task that sleeps has seen the lock contended, so its holder will wake one. A task that
//!   comes between and releases before the woken one is back wakes none; but the woken one, whether it
//!   finds the lock free or taken, leaves it contended, and the task that has it then wakes the next.
//! * The failed attempt takes no line, as little as that of the spinning kind.
//!
//! A release must know which tasks sleep, so it is an interaction: a task that came before it in virtual time has done
//! so on the host. Lock and release are two steps of the scheduler then, where the spinning kind needs one:
//! 112 ns of host time against 55 ns for 8 tasks with a mutex each, 25 against 24 for a task alone, and 264
//! against 69 for each turn of 8 tasks on one mutex (the bench `scheduler`). As the release lets others run,
//! the end of the run can find the holder there and unwind it; the lock is released all the same.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use parking_lot::lock_api::RawMutex as _;

use super::line::Turns;
use super::queue::{WaitQueue, Waited};
use super::{book_granted, book_wait, held_outside, is_free, order, take_turn, timed_wait, virtual_task};
use crate::clock;
use crate::context::Context;
use crate::ledger::{Activity, LockClass};
use crate::machine::Work;
use crate::virt::{NO_TASK, Scheduler, Waiting};

/// A mutex with a name in the ledger. Virtual waiters get it in the order in which they came; one of the
/// sleeping kind wakes them in that order.
///
/// Size: 56 bytes besides the value.
pub struct Mutex<T: ?Sized> {
    class: &'static LockClass,
    state: MutexState,
    raw: parking_lot::RawMutex,
    value: UnsafeCell<T>,
}

const _: () = assert!(size_of::<Mutex<u64>>() == 56 + 8);

/// The virtual side of a mutex. `free_at` and `holder` mean something in the run of `line` only.
struct MutexState {
    /// When the last holder released it.
    free_at: AtomicU64,
    /// The task that has it. It may have to wait until `free_at` for it.
    holder: AtomicU32,
    waiters: WaitQueue,
    line: Turns,
    /// Of the sleeping kind.
    sleeping: bool,
    /// Its waiters sleep, and a release hands it to the first by waking it.
    waking: bool,
    /// Sleeping kind: a task has it and there may be sleepers; its release asks the kernel.
    contended: AtomicBool,
}

// SAFETY: `raw` gives the value to one thread at a time, as in any mutex; the virtual state is made of
// atomics.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// A free mutex around `value`, of the class `class`.
    pub const fn new(class: &'static LockClass, value: T) -> Self {
        Self::of_kind(class, value, false, false)
    }

    /// A free mutex for which tasks of the virtual clock sleep until a release hands it to them, as for the kernel's semaphores and
    /// the locks of its pages and buffers. Under the real clock it is a mutex like any other.
    pub const fn waking(class: &'static LockClass, value: T) -> Self {
        Self::of_kind(class, value, false, true)
    }

    /// A free mutex of user space, for which tasks of the virtual clock sleep instead of spinning (see the
    /// header of this module). Under the real clock it is a mutex like any other.
    pub const fn sleeping(class: &'static LockClass, value: T) -> Self {
        Self::of_kind(class, value, true, false)
    }

    const fn of_kind(class: &'static LockClass, value: T, sleeping: bool, waking: bool) -> Self {
        let state = MutexState {
            free_at: AtomicU64::new(0),
            holder: AtomicU32::new(NO_TASK),
            waiters: WaitQueue::new(),
            line: Turns::new(),
            sleeping,
            waking,
            contended: AtomicBool::new(false),
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
        order::check(self.class);
        match virtual_task() {
            Some((cx, scheduler)) => self.lock_virtual(cx, scheduler),
            None if self.raw.try_lock() => {}
            None => timed_wait(self.class, || self.raw.lock()),
        }
        order::taken(self.class);
        MutexGuard { mutex: self, not_send: PhantomData }
    }

    /// Takes the mutex if it is free now.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let taken = match virtual_task() {
            Some((cx, scheduler)) => self.try_lock_virtual(cx, scheduler),
            None => self.raw.try_lock(),
        };
        if taken {
            order::taken(self.class);
        }
        // Lazily: a guard that exists releases.
        taken.then(|| MutexGuard { mutex: self, not_send: PhantomData })
    }

    /// The value, without locking: no other task can have it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    fn lock_virtual(&self, cx: &Context, scheduler: &Scheduler) {
        scheduler.interact(cx);
        if !self.state.enter(cx, self.class, u64::MAX) {
            if self.state.sleeping {
                self.sleep_and_enter(cx, scheduler);
            } else {
                book_granted(cx, self.class, &self.wait(cx, scheduler));
            }
        }
        if !self.raw.try_lock() {
            held_outside(self.class);
        }
    }

    /// Parks the current task until a release wakes it.
    fn wait(&self, cx: &Context, scheduler: &Scheduler) -> Waited {
        let waiting = Waiting { holder: &raw const self.state.holder, ..Waiting::of(self.class) };
        self.state.waiters.wait(cx, scheduler, waiting)
    }

    /// Sleeping kind, after a failed attempt: sleeps and tries again until the lock is free.
    #[inline(never)]
    fn sleep_and_enter(&self, cx: &Context, scheduler: &Scheduler) {
        loop {
            self.state.contended.store(true, Relaxed);
            clock::pass(cx, cx.software(Activity::SOFTWARE), cx.run.machine.cost(Work::FUTEX, 1));
            cx.count_units(Work::FUTEX, 1);
            scheduler.interact(cx);
            if self.state.contended.load(Relaxed) {
                let waited = self.wait(cx, scheduler);
                book_wait(cx, self.class, waited.ns);
            }
            if self.state.enter(cx, self.class, u64::MAX) {
                // A task that has failed once cannot know whether others sleep.
                return self.state.contended.store(true, Relaxed);
            }
        }
    }

    fn try_lock_virtual(&self, cx: &Context, scheduler: &Scheduler) -> bool {
        scheduler.interact(cx);
        // Where times do not compare, one of the future has no meaning.
        let latest = if scheduler.is_explored() { u64::MAX } else { cx.time.get() };
        if !self.state.enter(cx, self.class, latest) {
            // The failed attempt reads the word, which is all that is known of its cost.
            clock::pass(cx, cx.software(Activity::SOFTWARE), cx.run.machine.cost(Work::LOCK, 1));
            cx.count_units(Work::LOCK, 1);
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
        let free = !self.sleeping && is_free(cx, class);
        if self.line.is_of(&cx.run) {
            let free_at = if free { 0 } else { self.free_at.load(Relaxed) };
            if self.holder.load(Relaxed) != NO_TASK || free_at > latest {
                return false;
            }
            arrival = arrival.max(free_at);
        } else {
            self.contended.store(false, Relaxed); // what another run has left
        }
        self.holder.store(cx.id, Relaxed);
        let turn = self.line.take(&cx.run, cx.core.get(), arrival);
        if !free {
            take_turn(cx, class, turn);
        }
        true
    }

    /// Sleeping kind: makes the mutex free, and then wakes the first sleeper, if there may be one.
    fn leave_and_wake(&self, cx: &Context, scheduler: &Scheduler) {
        cx.show();
        self.free_at.store(cx.time.get(), Relaxed);
        self.holder.store(NO_TASK, Relaxed);
        if !self.contended.load(Relaxed) {
            return;
        }
        self.contended.store(false, Relaxed);
        let sleeper = self.waiters.pop(scheduler);
        let call = if sleeper.is_some() { Work::WAKEUP } else { Work::FUTEX };
        let cost = cx.run.machine.cost(call, 1);
        clock::pass(cx, cx.software(Activity::SOFTWARE), cost);
        cx.count_units(call, 1);
        if let Some(sleeper) = sleeper {
            cx.show();
            scheduler.wake(sleeper, cx.time.get() + cost.0);
        }
    }

    /// Gives the mutex to the first waiter, or leaves the time of the release behind.
    #[inline]
    fn leave(&self, cx: &Context, scheduler: &Scheduler, class: &'static LockClass) {
        cx.show();
        let now = cx.time.get();
        let next = self.waiters.pop(scheduler).unwrap_or(NO_TASK);
        self.holder.store(next, Relaxed);
        if next == NO_TASK {
            self.free_at.store(now, Relaxed);
        } else {
            let waiter = scheduler.context_of(next);
            let turn = self.line.take(&cx.run, waiter.core.get(), now);
            if is_free(cx, class) {
                waiter.parking.own.set(0);
                return scheduler.wake(next, waiter.time.get());
            }
            waiter.parking.own.set(turn.own);
            let mut at = turn.start + turn.own;
            if self.waking {
                let wakeup = cx.run.machine.cost(Work::WAKEUP, 1);
                clock::pass(cx, cx.software(Activity::SOFTWARE), wakeup);
                cx.count_units(Work::WAKEUP, 1);
                at += 2 * wakeup.0;
            }
            scheduler.wake(next, at);
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
    /// Data under a lock moves with it: the current task writes `lines` lines that each holder writes. Each costs a transfer if
    /// another core held the lock last, which is booked on the lock. Nothing under the real clock.
    pub fn touch(guard: &Self, lines: u64) {
        guard.mutex.state.line.move_data(guard.mutex.class, lines);
    }

    pub(super) fn mutex(guard: &Self) -> &'a Mutex<T> {
        guard.mutex
    }

    /// Virtual clock: releases as the first part of a wait, so that nothing comes between the two.
    pub(super) fn release_to_wait(guard: Self, cx: &Context, scheduler: &Scheduler) {
        let guard = ManuallyDrop::new(guard);
        guard.release(cx, scheduler);
    }

    #[inline]
    fn release(&self, cx: &Context, scheduler: &Scheduler) {
        order::released(self.mutex.class);
        if self.mutex.state.sleeping || self.mutex.state.waking {
            return release_to_sleeper(self.mutex.class, &self.mutex.raw, &self.mutex.state, cx, scheduler);
        }
        // SAFETY: the guard holds the lock, and is dropped or forgotten after this.
        unsafe { self.mutex.raw.unlock() };
        self.mutex.state.leave(cx, scheduler, self.mutex.class);
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
        let Some((cx, scheduler)) = virtual_task() else {
            order::released(self.mutex.class);
            // SAFETY: the guard holds the lock.
            return unsafe { self.mutex.raw.unlock() };
        };
        self.release(cx, scheduler);
        scheduler.turn(cx);
    }
}

/// Virtual clock, kinds for which tasks sleep: the current task releases what it holds, when its time has come.
#[inline(never)]
fn release_to_sleeper(
    class: &'static LockClass,
    raw: &parking_lot::RawMutex,
    state: &MutexState,
    cx: &Context,
    scheduler: &Scheduler,
) {
    let _release = Release { class, raw, state, cx, scheduler };
    scheduler.interact(cx);
}

/// The release itself: when dropped, also by an interaction that unwinds.
struct Release<'a> {
    class: &'static LockClass,
    raw: &'a parking_lot::RawMutex,
    state: &'a MutexState,
    cx: &'a Context,
    scheduler: &'a Scheduler,
}

impl Drop for Release<'_> {
    fn drop(&mut self) {
        // SAFETY: made by a guard that holds the lock and is being dropped.
        unsafe { self.raw.unlock() };
        if self.state.sleeping {
            self.state.leave_and_wake(self.cx, self.scheduler);
        } else {
            self.state.leave(self.cx, self.scheduler, self.class);
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
