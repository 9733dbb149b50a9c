//! Parts of the operations of ext4 that the ledger times, and that a machine may price as Linux does them: what stands behind each
//! in `fs/ext4` and `fs/jbd2` is named.

use sim::Part;

/// A handle of the journal: `jbd2_journal_start`, access to buffers and their dirtying, `jbd2_journal_stop`.
pub(crate) static HANDLE: Part = Part::new("ext4.handle");
/// Finding the blocks of a range for data in memory: `ext4_iomap_begin` and `_end`, `dax_iomap_actor` around the copy.
pub(crate) static IOMAP: Part = Part::new("ext4.iomap");
/// Giving blocks to a file: `ext4_mb_new_blocks`, `ext4_ext_insert_extent`.
pub(crate) static ALLOC_BLOCKS: Part = Part::new("ext4.alloc_blocks");
/// Adding, removing or changing an entry of a directory: hashing, the leaf of the index, its checksum.
pub(crate) static DENTRY: Part = Part::new("ext4.dentry");
/// Linking an inode into the list of orphans, or out of it: `ext4_orphan_add`, `ext4_orphan_del`.
pub(crate) static ORPHAN: Part = Part::new("ext4.orphan");
/// A new inode: `__ext4_new_inode`, its group, bitmap, checksums, security attributes.
pub(crate) static NEW_INODE: Part = Part::new("ext4.new_inode");
/// Freeing an inode: `ext4_evict_inode` around its blocks, `ext4_free_inode`.
pub(crate) static FREE_INODE: Part = Part::new("ext4.free_inode");
