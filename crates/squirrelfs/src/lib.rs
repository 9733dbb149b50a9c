//! SquirrelFS: synchronous soft updates (OSDI 2024). There is no log: each call stores its changes in an order of which no crash
//! leaves a tree that contradicts itself, and each step is durable before the next. Which orders the compiler holds is in
//! [`mod@object`].
//!
//! Free space, the pages of files and the names of directories are indexes in DRAM, which a mount builds by a scan of all inodes
//! and descriptors and a walk of all directories. After a crash the mount finishes renames by their pointers, frees what no name
//! reaches, and lowers link counts that are too large.
//!
//! | file | holds |
//! |---|---|
//! | `layout.rs` `superblock.rs` | the format, byte by byte; reading the superblock |
//! | `object.rs` | objects on the medium, whose types hold the order of stores |
//! | `inode.rs` `alloc.rs` `dir.rs` | in DRAM: inodes; free pages and numbers; the names of a directory |
//! | `namei.rs` `rename.rs` | calls that change names |
//! | `file.rs` `mapped.rs` | contents; mapped files |
//! | `mkfs.rs` `recovery.rs` | making an empty file system; what a mount reads and repairs |
//! | `fsck.rs` `repair.rs` `dump.rs` | checking, repairing, showing |
//! | `mutant.rs` `parts.rs` | seeded bugs; named parts of calls |
//! | `vfs.rs` `format.rs` `design.rs` | the adapters to the interfaces |
//!
//! Lock order: `squirrelfs.rename`, then `squirrelfs.inode`: directories, an ancestor before its descendants and otherwise by
//! number, then the inodes that names lead to, directories first and otherwise by number; then `squirrelfs.page_list` of one of
//! them; then the leaves `squirrelfs.pages` and `squirrelfs.numbers`.
//!
//! A medium that refuses a store of metadata ends all changes until the next mount, which recovers: there is nothing by which a
//! call could be undone.
//!
//! `docs/designs/squirrelfs.md` has the format, the steps of each call with what a crash leaves, what differs from the published
//! code, and its sources.

#![forbid(unsafe_code)]

mod alloc;
pub mod design;
mod dir;
mod dump;
mod file;
mod format;
mod fsck;
mod inode;
mod layout;
mod mapped;
mod mkfs;
mod mutant;
mod namei;
pub mod object;
mod parts;
mod recovery;
mod rename;
mod repair;
mod superblock;
mod vfs;

use std::sync::Arc;

use ::design::{FsError, Mutant};
use base::dax::DirectMaps;
use base::error::{Error, Result};
use media::nvmm::Region;
use sim::sync::{AtomicBool, Ordering::SeqCst};
use sim::{LockClass, Mutex};

use alloc::{FreeNumbers, FreePages};
use inode::InodeTable;
use layout::Layout;
use object::Flushed;

/// The name of the design.
const NAME: &str = "squirrelfs";

static RENAME: LockClass = LockClass::new("squirrelfs.rename").under(&[]);

/// The classes of locks for which its calls may wait.
static CLASSES: &[&LockClass] = &[&RENAME, &inode::INODE, &inode::PAGE_LIST, &alloc::PAGES, &alloc::NUMBERS];

/// Options of a mounted volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Settings {
    /// A fence ends the copy of each page past the cache.
    fence_each_page: bool,
    /// A search for a free dentry begins where one was free last, not at the first page.
    hint: bool,
    /// Lists of free pages, one for each processor.
    cores: u64,
    /// A bug that checks must find.
    mutant: Option<Mutant>,
}

/// A mounted volume: the image, and its state in DRAM.
struct Volume {
    region: Arc<Region>,
    layout: Layout,
    inodes: InodeTable,
    numbers: FreeNumbers,
    pages: FreePages,
    maps: DirectMaps,
    renames: Mutex<()>,
    settings: Settings,
    /// A store of metadata has failed.
    failed: AtomicBool,
}

impl Volume {
    /// Whether this bug is seeded.
    fn has(&self, mutant: Mutant) -> bool {
        self.settings.mutant == Some(mutant)
    }

    /// Waits until objects in flight are durable.
    #[track_caller]
    fn fence<F: Flushed>(&self, flushed: F) -> F::Durable {
        object::fence(&self.region, flushed)
    }

    /// The same, which a seeded bug leaves out.
    #[track_caller]
    fn fence_unless<F: Flushed>(&self, mutant: Mutant, flushed: F) -> F::Durable {
        if self.has(mutant) { object::unfenced(flushed) } else { self.fence(flushed) }
    }

    /// Refuses a change after a store of metadata has failed: the next mount recovers what it left.
    fn check_sound(&self) -> Result<()> {
        if self.failed.load(SeqCst) { Err(Error::Failed) } else { Ok(()) }
    }

    /// Does the stores of a change; where one fails there are no more changes in this mount.
    fn change<T>(&self, stores: impl FnOnce() -> Result<T>) -> Result<T> {
        let _scope = sim::scope(media::charges::METADATA);
        stores().inspect_err(|_| self.failed.store(true, SeqCst))
    }
}

/// An error of this design as one of making, mounting or checking.
fn damaged(error: Error) -> FsError {
    match error {
        Error::Media(error) => FsError::Media(error),
        other => FsError::Damaged { design: NAME, what: other.to_string() },
    }
}
