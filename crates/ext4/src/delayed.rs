//! The delayed blocks of a file: written to, and not allocated yet (`delalloc.rs`).

use sim::map::TreeSet;

/// The delayed blocks of an inode.
#[derive(Debug, Default)]
pub(crate) struct Delayed {
    pub(super) blocks: TreeSet<u64>,
    /// Blocks that are reserved for the map.
    pub(super) map: u64,
    /// The size on the device, while it is not that in memory.
    pub(super) disk_size: Option<u64>,
}

impl Delayed {
    /// How many blocks are delayed.
    pub(crate) fn len(&self) -> u64 {
        self.blocks.len() as u64
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(super) fn holds(&self, index: u64) -> bool {
        self.blocks.contains(&index)
    }

    /// The first delayed block at or after `index`.
    pub(super) fn next(&self, index: u64) -> Option<u64> {
        self.blocks.range(index..).next().copied()
    }

    /// How many blocks from `index` on are delayed.
    pub(super) fn run(&self, index: u64) -> u64 {
        let blocks = self.blocks.range(index..).zip(index..);
        blocks.take_while(|(block, expected)| *block == expected).count() as u64
    }
}
