//! Pages of DRAM in which designs buffer blocks.

use sim::{PAGE_BYTES, Recency, ran};

/// A DRAM block. Its bytes are an allocation of their own: together with the counts of an `Arc` they would be more than a
/// page, which allocators round up by a quarter.
pub struct Page {
    lines: Box<Lines>,
    /// Whether the processor's caches have it.
    recency: Recency,
}

/// A page that begins at a line: copies of whole lines stay within lines.
#[repr(align(64))]
struct Lines([u8; PAGE_BYTES]);

impl Default for Page {
    fn default() -> Self {
        Self::new()
    }
}

impl Page {
    /// Makes a page of zeros.
    pub fn new() -> Self {
        Self { lines: ran::boxed(Lines([0; PAGE_BYTES])), recency: Recency::new() }
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8; PAGE_BYTES] {
        &self.lines.0
    }

    /// Charges a copy of `len` bytes from the page to a buffer of the caller.
    pub fn charge_copy_out(&self, len: usize) {
        sim::copy_from(&self.recency, len as u64);
    }

    /// Charges a copy of `len` bytes from a buffer of the caller to the page.
    pub fn charge_copy_in(&self, len: usize) {
        sim::copy_to(&self.recency, len as u64);
    }

    /// Returns the bytes, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8; PAGE_BYTES] {
        &mut self.lines.0
    }
}
