//! The experiments of "We Ain't Afraid of No File Fragmentation" (FAST 2024), as what reaches the device.
//!
//! A file system is not needed to say which requests arrive in which order: the artifact's programs call fdatasync after each
//! piece, and ext4, mounted as the artifact does (no delayed allocation, every file "small"), hands out blocks one after the
//! other in the order of the writes, whatever the file. So a layout is a list of writes, each followed by a wait, and then
//! what is read: system calls, each a list of requests that are submitted together.
//!
//! | experiment | figure | here |
//! |---|---|---|
//! | pieces and dummies: degree of fragmentation, append, overwrite, pseudo approach | 3, 4, 11, 12 | [`layout`] |
//! | splitting a transfer, without a file | 7 | [`raw::interface`] |
//! | alignment of random reads | 8 | [`raw::alignment`] |
//!
//! What ext4 does besides (which blocks it really picks, what else it writes) only the file system itself can answer: the suite
//! [`Fragmentation`] does the same through system calls.
//!
//! | experiment | figure | here |
//! |---|---|---|
//! | degree of fragmentation, append, overwrite, pseudo approach | 3, 4, 11, 12 | `target` |
//! | SQLite | 12 | `sqlite` |
//! | fileserver, fileserver-small | 12 | `fileserver` |
//!
//! References: the paper, sections 3 and 5, and its public artifact, whose programs and scripts give the sizes.

mod fileserver;
pub mod layout;
pub mod raw;
mod sqlite;
mod suite;
mod target;

pub use layout::{Dummy, Layout, Writing};
pub use suite::Fragmentation;

use sim::KIB;

/// How much one die takes before the next: the dies' granularity of the artifact's device.
pub const GRANULE: u64 = 32 * KIB;
/// A granule on each of its eight dies.
pub(crate) const STRIPE: u64 = 8 * GRANULE;
/// The target file.
pub const TARGET: u64 = 8 << 20;
/// What the system hands to the device at once, at most.
pub const REQUEST: u64 = 256 * KIB;
