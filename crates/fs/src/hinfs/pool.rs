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
//! The first write into a page puts its entry on the list of blocks; before that, write-back would find no dirty line. A later
//! write moves the entry to the end, unless it is among the newest 64th. A task that makes work for write-back wakes one
//! write-back task, which wakes the next if there is more work, so that the first task pays for one wake-up only.
//!
//! Lock order: `hinfs.pool` comes after `hinfs.file`. No task waits for the medium while it holds the pool.

use std::sync::Arc;

use sim::map::{TreeMap, TreeSet};
use sim::sync::{AtomicU64, Ordering::Relaxed};
use sim::{Condvar, LockClass, Mutex, MutexGuard, Nanos, Work, ran};

use base::persist::lrw::{EntryId, Lrw};
use base::persist::page::Page;

pub(super) static POOL: LockClass = LockClass::new("hinfs.pool").under(&[&super::file_buffer::FILE]);
pub(super) static NO_FREE_PAGE: LockClass = LockClass::new("hinfs.no_free_page");
pub(super) static WRITEBACK_IDLE: LockClass = LockClass::new("hinfs.writeback_idle");

/// Which block of which file an entry of a list stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    /// Slot of the inode.
    pub(crate) slot: u64,
    /// Block of the file.
    pub(crate) block: u64,
}

/// Pages and lists.
pub(crate) struct Pool {
    state: Mutex<PoolState>,
    /// A page was freed.
    freed: Condvar,
    /// The write-back tasks are wanted.
    wanted: Condvar,
    /// Moves to the end of the list of blocks. Changed with the state locked; reading it is not priced, as a block's pieces
    /// mostly find it unchanged.
    moves: AtomicU64,
    limit: u64,
    low: u64,
    high: u64,
}

/// Numbers of pages, entries and transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Pages in use.
    pub(crate) used: u64,
    /// Entries on the list of blocks.
    pub(crate) listed: u64,
    pub(crate) ghosts: u64,
    /// Open transactions that wait for write-back.
    pub(crate) pending: u64,
}

/// An open transaction that waits for write-back.
struct Noted {
    slot: u64,
    /// Write-back has it in hand.
    chosen: bool,
}

/// What the pool's lock guards.
pub(crate) struct PoolState {
    used: u64,
    spare: Vec<Arc<Page>>,
    /// Buffered blocks.
    pub(crate) blocks: Lrw<Owner>,
    /// Ghost entries.
    pub(crate) ghosts: Lrw<Owner>,
    /// Open transactions that wait for write-back, by ticket, the oldest first. One stays until it is durable.
    pending: TreeMap<u64, Noted>,
    next_ticket: u64,
    /// Free pages went below `low` and are not yet above `high`.
    pub(crate) reclaiming: bool,
    /// Writers that wait for a page.
    waiting: u32,
    /// Blocks beyond the age limit are being written back.
    pub(crate) aging: bool,
    /// When old blocks are looked for next.
    pub(crate) next_round: Nanos,
    pub(crate) stop: bool,
}

impl PoolState {
    /// Ticket and slot of the oldest transaction that no task completes yet; the caller then does.
    pub(crate) fn choose_pending(&mut self) -> Option<(u64, u64)> {
        let (ticket, noted) = self.pending.iter_mut().find(|(_, noted)| !noted.chosen)?;
        noted.chosen = true;
        Some((*ticket, noted.slot))
    }

    pub(crate) fn has_pending(&self) -> bool {
        self.pending.values().any(|noted| !noted.chosen)
    }
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
            pending: TreeMap::new(),
            next_ticket: 1,
            reclaiming: false,
            waiting: 0,
            aging: false,
            next_round: Nanos::ZERO,
            stop: false,
        };
        Self {
            state: Mutex::new(&POOL, state),
            freed: Condvar::of_class(&NO_FREE_PAGE),
            wanted: Condvar::of_class(&WRITEBACK_IDLE),
            moves: AtomicU64::new(0),
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

    /// A page and an entry for `owner`, which [`Pool::touch`] puts on the list, and whether it took waiting. Waits while all
    /// pages are in use. The page's bytes are those of its last use.
    pub(crate) fn take(&self, owner: Owner) -> (Arc<Page>, EntryId, bool) {
        let mut state = self.lock();
        let mut stalled = false;
        while state.used == self.limit {
            let _scope = sim::scope(media::charges::STALL);
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
        let page = state.spare.pop().unwrap_or_else(|| ran::shared(Page::new()));
        sim::work(Work::STEP, 3);
        let entry = state.blocks.reserve(owner, sim::now());
        (page, entry, stalled)
    }

    fn want(&self, state: &mut PoolState) {
        if !state.reclaiming {
            state.reclaiming = true;
            self.wanted.notify_one();
        }
    }

    /// Moves an entry to the end of the list of blocks, because its block was written; returns the number of the move.
    pub(crate) fn touch(&self, entry: EntryId) -> u64 {
        let mut state = self.lock();
        sim::work(Work::STEP, 3);
        let was_empty = state.blocks.is_empty();
        state.blocks.touch(entry, sim::now());
        if was_empty && state.reclaiming {
            self.wanted.notify_one();
        }
        self.moves.fetch_add(1, Relaxed) + 1
    }

    /// Whether an entry that was moved then is among the newest 64th of the list, and a write may leave it there: the list's
    /// lock belongs to all tasks, and a file that is written in small pieces would ask for it at each of them.
    pub(crate) fn is_recent(&self, moved: u64) -> bool {
        self.moves.load(Relaxed) - moved <= self.limit / 64
    }

    /// Takes a page back.
    pub(crate) fn put(&self, page: Arc<Page>, entry: EntryId) {
        let mut state = self.lock();
        sim::work(Work::STEP, 3);
        state.blocks.remove(entry);
        ran::push(&mut state.spare, page);
        state.used -= 1;
        if self.limit - state.used > self.high {
            state.reclaiming = false;
        }
        let wanted = state.waiting > 0;
        drop(state);
        // Waking takes longer than all that is done with the pool locked, and the tasks that write back come here for each page.
        if wanted {
            self.freed.notify_one();
        }
    }

    /// Notes that a file has an open transaction, which keeps the ticket that it has, if any; returns the ticket. With
    /// `short` the journal is short of space: write-back is woken.
    pub(crate) fn note_pending(&self, slot: u64, ticket: Option<u64>, short: bool) -> u64 {
        let mut state = self.lock();
        let ticket = ticket.unwrap_or(state.next_ticket);
        state.next_ticket = state.next_ticket.max(ticket + 1);
        state.pending.insert(ticket, Noted { slot, chosen: false });
        if short {
            self.wanted.notify_one();
        }
        ticket
    }

    /// Notes that a transaction has ended, and is durable if it was committed.
    pub(crate) fn forget_pending(&self, ticket: Option<u64>) {
        if let Some(ticket) = ticket {
            self.lock().pending.remove(&ticket);
        }
    }

    /// The journal is short of space: wakes write-back, if there is a transaction that they can complete.
    pub(crate) fn call_writeback(&self) {
        let state = self.lock();
        if state.has_pending() {
            self.wanted.notify_one();
        }
    }

    /// Wakes another write-back task: there is more to do.
    pub(crate) fn pass_on(&self) {
        self.wanted.notify_one();
    }

    /// Waits until write-back is wanted, or the next round is due.
    pub(crate) fn wait_for_work<'a>(&self, state: MutexGuard<'a, PoolState>) -> MutexGuard<'a, PoolState> {
        let left = Nanos(state.next_round.0.saturating_sub(sim::now().0).max(1));
        self.wanted.wait_timeout(state, left).0
    }

    /// Ends the write-back tasks.
    pub(crate) fn stop(&self) {
        self.lock().stop = true;
        self.wanted.notify_all();
    }

    /// What the pool holds now.
    pub(crate) fn usage(&self) -> Usage {
        let state = self.lock();
        Usage {
            used: state.used,
            listed: state.blocks.len(),
            ghosts: state.ghosts.len(),
            pending: state.pending.len() as u64,
        }
    }

    /// Files that are not durable: with a buffered block, or a transaction that has not committed.
    pub(crate) fn owners(&self) -> TreeSet<u64> {
        let state = self.lock();
        sim::work(Work::STEP, state.used);
        let mut owners = TreeSet::new();
        state.blocks.add_owners(&mut owners, |owner| owner.slot);
        for noted in state.pending.values() {
            owners.insert(noted.slot);
        }
        owners
    }
}
