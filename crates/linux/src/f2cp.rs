//! Checkpoints of F2FS (fs/f2fs/checkpoint.c, segment.c).
//!
//! Blocks go to the ends of logs and are never written over, so free sections become fewer. Each change asks first whether enough
//! are left for all dirty nodes. If not, a checkpoint stops all others: it writes the dirty nodes and the tables, after which
//! sections whose blocks have all moved on are free. Cleaning, which moves valid blocks out of a section, is left out: the blocks
//! that others have replaced are taken to fill sections of their own.
//!
//! In a run of milliseconds on 32 GiB there is none. Lock order: `cp_rwsem` alone, then the device.

use parking_lot::Mutex;

use super::objects::Objects;
use super::transactions::write_blocks;

pub(super) const CHECKPOINT: &str = "f2fs_cp";
/// Blocks of a section of 2 MiB: one segment (fs/f2fs/f2fs.h; mkfs.f2fs makes a section of one).
const SECTION: u64 = 512;
/// Sections of 32 GiB.
const SECTIONS: u64 = 16 * 1024;
/// Sections that are kept for cleaning: of mkfs.f2fs with 5 % of the blocks set aside, 2 x (100 / 5 + 1) + 6 [R].
const RESERVED: u64 = 48;
/// Blocks of a checkpoint: changes of both tables, and a pack of two and its summaries (fs/f2fs/checkpoint.c, `do_checkpoint`) [R].
const CHECKPOINT_BLOCKS: u64 = 6;

/// What is where in the main area.
#[derive(Debug, Default)]
struct Area {
    /// Blocks taken since the last checkpoint freed some.
    taken: u64,
    /// Of these, blocks that have been written again elsewhere.
    replaced: u64,
    dirty_nodes: u64,
}

impl Area {
    /// `has_not_enough_free_secs` of segment.h.
    fn is_short(&self, sections: u64) -> bool {
        let free = sections.saturating_sub(self.taken.div_ceil(SECTION));
        free <= self.dirty_nodes.div_ceil(SECTION) + RESERVED
    }

    /// The nodes get blocks, and replaced blocks are free again; how many nodes there were.
    fn checkpoint(&mut self) -> u64 {
        let nodes = std::mem::take(&mut self.dirty_nodes);
        self.taken = self.taken + nodes - self.replaced;
        self.replaced = 0;
        nodes
    }
}

/// The checkpoints of a mount.
#[derive(Default)]
pub(super) struct Checkpoints(Mutex<Area>);

impl Checkpoints {
    /// A node's page has become dirty.
    pub(super) fn node(&self) {
        self.0.lock().dirty_nodes += 1;
    }

    /// A block of the log is written in the place of another.
    pub(super) fn block(&self) {
        let mut area = self.0.lock();
        area.taken += 1;
        area.replaced += 1;
    }

    /// A checkpoint, if few sections are free (fs/f2fs/segment.c:292).
    pub(super) fn balance(&self, objects: &Objects) {
        sim::interact();
        if !self.0.lock().is_short(SECTIONS) {
            return;
        }
        objects.alone(CHECKPOINT, 0, || {
            if !self.0.lock().is_short(SECTIONS) {
                return;
            }
            let nodes = self.0.lock().checkpoint();
            write_blocks(objects, nodes + CHECKPOINT_BLOCKS);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_comes_when_free_sections_are_few_and_frees_what_was_replaced() {
        let mut area =
            Area { taken: (SECTIONS - RESERVED - 2) * SECTION, replaced: 10 * SECTION, dirty_nodes: 1 };
        assert!(!area.is_short(SECTIONS));
        area.dirty_nodes = SECTION + 1;
        assert!(area.is_short(SECTIONS));
        assert_eq!(area.checkpoint(), SECTION + 1);
        assert!(!area.is_short(SECTIONS) && (area.dirty_nodes, area.replaced) == (0, 0));
    }
}
