//! Zones and blocks: which are free, in DRAM only.
//!
//! ```text
//! free ──first block──► data ──last block freed──► free        free ──first record──► log ──cleaner──► free
//! ```
//!
//! A block is in use exactly when a record that counts leads to it, so giving blocks out costs no flush and no fence, and a crash
//! cannot leak any. Each shard fills a data zone of its own; when that is full it takes another one that has room, or a free one,
//! and at last any block that is free. [`Stock`] says who may take a free zone: a few are kept for removals and for the cleaner.
//!
//! A block that several files have is counted: how many more than one. A mount finds these counts by the files that have it.
//!
//! Lock order: `crest.data` (the zone that a shard fills), then `crest.zones` (the states of all zones), then `crest.blocks` (the
//! blocks of one zone) and `crest.shared` (the counts), which are leaves.

use sim::map::{TreeMap, TreeSet};
use std::sync::atomic::AtomicU32;

use sim::sync::{AtomicBool, AtomicU64, Ordering::Relaxed};
use sim::{Mutex, Work};
use smallvec::{Array, SmallVec};

use super::sum::Sum;
use crate::format::clean::Present;
use crate::format::layout::{BLOCK, Geometry, LINE};
use crate::format::mutant::{self, Rules};
use crate::format::zone::{Stock, Want};
use crate::{locks, parts};
use base::error::{Error, Result};

/// Most bytes of records with bytes of blocks: a mount reads all of them and has them in DRAM. No more than a sixteenth of the
/// zones either, which the cleaner copies.
const INLINE_BYTES: u64 = 64 << 20;

/// Words of 64 bits that have a bit for each block of the largest zone.
pub(crate) const WORDS: usize = 8;

/// Neighbouring blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// Number of the first.
    pub(crate) first: u64,
    /// How many.
    pub(crate) count: u64,
}

/// What a zone is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    /// Records, under this opening.
    Log(u64),
    /// Blocks; whether a shard fills it.
    Data(bool),
    /// Not to be used.
    Bad,
}

/// The free blocks of a zone: a bit each.
#[derive(Debug)]
struct Bits {
    words: [u64; WORDS],
    free: u32,
}

impl Bits {
    fn new(blocks: u32) -> Self {
        let word = |index: usize| match blocks.saturating_sub(64 * index as u32) {
            64.. => u64::MAX,
            rest => (1 << rest) - 1,
        };
        Self { words: std::array::from_fn(word), free: blocks }
    }

    fn is_free(&self, place: u32) -> bool {
        self.words[place as usize / 64] >> (place % 64) & 1 == 1
    }

    /// The first free block from a place on.
    fn first_free(&self, from: u32) -> Option<u32> {
        let (word, bit) = (from as usize / 64, from % 64);
        let rest = self.words.get(word)? & (u64::MAX << bit);
        let later = self.words[word + 1..].iter().copied();
        let (distance, found) =
            std::iter::once(rest).chain(later).enumerate().find(|(_, word)| *word != 0)?;
        Some(64 * (word + distance) as u32 + found.trailing_zeros())
    }

    /// Takes a run of at most `most` blocks: the first from a place on, or the lowest if there is none.
    fn take(&mut self, most: u64, from: u32) -> Option<(u32, u32)> {
        let first = self.first_free(from).or_else(|| self.first_free(0))?;
        let end = 64 * WORDS as u32;
        let run = (first..end).take(most as usize).take_while(|place| self.is_free(*place)).count() as u32;
        (first..first + run).for_each(|place| self.words[place as usize / 64] &= !(1 << (place % 64)));
        self.free -= run;
        Some((first, run))
    }

    /// Takes one block; false: it is in use.
    fn take_at(&mut self, place: u32) -> bool {
        let was_free = self.is_free(place);
        if was_free {
            self.words[place as usize / 64] &= !(1 << (place % 64));
            self.free -= 1;
        }
        was_free
    }

    fn put(&mut self, place: u32) {
        debug_assert!(!self.is_free(place), "a block is freed twice");
        self.words[place as usize / 64] |= 1 << (place % 64);
        self.free += 1;
    }
}

/// A multiple of the numbers of modules that systems have.
const MODULES: u32 = 24;

/// Where a zone begins to be filled. Modules of memory take turns by blocks (of 4 KiB: J. Yang et al., FAST 2020), and shards fill
/// zones of their own at once: small files of neighbouring zones begin one module further each, where their number divides
/// [`MODULES`]. Large ones begin at the front, and lie in one piece.
fn begin_of(zone: u32, zone_blocks: u32, most: u64) -> u32 {
    let further = (MODULES + 1 - zone_blocks % MODULES) % MODULES;
    let whole = zone_blocks - zone_blocks % MODULES;
    if whole == 0 || most >= u64::from(zone_blocks) / 8 { 0 } else { zone.wrapping_mul(further) % whole }
}

/// The states of all zones.
struct Pool {
    states: Vec<State>,
    free: TreeSet<u32>,
    /// Data zones that no shard fills and that have free blocks.
    partial: TreeSet<u32>,
    /// Zones from this one on are not given out when they become free.
    end: u32,
}

/// All zones.
pub(crate) struct Zones {
    geometry: Geometry,
    pool: Mutex<Pool>,
    bits: Vec<Mutex<Bits>>,
    /// The zone that each shard fills.
    heads: Vec<Mutex<Option<u32>>>,
    /// Of each block of the pool the low bits of the logical time of the record that gave it to a file; 0: not known, or several
    /// have.
    placed_by: Box<[AtomicU32]>,
    /// Blocks that several files have: how many more than one.
    cloned: Mutex<TreeMap<u64, u32>>,
    /// The sum of these.
    clones: AtomicU64,
    /// Blocks of files; one that will replace another counts with it as one.
    used: Sum,
    /// Lines that the metadata of all files may take, at most.
    lines: Sum,
    /// Those among them of records with bytes of blocks, how many there may be, and whether there are.
    inlines: Sum,
    inlines_max: u64,
    inlines_full: AtomicBool,
    /// Zones that are kept for the records of what is in frames.
    buffered: u32,
    /// Whether so few zones are free that the log is to be cleaned, and something may be gained.
    low: AtomicBool,
    rules: Rules,
}

/// Adds to a list as [`sim::ran::push`] does.
pub(crate) fn push<A: Array>(list: &mut SmallVec<A>, value: A::Item) {
    if list.len() == list.capacity() {
        sim::ran::allocate(1);
    }
    list.push(value);
}

/// Blocks that were taken for a call whose record does not count yet. Dropped, it gives them back.
pub(crate) struct Taken<'v> {
    zones: &'v Zones,
    pub(crate) blocks: SmallVec<[Blocks; 2]>,
}

impl<'v> Taken<'v> {
    pub(crate) fn new(zones: &'v Zones) -> Self {
        Self { zones, blocks: SmallVec::new() }
    }

    pub(crate) fn add(&mut self, blocks: Blocks) {
        push(&mut self.blocks, blocks);
    }

    /// The record counts.
    pub(crate) fn keep(mut self) {
        self.blocks.clear();
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.blocks.iter().for_each(|blocks| self.zones.put(*blocks));
    }
}

/// Zones that have a line for each frame: of so many blocks as a pool has, at most.
fn buffered_zones(geometry: Geometry, frames: u64) -> u32 {
    let blocks = u64::from(geometry.zones) * u64::from(geometry.zone_blocks());
    frames.min(blocks).div_ceil(u64::from(geometry.record_lines() - 1)) as u32
}

impl Zones {
    /// All free. `frames`: those that may be dirty.
    pub(crate) fn new(geometry: Geometry, shards: usize, frames: u64, rules: Rules) -> Self {
        let zones = geometry.zones;
        let mut free = TreeSet::new();
        (0..zones).for_each(|zone| _ = free.insert(zone));
        let pool =
            Pool { states: vec![State::Free; zones as usize], free, partial: TreeSet::new(), end: zones };
        let bits = |_| Mutex::new(&locks::BLOCKS, Bits::new(geometry.zone_blocks()));
        Self {
            geometry,
            pool: Mutex::new(&locks::ZONES, pool),
            bits: (0..zones).map(bits).collect(),
            heads: (0..shards).map(|_| Mutex::new(&locks::DATA, None)).collect(),
            placed_by: (0..geometry.zone_at(zones) / BLOCK).map(|_| AtomicU32::new(0)).collect(),
            cloned: Mutex::new(&locks::CLONED, TreeMap::new()),
            clones: AtomicU64::new(0),
            used: Sum::new(shards),
            lines: Sum::new(shards),
            inlines: Sum::new(shards),
            inlines_max: (u64::from(zones / 16) * geometry.zone_bytes).min(INLINE_BYTES) / LINE as u64,
            inlines_full: AtomicBool::new(false),
            buffered: buffered_zones(geometry, frames),
            low: AtomicBool::new(true),
            rules,
        }
    }

    // ---- counts

    /// Blocks of all zones, and those that are free when all of the log is clean and all files are settled.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let blocks = u64::from(self.geometry.zones) * u64::from(self.geometry.zone_blocks());
        let zone_blocks = u64::from(self.geometry.zone_blocks());
        let log = (self.live_lines() * zone_blocks).div_ceil(u64::from(self.geometry.record_lines()));
        let kept = self.heads.len() as u64 + 2 + u64::from(self.buffered);
        let kept = kept * zone_blocks;
        (blocks, blocks.saturating_sub(self.used.get() + log + kept))
    }

    /// Lines that live records may take, at most: one for each block of a file, and those of names, inodes and attributes.
    pub(crate) fn live_lines(&self) -> u64 {
        self.used.get() + self.clones.load(Relaxed) + self.lines.get()
    }

    /// The metadata of files takes so many lines more.
    pub(crate) fn add_lines(&self, lines: u64) {
        self.lines.add(lines);
    }

    /// The metadata of files takes so many lines less.
    pub(crate) fn sub_lines(&self, lines: u64) {
        let part = self.lines.part();
        part.sub(lines);
        part.note_gone(lines);
    }

    /// Other records lead to so many blocks than did before: those of these may be dead.
    pub(crate) fn note_gone(&self, blocks: u64) {
        self.used.part().note_gone(blocks);
    }

    /// Lines of records with a name or with blocks that may have died, ever, at most.
    pub(crate) fn gone(&self) -> u64 {
        self.used.gone() + self.lines.gone()
    }

    /// Records with bytes of blocks take so many lines more.
    pub(crate) fn change_inlines(&self, change: i64) {
        if change != 0 {
            self.lines.change(change);
            if self.inlines.change(change) {
                self.inlines_full.store(self.inlines.get() >= self.inlines_max, Relaxed);
            }
        }
    }

    /// Whether there may be more of them.
    pub(crate) fn takes_inlines(&self) -> bool {
        !self.inlines_full.load(Relaxed)
    }

    /// So many blocks that were taken will replace others of their files: both of a pair count as one.
    pub(crate) fn pair(&self, blocks: u64) {
        self.used.part().sub(blocks);
    }

    /// So many will not.
    pub(crate) fn unpair(&self, blocks: u64) {
        self.used.add(blocks);
    }

    fn stock_of(&self, pool: &Pool) -> Stock {
        Stock {
            free: pool.free.len() as u32,
            shards: self.heads.len() as u32,
            zone_lines: self.geometry.record_lines() - 1,
            live_lines: self.live_lines(),
            buffered: self.buffered,
        }
    }

    /// The number of free zones, and who may take them, as of now.
    pub(crate) fn stock(&self) -> Stock {
        self.stock_of(&self.pool.lock())
    }

    /// Whether a call finds a zone, or for data a block, if no other takes it first.
    pub(crate) fn has_room(&self, want: Want) -> bool {
        let pool = self.pool.lock();
        let granted = self.stock_of(&pool).grants(want, self.rules);
        granted
            || want == Want::Data && pool.partial.iter().any(|zone| self.bits[*zone as usize].lock().free > 0)
    }

    // ---- cleaning in steps

    fn note_taken(&self, pool: &Pool) {
        let stock = self.stock_of(pool);
        if stock.free < stock.marks(self.geometry.zones).0 && !self.low.load(Relaxed) {
            self.low.store(true, Relaxed);
        }
    }

    /// Whether the log is to be cleaned in steps.
    pub(crate) fn is_low(&self) -> bool {
        self.low.load(Relaxed)
    }

    /// Nothing is to be cleaned until the next zone is taken.
    pub(crate) fn rest(&self) {
        self.low.store(false, Relaxed);
    }

    /// Whether enough zones are free; and whether so few are that calls wait for steps.
    pub(crate) fn is_plenty_or_scarce(&self) -> (bool, bool) {
        let stock = self.stock();
        let (low, scarce) = stock.marks(self.geometry.zones);
        (stock.free >= low, stock.free < scarce)
    }

    // ---- log zones

    /// Takes a free zone for records.
    pub(crate) fn take_log(&self, want: Want) -> Result<u32> {
        let mut pool = self.pool.lock();
        if !self.stock_of(&pool).grants(want, self.rules) {
            return Err(Error::NoSpace);
        }
        let zone = pool.free.iter().next_back().copied().ok_or(Error::NoSpace)?;
        pool.free.remove(&zone);
        pool.states[zone as usize] = State::Log(0);
        self.note_taken(&pool);
        Ok(zone)
    }

    /// A zone has records under this opening, or will have.
    pub(crate) fn set_log(&self, zone: u32, opening: u64) {
        let mut pool = self.pool.lock();
        pool.free.remove(&zone);
        pool.states[zone as usize] = State::Log(opening);
    }

    /// A log zone is free, durably.
    pub(crate) fn free_log(&self, zone: u32) {
        let mut pool = self.pool.lock();
        let is_kept = zone < pool.end;
        pool.states[zone as usize] = if is_kept { State::Free } else { State::Bad };
        if is_kept {
            pool.free.insert(zone);
        }
    }

    /// Gives out no zone from `end` on any more; the blocks of files that lie there.
    pub(crate) fn withhold(&self, end: u32) -> u64 {
        let mut pool = self.pool.lock();
        pool.end = end;
        let mut used = 0;
        for zone in end..self.geometry.zones {
            used += match pool.states[zone as usize] {
                State::Data(_) => self.geometry.zone_blocks() - self.bits[zone as usize].lock().free,
                _ => 0,
            };
            if pool.free.remove(&zone) {
                pool.states[zone as usize] = State::Bad;
            }
        }
        u64::from(used)
    }

    /// A zone is not used.
    pub(crate) fn set_bad(&self, zone: u32) {
        let mut pool = self.pool.lock();
        pool.free.remove(&zone);
        pool.states[zone as usize] = State::Bad;
    }

    /// Whether a zone has records under this opening, and its word says so.
    pub(crate) fn is_log(&self, zone: u32, opening: u64) -> bool {
        self.pool.lock().states[zone as usize] == State::Log(opening)
    }

    /// The log zones.
    pub(crate) fn log_zones(&self) -> Vec<Present> {
        let pool = self.pool.lock();
        let logs = pool.states.iter().zip(0..).filter_map(|(state, zone)| match state {
            State::Log(opening) if *opening != 0 => Some(Present { zone, opening: *opening, freed: false }),
            _ => None,
        });
        let zones: Vec<_> = logs.collect();
        drop(pool);
        sim::ran::allocate(u64::from(!zones.is_empty()) * 8);
        zones
    }

    // ---- saved indexes

    /// The free zones.
    pub(crate) fn free_zones(&self) -> Vec<u32> {
        self.pool.lock().free.iter().copied().collect()
    }

    /// The free blocks of all zones, a bit each.
    pub(crate) fn free_bits(&self) -> Vec<[u64; WORDS]> {
        self.bits.iter().map(|bits| bits.lock().words).collect()
    }

    /// Blocks that several files have, and how many more than one.
    pub(crate) fn cloned_blocks(&self) -> Vec<(u64, u32)> {
        self.cloned.lock().iter().map(|(block, more)| (*block, *more)).collect()
    }

    /// A zone has these free blocks, while a pool is mounted; false: a zone for data cannot have these.
    pub(crate) fn restore(&self, zone: u32, words: [u64; WORDS]) -> bool {
        let all = Bits::new(self.geometry.zone_blocks());
        let free = words.iter().map(|word| word.count_ones()).sum();
        let fits = words.iter().zip(all.words).all(|(word, all)| word & !all == 0);
        let mut pool = self.pool.lock();
        if free == all.free || !fits || matches!(pool.states[zone as usize], State::Log(_) | State::Bad) {
            return fits && free == all.free;
        }
        *self.bits[zone as usize].lock() = Bits { words, free };
        self.used.add(u64::from(all.free - free));
        pool.free.remove(&zone);
        pool.states[zone as usize] = State::Data(false);
        if free > 0 {
            pool.partial.insert(zone);
        }
        true
    }

    /// So many files more than one have a block, while a pool is mounted.
    pub(crate) fn restore_cloned(&self, block: u64, more: u32) {
        self.cloned.lock().insert(block, more);
        self.clones.fetch_add(u64::from(more), Relaxed);
    }

    /// Where two pools differ in what is used, in words.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        let (a, b) = (self.pool.lock(), other.pool.lock());
        if (&a.states, a.free.iter().collect::<Vec<_>>(), a.partial.iter().collect::<Vec<_>>())
            != (&b.states, b.free.iter().collect(), b.partial.iter().collect())
        {
            return Some(format!("zones {:?}, {:?}", a.states, b.states));
        }
        drop((a, b));
        if self.free_bits() != other.free_bits() || self.cloned_blocks() != other.cloned_blocks() {
            return Some("blocks in use differ".to_owned());
        }
        let sums = |zones: &Self| (zones.used.get(), zones.clones.load(Relaxed), zones.lines.get());
        let (a, b) = (sums(self), sums(other));
        (a != b).then(|| format!("blocks, shares and lines {a:?}, {b:?}"))
    }

    // ---- records of blocks

    /// A record of this logical time has given a block to a file, or, where several files may have it, none that is known.
    pub(crate) fn place(&self, block: u64, by: Option<u64>) {
        if let Some(known) = self.placed_by.get(block as usize) {
            known.store(by.unwrap_or(0) as u32, Relaxed);
        }
    }

    /// The low bits of the logical time of the record that gave a block to a file; 0: it is not known.
    pub(crate) fn placed_by(&self, block: u64) -> u32 {
        self.placed_by.get(block as usize).map_or(0, |by| by.load(Relaxed))
    }

    // ---- blocks

    /// Takes at most `most` neighbouring blocks for a shard.
    pub(crate) fn take(&self, shard: usize, most: u64) -> Result<Blocks> {
        let _part = sim::part(&parts::ALLOC);
        let mut head = self.heads[shard].lock();
        loop {
            if let Some(zone) = *head {
                if let Some(blocks) = self.take_in(zone, most) {
                    return Ok(blocks);
                }
                *head = None;
                self.disown(zone);
            }
            match self.claim() {
                Some(zone) => *head = Some(zone),
                None => break,
            }
        }
        drop(head);
        (0..self.geometry.zones).find_map(|zone| self.take_of_others(zone, most)).ok_or(Error::NoSpace)
    }

    /// Takes blocks of a data zone that this shard does not fill. The states are locked meanwhile: otherwise its last block could
    /// be freed, and the zone be given to a log, before these are taken.
    fn take_of_others(&self, zone: u32, most: u64) -> Option<Blocks> {
        let pool = self.pool.lock();
        let is_data = matches!(pool.states[zone as usize], State::Data(_));
        if self.rules.lacks(mutant::ZONE_JUDGED_UNLOCKED) {
            drop(pool);
            return if is_data { self.take_in(zone, most) } else { None };
        }
        if is_data { self.take_in(zone, most) } else { None }
    }

    fn take_in(&self, zone: u32, most: u64) -> Option<Blocks> {
        let mut bits = self.bits[zone as usize].lock();
        sim::work(Work::STEP, 1);
        let (place, count) = bits.take(most, begin_of(zone, self.geometry.zone_blocks(), most))?;
        self.used.add(u64::from(count));
        Some(Blocks { first: self.geometry.block_at(zone, place), count: u64::from(count) })
    }

    /// A zone that a shard may fill: free ones while most are, else one with room.
    fn claim(&self) -> Option<u32> {
        let mut pool = self.pool.lock();
        let granted = self.stock_of(&pool).grants(Want::Data, self.rules);
        let plenty = pool.free.len() as u32 > self.geometry.zones / 2;
        let partial = pool.partial.first().copied().filter(|_| !(granted && plenty));
        let zone = partial.or_else(|| pool.free.first().copied().filter(|_| granted))?;
        pool.partial.remove(&zone);
        pool.free.remove(&zone);
        pool.states[zone as usize] = State::Data(true);
        self.note_taken(&pool);
        Some(zone)
    }

    /// A shard does not fill a zone any more.
    fn disown(&self, zone: u32) {
        self.pool.lock().states[zone as usize] = State::Data(false);
        self.settle(zone);
    }

    /// Notes where a data zone belongs that has gained a free block.
    fn settle(&self, zone: u32) {
        let mut pool = self.pool.lock();
        if pool.states[zone as usize] != State::Data(false) {
            return;
        }
        let free = self.bits[zone as usize].lock().free;
        if free == self.geometry.zone_blocks() {
            pool.partial.remove(&zone);
            pool.states[zone as usize] = State::Free;
            pool.free.insert(zone);
        } else if free > 0 {
            pool.partial.insert(zone);
        }
    }

    /// How many files have a block that is in use.
    pub(crate) fn references(&self, block: u64) -> u32 {
        if self.clones.load(Relaxed) == 0 {
            return 1;
        }
        1 + self.cloned.lock().get(&block).copied().unwrap_or(0)
    }

    /// One more file has these blocks.
    pub(crate) fn add_clones(&self, blocks: Blocks) {
        if self.rules.lacks(mutant::CLONES_NOT_COUNTED) {
            return;
        }
        let mut cloned = self.cloned.lock();
        for block in blocks.first..blocks.first + blocks.count {
            match cloned.get_mut(&block) {
                Some(more) => *more += 1,
                None => _ = cloned.insert(block, 1),
            }
        }
        self.clones.fetch_add(blocks.count, Relaxed);
    }

    /// One file less has a block; false: it was the last.
    fn remove_clone(&self, block: u64) -> bool {
        let mut cloned = self.cloned.lock();
        match cloned.get_mut(&block) {
            Some(1) => _ = cloned.remove(&block),
            Some(more) => *more -= 1,
            None => return false,
        }
        self.clones.fetch_sub(1, Relaxed);
        true
    }

    /// One file less has these blocks: those that no other one has are free.
    pub(crate) fn put(&self, blocks: Blocks) {
        let part = self.used.part();
        part.note_gone(blocks.count);
        self.each_last(blocks, |last| {
            part.sub(last.count);
            self.put_all(last);
        });
    }

    /// The same of blocks that others have replaced, with which they counted as one, but for those `beside` them.
    pub(crate) fn put_replaced(&self, blocks: Blocks, beside: &[u64]) {
        if !beside.is_empty() {
            for first in blocks.first..blocks.first + blocks.count {
                let one = Blocks { first, count: 1 };
                if beside.contains(&first) { self.put(one) } else { self.put_replaced(one, &[]) }
            }
            return;
        }
        let part = self.used.part();
        part.note_gone(blocks.count);
        let mut freed = 0;
        self.each_last(blocks, |last| {
            freed += last.count;
            self.put_all(last);
        });
        part.add(blocks.count - freed);
    }

    /// Gives those of the blocks to `free` that no other file has.
    fn each_last(&self, blocks: Blocks, mut free: impl FnMut(Blocks)) {
        if self.clones.load(Relaxed) == 0 {
            return free(blocks);
        }
        let last = |block: &u64| !self.remove_clone(*block);
        for first in (blocks.first..blocks.first + blocks.count).filter(last) {
            free(Blocks { first, count: 1 });
        }
    }

    /// Frees blocks to which no record that counts leads.
    fn put_all(&self, blocks: Blocks) {
        let mut at = blocks.first;
        let end = blocks.first + blocks.count;
        while at < end {
            let Some((zone, place)) = self.geometry.zone_of(at) else { return };
            let count = (end - at).min(u64::from(self.geometry.zone_blocks() - place)) as u32;
            let mut bits = self.bits[zone as usize].lock();
            let was_full = bits.free == 0;
            for place in place..place + count {
                // Without counts a block comes back from each file that had it.
                if !(bits.is_free(place) && self.rules.lacks(mutant::CLONES_NOT_COUNTED)) {
                    bits.put(place);
                }
            }
            let is_free = bits.free == self.geometry.zone_blocks();
            sim::work(Work::STEP, 1);
            drop(bits);
            if was_full || is_free {
                self.settle(zone);
            }
            at += u64::from(count);
        }
    }

    /// Marks a block that a file has, while a pool is mounted, and counts it if another one has it, too; false: it is in no zone
    /// for data.
    pub(crate) fn mark(&self, block: u64) -> bool {
        let Some((zone, place)) = self.geometry.zone_of(block) else { return false };
        let mut pool = self.pool.lock();
        if matches!(pool.states[zone as usize], State::Log(_) | State::Bad) {
            return false;
        }
        let mut bits = self.bits[zone as usize].lock();
        if !bits.take_at(place) {
            drop(bits);
            drop(pool);
            self.add_clones(Blocks { first: block, count: 1 });
            return true;
        }
        self.used.add(1);
        pool.free.remove(&zone);
        pool.states[zone as usize] = State::Data(false);
        if bits.free > 0 {
            pool.partial.insert(zone);
        } else {
            pool.partial.remove(&zone);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sim::schedule::{Schedule, Switch};
    use sim::{Machine, Seed, Setup, TaskSpec};

    use super::*;

    /// In a pool without a free zone a task takes a block, and from a point of that on another one frees all blocks of a zone and
    /// takes it for records. Whether both have the zone, and the points of the run.
    fn both_have_the_zone(rules: Rules, point: u64) -> (bool, u64) {
        let setup = Setup::virtual_clock(Machine::unit(), Seed(1));
        let schedule = Schedule::Directed(vec![Switch { point, to: 1 }]);
        let (done, order) = sim::explore(&setup, &schedule, move || {
            let geometry = Geometry::new(256 << 10, 256 << 10);
            let zones = Arc::new(Zones::new(geometry, 1, 0, rules));
            let data: Vec<Blocks> = std::iter::from_fn(|| zones.take(0, u64::MAX).ok()).collect();
            while zones.take_log(Want::Copies).is_ok() {}
            let (other, freed) = (Arc::clone(&zones), data[data.len() / 2]);
            let records = sim::spawn(TaskSpec::named("records"), move || {
                other.put(freed);
                other.take_log(Want::Copies).ok()
            });
            let blocks = zones.take(0, 1).ok().and_then(|blocks| geometry.zone_of(blocks.first));
            let log = records.join();
            blocks.is_some_and(|(zone, _)| log == Some(zone))
        });
        (done.expect("the run ends"), order.points)
    }

    #[test]
    fn a_zone_that_becomes_free_is_not_taken_for_blocks_and_for_records() {
        let points = both_have_the_zone(Rules::ALL, u64::MAX).1;
        for point in 1..=points {
            assert!(!both_have_the_zone(Rules::ALL, point).0, "another task goes on at point {point}");
        }
        let mutant = Rules::without(mutant::ZONE_JUDGED_UNLOCKED);
        assert!((1..=points).any(|point| both_have_the_zone(mutant, point).0), "canary");
    }

    #[test]
    fn neighbouring_zones_begin_on_other_modules() {
        for (modules, blocks) in [2, 3, 4, 6, 8, 12].into_iter().flat_map(|m| [(m, 512), (m, 256), (m, 128)])
        {
            let of = |zone: u32| (zone * blocks + begin_of(zone, blocks, 1)) % modules;
            let met: std::collections::BTreeSet<u32> = (0..modules).map(of).collect();
            assert_eq!(met.len(), modules as usize, "{modules} modules, zones of {blocks} blocks");
        }
        assert_eq!(begin_of(7, 512, 512), 0, "a large file lies in one piece");
    }

    #[test]
    fn blocks_before_the_place_are_taken_last() {
        let mut bits = Bits::new(130);
        assert_eq!((bits.take(1, 100), bits.take(64, 100)), (Some((100, 1)), Some((101, 29))));
        assert_eq!((bits.take(200, 100), bits.take(1, 0)), (Some((0, 100)), None));
    }
}
