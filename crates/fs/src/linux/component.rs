//! What depends on history: transactions of jbd2, the list of orphans, places of inodes, ticks of the timer.
//!
//! # Transactions
//!
//! A handle joins the running transaction. A sync of an inode that this transaction has changed commits it: it is *locked*, so that
//! no handle starts, until the last handle has stopped; then a new one runs, and the blocks of the old one go to the device while
//! handles of the new one come and go. One commit at a time; whoever waits for its turn finds its own transaction committed with
//! another's. The five seconds after which jbd2 commits by itself, and a full log, do not come in a run of milliseconds.
//!
//! Lock order: the commit's object, then the gate, which nothing is taken under.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use sim::{Condvar, LockClass, Mutex, Nanos};

use super::objects::{At, Objects};
use super::steps::When;

/// The object that a commit has.
pub(super) const COMMIT: &str = "commit";
/// The object that serves its requests.
const DEVICE: &str = "loop_thread";
/// Blocks of a commit: the descriptor, a block of the inode table, the commit record.
const COMMIT_BLOCKS: u32 = 3;

/// What waits at the gate of a locked transaction are handles.
static GATE: LockClass = LockClass::new("linux.locked_transaction");

/// The classes of locks that the components have beside the preset's objects.
pub(super) static CLASSES: [&LockClass; 1] = [&GATE];

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
}

impl Component {
    /// Their names in presets.
    pub(super) const NAMES: [(&str, Self); 6] = [
        ("jbd2.start", Self::JournalStart),
        ("jbd2.stop", Self::JournalStop),
        ("jbd2.dirty", Self::JournalDirty),
        ("jbd2.sync", Self::JournalSync),
        ("orphans.add", Self::OrphansAdd),
        ("orphans.remove", Self::OrphansRemove),
    ];
}

/// What an inode remembers.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    /// The tick after the one in which its time stamps changed last.
    tick: AtomicU64,
    /// The last transaction that changed it; 0: none.
    transaction: AtomicU64,
}

/// The state of all components of a mount.
pub(super) struct History {
    tick: Nanos,
    orphans: parking_lot::Mutex<Vec<u64>>,
    running: AtomicU64,
    committed: AtomicU64,
    handles: AtomicU64,
    locked: AtomicBool,
    gate: Mutex<()>,
    passed: Condvar,
}

impl History {
    pub(super) fn new(tick: Nanos) -> Self {
        Self {
            tick,
            orphans: parking_lot::Mutex::default(),
            running: AtomicU64::new(1),
            committed: AtomicU64::new(0),
            handles: AtomicU64::new(0),
            locked: AtomicBool::new(false),
            gate: Mutex::new(&GATE, ()),
            passed: Condvar::of_class(&GATE),
        }
    }

    /// Whether a step under this condition is done; where it is asked for a tick, the next one in the same tick is not.
    pub(super) fn is(&self, when: When, at: &At) -> bool {
        match when {
            When::Tick => {
                let tick = sim::now().0 / self.tick.0 + 1;
                at.remembered.tick.swap(tick, SeqCst) != tick
            }
            When::OrphanHead => {
                sim::interact();
                self.orphans.lock().last() == Some(&at.ino)
            }
        }
    }

    pub(super) fn act(&self, component: Component, at: &At, objects: &Objects) {
        match component {
            Component::JournalStart => self.start(),
            Component::JournalStop => self.stop(),
            Component::JournalDirty => at.remembered.transaction.store(self.running.load(SeqCst), SeqCst),
            Component::JournalSync => self.sync(at, objects),
            Component::OrphansAdd => self.orphans.lock().push(at.ino),
            Component::OrphansRemove => self.orphans.lock().retain(|ino| *ino != at.ino),
        }
    }

    fn start(&self) {
        sim::interact();
        while self.locked.load(SeqCst) {
            let gate = self.gate.lock();
            if self.locked.load(SeqCst) {
                drop(self.passed.wait(gate));
            }
        }
        self.handles.fetch_add(1, SeqCst);
    }

    fn stop(&self) {
        if self.handles.fetch_sub(1, SeqCst) == 1 && self.locked.load(SeqCst) {
            let _gate = self.gate.lock();
            self.passed.notify_all();
        }
    }

    fn sync(&self, at: &At, objects: &Objects) {
        let transaction = at.remembered.transaction.load(SeqCst);
        let is_done = || transaction <= self.committed.load(SeqCst);
        sim::interact();
        if is_done() {
            return;
        }
        objects.holding(COMMIT, || {
            if is_done() {
                return;
            }
            let committing = self.change_transaction();
            for _ in 0..COMMIT_BLOCKS {
                objects.serve_named(DEVICE, true);
            }
            objects.serve_named(DEVICE, false);
            self.committed.store(committing, SeqCst);
        });
    }

    /// Locks the running transaction, waits for its handles, and lets a new one run; returns the old one.
    fn change_transaction(&self) -> u64 {
        self.locked.store(true, SeqCst);
        let mut gate = self.gate.lock();
        while self.handles.load(SeqCst) > 0 {
            gate = self.passed.wait(gate);
        }
        let old = self.running.fetch_add(1, SeqCst);
        self.locked.store(false, SeqCst);
        self.passed.notify_all();
        old
    }
}

/// Groups of a flex group: the default of mke2fs.
const FLEX: u64 = 16;
/// Groups of 128 MiB in 32 GiB, the size of the study's RAM disk.
const GROUPS: u64 = 256;
/// Inodes of 256 bytes in a block of the inode table.
const INODES_IN_BLOCK: u64 = 16;

/// Where an inode lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Its block group.
    pub(super) group: u64,
    /// Its number in the group.
    slot: u64,
}

impl Place {
    /// The block of the inode table.
    pub(super) fn table(self) -> u64 {
        self.group << 32 | self.slot / INODES_IN_BLOCK
    }

    /// The block of group descriptors of 32 bytes.
    pub(super) fn descriptors(self) -> u64 {
        self.group / 128
    }

    /// The lock of its group.
    pub(super) fn lock(self) -> u64 {
        self.group & 127
    }
}

/// The choice of places: fs/ext4/ialloc.c of 4.2, `find_group_orlov` and `find_group_other`.
#[derive(Debug)]
pub(super) struct Places {
    directories: Vec<u64>,
    inodes: Vec<u64>,
}

impl Default for Places {
    fn default() -> Self {
        Self { directories: vec![0; (GROUPS / FLEX) as usize], inodes: vec![0; GROUPS as usize] }
    }
}

impl Places {
    /// A place for a new inode below a directory at `parent`: a directory that is to be spread goes to the flex group with the
    /// fewest directories; anything else to the first group of its directory's flex group.
    pub(super) fn choose(&mut self, parent: Place, is_dir: bool, spread: bool) -> Place {
        let own = parent.group / FLEX;
        let fewest = || self.directories.iter().enumerate().min_by_key(|(_, count)| **count);
        let flex = if is_dir && spread { fewest().map_or(own, |(flex, _)| flex as u64) } else { own };
        if is_dir && let Some(count) = self.directories.get_mut(flex as usize) {
            *count += 1;
        }
        let group = flex * FLEX;
        let slot = self.inodes.get_mut(group as usize).map_or(0, |count| {
            *count += 1;
            *count - 1
        });
        Place { group, slot }
    }
}

/// Shared by the inode and by calls about it.
pub(super) type Memory = Arc<Remembered>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eighty_directories_of_the_root_share_sixteen_flex_groups_evenly_and_files_follow_them() {
        let mut places = Places::default();
        let root = Place::default();
        let dirs: Vec<Place> = (0..80).map(|_| places.choose(root, true, true)).collect();
        for flex in 0..16 {
            assert_eq!(dirs.iter().filter(|dir| dir.group == flex * FLEX).count(), 5);
        }
        let file = places.choose(dirs[17], false, false);
        assert_eq!(file.group, dirs[17].group);
        assert_eq!(places.choose(dirs[17], true, false).group, dirs[17].group, "a directory further below");
        // The first groups of the flex groups share 8 of the 128 locks, and two blocks of descriptors.
        let locks: std::collections::BTreeSet<u64> = dirs.iter().map(|dir| dir.lock()).collect();
        let descriptors: std::collections::BTreeSet<u64> = dirs.iter().map(|dir| dir.descriptors()).collect();
        assert_eq!((locks.len(), descriptors.len()), (8, 2));
    }

    #[test]
    fn sixteen_inodes_share_a_block_of_the_table() {
        let mut places = Places::default();
        let tables: Vec<u64> =
            (0..33).map(|_| places.choose(Place::default(), false, false).table()).collect();
        assert!(tables[..16].iter().all(|table| *table == tables[0]) && tables[16] != tables[0]);
        assert_ne!(tables[32], tables[16]);
    }
}
