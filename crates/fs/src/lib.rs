//! The file-system designs.
//!
//! A design is a folder with the same file names for the same roles, so that two of them can be read side by side. Adding one is
//! that folder and a line in [`FILE_SYSTEMS`]. A large one is a crate of its own (`crest`, `ext4`, `squirrelfs`,
//! `wofs`), whose `lib.rs` is its `mod.rs`. A role that has outgrown one file is a folder of its name (`ext4`'s `journal/`); the
//! files of `crest` lie in five folders, its rooms. A test, `architecture`, holds this table to the folders:
//!
//! | file | holds | of |
//! |---|---|---|
//! | `mod.rs` | what the design is: order of stores, files, lock order | all |
//! | `design.rs` | its line in the table of designs: name, options, mount, promises | all |
//! | `mutant.rs` | its seeded bugs | all |
//! | `format.rs` | its image to the rest: making, recovery, check, repair | pmfs nova redo crest squirrelfs wofs ext4 |
//! | `layout.rs` | the structures on the medium | pmfs nova redo crest squirrelfs wofs ext4 |
//! | `superblock.rs` | the superblock and its copies: reading, checking, growing | pmfs nova redo crest squirrelfs wofs ext4 |
//! | `mkfs.rs` | making an empty file system | pmfs nova redo crest squirrelfs wofs ext4 |
//! | `recovery.rs` | mounting, with what a crash has left | pmfs nova redo crest squirrelfs wofs ext4 |
//! | `vfs.rs` | the adapter to `vfs::FileSystem`: where errors become errno | pmfs hinfs nova redo crest squirrelfs wofs ext4 |
//! | `namei.rs` | calls that change names | pmfs nova redo crest squirrelfs wofs ext4 |
//! | `dir.rs` | the names of one directory | pmfs nova redo crest squirrelfs wofs ext4 |
//! | `inode.rs` | inodes: on the medium, in memory, their locks | pmfs nova redo crest squirrelfs wofs ext4 |
//! | `file.rs` | reading and changing the contents of files | pmfs hinfs nova redo crest squirrelfs wofs ext4 |
//! | `map.rs` | which block holds which block of a file | pmfs nova crest wofs ext4 |
//! | `mapped.rs` | mapped files | pmfs nova crest squirrelfs ext4 |
//! | `merge.rs` | the meaning of all records or packages together | crest wofs |
//! | `xattr.rs` | extended attributes | pmfs nova crest ext4 |
//! | `alloc.rs` | free blocks, and the choice among them | pmfs nova crest squirrelfs wofs ext4 |
//! | `journal.rs` | how a change of several places becomes one | pmfs nova ext4 |
//! | `log.rs` | logs of which the present state follows | nova redo crest |
//! | `cleaner.rs` | which parts of a log are freed, and what is kept of them | nova crest |
//! | `rename.rs` | renaming | nova crest squirrelfs |
//! | `cache.rs` | copies in DRAM of blocks that are read often | rcache crest |
//! | `writeback.rs` | which buffered data goes to the medium when | hinfs crest ext4 |
//! | `fsck.rs` | the invariants of an image, as named predicates | pmfs nova redo crest squirrelfs wofs ext4 |
//! | `repair.rs` | what makes each violation right | pmfs nova redo crest squirrelfs wofs ext4 |
//! | `dump.rs` | parts of an image, for people | pmfs nova redo crest squirrelfs wofs ext4 |
//! | `parts.rs` | named parts of calls, whose time the ledger keeps | pmfs nova crest squirrelfs wofs ext4 |
//!
//! The crate `linux` has models of the kernel's file systems, which have no image, so none of the roles of one.
//!
//! `hinfs` and `rcache` are on other designs' formats and have only what they change.
//! What designs share is in the crate `base`. The rules of renaming are in [`vfs::rename`].

#![forbid(unsafe_code)]

mod hinfs;
mod nova;
mod pmfs;
mod rcache;
mod redo;

use ::design::Design;

pub use crest;
pub use ext4::journal_uuid;

/// Every design with an image, in the order in which they are listed.
pub static FILE_SYSTEMS: &[&dyn Design] = &[
    &pmfs::design::PmfsDesign,
    &hinfs::design::HINFS,
    &hinfs::design::HINFS_NCLFW,
    &hinfs::design::HINFS_WB,
    &nova::design::NovaDesign,
    &rcache::design::RcacheDesign,
    &crest::design::CrestDesign,
    &redo::design::RedoDesign,
    &squirrelfs::design::SquirrelDesign,
    &wofs::design::WofsDesign,
    &ext4::design::EXT2,
    &ext4::design::EXT4,
    &ext4::design::EXT4_DAX,
];

/// Models of the kernel's file systems: designs without an image ([`Design::without_image`]).
pub static MODELS: &[&dyn Design] = &[
    &linux::design::TMPFS,
    &linux::design::EXT4,
    &linux::design::EXT4_NO_JOURNAL,
    &linux::design::XFS,
    &linux::design::BTRFS,
    &linux::design::F2FS,
];

/// All of both tables.
pub fn all() -> impl Iterator<Item = &'static dyn Design> + Clone {
    FILE_SYSTEMS.iter().chain(MODELS).copied()
}

/// The design or model called `name`.
pub fn by_name(name: &str) -> Option<&'static dyn Design> {
    all().find(|design| design.name() == name)
}
