//! The background tasks that write buffered blocks back.
//!
//! | they work | until | on |
//! |---|---|---|
//! | when free pages go below `low` | they are above `high` | the least recently written block |
//! | every `wake` (5 s) | no block is older than `dirty_age` (30 s) | the least recently written block |
//! | when four fifths of the journal are taken | they are not | the oldest open transaction: moved to the tail, or completed |
//!
//! A block is chosen under the pool's lock and its write-back starts (`in_flight.rs`) under its file's. In between, a task may
//! write the block again or drop it. The list's entry shows this: a write links the block again, and a dropped block has another
//! entry or none.
//!
//! A write-back task never waits for journal space, for a page or for an inode's lock, so a task that waits for one of these
//! always proceeds: the transactions and pages that writers wait for belong to files whose lock (`hinfs.file`) no task holds
//! while it waits.

use std::sync::Arc;

use sim::{MutexGuard, TaskSpec};

use super::file_buffer::FileBuffer;
use super::in_flight::Wanted;
use super::mutant;
use super::pool::{Owner, PoolState};
use super::{HiNfs, add};
use base::error::Result;
use base::persist::lrw::EntryId;

/// The part of the journal that open transactions may take before write-back completes the oldest.
pub(crate) const JOURNAL_PRESSURE: f64 = 0.8;

/// The part of the journal that open transactions may reserve before they are completed instead of moved to the tail. Below
/// [`JOURNAL_PRESSURE`], so that moving them all relieves the journal.
const OPEN_SHARE: f64 = 0.5;

/// Log entries that a file's transaction gets beyond what its first growth needs, unless that needs none.
pub(crate) const SLACK_ENTRIES: u32 = 4;

/// What a task is to do.
enum Job {
    /// Write one block back.
    Block(EntryId, Owner),
    /// Complete the transaction of a file.
    Transaction { slot: u64, ticket: u64 },
}

/// Starts the tasks of a mount.
pub(crate) fn start(design: &Arc<HiNfs>) {
    let tasks = (0..design.settings.tasks).map(|number| {
        let design = Arc::clone(design);
        // As a kernel thread without an affinity: it begins on a core, and wakes on a free one.
        let spec = TaskSpec::named(format!("hinfs writeback {number}")).on_core(number as u16);
        let spec = spec.background().movable();
        sim::spawn(spec, move || {
            while let Some(job) = design.next_job() {
                let _op = sim::op(vfs::ops::WRITEBACK);
                // A medium that fails under write-back fails under the next sync of the file, which reports it; the block
                // stays buffered.
                let _ = design.do_job(&job);
            }
        })
    });
    let tasks = tasks.collect();
    *design.tasks.lock() = tasks;
}

impl HiNfs {
    /// Waits for something to do; none when the file system is being unmounted.
    fn next_job(&self) -> Option<Job> {
        let mut pool = self.pool.lock();
        loop {
            if pool.stop {
                return None;
            }
            if let Some(job) = self.choose(&mut pool) {
                let more = (pool.reclaiming || pool.aging) && !pool.blocks.is_empty();
                if more || self.is_journal_short() && pool.has_pending() {
                    self.pool.pass_on();
                }
                return Some(job);
            }
            pool = self.pool.wait_for_work(pool);
        }
    }

    fn choose(&self, pool: &mut MutexGuard<'_, PoolState>) -> Option<Job> {
        if self.is_journal_short()
            && let Some((ticket, slot)) = pool.choose_pending()
        {
            return Some(Job::Transaction { slot, ticket });
        }
        let now = sim::now();
        if now >= pool.next_round {
            pool.next_round = now + self.settings.wake;
            pool.aging = true;
        }
        let age = pool.blocks.oldest().map(|(_, _, written)| now.since(written));
        pool.aging &= age.is_some_and(|age| age > self.settings.dirty_age);
        if !(pool.reclaiming || pool.aging) {
            return None;
        }
        pool.blocks.take_oldest().map(|(entry, owner)| Job::Block(entry, owner))
    }

    /// Whether open transactions take so much of the journal that the oldest must be completed.
    pub(crate) fn is_journal_short(&self) -> bool {
        self.volume.journal.fullness() > JOURNAL_PRESSURE
    }

    /// Lets write-back make space in the journal, before an operation that may wait for it.
    pub(crate) fn relieve_journal(&self) {
        if self.is_journal_short() {
            self.pool.call_writeback();
        }
    }

    fn do_job(&self, job: &Job) -> Result<()> {
        match *job {
            Job::Block(entry, owner) => self.write_back_block(entry, owner),
            Job::Transaction { slot, ticket } => self.complete_oldest(slot, ticket),
        }
    }

    /// Writes a chosen block back, unless it was written again, has gone or is in flight.
    fn write_back_block(&self, entry: EntryId, owner: Owner) -> Result<()> {
        let file = self.file_of_slot(owner.slot)?;
        let mut buffer = file.lock();
        let same = buffer.blocks.get(&owner.block).is_some_and(|buffered| buffered.entry == entry);
        if !same || self.pool.lock().blocks.is_linked(entry) {
            return Ok(());
        }
        if self.volume.has(mutant::EVICTION_DROPS) {
            self.forget_block(file, &mut buffer, owner.block);
            return self.commit_if_done(&mut buffer);
        }
        let (_, lines) = self.write_out(file, buffer, &Wanted::block(owner.block))?;
        add(&self.counters.lines_written_back, lines);
        Ok(())
    }

    /// Completes a transaction, if it is still the file's open one and the journal still short of space. While a writer has taken
    /// it, there is nothing to do: the writer notes it again, or commits it.
    fn complete_oldest(&self, slot: u64, ticket: u64) -> Result<()> {
        // Ended transactions that are not yet cleaned still count in the fullness.
        self.volume.journal.clean()?;
        let file = self.file_of_slot(slot)?;
        let mut buffer = file.lock();
        if buffer.open.as_ref().is_none_or(|open| open.ticket != Some(ticket)) {
            buffer.ticket_taken = true;
            add(&self.counters.transactions_gone, 1);
            return Ok(());
        }
        if !self.is_journal_short() {
            self.pool.note_pending(slot, Some(ticket), false);
            return Ok(());
        }
        if !self.move_to_tail(slot, &mut buffer)? {
            let lines;
            (buffer, lines) = self.write_out(file, buffer, &Wanted::IN_TRANSACTION)?;
            add(&self.counters.lines_written_back, lines);
            add(&self.counters.journal_evictions, 1);
        }
        drop(buffer);
        self.volume.journal.clean()
    }

    /// Moves a file's open transaction to the tail of the journal, so that ended transactions behind it can be cleaned. That
    /// writes a few lines instead of the file's data. It does not help when open transactions themselves fill the journal.
    fn move_to_tail(&self, slot: u64, buffer: &mut FileBuffer) -> Result<bool> {
        let Some(open) = buffer.open.as_mut() else { return Ok(false) };
        if self.volume.journal.open_share() > OPEN_SHARE {
            return Ok(false);
        }
        let room = open.tx.room().saturating_sub(1);
        let moved = self.volume.journal.enlarge(&mut open.tx, room)?;
        if moved {
            // A writer that has taken it since it was chosen has noted it again.
            self.pool.forget_pending(open.ticket);
            open.ticket = Some(self.pool.note_pending(slot, None, false));
            add(&self.counters.journal_moves, 1);
        }
        Ok(moved)
    }

    /// Ends the tasks and waits for them.
    pub(crate) fn stop_writeback(&self) {
        self.pool.stop();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.into_iter().for_each(sim::JoinHandle::join);
    }
}
