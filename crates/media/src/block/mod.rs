//! Block devices: what file systems of the block world submit requests to.
//!
//! A device moves real bytes when a request is submitted and says when it will be done with it; the submitter
//! goes on, and pays the time when it waits. So any number of requests can be outstanding without callbacks,
//! and the same device works under both clocks: the virtual one advances the waiting task to the time of
//! completion, the real one spins or sleeps until then.
//!
//! ```text
//!   submit ──► Port: range, faults, event ──► the device: moves the bytes, computes the Turn
//!     │                                              │
//!     ▼                                              ▼
//!   Ticket ◄─────────────────────────── service begins at, is done at
//!     │
//!   wait ────► the time passes; then Event::Block(Complete)
//! ```
//!
//! # What is durable
//!
//! | after | a sector holds |
//! |---|---|
//! | submission of a write | the old or the new bytes; sectors of a request and requests are independent |
//! | its completion ([`BlockDevice::wait`]) | still so, if the device has a volatile cache |
//! | completion with FUA, or without a volatile cache | the new bytes |
//! | completion of a flush | the new bytes of every write that had completed before the flush was submitted |
//!
//! A later write of a sector that is guaranteed overrides an earlier one. A discarded range holds the old bytes
//! or zeros until the discard is guaranteed in the same way, then zeros.
//!
//! | module | holds |
//! |---|---|
//! | this one | [`BlockDevice`], [`Geometry`], [`Request`], [`Hint`], [`Ticket`] |
//! | `port` | [`Port`]: what all devices share: checks, faults, taps |
//! | [`queue`] | [`Queue`]: merging, splitting, plugging, the limit of outstanding requests |
//! | `memory` | [`MemoryDevice`]: over a region: RAM, a file, NVMMBD |
//! | `ssd` | [`SsdDevice`]: an NVMe SSD of dies and channels |
//! | `loopback` | [`LoopDevice`]: a file in memory behind a worker |
//! | `model` | [`BlockModel`]: devices by name |
//! | [`partition`] | the partitions of an image of a disk |
//!
//! Lock order: a device's own locks are leaves; none is held over a call that may switch tasks, or into a tap.

mod disk;
mod loopback;
mod memory;
mod model;
pub mod partition;
mod port;
pub mod queue;
mod ssd;

use std::fmt::Debug;
use std::sync::Arc;

use sim::{Bytes, LockClass, Nanos};

use crate::cost::Turn;
use crate::event::Tap;
use crate::fault::Fault;
use crate::{MediaError, Region};
pub use disk::DiskDevice;
pub use loopback::LoopDevice;
pub use memory::MemoryDevice;
pub use model::{BlockModel, Built};
pub use port::Port;
pub use queue::{Piece, Queue};
pub use ssd::SsdDevice;

/// The classes of locks of devices.
pub static CLASSES: &[&LockClass] = &[&ssd::ROOM];

/// What a device is: sizes, limits, whether it forgets what was not flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Capacity; a multiple of the block.
    pub bytes: Bytes,
    /// The logical block: requests begin and end at multiples of it, and a power loss cannot tear one. 512 or
    /// 4096.
    pub block_bytes: u32,
    /// Largest request in bytes; a multiple of the block.
    pub max_transfer_bytes: u32,
    /// Requests that it takes before a submitter has to wait for one.
    pub queue_depth: u32,
    /// A completed write is lost by a power loss unless it was flushed or had FUA.
    pub volatile_cache: bool,
    /// It takes [`Request::Discard`].
    pub discard: bool,
}

impl Geometry {
    /// A device in memory of `bytes` (rounded down to blocks): 512-byte blocks, 1 MiB in a request, 128
    /// requests, no volatile cache, discard.
    pub fn memory(bytes: Bytes) -> Self {
        Self {
            bytes: Bytes(bytes.0 / 512 * 512),
            block_bytes: 512,
            max_transfer_bytes: 1 << 20,
            queue_depth: 128,
            volatile_cache: false,
            discard: true,
        }
    }

    /// The same with another logical block; the capacity is rounded down to it.
    #[must_use]
    pub fn with_block(self, block_bytes: u32) -> Self {
        let bytes = Bytes(self.bytes.0 / u64::from(block_bytes) * u64::from(block_bytes));
        Self { bytes, block_bytes, ..self }
    }

    /// The same with or without a volatile cache.
    #[must_use]
    pub fn with_volatile_cache(self, volatile_cache: bool) -> Self {
        Self { volatile_cache, ..self }
    }
}

/// What a file system tells a device about a write of file data, beside the bytes: the fields that the study of
/// fragmentation on flash adds to the write command (FAST 2024, "We Ain't Afraid of No File Fragmentation").
/// A device may ignore it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Hint {
    /// Nothing is known: metadata, the first block of a file, direct writes.
    #[default]
    None,
    /// New blocks of a file.
    Append {
        /// Number of the logical block of the device that holds what precedes it in the file.
        previous_lba: u64,
    },
    /// New content of blocks that the file had already.
    Overwrite,
}

/// How a write is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WriteFlags {
    /// Force unit access: durable when it completes.
    pub fua: bool,
    /// What the device may make use of.
    pub hint: Hint,
}

impl WriteFlags {
    /// Durable when it completes.
    pub const FUA: Self = Self { fua: true, hint: Hint::None };
}

/// A command to a device. Offsets and lengths are in bytes, and multiples of [`Geometry::block_bytes`].
#[derive(Debug)]
pub enum Request<'a> {
    /// Fills the buffer.
    Read {
        /// First byte.
        off: u64,
        /// Where to. It is filled when the request has been submitted; look at it only after the wait.
        buf: &'a mut [u8],
    },
    /// Writes the bytes. They are taken when the request is submitted: the buffer may change after that.
    Write {
        /// First byte.
        off: u64,
        /// The bytes.
        data: &'a [u8],
        /// How.
        flags: WriteFlags,
    },
    /// Makes all writes durable that have completed before it is submitted.
    Flush,
    /// The content of the range is needed no more; it reads as zeros.
    Discard {
        /// First byte.
        off: u64,
        /// Length.
        len: u64,
    },
}

impl Request<'_> {
    /// The bytes of the device that it is about; none for a flush.
    pub fn range(&self) -> Option<(u64, u64)> {
        match self {
            Self::Read { off, buf } => Some((*off, buf.len() as u64)),
            Self::Write { off, data, .. } => Some((*off, data.len() as u64)),
            Self::Discard { off, len } => Some((*off, *len)),
            Self::Flush => None,
        }
    }
}

/// A request that was submitted: give it to [`BlockDevice::wait`] of the same device. One that is dropped is
/// never known to be complete: no flush covers it.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a request is complete when it was waited for"]
pub struct Ticket {
    id: u64,
    turn: Turn,
    /// Its completion is told to taps: all but reads.
    told: bool,
    /// The number by which a device knows it that decides later when it is served.
    queued: Option<u64>,
    result: Result<(), MediaError>,
}

impl Ticket {
    /// When the device will be done with it, in the time of the run; of a disk, if no other request comes before it.
    pub fn done_at(&self) -> Nanos {
        self.turn.end
    }
}

/// A block device. Object-safe; share it as `Arc<dyn BlockDevice>`.
///
/// An implementation gives its geometry, its [`Port`] and [`BlockDevice::submit`], which should be
/// [`Port::submit`] with a closure that moves the bytes and computes the [`Turn`].
pub trait BlockDevice: Send + Sync + Debug {
    /// What it is.
    fn geometry(&self) -> &Geometry;

    /// What it shares with all devices.
    fn port(&self) -> &Port;

    /// Hands a request to the device. It may let the task wait for a place in the queue, but not for the
    /// service. Requests of one task to overlapping bytes take effect in the order of submission.
    fn submit(&self, request: Request<'_>) -> Ticket;

    /// Copies the present content out, unseen by taps, untouched by faults and at no cost: for recorders and
    /// tests.
    fn peek(&self, off: u64, buf: &mut [u8]) -> Result<(), MediaError>;

    /// A new run begins: queues are empty, caches are cold.
    fn reset(&self) {}

    /// Waits until the request is complete, and says how it went.
    fn wait(&self, ticket: Ticket) -> Result<(), MediaError> {
        ticket.turn.pass(Nanos::ZERO);
        self.port().complete(&ticket);
        ticket.result
    }

    /// Waits for all of them; the first error in their order.
    fn wait_all(&self, tickets: Vec<Ticket>) -> Result<(), MediaError> {
        let results = tickets.into_iter().map(|ticket| self.wait(ticket));
        results.fold(Ok(()), Result::and)
    }

    /// Reads and waits.
    fn read(&self, off: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        let ticket = self.submit(Request::Read { off, buf });
        self.wait(ticket)
    }

    /// Writes and waits.
    fn write(&self, off: u64, data: &[u8], flags: WriteFlags) -> Result<(), MediaError> {
        let ticket = self.submit(Request::Write { off, data, flags });
        self.wait(ticket)
    }

    /// Makes durable what was written, and waits.
    fn flush(&self) -> Result<(), MediaError> {
        let ticket = self.submit(Request::Flush);
        self.wait(ticket)
    }

    /// Discards and waits.
    fn discard(&self, off: u64, len: u64) -> Result<(), MediaError> {
        let ticket = self.submit(Request::Discard { off, len });
        self.wait(ticket)
    }

    /// Lets `tap` listen from now on.
    fn attach(&self, tap: Arc<dyn Tap>) {
        self.port().attach(tap);
    }

    /// Makes something go wrong.
    fn inject(&self, fault: Fault) {
        self.port().inject(fault);
    }

    /// Makes all well again; returns how many requests have gone wrong.
    fn clear_faults(&self) -> u64 {
        self.port().clear_faults()
    }
}

/// What a design is made on: byte-addressable memory, a block device, or both.
#[derive(Clone, Debug, Default)]
pub struct Storage {
    memory: Option<Arc<Region>>,
    block: Option<Arc<dyn BlockDevice>>,
}

impl From<&Arc<Region>> for Storage {
    fn from(memory: &Arc<Region>) -> Self {
        Self::of_memory(Arc::clone(memory))
    }
}

impl Storage {
    /// Memory alone.
    pub fn of_memory(memory: Arc<Region>) -> Self {
        Self { memory: Some(memory), block: None }
    }

    /// A block device alone.
    pub fn of_block(block: Arc<dyn BlockDevice>) -> Self {
        Self { memory: None, block: Some(block) }
    }

    /// The same with a block device beside what it has.
    #[must_use]
    pub fn with_block(self, block: Arc<dyn BlockDevice>) -> Self {
        Self { block: Some(block), ..self }
    }

    /// The memory; [`MediaError::NoMemory`] if there is none.
    pub fn memory(&self) -> Result<&Arc<Region>, MediaError> {
        self.memory.as_ref().ok_or(MediaError::NoMemory)
    }

    /// The block device; [`MediaError::NoBlockDevice`] if there is none.
    pub fn block(&self) -> Result<&Arc<dyn BlockDevice>, MediaError> {
        self.block.as_ref().ok_or(MediaError::NoBlockDevice)
    }

    /// Whether there is a block device.
    pub fn has_block(&self) -> bool {
        self.block.is_some()
    }
}
