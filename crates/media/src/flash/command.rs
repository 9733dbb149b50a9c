//! What a host asks of an SSD, and what it is told.

use sim::Nanos;

use super::config::SECTOR;

/// A command of the NVM command set, as far as times and placement depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// What to do.
    pub op: Op,
    /// The namespace, from 0.
    pub namespace: u32,
    /// The first sector of 512 bytes, within the namespace.
    pub lba: u64,
    /// How many sectors.
    pub sectors: u64,
    /// Whether a write completes only when it is on flash (force unit access).
    pub fua: bool,
    /// Where the file's neighbours are; only devices with allocation by hints look at it.
    pub hint: Hint,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Read sectors.
    Read,
    /// Write sectors.
    Write,
    /// Wait for every die; without a capacitor, program what is buffered first.
    Flush,
    /// Unmap pages (dataset management, deallocate).
    Trim,
    /// Set a zone's write pointer back to its start.
    ResetZone,
}

/// What a write command says about the file that it belongs to (FAST 2024).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hint {
    /// Nothing: a file's first block, metadata, or a host that does not know.
    #[default]
    None,
    /// It follows this sector in its file.
    Append {
        /// The sector of the block before, within the namespace.
        prior_lba: u64,
    },
    /// It replaces what lies there.
    Overwrite,
}

impl Command {
    /// A command on `bytes` from byte `offset` of namespace 0 on, both multiples of 512.
    pub fn new(op: Op, offset: u64, bytes: u64) -> Self {
        Self { op, namespace: 0, lba: offset / SECTOR, sectors: bytes / SECTOR, fua: false, hint: Hint::None }
    }

    /// The same with a hint.
    #[must_use]
    pub fn with_hint(self, hint: Hint) -> Self {
        Self { hint, ..self }
    }
}

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It completes at this time.
    Done {
        /// When.
        at: Nanos,
    },
    /// The write buffer is full. Nothing has changed; the same command may come again.
    Busy {
        /// Not before this time.
        retry_at: Nanos,
    },
}

/// Why an SSD refused a command or could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FlashError {
    /// A configuration that contradicts itself.
    #[error("an SSD that cannot be built: {what}")]
    Impossible {
        /// What is wrong.
        what: String,
    },
    /// There is no such namespace.
    #[error("there is no namespace {namespace}; the device has {count}")]
    NoNamespace {
        /// What was asked for.
        namespace: u32,
        /// How many there are, from 0.
        count: usize,
    },
    /// Sectors beyond the namespace.
    #[error("sectors {lba}..{lba}+{sectors} are beyond the namespace of {size} sectors")]
    OutOfRange {
        /// The first sector.
        lba: u64,
        /// How many.
        sectors: u64,
        /// How many there are.
        size: u64,
    },
    /// No sectors, or more than one command may move.
    #[error("a command of {bytes} bytes; it may move 512 to {most}")]
    Length {
        /// What was asked for.
        bytes: u64,
        /// The most.
        most: u64,
    },
    /// A command that is older than one before it.
    #[error("a command of time {now} ns after one of {last} ns: time runs backwards")]
    Backwards {
        /// The command's time.
        now: u64,
        /// The latest time before.
        last: u64,
    },
    /// Bytes of a device that keeps none.
    #[error("the device keeps no data, only times: make it with data kept to read and write bytes")]
    NoData,
    /// The device does not have this command.
    #[error("the device does not support {op:?}: {why}")]
    Unsupported {
        /// What was asked for.
        op: Op,
        /// What to do.
        why: &'static str,
    },
    /// A write to a zone that is not at its write pointer, or beyond its end.
    #[error("zone {zone}: a write at sector {lba}, but its write pointer is at sector {pointer}")]
    NotAtWritePointer {
        /// The zone.
        zone: u64,
        /// Where the write was.
        lba: u64,
        /// Where it would have to be.
        pointer: u64,
    },
    /// A write that does not fit a zone's unit or end.
    #[error("zone {zone}: a write of {bytes} bytes {why}")]
    BadZoneWrite {
        /// The zone.
        zone: u64,
        /// How long.
        bytes: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// Collection found nothing to free: only a device with the published defect `single_collection` comes to this.
    #[error("no free line is left on die {die}: set single_collection=no, or write less")]
    NoFreeLine {
        /// The first die of the lines that ran out.
        die: u32,
    },
    /// More pages were written than 32 bits can name: 16 TiB.
    #[error("more than 16 TiB of pages were written, which is all that the mapping can name")]
    TooManyPages,
}
