//! A crit-bit tree, as the example `ctree` of PMDK. A transaction looks a key up, and inserts it if it is not there, removes it if
//! it is.
//!
//! Inner node: number of the highest bit in which the keys below differ, child for 0, child for 1. Leaf: key, value. A link to a
//! leaf has its lowest bit set. Bits fall from the root to the leaves.

use super::{Keyed, Nodes, PmCtx, Workload, store_value};
use sim::rng::Rng;

const BIT: u64 = 0;
const CHILD: u64 = 8;
const INNER: u64 = 24;
const KEY: u64 = 0;
const VALUE: u64 = 8;
/// Marks a link to a leaf.
const LEAF: u64 = 1;

/// See the module.
#[derive(Clone, Debug)]
pub struct CTree {
    words: u64,
    root: u64,
    keys: u64,
    inner: Nodes,
    leaves: Nodes,
}

impl CTree {
    /// With values of `words` words.
    pub fn new(words: u64) -> Self {
        Self { words, root: 0, keys: 0, inner: Nodes::default(), leaves: Nodes::default() }
    }

    fn leaf_bytes(&self) -> u64 {
        VALUE + 8 * self.words
    }

    fn child(key: u64, bit: u64) -> u64 {
        CHILD + 8 * (key >> bit & 1)
    }

    fn new_leaf(&mut self, memory: &mut dyn PmCtx, key: u64) -> u64 {
        let leaf = self.leaves.take(memory, self.leaf_bytes());
        memory.store(leaf + KEY, key);
        store_value(memory, leaf + VALUE, self.words, key);
        leaf | LEAF
    }

    fn remove(&mut self, memory: &mut dyn PmCtx, key: u64, leaf: u64, above: Option<(u64, u64, u64)>) {
        match above {
            None => memory.store(self.root, 0),
            Some((link, inner, bit)) => {
                let sibling = memory.load(inner + Self::child(!key, bit));
                memory.store(link, sibling);
                self.inner.give(memory, inner);
            }
        }
        self.leaves.give(memory, leaf - LEAF);
    }

    fn insert(&mut self, memory: &mut dyn PmCtx, key: u64, differ: u64) {
        let bit = u64::from(differ.ilog2());
        let mut link = self.root;
        let mut node = memory.load(link);
        while node & LEAF == 0 {
            memory.alu(4);
            let here = memory.chase(node + BIT);
            if here < bit {
                break;
            }
            link = node + Self::child(key, here);
            node = memory.chase(link);
        }
        let leaf = self.new_leaf(memory, key);
        let inner = self.inner.take(memory, INNER);
        memory.store(inner + BIT, bit);
        memory.store(inner + Self::child(key, bit), leaf);
        memory.store(inner + Self::child(!key, bit), node);
        memory.store(link, inner);
    }

    /// Bits fall, and every key has the bits of its path. `path`: mask and value of these.
    fn walk(&self, read: &dyn Fn(u64) -> u64, node: u64, above: u64, path: (u64, u64)) -> Result<(), String> {
        if node & LEAF == LEAF {
            let key = read(node - LEAF + KEY);
            let right = key & path.0 == path.1 && (1..=self.keys).contains(&key);
            return if right { Ok(()) } else { Err(format!("key {key} is at a place of other bits")) };
        }
        let bit = read(node + BIT);
        if bit >= above {
            return Err(format!("bit {bit} stands below bit {above}"));
        }
        for side in 0..2 {
            let path = (path.0 | 1 << bit, path.1 | side << bit);
            self.walk(read, read(node + CHILD + 8 * side), bit, path)?;
        }
        Ok(())
    }
}

impl Keyed for CTree {
    fn keys(&self) -> u64 {
        self.keys
    }

    fn flip(&mut self, memory: &mut dyn PmCtx, key: u64) {
        // The link to the leaf that the key's bits lead to, and the inner node and its link above it.
        let (mut link, mut above) = (self.root, None);
        let mut node = memory.load(link);
        if node == 0 {
            let leaf = self.new_leaf(memory, key);
            return memory.store(self.root, leaf);
        }
        while node & LEAF == 0 {
            memory.alu(4);
            let bit = memory.chase(node + BIT);
            above = Some((link, node, bit));
            link = node + Self::child(key, bit);
            node = memory.chase(link);
        }
        memory.alu(4);
        let other = memory.chase(node - LEAF + KEY);
        if other == key {
            self.remove(memory, key, node, above);
        } else {
            self.insert(memory, key, key ^ other);
        }
    }
}

impl Workload for CTree {
    fn setup(&mut self, memory: &mut dyn PmCtx, rng: &mut Rng) {
        self.root = memory.alloc(8);
        memory.store(self.root, 0);
        let population = (memory.left() / 2 / (self.leaf_bytes() + INNER)).max(2);
        self.keys = 2 * population;
        self.fill_half(memory, rng);
    }

    fn step(&mut self, memory: &mut dyn PmCtx, rng: &mut Rng) {
        self.flip_any(memory, rng);
    }

    fn check(&self, read: &dyn Fn(u64) -> u64) -> Result<(), String> {
        match read(self.root) {
            0 => Ok(()),
            root => self.walk(read, root, 64, (0, 0)),
        }
    }
}
