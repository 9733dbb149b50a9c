//! What an SSD is made of: geometry, times, policies; and which combinations are impossible.

use sim::Bytes;

use super::FlashError;

/// Bytes of a logical page: the unit of the mapping.
pub const PAGE: u64 = 4_096;
/// Bytes of a sector: the unit of addresses in commands.
pub const SECTOR: u64 = 512;

/// What an SSD is made of. Sizes in bytes, times in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Which kind of device.
    pub kind: Kind,
    /// Bytes of flash.
    pub capacity: u64,
    /// Independent translation layers, each with its share of the channels; pages go round them.
    pub partitions: u32,
    /// Channels of the device.
    pub channels: u32,
    /// Dies on each channel.
    pub dies_per_channel: u32,
    /// Planes of a die.
    pub planes: u32,
    /// Whether planes sense by themselves.
    pub plane_reads: bool,
    /// Bytes that are sensed at once.
    pub flash_page: u64,
    /// Bytes that are programmed at once.
    pub oneshot_page: u64,
    /// Blocks of a plane. The size of a block follows from the capacity.
    pub blocks: u32,
    /// Over-provisioning, in per cent of what the host sees.
    pub over_provisioning: u32,
    /// Bytes of the write buffer.
    pub buffer: u64,
    /// The largest transfer of a command.
    pub max_transfer: u64,
    /// Whether a write completes when its data is in the buffer.
    pub early_completion: bool,
    /// Whether the buffer survives a power loss.
    pub capacitor: bool,
    /// Whether TRIM unmaps.
    pub trim: bool,
    /// Where a write goes.
    pub allocation: Allocation,
    /// Garbage collection.
    pub gc: Gc,
    /// How long things take.
    pub timing: Timing,
    /// Known defects of the published code.
    pub defects: Defects,
    /// Zones of a zoned device.
    pub zones: Zones,
    /// Units of a unit device.
    pub units: Units,
}

/// Kinds of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Page-mapped flash.
    Conventional,
    /// Zoned flash: writes only at the write pointer of a zone.
    Zoned,
    /// Byte-addressable storage behind NVMe: units that serve pieces in turn, no mapping.
    Units,
}

/// Where a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// In order of arrival, striped over all dies; hints are ignored.
    Off,
    /// By the hints of FAST 2024: an append goes to the die after its predecessor's, an overwrite to the die of its old copy.
    On,
}

/// Which line is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The one with the fewest valid pages.
    Greedy,
    /// The largest (1 - u) / 2u times age, u being its share of valid pages (Rosenblum and Ousterhout, SOSP 1991).
    CostBenefit,
    /// The one that was closed first.
    Fifo,
}

/// Garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gc {
    /// Which line is collected.
    pub victim: Victim,
    /// Collects when no more than this many lines are free.
    pub threshold: u32,
}

/// How long things take, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Sensing for a transfer of exactly 4 KiB, by cell.
    pub read_4k_ns: [u64; 3],
    /// Sensing for any other transfer, by cell.
    pub read_ns: [u64; 3],
    /// How many kinds of cells alternate from flash page to flash page.
    pub cells: u32,
    /// One-shot program.
    pub program_ns: u64,
    /// Erasing a block.
    pub erase_ns: u64,
    /// Bytes a second of a channel.
    pub channel_bytes_per_s: u64,
    /// Bytes a second of the PCIe link.
    pub pcie_bytes_per_s: u64,
    /// The largest burst on a channel.
    pub burst_bytes: u64,
    /// Firmware, for each 4 KiB that moves on a channel.
    pub transfer_ns_per_4k: u64,
    /// Firmware, for a read of at most 4 KiB a partition.
    pub fw_read_4k_ns: u64,
    /// Firmware, for a larger read.
    pub fw_read_ns: u64,
    /// Firmware, for a write.
    pub fw_write_ns: u64,
    /// Firmware, for each 4 KiB of a write.
    pub fw_write_4k_ns: u64,
}

/// Known defects of the published code: true reproduces them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defects {
    /// With allocation by hints, an append opens the next die even when its predecessor is the newest page of a one-shot page
    /// that is still open, so that small appends go one to a die.
    pub append_skips: bool,
    /// With allocation by hints, a page that does not complete a one-shot page leaves the buffer at once.
    pub early_release: bool,
    /// A read of pages that were never written takes no time at all.
    pub free_unmapped_reads: bool,
    /// One collection is one line, though it may free no line on balance, so that free lines may run out.
    pub single_collection: bool,
}

/// The zones of a zoned device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Zones {
    /// Bytes of a zone.
    pub size: u64,
    /// Dies over which a zone is striped.
    pub dies: u32,
    /// Whether each zone has a buffer of its own.
    pub own_buffer: bool,
    /// What a write must be a multiple of, in bytes.
    pub write_unit: u64,
}

/// The units of a unit device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Units {
    /// How many serve at once.
    pub count: u32,
    /// Bytes of a piece.
    pub size: u64,
    /// What a read waits before its first piece, and each piece takes, in ns.
    pub read_ns: (u64, u64),
    /// The same for a write.
    pub write_ns: (u64, u64),
    /// How long a unit rests after a request, in ns.
    pub trailing_ns: u64,
}

impl Config {
    /// Dies of the device.
    pub fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel
    }

    /// Pages of 4 KiB in a one-shot page.
    pub fn oneshot_pages(&self) -> u64 {
        self.oneshot_page / PAGE
    }

    /// Pages of 4 KiB in the part of a line that lies on one die: as many one-shot pages as the capacity makes necessary.
    pub fn block_pages(&self) -> u64 {
        let planes = u64::from(self.dies()) * u64::from(self.planes);
        let block = self.capacity.div_ceil(u64::from(self.blocks) * planes);
        (block * u64::from(self.planes)).div_ceil(self.oneshot_page) * self.oneshot_pages()
    }

    /// Blocks of each die that are modelled: at most [`Config::blocks`], and no more than the capacity fills. A block holds whole
    /// one-shot pages of all planes, so that of a small capacity, or of one that does not divide, fewer blocks are made.
    pub fn lines(&self) -> u32 {
        let row = self.block_pages() * PAGE * u64::from(self.dies());
        u64::from(self.blocks).min(self.capacity.div_ceil(row)) as u32
    }

    /// Bytes of flash in these blocks: the capacity, or more by less than a block of each die.
    pub fn flash(&self) -> u64 {
        u64::from(self.lines()) * self.block_pages() * PAGE * u64::from(self.dies())
    }

    /// The simulated device in a sentence: flash, blocks, what hosts see, and the spare share of it. None but for a conventional
    /// device, whose values follow from others.
    pub fn geometry(&self) -> Option<String> {
        if self.kind != Kind::Conventional {
            return None;
        }
        let (flash, visible) = (self.flash(), self.visible());
        let spare = (flash - visible.min(flash)) as f64 / visible.max(1) as f64 * 100.0;
        let (lines, dies, block) = (self.lines(), self.dies(), Bytes(self.block_pages() * PAGE));
        let fewer = if lines < self.blocks {
            format!(
                ", not {}: a block holds whole one-shot pages of {}",
                self.blocks,
                Bytes(self.oneshot_page)
            )
        } else {
            String::new()
        };
        Some(format!(
            "simulated: {} of flash, {lines} blocks of {block} on each of {dies} dies{fewer}; hosts see {}, {spare:.1} % is spare",
            Bytes(flash),
            Bytes(visible)
        ))
    }

    /// Bytes that the host sees, whole pages.
    pub fn visible(&self) -> u64 {
        let share = u128::from(self.capacity) * 100 / u128::from(100 + self.over_provisioning);
        share as u64 / PAGE * PAGE
    }

    /// Refuses what cannot be built.
    pub fn check(&self) -> Result<(), FlashError> {
        self.check_sizes()?;
        match self.kind {
            Kind::Conventional => self.check_space(),
            Kind::Zoned => self.check_zones(),
            Kind::Units => Ok(()),
        }
    }

    fn check_sizes(&self) -> Result<(), FlashError> {
        let t = &self.timing;
        require(self.capacity >= PAGE, || format!("a capacity of {} bytes holds no page", self.capacity))?;
        require(whole_pages(self.max_transfer), || "max_transfer must be whole pages of 4 KiB".to_owned())?;
        if self.kind == Kind::Units {
            let fits = self.units.count > 0 && self.units.size > 0;
            return require(fits, || "a unit device needs at least one unit of at least one byte".to_owned());
        }
        for (name, count) in [
            ("channels", self.channels),
            ("dies", self.dies_per_channel),
            ("planes", self.planes),
            ("blocks", self.blocks),
            ("partitions", self.partitions),
        ] {
            require((1..=1 << 20).contains(&count), || format!("{name} = {count} is not in 1 … 1,048,576"))?;
        }
        require(self.channels.is_multiple_of(self.partitions), || {
            format!("{} channels cannot be shared by {} partitions", self.channels, self.partitions)
        })?;
        require(whole_pages(self.flash_page) && self.oneshot_page.is_multiple_of(self.flash_page), || {
            "flash_page must be whole pages of 4 KiB, and oneshot_page whole flash pages".to_owned()
        })?;
        require(whole_pages(self.oneshot_page), || "oneshot_page holds no page".to_owned())?;
        require((1..=3).contains(&t.cells), || format!("cells = {} is not 1, 2 or 3", t.cells))?;
        require(t.burst_bytes > 0, || "burst is 0".to_owned())?;
        let slowest = super::link::Link::SLOWEST;
        require(t.channel_bytes_per_s.min(t.pcie_bytes_per_s) >= slowest, || {
            format!("a link of less than {} MB/s moves nothing in 4 us", slowest / 1_000_000)
        })
    }

    /// The host's pages, the open lines and those that collection needs must fit.
    fn check_space(&self) -> Result<(), FlashError> {
        let spread = match self.allocation {
            Allocation::Off => 1,
            Allocation::On => self.dies() / self.partitions,
        };
        let open = u64::from(2 * spread * self.partitions) * self.oneshot_page;
        require(self.buffer >= open.max(self.max_transfer) + self.oneshot_page, || {
            let need = open.max(self.max_transfer) + self.oneshot_page;
            format!("a write buffer of {} bytes can fill up for good; it needs {need}", self.buffer)
        })?;
        let pages = self.block_pages() * u64::from(self.dies() / self.partitions / spread);
        require(pages < 1 << 31, || "a line has 2^31 pages or more: give the device more blocks".to_owned())?;
        let groups = u64::from(self.partitions * spread);
        let host = (self.visible() / PAGE).div_ceil(groups);
        let lines = u64::from(self.lines());
        let spare = lines.saturating_sub(host.div_ceil(pages));
        let need = 3 + u64::from(self.gc.threshold);
        require(spare >= need, || {
            let percent = self.over_provisioning;
            format!(
                "{lines} blocks with {percent} % over-provisioning leave {spare} lines to collect into; \
                 {need} are needed: give it more capacity, more over-provisioning, or, where blocks are large, more of them"
            )
        })
    }

    fn check_zones(&self) -> Result<(), FlashError> {
        let Zones { size, dies, write_unit, .. } = self.zones;
        require(write_unit > 0 && write_unit.is_multiple_of(SECTOR), || {
            "write_unit is no sector".to_owned()
        })?;
        require((1..=self.dies()).contains(&dies), || format!("a zone cannot lie on {dies} dies"))?;
        require(whole_pages(size) && size >= self.oneshot_page && size.is_multiple_of(write_unit), || {
            format!("a zone of {size} bytes: it must hold whole pages and write units, and a one-shot page")
        })?;
        require(self.capacity >= size, || "the capacity holds no zone".to_owned())?;
        require(self.buffer >= self.oneshot_page * 2, || {
            "the write buffer must hold two one-shot pages".to_owned()
        })
    }
}

fn whole_pages(bytes: u64) -> bool {
    bytes > 0 && bytes.is_multiple_of(PAGE)
}

fn require(holds: bool, what: impl FnOnce() -> String) -> Result<(), FlashError> {
    if holds { Ok(()) } else { Err(FlashError::Impossible { what: what() }) }
}
