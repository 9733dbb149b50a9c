//! A page-mapped SSD: how long reads, writes and flushes take (NVMeVirt, FAST 2023, section 3.4).
//!
//! | command | completes |
//! |---|---|
//! | read | firmware, then all flash pages at once; pages of one flash page that follow each other are sensed together |
//! | write | firmware and transfer into the buffer (early completion), or when its one-shot pages are programmed |
//! | flush | when every die is free |
//!
//! A one-shot page is programmed when its last page arrives. A page that waits for its neighbours stays in the buffer; a read
//! of it takes as long as one of flash, since the published model does not serve reads out of the buffer.

use sim::{Bytes, Nanos};

use super::array::{Array, Place};
use super::buffer::WriteBuffer;
use super::command::{Hint, Outcome};
use super::config::{Allocation, Config, PAGE};
use super::ftl::{Ftl, Written};
use super::ssd::Statistics;
use super::{FlashError, done};

/// The pages of a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// The first page.
    pub(super) first: u64,
    /// Beyond the last page.
    pub(super) end: u64,
    /// How many bytes the host asked for.
    pub(super) bytes: u64,
}

/// What a write says besides its pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteHow {
    pub(super) fua: bool,
    pub(super) hint: Hint,
    /// The first sector of the namespace.
    pub(super) start: u64,
}

/// A page-mapped SSD.
#[derive(Clone, Debug)]
pub(super) struct Conventional {
    pub(super) ftl: Ftl,
    pub(super) array: Array,
    buffer: WriteBuffer,
    config: Config,
}

impl Conventional {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            ftl: Ftl::new(config),
            array: Array::new(config),
            buffer: WriteBuffer::new(config.buffer / PAGE),
            config: config.clone(),
        }
    }

    pub(super) fn read(&mut self, span: Span, now: u64) -> u64 {
        let timing = &self.config.timing;
        let small = span.bytes <= PAGE * u64::from(self.config.partitions);
        let at = now + if small { timing.fw_read_4k_ns } else { timing.fw_read_ns };
        let partitions = u64::from(self.config.partitions);
        let mut latest = now;
        for first in span.first..span.end.min(span.first + partitions) {
            latest = latest.max(self.read_partition(first, span.end, now, at));
        }
        if latest == now && !self.config.defects.free_unmapped_reads {
            latest = self.array.host_transfer(now, at, span.bytes);
        }
        latest
    }

    /// The pages `first`, `first + partitions`, … before `end`: one read for each run in a flash page.
    fn read_partition(&mut self, first: u64, end: u64, now: u64, at: u64) -> u64 {
        let mut latest = now;
        let mut run: Option<(Place, u64, u64)> = None;
        for lpn in (first..end).step_by(self.config.partitions as usize) {
            let Some((place, flash_page)) = self.ftl.lookup(lpn) else { continue };
            match &mut run {
                Some((_, same, bytes)) if *same == flash_page => *bytes += PAGE,
                _ => {
                    if let Some((place, _, bytes)) = run.replace((place, flash_page, PAGE)) {
                        latest = latest.max(self.array.read(now, at, place, bytes, true));
                    }
                }
            }
        }
        if let Some((place, _, bytes)) = run {
            latest = latest.max(self.array.read(now, at, place, bytes, true));
        }
        latest
    }

    pub(super) fn write(&mut self, span: Span, how: WriteHow, now: u64) -> Result<Outcome, FlashError> {
        let pages = span.end - span.first;
        match self.buffer.take(now, pages) {
            Ok(()) => (),
            Err(Some(retry_at)) => return Ok(Outcome::Busy { retry_at: Nanos(retry_at) }),
            Err(None) => return Ok(Outcome::Busy { retry_at: Nanos(self.program_open(now, now)) }),
        }
        let timing = &self.config.timing;
        let at = now + timing.fw_write_ns + timing.fw_write_4k_ns * span.bytes.div_ceil(PAGE);
        let buffered = self.array.host_transfer(now, at, span.bytes);
        self.ftl.follow_hint(span.first, how.hint, how.start);
        let mut latest = self.write_pages(span, buffered, now)?;
        let on_flash = how.fua || !self.config.early_completion;
        if on_flash && !self.config.capacitor {
            latest = latest.max(self.program_open(now, buffered));
        }
        Ok(done(if on_flash { latest } else { buffered }))
    }

    /// Writes the pages of a command that are in the buffer at `buffered`; returns when the last of them is durable that completes
    /// a one-shot page. On an error those that were not written leave the buffer.
    fn write_pages(&mut self, span: Span, buffered: u64, now: u64) -> Result<u64, FlashError> {
        let mut latest = buffered;
        for lpn in span.first..span.end {
            let left = span.end - lpn;
            let written = self.ftl.write(lpn).inspect_err(|_| self.buffer.give_back_now(left))?;
            latest = latest.max(self.settle(written, buffered, now));
            if self.ftl.spend_credit(written.group) {
                let collected = self.ftl.collect_where_needed(written.group, now, &mut self.array);
                self.ftl.refill_credits(written.group);
                collected.inspect_err(|_| self.buffer.give_back_now(left - 1))?;
            }
        }
        Ok(latest)
    }

    /// A page is in the buffer; the one-shot page that it completes is programmed. Returns when, or `at`.
    fn settle(&mut self, written: Written, at: u64, now: u64) -> u64 {
        let at_once = self.config.allocation == Allocation::On && self.config.defects.early_release;
        let Some(die) = written.closes else {
            if at_once {
                self.buffer.give_back_now(1);
            } else {
                self.ftl.groups[written.group as usize].held += 1;
            }
            return at;
        };
        self.program(written.group, die, 1, at, now)
    }

    /// Programs the one-shot page of a group; `more` pages in the buffer besides those held.
    fn program(&mut self, group: u32, die: u32, more: u64, at: u64, now: u64) -> u64 {
        let done = self.array.program(now, at, die, self.config.oneshot_page);
        let held = std::mem::take(&mut self.ftl.groups[group as usize].held);
        if held + more > 0 {
            self.buffer.give_back(done, held + more);
        }
        if let Some(volatile) = &mut self.ftl.volatile {
            volatile.programmed(group, done);
        }
        done
    }

    /// Programs every one-shot page that hosts have begun, with padding. Returns when the last is done.
    pub(super) fn program_open(&mut self, now: u64, at: u64) -> u64 {
        let mut latest = at;
        for group in 0..self.ftl.groups.len() as u32 {
            if let Some(die) = self.ftl.pad(group) {
                latest = latest.max(self.program(group, die, 0, at, now));
            }
        }
        latest
    }

    /// With a capacitor what is buffered is safe, so nothing is forced; without, it is programmed.
    pub(super) fn flush(&mut self, now: u64) -> u64 {
        if !self.config.capacitor {
            self.program_open(now, now);
        }
        self.array.all_free_at().max(now)
    }

    /// Firmware time only: no published model has a cost for it. It is that of a write without data.
    pub(super) fn trim(&mut self, first: u64, end: u64, now: u64) -> u64 {
        (first..end).for_each(|lpn| self.ftl.trim(lpn));
        now + self.config.timing.fw_write_ns
    }

    pub(super) fn trims(&self) -> bool {
        self.config.trim
    }

    pub(super) fn statistics(&self) -> Statistics {
        let counters = self.ftl.counters;
        let programmed = self.ftl.pages_written();
        let erases = self.ftl.lines.iter().map(|line| line.erases);
        Statistics {
            counters,
            write_amplification: if counters.host_pages == 0 {
                1.0
            } else {
                programmed as f64 / counters.host_pages as f64
            },
            busy: self.array.busy_ns().iter().map(|ns| Nanos(*ns)).collect(),
            erases: (
                erases.clone().min().unwrap_or(0),
                erases.clone().max().unwrap_or(0),
                erases.map(u64::from).sum(),
            ),
            mapped_pages: self.ftl.map.mapped(),
            mapping: Bytes(self.ftl.mapping_bytes()),
        }
    }

    /// The dies stop, the buffer is empty.
    pub(super) fn power_cut(&mut self, now: u64) -> Vec<super::volatile::Undo> {
        self.array.stop(now);
        self.buffer = WriteBuffer::new(self.config.buffer / PAGE);
        self.ftl.power_cut(now)
    }
}
