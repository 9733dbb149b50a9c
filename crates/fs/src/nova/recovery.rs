//! Mounting and unmounting an image.
//!
//! *Unmounting* writes the ranges of free blocks and of inode numbers in use into free blocks, and then, as the last durable store,
//! where they are into the clean word. Those blocks stay free: nothing is written before the clean word is zero again. Where no
//! free block is left the clean word says only that, and the next mount scans.
//!
//! *Mounting* a clean image reads the ranges and zeroes the clean word, durably, before anything else is written. Any other is
//! *recovered*: each journal is undone; then one task for each of several shards walks the shard's inode table, replays the log of
//! every live inode and marks its pages and blocks; inodes without a name that a crash found open are freed. What was not marked is
//! free. Logs are replayed again when an inode is first used.

use std::ops::RangeInclusive;
use std::sync::Arc;

use media::event::Mark;
use media::nvmm::Region;
use sim::sync::{AtomicBool, AtomicU64, Ordering::Relaxed};
use sim::{Mutex, TaskSpec};
use zerocopy::{FromBytes, IntoBytes};

use super::alloc::{Blocks, Extent};
use super::inode::{Inodes, Loaded, replay};
use super::journal::{self, Journal};
use super::layout::{
    BLOCK, CLEAN, FILE_BLOCKS_MAX, Geometry, INODE_BYTES, NEVER_MOUNTED, NOTHING_SAVED, RawInode,
    SAVED_MAGIC, SAVED_RANGES, SHARD_INODES, SavedHeader, checksum, ino, state, state_word,
};
use super::mutant;
use super::{Counters, LEFT_OVER, MakeCache, RENAME, Settings, Volume, superblock};
use base::dax::DirectMaps;
use base::error::{Error, Result};
use design::FsError;

/// Tasks that walk inode tables side by side.
const SCANNERS_MAX: u64 = 16;

/// Why an image cannot be mounted.
pub(crate) fn damaged(error: Error) -> FsError {
    match error {
        Error::Media(error) => FsError::Media(error),
        other => FsError::Damaged { design: "nova", what: other.to_string() },
    }
}

/// The chunks of the inode table of a shard.
pub(crate) fn chunks(region: &Region, geometry: &Geometry, shard: u64) -> Result<Vec<u64>> {
    let (mut chunks, mut link) = (Vec::new(), Geometry::shard_at(shard) + SHARD_INODES);
    loop {
        let at = region.load_u64(link)?;
        if at == 0 {
            return Ok(chunks);
        }
        let loops = chunks.len() as u64 > geometry.blocks / geometry.chunk_blocks();
        if loops || !geometry.holds(at, geometry.chunk_blocks()) {
            let number = chunks.len();
            return Err(Error::Corrupt(format!(
                "inode table of shard {shard}: chunk {number} at {at} is impossible"
            )));
        }
        chunks.push(at);
        link = at + geometry.chunk_bytes - INODE_BYTES + ino::NEXT_CHUNK;
    }
}

/// Which blocks are in use: a bit each.
pub(crate) struct Marks {
    words: Vec<u64>,
}

impl Marks {
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let mut marks = Self { words: vec![0; geometry.blocks.div_ceil(64) as usize] };
        (0..geometry.first_block()).for_each(|block| {
            marks.mark(block);
        });
        marks
    }

    pub(crate) fn is_marked(&self, block: u64) -> bool {
        self.words.get((block / 64) as usize).is_some_and(|word| word >> (block % 64) & 1 == 1)
    }

    /// Marks a block; false when it was marked or does not exist.
    pub(crate) fn mark(&mut self, block: u64) -> bool {
        let Some(word) = self.words.get_mut((block / 64) as usize) else { return false };
        let is_new = *word >> (block % 64) & 1 == 0;
        *word |= 1 << (block % 64);
        is_new
    }

    /// Marks what an inode has; answers the blocks that were marked before.
    pub(crate) fn mark_inode(&mut self, loaded: &Loaded) -> Vec<u64> {
        let mut twice = Vec::new();
        let mut mark = |block: u64| {
            if !self.mark(block) {
                twice.push(block);
            }
        };
        loaded.log.pages.iter().for_each(|page| mark(page.page));
        loaded.blocks.for_each(0, FILE_BLOCKS_MAX, |_, place| mark(place.block()));
        loaded.attributes.iter().for_each(|at| mark(at / BLOCK));
        twice
    }
}

impl Volume {
    /// Mounts: reads what unmounting saved, or recovers.
    pub(crate) fn mount(
        region: &Arc<Region>,
        settings: Settings,
        cache: Option<MakeCache<'_>>,
    ) -> Result<(Arc<Self>, Vec<String>), FsError> {
        region.mark(Mark::RecoveryBegin);
        let (superblock, from_copy) = superblock::load(region)?;
        let mut done = Vec::new();
        if from_copy {
            superblock::store(region, 0, &superblock).map_err(damaged)?;
            done.push("the primary superblock is bad; the copy was used".to_owned());
        }
        superblock::convert(region, &superblock).map_err(damaged)?;
        let geometry = Geometry::of(&superblock);
        for shard in 0..geometry.shards {
            let words = journal::recover(region, &geometry, shard, settings.mutant).map_err(damaged)?;
            if words > 0 {
                done.push(format!(
                    "journal of shard {shard}: {words} words of an unfinished change were undone"
                ));
            }
        }
        let mut volume = Self::empty(region, geometry, settings).map_err(damaged)?;
        volume.load_all(&mut done).map_err(damaged)?;
        // Only now: a mount that fails leaves no task behind.
        if let Some(volume) = Arc::get_mut(&mut volume) {
            volume.cache = cache.map(|make| make(region, &volume.blocks)).transpose().map_err(damaged)?;
        }
        region.mark(Mark::RecoveryEnd);
        Ok((volume, done))
    }

    /// A volume that has no free block and no free inode yet.
    pub(crate) fn empty(region: &Arc<Region>, geometry: Geometry, settings: Settings) -> Result<Arc<Self>> {
        let journals = (0..geometry.shards).map(|shard| Journal::load(region, &geometry, shard));
        let chunks = (0..geometry.shards).map(|shard| chunks(region, &geometry, shard));
        let inodes = Inodes::new(&geometry, &chunks.collect::<Result<Vec<_>>>()?);
        Ok(Arc::new(Self {
            journals: journals.collect::<Result<_>>()?,
            blocks: Arc::new(Blocks::new(&geometry, region)),
            inodes,
            region: Arc::clone(region),
            geometry,
            settings,
            renames: Mutex::new(&RENAME, ()),
            maps: DirectMaps::default(),
            left_over: Mutex::new(&LEFT_OVER, Vec::new()),
            orphans: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            counters: Counters::default(),
            cache: None,
        }))
    }

    fn load_all(self: &Arc<Self>, done: &mut Vec<String>) -> Result<()> {
        let saved = self.region.load_u64(CLEAN)?;
        if ![0, NOTHING_SAVED, NEVER_MOUNTED].contains(&saved) && self.load_saved(saved)? {
            if !self.has(mutant::CLEAN_WORD_STAYS) {
                store_clean(&self.region, 0)?;
            }
            return Ok(());
        }
        if saved != 0 {
            store_clean(&self.region, 0)?;
        }
        let why = match saved {
            NEVER_MOUNTED => "never mounted",
            NOTHING_SAVED => "no room to save them",
            _ => "not unmounted",
        };
        done.push(format!("{why}: free blocks and inodes were found by a scan"));
        self.scan()
    }

    /// Reads what unmounting saved; false when it cannot be.
    fn load_saved(&self, first: u64) -> Result<bool> {
        let Some(saved) = read_saved(&self.region, &self.geometry, first)? else { return Ok(false) };
        let geometry = &self.geometry;
        let possible = |range: &RangeInclusive<u64>| {
            !range.is_empty() && *range.start() >= geometry.first_block() && *range.end() < geometry.blocks
        };
        let overlap = |pair: &[RangeInclusive<u64>]| pair[0].end() >= pair[1].start();
        if !saved.blocks.iter().all(possible) || saved.blocks.windows(2).any(overlap) {
            return Ok(false);
        }
        for (first, last) in saved.blocks.into_iter().map(RangeInclusive::into_inner) {
            self.blocks.put(Extent { offset: first * BLOCK, blocks: last - first + 1 })?;
        }
        let mut used = saved.inodes.into_iter().peekable();
        for shard in 0..geometry.shards {
            let slots = chunks(&self.region, geometry, shard)?.len() as u64 * geometry.slots_per_chunk();
            let mut slot = 0;
            while slot < slots {
                let key = shard << 48 | slot;
                match used.peek() {
                    Some(range) if range.contains(&key) => {
                        slot = (range.end() & 0xffff_ffff_ffff) + 1;
                        used.next();
                    }
                    _ => {
                        self.inodes.put(slot * geometry.shards + shard);
                        slot += 1;
                    }
                }
            }
        }
        Ok(true)
    }

    /// Finds out by the logs of all inodes what is in use.
    fn scan(self: &Arc<Self>) -> Result<()> {
        let tasks = self.geometry.shards.min(SCANNERS_MAX);
        let spawn = |task| {
            let volume = Arc::clone(self);
            let spec = TaskSpec::named(format!("nova.scan {task}")).on_core(task as u16);
            sim::spawn(spec, move || {
                volume.scan_shards((task..volume.geometry.shards).step_by(tasks as usize))
            })
        };
        let scanners: Vec<_> = (1..tasks).map(spawn).collect();
        let mut marks = self.scan_shards((0..self.geometry.shards).step_by(tasks as usize));
        // All have ended before any failure is told.
        let others: Vec<_> = scanners.into_iter().map(sim::JoinHandle::join).collect();
        for other in others {
            marks = merge(marks, other, self.geometry.first_block());
        }
        let marks = marks?;
        let mut free: Option<Extent> = None;
        for block in self.geometry.first_block()..=self.geometry.blocks {
            let is_free = block < self.geometry.blocks && !marks.is_marked(block);
            match &mut free {
                Some(run) if is_free => run.blocks += 1,
                None if is_free => free = Some(Extent { offset: block * BLOCK, blocks: 1 }),
                _ => free.take().map_or(Ok(()), |run| self.blocks.put(run))?,
            }
        }
        Ok(())
    }

    fn scan_shards(&self, shards: impl Iterator<Item = u64>) -> Result<Marks> {
        let geometry = &self.geometry;
        let mut marks = Marks::new(geometry);
        let twice = |number, block| Error::Corrupt(format!("inode {number}: block {block} is used twice"));
        for shard in shards {
            for (number, chunk) in (0u64..).zip(chunks(&self.region, geometry, shard)?) {
                for block in 0..geometry.chunk_blocks() {
                    if !marks.mark(chunk / BLOCK + block) {
                        return Err(Error::Corrupt(format!(
                            "inode table of shard {shard}: chunk {number} is used twice"
                        )));
                    }
                }
                for slot in 0..geometry.slots_per_chunk() {
                    let number = (number * geometry.slots_per_chunk() + slot) * geometry.shards + shard;
                    if let Some(loaded) = self.scan_inode(number, chunk + slot * INODE_BYTES)? {
                        let again = marks.mark_inode(&loaded);
                        again.first().map_or(Ok(()), |block| Err(twice(number, *block)))?;
                    }
                }
            }
        }
        Ok(marks)
    }

    /// What a live inode has. One that is not is free from now on.
    fn scan_inode(&self, number: u64, at: u64) -> Result<Option<Loaded>> {
        let word = self.region.load_u64(at)?;
        match word as u32 {
            state::LIVE => {
                let raw: RawInode = self.region.read(at)?;
                return replay(&self.region, &self.geometry, number, &raw).map(Some);
            }
            state::FREE => {}
            state::ORPHAN => {
                let at = at + ino::STATE;
                self.region.mark(Mark::Commit { at, needs: &[] });
                self.region.store_u64(at, state_word((word >> 32) as u32, state::FREE))?;
                self.region.flush(at, 8);
                self.region.fence();
            }
            other => return Err(Error::Corrupt(format!("inode {number}: state {other} is none"))),
        }
        self.inodes.put(number);
        Ok(None)
    }

    /// Leaves a clean image, unless an inode without a name could not be freed or a block may be lost: then the next mount
    /// recovers it.
    pub(crate) fn unmount(&self) -> Result<()> {
        if let Some(cache) = &self.cache {
            cache.stop();
        }
        self.check_sound()?;
        self.region.fence();
        if self.blocks.is_doubted() || self.orphans.load(Relaxed) > 0 {
            return Ok(());
        }
        let blocks = self.blocks.free_ranges(self.geometry.blocks);
        let shards = 0..self.geometry.shards;
        let inodes: Vec<_> = shards
            .flat_map(|shard| {
                let key = move |slot: u64| shard << 48 | slot;
                self.inodes
                    .used_slots(shard)
                    .into_iter()
                    .map(move |range| key(*range.start())..=key(*range.end()))
            })
            .collect();
        let wanted = (blocks.len() + inodes.len()).div_ceil(SAVED_RANGES).max(1);
        let places = blocks.iter().cloned().flatten().map(|block| block * BLOCK);
        let places: Vec<_> = places.take(wanted).collect();
        let backed = places.iter().all(|at| self.region.back(*at, BLOCK));
        if places.len() < wanted || !backed {
            return store_clean(&self.region, NOTHING_SAVED);
        }
        write_saved(&self.region, &places, &blocks, &inodes)?;
        store_clean(&self.region, places[0])
    }
}

fn merge(one: Result<Marks>, other: Result<Marks>, first: u64) -> Result<Marks> {
    let (mut one, other) = (one?, other?);
    for (number, (word, more)) in (0u64..).zip(one.words.iter_mut().zip(other.words)) {
        let fixed =
            if first >= (number + 1) * 64 { u64::MAX } else { (1 << first.saturating_sub(number * 64)) - 1 };
        let twice = *word & more & !fixed;
        if twice != 0 {
            let block = number * 64 + u64::from(twice.trailing_zeros());
            return Err(Error::Corrupt(format!("block {block} is used by two inodes")));
        }
        *word |= more;
    }
    Ok(one)
}

/// Stores the clean word; durable on return.
pub(crate) fn store_clean(region: &Region, value: u64) -> Result<()> {
    region.fence();
    region.mark(Mark::Commit { at: CLEAN, needs: &[] });
    region.store_u64(CLEAN, value)?;
    region.flush(CLEAN, 8);
    region.fence();
    Ok(())
}

/// What unmounting saves.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    /// Free blocks.
    pub(crate) blocks: Vec<RangeInclusive<u64>>,
    /// Slots of inodes in use, the shard in the upper 16 bits.
    pub(crate) inodes: Vec<RangeInclusive<u64>>,
}

fn write_saved(
    region: &Region,
    places: &[u64],
    blocks: &[RangeInclusive<u64>],
    inodes: &[RangeInclusive<u64>],
) -> Result<()> {
    let all: Vec<_> = blocks.iter().chain(inodes).collect();
    for (number, at) in places.iter().enumerate() {
        let range = number * SAVED_RANGES..all.len().min((number + 1) * SAVED_RANGES);
        let of_blocks = blocks.len().clamp(range.start, range.end) - range.start;
        let mut page = vec![0; BLOCK as usize];
        let words = all[range.clone()].iter().flat_map(|range| [*range.start(), *range.end()]);
        for (place, word) in page[size_of::<SavedHeader>()..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let mut header = SavedHeader {
            magic: SAVED_MAGIC,
            checksum: 0,
            next: places.get(number + 1).copied().unwrap_or(0),
            blocks: of_blocks as u32,
            inodes: (range.len() - of_blocks) as u32,
            zero: 0,
        };
        header.checksum = checksum(&[header.as_bytes(), &page[size_of::<SavedHeader>()..]]);
        page[..size_of::<SavedHeader>()].copy_from_slice(header.as_bytes());
        region.nt_store(*at, &page)?;
    }
    Ok(())
}

/// What unmounting saved, from the page at `first` on; none when it is damaged.
pub(crate) fn read_saved(region: &Region, geometry: &Geometry, first: u64) -> Result<Option<Saved>> {
    let (mut saved, mut at, mut pages) = (Saved::default(), first, 0);
    while at != 0 {
        if !geometry.holds(at, 1) || pages > geometry.blocks {
            return Ok(None);
        }
        pages += 1;
        let mut page = vec![0; BLOCK as usize];
        region.peek(at, &mut page)?;
        let Ok((header, _)) = SavedHeader::read_from_prefix(&page) else { return Ok(None) };
        let ranges = header.blocks as usize + header.inodes as usize;
        let blank = SavedHeader { checksum: 0, ..header };
        let sum = checksum(&[blank.as_bytes(), &page[size_of::<SavedHeader>()..]]);
        if header.magic != SAVED_MAGIC || header.checksum != sum || ranges > SAVED_RANGES {
            return Ok(None);
        }
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("chunks of eight bytes"));
        let pairs = page[size_of::<SavedHeader>()..].chunks_exact(16).take(ranges);
        for (number, pair) in pairs.enumerate() {
            let range = word(&pair[..8])..=word(&pair[8..]);
            let list = if number < header.blocks as usize { &mut saved.blocks } else { &mut saved.inodes };
            list.push(range);
        }
        at = header.next;
    }
    Ok(Some(saved))
}
