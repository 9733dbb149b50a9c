//! Named parts of calls, whose time the ledger of a run keeps: those for which the published prototype has timers.
//!
//! Each begins before a lock is taken. What the prototype takes in a part is charged there, and its locks are one for each core
//! where `wofs.space` is one for all.

use sim::Part;

/// Taking a place for a package.
pub(crate) static RESERVE: Part = Part::new("wofs.reserve");
/// Filling a package and its checksum, storing, flushing and fencing it.
pub(crate) static PACKAGE: Part = Part::new("wofs.package");
/// Storing one line that changes a size, flushing and fencing it: the patched size of a DATA, or an ATTR.
pub(crate) static PATCHED: Part = Part::new("wofs.patched");
/// Taking free blocks.
pub(crate) static BLOCKS: Part = Part::new("wofs.blocks");
/// Storing data.
pub(crate) static COPY: Part = Part::new("wofs.copy");
/// Noting in DRAM which blocks a write has replaced.
pub(crate) static CLAIM: Part = Part::new("wofs.claim");
/// Freeing what a file without a name had.
pub(crate) static EVICT: Part = Part::new("wofs.evict");
/// Finding a name.
pub(crate) static LOOKUP: Part = Part::new("wofs.lookup");
/// Setting one block of a file's index, perhaps to nothing.
pub(crate) static INDEX: Part = Part::new("wofs.index");
/// Freeing one block of a file.
pub(crate) static FREE_BLOCK: Part = Part::new("wofs.free_block");
/// Making the state in DRAM of a new inode.
pub(crate) static NEW_INODE: Part = Part::new("wofs.new_inode");
/// Changing names in DRAM.
pub(crate) static NAMES: Part = Part::new("wofs.names");
