//! Seeded bugs: an order of stores that the types hold, broken, or a step of the recovery. Several are bugs that the published
//! model checker found.

use design::Mutant;

macro_rules! mutants {
    ($($(#[$doc:meta])* $id:ident = $name:literal, $class:literal $(, by $program:literal)?;)*) => {
        $($(#[$doc])* pub(crate) const $id: Mutant = Mutant::new($name, $class)$(.shown_by(&[$program]))?;)*

        /// All of them.
        pub(crate) const ALL: &[Mutant] = &[$($id),*];
    };
}

mutants! {
    /// A name leads to an inode that is not initialised durably.
    INO_BEFORE_INODE = "ino-before-inode", "name before the inode that it leads to";
    /// A dentry leads to an inode before its name is durable.
    NAME_AFTER_INO = "name-after-ino", "entry valid before its bytes";
    /// A second name stands before its link is counted.
    LINK_COUNT_LATE = "link-count-late", "reference before its count", by "link foo bar";
    /// A link is dropped before the name leads nowhere.
    DEC_LINK_BEFORE_CLEAR = "dec-link-before-clear", "count before its reference is gone", by "unlink empty";
    /// Pages are let go before the size or the inode that covers them is gone.
    DEALLOC_BEFORE_UNMAP = "dealloc-before-unmap", "space freed while it is reachable", by "truncate 4096 to 0";
    /// A page is used again while its descriptor still has its type.
    PAGE_REUSED_BEFORE_TYPE_CLEAR = "page-reused-before-type-clear", "space not cleared of its last use";
    /// A rename points to the old name after the new one stands.
    RENAME_POINTER_LATE = "rename-pointer-late", "undo information after the change", by "rename foo bar";
    /// A rename forgets the old name before that leads nowhere.
    POINTER_CLEARED_BEFORE_SOURCE = "pointer-cleared-before-source", "redo information gone before the change", by "rename foo bar";
    /// A rename takes the old name away before the new one stands.
    SOURCE_CLEARED_FIRST = "source-cleared-first", "in-place update that removes first", by "rename foo bar";
    /// A page of names belongs to its directory before it is zero.
    OWNER_BEFORE_ZERO = "owner-before-zero", "space linked before it is initialised";
    /// A size covers contents that are not durable.
    SIZE_BEFORE_DATA = "size-before-data", "size before contents";
    /// Recovery leaves what nothing reaches.
    ORPHANS_KEPT = "orphans-kept", "recovery leaks";
    /// Recovery does not finish renames.
    RENAME_NOT_RECOVERED = "rename-not-recovered", "recovery leaves an operation half done", by "rename foo bar";
    /// Recovery takes a committed rename back by the new name only.
    RECOVERED_BACKWARDS = "recovered-backwards", "recovery in the wrong direction", by "rename dir over an empty one";
    /// A directory that is moved keeps its parent.
    DOTDOT_NOT_MOVED = "dotdot-not-moved", "parent not changed with the name", by "rename dir to the root";
    /// A mount leaves the image marked as clean.
    CLEAN_BYTE_STAYS = "clean-byte-stays", "crash taken for an unmount";
    /// Bytes behind an old end are not zeroed before the size grows over them.
    TAIL_NOT_ZEROED = "tail-not-zeroed", "stale bytes within a grown file";
}
