//! A block of data: incompressible, and different for each worker and each time it is written.
//!
//! ```text
//! 0   worker that wrote it
//! 8   its number: which block of the file, or which write
//! 16  random bytes of the worker
//! ```
//!
//! It begins at a multiple of its size in memory, as direct I/O wants it.

use rand::Rng;
use sim::Seed;

use super::parameters::BLOCK;

const LEN: usize = BLOCK as usize;

/// A block in memory.
#[derive(Debug)]
pub(super) struct Block {
    bytes: Vec<u8>,
    start: usize,
    zeros: bool,
}

impl Block {
    /// The block of worker `w`; with `zeros`, one that stays zero.
    pub(super) fn new(seed: Seed, w: u64, zeros: bool) -> Self {
        let mut block = Self::empty();
        block.zeros = zeros;
        if !zeros {
            seed.derive("fxmark.block", w).rng().fill_bytes(&mut block.bytes_mut()[16..]);
            block.bytes_mut()[..8].copy_from_slice(&w.to_le_bytes());
        }
        block
    }

    /// A block to read into.
    pub(super) fn empty() -> Self {
        let bytes = vec![0; 2 * LEN];
        let start = bytes.as_ptr().align_offset(LEN);
        Self { bytes, start, zeros: false }
    }

    /// The bytes of the block with this number.
    #[inline]
    pub(super) fn numbered(&mut self, number: u64) -> &[u8] {
        if !self.zeros {
            self.bytes_mut()[8..16].copy_from_slice(&number.to_le_bytes());
        }
        self.bytes()
    }

    /// The bytes of the block.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.start + LEN]
    }

    /// The bytes of the block.
    #[inline]
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + LEN]
    }
}
