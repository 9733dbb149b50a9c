//! The background tasks that write buffered blocks back.
//!
//! | they work | until | on |
//! |---|---|---|
//! | when free pages go below `low` | they are above `high` | the least recently written block |
//! | every `wake` (5 s) | no block is older than `dirty_age` (30 s) | the least recently written block |
//! | when open transactions take more than half of the journal | they do not | all blocks of the file whose transaction is oldest |
//!
//! A block is chosen under the pool's lock and written under its file's. In between it may be written again or dropped; the
//! list's entry tells: whoever writes a block links it again, and a block that was dropped has another entry or none.

use std::sync::Arc;

use sim::{Activity, MutexGuard, Nanos, TaskSpec};

use super::lrw::{EntryId, Owner};
use super::pool::PoolState;
use super::sync::Wanted;
use super::{HiNfs, add};
use crate::error::Result;

/// The part of the journal that open transactions may take before write-back completes the oldest.
pub(crate) const JOURNAL_PRESSURE: f64 = 0.5;

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
        let spec = TaskSpec::named(format!("hinfs writeback {number}")).on_core(number as u16).background();
        sim::spawn(spec, move || {
            while let Some(job) = design.next_job() {
                let _op = sim::op(vfs::ops::WRITEBACK);
                // A medium that fails under write-back fails under the next sync of the file, which reports it; the block
                // stays buffered.
                let _ = design.do_job(job);
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
        let mut aging = false;
        loop {
            if pool.stop {
                return None;
            }
            if let Some(job) = self.choose(&mut pool, aging) {
                return Some(job);
            }
            let (woken, called) = self.pool.wait_for_work(pool, self.settings.wake);
            (pool, aging) = (woken, !called);
        }
    }

    fn choose(&self, pool: &mut MutexGuard<'_, PoolState>, aging: bool) -> Option<Job> {
        if self.volume.journal.fullness() > JOURNAL_PRESSURE
            && let Some((slot, ticket)) = pool.pending.pop_front()
        {
            return Some(Job::Transaction { slot, ticket });
        }
        let (_, _, written) = pool.blocks.oldest()?;
        let old = aging && self.is_old(written);
        if !(pool.reclaiming || old) {
            return None;
        }
        pool.blocks.take_oldest().map(|(entry, owner)| Job::Block(entry, owner))
    }

    fn is_old(&self, written: Nanos) -> bool {
        sim::now().since(written) > self.settings.dirty_age
    }

    fn do_job(&self, job: Job) -> Result<()> {
        match job {
            Job::Block(entry, owner) => self.write_back_block(entry, owner),
            Job::Transaction { slot, ticket } => self.complete_oldest(slot, ticket),
        }
    }

    /// Writes a chosen block back, unless it was written again or has gone.
    fn write_back_block(&self, entry: EntryId, owner: Owner) -> Result<()> {
        let file = self.file_of_slot(owner.slot)?;
        let mut buffer = file.state.lock();
        let same = buffer.blocks.get(&owner.block).is_some_and(|buffered| buffered.entry == entry);
        if !same || self.pool.lock().blocks.is_linked(entry) {
            return Ok(());
        }
        let buffered = buffer.blocks.get_mut(&owner.block).expect("just seen, and the file is locked");
        let lines = {
            let _scope = sim::scope(Activity::Data);
            buffered.write_back(&self.volume.region)
        };
        let lines = match lines {
            Ok(lines) => lines,
            Err(error) => {
                self.pool.touch(entry);
                return Err(error);
            }
        };
        add(&self.counters.lines_written_back, lines);
        self.volume.region.fence();
        self.forget_block(file, &mut buffer, owner.block);
        self.commit_if_done(&mut buffer)
    }

    /// Completes a transaction, if it is still the file's open one.
    fn complete_oldest(&self, slot: u64, ticket: u64) -> Result<()> {
        let file = self.file_of_slot(slot)?;
        let mut buffer = file.state.lock();
        if buffer.open.as_ref().is_some_and(|open| open.ticket == ticket) {
            let lines = self.flush_blocks(file, &mut buffer, Wanted::InTransaction)?;
            add(&self.counters.lines_written_back, lines);
            add(&self.counters.journal_evictions, 1);
        }
        Ok(())
    }

    /// Ends the tasks and waits for them.
    pub(crate) fn stop_writeback(&self) {
        self.pool.stop();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.into_iter().for_each(sim::JoinHandle::join);
    }
}
