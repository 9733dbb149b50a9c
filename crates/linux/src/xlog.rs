//! The log of XFS (fs/xfs/xfs_log.c, xfs_log_cil.c).
//!
//! Commits gather their items in a list in memory. A push takes the list alone, which no commit can have meanwhile, and writes it
//! as one checkpoint: in the background when the list holds an eighth of the log, or for a sync that waits for an item in it. A
//! sync waits for the device; one that waits for another's push often finds its own items written by it.
//!
//! Not here: a log that is full, whose reservations wait for the writing of what it holds. A push in the background takes the list;
//! its writing, which a thread of its own does, is not charged.
//!
//! Lock order: the push, the context of the list, the buffers of the log.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::objects::{At, Objects};
use super::transactions::{write_blocks, write_once};

pub(super) const PUSH: &str = "xfs_cil_push";
pub(super) const CONTEXT: &str = "xfs_cil_context";
pub(super) const BUFFERS: &str = "xfs_iclog";
/// Bytes that a transaction adds: five items, of each at least a chunk of 128 bytes (`XFS_BLF_CHUNK` of
/// fs/xfs/libxfs/xfs_log_format.h).
const TRANSACTION_BYTES: u64 = 5 * 128;
/// An eighth of the log (fs/xfs/xfs_log_priv.h:341), which of 32 GiB is 16 MiB: one block in 2048, as mkfs made it then [R].
const LIST_BYTES: u64 = 16 * 1024 * 1024 / 8;
/// Lines of the list's context: its head and its count of bytes, which an empty one replaces (xfs_log_cil.c:448).
const CONTEXT_LINES: u64 = 2;

/// The log of a mount.
pub(super) struct Log {
    /// The number of the list that gathers items.
    gathering: AtomicU64,
    written: AtomicU64,
    bytes: AtomicU64,
}

impl Default for Log {
    fn default() -> Self {
        Self { gathering: AtomicU64::new(1), written: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }
}

impl Log {
    /// A transaction's items come into the list.
    pub(super) fn insert(&self, at: &At) {
        at.remembered.set_transaction(self.gathering.load(SeqCst));
        self.bytes.fetch_add(TRANSACTION_BYTES, SeqCst);
    }

    /// Pushes a list that is long.
    pub(super) fn push_long(&self, objects: &Objects) {
        sim::interact();
        if self.bytes.load(SeqCst) >= LIST_BYTES {
            self.exchange(objects, LIST_BYTES);
        }
    }

    /// Takes the list of at least so many bytes; its number, or none if another has taken it.
    fn exchange(&self, objects: &Objects, least: u64) -> Option<u64> {
        let mut taken = None;
        objects.alone(CONTEXT, CONTEXT_LINES, || {
            if self.bytes.load(SeqCst) >= least {
                self.bytes.store(0, SeqCst);
                taken = Some(self.gathering.fetch_add(1, SeqCst));
            }
        });
        // A buffer of the log is found for it, and given to the device.
        objects.holding(BUFFERS, || {});
        objects.holding(BUFFERS, || {});
        taken
    }

    /// The inode's items are on the device when this returns; one that is clean has the device flush its cache.
    pub(super) fn sync(&self, at: &At, objects: &Objects) {
        let list = at.remembered.transaction();
        let is_done = || list <= self.written.load(SeqCst);
        let was_done = write_once(objects, PUSH, is_done, || {
            let taken = self.exchange(objects, 0).unwrap_or(list);
            write_blocks(objects, 1);
            self.written.fetch_max(taken, SeqCst);
        });
        if was_done {
            write_blocks(objects, 0);
        }
    }
}
