//! Frames: pages of DRAM that hold what a file has and the medium lacks, under `sync=fsync`.
//!
//! # States of a block of a file
//!
//! All transitions are made with the inode locked for writing, so no reader sees one half done. The numbers are those of the
//! specification; what it says of clean frames and of blocks in flight is not here: a frame that is written back is free.
//!
//! | # | from | to | by | |
//! |---|---|---|---|---|
//! | 6 | hole, reserved, on the medium | dirty | a write | frame and new block are taken, or only what follows the end |
//! | 7 | dirty | dirty | a write | in the frame |
//! | 9 | dirty | on the medium | what settles the file | bytes stored to the block, FENCE, record, FENCE; the frame is free |
//! | 11 | dirty | dirty | the same | a store is refused, or the log is full: both stay, the next sync tries again |
//! | 12 | dirty | hole | truncation, removal | after the cut is durable, or with the inode; the frame and its block are free |
//!
//! # Which frame, and how many
//!
//! A mount has a fixed number of frames. Each shard has some of the right to use them, and takes more from what all share, a batch
//! at a time; so tasks of different cores meet in one line for a batch, not for a frame. The pages move with the right: there
//! are never more than the limit.
//!
//! Each shard has a list of the files with frames that its tasks wrote first, by last write. A file stands there as a whole. A
//! write notes its time in the file alone: write-back looks at that, and gives a file that was written since it was listed another
//! round (`writeback.rs`).
//!
//! # Lock order
//!
//! `crest.inode`, then `crest.frames` of one shard, then `crest.frame_pool`, which is a leaf.

use sim::map::TreeSet;
use sim::{Condvar, JoinHandle, LockClass, Mutex, MutexGuard, Nanos, PAGE_BYTES, Work, ran};

use crate::persist::lrw::{EntryId, Lrw};
use crate::persist::page::Page;

pub(super) static FRAMES: LockClass = LockClass::new("crest.frames");
pub(super) static FRAME_POOL: LockClass = LockClass::new("crest.frame_pool");
pub(super) static TASKS: LockClass = LockClass::new("crest.tasks");
pub(super) static WRITEBACK_IDLE: LockClass = LockClass::new("crest.writeback_idle");

/// Most frames to which a shard takes the right at a time.
const BATCH_MAX: u64 = 64;
/// So many batches a shard are the limit: what shards have and do not use is at most an eighth of the frames.
const BATCHES: u64 = 16;
/// Share of the frames below which write-back starts when fewer are free (HiNFS, section 3.2).
const LOW: f64 = 0.05;
/// Share of the frames above which it ends (the same).
const HIGH: f64 = 0.20;

/// Where a file stands: shard, entry of its list.
pub(super) type Listed = (usize, EntryId);

/// How a mount uses frames.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settings {
    /// Frames; 0: every write is durable on return.
    pub(super) limit: u64,
    /// Files that were not written for this long are written back.
    pub(super) dirty_age: Nanos,
    /// How often write-back looks for these.
    pub(super) wake: Nanos,
}

/// What one shard has.
struct Shard {
    /// Frames that it may use.
    rights: u64,
    /// Pages for some of them.
    spare: Vec<Page>,
    /// Files with frames.
    files: Lrw<u64>,
}

/// What all shards share.
pub(super) struct Shared {
    /// Frames to which no shard has the right.
    free: u64,
    /// Pages for some of them.
    spare: Vec<Page>,
    /// Fewer than `low` were free, and not more than `high` are yet.
    pub(super) reclaims: bool,
    /// Files that were not written for long are being looked for.
    pub(super) ages: bool,
    /// When these are looked for next.
    pub(super) next_round: Nanos,
    pub(super) stop: bool,
}

/// All frames of a mount.
pub(super) struct Frames {
    pub(super) settings: Settings,
    low: u64,
    high: u64,
    batch: u64,
    shards: Box<[Mutex<Shard>]>,
    shared: Mutex<Shared>,
    /// Write-back is wanted.
    wanted: Condvar,
    pub(super) tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Frames {
    pub(super) fn new(settings: Settings, shards: usize) -> Self {
        let limit = settings.limit;
        let share = |fraction: f64| ((limit as f64 * fraction) as u64).max(1);
        let shard = |_| Mutex::new(&FRAMES, Shard { rights: 0, spare: Vec::new(), files: Lrw::new() });
        let shared = Shared {
            free: limit,
            spare: Vec::new(),
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
            shards: (0..shards).map(shard).collect(),
            shared: Mutex::new(&FRAME_POOL, shared),
            wanted: Condvar::of_class(&WRITEBACK_IDLE),
            tasks: Mutex::new(&TASKS, Vec::new()),
        }
    }

    /// Whether writes may be buffered at all.
    pub(super) fn are_used(&self) -> bool {
        self.settings.limit > 0
    }

    pub(super) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Takes `count` frames, whose bytes are those of their last use; none if so many are not free.
    pub(super) fn take(&self, shard: usize, count: u64) -> Option<Vec<Page>> {
        let mut own = self.shards[shard].lock();
        sim::work(Work::STEP, 1);
        if own.rights < count && !self.refill(&mut own, count) {
            return None;
        }
        own.rights -= count;
        let kept = own.spare.len().saturating_sub(count as usize);
        let mut pages = ran::collected(own.spare.drain(kept..));
        drop(own);
        while (pages.len() as u64) < count {
            ran::push(&mut pages, Page::new());
        }
        Some(pages)
    }

    /// Gives a shard the right to `count` frames; false if so many are not free.
    fn refill(&self, own: &mut Shard, count: u64) -> bool {
        let mut shared = self.shared.lock();
        let missing = count - own.rights;
        let more = shared.free.min(missing.max(self.batch));
        if more >= missing {
            shared.free -= more;
            own.rights += more;
            let kept = shared.spare.len().saturating_sub(more as usize);
            ran::extend(&mut own.spare, shared.spare.drain(kept..));
        }
        if shared.free < self.low && !shared.reclaims {
            shared.reclaims = true;
            self.wanted.notify_one();
        }
        more >= missing
    }

    /// Takes frames back.
    pub(super) fn put(&self, shard: usize, pages: Vec<Page>) {
        if pages.is_empty() {
            return;
        }
        let mut own = self.shards[shard].lock();
        sim::work(Work::STEP, 1);
        own.rights += pages.len() as u64;
        ran::extend(&mut own.spare, pages);
        if own.rights <= 2 * self.batch {
            return;
        }
        let surplus = own.rights - self.batch;
        own.rights -= surplus;
        let kept = own.spare.len().saturating_sub(surplus as usize);
        let mut shared = self.shared.lock();
        shared.free += surplus;
        ran::extend(&mut shared.spare, own.spare.drain(kept..));
        if shared.free > self.high {
            shared.reclaims = false;
        }
    }

    // ---- files with frames

    /// Lists a file that has got its first frame.
    pub(super) fn list(&self, shard: usize, ino: u64) -> Listed {
        let mut own = self.shards[shard].lock();
        sim::work(Work::STEP, 1);
        (shard, own.files.add(ino, sim::now()))
    }

    /// Forgets a file that has no frame any more.
    pub(super) fn unlist(&self, (shard, entry): Listed) {
        let mut own = self.shards[shard].lock();
        sim::work(Work::STEP, 1);
        own.files.remove(entry);
    }

    /// Lists a file again that was chosen: it was written last at this time.
    pub(super) fn list_again(&self, (shard, entry): Listed, written: Nanos) {
        self.shards[shard].lock().files.touch(entry, written);
    }

    /// Takes the file of a shard's list that was written first, if that was before a time; it stays listed until
    /// [`Frames::unlist`], but is not chosen again before [`Frames::list_again`]. Its number, when it was listed, and whether there
    /// are more.
    pub(super) fn choose(&self, shard: usize, before: Nanos) -> Option<(Listed, u64, Nanos, bool)> {
        let mut own = self.shards[shard].lock();
        sim::work(Work::STEP, 1);
        let (entry, ino, written) = own.files.oldest().filter(|(_, _, written)| *written < before)?;
        own.files.take_oldest();
        Some(((shard, entry), ino, written, own.files.len() > 0))
    }

    /// All files with frames.
    pub(super) fn files(&self) -> TreeSet<u64> {
        let mut files = TreeSet::new();
        for shard in &self.shards {
            shard.lock().files.add_owners(&mut files, |ino| *ino);
        }
        files
    }

    // ---- write-back

    pub(super) fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock()
    }

    /// Wakes another task that writes back: there is more to do.
    pub(super) fn pass_on(&self) {
        self.wanted.notify_one();
    }

    /// Waits until write-back is wanted, or the next round is due.
    pub(super) fn wait_for_work<'a>(&self, shared: MutexGuard<'a, Shared>) -> MutexGuard<'a, Shared> {
        let left = Nanos(shared.next_round.0.saturating_sub(sim::now().0).max(1));
        self.wanted.wait_timeout(shared, left).0
    }

    /// Ends the tasks that write back.
    pub(super) fn stop(&self) {
        self.shared.lock().stop = true;
        self.wanted.notify_all();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.into_iter().for_each(JoinHandle::join);
    }
}

/// What the block to which a frame will be written was taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
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
pub(super) struct Frame {
    page: Page,
    /// The first byte that it holds; what the file has before lies on the medium.
    from: usize,
    /// The block of the medium to which it will be written.
    pub(super) target: u64,
    pub(super) taken: Taken,
}

impl Frame {
    pub(super) fn new(page: Page, from: usize, target: u64, taken: Taken) -> Self {
        Self { page, from, target, taken }
    }

    /// The first byte that it holds.
    pub(super) fn from(&self) -> usize {
        self.from
    }

    /// Bytes of it, for a store to the medium.
    pub(super) fn bytes(&self, range: std::ops::Range<usize>) -> &[u8] {
        &self.page.bytes()[range]
    }

    /// Copies bytes of it from `within` on.
    pub(super) fn read(&self, within: usize, out: &mut [u8]) {
        out.copy_from_slice(&self.page.bytes()[within..within + out.len()]);
        self.page.charge_copy_out(out.len());
    }

    /// Copies bytes to it.
    pub(super) fn write(&mut self, within: usize, data: &[u8]) {
        self.page.bytes_mut()[within..within + data.len()].copy_from_slice(data);
        self.page.charge_copy_in(data.len());
    }

    /// Zeroes bytes of it.
    pub(super) fn zero(&mut self, range: std::ops::Range<usize>) {
        self.page.charge_copy_in(range.len());
        self.page.bytes_mut()[range].fill(0);
    }

    /// Its page, for bytes of the medium.
    pub(super) fn page_mut(&mut self) -> &mut [u8; PAGE_BYTES] {
        self.page.bytes_mut()
    }

    /// It holds the bytes before those that it held, too, and goes to a block of its own.
    pub(super) fn widen(&mut self, target: u64) {
        (self.from, self.target, self.taken) = (0, target, Taken::Instead);
    }

    pub(super) fn into_page(self) -> Page {
        self.page
    }
}
