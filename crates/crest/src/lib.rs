//! Crest: each call is one self-certifying record in the log of its core, made durable by one fence. Data outside it is fenced
//! before.
//!
//! Names, inodes, extents and free space are indexes in DRAM, which a mount rebuilds from the records. A call checks and locks
//! there, stores its data past the cache and fences it, stores its record and fences that, and then changes the indexes.
//! `docs/designs/crest.md` states the rules and argues for them.
//!
//! # Rooms
//!
//! A room uses those above it in this table, and none below. Each has a page that says what its files hold (its `mod.rs`).
//!
//! | room | is | has |
//! |---|---|---|
//! | [`mod@format`] | pure functions of bytes and records | layout, records, zones, the merge, what cleaning keeps |
//! | `store/` | a region in which records become durable | superblock, zones and blocks, logs, cleaner, parity, frames of DRAM |
//! | `index/` | the state in DRAM to which the records lead | inodes, names, places of blocks, checksums, cached frames |
//! | `calls/` | what programs ask for | contents, names, attributes, mappings, clones, write-back |
//! | `pool/` | pools as a whole | making, mounting, saved indexes, checks, repair, other sizes |
//!
//! Above them `vfs.rs` and `design.rs` are the adapters to the interfaces. Below all are `locks.rs`, the order of locks,
//! `parts.rs`, named parts of calls, and `ablation.rs`, parts that can be left out to measure them.
//!
//! A mounted pool is three types, each with all that the one before has: a `Store`, an `Index` on it, a `Volume` of both. A
//! function is a method of the first that has what it needs.
//!
//! # What is not here yet
//!
//! Reads of contents without locks, and moving blocks out of data zones of which most is free.

#![forbid(unsafe_code)]

mod ablation;
mod calls;
pub mod design;
pub mod format;
mod index;
mod locks;
mod parts;
mod pool;
mod store;
mod vfs;

use ::design::FsError;
use base::error::Error;

/// The name of the design.
const NAME: &str = "crest";

/// An error of this design as one of making, mounting or checking.
fn damaged(error: Error) -> FsError {
    match error {
        Error::Media(error) => FsError::Media(error),
        other => FsError::Damaged { design: NAME, what: other.to_string() },
    }
}
