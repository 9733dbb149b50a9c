//! A zoned device: writes come at the write pointer of a zone, and a zone is erased as a whole (NVMeVirt's ZNS model).
//!
//! ```text
//! page of a zone     one-shot page k of a zone lies on its die k mod dies of the zone
//! first die          (zone * dies of a zone) mod dies of the device;   channel = die mod channels
//! write pointer      empty (0) ──► open ──► full (the zone's size); a reset makes it empty
//! ```
//!
//! Reads sense flash page by flash page and move the whole request over PCIe at the end. Writes are programmed when a one-shot
//! page is complete; the buffer is the device's, or each zone has its own.
//!
//! References: NVMeVirt (FAST 2023), section 3.4, and its public source; NVMe Zoned Namespace Command Set, section 2.

use std::collections::BTreeMap;

use sim::{Bytes, Nanos};

use super::array::{Array, Place};
use super::buffer::WriteBuffer;
use super::command::{Command, FlashError, Op, Outcome};
use super::config::{Config, PAGE, SECTOR};
use super::ftl::Counters;
use super::ssd::{Statistics, unsupported};
use super::{config::Zones, done};

/// A zoned device. Zones that were never written cost nothing.
#[derive(Clone, Debug)]
pub(super) struct Zoned {
    config: Config,
    zones: Zones,
    array: Array,
    shared: WriteBuffer,
    own: BTreeMap<u64, WriteBuffer>,
    /// Bytes written to each zone since its reset.
    pointers: BTreeMap<u64, u64>,
    erases: BTreeMap<u64, u32>,
    counters: Counters,
}

impl Zoned {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            zones: config.zones,
            array: Array::new(config),
            shared: WriteBuffer::new(config.buffer / PAGE),
            own: BTreeMap::new(),
            pointers: BTreeMap::new(),
            erases: BTreeMap::new(),
            counters: Counters::default(),
            config: config.clone(),
        }
    }

    /// Bytes of all whole zones.
    pub(super) fn visible(&self) -> u64 {
        self.config.capacity / self.zones.size * self.zones.size
    }

    pub(super) fn submit(&mut self, command: &Command, lba: u64, now: u64) -> Result<Outcome, FlashError> {
        let (offset, bytes) = (lba * SECTOR, command.sectors * SECTOR);
        match command.op {
            Op::Read => Ok(done(self.read(offset, bytes, now))),
            Op::Write => self.write(offset, bytes, command.fua, now),
            Op::Flush => Ok(done(self.array.all_free_at().max(now))),
            Op::ResetZone => Ok(done(self.reset(offset, now))),
            Op::Trim => Err(unsupported(command.op, "reset the zone instead")),
        }
    }

    fn place(&self, offset: u64) -> Place {
        let (zone, within) = (offset / self.zones.size, offset % self.zones.size);
        let (dies, oneshot) = (u64::from(self.zones.dies), within / self.config.oneshot_page);
        let first = zone * dies % u64::from(self.config.dies());
        let die = (first + oneshot % dies) % u64::from(self.config.dies());
        let flash_page = within / self.config.flash_page;
        Place {
            die: die as u32,
            plane: (flash_page % u64::from(self.config.planes)) as u32,
            cell: (flash_page % u64::from(self.config.timing.cells)) as u32,
        }
    }

    fn read(&mut self, offset: u64, bytes: u64, now: u64) -> u64 {
        let timing = &self.config.timing;
        let at = now + if bytes <= PAGE { timing.fw_read_4k_ns } else { timing.fw_read_ns };
        let (mut from, end) = (offset / PAGE * PAGE, (offset + bytes).next_multiple_of(PAGE));
        let mut latest = at;
        while from < end {
            let to = end.min((from / self.config.flash_page + 1) * self.config.flash_page);
            latest = latest.max(self.array.read(now, at, self.place(from), to - from, false));
            from = to;
        }
        self.array.host_transfer(now, latest, bytes)
    }

    fn write(&mut self, offset: u64, bytes: u64, fua: bool, now: u64) -> Result<Outcome, FlashError> {
        let zone = offset / self.zones.size;
        let pointer = self.pointers.get(&zone).copied().unwrap_or(0);
        self.check_write(zone, pointer, offset, bytes)?;
        let pages = (pointer + bytes).div_ceil(PAGE) - pointer.div_ceil(PAGE);
        if let Err(retry_at) = self.buffer(zone).take(now, pages) {
            // What a zone holds of an incomplete one-shot page is less than the buffer, so something is on its way.
            let retry_at = retry_at.unwrap_or_else(|| self.array.all_free_at().max(now + 1));
            return Ok(Outcome::Busy { retry_at: Nanos(retry_at) });
        }
        let timing = &self.config.timing;
        let at = now + timing.fw_write_ns + timing.fw_write_4k_ns * bytes.div_ceil(PAGE);
        let buffered = self.array.host_transfer(now, at, bytes);
        self.pointers.insert(zone, pointer + bytes);
        self.counters.host_pages += pages;
        let latest = self.program(zone, pointer, bytes, buffered, now);
        let on_flash = fua || !self.config.early_completion;
        Ok(done(if on_flash { latest } else { buffered }))
    }

    fn check_write(&self, zone: u64, pointer: u64, offset: u64, bytes: u64) -> Result<(), FlashError> {
        let start = zone * self.zones.size;
        if offset != start + pointer {
            let (lba, pointer) = (offset / SECTOR, (start + pointer) / SECTOR);
            return Err(FlashError::NotAtWritePointer { zone, lba, pointer });
        }
        let bad = |why| Err(FlashError::BadZoneWrite { zone, bytes, why });
        if pointer + bytes > self.zones.size {
            return bad("goes beyond the end of the zone");
        }
        if !bytes.is_multiple_of(self.zones.write_unit) {
            return bad("is no multiple of the device's write unit");
        }
        Ok(())
    }

    /// Programs the one-shot pages that are complete now; the last one of a full zone may be shorter.
    fn program(&mut self, zone: u64, pointer: u64, bytes: u64, at: u64, now: u64) -> u64 {
        let (start, size) = (zone * self.zones.size, self.config.oneshot_page);
        let end = pointer + bytes;
        let complete = if end == self.zones.size { end.div_ceil(size) } else { end / size };
        let mut latest = at;
        for number in pointer / size..complete {
            let die = self.place(start + number * size).die;
            let done = self.array.program(now, at, die, size);
            let pages = size.min(self.zones.size - number * size) / PAGE;
            self.buffer(zone).give_back(done, pages);
            latest = latest.max(done);
        }
        latest
    }

    fn reset(&mut self, offset: u64, now: u64) -> u64 {
        let zone = offset / self.zones.size;
        let held = self.held_pages(zone);
        if self.pointers.remove(&zone).is_none() {
            return now;
        }
        self.buffer(zone).give_back_now(held);
        let dies =
            (0..u64::from(self.zones.dies)).map(|k| zone * self.zones.size + k * self.config.oneshot_page);
        let dies: Vec<u32> = dies.map(|at| self.place(at).die).collect();
        let latest = dies.into_iter().map(|die| self.array.erase(now, die)).fold(now, u64::max);
        *self.erases.entry(zone).or_default() += 1;
        latest
    }

    /// Pages of the zone's one-shot page that is not complete.
    fn held_pages(&self, zone: u64) -> u64 {
        let pointer = self.pointers.get(&zone).copied().filter(|at| *at < self.zones.size).unwrap_or(0);
        (pointer % self.config.oneshot_page).div_ceil(PAGE)
    }

    fn buffer(&mut self, zone: u64) -> &mut WriteBuffer {
        if !self.zones.own_buffer {
            return &mut self.shared;
        }
        self.own.entry(zone).or_insert_with(|| WriteBuffer::new(self.config.buffer / PAGE))
    }

    pub(super) fn idle_at(&self) -> u64 {
        self.array.all_free_at()
    }

    pub(super) fn statistics(&self) -> Statistics {
        let zones = self.visible() / self.zones.size;
        let fewest =
            if (self.erases.len() as u64) < zones { Some(0) } else { self.erases.values().copied().min() };
        let most = self.erases.values().copied().max().unwrap_or(0);
        Statistics {
            counters: self.counters,
            write_amplification: 1.0,
            busy: self.array.busy_ns().iter().map(|ns| Nanos(*ns)).collect(),
            erases: (fewest.unwrap_or(0), most, self.erases.values().map(|n| u64::from(*n)).sum()),
            mapped_pages: self.pointers.values().map(|bytes| bytes / PAGE).sum(),
            mapping: Bytes(0),
        }
    }
}
