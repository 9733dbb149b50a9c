//! What a kernel keeps beside every file system, for all tasks: locks that no design can avoid.
//!
//! A design in process has none of this. A published figure was measured below a kernel, and the curves of creating, removing and
//! renaming files end where these locks end: the FxMark slides name the list of inodes and the rename lock. With
//! [`crate::MountOptions::kernel`] the front end takes them where that version of Linux does, for as long as it holds them. Each is
//! an ordinary lock of the ledger: `weir explain` names it, and `free = ["kernel.inodes"]` in a plan takes its cost away.
//!
//! | lock | taken | held over | in Linux |
//! |---|---|---|---|
//! | `kernel.inodes` | when an inode comes into memory or leaves it | linking into a list | `s_inode_list_lock` (fs/inode.c) |
//! | `kernel.inode_hash` | the same | linking into a hash chain | `inode_hash_lock` (fs/inode.c), one for all file systems |
//! | `kernel.directory` | by lookups, listings, and changes | all of it, for each directory | `i_mutex`, from 4.7 on `i_rwsem` |
//! | `kernel.rename` | by a rename | moving the dentry | `rename_lock` (fs/dcache.c, `d_move`) |
//! | `kernel.rename_dirs` | by a rename between two directories | all of it | `s_vfs_rename_mutex` (fs/namei.c, `lock_rename`) |
//!
//! Up to 4.6 `kernel.directory` is exclusive for lookups and listings too; from 4.7 on these share it
//! ([`Linux::shares_directories`]), unless a model below says what its kernel does. A lookup that may make the name takes it alone
//! in both.
//!
//! A call that removes a name pins the inode first, removes the name under the mutex, and releases the inode after it, which frees
//! its blocks: as `do_unlinkat` does with `ihold` and `iput`, and `vfs_rename` with the dentry that it replaces.
//!
//! The list of inodes is that of a file system since 4.3 and was one for all before; a cell mounts one, so that is the same.
//!
//! What is modelled elsewhere: the descriptor table's lock (`descriptors.rs`) and the reference counts of dentries (`vnode.rs`).
//! What is left out because it is kept for each core since 2.6.38: the counts of mounts and of open files. What is left out because
//! it only reads: the walks that check the sequence number of `rename_lock`, unless a model of the kernel's file system is below
//! ([`KernelWays`]).
//!
//! An inode that is still open when its last name goes leaves memory at its last close; here it is charged with the name.
//!
//! Lock order: claims of names, `kernel.rename_dirs`, `kernel.directory` (of two the smaller inode number first), locks of the
//! design. The others are held over nothing.

use std::str::FromStr;
use std::sync::OnceLock;

use sim::{
    LockClass, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, Sequence, SequenceGuard, Work,
};

pub(crate) static INODES: LockClass = LockClass::new("kernel.inodes").under(&[&DIRECTORY]);
pub(crate) static DIRECTORY: LockClass = LockClass::new("kernel.directory").under(&[&RENAME_DIRS]).several();
pub(crate) static INODE_HASH: LockClass = LockClass::new("kernel.inode_hash").under(&[&DIRECTORY]);
pub(crate) static RENAME: LockClass = LockClass::new("kernel.rename").under(&[&DIRECTORY]);
pub(crate) static RENAME_DIRS: LockClass = LockClass::new("kernel.rename_dirs").under(&[]);

/// The version of Linux whose locks a mount takes: the third number makes no difference to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Linux {
    /// The first number.
    pub major: u16,
    /// The second.
    pub minor: u16,
}

impl Linux {
    /// Whether lookups and listings of one directory share its lock.
    pub(crate) fn shares_directories(self) -> bool {
        self >= Self { major: 4, minor: 7 }
    }
}

/// How the objects of a kernel above a file system behave, as a model of that file system names them. The default is what every
/// other design gets: an atomic update for a reference, and a neighbour in a list that misses the caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelWays {
    /// References of dentries are counted by load and compare-and-swap.
    pub exchanges_references: bool,
    /// A lookup of a name that is not cached, or that is to be changed, looks at the word of `rename_lock`; a missed one looks
    /// again, and is repeated when a rename has come between.
    pub lookups_see_renames: bool,
    /// Inodes are in no hash.
    pub unhashed: bool,
    /// Lines that move with the lock of a directory that changes.
    pub directory_change: u64,
    /// Lines that move with it for a listing.
    pub directory_listing: u64,
    /// Lines that move with the list of inodes when one comes; 0: a neighbour that misses the caches, as without a model.
    pub new_inode: u64,
    /// The same when one goes.
    pub old_inode: u64,
    /// Lines that move with the hash of inodes; 0: as for the list.
    pub inode_hash: u64,
    /// Lines that move with `rename_lock`, where lookups see renames.
    pub rename: u64,
    /// Whether lookups and listings of one directory share its lock; as the mount's version of Linux has it where no model says.
    pub shares_directories: Option<bool>,
}

impl FromStr for Linux {
    type Err = &'static str;

    /// `MAJOR.MINOR`, as in `3.11`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers = text
            .split_once('.')
            .and_then(|(major, minor)| Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? }));
        numbers.ok_or("a version of Linux has two numbers, as \"3.11\"")
    }
}

/// The lock of one directory; it exists once the directory was used.
#[derive(Debug, Default)]
pub(crate) struct DirectoryLock(OnceLock<Box<RwLock<()>>>);

/// A directory's lock, held.
pub(crate) enum DirectoryGuard<'a> {
    /// With other lookups and listings.
    Shared(#[expect(dead_code, reason = "a guard is held for its drop")] RwLockReadGuard<'a, ()>),
    /// Alone.
    Alone(RwLockWriteGuard<'a, ()>),
}

impl DirectoryGuard<'_> {
    /// Lines of the directory that move with its lock, where it is held alone.
    pub(crate) fn touch(&self, lines: u64) {
        if let Self::Alone(guard) = self
            && lines > 0
        {
            RwLockWriteGuard::touch(guard, lines);
        }
    }
}

impl DirectoryLock {
    pub(crate) fn lock(&self, shared: bool) -> DirectoryGuard<'_> {
        let lock = self.0.get_or_init(|| Box::new(RwLock::new(&DIRECTORY, ())));
        if shared { DirectoryGuard::Shared(lock.read()) } else { DirectoryGuard::Alone(lock.write()) }
    }
}

/// Lines of a doubly linked list that adding or removing an inode writes and another core had last: a neighbour.
const NEIGHBOURS: u64 = 1;
/// Steps of the search through a chain of dentries.
const CHAIN_STEPS: u64 = 16;

/// `rename_lock`: a lock whose word no lookup reads, or a sequence lock that lookups see.
enum RenameLock {
    Unseen(Mutex<()>),
    Seen(Sequence),
}

/// The locks of one mount.
pub(crate) struct KernelLocks {
    version: Linux,
    pub(crate) ways: KernelWays,
    inodes: Mutex<()>,
    hash: Mutex<()>,
    rename: RenameLock,
    rename_dirs: Mutex<()>,
}

impl KernelLocks {
    pub(crate) fn new(version: Linux, ways: KernelWays) -> Self {
        Self {
            version,
            ways,
            inodes: Mutex::new(&INODES, ()),
            hash: Mutex::new(&INODE_HASH, ()),
            rename: if ways.lookups_see_renames {
                RenameLock::Seen(Sequence::new(&RENAME))
            } else {
                RenameLock::Unseen(Mutex::new(&RENAME, ()))
            },
            rename_dirs: Mutex::sleeping(&RENAME_DIRS, ()),
        }
    }

    /// Whether lookups and listings of one directory share its lock.
    pub(crate) fn shares_directories(&self) -> bool {
        self.ways.shares_directories.unwrap_or_else(|| self.version.shares_directories())
    }

    /// An inode comes into memory, or leaves it: it is linked into the list of its file system and into the hash, or out of them.
    pub(crate) fn link_inode(&self, comes: bool) {
        let of_list = if comes { self.ways.new_inode } else { self.ways.old_inode };
        let hash = (!self.ways.unhashed).then_some((&self.hash, self.ways.inode_hash));
        for (list, lines) in [(&self.inodes, of_list)].into_iter().chain(hash) {
            let held = list.lock();
            match lines {
                0 => sim::work(Work::MISS, NEIGHBOURS),
                lines => MutexGuard::touch(&held, lines),
            }
        }
    }

    /// The cache of dentries is searched for a name that is about to be looked up or changed; `missed`: nothing is found.
    pub(crate) fn search_dentries(&self, missed: bool) {
        let RenameLock::Seen(rename) = &self.rename else { return };
        let mut seen = rename.read();
        while missed && rename.changed(seen) {
            sim::work(Work::STEP, CHAIN_STEPS);
            seen = rename.read();
        }
    }

    /// Begins a rename: nothing else moves between directories of this file system until the guard is dropped.
    pub(crate) fn begin_rename(&self, between_directories: bool) -> Option<MutexGuard<'_, ()>> {
        between_directories.then(|| self.rename_dirs.lock())
    }

    /// The dentry changes its name.
    pub(crate) fn move_dentry(&self) {
        match &self.rename {
            RenameLock::Unseen(lock) => {
                let _held = lock.lock();
                sim::work(Work::MISS, 2 * NEIGHBOURS);
            }
            RenameLock::Seen(rename) => SequenceGuard::touch(&rename.write(), self.ways.rename),
        }
    }
}
