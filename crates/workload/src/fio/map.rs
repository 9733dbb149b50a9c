//! Which blocks of a file were visited in this pass (`norandommap=0`): a bit for each block, and one for each word that is full.

/// A set of blocks that only grows.
#[derive(Clone, Debug)]
pub(super) struct BlockMap {
    blocks: u64,
    left: u64,
    words: Vec<u64>,
    /// A bit for each word without a free block.
    full: Vec<u64>,
}

const BITS: u64 = 64;

impl BlockMap {
    /// A map of `blocks` blocks, none visited.
    pub(super) fn new(blocks: u64) -> Self {
        let words = blocks.div_ceil(BITS);
        let full = words.div_ceil(BITS);
        let mut map =
            Self { blocks, left: blocks, words: vec![0; words as usize], full: vec![0; full as usize] };
        map.clear();
        map
    }

    /// Forgets all visits.
    pub(super) fn clear(&mut self) {
        self.left = self.blocks;
        self.words.fill(0);
        self.full.fill(0);
        // Bits beyond the end are never free.
        if !self.blocks.is_multiple_of(BITS) {
            *self.words.last_mut().expect("a rest makes a word") = u64::MAX << (self.blocks % BITS);
        }
        let words = self.words.len() as u64;
        if !words.is_multiple_of(BITS) {
            *self.full.last_mut().expect("a rest makes a word") = u64::MAX << (words % BITS);
        }
    }

    /// Blocks that were not visited.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    fn is_free(&self, block: u64) -> bool {
        block < self.blocks && self.words[(block / BITS) as usize] >> (block % BITS) & 1 == 0
    }

    /// The first free block at or after `block`, or else the first of all; none when all were visited.
    pub(super) fn next_free(&self, block: u64) -> Option<u64> {
        if self.left == 0 {
            return None;
        }
        let word = block / BITS;
        let here = self.words[word as usize] | below(block % BITS);
        if here != u64::MAX {
            return Some(word * BITS + here.trailing_ones() as u64);
        }
        let word = self.next_word(word + 1).or_else(|| self.next_word(0))?;
        Some(word * BITS + self.words[word as usize].trailing_ones() as u64)
    }

    /// The first word at or after `word` that has a free block.
    fn next_word(&self, word: u64) -> Option<u64> {
        let mut mask = below(word % BITS);
        for at in (word / BITS) as usize..self.full.len() {
            let here = self.full[at] | mask;
            if here != u64::MAX {
                return Some(at as u64 * BITS + here.trailing_ones() as u64);
            }
            mask = 0;
        }
        None
    }

    /// Visits free blocks from `block` on, at most `wanted`, until one that was visited; returns how many.
    pub(super) fn visit(&mut self, block: u64, wanted: u64) -> u64 {
        let mut count = 0;
        while count < wanted && self.is_free(block + count) {
            let (word, bit) = ((block + count) / BITS, (block + count) % BITS);
            self.words[word as usize] |= 1 << bit;
            if self.words[word as usize] == u64::MAX {
                self.full[(word / BITS) as usize] |= 1 << (word % BITS);
            }
            count += 1;
        }
        self.left -= count;
        count
    }
}

/// The bits below bit number `bit`.
fn below(bit: u64) -> u64 {
    (1 << bit) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt as _;
    use std::collections::BTreeSet;

    #[test]
    fn it_agrees_with_a_set_until_all_is_visited() {
        for blocks in [1, 63, 64, 65, 4096, 4097, 10_000] {
            let (mut map, mut rng) = (BlockMap::new(blocks), sim::Seed(blocks).rng());
            let mut free: BTreeSet<u64> = (0..blocks).collect();
            while let Some(found) = map.next_free(rng.random_range(0..blocks)) {
                assert!(free.contains(&found), "{blocks}: {found} was visited");
                let from = rng.random_range(0..blocks);
                let expected = free.range(from..).next().or_else(|| free.iter().next()).copied();
                assert_eq!(map.next_free(from), expected);
                let count = map.visit(found, rng.random_range(1..20));
                assert!(count > 0 && (found..found + count).all(|block| free.remove(&block)));
                assert_eq!(map.left(), free.len() as u64);
            }
            assert!(free.is_empty());
            map.clear();
            assert_eq!(map.left(), blocks);
        }
    }
}
