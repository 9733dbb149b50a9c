//! What follows the blocks of files beside the records: checksums, cached frames, and pages of mapped files.
//!
//! A call that changes blocks tells the index ([`Index::filled`] and the others), which tells each follower. So no call knows who
//! follows, and a new follower is one line in [`Index`].

use std::ops::Range;

use super::Index;
use super::inode::State;
use super::span::Span;
use crate::store::Store;
use crate::store::alloc::Blocks;

/// A change of the bytes that a file shows.
#[derive(Clone, Debug)]
pub(crate) enum Shown<'a> {
    /// These bytes were written from an offset on.
    Written(u64, &'a [u8]),
    /// These bytes are zeros, or a hole.
    Zeros(Span),
    /// The file has this size.
    Size(u64),
    /// These blocks have other places.
    Places(Range<u64>),
    /// The file is gone.
    Nothing,
}

/// One that follows the blocks of files. What it does not follow it need not implement.
pub(crate) trait Follower {
    /// Whole blocks from one on are about to get these bytes.
    fn filled(&self, _first: u64, _bytes: &[u8]) {}

    /// The medium has bytes of blocks of files, stored by a call that has what reads them alone.
    fn stored(&self, _store: &Store, _at: u64, _bytes: &[u8]) {}

    /// Blocks of a file are freed, or are another file's alone.
    fn freed(&self, _store: &Store, _blocks: Blocks) {}

    /// A block of a file has a new place.
    fn moved(&self, _old: u64, _new: u64) {}

    /// A call has changed what a file shows, and has it alone.
    fn shown(&self, _store: &Store, _file: &mut State, _change: &Shown<'_>) {}
}

impl Index {
    fn each(&self, mut tell: impl FnMut(&dyn Follower)) {
        tell(&self.sums);
        if let Some(cache) = &self.cache {
            tell(cache);
        }
        tell(&self.mapped);
    }

    /// Whole blocks from `first` on are about to get these bytes.
    pub(crate) fn filled(&self, first: u64, bytes: &[u8]) {
        self.each(|follower| follower.filled(first, bytes));
    }

    /// The medium has bytes of blocks of files, stored by a call that has what reads them alone.
    pub(crate) fn stored(&self, at: u64, bytes: &[u8]) {
        self.each(|follower| follower.stored(self, at, bytes));
    }

    /// Blocks of a file are freed, or are another file's alone.
    pub(crate) fn freed(&self, blocks: Blocks) {
        self.each(|follower| follower.freed(self, blocks));
    }

    /// A block of a file has a new place.
    pub(crate) fn moved(&self, old: u64, new: u64) {
        self.each(|follower| follower.moved(old, new));
    }

    /// A call has changed what a file shows, and has it alone.
    pub(crate) fn shown(&self, file: &mut State, change: &Shown<'_>) {
        self.each(|follower| follower.shown(self, file, change));
    }
}
