//! WOFS: each call is one checksummed package, written once, with one ordering point.
//!
//! A design after WOFS (OSDI 2025), as its public source has it; `docs/designs/wofs.md` says what differs and why. Packages lie in
//! *containers*, blocks of one kind of packages, and are never erased: a dead one counts until another one is stored over it. So
//! what *hides* a package must outlive it, on which everything hangs ([`ledger`]).
//!
//! # Order of stores
//!
//! | call | stores, each line ended by a fence | what a crash before the last fence leaves |
//! |---|---|---|
//! | create, mkdir, mknod, link | a CREATE | no name |
//! | symlink | target and DATA; CREATE | no name: the DATA is of a birth that no CREATE has |
//! | unlink, rmdir | an UNLINK | the name |
//! | rename | UNLINKs; CREATE | the old names: the UNLINKs name the number of a CREATE that is not there |
//! | chmod, chown, utimes, truncate | (zeros behind the end, if the size grows); an ATTR | the old attributes and size |
//! | write | data in new blocks; a DATA for each piece | the old bytes: of several pieces none counts alone |
//! | append in blocks that the newest DATA has | data; the patched size, one word | the old size |
//! | a new container | zeros; its bit | no container |
//! | a container given up | its bit | the container, in which nothing is needed |
//!
//! | file | holds |
//! |---|---|
//! | `layout.rs` `package.rs` `superblock.rs` `mkfs.rs` | the format; packages with their checksums; the first block; a new image |
//! | `merge.rs` `map.rs` | what all packages mean, as a pure function; which block holds which block of a file |
//! | `ledger.rs` `alloc.rs` | which packages may be stored over; free blocks, containers and places in them |
//! | `inode.rs` `dir.rs` | inodes and names in DRAM |
//! | `file.rs` `namei.rs` | calls that change contents and attributes; calls that change names |
//! | `traffic.rs` | tasks that copy at this time; the regulation of writers |
//! | `recovery.rs` `fsck.rs` `repair.rs` `dump.rs` | reading an image; its invariants, their repair; parts of it for people |
//! | `mutant.rs` `parts.rs` | seeded bugs; named parts of calls |
//! | `vfs.rs` `format.rs` `design.rs` | the adapters to the interfaces |
//!
//! Lock order: `wofs.renames`; then `wofs.inode`, a directory before those that its names lead to, of two directories an ancestor
//! first or else the lower number, of two inodes that names lead to a directory first or else the lower number; then `wofs.table`,
//! `wofs.numbers` or `wofs.space`, each a leaf.

#![forbid(unsafe_code)]

mod alloc;
pub mod design;
mod dir;
mod dump;
mod file;
mod format;
mod fsck;
mod inode;
pub mod layout;
pub mod ledger;
pub mod map;
pub mod merge;
mod mkfs;
pub mod mutant;
mod namei;
pub mod package;
mod parts;
mod recovery;
mod repair;
mod superblock;
mod traffic;
mod vfs;
