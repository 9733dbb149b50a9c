//! How a call becomes durable.
//!
//! ```text
//! lock the shard's log ── records, flush, FENCE ── publish in DRAM ── unlock          (Store::commit, Committed)
//! ```
//!
//! A call that finds no zone for its records cleans, and tries again.

use sim::MutexGuard;
use sim::sync::Ordering::Relaxed;

use super::Store;
use super::log::{Call, Tail, Ticket};
use super::zone_table;
use crate::ablation::Without;
use crate::format::layout::{LINE, SUPERBLOCKS};
use crate::format::record::Record;
use base::error::{Error, Result};

/// Lines of the page of the first superblock that the superblock does not have.
const FREE_LINES: u64 = 60;

/// A call whose records are durable. The log is locked until this is dropped: publish before.
pub(crate) struct Committed<'v> {
    _tail: MutexGuard<'v, Tail>,
    pub(crate) ticket: Ticket,
}

impl Committed<'_> {
    /// Its logical time.
    pub(crate) fn time(&self) -> u64 {
        self.ticket.id.time()
    }
}

impl Store {
    /// Makes the records of a call durable: those that `build` answers, of which all or none count. Nothing has changed when this
    /// fails.
    pub(crate) fn commit<R: AsRef<[Record]>>(
        &self,
        call: Call<'_>,
        build: impl FnMut(&Ticket) -> R,
    ) -> Result<Committed<'_>> {
        self.commit_with(call, build, || ())
    }

    /// The same, with data that is stored when there is room for the records, and fenced with them: it may be durable without
    /// them, and they without it.
    pub(crate) fn commit_with<R: AsRef<[Record]>>(
        &self,
        call: Call<'_>,
        mut build: impl FnMut(&Ticket) -> R,
        mut store: impl FnMut(),
    ) -> Result<Committed<'_>> {
        if self.losses.is_read_only() {
            return Err(Error::ReadOnly);
        }
        if self.saved.load(Relaxed) {
            self.void_saved()?;
        }
        let shard = self.shard();
        loop {
            let mut tail = self.logs.tails[shard].lock();
            let ticket = self.ticket(&mut tail, shard, call)?;
            let records = build(&ticket);
            match self.append_records(&mut tail, shard, call, records.as_ref()) {
                Ok(()) => {
                    store();
                    self.region.fence();
                    if self.without == Without::Seal {
                        self.store_end(shard, tail.open.map_or(0, |at| at.line));
                    }
                    if !self.logs.changed.load(Relaxed) {
                        self.logs.changed.store(true, Relaxed);
                    }
                    return Ok(Committed { _tail: tail, ticket });
                }
                Err(Error::NoSpace) => {
                    drop(tail);
                    if !self.fits_a_zone(records.as_ref()) || !self.clean(call.want)? {
                        return Err(Error::NoSpace);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes a saved index void that an unmount has left, when the pool is changed after all.
    #[cold]
    fn void_saved(&self) -> Result<()> {
        let table = zone_table::load(&self.region).ok();
        let zones = table.map(|table| table.saved_zones()).unwrap_or_default();
        zone_table::make_void(&self.region, &self.geometry, &zones)?;
        self.saved.store(false, Relaxed);
        Ok(())
    }

    /// Stores where a shard's log ends, as a design must whose records do not certify themselves; durable on return. Recovery does
    /// not read it, and a store that the medium refuses loses nothing.
    fn store_end(&self, shard: usize, line: u32) {
        let at = SUPERBLOCKS[0] + (4 + shard as u64 % FREE_LINES) * LINE as u64;
        if self.region.store_u64(at, u64::from(line)).is_ok() {
            self.region.flush(at, 8);
            self.region.fence();
        }
    }

    fn fits_a_zone(&self, records: &[Record]) -> bool {
        records.iter().map(|record| record.lines() as u32).sum::<u32>() < self.geometry.record_lines()
    }
}
