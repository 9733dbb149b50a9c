//! What depends on history, by the names that a preset's steps have for it.
//!
//! | file | component |
//! |---|---|
//! | `jbd2.rs` | `jbd2.*`, `orphans.*`: transactions of ext4 and its list of orphans |
//! | `xlog.rs` | `xlog.*`: the log of XFS |
//! | `btrans.rs` | `btrans.*`: transactions of btrfs and the tree of its log |
//! | `f2cp.rs` | `f2cp.*`: checkpoints of F2FS |
//! | `pagealloc.rs` | `pages.*`: lists of free pages |
//!
//! Here are only their names, and what an inode remembers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use sim::{LockClass, Nanos};

use super::objects::{At, Objects};
use super::steps::When;
use super::{btrans, f2cp, jbd2, pagealloc, transactions, xlog};

/// The classes of locks that the components have beside the preset's objects.
pub(super) static CLASSES: [&LockClass; 1] = [&transactions::GATE];

/// A piece of code that a step names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Component {
    /// A handle starts.
    JournalStart,
    /// It stops.
    JournalStop,
    /// The inode belongs to the running transaction.
    JournalDirty,
    /// The inode's transaction is committed when this returns.
    JournalSync,
    OrphansAdd,
    OrphansRemove,
    /// Items come into the list of the log.
    LogInsert,
    /// The list is pushed if it is long.
    LogPush,
    /// The inode's items are in the log on the device when this returns.
    LogSync,
    /// A change joins the transaction.
    TreesJoin,
    /// It ends.
    TreesEnd,
    /// The inode's items are in the tree of the log.
    TreesLog,
    /// That tree is on the device when this returns.
    TreesSync,
    /// A node's page becomes dirty.
    CheckpointNode,
    /// A block of a log is written.
    CheckpointBlock,
    /// A checkpoint, if free sections are few.
    CheckpointBalance,
    PagesTake,
    PagesGive,
}

impl Component {
    /// Their names in presets.
    pub(super) const NAMES: [(&str, Self); 18] = [
        ("jbd2.start", Self::JournalStart),
        ("jbd2.stop", Self::JournalStop),
        ("jbd2.dirty", Self::JournalDirty),
        ("jbd2.sync", Self::JournalSync),
        ("orphans.add", Self::OrphansAdd),
        ("orphans.remove", Self::OrphansRemove),
        ("xlog.insert", Self::LogInsert),
        ("xlog.push", Self::LogPush),
        ("xlog.sync", Self::LogSync),
        ("btrans.join", Self::TreesJoin),
        ("btrans.end", Self::TreesEnd),
        ("btrans.log", Self::TreesLog),
        ("btrans.sync", Self::TreesSync),
        ("f2cp.node", Self::CheckpointNode),
        ("f2cp.block", Self::CheckpointBlock),
        ("f2cp.balance", Self::CheckpointBalance),
        ("pages.take", Self::PagesTake),
        ("pages.give", Self::PagesGive),
    ];

    /// The objects that it takes by their names, which a preset that names it must have.
    pub(super) fn objects(self) -> &'static [&'static str] {
        match self {
            Self::JournalSync => &[jbd2::COMMIT, jbd2::DEVICE],
            Self::LogPush => &[xlog::CONTEXT, xlog::BUFFERS],
            Self::LogSync => &[xlog::PUSH, xlog::CONTEXT, xlog::BUFFERS, jbd2::DEVICE],
            Self::TreesJoin => &[jbd2::DEVICE],
            Self::TreesSync => &[btrans::LOG_COMMIT, jbd2::DEVICE],
            Self::CheckpointBalance => &[f2cp::CHECKPOINT, jbd2::DEVICE],
            Self::PagesTake | Self::PagesGive => &[pagealloc::ZONE],
            _ => &[],
        }
    }
}

/// What an inode remembers.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    /// The tick after the one in which its time stamps changed last.
    tick: AtomicU64,
    /// The last transaction, list of items or log that it is in; 0: none.
    transaction: AtomicU64,
}

impl Remembered {
    pub(super) fn transaction(&self) -> u64 {
        self.transaction.load(SeqCst)
    }

    pub(super) fn set_transaction(&self, number: u64) {
        self.transaction.store(number, SeqCst);
    }
}

/// Shared by the inode and by calls about it.
pub(super) type Memory = Arc<Remembered>;

/// The state of all components of a mount.
pub(super) struct History {
    tick: Nanos,
    journal: jbd2::Journal,
    log: xlog::Log,
    trees: btrans::Trees,
    checkpoints: f2cp::Checkpoints,
    pages: pagealloc::Lists,
}

impl History {
    pub(super) fn new(tick: Nanos) -> Self {
        Self {
            tick,
            journal: jbd2::Journal::default(),
            log: xlog::Log::default(),
            trees: btrans::Trees::default(),
            checkpoints: f2cp::Checkpoints::default(),
            pages: pagealloc::Lists::default(),
        }
    }

    /// Whether a step under this condition is done; where it is asked for a tick, the next one in the same tick is not.
    pub(super) fn is(&self, when: When, at: &At) -> bool {
        match when {
            When::Tick => {
                let tick = sim::now().0 / self.tick.0 + 1;
                at.remembered.tick.swap(tick, SeqCst) != tick
            }
            When::OrphanHead => self.journal.is_head(at.ino),
            When::FreesPages => at.freed_pages > 0,
            When::Unlogged => at.dirty_pages > 0 || at.remembered.transaction() == 0,
        }
    }

    pub(super) fn act(&self, component: Component, at: &At, objects: &Objects) {
        match component {
            Component::JournalStart => self.journal.transactions.join(&at.joined),
            Component::JournalStop => self.journal.transactions.leave(&at.joined),
            Component::JournalDirty => at.remembered.set_transaction(self.journal.transactions.running()),
            Component::JournalSync => self.journal.sync(at, objects),
            Component::OrphansAdd => self.journal.add_orphan(at.ino),
            Component::OrphansRemove => self.journal.remove_orphan(at.ino),
            Component::LogInsert => self.log.insert(at),
            Component::LogPush => self.log.push_long(objects),
            Component::LogSync => self.log.sync(at, objects),
            Component::TreesJoin => self.trees.join(at, objects),
            Component::TreesEnd => self.trees.end(at),
            Component::TreesLog => self.trees.log(at),
            Component::TreesSync => self.trees.sync(at, objects),
            Component::CheckpointNode => self.checkpoints.node(),
            Component::CheckpointBlock => self.checkpoints.block(),
            Component::CheckpointBalance => self.checkpoints.balance(objects),
            Component::PagesTake => self.pages.take(objects),
            Component::PagesGive => self.pages.give(objects),
        }
    }
}
