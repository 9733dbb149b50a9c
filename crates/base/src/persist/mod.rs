//! Parts that persistent designs share.

use std::hash::Hasher as _;

use sim::{Work, ran};

pub mod attributes;
pub mod backed;
pub mod checksum;
pub mod free_map;
pub mod lrw;
pub mod page;
pub mod slot_table;

/// The hash by which tables in DRAM find a name; charges for it.
pub fn hash_of(name: &[u8]) -> u64 {
    ran::did(Work::HASH, name.len().div_ceil(16) as u64);
    ran::hash(name.len() as u64);
    plain_hash(name)
}

/// The same, for which the caller charges.
pub fn plain_hash(name: &[u8]) -> u64 {
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(name);
    // The table wants its upper bits varied, too.
    hasher.finish().wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// How many nodes lead to `blocks` blocks of a file: one for each `fanout` of them, one for each `fanout` of these, for `levels`
/// levels.
pub fn tree_nodes(blocks: u64, fanout: u64, levels: u32) -> u64 {
    let above = |below: &u64| Some(below / fanout + 1);
    std::iter::successors(above(&blocks), above).take(levels as usize).sum()
}
