//! Entries of the cache, the sets that they stand in, and the frames with the copies.
//!
//! Four neighbouring pages of a file share a set of eight entries, so a file has twice as many entries as pages that were ever
//! hot. A file's sets are made in arrays of doubling length, and never move.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use sim::{Line, PAGE_BYTES};

use super::word::{State, Word};

/// Entries of a set.
const WAYS: usize = 8;
/// Pages that share a set.
const SET_PAGES: u64 = 4;
/// Words of a frame.
const FRAME_WORDS: usize = PAGE_BYTES / 8;

/// An entry: where a page lies, and perhaps a copy of it.
pub(crate) struct Entry {
    word: AtomicU64,
    /// The page and its block. Only the owner changes them, while others may look.
    page: AtomicU64,
    source: AtomicU64,
    /// The frame that it keeps, plus one. It stays when the entry becomes invalid, for its next page.
    pub(crate) frame: AtomicU32,
    /// When it was used last, by the coarse clock.
    pub(crate) stamp: AtomicU32,
    /// The line of all this, which cores take from each other.
    pub(crate) line: Line,
}

impl Entry {
    fn new() -> Self {
        Self {
            word: AtomicU64::new(Word::NEW.0),
            page: AtomicU64::new(0),
            source: AtomicU64::new(0),
            frame: AtomicU32::new(0),
            stamp: AtomicU32::new(0),
            line: Line::new(),
        }
    }

    pub(crate) fn word(&self) -> Word {
        Word(self.word.load(Ordering::Acquire))
    }

    /// Changes the word from what was seen, where that may be; false when it may not, or something came between.
    pub(crate) fn change(&self, from: Word, to: Option<Word>) -> bool {
        let swap = |to: Word| self.word.compare_exchange(from.0, to.0, Ordering::SeqCst, Ordering::Relaxed);
        to.is_some_and(|to| swap(to).is_ok())
    }

    pub(crate) fn is_for(&self, page: u64) -> bool {
        self.page.load(Ordering::Relaxed) == page
    }

    pub(crate) fn source(&self) -> u64 {
        self.source.load(Ordering::Relaxed)
    }

    /// By its owner.
    pub(crate) fn set(&self, page: u64, source: u64) {
        self.page.store(page, Ordering::Relaxed);
        self.source.store(source, Ordering::Relaxed);
    }
}

/// The entries of neighbouring pages, and how often each page was missed.
pub(crate) struct Set {
    pub(crate) entries: [Entry; WAYS],
    hot: [AtomicU32; SET_PAGES as usize],
}

impl Set {
    fn new() -> Self {
        Self {
            entries: std::array::from_fn(|_| Entry::new()),
            hot: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// Counts an access to a page in this window of time; answers how many there were. A count that is lost does no harm.
    pub(crate) fn count(&self, page: u64, window: u16) -> u32 {
        let counter = &self.hot[(page % SET_PAGES) as usize];
        let old = counter.load(Ordering::Relaxed);
        let count = if (old >> 16) as u16 == window { (old & 0xffff) + 1 } else { 1 };
        counter.store(u32::from(window) << 16 | count.min(0xffff), Ordering::Relaxed);
        count
    }

    /// The place of an entry to use for a page that has none: a free one, or else the ready one that was used longest ago.
    pub(crate) fn victim(&self) -> Option<(usize, Word)> {
        let words = || self.entries.iter().enumerate().map(|(way, entry)| (way, entry.word()));
        let free = words().find(|(_, word)| word.state() == State::Invalid);
        let oldest = || {
            words()
                .filter(|(_, word)| word.state() == State::Ready)
                .min_by_key(|(way, _)| self.entries[*way].stamp.load(Ordering::Relaxed))
        };
        free.or_else(oldest)
    }
}

/// The sets of one file: array `n` has `2^n` of them.
pub(crate) struct FileTable {
    arrays: [OnceLock<Box<[Set]>>; 32],
}

impl FileTable {
    pub(crate) fn new() -> Self {
        Self { arrays: std::array::from_fn(|_| OnceLock::new()) }
    }

    /// The array of the set of a page, and its place there.
    fn place(page: u64) -> (usize, usize) {
        let number = page / SET_PAGES + 1;
        let array = number.ilog2();
        (array as usize, (number - (1 << array)) as usize)
    }

    /// The set of a page, if its array was made.
    pub(crate) fn get(&self, page: u64) -> Option<&Set> {
        let (array, place) = Self::place(page);
        self.arrays.get(array)?.get()?.get(place)
    }

    /// The set of a page.
    pub(crate) fn make(&self, page: u64) -> Option<&Set> {
        let (array, place) = Self::place(page);
        let sets = self.arrays.get(array)?;
        sets.get_or_init(|| (0..1_u64 << array).map(|_| Set::new()).collect()).get(place)
    }
}

/// A copy of a page, in words: those who read it and the copier may meet only where the word of the entry lets them, and even then
/// do nothing that is undefined.
pub(crate) struct Frame(Box<[AtomicU64]>);

impl Frame {
    pub(crate) fn new() -> Self {
        Self((0..FRAME_WORDS).map(|_| AtomicU64::new(0)).collect())
    }

    pub(crate) fn fill(&self, bytes: &[u8; PAGE_BYTES]) {
        for (word, bytes) in self.0.iter().zip(bytes.chunks_exact(8)) {
            word.store(u64::from_ne_bytes(bytes.try_into().expect("chunks of eight")), Ordering::Relaxed);
        }
    }

    /// Copies the bytes from `within` on.
    pub(crate) fn copy(&self, within: usize, buffer: &mut [u8]) {
        let mut at = within;
        let mut rest = buffer;
        while !rest.is_empty() {
            let bytes = self.0[at / 8].load(Ordering::Relaxed).to_ne_bytes();
            let from = at % 8;
            let len = rest.len().min(8 - from);
            let (part, after) = rest.split_at_mut(len);
            part.copy_from_slice(&bytes[from..from + len]);
            rest = after;
            at += len;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_its_set_and_neighbours_share_one() {
        let table = FileTable::new();
        let set = |page| std::ptr::from_ref(table.make(page).expect("a set")) as usize;
        assert!((0..4).all(|page| set(page) == set(0)) && set(4) != set(3));
        let all: std::collections::BTreeSet<_> = (0..1000).map(|number| set(number * 4)).collect();
        assert_eq!(all.len(), 1000);
        assert!(table.get(1 << 20).is_none());
    }

    #[test]
    fn a_frame_gives_back_any_bytes_of_what_it_was_filled_with() {
        let frame = Frame::new();
        let bytes: [u8; PAGE_BYTES] = std::array::from_fn(|at| (at * 7 % 251) as u8);
        frame.fill(&bytes);
        for (within, len) in [(0, 4096), (0, 1), (5, 2), (7, 20), (4090, 6), (8, 16), (3, 4093)] {
            let mut part = vec![0; len];
            frame.copy(within, &mut part);
            assert_eq!(part, bytes[within..within + len]);
        }
    }

    #[test]
    fn a_page_is_hot_after_so_many_accesses_in_one_window() {
        let set = Set::new();
        assert_eq!([1, 1, 1, 2].map(|window| set.count(7, window)), [1, 2, 3, 1]);
        assert_eq!(set.count(6, 2), 1);
    }
}
