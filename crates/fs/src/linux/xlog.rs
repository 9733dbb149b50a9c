//! The log of XFS (fs/xfs/xfs_log.c, xfs_log_cil.c).
//!
//! Commits gather their items in a list in memory. A push takes the list alone, which no commit can have meanwhile, and writes it
//! as one checkpoint: because the list holds an eighth of the log, then in the background, or because someone waits for an item
//! in it. A sync waits for the device; whoever waits for its turn finds its own items written with another's.
//!
//! Not here: a log that is full, whose reservations wait for the writing of what it holds. In the background a push takes the
//! list, and its writing, which a thread of its own does, delays nobody.
//!
//! Lock order: the push, the context of the list, the buffers of the log.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::jbd2::DEVICE;
use super::objects::{At, Objects};

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
        sim::interact();
        if is_done() {
            return objects.serve_named(DEVICE, false);
        }
        objects.holding(PUSH, || {
            if is_done() {
                return;
            }
            let taken = self.exchange(objects, 0).unwrap_or(list);
            objects.serve_named(DEVICE, true);
            objects.serve_named(DEVICE, false);
            self.written.fetch_max(taken, SeqCst);
        });
    }
}
