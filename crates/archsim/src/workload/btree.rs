//! A B+tree. A transaction looks a key up, and inserts it if it is not there, removes it if it is.
//!
//! Node: count and kind, next leaf, then keys and children, or keys and values' places. Values lie by themselves, so that a node
//! moves words only. Nodes split when they are full; a node that loses entries stays, as in many trees for persistent memory, and
//! is filled again by later keys.

use super::{Keyed, Nodes, PmCtx, Workload, store_value};
use sim::rng::Rng;

/// Keys of a node.
const ORDER: u64 = 16;
const COUNT: u64 = 0;
const LEAF: u64 = 8;
const NEXT: u64 = 16;
const KEYS: u64 = 24;
const CHILDREN: u64 = KEYS + 8 * ORDER;
const NODE: u64 = CHILDREN + 8 * (ORDER + 1);
/// Levels that a tree can have.
const DEPTH: usize = 24;

/// See the module.
#[derive(Clone, Debug)]
pub struct BTree {
    words: u64,
    root: u64,
    keys: u64,
    nodes: Nodes,
    values: Nodes,
}

impl BTree {
    /// With values of `words` words.
    pub fn new(words: u64) -> Self {
        Self { words, root: 0, keys: 0, nodes: Nodes::default(), values: Nodes::default() }
    }

    /// First place of a key that is not below `key` (`above`: that is above it).
    fn search(memory: &mut dyn PmCtx, node: u64, count: u64, key: u64, above: bool) -> (u64, bool) {
        let (mut low, mut high) = (0, count);
        let mut found = false;
        while low < high {
            let middle = u64::midpoint(low, high);
            memory.alu(4);
            let here = memory.chase(node + KEYS + 8 * middle);
            found |= here == key;
            if here < key || (above && here == key) { low = middle + 1 } else { high = middle }
        }
        (low, found)
    }

    /// Moves an entry of a leaf.
    fn copy(memory: &mut dyn PmCtx, node: u64, from: u64, to: u64) {
        let key = memory.load(node + KEYS + 8 * from);
        let value = memory.load(node + CHILDREN + 8 * from);
        memory.store(node + KEYS + 8 * to, key);
        memory.store(node + CHILDREN + 8 * to, value);
    }

    /// Puts an entry into a leaf that has room.
    fn insert(memory: &mut dyn PmCtx, node: u64, at: u64, (key, value): (u64, u64)) {
        let count = memory.load(node + COUNT);
        for from in (at..count).rev() {
            Self::copy(memory, node, from, from + 1);
        }
        memory.store(node + KEYS + 8 * at, key);
        memory.store(node + CHILDREN + 8 * at, value);
        memory.store(node + COUNT, count + 1);
    }

    fn new_node(&mut self, memory: &mut dyn PmCtx, leaf: u64) -> u64 {
        let node = self.nodes.take(memory, NODE);
        memory.store(node + LEAF, leaf);
        memory.store(node + NEXT, 0);
        node
    }

    /// Splits a full node, and those above it that become full.
    fn split(&mut self, memory: &mut dyn PmCtx, mut node: u64, path: &[(u64, u64)]) {
        let mut path = path.iter().rev();
        loop {
            let leaf = memory.load(node + LEAF);
            let right = self.new_node(memory, leaf);
            let half = ORDER / 2;
            let up = memory.load(node + KEYS + 8 * half);
            // A leaf keeps the middle key on the right; an inner node gives it to its parent.
            let from = if leaf == 1 { half } else { half + 1 };
            for at in from..ORDER {
                let key = memory.load(node + KEYS + 8 * at);
                memory.store(right + KEYS + 8 * (at - from), key);
            }
            let children = if leaf == 1 { ORDER } else { ORDER + 1 };
            for at in from..children {
                let child = memory.load(node + CHILDREN + 8 * at);
                memory.store(right + CHILDREN + 8 * (at - from), child);
            }
            memory.store(right + COUNT, ORDER - from);
            memory.store(node + COUNT, half);
            if leaf == 1 {
                let next = memory.load(node + NEXT);
                memory.store(right + NEXT, next);
                memory.store(node + NEXT, right);
            }
            let Some((parent, at)) = path.next() else {
                let root = self.new_node(memory, 0);
                memory.store(root + KEYS, up);
                memory.store(root + CHILDREN, node);
                memory.store(root + CHILDREN + 8, right);
                memory.store(root + COUNT, 1);
                return memory.store(self.root, root);
            };
            Self::insert_child(memory, *parent, *at, (up, right));
            if memory.load(parent + COUNT) < ORDER {
                return;
            }
            node = *parent;
        }
    }

    /// Puts a key and the child to its right into an inner node that has room.
    fn insert_child(memory: &mut dyn PmCtx, node: u64, at: u64, (key, child): (u64, u64)) {
        let count = memory.load(node + COUNT);
        for from in (at..count).rev() {
            let key = memory.load(node + KEYS + 8 * from);
            let child = memory.load(node + CHILDREN + 8 * (from + 1));
            memory.store(node + KEYS + 8 * (from + 1), key);
            memory.store(node + CHILDREN + 8 * (from + 2), child);
        }
        memory.store(node + KEYS + 8 * at, key);
        memory.store(node + CHILDREN + 8 * (at + 1), child);
        memory.store(node + COUNT, count + 1);
    }
}

impl Keyed for BTree {
    fn keys(&self) -> u64 {
        self.keys
    }

    /// In an order that splits nodes everywhere.
    fn nth(&self, n: u64) -> u64 {
        1 + (n.wrapping_mul(0x9e37_79b1) % self.keys)
    }

    fn flip(&mut self, memory: &mut dyn PmCtx, key: u64) {
        let mut path = [(0, 0); DEPTH];
        let mut depth = 0;
        let mut node = memory.load(self.root);
        while memory.chase(node + LEAF) == 0 {
            let count = memory.load(node + COUNT);
            let (at, _) = Self::search(memory, node, count, key, true);
            path[depth] = (node, at);
            depth += 1;
            node = memory.chase(node + CHILDREN + 8 * at);
        }
        let count = memory.load(node + COUNT);
        let (at, found) = Self::search(memory, node, count, key, false);
        if found {
            let value = memory.load(node + CHILDREN + 8 * at);
            for from in at + 1..count {
                Self::copy(memory, node, from, from - 1);
            }
            memory.store(node + COUNT, count - 1);
            return self.values.give(memory, value);
        }
        let value = self.values.take(memory, 8 * self.words);
        store_value(memory, value, self.words, key);
        Self::insert(memory, node, at, (key, value));
        if count + 1 == ORDER {
            self.split(memory, node, &path[..depth]);
        }
    }
}

impl Workload for BTree {
    fn setup(&mut self, memory: &mut dyn PmCtx, rng: &mut Rng) {
        self.root = memory.alloc(8);
        let root = self.new_node(memory, 1);
        memory.store(root + COUNT, 0);
        memory.store(self.root, root);
        // A leaf is half full at worst: an entry takes two words and its share of a node twice.
        let entry = 8 * self.words + 4 * NODE / ORDER;
        let population = (memory.left() / 2 / entry).max(2);
        self.keys = 2 * population;
        self.fill_half(memory, rng);
    }

    fn step(&mut self, memory: &mut dyn PmCtx, rng: &mut Rng) {
        self.flip_any(memory, rng);
    }

    fn check(&self, read: &dyn Fn(u64) -> u64) -> Result<(), String> {
        let mut last = 0;
        Self::walk(read, read(self.root), (0, u64::MAX), &mut last)
    }
}

impl BTree {
    /// Keys rise, counts fit, and leaves are linked in order.
    fn walk(
        read: &dyn Fn(u64) -> u64,
        node: u64,
        (low, high): (u64, u64),
        last: &mut u64,
    ) -> Result<(), String> {
        let count = read(node + COUNT);
        if count >= ORDER {
            return Err(format!("a node has {count} keys"));
        }
        let key = |at: u64| read(node + KEYS + 8 * at);
        if (0..count).any(|at| key(at) < low || key(at) >= high || (at > 0 && key(at - 1) >= key(at))) {
            return Err("keys of a node are out of order".into());
        }
        if read(node + LEAF) == 1 {
            if *last != 0 && read(*last + NEXT) != node {
                return Err("leaves are not linked in order".into());
            }
            *last = node;
            return Ok(());
        }
        for at in 0..=count {
            let bounds = (if at == 0 { low } else { key(at - 1) }, if at == count { high } else { key(at) });
            Self::walk(read, read(node + CHILDREN + 8 * at), bounds, last)?;
        }
        Ok(())
    }
}
