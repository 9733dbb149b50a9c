//! Named parts of calls, whose time the ledger keeps.

use sim::Part;

/// Storing data past the cache, and its fence.
pub(super) static DATA: Part = Part::new("crest.data");
/// Making a record: its bytes and its seal.
pub(super) static SEAL: Part = Part::new("crest.seal");
/// Storing, flushing and fencing a record.
pub(super) static RECORD: Part = Part::new("crest.record");
/// Taking free blocks.
pub(super) static ALLOC: Part = Part::new("crest.alloc");
/// Finding a name.
pub(super) static LOOKUP: Part = Part::new("crest.lookup");
/// Changing the indexes in DRAM after a record counts.
pub(super) static PUBLISH: Part = Part::new("crest.publish");
/// Finding zones in which nothing is live, and emptying others.
pub(super) static CLEAN: Part = Part::new("crest.clean");
