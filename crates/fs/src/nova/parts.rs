//! Parts of NOVA's operations that the ledger times, under the names of the timers of the original (`super.c`, `Timingstring`)
//! where it
//! has one.

use sim::Part;

/// Writing an entry of a log: `append_dir_entry`, `append_file_entry`.
pub(crate) static APPEND: Part = Part::new("nova.append");
/// Making the entries of one log count: `update_tail`.
pub(crate) static UPDATE_TAIL: Part = Part::new("nova.update_tail");
/// Making changes of several inodes count together: `transaction_new_inode`, `transaction_link_change`.
pub(crate) static TRANSACTION: Part = Part::new("nova.transaction");
/// Taking blocks: `alloc_blocks`.
pub(crate) static ALLOC_BLOCKS: Part = Part::new("nova.alloc_blocks");
/// Writing file data: `do_cow_write`.
pub(crate) static COW_WRITE: Part = Part::new("nova.cow_write");
/// Filling the slot of a new inode on the medium.
pub(crate) static NEW_INODE: Part = Part::new("nova.new_inode");
/// Finding a name: `lookup`.
pub(crate) static LOOKUP: Part = Part::new("nova.lookup");
/// Writing the entry of a name: a part of `add_dentry`.
pub(crate) static ADD_DENTRY: Part = Part::new("nova.add_dentry");
/// Removing a name and a link: `remove_dentry`, and the transaction.
pub(crate) static REMOVE_DENTRY: Part = Part::new("nova.remove_dentry");
/// Taking the first page of a log, and setting it up: `nova_allocate_inode_log_pages`.
pub(crate) static NEW_LOG: Part = Part::new("nova.new_log");
/// Freeing what an inode without names has: in `evict_inode`, and `nova_delete_file_tree`.
pub(crate) static FREE_CONTENTS: Part = Part::new("nova.free_contents");
/// Garbage collection of a log: `log_fast_gc`, `log_thorough_gc`.
pub(crate) static CLEAN_LOG: Part = Part::new("nova.clean_log");
