//! The index: the state in DRAM to which the records lead, and what follows the blocks of files.
//!
//! | file | holds |
//! |---|---|
//! | `inode.rs` | inodes |
//! | `sharing.rs` `beside.rs` | which inodes tasks share; changes that they make of these beside each other |
//! | `inodes.rs` `cold.rs` `saved_inode.rs` | the table of inodes; those that are in a saved index still, and their entries |
//! | `map.rs` `dir.rs` | places of the blocks of a file; names of a directory |
//! | `buffer.rs` `pages.rs` | what of a file is in frames: data that is not durable yet, pages of mappings |
//! | `read.rs` `span.rs` | reading contents; ranges of bytes |
//! | `follow.rs` | what follows the blocks of files; the three that do: |
//! | `sums.rs` | checksums of blocks |
//! | `cache.rs` | cached frames: blocks that are read often |
//! | `mapped_pages.rs` | pages of mapped files that are in frames |
//! | `steps.rs` | what the cleaner asks that works in steps |
//! | `lines.rs` | lines that the records of names and inodes may take |
//!
//! It uses `store/` and `format/`, and is changed by calls (`calls/`) after their records are durable.

use std::ops::Deref;

use crate::format::place;
use crate::store::Store;

pub(crate) mod beside;
pub(crate) mod buffer;
pub(crate) mod cache;
pub(crate) mod cold;
pub(crate) mod dir;
pub(crate) mod follow;
pub(crate) mod inode;
pub(crate) mod inodes;
pub(crate) mod lines;
pub(crate) mod map;
pub(crate) mod mapped_pages;
pub(crate) mod pages;
pub(crate) mod read;
pub(crate) mod saved_inode;
pub(crate) mod sharing;
pub(crate) mod span;
pub(crate) mod steps;
pub(crate) mod sums;

use inode::State;
use map::Place;

/// A store with what its records mean.
pub(crate) struct Index {
    pub(crate) store: Store,
    pub(crate) sharing: sharing::Sharing,
    pub(crate) inodes: inodes::Inodes,
    /// Checksums of blocks.
    pub(crate) sums: sums::Sums,
    /// None: every read is the medium's.
    pub(crate) cache: Option<cache::Cache>,
    /// Files with pages in frames that are not synced (`mmap=atomic`).
    pub(crate) mapped: mapped_pages::MappedPages,
}

impl Deref for Index {
    type Target = Store;
    fn deref(&self) -> &Store {
        &self.store
    }
}

impl Index {
    /// Whether bytes that no call reads may be stored to a block of a file in place.
    pub(crate) fn takes_stores(&self, file: &State, at: u64, Place { block, unwritten }: Place) -> bool {
        let references = self.zones.references(block);
        let checked = self.sums.get(block).is_some();
        let bytes_in_log = file.blocks().is_ok_and(|blocks| blocks.is_patched(at));
        place::Block { references, checked, unwritten, bytes_in_log }.takes_stores(self.rules)
    }
}
