//! Seeded bugs: what a check of the designs must find, or it proves nothing.
//!
//! Each documented class of bugs of file systems in persistent memory (NOVA, NOVA-Fortis, PMFS, WineFS: the set of Chipmunk,
//! EuroSys 2023) stands here as a bug that can be switched on in one mounted instance, by [`crate::Options::with_mutant`] and by
//! nothing else: no option of mkfs or mount has it. A flush or a fence that is left out needs no code of a design
//! ([`media::fault::Fault::DropNth`]).
//!
//! The designs ask for a mutant where they change metadata, never on the path of a read or of a write in place.

/// A bug that can be seeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutant {
    /// What follows the last whole word of new data is stored and not flushed (PMFS: copies past the cache leave unaligned edges in
    /// it).
    TailNotFlushed,
    /// A rename removes the old name before its transaction begins (NOVA: the old entry is invalidated in place).
    RenameRemovesFirst,
    /// Making a directory does not log the link count of its parent (NOVA: a word of the moved entry is not in the journal).
    ParentLinksNotLogged,
    /// The size in the list of unfinished truncations is that of an earlier truncation, perhaps through another descriptor (NOVA:
    /// replay takes the size from the wrong entry).
    StaleTruncateSize,
    /// Recovery frees what unfinished truncations cut before the block map is there (PMFS: the truncate list is replayed first).
    ReplayBeforeBlockMap,
    /// Recovery undoes all entries of the journal but the oldest (NOVA, WineFS: an index or a pointer that is off).
    UndoSkipsOldest,
    /// The redundant superblock is never written (NOVA-Fortis: one of two copies is initialised).
    CopyNotWritten,
    /// A write that grows a file is two transactions (WineFS: not atomic in its strict mode).
    TwoCommits,
    /// What a transaction has changed stays when its work has failed.
    RollbackLeftOut,
    /// HiNFS: the size is committed before the data is written back.
    SizeAheadOfData,
    /// HiNFS: write-back leaves out the last dirty line of a block.
    LastLineLeftOut,
    /// HiNFS: a truncation drops data that the open transaction waits for.
    TruncateDropsWaited,
    /// HiNFS: a block that is evicted from the buffer is dropped, not written.
    EvictionDrops,
}

impl Mutant {
    /// Those of every design on PMFS's format.
    pub(crate) const FORMAT: &[Self] = Self::ALL.split_at(9).0;

    /// All of them; the last four are those of a design that buffers data.
    pub const ALL: &[Self] = &[
        Self::TailNotFlushed,
        Self::RenameRemovesFirst,
        Self::ParentLinksNotLogged,
        Self::StaleTruncateSize,
        Self::ReplayBeforeBlockMap,
        Self::UndoSkipsOldest,
        Self::CopyNotWritten,
        Self::TwoCommits,
        Self::RollbackLeftOut,
        Self::SizeAheadOfData,
        Self::LastLineLeftOut,
        Self::TruncateDropsWaited,
        Self::EvictionDrops,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::TailNotFlushed => "tail-not-flushed",
            Self::RenameRemovesFirst => "rename-removes-first",
            Self::ParentLinksNotLogged => "parent-links-not-logged",
            Self::StaleTruncateSize => "stale-truncate-size",
            Self::ReplayBeforeBlockMap => "replay-before-block-map",
            Self::UndoSkipsOldest => "undo-skips-oldest",
            Self::CopyNotWritten => "copy-not-written",
            Self::TwoCommits => "two-commits",
            Self::RollbackLeftOut => "rollback-left-out",
            Self::SizeAheadOfData => "size-ahead-of-data",
            Self::LastLineLeftOut => "last-line-left-out",
            Self::TruncateDropsWaited => "truncate-drops-waited",
            Self::EvictionDrops => "eviction-drops",
        }
    }

    /// The class that it stands for.
    pub fn class(self) -> &'static str {
        match self {
            Self::TailNotFlushed => "unaligned tail not flushed",
            Self::RenameRemovesFirst => "in-place update that should be logged",
            Self::ParentLinksNotLogged => "log entry lacks a field",
            Self::StaleTruncateSize => "wrong order through two descriptors",
            Self::ReplayBeforeBlockMap => "recovery uses lost volatile state",
            Self::UndoSkipsOldest => "recovery index or pointer arithmetic",
            Self::CopyNotWritten => "backup and primary not atomic",
            Self::TwoCommits => "write not atomic in strict mode",
            Self::RollbackLeftOut => "failure not undone",
            Self::SizeAheadOfData => "buffer: size ahead of data",
            Self::LastLineLeftOut => "buffer: sync misses a line",
            Self::TruncateDropsWaited => "buffer: write-back against truncation",
            Self::EvictionDrops => "buffer: dirty block lost at eviction",
        }
    }

    /// Whether it shows only when the medium fails.
    pub fn needs_failure(self) -> bool {
        self == Self::RollbackLeftOut
    }
}
