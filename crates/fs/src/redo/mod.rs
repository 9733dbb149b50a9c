//! Redo: all state in DRAM, every change in a redo log. The smallest complete design, and the one to copy.
//!
//! The tree and its data live in DRAM ([`state`]). A call that changes them builds a [`state::Change`], appends it to a log in
//! memory, and applies it once it is durable. A mount reads the last checkpoint and applies the log to it: the same code runs
//! in a call and in recovery. This is a prevalent system (a checkpoint and a log of deterministic changes), as databases in
//! memory use it; it serves as a template, and as the baseline for which durability costs one sequential append and two fences.
//!
//! # Layout
//!
//! ```text
//! 0          4096                        4096 + half                  4096 + 2 half
//! superblock │ half 0: header, checkpoint, log │ half 1: the same           │
//! ```
//!
//! One half is active. When its log is full, and at an unmount behind changes, the state is written to the other half as a
//! checkpoint with an empty log, and one store of a word makes that half active.
//!
//! # Order of stores
//!
//! | step | made durable by | what a crash before it leaves |
//! |---|---|---|
//! | the record past the tail | a fence | the old tail: no record |
//! | the tail, one word | a flush and a fence | the same |
//! | the checkpoint and header of the other half | a fence | the active half |
//! | the active word | a flush and a fence | the same |
//!
//! A change is durable and atomic when its call returns. One whose record is too long for a log, as a large write, is made durable
//! by a checkpoint of the state that it leads to.
//!
//! Files cannot be mapped (`ENODEV`): a store to their bytes in DRAM would be in no log.
//!
//! | file | holds |
//! |---|---|
//! | `layout.rs` `superblock.rs` | superblock and header, byte by byte; reading the superblock |
//! | `inode.rs` `file.rs` `dir.rs` | inodes; the contents of files; directories |
//! | `state.rs` | all inodes; changes, how a change is applied |
//! | `log.rs` `mkfs.rs` `recovery.rs` | append and checkpoint; the first checkpoint; what a mount reads |
//! | `namei.rs` | what a rename comes to |
//! | `fsck.rs` `repair.rs` | the invariants of an image; its repair |
//! | `mutant.rs` | seeded bugs |
//! | `vfs.rs` `format.rs` `dump.rs` `design.rs` | the adapters to the interfaces |
//!
//! Lock order: `redo.volume` alone. It is held for writing while a change is made durable, for reading while data is copied.
//!
//! What is left out: files larger than DRAM, and a checkpoint beside running calls.

mod bytes;
pub(crate) mod design;
mod dir;
mod dump;
mod file;
pub(crate) mod format;
mod fsck;
mod inode;
mod layout;
mod log;
mod mkfs;
mod mutant;
mod namei;
mod recovery;
mod repair;
mod state;
mod superblock;
mod vfs;
