//! Transactions of jbd2 and ext4's list of orphans (fs/jbd2, fs/ext4/namei.c).
//!
//! A handle joins the running transaction. A sync of an inode that this transaction has changed commits it: it is *locked*, so that
//! no handle starts, until the last handle has stopped; then a new one runs, and the blocks of the old one go to the device while
//! handles of the new one come and go. One commit runs at a time; a sync that waits for it often finds its own transaction
//! committed by it. The five seconds after which jbd2 commits by itself, and a full log, do not come in a run of milliseconds.
//!
//! Lock order: the commit's object, then the gate of the transactions.

use super::objects::{At, Objects};
use super::transactions::{Transactions, write_blocks, write_once};

/// The object that a commit has.
pub(super) const COMMIT: &str = "commit";
/// The object that serves its requests.
pub(super) const DEVICE: &str = "loop_thread";
/// Blocks of a commit: the descriptor, a block of the inode table, the commit record.
const COMMIT_BLOCKS: u64 = 3;

/// The journal of a mount.
#[derive(Default)]
pub(super) struct Journal {
    pub(super) transactions: Transactions,
    orphans: parking_lot::Mutex<Vec<u64>>,
}

impl Journal {
    /// The inode's transaction is committed when this returns.
    pub(super) fn sync(&self, at: &At, objects: &Objects) {
        let transaction = at.remembered.transaction();
        let is_done = || self.transactions.is_committed(transaction);
        write_once(objects, COMMIT, is_done, || {
            self.transactions.commit(|| write_blocks(objects, COMMIT_BLOCKS));
        });
    }

    pub(super) fn add_orphan(&self, ino: u64) {
        self.orphans.lock().push(ino);
    }

    pub(super) fn remove_orphan(&self, ino: u64) {
        self.orphans.lock().retain(|other| *other != ino);
    }

    /// Whether the inode is the orphan that came last, which the superblock points to.
    pub(super) fn is_head(&self, ino: u64) -> bool {
        sim::interact();
        self.orphans.lock().last() == Some(&ino)
    }
}
