//! The small work that designs and the front end do ([`sim::ran`]): what a unit of it takes when everything is in a cache.
//!
//! Credits of a journal are not measured: reserving them is arithmetic under a lock that has a price. So they stay off.

use std::hash::{Hash, Hasher};
use std::hint::black_box;

use rustc_hash::FxHasher;
use sim::map::{self, TreeMap};
use sim::{LINE_BYTES, PAGE_BYTES, Work};

use super::{Measured, median_ps};

/// A block of memory of the size of a small record.
const BLOCK: usize = 96;
/// Keys of the tree whose nodes are visited: they fit into the private cache of a core.
const KEYS: u64 = 1 << 10;

pub(super) fn measure() -> Vec<Measured> {
    vec![
        Measured::new(Work::ALLOC, alloc_ps(), "getting 96 bytes of memory and freeing them"),
        Measured::new(
            Work::HASH,
            hash_ps(),
            "16 bytes of a key of 64, hashed as in tables of inodes and names",
        ),
        Measured::new(Work::NODE, node_ps(), "a node on the way through an ordered map of 1,024 numbers"),
        Measured::new(Work::BYTES, bytes_ps(), "a line of a page that is copied to another, both in a cache"),
        Measured::new(Work::CHECKSUM, checksum_ps(), "a line of a page under CRC-32C"),
    ]
}

fn alloc_ps() -> u64 {
    median_ps(20_000, || drop(black_box(Vec::<u8>::with_capacity(black_box(BLOCK)))))
}

fn hash_ps() -> u64 {
    let key = [7_u8; 64];
    let whole = median_ps(20_000, || {
        let mut hasher = FxHasher::default();
        black_box(&key[..]).hash(&mut hasher);
        black_box(hasher.finish());
    });
    (whole / 4).max(1)
}

fn node_ps() -> u64 {
    let all: TreeMap<u64, u64> =
        (0..KEYS).map(|key| (key.wrapping_mul(0x9e37_79b9_7f4a_7c15), key)).collect();
    let mut key = 0_u64;
    let search = median_ps(20_000, || {
        key = (key + 611) % KEYS;
        black_box(all.get(&key.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    });
    (search / map::height(all.len())).max(1)
}

fn bytes_ps() -> u64 {
    let (from, mut to) = ([1_u8; PAGE_BYTES], [0_u8; PAGE_BYTES]);
    let page = median_ps(20_000, || black_box(&mut to).copy_from_slice(black_box(&from)));
    per_line(page)
}

fn checksum_ps() -> u64 {
    let page = [1_u8; PAGE_BYTES];
    per_line(median_ps(2_000, || {
        black_box(crc32c::crc32c(black_box(&page)));
    }))
}

fn per_line(page_ps: u64) -> u64 {
    (page_ps * LINE_BYTES as u64 / PAGE_BYTES as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Credits stay off; all else has a time.
    #[test]
    fn every_kind_but_credits_is_measured_once() {
        let measured: Vec<_> = measure().iter().map(|one| (one.work, one.times.median > 0)).collect();
        let all = Work::RAN.iter().filter(|work| **work != Work::HANDLE);
        assert_eq!(measured, all.map(|work| (*work, true)).collect::<Vec<_>>());
    }
}
