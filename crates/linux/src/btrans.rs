//! Transactions of btrfs and the tree of its log (fs/btrfs/transaction.c, tree-log.c).
//!
//! A change joins the running transaction. Thirty seconds after it began a thread commits it: who comes meanwhile waits until those
//! who are in it have left. A sync does not commit: it writes the inode's items to a tree of its own, the log, and that tree with
//! all who have come to the device, one writing at a time, while those who come later make the next.
//!
//! Lock order: the writing of the log, the lock of the commits, the gate of the transactions.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use sim::Nanos;

use super::objects::{At, Objects};
use super::transactions::{Transactions, write_blocks, write_once};

pub(super) const LOG_COMMIT: &str = "btrfs_log_commit";
/// After so long a transaction is committed (fs/btrfs/disk-io.c, `BTRFS_DEFAULT_COMMIT_INTERVAL`).
const INTERVAL: Nanos = Nanos(30_000_000_000);
/// Blocks of a log: a leaf, its root, the leaf of the tree of logs, the superblock (fs/btrfs/tree-log.c, `btrfs_sync_log`).
const LOG_BLOCKS: u64 = 4;
/// Blocks of a commit: a leaf and the root of each of three trees (files, extents, roots), the superblock (transaction.c).
const COMMIT_BLOCKS: u64 = 7;

/// Transactions and log of a mount.
#[derive(Default)]
pub(super) struct Trees {
    transactions: Transactions,
    /// When the running transaction began.
    began: AtomicU64,
    /// The number of the log that is being made, less 1.
    log: AtomicU64,
    logged: AtomicU64,
}

impl Trees {
    /// A change joins the running transaction, after its commit if that is due: by the thread for that, whose work the first who
    /// comes does here.
    pub(super) fn join(&self, at: &At, objects: &Objects) {
        sim::interact();
        let (now, began) = (sim::now().0, self.began.load(SeqCst));
        let is_due = !at.joined.is_in() && now >= began.saturating_add(INTERVAL.0);
        if is_due && self.began.compare_exchange(began, now, SeqCst, SeqCst).is_ok() {
            self.transactions.commit(|| write_blocks(objects, COMMIT_BLOCKS));
        }
        self.transactions.join(&at.joined);
    }

    pub(super) fn end(&self, at: &At) {
        self.transactions.leave(&at.joined);
    }

    /// The inode's items are in the log that is being made.
    pub(super) fn log(&self, at: &At) {
        at.remembered.set_transaction(self.log.load(SeqCst) + 1);
    }

    /// The log with the inode's items is on the device when this returns.
    pub(super) fn sync(&self, at: &At, objects: &Objects) {
        let log = at.remembered.transaction();
        let is_done = || log <= self.logged.load(SeqCst);
        write_once(objects, LOG_COMMIT, is_done, || {
            let writing = self.log.fetch_add(1, SeqCst) + 1;
            write_blocks(objects, LOG_BLOCKS);
            self.logged.store(writing, SeqCst);
        });
    }
}
