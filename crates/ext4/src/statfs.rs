//! Space and inodes, counted as the kernel counts them (`ext4_statfs`).

use ::vfs::StatFs;

use super::Volume;
use super::journal::Journal;
use super::layout::{NAME_MAX, compat, incompat};

/// Most blocks that the kernel keeps back for metadata of delayed writes (`ext4_set_resv_clusters`: a fiftieth of all).
const MOST_RESERVED: u64 = 4096;

impl Volume {
    /// Blocks that never hold files, as the superblock says; else those of copies of it, descriptors, bitmaps, tables and journal.
    fn overhead(&self) -> u64 {
        let superblock = self.superblock.lock();
        let said = u64::from(superblock.overhead_clusters.get());
        if said > 0 && said <= self.geo.blocks {
            return said;
        }
        let geo = &self.geo;
        let copy = 1 + u64::from(geo.descriptor_blocks());
        let copies = (0..geo.groups).filter(|group| geo.has_superblock(*group)).count() as u64;
        let tables = u64::from(geo.groups) * (2 + u64::from(geo.table_blocks()));
        let is_inside = superblock.has_compat(compat::HAS_JOURNAL) && superblock.journal_inum.get() != 0;
        let journal = self.journal.as_ref().filter(|_| is_inside).map_or(0, Journal::blocks);
        geo.first_data_block + copies * copy + tables + journal
    }

    pub(super) fn stat_fs(&self) -> StatFs {
        let overhead = if self.settings.counts_overhead { 0 } else { self.overhead() };
        StatFs {
            frsize: self.geo.block_bytes,
            blocks: self.geo.blocks.saturating_sub(overhead),
            blocks_free: self.space.blocks().saturating_sub(self.space.reserved()),
            files: self.geo.inodes(),
            files_free: self.space.inodes(),
            name_max: NAME_MAX,
        }
    }

    /// Of the free blocks, those that users may have.
    pub(super) fn blocks_available(&self, space: &StatFs) -> u64 {
        let has_extents = self.superblock.lock().has_incompat(incompat::EXTENTS);
        let reserved = if has_extents { (self.geo.blocks / 50).min(MOST_RESERVED) } else { 0 };
        space.blocks_free.saturating_sub(self.space.kept() + reserved)
    }
}
