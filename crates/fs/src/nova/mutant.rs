//! Bugs that can be seeded, each of a class that was found in NOVA or a file system like it (Chipmunk, EuroSys 2023).

/// A bug that checks must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Recovery leaves out the first word of a transaction.
    UndoSkipsFirst,
    /// A write is committed in two halves.
    TwoCommits,
    /// The first half of a rename counts before the second.
    RenameInTwoSteps,
    /// A truncation leaves the bytes behind the new end in their block.
    TailNotZeroed,
    /// The fast cleaner drops removals although what they remove is still in the log.
    CleanerDropsRemovals,
    /// The thorough cleaner does not keep cuts of the size.
    CleanerDropsAttributes,
    /// Blocks go back to the allocator before the commit that replaces them.
    FreedBeforeCommit,
    /// The clean word stays while the volume is mounted.
    CleanWordStays,
}
