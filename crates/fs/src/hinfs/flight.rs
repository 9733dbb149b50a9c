//! Flights: blocks on their way from the buffer to the medium.
//!
//! Nobody holds the file's lock while its blocks are written, so that several tasks write back blocks of one file at once, and
//! readers go on.
//!
//! ```text
//! resident ──depart──► in flight ──land──► gone        durable; a transaction that waited for it alone commits
//!     ▲                    └─────land────► resident    the medium refused it: everything is still dirty
//!     └── first write
//! ```
//!
//! | block | its page | read from | changed by |
//! |---|---|---|---|
//! | resident | has one owner | dirty lines from the page | a write, a departure, a drop |
//! | in flight | is shared with the flight, and does not change | dirty lines from the page | its landing |
//! | gone | is in the pool | the medium | a lazy write, which takes a page |
//!
//! Whoever would change a block in flight, drop it, or needs it durable waits until it has landed. A flight waits for nothing
//! but the medium and the file's lock, which nobody holds while waiting.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use media::nvmm::Region;
use sim::{Activity, Condvar, LockClass, MutexGuard};

use super::file_buffer::{Buffered, FileBuffer, FileSlot, runs};
use super::pool::Page;
use super::{HiNfs, add};
use crate::error::Result;
use crate::mutant::Mutant;

static IN_FLIGHT: LockClass = LockClass::new("hinfs.in_flight");

/// Where tasks wait for a landing: one place for all files, since waiting is rare and a file's buffer should stay small.
pub(super) struct Arrivals {
    landed: Condvar,
    /// Tasks that wait. Counted under their file's lock, so whoever lands a block of that file sees them.
    waiting: AtomicU32,
}

impl Arrivals {
    pub(super) fn new() -> Self {
        Self { landed: Condvar::of_class(&IN_FLIGHT), waiting: AtomicU32::new(0) }
    }

    /// Lets go of the file until some flight has landed.
    fn wait<'a>(&self, buffer: MutexGuard<'a, FileBuffer>) -> MutexGuard<'a, FileBuffer> {
        self.waiting.fetch_add(1, Relaxed);
        let buffer = self.landed.wait(buffer);
        self.waiting.fetch_sub(1, Relaxed);
        buffer
    }

    /// A flight has landed; its file is locked.
    fn announce(&self) {
        if self.waiting.load(Relaxed) > 0 {
            self.landed.notify_all();
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
struct Passenger {
    block: u64,
    page: Arc<Page>,
    lines: u64,
    at: u64,
    written: Result<()>,
}

impl Passenger {
    fn board(block: u64, buffered: &mut Buffered) -> Self {
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
    pub(crate) fn lock_landed<'a>(
        &self,
        file: &'a FileSlot,
        blocks: RangeInclusive<u64>,
    ) -> MutexGuard<'a, FileBuffer> {
        let mut buffer = file.state.lock();
        while buffer.blocks.range(blocks.clone()).any(|(_, buffered)| buffered.in_flight) {
            buffer = self.arrivals.wait(buffer);
        }
        buffer
    }

    /// Locks a file when `block` is not in flight, and says whether it is buffered.
    pub(crate) fn lock_block<'a>(
        &self,
        file: &'a FileSlot,
        block: u64,
    ) -> (MutexGuard<'a, FileBuffer>, bool) {
        let mut buffer = file.state.lock();
        loop {
            match buffer.blocks.get(&block) {
                Some(buffered) if buffered.in_flight => buffer = self.arrivals.wait(buffer),
                found => {
                    let buffered = found.is_some();
                    return (buffer, buffered);
                }
            }
        }
    }

    /// Writes wanted blocks back and takes them out of the buffer, with one fence and the file unlocked; not those that are in
    /// flight already. Commits what that completes. Returns the lines written.
    pub(crate) fn fly<'a>(
        &self,
        file: &'a FileSlot,
        mut buffer: MutexGuard<'a, FileBuffer>,
        wanted: &Wanted,
    ) -> Result<(MutexGuard<'a, FileBuffer>, u64)> {
        let resident = buffer.blocks.range_mut(wanted.blocks.clone());
        let mut flight: Vec<Passenger> = resident
            .filter(|(_, buffered)| wanted.includes(buffered) && !buffered.in_flight)
            .map(|(block, buffered)| Passenger::board(*block, buffered))
            .collect();
        if self.volume.has(Mutant::LastLineLeftOut) {
            let last = |lines: u64| lines.checked_ilog2().map_or(0, |last| 1 << last);
            for passenger in &mut flight {
                passenger.lines &= !last(passenger.lines);
            }
        }
        if flight.is_empty() {
            // Nothing lands: two that wait for the flight of a third must not wake each other.
            self.commit_if_done(&mut buffer)?;
            return Ok((buffer, 0));
        }
        drop(buffer);
        let scope = sim::scope(Activity::Data);
        for passenger in &mut flight {
            passenger.write(&self.volume.region);
        }
        // Also after an error: whoever tries again cannot fence what this task has written.
        self.volume.region.fence();
        drop(scope);
        let mut buffer = file.state.lock();
        let landed = self.land(file, &mut buffer, flight);
        self.commit_if_done(&mut buffer)?;
        Ok((buffer, landed?))
    }

    /// Takes durable blocks out of the buffer and returns their lines. One that the medium refused stays, dirty as it was.
    fn land(&self, file: &FileSlot, buffer: &mut FileBuffer, flight: Vec<Passenger>) -> Result<u64> {
        let mut landed = Ok(0);
        for Passenger { block, page, lines, written, .. } in flight {
            drop(page);
            let Some(buffered) = buffer.blocks.get_mut(&block) else { continue };
            buffered.in_flight = false;
            match written {
                Ok(()) => {
                    self.forget_block(file, buffer, block);
                    landed = landed.map(|sum| sum + u64::from(lines.count_ones()));
                }
                Err(error) => {
                    buffered.moved = self.pool.touch(buffered.entry);
                    landed = landed.and(Err(error));
                }
            }
        }
        self.arrivals.announce();
        landed
    }

    /// Makes wanted blocks durable, whoever writes them, and takes them out of the buffer. Commits what that completes.
    pub(crate) fn flush<'a>(
        &self,
        file: &'a FileSlot,
        mut buffer: MutexGuard<'a, FileBuffer>,
        wanted: &Wanted,
    ) -> Result<MutexGuard<'a, FileBuffer>> {
        loop {
            let lines;
            (buffer, lines) = self.fly(file, buffer, wanted)?;
            add(&self.counters.lines_synced, lines);
            // What the medium refuses another task is resident again, and flies once more: the error is then this caller's.
            let mut rest = buffer.blocks.range(wanted.blocks.clone());
            if !rest.any(|(_, buffered)| buffered.in_flight && wanted.includes(buffered)) {
                return Ok(buffer);
            }
            buffer = self.arrivals.wait(buffer);
        }
    }
}
