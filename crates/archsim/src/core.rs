//! A hardware thread: window, store buffer, write-combining buffer, and where its time goes.
//!
//! The core model is an interval-style approximation of an out-of-order core. Instructions are fetched in order at `width` a
//! cycle, as long as fewer than `window` stand between fetch and retirement and the store buffer has room. A load starts when it
//! is fetched and its address is known; it completes when the caches or the memory say. Instructions retire in order, `width` a
//! cycle. Stores, write-backs, fences and commits act in order after retirement, one a cycle, from the head of the store buffer.
//! A fence and a waiting commit complete when they are done, so the window fills up behind them. Branches are predicted.
//!
//! The in-order core is the same with one instruction in flight. Two threads of a core share its width, window and misses by
//! halves.

use crate::machine::{LINE, Machine, Ps};
use crate::op::{Kind, Op};

/// Not known yet.
pub const UNKNOWN: Ps = Ps::MAX;
/// Entries of the window's ring; more than any window.
const RING: usize = 512;

/// Where time at retirement goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Spent {
    /// Executing.
    Compute,
    /// Waiting for a load.
    Load,
    /// The store buffer was full.
    Store,
    /// Waiting for a fence.
    Fence,
    /// Waiting for a commit to be acknowledged.
    Commit,
    /// Taking space in the log of the process.
    LogSpace,
}

impl Spent {
    /// Names in records, in the order of the counters.
    pub const NAMES: [&'static str; Self::COUNT] =
        ["compute", "load", "store_buffer", "fence", "commit", "log_space"];
    /// How many there are.
    pub const COUNT: usize = 6;
}

/// An entry of the window: an operation with the instructions before it.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// When it completes; [`UNKNOWN`] until that is known.
    pub done: Ps,
    /// When it retires; valid once resolved.
    retire: Ps,
    /// Instructions, and how many of them the window counts.
    count: u32,
    held: u32,
    /// What it waits for.
    spent: Spent,
    /// Whether it stands in the store buffer.
    store: bool,
    /// Whether an acknowledgement of a transaction retires with it.
    acknowledge: bool,
}

/// An entry of the store buffer.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    /// The operation.
    pub op: Op,
    /// When it may act; [`UNKNOWN`] until it has retired.
    pub ready: Ps,
    /// Its place in the window.
    pub slot: u64,
}

/// A load whose address is not known yet.
#[derive(Clone, Copy, Debug)]
pub struct Deferred {
    /// Its place in the window.
    pub slot: u64,
    /// The load that gives its address.
    pub after: u64,
    /// Its line.
    pub line: u64,
}

/// A line that is being combined.
#[derive(Clone, Copy, Debug)]
pub struct Combined {
    /// Its number.
    pub line: u64,
    /// Words present.
    pub mask: u8,
    /// The words.
    pub data: [u64; 8],
    /// First store.
    pub opened: Ps,
    /// Last store.
    pub touched: Ps,
}

/// Why the head of the store buffer does not move, until an event lets it try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// It moves.
    No,
    /// For a line from memory.
    Fetch,
    /// For the log buffer.
    LogBuffer,
    /// For the log's head.
    LogSpace,
    /// For the write queue.
    WriteQueue,
    /// For its own write-backs.
    Persist,
}

/// A hardware thread.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Its core.
    pub core: usize,
    slots: Vec<Slot>,
    head: u64,
    resolved: u64,
    /// Number of the next slot.
    pub next_slot: u64,
    in_window: u32,
    window: u32,
    slot_time: Ps,
    /// When the next instruction is fetched.
    pub fetch: Ps,
    fetch_reason: Spent,
    /// When the last resolved instruction retired.
    pub retired: Ps,
    /// Whether fetching waits for an event.
    pub blocked: bool,
    /// Slot of the last load.
    pub last_load: u64,
    /// Loads that wait for an address.
    pub deferred: Vec<Deferred>,
    /// Misses to memory under way.
    pub misses: u32,
    /// Misses that it may have.
    pub most_misses: u32,
    /// The store buffer.
    pub stores: std::collections::VecDeque<Pending>,
    most_stores: usize,
    retired_stores: usize,
    /// When the store buffer's head may act at the earliest.
    pub store_time: Ps,
    /// Why it does not.
    pub stuck: Stuck,
    /// When it began to be stuck.
    pub stuck_since: Ps,
    /// When its head tried first.
    pub waiting_since: Ps,
    /// A filter of the words that wait in the store buffer.
    waiting: [u16; 256],
    /// Write-combining buffer.
    pub combining: Vec<Combined>,
    /// Write-backs and combined lines that are not durable yet.
    pub outstanding: u32,
    /// Operations of the transaction under way, and the next of them.
    pub ops: Vec<Op>,
    /// The next of them.
    pub cursor: usize,
    /// Whether there are more.
    pub finished: bool,
    /// Where time went, by [`Spent`].
    pub spent: [Ps; Spent::COUNT],
    /// Instructions of the program and of logging.
    pub instructions: [u64; 2],
    /// Times at which transactions were acknowledged, since the engine last took them.
    pub acknowledged: Vec<Ps>,
    /// Transactions that are acknowledged when their slot retires.
    pub acknowledged_total: u64,
}

impl Thread {
    /// At time zero with nothing to do. `halves`: whether it shares its core.
    pub fn new(machine: &Machine, core: usize, halves: bool) -> Self {
        let share = if halves { 2 } else { 1 };
        let inorder = machine.core == 1;
        let window = if inorder { 1 } else { machine.window / share };
        let stores = if inorder { machine.store_buffer.min(8) } else { machine.store_buffer / share };
        let empty = Slot {
            done: 0,
            retire: 0,
            count: 0,
            held: 0,
            spent: Spent::Compute,
            store: false,
            acknowledge: false,
        };
        Self {
            core,
            slots: vec![empty; RING],
            head: 0,
            resolved: 0,
            next_slot: 0,
            in_window: 0,
            window: window as u32,
            slot_time: (machine.cycle() * share / if inorder { 1 } else { machine.width }).max(1),
            fetch: 0,
            fetch_reason: Spent::Compute,
            retired: 0,
            blocked: false,
            last_load: u64::MAX,
            deferred: Vec::new(),
            misses: 0,
            most_misses: (machine.mshrs / share).max(1) as u32,
            stores: std::collections::VecDeque::with_capacity(64),
            most_stores: stores.max(1) as usize,
            retired_stores: 0,
            store_time: 0,
            stuck: Stuck::No,
            stuck_since: 0,
            waiting_since: UNKNOWN,
            waiting: [0; 256],
            combining: Vec::with_capacity(machine.wc_lines as usize),
            outstanding: 0,
            ops: Vec::new(),
            cursor: 0,
            finished: false,
            spent: [0; Spent::COUNT],
            instructions: [0; 2],
            acknowledged: Vec::new(),
            acknowledged_total: 0,
        }
    }

    fn slot(&mut self, number: u64) -> &mut Slot {
        &mut self.slots[number as usize & (RING - 1)]
    }

    /// When slot `number` completes. Slots that have left the window have.
    pub fn done(&self, number: u64) -> Ps {
        if number == u64::MAX || number < self.head {
            return 0;
        }
        self.slots[number as usize & (RING - 1)].done
    }

    /// Makes room in window and store buffer for an operation; whether there is.
    #[inline]
    pub fn make_room(&mut self, count: u32, store: bool) -> bool {
        if store && self.stores.len() >= self.most_stores {
            self.fetch_reason = Spent::Store;
            return false;
        }
        let count = count.min(self.window);
        while self.in_window + count > self.window || self.next_slot - self.head >= RING as u64 {
            if self.head == self.resolved {
                return false;
            }
            let slot = self.slots[self.head as usize & (RING - 1)];
            self.in_window -= slot.held;
            self.fetch = self.fetch.max(slot.retire);
            self.head += 1;
        }
        true
    }

    /// Fetches an operation of `count` instructions; answers with its slot.
    #[inline]
    pub fn enter(&mut self, count: u32, spent: Spent, store: bool, done: Ps) -> u64 {
        self.fetch += Ps::from(count) * self.slot_time;
        let number = self.next_slot;
        self.next_slot += 1;
        let held = count.min(self.window);
        self.in_window += held;
        let reason = std::mem::replace(&mut self.fetch_reason, Spent::Compute);
        let spent = if spent == Spent::Compute { reason } else { spent };
        *self.slot(number) = Slot { done, retire: 0, count, held, spent, store, acknowledge: false };
        number
    }

    /// The newest slot carries the acknowledgement of a transaction.
    pub fn acknowledge(&mut self, number: u64) {
        self.slot(number).acknowledge = true;
    }

    /// A fence or commit, which has left the store buffer, completes at `done`.
    pub(crate) fn complete_marker(&mut self, number: u64, done: Ps) {
        let slot = self.slot(number);
        (slot.done, slot.store) = (done, false);
    }

    /// A slot completes at `done`.
    pub fn complete(&mut self, number: u64, done: Ps) {
        self.slot(number).done = done;
    }

    /// Retires what is complete, in order.
    #[inline]
    pub fn resolve(&mut self) {
        while self.resolved < self.next_slot {
            let slot = self.slots[self.resolved as usize & (RING - 1)];
            if slot.done == UNKNOWN {
                // A fence or commit acts once everything before it has retired.
                if slot.store
                    && let Some(pending) = self.stores.get_mut(self.retired_stores)
                    && pending.slot == self.resolved
                    && pending.ready == UNKNOWN
                {
                    pending.ready = self.retired;
                }
                return;
            }
            let own = Ps::from(slot.count) * self.slot_time;
            let retire = slot.done.max(self.retired + own);
            let wait = retire - self.retired - own.min(retire - self.retired);
            self.spent[Spent::Compute as usize] += retire - self.retired - wait;
            self.spent[slot.spent as usize] += wait;
            self.retired = retire;
            let number = self.resolved;
            self.slot(number).retire = retire;
            if slot.store {
                let pending = &mut self.stores[self.retired_stores];
                debug_assert_eq!(pending.slot, number);
                if pending.ready == UNKNOWN {
                    pending.ready = retire;
                }
                self.retired_stores += 1;
            }
            if slot.acknowledge {
                self.acknowledged.push(retire);
                self.acknowledged_total += 1;
            }
            self.resolved += 1;
        }
    }

    /// Fetching may go on; from `now` on if it waited for the store buffer.
    pub(crate) fn unblock(&mut self, now: Ps) {
        if std::mem::replace(&mut self.blocked, false) && self.fetch_reason == Spent::Store {
            self.fetch = self.fetch.max(now);
        }
    }

    /// Puts an operation into the store buffer.
    pub(crate) fn push_store(&mut self, op: Op, slot: u64) {
        if op.kind == Kind::Store {
            self.waiting[Self::filter(op.addr)] += 1;
        }
        self.stores.push_back(Pending { op, ready: UNKNOWN, slot });
    }

    /// The head of the store buffer has acted.
    pub(crate) fn pop_store(&mut self) -> Option<Pending> {
        let pending = self.stores.pop_front()?;
        if pending.op.kind == Kind::Store {
            self.waiting[Self::filter(pending.op.addr)] -= 1;
        }
        // A fence acts before it retires.
        self.retired_stores = self.retired_stores.saturating_sub(1);
        Some(pending)
    }

    /// Whether a load of `addr` is served by the store buffer.
    #[inline]
    pub(crate) fn forwards(&self, addr: u64) -> bool {
        self.waiting[Self::filter(addr)] != 0
            && self.stores.iter().any(|pending| pending.op.kind == Kind::Store && pending.op.addr == addr)
    }

    fn filter(addr: u64) -> usize {
        (addr / 8 ^ addr / 2048) as usize & 255
    }

    /// When the store buffer's head acts; `UNKNOWN` if it does not.
    #[inline]
    pub(crate) fn next_store(&self) -> Ps {
        match self.stores.front() {
            Some(front) if self.stuck == Stuck::No && front.ready != UNKNOWN => {
                front.ready.max(self.store_time)
            }
            _ => UNKNOWN,
        }
    }

    /// When the thread acts next.
    #[inline]
    pub fn next(&self) -> Ps {
        let fetch = if self.blocked || self.finished { UNKNOWN } else { self.fetch };
        fetch.min(self.next_store())
    }

    /// Whether nothing is left.
    pub fn is_idle(&self) -> bool {
        self.finished && self.stores.is_empty() && self.resolved == self.next_slot
    }

    /// Lines of the write-combining buffer that have to leave before `line` can be combined at `now`.
    pub(crate) fn combine_victim(&self, line: u64, most: usize, now: Ps, idle: Ps) -> Option<usize> {
        let old = self.combining.iter().position(|open| open.line != line && open.touched + idle < now);
        let full = self.combining.len() >= most && self.combining.iter().all(|open| open.line != line);
        old.or_else(|| full.then_some(0))
    }

    /// Combines words into their line; whether the line is complete.
    pub(crate) fn combine(&mut self, addr: u64, word: u64, now: Ps) -> bool {
        let line = addr / LINE;
        let at = self.combining.iter().position(|open| open.line == line).unwrap_or_else(|| {
            self.combining.push(Combined { line, mask: 0, data: [0; 8], opened: now, touched: now });
            self.combining.len() - 1
        });
        let open = &mut self.combining[at];
        let index = (addr % LINE / 8) as usize;
        open.mask |= 1 << index;
        open.data[index] = word;
        open.touched = now;
        open.mask == 0xff
    }
}
