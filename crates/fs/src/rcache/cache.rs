//! Reads, and what changes of pages do to the cache. The copier is in `copier.rs`.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use media::{Memory, Region};
use sim::map::TreeMap;
use sim::sync::{AtomicBool, Ordering};
use sim::{
    Bytes, Condvar, Count, JoinHandle, Line, LockClass, Mutex, Nanos, PAGE_BYTES, TaskSpec, Work, ran,
};

use super::copier::Frames;
use super::entry::{Doomed, Entry};
use super::frame::Frame;
use super::ring::Ring;
use super::table::{FileTable, Set, Way};
use super::word::State;
use crate::nova::{Blocks, CachedFile, PageCache};
use base::error::Result;
use base::persist::slot_table::SlotTable;
use design::Mutant;

pub(super) static ASLEEP: LockClass = LockClass::new("rcache.asleep").under(&[&crate::nova::inode::INODE]);
pub(super) static FILES: LockClass = LockClass::new("rcache.files").under(&[&crate::nova::inode::INODE]);
pub(super) static FRAMES: LockClass = LockClass::new("rcache.frames").under(&[&crate::nova::inode::INODE]);
pub(super) static COPIER: LockClass = LockClass::new("rcache.copier");
pub(super) static REQUESTS: LockClass =
    LockClass::of_lines("rcache.requests", "the tail of the queue of pages that the copier is to copy");

pub(super) const BLOCK: u64 = PAGE_BYTES as u64;
/// Frames that are made together.
pub(super) const FRAMES_AT_ONCE: u64 = 64;
/// How long one waits that waits for a copy, before it looks again: about as long as a page takes.
const COPY_TIME: Nanos = Nanos(1_000);
/// The coarse clock of the last use.
const TICK_NS: u64 = 1_000_000;

/// The parameters that the paper leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// A page is inserted when it was read more often than this in a window.
    pub(crate) threshold: u32,
    pub(crate) window: Nanos,
    /// The most frames.
    pub(crate) frames: u64,
    /// Requests that the copier's queue holds.
    pub(crate) queue: usize,
    /// How long the copier sleeps that has found nothing to do, for a start.
    pub(crate) poll: Nanos,
    /// The seeded bug.
    pub(crate) mutant: Option<Mutant>,
}

/// An entry that waits to be filled: its file, its place, its version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) inode: u64,
    pub(super) page: u64,
    pub(super) way: usize,
    pub(super) version: u64,
}

impl Request {
    /// Bits of a place in a set.
    const WAY_BITS: u32 = 8;

    fn to_words(self) -> [u64; 3] {
        [self.inode, self.page, self.version << Self::WAY_BITS | self.way as u64]
    }

    pub(super) fn of_words([inode, page, rest]: [u64; 3]) -> Self {
        let way = (rest & ((1 << Self::WAY_BITS) - 1)) as usize;
        Self { inode, page, way, version: rest >> Self::WAY_BITS }
    }
}

/// What happened, by kind: [`COUNTED`] names them. Cores count in lines of their own, which they need not take from each other.
#[derive(Default)]
#[repr(align(64))]
struct Counters([AtomicU64; COUNTED.len()]);

const COUNTED: [&str; 5] =
    ["cache hits", "cache misses", "pages copied", "pages invalidated", "pages evicted"];
/// The same in the ledger, so that a result says what the cache did in its window.
static IN_LEDGER: [Count; COUNTED.len()] = [
    Count::new("rcache.hits", "pages", "reads of a page that its copy in DRAM has served"),
    Count::new("rcache.misses", "pages", "reads of a page that the medium has served"),
    Count::new("rcache.copied", "pages", "copied into DRAM by the copier"),
    Count::new(
        "rcache.invalidated",
        "pages",
        "copies, or requests for one, that a change of the page has ended",
    ),
    Count::new("rcache.evicted", "pages", "copies that another page's copy has replaced"),
];
/// The same for lists.
pub(super) static COUNTS: [&Count; COUNTED.len()] =
    [&IN_LEDGER[0], &IN_LEDGER[1], &IN_LEDGER[2], &IN_LEDGER[3], &IN_LEDGER[4]];
const HIT: usize = 0;
const MISS: usize = 1;
pub(super) const COPIED: usize = 2;
const INVALIDATED: usize = 3;
pub(super) const EVICTED: usize = 4;
/// Cores that have counters of their own; others share them.
const COUNTERS: usize = 64;

pub(super) struct Shared {
    pub(super) region: Arc<Region>,
    pub(super) blocks: Arc<Blocks>,
    pub(super) settings: Settings,
    /// By inode number.
    files: Mutex<TreeMap<u64, Arc<FileTable>>>,
    pub(super) memory: Arc<Memory>,
    pub(super) pool: SlotTable<Frame>,
    pub(super) requests: Ring,
    /// The line of the queue's tail, for which readers compete.
    tail: Line,
    /// A request found the queue full: its entry waits in Prep for a sweep.
    pub(super) overflowed: AtomicBool,
    pub(super) stopped: AtomicBool,
    /// Where the copier sleeps; only the end of the mount wakes it.
    pub(super) asleep: Mutex<()>,
    pub(super) ended: Condvar,
    pub(super) frames: Mutex<Frames>,
    counters: [Counters; COUNTERS],
}

/// The cache of a mounted volume.
pub(crate) struct Cache {
    shared: Arc<Shared>,
    copier: Mutex<Option<JoinHandle<()>>>,
}

impl Cache {
    /// An empty cache, with its copier running. Fails when the host has no room for its memory, of which only what is used is
    /// taken.
    pub(crate) fn start(region: &Arc<Region>, blocks: &Arc<Blocks>, settings: Settings) -> Result<Self> {
        let most = settings.frames.min(region.len().div_ceil(BLOCK));
        let shared = Arc::new(Shared {
            region: Arc::clone(region),
            blocks: Arc::clone(blocks),
            settings: Settings { frames: most, ..settings },
            files: Mutex::new(&FILES, TreeMap::new()),
            memory: Arc::new(Memory::new(Bytes(most * BLOCK))?),
            pool: SlotTable::new(most.div_ceil(FRAMES_AT_ONCE), FRAMES_AT_ONCE),
            requests: Ring::new(settings.queue),
            tail: Line::new(&REQUESTS),
            overflowed: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            asleep: Mutex::new(&ASLEEP, ()),
            ended: Condvar::new(),
            frames: Mutex::new(&FRAMES, Frames::default()),
            counters: std::array::from_fn(|_| Counters::default()),
        });
        let copier = Arc::clone(&shared);
        // As a kernel thread without an affinity.
        let spec = TaskSpec::named("rcache.copier").background().movable();
        let task = sim::spawn(spec, move || copier.copy_until_stopped());
        Ok(Self { shared, copier: Mutex::new(&COPIER, Some(task)) })
    }
}

/// The table behind a handle: each handle that [`PageCache`] gives out has one.
fn table(file: &CachedFile) -> Option<&FileTable> {
    let file: &(dyn Any + Send + Sync) = &**file;
    file.downcast_ref()
}

impl PageCache for Cache {
    fn file(&self, inode: u64) -> CachedFile {
        let mut files = self.shared.files.lock();
        let make = || ran::shared(FileTable::new(inode, self.shared.region.len().div_ceil(BLOCK)));
        if let Some(known) = files.get(&inode) {
            return Arc::clone(known) as CachedFile;
        }
        let file = make();
        files.insert(inode, Arc::clone(&file));
        file as CachedFile
    }

    fn known(&self, inode: u64) -> Option<CachedFile> {
        Some(self.shared.file(inode)? as CachedFile)
    }

    fn read(&self, file: &CachedFile, page: u64, block: u64, within: u64, buffer: &mut [u8]) -> bool {
        table(file).is_some_and(|file| self.shared.read(file, (page, block), within, buffer))
    }

    fn invalidate(&self, file: &CachedFile, page: u64, block: u64) -> bool {
        table(file).is_some_and(|file| self.shared.invalidate(file, (page, block)))
    }

    fn forget(&self, file: &CachedFile, page: u64, block: u64) {
        if let Some(file) = table(file) {
            self.shared.forget(file, (page, block));
        }
    }

    fn remove(&self, inode: u64) {
        let gone = self.shared.files.lock().remove(&inode);
        if let Some(file) = gone {
            self.shared.free_frames(&file);
        }
    }

    fn stop(&self) {
        let asleep = self.shared.asleep.lock();
        self.shared.stopped.store(true, Ordering::Release);
        drop(asleep);
        self.shared.ended.notify_all();
        let copier = self.copier.lock().take();
        if let Some(copier) = copier {
            copier.join();
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let sum =
            |kind: usize| self.shared.counters.iter().map(|core| core.0[kind].load(Ordering::Relaxed)).sum();
        COUNTED.iter().enumerate().map(|(kind, name)| (*name, sum(kind))).collect()
    }
}

impl Shared {
    pub(super) fn count(&self, kind: usize) {
        sim::count(&IN_LEDGER[kind], 1);
        self.counters[usize::from(sim::core()) % COUNTERS].0[kind].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn file(&self, inode: u64) -> Option<Arc<FileTable>> {
        self.files.lock().get(&inode).cloned()
    }

    /// All files, as they are now.
    pub(super) fn all_files(&self) -> Vec<Arc<FileTable>> {
        self.files.lock().values().cloned().collect()
    }

    fn read(&self, file: &FileTable, (page, block): (u64, u64), within: u64, buffer: &mut [u8]) -> bool {
        let Some(set) = file.make(page) else {
            self.count(MISS);
            return false;
        };
        sim::work(Work::STEP, 2);
        for way in set.ways.iter().filter(|way| way.entry.is_for(page)) {
            if self.hit(way, (page, block), within, buffer) {
                self.count(HIT);
                return true;
            }
        }
        self.count(MISS);
        let window = sim::now().0 / self.settings.window.0.max(1);
        if set.count(page, window as u16) > self.settings.threshold {
            self.insert(set, file.inode, page, block);
        }
        false
    }

    /// Copies from an entry, if it is ready and for this page and block.
    fn hit(
        &self,
        Way { entry, line }: &Way,
        (page, block): (u64, u64),
        within: u64,
        buffer: &mut [u8],
    ) -> bool {
        line.touch();
        let Some(pin) = entry.pin() else { return false };
        let frame = self.frame_of(entry).filter(|_| entry.is_for(page) && entry.source() == block);
        let Some(frame) = frame else { return false };
        if !frame.copy(within as usize, buffer) {
            return false;
        }
        let now = (sim::now().0 / TICK_NS) as u32;
        // The line is written only when the clock has moved.
        if entry.stamp.load(Ordering::Relaxed) != now {
            entry.stamp.store(now, Ordering::Relaxed);
        }
        line.touch();
        drop(pin);
        true
    }

    fn frame_of(&self, entry: &Entry) -> Option<&Frame> {
        let frame = entry.frame.load(Ordering::Acquire).checked_sub(1)?;
        self.pool.get(frame.into())
    }

    /// Publishes an entry for a page that has none, and asks the copier to fill it. Nothing here waits for another task.
    fn insert(&self, set: &Set, inode: u64, page: u64, block: u64) {
        let has_one = |entry: &Entry| entry.is_for(page) && entry.word().state() != State::Invalid;
        if self.stopped.load(Ordering::Relaxed) || set.ways.iter().any(|way| has_one(&way.entry)) {
            return;
        }
        let Some((number, word)) = set.victim() else { return };
        let Way { entry, line } = &set.ways[number];
        line.touch();
        let Some(owned) = entry.claim(word) else { return };
        entry.set(page, block);
        entry.stamp.store((sim::now().0 / TICK_NS) as u32, Ordering::Relaxed);
        if !entry.publish(owned) {
            return;
        }
        self.tail.touch();
        let request = Request { inode, page, way: number, version: owned.version() };
        if !self.requests.push(request.to_words()) {
            self.overflowed.store(true, Ordering::Release);
        }
    }

    /// Dooms every entry of a page in this block; whether the copier reads the block, and will give it back.
    fn invalidate(&self, file: &FileTable, (page, block): (u64, u64)) -> bool {
        let Some(set) = file.get(page) else { return false };
        let mut kept = false;
        let is_its = |way: &&Way| way.entry.is_for(page) && way.entry.source() == block;
        for Way { entry, line } in set.ways.iter().filter(is_its) {
            line.touch();
            match entry.doom(|blocks| self.blocks.lend(blocks)) {
                Doomed::Nothing => continue,
                Doomed::Done => {}
                Doomed::WhileCopied => kept = true,
            }
            self.count(INVALIDATED);
        }
        kept
    }

    /// Dooms every entry of a page that stays in this block. The copier gives back the block of an entry that is doomed while it
    /// copies it, so that end of the copy comes first.
    fn forget(&self, file: &FileTable, (page, block): (u64, u64)) {
        let Some(set) = file.get(page) else { return };
        let is_its = |way: &&Way| way.entry.is_for(page) && way.entry.source() == block;
        for Way { entry, line } in set.ways.iter().filter(is_its) {
            line.touch();
            loop {
                match entry.doom_unless_copied() {
                    Some(Doomed::Nothing) => break,
                    Some(_) => {
                        self.count(INVALIDATED);
                        break;
                    }
                    None => sim::sleep(COPY_TIME),
                }
            }
        }
    }
}
