//! All paths that end buffering: fsync, settling before a change of names, dropping before blocks are freed.
//!
//! The order is always: lines to the medium, fence, commit of the transaction that waited for them. No step may be skipped if a
//! later one follows.

use sim::{Work, ran};

use super::file_buffer::{FileBuffer, FileSlot, Ghost, LockedBuffer, OpenTransaction};
use super::in_flight::Wanted;
use super::pool::Owner;
use super::{HiNfs, add};
use crate::pmfs::inode::Inode;
use crate::pmfs::journal::Transaction;
use crate::pmfs::layout::{BLOCK, BLOCK_SHIFT, INODE_SLOT};
use crate::pmfs::map::Tree;
use crate::pmfs::namei::OpenTransactions;
use base::error::{Error, Result};

impl HiNfs {
    /// Takes a block out of the buffer; what was dirty of it is lost. Returns the dirty lines.
    pub(crate) fn forget_block(&self, file: &FileSlot, buffer: &mut FileBuffer, block: u64) -> u64 {
        let Some(buffered) = buffer.blocks.remove(&block) else { return 0 };
        buffered.visit();
        file.note_len(buffer);
        if buffered.in_tx {
            buffer.waits_for -= 1;
        }
        let (lines, entry) = (buffered.dirty.count_ones(), buffered.entry);
        self.pool.put(buffered.into_page(), entry);
        u64::from(lines)
    }

    /// Commits the open transaction when it waits for nothing.
    pub(crate) fn commit_if_done(&self, buffer: &mut FileBuffer) -> Result<()> {
        if buffer.waits_for > 0 {
            return Ok(());
        }
        match buffer.open.take() {
            Some(open) => self.commit(open),
            None => Ok(()),
        }
    }

    /// Commits a transaction whose data is durable.
    pub(crate) fn commit(&self, open: OpenTransaction) -> Result<()> {
        let done = self.volume.journal.commit(open.tx);
        // Only now: a sync of all files looks at the noted transactions.
        self.pool.forget_pending(open.ticket);
        done
    }

    /// Completes the open transaction of a file: writes back what it waits for, and commits it.
    pub(crate) fn complete<'a>(
        &self,
        file: &'a FileSlot,
        buffer: LockedBuffer<'a>,
    ) -> Result<LockedBuffer<'a>> {
        if buffer.open.is_none() {
            return Ok(buffer);
        }
        self.flush(file, buffer, &Wanted::IN_TRANSACTION)
    }

    /// The same for a file that is not locked.
    pub(crate) fn complete_file(&self, inode: &Inode) -> Result<()> {
        let file = self.file(inode)?;
        self.complete(file, file.lock()).map(drop)
    }

    /// Writes back everything of a file and commits its transaction, so that PMFS alone may go on with it.
    pub(crate) fn settle_file(&self, inode: &Inode) -> Result<()> {
        let file = self.file(inode)?;
        self.flush(file, file.lock(), &Wanted::ALL).map(drop)
    }

    /// Drops the buffered blocks from `first` on: a truncation cuts them off. None of them may be waited for, unless the file
    /// has no name.
    pub(crate) fn drop_from(&self, inode: &Inode, first: u64) -> Result<()> {
        let file = self.file(inode)?;
        let mut buffer = self.lock_when_stable(file, first..=u64::MAX);
        let gone = ran::collected(buffer.blocks.range(first..).map(|(block, _)| *block));
        for block in gone {
            let lines = self.forget_block(file, &mut buffer, block);
            add(&self.counters.lines_dropped, lines);
        }
        let ghosts = ran::collected(buffer.ghosts.range(first..).map(|(block, _)| *block));
        let mut pool = self.pool.lock();
        for block in ghosts {
            if let Some(ghost) = buffer.ghosts.remove(&block) {
                pool.ghosts.remove(ghost.entry);
            }
        }
        Ok(())
    }

    /// fsync: makes the file durable and judges every block that took part. Data that the medium refuses stays buffered, and
    /// every fsync fails until it is written; lost data is reported once.
    pub(crate) fn fsync(&self, inode: &Inode) -> Result<()> {
        let file = self.file(inode)?;
        let lost = self.sync_file(inode.ino / INODE_SLOT, file)?.lost.take();
        self.trim_ghosts()?;
        lost.map_or(Ok(()), Err)
    }

    fn sync_file<'a>(&self, slot: u64, file: &'a FileSlot) -> Result<LockedBuffer<'a>> {
        let mut buffer = file.lock();
        sim::work(Work::STEP, (buffer.blocks.len() + buffer.unjudged.len()) as u64);
        if self.settings.checker {
            self.judge(&mut buffer, slot);
        }
        let mut buffer = self.flush(file, buffer, &Wanted::ALL)?;
        buffer.last_sync = Some(sim::now());
        Ok(buffer)
    }

    /// Applies the benefit model to every block with writes since its last sync. A ghost keeps what became of it.
    fn judge(&self, buffer: &mut FileBuffer, slot: u64) {
        let benefit = self.settings.benefit;
        let (mut right, mut wrong) = (0, 0);
        let mut last_eager = None;
        let now = sim::now();
        let mut pool = self.pool.lock();
        for block in std::mem::take(&mut buffer.unjudged) {
            let Some(ghost) = buffer.ghosts.get_mut(&block).filter(|ghost| ghost.line_writes > 0) else {
                continue;
            };
            ghost.age(now, self.settings.dirty_age);
            let eager = !benefit.buffering_wins(ghost.line_writes, u64::from(ghost.dirty.count_ones()));
            *(if eager == ghost.eager { &mut right } else { &mut wrong }) += 1;
            (ghost.eager, ghost.dirty, ghost.line_writes) = (eager, 0, 0);
            last_eager = Some(eager);
        }
        for (block, buffered) in buffer.blocks.iter_mut().filter(|(_, buffered)| buffered.line_writes > 0) {
            let eager = !benefit.buffering_wins(buffered.line_writes, u64::from(buffered.dirty.count_ones()));
            *(if eager { &mut wrong } else { &mut right }) += 1;
            buffered.line_writes = 0;
            last_eager = Some(eager);
            let entry = pool.ghosts.add(Owner { slot, block: *block }, now);
            let ghost = Ghost { dirty: 0, line_writes: 0, eager, written: now, entry };
            ran::did(Work::NODE, 1);
            ran::node(1);
            let _own = ran::aside();
            if let Some(old) = buffer.ghosts.insert(*block, ghost) {
                pool.ghosts.remove(old.entry);
            }
        }
        drop(pool);
        buffer.last_judged_eager = last_eager.unwrap_or(buffer.last_judged_eager);
        add(&self.counters.predictions_right, right);
        add(&self.counters.predictions_wrong, wrong);
    }

    /// Makes everything durable that was written before the call, and judges the blocks that took part. A file's own fsync
    /// reports data that it lost.
    pub(crate) fn sync_all(&self) -> Result<()> {
        let mut done = Ok(());
        for slot in &self.pool.owners() {
            done = done.and(self.sync_slot(*slot));
        }
        self.volume.region.fence();
        done.and_then(|()| self.trim_ghosts())
    }

    /// Makes a file durable. A block that write-back has chosen stays in its file until it is durable, and a transaction stays
    /// noted until then.
    fn sync_slot(&self, slot: u64) -> Result<()> {
        let inode = self.volume.inodes.get(slot * INODE_SLOT)?;
        // For writing, as in fsync: no write of another task may have taken the open transaction.
        let _state = inode.state.write();
        self.sync_file(slot, self.file_of_slot(slot)?).map(drop)
    }

    /// The open transaction of a file has been rolled back: drops the blocks that it had mapped; the file's next sync reports the
    /// loss.
    pub(crate) fn forget_unmapped(&self, inode: &Inode, file: &FileSlot, why: Error) -> Result<()> {
        let raw = self.volume.raw(inode)?;
        let tree = Tree::of(&raw);
        let mut buffer = self.lock_when_stable(file, 0..=u64::MAX);
        buffer.waits_for = 0;
        let mut gone = Vec::new();
        for (block, buffered) in &mut buffer.blocks {
            buffered.in_tx = false;
            if tree.lookup(&self.volume.region, *block)? == Some(buffered.at) {
                // Bytes beyond the end are zeros, or the next growth would show them.
                let end = raw.size.saturating_sub(block << BLOCK_SHIFT).min(BLOCK);
                buffered.zero_from(end as usize)?;
            } else {
                gone.push(*block);
            }
        }
        for block in gone {
            self.forget_block(file, &mut buffer, block);
        }
        buffer.lost = Some(why);
        Ok(())
    }
}

impl OpenTransactions for HiNfs {
    fn commit_open(&self, inode: &Inode) -> Result<()> {
        self.complete_file(inode)
    }

    fn take_open(&self, inode: &Inode, entries: u32) -> Result<Option<Transaction>> {
        let file = self.file(inode)?;
        let mut buffer = file.lock();
        if buffer.open.is_none() {
            return Ok(None);
        }
        match buffer.open.take() {
            None => Ok(None),
            Some(open) if open.tx.room() > entries => {
                self.pool.forget_pending(open.ticket);
                // A file without a name needs no order between its data and its size: no program can see it after a crash.
                buffer.blocks.values_mut().for_each(|buffered| buffered.in_tx = false);
                buffer.waits_for = 0;
                Ok(Some(open.tx))
            }
            Some(open) => {
                buffer.open = Some(open);
                drop(self.complete(file, buffer)?);
                Ok(None)
            }
        }
    }

    fn rolled_back(&self, inode: &Inode) -> Result<()> {
        self.forget_unmapped(inode, self.file(inode)?, Error::Failed)
    }

    fn discard(&self, inode: &Inode) -> Result<()> {
        self.drop_from(inode, 0)?;
        let file = self.file(inode)?;
        let mut buffer = file.lock();
        if !buffer.is_empty() {
            self.commit_if_done(&mut buffer)?;
        }
        buffer.clear();
        Ok(())
    }
}
