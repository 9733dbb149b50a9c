//! The file-system designs.
//!
//! A design is a folder with the same file names for the same roles (`layout.rs superblock.rs alloc.rs inode.rs dir.rs file.rs
//! journal.rs recovery.rs fsck.rs vfs.rs fs_type.rs`), so that two of them can be read side by side. Adding one is that folder
//! and a line in [`FILE_SYSTEMS`].

#![forbid(unsafe_code)]

mod cache;
pub mod crest;
mod dax;
pub mod error;
mod ext4;
pub mod fs_type;
mod hinfs;
pub mod mutant;
mod nova;
pub mod options;
mod persist;
mod pmfs;
mod rcache;
mod redo;

pub use ext4::journal_uuid;
pub use fs_type::{Checking, FsError, FsType, FsckReport, Given, MountWord, Needs, Violation};
pub use mutant::Mutant;
pub use options::{OptionError, OptionKind, OptionSpec, Options};

/// Every design, in the order in which they are listed.
pub static FILE_SYSTEMS: &[&dyn FsType] = &[
    &pmfs::fs_type::PmfsType,
    &hinfs::fs_type::HINFS,
    &hinfs::fs_type::HINFS_NCLFW,
    &hinfs::fs_type::HINFS_WB,
    &nova::fs_type::NovaType,
    &rcache::fs_type::RcacheType,
    &redo::fs_type::RedoType,
    &ext4::fs_type::EXT2,
    &ext4::fs_type::EXT4,
    &ext4::fs_type::EXT4_DAX,
];

/// The design called `name`.
pub fn by_name(name: &str) -> Option<&'static dyn FsType> {
    FILE_SYSTEMS.iter().copied().find(|design| design.name() == name)
}
