//! Ranges that a call or a structure names by where they begin and how long they are. One that is named by where it begins and
//! where it ends is a `Range<u64>`; one whose last unit is part of it, a `RangeInclusive<u64>`.

use std::ops::Range;

/// Bytes that follow one another in a file or on a medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteRun {
    /// The first byte.
    pub at: u64,
    /// The number of bytes.
    pub len: u64,
}

impl ByteRun {
    /// `len` bytes from `at` on.
    pub const fn new(at: u64, len: u64) -> Self {
        Self { at, len }
    }
}

/// Blocks, pages, inodes or other numbered units that follow one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run {
    /// The number of the first unit.
    pub first: u64,
    /// The number of units.
    pub count: u64,
}

impl Run {
    /// `count` units from `first` on.
    pub const fn new(first: u64, count: u64) -> Self {
        Self { first, count }
    }

    /// The number after that of the last unit.
    pub const fn end(self) -> u64 {
        self.first + self.count
    }

    /// The numbers of the units.
    pub const fn range(self) -> Range<u64> {
        self.first..self.end()
    }
}
