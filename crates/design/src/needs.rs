//! What a design is made on.

use std::fmt;
use std::sync::Arc;

use media::block::MemoryDevice;
use media::{Region, Storage};
use sim::{Bytes, PAGE_BYTES};

/// What a design is made on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// A region of byte-addressable memory.
    Memory,
    /// A block device.
    Block,
    /// Both: data in memory, metadata or a journal on a block device, or the other way round.
    Both,
    /// Memory, and a block device where there is one.
    Either,
}

impl Needs {
    /// Whether storage will do that has a block device with memory beside it, or memory alone. A design for block devices takes
    /// memory as well, through a RAM disk (NVMMBD, EuroSys 2016, section 5.1).
    pub fn fit(self, has_block: bool) -> bool {
        match self {
            Self::Memory => !has_block,
            Self::Block | Self::Either => true,
            Self::Both => has_block,
        }
    }

    /// The region from which [`Needs::on`] makes storage whose parts have this size at least.
    pub fn least(self, each: Bytes) -> Bytes {
        match self {
            Self::Memory | Self::Block | Self::Either => each,
            Self::Both => Bytes(each.0.next_multiple_of(PAGE_BYTES as u64) * 2),
        }
    }

    /// Storage on a region, whose taps hear the requests of the block device and whose faults strike them: what checks make a
    /// design on. Where both are needed, the first half of the region is the block device, the second one the memory.
    pub fn on(self, region: &Arc<Region>) -> Storage {
        match self {
            Self::Memory | Self::Either => Storage::from(region),
            Self::Block => Storage::of_block(MemoryDevice::exposed(Arc::clone(region))),
            Self::Both => {
                let half = region.len() / 2 / PAGE_BYTES as u64 * PAGE_BYTES as u64;
                let device = MemoryDevice::exposed_start(Arc::clone(region), Bytes(half));
                let memory = Region::part(region, half..half * 2);
                // A region of less than two pages has no halves: the design says that it is too small.
                let storage =
                    memory.map_or_else(|_| Storage::from(region), |memory| Storage::of_memory(memory.into()));
                storage.with_block(device)
            }
        }
    }
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Block => "a block device",
            Self::Both => "memory and a block device",
            Self::Either => "memory, with or without a block device",
        })
    }
}
