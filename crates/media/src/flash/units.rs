//! A device of units: storage that is as fast for a byte as for a page, behind NVMe (NVMeVirt's NVM model, after Optane SSDs).
//!
//! Units serve pieces in turn. A request waits for the unit of its first piece, then a latency, then the time of each piece;
//! every unit that it used is busy until the request's piece there is done, and rests a while.
//!
//! ```text
//! start  = max(now, unit of the first byte is free) + latency
//! piece  = previous piece + time of a piece
//! ```
//!
//! References: NVMeVirt (FAST 2023), section 3.4, and its public source.

use sim::{Bytes, Nanos};

use super::command::{Command, FlashError, Op, Outcome};
use super::config::{Config, SECTOR, Units};
use super::done;
use super::ftl::Counters;
use super::ssd::{Statistics, unsupported};

/// The units and when each is free, in ns.
#[derive(Clone, Debug)]
pub(super) struct UnitDevice {
    units: Units,
    free_at: Vec<u64>,
    busy_ns: Vec<u64>,
}

impl UnitDevice {
    pub(super) fn new(config: &Config) -> Self {
        let count = config.units.count as usize;
        Self { units: config.units, free_at: vec![0; count], busy_ns: vec![0; count] }
    }

    pub(super) fn submit(&mut self, command: &Command, lba: u64, now: u64) -> Result<Outcome, FlashError> {
        let cost = match command.op {
            Op::Read => self.units.read_ns,
            Op::Write => self.units.write_ns,
            Op::Flush => return Ok(done(self.free_at.iter().copied().fold(now, u64::max))),
            Op::Trim | Op::ResetZone => {
                return Err(unsupported(command.op, "a device of units has no mapping and no zones"));
            }
        };
        Ok(done(self.serve(lba * SECTOR, command.sectors * SECTOR, cost, now)))
    }

    fn serve(&mut self, offset: u64, bytes: u64, (latency, time): (u64, u64), now: u64) -> u64 {
        let count = self.free_at.len();
        let mut unit = (offset / self.units.size) as usize % count;
        let mut finish = now.max(self.free_at[unit]) + latency;
        for _ in 0..bytes.div_ceil(self.units.size) {
            finish += time;
            self.busy_ns[unit] += time;
            self.free_at[unit] = finish + self.units.trailing_ns;
            unit = (unit + 1) % count;
        }
        finish
    }

    pub(super) fn idle_at(&self) -> u64 {
        self.free_at.iter().copied().max().unwrap_or(0)
    }

    pub(super) fn statistics(&self) -> Statistics {
        Statistics {
            counters: Counters::default(),
            write_amplification: 1.0,
            busy: self.busy_ns.iter().map(|ns| Nanos(*ns)).collect(),
            erases: (0, 0, 0),
            mapped_pages: 0,
            mapping: Bytes(0),
        }
    }
}
