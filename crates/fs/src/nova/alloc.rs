//! Blocks: a free map for each shard, in DRAM only while mounted.
//!
//! A block is in use exactly when a committed log entry, a log page's pointer or an inode leads to it, so giving blocks out costs
//! no flush and no fence, and a crash cannot leak any. The image is divided evenly among the shards; a task takes from the shard of
//! its core, then from the one that has most, and a block goes back to the shard that owns its number.
//!
//! Each shard keeps the last few blocks for changes that give space back, because those append to logs: without that a full file
//! system could not be emptied ([`Need::Removal`]).
//!
//! Lock order: `nova.trim`, then `nova.blocks`, which is a leaf.

use std::ops::RangeInclusive;
use std::sync::Arc;

use media::nvmm::Region;
use sim::sync::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use sim::{LockClass, Mutex, Run, Work};

use super::layout::{BLOCK, Geometry};
use super::parts;
use base::error::{Error, Result};
use base::persist::backed::{Wanted, take_given};
use base::persist::free_map::FreeMap;

pub(super) static BLOCKS: LockClass =
    LockClass::new("nova.blocks").under(&[&TRIM, &super::inode::INODE_TABLE, &super::inode::INODE]);
pub(super) static TRIM: LockClass = LockClass::new("nova.trim").under(&[]);

/// The most blocks that a shard keeps for removals.
const RESERVE_MAX: u64 = 16;

/// Runs of free blocks whose space a trim gives back: shorter ones are not worth a hole, longer ones would be missed meanwhile.
const TRIM_RUN: RangeInclusive<u64> = 16..=4096;

/// What blocks are wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// New data or names.
    Growth,
    /// A change that ends with less in use.
    Removal,
}

/// Neighbouring blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Offset of the first.
    pub(crate) offset: u64,
    /// How many.
    pub(crate) blocks: u64,
}

/// Blocks that were taken for a change that does not count yet. Dropped, it gives them back.
pub(crate) struct Taken<'v> {
    blocks: &'v Blocks,
    extents: Vec<Extent>,
}

impl<'v> Taken<'v> {
    pub(crate) fn new(blocks: &'v Blocks) -> Self {
        Self { blocks, extents: Vec::new() }
    }

    /// Takes at most `most` neighbouring blocks.
    pub(crate) fn take(&mut self, most: u64, need: Need) -> Result<Extent> {
        let extent = self.blocks.take(most, need)?;
        sim::ran::push(&mut self.extents, extent);
        Ok(extent)
    }

    /// Gives back what was taken last.
    pub(crate) fn undo(&mut self) {
        if let Some(extent) = self.extents.pop() {
            self.blocks.give_back(extent);
        }
    }

    /// The change counts.
    pub(crate) fn keep(mut self) {
        self.extents.clear();
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.extents.iter().for_each(|extent| self.blocks.give_back(*extent));
    }
}

/// All free blocks.
pub(crate) struct Blocks {
    shards: Vec<Mutex<FreeMap>>,
    /// Of each shard, the one that gave blocks when it had none left: asked first the next time.
    lenders: Vec<AtomicUsize>,
    /// Held by a trim.
    trim: Mutex<()>,
    /// Blocks of a shard; the last may have fewer.
    per_shard: u64,
    reserve: u64,
    /// Asked before a block is given out: tests let it say that there is none.
    region: Arc<Region>,
    /// After a failure blocks may be in use that nothing leads to: they are not saved.
    doubted: AtomicBool,
    /// Blocks that are free but for the cache, which gives them back soon.
    lent: AtomicI64,
}

/// The shard of the task that runs now: that of its core.
pub(crate) fn home(shards: usize) -> usize {
    usize::from(sim::core()) % shards
}

impl Blocks {
    /// Without a free block.
    pub(crate) fn new(geometry: &Geometry, region: &Arc<Region>) -> Self {
        let per_shard = geometry.blocks.div_ceil(geometry.shards);
        let map = |shard: u64| {
            let first = (shard * per_shard).min(geometry.blocks);
            Mutex::new(&BLOCKS, FreeMap::new(per_shard.min(geometry.blocks - first)))
        };
        Self {
            shards: (0..geometry.shards).map(map).collect(),
            lenders: (0..geometry.shards as usize).map(AtomicUsize::new).collect(),
            trim: Mutex::new(&TRIM, ()),
            per_shard,
            reserve: (per_shard / 32).clamp(2, RESERVE_MAX),
            region: Arc::clone(region),
            doubted: AtomicBool::new(false),
            lent: AtomicI64::new(0),
        }
    }

    /// Takes neighbouring blocks, at most `most`: as many as there are at the lowest free place. None: there is no space.
    pub(crate) fn take(&self, most: u64, need: Need) -> Result<Extent> {
        let _part = sim::part(&parts::ALLOC_BLOCKS);
        if !self.region.grants_space() {
            return Err(Error::NoSpace);
        }
        let home = home(self.shards.len());
        if let Some(extent) = self.take_from(home, most, need) {
            return Ok(extent);
        }
        let lender = self.lenders[home].load(Ordering::Relaxed);
        let known = (lender != home).then(|| self.take_from(lender, most, need)).flatten();
        known.or_else(|| self.take_from_fullest(home, most, need)).ok_or(Error::NoSpace)
    }

    /// Takes from the shard that has most, and asks it first from now on. Others may empty it meanwhile, so all are asked in the
    /// end.
    fn take_from_fullest(&self, home: usize, most: u64, need: Need) -> Option<Extent> {
        let fullest = (0..self.shards.len()).max_by_key(|shard| self.shards[*shard].lock().free());
        let others = (0..self.shards.len()).map(|distance| (home + distance) % self.shards.len());
        fullest.into_iter().chain(others).find_map(|shard| {
            let extent = self.take_from(shard, most, need)?;
            self.lenders[home].store(shard, Ordering::Relaxed);
            Some(extent)
        })
    }

    fn take_from(&self, shard: usize, most: u64, need: Need) -> Option<Extent> {
        let mut map = self.shards[shard].lock();
        sim::work(Work::STEP, map.depth());
        let reserve = if need == Need::Removal { 0 } else { self.reserve };
        let most = most.min(map.free().saturating_sub(reserve));
        let first = if most == 0 { None } else { map.take_first() }?;
        let mut blocks = 1;
        while blocks < most && map.take(first + blocks) {
            blocks += 1;
        }
        sim::ran::node(blocks);
        self.backed(&mut map, shard, Run::new(first, blocks), 1)
    }

    /// Blocks that were taken, if the host has space for them; otherwise they are free again, and at least `least` others are taken
    /// that have their space.
    fn backed(&self, map: &mut FreeMap, shard: usize, run: Run, least: u64) -> Option<Extent> {
        let base = shard as u64 * self.per_shard;
        let extent = |run: Run| Extent { offset: (base + run.first) * BLOCK, blocks: run.count };
        if self.region.back((base + run.first) * BLOCK, run.count * BLOCK) {
            return Some(extent(run));
        }
        run.range().for_each(|block| {
            map.put(block);
        });
        let wanted = Wanted { block_bytes: BLOCK, base, count: least..=run.count, align: 1 };
        take_given(map, &self.region, run.first, wanted).map(extent)
    }

    /// Gives the host the space of free blocks back, run by run, which are in use meanwhile; returns the bytes.
    ///
    /// What was freed must stay so after a power loss, or the file that had it has lost its contents: all that was stored before
    /// the trim is written to the host's disk first, and blocks that are freed later keep their space.
    pub(crate) fn trim(&self) -> Result<u64> {
        let _trim = self.trim.lock();
        self.shards.iter().for_each(|map| map.lock().set_trimmed(true));
        let trimmed = self.region.sync().map_err(Error::from).and_then(|()| self.trim_settled());
        self.shards.iter().for_each(|map| map.lock().set_trimmed(false));
        trimmed
    }

    fn trim_settled(&self) -> Result<u64> {
        let mut bytes = 0;
        for (shard, map) in (0u64..).zip(&self.shards) {
            let (base, mut from) = (shard * self.per_shard, 0);
            loop {
                let run = map.lock().take_settled_run(from, TRIM_RUN);
                let Some(run) = run else { break };
                let extent = Extent { offset: (base + run.first) * BLOCK, blocks: run.count };
                let punched = self.region.punch(extent.offset, run.count * BLOCK);
                self.put(extent)?;
                bytes += punched?;
                from = run.end();
            }
        }
        Ok(bytes)
    }

    /// Takes one block.
    pub(crate) fn take_one(&self, need: Need) -> Result<u64> {
        self.take(1, need).map(|extent| extent.offset)
    }

    /// Takes `count` neighbouring blocks for an inode chunk of a shard, from any shard.
    pub(crate) fn take_run(&self, count: u64) -> Result<u64> {
        if !self.region.grants_space() {
            return Err(Error::NoSpace);
        }
        let home = home(self.shards.len());
        let shards = (0..self.shards.len()).map(|distance| (home + distance) % self.shards.len());
        for shard in shards {
            let mut map = self.shards[shard].lock();
            if map.free() >= count + self.reserve
                && let Some(first) = map.take_run(count, 1)
                && let Some(extent) = self.backed(&mut map, shard, Run::new(first, count), count)
            {
                return Ok(extent.offset);
            }
        }
        Err(Error::NoSpace)
    }

    /// Gives blocks back that nothing durable leads to.
    pub(crate) fn put(&self, extent: Extent) -> Result<()> {
        let first = extent.offset / BLOCK;
        for block in first..first + extent.blocks {
            let shard = (block / self.per_shard) as usize;
            let owner = self.shards.get(shard).is_some_and(|map| map.lock().put(block % self.per_shard));
            if !owner {
                return Err(Error::Corrupt(format!("block {block} is freed twice or does not exist")));
            }
        }
        sim::work(Work::STEP, extent.blocks);
        Ok(())
    }

    /// Gives blocks back that were not used after all.
    pub(crate) fn give_back(&self, extent: Extent) {
        if self.put(extent).is_err() {
            self.doubt();
        }
    }

    /// Notes that blocks may have been lost to a failure; the next mount finds them by a scan.
    pub(crate) fn doubt(&self) {
        self.doubted.store(true, Ordering::Relaxed);
    }

    /// Whether blocks may have been lost.
    pub(crate) fn is_doubted(&self) -> bool {
        self.doubted.load(Ordering::Relaxed)
    }

    /// Notes that the cache keeps so many blocks more that are free otherwise.
    pub(crate) fn lend(&self, blocks: i64) {
        self.lent.fetch_add(blocks, Ordering::Relaxed);
    }

    /// Free blocks.
    pub(crate) fn free(&self) -> u64 {
        let free: u64 = self.shards.iter().map(|map| map.lock().free()).sum();
        free.saturating_add_signed(self.lent.load(Ordering::Relaxed))
    }

    /// Free blocks that are not kept for removals.
    pub(crate) fn unreserved(&self) -> u64 {
        self.shards.iter().map(|map| map.lock().free().saturating_sub(self.reserve)).sum()
    }

    /// Ranges of free blocks, in order.
    pub(crate) fn free_ranges(&self, blocks: u64) -> Vec<RangeInclusive<u64>> {
        let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
        let mut add = |first: u64, last: u64| match ranges.last_mut() {
            Some(range) if range.end() + 1 == first => *range = *range.start()..=last,
            _ => ranges.push(first..=last),
        };
        for (shard, map) in (0u64..).zip(&self.shards) {
            let (base, map) = (shard * self.per_shard, map.lock());
            let mut from = base;
            let end = (base + self.per_shard).min(blocks);
            for (first, last) in map.used_runs().into_iter().map(RangeInclusive::into_inner) {
                if base + first > from {
                    add(from, base + first - 1);
                }
                from = base + last + 1;
            }
            if from < end {
                add(from, end - 1);
            }
        }
        ranges
    }
}
