//! What a hardware thread does with the software log of the process: see [`crate::log::shared`].

use super::{Access, Cause, Engine, Feed, Kind, LINE, Op, Ps, Stuck, Write};
use crate::log::record::MOST_WORDS;
use crate::log::shared::{SharedLog, TAIL, TAKEN, needed_by};

impl<F: Feed> Engine<F> {
    fn shared(&mut self) -> &mut SharedLog {
        self.shared.as_mut().expect("a software log of the process")
    }

    /// Where an operation's byte lies: in the thread's last record, or where it says.
    #[inline]
    pub(super) fn placed(&self, who: usize, addr: u64) -> u64 {
        match &self.shared {
            Some(log) if addr >= TAKEN => log.place(who, addr),
            _ => addr,
        }
    }

    /// A word of a store past the caches: its place and its value.
    pub(super) fn placed_word(&self, who: usize, op: &Op, word: u64) -> (u64, u64) {
        let addr = op.addr + 8 * word;
        match &self.shared {
            Some(log) if addr >= TAKEN => (log.place(who, addr), log.word(who, addr)),
            _ if self.tracker.is_some() => (addr, self.feed.payload(op.value, word as usize)),
            _ => (addr, 0),
        }
    }

    /// A store to the thread's last record in a log that lies in the caches, or to where it says.
    #[inline]
    pub(super) fn placed_store(&self, who: usize, op: Op) -> Op {
        match &self.shared {
            Some(log) if op.addr >= TAKEN => {
                Op { addr: log.place(who, op.addr), value: log.word(who, op.addr), ..op }
            }
            _ => op,
        }
    }

    /// Takes space for a record: an atomic addition to the tail, which waits for space, and for those of other threads.
    pub(super) fn take_space(&mut self, who: usize, op: Op, now: Ps) -> Result<Ps, Stuck> {
        let (first, length) = (op.addr != 0, op.words);
        let mut at = now;
        while !self.shared().fits(length) {
            at = self.move_head(who, !first, true, at)?;
        }
        at = self.add_to_tail(who, at)?;
        let mut words = [0; MOST_WORDS];
        if self.tracker.is_some() {
            for (index, word) in words.iter_mut().enumerate().take(usize::from(length)) {
                *word = self.feed.payload(op.value, index);
            }
        }
        self.shared().take(who, first, length, words);
        Ok(at)
    }

    /// The line of the tail goes from core to core, one addition after the other.
    fn add_to_tail(&mut self, who: usize, now: Ps) -> Result<Ps, Stuck> {
        let start = now.max(self.shared().tail_free);
        let done = self.bring(who, TAIL / LINE, start)?;
        self.caches.write(self.threads[who].core, TAIL / LINE, None);
        self.shared().tail_free = done;
        Ok(done)
    }

    /// Brings a line into the thread's L1 for writing.
    fn bring(&mut self, who: usize, line: u64, now: Ps) -> Result<Ps, Stuck> {
        match self.caches.own(self.threads[who].core, line, now) {
            Access::Done(done) => Ok(done),
            Access::Memory(reached) => {
                self.fetch(who, line, reached, None);
                Err(Stuck::Fetch)
            }
        }
    }

    /// A thread says from where on it needs the log. `op.value`: whether it needs its open transaction.
    pub(super) fn release(&mut self, who: usize, op: Op, now: Ps) -> Result<Ps, Stuck> {
        let next = self.store(who, Op { kind: Kind::Store, ..op }, now)?;
        self.shared().release(who, op.value != 0);
        self.let_others_try(now);
        Ok(next)
    }

    /// At the end of a transaction: moves the head, if that is due still.
    pub(super) fn truncate(&mut self, who: usize, now: Ps) -> Result<Ps, Stuck> {
        let log = self.shared();
        if log.mover() != Some(who) && !log.is_due() {
            return Ok(now);
        }
        self.move_head(who, false, false, now)
    }

    /// Moves the head to the oldest record that is needed. `keep`: the thread has an open transaction with records. `must`: where
    /// the head cannot move, the log grows if it is this thread that holds it, and else the thread waits.
    fn move_head(&mut self, who: usize, keep: bool, must: bool, now: Ps) -> Result<Ps, Stuck> {
        let software = self.software.expect("a software log");
        match self.shared().mover() {
            Some(thread) if thread == who => {
                // The superblock is on its way.
                self.fence(who, now)?;
                return Ok(self.moved(now));
            }
            Some(_) if must => return Err(Stuck::LogSpace),
            Some(_) => return Ok(now),
            None => {}
        }
        let fenced = software.ordered && !software.cached_log;
        let late = fenced && !software.in_place;
        if late {
            // Then the data of earlier transactions are durable.
            self.fence(who, now)?;
            self.shared().release(who, keep);
        }
        let at = self.look_at_others(who, now)?;
        let base = self.shared().superblock_line();
        let at = if software.cached_log { self.bring(who, base, at)? } else { at };
        if !self.controller.has_room() {
            return Err(Stuck::WriteQueue);
        }
        let Some(words) = self.begin_move(who, must)? else { return Ok(at) };
        let at = self.store_superblock(who, base, words, at)?;
        if !fenced || self.flaws.early_reuse {
            return Ok(self.moved(at));
        }
        self.shared().stats.fences += 1 + u64::from(late);
        self.fence(who, at)?;
        Ok(self.moved(at))
    }

    /// The superblock with which the head moves or the log grows; `None`: nothing has to be done.
    fn begin_move(&mut self, who: usize, must: bool) -> Result<Option<[u64; 8]>, Stuck> {
        let all = self.flaws.head_ignores_threads;
        let log = self.shared();
        let head = if all { log.tail() } else { log.needed() };
        if head > log.head() {
            return Ok(Some(log.begin_move(who, head)));
        }
        match must {
            false => Ok(None),
            true if log.is_held_by(who) => log.begin_growth(who).map(Some).ok_or(Stuck::LogSpace),
            true => Err(Stuck::LogSpace),
        }
    }

    fn moved(&mut self, now: Ps) -> Ps {
        self.shared().end_move();
        self.let_others_try(now);
        now
    }

    /// Threads that wait for space may find some.
    fn let_others_try(&mut self, now: Ps) {
        if self.threads.iter().any(|thread| thread.stuck == Stuck::LogSpace) {
            self.unstick(now);
            (self.stale, self.woken) = (true, true);
        }
    }

    /// Loads what each other thread needs.
    fn look_at_others(&mut self, who: usize, now: Ps) -> Result<Ps, Stuck> {
        let (core, mut at) = (self.threads[who].core, now);
        for other in (0..self.threads.len()).filter(|other| *other != who) {
            let line = needed_by(other) / LINE;
            match self.caches.load(core, line, now) {
                Access::Done(done) => at = at.max(done),
                Access::Memory(reached) => {
                    self.fetch(who, line, reached, None);
                    return Err(Stuck::Fetch);
                }
            }
        }
        Ok(at)
    }

    fn store_superblock(&mut self, who: usize, line: u64, words: [u64; 8], now: Ps) -> Result<Ps, Stuck> {
        if self.software.is_some_and(|software| software.cached_log) {
            let store = |at: Ps, (index, word): (u64, u64)| {
                self.store(who, Op::new(Kind::Store, line * LINE + 8 * index, word), at)
            };
            return (0..8).zip(words).try_fold(now, store);
        }
        let mut write = Write::new(line, Cause::Log, now);
        (write.data, write.waiters[who]) = (words, 1);
        self.threads[who].outstanding += 1;
        self.controller.write(write, &mut self.done);
        self.finish(now);
        Ok(now + 8 * self.cycle)
    }
}
