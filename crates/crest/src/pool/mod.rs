//! The pool as a whole: making and mounting one, its saved index, checks, repair, another size.
//!
//! | file | holds |
//! |---|---|
//! | `mkfs.rs` | making an empty pool |
//! | `recovery.rs` | what a mount reads, and what it makes of it |
//! | `image.rs` `image_save.rs` `image_load.rs` `same.rs` | saved indexes: format, unmount, mount; comparing one with the logs |
//! | `fsck.rs` `repair.rs` `dump.rs` `resize.rs` | checking, repairing, showing; another size |
//! | `format.rs` | the adapter to [`design::Format`] |
//!
//! The highest room: it uses all others.

pub(crate) mod dump;
pub(crate) mod format;
pub(crate) mod fsck;
pub(crate) mod image;
pub(crate) mod image_load;
pub(crate) mod image_save;
pub(crate) mod mkfs;
pub(crate) mod recovery;
pub(crate) mod repair;
pub(crate) mod resize;
pub(crate) mod same;
