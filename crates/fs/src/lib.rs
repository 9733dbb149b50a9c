//! The file-system designs.
//!
//! A design is a folder with the same file names for the same roles (`layout.rs superblock.rs alloc.rs inode.rs dir.rs file.rs
//! journal.rs recovery.rs fsck.rs format.rs vfs.rs design.rs`), so that two of them can be read side by side. Adding one is that
//! folder and a line in [`FILE_SYSTEMS`].

#![forbid(unsafe_code)]

mod cache;
pub mod crest;
mod dax;
pub mod error;
mod ext4;
mod hinfs;
mod name_tree;
mod nova;
mod persist;
mod pmfs;
mod rcache;
mod redo;

use ::design::Design;

pub use ext4::journal_uuid;

/// Every design, in the order in which they are listed.
pub static FILE_SYSTEMS: &[&dyn Design] = &[
    &pmfs::design::PmfsDesign,
    &hinfs::design::HINFS,
    &hinfs::design::HINFS_NCLFW,
    &hinfs::design::HINFS_WB,
    &nova::design::NovaDesign,
    &rcache::design::RcacheDesign,
    &redo::design::RedoDesign,
    &ext4::design::EXT2,
    &ext4::design::EXT4,
    &ext4::design::EXT4_DAX,
];

/// The design called `name`.
pub fn by_name(name: &str) -> Option<&'static dyn Design> {
    FILE_SYSTEMS.iter().copied().find(|design| design.name() == name)
}
