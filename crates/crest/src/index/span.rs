//! Ranges of bytes of files.

use std::ops::Range;

use crate::format::layout::BLOCK;

/// Bytes `start..end` of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Span {
    /// Its first block, and the one behind its last.
    pub(crate) fn blocks(self) -> Range<u64> {
        self.start / BLOCK..self.end.div_ceil(BLOCK)
    }

    /// The blocks that it covers whole.
    pub(crate) fn whole(self) -> Range<u64> {
        self.start.div_ceil(BLOCK)..self.end / BLOCK
    }
}

/// The bytes of a block that lie before `end` of the file.
pub(crate) fn bytes_before(end: u64, block: u64) -> usize {
    end.saturating_sub(block * BLOCK).min(BLOCK) as usize
}
