//! A vector. A transaction swaps two random entries, or several pairs one after the other.

use super::{PmCtx, Workload, below};
use sim::rng::Rng;

/// See the module.
#[derive(Clone, Debug)]
pub struct Sps {
    words: u64,
    swaps: u64,
    base: u64,
    entries: u64,
}

impl Sps {
    /// With entries of `words` words.
    pub fn new(words: u64) -> Self {
        Self { words, swaps: 1, base: 0, entries: 0 }
    }

    /// With `swaps` swaps in a transaction.
    #[must_use]
    pub(crate) fn swaps(self, swaps: u64) -> Self {
        Self { swaps, ..self }
    }

    fn swap(&self, memory: &mut dyn PmCtx, one: u64, other: u64) {
        for word in (0..self.words).map(|word| 8 * word) {
            memory.alu(2);
            let (a, b) = (memory.load(one + word), memory.load(other + word));
            memory.store(one + word, b);
            memory.store(other + word, a);
        }
    }
}

impl Workload for Sps {
    fn setup(&mut self, memory: &mut dyn PmCtx, _: &mut Rng) {
        self.entries = (memory.left() / (8 * self.words)).max(2);
        self.base = memory.alloc(self.entries * 8 * self.words);
        for word in 0..self.entries * self.words {
            memory.store(self.base + 8 * word, word);
        }
    }

    fn step(&mut self, memory: &mut dyn PmCtx, rng: &mut Rng) {
        memory.alu(20);
        memory.tx_begin();
        for _ in 0..self.swaps {
            let one = self.base + 8 * self.words * below(rng, self.entries);
            let other = self.base + 8 * self.words * below(rng, self.entries);
            self.swap(memory, one, other);
        }
        memory.tx_commit();
    }

    fn check(&self, read: &dyn Fn(u64) -> u64) -> Result<(), String> {
        let mut values: Vec<u64> =
            (0..self.entries * self.words).map(|word| read(self.base + 8 * word)).collect();
        values.sort_unstable();
        let missing = values.iter().enumerate().find(|(at, value)| *at as u64 != **value);
        missing.map_or(Ok(()), |(at, value)| Err(format!("entry {at} of the sorted vector is {value}")))
    }
}
