//! The pages of a file that are in frames because of mappings (`calls/mapped_atomic.rs`).

use std::fmt;
use std::ops::Range;

use sim::map::TreeMap;
use sim::ran;

use crate::store::frames;

/// A page in a frame.
pub(crate) struct Page {
    pub(crate) frame: frames::Page,
    /// The block to which it will be stored, of a dirty one.
    pub(crate) target: Option<u64>,
}

/// The pages of a file that are in frames.
#[derive(Default)]
pub(crate) struct Pages {
    /// Those of mappings that may store to them.
    pub(crate) mapped: Vec<Range<u64>>,
    pub(crate) held: TreeMap<u64, Page>,
    pub(crate) dirty: u64,
    /// Frames for pages that have none yet.
    pub(crate) spare: Vec<frames::Page>,
    /// While there are dirty pages: a record of a time with a smaller stamp than this is older than one that counts.
    pub(crate) kept: u64,
    /// The time of the last store that made a page dirty, for the record.
    pub(crate) stamp: u64,
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages")
            .field("mapped", &self.mapped)
            .field("dirty", &self.dirty)
            .finish_non_exhaustive()
    }
}

impl Pages {
    /// Pages that may become dirty or are.
    pub(crate) fn wanted(&self) -> u64 {
        let mut ranges = self.mapped.clone();
        ranges.extend(
            self.held.range(..).filter(|(_, page)| page.target.is_some()).map(|(at, _)| *at..*at + 1),
        );
        ranges.sort_by_key(|range| range.start);
        let (mut count, mut end) = (0_u64, 0);
        for range in ranges {
            count = count.saturating_add(range.end.saturating_sub(range.start.max(end)));
            end = end.max(range.end);
        }
        count
    }

    /// The dirty pages of a range, and the blocks that were taken for these, both ascending.
    pub(crate) fn dirty_in(&self, range: Range<u64>) -> Vec<(u64, u64)> {
        let dirty = self.held.range(range).filter_map(|(at, page)| Some((*at, page.target?)));
        let (pages, mut targets): (Vec<u64>, Vec<u64>) = dirty.unzip();
        ran::allocate(2 * u64::from(!pages.is_empty()));
        // Which of them gets which does not matter: neighbours in one extent.
        targets.sort_unstable();
        pages.into_iter().zip(targets).collect()
    }

    /// A frame for a page that has none: a spare one, or that of a clean page.
    pub(crate) fn frame(&mut self) -> Option<frames::Page> {
        if let Some(frame) = self.spare.pop() {
            return Some(frame);
        }
        let clean = self.held.range(..).find(|(_, page)| page.target.is_none()).map(|(at, _)| *at)?;
        self.held.remove(&clean).map(|page| page.frame)
    }

    /// Whether a mapping may store to them.
    pub(crate) fn are_mapped(&self) -> bool {
        !self.mapped.is_empty()
    }

    /// The first dirty page from one on.
    pub(crate) fn next_dirty(&self, first: u64) -> Option<u64> {
        if self.dirty == 0 {
            return None;
        }
        self.held.range(first..).find(|(_, page)| page.target.is_some()).map(|(at, _)| *at)
    }
}
