//! The kernel mount: any [`vfs::FileSystem`] behind `/dev/fuse`, in the kernel's own protocol.
//!
//! ```text
//!   program ── system call ──► kernel ── /dev/fuse ──► a thread ──► Handler ──► FileSystem
//!                              │ permissions, names in use,      │
//!                              │ page cache, file locks          └ Nodes: what the kernel knows
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `handler` | the kernel's requests as calls of a [`vfs::FileSystem`] |
//! | `wire` | the protocol: requests and answers as bytes |
//! | `threads` | request threads: which of them a request wakes |
//! | `polling` | adaptive polling |
//! | `acl` | access-control lists |
//! | `nodes` | which inodes the kernel knows, and keeping them alive |
//! | `convert` | numbers, attributes, flags, errors and times, converted between kernel and design |
//! | `options` | [`Options`] |
//! | `panics` | what becomes of a request in which the design panics |
//! | `attach` | the directory and the kernel: mount(2), or `fusermount3` for users |
//! | `serve` | [`Server`]: mounting, threads, unmounting |
//! | `record` | a trace of the requests |
//! | `invalidate` | dropping cached pages after direct writes |
//! | `beside` | what the kernel is told where the program that serves makes calls of its own |
//! | `times` | when reading sets access times |
//! | `writeback` | how much of shared maps the kernel may keep back |
//!
//! # Who does what
//!
//! The kernel checks permissions (`default_permissions`), resolves paths, applies the umask, keeps file locks and orders changes of
//! one directory. Names change through this mount alone (but see `beside.rs`), so the kernel may keep names and attributes for as
//! long as it likes. The handler adds what POSIX leaves to the file system: the group and the set-group-id bit that a new inode
//! takes from its directory, and access times. It also clears set-id bits, which the kernel leaves to it
//! (`FUSE_HANDLE_KILLPRIV_V2`): a kernel that does so itself asks for a file's capabilities before every write.
//!
//! # What the kernel caches
//!
//! | [`Cache`] | reads | writes | shared maps |
//! |---|---|---|---|
//! | `Pages` | from the page cache | through it, before the call returns | yes |
//! | `Direct` | always ask the design | always | where the kernel allows maps of such files |
//! | `Shared` | the same, and so do names and attributes (`beside.rs`) | always | the same |
//!
//! The kernel never delays a write: a mount exists to show how a design handles writes.
//!
//! # Threads
//!
//! `threads` says which thread serves a request. Each joins the run that was current when the server was made, at its first
//! request, so that the design finds its clock. A panic of the design ends a request, not its thread: the caller is answered `EIO`
//! ([`Backing::panicked`]).
//!
//! Lock order: a shard of the nodes comes before all locks of the design, and only one is held at a time.

#![forbid(unsafe_code)]

mod acl;
mod attach;
mod beside;
mod convert;
mod handler;
mod invalidate;
mod nodes;
mod options;
mod panics;
mod polling;
mod record;
mod serve;
mod threads;
mod times;
mod wire;
mod writeback;

pub use beside::Beside;
pub use options::{
    Backing, Cache, FLAG_WORDS, Moved, Options, SYNC_XATTR, TRIM_XATTR, end_xattr, remount_xattr, result_of,
    time_flags,
};
pub use panics::is_serving;
pub use record::Recorder;
pub use rustix::mount::MountFlags;
pub use serve::{MountError, Server, Unmounter, check_directory};
pub use writeback::become_flusher;
