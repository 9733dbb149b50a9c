//! Write-back in flight: blocks on their way from the buffer to the medium.
//!
//! The file is unlocked while its blocks are written, so that several tasks write back blocks of one file at once, and readers
//! go on.
//!
//! ```text
//! dirty ──start──► in flight ──finish──► clean       durable, out of the buffer; a transaction that waited for it alone commits
//!   ▲                  └──────finish───► dirty       the medium refused it: the same lines are still dirty
//!   └── first write
//! ```
//!
//! | block | its page | is read from | is changed by |
//! |---|---|---|---|
//! | dirty | has one owner | dirty lines from the page | a write, a write-back, a drop |
//! | in flight | is shared with the write-back, and does not change | dirty lines from the page | the end of the write-back |
//! | clean | is in the pool | the medium | a lazy write, which takes a page |
//!
//! A task that changes a block in flight, drops it, or needs it durable waits until its write-back ends. A write-back waits for
//! the medium and for the file's lock only, and no task holds that lock while it waits.

use std::ops::RangeInclusive;
use std::sync::Arc;

use media::nvmm::Region;
use sim::sync::{AtomicU32, Ordering::Relaxed};
use sim::{Activity, Condvar, LockClass, ran};

use super::file_buffer::{Buffered, FileBuffer, FileSlot, LockedBuffer, runs};
use super::mutant;
use super::{HiNfs, add};
use base::error::Result;
use base::persist::page::Page;

pub(super) static IN_FLIGHT: LockClass =
    LockClass::new("hinfs.in_flight").under(&[&super::file_buffer::FILE]);

/// Where tasks wait for the end of a write-back: one place for all files, since waits are rare and a file's buffer stays small.
pub(super) struct WritebackWait {
    ended: Condvar,
    /// Tasks that wait. Counted under their file's lock, so a task that ends a write-back of that file sees them.
    waiting: AtomicU32,
}

impl WritebackWait {
    pub(super) fn new() -> Self {
        Self { ended: Condvar::of_class(&IN_FLIGHT), waiting: AtomicU32::new(0) }
    }

    /// Unlocks the file until some write-back has ended.
    fn wait<'a>(&self, buffer: LockedBuffer<'a>) -> LockedBuffer<'a> {
        self.waiting.fetch_add(1, Relaxed);
        let guard = self.ended.wait(buffer.0);
        self.waiting.fetch_sub(1, Relaxed);
        LockedBuffer(guard)
    }

    /// A write-back has ended; its file is locked.
    fn notify(&self) {
        if self.waiting.load(Relaxed) > 0 {
            self.ended.notify_all();
        }
    }
}

/// Which blocks of a file are to be written back.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) blocks: RangeInclusive<u64>,
    /// Only those that the open transaction waits for.
    pub(crate) in_tx_only: bool,
}

impl Wanted {
    pub(crate) const ALL: Self = Self { blocks: 0..=u64::MAX, in_tx_only: false };
    pub(crate) const IN_TRANSACTION: Self = Self { blocks: 0..=u64::MAX, in_tx_only: true };

    pub(crate) fn block(block: u64) -> Self {
        Self { blocks: block..=block, in_tx_only: false }
    }

    fn includes(&self, buffered: &Buffered) -> bool {
        buffered.in_tx || !self.in_tx_only
    }
}

/// A block in flight.
struct InFlight {
    block: u64,
    page: Arc<Page>,
    lines: u64,
    at: u64,
    written: Result<()>,
}

impl InFlight {
    fn start(block: u64, buffered: &mut Buffered) -> Self {
        buffered.visit();
        buffered.in_flight = true;
        Self { block, page: buffered.share(), lines: buffered.dirty, at: buffered.at, written: Ok(()) }
    }

    /// Copies the dirty lines to the medium; durable after a fence.
    fn write(&mut self, region: &Region) {
        self.written = runs(self.lines)
            .try_for_each(|run| Ok(region.nt_store(self.at + run.start as u64, &self.page.bytes()[run])?));
    }
}

impl HiNfs {
    /// Locks a file when none of `blocks` is in flight.
    pub(crate) fn lock_when_stable<'a>(
        &self,
        file: &'a FileSlot,
        blocks: RangeInclusive<u64>,
    ) -> LockedBuffer<'a> {
        let mut buffer = file.lock();
        while buffer.blocks.range(blocks.clone()).any(|(_, buffered)| buffered.in_flight) {
            buffer = self.writeback_wait.wait(buffer);
        }
        buffer
    }

    /// Locks a file when `block` is not in flight, and says whether it is buffered.
    pub(crate) fn lock_block<'a>(&self, file: &'a FileSlot, block: u64) -> (LockedBuffer<'a>, bool) {
        let mut buffer = file.lock();
        loop {
            match buffer.blocks.get(&block) {
                Some(buffered) if buffered.in_flight => buffer = self.writeback_wait.wait(buffer),
                found => {
                    let buffered = found.is_some();
                    return (buffer, buffered);
                }
            }
        }
    }

    /// Writes wanted blocks back and takes them out of the buffer, with one fence and the file unlocked; not those that are in
    /// flight already. Commits what that completes. Returns the lines written.
    pub(crate) fn write_out<'a>(
        &self,
        file: &'a FileSlot,
        mut buffer: LockedBuffer<'a>,
        wanted: &Wanted,
    ) -> Result<(LockedBuffer<'a>, u64)> {
        if buffer.is_empty() {
            return Ok((buffer, 0));
        }
        let dirty = buffer.blocks.range_mut(wanted.blocks.clone());
        let dirty = dirty
            .filter(|(_, buffered)| wanted.includes(buffered) && !buffered.in_flight)
            .map(|(block, buffered)| InFlight::start(*block, buffered));
        let mut batch = ran::collected(dirty);
        if self.volume.has(mutant::LAST_LINE_LEFT_OUT) {
            let last = |lines: u64| lines.checked_ilog2().map_or(0, |last| 1 << last);
            for block in &mut batch {
                block.lines &= !last(block.lines);
            }
        }
        if batch.is_empty() {
            // No block is written: two tasks that wait for the write-back of a third must not wake each other.
            self.commit_if_done(&mut buffer)?;
            buffer.shrink();
            return Ok((buffer, 0));
        }
        drop(buffer);
        let scope = sim::scope(Activity::DATA);
        for block in &mut batch {
            block.write(&self.volume.region);
        }
        // Also after an error: another task that tries again cannot fence this task's stores.
        self.volume.region.fence();
        drop(scope);
        let mut buffer = file.lock();
        let written_out = self.finish_write_out(file, &mut buffer, batch);
        self.commit_if_done(&mut buffer)?;
        buffer.shrink();
        Ok((buffer, written_out?))
    }

    /// Takes durable blocks out of the buffer and returns their lines. One that the medium refused stays, dirty as it was.
    fn finish_write_out(
        &self,
        file: &FileSlot,
        buffer: &mut FileBuffer,
        batch: Vec<InFlight>,
    ) -> Result<u64> {
        let mut written_out = Ok(0);
        for InFlight { block, page, lines, written, .. } in batch {
            drop(page);
            let Some(buffered) = buffer.blocks.get_mut(&block) else { continue };
            buffered.in_flight = false;
            match written {
                Ok(()) => {
                    self.forget_block(file, buffer, block);
                    written_out = written_out.map(|sum| sum + u64::from(lines.count_ones()));
                }
                Err(error) => {
                    buffered.moved = self.pool.touch(buffered.entry);
                    written_out = written_out.and(Err(error));
                }
            }
        }
        self.writeback_wait.notify();
        written_out
    }

    /// Makes wanted blocks durable, whichever task writes them, and takes them out of the buffer. Commits what that completes.
    pub(crate) fn flush<'a>(
        &self,
        file: &'a FileSlot,
        mut buffer: LockedBuffer<'a>,
        wanted: &Wanted,
    ) -> Result<LockedBuffer<'a>> {
        loop {
            let lines;
            (buffer, lines) = self.write_out(file, buffer, wanted)?;
            add(&self.counters.lines_synced, lines);
            // A block that the medium refused to another task is dirty again; this caller writes it once more and gets the error.
            let mut rest = buffer.blocks.range(wanted.blocks.clone());
            if !rest.any(|(_, buffered)| buffered.in_flight && wanted.includes(buffered)) {
                return Ok(buffer);
            }
            buffer = self.writeback_wait.wait(buffer);
        }
    }
}
