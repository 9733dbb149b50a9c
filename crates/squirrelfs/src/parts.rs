//! Parts of SquirrelFS's operations that the ledger times. The published code has no timers; these are the steps in which it
//! differs from NOVA.

use sim::Part;

/// Finding a name in the tree of its directory.
pub(crate) static LOOKUP_TREE: Part = Part::new("squirrelfs.lookup_tree");
/// Taking pages.
pub(crate) static ALLOC_PAGE: Part = Part::new("squirrelfs.alloc_page");
/// Taking an inode number.
pub(crate) static ALLOC_INO: Part = Part::new("squirrelfs.alloc_ino");
/// Finding the page of a place in a file, once for each page of a read.
pub(crate) static PAGE_LIST: Part = Part::new("squirrelfs.page_list");
/// Making the state in DRAM of a new inode.
pub(crate) static VFS_INODE: Part = Part::new("squirrelfs.vfs_inode");
/// Finding a free dentry: a scan of the pages of the directory.
pub(crate) static FREE_DENTRY: Part = Part::new("squirrelfs.free_dentry");
