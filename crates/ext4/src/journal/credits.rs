//! Credits: how many blocks of metadata a handle may change, at most, by what it is for.

/// Blocks that the freed part of a tree needs a place for: bitmaps, descriptors, the inode, the superblock, and a path.
pub(crate) const TRUNCATE_CREDITS: u32 = 64;

/// Blocks that a change of names touches at most: two directories with a split of an index each (leaf, two nodes, two new
/// blocks), bitmaps and descriptors for them, three inodes, the superblock.
pub(crate) const NAME_CREDITS: u32 = 48;

/// Credits of a write beside those for its data: a path of the map with splits, bitmaps, descriptors, the inode.
pub(crate) const WRITE_CREDITS: u32 = 64;
