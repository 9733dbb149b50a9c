//! Named parts of calls, whose time the ledger keeps, and what is counted.

use sim::{Count, Part};

/// Storing data past the cache, and its fence.
pub(crate) static DATA: Part = Part::new("crest.data");
/// Making a record: its bytes and its seal.
pub(crate) static SEAL: Part = Part::new("crest.seal");
/// Storing, flushing and fencing a record.
pub(crate) static RECORD: Part = Part::new("crest.record");
/// Taking free blocks.
pub(crate) static ALLOC: Part = Part::new("crest.alloc");
/// Finding a name.
pub(crate) static LOOKUP: Part = Part::new("crest.lookup");
/// Changing the indexes in DRAM after a record counts.
pub(crate) static PUBLISH: Part = Part::new("crest.publish");
/// Finding zones in which nothing is live, and emptying others.
pub(crate) static CLEAN: Part = Part::new("crest.clean");

/// Zones that were emptied in steps.
pub(crate) static EMPTIED: Count =
    Count::new("crest.emptied", "zones", "log zones that were emptied in steps, and are free");

/// Runs of the cleaner of all logs.
pub(crate) static CLEANED: Count =
    Count::new("crest.cleaned", "runs", "runs of the cleaner that has all logs locked");
/// Lines of copies.
pub(crate) static COPIED: Count =
    Count::new("crest.copied", "lines", "lines of records that were copied so that their zone is free");
