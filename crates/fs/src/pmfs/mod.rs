//! PMFS: a file system in persistent memory with direct access and an undo journal (EuroSys 2014).
//!
//! Data is read and written on the medium directly, without a page cache. Metadata is changed in place; the undo journal protects
//! changes of more than one word. Allocation is not journaled: after a crash a scan rebuilds it.
//!
//! What is left out: write protection of the mapping (CR0.WP windows), and huge pages of mappings.
//!
//! | file | holds |
//! |---|---|
//! | `layout.rs` | the format, byte by byte |
//! | `superblock.rs` | superblock, redundant copy |
//! | `journal.rs` | transactions |
//! | `alloc.rs` | blocks |
//! | `inode.rs` `times.rs` | inodes and their table; their times |
//! | `map.rs` | block trees |
//! | `dir.rs` `namei.rs` | directories; what changes names |
//! | `xattr.rs` | extended attributes |
//! | `file.rs` `truncate.rs` | contents; sizes, and the list of unfinished truncations |
//! | `mapped.rs` | mapped files |
//! | `mkfs.rs` `recovery.rs` | making an empty file system; mount, unmount |
//! | `fsck.rs` `repair.rs` `dump.rs` | checking, repairing, showing |
//! | `mutant.rs` | seeded bugs |
//! | `vfs.rs` `format.rs` `design.rs` | the adapters to the two interfaces |
//!
//! Lock order: see `namei.rs`. `docs/designs/pmfs.md` describes format, mechanism and recovery, lists what differs from the kernel
//! module and why, and names the sources.

pub(crate) mod alloc;
pub(crate) mod design;
pub(crate) mod dir;
mod dump;
pub(crate) mod file;
pub(crate) mod format;
pub(crate) mod fsck;
pub(crate) mod inode;
pub(crate) mod journal;
pub(crate) mod layout;
pub(crate) mod map;
mod mapped;
mod mkfs;
pub(crate) mod mutant;
pub(crate) mod namei;
mod parts;
pub(crate) mod recovery;
pub(crate) mod repair;
pub(crate) mod superblock;
pub(crate) mod times;
pub(crate) mod truncate;
pub(crate) mod vfs;
pub(crate) mod xattr;

use std::sync::Arc;

use media::nvmm::Region;
use sim::{JoinHandle, LockClass, Mutex};

use alloc::BlockMap;
use inode::InodeTable;
use journal::Journal;
use truncate::TruncateList;

use ::design::Mutant;
use base::dax::DirectMaps;

static RENAME: LockClass = LockClass::new("pmfs.rename").under(&[]);
static BACKGROUND: LockClass = LockClass::new("pmfs.background").under(&[]);

/// The classes of locks and cache lines for which its calls and tasks may wait.
pub(crate) static CLASSES: &[&LockClass] = &[
    &BACKGROUND,
    &RENAME,
    &alloc::BLOCKS,
    &alloc::TRIM,
    &inode::INODE,
    &inode::INODE_TABLE,
    &journal::CLEANER,
    &journal::JOURNAL,
    &journal::JOURNAL_SPACE,
    &truncate::TRUNCATE,
];

/// How a volume is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Directories have an index in DRAM.
    pub(crate) dir_index: bool,
    /// Data block size of new files: 0 is 4 KiB, 1 is 2 MiB, 2 is 1 GiB.
    pub(crate) block_type: u8,
    /// What is cleared of a new block that a write fills in part.
    pub(crate) clears: file::Clears,
    /// A bug that checks must find.
    pub(crate) mutant: Option<Mutant>,
}

impl Settings {
    /// Of a volume that is recovered or checked, and takes no writes.
    pub(crate) fn for_recovery(dir_index: bool) -> Self {
        Self { dir_index, block_type: 0, clears: file::Clears::Whole, mutant: None }
    }
}

/// A mounted volume: the image, and its state in DRAM.
pub(crate) struct Volume {
    pub(crate) region: Arc<Region>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) blocks: BlockMap,
    pub(crate) inodes: InodeTable,
    /// Files that are mapped.
    pub(crate) maps: DirectMaps,
    truncates: TruncateList,
    renames: Mutex<()>,
    pub(crate) settings: Settings,
    cleaner: Mutex<Option<JoinHandle<()>>>,
}

impl Volume {
    /// Whether this bug is seeded.
    pub(crate) fn has(&self, mutant: Mutant) -> bool {
        self.settings.mutant == Some(mutant)
    }
}
