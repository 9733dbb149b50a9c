//! Parts of PMFS's operations that the ledger times, under the names of the timers of the original where it has one.

use sim::Part;

/// Starting a transaction: `new_trans`.
pub(crate) static NEW_TRANSACTION: Part = Part::new("pmfs.new_trans");
/// Writing an entry of the journal: `add_logentry`.
pub(crate) static LOG_ENTRY: Part = Part::new("pmfs.add_logentry");
/// Committing a transaction: `commit_trans`.
pub(crate) static COMMIT: Part = Part::new("pmfs.commit_trans");
/// Taking blocks: `alloc_blocks`.
pub(crate) static ALLOC_BLOCKS: Part = Part::new("pmfs.alloc_blocks");
/// Freeing what an inode without names has: `evict_inode`.
pub(crate) static FREE_CONTENTS: Part = Part::new("pmfs.free_contents");
/// Finding the block of a place in a file: `find_block`.
pub(crate) static FIND_BLOCK: Part = Part::new("pmfs.find_block");
