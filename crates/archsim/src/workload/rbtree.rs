//! A red-black tree with parent pointers. A transaction looks a key up, and inserts it if it is not there, removes it if it is.
//!
//! Node: key, left, right, parent, colour, value. The leaf is one black node whose parent may change, as in "Introduction to
//! Algorithms".

use super::{Keyed, Nodes, PmCtx, Workload, below, store_value};
use sim::rng::Rng;

const KEY: u64 = 0;
const LEFT: u64 = 8;
const RIGHT: u64 = 16;
const PARENT: u64 = 24;
const COLOUR: u64 = 32;
const VALUE: u64 = 40;
const BLACK: u64 = 0;
const RED: u64 = 1;

/// See the module.
#[derive(Clone, Debug)]
pub struct RbTree {
    words: u64,
    /// Word that holds the root.
    root: u64,
    leaf: u64,
    keys: u64,
    nodes: Nodes,
}

/// The tree with memory at hand.
struct Tree<'a> {
    tree: &'a mut RbTree,
    memory: &'a mut dyn PmCtx,
}

impl RbTree {
    /// With values of `words` words.
    pub fn new(words: u64) -> Self {
        Self { words, root: 0, leaf: 0, keys: 0, nodes: Nodes::default() }
    }
}

/// The other side.
fn other(side: u64) -> u64 {
    LEFT + RIGHT - side
}

impl Tree<'_> {
    fn get(&mut self, node: u64, field: u64) -> u64 {
        self.memory.alu(1);
        self.memory.chase(node + field)
    }

    fn set(&mut self, node: u64, field: u64, value: u64) {
        self.memory.alu(1);
        self.memory.store(node + field, value);
    }

    /// On which side of its parent a node hangs.
    fn side(&mut self, parent: u64, node: u64) -> u64 {
        if self.get(parent, LEFT) == node { LEFT } else { RIGHT }
    }

    /// Puts `new` in the place of `old` below its parent.
    fn replace(&mut self, old: u64, new: u64) {
        let parent = self.get(old, PARENT);
        if parent == self.tree.leaf {
            let root = self.tree.root;
            self.memory.store(root, new);
        } else {
            let side = self.side(parent, old);
            self.set(parent, side, new);
        }
        self.set(new, PARENT, parent);
    }

    /// Turns `node` down to `side`; its other child comes up.
    fn rotate(&mut self, node: u64, side: u64) {
        let up = self.get(node, other(side));
        let inner = self.get(up, side);
        self.set(node, other(side), inner);
        if inner != self.tree.leaf {
            self.set(inner, PARENT, node);
        }
        self.replace(node, up);
        self.set(up, side, node);
        self.set(node, PARENT, up);
    }

    fn flip(&mut self, key: u64) {
        let (leaf, root) = (self.tree.leaf, self.tree.root);
        let mut parent = leaf;
        let mut side = LEFT;
        let mut node = self.memory.load(root);
        while node != leaf {
            let here = self.get(node, KEY);
            if here == key {
                return self.remove(node);
            }
            (parent, side) = (node, if key < here { LEFT } else { RIGHT });
            node = self.get(node, side);
        }
        let bytes = VALUE + 8 * self.tree.words;
        let node = self.tree.nodes.take(self.memory, bytes);
        for (field, value) in [(KEY, key), (LEFT, leaf), (RIGHT, leaf), (PARENT, parent), (COLOUR, RED)] {
            self.set(node, field, value);
        }
        store_value(self.memory, node + VALUE, self.tree.words, key);
        if parent == leaf {
            self.memory.store(root, node);
        } else {
            self.set(parent, side, node);
        }
        self.mend_insertion(node);
    }

    fn mend_insertion(&mut self, mut node: u64) {
        loop {
            let mut parent = self.get(node, PARENT);
            if parent == self.tree.leaf || self.get(parent, COLOUR) == BLACK {
                break;
            }
            let above = self.get(parent, PARENT);
            let side = self.side(above, parent);
            let uncle = self.get(above, other(side));
            if uncle != self.tree.leaf && self.get(uncle, COLOUR) == RED {
                self.set(parent, COLOUR, BLACK);
                self.set(uncle, COLOUR, BLACK);
                self.set(above, COLOUR, RED);
                node = above;
                continue;
            }
            if self.side(parent, node) != side {
                self.rotate(parent, side);
                (node, parent) = (parent, node);
            }
            let _ = node;
            self.set(parent, COLOUR, BLACK);
            self.set(above, COLOUR, RED);
            self.rotate(above, other(side));
            break;
        }
        let root = self.memory.load(self.tree.root);
        if self.get(root, COLOUR) == RED {
            self.set(root, COLOUR, BLACK);
        }
    }

    fn remove(&mut self, node: u64) {
        let leaf = self.tree.leaf;
        let (left, right) = (self.get(node, LEFT), self.get(node, RIGHT));
        let mut lost = self.get(node, COLOUR);
        let hole;
        if left == leaf || right == leaf {
            hole = if left == leaf { right } else { left };
            self.replace(node, hole);
        } else {
            let mut next = right;
            loop {
                let down = self.get(next, LEFT);
                if down == leaf {
                    break;
                }
                next = down;
            }
            let colour = lost;
            lost = self.get(next, COLOUR);
            hole = self.get(next, RIGHT);
            if next == right {
                self.set(hole, PARENT, next);
            } else {
                self.replace(next, hole);
                self.set(next, RIGHT, right);
                self.set(right, PARENT, next);
            }
            self.replace(node, next);
            self.set(next, LEFT, left);
            self.set(left, PARENT, next);
            self.set(next, COLOUR, colour);
        }
        if lost == BLACK {
            self.mend_removal(hole);
        }
        self.tree.nodes.give(self.memory, node);
    }

    fn mend_removal(&mut self, mut node: u64) {
        loop {
            let root = self.memory.load(self.tree.root);
            if node == root || self.get(node, COLOUR) == RED {
                break;
            }
            let parent = self.get(node, PARENT);
            let side = self.side(parent, node);
            let mut sibling = self.get(parent, other(side));
            if self.get(sibling, COLOUR) == RED {
                self.set(sibling, COLOUR, BLACK);
                self.set(parent, COLOUR, RED);
                self.rotate(parent, side);
                sibling = self.get(parent, other(side));
            }
            let near = self.get(sibling, side);
            let mut far = self.get(sibling, other(side));
            let (near_colour, far_colour) = (self.get(near, COLOUR), self.get(far, COLOUR));
            if near_colour == BLACK && far_colour == BLACK {
                self.set(sibling, COLOUR, RED);
                node = parent;
                continue;
            }
            if far_colour == BLACK {
                self.set(near, COLOUR, BLACK);
                self.set(sibling, COLOUR, RED);
                self.rotate(sibling, other(side));
                sibling = self.get(parent, other(side));
                far = self.get(sibling, other(side));
            }
            let colour = self.get(parent, COLOUR);
            self.set(sibling, COLOUR, colour);
            self.set(parent, COLOUR, BLACK);
            self.set(far, COLOUR, BLACK);
            self.rotate(parent, side);
            node = self.memory.load(self.tree.root);
        }
        if self.get(node, COLOUR) == RED {
            self.set(node, COLOUR, BLACK);
        }
    }
}

impl Keyed for RbTree {
    fn keys(&self) -> u64 {
        self.keys
    }

    fn flip(&mut self, memory: &mut dyn PmCtx, key: u64) {
        Tree { tree: self, memory }.flip(key);
    }
}

impl Workload for RbTree {
    fn setup(&mut self, memory: &mut dyn PmCtx, rng: &mut Rng) {
        self.root = memory.alloc(8);
        self.leaf = memory.alloc(VALUE);
        memory.store(self.root, self.leaf);
        let population = (memory.left() / 2 / (VALUE + 8 * self.words)).max(2);
        self.keys = 2 * population;
        for _ in 0..4 * self.keys {
            let key = 1 + below(rng, self.keys);
            if self.nodes.free.is_empty() && memory.left() < VALUE + 8 * self.words {
                break;
            }
            Tree { tree: self, memory }.flip(key);
        }
    }

    fn step(&mut self, memory: &mut dyn PmCtx, rng: &mut Rng) {
        self.flip_any(memory, rng);
    }

    fn check(&self, read: &dyn Fn(u64) -> u64) -> Result<(), String> {
        let root = read(self.root);
        if read(root + COLOUR) != BLACK {
            return Err("the root is red".into());
        }
        self.height(read, root, (0, u64::MAX), 0).map(drop)
    }
}

impl RbTree {
    /// Black height of a subtree whose keys lie between bounds.
    fn height(
        &self,
        read: &dyn Fn(u64) -> u64,
        node: u64,
        (low, high): (u64, u64),
        deep: u32,
    ) -> Result<u32, String> {
        if node == self.leaf {
            return Ok(0);
        }
        let (key, colour) = (read(node + KEY), read(node + COLOUR));
        if key <= low || key >= high || deep > 64 {
            return Err(format!("key {key} is out of order"));
        }
        let (left, right) = (read(node + LEFT), read(node + RIGHT));
        if colour == RED && (read(left + COLOUR) == RED || read(right + COLOUR) == RED) {
            return Err(format!("key {key} and a child of it are red"));
        }
        let under = self.height(read, left, (low, key), deep + 1)?;
        if under != self.height(read, right, (key, high), deep + 1)? {
            return Err(format!("black heights below key {key} differ"));
        }
        Ok(under + u32::from(colour == BLACK))
    }
}
