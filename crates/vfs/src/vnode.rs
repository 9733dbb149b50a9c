//! The inode as `vfs` keeps it in memory while a name in the cache, an open file or a working directory
//! refers to it.
//!
//! # The invariant of a held vnode
//!
//! *While a [`Vnode`] is held, its inode exists*: the design does not give its number to another file. A call
//! that removes the last name of an inode whose vnode is held elsewhere first pins the inode
//! ([`FileSystem::open`]); the pin ends with the vnode. A destructor may not call a design (it could wait for
//! a lock), so the number goes to [`DeferredReleases`], which the next call that changes names empties.
//!
//! At most one vnode exists for an inode: a file with one name is found through that name's dentry, which is
//! never evicted while the vnode is held, and files with several names are kept in a table of their own
//! (`mount.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};

use parking_lot::Mutex;
use sim::{Line, LockClass, Recency};

use crate::attr::{Attr, FileKind, Ino, Owner};
use crate::credentials::Subject;
use crate::errno::Result;
use crate::file_system::FileSystem;
use crate::flags::OpenFlags;
use crate::kernel::{DirectoryLock, KernelWays};

pub(crate) static ATTRIBUTES: LockClass =
    LockClass::new("vfs.attributes").under(&[&crate::process::POSITION]);
pub(crate) static REFERENCES: LockClass = LockClass::of_lines(
    "vfs.references",
    "the reference count of a dentry, which each path lookup that ends there takes and drops, as does an open file",
);

/// Lines that finding a vnode by its name waits for, one after the other: the dentry, and the vnode.
const DENTRY_LINES: u64 = 2;

/// An inode in memory.
pub(crate) struct Vnode {
    pub(crate) ino: Ino,
    pub(crate) kind: FileKind,
    perm: AtomicU32,
    uid: AtomicU32,
    gid: AtomicU32,
    /// The access time is later than every change that went through this mount: a relative access time need
    /// not be set.
    accessed: AtomicBool,
    /// Where the number of a pinned inode goes when the vnode ends.
    pinned: Mutex<Option<Arc<DeferredReleases>>>,
    /// A directory that has been removed.
    removed: AtomicBool,
    /// In the table of files with several names, which finds it without its dentry.
    linked: AtomicBool,
    /// Orders changes of owner and permission, so that this copy is that of the design.
    pub(crate) changes: sim::Mutex<()>,
    /// When a path lookup last ended here.
    recency: Recency,
    /// The reference count as in the kernel: every call whose walk ends here moves this cache line to its
    /// core when it takes its reference, and again when it drops it, at its end or at the close of the file.
    references: Line,
    /// By load and compare-and-swap.
    exchanges: bool,
    /// Taken where the mount stands for a kernel.
    pub(crate) directory: DirectoryLock,
    /// The parent of a directory; a held directory holds its ancestors.
    parent: Mutex<Option<Arc<Vnode>>>,
}

impl Vnode {
    pub(crate) fn new(attr: &Attr, parent: Option<&Arc<Self>>, ways: KernelWays) -> Arc<Self> {
        let parent = parent.filter(|_| attr.kind == FileKind::Directory);
        Arc::new(Self {
            ino: attr.ino,
            kind: attr.kind,
            perm: AtomicU32::new(attr.perm),
            uid: AtomicU32::new(attr.owner.uid),
            gid: AtomicU32::new(attr.owner.gid),
            accessed: AtomicBool::new(false),
            pinned: Mutex::new(None),
            removed: AtomicBool::new(false),
            linked: AtomicBool::new(false),
            changes: sim::Mutex::new(&ATTRIBUTES, ()),
            recency: Recency::now(DENTRY_LINES),
            references: Line::new(&REFERENCES),
            exchanges: ways.exchanges_references,
            directory: DirectoryLock::default(),
            parent: Mutex::new(parent.cloned()),
        })
    }

    #[inline]
    pub(crate) fn is_dir(&self) -> bool {
        self.kind == FileKind::Directory
    }

    /// What permission depends on.
    #[inline]
    pub(crate) fn subject(&self) -> Subject {
        let owner = Owner { uid: self.uid.load(Relaxed), gid: self.gid.load(Relaxed) };
        Subject { kind: self.kind, perm: self.perm.load(Relaxed), owner }
    }

    #[inline]
    pub(crate) fn perm(&self) -> u32 {
        self.perm.load(Relaxed)
    }

    /// Updates the copy after a change of attributes.
    pub(crate) fn note(&self, attr: &Attr) {
        self.perm.store(attr.perm, Relaxed);
        self.uid.store(attr.owner.uid, Relaxed);
        self.gid.store(attr.owner.gid, Relaxed);
    }

    /// A lookup found this vnode.
    #[inline]
    pub(crate) fn found(&self) {
        self.recency.touch(DENTRY_LINES);
    }

    /// Takes or drops a reference, as the kernel counts it.
    #[inline]
    pub(crate) fn touch(&self) {
        if self.exchanges { self.references.exchange() } else { self.references.touch() }
    }

    #[inline]
    pub(crate) fn is_accessed(&self) -> bool {
        self.accessed.load(Relaxed)
    }

    pub(crate) fn set_accessed(&self) {
        self.accessed.store(true, Relaxed);
    }

    /// Contents or attributes have changed: the access time is older again.
    #[inline]
    pub(crate) fn changed(&self) {
        if self.accessed.load(Relaxed) {
            self.accessed.store(false, Relaxed);
        }
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Relaxed)
    }

    pub(crate) fn set_removed(&self) {
        self.removed.store(true, Relaxed);
    }

    pub(crate) fn is_linked(&self) -> bool {
        self.linked.load(Relaxed)
    }

    pub(crate) fn set_linked(&self) {
        self.linked.store(true, Relaxed);
    }

    /// The directory above; a root is its own parent.
    pub(crate) fn parent(self: &Arc<Self>) -> Arc<Self> {
        self.parent.lock().as_ref().map_or_else(|| Arc::clone(self), Arc::clone)
    }

    pub(crate) fn set_parent(&self, parent: &Arc<Self>) {
        let before = self.parent.lock().replace(Arc::clone(parent));
        drop(before); // outside the lock: it may be the last reference
    }

    /// Whether `self` is `other` or above it.
    pub(crate) fn is_ancestor_of(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        let mut at = Arc::clone(other);
        while !Arc::ptr_eq(self, &at) {
            let above = at.parent();
            if Arc::ptr_eq(&above, &at) {
                return false;
            }
            at = above;
        }
        true
    }

    /// Pins the inode, so that its number is not reused after the last name is gone. True when this call
    /// pinned it.
    pub(crate) fn pin(&self, fs: &dyn FileSystem, deferred: &Arc<DeferredReleases>) -> Result<bool> {
        if self.pinned.lock().replace(Arc::clone(deferred)).is_some() {
            return Ok(false);
        }
        fs.open(self.ino, OpenFlags::PATH).inspect_err(|_| *self.pinned.lock() = None)?;
        Ok(true)
    }

    /// Undoes the pin of a removal that failed.
    pub(crate) fn unpin(&self, fs: &dyn FileSystem) {
        *self.pinned.lock() = None;
        fs.release(self.ino);
    }

    fn detach(&mut self) -> Option<Arc<Self>> {
        if let Some(deferred) = self.pinned.get_mut().take() {
            deferred.push(self.ino);
        }
        self.parent.get_mut().take()
    }
}

impl Drop for Vnode {
    /// Climbs in a loop, not by recursion: a chain of directories may be longer than a task's stack allows.
    fn drop(&mut self) {
        let mut above = self.detach();
        while let Some(mut vnode) = above.and_then(Arc::into_inner) {
            above = vnode.detach();
        }
    }
}

/// Pinned inodes whose vnode is gone.
#[derive(Default)]
pub(crate) struct DeferredReleases {
    any: AtomicBool,
    inos: Mutex<Vec<Ino>>,
}

impl DeferredReleases {
    fn push(&self, ino: Ino) {
        let mut inos = self.inos.lock();
        let grows = inos.len() == inos.capacity();
        inos.push(ino);
        drop(inos);
        self.any.store(true, SeqCst);
        crate::charges::allocate(u64::from(grows));
    }

    /// Takes one out, which the caller releases in the design; false: it is not there.
    pub(crate) fn take(&self, ino: Ino) -> bool {
        let mut inos = self.inos.lock();
        let place = inos.iter().rposition(|other| *other == ino);
        place.map(|place| inos.swap_remove(place)).is_some()
    }

    /// Releases them in the design.
    #[inline]
    pub(crate) fn release_all(&self, fs: &dyn FileSystem) {
        if self.any.load(Relaxed) {
            self.any.store(false, SeqCst);
            let inos = std::mem::take(&mut *self.inos.lock());
            for ino in inos {
                fs.release(ino);
            }
        }
    }
}
