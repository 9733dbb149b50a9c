//! What a hardware thread does: fetching operations, loads, and the head of the store buffer.

use super::{
    Access, Cause, Deferred, Engine, Feed, Kind, LINE, Lane, Op, Persist, Ps, Record, RecordKind, SharedLog,
    Span, Spent, Stuck, UNKNOWN, VOLATILE, Waiting, Write,
};
use crate::timeline;

impl<F: Feed> Engine<F> {
    /// Lets a thread act until another would be earlier.
    pub(super) fn run_thread(&mut self, who: usize, others: Ps) {
        loop {
            let thread = &self.threads[who];
            let (store, next) = (thread.next_store(), thread.next());
            if next == UNKNOWN || next > others || next >= self.next_event() || self.woken {
                self.woken = false;
                return;
            }
            if store == next {
                self.store_step(who, store);
            } else {
                self.fetch_step(who, others);
            }
        }
    }

    // ---- fetch ----

    fn fetch_step(&mut self, who: usize, others: Ps) {
        let thread = &mut self.threads[who];
        if thread.cursor == thread.ops.len() {
            thread.ops.clear();
            thread.cursor = 0;
            if !self.feed.next(who, &mut thread.ops) {
                thread.finished = true;
                return;
            }
        }
        let op = thread.ops[thread.cursor];
        let store = match op.kind {
            Kind::Load | Kind::LoadAfterLoad | Kind::Compute | Kind::Acknowledge => false,
            // The branch that is not taken.
            Kind::Truncate => self.shared.as_ref().is_some_and(SharedLog::is_due),
            _ => true,
        };
        let count = op.instructions() as u32;
        if !thread.make_room(count, store) {
            thread.blocked = true;
            return;
        }
        if thread.fetch > others || thread.fetch >= self.next_event() {
            return; // it had to wait, and others come first
        }
        let accepted = if store { self.enter_store(who, op, count) } else { self.enter_load(who, op, count) };
        if accepted {
            let thread = &mut self.threads[who];
            thread.cursor += 1;
            thread.instructions[usize::from(op.logging)] += u64::from(count);
            thread.resolve();
            if !thread.acknowledged.is_empty() {
                let now = thread.fetch;
                self.settle(who, now);
            }
        }
    }

    fn enter_store(&mut self, who: usize, op: Op, count: u32) -> bool {
        let thread = &mut self.threads[who];
        let (spent, done) = match op.kind {
            Kind::Fence => (Spent::Fence, UNKNOWN),
            Kind::TakeSpace | Kind::Truncate => (Spent::LogSpace, UNKNOWN),
            Kind::Commit => (Spent::Commit, UNKNOWN),
            _ => (Spent::Compute, 0),
        };
        let slot = thread.enter(count, spent, true, done);
        if done != UNKNOWN {
            let fetched = thread.fetch;
            thread.complete(slot, fetched);
        }
        if op.kind == Kind::Commit {
            thread.acknowledge(slot);
        }
        thread.push_store(op, slot);
        true
    }

    fn enter_load(&mut self, who: usize, op: Op, count: u32) -> bool {
        if !matches!(op.kind, Kind::Load | Kind::LoadAfterLoad) {
            let thread = &mut self.threads[who];
            let slot = thread.enter(count, Spent::Compute, false, 0);
            let fetched = thread.fetch;
            thread.complete(slot, fetched);
            if op.kind == Kind::Acknowledge {
                thread.acknowledge(slot);
            }
            return true;
        }
        let thread = &mut self.threads[who];
        let after = if op.kind == Kind::LoadAfterLoad { thread.last_load } else { u64::MAX };
        let known = thread.done(after);
        let line = op.addr / LINE;
        if known == UNKNOWN {
            let slot = thread.enter(count, Spent::Load, false, UNKNOWN);
            thread.last_load = slot;
            thread.deferred.push(Deferred { slot, after, line });
            return true;
        }
        let slot = thread.enter(count, Spent::Load, false, UNKNOWN);
        let start = thread.fetch.max(known);
        if thread.forwards(op.addr) {
            thread.last_load = slot;
            thread.complete(slot, start + self.machine.l1_latency * self.cycle);
            return true;
        }
        thread.last_load = slot;
        self.stats.accesses += 1;
        self.access(who, slot, line, start);
        true
    }

    /// A load whose address is known goes to the caches.
    fn access(&mut self, who: usize, slot: u64, line: u64, start: Ps) {
        let core = self.threads[who].core;
        match self.caches.load(core, line, start) {
            Access::Done(done) => self.threads[who].complete(slot, done),
            Access::Memory(at) if self.threads[who].misses < self.threads[who].most_misses => {
                self.fetch(who, line, at, Some(slot));
            }
            Access::Memory(_) => {
                // No miss register is free: it tries again when a line has come.
                self.caches.stats.l1_accesses -= 1;
                self.caches.stats.l1_misses -= 1;
                self.caches.stats.l2_misses -= 1;
                self.threads[who].deferred.push(Deferred { slot, after: u64::MAX, line });
            }
        }
    }

    /// Loads that waited for an address, or for a miss register.
    pub(super) fn start_deferred(&mut self, who: usize, now: Ps) {
        let mut at = 0;
        while at < self.threads[who].deferred.len() {
            let thread = &self.threads[who];
            let waits = thread.deferred[at];
            let known = thread.done(waits.after);
            let full = waits.after == u64::MAX && thread.misses >= thread.most_misses;
            if known == UNKNOWN || full {
                at += 1;
                continue;
            }
            self.threads[who].deferred.remove(at);
            self.stats.accesses += 1;
            self.access(who, waits.slot, waits.line, now.max(known));
            // Those before it may have waited for this one.
            at = 0;
        }
    }

    // ---- the head of the store buffer ----

    fn store_step(&mut self, who: usize, now: Ps) {
        let pending = *self.threads[who].stores.front().expect("it acts");
        let moved = match pending.op.kind {
            Kind::Store => self.store(who, self.placed_store(who, pending.op), now),
            Kind::NtStore => self.store_past(who, pending.op, now),
            Kind::Clwb => self.write_back(who, pending.op.addr / LINE, now).map(|()| now + self.cycle),
            Kind::Fence => self.fence(who, now),
            Kind::TakeSpace => self.take_space(who, pending.op, now),
            Kind::Release => self.release(who, pending.op, now),
            Kind::Truncate => self.truncate(who, now),
            Kind::Begin => {
                self.begin(who, pending.op.addr);
                Ok(now + self.cycle)
            }
            _ => self.commit(who, pending.slot, now),
        };
        if let Ok(next) = moved {
            let begun = self.threads[who].waiting_since.min(now);
            let Op { kind, addr, .. } = pending.op;
            let line = match kind {
                Kind::Store | Kind::NtStore | Kind::Clwb => self.placed(who, addr) / LINE,
                _ => 0,
            };
            self.note(Lane::Core, timeline::word(kind), line, (begun, next));
        }
        let thread = &mut self.threads[who];
        match moved {
            Ok(next) => {
                thread.pop_store();
                thread.waiting_since = UNKNOWN;
                thread.store_time = next;
                thread.unblock(now);
                let access = [Kind::Store, Kind::Clwb, Kind::NtStore, Kind::TakeSpace, Kind::Release];
                self.stats.accesses += u64::from(access.contains(&pending.op.kind));
                match pending.op.kind {
                    Kind::TakeSpace | Kind::Truncate => self.complete(who, pending.slot, next),
                    Kind::Fence => self.complete(who, pending.slot, now),
                    Kind::Commit => self.committed(who, pending.slot, now),
                    _ => {}
                }
            }
            Err(stuck) => {
                (thread.stuck, thread.stuck_since) = (stuck, now);
                thread.waiting_since = thread.waiting_since.min(now);
            }
        }
    }

    pub(super) fn store(&mut self, who: usize, op: Op, now: Ps) -> Result<Ps, Stuck> {
        let line = op.addr / LINE;
        let core = self.threads[who].core;
        let logged = self.hardware.is_some() && self.transactions[who].active && op.addr < VOLATILE;
        let mut place = self.caches.place_to_write(core, line);
        let here = place.is_some();
        if logged && !here && self.flaws.early_record && self.early[who].is_none() {
            self.early[who] = self.record(who, &op, now)?;
        }
        let mut at = now;
        if !here {
            match self.caches.own(core, line, now) {
                Access::Done(done) => (at, place) = (done, self.caches.place_to_write(core, line)),
                Access::Memory(reached) => {
                    self.fetch(who, line, reached, None);
                    return Err(Stuck::Fetch);
                }
            }
        }
        let record = match self.early[who].take() {
            None if logged => self.record(who, &op, at)?,
            early => early,
        };
        self.caches.write_found(core, line, place, record);
        if logged && !self.transactions[who].lines.contains(&line) {
            self.transactions[who].lines.push(line);
        }
        self.keep(op.addr, op.value, at);
        self.finish(at);
        Ok(at + self.cycle)
    }

    /// Keeps the value of a store where crashes are explored.
    fn keep(&mut self, addr: u64, value: u64, now: Ps) {
        let Some(tracker) = &mut self.tracker else { return };
        if addr >= VOLATILE {
            return;
        }
        let word = (addr / 8) as usize;
        if word >= tracker.coherent.len() {
            // A log in the caches has grown.
            tracker.coherent.resize((word | 7) + 1, 0);
        }
        tracker.coherent[word] = value;
        if self.persistent_caches {
            let mut data = [0; 8];
            data[word % 8] = value;
            let (line, mask) = (addr / LINE, 1 << (word % 8));
            tracker.events.push(Persist::Write { start: now, finish: now, line, mask, data });
        }
    }

    /// Appends the record of a store. `Ok(None)`: none is needed.
    fn record(&mut self, who: usize, op: &Op, now: Ps) -> Result<Option<(u64, u64)>, Stuck> {
        let hardware = self.hardware.expect("hardware logging");
        let log = self.log.as_ref().expect("hardware logging");
        let base = log.format.aligned(op.addr);
        let coalesce = self.machine.log_coalesce == 1;
        let first = hardware.first || (coalesce && !hardware.redo);
        let morph = hardware.morph || (coalesce && hardware.redo);
        let known =
            self.transactions[who].logged.iter().find(|(addr, _)| *addr == base).map(|(_, start)| *start);
        if first && let Some(start) = known {
            return Ok(Some((start, start)));
        }
        if morph
            && let Some(start) = known
            && start >= self.controller.log_durable()
            && self.log.as_mut().is_some_and(|log| log.amend(start, op, base))
        {
            let end =
                start + 8 * self.log.as_ref().map_or(0, |log| log.format.length(RecordKind::Update)) as u64;
            return Ok(Some((start, end)));
        }
        self.make_space(who, RecordKind::Update);
        self.check_log(who, RecordKind::Update)?;
        // The old word is in the line that is about to be written; else it would have to be read for the log.
        let here = self.caches.writable(self.threads[who].core, op.addr / LINE);
        self.stats.log_reads += u64::from(!here);
        let log = self.log.as_mut().expect("hardware logging");
        let transaction = &mut self.transactions[who];
        let mut record = Record {
            kind: RecordKind::Update,
            thread: who as u8,
            tx: transaction.number,
            addr: base,
            undo: [0; 8],
            redo: [0; 8],
        };
        if let Some(tracker) = &self.tracker {
            let at = (base / 8) as usize;
            record.undo[..log.format.words].copy_from_slice(&tracker.coherent[at..at + log.format.words]);
            record.redo = record.undo;
            record.redo[((op.addr - base) / 8) as usize] = op.value;
        }
        let enqueue = now + self.machine.log_enqueue * self.cycle;
        let (start, end) = log.append(&record, enqueue);
        let line = log.format.place(start) / LINE;
        self.stats.records += 1;
        if morph {
            log.remember(start, record);
        }
        if first || morph {
            match transaction.logged.iter_mut().find(|(addr, _)| *addr == base) {
                Some(entry) => entry.1 = start,
                None => transaction.logged.push((base, start)),
            }
        }
        transaction.first = Some(transaction.first.unwrap_or(start));
        if let Some(spans) = &mut self.spans {
            let (addr, end) = (line * LINE, enqueue + self.cycle);
            spans.push(Span { lane: Lane::Entry, what: "record", addr, start: now, end });
        }
        if !hardware.ordered {
            log.head = log.tail;
        } else if log.is_fuller_than(self.machine.fwb_start)
            && let Some(scanner) = &mut self.scanner
        {
            scanner.alarm(now);
        }
        self.finish(now);
        Ok(Some((start, end)))
    }

    /// Whether a record may be appended. The oldest transaction may use the log's reserve: it alone can let the head move.
    pub(super) fn check_log(&self, who: usize, kind: RecordKind) -> Result<(), Stuck> {
        let log = self.log.as_ref().expect("hardware logging");
        let oldest = self.transactions.iter().filter_map(|transaction| transaction.first).min();
        let mine = oldest.is_none() || self.transactions[who].first == oldest;
        let limit = if mine { 100 } else { self.machine.fwb_stall };
        if self.hardware.is_some_and(|hardware| hardware.ordered) && !log.has_space(kind, limit) {
            return Err(Stuck::LogSpace);
        }
        if log.has_room() { Ok(()) } else { Err(Stuck::LogBuffer) }
    }

    /// Whether the log is full and its head cannot move, because it stands at the first record of this very transaction.
    pub(super) fn must_grow(&self, who: usize, kind: RecordKind) -> bool {
        let (Some(log), Some(own)) = (&self.log, self.transactions[who].first) else { return false };
        let ordered = self.hardware.is_some_and(|hardware| hardware.ordered);
        ordered && log.head >= own && !log.has_space(kind, 100)
    }

    /// Lets the log grow where it must.
    fn make_space(&mut self, who: usize, kind: RecordKind) {
        if self.must_grow(who, kind)
            && let Some(log) = &mut self.log
        {
            // Without a further area the thread is stuck, and the run ends with an error that says so.
            let _ = log.grow();
        }
    }

    /// A store past the caches.
    fn store_past(&mut self, who: usize, op: Op, now: Ps) -> Result<Ps, Stuck> {
        if !self.controller.has_room() {
            return Err(Stuck::WriteQueue);
        }
        let line = self.placed(who, op.addr) / LINE;
        if let Some(dirt) = self.caches.take_out(line) {
            self.evict(line, &dirt, now);
        }
        let (most, idle) = (self.machine.wc_lines as usize, self.machine.wc_idle * self.cycle);
        for word in 0..u64::from(op.words) {
            let (addr, value) = self.placed_word(who, &op, word);
            while let Some(victim) = self.threads[who].combine_victim(addr / LINE, most, now, idle) {
                self.send_combined(who, victim, now);
            }
            if self.threads[who].combine(addr, value, now) {
                let line = addr / LINE;
                let at = self.threads[who].combining.iter().position(|open| open.line == line);
                self.send_combined(who, at.expect("just combined"), now);
            }
        }
        Ok(now + u64::from(op.words) * self.cycle)
    }

    fn send_combined(&mut self, who: usize, at: usize, now: Ps) {
        let open = self.threads[who].combining.remove(at);
        self.note(Lane::Buffer, "combining", open.line, (open.opened, now));
        let mut write = Write::new(open.line, Cause::Log, now);
        (write.mask, write.data) = (open.mask, open.data);
        write.waiters[who] = 1;
        self.threads[who].outstanding += 1;
        self.controller.write(write, &mut self.done);
        self.finish(now);
    }

    /// Writes a line back and lets the thread's fences wait for it; also for a write of it that is under way.
    fn write_back(&mut self, who: usize, line: u64, now: Ps) -> Result<(), Stuck> {
        if u64::from(self.threads[who].outstanding) >= self.machine.clwb_slots {
            return Err(Stuck::Persist);
        }
        if !self.caches.is_dirty(line) {
            self.threads[who].outstanding += u32::from(self.controller.attach(line, who));
            return Ok(());
        }
        if !self.controller.has_room() {
            return Err(Stuck::WriteQueue);
        }
        let dirt = self.caches.write_back(line).expect("it is dirty");
        self.write(line, &dirt, Cause::Clwb, now, Some(who));
        Ok(())
    }

    pub(super) fn fence(&mut self, who: usize, now: Ps) -> Result<Ps, Stuck> {
        while !self.threads[who].combining.is_empty() {
            if !self.controller.has_room() {
                return Err(Stuck::WriteQueue);
            }
            self.send_combined(who, 0, now);
        }
        if self.threads[who].outstanding > 0 { Err(Stuck::Persist) } else { Ok(now) }
    }

    // ---- transactions of hardware ----

    fn begin(&mut self, who: usize, number: u64) {
        let transaction = &mut self.transactions[who];
        transaction.active = true;
        transaction.first = None;
        transaction.lines.clear();
        transaction.logged.clear();
        transaction.flushed = 0;
        // A physical number of one byte; every thread takes the same few again and again.
        transaction.number = (number % 2) as u16;
    }

    /// The commit record, after what must be durable before it.
    fn commit(&mut self, who: usize, _slot: u64, now: Ps) -> Result<Ps, Stuck> {
        let hardware = self.hardware.expect("hardware logging");
        if hardware.flush {
            while let Some(line) = self.transactions[who].lines.get(self.transactions[who].flushed).copied() {
                self.write_back(who, line, now)?;
                self.transactions[who].flushed += 1;
            }
            if self.threads[who].outstanding > 0 {
                return Err(Stuck::Persist);
            }
        }
        if self.transactions[who].first.is_some() {
            self.make_space(who, RecordKind::Commit);
            self.check_log(who, RecordKind::Commit)?;
        }
        Ok(now + self.cycle)
    }

    fn committed(&mut self, who: usize, slot: u64, now: Ps) {
        let hardware = self.hardware.expect("hardware logging");
        let transaction = &mut self.transactions[who];
        transaction.active = false;
        let Some(first) = transaction.first.take() else {
            return self.complete(who, slot, now); // it stored nothing
        };
        let number = transaction.number;
        let record = Record {
            kind: RecordKind::Commit,
            thread: who as u8,
            tx: number,
            addr: 0,
            undo: [0; 8],
            redo: [0; 8],
        };
        let log = self.log.as_mut().expect("hardware logging");
        let (start, end) = log.append(&record, now);
        let line = log.format.place(start) / LINE;
        if let Some(spans) = &mut self.spans {
            let (addr, end) = (line * LINE, now + self.cycle);
            spans.push(Span { lane: Lane::Entry, what: "commit record", addr, start: now, end });
        }
        if !hardware.ordered {
            log.head = log.tail;
            self.finish(now);
            return self.complete(who, slot, now);
        }
        log.demand(end);
        let marker = self.controller.next_id();
        self.commits.push(Waiting { thread: who, slot, end, first, marker, settled: false });
        let waits = self.machine.commit == 0 && !self.flaws.early_acknowledge;
        if !waits {
            self.complete(who, slot, now);
        }
        self.acknowledge(now);
        self.finish(now);
    }
}
