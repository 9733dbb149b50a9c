//! Named parts of calls, whose time the ledger of a run keeps: those for which the published prototype has timers.

use sim::Part;

/// Taking a place for a package.
pub(crate) static RESERVE: Part = Part::new("wofs.reserve");
/// Filling a package and its checksum, storing, flushing and fencing it.
pub(crate) static PACKAGE: Part = Part::new("wofs.package");
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
