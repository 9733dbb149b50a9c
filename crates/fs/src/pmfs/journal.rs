//! The undo journal: a ring of one-line log entries.
//!
//! # Protocol (PMFS paper, section 3.2; `fs/pmfs/journal.c` of its kernel module)
//!
//! 1. *Begin* reserves entries, contiguous, by moving the tail. Where they would pass the end of the ring, tail and generation
//!    change together in one store and the transaction starts at 0.
//! 2. *Log* copies the old bytes of a range into entries and makes them durable before the range may change. An entry counts
//!    when its generation is that of its lap; that word is stored last.
//! 3. The caller changes the range in place.
//! 4. *Commit* makes the changed ranges durable, then the commit entry. *Abort* puts the old bytes back.
//! 5. The *cleaner* moves the head over transactions that have ended.
//!
//! Recovery (`recovery.rs`) walks from the tail back to the head and undoes what has no commit.
//!
//! If the medium refuses an entry, a commit or an abort, the transaction can neither end nor be passed by the head. The journal
//! then *fails*: no transaction begins ([`Error::Failed`]), no change outside a transaction is accepted, no sync succeeds
//! (`Volume::check_sound`), and the next mount undoes the open transactions.
//!
//! # Which transactions may overlap
//!
//! Undoing a transaction must not undo a later one. Ranges of two open transactions are therefore disjoint: a task that changes
//! bytes holds the lock of their inode from before the log until after the commit. HiNFS instead keeps one open transaction for
//! an inode, and every later change of that inode joins it or waits for its commit.
//!
//! # States of a transaction
//!
//! ```text
//! begin ──► open ──log──► open ──commit──► ended      head may pass it once all older ones have ended, too
//!                           └────abort───► ended
//! ```
//!
//! Lock order: `pmfs.journal` is a leaf. A task that holds it waits for the medium only while it writes the line of the tail
//! word.

use std::collections::VecDeque;
use std::sync::Arc;

use media::event::Mark;
use media::nvmm::Region;
use sim::sync::{AtomicBool, AtomicU32, Ordering};
use sim::{ByteRun, Condvar, LockClass, Mutex, Nanos, Work, ran};

use super::layout::{ENTRY, ENTRY_PAYLOAD, JournalDescriptor, LogEntry, entry, jd};
use super::parts;
use base::error::{Error, Result};

pub(super) static JOURNAL: LockClass = LockClass::new("pmfs.journal").under(&[&super::inode::INODE_TABLE]);
pub(super) static JOURNAL_SPACE: LockClass = LockClass::new("pmfs.journal_space");
pub(super) static CLEANER: LockClass = LockClass::new("pmfs.cleaner");

/// The journal of a mounted volume.
pub(crate) struct Journal {
    region: Arc<Region>,
    base: u64,
    /// Entries of the ring.
    entries: u32,
    ring: Mutex<Ring>,
    /// Indexed by the first entry of a transaction: it has ended.
    ended: Box<[AtomicBool]>,
    /// Entries between head and tail, for readers without the lock.
    used: AtomicU32,
    /// Entries that open transactions have reserved.
    open: AtomicU32,
    /// Space was freed.
    space: Condvar,
    /// The cleaner is wanted, or is to stop.
    cleaner: Condvar,
    /// A transaction could not be ended.
    failed: AtomicBool,
}

/// The volatile view of the ring. Indices count entries.
struct Ring {
    head: u32,
    tail: u32,
    generation: u16,
    next_id: u32,
    /// Transactions between head and tail in the order of their begin: first entry of each.
    begun: VecDeque<u32>,
    /// The cleaner is woken when more than this is used: an eighth of the ring beyond what it could not clean last time.
    clean_above: u32,
    stop: bool,
}

/// An open transaction. It must be given to [`Journal::commit`] or [`Journal::abort`].
#[derive(Debug)]
#[must_use = "a transaction ends by commit or abort"]
pub(crate) struct Transaction {
    first: u32,
    used: u32,
    reserved: u32,
    id: u32,
    generation: u16,
    /// Blocks that were taken for it, as (offset, log2 of the size): rolling it back gives them back.
    pub(crate) taken: Vec<(u64, u32)>,
    /// Those of them that are tree nodes: no pointer leads to them before the commit, so changing them needs no log.
    pub(crate) nodes: Vec<u64>,
    /// The ranges that its commit entry makes valid; gathered only while a tap is attached.
    needs: Vec<ByteRun>,
}

impl Transaction {
    /// How many bytes can still be logged, in pieces of at most one entry each.
    pub(crate) fn room(&self) -> u32 {
        self.reserved - self.used
    }

    /// Entries that it has written.
    pub(crate) fn used(&self) -> u32 {
        self.used
    }
}

/// The generation of the lap after `generation`; 0 is never one.
pub(crate) fn next_generation(generation: u16) -> u16 {
    if generation == u16::MAX { 1 } else { generation + 1 }
}

/// Makes all entries of a ring invalid, durably. No transaction may be open.
pub(crate) fn wipe(region: &Region, base: u64, entries: u32) -> Result<()> {
    for index in 0..u64::from(entries) {
        region.store_u64(base + index * ENTRY + 8, 0)?;
        region.flush(base + index * ENTRY + 8, 8);
    }
    region.fence();
    Ok(())
}

impl Journal {
    /// The journal that `descriptor` describes, which recovery has left empty.
    pub(crate) fn open(region: &Arc<Region>, descriptor: &JournalDescriptor) -> Self {
        let entries = descriptor.size / ENTRY as u32;
        let ring = Ring {
            head: descriptor.head / ENTRY as u32,
            tail: descriptor.tail / ENTRY as u32,
            generation: descriptor.generation,
            next_id: 1,
            begun: VecDeque::new(),
            clean_above: entries / 8,
            stop: false,
        };
        Self {
            region: Arc::clone(region),
            base: descriptor.base,
            entries,
            ring: Mutex::new(&JOURNAL, ring),
            ended: (0..entries).map(|_| AtomicBool::new(false)).collect(),
            used: AtomicU32::new(0),
            open: AtomicU32::new(0),
            space: Condvar::of_class(&JOURNAL_SPACE),
            cleaner: Condvar::of_class(&CLEANER),
            failed: AtomicBool::new(false),
        }
    }

    /// Starts a transaction that logs at most `entries` entries. Waits while the journal is full of open transactions.
    pub(crate) fn begin(&self, entries: u32) -> Result<Transaction> {
        let _part = sim::part(&parts::NEW_TRANSACTION);
        let need = entries + 1;
        if need >= self.entries / 2 {
            return Err(Error::Corrupt(format!(
                "a transaction of {need} entries in a journal of {}",
                self.entries
            )));
        }
        let _scope = sim::scope(media::charges::JOURNAL);
        let mut ring = self.ring.lock();
        loop {
            if let Some(tx) = self.begin_now(&mut ring, need)? {
                return Ok(tx);
            }
            ring = self.space.wait_timeout(ring, Nanos::from_millis(1)).0;
        }
    }

    /// Starts a transaction of `need` entries in all, if there is space for it.
    fn begin_now(&self, ring: &mut Ring, need: u32) -> Result<Option<Transaction>> {
        if self.has_failed() {
            return Err(Error::Failed);
        }
        if !self.place_is_free(ring, need) {
            self.pass_ended(ring)?;
        }
        let first = self.place(ring, need)?;
        Ok(first.map(|first| self.start(ring, first, need)))
    }

    /// Gives an open transaction room for `entries` more, by moving it to the tail: its old bytes are logged again, then the
    /// first copy is committed. Recovery undoes the newer copy first, so a crash between the two does no harm. Returns false when
    /// there is no space; never waits.
    pub(crate) fn enlarge(&self, tx: &mut Transaction, entries: u32) -> Result<bool> {
        let need = tx.used + entries + 1;
        if need >= self.entries / 2 {
            return Ok(false);
        }
        let _scope = sim::scope(media::charges::JOURNAL);
        let Some(mut larger) = self.begin_now(&mut self.ring.lock(), need)? else { return Ok(false) };
        if let Err(error) = self.log_again(tx, &mut larger) {
            // Committed, not aborted: what it has logged so far is not to be undone.
            self.close(&mut larger, entry::COMMIT).inspect_err(|_| self.fail())?;
            return Err(error);
        }
        std::mem::swap(&mut larger.taken, &mut tx.taken);
        std::mem::swap(&mut larger.nodes, &mut tx.nodes);
        let mut old = std::mem::replace(tx, larger);
        self.close(&mut old, entry::COMMIT).inspect_err(|_| self.fail())?;
        Ok(true)
    }

    fn log_again(&self, tx: &Transaction, copy: &mut Transaction) -> Result<()> {
        for index in tx.first..tx.first + tx.used {
            let logged: LogEntry = self.region.read(self.offset(index))?;
            let old = logged.old.get(..usize::from(logged.len)).unwrap_or_default();
            self.append(copy, entry::DATA, logged.target, old)?;
        }
        Ok(())
    }

    /// The part of the ring that open transactions have reserved for themselves: 0 to 1. The rest of [`Journal::fullness`]
    /// has ended and only stands behind an older open one.
    pub(crate) fn open_share(&self) -> f64 {
        f64::from(self.open.load(Ordering::Relaxed)) / f64::from(self.entries)
    }

    /// Moves the head over ended transactions, so that [`Journal::fullness`] counts the open ones.
    pub(crate) fn clean(&self) -> Result<()> {
        let _scope = sim::scope(media::charges::JOURNAL);
        self.pass_ended(&mut self.ring.lock())
    }

    fn start(&self, ring: &mut Ring, first: u32, need: u32) -> Transaction {
        ran::did(Work::HANDLE, need.into());
        ran::handle(need.into());
        ran::allocate(u64::from(ring.begun.len() == ring.begun.capacity()));
        let id = ring.next_id;
        ring.next_id = ring.next_id.wrapping_add(1).max(1);
        ring.begun.push_back(first);
        self.flag(first).store(false, Ordering::Release);
        self.open.fetch_add(need, Ordering::Relaxed);
        let used = self.used(ring);
        self.used.store(used, Ordering::Relaxed);
        if used > ring.clean_above {
            ring.clean_above = self.entries;
            self.cleaner.notify_one();
        }
        Transaction {
            first,
            used: 0,
            reserved: need,
            id,
            generation: ring.generation,
            taken: Vec::new(),
            nodes: Vec::new(),
            needs: Vec::new(),
        }
    }

    /// Moves the tail over `need` entries and returns the first; none when they are not free.
    fn place(&self, ring: &mut Ring, need: u32) -> Result<Option<u32>> {
        if !self.place_is_free(ring, need) {
            return Ok(None);
        }
        let mut first = ring.tail;
        if ring.tail >= ring.head && ring.tail + need >= self.entries {
            if ring.generation == u16::MAX {
                self.wipe_generations()?;
            }
            ring.generation = next_generation(ring.generation);
            first = 0;
        }
        ring.tail = first + need;
        self.store_tail(ring)?;
        Ok(Some(first))
    }

    fn place_is_free(&self, ring: &Ring, need: u32) -> bool {
        let wraps = ring.tail >= ring.head && ring.tail + need >= self.entries;
        match wraps {
            // Generations are about to be reused: no entry of an open transaction may be wiped.
            true if ring.generation == u16::MAX && !ring.begun.is_empty() => false,
            true => need < ring.head,
            false if ring.tail >= ring.head => true,
            false => ring.tail + need < ring.head,
        }
    }

    fn used(&self, ring: &Ring) -> u32 {
        if ring.tail >= ring.head { ring.tail - ring.head } else { self.entries - ring.head + ring.tail }
    }

    /// The part of the ring that transactions take which are open, or ended and not yet cleaned: 0 to 1.
    pub(crate) fn fullness(&self) -> f64 {
        f64::from(self.used.load(Ordering::Relaxed)) / f64::from(self.entries)
    }

    /// Tail and generation, in one store.
    fn store_tail(&self, ring: &Ring) -> Result<()> {
        let word = u64::from(ring.tail * ENTRY as u32) | u64::from(ring.generation) << 32;
        self.region.mark(Mark::Commit { at: jd::TAIL_WORD, needs: &[] });
        self.region.store_u64(jd::TAIL_WORD, word)?;
        self.region.flush(jd::TAIL_WORD, 8);
        Ok(())
    }

    /// Makes every entry invalid, because all generations have been used.
    #[cold]
    fn wipe_generations(&self) -> Result<()> {
        wipe(&self.region, self.base, self.entries)
    }

    fn offset(&self, index: u32) -> u64 {
        self.base + u64::from(index) * ENTRY
    }

    fn flag(&self, first: u32) -> &AtomicBool {
        &self.ended[first as usize]
    }

    /// Saves the old bytes of `ranges`, durably, so that they may be changed.
    pub(crate) fn log(&self, tx: &mut Transaction, ranges: &[ByteRun]) -> Result<()> {
        let _scope = sim::scope(media::charges::JOURNAL);
        for range in ranges {
            self.log_range(tx, range.at, range.len)?;
        }
        self.region.fence();
        Ok(())
    }

    fn log_range(&self, tx: &mut Transaction, offset: u64, len: u64) -> Result<()> {
        let mut done = 0;
        while done < len {
            let piece = (len - done).min(ENTRY_PAYLOAD as u64);
            let mut old = [0; ENTRY_PAYLOAD];
            self.region.peek(offset + done, &mut old[..piece as usize])?;
            self.append(tx, entry::DATA, offset + done, &old[..piece as usize])?;
            done += piece;
        }
        Ok(())
    }

    /// Writes the next entry of a transaction and flushes it; the word with the generation goes last. The line is written
    /// as a whole, so that one that had become unreadable is readable again.
    fn append(&self, tx: &mut Transaction, kind: u8, target: u64, old: &[u8]) -> Result<()> {
        let _part = sim::part(&parts::LOG_ENTRY);
        if tx.used == tx.reserved {
            return Err(Error::Corrupt(format!(
                "transaction {} logs more than its {} entries",
                tx.id, tx.reserved
            )));
        }
        let start = if tx.used == 0 { entry::START } else { 0 };
        let word = u64::from(tx.id)
            | u64::from(tx.generation) << 32
            | u64::from(kind | start) << 48
            | (old.len() as u64) << 56;
        let at = self.offset(tx.first + tx.used);
        let mut logged =
            LogEntry { target, transaction: 0, generation: 0, kind: 0, len: 0, old: [0; ENTRY_PAYLOAD] };
        logged.old[..old.len()].copy_from_slice(old);
        self.region.write(at, &logged)?;
        if self.region.is_watched() {
            tx.needs.push(ByteRun::new(at, ENTRY));
            self.region.mark(Mark::Commit { at: at + 8, needs: &tx.needs });
            tx.needs.clear();
        }
        self.region.store_u64(at + 8, word)?;
        self.region.flush(at, ENTRY);
        tx.used += 1;
        Ok(())
    }

    /// Makes the changes of a transaction durable, then the transaction itself. When that fails, so does the journal.
    pub(crate) fn commit(&self, mut tx: Transaction) -> Result<()> {
        let _part = sim::part(&parts::COMMIT);
        let done = self.flush_targets(&mut tx).and_then(|()| self.close(&mut tx, entry::COMMIT));
        if done.is_err() {
            // Programs see the old state again, if the medium permits it; recovery restores it from the entries.
            let _ = self.put_back(&tx);
            self.fail();
        }
        done
    }

    /// Puts the old bytes back, durably. When that fails, so does the journal.
    pub(crate) fn abort(&self, mut tx: Transaction) -> Result<()> {
        let done = self
            .put_back(&tx)
            .and_then(|()| self.flush_targets(&mut tx))
            .and_then(|()| self.close(&mut tx, entry::ABORT));
        if done.is_err() {
            self.fail();
        }
        done
    }

    fn put_back(&self, tx: &Transaction) -> Result<()> {
        for index in (tx.first..tx.first + tx.used).rev() {
            let logged: LogEntry = self.region.read(self.offset(index))?;
            let old = logged.old.get(..usize::from(logged.len)).unwrap_or_default();
            self.region.store(logged.target, old)?;
        }
        Ok(())
    }

    /// Orders what was flushed before the entry that ends a transaction, and writes that.
    fn close(&self, tx: &mut Transaction, kind: u8) -> Result<()> {
        let _scope = sim::scope(media::charges::JOURNAL);
        self.region.fence();
        self.append(tx, kind, 0, &[])?;
        self.region.fence();
        self.end(tx);
        Ok(())
    }

    /// Refuses all changes until the next mount, because one can be neither ended nor undone.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
        self.space.notify_all();
    }

    /// Whether a transaction could not be ended, so that none can begin before the next mount.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// The entries themselves remember which ranges were changed.
    fn flush_targets(&self, tx: &mut Transaction) -> Result<()> {
        let _scope = sim::scope(media::charges::METADATA);
        for index in tx.first..tx.first + tx.used {
            let at = self.offset(index);
            let range = ByteRun::new(self.region.load_u64(at)?, self.region.load_u64(at + 8)? >> 56);
            self.region.flush(range.at, range.len);
            if self.region.is_watched() {
                tx.needs.push(range);
            }
        }
        if self.region.is_watched() {
            tx.needs.extend(tx.taken.iter().map(|(block, shift)| ByteRun::new(*block, 1 << shift)));
        }
        Ok(())
    }

    fn end(&self, tx: &Transaction) {
        self.open.fetch_sub(tx.reserved, Ordering::Relaxed);
        self.flag(tx.first).store(true, Ordering::Release);
    }

    /// Moves the head over ended transactions.
    fn pass_ended(&self, ring: &mut Ring) -> Result<()> {
        while let Some(first) =
            ring.begun.front().copied().filter(|first| self.flag(*first).load(Ordering::Acquire))
        {
            ring.begun.pop_front();
            self.flag(first).store(false, Ordering::Release);
        }
        let head = ring.begun.front().copied().unwrap_or(ring.tail);
        if head != ring.head {
            let passed = self.between(ring.head, head);
            ring.head = head;
            self.region.fence();
            self.region.mark(Mark::Commit { at: jd::HEAD, needs: &passed });
            self.region.store_u32(jd::HEAD, head * ENTRY as u32)?;
            self.region.flush(jd::HEAD, 4);
            self.region.fence();
            self.space.notify_all();
        }
        let used = self.used(ring);
        self.used.store(used, Ordering::Relaxed);
        ring.clean_above = used + self.entries / 8;
        Ok(())
    }

    /// The entries from `first` on before `end`, which may be beyond the end of the ring: two ranges of bytes.
    fn between(&self, first: u32, end: u32) -> [ByteRun; 2] {
        let range = |from: u32, to: u32| ByteRun::new(self.offset(from), u64::from(to - from) * ENTRY);
        match first <= end {
            true => [range(first, end), range(end, end)],
            false => [range(first, self.entries), range(0, end)],
        }
    }

    /// The body of the background cleaner: runs until [`Journal::stop`].
    pub(crate) fn clean_until_stopped(&self) -> Result<()> {
        let mut ring = self.ring.lock();
        while !ring.stop {
            ring = self.cleaner.wait(ring);
            let _op = sim::op(vfs::ops::CLEAN);
            let _scope = sim::scope(media::charges::JOURNAL);
            self.pass_ended(&mut ring)?;
        }
        Ok(())
    }

    /// Ends the cleaner, after all transactions have ended, and leaves an empty journal; a failed one stays as it is.
    pub(crate) fn stop(&self) -> Result<()> {
        let mut ring = self.ring.lock();
        ring.stop = true;
        self.cleaner.notify_all();
        if self.has_failed() {
            return Err(Error::Failed);
        }
        self.pass_ended(&mut ring)?;
        match ring.begun.len() {
            0 => Ok(()),
            open => Err(Error::Corrupt(format!("{open} transactions are open at unmount"))),
        }
    }
}
