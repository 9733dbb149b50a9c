//! Seeded bugs: one for each rule of the design, which the model check must find.
//!
//! A rule is left out in one instance, which has [`Rules::without`]; no option of mkfs or mount does it.

use design::Mutant;

/// The rules that an instance keeps: all of them, or all but one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules(Option<Mutant>);

impl Rules {
    /// All rules.
    pub const ALL: Self = Self(None);

    /// All rules but the one that this mutant breaks.
    pub const fn without(mutant: Mutant) -> Self {
        Self(Some(mutant))
    }

    /// Whether records that are dead for certain are dropped as they are read: not where other records count than the sieve knows.
    pub fn sieves(self) -> bool {
        let own = [SIEVED_THOUGH_LINKED, SIEVED_REMOVALS, SIEVED_TIMES];
        self.are_all() || own.into_iter().any(|mutant| self.lacks(mutant))
    }

    /// Whether none is left out.
    pub(crate) fn are_all(self) -> bool {
        self.0.is_none()
    }

    /// Whether the rule is left out that this mutant breaks.
    pub fn lacks(self, mutant: Mutant) -> bool {
        self.0.is_some_and(|left_out| left_out.name() == mutant.name())
    }
}

macro_rules! mutants {
    ($($constant:ident $name:literal $class:literal $(=> $scenarios:expr)?;)*) => {
        $(#[doc = $class] pub const $constant: Mutant = Mutant::new($name, $class)$(.shown_by_tasks($scenarios))?;)*
        /// All of them.
        pub const ALL: &[Mutant] = &[$($constant),*];
    };
}

mutants! {
    SEAL_OF_FIRST_LINE "seal-of-first-line" "the seal covers the first line of a record only";
    SEAL_WITHOUT_OPENING "seal-without-opening" "the seal does not depend on the opening of the zone";
    SEAL_WITHOUT_NONCE "seal-without-nonce" "the seal does not depend on the nonce of the zone";
    OPEN_WITH_WORD "open-with-word" "the word of a zone may be durable before its nonce is";
    GROUP_IN_PART "group-in-part" "members of an incomplete group count";
    TORN_GROUP_IS_DAMAGE "torn-group-is-damage" "a group torn by a crash is reported as damage";
    GAP_IS_TAIL "gap-is-tail" "a lost record with others behind it is not reported";
    LAST_RECORDS_UNKNOWN "last-records-unknown" "a new zone does not note where the shard's last one ended";
    EITHER_WORD "either-word" "a mount leaves the words of a zone different";
    OPENING_FROM_TABLE "opening-from-table" "openings are numbered from the largest in the table of zones";
    INODES_FROM_LOG "inodes-from-log" "inode numbers continue after the largest live one";
    SUPERBLOCKS_TOGETHER "superblocks-together" "both superblocks are stored under one fence";
    DATA_UNFENCED "data-unfenced" "a record is stored before its data is fenced";
    WORD_UNFLUSHED "word-unflushed" "the word of a new zone is not flushed before the record counts";
    FREED_BEFORE_FENCE "freed-before-fence" "a zone is used again before the word that freed it is durable";
    WAITER_BEFORE_FENCE "waiter-before-fence" "what waits for a zone dies before the word that freed it is durable";
    CLEANED_BEFORE_FENCE "cleaned-before-fence" "a zone is freed before the copies of its records are durable";
    APPENDED_AFTER_CRASH "appended-after-crash" "a mount appends to a zone of an earlier one";
    CLOCK_OF_SHARD "clock-of-shard" "an operation's id depends on the shard's clock only";
    CLOCK_FROM_ZERO "clock-from-zero" "clocks start at zero after a mount";
    COPY_WITH_NEW_ID "copy-with-new-id" "a copied record gets a new id";
    COPY_OF_DEAD_PARTS "copy-of-dead-parts" "a copied record keeps extents and sizes that do not count";
    REMOVAL_DIES_AT_ONCE "removal-dies-at-once" "a removal is dropped while its add is in the log";
    REMOVAL_AWAITS_ONE_COPY "removal-awaits-one-copy" "a removal waits for the newest copy of its add only";
    CUT_DIES_AT_ONCE "cut-dies-at-once" "a cut is dropped while older records are in the log";
    CUT_AWAITS_OLDER_OPENINGS "cut-awaits-older-openings" "a cut waits only for zones that were opened before its own";
    CUTS_NEVER_DIE "cuts-never-die" "a later cut of the file does not replace an earlier one";
    HOLE_DIES_AT_ONCE "hole-dies-at-once" "a hole is dropped while older records are in the log";
    XATTR_REMOVAL_DIES_AT_ONCE "xattr-removal-dies-at-once" "the removal of an attribute is dropped";
    WAITS_FORGOTTEN "waits-forgotten" "a mount forgets what waits for zones of earlier mounts";
    BIRTH_NOT_HELD "birth-not-held" "a create dies with its name and its mode, though its inode lives";
    OWNER_IN_PART "owner-in-part" "a change of the mode does not carry the owner";
    SIZE_NOT_HELD "size-not-held" "the record with the size of a file dies with its extents";
    HOLDER_BY_ID "holder-by-id" "the record of the largest id is kept for the times, not the one of the latest time";
    DIRECTORY_TIME_NOT_HELD "directory-time-not-held" "the record that set the times of a directory dies with its names";
    LINK_TIME_NOT_HELD "link-time-not-held" "the record of a link that set the time of change dies with its name";
    EVERY_WRITE_HAS_SIZE "every-write-has-size" "a write that does not extend the file carries the size";
    TIMES_BY_ID "times-by-id" "times of the largest id count, not the latest";
    STAMP_FROM_CLOCK "stamp-from-clock" "a stamp is the clock's time, though that may have gone back";
    CUT_PASSES_NOTHING "cut-passes-nothing" "a cut does not wait for writers beyond the new end";
    TAIL_NOT_ZEROED "tail-not-zeroed" "bytes beyond the end are not zeroed when the file grows over them";
    VOID_MISSING "void-missing" "a failed call leaves no void record";
    BAD_ZONE_STAYS "bad-zone-stays" "a bad zone never counts as freed";
    CLONES_NOT_COUNTED "clones-not-counted" "a block of two files is free when one of them is gone";
    SHARED_IN_PLACE "shared-in-place" "a block of two files is changed in place";
    CHECKED_IN_PLACE "checked-in-place" "a block with a checksum is changed in place";
    NO_RESERVE "no-reserve" "data may take the last zones";
    CLEANER_WITHOUT_RESERVE "cleaner-without-reserve" "no zone is kept for copies";
    INLINE_IN_PLACE "inline-in-place" "bytes are stored in place though records have bytes of the block";
    INLINE_NOT_HELD "inline-not-held" "a record with bytes of a block is dropped";
    INLINE_OVER_WRITE "inline-over-write" "bytes of records are applied over a later place of their block";
    MAPPED_OVER_INLINE "mapped-over-inline" "a mapping stores to a block of which records have bytes";
    CLONED_WITHOUT_INLINE "cloned-without-inline" "a clone lacks the bytes that records have of its blocks";
    PIECE_SPLIT_AT_END "piece-split-at-end" "a write that passes the end within a block is a record with bytes and a place";
    GRANULES_UNLOCKED "granules-unlocked" "tasks that overwrite the same blocks do not exclude each other"
        => &["write | write"];
    GRANULE_WITHOUT_ID "granule-without-id" "an overwrite beside others does not follow the last ones of its blocks"
        => &["write | write"];
    SIEVED_THOUGH_LINKED "sieved-though-linked"
        "an inode that was made and removed in one zone is dropped though it has another name";
    SIEVED_REMOVALS "sieved-removals" "a removal is dropped as it is read though another zone has its add";
    SIEVED_TIMES "sieved-times" "the record that set the times of a directory is dropped as it is read";
    REFUSED_WHILE_CLEANING "refused-while-cleaning" "a call that finds no room while another task cleans is refused"
        => &["worn: create | create-below"];
    BUCKET_BY_CORE "bucket-by-core" "tasks lock the bucket of their core, not that of the name that they change"
        => &["create | create"];
    CLEANER_NEVER_RESTS "cleaner-never-rests" "zones are cleaned however much of them is live";
}

/// A write is dropped as the log is read when one of its blocks is written again.
pub const SUPERSEDED_IN_PART: Mutant =
    Mutant::new("superseded-in-part", "mount: a write of which a block is written again is dropped");
/// The record with the latest time of an inode is dropped as the log is read.
pub const SUPERSEDED_TIMES: Mutant =
    Mutant::new("superseded-times", "mount: a record is dropped that has set the latest time");
/// The write that made a file longer is dropped as the log is read.
pub const SUPERSEDED_SIZE: Mutant =
    Mutant::new("superseded-size", "mount: a record is dropped that has made the file longer");
/// Records supersede each other in the order in which they are read.
pub const SUPERSEDED_BY_EARLIER: Mutant =
    Mutant::new("superseded-by-earlier", "mount: a record is dropped for one with a smaller id");
/// A record with bytes of a block supersedes those with its place.
pub const SUPERSEDED_BY_BYTES: Mutant =
    Mutant::new("superseded-by-bytes", "mount: the place of a block is dropped for some of its bytes");

/// Blocks are taken of a zone that has become free, and may be a log's, since its state was looked at.
pub const ZONE_JUDGED_UNLOCKED: Mutant = Mutant::new(
    "zone-judged-unlocked",
    "a zone becomes free between the look at its state and the blocks taken of it",
);

/// A call that finds no room is refused, whatever cleaning would gain.
pub const REFUSED_UNCLEANED: Mutant =
    Mutant::new("refused-uncleaned", "a call that finds no room is refused, and nothing is cleaned");

/// A record of data in frames says the size in DRAM before all of the data is durable.
pub const SIZE_AHEAD_OF_DATA: Mutant = Mutant::new("size-ahead-of-data", "buffer: size ahead of data");
/// A file gets a name before its size is durable.
pub const NAME_BEFORE_SIZE: Mutant = Mutant::new("name-before-size", "buffer: a name ahead of the size");

/// A frame gets other bytes while readers still find it.
pub const FRAME_REUSED_EARLY: Mutant =
    Mutant::new("frame-reused-early", "cache: a frame reused before its readers are done")
        .shown_by_tasks(&["read; read; read | read; read; read"]);
/// What a call stores or frees stays in its frame as it was.
pub const FRAME_KEPT: Mutant = Mutant::new("frame-kept", "cache: a stale copy of a block that was stored to")
    .shown_by(&["append to a file that was read"]);

/// A sync of a mapping whose stores go to frames makes a record of each page.
pub const MSYNC_IN_PAGES: Mutant =
    Mutant::new("msync-in-pages", "mmap=atomic: each page of an msync has its own record");
/// A page of such a mapping is written back on its own.
pub const MAPPED_WRITTEN_BACK: Mutant =
    Mutant::new("mapped-written-back", "mmap=atomic: a page is durable before its msync");

/// Copies of adds that the cleaner makes are not noted.
pub const COPIES_FORGOTTEN: Mutant =
    Mutant::new("copies-forgotten", "steps: a removal does not wait for copies of its add");
/// Copies that are stored under one fence do not say so.
pub const BATCH_UNMARKED: Mutant =
    Mutant::new("batch-unmarked", "steps: what a crash leaves of copies under one fence looks like damage");
/// A zone is emptied that was there when the log zones were listed.
pub const VICTIM_OF_OLD_LIST: Mutant = Mutant::new(
    "victim-of-old-list",
    "steps: a zone is emptied, and freed, that another shard has freed before",
);
/// A step goes on though all logs were cleaned at once.
pub const STEP_BESIDE_CLEANER: Mutant = Mutant::new(
    "step-beside-cleaner",
    "steps: a zone is emptied that the cleaner of all logs may have freed",
);
/// The time of an access in DRAM is taken for one that is durable.
pub const TIMES_OF_DRAM: Mutant =
    Mutant::new("times-of-dram", "steps: a time is dropped because one in DRAM only has followed");

/// An unmount names a saved index before it is durable.
pub const IMAGE_BEFORE_FENCE: Mutant =
    Mutant::new("image-before-fence", "saved index: the clean word is set before the image is fenced");
/// A saved index counts although the pool has changed since.
pub const IMAGE_NOT_VOIDED: Mutant =
    Mutant::new("image-not-voided", "saved index: it counts although the pool has changed since");
/// A mount from a saved index knows of no record that waits for zones of earlier mounts.
pub const IMAGE_WITHOUT_WAITS: Mutant =
    Mutant::new("image-without-waits", "saved index: waiting removals are left out of it");

/// The head of parity is believed without its seal.
pub const PARITY_UNSEALED: Mutant =
    Mutant::new("parity-unsealed", "parity: a head counts whatever its seal says");
/// A zone ends with the call that fills it, whose fence comes later.
pub const PARITY_BEFORE_RECORDS: Mutant =
    Mutant::new("parity-before-records", "parity: a zone ends before its last record is durable");
/// An index is saved over a zone of which lines were computed.
pub const COMPUTED_THEN_SAVED: Mutant =
    Mutant::new("computed-then-saved", "parity: a saved index hides that lines are damaged");

/// Those that a mounted pool can be given, each of which the checks of the mount find. The last six are about frames and saved
/// indexes, which the model of the rules does not have. [`IMAGE_WITHOUT_WAITS`] needs a log that wraps, those of parity a pool
/// that has it, [`ZONE_JUDGED_UNLOCKED`] one that is full (`store/alloc.rs`), [`REFUSED_WHILE_CLEANING`] and
/// [`REFUSED_UNCLEANED`] a log that is not cleaned in steps, and those of steps one that wraps: tests of their own find them.
pub const MOUNTED: &[Mutant] = &[
    DATA_UNFENCED,
    WORD_UNFLUSHED,
    TAIL_NOT_ZEROED,
    CLONES_NOT_COUNTED.shown_by(&["remove a cloned file, fill another"]),
    SHARED_IN_PLACE.shown_by(&["append to a cloned file, and to the clone"]),
    GRANULES_UNLOCKED,
    GRANULE_WITHOUT_ID,
    BUCKET_BY_CORE,
    SIZE_AHEAD_OF_DATA,
    NAME_BEFORE_SIZE,
    IMAGE_BEFORE_FENCE.shown_by(&["remount"]),
    IMAGE_NOT_VOIDED.shown_by(&["remount, creat, remount"]),
    FRAME_REUSED_EARLY,
    FRAME_KEPT,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutants_have_names_of_their_own() {
        let names: std::collections::BTreeSet<_> = ALL.iter().map(Mutant::name).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(Rules::without(EITHER_WORD).lacks(EITHER_WORD) && !Rules::ALL.lacks(EITHER_WORD));
    }
}
