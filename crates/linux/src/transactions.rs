//! A transaction that is running, which changes join; a commit locks it, waits for those who are in it, and lets a new one run.
//!
//! Both jbd2 and btrfs have one. Lock order: the lock of the commits, which the caller has, then the gate, which nothing is taken
//! under.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use sim::{Condvar, LockClass, Mutex};

use super::jbd2::DEVICE;
use super::objects::Objects;

/// Does `write` with the object `lock` held, unless what the caller waits for is on the device before, or by then. Returns whether
/// it was there before.
pub(super) fn write_once(
    objects: &Objects,
    lock: &str,
    is_done: impl Fn() -> bool,
    write: impl FnOnce(),
) -> bool {
    sim::interact();
    if is_done() {
        return true;
    }
    objects.holding(lock, || {
        if !is_done() {
            write();
        }
    });
    false
}

/// Writes so many blocks to the device and has it flush its cache.
pub(super) fn write_blocks(objects: &Objects, blocks: u64) {
    for _ in 0..blocks {
        objects.serve_named(DEVICE, true);
    }
    objects.serve_named(DEVICE, false);
}

/// What waits at the gate of a locked transaction are changes.
pub(super) static GATE: LockClass = LockClass::new("linux.locked_transaction");

/// How often an operation has joined the running transaction: a handle within a handle is the same one
/// (fs/jbd2/transaction.c, jbd2__journal_start), which must not wait for a commit that waits for it.
#[derive(Debug, Default)]
pub(super) struct Joined(Cell<u64>);

impl Joined {
    /// Whether the operation is in a transaction.
    pub(super) fn is_in(&self) -> bool {
        self.0.get() > 0
    }
}

/// The running transaction of a mount.
pub(super) struct Transactions {
    running: AtomicU64,
    committed: AtomicU64,
    members: AtomicU64,
    locked: AtomicBool,
    gate: Mutex<()>,
    passed: Condvar,
}

impl Default for Transactions {
    fn default() -> Self {
        Self {
            running: AtomicU64::new(1),
            committed: AtomicU64::new(0),
            members: AtomicU64::new(0),
            locked: AtomicBool::new(false),
            gate: Mutex::new(&GATE, ()),
            passed: Condvar::of_class(&GATE),
        }
    }
}

impl Transactions {
    /// The number of the running one.
    pub(super) fn running(&self) -> u64 {
        self.running.load(SeqCst)
    }

    /// Whether the one of this number is on the device.
    pub(super) fn is_committed(&self, transaction: u64) -> bool {
        transaction <= self.committed.load(SeqCst)
    }

    /// Joins the running one, unless the operation is in it already; waits while it is locked.
    pub(super) fn join(&self, joined: &Joined) {
        sim::interact();
        let was_in = joined.is_in();
        joined.0.set(joined.0.get() + 1);
        if was_in {
            return;
        }
        while self.locked.load(SeqCst) {
            let gate = self.gate.lock();
            if self.locked.load(SeqCst) {
                drop(self.passed.wait(gate));
            }
        }
        self.members.fetch_add(1, SeqCst);
    }

    /// Leaves it, where the operation has left it as often as it has joined it.
    pub(super) fn leave(&self, joined: &Joined) {
        joined.0.set(joined.0.get().saturating_sub(1));
        if joined.is_in() {
            return;
        }
        if self.members.fetch_sub(1, SeqCst) == 1 && self.locked.load(SeqCst) {
            let _gate = self.gate.lock();
            self.passed.notify_all();
        }
    }

    /// Locks the running one, waits until all have left it, lets a new one run, and does `write` for the old one: one caller at a
    /// time.
    pub(super) fn commit(&self, write: impl FnOnce()) {
        self.locked.store(true, SeqCst);
        let mut gate = self.gate.lock();
        while self.members.load(SeqCst) > 0 {
            gate = self.passed.wait(gate);
        }
        let old = self.running.fetch_add(1, SeqCst);
        self.locked.store(false, SeqCst);
        self.passed.notify_all();
        drop(gate);
        write();
        self.committed.store(old, SeqCst);
    }
}
