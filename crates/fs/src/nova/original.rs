//! What the module of Linux does on the medium that this design has no need of. A run on a machine whose `originals` are priced
//! stands for the module and pays for it; on every other machine, and under the real clock, nothing here does anything. No byte of
//! the medium changes.
//!
//! | the module | in its source | here |
//! |---|---|---|
//! | counts the entries of a log page in its tail | `nova_inc_page_num_entries` | [`Volume::count_entry`] |
//! | marks an entry that is replaced, and counts it | `nova_invalidate_write_entry` | [`Volume::mark_replaced`] |
//! | reads the entry that maps a page | `do_dax_mapping_read` | [`Volume::read_entry`] |
//! | copies the rest of a block by `memcpy_mcsafe` | `nova_copy_partial_block` | [`copied_rest`] |
//!
//! Counters and marks are flushed each. `memcpy_mcsafe` is used where the processor has `clwb`.

use std::ops::Range;

use sim::LINE_BYTES;

use super::Volume;
use super::layout::BLOCK;
use super::map::Place;

/// Kernels whose `memcpy_mcsafe` copies eight bytes at a time: from its first, 4.6, to its last, 5.9 (`copy_mc_to_kernel`, which
/// follows it, copies as fast as others where the processor recovers by itself).
const COPIES_MCSAFE: Range<(u16, u16)> = (4, 6)..(5, 10);
/// Bytes of an entry of a file: a line.
const ENTRY: u64 = LINE_BYTES as u64;
/// Charges for the copy of `bytes` of a block that a write leaves as they were.
pub(super) fn copied_rest(bytes: usize) {
    if bytes > 0 && sim::follows_originals() && sim::linux().is_some_and(|it| COPIES_MCSAFE.contains(&it)) {
        sim::priced(::vfs::charges::COPY_MCSAFE, bytes.div_ceil(sim::LINE_BYTES) as u64);
    }
}

impl Volume {
    /// One more entry is in the log page that holds `at`.
    pub(super) fn count_entry(&self, at: u64) {
        self.update_word(self.geometry.next_at(at / BLOCK * BLOCK));
    }

    /// The entry that maps page `page` of a file at `place` counts no more.
    pub(super) fn mark_replaced(&self, page: u64, place: Place) {
        self.update_word(self.entry_of(page, place));
        self.count_entry(place.log_page() * BLOCK);
    }

    /// The entry that maps page `page` at `place` is read.
    pub(super) fn read_entry(&self, page: u64, place: Place) {
        if sim::follows_originals() {
            let _scope = sim::scope(media::charges::METADATA);
            self.region.touch_page(self.entry_of(page, place), 1);
        }
    }

    /// Where such an entry is taken to lie. The map knows the log page only; in a log that was written in the order of the file,
    /// the entries of a page are in that order.
    fn entry_of(&self, page: u64, place: Place) -> u64 {
        place.log_page() * BLOCK + page % (self.geometry.log_room / ENTRY) * ENTRY
    }

    /// Stores a word of metadata through the caches and flushes its line; the word keeps its value. A fault of the medium is left
    /// to who reads the word for what it says.
    fn update_word(&self, at: u64) {
        let mut word = [0; 8];
        if !sim::follows_originals() || self.region.peek(at, &mut word).is_err() {
            return;
        }
        let _scope = sim::scope(media::charges::METADATA);
        self.region.touch_page(at - at % ENTRY, 1);
        if self.region.store_cached(at, &word).is_ok() {
            self.region.flush(at, 8);
        }
    }
}
