//! Counts that every call changes, without a line that all cores write.

use sim::sync::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// A count that every call changes: the sum of parts, each on a line that one shard's cores change.
pub(super) struct Sum(Box<[Part]>);

#[derive(Default)]
#[repr(align(64))]
pub(super) struct Part {
    sum: AtomicI64,
    /// How much of what it counts has gone, ever.
    gone: AtomicU64,
}

impl Part {
    pub(super) fn add(&self, count: u64) {
        self.sum.fetch_add(count.cast_signed(), Relaxed);
    }

    pub(super) fn sub(&self, count: u64) {
        self.sum.fetch_sub(count.cast_signed(), Relaxed);
    }

    pub(super) fn note_gone(&self, count: u64) {
        self.gone.fetch_add(count, Relaxed);
    }
}

impl Sum {
    const STEP: i64 = 64;

    pub(super) fn new(shards: usize) -> Self {
        Self((0..shards).map(|_| Part::default()).collect())
    }

    pub(super) fn part(&self) -> &Part {
        &self.0[usize::from(sim::core()) % self.0.len()]
    }

    pub(super) fn add(&self, count: u64) {
        self.part().add(count);
    }

    /// What has gone, ever.
    pub(super) fn gone(&self) -> u64 {
        self.0.iter().map(|part| part.gone.load(Relaxed)).sum()
    }

    /// Adds a change; whether the part has passed a multiple of [`Self::STEP`].
    pub(super) fn change(&self, change: i64) -> bool {
        let old = self.part().sum.fetch_add(change, Relaxed);
        old.div_euclid(Self::STEP) != (old + change).div_euclid(Self::STEP)
    }

    /// The sum; while others change it, of some moments.
    pub(super) fn get(&self) -> u64 {
        let sum: i64 = self.0.iter().map(|part| part.sum.load(Relaxed)).sum();
        sum.max(0).cast_unsigned()
    }
}
