//! The lists of free pages that each core has (mm/page_alloc.c, `rmqueue_bulk`, `free_hot_cold_page`).
//!
//! A core takes pages from its list and gives them back to it. An empty list is filled by a batch from the socket's free pages,
//! under their lock; a list of six batches gives one back.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::objects::{CORES, Objects};

pub(super) const ZONE: &str = "zone";
/// Pages at once (mm/page_alloc.c:4668, `zone_batchsize`).
const BATCH: u32 = 31;
/// Pages of a list that is full (`pageset_set_batch`: six batches).
const FULL: u32 = 6 * BATCH;
/// Lines that move with the lock: the head of the free list.
const LINES: u64 = 1;

/// The lists of all cores.
pub(super) struct Lists(Box<[AtomicU32]>);

impl Default for Lists {
    fn default() -> Self {
        Self((0..CORES).map(|_| AtomicU32::new(0)).collect())
    }
}

impl Lists {
    fn own(&self) -> &AtomicU32 {
        &self.0[usize::from(sim::core()) % CORES]
    }

    /// A page for this core.
    pub(super) fn take(&self, objects: &Objects) {
        if self.own().load(Relaxed) == 0 {
            objects.alone(ZONE, LINES, || {});
            self.own().store(BATCH, Relaxed);
        }
        self.own().fetch_sub(1, Relaxed);
    }

    /// A page that this core does not need any more.
    pub(super) fn give(&self, objects: &Objects) {
        let pages = self.own().fetch_add(1, Relaxed) + 1;
        if pages >= FULL {
            objects.alone(ZONE, LINES, || {});
            self.own().store(pages - BATCH, Relaxed);
        }
    }
}
