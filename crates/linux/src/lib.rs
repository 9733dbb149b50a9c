//! Models of Linux's file systems: real contents in memory, and what the kernel's code shares between cores, charged.
//!
//! No format, no recovery, no crash: they show why a curve bends, and store nothing (docs/designs/linux.md). A call is done in
//! memory first, as one change; then the steps of its row in the preset are charged, in the order in which the kernel takes the
//! objects.
//!
//! | file | holds |
//! |---|---|
//! | `preset.rs` `steps.rs` | `presets/kernels`, read and checked: objects, and the steps of each operation |
//! | `objects.rs` | the objects while they exist; doing steps |
//! | `component.rs` | what depends on history: its names in steps, what an inode remembers, ticks |
//! | `transactions.rs` `jbd2.rs` `xlog.rs` `btrans.rs` `f2cp.rs` | transactions, logs and checkpoints |
//! | `pagealloc.rs` | the lists of free pages of cores |
//! | `places.rs` | where new inodes lie |
//! | `device.rs` | requests to a block device, where the medium is one |
//! | `state.rs` `dir.rs` `file.rs` | inodes, names, contents in memory |
//! | `parts.rs` | named parts of the originals, which a machine prices |
//! | `vfs.rs` `format.rs` `design.rs` | the adapters to the interfaces |
//!
//! Lock order: objects in the order of steps, which is the kernel's. The state's own lock is a `parking_lot` one, held for a change
//! and never over anything that waits or charges.
//!
//! What is left out: see the limits in docs/designs/linux.md.

#![forbid(unsafe_code)]

mod btrans;
mod component;
pub mod design;
mod device;
mod dir;
mod f2cp;
mod file;
mod format;
mod jbd2;
mod objects;
mod pagealloc;
mod parts;
mod places;
mod preset;
mod state;
mod steps;
mod transactions;
mod vfs;
mod xlog;
