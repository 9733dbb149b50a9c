//! The groups of a mounted file system: their descriptors, how much is free, and what of that can be given out now.
//!
//! `alloc.rs` chooses places, and keeps bitmaps and descriptors on the device as they are here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sim::map::TreeMap;

use super::free_map::FreeMap;
use super::journal::Handle;
use super::layout::{GroupDescriptor, Superblock};
use super::set_aside::Preallocations;
use super::superblock::Geo;
use base::error::{Error, Result};

/// How many blocks and inodes are free. What changes them has the lock of [`Groups`]; a look needs none (Linux: counters of each
/// core, of which the sum is read).
#[derive(Debug, Default)]
pub(crate) struct Space {
    pub(super) blocks: AtomicU64,
    pub(super) inodes: AtomicU64,
    /// Freed by transactions that have not committed.
    pub(super) busy: AtomicU64,
    /// Promised to delayed writes (`delalloc.rs`).
    reserved: AtomicU64,
    /// Kept for root and for this user and group (mke2fs: `-m`, tune2fs: `-u`, `-g`).
    kept: u64,
    kept_for: (u32, u32),
}

impl Space {
    /// Without a count yet.
    pub(super) fn of(superblock: &Superblock) -> Self {
        let kept_for = (superblock.def_resuid.get().into(), superblock.def_resgid.get().into());
        Self { kept: superblock.kept_blocks(), kept_for, ..Self::default() }
    }

    /// Blocks that only some users may take.
    pub(crate) fn kept(&self) -> u64 {
        self.kept
    }

    /// Blocks that the bitmaps have as free.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks.load(Relaxed)
    }

    pub(crate) fn inodes(&self) -> u64 {
        self.inodes.load(Relaxed)
    }

    pub(crate) fn reserved(&self) -> u64 {
        self.reserved.load(Relaxed)
    }

    /// Blocks that could be given out now.
    pub(super) fn unused(&self) -> u64 {
        self.blocks().saturating_sub(self.busy.load(Relaxed))
    }

    /// The same without those that are promised, and those that are kept from the user for whom the current task works.
    pub(super) fn available(&self) -> u64 {
        let (user, group) = sim::works_for();
        let may_take = user == 0 || user == self.kept_for.0 || group != 0 && group == self.kept_for.1;
        let kept = if may_take { 0 } else { self.kept };
        self.unused().saturating_sub(self.reserved()).saturating_sub(kept)
    }

    /// Whether a commit would make blocks free.
    pub(crate) fn has_busy(&self) -> bool {
        self.busy.load(Relaxed) > 0
    }

    pub(super) fn add(count: &AtomicU64, more: i64) {
        count.store(count.load(Relaxed).saturating_add_signed(more), Relaxed);
    }
}

/// The groups of a mounted file system.
pub(crate) struct Groups {
    pub(crate) descriptors: Vec<GroupDescriptor>,
    pub(crate) space: Arc<Space>,
    /// Freed by a transaction that has not committed: first block, number of blocks.
    pub(super) busy: TreeMap<u64, u32>,
    /// Free, and meant for some file.
    pub(super) set_aside: Preallocations,
    /// What can be given out, by group; none until the group is searched.
    pub(super) maps: Vec<Option<FreeMap>>,
}

impl Groups {
    /// Nothing is promised, busy or set aside; `space` counts what the descriptors say.
    pub(crate) fn new(descriptors: Vec<GroupDescriptor>, space: &Arc<Space>) -> Self {
        let sum =
            |count: fn(&GroupDescriptor) -> u32| descriptors.iter().map(|one| u64::from(count(one))).sum();
        space.blocks.store(sum(GroupDescriptor::free_blocks), Relaxed);
        space.inodes.store(sum(GroupDescriptor::free_inodes), Relaxed);
        space.busy.store(0, Relaxed);
        space.reserved.store(0, Relaxed);
        let set_aside = Preallocations::default();
        let maps = descriptors.iter().map(|_| None).collect();
        Self { descriptors, space: Arc::clone(space), busy: TreeMap::new(), set_aside, maps }
    }

    /// Promises blocks to delayed writes.
    pub(super) fn reserve(&self, blocks: u64) {
        Space::add(&self.space.reserved, blocks.cast_signed());
    }

    /// They are promised no more.
    pub(super) fn unreserve(&self, blocks: u64) {
        Space::add(&self.space.reserved, -blocks.cast_signed());
    }

    /// How many of `want` blocks a handle may take.
    pub(super) fn allowance(&self, handle: &Handle<'_>, want: u32) -> Result<u32> {
        let most = if handle.is_promised() { self.space.unused() } else { self.space.available() };
        if most == 0 { Err(Error::NoSpace) } else { Ok(most.min(u64::from(want)) as u32) }
    }

    /// Makes the map of a group, whose bitmap says `bitmap`.
    pub(super) fn make_map(&mut self, geo: &Geo, group: u32, bitmap: &[u8]) {
        let (start, blocks) = (geo.group_start(group), geo.group_blocks(group));
        let mut map = FreeMap::new(bitmap, blocks);
        let busy = self.busy.range(start..start + u64::from(blocks)).map(|(at, len)| (*at, *len));
        let set_aside = self.set_aside.runs().map(|run| (run.start, run.len));
        for (at, len) in busy.chain(set_aside.filter(|(at, _)| geo.group_of(*at).0 == group)) {
            map.take((at - start) as u32, len);
        }
        self.maps[group as usize] = Some(map);
    }

    /// Where a new directory goes: its parent's group while that has more free inodes and blocks than the average, else the
    /// group with the fewest directories of those that have (the idea of Orlov's allocator).
    pub(super) fn directory_group(&self, near: u32) -> u32 {
        let count = self.descriptors.len() as u64;
        let good = |group: &GroupDescriptor| {
            u64::from(group.free_inodes()) * count >= self.space.inodes()
                && u64::from(group.free_blocks()) * count >= self.space.blocks()
                && group.free_inodes() > 0
        };
        if good(&self.descriptors[near as usize]) {
            return near;
        }
        let candidates = self.descriptors.iter().enumerate().filter(|(_, group)| good(group));
        candidates.min_by_key(|(_, group)| group.used_dirs()).map_or(near, |(group, _)| group as u32)
    }

    /// The map of a group that has been searched.
    pub(super) fn map(&mut self, group: u32) -> Option<&mut FreeMap> {
        self.maps[group as usize].as_mut()
    }

    /// No run that can be given out is longer in a group.
    pub(super) fn longest_run(&self, group: u32) -> u32 {
        self.maps[group as usize].as_ref().map_or(u32::MAX, FreeMap::longest)
    }

    /// Blocks of one group cannot be given out from now on.
    pub(super) fn withhold(&mut self, group: u32, (at, len): (u32, u32)) {
        if let Some(map) = self.map(group) {
            map.take(at, len);
            sim::ran::node(1);
        }
    }

    /// Blocks of one group that are free can be given out again.
    pub(super) fn release(&mut self, group: u32, (at, len): (u32, u32)) {
        if let Some(map) = self.map(group) {
            map.give(at, len);
            sim::ran::node(1);
        }
    }
}

pub(crate) fn bit(bitmap: &[u8], at: u32) -> bool {
    bitmap[at as usize / 8] & 1 << (at % 8) != 0
}

pub(crate) fn set_bit(bitmap: &mut [u8], at: u32) {
    bitmap[at as usize / 8] |= 1 << (at % 8);
}

pub(super) fn clear_bit(bitmap: &mut [u8], at: u32) {
    bitmap[at as usize / 8] &= !(1 << (at % 8));
}

/// Sets every bit from `from` to the end: what a bitmap has beyond its group.
pub(crate) fn set_padding(bitmap: &mut [u8], from: u32) {
    let bits = bitmap.len() as u32 * 8;
    (from..bits).for_each(|at| set_bit(bitmap, at));
}

/// The next bit at or after `from` that is free, before `end`.
pub(super) fn next_free(bitmap: &[u8], mut from: u32, end: u32) -> Option<u32> {
    while from < end {
        if from.is_multiple_of(8) && bitmap[from as usize / 8] == 0xff {
            from += 8;
        } else if bit(bitmap, from) {
            from += 1;
        } else {
            return Some(from);
        }
    }
    None
}
