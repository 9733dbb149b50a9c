//! The kinds of work of this crate that a machine preset prices, and the locks and cache lines for which its calls may wait.

use sim::ran::{self, Covered};
use sim::{LockClass, Work};

use crate::{dentry, descriptors, kernel, locks, process, vnode};

/// Walking one path component through the dentry cache, hit.
pub const PATH_COMPONENT: Work = Work::new(20, "path_component");
/// Making the kernel's record of an open file, and freeing it at the close.
pub const OPEN_FILE: Work = Work::new(21, "open_file");
/// The kinds of work that this crate declares. Indices 20 to 23.
pub const WORK: &[Work] = &[PATH_COMPONENT, OPEN_FILE];

/// What a kernel does for a call above every file system, beside what [`Work::CALL`], [`PATH_COMPONENT`] and [`OPEN_FILE`] price. A
/// machine prices all of these, under `[kernel.path]`, or none: then the call has only those costs, as in a process.
///
/// A new inode in memory: getting it with accounting of memory, initialising it, security and notification.
pub const NEW_INODE: Work = Work::new(32, "new_inode");
/// An inode leaves memory: waiting for its users, taking its pages, freeing it.
pub(crate) const EVICT_INODE: Work = Work::new(33, "evict_inode");
/// A new entry of the dentry cache.
pub(crate) const NEW_DENTRY: Work = Work::new(34, "new_dentry");
/// An entry of the dentry cache is taken out and freed.
pub(crate) const DROP_DENTRY: Work = Work::new(35, "drop_dentry");
/// A call that makes a name: right to write to the mount, permission, hooks, notification.
pub const CREATE: Work = Work::new(36, "create");
/// A call that removes a name: the same.
pub const REMOVE: Work = Work::new(37, "remove");
/// A call that renames: the same of both directories, and moving the entry.
pub const RENAME: Work = Work::new(38, "rename");
/// A read of an open file: range and permission, iterator, time of access.
pub(crate) const READ_ITER: Work = Work::new(39, "read_iter");
/// A write to an open file: range and limits, iterator, set-user-id bits, times.
pub(crate) const WRITE_ITER: Work = Work::new(40, "write_iter");
/// A change of attributes or size: permission, hooks, notification.
pub(crate) const SET_ATTR: Work = Work::new(41, "set_attr");
/// What a copy that survives a machine check takes longer for a line than an ordinary one, in the kernels whose pmem driver copies
/// so.
pub const COPY_MCSAFE: Work = Work::new(42, "copy_mcsafe");
/// The kinds of work of a kernel's path. Indices 32 to 42.
pub const PATH: &[Work] = &[
    NEW_INODE,
    EVICT_INODE,
    NEW_DENTRY,
    DROP_DENTRY,
    CREATE,
    REMOVE,
    RENAME,
    READ_ITER,
    WRITE_ITER,
    SET_ATTR,
    COPY_MCSAFE,
];

/// Small work of the front end, which is not charged until the guard is dropped where [`PATH`] prices what a kernel does there.
#[inline]
pub(crate) fn of_front() -> Option<Covered> {
    sim::is_priced(NEW_INODE).then(ran::covered)
}

/// Blocks of memory that the front end gets.
#[inline]
pub(crate) fn allocate(n: u64) {
    let _covered = of_front();
    ran::allocate(n);
}

/// Nodes of the front end's own tables.
#[inline]
pub(crate) fn node(n: u64) {
    let _covered = of_front();
    ran::node(n);
}

/// The classes of locks and cache lines that every mount has.
pub static CLASSES: &[&LockClass] = &[
    &dentry::DENTRY,
    &descriptors::DESCRIPTORS,
    &locks::LOCKS,
    &process::POSITION,
    &vnode::ATTRIBUTES,
    &vnode::REFERENCES,
];

/// Those that a mount has beside them when it stands for a kernel.
pub static KERNEL_CLASSES: &[&LockClass] =
    &[&kernel::DIRECTORY, &kernel::INODES, &kernel::INODE_HASH, &kernel::RENAME, &kernel::RENAME_DIRS];
