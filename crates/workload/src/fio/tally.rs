//! Latencies of I/Os, by kind.
//!
//! | latency | from | to |
//! |---|---|---|
//! | slat | the start that the rate intends; kept only with a rate | the call |
//! | clat | the call | its return |
//! | lat | the intended start, or else the call | its return |
//!
//! So a slow I/O makes those behind it late by their schedule, and is not hidden by the I/Os that it kept from being issued
//! (coordinated omission).

use results::Histogram;
use sim::Nanos;

use super::source::Kind;

/// Latencies and bytes of one kind of I/O.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) count: u64,
    pub(super) bytes: u64,
    pub(super) total: Histogram,
    pub(super) call: Histogram,
    pub(super) late: Histogram,
}

impl Tally {
    #[inline]
    pub(super) fn note(&mut self, bytes: u64, due: Option<Nanos>, start: Nanos, end: Nanos) {
        self.count += 1;
        self.bytes += bytes;
        self.call.record(end.since(start).0);
        self.total.record(end.since(due.unwrap_or(start).min(start)).0);
        if let Some(due) = due {
            self.late.record(start.since(due).0);
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.total.merge(&other.total);
        self.call.merge(&other.call);
        self.late.merge(&other.late);
    }
}

/// The kinds by which tallies are kept.
pub(super) const KINDS: [&str; 5] = ["read", "write", "trim", "sync", "verify"];

/// The place of a kind in [`KINDS`].
pub(super) fn kind(kind: Kind) -> usize {
    match kind {
        Kind::Read => 0,
        Kind::Write => 1,
        Kind::Trim => 2,
        Kind::Fsync | Kind::Fdatasync => 3,
        Kind::Verify(_) => 4,
    }
}

/// What a task has seen, by [`KINDS`].
pub(super) type Tallies = [Tally; 5];
