//! A store of versioned values in the manner of Echo. A transaction is a client's batch of four puts: each writes a new version
//! of a
//! key, with the batch's time, and links it before the older ones; the oldest of four versions is used again.
//!
//! Entry of a key: newest version. Version: time, older version, value.

use super::{PmCtx, Workload, below, store_value};
use sim::rng::Rng;

const BATCH: u64 = 4;
const VERSIONS: u64 = 4;
const TIME: u64 = 0;
const OLDER: u64 = 8;
const VALUE: u64 = 16;

/// See the module.
#[derive(Clone, Debug)]
pub struct Echo {
    words: u64,
    base: u64,
    keys: u64,
    clock: u64,
}

impl Echo {
    /// With values of `words` words.
    pub fn new(words: u64) -> Self {
        Self { words, base: 0, keys: 0, clock: 0 }
    }

    fn version_bytes(&self) -> u64 {
        VALUE + 8 * self.words
    }

    fn put(&self, memory: &mut dyn PmCtx, key: u64) {
        memory.alu(30);
        let entry = self.base + 8 * key;
        let newest = memory.load(entry);
        // The oldest version, and the one before it.
        let (mut before, mut oldest) = (newest, memory.chase(newest + OLDER));
        loop {
            memory.alu(3);
            let older = memory.chase(oldest + OLDER);
            if older == 0 {
                break;
            }
            (before, oldest) = (oldest, older);
        }
        memory.store(before + OLDER, 0);
        memory.store(oldest + TIME, self.clock);
        memory.store(oldest + OLDER, newest);
        store_value(memory, oldest + VALUE, self.words, self.clock);
        memory.store(entry, oldest);
    }
}

impl Workload for Echo {
    fn setup(&mut self, memory: &mut dyn PmCtx, _: &mut Rng) {
        self.keys = (memory.left() / (8 + VERSIONS * self.version_bytes())).max(BATCH);
        self.base = memory.alloc(8 * self.keys);
        for key in 0..self.keys {
            let mut older = 0;
            for _ in 0..VERSIONS {
                let version = memory.alloc(self.version_bytes());
                memory.store(version + TIME, 0);
                memory.store(version + OLDER, older);
                older = version;
            }
            memory.store(self.base + 8 * key, older);
        }
    }

    fn step(&mut self, memory: &mut dyn PmCtx, rng: &mut Rng) {
        self.clock += 1;
        memory.alu(40);
        memory.tx_begin();
        for _ in 0..BATCH {
            self.put(memory, below(rng, self.keys));
        }
        memory.tx_commit();
    }

    fn check(&self, read: &dyn Fn(u64) -> u64) -> Result<(), String> {
        for key in 0..self.keys {
            let (mut version, mut time, mut count) = (read(self.base + 8 * key), u64::MAX, 0);
            while version != 0 && count <= VERSIONS {
                let here = read(version + TIME);
                if here > time {
                    return Err(format!("versions of key {key} are out of order"));
                }
                (version, time, count) = (read(version + OLDER), here, count + 1);
            }
            if count != VERSIONS {
                return Err(format!("key {key} has {count} versions"));
            }
        }
        Ok(())
    }
}
