//! NOVA: a log for each inode, new data in new blocks, journals only for changes of several inodes (FAST 2016).
//!
//! A call is durable when it returns, and after a crash it is all there or not at all, a write of any length included. What the log
//! of an inode says is what is so; indexes of blocks and names are in DRAM and are built when the inode is first used.
//!
//! | file | holds |
//! |---|---|
//! | `layout.rs` `superblock.rs` | the format, byte by byte; the superblock and its copy |
//! | `alloc.rs` | free blocks, by shard |
//! | `journal.rs` | changes of several words |
//! | `log.rs` `cleaner.rs` | logs: reading, appending, committing; cleaning |
//! | `inode.rs` `unlocked_attr.rs` | inodes and their replay; what `stat` sees |
//! | `map.rs` `dir.rs` | which block holds which page of a file; the names of a directory |
//! | `file.rs` `xattr.rs` | contents and attributes of files; extended attributes |
//! | `mapped.rs` | mapped files |
//! | `namei.rs` `rename.rs` | what changes names |
//! | `mkfs.rs` `recovery.rs` | making an empty file system; mount, unmount |
//! | `fsck.rs` `repair.rs` `dump.rs` | checking, repairing, showing |
//! | `mutant.rs` | bugs that can be seeded |
//! | `vfs.rs` `format.rs` `design.rs` | the adapters to the two interfaces |
//!
//! Lock order: see `namei.rs`.
//!
//! # Fences
//!
//! | call | published code | here |
//! |---|---|---|
//! | write, truncate, chmod, fallocate | 3 | 2 |
//! | create, mkdir, symlink, link, unlink, rmdir, rename | about 9 | 3 |
//!
//! One inode: a fence before the tail moves and one after it. Several: `journal.rs`. A log that grows adds none; a cleaning, none
//! or two.
//!
//! # Differences to the kernel module, each on purpose
//!
//! Nothing in a log is ever rewritten: the hints `invalid` and `invalid_pages` and the reuse of the last attribute entry are where
//! three of its known bugs were. Journal records say for themselves that they are whole. Shards are a number in the superblock, not
//! the number of processors. A truncation within a block replaces the block. Names have no collisions: two of one hash are
//! compared. Exchanging renames, holes that are punched, ranges that are zeroed, and extended attributes are here and not there.
//! Not here: replicas, checksums and parity of data, snapshots (Fortis), and updates in place but by mappings.

mod alloc;
mod cleaner;
pub(crate) mod design;
mod dir;
mod dump;
mod file;
pub(crate) mod format;
mod fsck;
pub(crate) mod inode;
mod journal;
mod layout;
mod log;
mod map;
mod mapped;
mod mkfs;
mod mutant;
mod namei;
mod original;
mod parts;
mod recovery;
mod rename;
mod repair;
mod salvage;
mod superblock;
mod unlocked_attr;
pub(crate) mod vfs;
mod xattr;

use std::any::Any;
use std::sync::Arc;

use media::nvmm::Region;
use sim::sync::{AtomicBool, AtomicU64, Ordering::Relaxed};
use sim::{Count, LockClass, Mutex};

pub(crate) use alloc::{Blocks, Extent};
use inode::Inodes;
use journal::Journal;
use layout::Geometry;

use ::design::Mutant;
use base::dax::DirectMaps;
use base::error::{Error, Result};

static RENAME: LockClass = LockClass::new("nova.rename").under(&[]);
static LEFT_OVER: LockClass = LockClass::new("nova.left_over").under(&[&inode::INODE]);

/// The classes of locks and cache lines for which its calls and tasks may wait.
pub(crate) static CLASSES: &[&LockClass] = &[
    &LEFT_OVER,
    &RENAME,
    &alloc::BLOCKS,
    &alloc::TRIM,
    &inode::INODE,
    &inode::INODE_TABLE,
    &journal::JOURNAL,
];

/// How a volume is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Logs are cleaned when they are about to grow.
    pub(crate) cleaning: bool,
    /// A bug that checks must find.
    pub(crate) mutant: Option<Mutant>,
}

/// The state that a page cache keeps for one file, which only the cache reads.
pub(crate) type CachedFile = Arc<dyn Any + Send + Sync>;

/// A cache of blocks in DRAM: a read looks there first, and a change of a block is reported to it.
pub(crate) trait PageCache: Send + Sync {
    /// Returns the state of an inode for reads, and makes it at the first call.
    fn file(&self, inode: u64) -> CachedFile;

    /// The same, if there is anything.
    fn known(&self, inode: u64) -> Option<CachedFile>;

    /// Copies bytes of a page from `within` on, if it has the page as it is in `block`; otherwise the caller reads the medium. The
    /// caller holds the inode's lock for reading.
    fn read(&self, file: &CachedFile, page: u64, block: u64, within: u64, buffer: &mut [u8]) -> bool;

    /// Forgets what it has of a page in `block`, which is about to be free. True: it gives that back itself, later. The caller
    /// holds the inode's lock for writing.
    fn invalidate(&self, file: &CachedFile, page: u64, block: u64) -> bool;

    /// Forgets what it has of a page in `block`, where the page stays; waits for a copy of it that is being made. The caller holds
    /// the inode's lock for writing.
    fn forget(&self, file: &CachedFile, page: u64, block: u64);

    /// The inode is free; all of its pages were invalidated. The caller holds its lock for writing, and its number is not given out
    /// yet.
    fn remove(&self, inode: u64);

    /// Ends background work; every block that was left to the cache has been given back.
    fn stop(&self);

    /// What it counts, by name.
    fn counters(&self) -> Vec<(&'static str, u64)>;
}

/// Makes the cache of a volume that is being mounted.
pub(crate) type MakeCache<'a> = &'a dyn Fn(&Arc<Region>, &Arc<Blocks>) -> Result<Box<dyn PageCache>>;

/// Logs that the fast cleaner has shortened, in the ledger.
static FAST_CLEANINGS: Count =
    Count::new("nova.fast_cleanings", "", "logs that were shortened by pages whose entries all are dead");
/// Logs that the thorough cleaner has written anew, in the ledger.
static THOROUGH_CLEANINGS: Count =
    Count::new("nova.thorough_cleanings", "", "logs that were written anew, with their live entries alone");

/// The counts of this design.
pub(crate) static COUNTS: [&Count; 2] = [&FAST_CLEANINGS, &THOROUGH_CLEANINGS];

/// What is counted since the mount.
#[derive(Default)]
pub(crate) struct Counters {
    fast: AtomicU64,
    thorough: AtomicU64,
}

impl Counters {
    fn cleaned_fast(&self) {
        sim::count(&FAST_CLEANINGS, 1);
        self.fast.fetch_add(1, Relaxed);
    }

    fn cleaned_thoroughly(&self) {
        sim::count(&THOROUGH_CLEANINGS, 1);
        self.thorough.fetch_add(1, Relaxed);
    }

    pub(crate) fn all(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("logs cleaned fast", self.fast.load(Relaxed)),
            ("logs cleaned thoroughly", self.thorough.load(Relaxed)),
        ]
    }
}

/// A mounted volume.
pub(crate) struct Volume {
    pub(crate) region: Arc<Region>,
    pub(crate) geometry: Geometry,
    pub(crate) blocks: Arc<Blocks>,
    pub(crate) inodes: Inodes,
    /// Files that are mapped.
    pub(crate) maps: DirectMaps,
    journals: Vec<Journal>,
    renames: Mutex<()>,
    /// Inodes without a name that could not be freed.
    left_over: Mutex<Vec<u64>>,
    /// Inodes without a name that are not free: an image with one is not clean.
    orphans: AtomicU64,
    /// A change could be neither ended nor undone.
    failed: AtomicBool,
    pub(crate) settings: Settings,
    pub(crate) counters: Counters,
    pub(crate) cache: Option<Box<dyn PageCache>>,
}

impl Volume {
    /// Whether this bug is seeded.
    pub(crate) fn has(&self, mutant: Mutant) -> bool {
        self.settings.mutant == Some(mutant)
    }

    /// Complains when a change could be neither ended nor undone: the next mount undoes it, and with it whatever would be changed
    /// until then.
    #[inline]
    pub(crate) fn check_sound(&self) -> Result<()> {
        if self.failed.load(Relaxed) { Err(Error::Failed) } else { Ok(()) }
    }
}
