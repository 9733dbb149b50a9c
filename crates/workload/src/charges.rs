//! What a load generator charges to the ledger.

use sim::{Activity, Op, Work};

/// What the load generator does between calls.
pub const GENERATING: Activity = Activity::new(10, "generator");
/// Waiting for other threads of a recorded program, as its own order wants it.
pub(crate) const TRACE_ORDER: Activity = Activity::new(11, "trace_order").with_waits();
/// The activities that this crate declares. Indices 10 and 11.
pub const ACTIVITIES: &[Activity] = &[GENERATING, TRACE_ORDER];

/// What a recorded program does between its calls: it computes, and waits for its other threads.
pub const PROGRAM: Op = Op::new(34, "program");
/// The kinds of operations that this crate declares, which are no calls. Index 34.
pub const OPERATIONS: &[Op] = &[PROGRAM];

/// What a load generator does around one operation: choosing a file, timing, statistics.
pub const GENERATOR: Work = Work::new(24, "generator").booked_on(GENERATING);
/// A random number of the load generator. Filebench before 1.5 asks the kernel for each.
pub const RANDOM: Work = Work::new(25, "random").booked_on(GENERATING);
/// The kinds of work that this crate declares. Indices 24 to 27.
pub const WORK: &[Work] = &[GENERATOR, RANDOM];
