//! Many readers, each on a line of its own core, or one writer.
//!
//! A readers-writer lock counts its readers on one line, which every reader takes from the one before: readers of one object follow
//! one another though none excludes the other. This lock lets them go by lines of their own as soon as the object is read much more
//! than it is changed, and back to the one line when it is changed. The idea and the threshold are those of biased locking of
//! readers-writer locks (BRAVO: Dice, Kogan, USENIX ATC 2019), with lines by core in the place of a table by hash.
//!
//! | state | `spread` | a reader takes | a writer takes |
//! |---|---|---|---|
//! | together | false | the main lock, shared | the main lock |
//! | spread | true | its core's lock, shared; as above if false by then | the main lock, stores false, each core's lock once |
//!
//! | from | to | who | when |
//! |---|---|---|---|
//! | together | spread | a reader with the main lock | nine reads a core since a writer came from another core than the last |
//! | spread | together | a writer that has the main lock | always, before it changes the value |
//!
//! No reader is in with a writer: one that came by its core's lock before the writer took that lock is waited for, and one that
//! comes after it sees the writer's store, because it takes the same lock. So a reader is in only while the word is true or the
//! main lock is its own.
//!
//! Lock order: the main lock, then those of cores by number; a reader holds one of all of them.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;
use std::thread;

use super::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use super::rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use super::virtual_task;
use crate::ledger::LockClass;
use crate::{ran, task};

/// Reads from other cores that one lock of a core must be worth: a writer then takes a tenth of the readers' time at most (the
/// factor N = 9 of BRAVO, section 3).
const READS_FOR_A_SLOT: u32 = 9;
/// Cores beyond so many share locks.
const SLOTS_MAX: usize = 256;

/// A readers-writer lock whose readers do not meet while nothing is changed.
pub struct SpreadRwLock<T> {
    class: &'static LockClass,
    main: RwLock<()>,
    /// A lock for each core, made when the first readers are spread.
    slots: OnceLock<Box<[RwLock<()>]>>,
    spread: AtomicBool,
    /// Reads since the last writer that came from another core than the one before, and the core of the last read.
    changes: AtomicU32,
    core: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: `main` and `slots` give the value to one writer or many readers (see the header), as in any such lock.
unsafe impl<T: Send> Send for SpreadRwLock<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for SpreadRwLock<T> {}

impl<T> SpreadRwLock<T> {
    /// A free lock around `value`, of the class `class`.
    pub const fn new(class: &'static LockClass, value: T) -> Self {
        Self {
            class,
            main: RwLock::new(class, ()),
            slots: OnceLock::new(),
            spread: AtomicBool::new(false),
            changes: AtomicU32::new(0),
            core: AtomicU32::new(u32::MAX),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until no writer has the lock and takes it for reading.
    #[inline]
    pub fn read(&self) -> SpreadReadGuard<'_, T> {
        if self.spread.load(Relaxed)
            && let Some(slots) = self.slots.get()
        {
            let held = slots[usize::from(task::core()) % slots.len()].read();
            if self.spread.load(SeqCst) {
                return SpreadReadGuard { lock: self, _held: held, spread: true };
            }
        }
        let held = self.main.read();
        self.count_read();
        SpreadReadGuard { lock: self, _held: held, spread: false }
    }

    /// Waits until no task has the lock and takes it for writing.
    #[inline]
    pub fn write(&self) -> SpreadWriteGuard<'_, T> {
        let held = self.main.write();
        if self.spread.load(Relaxed) {
            self.gather();
        }
        self.changes.store(0, Relaxed);
        SpreadWriteGuard { lock: self, _held: held }
    }

    /// Lets readers meet again, and waits for those that are in. The caller has the main lock for writing.
    #[cold]
    fn gather(&self) {
        self.spread.store(false, SeqCst);
        self.slots.get().into_iter().flatten().for_each(|slot| drop(slot.write()));
    }

    /// Notes a read under the main lock, and spreads the readers when it pays.
    fn count_read(&self) {
        let core = u32::from(task::core());
        if self.core.load(Relaxed) == core {
            return;
        }
        self.core.store(core, Relaxed);
        let changes = self.changes.fetch_add(1, Relaxed) + 1;
        if changes >= READS_FOR_A_SLOT * 2 {
            self.spread_readers(changes);
        }
    }

    #[cold]
    fn spread_readers(&self, changes: u32) {
        let slots = self.slots.get().map_or_else(cores, |slots| slots.len());
        if u64::from(changes) < u64::from(READS_FOR_A_SLOT) * slots as u64 {
            return;
        }
        if self.slots.get().is_none() {
            ran::allocate(1);
            let made = (0..slots).map(|_| RwLock::new(self.class, ())).collect();
            // If another reader was first, its locks are as good.
            drop(self.slots.set(made));
        }
        self.spread.store(true, SeqCst);
    }
}

/// Cores that tasks may run on.
fn cores() -> usize {
    let host = || thread::available_parallelism().map_or(1, usize::from);
    virtual_task().map_or_else(host, |(cx, _)| usize::from(cx.run.machine.cores())).clamp(1, SLOTS_MAX)
}

/// The right to read the value of a [`SpreadRwLock`].
#[must_use = "the lock is released when the guard is dropped"]
pub struct SpreadReadGuard<'a, T> {
    lock: &'a SpreadRwLock<T>,
    _held: RwLockReadGuard<'a, ()>,
    spread: bool,
}

/// The right to change the value of a [`SpreadRwLock`].
#[must_use = "the lock is released when the guard is dropped"]
pub struct SpreadWriteGuard<'a, T> {
    lock: &'a SpreadRwLock<T>,
    _held: RwLockWriteGuard<'a, ()>,
}

impl<T> SpreadReadGuard<'_, T> {
    /// The task updates an atomic of the value that lies on the line of the lock: a reader that came by its core's own line gets
    /// that line first.
    pub fn touch(guard: &Self) {
        if guard.spread {
            guard.lock.main.touch();
        }
    }
}

impl<T> Deref for SpreadReadGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the main lock or that of a core for reading, and a writer would have waited for both.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> Deref for SpreadWriteGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the main lock for writing, and no reader is in by the lock of a core.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for SpreadWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}
