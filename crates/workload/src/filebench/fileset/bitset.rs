//! Sets of small integers with a fast "lowest member from here on".
//!
//! Level 0 has a bit for each number; a word of level n+1 has a bit for each word of level n that is not
//! empty. With 64 bits a word, a million numbers need four levels, and a search looks at two words a level
//! at most.
//!
//! ```text
//! level 2   ………1                 one word
//! level 1   …0010  …0000 …        bit i: word i of level 0 is not empty
//! level 0   …0100  …0000  …0000   bit i: number i is a member
//! ```

const BITS: usize = 64;

/// A set of numbers from 0 up to a fixed capacity.
#[derive(Clone, Debug)]
pub struct Bitset {
    levels: Vec<Vec<u64>>,
    capacity: usize,
    len: usize,
}

impl Bitset {
    /// An empty set for numbers below `capacity`.
    pub fn new(capacity: usize) -> Self {
        let mut levels = Vec::new();
        let mut words = capacity.div_ceil(BITS).max(1);
        loop {
            levels.push(vec![0; words]);
            if words == 1 {
                return Self { levels, capacity, len: 0 };
            }
            words = words.div_ceil(BITS);
        }
    }

    /// The set of all numbers below `capacity`.
    pub fn full(capacity: usize) -> Self {
        let mut set = Self::new(capacity);
        let mut bits = capacity;
        for level in &mut set.levels {
            for (index, word) in level.iter_mut().enumerate() {
                *word = match bits.saturating_sub(index * BITS) {
                    0 => 0,
                    left if left >= BITS => u64::MAX,
                    left => (1 << left) - 1,
                };
            }
            bits = bits.div_ceil(BITS);
        }
        set.len = capacity;
        set
    }

    /// How many numbers are members.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no number is a member.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether `number` is a member.
    pub fn contains(&self, number: usize) -> bool {
        number < self.capacity && self.levels[0][number / BITS] & bit(number) != 0
    }

    /// Adds `number`; false when it was a member already.
    ///
    /// # Panics
    /// When `number` is not below the capacity.
    pub fn insert(&mut self, number: usize) -> bool {
        assert!(number < self.capacity, "{number} is outside of a set for {}", self.capacity);
        if self.contains(number) {
            return false;
        }
        self.len += 1;
        let mut at = number;
        for level in &mut self.levels {
            let word = &mut level[at / BITS];
            let was_empty = *word == 0;
            *word |= bit(at);
            if !was_empty {
                break;
            }
            at /= BITS;
        }
        true
    }

    /// Removes `number`; false when it was not a member.
    pub fn remove(&mut self, number: usize) -> bool {
        if !self.contains(number) {
            return false;
        }
        self.len -= 1;
        let mut at = number;
        for level in &mut self.levels {
            let word = &mut level[at / BITS];
            *word &= !bit(at);
            if *word != 0 {
                break;
            }
            at /= BITS;
        }
        true
    }

    /// The lowest member that is `from` or more.
    pub fn next(&self, from: usize) -> Option<usize> {
        let mut at = from;
        for (height, level) in self.levels.iter().enumerate() {
            let word = level.get(at / BITS)? & (u64::MAX << (at % BITS));
            if word != 0 {
                return Some(self.descend(height, at / BITS * BITS + word.trailing_zeros() as usize));
            }
            at = at / BITS + 1;
        }
        None
    }

    /// The lowest member that is `from` or more, or else the lowest of all.
    pub(crate) fn next_wrapping(&self, from: usize) -> Option<usize> {
        self.next(from).or_else(|| self.next(0))
    }

    /// The lowest member below bit `at` of level `height`.
    fn descend(&self, height: usize, at: usize) -> usize {
        self.levels[..height]
            .iter()
            .rev()
            .fold(at, |at, level| at * BITS + level[at].trailing_zeros() as usize)
    }
}

fn bit(number: usize) -> u64 {
    1 << (number % BITS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn full_set_holds_exactly_the_numbers_below_its_capacity() {
        for capacity in [0, 1, 63, 64, 65, 4095, 4096, 4097, 300_000] {
            let set = Bitset::full(capacity);
            assert_eq!(set.len(), capacity);
            assert_eq!(set.next(0), (capacity > 0).then_some(0));
            assert_eq!(set.next(capacity.saturating_sub(1)), capacity.checked_sub(1));
            assert_eq!(set.next(capacity), None);
        }
    }

    #[test]
    fn search_crosses_long_gaps() {
        let mut set = Bitset::new(1_000_000);
        set.insert(3);
        set.insert(999_999);
        assert_eq!(set.next(4), Some(999_999));
        assert_eq!(set.next_wrapping(1_000_000), Some(3));
        set.remove(999_999);
        assert_eq!(set.next(4), None);
    }

    proptest! {
        #[test]
        fn behaves_like_a_sorted_set(
            capacity in 1usize..10_000,
            steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..400),
        ) {
            let (mut set, mut model) = (Bitset::new(capacity), BTreeSet::new());
            for (insert, index) in steps {
                let number = index.index(capacity);
                if insert {
                    prop_assert_eq!(set.insert(number), model.insert(number));
                } else {
                    prop_assert_eq!(set.remove(number), model.remove(&number));
                }
                let from = index.index(capacity + 1);
                prop_assert_eq!(set.len(), model.len());
                prop_assert_eq!(set.next(from), model.range(from..).next().copied());
                let wrapped = model.range(from..).next().or(model.first()).copied();
                prop_assert_eq!(set.next_wrapping(from), wrapped);
            }
        }
    }
}
