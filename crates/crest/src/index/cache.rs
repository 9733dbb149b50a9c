//! The read cache: cached frames hold blocks of the medium that are read often, in every mount.
//!
//! A cached frame belongs to a block of the medium, not to a file, and holds what the block holds. So everything that gives a block
//! of a file another place, or moves records, needs nothing of this page: only who stores to a block, or frees it, drops its frame.
//!
//! # A block and its frame
//!
//! Two words, each changed by compare-and-swap. The *slot* of a block: heat 5 bits, *read* 1, number of its frame and 1, 26. The
//! *tag* of a frame: ready 1, version 23, block 40. A slot counts only if the tag of its frame is ready and names the block, so it
//! may point to a frame that has another use by now. The numbers are those of the specification (5.3).
//!
//! | # | from | to | by | |
//! |---|---|---|---|---|
//! | 2 | on the medium | cached | a reader that has loaded the block | frame taken; bytes; tag ready; slot |
//! | 9 | dirty | cached | what settles the file, while a fifth of the frames is free | the frame stays as it is: tag ready, slot |
//! | 3 | cached | on the medium | a shard that wants a frame | tag not ready, version + 1; slot, but its heat; then the bytes |
//! | 4 | cached | on the medium | a call that stores to the block or frees it | slot 0, tag as for 3; the frame is free |
//! | 5 | cached | cached | such a store, if *read* | tag not ready, same version; bytes; ready; *read* is off |
//!
//! A reader takes no lock and writes no line: it loads slot and tag, copies word by word, and loads the tag again. If that has
//! changed the bytes mean nothing, and it loads from the medium. A tag comes back to the same value after 2^23 uses of the frame
//! for the same block, all of which would have to fit into one copy.
//!
//! That the medium does not change below a reader, or a filler, is by the locks as before: it has the inode, and granules where
//! tasks share it, from before it looks for the place of the block until it has copied, or filled. A store in place has the inode
//! alone, and of a block that other files have, too, there is none. A block is free when no file has it, so no reader of it is
//! left.
//!
//! | what | does to the frame of a block |
//! |---|---|
//! | overwrite | the block is freed; the new one gets a frame at its next read if the old one had one that was read |
//! | append in place, zeros behind an end, `atomic=words`, a page of a mapping, settling | the call stores to the block (4, 5) |
//! | truncation, removal, a hole | the block is freed (4) |
//! | reserved blocks, zeroed ranges | none: a block that is *unwritten* reads as zeros without a look |
//! | clone | both files read one frame; a put of one file drops it, which costs a fill |
//! | `checksum=data` | a block is filled after it was compared |
//! | an end within a block | the frame holds what lies before; what follows is read after a store. Not of a shared block |
//! | growth of a file; the cleaner; a copied record; rename | nothing: the place stays |
//! | scrub, fsck, a mapping's loads | read the medium |
//!
//! # Which blocks
//!
//! Where a load of 4 KiB from the medium takes less than 1.3 times as long as from DRAM there is no cache, and a read costs what it
//! did. Both are measured at the mount, under the virtual clock: the mean of 64 loads. Under the real one there is a cache where
//! `admit` is given. A block gets a frame when it was missed so often that as many hits are worth the copy into the frame.
//!
//! A miss adds 1 to the heat of the block, to 31, if the load took 1.3 times what it takes from DRAM: else the processor's caches
//! had the block, and have it without a frame. A core whose last 16 reads were all of that kind looks for frames in one read of 16
//! only, until one is not. One hit in 16 of a core adds 1 to the heat, too. A shard that has no frame left looks at eight of its
//! cached ones in turn (CLOCK): one whose block has no heat is used again, of the others the heat goes down by 1. The heat stays in
//! the slot when a block has lost its frame, and goes when the block is freed. So of a block that all cores read no line is
//! written but a few times.
//!
//! The reader fills, because it has the bytes: a task of its own would load the block a second time.
//!
//! Lock order: `crest.clean` of a shard, under the locks of inodes, then `crest.frames`. A list names frames with their versions;
//! one that has another version has another use.

use std::sync::atomic::{self, fence};

use media::nvmm::Region;
use sim::sync::{
    AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use sim::{Clock, Count, Mutex, Nanos, Recency, Work, ran};

use super::Index;
use super::follow::Follower;
use super::inode::State;
use super::map::{Place, Run};
use crate::format::layout::{BLOCK, Geometry};
use crate::format::mutant::{self, Rules};
use crate::locks;
use crate::store::Store;
use crate::store::alloc::Blocks;
use crate::store::frames::{Frames, Page};
use base::error::Result;
use base::persist::slot_table::SlotTable;

/// What happened to reads, in the ledger.
pub(crate) static HITS: Count =
    Count::new("crest.hits", "blocks", "blocks, or parts of them, that a clean frame has served");
pub(crate) static FILLED: Count =
    Count::new("crest.filled", "blocks", "blocks that were copied to a clean frame");
pub(crate) static EVICTED: Count =
    Count::new("crest.evicted", "blocks", "blocks that have lost a clean frame to another use");

/// Bits of a slot.
const HEAT: u32 = 31;
const READ: u32 = 32;
const NUMBER_BIT: u32 = 6;
/// Bits of a tag.
const READY: u64 = 1;
const VERSION_BIT: u32 = 1;
const VERSIONS: u64 = 1 << 23;
const BLOCK_BIT: u32 = 24;

/// Slots and tags of a cache line.
const SLOTS_OF_LINE: u64 = 16;
const TAGS_OF_LINE: u64 = 8;

/// Hits of a core of which one is counted, and reads of which one looks for frames where none pays (the specification, 5.7).
const SAMPLED: u32 = 16;
/// Frames of its own that a shard looks at to find one that it can use again.
const LOOKS: usize = 8;
/// Of these, looked at besides to remove those that have another use.
const TIDIED: usize = 2;
/// Cores that count their hits apart.
const CORES: usize = 256;
/// Loads by which the medium and DRAM are measured.
const LOADS: u64 = 64;
/// Tenths that the medium has to take longer than ten of DRAM (the specification, U3).
const RATIO_TENTHS: u64 = 13;

/// Which blocks get frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Admit {
    /// None.
    #[default]
    Never,
    /// Those that were missed so often.
    After(u32),
    /// As the times of the medium and of DRAM say.
    Measured,
}

/// The same when a mount knows it.
#[derive(Clone, Copy, Debug)]
struct Admitted {
    /// The miss that gives a block a frame.
    misses: u32,
    /// A load of a block that takes less time does not count: the processor's caches had it.
    slow: Nanos,
}

/// The frame of a slot.
fn number(slot: u32) -> Option<u32> {
    (slot >> NUMBER_BIT).checked_sub(1)
}

fn version(tag: u64) -> u64 {
    tag >> VERSION_BIT & (VERSIONS - 1)
}

/// The tag of a frame that is ready.
fn tag_of(block: u64, version: u64) -> u64 {
    block << BLOCK_BIT | version << VERSION_BIT | READY
}

/// The tag of a frame that has another use from now on.
fn given_up(tag: u64) -> u64 {
    ((version(tag) + 1) % VERSIONS) << VERSION_BIT
}

fn is_of(tag: u64, block: u64) -> bool {
    tag & READY != 0 && tag >> BLOCK_BIT == block
}

/// Cached frames that a shard has filled: number, version.
#[derive(Default)]
struct List {
    frames: Vec<(u32, u64)>,
    hand: usize,
}

/// The last lines of slots and of tags that a read has loaded.
#[derive(Default)]
struct Seen(Option<(u64, u64)>);

impl Seen {
    /// How many lines are others than the last.
    fn new_lines(&mut self, block: u64, frame: u32) -> u64 {
        let lines = (block / SLOTS_OF_LINE, u64::from(frame) / TAGS_OF_LINE);
        let last = self.0.replace(lines).unwrap_or((u64::MAX, u64::MAX));
        u64::from(last.0 != lines.0) + u64::from(last.1 != lines.1)
    }
}

/// What a core remembers of its reads, on a line of its own. One that is lost does no harm.
#[derive(Default)]
#[repr(align(64))]
struct Core {
    hits: atomic::AtomicU32,
    /// Reads in turn that the processor's caches have served, none from a frame among them; at most [`SAMPLED`].
    fast: atomic::AtomicU32,
    /// Reads for which it has not looked, because that many were.
    skipped: atomic::AtomicU32,
}

/// The blocks of a mount that have frames, or were read.
pub(crate) struct Cache {
    /// The first block of the pool.
    first: u64,
    chunk: u64,
    /// A word for each block, made for a zone when one of its blocks is missed.
    slots: SlotTable<AtomicU32>,
    /// The miss that gives a block a frame, counting those that took longer than DRAM would.
    admit: Admitted,
    lists: Box<[Mutex<List>]>,
    cores: Box<[Core]>,
    rules: Rules,
}

impl Cache {
    /// An empty one; none if there are no frames or the medium is as fast as they are.
    pub(crate) fn new(
        region: &Region,
        geometry: &Geometry,
        (admit, rules): (Admit, Rules),
        frames: &Frames,
    ) -> Option<Self> {
        if frames.settings.limit == 0 {
            return None;
        }
        let admit = match admit {
            Admit::Never => None,
            Admit::After(misses) => Some(Admitted { misses, slow: Nanos::ZERO }),
            Admit::Measured => measured(region, geometry),
        }?;
        let (zones, chunk) = (u64::from(geometry.zones), u64::from(geometry.zone_blocks()));
        Some(Self {
            first: geometry.block_at(0, 0),
            chunk,
            slots: SlotTable::new(zones, chunk),
            admit,
            lists: (0..frames.shards()).map(|_| Mutex::new(&locks::CACHED, List::default())).collect(),
            cores: (0..CORES).map(|_| Core::default()).collect(),
            rules,
        })
    }

    fn slot(&self, block: u64) -> Option<&AtomicU32> {
        self.slots.get(block.checked_sub(self.first)?)
    }

    /// The slot of a block that is missed.
    fn made(&self, block: u64) -> Option<&AtomicU32> {
        let place = block.checked_sub(self.first)?;
        self.slots.get(place).or_else(|| {
            self.slots.add_chunk(place / self.chunk, |_| AtomicU32::new(0));
            self.slots.get(place)
        })
    }

    fn core(&self) -> &Core {
        &self.cores[usize::from(sim::core()) % CORES]
    }

    // ---- reads

    /// Whether a read looks for frames at all: the medium has every block.
    fn looks(&self) -> bool {
        let core = self.core();
        if core.fast.load(Relaxed) < SAMPLED {
            return true;
        }
        let skipped = core.skipped.load(Relaxed).wrapping_add(1);
        core.skipped.store(skipped, Relaxed);
        skipped.is_multiple_of(SAMPLED)
    }

    /// Notes how long a load from the medium has taken; whether that is as long as to count as a miss.
    fn is_slow(&self, took: Nanos, bytes: u64) -> bool {
        let core = self.core();
        let slow = took.0 * BLOCK >= self.admit.slow.0 * bytes;
        let fast = core.fast.load(Relaxed);
        match slow {
            true if fast > 0 => core.fast.store(0, Relaxed),
            false if fast < SAMPLED => core.fast.store(fast + 1, Relaxed),
            _ => {}
        }
        slow
    }

    /// Copies bytes of a block from its frame; false: it has none, and the bytes mean nothing.
    fn hit(&self, frames: &Frames, seen: &mut Seen, (block, within): (u64, usize), out: &mut [u8]) -> bool {
        let Some(slot) = self.slot(block) else { return false };
        sim::work(Work::STEP, 1);
        let word = slot.load(Acquire);
        let Some(number) = number(word) else { return false };
        let Some(tags) = frames.tag(number) else { return false };
        let tag = tags.load(Acquire);
        if !is_of(tag, block) {
            return false;
        }
        sim::interact();
        if frames.read(number, within, out) {
            // Then neither slot nor tag were in a cache, but for those of which the call has used the line.
            sim::work(Work::MISS, seen.new_lines(block, number));
        }
        fence(Acquire);
        if tags.load(Relaxed) != tag {
            return false;
        }
        sim::count(&HITS, 1);
        self.count_hit(slot, word);
        true
    }

    /// Counts one hit of many, and that the frame was read.
    fn count_hit(&self, slot: &AtomicU32, word: u32) {
        let core = self.core();
        if core.fast.load(Relaxed) > 0 {
            core.fast.store(0, Relaxed);
        }
        let count = core.hits.load(Relaxed).wrapping_add(1);
        core.hits.store(count, Relaxed);
        let warms = count.is_multiple_of(SAMPLED) && word & HEAT < HEAT;
        if warms || word & READ == 0 {
            sim::work(Work::LINE_SAME_SOCKET, 1);
            // Lost if another task changes it meanwhile.
            let _ = slot.compare_exchange(word, (word | READ) + u32::from(warms), AcqRel, Relaxed);
        }
    }

    /// Counts a miss; whether the block is to get a frame.
    fn is_wanted(&self, block: u64) -> bool {
        let Some(slot) = self.made(block) else { return false };
        let word = slot.load(Acquire);
        sim::work(Work::STEP, 1);
        if word & HEAT < HEAT {
            let _ = slot.compare_exchange(word, word + 1, AcqRel, Relaxed);
        }
        number(word).is_none() && word & HEAT >= self.admit.misses.saturating_sub(1).min(HEAT)
    }

    // ---- 2: filling

    /// Gives a block a frame with these bytes, if there is one to have.
    fn fill(&self, frames: &Frames, shard: usize, block: u64, bytes: &[u8]) {
        if let Some(page) = self.frame_for(frames, shard) {
            frames.write(&page, 0, bytes);
            if self.publish(frames, shard, block, page, READ) {
                sim::count(&FILLED, 1);
            }
        }
    }

    /// A frame holds a block from now on; false, and it is free, if the block has another one.
    pub(crate) fn publish(&self, frames: &Frames, shard: usize, block: u64, page: Page, read: u32) -> bool {
        let (Some(tags), Some(slot)) = (frames.tag(page.0), self.made(block)) else { return false };
        let version = version(tags.load(Relaxed));
        tags.store(tag_of(block, version), Release);
        let own = (page.0 + 1) << NUMBER_BIT | read;
        let set =
            slot.fetch_update(AcqRel, Acquire, |word| number(word).is_none().then_some(word & HEAT | own));
        if set.is_err() {
            tags.store(given_up(tag_of(block, version)), Release);
            frames.put(shard, vec![page]);
            return false;
        }
        frames.add_cached(1);
        ran::push(&mut self.lists[shard].lock().frames, (page.0, version));
        true
    }

    /// A frame that no other task has: a free one, or one of the shard that is cold.
    fn frame_for(&self, frames: &Frames, shard: usize) -> Option<Page> {
        let mut list = self.lists[shard].lock();
        for _ in 0..TIDIED {
            list.tidy(frames);
        }
        if let Some(page) = frames.take_for_cache(shard) {
            return Some(page);
        }
        (0..LOOKS).find_map(|_| self.look(frames, &mut list, false))
    }

    // ---- 3: eviction

    /// Looks at the frame at the hand of a list, and takes it if its block is cold, or if any will do.
    fn look(&self, frames: &Frames, list: &mut List, any: bool) -> Option<Page> {
        let (number, tags, tag) = list.tidy(frames)?;
        let block = tag >> BLOCK_BIT;
        // One that is not ready is being changed.
        if tag & READY == 0 || !any && self.cools(block, number) || !self.take(tags, tag, number) {
            list.hand += 1;
            return None;
        }
        list.frames.swap_remove(list.hand);
        frames.sub_cached(1);
        sim::count(&EVICTED, 1);
        Some(Page(number))
    }

    /// Takes heat from a block that has this frame; false: it has none.
    fn cools(&self, block: u64, frame: u32) -> bool {
        let warm = |word: u32| number(word) == Some(frame) && word & HEAT > 0;
        let cool = |slot: &AtomicU32| slot.fetch_update(AcqRel, Acquire, |word| warm(word).then(|| word - 1));
        self.slot(block).is_some_and(|slot| cool(slot).is_ok())
    }

    /// Takes a frame from its block; false: another task was first.
    fn take(&self, tags: &AtomicU64, tag: u64, frame: u32) -> bool {
        if !self.rules.lacks(mutant::FRAME_REUSED_EARLY)
            && tags.compare_exchange(tag, given_up(tag), AcqRel, Relaxed).is_err()
        {
            return false;
        }
        if let Some(slot) = self.slot(tag >> BLOCK_BIT) {
            let forget = |word| (number(word) == Some(frame)).then_some(word & HEAT);
            let _ = slot.fetch_update(AcqRel, Acquire, forget);
        }
        true
    }

    /// Cached frames give way to dirty ones: frees so many, if there are.
    fn give_way(&self, frames: &Frames, shard: usize, count: u64) {
        let mut pages = Vec::new();
        for other in 0..self.lists.len() {
            let mut list = self.lists[(shard + other) % self.lists.len()].lock();
            for _ in 0..list.frames.len() {
                if pages.len() as u64 >= count {
                    break;
                }
                if let Some(page) = self.look(frames, &mut list, true) {
                    ran::push(&mut pages, page);
                }
            }
        }
        frames.put(shard, pages);
    }

    // ---- 4, 5: stores

    /// The frames of these blocks are free, and their heat is gone.
    fn drop_blocks(&self, frames: &Frames, shard: usize, blocks: Blocks) {
        if self.rules.lacks(mutant::FRAME_KEPT) {
            return;
        }
        let mut pages = Vec::new();
        for block in blocks.first..blocks.first + blocks.count {
            let Some(slot) = self.slot(block) else { continue };
            sim::work(Work::STEP, 1);
            if slot.load(Acquire) == 0 {
                continue;
            }
            let Some(number) = number(slot.swap(0, AcqRel)) else { continue };
            let Some(tags) = frames.tag(number) else { continue };
            let tag = tags.load(Acquire);
            if is_of(tag, block) && tags.compare_exchange(tag, given_up(tag), AcqRel, Relaxed).is_ok() {
                ran::push(&mut pages, Page(number));
            }
        }
        frames.sub_cached(pages.len() as u64);
        frames.put(shard, pages);
    }

    /// A block holds these bytes from `within` on; the caller has its file alone.
    fn stored_block(&self, frames: &Frames, shard: usize, (block, within): (u64, usize), bytes: &[u8]) {
        let Some(slot) = self.slot(block) else { return };
        sim::work(Work::STEP, 1);
        let word = slot.load(Acquire);
        let Some(number) = number(word) else { return };
        let Some(tags) = frames.tag(number) else { return };
        let tag = tags.load(Acquire);
        if word & READ == 0
            || !is_of(tag, block)
            || tags.compare_exchange(tag, tag & !READY, AcqRel, Relaxed).is_err()
        {
            return self.drop_blocks(frames, shard, Blocks { first: block, count: 1 });
        }
        frames.write(&Page(number), within, bytes);
        tags.store(tag, Release);
        slot.fetch_and(!READ, AcqRel);
    }
}

impl Follower for Cache {
    fn stored(&self, store: &Store, at: u64, bytes: &[u8]) {
        if self.rules.lacks(mutant::FRAME_KEPT) {
            return;
        }
        let (mut done, shard) = (0, store.shard());
        while done < bytes.len() {
            let (block, within) = ((at + done as u64) / BLOCK, ((at + done as u64) % BLOCK) as usize);
            let len = (BLOCK as usize - within).min(bytes.len() - done);
            self.stored_block(&store.frames, shard, (block, within), &bytes[done..done + len]);
            done += len;
        }
    }

    fn freed(&self, store: &Store, blocks: Blocks) {
        self.drop_blocks(&store.frames, store.shard(), blocks);
    }

    /// It is read as often there.
    fn moved(&self, old: u64, new: u64) {
        let was_read = |slot: &AtomicU32| {
            let word = slot.load(Acquire);
            number(word).is_some() && word & READ != 0
        };
        if self.slot(old).is_some_and(was_read)
            && let Some(slot) = self.made(new)
        {
            let heat = self.admit.misses.min(HEAT);
            // A clone has a block that may have a frame.
            let _ = slot.fetch_update(AcqRel, Acquire, |word| number(word).is_none().then_some(heat));
        }
    }
}

impl List {
    /// The frame at the hand, with its tag; none, and it is not in the list any more, if it has another use.
    fn tidy<'f>(&mut self, frames: &'f Frames) -> Option<(u32, &'f AtomicU64, u64)> {
        sim::work(Work::STEP, 1);
        if self.hand >= self.frames.len() {
            self.hand = 0;
        }
        let (number, listed) = *self.frames.get(self.hand)?;
        let found = frames.tag(number).map(|tags| (number, tags, tags.load(Acquire)));
        let found = found.filter(|(.., tag)| version(*tag) == listed);
        if found.is_none() {
            self.frames.swap_remove(self.hand);
        }
        found
    }
}

/// The miss that gives a block a frame: one that follows as many as hits are worth the copy into a frame. None: the medium is about
/// as fast as DRAM, or the clock is real.
fn measured(region: &Region, geometry: &Geometry) -> Option<Admitted> {
    // A real load takes what this program adds to it, too, which says nothing of the medium.
    if sim::clock() == Clock::Real {
        return None;
    }
    let blocks = u64::from(geometry.zones) * u64::from(geometry.zone_blocks());
    let mut bytes = [0; BLOCK as usize];
    let (mut medium, mut dram) = (Nanos::ZERO, Nanos::ZERO);
    let timed = |load: &mut dyn FnMut()| {
        let since = sim::now();
        load();
        Nanos(sim::now().since(since).0)
    };
    for load in 0..LOADS {
        let at = (geometry.block_at(0, 0) + load * blocks / LOADS) * BLOCK;
        // What cannot be read says nothing of the time.
        medium += timed(&mut || _ = region.load(at, &mut bytes));
        dram += timed(&mut || _ = sim::copy_from(&Recency::new(), BLOCK));
    }
    let gain = medium.0.saturating_sub(dram.0);
    if gain == 0 || 10 * medium.0 < RATIO_TENTHS * dram.0 {
        return None;
    }
    let misses = 1 + dram.0.div_ceil(gain).clamp(1, u64::from(HEAT)) as u32;
    Some(Admitted { misses, slow: Nanos(RATIO_TENTHS * dram.0 / (10 * LOADS)) })
}

impl Index {
    /// Reads bytes of a run of written blocks, those that have frames from these.
    pub(crate) fn read_run(
        &self,
        file: &State,
        run: &Run,
        place: Place,
        start: u64,
        out: &mut [u8],
    ) -> Result<()> {
        let Some(cache) = self.cache.as_ref().filter(|cache| cache.looks()) else {
            return self.load_run(file, run, place, start, out);
        };
        let end = start + out.len() as u64;
        let part = |from: u64, to: u64| (from - start) as usize..(to - start) as usize;
        let (mut done, mut seen) = (start, Seen::default());
        for block in start / BLOCK..end.div_ceil(BLOCK) {
            let (from, to) = (start.max(block * BLOCK), end.min((block + 1) * BLOCK));
            let medium = place.block + block - run.file;
            if cache.hit(&self.frames, &mut seen, (medium, (from % BLOCK) as usize), &mut out[part(from, to)])
            {
                self.read_missed(cache, file, (run, place), done, &mut out[part(done, from)])?;
                done = to;
            }
        }
        self.read_missed(cache, file, (run, place), done, &mut out[part(done, end)])
    }

    /// Loads bytes of a run of written blocks from the medium.
    fn load_run(&self, file: &State, run: &Run, place: Place, start: u64, out: &mut [u8]) -> Result<()> {
        let at = place.block * BLOCK + start - run.file * BLOCK;
        let tell =
            |error: &_| self.losses.tell(&format!("inode {}: from byte {start} on: {error}", file.ino));
        self.region.load(at, out).inspect_err(tell)?;
        self.compare_run(file, run, start, out)
    }

    /// Reads bytes that have no frames, and gives frames to those blocks that were missed often.
    fn read_missed(
        &self,
        cache: &Cache,
        file: &State,
        (run, place): (&Run, Place),
        start: u64,
        out: &mut [u8],
    ) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        let (since, end) = (sim::now(), start + out.len() as u64);
        self.load_run(file, run, place, start, out)?;
        if cache.admit.slow > Nanos::ZERO {
            // The clock was read twice.
            sim::work(Work::STEP, 2);
        }
        if !cache.is_slow(Nanos(sim::now().since(since).0), out.len() as u64) {
            return Ok(());
        }
        for block in start / BLOCK..end.div_ceil(BLOCK) {
            let medium = place.block + block - run.file;
            if !cache.is_wanted(medium) {
                continue;
            }
            let known = (block * BLOCK).checked_sub(start).map(|from| &out[from as usize..]);
            let known = known.map(|bytes| &bytes[..bytes.len().min(BLOCK as usize)]);
            // Nothing reads what follows the end, before a call has stored to it; but another file's end may be a later one.
            let ends = end == file.size && !file.is_dirty() && self.zones.references(medium) == 1;
            if let Some(bytes) = known.filter(|bytes| ends || bytes.len() == BLOCK as usize) {
                cache.fill(&self.frames, self.shard(), medium, bytes);
                continue;
            }
            let mut bytes = [0; BLOCK as usize];
            if self.region.load(medium * BLOCK, &mut bytes).is_ok() {
                cache.fill(&self.frames, self.shard(), medium, &bytes);
            }
        }
        Ok(())
    }

    /// The cache, if frames that are settled may stay as cached ones.
    pub(crate) fn keeping(&self) -> Option<&Cache> {
        self.cache.as_ref().filter(|_| self.frames.has_plenty())
    }

    /// Takes frames for what is dirty; none if so many cannot be had.
    pub(crate) fn take_frames(&self, count: u64) -> Option<Vec<Page>> {
        let shard = self.shard();
        let taken = self.frames.take(shard, count);
        let Some(cache) = self.cache.as_ref().filter(|_| self.frames.has_cached()) else { return taken };
        if taken.is_none() || self.frames.is_short() {
            cache.give_way(&self.frames, shard, count + self.frames.missing());
        }
        taken.or_else(|| self.frames.take(shard, count))
    }
}
