//! The last-level cache, as far as the virtual clock needs it: what was used long ago is no longer there.
//!
//! A cache of *n* lines that replaces the least recently used one holds whatever was touched since the last *n* other
//! lines came in. So a run counts the lines that came in, by copies and by misses, and an object remembers the count at
//! which it was touched last: it is cached if fewer lines than the cache has came in since. That is exact for such a cache
//! up to lines that come in twice; ways, sockets and prefetching are left out.
//!
//! Objects are what an operation begins with and cannot know to be cached: an inode, a name, an entry of a list. What it
//! touches again on its way is [`crate::Work::Step`].

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::clock;
use crate::context::RunShared;
use crate::machine::Work;
use crate::units::LINE_BYTES;

/// Lines that came into the cache of a run.
pub(crate) struct Inflow(AtomicU64);

impl Inflow {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Notes `bytes` that came in. All tasks of a virtual run share a host thread, so load and store are one step.
    #[inline]
    pub(crate) fn add(&self, bytes: u64) {
        self.0.store(self.0.load(Relaxed) + bytes.div_ceil(LINE_BYTES as u64), Relaxed);
    }
}

/// When an object was used last, by the inflow of its run's cache.
#[derive(Debug)]
pub struct Recency(AtomicU64);

/// Bits of a [`Recency`] that hold the inflow, in lines: 64 TiB. The run is in the others.
const INFLOW_BITS: u32 = 40;

impl Recency {
    /// Of an object that is in no cache.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Of an object that has just been made.
    #[inline]
    pub fn now() -> Self {
        Self(AtomicU64::new(clock::virtual_task().map_or(0, |cx| stamp(&cx.run))))
    }

    /// Uses the object: one [`Work::Miss`] for each of its `lines` that the next step waits for, unless it is cached.
    /// Nothing under the real clock, where the misses take their own time.
    #[inline]
    pub fn touch(&self, lines: u64) {
        let Some(cx) = clock::virtual_task() else { return };
        let (now, last) = (stamp(&cx.run), self.0.load(Relaxed));
        self.0.store(now, Relaxed);
        // Another run, or none, is far away as well.
        if now.wrapping_sub(last) > cx.run.machine.cache_lines() {
            cx.run.inflow.add(lines * LINE_BYTES as u64);
            clock::work(Work::Miss, lines);
        }
    }
}

impl Default for Recency {
    fn default() -> Self {
        Self::new()
    }
}

fn stamp(run: &RunShared) -> u64 {
    u64::from(run.number) << INFLOW_BITS | run.inflow.0.load(Relaxed)
}
