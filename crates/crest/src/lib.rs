//! Crest: each call is one self-certifying record in the log of its core, made durable by one fence.
//!
//! Names, inodes, extents and free space are indexes in DRAM, which a mount rebuilds from the records. A call checks and locks
//! there, stores its data past the cache and fences it, stores its record and fences that, and then changes the indexes.
//! `docs/designs/crest.md` states the rules and argues for them.
//!
//! The format and its meaning are pure functions: they read bytes and records, and know neither clocks nor locks nor a region;
//! `crates/fs/tests/it/crest` tries all small histories against them.
//!
//! | pure | from | to |
//! |---|---|---|
//! | [`layout`] | | structures on the medium |
//! | [`record`] | records | bytes with a seal, and back |
//! | [`zone`] | the table of zones and the bytes of log zones | records, damage; which zone may be taken, which is cleaned |
//! | [`merge`] | records, in any order | the tree: names, inodes, places of blocks |
//! | [`inline`] | bytes of blocks that lie in records | what a block holds |
//! | [`sieve`] | records, zone by zone | those that may count |
//! | [`clean`] | records, the tree, the zones that are present | what of each record must be kept |
//! | [`place`] | what is known of a block | where a write goes |
//!
//! | the mount | holds |
//! |---|---|
//! | `superblock.rs` `mkfs.rs` | the superblock and its copy; making an empty pool |
//! | `alloc.rs` | free zones and blocks |
//! | `log.rs` `cleaner.rs` | making records durable; freeing log zones |
//! | `parity.rs` | parity of log zones that are full, and lines that are computed from it |
//! | `inode.rs` `map.rs` `dir.rs` | inodes in DRAM; places of the blocks of a file; names of a directory |
//! | `sharing.rs` | changes of one file or directory by several tasks at once |
//! | `cache.rs` | clean frames: blocks that are read often |
//! | `frames.rs` `buffered.rs` `writeback.rs` | frames of DRAM; files whose data is in frames; settling them in the background |
//! | `in_place.rs` `patch.rs` | overwrites in place; small overwrites in records |
//! | `namei.rs` `rename.rs` `paths.rs` | what changes names; paths of several |
//! | `draft.rs` | changes of the blocks of a file that do not count yet, and their records |
//! | `file.rs` `attributes.rs` `xattr.rs` `mapped.rs` | contents and attributes of files; extended attributes; mapped files |
//! | `mapped_atomic.rs` | mapped files whose pages are frames, and syncs of all of them or none |
//! | `clone.rs` | files that share blocks |
//! | `sums.rs` `damage.rs` | checksums of blocks; what is damaged |
//! | `recovery.rs` | what a mount reads, and what it makes of it |
//! | `image.rs` `image_save.rs` `image_load.rs` `same.rs` | saved indexes: format, unmount, mount; comparing one with the logs |
//! | `fsck.rs` `repair.rs` `dump.rs` `resize.rs` | checking, repairing, showing; another size |
//! | `ablation.rs` | parts that can be left out, to measure them |
//! | `mutant.rs` `certify.rs` | rules that can be left out; edited images that pass the seals |
//! | `parts.rs` | named parts of calls |
//! | `vfs.rs` `format.rs` `design.rs` | the adapters to the two interfaces |
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
mod alloc;
mod attributes;
mod buffered;
mod cache;
mod certify;
pub mod clean;
mod cleaner;
mod clone;
mod damage;
pub mod design;
mod dir;
mod draft;
mod dump;
mod file;
pub(crate) mod format;
mod frames;
mod fsck;
mod image;
mod image_load;
mod image_save;
mod in_place;
pub mod inline;
mod inode;
pub mod layout;
mod log;
mod map;
mod mapped;
mod mapped_atomic;
pub mod merge;
mod mkfs;
pub mod mutant;
mod namei;
mod parity;
mod parts;
mod patch;
mod paths;
pub mod place;
pub mod record;
mod recovery;
mod rename;
mod repair;
mod resize;
mod same;
mod sharing;
pub mod sieve;
mod sums;
mod superblock;
pub mod tree;
mod vfs;
mod writeback;
mod xattr;
pub mod zone;

use std::collections::BTreeSet;
use std::sync::Arc;

use media::nvmm::Region;
use sim::sync::AtomicBool;
use sim::{LockClass, Mutex, SpreadRwLock};

use ablation::Without;
use alloc::Zones;
use cache::{Admit, Cache};
use damage::Losses;
use frames::Frames;
use inode::Inodes;
use layout::Geometry;
use log::Logs;
use mapped_atomic::Unsynced;
use mutant::Rules;
use sharing::Sharing;
use sums::Sums;

use base::dax::DirectMaps;

static RENAMES: LockClass = LockClass::new("crest.renames").under(&[]).several();
static ORPHANS: LockClass = LockClass::new("crest.orphans").under(&[&log::LOG, &alloc::DATA]);

/// The classes of locks for which its calls may wait.
pub(crate) static CLASSES: &[&LockClass] = &[
    &alloc::BLOCKS,
    &alloc::DATA,
    &alloc::SHARED,
    &alloc::ZONES,
    &inode::INODE,
    &map::GRANULE,
    &sharing::BUCKET,
    &sharing::STAMPS,
    &log::LOG,
    &log::SUPERBLOCK,
    &ORPHANS,
    &RENAMES,
    &cache::CLEAN,
    &frames::FRAMES,
    &frames::FRAME_POOL,
    &frames::TASKS,
    &frames::WRITEBACK_IDLE,
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
    frames: frames::Settings,
    /// Which blocks get clean frames.
    admit: Admit,
    /// Whether overwrites go in place (`atomic=words`).
    words: bool,
    /// Whether stores of mappings go to frames (`mmap=atomic`).
    maps_atomically: bool,
}
