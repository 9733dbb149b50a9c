//! The file-system interface, and everything between a program's call and it.
//!
//! ```text
//!   workload, mount, library user
//!            │  Syscalls: paths and descriptors            syscalls.rs
//!      ┌─────┴──────┐
//!   Process       Host          in-process                 process.rs  walk.rs
//!      │            └────────►  the real kernel            host.rs
//!      │  FileSystem: inodes and names                     file_system.rs
//!   a design
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`file_system`] | the trait that a design implements; its rules for every call |
//! | [`syscalls`] | the trait that workloads see |
//! | [`process`] | descriptors, offsets, working directory, credentials: [`Syscalls`] on any [`FileSystem`] |
//! | [`mount`] | a design with its dentry cache; the names that are being changed |
//! | [`walk`] | path resolution: symbolic links, limits, permissions |
//! | [`paths`] | paths that a design resolves itself |
//! | [`credentials`] | who acts, and what the permission bits allow them |
//! | `directory` | where a call changes a name: by the vnode of its directory, or by its number |
//! | `dentry` `vnode` | the cache of names; the inode in memory, and why its number cannot be given away |
//! | `descriptors` | the descriptor table |
//! | [`locks`] | advisory locks |
//! | `shared` `watch` | a mount for a second front end: [`Shared`]; who is told of the program's calls: [`Watcher`] |
//! | `kernel` | locks that a kernel keeps beside every file system, for runs that stand for one |
//! | [`mapping`] | mapped files: what a program holds, and what a design offers for them |
//! | [`host`], `host_mapping` | [`Syscalls`] on a directory of the real kernel; its mapped files |
//! | [`charges`] | the kinds of work that a machine preset prices; the classes of locks and lines |
//! | [`copy`] | copies between files, which share blocks where the design can |
//! | [`scrub`] | reading all that a mounted file system holds, to find damage |
//! | [`rename`] | the rules of renaming that hold in every design |
//! | [`promises`] | what a design promises about a crash, as clauses |
//! | [`attr`] [`flags`] [`errno`] [`ops`] | the words that these share |
//!
//! A design knows nothing of paths, descriptors or permissions; `Process` knows nothing of blocks. Errors are
//! [`Errno`] from here upwards.

#![forbid(unsafe_code)]

pub mod attr;
pub mod charges;
pub mod copy;
pub mod credentials;
mod dentry;
mod descriptors;
mod directory;
pub mod errno;
pub mod file_system;
pub mod flags;
pub mod host;
mod host_mapping;
mod kernel;
pub mod locks;
pub mod mapping;
pub mod mount;
pub mod ops;
pub mod paths;
pub mod process;
pub mod promises;
pub mod rename;
pub mod scrub;
mod shared;
pub mod syscalls;
mod vnode;
pub mod walk;
mod watch;
pub mod xattr;

pub use attr::{
    Attr, DirEntry, FileExtent, FileKind, Ino, NewInode, Owner, SetAttr, SetTime, StatFs, Timestamp,
};
pub use credentials::Credentials;
pub use errno::{Errno, Result};
pub use file_system::{FileSystem, Listener, Renaming, Verified, Written};
pub use flags::{
    FallocateMode, InodeFlags, IoFlags, MappingKind, OpenFlags, Protection, RenameFlags, SeekTo, Whence,
    XattrMode,
};
pub use host::{Host, HostError};
pub use kernel::{KernelWays, Linux};
pub use locks::{LockAction, LockKind, LockOwner};
pub use mapping::{MappedFiles, Mapping};
pub use mount::{AccessTimes, Mount, MountOptions};
pub use paths::{Names, Parent, Paths};
pub use process::{Limits, Process};
pub use promises::{Atomicity, Durability, LeftOut, Promises, SyncScope};
pub use shared::Shared;
pub use syscalls::{Fd, Syscalls};
pub use watch::Watcher;

/// Whether a destructor runs because a run of the virtual clock is over, or about to be: it must not wait then, and the design may
/// not be called. A thread of the real clock that panics leaves the others running, which wait for what it holds.
fn run_is_over() -> bool {
    std::thread::panicking() && sim::clock() == sim::Clock::Virtual
}
