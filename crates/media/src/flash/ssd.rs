//! The device as a host sees it: namespaces, commands, bytes.

use sim::{Bytes, Nanos};

use super::command::{Command, FlashError, Op, Outcome};
use super::config::{Config, Kind, PAGE, SECTOR};
use super::conventional::{Conventional, Span, WriteHow};
use super::ftl::Counters;
use super::store::{Data, Store};
use super::units::UnitDevice;
use super::volatile::Before;
use super::zoned::Zoned;

#[derive(Clone, Debug)]
enum Device {
    Conventional(Box<Conventional>),
    Zoned(Box<Zoned>),
    Units(UnitDevice),
}

/// Sectors of a namespace.
#[derive(Clone, Copy, Debug)]
struct Namespace {
    start: u64,
    sectors: u64,
}

/// An SSD.
#[derive(Clone, Debug)]
pub struct Ssd {
    config: Config,
    device: Device,
    namespaces: Vec<Namespace>,
    store: Store,
    /// The time of the latest command.
    now: u64,
}

/// What a device has done so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// Pages and lines.
    pub counters: Counters,
    /// Pages programmed for each page that hosts wrote, padding included; 1 before the first write.
    pub write_amplification: f64,
    /// How long each die has been busy, including what it has been told and is still to do.
    pub busy: Vec<Nanos>,
    /// Erases of lines: fewest, most, all.
    pub erases: (u32, u32, u64),
    /// Pages that are mapped.
    pub mapped_pages: u64,
    /// Memory of the mapping, both ways.
    pub mapping: Bytes,
}

/// Where a page of the host lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The die.
    pub die: u32,
    /// Pages with the same number share a flash page.
    pub flash_page: u64,
}

impl Ssd {
    /// A device with one namespace, nothing written.
    pub fn new(config: &Config, data: Data) -> Result<Self, FlashError> {
        Self::with_namespaces(config, data, &[])
    }

    /// A device with namespaces of these sizes; with none, one of all that there is.
    pub fn with_namespaces(config: &Config, data: Data, sizes: &[Bytes]) -> Result<Self, FlashError> {
        config.check()?;
        let (device, visible) = match config.kind {
            Kind::Conventional => {
                (Device::Conventional(Box::new(Conventional::new(config))), config.visible())
            }
            Kind::Zoned => {
                let zoned = Zoned::new(config);
                let visible = zoned.visible();
                (Device::Zoned(Box::new(zoned)), visible)
            }
            Kind::Units => (Device::Units(UnitDevice::new(config)), config.capacity / PAGE * PAGE),
        };
        let namespaces = namespaces(visible, sizes)?;
        Ok(Self { config: config.clone(), device, namespaces, store: Store::new(data), now: 0 })
    }

    /// What it is made of.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Bytes of a namespace.
    pub fn size(&self, namespace: u32) -> Result<Bytes, FlashError> {
        self.namespace(namespace).map(|space| Bytes(space.sectors * SECTOR))
    }

    /// When a command that arrives at `now` completes. Its bytes, if it has any, are not touched: see [`Ssd::write`].
    pub fn submit(&mut self, command: &Command, now: Nanos) -> Result<Outcome, FlashError> {
        let space = self.namespace(command.namespace)?;
        if now.0 < self.now {
            return Err(FlashError::Backwards { now: now.0, last: self.now });
        }
        self.check_range(command, space)?;
        self.now = now.0;
        if let Device::Conventional(device) = &mut self.device {
            device.ftl.retire(now.0);
        }
        let outcome = self.device.submit(command, space.start, now.0)?;
        if let (Op::Trim, Outcome::Done { .. }) = (command.op, outcome) {
            self.forget(space.start + command.lba, command.sectors);
        }
        Ok(outcome)
    }

    /// Submits a read and fills `bytes` with what is there.
    pub fn read(&mut self, command: &Command, bytes: &mut [u8], now: Nanos) -> Result<Outcome, FlashError> {
        self.check_data(command, bytes.len())?;
        let outcome = self.submit(command, now)?;
        self.store.read(self.byte(command)?, bytes);
        Ok(outcome)
    }

    /// Submits a write and keeps `bytes`, unless the device is busy.
    pub fn write(&mut self, command: &Command, bytes: &[u8], now: Nanos) -> Result<Outcome, FlashError> {
        self.check_data(command, bytes.len())?;
        let outcome = self.submit(command, now)?;
        if let Outcome::Done { .. } = outcome {
            let at = self.byte(command)?;
            self.remember(at, bytes.len() as u64);
            self.store.write(at, bytes);
        }
        Ok(outcome)
    }

    /// Power is lost at `now` and comes back. With a capacitor nothing is lost; without, every page that was not programmed by
    /// then is as it was before. Returns how many pages that are.
    pub fn power_cut(&mut self, now: Nanos) -> Result<usize, FlashError> {
        if now.0 < self.now {
            return Err(FlashError::Backwards { now: now.0, last: self.now });
        }
        self.now = now.0;
        let Device::Conventional(device) = &mut self.device else { return Ok(0) };
        let undone = device.power_cut(now.0);
        let count = undone.len();
        for undo in undone {
            let lpn = device.ftl.map.lpn(undo.short);
            match undo.content {
                Before::NotKept => {}
                Before::Zero => self.store.restore(lpn, None),
                Before::Bytes(bytes) => self.store.restore(lpn, Some(bytes)),
            }
        }
        Ok(count)
    }

    /// Programs every flash page that hosts have begun, filled up with padding, so that the next write begins a new one. Returns
    /// when that is done.
    pub fn pad(&mut self) -> Nanos {
        let now = self.now;
        match &mut self.device {
            Device::Conventional(device) => Nanos(device.program_open(now, now)),
            Device::Zoned(_) | Device::Units(_) => Nanos(now),
        }
    }

    /// When the device will have done everything that it was told.
    pub fn idle_at(&self) -> Nanos {
        let at = match &self.device {
            Device::Conventional(device) => device.array.all_free_at(),
            Device::Zoned(device) => device.idle_at(),
            Device::Units(device) => device.idle_at(),
        };
        Nanos(at.max(self.now))
    }

    /// The time of the latest command.
    pub fn now(&self) -> Nanos {
        Nanos(self.now)
    }

    /// Bytes as they are, at no cost in time; `offset` counts over the device.
    pub fn peek(&self, offset: u64, bytes: &mut [u8]) {
        self.store.read(offset, bytes);
    }

    /// What it has done so far.
    pub fn statistics(&self) -> Statistics {
        match &self.device {
            Device::Conventional(device) => device.statistics(),
            Device::Zoned(device) => device.statistics(),
            Device::Units(device) => device.statistics(),
        }
    }

    /// Where the page of byte `offset` of namespace 0 lies, if it was written and the device has dies.
    pub fn layout(&self, offset: u64) -> Option<Layout> {
        let Device::Conventional(device) = &self.device else { return None };
        let (place, flash_page) = device.ftl.lookup(offset / PAGE)?;
        Some(Layout { die: place.die, flash_page })
    }

    /// Every invariant of the mapping: what is wrong, or nothing.
    pub fn verify(&self) -> Result<(), String> {
        match &self.device {
            Device::Conventional(device) => device.ftl.verify(),
            _ => Ok(()),
        }
    }

    fn namespace(&self, namespace: u32) -> Result<Namespace, FlashError> {
        let found = self.namespaces.get(namespace as usize).copied();
        found.ok_or(FlashError::NoNamespace { namespace, count: self.namespaces.len() })
    }

    fn check_range(&self, command: &Command, space: Namespace) -> Result<(), FlashError> {
        let Command { op, lba, sectors, .. } = *command;
        if op == Op::Flush {
            return Ok(());
        }
        if lba.checked_add(sectors).is_none_or(|end| end > space.sectors) {
            return Err(FlashError::OutOfRange { lba, sectors, size: space.sectors });
        }
        let moves = matches!(op, Op::Read | Op::Write);
        let most = if moves { self.config.max_transfer } else { u64::MAX };
        if sectors == 0 || sectors > most / SECTOR {
            return Err(FlashError::Length { bytes: sectors.saturating_mul(SECTOR), most });
        }
        Ok(())
    }

    fn check_data(&self, command: &Command, bytes: usize) -> Result<(), FlashError> {
        if !self.store.keeps() {
            return Err(FlashError::NoData);
        }
        let asked = command.sectors.saturating_mul(SECTOR);
        if asked != bytes as u64 {
            return Err(FlashError::Length { bytes: bytes as u64, most: asked });
        }
        Ok(())
    }

    /// The first byte of a command, counted over the device.
    fn byte(&self, command: &Command) -> Result<u64, FlashError> {
        Ok((self.namespace(command.namespace)?.start + command.lba) * SECTOR)
    }

    /// Keeps what was there before a write that a power loss may undo.
    fn remember(&mut self, offset: u64, len: u64) {
        let Device::Conventional(device) = &mut self.device else { return };
        let ftl = &mut device.ftl;
        let Some(volatile) = &mut ftl.volatile else { return };
        for lpn in offset / PAGE..(offset + len).div_ceil(PAGE) {
            volatile.remember(ftl.map.find(lpn), || self.store.page(lpn));
        }
    }

    /// Pages that a trim covers are zero from now on.
    fn forget(&mut self, lba: u64, sectors: u64) {
        let (first, end) = whole_pages(lba, sectors);
        (first..end).for_each(|lpn| self.store.restore(lpn, None));
    }
}

impl Device {
    fn submit(&mut self, command: &Command, start: u64, now: u64) -> Result<Outcome, FlashError> {
        let lba = start + command.lba;
        let end = lba + command.sectors;
        let per_page = PAGE / SECTOR;
        let bytes = command.sectors * SECTOR;
        let span = Span { first: lba / per_page, end: end.div_ceil(per_page), bytes };
        match self {
            Self::Conventional(device) => match command.op {
                Op::Read => Ok(super::done(device.read(span, now))),
                Op::Write => {
                    let how = WriteHow { fua: command.fua, hint: command.hint, start };
                    device.write(span, how, now)
                }
                Op::Flush => Ok(super::done(device.flush(now))),
                Op::Trim if device.trims() => {
                    let (first, end) = whole_pages(lba, command.sectors);
                    Ok(super::done(device.trim(first, end, now)))
                }
                Op::Trim => Err(unsupported(command.op, "set trim=yes")),
                Op::ResetZone => Err(unsupported(command.op, "only a zoned device has zones")),
            },
            Self::Zoned(device) => device.submit(command, lba, now),
            Self::Units(device) => device.submit(command, lba, now),
        }
    }
}

pub(super) fn unsupported(op: Op, why: &'static str) -> FlashError {
    FlashError::Unsupported { op, why }
}

/// The pages that lie in a range as a whole.
fn whole_pages(lba: u64, sectors: u64) -> (u64, u64) {
    let per_page = PAGE / SECTOR;
    let (first, end) = (lba.div_ceil(per_page), (lba + sectors) / per_page);
    (first, end.max(first))
}

/// One after the other, each of whole pages.
fn namespaces(visible: u64, sizes: &[Bytes]) -> Result<Vec<Namespace>, FlashError> {
    let sizes: Vec<u64> =
        if sizes.is_empty() { vec![visible] } else { sizes.iter().map(|size| size.0).collect() };
    let mut start = 0;
    let mut spaces = Vec::with_capacity(sizes.len());
    for size in sizes {
        let fits = size > 0 && size.is_multiple_of(PAGE) && size <= visible - start;
        if !fits {
            let what = format!(
                "a namespace of {size} bytes: it must be whole pages of 4 KiB, and {} bytes are left",
                visible - start
            );
            return Err(FlashError::Impossible { what });
        }
        spaces.push(Namespace { start: start / SECTOR, sectors: size / SECTOR });
        start += size;
    }
    Ok(spaces)
}
