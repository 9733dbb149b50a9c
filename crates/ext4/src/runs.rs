//! Runs of blocks, in which extents and block maps alike say where a file lies.

use sim::Run;

use super::layout::{le16, le32, put16, put32};

/// Longest extent of written blocks; of unwritten ones it is one less.
pub(crate) const MOST_BLOCKS: u32 = 32_768;

/// A run of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The first block of the file.
    pub(crate) index: u32,
    pub(crate) len: u32,
    /// The first block on the device.
    pub(crate) start: u64,
    pub(crate) unwritten: bool,
}

impl Extent {
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.index) + u64::from(self.len)
    }

    pub(crate) fn read(bytes: &[u8]) -> Self {
        let len = u32::from(le16(bytes, 4));
        let unwritten = len > MOST_BLOCKS;
        let start = u64::from(le32(bytes, 8)) | u64::from(le16(bytes, 6)) << 32;
        Self { index: le32(bytes, 0), len: if unwritten { len - MOST_BLOCKS } else { len }, start, unwritten }
    }

    pub(super) fn write(&self, to: &mut [u8]) {
        put32(to, 0, self.index);
        put16(to, 4, (self.len + if self.unwritten { MOST_BLOCKS } else { 0 }) as u16);
        put16(to, 6, (self.start >> 32) as u16);
        put32(to, 8, self.start as u32);
    }

    /// This extent with `next` behind it, if they are one run.
    pub(crate) fn joined(&self, next: &Self) -> Option<Self> {
        let most = MOST_BLOCKS - u32::from(self.unwritten);
        let follows = self.end() == u64::from(next.index)
            && self.start + u64::from(self.len) == next.start
            && self.unwritten == next.unwritten
            && self.len + next.len <= most;
        follows.then_some(Self { len: self.len + next.len, ..*self })
    }
}

/// Blocks of a file that are mapped alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mapped {
    /// This many blocks have none on the device.
    Hole(u64),
    /// They lie on the device one after the other.
    Blocks {
        /// The first.
        start: u64,
        /// How many.
        len: u64,
        /// They read as zeros until they are written.
        unwritten: bool,
    },
}

/// What a map leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visited {
    /// A block of the map itself.
    Map(u64),
    /// Data: the first block of the file, the blocks of the device, whether unwritten.
    Data(u64, Run, bool),
}
