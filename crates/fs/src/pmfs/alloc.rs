//! The block map: in DRAM while mounted, saved at unmount, rebuilt by a scan after a crash.
//!
//! PMFS does not journal allocation. A crash leaks no block, because recovery marks the blocks that live inodes reach. Two rules
//! follow: a block returns to the map only when no durable pointer leads to it, and a mount makes the saved map invalid before it
//! gives out the first block.
//!
//! Lock order: `pmfs.trim`, then `pmfs.blocks`, which is a leaf; the medium is not touched under it. Only a pool file with holes
//! grows there.

use std::ops::RangeInclusive;
use std::sync::Arc;

use media::event::Mark;
use media::nvmm::Region;
use sim::sync::{AtomicBool, Ordering};
use sim::{LockClass, Mutex, Work};

use super::Volume;
use super::layout::{BLOCK, BLOCK_SHIFT};
use super::map::Freed;
use super::parts;
use base::error::{Error, Result};
use base::persist::backed::{Wanted, take_given};
use base::persist::free_map::FreeMap;

pub(super) static BLOCKS: LockClass =
    LockClass::new("pmfs.blocks").under(&[&TRIM, &super::inode::INODE_TABLE]);
pub(super) static TRIM: LockClass = LockClass::new("pmfs.trim").under(&[]);

/// The block map of a mounted volume. Blocks are named by their offset in the image.
pub(crate) struct BlockMap {
    map: Mutex<FreeMap>,
    /// Held by a trim.
    trim: Mutex<()>,
    /// Asked before a block is given out; tests make it refuse.
    region: Arc<Region>,
    /// After a failure, blocks that no pointer leads to may be marked as used: such a map is not saved.
    doubted: AtomicBool,
}

/// Runs of free blocks whose space a trim gives back: shorter ones are not worth a hole, longer ones would be missed meanwhile.
const TRIM_RUN: RangeInclusive<u64> = 16..=4096;

impl BlockMap {
    /// Takes over a map whose free blocks are set.
    pub(crate) fn new(map: FreeMap, region: &Arc<Region>) -> Self {
        let region = Arc::clone(region);
        let (map, trim) = (Mutex::new(&BLOCKS, map), Mutex::new(&TRIM, ()));
        Self { map, trim, region, doubted: AtomicBool::new(false) }
    }

    /// Takes one base block.
    pub(crate) fn take(&self) -> Result<u64> {
        let mut one = [0];
        match self.take_many(BLOCK_SHIFT, &mut one) {
            1 => Ok(one[0]),
            _ => Err(Error::NoSpace),
        }
    }

    /// Takes as many blocks of `1 << shift` bytes as `places` has room for; returns how many there were.
    pub(crate) fn take_many(&self, shift: u32, places: &mut [u64]) -> usize {
        let _part = sim::part(&parts::ALLOC_BLOCKS);
        let units = 1 << (shift - BLOCK_SHIFT);
        let mut map = self.map.lock();
        sim::work(Work::STEP, map.depth() * places.len() as u64);
        for (taken, place) in places.iter_mut().enumerate() {
            let first = match self.region.grants_space() {
                true if units == 1 => map.take_first(),
                true => map.take_run(units, units),
                false => None,
            };
            let Some(block) = first.and_then(|block| self.backed(&mut map, block, units)) else {
                return taken;
            };
            *place = block * BLOCK;
        }
        places.len()
    }

    /// The first of `units` blocks that were taken, if the host has space for them; otherwise they are free again, and others are
    /// taken that have their space.
    fn backed(&self, map: &mut FreeMap, block: u64, units: u64) -> Option<u64> {
        if self.region.back(block * BLOCK, units * BLOCK) {
            return Some(block);
        }
        (block..block + units).for_each(|block| {
            map.put(block);
        });
        let wanted = Wanted { block_bytes: BLOCK, base: 0, count: units..=units, align: units };
        take_given(map, &self.region, block, wanted).map(|run| run.first)
    }

    /// Gives blocks back: (offset, shift of its size) each. No durable pointer may lead to them any more.
    pub(crate) fn put_many(&self, blocks: impl IntoIterator<Item = (u64, u32)>) -> Result<()> {
        let mut map = self.map.lock();
        for (offset, shift) in blocks {
            sim::work(Work::STEP, map.depth());
            let first = offset / BLOCK;
            for block in first..first + (1 << (shift - BLOCK_SHIFT)) {
                if !map.put(block) {
                    return Err(Error::Corrupt(format!(
                        "block at {offset} is freed twice or does not exist"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Notes that blocks may have been lost to a failure; the next mount finds them by a scan.
    pub(crate) fn doubt(&self) {
        self.doubted.store(true, Ordering::Relaxed);
    }

    /// Whether blocks may have been lost.
    pub(crate) fn is_doubted(&self) -> bool {
        self.doubted.load(Ordering::Relaxed)
    }

    /// Base blocks of the volume, free or not.
    pub(crate) fn all(&self) -> u64 {
        self.map.lock().blocks()
    }

    /// Free base blocks.
    pub(crate) fn free(&self) -> u64 {
        self.map.lock().free()
    }

    /// Gives the host the space of free blocks back, run by run, which are in use meanwhile; returns the bytes.
    ///
    /// What was freed must stay so after a power loss, or the file that had it has lost its contents: all that was stored before
    /// the trim is written to the host's disk first, and blocks that are freed later keep their space.
    pub(crate) fn trim(&self) -> Result<u64> {
        let _trim = self.trim.lock();
        self.map.lock().set_trimmed(true);
        let trimmed = self.region.sync().map_err(Error::from).and_then(|()| self.trim_settled());
        self.map.lock().set_trimmed(false);
        trimmed
    }

    fn trim_settled(&self) -> Result<u64> {
        let (mut from, mut bytes) = (0, 0);
        loop {
            let run = self.map.lock().take_settled_run(from, TRIM_RUN);
            let Some(run) = run else { return Ok(bytes) };
            let punched = self.region.punch(run.first * BLOCK, run.count * BLOCK);
            self.put_many(run.range().map(|block| (block * BLOCK, BLOCK_SHIFT)))?;
            bytes += punched?;
            from = run.end();
        }
    }

    /// A copy of the map.
    pub(crate) fn snapshot(&self) -> FreeMap {
        self.map.lock().clone()
    }
}

impl Volume {
    /// Gives blocks back whose pointers have been changed, durably.
    pub(crate) fn free_blocks(&self, freed: impl IntoIterator<Item = Freed>) -> Result<()> {
        self.blocks.put_many(freed.into_iter().map(|Freed { offset, shift, pointer }| {
            self.region.mark(Mark::Free { off: offset, len: 1 << shift, pointer });
            (offset, shift)
        }))
    }
}
