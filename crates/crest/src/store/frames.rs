//! Frames: pages of DRAM. Dirty ones hold what a file has and the medium lacks, under `sync=fsync`; cached ones what is read often
//! (`cache.rs`). Those of files that are mapped with `mmap=atomic` are taken and given back with the others, and are in no list of
//! this page (`mapped_atomic.rs`).
//!
//! # States of a block of a file
//!
//! All transitions are made with the inode locked for writing, so no reader sees one half done. The numbers are those of the
//! specification; what it says of blocks in flight is not here.
//!
//! | # | from | to | by | |
//! |---|---|---|---|---|
//! | 6 | hole, reserved, on the medium | dirty | a write | frame and new block are taken, or only what follows the end |
//! | 7 | dirty | dirty | a write | in the frame |
//! | 9 | dirty | on the medium, or cached | what settles the file | bytes stored to the block, FENCE, record, FENCE |
//! | 11 | dirty | dirty | the same | a store is refused, or the log is full: both stay, the next sync tries again |
//! | 12 | dirty | hole | truncation, removal | after the cut is durable, or with the inode; the frame and its block are free |
//!
//! # Which frame, and how many
//!
//! A mount has a fixed number of frames, one range of memory for those of this page and for cached ones (`cache.rs`). Each shard
//! has some free ones, and takes more from what all share, a batch at a time; so tasks of different cores meet in one line for a
//! batch, not for a frame. Cached frames leave a fifth of all for dirty ones, and give way when fewer are free.
//!
//! Each shard has a list of the files with dirty frames that its tasks wrote first, by last write. A file stands there as a whole.
//! A write notes its time in the file alone: write-back looks at that, and gives a file that was written since it was listed
//! another round (`writeback.rs`).
//!
//! # Lock order
//!
//! `crest.inode`, then `crest.frames` of one shard, then `crest.frame_pool`, which is a leaf.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{self, Ordering::Relaxed, Ordering::Release};

use media::nvmm::Region;
use media::{MediaError, Memory};
use sim::map::TreeSet;
use sim::sync::AtomicU64;
use sim::{Bytes, Condvar, JoinHandle, Mutex, MutexGuard, Nanos, Recency, Work, ran};

use crate::format::layout::BLOCK;
use crate::locks;
use base::persist::lrw::{EntryId, Lrw};
use base::persist::slot_table::SlotTable;

/// Most frames that a shard takes at a time.
const BATCH_MAX: u64 = 64;
/// So many batches a shard are the limit: what shards have and do not use is at most an eighth of the frames.
const BATCHES: u64 = 16;
/// Share of the frames below which write-back starts when fewer are free (HiNFS, section 3.2).
const LOW: f64 = 0.05;
/// Share of the frames above which it ends (the same).
const HIGH: f64 = 0.20;
/// Frames whose tags are made together.
const TAGS: u64 = 64;
/// Frames, at most: numbers of 26 bits (`cache.rs`).
pub(crate) const MOST: u64 = (1 << 26) - 1;

/// Where a file stands: shard, entry of its list.
pub(crate) type Listed = (usize, EntryId);

/// How a mount uses frames.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    /// Frames.
    pub(crate) limit: u64,
    /// Whether writes go to frames, if there are any; otherwise every write is durable on return.
    pub(crate) lazy: bool,
    /// Files that were not written for this long are written back.
    pub(crate) dirty_age: Nanos,
    /// How often write-back looks for these.
    pub(crate) wake: Nanos,
}

impl Settings {
    /// Frames that may be dirty.
    pub(crate) fn dirty(&self) -> u64 {
        if self.lazy { self.limit } else { 0 }
    }
}

/// A frame that has one user.
#[derive(Debug)]
pub(crate) struct Page(pub(crate) u32);

/// What one shard has.
struct Shard {
    /// Free frames.
    spare: Vec<Page>,
    /// Files with frames.
    files: Lrw<u64>,
}

/// The frames that no shard has, and what write-back is to do.
pub(crate) struct FramePool {
    /// Free frames that no shard has.
    free: Vec<Page>,
    /// The frames that were never used.
    unused: Range<u32>,
    /// Fewer than `low` were free, and not more than `high` are yet.
    pub(crate) reclaims: bool,
    /// Files that were not written for long are being looked for.
    pub(crate) ages: bool,
    /// When these are looked for next.
    pub(crate) next_round: Nanos,
    pub(crate) stop: bool,
}

impl FramePool {
    fn free(&self) -> u64 {
        self.free.len() as u64 + self.unused.len() as u64
    }
}

/// All frames of a mount.
pub(crate) struct Frames {
    pub(crate) settings: Settings,
    low: u64,
    high: u64,
    batch: u64,
    /// Their bytes, of which the host gives what is used; none: it has no room.
    memory: OnceLock<Option<Memory>>,
    /// Frames that are cached, and whether these have to give way. Hints.
    cached: atomic::AtomicU64,
    short: atomic::AtomicBool,
    /// What each holds that is cached, see `cache.rs`.
    tags: SlotTable<AtomicU64>,
    /// Whether the processor's caches have its bytes.
    recencies: SlotTable<Recency>,
    shards: Box<[Mutex<Shard>]>,
    pool: Mutex<FramePool>,
    /// Write-back is wanted.
    wanted: Condvar,
    pub(crate) tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Frames {
    pub(crate) fn new(settings: Settings, shards: usize) -> Self {
        let limit = settings.limit;
        let share = |fraction: f64| ((limit as f64 * fraction) as u64).max(1);
        let shard = |_| Mutex::new(&locks::FRAMES, Shard { spare: Vec::new(), files: Lrw::new() });
        let pool = FramePool {
            free: Vec::new(),
            unused: 0..limit as u32,
            reclaims: false,
            ages: false,
            next_round: Nanos::ZERO,
            stop: false,
        };
        Self {
            settings,
            low: share(LOW),
            high: share(HIGH),
            batch: (limit / (BATCHES * shards as u64)).clamp(1, BATCH_MAX),
            memory: OnceLock::new(),
            cached: atomic::AtomicU64::new(0),
            short: atomic::AtomicBool::new(false),
            tags: SlotTable::new(limit.div_ceil(TAGS), TAGS),
            recencies: SlotTable::new(limit.div_ceil(TAGS), TAGS),
            shards: (0..shards).map(shard).collect(),
            pool: Mutex::new(&locks::FRAME_POOL, pool),
            wanted: Condvar::of_class(&locks::WRITEBACK_IDLE),
            tasks: Mutex::new(&locks::TASKS, Vec::new()),
        }
    }

    /// Whether writes may be buffered at all.
    pub(crate) fn are_used(&self) -> bool {
        self.settings.dirty() > 0
    }

    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Takes `count` frames for what is dirty, whose bytes are those of their last use; none if so many are not free.
    pub(crate) fn take(&self, shard: usize, count: u64) -> Option<Vec<Page>> {
        self.take_beside(shard, count, 0)
    }

    /// Takes a frame for the cache, unless those that are free are kept for what is dirty.
    pub(crate) fn take_for_cache(&self, shard: usize) -> Option<Page> {
        self.take_beside(shard, 1, if self.settings.lazy { self.high } else { 0 })?.pop()
    }

    /// Takes `count` frames, and leaves so many of those that shards share.
    fn take_beside(&self, shard: usize, count: u64, kept: u64) -> Option<Vec<Page>> {
        let mut own = self.shards[shard].lock();
        sim::work(Work::STEP, 1);
        if (own.spare.len() as u64) < count && !self.refill(&mut own, count, kept) {
            return None;
        }
        let rest = own.spare.len() - count as usize;
        Some(ran::collected(own.spare.drain(rest..)))
    }

    /// Gives a shard frames until it has `count`; false if so many are not free.
    fn refill(&self, own: &mut Shard, count: u64, kept: u64) -> bool {
        if self.memory.get_or_init(|| Memory::new(Bytes(self.settings.limit * BLOCK)).ok()).is_none() {
            return false;
        }
        let mut pool = self.pool.lock();
        let missing = count - own.spare.len() as u64;
        let more = pool.free().saturating_sub(kept).min(missing.max(self.batch));
        let grants = more >= missing;
        if grants {
            let rest = pool.free.len().saturating_sub(more as usize);
            let before = own.spare.len();
            ran::extend(&mut own.spare, pool.free.drain(rest..));
            let unused = more - (own.spare.len() - before) as u64;
            for number in pool.unused.by_ref().take(unused as usize) {
                self.tags.add_chunk(u64::from(number) / TAGS, |_| AtomicU64::new(0));
                self.recencies.add_chunk(u64::from(number) / TAGS, |_| Recency::new());
                ran::push(&mut own.spare, Page(number));
            }
        }
        if kept == 0 && self.settings.lazy && pool.free() < self.low {
            if self.has_cached() {
                self.short.store(true, Relaxed);
            } else if !pool.reclaims {
                pool.reclaims = true;
                self.wanted.notify_one();
            }
        }
        grants
    }

    /// Takes frames back.
    pub(crate) fn put(&self, shard: usize, pages: Vec<Page>) {
        if pages.is_empty() {
            return;
        }
        let mut own = self.shards[shard].lock();
        sim::work(Work::STEP, 1);
        ran::extend(&mut own.spare, pages);
        let has = own.spare.len() as u64;
        if has <= 2 * self.batch {
            return;
        }
        let mut pool = self.pool.lock();
        ran::extend(&mut pool.free, own.spare.drain(self.batch as usize..));
        if pool.free() > self.high {
            pool.reclaims = false;
        }
    }

    /// So many frames more are cached.
    pub(crate) fn add_cached(&self, count: u64) {
        self.cached.fetch_add(count, Relaxed);
    }

    /// So many frames fewer are cached.
    pub(crate) fn sub_cached(&self, count: u64) {
        self.cached.fetch_sub(count, Relaxed);
    }

    pub(crate) fn has_cached(&self) -> bool {
        self.cached.load(Relaxed) > 0
    }

    /// Whether cached frames have to give way, since this was asked last.
    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Relaxed) && self.short.swap(false, Relaxed)
    }

    /// Whether cached frames may be kept.
    pub(crate) fn has_plenty(&self) -> bool {
        self.pool.lock().free() > self.high
    }

    /// How many frames are missing until write-back has nothing to do.
    pub(crate) fn missing(&self) -> u64 {
        self.high.saturating_sub(self.pool.lock().free())
    }

    // ---- bytes

    /// The tag of a frame that was used once.
    pub(crate) fn tag(&self, number: u32) -> Option<&AtomicU64> {
        self.tags.get(u64::from(number))
    }

    /// The memory of a frame, and where its byte `within` is there.
    fn place(&self, number: u32, within: usize) -> (&Memory, u64) {
        let memory = self.memory.get().and_then(Option::as_ref);
        (memory.expect("a frame has memory"), u64::from(number) * BLOCK + within as u64)
    }

    /// Copies bytes of a frame out, of which another task may be making something else; whether they come from no cache.
    pub(crate) fn read(&self, number: u32, within: usize, out: &mut [u8]) -> bool {
        let recency = self.recencies.get(u64::from(number));
        let far = recency.is_none_or(|recency| sim::copy_from(recency, out.len() as u64));
        let (memory, at) = self.place(number, within);
        memory.read_words(at, out).expect("bytes of a frame");
        far
    }

    /// Copies bytes to a frame.
    pub(crate) fn write(&self, page: &Page, within: usize, data: &[u8]) {
        if let Some(recency) = self.recencies.get(page.0.into()) {
            sim::copy_to(recency, data.len() as u64);
        }
        self.fill(page, within, data);
    }

    /// Zeroes bytes of a frame.
    pub(crate) fn zero(&self, page: &Page, range: Range<usize>) {
        self.write(page, range.start, &[0; BLOCK as usize][..range.len()]);
    }

    /// Puts bytes into a frame that the caller has loaded from the medium, which charges for the copy.
    pub(crate) fn fill(&self, page: &Page, within: usize, bytes: &[u8]) {
        // A reader that finds one of these bytes finds the tag changed that was before.
        atomic::fence(Release);
        let (memory, at) = self.place(page.0, within);
        memory.write_words(at, bytes).expect("bytes of a frame");
    }

    /// Loads bytes of a frame from the medium.
    pub(crate) fn load(
        &self,
        region: &Region,
        page: &Page,
        at: u64,
        range: Range<usize>,
    ) -> Result<(), MediaError> {
        let mut bytes = [0; BLOCK as usize];
        let bytes = &mut bytes[..range.len()];
        region.load(at, bytes)?;
        self.fill(page, range.start, bytes);
        Ok(())
    }

    /// The bytes of a frame from `within` on, for a store to the medium, which charges for the copy.
    pub(crate) fn bytes(&self, page: &Page, within: usize, out: &mut [u8]) {
        let (memory, at) = self.place(page.0, within);
        memory.read(at, out).expect("bytes of a frame");
    }

    // ---- files with frames

    /// Lists a file that has got its first frame.
    pub(crate) fn list(&self, shard: usize, ino: u64) -> Listed {
        let mut own = self.shards[shard].lock();
        sim::work(Work::STEP, 1);
        (shard, own.files.add(ino, sim::now()))
    }

    /// Forgets a file that has no frame any more.
    pub(crate) fn unlist(&self, (shard, entry): Listed) {
        let mut own = self.shards[shard].lock();
        sim::work(Work::STEP, 1);
        own.files.remove(entry);
    }

    /// Lists a file again that was chosen: it was written last at this time.
    pub(crate) fn list_again(&self, (shard, entry): Listed, written: Nanos) {
        self.shards[shard].lock().files.touch(entry, written);
    }

    /// Takes the file of a shard's list that was written first, if that was before a time; it stays listed until
    /// [`Frames::unlist`], but is not chosen again before [`Frames::list_again`]. Its number, when it was listed, and whether there
    /// are more.
    pub(crate) fn choose(&self, shard: usize, before: Nanos) -> Option<(Listed, u64, Nanos, bool)> {
        let mut own = self.shards[shard].lock();
        sim::work(Work::STEP, 1);
        let (entry, ino, written) = own.files.oldest().filter(|(_, _, written)| *written < before)?;
        own.files.take_oldest();
        Some(((shard, entry), ino, written, !own.files.is_empty()))
    }

    /// All files with frames.
    pub(crate) fn files(&self) -> TreeSet<u64> {
        let mut files = TreeSet::new();
        for shard in &self.shards {
            shard.lock().files.add_owners(&mut files, |ino| *ino);
        }
        files
    }

    // ---- write-back

    pub(crate) fn pool(&self) -> MutexGuard<'_, FramePool> {
        self.pool.lock()
    }

    /// Wakes another task that writes back: there is more to do.
    pub(crate) fn pass_on(&self) {
        self.wanted.notify_one();
    }

    /// Waits until write-back is wanted, or the next round is due.
    pub(crate) fn wait_for_work<'a>(&self, pool: MutexGuard<'a, FramePool>) -> MutexGuard<'a, FramePool> {
        let left = Nanos(pool.next_round.0.saturating_sub(sim::now().0).max(1));
        self.wanted.wait_timeout(pool, left).0
    }

    /// Ends the tasks that write back.
    pub(crate) fn stop(&self) {
        self.pool.lock().stop = true;
        self.wanted.notify_all();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.into_iter().for_each(JoinHandle::join);
    }
}

/// What the block to which a frame will be written was taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Nothing: the file has it already.
    Not,
    /// A block that the file does not have.
    ForHole,
    /// Another one, which is free when the frame is settled.
    Instead,
    /// Another one, which another file has, too.
    Beside,
}

/// A dirty block of a file.
pub(crate) struct Frame {
    page: Page,
    /// The first byte that it holds; what the file has before lies on the medium.
    from: usize,
    /// The block of the medium to which it will be written.
    pub(crate) target: u64,
    pub(crate) taken: Taken,
}

impl Frame {
    pub(crate) fn new(page: Page, from: usize, target: u64, taken: Taken) -> Self {
        Self { page, from, target, taken }
    }

    /// The first byte that it holds.
    pub(crate) fn from(&self) -> usize {
        self.from
    }

    /// Where its bytes are.
    pub(crate) fn page(&self) -> &Page {
        &self.page
    }

    /// It holds the bytes before those that it held, too, and goes to a block of its own.
    pub(crate) fn widen(&mut self, target: u64) {
        (self.from, self.target, self.taken) = (0, target, Taken::Instead);
    }

    pub(crate) fn into_page(self) -> Page {
        self.page
    }
}
