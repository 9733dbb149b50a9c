//! The kinds of work of this crate that a machine preset prices, and the locks and cache lines for which its calls may wait.

use sim::{LockClass, Work};

use crate::{dentry, descriptors, kernel, locks, process, vnode};

/// Walking one path component through the dentry cache, hit.
pub const PATH_COMPONENT: Work = Work::new(20, "path_component");
/// Making the kernel's record of an open file, and freeing it at the close.
pub const OPEN_FILE: Work = Work::new(21, "open_file");
/// The kinds of work that this crate declares. Indices 20 to 23.
pub const WORK: &[Work] = &[PATH_COMPONENT, OPEN_FILE];

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
