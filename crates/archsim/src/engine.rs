//! The order of events: the earliest of all threads, the controller and the scans acts, and what each does to the others.
//!
//! A thread runs on until something else would be earlier. Requests that it makes carry their own times, which may lie a few
//! cycles ahead; the controller takes them when they are due. A dirty line that leaves the last level goes to the write queue
//! even when that is full (a victim buffer as large as there can be misses); write-backs, combined lines and scans wait for room.

use crate::cache::level::Entry;
use crate::cache::{Access, Hierarchy};
use crate::core::{Deferred, Spent, Stuck, Thread, UNKNOWN};
use crate::error::Error;
use crate::fwb::{Phase, Scanner};
use crate::log::buffer::LogBuffer;
use crate::log::record::{Kind as RecordKind, Record};
use crate::log::shared::SharedLog;
use crate::machine::{LINE, Machine, Ps};
use crate::memory::Cause;
use crate::memory::controller::{Controller, Done, Write};
use crate::op::{Kind, Op};
use crate::scheme::software::{Layout, VOLATILE, shares};
use crate::scheme::{Hardware, Scheme, Software};
use crate::timeline::{Lane, Span};

/// Where threads get their operations from.
pub trait Feed {
    /// Fills `ops` with the next of `thread`; false when there are no more.
    fn next(&mut self, thread: usize, ops: &mut Vec<Op>) -> bool;
    /// Bytes of a store past the caches; only asked when crashes are explored.
    fn payload(&self, place: u64, word: usize) -> u64;
}

/// A deliberate error of the protocol, by which the crash campaign shows that it would notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flaws {
    /// The head passes the first record of an active transaction.
    pub head_ignores_active: bool,
    /// The superblock follows the records that reuse the space that it frees.
    pub late_superblock: bool,
    /// A record gets its position before its line arrives.
    pub early_record: bool,
    /// A commit is acknowledged before its record is durable.
    pub early_acknowledge: bool,
    /// Recovery may stop at a torn bit only.
    pub bare_torn_bit: bool,
    /// The head of a shared software log passes what other threads need.
    pub head_ignores_threads: bool,
    /// Space of a shared software log is used again before the superblock is durable.
    pub early_reuse: bool,
}

/// What became durable, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persist {
    /// Words of a line; between the two times, any of them.
    Write {
        /// From here on a crash may leave part of it.
        start: Ps,
        /// From here on it is durable.
        finish: Ps,
        /// The line.
        line: u64,
        /// Its words.
        mask: u8,
        /// Their values.
        data: [u64; 8],
    },
    /// A transaction of a thread was acknowledged.
    Acknowledge {
        /// When.
        time: Ps,
        /// Of which thread.
        thread: usize,
    },
}

/// Records what a crash image is made of: the values in the caches, and every word that became durable with its time.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    /// Memory as the caches have it, by word.
    pub coherent: Vec<u64>,
    /// In the order in which it was noticed.
    pub events: Vec<Persist>,
    /// Times at which a dirty line older than the head was found (must stay empty).
    pub oracle: Vec<Ps>,
}

/// An open or unsettled transaction of hardware logging.
#[derive(Clone, Debug, Default)]
struct Transaction {
    active: bool,
    /// Start of its first record.
    first: Option<u64>,
    lines: Vec<u64>,
    logged: Vec<(u64, u64)>,
    number: u16,
    flushed: usize,
}

/// A commit that waits for the log.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    thread: usize,
    slot: u64,
    end: u64,
    first: u64,
    marker: u64,
    settled: bool,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    line: u64,
    thread: usize,
    /// Slot of a load; `None` for the head of the store buffer.
    slot: Option<u64>,
}

/// Counts of the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Time that store buffers' heads waited: fetch, log buffer, log space, write queue, write-backs.
    pub stuck: [Ps; 5],
    /// Lines of volatile memory fetched and written.
    pub dram_lines: u64,
    /// Loads, stores, write-backs and stores past the caches simulated.
    pub accesses: u64,
    /// Records of hardware logs.
    pub records: u64,
    /// Requests issued only to read an old value for a hardware log.
    pub log_reads: u64,
}

/// A machine under way.
#[derive(Debug)]
pub struct Engine<F: Feed> {
    machine: Machine,
    hardware: Option<Hardware>,
    software: Option<Software>,
    persistent_caches: bool,
    flaws: Flaws,
    cycle: Ps,
    /// Hardware threads.
    pub threads: Vec<Thread>,
    /// Caches.
    pub caches: Hierarchy,
    /// Controller.
    pub controller: Controller,
    /// The hardware log.
    pub log: Option<LogBuffer>,
    /// The software log that threads share.
    pub shared: Option<SharedLog>,
    /// Scans.
    pub scanner: Option<Scanner>,
    /// Where operations come from.
    pub feed: F,
    waiters: Vec<Waiter>,
    /// Those of the line that has arrived; kept for its memory.
    arrived: Vec<Waiter>,
    /// Threads in the order in which they try again.
    order: Vec<(Ps, usize)>,
    fills: Vec<(Ps, u64)>,
    done: Vec<Done>,
    transactions: Vec<Transaction>,
    commits: Vec<Waiting>,
    /// Records that were made before their line arrived (a flaw).
    early: Vec<Option<(u64, u64)>>,
    next_fill: Ps,
    /// Log position up to which records are durable, as the threads have learned it.
    log_durable: u64,
    scans_without_progress: u32,
    /// When each thread acts next, unless `stale`.
    nexts: Vec<Ps>,
    /// Whether another thread may have changed than the one that acts.
    stale: bool,
    /// Whether another thread may act now that waited.
    woken: bool,
    /// Counts.
    pub stats: EngineStats,
    /// Kept where crashes are explored.
    pub tracker: Option<Tracker>,
    /// Kept for a timeline.
    pub spans: Option<Vec<Span>>,
    /// Transactions acknowledged, all threads together, and the time of the latest.
    pub acknowledged: (u64, Ps),
}

impl<F: Feed> Engine<F> {
    /// At time zero, with empty caches.
    pub fn new(machine: &Machine, scheme: &Scheme, threads: usize, flaws: Flaws, feed: F) -> Self {
        let layout = Layout::new(machine, scheme, threads as u64);
        let cores = machine.cores as usize;
        let halves = |thread: usize| threads > cores && (thread + cores < threads || thread >= cores);
        let log = scheme.hardware.map(|_| {
            let mut format = layout.log(0, scheme, machine);
            format.crc = !flaws.bare_torn_bit;
            LogBuffer::new(format, machine, flaws.late_superblock)
        });
        let shared = shares(scheme, machine).then(|| SharedLog::new(layout.log(0, scheme, machine), threads));
        Self {
            hardware: scheme.hardware,
            software: scheme.software,
            persistent_caches: scheme.persistent_caches,
            flaws,
            cycle: machine.cycle(),
            threads: (0..threads).map(|at| Thread::new(machine, at % cores, halves(at))).collect(),
            caches: Hierarchy::new(machine),
            controller: Controller::new(machine),
            log,
            shared,
            scanner: scheme.hardware.is_some_and(|hardware| hardware.fwb).then(|| Scanner::new(machine)),
            feed,
            waiters: Vec::new(),
            arrived: Vec::new(),
            order: Vec::new(),
            fills: Vec::new(),
            done: Vec::new(),
            transactions: vec![Transaction::default(); threads],
            commits: Vec::new(),
            early: vec![None; threads],
            next_fill: Ps::MAX,
            log_durable: 0,
            scans_without_progress: 0,
            nexts: vec![0; threads],
            stale: true,
            woken: false,
            stats: EngineStats::default(),
            tracker: None,
            spans: None,
            acknowledged: (0, 0),
            machine: machine.clone(),
        }
    }

    /// Keeps what crashes need from now on; `coherent` is memory as the caches have it.
    pub(crate) fn track(&mut self, coherent: Vec<u64>) {
        self.tracker = Some(Tracker { coherent, ..Tracker::default() });
        if let Some(log) = &mut self.log {
            log.values = true;
        }
    }

    /// Keeps what happens from now on, for a timeline.
    pub fn watch(&mut self) {
        self.spans = Some(Vec::new());
        self.controller.commands = Some(Vec::new());
        if let Some(log) = &mut self.log {
            log.left = Some(Vec::new());
        }
    }

    /// Keeps a span for a timeline.
    fn note(&mut self, lane: Lane, what: &'static str, line: u64, (start, end): (Ps, Ps)) {
        if let Some(spans) = &mut self.spans {
            spans.push(Span { lane, what, addr: line * LINE, start, end });
        }
    }

    /// Runs until `transactions` are acknowledged since time zero, or all threads have ended.
    ///
    /// # Errors
    /// [`Error::Misfit`] if a transaction needs more log than there is.
    pub fn run(&mut self, transactions: u64) -> Result<(), Error> {
        while self.acknowledged.0 < transactions {
            if std::mem::take(&mut self.stale) {
                self.nexts.iter_mut().zip(&self.threads).for_each(|(next, thread)| *next = thread.next());
            }
            let events = self.next_event();
            let (mut who, mut first, mut second) = (0, UNKNOWN, UNKNOWN);
            for (at, next) in self.nexts.iter().enumerate() {
                if *next < first {
                    (who, second, first) = (at, first, *next);
                } else {
                    second = second.min(*next);
                }
            }
            if events <= first {
                if self.threads.iter().all(Thread::is_idle) {
                    return Ok(());
                }
                if events == UNKNOWN {
                    self.stalled()?;
                } else {
                    self.event(events)?;
                }
                self.stale = true;
            } else {
                self.run_thread(who, second);
                self.nexts[who] = self.threads[who].next();
            }
        }
        Ok(())
    }

    /// All threads wait for the log, and nothing else happens: it grows, or this program cannot go on.
    fn stalled(&mut self) -> Result<(), Error> {
        let waits = self.threads.iter().any(|thread| thread.stuck == Stuck::LogSpace);
        if !waits || !self.log.as_mut().is_some_and(LogBuffer::grow) {
            return Err(self.no_space());
        }
        self.scans_without_progress = 0;
        let now =
            self.threads.iter().filter(|thread| thread.stuck != Stuck::No).map(|thread| thread.stuck_since);
        self.unstick(now.max().unwrap_or(0));
        Ok(())
    }

    fn no_space(&self) -> Error {
        let size =
            self.machine.entries().into_iter().find(|(key, _)| *key == "log_size").map(|(_, size)| size);
        Error::Misfit(format!(
            "a transaction needs more log than there is: set log_size above {}",
            size.unwrap_or_default()
        ))
    }

    fn next_event(&self) -> Ps {
        let scan = self.scanner.as_ref().map_or(UNKNOWN, |scanner| scanner.next);
        self.controller.next().min(self.next_fill).min(scan)
    }

    /// Lets the controller run until everything that it has is written.
    pub fn quiesce(&mut self) {
        if let Some(log) = &mut self.log {
            log.demand(u64::MAX);
        }
        loop {
            let next = self.controller.next().min(self.next_fill);
            if next == UNKNOWN {
                return;
            }
            self.memory_event(next);
        }
    }

    // ---- events ----

    fn event(&mut self, now: Ps) -> Result<(), Error> {
        if self.controller.next() <= now || self.next_fill <= now {
            self.memory_event(now);
        }
        if self.scanner.as_ref().is_some_and(|scanner| scanner.next <= now) {
            self.scan(now);
            if self.scans_without_progress > 64 {
                self.stalled()?;
            }
        }
        self.unstick(now);
        Ok(())
    }

    fn memory_event(&mut self, now: Ps) {
        if self.controller.next() <= now {
            self.controller.step(now, &mut self.done);
        }
        while self.next_fill <= now {
            let at = self.fills.iter().position(|(time, _)| *time == self.next_fill).expect("the earliest");
            let (time, line) = self.fills.swap_remove(at);
            self.next_fill = self.fills.iter().map(|(time, _)| *time).min().unwrap_or(UNKNOWN);
            self.fill(line, time);
        }
        self.finish(now);
    }

    /// Takes what the controller has done, until nothing follows from it any more.
    #[inline]
    fn finish(&mut self, now: Ps) {
        if !self.done.is_empty() || self.log.as_ref().is_some_and(LogBuffer::wants) {
            self.take_done(now);
        }
    }

    fn take_done(&mut self, now: Ps) {
        loop {
            let mut done = std::mem::take(&mut self.done);
            if done.is_empty() {
                self.done = done;
                let drained = self.drain_log(now);
                if !drained {
                    return;
                }
                continue;
            }
            for event in done.drain(..) {
                match event {
                    Done::Read(line, time) => self.fill(line, time),
                    Done::Durable(write, start, finish) => self.durable(&write, start, finish),
                }
            }
            if self.done.is_empty() {
                self.done = done;
            }
        }
    }

    fn drain_log(&mut self, now: Ps) -> bool {
        let Some(log) = &mut self.log else { return false };
        let moved = log.wants() && log.drain(now, &mut self.controller, &mut self.done);
        if let (Some(left), Some(spans)) = (&mut log.left, &mut self.spans) {
            let span = |(line, start, end)| Span {
                lane: Lane::Buffer,
                what: "log line",
                addr: line * LINE,
                start,
                end,
            };
            spans.extend(left.drain(..).map(span));
        }
        moved
    }

    /// A write is in the persistence domain.
    fn durable(&mut self, write: &Write, start: Ps, finish: Ps) {
        for (thread, count) in write.waiters.iter().enumerate().filter(|(_, count)| **count > 0) {
            self.threads[thread].outstanding -= u32::from(*count);
        }
        if let Some(tracker) = &mut self.tracker
            && !self.persistent_caches
        {
            let (line, mask, data) = (write.line, write.mask, write.data);
            tracker.events.push(Persist::Write { start, finish, line, mask, data });
        }
        if write.log_end > 0 {
            // What this line made durable, and no line behind it, which may enter the queue a cycle later.
            self.log_durable = self.log_durable.max(write.log_end);
            self.acknowledge(finish);
        }
        self.advance(finish);
    }

    /// Commits whose records are durable.
    fn acknowledge(&mut self, now: Ps) {
        for at in 0..self.commits.len() {
            let commit = self.commits[at];
            if !commit.settled && commit.end <= self.log_durable {
                self.commits[at].settled = true;
                let wait = self.machine.commit == 0 && !self.flaws.early_acknowledge;
                if wait {
                    self.complete(commit.thread, commit.slot, now);
                }
            }
        }
    }

    /// A fence or commit is done.
    fn complete(&mut self, thread: usize, slot: u64, now: Ps) {
        self.threads[thread].complete_marker(slot, now);
        self.settle(thread, now);
    }

    /// Follows up completions of a thread.
    fn settle(&mut self, at: usize, now: Ps) {
        self.stale = true;
        self.start_deferred(at, now);
        let thread = &mut self.threads[at];
        thread.resolve();
        thread.unblock(now);
        for time in thread.acknowledged.drain(..) {
            self.acknowledged.0 += 1;
            self.acknowledged.1 = self.acknowledged.1.max(time);
            if let Some(tracker) = &mut self.tracker {
                tracker.events.push(Persist::Acknowledge { time, thread: at });
            }
        }
    }

    /// Moves the log's head as far as it may.
    fn advance(&mut self, now: Ps) {
        let (Some(log), Some(hardware)) = (&mut self.log, self.hardware) else { return };
        if !hardware.ordered {
            return;
        }
        let waiting = self.scanner.as_ref().is_some_and(Scanner::is_waiting);
        if !waiting && (hardware.fwb || self.commits.is_empty()) {
            self.commits.retain(|commit| !commit.settled);
            return;
        }
        let durable = self.controller.oldest_open();
        let open = self.transactions.iter().filter_map(|transaction| transaction.first);
        let mut head = match &mut self.scanner {
            Some(scanner) => {
                self.commits.retain(|commit| !commit.settled);
                let Some(head) = scanner.released(durable) else { return };
                head
            }
            None => {
                self.commits.retain(|commit| !commit.settled || commit.marker > durable);
                log.tail
            }
        };
        if !self.flaws.head_ignores_active {
            let unsettled = self.commits.iter().map(|commit| commit.first);
            head = open.chain(unsettled).fold(head, u64::min);
        }
        if head > log.head {
            log.head = head;
            self.scans_without_progress = 0;
            if let Some(scanner) = &mut self.scanner {
                scanner.stats.advances += 1;
            }
            if let Some(tracker) = &mut self.tracker
                && self.caches.oldest() < head
            {
                tracker.oracle.push(now);
            }
        }
    }

    /// Heads of store buffers try again, those that have waited longest first.
    fn unstick(&mut self, now: Ps) {
        self.order.clear();
        let waits = |thread: &Thread| !matches!(thread.stuck, Stuck::No | Stuck::Fetch);
        let waiting = self.threads.iter().enumerate().filter(|(_, thread)| waits(thread));
        self.order.extend(waiting.map(|(at, thread)| (thread.waiting_since, at)));
        self.order.sort_unstable();
        for (rank, (_, at)) in self.order.iter().enumerate() {
            let thread = &mut self.threads[*at];
            self.stats.stuck[thread.stuck as usize - 1] += now.saturating_sub(thread.stuck_since);
            thread.stuck = Stuck::No;
            // A picosecond apart: that is the order in which they come.
            thread.store_time = thread.store_time.max(now + rank as Ps);
        }
    }

    // ---- lines from memory ----

    /// Asks for a line on behalf of a load's slot or of the store buffer.
    fn fetch(&mut self, thread: usize, line: u64, at: Ps, slot: Option<u64>) {
        let new = self.waiters.iter().all(|waiter| waiter.line != line);
        self.waiters.push(Waiter { line, thread, slot });
        if slot.is_some() {
            self.threads[thread].misses += 1;
        }
        if !new {
            return;
        }
        let ready = if line >= VOLATILE / LINE {
            self.stats.dram_lines += 1;
            Some(at + self.machine.dram * 1000)
        } else {
            self.controller.read(line, at)
        };
        if let Some(time) = ready {
            self.fills.push((time, line));
            self.next_fill = self.next_fill.min(time);
        }
    }

    /// A line has arrived.
    fn fill(&mut self, line: u64, now: Ps) {
        // Taken out first: an eviction below may bring further lines in.
        let mut waiters = std::mem::take(&mut self.arrived);
        waiters.clear();
        waiters.extend(self.waiters.iter().filter(|waiter| waiter.line == line));
        self.waiters.retain(|waiter| waiter.line != line);
        let Some(first) = waiters.first() else { return };
        self.stale = true;
        let core = self.threads[first.thread].core;
        if let Some(victim) = self.caches.fill(core, line) {
            self.evict(victim.line, &victim.entry, now);
        }
        let mut told = 0_u32;
        for waiter in &waiters {
            told |= 1 << waiter.thread;
            let Some(slot) = waiter.slot else {
                let thread = &mut self.threads[waiter.thread];
                self.stats.stuck[0] += now.saturating_sub(thread.stuck_since);
                thread.stuck = Stuck::No;
                thread.store_time = thread.store_time.max(now);
                continue;
            };
            self.threads[waiter.thread].misses -= 1;
            let own = self.threads[waiter.thread].core;
            let done = if core == own { now } else { self.again(waiter.thread, line, now, slot) };
            self.threads[waiter.thread].complete(slot, done);
        }
        self.arrived = waiters;
        for thread in (0..self.threads.len()).filter(|thread| told & 1 << thread != 0) {
            self.settle(thread, now);
        }
    }

    /// A load of another core, which waited for the same line.
    fn again(&mut self, thread: usize, line: u64, now: Ps, slot: u64) -> Ps {
        match self.caches.load(self.threads[thread].core, line, now) {
            Access::Done(done) => done,
            Access::Memory(at) => {
                self.fetch(thread, line, at, Some(slot));
                UNKNOWN
            }
        }
    }

    /// A dirty line leaves the caches by itself.
    fn evict(&mut self, line: u64, entry: &Entry, now: Ps) {
        if line >= VOLATILE / LINE {
            self.stats.dram_lines += 1;
            return;
        }
        self.write(line, entry, Cause::Eviction, now, None);
    }

    /// Sends a line of data to NVRAM.
    fn write(&mut self, line: u64, entry: &Entry, cause: Cause, now: Ps, waiter: Option<usize>) {
        let mut write = Write::new(line, cause, now);
        if let Some(tracker) = &self.tracker {
            let at = line as usize * 8;
            write.data.copy_from_slice(&tracker.coherent[at..at + 8]);
        }
        if let (Some(log), Some(hardware)) = (&mut self.log, self.hardware)
            && hardware.ordered
        {
            write.need = entry.last;
            log.demand(entry.last);
        }
        if let Some(thread) = waiter {
            write.waiters[thread] = 1;
            self.threads[thread].outstanding += 1;
        }
        self.controller.write(write, &mut self.done);
        self.finish(now);
    }

    // ---- scans ----

    fn scan(&mut self, now: Ps) {
        let sets = self.caches.sets();
        let (Some(scanner), Some(log)) = (&mut self.scanner, &self.log) else { return };
        if scanner.phase == Phase::Idle {
            if scanner.is_waiting() && self.controller.next() != UNKNOWN {
                // What the last scan wrote is not durable yet: another would only find it again.
                scanner.next = self.controller.next().max(now + self.cycle);
                return;
            }
            scanner.begin(now, log.tail);
            let waits = |thread: &Thread| thread.stuck == Stuck::LogSpace || thread.is_idle();
            let all = self.threads.iter().all(waits);
            self.scans_without_progress = if all { self.scans_without_progress + 1 } else { 0 };
        }
        if scanner.force.is_empty() && !scanner.is_at_end(sets) {
            let (upper, range) = scanner.visit(now, sets);
            for set in range {
                let flagged = self.caches.scan(upper, set, &mut scanner.force);
                scanner.stats.flagged += flagged;
            }
        }
        self.force(now);
        let scanner = self.scanner.as_mut().expect("it is there");
        if !scanner.force.is_empty() {
            // The write queue is full: go on when the controller has acted.
            scanner.next = self.controller.next().max(now + self.cycle);
        } else if scanner.is_at_end(sets) {
            let log = self.log.as_ref().expect("it is there");
            let full = log.is_fuller_than(self.machine.fwb_start);
            let ended = scanner.next.max(now);
            scanner.end(ended, self.controller.next_id(), full);
            self.advance(now);
        }
    }

    /// Writes flagged lines back, as long as the write queue has room.
    fn force(&mut self, now: Ps) {
        let polite = self.machine.fwb_queue == 1;
        while self.controller.has_room() && (!polite || self.controller.is_below_watermark()) {
            let Some(line) = self.scanner.as_mut().and_then(|scanner| scanner.force.pop()) else { return };
            if let Some(dirt) = self.caches.write_back(line)
                && line < VOLATILE / LINE
            {
                self.scanner.as_mut().expect("it is there").stats.forced += 1;
                self.write(line, &dirt, Cause::Scan, now, None);
            }
        }
    }
}

mod shared;
mod thread;
