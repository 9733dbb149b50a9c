//! The page cache that designs on block devices share.
//!
//! A page is one block of the file system. Metadata lie in the mapping of the device, where the index of a page is its block;
//! file data in a mapping for each inode, where it is the block within the file and the page knows its block on the device
//! once it has one. So write-back needs no lock of an inode and no look at its extents.
//!
//! | state of a page | it may be |
//! |---|---|
//! | clean | evicted |
//! | dirty | written back at any time, then clean |
//! | pinned | neither: a journal has it in a transaction |
//! | in flight | neither: write-back has it on its way; a call that frees its block waits (Linux: `PG_writeback`) |
//!
//! Eviction gives a second chance: a hit sets a bit of the page and takes no lock that all tasks share; the hand of the clock
//! clears the bit once before it evicts. The hand takes a cluster of pages off the ring at once, and frees a cluster more than is
//! needed, so that most misses take the ring's lock once (Linux: `shrink_inactive_list`, 32 pages). The ring does not keep a page
//! alive: one that was forgotten gives its memory back at once.
//!
//! Lock order: a mapping's `writing`, a page, a mapping's `changes`, a mapping's `dirty`, the cache's `dirty`. The ring is a leaf
//! and is never held together with another. A page that is held is not evicted, so its holder may lock it.

mod mapping;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use media::MediaError;
use media::block::{Hint, Piece, Queue};
use sim::map::TreeMap;
use sim::{Bytes, LockClass, Mutex, Nanos, ran};

use mapping::Buffers;
pub use mapping::{FILE_BYTES, Growth, Mapping, NO_BLOCK, Page, PageState};

static RING: LockClass = LockClass::new("cache.ring").under(&[]);
static DIRTY: LockClass = LockClass::new("cache.dirty").under(&[&mapping::DIRTY_INDEXES]);

/// The classes of locks and cache lines for which users of the cache may wait.
pub static CLASSES: &[&LockClass] =
    &[&DIRTY, &RING, &mapping::DIRTY_INDEXES, &mapping::PAGE, &mapping::PAGES, &mapping::WRITING];

/// Pages that write-back hands to the request layer at once.
const BATCH_PAGES: usize = 256;
/// Pages that the hand of the clock takes off the ring at once, and frees beyond what is needed (Linux: `SWAP_CLUSTER_MAX`); a
/// small cache frees a part of its pages.
const CLUSTER: u64 = 32;
const CLUSTER_PART: u64 = 32;
/// Pages that were forgotten may be as many on the ring as those that are alive, and this many more.
const FORGOTTEN: usize = 1024;
/// Part of the memory that may be dirty before a writer has to wait for write-back (Linux: `dirty_ratio`, 20 %).
const DIRTY_RATIO_PERCENT: u64 = 20;
/// Part of the memory above which write-back starts by itself (Linux: `dirty_background_ratio`, 10 %).
const BACKGROUND_RATIO_PERCENT: u64 = 10;

/// A page on its way: its block, a copy of its bytes, what the device is told.
type Taken = (u64, Box<[u8]>, Hint, Arc<Page>);

/// The cache of one mounted file system.
pub struct PageCache {
    queue: Queue,
    page_bytes: u32,
    capacity_pages: u64,
    dirty_pages: AtomicU64,
    buffers: Arc<Buffers>,
    ring: Mutex<VecDeque<Weak<Page>>>,
    /// Mappings with dirty pages, by number, with the time at which the first became dirty.
    dirty: Mutex<TreeMap<u64, (Nanos, Arc<Mapping>)>>,
    /// Mappings whose pages are in flight. They are not on the list of dirty ones unless a page became dirty since.
    writing: parking_lot::Mutex<Vec<Arc<Mapping>>>,
    hits: AtomicU64,
    misses: AtomicU64,
    written_back: AtomicU64,
}

impl PageCache {
    /// An empty cache of `memory` bytes for pages of `page_bytes`.
    pub fn new(queue: Queue, page_bytes: u32, memory: Bytes) -> Self {
        Self {
            queue,
            page_bytes,
            capacity_pages: (memory.0 / u64::from(page_bytes)).max(64),
            dirty_pages: AtomicU64::new(0),
            buffers: Buffers::new(page_bytes),
            ring: Mutex::new(&RING, VecDeque::new()),
            dirty: Mutex::new(&DIRTY, TreeMap::new()),
            writing: parking_lot::Mutex::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            written_back: AtomicU64::new(0),
        }
    }

    /// Pages that it keeps at most.
    pub fn capacity_pages(&self) -> u64 {
        self.capacity_pages
    }

    /// The request layer below.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Counts a page that its user found in the mapping itself.
    pub fn count_hit(&self) {
        self.hits.fetch_add(1, Relaxed);
    }

    /// The page at `index`, made if it is not there.
    pub fn page(&self, mapping: &Arc<Mapping>, index: u64) -> Arc<Page> {
        if let Some(page) = mapping.get(index) {
            self.hits.fetch_add(1, Relaxed);
            return page;
        }
        self.misses.fetch_add(1, Relaxed);
        let (page, made) = mapping.get_or_make(index, &self.buffers);
        if made {
            self.enter_ring(&page);
            if self.buffers.pages() > self.capacity_pages {
                self.evict();
            }
        }
        page
    }

    fn enter_ring(&self, page: &Arc<Page>) {
        let mut ring = self.ring.lock();
        ran::allocate(u64::from(ring.len() == ring.capacity()));
        ring.push_back(Arc::downgrade(page));
        if ring.len() / 2 > self.buffers.pages() as usize + FORGOTTEN {
            ring.retain(|page| page.strong_count() > 0);
        }
    }

    /// Evicts clean pages that were not used since the hand came by, until there is room for a few; fewer if there are not as many.
    fn evict(&self) {
        let room = CLUSTER.min(self.capacity_pages / CLUSTER_PART);
        let enough = || self.buffers.pages() + room <= self.capacity_pages;
        let (mut looks, mut kept, mut cluster) = (None, Vec::new(), VecDeque::new());
        loop {
            {
                let mut ring = self.ring.lock();
                // The hand has not come to what is left of the cluster.
                cluster.drain(..).rev().for_each(|page| ring.push_front(page));
                ring.extend(kept.drain(..));
                let left = *looks.get_or_insert(2 * ring.len());
                let next = if enough() { 0 } else { left.min(ring.len()).min(CLUSTER as usize) };
                ran::allocate(u64::from(cluster.capacity() < next));
                cluster.extend(ring.drain(..next));
                looks = Some(left - next);
            }
            if cluster.is_empty() {
                return;
            }
            while !enough()
                && let Some(page) = cluster.pop_front()
            {
                let Some(page) = page.upgrade() else { continue };
                if page.take_reference() || page.is_busy() || !page.forget_if_unused() {
                    ran::push(&mut kept, Arc::downgrade(&page));
                }
            }
        }
    }

    /// Notes that a page, whose lock the caller holds, is to be written back.
    pub fn mark_dirty(&self, mapping: &Arc<Mapping>, page: &Page) {
        if page.set_dirty(true) {
            return;
        }
        self.dirty_pages.fetch_add(1, Relaxed);
        if mapping.add_dirty(page.index()) {
            self.list_dirty(mapping, sim::now());
        }
    }

    /// Puts a mapping on the list of dirty ones. One of the same number there is that of a removed inode, whose pages are gone.
    fn list_dirty(&self, mapping: &Arc<Mapping>, since: Nanos) {
        let mut dirty = self.dirty.lock();
        let listed = dirty.get(&mapping.number()).is_some_and(|(_, known)| Arc::ptr_eq(known, mapping));
        if !listed {
            dirty.insert(mapping.number(), (since, Arc::clone(mapping)));
        }
    }

    /// Takes a mapping off the list of dirty ones, unless another inode has its number now; since when it was there.
    fn unlist_dirty(&self, mapping: &Arc<Mapping>) -> Option<Nanos> {
        let mut dirty = self.dirty.lock();
        let (since, known) = dirty.get(&mapping.number())?;
        if !Arc::ptr_eq(known, mapping) {
            return None;
        }
        let since = *since;
        dirty.remove(&mapping.number());
        Some(since)
    }

    /// Whether a writer has to wait before it goes on.
    pub fn is_over_limit(&self) -> bool {
        self.dirty_pages.load(Relaxed) * 100 > self.capacity_pages * DIRTY_RATIO_PERCENT
    }

    /// Whether write-back has work although nothing is old.
    pub fn is_over_background_limit(&self) -> bool {
        self.is_much(self.dirty_pages.load(Relaxed))
    }

    /// Whether so many pages that wait to be written are work for write-back although none is old.
    pub fn is_much(&self, pages: u64) -> bool {
        pages * 100 > self.capacity_pages * BACKGROUND_RATIO_PERCENT
    }

    /// Mappings that have been dirty since `before` or longer, the oldest first.
    pub fn dirty_since(&self, before: Nanos) -> Vec<Arc<Mapping>> {
        let dirty = self.dirty.lock();
        let mut old = ran::collected(dirty.values().filter(|(since, _)| *since <= before));
        old.sort_unstable_by_key(|(since, mapping)| (*since, mapping.number()));
        ran::collected(old.into_iter().map(|(_, mapping)| Arc::clone(mapping)))
    }

    /// Mappings of which the device may not have every page: the dirty ones, the oldest first, and those that write-back by another
    /// task has in flight. [`PageCache::write_out`] of the latter waits for it.
    pub fn unwritten(&self) -> Vec<Arc<Mapping>> {
        // In this order: a mapping enters the second list before it leaves the first.
        let mut unwritten = self.dirty_since(Nanos(u64::MAX));
        let writing = self.writing.lock();
        let others = writing.iter().filter(|other| !unwritten.iter().any(|known| Arc::ptr_eq(known, other)));
        let others: Vec<_> = others.map(Arc::clone).collect();
        drop(writing);
        ran::allocate(u64::from(!others.is_empty()));
        ran::extend(&mut unwritten, others);
        unwritten
    }

    /// Writes back the dirty pages of a mapping in the order of their indexes; returns when they have arrived. `hint` says what
    /// the device is told of each. Pages of an error stay dirty, and so do those that have no block yet, which does not make them
    /// younger.
    pub fn write_out(
        &self,
        mapping: &Arc<Mapping>,
        hint: &dyn Fn(&PageState) -> Hint,
    ) -> Result<(), MediaError> {
        let _writing = mapping.begin_writing();
        let mut writing = self.writing.lock();
        let grows = writing.len() == writing.capacity();
        writing.push(Arc::clone(mapping));
        drop(writing);
        ran::allocate(u64::from(grows));
        let indexes = mapping.dirty_indexes();
        let since = self.unlist_dirty(mapping);
        let mut result = Ok(());
        for batch in indexes.chunks(BATCH_PAGES) {
            result = result.and(self.write_batch(mapping, batch, hint));
        }
        if mapping.has_dirty() {
            self.list_dirty(mapping, since.unwrap_or_else(sim::now));
        }
        self.writing.lock().retain(|other| !Arc::ptr_eq(other, mapping));
        result
    }

    fn write_batch(
        &self,
        mapping: &Arc<Mapping>,
        indexes: &[u64],
        hint: &dyn Fn(&PageState) -> Hint,
    ) -> Result<(), MediaError> {
        ran::allocate(1);
        let mut taken: Vec<Taken> = Vec::with_capacity(indexes.len());
        for page in indexes.iter().filter_map(|index| mapping.get(*index)) {
            let mut state = page.state.write();
            if state.block == NO_BLOCK || page.is_pinned() || !self.clean(mapping, &page) {
                continue;
            }
            let hint = hint(&state);
            state.growth = Growth::None;
            page.set_in_flight(true);
            let mut bytes = self.buffers.take();
            bytes.copy_from_slice(&state.bytes);
            let block = state.block;
            drop(state);
            taken.push((block, bytes, hint, page));
        }
        let pieces = ran::collected(taken.iter().map(|(block, data, hint, _)| Piece {
            off: block * u64::from(self.page_bytes),
            data,
            hint: *hint,
        }));
        let result = self.queue.write(&pieces, false);
        self.written_back.fetch_add(taken.len() as u64, Relaxed);
        for (_, bytes, _, page) in taken {
            self.buffers.give(bytes);
            if result.is_err() {
                let _state = page.state.write();
                self.mark_dirty(mapping, &page);
                page.set_in_flight(false);
            } else {
                page.set_in_flight(false);
            }
        }
        result
    }

    /// Makes a page clean, whose lock the caller holds; false if it was.
    pub fn clean(&self, mapping: &Mapping, page: &Page) -> bool {
        let was = page.set_dirty(false);
        if was {
            self.dirty_pages.fetch_sub(1, Relaxed);
            mapping.remove_dirty(page.index());
        }
        was
    }

    /// Forgets the pages from index `from` to before `to`, dirty or not, before their blocks are freed: waits for those that are in
    /// flight, which may reach a block after it was given to another file.
    pub fn forget(&self, mapping: &Arc<Mapping>, from: u64, to: u64) {
        let pages = mapping.range(from, to);
        let mut in_flight = false;
        for page in &pages {
            let _state = page.state.write();
            self.clean(mapping, page);
            in_flight |= page.is_in_flight();
        }
        if in_flight {
            drop(mapping.begin_writing());
        }
        for page in pages {
            if in_flight {
                // It is dirty again if its write has failed.
                let _state = page.state.write();
                self.clean(mapping, &page);
            }
            mapping.remove(page.index());
        }
    }

    /// Forgets every page that is neither dirty, pinned nor in use (Linux: `drop_caches`).
    pub fn drop_clean(&self) {
        let pages = std::mem::take(&mut *self.ring.lock());
        let stays =
            |page: &Weak<Page>| page.upgrade().is_some_and(|page| page.is_busy() || !page.forget_if_unused());
        let kept: VecDeque<_> = pages.into_iter().filter(stays).collect();
        let mut ring = self.ring.lock();
        let new = std::mem::replace(&mut *ring, kept);
        ring.extend(new);
    }

    /// What the cache counts about itself.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("cache_hits", self.hits.load(Relaxed)),
            ("cache_misses", self.misses.load(Relaxed)),
            ("cache_pages", self.buffers.pages()),
            ("cache_dirty_pages", self.dirty_pages.load(Relaxed)),
            ("blocks_written_back", self.written_back.load(Relaxed)),
        ]
    }
}

#[cfg(test)]
mod tests;
