//! Crest: each call is one self-certifying record in the log of its core, made durable by one fence.
//!
//! Names, inodes, extents and free space are indexes in DRAM, which a mount rebuilds from the records. A call checks and locks
//! there, stores its data past the cache and fences it, stores its record and fences that, and then changes the indexes.
//! `docs/designs/crest.md` states the rules and argues for them.
//!
//! # Rooms
//!
//! A room uses those above it in this table, and none below. Each has a page that says what its files hold (its `mod.rs`).
//!
//! | room | is | has |
//! |---|---|---|
//! | [`format`] | pure functions of bytes and records | layout, records, zones, the merge, what cleaning keeps |
//! | `store/` | a region in which records become durable | superblock, zones and blocks, logs, cleaner, parity, frames of DRAM |
//! | `index/` | the state in DRAM to which the records lead | inodes, names, places of blocks, checksums, clean frames |
//! | `calls/` | what programs ask for | contents, names, attributes, mappings, clones, write-back |
//! | `pool/` | pools as a whole | making, mounting, saved indexes, checks, repair, other sizes |
//!
//! Above them `vfs.rs` and `design.rs` are the adapters to the interfaces. Below all are `parts.rs`, named parts of calls, and
//! `ablation.rs`, parts that can be left out to measure them.
//!
//! # Lock order
//!
//! `crest.renames` (shared by renames of other files between directories, exclusive for those of directories), then `crest.inode`:
//! directories, an ancestor before its descendants and otherwise by number, then the inodes that names lead to, directories first
//! and otherwise by number; of an inode that tasks share (`sharing.rs`) first its own lock, then its `crest.bucket`s or
//! `crest.granule`s in ascending order, then the next inode's; then `crest.data`, or `crest.log` of a shard (the cleaner: of all,
//! by number), with `crest.stamps` of an inode under that; then `crest.superblock`, `crest.orphans`, `crest.zones`,
//! `crest.blocks`, `crest.shared`, each of the last five a leaf but that `crest.blocks` is taken under `crest.zones`. Those of
//! frames are `crest.clean`, `crest.frames`, `crest.frame_pool` of a shard, in this order, under the locks of inodes.
//!
//! # What is not here yet
//!
//! Reads of contents without locks, and moving blocks out of data zones of which most is free.

#![forbid(unsafe_code)]

mod ablation;
mod calls;
pub mod design;
pub mod format;
mod index;
mod parts;
mod pool;
mod store;
mod vfs;

use std::collections::BTreeSet;
use std::sync::Arc;

use media::nvmm::Region;
use sim::sync::AtomicBool;
use sim::{LockClass, Mutex, SpreadRwLock};

use ablation::Without;
use calls::mapped_atomic::Unsynced;
use format::layout::Geometry;
use format::mutant::Rules;
use index::cache::{Admit, Cache};
use index::inode::Inodes;
use index::sharing::Sharing;
use index::sums::Sums;
use store::alloc::Zones;
use store::damage::Losses;
use store::frames::Frames;
use store::log::Logs;

use base::dax::DirectMaps;

static RENAMES: LockClass = LockClass::new("crest.renames").under(&[]).several();
static ORPHANS: LockClass = LockClass::new("crest.orphans").under(&[&store::log::LOG, &store::alloc::DATA]);

/// The classes of locks for which its calls may wait.
pub(crate) static CLASSES: &[&LockClass] = &[
    &store::alloc::BLOCKS,
    &store::alloc::DATA,
    &store::alloc::SHARED,
    &store::alloc::ZONES,
    &index::inode::INODE,
    &index::map::GRANULE,
    &index::sharing::BUCKET,
    &index::sharing::STAMPS,
    &store::log::LOG,
    &store::log::SUPERBLOCK,
    &ORPHANS,
    &RENAMES,
    &index::cache::CLEAN,
    &store::frames::FRAMES,
    &store::frames::FRAME_POOL,
    &store::frames::TASKS,
    &store::frames::WRITEBACK_IDLE,
];

/// A mounted pool.
struct Volume {
    region: Arc<Region>,
    geometry: Geometry,
    secret: u64,
    /// What the nonces of this mount come from: drawn at the mount.
    salt: u64,
    rules: Rules,
    /// The part that is left out.
    without: Without,
    sharing: Sharing,
    /// The first opening of this mount.
    mounted: u64,
    /// Whether it was mounted from a saved index.
    from_image: bool,
    /// Whether an unmount has saved the index, which a change makes void.
    saved: AtomicBool,
    inodes: Inodes,
    zones: Zones,
    logs: Logs,
    /// Held by renames between directories: shared by those that move no directory, so that the tree stays as it is.
    renames: SpreadRwLock<()>,
    /// Inodes without a name that are open: their records are kept.
    orphans: Mutex<BTreeSet<u64>>,
    /// Files that are mapped.
    maps: DirectMaps,
    /// Files with pages in frames that are not synced (`mmap=atomic`).
    unsynced: Unsynced,
    /// Whether the stores of a mapping go to frames where the program has not said so.
    maps_atomically: bool,
    /// DRAM for what is dirty, under `sync=fsync`, and for what is read often.
    frames: Frames,
    /// None: every read is the medium's.
    cache: Option<Cache>,
    /// Whether overwrites go in place (`atomic=words`).
    words: bool,
    /// Whether small overwrites are records with their bytes.
    inlines: bool,
    /// Checksums of blocks.
    sums: Sums,
    losses: Losses,
}

impl Settings {
    /// Whether small overwrites may be records with their bytes.
    fn takes_inlines(&self) -> bool {
        self.without != Without::Inline && !self.words && self.frames.dirty() == 0
    }
}

/// How a pool is mounted.
#[derive(Clone, Copy, Debug, Default)]
struct Settings {
    rules: Rules,
    /// Which inodes tasks may share.
    sharing: Sharing,
    without: Without,
    frames: store::frames::Settings,
    /// Which blocks get clean frames.
    admit: Admit,
    /// Whether overwrites go in place (`atomic=words`).
    words: bool,
    /// Whether stores of mappings go to frames (`mmap=atomic`).
    maps_atomically: bool,
}
