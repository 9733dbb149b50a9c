//! Programs over persistent memory: [`PmCtx`] is all that they see.
//!
//! One source serves runs, traces and the crash oracle. Each hardware thread works on its own instance of a structure, in its own
//! part of memory, so that what a thread does depends on the seed and never on simulated time, and no locks are needed.

pub mod btree;
pub mod ctree;
pub mod echo;
pub mod hash;
pub mod hashmap;
pub mod memcached;
pub mod nstore;
pub mod rbtree;
pub mod sps;
pub mod ssca2;
pub mod vacation;

use crate::error::{Error, unknown};
use crate::machine::Machine;
use sim::rng::{Rng, Seed};

/// Memory and transactions as a program sees them.
pub trait PmCtx {
    /// Loads a word whose address is known early.
    fn load(&mut self, addr: u64) -> u64;
    /// Loads a word whose address came from the load before.
    fn chase(&mut self, addr: u64) -> u64;
    /// Stores a word.
    fn store(&mut self, addr: u64, value: u64);
    /// Stores words, at most a line, past the caches; what they hold does not matter.
    fn store_past(&mut self, addr: u64, words: u64);
    /// Writes the line of `addr` back, if it is dirty; the program's own, under every scheme.
    fn flush(&mut self, addr: u64);
    /// Waits for write-backs and stores past the caches; the program's own, under every scheme.
    fn fence(&mut self);
    /// Executes instructions that touch no memory.
    fn alu(&mut self, instructions: u32);
    /// Begins a transaction.
    fn tx_begin(&mut self);
    /// Commits it.
    fn tx_commit(&mut self);
    /// Ends an operation that needed no transaction, which counts as one.
    fn done(&mut self);
    /// Memory of the thread's own; it is never given back.
    fn alloc(&mut self, bytes: u64) -> u64;
    /// Bytes that [`PmCtx::alloc`] still has.
    fn left(&self) -> u64;
}

/// A copy of a workload in its present state.
pub trait Copied {
    /// The copy.
    fn copied(&self) -> Box<dyn Workload>;
}

impl<W: Workload + Clone + 'static> Copied for W {
    fn copied(&self) -> Box<dyn Workload> {
        Box::new(self.clone())
    }
}

/// A program of one thread.
pub trait Workload: Copied + Send + Sync {
    /// Builds its structure.
    fn setup(&mut self, memory: &mut dyn PmCtx, rng: &mut Rng);
    /// One transaction (or one operation that needs none).
    fn step(&mut self, memory: &mut dyn PmCtx, rng: &mut Rng);
    /// What is wrong with the structure, if anything.
    ///
    /// # Errors
    /// The broken invariant in words.
    fn check(&self, read: &dyn Fn(u64) -> u64) -> Result<(), String>;
}

/// Makes a workload for a machine: words of a value, threads.
type Make = fn(&Machine, u64) -> Box<dyn Workload>;

/// A workload by name.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Name on the command line.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Whether it is one of the ten micro-benchmarks.
    pub micro: bool,
    make: Make,
}

/// Words of the string variants' values.
fn words(machine: &Machine) -> u64 {
    machine.value.div_ceil(8)
}

/// Every workload.
pub static WORKLOADS: &[Known] = &[
    micro("hash", "search a chained hash table; insert or remove", |_, _| Box::new(hash::Hash::new(1))),
    micro("rbtree", "the same in a red-black tree", |_, _| Box::new(rbtree::RbTree::new(1))),
    micro("sps", "swap two random entries of a vector", |_, _| Box::new(sps::Sps::new(1))),
    micro("btree", "search a B+tree; insert or remove", |_, _| Box::new(btree::BTree::new(1))),
    micro("ssca2", "add edges to a scale-free graph", |_, _| Box::new(ssca2::Ssca2::new(1))),
    micro("hash-str", "hash with multi-line values", |m, _| Box::new(hash::Hash::new(words(m)))),
    micro("rbtree-str", "rbtree with multi-line values", |m, _| Box::new(rbtree::RbTree::new(words(m)))),
    micro("sps-str", "sps with multi-line values", |m, _| Box::new(sps::Sps::new(words(m)))),
    micro("btree-str", "btree with multi-line values", |m, _| Box::new(btree::BTree::new(words(m)))),
    micro("ssca2-str", "ssca2 with multi-line edges", |m, _| Box::new(ssca2::Ssca2::new(words(m)))),
    other("sps-batch", "twelve swaps in a transaction", |_, _| Box::new(sps::Sps::new(1).swaps(12))),
    other("memcached-like", "gets and sets of a cache in the manner of memcached", |m, _| {
        Box::new(memcached::Memcached::new(words(m), m.gets))
    }),
    other("ctree", "search a crit-bit tree; insert or remove", |_, _| Box::new(ctree::CTree::new(1))),
    other("hashmap", "hash with a count that every change updates", |_, _| {
        Box::new(hashmap::HashMap::new(1))
    }),
    other("vacation-like", "reservations of up to five resources", |_, _| {
        Box::new(vacation::Vacation::default())
    }),
    other("nstore-ycsb-like", "reads and updates of tuples with ten fields", |m, _| {
        Box::new(nstore::Ycsb::new(words(m), m.gets))
    }),
    other("nstore-tpcc-like", "new orders and payments", |_, _| Box::new(nstore::Tpcc::default())),
    other("echo-like", "batches of four puts that keep older versions", |m, _| {
        Box::new(echo::Echo::new(words(m)))
    }),
];

const fn other(name: &'static str, summary: &'static str, make: Make) -> Known {
    Known { name, summary, micro: false, make }
}

const fn micro(name: &'static str, summary: &'static str, make: Make) -> Known {
    Known { name, summary, micro: true, make }
}

/// The workload called `name`.
///
/// # Errors
/// [`Error::Unknown`] names the nearest one.
pub fn by_name(name: &str) -> Result<&'static Known, Error> {
    let found = WORKLOADS.iter().find(|known| known.name == name);
    found.ok_or_else(|| unknown("workload", name, WORKLOADS.iter().map(|known| known.name)))
}

impl Known {
    /// The program of one of `threads` threads.
    pub fn program(&self, machine: &Machine, threads: u64) -> Box<dyn Workload> {
        (self.make)(machine, threads)
    }
}

/// The generator of a thread.
pub fn stream(seed: Seed, thread: usize) -> Rng {
    seed.derive("archsim.workload", thread as u64).rng()
}

/// A number below `n`.
pub(crate) fn below(rng: &mut Rng, n: u64) -> u64 {
    use rand::RngExt as _;
    rng.random_range(0..n)
}

/// A structure whose transaction looks a key up, and inserts it if it is not there, removes it if it is. Keys are uniform over
/// twice the initial population, so that insertions and removals balance.
pub(crate) trait Keyed {
    /// Keys are 1 to this.
    fn keys(&self) -> u64;
    /// Inserts or removes a key.
    fn flip(&mut self, memory: &mut dyn PmCtx, key: u64);

    /// The key that is number `n` in the order of the set-up.
    fn nth(&self, n: u64) -> u64 {
        n
    }

    /// Inserts about half of the keys.
    fn fill_half(&mut self, memory: &mut dyn PmCtx, rng: &mut Rng) {
        for n in 1..=self.keys() {
            if below(rng, 2) == 0 {
                self.flip(memory, self.nth(n));
            }
        }
    }

    /// A transaction with any key.
    fn flip_any(&mut self, memory: &mut dyn PmCtx, rng: &mut Rng) {
        let key = 1 + below(rng, self.keys());
        memory.alu(20);
        memory.tx_begin();
        self.flip(memory, key);
        memory.tx_commit();
    }
}

/// Stores a value of `words` words that is made of `tag`.
pub(crate) fn store_value(memory: &mut dyn PmCtx, addr: u64, words: u64, tag: u64) {
    for word in 0..words {
        memory.alu(1);
        memory.store(addr + 8 * word, tag.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(word));
    }
}

/// A list of free nodes in the program's own memory: the allocator's state is volatile and rebuilt after a crash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes {
    free: Vec<u64>,
}

impl Nodes {
    pub(crate) fn take(&mut self, memory: &mut dyn PmCtx, bytes: u64) -> u64 {
        memory.alu(20);
        self.free.pop().unwrap_or_else(|| memory.alloc(bytes))
    }

    pub(crate) fn give(&mut self, memory: &mut dyn PmCtx, node: u64) {
        memory.alu(10);
        self.free.push(node);
    }
}
