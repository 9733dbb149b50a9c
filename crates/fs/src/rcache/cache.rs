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
use sim::{Condvar, JoinHandle, LockClass, Mutex, Nanos, PAGE_BYTES, TaskSpec, Work};

use super::table::{Entry, FileTable, Frame};
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

#[derive(Default)]
struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
    copied: AtomicU64,
    invalidated: AtomicU64,
    evicted: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

struct Shared {
    region: Arc<Region>,
    blocks: Arc<Blocks>,
    settings: Settings,
    files: SlotTable<OnceLock<Box<FileTable>>>,
    pool: SlotTable<Frame>,
    queue: Mutex<Queue>,
    wanted: Condvar,
    frames: Mutex<Frames>,
    counters: Counters,
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
            counters: Counters::default(),
        });
        let copier = Arc::clone(&shared);
        let spec = TaskSpec::named("rcache.copier").background();
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

    fn stop(&self) {
        self.shared.queue.lock().stop = true;
        self.shared.wanted.notify_all();
        let copier = self.copier.lock().take();
        if let Some(copier) = copier {
            copier.join();
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let Counters { hits, misses, copied, invalidated, evicted } = &self.shared.counters;
        let all = [
            ("cache hits", hits),
            ("cache misses", misses),
            ("pages copied", copied),
            ("pages invalidated", invalidated),
            ("pages evicted", evicted),
        ];
        all.map(|(name, counter)| (name, counter.load(Ordering::Relaxed))).to_vec()
    }
}

impl Shared {
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
        sim::work(Work::Step, 2);
        for entry in set.entries.iter().filter(|entry| entry.is_for(page)) {
            if self.hit(entry, (page, block), within, buffer) {
                count(&self.counters.hits);
                return true;
            }
        }
        count(&self.counters.misses);
        let window = sim::now().0 / self.settings.window.0.max(1);
        if set.count(page, window as u16) > self.settings.threshold {
            self.insert(set, inode, page, block);
        }
        false
    }

    /// Copies from an entry, if it is ready and for this page and block.
    fn hit(&self, entry: &Entry, (page, block): (u64, u64), within: u64, buffer: &mut [u8]) -> bool {
        let word = entry.word();
        entry.line.touch();
        if !entry.change(word, word.pinned()) {
            return false;
        }
        let pin = Pin(entry);
        let frame = self.frame_of(entry).filter(|_| entry.is_for(page) && entry.source() == block);
        let Some(frame) = frame else { return false };
        sim::copy(buffer.len() as u64);
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
        if set.entries.iter().any(has_one) {
            return;
        }
        let Some((way, word)) = set.victim() else { return };
        let entry = &set.entries[way];
        let claimed = if word.state() == State::Invalid { word.claimed() } else { word.stolen() };
        entry.line.touch();
        let Some(owned) = claimed.filter(|claimed| entry.change(word, Some(*claimed))) else { return };
        entry.set(page, block);
        entry.stamp.store((sim::now().0 / TICK_NS) as u32, Ordering::Relaxed);
        let mut queue = self.queue.lock();
        if queue.stop || queue.requests.len() >= self.settings.queue {
            drop(queue);
            entry.change(owned, owned.retracted());
            return;
        }
        if entry.change(owned, owned.published()) {
            queue.requests.push_back(Request { inode, page, way, version: owned.version() });
        }
        drop(queue);
        self.wanted.notify_one();
    }

    /// Dooms every entry of a page in this block; whether the copier reads the block, and will give it back.
    fn invalidate(&self, (inode, page): (u64, u64), block: u64) -> bool {
        let Some(set) = self.file(inode).and_then(|file| file.get(page)) else { return false };
        let mut kept = false;
        for entry in set.entries.iter().filter(|entry| entry.is_for(page) && entry.source() == block) {
            loop {
                let word = entry.word();
                let Some(doomed) = word.doomed() else { break };
                if word.state() == State::Copy {
                    self.blocks.lend(1);
                }
                if entry.change(word, Some(doomed)) {
                    kept |= word.state() == State::Copy;
                    count(&self.counters.invalidated);
                    break;
                }
                if word.state() == State::Copy {
                    self.blocks.lend(-1);
                }
            }
        }
        kept
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
        let Some(entry) = set.and_then(|set| set.entries.get(request.way)) else { return };
        let word = entry.word();
        let copying = word.copying().filter(|_| word.version() == request.version);
        if !entry.change(word, copying) {
            return;
        }
        let source = entry.source();
        let frame = self.frame_for(entry, request);
        let mut bytes = [0; PAGE_BYTES];
        let copied = match frame {
            Some(frame) => {
                let loaded = self.region.load(source * BLOCK, &mut bytes).is_ok();
                sim::copy(BLOCK);
                frame.fill(&bytes);
                loaded
            }
            None => false,
        };
        let word = entry.word();
        if copied && entry.change(word, word.ready()) {
            count(&self.counters.copied);
            return;
        }
        self.give_up(entry, source);
    }

    /// Ends a copy that does not count; the block of one that is doomed was left to the copier.
    fn give_up(&self, entry: &Entry, source: u64) {
        loop {
            let word = entry.word();
            if entry.change(word, word.not_copied()) {
                if word.is_doomed() {
                    self.blocks.give_back(Extent { offset: source * BLOCK, blocks: 1 });
                    self.blocks.lend(-1);
                }
                return;
            }
            if word.not_copied().is_none() {
                return;
            }
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
                    self.pool.add_chunk(number / FRAMES_AT_ONCE, |_| Frame::new());
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
                let entry = self.file(inode)?.get(page)?.entries.get(way)?;
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
                count(&self.counters.evicted);
                debug_assert_eq!(taken, number as u32, "an entry keeps its frame");
                return Some(taken);
            }
        }
        None
    }

    fn take_from(entry: &Entry, word: Word) -> Option<u32> {
        let owned = if word.state() == State::Invalid { word.claimed() } else { word.stolen() }?;
        if !entry.change(word, Some(owned)) {
            return None;
        }
        let frame = entry.frame.swap(0, Ordering::AcqRel);
        entry.change(owned, owned.retracted());
        frame.checked_sub(1)
    }
}

/// A pin on an entry, given up when dropped.
struct Pin<'a>(&'a Entry);

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        loop {
            let word = self.0.word();
            if self.0.change(word, word.unpinned()) || word.unpinned().is_none() {
                return;
            }
        }
    }
}
