//! Frames: the memory that copies of pages lie in.
//!
//! A reader copies from a frame under a pin on its entry, and the copier fills it while the entry is in Copy, which no pin can
//! be taken in: so a frame is never read and filled at once, and plain copies are enough. The loom test holds the frames to that
//! with memory of its own, which finds a copy that is torn.

use sim::Recency;

use super::memory::Piece;

/// A copy of a page.
pub(crate) struct Frame {
    bytes: Piece,
    /// When it was copied from or to last.
    recency: Recency,
}

impl Frame {
    pub(crate) fn new(bytes: Piece) -> Self {
        Self { bytes, recency: Recency::new() }
    }

    /// Copies the bytes in; false when the memory ends before them.
    pub(crate) fn fill(&self, bytes: &[u8]) -> bool {
        sim::copy_to(&self.recency, bytes.len() as u64);
        self.bytes.fill(bytes)
    }

    /// Copies the bytes from `within` on; false when the memory ends before that.
    pub(crate) fn copy(&self, within: usize, buffer: &mut [u8]) -> bool {
        sim::copy_from(&self.recency, buffer.len() as u64);
        self.bytes.copy(within, buffer)
    }
}
