//! The classes of locks, each with those below which it may be taken.
//!
//! [`CLEANER`] of a shard, with nothing else held; [`RENAMES`] (shared by renames of other files between directories, exclusive
//! for those of directories), then [`INODE`]: directories, an ancestor before its descendants and otherwise by number, then the
//! inodes that names lead to, directories first and otherwise by number; of an inode that tasks share (`sharing.rs`) first its
//! own lock, then its [`BUCKET`]s or [`GRANULE`]s in ascending order, then the next inode's; then [`DATA`], or [`LOG`] of a shard
//! (the cleaner: of all, by number), with [`STAMPS`] of an inode under that; then [`SUPERBLOCK`], [`ORPHANS`], [`ZONES`],
//! [`BLOCKS`], [`CLONED`], each of the last five a leaf but that [`BLOCKS`] is taken under [`ZONES`]. Those of frames are
//! [`CACHED`], [`FRAMES`], [`FRAME_POOL`] of a shard, in this order, under the locks of inodes.

use sim::LockClass;

/// Of a shard's work on a zone that is emptied in steps: taken with nothing else held.
pub(crate) static CLEANER: LockClass = LockClass::new("crest.cleaner").under(&[]);

/// Of renames between directories.
pub(crate) static RENAMES: LockClass = LockClass::new("crest.renames").under(&[]).several();

/// Of an inode.
pub(crate) static INODE: LockClass =
    LockClass::new("crest.inode").under(&[&CLEANER, &RENAMES, &GRANULE, &BUCKET]).several();
/// Of a part of a file that tasks share.
pub(crate) static GRANULE: LockClass = LockClass::new("crest.granule").under(&[&INODE]).several();
/// Of some names of a directory that tasks share.
pub(crate) static BUCKET: LockClass = LockClass::new("crest.bucket").under(&[&INODE]).several();
/// The line with a shard's last change of an inode that tasks share.
pub(crate) static STAMPS: LockClass = LockClass::of_lines(
    "crest.stamps",
    "the last id and time of a shard's changes of an inode that tasks share",
);
/// The line with a part of the count of a directory's names.
pub(crate) static NAMES: LockClass =
    LockClass::of_lines("crest.names", "a part of the count of names of a directory that tasks share");

/// Of the data zone that a shard fills.
pub(crate) static DATA: LockClass = LockClass::new("crest.data").under(&[&GRANULE, &BUCKET]);
/// Of the log of a shard.
pub(crate) static LOG: LockClass = LockClass::new("crest.log").under(&[&GRANULE, &BUCKET]).several();
/// Of the superblock.
pub(crate) static SUPERBLOCK: LockClass = LockClass::new("crest.superblock").under(&[&LOG, &DATA]);
/// Of the inodes that live without a name.
pub(crate) static ORPHANS: LockClass = LockClass::new("crest.orphans").under(&[&LOG, &DATA]);
/// Of the states of all zones.
pub(crate) static ZONES: LockClass = LockClass::new("crest.zones").under(&[&LOG, &DATA]).several();
/// Of the free blocks of a zone.
pub(crate) static BLOCKS: LockClass = LockClass::new("crest.blocks").under(&[&ZONES]);
/// Of the counts of blocks that several files have.
pub(crate) static CLONED: LockClass = LockClass::new("crest.shared").under(&[&DATA, &LOG]);

/// Of a shard's list of cached frames.
pub(crate) static CACHED: LockClass = LockClass::new("crest.clean").under(&[&GRANULE]);
/// Of a shard's free frames and of its files with dirty ones.
pub(crate) static FRAMES: LockClass = LockClass::new("crest.frames").under(&[&CACHED, &LOG]);
/// Of the frames that no shard has.
pub(crate) static FRAME_POOL: LockClass = LockClass::new("crest.frame_pool").under(&[&FRAMES]);
/// Of the tasks that write back.
pub(crate) static TASKS: LockClass = LockClass::new("crest.tasks").under(&[]);
/// For which the tasks wait that write back.
pub(crate) static WRITEBACK_IDLE: LockClass = LockClass::new("crest.writeback_idle");

/// The classes for which its calls may wait.
pub(crate) static CLASSES: &[&LockClass] = &[
    &BLOCKS,
    &DATA,
    &CLONED,
    &ZONES,
    &INODE,
    &GRANULE,
    &BUCKET,
    &STAMPS,
    &NAMES,
    &LOG,
    &SUPERBLOCK,
    &ORPHANS,
    &CLEANER,
    &RENAMES,
    &CACHED,
    &FRAMES,
    &FRAME_POOL,
    &TASKS,
    &WRITEBACK_IDLE,
];
