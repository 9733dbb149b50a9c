//! Reads, invalidation, and the copier.
//!
//! One copier serves a mount, as published. It takes requests from a queue; a request that finds the queue full is dropped, and its
//! entry with it. Frames come from a budget: when that is used up, the copier takes one from the least recently used of a few
//! entries that its hand meets.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use media::nvmm::Region;
use sim::{Condvar, Count, JoinHandle, LockClass, Mutex, Nanos, PAGE_BYTES, TaskSpec, Work};

use super::entry::{Doomed, Entry, Frame};
use super::table::{FileTable, Way};
use super::word::{State, Word};
use crate::nova::{Blocks, Extent, PageCache};
use crate::persist::slot_table::SlotTable;

static QUEUE: LockClass = LockClass::new("rcache.queue");
static FRAMES: LockClass = LockClass::new("rcache.frames");
static COPIER: LockClass = LockClass::new("rcache.copier");

const BLOCK: u64 = PAGE_BYTES as u64;
/// Inodes whose tables are made together, and how often that can be: 16 million inodes.
const INODES: u64 = 1024;
const INODE_CHUNKS: u64 = 1 << 14;
/// Frames that are made together.
const FRAMES_AT_ONCE: u64 = 64;
/// Frames that the hand looks at to find a victim.
const CANDIDATES: usize = 8;
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
    /// Frames; 0: as many as it takes.
    pub(crate) frames: u64,
    /// Requests that wait for the copier.
    pub(crate) queue: usize,
}

/// An entry that waits to be filled: its file, its place, its version.
#[derive(Clone, Copy, Debug)]
struct Request {
    inode: u64,
    page: u64,
    way: usize,
    version: u64,
}

#[derive(Default)]
struct Queue {
    requests: VecDeque<Request>,
    stop: bool,
}

/// Who had each frame last: inode, page, place in the set.
#[derive(Default)]
struct Frames {
    owners: Vec<(u64, u64, usize)>,
    hand: usize,
}

/// What happened, by kind: [`COUNTED`] names them. Cores count in lines of their own, which they need not take from each other.
#[derive(Default)]
#[repr(align(64))]
struct Counters([AtomicU64; COUNTED.len()]);

const COUNTED: [&str; 5] =
    ["cache hits", "cache misses", "pages copied", "pages invalidated", "pages evicted"];
/// The same in the ledger, so that a result says what the cache did in its window.
static IN_LEDGER: [Count; COUNTED.len()] = [
    Count::new("rcache.hits", "pages"),
    Count::new("rcache.misses", "pages"),
    Count::new("rcache.copied", "pages"),
    Count::new("rcache.invalidated", "pages"),
    Count::new("rcache.evicted", "pages"),
];
const HIT: usize = 0;
const MISS: usize = 1;
const COPIED: usize = 2;
const INVALIDATED: usize = 3;
const EVICTED: usize = 4;
/// Cores that have counters of their own; others share them.
const COUNTERS: usize = 64;

struct Shared {
    region: Arc<Region>,
    blocks: Arc<Blocks>,
    settings: Settings,
    files: SlotTable<OnceLock<Box<FileTable>>>,
    pool: SlotTable<Frame>,
    queue: Mutex<Queue>,
    wanted: Condvar,
    frames: Mutex<Frames>,
    counters: [Counters; COUNTERS],
}

/// The cache of a mounted volume.
pub(crate) struct Cache {
    shared: Arc<Shared>,
    copier: Mutex<Option<JoinHandle<()>>>,
}

impl Cache {
    /// An empty cache, with its copier running.
    pub(crate) fn start(region: &Arc<Region>, blocks: &Arc<Blocks>, settings: Settings) -> Self {
        let most = if settings.frames == 0 { region.len() / BLOCK } else { settings.frames };
        let shared = Arc::new(Shared {
            region: Arc::clone(region),
            blocks: Arc::clone(blocks),
            settings: Settings { frames: most, ..settings },
            files: SlotTable::new(INODE_CHUNKS, INODES),
            pool: SlotTable::new(most.div_ceil(FRAMES_AT_ONCE), FRAMES_AT_ONCE),
            queue: Mutex::new(&QUEUE, Queue::default()),
            wanted: Condvar::new(),
            frames: Mutex::new(&FRAMES, Frames::default()),
            counters: std::array::from_fn(|_| Counters::default()),
        });
        let copier = Arc::clone(&shared);
        // As a kernel thread without an affinity.
        let spec = TaskSpec::named("rcache.copier").background().movable();
        let task = sim::spawn(spec, move || copier.copy_until_stopped());
        Self { shared, copier: Mutex::new(&COPIER, Some(task)) }
    }
}

impl PageCache for Cache {
    fn read(&self, (inode, page): (u64, u64), block: u64, within: u64, buffer: &mut [u8]) -> bool {
        self.shared.read((inode, page), block, within, buffer)
    }

    fn invalidate(&self, (inode, page): (u64, u64), block: u64) -> bool {
        self.shared.invalidate((inode, page), block)
    }

    fn forget(&self, (inode, page): (u64, u64), block: u64) {
        self.shared.forget((inode, page), block);
    }

    fn stop(&self) {
        self.shared.queue.lock().stop = true;
        self.shared.wanted.notify_all();
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
    fn count(&self, kind: usize) {
        sim::count(&IN_LEDGER[kind], 1);
        self.counters[usize::from(sim::core()) % COUNTERS].0[kind].fetch_add(1, Ordering::Relaxed);
    }

    fn file(&self, inode: u64) -> Option<&FileTable> {
        Some(self.files.get(inode)?.get()?)
    }

    fn make_file(&self, inode: u64) -> Option<&FileTable> {
        if self.files.get(inode).is_none() {
            self.files.add_chunk(inode / INODES, |_| OnceLock::new());
        }
        Some(self.files.get(inode)?.get_or_init(|| Box::new(FileTable::new())))
    }

    fn read(&self, (inode, page): (u64, u64), block: u64, within: u64, buffer: &mut [u8]) -> bool {
        let Some(set) = self.make_file(inode).and_then(|file| file.make(page)) else { return false };
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
            self.insert(set, inode, page, block);
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
        frame.charge_copy(buffer.len() as u64);
        frame.copy(within as usize, buffer);
        let now = (sim::now().0 / TICK_NS) as u32;
        // The line is written only when the clock has moved.
        if entry.stamp.load(Ordering::Relaxed) != now {
            entry.stamp.store(now, Ordering::Relaxed);
        }
        drop(pin);
        true
    }

    fn frame_of(&self, entry: &Entry) -> Option<&Frame> {
        let frame = entry.frame.load(Ordering::Acquire).checked_sub(1)?;
        self.pool.get(frame.into())
    }

    /// Publishes an entry for a page that has none, and asks the copier to fill it.
    fn insert(&self, set: &super::table::Set, inode: u64, page: u64, block: u64) {
        let has_one = |entry: &Entry| entry.is_for(page) && entry.word().state() != State::Invalid;
        if set.ways.iter().any(|way| has_one(&way.entry)) {
            return;
        }
        let Some((number, word)) = set.victim() else { return };
        let Way { entry, line } = &set.ways[number];
        line.touch();
        let Some(owned) = entry.claim(word) else { return };
        entry.set(page, block);
        entry.stamp.store((sim::now().0 / TICK_NS) as u32, Ordering::Relaxed);
        let mut queue = self.queue.lock();
        if queue.stop || queue.requests.len() >= self.settings.queue {
            drop(queue);
            entry.retract(owned);
            return;
        }
        if entry.publish(owned) {
            queue.requests.push_back(Request { inode, page, way: number, version: owned.version() });
        }
        drop(queue);
        self.wanted.notify_one();
    }

    /// Dooms every entry of a page in this block; whether the copier reads the block, and will give it back.
    fn invalidate(&self, (inode, page): (u64, u64), block: u64) -> bool {
        let Some(set) = self.file(inode).and_then(|file| file.get(page)) else { return false };
        let mut kept = false;
        let is_its = |entry: &&Entry| entry.is_for(page) && entry.source() == block;
        for entry in set.ways.iter().map(|way| &way.entry).filter(is_its) {
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
    fn forget(&self, (inode, page): (u64, u64), block: u64) {
        let Some(set) = self.file(inode).and_then(|file| file.get(page)) else { return };
        let is_its = |entry: &&Entry| entry.is_for(page) && entry.source() == block;
        for entry in set.ways.iter().map(|way| &way.entry).filter(is_its) {
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

    fn copy_until_stopped(&self) {
        let mut queue = self.queue.lock();
        while !queue.stop {
            let Some(request) = queue.requests.pop_front() else {
                queue = self.wanted.wait(queue);
                continue;
            };
            drop(queue);
            self.serve(request);
            queue = self.queue.lock();
        }
    }

    fn serve(&self, request: Request) {
        let set = self.file(request.inode).and_then(|file| file.get(request.page));
        let Some(Way { entry, .. }) = set.and_then(|set| set.ways.get(request.way)) else { return };
        if !entry.begin_copy(request.version) {
            return;
        }
        let source = entry.source();
        let frame = self.frame_for(entry, request);
        let mut bytes = [0; PAGE_BYTES];
        let copied = match frame {
            Some(frame) => {
                let loaded = self.region.load(source * BLOCK, &mut bytes).is_ok();
                frame.charge_copy(BLOCK);
                frame.fill(&bytes);
                loaded
            }
            None => false,
        };
        if copied && entry.end_copy() {
            self.count(COPIED);
        } else if entry.give_up() {
            // The writer left the block to the copier.
            self.blocks.give_back(Extent { offset: source * BLOCK, blocks: 1 });
            self.blocks.lend(-1);
        }
    }

    /// The frame of an entry that the copier has, or a new one, or one that another entry gives up.
    fn frame_for(&self, entry: &Entry, request: Request) -> Option<&Frame> {
        let owner = (request.inode, request.page, request.way);
        let mut frames = self.frames.lock();
        let number = match entry.frame.load(Ordering::Acquire).checked_sub(1) {
            Some(kept) => kept,
            None if (frames.owners.len() as u64) < self.settings.frames => {
                let number = frames.owners.len() as u64;
                if number.is_multiple_of(FRAMES_AT_ONCE) {
                    self.pool.add_chunk(number / FRAMES_AT_ONCE, |_| Frame::new(PAGE_BYTES));
                }
                frames.owners.push(owner);
                number as u32
            }
            None => self.take_frame(&mut frames)?,
        };
        *frames.owners.get_mut(number as usize)? = owner;
        entry.frame.store(number + 1, Ordering::Release);
        self.pool.get(number.into())
    }

    /// Takes the frame of the entry that was used longest ago, of a few.
    fn take_frame(&self, frames: &mut Frames) -> Option<u32> {
        let all = frames.owners.len();
        for _ in 0..all.div_ceil(CANDIDATES) {
            let from = frames.hand;
            frames.hand = (from + CANDIDATES) % all;
            let found = (0..CANDIDATES.min(all)).filter_map(|step| {
                let number = (from + step) % all;
                let (inode, page, way) = frames.owners[number];
                let entry = &self.file(inode)?.get(page)?.ways.get(way)?.entry;
                let (word, holds) = (entry.word(), entry.frame.load(Ordering::Acquire) == number as u32 + 1);
                let free = matches!(word.state(), State::Invalid | State::Ready) && holds;
                let age =
                    if word.state() == State::Invalid { 0 } else { entry.stamp.load(Ordering::Relaxed) };
                free.then_some((age, number, word, entry))
            });
            let Some((_, number, word, entry)) = found.min_by_key(|(age, number, ..)| (*age, *number)) else {
                continue;
            };
            if let Some(taken) = Self::take_from(entry, word) {
                self.count(EVICTED);
                debug_assert_eq!(taken, number as u32, "an entry keeps its frame");
                return Some(taken);
            }
        }
        None
    }

    fn take_from(entry: &Entry, word: Word) -> Option<u32> {
        let owned = entry.claim(word)?;
        let frame = entry.frame.swap(0, Ordering::AcqRel);
        entry.retract(owned);
        frame.checked_sub(1)
    }
}
