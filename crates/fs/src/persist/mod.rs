//! Parts that persistent designs share.

pub(crate) mod attributes;
pub(crate) mod backed;
pub(crate) mod checksum;
pub(crate) mod free_map;
pub(crate) mod slot_table;

/// How many nodes lead to `blocks` blocks of a file: one for each `fanout` of them, one for each `fanout` of these, for `levels`
/// levels.
pub(crate) fn tree_nodes(blocks: u64, fanout: u64, levels: u32) -> u64 {
    let above = |below: &u64| Some(below / fanout + 1);
    std::iter::successors(above(&blocks), above).take(levels as usize).sum()
}
