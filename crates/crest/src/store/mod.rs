//! The store: a region with its zones and logs, in which records become durable and blocks are taken and given back.
//!
//! | file | holds |
//! |---|---|
//! | `superblock.rs` | the superblock and its copy |
//! | `alloc.rs` | free zones and blocks |
//! | `log.rs` `cleaner.rs` | making records durable; freeing log zones |
//! | `parity.rs` | parity of log zones that are full, and lines that are computed from it |
//! | `frames.rs` | frames of DRAM |
//! | `damage.rs` | damage, and who is told of it |
//!
//! It uses `format/` only: it knows blocks, records and frames by their numbers, and no file.

pub(crate) mod alloc;
pub(crate) mod cleaner;
pub(crate) mod damage;
pub(crate) mod frames;
pub(crate) mod log;
pub(crate) mod parity;
pub(crate) mod superblock;
