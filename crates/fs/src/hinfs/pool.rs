//! The pool of DRAM pages, and the list by which they are written back.
//!
//! Pages are allocated when they are first needed and never more than the limit. A writer that finds none waits until the
//! write-back tasks have freed one.
//!
//! | free pages | write-back |
//! |---|---|
//! | below `low` (5 %) | starts |
//! | above `high` (20 %) | stops |
//!
//! Lock order: `hinfs.pool` comes after `hinfs.file`. The pool is never locked while the medium is waited for.

use std::collections::VecDeque;

use sim::{Condvar, LockClass, Mutex, MutexGuard, Nanos, PAGE_BYTES, Work};

use super::lrw::{EntryId, Lrw, Owner};

static POOL: LockClass = LockClass::new("hinfs.pool");
static NO_FREE_PAGE: LockClass = LockClass::new("hinfs.no_free_page");
static WRITEBACK_IDLE: LockClass = LockClass::new("hinfs.writeback_idle");

/// A DRAM block.
pub(crate) type Page = [u8; PAGE_BYTES];

/// Pages and lists.
pub(crate) struct Pool {
    state: Mutex<PoolState>,
    /// A page was freed.
    freed: Condvar,
    /// The write-back tasks are wanted.
    wanted: Condvar,
    limit: u64,
    low: u64,
    high: u64,
}

/// What the pool's lock guards.
pub(crate) struct PoolState {
    used: u64,
    spare: Vec<Box<Page>>,
    /// Buffered blocks.
    pub(crate) blocks: Lrw,
    /// Ghost entries.
    pub(crate) ghosts: Lrw,
    /// Files with an open transaction, oldest first: slot and ticket.
    pub(crate) pending: VecDeque<(u64, u64)>,
    next_ticket: u64,
    /// Free pages went below `low` and are not yet above `high`.
    pub(crate) reclaiming: bool,
    /// Writers that wait for a page.
    waiting: u32,
    pub(crate) stop: bool,
}

impl Pool {
    /// A pool of at most `limit` pages (at least 2), with thresholds as fractions of it.
    pub(crate) fn new(limit: u64, low: f64, high: f64) -> Self {
        let limit = limit.max(2);
        let threshold = |fraction: f64| ((limit as f64 * fraction) as u64).clamp(1, limit - 1);
        let state = PoolState {
            used: 0,
            spare: Vec::new(),
            blocks: Lrw::new(),
            ghosts: Lrw::new(),
            pending: VecDeque::new(),
            next_ticket: 1,
            reclaiming: false,
            waiting: 0,
            stop: false,
        };
        Self {
            state: Mutex::new(&POOL, state),
            freed: Condvar::of_class(&NO_FREE_PAGE),
            wanted: Condvar::of_class(&WRITEBACK_IDLE),
            limit,
            low: threshold(low),
            high: threshold(high.max(low)),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock()
    }

    /// Pages of the pool.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// A page and an entry for `owner`. Waits while all pages are in use. The page's bytes are those of its last use.
    pub(crate) fn take(&self, owner: Owner) -> (Box<Page>, EntryId, bool) {
        let mut state = self.lock();
        let mut stalled = false;
        while state.used == self.limit {
            stalled = true;
            state.waiting += 1;
            self.want(&mut state);
            state = self.freed.wait(state);
            state.waiting -= 1;
        }
        state.used += 1;
        if self.limit - state.used < self.low {
            self.want(&mut state);
        }
        let page = state.spare.pop().unwrap_or_else(|| Box::new([0; PAGE_BYTES]));
        sim::work(Work::Step, 3);
        let entry = state.blocks.add(owner, sim::now());
        (page, entry, stalled)
    }

    fn want(&self, state: &mut PoolState) {
        if !state.reclaiming {
            state.reclaiming = true;
            self.wanted.notify_all();
        }
    }

    /// Notes a write to a buffered block.
    pub(crate) fn touch(&self, entry: EntryId) {
        sim::work(Work::Step, 3);
        self.lock().blocks.touch(entry, sim::now());
    }

    /// Takes a page back.
    pub(crate) fn put(&self, page: Box<Page>, entry: EntryId) {
        let mut state = self.lock();
        sim::work(Work::Step, 3);
        state.blocks.remove(entry);
        state.spare.push(page);
        state.used -= 1;
        if self.limit - state.used > self.high {
            state.reclaiming = false;
        }
        if state.waiting > 0 {
            self.freed.notify_one();
        }
    }

    /// Notes that a file has an open transaction; the ticket names it.
    pub(crate) fn note_pending(&self, slot: u64) -> u64 {
        let mut state = self.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.pending.push_back((slot, ticket));
        ticket
    }

    /// Wakes the write-back tasks: the journal is short of space, or the end has come.
    pub(crate) fn call_writeback(&self) {
        let _state = self.lock();
        self.wanted.notify_all();
    }

    /// Waits until write-back is wanted, or for `period`.
    pub(crate) fn wait_for_work<'a>(
        &self,
        state: MutexGuard<'a, PoolState>,
        period: Nanos,
    ) -> (MutexGuard<'a, PoolState>, bool) {
        self.wanted.wait_timeout(state, period)
    }

    /// Ends the write-back tasks.
    pub(crate) fn stop(&self) {
        self.lock().stop = true;
        self.call_writeback();
    }

    /// Pages in use, and entries of the list of blocks.
    pub(crate) fn usage(&self) -> (u64, u64) {
        let state = self.lock();
        (state.used, state.blocks.len())
    }
}
