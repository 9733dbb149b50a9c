//! What a load generator charges to the ledger.

use sim::{Activity, Work};

/// What the load generator does between calls.
pub const GENERATING: Activity = Activity::new(10, "generator");
/// The activities that this crate declares. Index 10.
pub const ACTIVITIES: &[Activity] = &[GENERATING];

/// What a load generator does around one operation: choosing a file, timing, statistics.
pub const GENERATOR: Work = Work::new(24, "generator").booked_on(GENERATING);
/// A random number of the load generator. Filebench before 1.5 asks the kernel for each.
pub const RANDOM: Work = Work::new(25, "random").booked_on(GENERATING);
/// The kinds of work that this crate declares. Indices 24 to 27.
pub const WORK: &[Work] = &[GENERATOR, RANDOM];
