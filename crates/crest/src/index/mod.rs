//! The index: the state in DRAM to which the records lead, and what follows the blocks of files.
//!
//! | file | holds |
//! |---|---|
//! | `inode.rs` `sharing.rs` | inodes; changes of one inode by several tasks at once |
//! | `map.rs` `dir.rs` | places of the blocks of a file; names of a directory |
//! | `sums.rs` | checksums of blocks |
//! | `cache.rs` | clean frames: blocks that are read often |
//!
//! It uses `store/` and `format/`, and is changed by calls (`calls/`) after their records are durable.

pub(crate) mod cache;
pub(crate) mod dir;
pub(crate) mod inode;
pub(crate) mod map;
pub(crate) mod sharing;
pub(crate) mod sums;
