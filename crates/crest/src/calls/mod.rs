//! Calls: each checks and locks in the index, stores its data, makes its records durable, and then changes the index.
//!
//! | file | holds |
//! |---|---|
//! | `draft.rs` | changes of the blocks of a file that do not count yet, and their records |
//! | `pieces.rs` | what a draft stores |
//! | `file.rs` | contents of files |
//! | `patch.rs` `in_place.rs` | small overwrites in records; overwrites in place |
//! | `buffered.rs` `writeback.rs` | files whose data is in frames; settling them in the background |
//! | `mapped.rs` `mapped_atomic.rs` | mapped files; those whose pages are frames, and syncs of all of them or none |
//! | `clone.rs` | files that share blocks |
//! | `namei.rs` `rename.rs` `paths.rs` | what changes names; paths of several |
//! | `attributes.rs` `xattr.rs` | attributes of files; extended attributes |
//!
//! It uses `index/`, `store/` and `format/`.

use std::ops::Deref;

use base::dax::DirectMaps;
use sim::SpreadRwLock;

use crate::index::Index;

pub(crate) mod attributes;
pub(crate) mod buffered;
pub(crate) mod clone;
pub(crate) mod draft;
pub(crate) mod file;
pub(crate) mod in_place;
pub(crate) mod mapped;
pub(crate) mod mapped_atomic;
pub(crate) mod namei;
pub(crate) mod patch;
pub(crate) mod paths;
pub(crate) mod pieces;
pub(crate) mod rename;
pub(crate) mod writeback;
pub(crate) mod xattr;

/// A mounted pool: its index, and what only calls need.
pub(crate) struct Volume {
    pub(crate) index: Index,
    /// Held by renames between directories: shared by those that move no directory, so that the tree stays as it is.
    pub(crate) renames: SpreadRwLock<()>,
    /// Files that are mapped.
    pub(crate) maps: DirectMaps,
    /// Whether the stores of a mapping go to frames where the program has not said so.
    pub(crate) maps_atomically: bool,
    /// Whether overwrites go in place (`atomic=words`).
    pub(crate) words: bool,
    /// Whether small overwrites are records with their bytes.
    pub(crate) inlines: bool,
}

impl Deref for Volume {
    type Target = Index;
    fn deref(&self) -> &Index {
        &self.index
    }
}
