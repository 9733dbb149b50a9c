//! Calls: each checks and locks in the index, stores its data, makes its records durable, and then changes the index.
//!
//! | file | holds |
//! |---|---|
//! | `draft.rs` | changes of the blocks of a file that do not count yet, and their records |
//! | `file.rs` | contents of files |
//! | `patch.rs` `in_place.rs` | small overwrites in records; overwrites in place |
//! | `buffered.rs` `writeback.rs` | files whose data is in frames; settling them in the background |
//! | `mapped.rs` `mapped_atomic.rs` | mapped files; those whose pages are frames, and syncs of all of them or none |
//! | `clone.rs` | files that share blocks |
//! | `namei.rs` `rename.rs` `paths.rs` | what changes names; paths of several |
//! | `attributes.rs` `xattr.rs` | attributes of files; extended attributes |
//!
//! It uses `index/`, `store/` and `format/`.

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
pub(crate) mod rename;
pub(crate) mod writeback;
pub(crate) mod xattr;
