//! The bugs that can be seeded in a design on PMFS's format, one for each class that Chipmunk (EuroSys 2023) documents in NOVA,
//! NOVA-Fortis, PMFS and WineFS. A flush or a fence that is left out needs no code here (`media::fault::Fault::DropNth`).

use design::Mutant;

/// What follows the last whole word of new data is stored and not flushed (PMFS: copies past the cache leave unaligned edges in
/// it).
pub(crate) const TAIL_NOT_FLUSHED: Mutant = Mutant::new("tail-not-flushed", "unaligned tail not flushed");
/// A rename removes the old name before its transaction begins (NOVA: the old entry is invalidated in place).
pub(crate) const RENAME_REMOVES_FIRST: Mutant =
    Mutant::new("rename-removes-first", "in-place update that should be logged");
/// Making a directory does not log the link count of its parent (NOVA: a word of the moved entry is not in the journal).
pub(crate) const PARENT_LINKS_NOT_LOGGED: Mutant =
    Mutant::new("parent-links-not-logged", "log entry lacks a field");
/// The size in the list of unfinished truncations is that of an earlier truncation, perhaps through another descriptor (NOVA:
/// replay takes the size from the wrong entry).
pub(crate) const STALE_TRUNCATE_SIZE: Mutant =
    Mutant::new("stale-truncate-size", "wrong order through two descriptors");
/// Recovery frees what unfinished truncations cut before the block map is there (PMFS: the truncate list is replayed first).
pub(crate) const REPLAY_BEFORE_BLOCK_MAP: Mutant =
    Mutant::new("replay-before-block-map", "recovery uses lost volatile state");
/// Recovery undoes all entries of the journal but the oldest (NOVA, WineFS: an index or a pointer that is off).
pub(crate) const UNDO_SKIPS_OLDEST: Mutant =
    Mutant::new("undo-skips-oldest", "recovery index or pointer arithmetic");
/// The redundant superblock is never written (NOVA-Fortis: one of two copies is initialised).
pub(crate) const COPY_NOT_WRITTEN: Mutant = Mutant::new("copy-not-written", "backup and primary not atomic");
/// A write that grows a file is two transactions (WineFS: not atomic in its strict mode).
pub(crate) const TWO_COMMITS: Mutant = Mutant::new("two-commits", "write not atomic in strict mode");
/// What a transaction has changed stays when its work has failed.
pub(crate) const ROLLBACK_LEFT_OUT: Mutant =
    Mutant::new("rollback-left-out", "failure not undone").when_the_medium_fails();

/// All of them.
pub(crate) const ALL: [Mutant; 9] = [
    TAIL_NOT_FLUSHED,
    RENAME_REMOVES_FIRST,
    PARENT_LINKS_NOT_LOGGED,
    STALE_TRUNCATE_SIZE,
    REPLAY_BEFORE_BLOCK_MAP,
    UNDO_SKIPS_OLDEST,
    COPY_NOT_WRITTEN,
    TWO_COMMITS,
    ROLLBACK_LEFT_OUT,
];
