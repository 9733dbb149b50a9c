//! A design inside a program: a pool in a file, used as `std::fs` is.
//!
#![doc = include_str!("../shipped/embedding.md")]
//! # Modules
//!
//! | module | holds |
//! |---|---|
//! | `source` | [`Source`]: opening or making the region under a pool |
//! | `open` | [`PoolOptions`], [`PoolError`]: from a source to a mounted design, and back |
//! | `paths` | [`Pool`]: calls that take a path |
//! | `file` | [`File`], [`OpenOptions`] |
//! | `mapping` | [`Mapping`]: a file in memory |
//! | `serve` | [`Served`]: showing the files to other programs |
//! | `attributes` | [`Metadata`], [`DirEntry`], [`Space`] |
//!
//! ```text
//!   program ──► Pool, File ──► vfs::Process ──► vfs::Mount ──► a design ──► media::Region ──► file, DAX, memory
//!                  └ after a write: fence; after a sync: the host's own sync of the file
//! ```
//!
//! Nothing here locks: the locks are those of `vfs` and of the design, in their order.

#![forbid(unsafe_code)]

mod attributes;
mod file;
mod mapping;
mod open;
mod paths;
#[cfg(feature = "serve")]
mod serve;
mod source;

use std::io;

pub use attributes::{DirEntry, Metadata, Space};
pub use file::{File, OpenOptions};
#[cfg(feature = "serve")]
pub use fuse::MountError;
pub use mapping::Mapping;
pub use media::Medium;
pub use open::{PoolError, PoolOptions};
pub use paths::Pool;
#[cfg(feature = "serve")]
pub use serve::{ServeError, Served};
pub use sim::Bytes;
pub use source::{Source, make};
pub use vfs::scrub::{Damaged, Scrubbed};
pub use vfs::{AccessTimes, FallocateMode, FileKind, MappingKind, RenameFlags, SeekTo, Timestamp, XattrMode};

/// An error of a design as `std` knows it: with the number that the kernel would give.
fn io_error(errno: vfs::Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.number())
}

fn io_result<T>(result: vfs::Result<T>) -> io::Result<T> {
    result.map_err(io_error)
}
