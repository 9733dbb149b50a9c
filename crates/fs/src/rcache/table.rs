//! The sets that the entries of the cache stand in, and where a page finds its set.
//!
//! Four neighbouring pages of a file share a set of eight entries, so a file has twice as many entries as pages that were ever
//! hot. A file's sets are made in arrays of doubling length, and never move. Only a file with holes has a page beyond as many as
//! the medium has: such a page is not cached, because the arrays before it would take more memory than all that is.

use std::sync::OnceLock;

use sim::sync::{AtomicBool, AtomicU32, Ordering};
use sim::{Line, LockClass, Work};

use super::entry::Entry;
use super::word::{State, Word};

pub(super) static ENTRY: LockClass = LockClass::of_lines(
    "rcache.entry",
    "the word of a cached page: its state and the number of its readers, which each of them changes twice",
);

/// Entries of a set.
const WAYS: usize = 8;
/// Pages that share a set.
const SET_PAGES: u64 = 4;

/// An entry in its line, which cores take from each other.
#[repr(align(64))]
pub(crate) struct Way {
    pub(crate) entry: Entry,
    pub(crate) line: Line,
}

/// The entries of neighbouring pages, and how often each page was missed.
pub(crate) struct Set {
    pub(crate) ways: [Way; WAYS],
    hot: [AtomicU32; SET_PAGES as usize],
}

impl Set {
    fn new() -> Self {
        Self {
            ways: std::array::from_fn(|_| Way { entry: Entry::new(), line: Line::new(&ENTRY) }),
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
        let words = || self.ways.iter().enumerate().map(|(number, way)| (number, way.entry.word()));
        let free = words().find(|(_, word)| word.state() == State::Invalid);
        let oldest = || {
            words()
                .filter(|(_, word)| word.state() == State::Ready)
                .min_by_key(|(way, _)| self.ways[*way].entry.stamp.load(Ordering::Relaxed))
        };
        free.or_else(oldest)
    }
}

/// The sets of one file: array `n` has `2^n` of them.
pub(crate) struct FileTable {
    pub(crate) inode: u64,
    /// Pages that may have a set.
    pages: u64,
    /// The file is removed. Changed under the lock of the frames.
    pub(crate) gone: AtomicBool,
    arrays: [OnceLock<Box<[Set]>>; 32],
}

impl FileTable {
    /// Of a file on a medium of so many pages.
    pub(crate) fn new(inode: u64, pages: u64) -> Self {
        let arrays = std::array::from_fn(|_| OnceLock::new());
        Self { inode, pages, gone: AtomicBool::new(false), arrays }
    }

    /// All sets that were made.
    pub(crate) fn sets(&self) -> impl Iterator<Item = &Set> {
        self.arrays.iter().filter_map(OnceLock::get).flatten()
    }

    /// The entries that wait for the copier when the iterator comes to them: page, and place in its set.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (u64, usize)> {
        self.sets().flat_map(|set| {
            sim::work(Work::STEP, WAYS as u64);
            set.ways.iter().enumerate().filter_map(|(number, way)| {
                let waits = way.entry.word().state() == State::Prep;
                waits.then(|| (way.entry.page(), number))
            })
        })
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

    /// The set of a page, if it may have one.
    pub(crate) fn make(&self, page: u64) -> Option<&Set> {
        if page >= self.pages {
            return None;
        }
        let (array, place) = Self::place(page);
        let sets = self.arrays.get(array)?;
        if sets.get().is_none() {
            sim::ran::allocate(1);
        }
        sets.get_or_init(|| (0..1_u64 << array).map(|_| Set::new()).collect()).get(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_has_its_set_and_neighbours_share_one() {
        let table = FileTable::new(1, 4000);
        let set = |page| std::ptr::from_ref(table.make(page).expect("a set")) as usize;
        assert!((0..4).all(|page| set(page) == set(0)) && set(4) != set(3));
        let all: std::collections::BTreeSet<_> = (0..1000).map(|number| set(number * 4)).collect();
        assert_eq!(all.len(), 1000);
        assert!(table.get(1 << 20).is_none());
        assert!(table.make(3999).is_some() && table.make(4000).is_none());
    }

    #[test]
    fn a_page_is_hot_after_so_many_accesses_in_one_window() {
        let set = Set::new();
        assert_eq!([1, 1, 1, 2].map(|window| set.count(7, window)), [1, 2, 3, 1]);
        assert_eq!(set.count(6, 2), 1);
    }
}
