//! The bugs that can be seeded in ext2, ext4 and ext4-dax.

use design::Mutant;

/// Programs in which one file gets what another gave up.
const REUSE: [&str; 3] =
    ["a file in place of a directory", "unlink, then fill another", "truncate, then fill another"];
/// A program that syncs before all has become durable by itself.
const SYNC: [&str; 1] = ["creat, append, fsync"];

/// The commit block is written without a flush of the log before it.
pub(crate) const COMMIT_WITHOUT_FLUSH: Mutant =
    Mutant::new("commit-without-flush", "journal: commit before its log is durable");
/// The commit block has no FUA.
pub(crate) const COMMIT_WITHOUT_FUA: Mutant =
    Mutant::new("commit-without-fua", "journal: a sync returns before its commit is durable").shown_by(&SYNC);
/// A block of metadata that is freed is not revoked.
pub(crate) const REVOKE_LEFT_OUT: Mutant =
    Mutant::new("revoke-left-out", "journal: old metadata replayed over what its block became")
        .shown_by(&REUSE);
/// Ordered data is written after the commit.
pub(crate) const DATA_AFTER_COMMIT: Mutant =
    Mutant::new("data-after-commit", "journal: blocks of a file committed before their data")
        .shown_by(&["write 1 new"]);
/// The log is emptied before what went home is flushed.
pub(crate) const CHECKPOINT_WITHOUT_FLUSH: Mutant =
    Mutant::new("checkpoint-without-flush", "journal: log emptied before its blocks are durable at home");
/// The log is emptied before the blocks are written home.
pub(crate) const TAIL_BEFORE_HOME: Mutant =
    Mutant::new("tail-before-home", "journal: log emptied before its blocks are written home");
/// An inode without names is not put on the list.
pub(crate) const ORPHAN_NOT_LISTED: Mutant =
    Mutant::new("orphan-not-listed", "space: an inode without names is lost at a crash")
        .shown_by(&["remount with an orphan"]);
/// What a transaction frees is given out before it has committed.
pub(crate) const REUSED_BEFORE_COMMIT: Mutant =
    Mutant::new("reused-before-commit", "space: freed blocks reused before the commit").shown_by(&REUSE);
/// A replay takes a transaction without a commit block.
pub(crate) const REPLAY_WITHOUT_COMMIT: Mutant =
    Mutant::new("replay-without-commit", "replay: a transaction that did not commit");
/// A replay writes every block of the log home, revoked or not.
pub(crate) const REPLAY_IGNORES_REVOKES: Mutant =
    Mutant::new("replay-ignores-revokes", "replay: revoked blocks written home").shown_by(&REUSE);
/// An fsync writes the data and does not commit.
pub(crate) const FSYNC_WITHOUT_COMMIT: Mutant =
    Mutant::new("fsync-without-commit", "sync: metadata of a file left out").shown_by(&SYNC);
/// An fsync does not flush the device.
pub(crate) const FSYNC_WITHOUT_FLUSH: Mutant =
    Mutant::new("fsync-without-flush", "sync: the device is not flushed").shown_by(&SYNC);
/// The repair does not correct link counts.
pub(crate) const REPAIR_KEEPS_COUNTS: Mutant =
    Mutant::new("repair-keeps-counts", "repair: link counts are not corrected");
/// The repair lets two files keep one block.
pub(crate) const REPAIR_SHARES_BLOCKS: Mutant =
    Mutant::new("repair-shares-blocks", "repair: a block of two files is not copied").shown_by(&REUSE);
/// The repair drops inodes without names.
pub(crate) const REPAIR_DROPS_NAMELESS: Mutant =
    Mutant::new("repair-drops-nameless", "repair: a file that lost its name is dropped");

/// Blocks of delayed writes are committed without their data.
pub(crate) const DELAYED_NOT_ORDERED: Mutant =
    Mutant::new("delayed-not-ordered", "delayed: blocks committed before the data that waited for them")
        .shown_by(&["write new, rename over"]);
/// The size on the device grows when a write is delayed.
pub(crate) const SIZE_BEFORE_BLOCKS: Mutant =
    Mutant::new("size-before-blocks", "delayed: a size is committed before its blocks are allocated");
/// Data is stored through the processor's cache and not flushed.
pub(crate) const DATA_IN_CACHE: Mutant =
    Mutant::new("data-in-cache", "dax: stored data is left in the processor's cache");
/// What a write does not cover of a new block is not zeroed.
pub(crate) const NEW_BLOCK_NOT_ZEROED: Mutant =
    Mutant::new("new-block-not-zeroed", "dax: a new block shows what it held before");
/// What the last block holds beyond the end is not zeroed when the file grows.
pub(crate) const TAIL_NOT_ZEROED: Mutant =
    Mutant::new("tail-not-zeroed", "dax: growth shows what was cut off");
/// Mount and unmount write the superblock in place.
pub(crate) const SUPERBLOCK_IN_PLACE: Mutant =
    Mutant::new("superblock-in-place", "dax: a superblock that the log does not have is torn");
/// A mount refuses a journal whose superblock is torn.
pub(crate) const TORN_LOG_REFUSED: Mutant =
    Mutant::new("torn-log-refused", "dax: the journal's torn superblock is refused");
/// A mount judges group descriptors before the replay.
pub(crate) const TORN_GROUP_REFUSED: Mutant =
    Mutant::new("torn-group-refused", "dax: a descriptor that the log has is refused");

/// Those of ext4-dax.
pub(crate) const IN_MEMORY: [Mutant; 11] = [
    DATA_IN_CACHE,
    NEW_BLOCK_NOT_ZEROED,
    TAIL_NOT_ZEROED,
    SUPERBLOCK_IN_PLACE,
    TORN_LOG_REFUSED,
    TORN_GROUP_REFUSED,
    REVOKE_LEFT_OUT,
    TAIL_BEFORE_HOME,
    ORPHAN_NOT_LISTED,
    REPLAY_WITHOUT_COMMIT,
    FSYNC_WITHOUT_COMMIT,
];
/// Those of ext4 with a journal.
pub(crate) const JOURNALED: [Mutant; 13] = [
    DELAYED_NOT_ORDERED,
    SIZE_BEFORE_BLOCKS,
    COMMIT_WITHOUT_FLUSH,
    COMMIT_WITHOUT_FUA,
    REVOKE_LEFT_OUT,
    DATA_AFTER_COMMIT,
    CHECKPOINT_WITHOUT_FLUSH,
    TAIL_BEFORE_HOME,
    ORPHAN_NOT_LISTED,
    REUSED_BEFORE_COMMIT,
    REPLAY_WITHOUT_COMMIT,
    REPLAY_IGNORES_REVOKES,
    FSYNC_WITHOUT_COMMIT,
];
/// Those of ext2.
pub(crate) const UNJOURNALED: [Mutant; 4] =
    [FSYNC_WITHOUT_FLUSH, REPAIR_KEEPS_COUNTS, REPAIR_SHARES_BLOCKS, REPAIR_DROPS_NAMELESS];
