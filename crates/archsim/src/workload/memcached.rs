//! A cache in the manner of memcached: items in slots of one slab class, a chained hash table, and a list in order of last update.
//!
//! A get looks a key up and reads its value, without a transaction. A set is one transaction: it writes the value of the item, or
//! takes the least recently updated one, unlinks it from its chain and links it under the new key; and moves it to the front of
//! the list. Keys are uniform over one and a quarter times the items, the share of gets is the machine's `gets`.

use super::{PmCtx, Workload, below, store_value};
use sim::rng::Rng;

const KEY: u64 = 0;
const CHAIN: u64 = 8;
const NEWER: u64 = 16;
const OLDER: u64 = 24;
const STAMP: u64 = 32;
const VALUE: u64 = 40;

/// See the module.
#[derive(Clone, Debug)]
pub struct Memcached {
    words: u64,
    gets: u64,
    /// Newest and oldest item.
    ends: u64,
    table: u64,
    buckets: u64,
    items: u64,
    keys: u64,
    clock: u64,
}

impl Memcached {
    /// With values of `words` words and this share of gets in percent.
    pub fn new(words: u64, gets: u64) -> Self {
        Self { words, gets, ends: 0, table: 0, buckets: 0, items: 0, keys: 0, clock: 0 }
    }

    fn bucket(&self, key: u64) -> u64 {
        self.table + 8 * (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20 & (self.buckets - 1))
    }

    fn find(&self, memory: &mut dyn PmCtx, key: u64) -> u64 {
        memory.alu(30);
        let mut item = memory.load(self.bucket(key));
        while item != 0 {
            memory.alu(3);
            if memory.chase(item + KEY) == key {
                break;
            }
            item = memory.load(item + CHAIN);
        }
        item
    }

    fn unchain(&self, memory: &mut dyn PmCtx, item: u64) {
        let key = memory.chase(item + KEY);
        let mut link = self.bucket(key);
        loop {
            let here = memory.chase(link);
            if here == item {
                break;
            }
            link = here + CHAIN;
        }
        let next = memory.load(item + CHAIN);
        memory.store(link, next);
    }

    /// Takes an item out of the list.
    fn unlink(&self, memory: &mut dyn PmCtx, item: u64) {
        let (newer, older) = (memory.load(item + NEWER), memory.load(item + OLDER));
        let from_newer = if newer == 0 { self.ends } else { newer + OLDER };
        let from_older = if older == 0 { self.ends + 8 } else { older + NEWER };
        memory.store(from_newer, older);
        memory.store(from_older, newer);
    }

    fn push_front(&self, memory: &mut dyn PmCtx, item: u64) {
        let first = memory.load(self.ends);
        memory.store(item + NEWER, 0);
        memory.store(item + OLDER, first);
        let back = if first == 0 { self.ends + 8 } else { first + NEWER };
        memory.store(back, item);
        memory.store(self.ends, item);
    }

    fn set(&mut self, memory: &mut dyn PmCtx, key: u64) {
        self.clock += 1;
        let mut item = self.find(memory, key);
        if item == 0 {
            item = memory.load(self.ends + 8);
            self.unchain(memory, item);
            memory.store(item + KEY, key);
            let bucket = self.bucket(key);
            let first = memory.load(bucket);
            memory.store(item + CHAIN, first);
            memory.store(bucket, item);
        }
        memory.store(item + STAMP, self.clock);
        store_value(memory, item + VALUE, self.words, key ^ self.clock);
        self.unlink(memory, item);
        self.push_front(memory, item);
    }
}

impl Workload for Memcached {
    fn setup(&mut self, memory: &mut dyn PmCtx, _: &mut Rng) {
        self.ends = memory.alloc(16);
        let bytes = VALUE + 8 * self.words;
        let items = (memory.left() / (bytes + 16)).max(2);
        self.buckets = items.next_power_of_two();
        self.table = memory.alloc(8 * self.buckets);
        self.items = (memory.left() / bytes).min(items);
        self.keys = self.items + self.items / 4;
        for key in 1..=self.items {
            let item = memory.alloc(bytes);
            memory.store(item + KEY, key);
            let bucket = self.bucket(key);
            let first = memory.load(bucket);
            memory.store(item + CHAIN, first);
            memory.store(bucket, item);
            self.push_front(memory, item);
        }
    }

    fn step(&mut self, memory: &mut dyn PmCtx, rng: &mut Rng) {
        let key = 1 + below(rng, self.keys);
        memory.alu(200);
        if below(rng, 100) < self.gets {
            let item = self.find(memory, key);
            for word in (0..self.words).filter(|_| item != 0) {
                memory.alu(1);
                memory.load(item + VALUE + 8 * word);
            }
            return memory.done();
        }
        memory.tx_begin();
        self.set(memory, key);
        memory.tx_commit();
    }

    fn check(&self, read: &dyn Fn(u64) -> u64) -> Result<(), String> {
        let (mut item, mut newer, mut listed) = (read(self.ends), 0, 0);
        while item != 0 {
            listed += 1;
            if listed > self.items || read(item + NEWER) != newer {
                return Err(format!("the list is broken at item {listed}"));
            }
            (newer, item) = (item, read(item + OLDER));
        }
        let mut chained = 0;
        for bucket in 0..self.buckets {
            let mut item = read(self.table + 8 * bucket);
            while item != 0 && chained <= self.items {
                chained += 1;
                if self.bucket(read(item + KEY)) != self.table + 8 * bucket {
                    return Err(format!("an item hangs in the wrong bucket {bucket}"));
                }
                item = read(item + CHAIN);
            }
        }
        let whole = listed == self.items && chained == self.items;
        if whole {
            Ok(())
        } else {
            Err(format!("{listed} items listed, {chained} chained, of {}", self.items))
        }
    }
}
