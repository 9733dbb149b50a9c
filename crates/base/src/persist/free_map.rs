//! Which blocks are free: a bitmap with summaries.
//!
//! Bit set: free. Each level above has one bit for each word below, set when the word has a free bit, so finding the lowest
//! free block takes one step a level: four for 16 million blocks. Memory: 1.016 bits a block.
//!
//! The kernel's PMFS keeps a sorted list of extents in use and searches it from the head. It picks the same block, the lowest
//! free one, but its search time grows with fragmentation; this map's does not.

use std::ops::RangeInclusive;

use sim::Run;

/// A set of blocks, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeMap {
    /// Level 0 has a bit for each block.
    levels: Vec<Vec<u64>>,
    blocks: u64,
    free: u64,
    /// During a trim: the blocks that were free when it began, and have not been freed since.
    settled: Option<Box<FreeMap>>,
}

const WORD_BITS: u64 = 64;

/// The words that have the blocks from `first` up to `end`: which, and their bits.
fn words_of(first: u64, end: u64) -> impl DoubleEndedIterator<Item = (u64, u64)> {
    let words = if first < end { first / WORD_BITS..end.div_ceil(WORD_BITS) } else { 0..0 };
    words.map(move |at| {
        let base = at * WORD_BITS;
        let (from, to) = (first.max(base) - base, end.min(base + WORD_BITS) - base);
        (at, u64::MAX << from & u64::MAX >> (WORD_BITS - to))
    })
}

impl FreeMap {
    /// A map of `blocks` blocks, none of them free.
    pub fn new(blocks: u64) -> Self {
        let mut levels = Vec::new();
        let mut bits = blocks.max(1);
        loop {
            let words = bits.div_ceil(WORD_BITS);
            levels.push(vec![0; words as usize]);
            if words == 1 {
                return Self { levels, blocks, free: 0, settled: None };
            }
            bits = words;
        }
    }

    /// Number of blocks, free or not.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Number of free blocks.
    pub fn free(&self) -> u64 {
        self.free
    }

    /// Steps that a search takes: the number of levels.
    pub fn depth(&self) -> u64 {
        self.levels.len() as u64
    }

    /// Whether `block` is free.
    pub fn is_free(&self, block: u64) -> bool {
        block < self.blocks && self.levels[0][(block / WORD_BITS) as usize] >> (block % WORD_BITS) & 1 == 1
    }

    /// Adds a block that is in use to the free ones. False, and nothing is done, when it was free or does not exist.
    pub fn put(&mut self, block: u64) -> bool {
        if block >= self.blocks || self.is_free(block) {
            return false;
        }
        self.put_run(block, 1);
        true
    }

    /// Adds those of a run of blocks to the free ones that are in use and exist. Returns the units of [`sim::Work::NODE`] that it
    /// took: one for each word.
    pub fn put_run(&mut self, first: u64, count: u64) -> u64 {
        let end = (first + count).min(self.blocks);
        if let Some(settled) = &mut self.settled {
            settled.clear(first, end);
        }
        let mut words = 0;
        for (at, mask) in words_of(first, end) {
            let word = &mut self.levels[0][at as usize];
            let was_empty = *word == 0;
            self.free += u64::from((mask & !*word).count_ones());
            *word |= mask;
            if was_empty {
                self.note_free(at);
            }
            words += 1;
        }
        sim::ran::did(sim::Work::NODE, words);
        words
    }

    /// A word of level 0 has a free block, and had none.
    fn note_free(&mut self, mut bit: u64) {
        for level in &mut self.levels[1..] {
            let word = &mut level[(bit / WORD_BITS) as usize];
            let was_empty = *word == 0;
            *word |= 1 << (bit % WORD_BITS);
            if !was_empty {
                break;
            }
            bit /= WORD_BITS;
        }
    }

    /// Takes `block`. False, and nothing is done, when it is not free.
    pub fn take(&mut self, block: u64) -> bool {
        if !self.is_free(block) {
            return false;
        }
        let words = self.clear(block, block + 1);
        sim::ran::did(sim::Work::NODE, words);
        true
    }

    /// Takes the blocks from `first` up to `end` that are free; returns the number of words that have them.
    fn clear(&mut self, first: u64, end: u64) -> u64 {
        let mut words = 0;
        for (at, mask) in words_of(first, end) {
            let word = &mut self.levels[0][at as usize];
            let taken = mask & *word;
            self.free -= u64::from(taken.count_ones());
            *word &= !mask;
            if taken != 0 && *word == 0 {
                self.note_full(at);
            }
            words += 1;
        }
        words
    }

    /// A word of level 0 has no free block any more.
    fn note_full(&mut self, mut bit: u64) {
        for level in &mut self.levels[1..] {
            let word = &mut level[(bit / WORD_BITS) as usize];
            *word &= !(1 << (bit % WORD_BITS));
            if *word != 0 {
                break;
            }
            bit /= WORD_BITS;
        }
    }

    /// Takes the lowest free block.
    pub fn take_first(&mut self) -> Option<u64> {
        let first = self.first_from(0)?;
        self.take(first);
        Some(first)
    }

    /// Takes the lowest run of `count` free blocks whose first is a multiple of `align`.
    pub fn take_run(&mut self, count: u64, align: u64) -> Option<u64> {
        let mut start = 0;
        loop {
            start = self.first_from(start)?.next_multiple_of(align);
            let end = start + count;
            if end > self.blocks {
                return None;
            }
            if let Some(used) = self.last_used(start, end) {
                start = used + 1;
            } else {
                let words = self.clear(start, end);
                sim::ran::did(sim::Work::NODE, words);
                return Some(start);
            }
        }
    }

    /// The last block in use from `first` up to `end`.
    fn last_used(&self, first: u64, end: u64) -> Option<u64> {
        words_of(first, end).rev().find_map(|(at, mask)| {
            let used = mask & !self.levels[0][at as usize];
            (used != 0).then(|| at * WORD_BITS + u64::from(used.ilog2()))
        })
    }

    /// A trim begins, or ends.
    pub fn set_trimmed(&mut self, is_trimmed: bool) {
        self.settled = None;
        self.settled = is_trimmed.then(|| Box::new(self.clone()));
    }

    /// Takes blocks for a trim that follow one another, and have been free since it began: the first such run at or after `from`,
    /// of so many blocks, but not more than half of what is free.
    pub fn take_settled_run(&mut self, from: u64, count: RangeInclusive<u64>) -> Option<Run> {
        let (least, most) = count.into_inner();
        let most = most.min(self.free / 2);
        let mut first = if most < least.max(1) { return None } else { from };
        loop {
            let settled = self.settled.as_ref()?;
            first = settled.first_from(first)?;
            let is_in_run = |block: &u64| settled.is_free(*block) && self.is_free(*block);
            let blocks = (first..first.saturating_add(most)).take_while(is_in_run).count() as u64;
            if blocks >= least.max(1) {
                self.clear(first, first + blocks);
                return Some(Run::new(first, blocks));
            }
            first += blocks + 1;
        }
    }

    /// The lowest free block at or after `from`.
    pub(crate) fn first_from(&self, from: u64) -> Option<u64> {
        sim::ran::did(sim::Work::NODE, 1);
        let mut bit = from;
        for (height, level) in self.levels.iter().enumerate() {
            let word = level.get((bit / WORD_BITS) as usize)?;
            let rest = word & (u64::MAX << (bit % WORD_BITS));
            if rest != 0 {
                let found = bit / WORD_BITS * WORD_BITS + u64::from(rest.trailing_zeros());
                return Some(self.descend(height, found));
            }
            bit = bit / WORD_BITS + 1;
        }
        None
    }

    /// The lowest free block below bit `bit` of level `height`, which is set.
    fn descend(&self, height: usize, mut bit: u64) -> u64 {
        for level in self.levels[..height].iter().rev() {
            bit = bit * WORD_BITS + u64::from(level[bit as usize].trailing_zeros());
        }
        bit
    }

    /// The runs of blocks in use, in order.
    pub fn used_runs(&self) -> Vec<RangeInclusive<u64>> {
        let mut runs: Vec<RangeInclusive<u64>> = Vec::new();
        for block in (0..self.blocks).filter(|block| !self.is_free(*block)) {
            match runs.last_mut() {
                Some(run) if run.end() + 1 == block => *run = *run.start()..=block,
                _ => runs.push(block..=block),
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_map_agrees_with_an_ordered_set() {
        for blocks in [1, 63, 64, 65, 4096, 4097, 300_000] {
            agree(blocks);
        }
    }

    fn agree(blocks: u64) {
        let (mut map, mut model) = (FreeMap::new(blocks), BTreeSet::new());
        let mut x = 12_345u64;
        for _ in 0..4_000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let block = (x >> 33) % blocks;
            let end = (block + (x >> 20 & 255)).min(blocks);
            match x >> 28 & 15 {
                8..12 => {
                    map.put_run(block, end - block);
                    model.extend(block..end);
                }
                // The model looks at every block.
                12..16 if blocks <= 4097 => {
                    let (count, align) = ((x >> 20 & 127) + 1, 1 << (x >> 18 & 3));
                    let is_free = |start: &u64| (*start..start + count).all(|block| model.contains(&block));
                    let lowest = (0..blocks).step_by(align as usize).find(is_free);
                    assert_eq!(map.take_run(count, align), lowest);
                    let taken = lowest.map_or(0..0, |first| first..first + count);
                    taken.for_each(|block| assert!(model.remove(&block)));
                }
                0..4 => assert_eq!(map.put(block), model.insert(block)),
                4..6 => assert_eq!(map.take(block), model.remove(&block)),
                6 => assert_eq!(map.take_first(), model.pop_first()),
                _ => assert_eq!(map.is_free(block), model.contains(&block)),
            }
            assert_eq!(map.free(), model.len() as u64);
        }
    }

    #[test]
    fn a_run_is_aligned_and_the_lowest_that_fits() {
        let mut map = FreeMap::new(4096);
        (0..4096).for_each(|block| assert!(map.put(block)));
        assert!(map.take(3) && map.take(512 + 17));
        assert_eq!(map.take_run(512, 512), Some(1024));
        assert_eq!(map.take_run(2, 1), Some(0));
        assert_eq!(map.take_run(4096, 1), None);
    }

    #[test]
    fn a_trim_takes_runs_that_were_free_when_it_began_and_ever_since() {
        let mut map = FreeMap::new(400);
        (10..20).chain(60..130).chain(200..330).for_each(|block| assert!(map.put(block)));
        assert_eq!(map.take_settled_run(0, 1..=64), None, "no trim has begun");
        map.set_trimmed(true);
        assert!(map.take(70) && map.put(70), "used since");
        assert!(map.put(20) && map.put(330), "freed since");
        assert!(map.take(300), "in use");
        assert_eq!(map.take_settled_run(0, 5..=64), Some(Run::new(10, 10)));
        assert_eq!(map.take_settled_run(20, 11..=64), Some(Run::new(71, 59)), "the run before is too short");
        assert_eq!(map.take_settled_run(130, 1..=64), Some(Run::new(200, 64)));
        let half = map.free() / 2;
        assert_eq!(map.take_settled_run(264, 1..=100), Some(Run::new(264, half.min(36))));
        (264..264 + half.min(36)).for_each(|block| assert!(map.put(block)));
        assert_eq!(
            map.take_settled_run(264, 1..=64),
            Some(Run::new(301, 29)),
            "what is put back is not taken again"
        );
        map.set_trimmed(false);
        assert_eq!(map.take_settled_run(0, 1..=64), None);
    }

    #[test]
    fn used_runs_cover_what_is_in_use() {
        let mut map = FreeMap::new(100);
        (10..20).chain(90..100).for_each(|block| assert!(map.put(block)));
        assert_eq!(map.used_runs(), [0..=9, 20..=89]);
    }
}
