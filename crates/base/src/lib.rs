//! What file-system designs share.
//!
//! | module | holds |
//! |---|---|
//! | `error` | errors inside a design, which become errno once |
//! | `persist` | parts of designs in memory: free space, attributes, tables of slots, checksums |
//! | `dax` | direct mappings of files |
//! | `name_tree` | the tree of names that fsck and repair judge |
//! | `opens` | how often an inode is open, beside its lock |
//! | `cache` | the page cache of designs on block devices |

#![forbid(unsafe_code)]

pub mod cache;
pub mod dax;
pub mod error;
pub mod name_tree;
pub mod opens;
pub mod persist;
