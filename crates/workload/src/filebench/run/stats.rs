//! The statistics of a run while it runs.
//!
//! A *shard* has the counts of all steps. Under the virtual clock there is one: all tasks share a host
//! thread, so its lock is never contended, and the histograms stay in the cache. Under the real clock every
//! thread has its own. The lock belongs to the host and is never held over an interaction.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sim::{Clock, Nanos};

use crate::filebench::outcome::{Counts, FlowopOutcome};

use super::plan::StepInfo;

/// The counts of all steps, in shards.
pub(crate) struct Stats {
    shards: Vec<Mutex<Vec<Counts>>>,
}

impl Stats {
    pub(crate) fn new(steps: usize, threads: usize) -> Self {
        let shards = if sim::clock() == Clock::Virtual { 1 } else { threads.max(1) };
        Self { shards: (0..shards).map(|_| Mutex::new(vec![Counts::default(); steps])).collect() }
    }

    /// Adds an operation of thread number `thread`.
    #[inline]
    pub(crate) fn record(&self, thread: usize, step: usize, latency: Nanos, bytes: u64) {
        let mut counts = lock(&self.shards[thread % self.shards.len()]);
        counts[step].record(latency, bytes);
    }

    /// The counts of all threads, those of flowops of one name together, in the order of the steps.
    pub(crate) fn collect(&self, steps: &[StepInfo]) -> Vec<FlowopOutcome> {
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        let mut outcomes: Vec<FlowopOutcome> = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            let place = *places.entry(&step.name).or_insert_with(|| {
                let (class, direction) = (step.class, step.direction);
                outcomes.push(FlowopOutcome {
                    name: step.name.clone(),
                    class,
                    direction,
                    counts: Counts::default(),
                });
                outcomes.len() - 1
            });
            for shard in &self.shards {
                outcomes[place].counts.merge(&lock(shard)[index]);
            }
        }
        outcomes
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            lock(shard).fill(Counts::default());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
