//! Which pages of a region the processor's caches hold, under the virtual clock of a machine that prices copies by level
//! ([`sim::cache`]), and which lines of them: a flush or a store past the caches takes out the lines that it writes.
//!
//! The table is made as pages are used, 512 at a time: 32 bytes for a page of 4 KiB.

use std::sync::OnceLock;

use sim::{CachedPage, PAGE_BYTES};

/// Pages of one piece of the table.
const CHUNK: usize = 512;

pub(super) struct CachedPages {
    chunks: Box<[OnceLock<Box<[CachedPage]>>]>,
}

impl CachedPages {
    pub(super) fn new(len: u64) -> Self {
        let pages = len.div_ceil(PAGE_BYTES as u64) as usize;
        Self { chunks: (0..pages.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect() }
    }

    /// The page that holds offset `off`, which lies in the region.
    pub(super) fn of(&self, off: u64) -> &CachedPage {
        let page = off as usize / PAGE_BYTES;
        let chunk = self.chunks[page / CHUNK].get_or_init(|| (0..CHUNK).map(|_| CachedPage::new()).collect());
        &chunk[page % CHUNK]
    }
}
