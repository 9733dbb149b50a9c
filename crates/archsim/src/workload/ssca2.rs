//! A scale-free graph as the first kernel of SSCA 2.2 builds it. A transaction adds an edge, drawn with R-MAT's probabilities.
//!
//! A vertex has its out-degree, its in-degree, and a ring of its newest edges: target and weight, of one or more words. An edge
//! that leaves the ring lowers the in-degree of its target.

use super::{PmCtx, Workload, below, store_value};
use sim::rng::Rng;

/// Edges that a vertex keeps.
const RING: u64 = 8;
const OUT: u64 = 0;
const IN: u64 = 8;
const EDGES: u64 = 16;
/// R-MAT's quadrants in hundredths (SSCA 2.2: 0.55, 0.1, 0.1, 0.25).
const QUADRANTS: [u64; 3] = [55, 65, 75];

/// See the module.
#[derive(Clone, Debug)]
pub struct Ssca2 {
    words: u64,
    base: u64,
    scale: u32,
    added: u64,
}

impl Ssca2 {
    /// With weights of `words` words.
    pub fn new(words: u64) -> Self {
        Self { words, base: 0, scale: 0, added: 0 }
    }

    fn edge_bytes(&self) -> u64 {
        8 + 8 * self.words
    }

    fn vertex(&self, number: u64) -> u64 {
        self.base + number * (EDGES + RING * self.edge_bytes())
    }

    /// An edge of the R-MAT distribution.
    fn draw(&self, rng: &mut Rng) -> (u64, u64) {
        let (mut from, mut to) = (0, 0);
        for _ in 0..self.scale {
            let at = below(rng, 100);
            let quadrant = QUADRANTS.iter().filter(|bound| at >= **bound).count() as u64;
            (from, to) = (from << 1 | quadrant >> 1, to << 1 | quadrant & 1);
        }
        (from, to)
    }

    fn add(&mut self, memory: &mut dyn PmCtx, from: u64, to: u64) {
        let (source, target) = (self.vertex(from), self.vertex(to));
        let degree = memory.load(source + OUT);
        let edge = source + EDGES + degree % RING * self.edge_bytes();
        memory.alu(6);
        if degree >= RING {
            let old = self.vertex(memory.chase(edge) - 1);
            let lost = memory.chase(old + IN);
            memory.store(old + IN, lost - 1);
        }
        memory.store(edge, to + 1);
        self.added += 1;
        store_value(memory, edge + 8, self.words, self.added);
        memory.store(source + OUT, degree + 1);
        let gained = memory.load(target + IN);
        memory.store(target + IN, gained + 1);
    }
}

impl Workload for Ssca2 {
    fn setup(&mut self, memory: &mut dyn PmCtx, rng: &mut Rng) {
        let vertices = (memory.left() / (EDGES + RING * self.edge_bytes())).max(2);
        self.scale = vertices.ilog2();
        self.base = memory.alloc((EDGES + RING * self.edge_bytes()) << self.scale);
        for _ in 0..RING << self.scale {
            let (from, to) = self.draw(rng);
            self.add(memory, from, to);
        }
    }

    fn step(&mut self, memory: &mut dyn PmCtx, rng: &mut Rng) {
        let (from, to) = self.draw(rng);
        memory.alu(4 * self.scale);
        memory.tx_begin();
        self.add(memory, from, to);
        memory.tx_commit();
    }

    fn check(&self, read: &dyn Fn(u64) -> u64) -> Result<(), String> {
        let vertices = 1 << self.scale;
        let mut into = vec![0; vertices as usize];
        for from in 0..vertices {
            for slot in 0..RING.min(read(self.vertex(from) + OUT)) {
                let to = read(self.vertex(from) + EDGES + slot * self.edge_bytes());
                *into.get_mut(to as usize - 1).ok_or(format!("an edge of {from} leads to {to}"))? += 1;
            }
        }
        let wrong = (0..vertices).find(|vertex| read(self.vertex(*vertex) + IN) != into[*vertex as usize]);
        wrong
            .map_or(Ok(()), |vertex| Err(format!("the in-degree of {vertex} is not the number of its edges")))
    }
}
