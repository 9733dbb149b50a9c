//! The bugs that can be seeded in NOVA, most of them of a class that Chipmunk (EuroSys 2023) documents in the published code. A
//! flush or a fence that is left out needs no code here (`media::fault::Fault::DropNth`).

use design::Mutant;

/// Recovery undoes all words of a transaction but the first (NOVA, WineFS: an index or a pointer that is off).
pub(crate) const UNDO_SKIPS_FIRST: Mutant =
    Mutant::new("nova-undo-skips-first", "recovery index or pointer arithmetic");
/// The state of an inode that loses its last name is stored outside the transaction (NOVA: words that are not in the journal).
pub(crate) const STATE_NOT_LOGGED: Mutant = Mutant::new("nova-state-not-logged", "log entry lacks a field");
/// A write is committed in two halves.
pub(crate) const TWO_COMMITS: Mutant = Mutant::new("nova-two-commits", "write not atomic in strict mode");
/// The first word of a rename changes before its transaction begins (NOVA: the old entry is invalidated in place).
pub(crate) const RENAME_IN_TWO_STEPS: Mutant =
    Mutant::new("nova-rename-in-two-steps", "in-place update that should be logged");
/// A truncation leaves the bytes behind the new end in their block (NOVA: they are zeroed after the commit, in place).
pub(crate) const TAIL_NOT_ZEROED: Mutant = Mutant::new("nova-tail-not-zeroed", "stale bytes behind the end");
/// The fast cleaner frees pages of removals although what they remove is still in the log (NOVA: the hints in the entries).
pub(crate) const CLEANER_DROPS_REMOVALS: Mutant =
    Mutant::new("nova-cleaner-drops-removals", "cleaning loses an entry that counts");
/// The thorough cleaner copies no attributes.
pub(crate) const CLEANER_DROPS_ATTRIBUTES: Mutant =
    Mutant::new("nova-cleaner-drops-attributes", "cleaning copies too little");
/// The clean word stays while the volume is mounted (NOVA: the saved lists of a clean mount).
pub(crate) const CLEAN_WORD_STAYS: Mutant =
    Mutant::new("nova-clean-word-stays", "recovery uses lost volatile state");
/// The copy of the superblock is never written (NOVA-Fortis: one of two copies is initialised).
pub(crate) const COPY_NOT_WRITTEN: Mutant =
    Mutant::new("nova-copy-not-written", "backup and primary not atomic");
/// Words that a transaction has changed stay when it fails.
pub(crate) const ROLLBACK_LEFT_OUT: Mutant =
    Mutant::new("nova-rollback-left-out", "failure not undone").when_the_medium_fails();

/// All of them.
pub(crate) const ALL: [Mutant; 10] = [
    UNDO_SKIPS_FIRST,
    STATE_NOT_LOGGED,
    TWO_COMMITS,
    RENAME_IN_TWO_STEPS,
    TAIL_NOT_ZEROED,
    CLEANER_DROPS_REMOVALS,
    CLEANER_DROPS_ATTRIBUTES,
    CLEAN_WORD_STAYS,
    COPY_NOT_WRITTEN,
    ROLLBACK_LEFT_OUT,
];
