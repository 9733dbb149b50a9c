//! What this crate and the designs above it charge to the ledger: kinds of work that a machine preset prices, activities, and
//! counts of what reached a medium.

use sim::{Activity, Count, Work};

/// Issuing one cache-line write-back instruction, besides what the medium takes.
pub const FLUSH_ISSUE: Work = Work::new(16, "flush_issue");
/// A store fence with nothing outstanding.
pub const STORE_FENCE: Work = Work::new(17, "fence");
/// What the block layer and a driver do for one request: a tag is taken and given back, the command written, its completion read.
pub const BLOCK_REQUEST: Work = Work::new(18, "block_request");
/// The kinds of work that this crate declares. Indices 16 to 19.
pub const WORK: &[Work] = &[FLUSH_ISSUE, STORE_FENCE, BLOCK_REQUEST];

/// The medium serving metadata in place: inodes, directories, block trees.
pub const METADATA: Activity = Activity::new(7, "metadata");
/// Journal or log work: its CPU time and its medium time.
pub const JOURNAL: Activity = Activity::new(8, "journal").with_work();
/// Waiting for background work to make room: a free buffer, journal space.
pub const STALL: Activity = Activity::new(9, "stall").with_waits();
/// The activities that this crate declares. Indices 7 to 9.
pub const ACTIVITIES: &[Activity] = &[METADATA, JOURNAL, STALL];

/// Bytes read from a medium.
pub static BYTES_LOADED: Count = Count::new("bytes_loaded", "bytes", "read from a medium");
/// Bytes stored through the cache.
pub static BYTES_STORED: Count =
    Count::new("bytes_stored", "bytes", "stored to a medium through the processor's cache");
/// Bytes stored past the cache.
pub static BYTES_NT_STORED: Count =
    Count::new("bytes_nt_stored", "bytes", "stored to a medium past the processor's cache");
/// Cache lines written to a medium by flushes or non-temporal stores.
pub static LINES_WRITTEN: Count = Count::new(
    "lines_written",
    "lines",
    "cache lines that flushes and stores past the cache have written to a medium",
);
/// Flush calls.
pub(crate) static FLUSHES: Count = Count::new("flushes", "", "calls that write lines of a range back");
/// Fences.
pub static FENCES: Count = Count::new("fences", "", "waits for write-backs and for stores past the cache");
/// The counts of this crate: results always have them, be they zero.
pub static COUNTS: [&Count; 6] =
    [&BYTES_LOADED, &BYTES_STORED, &BYTES_NT_STORED, &LINES_WRITTEN, &FLUSHES, &FENCES];
