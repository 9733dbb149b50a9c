//! ext2 and ext4 in their real on-disk format: an image that mkfs.ext4 made mounts here, and one that was written here passes
//! e2fsck and mounts in the kernel.
//!
//! One implementation, several entries in the table of designs: `ext2` (block maps, no journal), `ext4` (extents, journal),
//! `ext4-dax` (the same on memory, where data goes by loads and stores). What an image has decides what is done with it; the names
//! differ in what mkfs makes.
//!
//! ```text
//!   vfs ──► namei, file, xattr ──► dir, htree   map: extent, block_map   alloc
//!                │                        └────────────┬──────────────────┘
//!                ▼                                     ▼
//!         cache (data pages)                    meta ──► journal (handles, commit, recovery)
//!                └───────────────┬─────────────────────┘
//!                                ▼
//!                    media::block::queue ──► device
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `layout`, `superblock` | the format; reading a superblock, its backups, its features |
//! | `meta`, `journal` | blocks of metadata: read, changed inside a handle, committed, replayed |
//! | `groups`, `free_map`, `set_aside` | descriptors of groups and what is free; what of it can be given out, or is set aside |
//! | `alloc`, `preallocation` | the choice of blocks and inodes; which blocks are set aside for files |
//! | `bad_blocks`, `resize_inode` | blocks that the medium cannot use; those that are kept for more descriptors |
//! | `inode`, `runs`, `map`, `extent`, `block_map` | the inode table; which block of the device holds a block of a file |
//! | `dir`, `records`, `hash`, `htree` | directories; the records of their blocks; their index |
//! | `namei`, `orphan`, `orphan_file` | names; inodes without names, on the list and in the kernel's file |
//! | `file`, `direct`, `readahead`, `windows` | contents through the page cache and past it; what is read ahead |
//! | `xattr`, `acl` | extended attributes, and the form of those that are lists of access control |
//! | `delayed`, `delalloc` | blocks that are allocated when data is written back: which, and by whom |
//! | `writeback` | what is written back when, and who waits |
//! | `dax` | contents in memory, without a cache; what a power loss may tear there |
//! | `mapped` | mapped files |
//! | `recovery`, `fast_commit` | mounting after a crash; what the kernel's fast commits change |
//! | `fields`, `related` | fields of inodes, and of the superblock, that follow from others |
//! | `mkfs`, `fsck`, `format`, `design`, `vfs` | making, checking, the table of designs, the adapter |
//! | `words` | the options of the kernel's driver |
//! | `repair` | what e2fsck does for an image without a journal |
//! | `feature`, `statfs` | feature flags that are set at first use; space as the kernel counts it |
//! | `errors` | what happens when something is wrong |
//! | `mutant` | seeded bugs |
//!
//! # Lock order
//!
//! `ext4.rename`, inodes (a directory before what is in it and before other files; of two directories the ancestor first, else
//! by number; of two files by number), then a handle of the journal, then `ext4.inodes` (of one shard), `ext4.orphans`,
//! `ext4.groups`, `ext4.superblock`, pages, `ext4.journal`, `ext4.orphan_slots`, `ext4.told`. No task that has a handle waits
//! for an inode. A commit takes no lock of an inode.
//!
//! A read of what is cached takes locks of its pages only, an overwrite, a stat, an open and a close that of their inode besides,
//! and a write the journal's. What is locked for all tasks: `ext4.groups` where blocks or inode numbers are given out or freed or a
//! delayed block is promised its place, `ext4.orphans` and the superblock where an inode loses its last name.
//!
//! # When something is wrong
//!
//! An image that contradicts itself, metadata that cannot be read, or a journal that cannot be written, stops the file system:
//! `errors.rs`.
//!
//! # Order of the files
//!
//! Each file uses those below it: formats and plain data (`layout`, `runs`, `records`, `groups`, `delayed`, `windows`), the
//! journal, inodes, maps, directories and contents, names, recovery, repair, the adapters. The test `architecture` refuses circles.
//!
//! Source: the kernel's documentation, "ext4 Data Structures and Algorithms"; A. Mathur et al., "The new ext4 filesystem:
//! current status and future plans" (Linux Symposium 2007).

#![forbid(unsafe_code)]

mod acl;
mod alloc;
mod bad_blocks;
mod block_map;
mod dax;
mod delalloc;
mod delayed;
pub mod design;
mod dir;
mod direct;
mod dump;
mod errors;
mod extent;
mod fast_commit;
mod feature;
mod fields;
mod file;
mod flags;
pub(crate) mod format;
mod free_map;
mod fsck;
mod groups;
mod hash;
mod htree;
mod inode;
mod journal;
mod layout;
mod map;
mod mapped;
mod meta;
mod mkfs;
pub(crate) mod mutant;
mod namei;
mod orphan;
mod orphan_file;
mod parts;
mod preallocation;
mod readahead;
mod records;
mod recovery;
mod related;
mod repair;
mod resize_inode;
mod runs;
mod set_aside;
mod statfs;
mod superblock;
mod vfs;
mod windows;
mod words;
mod writeback;
mod xattr;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use ::vfs::{Listener, Timestamp};
use media::Region;
use media::block::{BlockDevice, Hint, Piece, Queue};
use sim::{Bytes, Count, LockClass, Mutex, Nanos};
use zerocopy::IntoBytes;

pub use journal::journal_uuid;

use ::design::FsError;
use ::design::Mutant;
use base::cache::{FILE_BYTES, Growth, Mapping, PageCache, PageState};
use base::dax::DirectMaps;
use base::error::{Error, Result};
use feature::Features;
use groups::{Groups, Space};
use inode::{Inode, Inodes};
use journal::attach::{JOURNAL_ELSEWHERE, JournalPlace};
use journal::{DataMode, Handle, Journal};
use layout::{GroupDescriptor, STATE_CLEAN, Superblock, incompat};
use orphan::Orphans;
use orphan_file::Slot;
use superblock::{Found, Geo};
use writeback::Writeback;

static GROUPS: LockClass = LockClass::new("ext4.groups").under(&[&ORPHANS, &journal::COMMIT_LOCK]);
static SUPERBLOCK: LockClass = LockClass::new("ext4.superblock").under(&[&GROUPS]);
static JOURNAL_INODE: LockClass = LockClass::new("ext4.journal_inode").under(&[]);
static RENAME: LockClass = LockClass::new("ext4.rename").under(&[]);
static INODE: LockClass = LockClass::new("ext4.inode").under(&[&RENAME]).several();
static ORPHANS: LockClass = LockClass::new("ext4.orphans").under(&[&inode::INODES]);
static TOLD: LockClass = LockClass::new("ext4.told").under(&[&ORPHAN_SLOTS]);
static ORPHAN_SLOTS: LockClass = LockClass::new("ext4.orphan_slots").under(&[&journal::STATE]);

/// The classes of locks and cache lines for which its calls and tasks may wait, besides the cache's.
pub(crate) static CLASSES: &[&LockClass] = &[
    &GROUPS,
    &JOURNAL_INODE,
    &ORPHANS,
    &ORPHAN_SLOTS,
    &RENAME,
    &SUPERBLOCK,
    &TOLD,
    &INODE,
    &inode::INODES,
    &journal::COMMIT_LOCK,
    &journal::STATE,
    &journal::WAIT,
    &windows::READAHEAD,
    &writeback::WRITEBACK,
];

/// File data that a transaction takes, which no data mode but `journal` lets it.
static JOURNALED_BYTES: Count =
    Count::new("ext4.journaled_bytes", "bytes", "of file data that were given to the journal");

/// What it counts in results.
static COUNTS: [&Count; 2] = [&FILE_BYTES, &JOURNALED_BYTES];

/// How a file system is mounted.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) cache: Bytes,
    pub(crate) data: DataMode,
    /// Time between commits of the journal.
    pub(crate) commit: Nanos,
    /// Nothing is written.
    pub(crate) read_only: bool,
    /// What is written is lost: the device is a private copy of the image, mounted for reading.
    pub(crate) discards: bool,
    /// What is wrong is being repaired, and stops nothing.
    pub(crate) repairs: bool,
    /// The log is not replayed, and orphans are not worked off (Linux: `noload`); `discards` is set.
    pub(crate) skips_log: bool,
    /// The size of the file system includes what never holds files (Linux: `minixdf`).
    pub(crate) counts_overhead: bool,
    /// A seeded bug.
    pub(crate) mutant: Option<Mutant>,
    /// Free blocks are set aside for files that grow.
    pub(crate) preallocates: bool,
    /// Files up to this size share chunks, larger ones have windows of their own (Linux: `mb_stream_req`).
    pub(crate) stream_request: Bytes,
    /// Blocks are allocated when data is written back, not when it is written to.
    pub(crate) delays: bool,
    /// Old data is written back, and much of it, without being asked (Linux: `dirty_writeback_centisecs`).
    pub(crate) writes_back: bool,
    /// The device that a journal of its own may be on.
    pub(crate) journal_device: Option<Arc<dyn BlockDevice>>,
    /// The memory that the device lies on, when data goes there by loads and stores.
    pub(crate) memory: Option<Arc<Region>>,
    /// New blocks of a file in memory are zeroed and written at once, before their data.
    pub(crate) zeroes_new: bool,
    /// Data in memory is copied by way of a page of DRAM.
    pub(crate) staged: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cache: Bytes::mib(64),
            data: DataMode::Ordered,
            commit: Nanos::from_secs(5),
            read_only: false,
            discards: false,
            repairs: false,
            skips_log: false,
            counts_overhead: false,
            mutant: None,
            preallocates: false,
            stream_request: Bytes::kib(64),
            delays: false,
            writes_back: true,
            journal_device: None,
            memory: None,
            zeroes_new: false,
            staged: false,
        }
    }
}

/// A mounted file system.
pub(crate) struct Volume {
    pub(crate) geo: Geo,
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) cache: PageCache,
    pub(crate) meta: Arc<Mapping>,
    pub(crate) journal: Option<Journal>,
    pub(crate) superblock: Mutex<Superblock>,
    features: Features,
    pub(crate) groups: Mutex<Groups>,
    /// What the groups have free.
    pub(crate) space: Arc<Space>,
    pub(crate) inodes: Inodes,
    /// Where the inode table of each group begins.
    inode_tables: Box<[u64]>,
    pub(crate) renames: Mutex<()>,
    /// Inodes without names that are open, or are being cut.
    pub(crate) orphans: Orphans,
    /// Those that a mount found in the kernel's file, until they are worked off.
    pub(crate) orphan_slots: Mutex<BTreeMap<u64, Slot>>,
    pub(crate) settings: Settings,
    /// On memory: files that are mapped.
    maps: DirectMaps,
    /// What the mount found worth telling.
    pub(crate) notes: Vec<String>,
    listener: OnceLock<Listener>,
    /// What the listener was told.
    told: Mutex<BTreeSet<String>>,
    /// The superblock or a descriptor has a wrong checksum, which a replay may make right.
    torn: bool,
    stopped: AtomicBool,
    mounted: AtomicBool,
    /// Changes of metadata that are under way.
    pub(crate) handles: AtomicU32,
    generation: AtomicU32,
    writeback: Writeback,
}

impl Volume {
    /// Reads a file system as it is, without journal or recovery: for checking, and as the first part of a mount.
    pub(crate) fn open(device: &Arc<dyn BlockDevice>, settings: Settings) -> Result<Self, FsError> {
        Self::open_found(device, settings, superblock::load(device)?, false)
    }

    /// The same before a replay: on memory, a checksum that is wrong now may be right after it.
    pub(crate) fn open_to_replay(
        device: &Arc<dyn BlockDevice>,
        settings: &Settings,
    ) -> Result<Self, FsError> {
        let tears = superblock::may_tear(settings);
        let found = superblock::load_to_replay(device, settings);
        found
            .and_then(|found| Self::open_found(device, settings.clone(), found, tears))
            .or_else(|_| Self::open(device, settings.clone()))
    }

    /// With `tears` a descriptor may have a wrong checksum.
    fn open_found(
        device: &Arc<dyn BlockDevice>,
        settings: Settings,
        found: Found,
        tears: bool,
    ) -> Result<Self, FsError> {
        let Found { superblock, geo, note, mut torn } = found;
        superblock::check_mountable(&superblock, settings.read_only || settings.discards)?;
        let queue = Queue::new(Arc::clone(device));
        let cache = PageCache::new(queue, geo.block_bytes, settings.cache);
        let descriptors =
            superblock::load_descriptors(&**device, &geo, (settings.repairs, tears), &mut torn)?;
        let space = Arc::new(Space::of(&superblock));
        let seed = superblock.mkfs_time.get() ^ superblock.mnt_count.get() as u32;
        Ok(Self {
            geo,
            device: Arc::clone(device),
            cache,
            meta: Mapping::new(0),
            journal: None,
            features: Features::of(&superblock),
            superblock: Mutex::new(&SUPERBLOCK, superblock),
            inode_tables: descriptors.iter().map(GroupDescriptor::inode_table).collect(),
            groups: Mutex::new(&GROUPS, Groups::new(descriptors, &space)),
            space,
            inodes: Inodes::new(),
            renames: Mutex::new(&RENAME, ()),
            orphans: Orphans::new(&ORPHANS),
            orphan_slots: Mutex::new(&ORPHAN_SLOTS, BTreeMap::new()),
            settings,
            maps: DirectMaps::default(),
            notes: note.into_iter().collect(),
            listener: OnceLock::new(),
            told: Mutex::new(&TOLD, BTreeSet::new()),
            torn,
            stopped: AtomicBool::new(false),
            mounted: AtomicBool::new(false),
            handles: AtomicU32::new(0),
            generation: AtomicU32::new(seed),
            writeback: Writeback::new(),
        })
    }

    /// Changes the superblock, durably. Memory may tear it, so there the log has it until it is home.
    fn update_superblock(&self, change: impl FnOnce(&mut Superblock)) -> Result<()> {
        let in_place = self.settings.memory.is_none() || self.has(mutant::SUPERBLOCK_IN_PLACE);
        if in_place || self.journal.is_none() {
            let mut superblock = self.superblock.lock();
            change(&mut superblock);
            return self.write_superblock(&mut superblock);
        }
        let handle = self.begin(1)?;
        self.change_superblock(&handle, |superblock| {
            change(superblock);
            superblock.wtime = (Timestamp::now().secs as u32).into();
        })?;
        drop(handle);
        self.commit_all(true)
    }

    /// Writes the superblock at once.
    fn write_superblock(&self, superblock: &mut Superblock) -> Result<()> {
        superblock.wtime = (Timestamp::now().secs as u32).into();
        superblock.seal();
        let (block, at) = self.geo.superblock_at();
        let page = self.block(block)?;
        let mut state = page.state.write();
        state.bytes[at..at + size_of::<Superblock>()].copy_from_slice(superblock.as_bytes());
        let off = block * u64::from(self.geo.block_bytes);
        self.cache.queue().write(&[Piece { off, data: &state.bytes, hint: Hint::None }], true)?;
        Ok(())
    }

    /// Changes the superblock inside a handle.
    pub(crate) fn change_superblock(
        &self,
        handle: &Handle<'_>,
        change: impl FnOnce(&mut Superblock),
    ) -> Result<()> {
        let mut superblock = self.superblock.lock();
        change(&mut superblock);
        superblock.seal();
        let (block, at) = self.geo.superblock_at();
        self.change(handle, block, |bytes| {
            bytes[at..at + size_of::<Superblock>()].copy_from_slice(superblock.as_bytes());
        })
    }

    /// Leaves a clean image.
    pub(crate) fn unmount(&self) -> Result<()> {
        self.stop_writeback();
        self.sync()?;
        self.check_running()?;
        self.commit_all(true)?;
        self.leave_clean()?;
        Ok(self.device.flush()?)
    }

    /// Writes a superblock that says how much is free and that nothing is to be recovered.
    pub(crate) fn leave_clean(&self) -> Result<()> {
        let (free_blocks, free_inodes) = (self.space.blocks(), self.space.inodes());
        self.update_superblock(|superblock| {
            superblock.set_free_blocks(free_blocks);
            superblock.free_inodes_count = (free_inodes as u32).into();
            superblock.feature_incompat = (superblock.feature_incompat.get() & !incompat::RECOVER).into();
            superblock.state = (superblock.state.get() | STATE_CLEAN).into();
        })
    }

    /// Makes everything durable.
    pub(crate) fn sync(&self) -> Result<()> {
        self.check_running()?;
        for mapping in self.cache.unwritten() {
            if mapping.number() != 0 {
                self.allocate_mapping(&mapping)?;
                self.write_data(&mapping)?;
            }
        }
        self.commit_all(false)?;
        if self.journal.is_none() {
            self.write_metadata()?;
        }
        Ok(self.device.flush()?)
    }

    /// Writes back the data of a mapping.
    pub(crate) fn write_data(&self, mapping: &Arc<Mapping>) -> Result<()> {
        let _scope = sim::scope(sim::Activity::DATA);
        let sectors = u64::from(self.geo.block_bytes / self.device.geometry().block_bytes);
        let hint = |state: &PageState| match state.growth {
            Growth::None => Hint::Overwrite,
            Growth::First => Hint::None,
            Growth::After(block) => Hint::Append { previous_lba: block * sectors },
        };
        Ok(self.cache.write_out(mapping, &hint)?)
    }

    /// Forgets what is cached and need not be kept: pages that are neither dirty nor in a transaction, inodes that are not open.
    pub(crate) fn drop_caches(&self) {
        self.cache.drop_clean();
        self.inodes.forget_unused(Inode::is_unused);
    }

    /// Whether a seeded bug is switched on.
    pub(crate) fn has(&self, mutant: Mutant) -> bool {
        self.settings.mutant == Some(mutant)
    }

    pub(crate) fn next_generation(&self) -> u32 {
        self.generation.fetch_add(0x9e37_79b1, Relaxed)
    }
}

/// An error of reading an image, as a mount tells it.
pub(crate) fn damaged(error: Error) -> FsError {
    match error {
        Error::Media(error) => FsError::Media(error),
        Error::Corrupt(what) => FsError::Damaged { design: "ext4", what },
        other => FsError::Damaged { design: "ext4", what: other.to_string() },
    }
}
