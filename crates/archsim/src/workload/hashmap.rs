//! A hash map with a header, as the example `hashmap_tx` of PMDK: a universal hash function whose coefficients are persistent, a
//! count that every change updates, chained entries. A transaction inserts a key at the head of its chain, or removes it.
//!
//! Header: two coefficients, count. The number of buckets is that of the initial population; the map does not grow.

use super::{Keyed, Nodes, PmCtx, Workload, below, store_value};
use sim::rng::Rng;

const FACTOR: u64 = 0;
const ADDEND: u64 = 8;
const COUNT: u64 = 16;
const HEADER: u64 = 64;
const KEY: u64 = 0;
const NEXT: u64 = 8;
const VALUE: u64 = 16;
/// The prime of the hash function.
const PRIME: u64 = 32_212_254_719;

/// See the module.
#[derive(Clone, Debug)]
pub struct HashMap {
    words: u64,
    header: u64,
    table: u64,
    buckets: u64,
    keys: u64,
    nodes: Nodes,
}

impl HashMap {
    /// With values of `words` words.
    pub fn new(words: u64) -> Self {
        Self { words, header: 0, table: 0, buckets: 1, keys: 0, nodes: Nodes::default() }
    }

    fn entry_bytes(&self) -> u64 {
        VALUE + 8 * self.words
    }

    fn bucket(&self, key: u64, factor: u64, addend: u64) -> u64 {
        let hash = (u128::from(factor) * u128::from(key) + u128::from(addend)) % u128::from(PRIME);
        self.table + 8 * (hash as u64 % self.buckets)
    }
}

impl Keyed for HashMap {
    fn keys(&self) -> u64 {
        self.keys
    }

    fn flip(&mut self, memory: &mut dyn PmCtx, key: u64) {
        let (factor, addend) = (memory.load(self.header + FACTOR), memory.load(self.header + ADDEND));
        memory.alu(12);
        let head = self.bucket(key, factor, addend);
        let mut link = head;
        let mut entry = memory.load(link);
        while entry != 0 && memory.chase(entry + KEY) != key {
            memory.alu(3);
            link = entry + NEXT;
            entry = memory.load(link);
        }
        let count = memory.load(self.header + COUNT);
        if entry != 0 {
            let next = memory.load(entry + NEXT);
            memory.store(link, next);
            memory.store(self.header + COUNT, count - 1);
            return self.nodes.give(memory, entry);
        }
        let first = memory.load(head);
        let entry = self.nodes.take(memory, self.entry_bytes());
        memory.store(entry + KEY, key);
        memory.store(entry + NEXT, first);
        store_value(memory, entry + VALUE, self.words, key);
        memory.store(head, entry);
        memory.store(self.header + COUNT, count + 1);
    }
}

impl Workload for HashMap {
    fn setup(&mut self, memory: &mut dyn PmCtx, rng: &mut Rng) {
        self.header = memory.alloc(HEADER);
        memory.store(self.header + FACTOR, 1 + below(rng, PRIME - 1));
        memory.store(self.header + ADDEND, below(rng, PRIME));
        memory.store(self.header + COUNT, 0);
        let population = (memory.left() / 2 / (self.entry_bytes() + 8)).max(2);
        (self.keys, self.buckets) = (2 * population, population);
        self.table = memory.alloc(8 * self.buckets);
        self.fill_half(memory, rng);
    }

    fn step(&mut self, memory: &mut dyn PmCtx, rng: &mut Rng) {
        self.flip_any(memory, rng);
    }

    fn check(&self, read: &dyn Fn(u64) -> u64) -> Result<(), String> {
        let (factor, addend) = (read(self.header + FACTOR), read(self.header + ADDEND));
        let mut entries = 0;
        for bucket in (0..self.buckets).map(|bucket| self.table + 8 * bucket) {
            let mut entry = read(bucket);
            while entry != 0 {
                entries += 1;
                let key = read(entry + KEY);
                if self.bucket(key, factor, addend) != bucket || entries > self.keys {
                    return Err(format!(
                        "key {key} is in the chain of another bucket, or a chain has a cycle"
                    ));
                }
                entry = read(entry + NEXT);
            }
        }
        let count = read(self.header + COUNT);
        if count == entries { Ok(()) } else { Err(format!("the header counts {count} entries of {entries}")) }
    }
}
