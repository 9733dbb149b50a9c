//! An open-chain hash table. A transaction looks a key up, and inserts it if it is not there, removes it if it is.
//!
//! Node: key, next, value. Keys are uniform over twice the initial population, so that insertions and removals balance.

use super::{Keyed, Nodes, PmCtx, Workload, store_value};
use sim::rng::Rng;

const KEY: u64 = 0;
const NEXT: u64 = 8;
const VALUE: u64 = 16;

/// See the module.
#[derive(Clone, Debug)]
pub struct Hash {
    words: u64,
    table: u64,
    buckets: u64,
    keys: u64,
    nodes: Nodes,
}

impl Hash {
    /// With values of `words` words.
    pub fn new(words: u64) -> Self {
        Self { words, table: 0, buckets: 0, keys: 0, nodes: Nodes::default() }
    }

    fn node_bytes(&self) -> u64 {
        VALUE + 8 * self.words
    }

    fn bucket(&self, key: u64) -> u64 {
        self.table + 8 * (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20 & (self.buckets - 1))
    }
}

impl Keyed for Hash {
    fn keys(&self) -> u64 {
        self.keys
    }

    fn flip(&mut self, memory: &mut dyn PmCtx, key: u64) {
        memory.alu(8);
        let mut link = self.bucket(key);
        let mut node = memory.load(link);
        while node != 0 {
            memory.alu(3);
            if memory.chase(node + KEY) == key {
                let next = memory.load(node + NEXT);
                memory.store(link, next);
                return self.nodes.give(memory, node);
            }
            link = node + NEXT;
            node = memory.load(link);
        }
        let head = self.bucket(key);
        let first = memory.load(head);
        let node = self.nodes.take(memory, self.node_bytes());
        memory.store(node + KEY, key);
        memory.store(node + NEXT, first);
        store_value(memory, node + VALUE, self.words, key);
        memory.store(head, node);
    }
}

impl Workload for Hash {
    fn setup(&mut self, memory: &mut dyn PmCtx, rng: &mut Rng) {
        // Room for twice the population, which random walks of its size do not reach.
        let population = (memory.left() / 2 / (self.node_bytes() + 8)).max(2);
        self.keys = 2 * population;
        self.buckets = population.next_power_of_two() / if population.is_power_of_two() { 1 } else { 2 };
        self.table = memory.alloc(8 * self.buckets);
        self.fill_half(memory, rng);
    }

    fn step(&mut self, memory: &mut dyn PmCtx, rng: &mut Rng) {
        self.flip_any(memory, rng);
    }

    fn check(&self, read: &dyn Fn(u64) -> u64) -> Result<(), String> {
        let mut nodes = 0;
        for bucket in 0..self.buckets {
            let mut node = read(self.table + 8 * bucket);
            while node != 0 {
                let key = read(node + KEY);
                if self.bucket(key) != self.table + 8 * bucket {
                    return Err(format!("key {key} hangs in bucket {bucket}"));
                }
                nodes += 1;
                if nodes > self.keys {
                    return Err(format!("the chain of bucket {bucket} has a cycle"));
                }
                node = read(node + NEXT);
            }
        }
        Ok(())
    }
}
