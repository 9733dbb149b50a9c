//! A mapping: the cached pages of an inode, or of the device.
//!
//! A lookup takes a lock of the host for one look, which is no lock of the modelled machine (Linux: an XArray under RCU). A task
//! that adds or removes a page takes `cache.pages` besides (`xa_lock`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use sim::map::TreeSet;
use sim::{Activity, Count, LockClass, Mutex, MutexGuard, Nanos, Recency, RwLock, Work, ran};

pub(super) static PAGE: LockClass = LockClass::new("cache.page").under(&[&WRITING]).several();
pub(super) static PAGES: LockClass = LockClass::new("cache.pages").under(&[&PAGE]);
pub(super) static DIRTY_INDEXES: LockClass = LockClass::new("cache.dirty_indexes").under(&[&PAGES]);
pub(super) static WRITING: LockClass = LockClass::new("cache.writing").under(&[]);

/// What programs read from pages and write to them.
pub static FILE_BYTES: Count = Count::new(
    "cache.file_bytes",
    "bytes",
    "of file data that programs read from the page cache and wrote to it",
);

/// The block of a page that has none on the device.
pub const NO_BLOCK: u64 = u64::MAX;

/// Buffers that are kept for the next pages.
const SPARE_BUFFERS: usize = 4096;

/// What a page holds.
pub struct PageState {
    /// One block. What it holds before it is up to date is left from another page.
    pub bytes: Box<[u8]>,
    /// The block on the device, or [`NO_BLOCK`].
    pub block: u64,
    /// The bytes are those of the file or the device.
    pub uptodate: bool,
    /// How the file grew by this page since it was last written back: what a device is told that places data by it.
    pub growth: Growth,
    /// The bytes are there when this time has come, in nanoseconds: they were read ahead. 0: they are.
    pub ready_at: AtomicU64,
    /// The use of this page reads the next window ahead (Linux: `PG_readahead`).
    pub marks_window: bool,
    /// The transaction of a journal that has it, or had it.
    pub transaction: u32,
}

impl PageState {
    /// Whether a read needs nothing but the bytes.
    pub fn is_at_hand(&self) -> bool {
        self.uptodate && !self.marks_window && self.ready_at.load(Relaxed) == 0
    }
}

/// How a file grew by a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Growth {
    /// It did not: the page has new content.
    #[default]
    None,
    /// It is the first page of the file, or what precedes it has no block.
    First,
    /// It follows the page with this block.
    After(u64),
}

/// A page.
pub struct Page {
    index: u64,
    /// The contents, and what is known of them.
    pub state: RwLock<PageState>,
    /// When its bytes were copied last.
    recency: Recency,
    referenced: AtomicBool,
    dirty: AtomicBool,
    /// Write-back has it on its way to the device.
    in_flight: AtomicBool,
    pins: AtomicU32,
    owner: Weak<Mapping>,
    buffers: Arc<Buffers>,
}

impl Drop for Page {
    fn drop(&mut self) {
        self.buffers.pages.fetch_sub(1, Relaxed);
        self.buffers.give(std::mem::take(&mut self.state.get_mut().bytes));
    }
}

/// Buffers of one page each that are not in use, with whatever they held: so memory does not go back to the host and come again
/// with every page.
pub(super) struct Buffers {
    page_bytes: u32,
    /// Pages that have one.
    pages: AtomicU64,
    spare: parking_lot::Mutex<Vec<Box<[u8]>>>,
}

impl Buffers {
    pub(super) fn new(page_bytes: u32) -> Arc<Self> {
        Arc::new(Self { page_bytes, pages: AtomicU64::new(0), spare: parking_lot::Mutex::default() })
    }

    /// How many pages have one, in a mapping or in use.
    pub(super) fn pages(&self) -> u64 {
        self.pages.load(Relaxed)
    }

    pub(super) fn take(&self) -> Box<[u8]> {
        let spare = self.spare.lock().pop();
        spare.unwrap_or_else(|| {
            ran::allocate(1);
            vec![0; self.page_bytes as usize].into_boxed_slice()
        })
    }

    pub(super) fn give(&self, buffer: Box<[u8]>) {
        let mut spare = self.spare.lock();
        if spare.len() < SPARE_BUFFERS {
            let grows = spare.len() == spare.capacity();
            spare.push(buffer);
            drop(spare);
            ran::allocate(u64::from(grows));
        }
    }
}

impl Page {
    /// Its place in its mapping.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Charges a copy of `len` bytes of file data from the page to a buffer of the caller.
    pub fn charge_copy_out(&self, len: u64) {
        sim::count(&FILE_BYTES, len);
        sim::copy_from(&self.recency, len);
    }

    /// Charges a copy of `len` bytes of file data from a buffer of the caller to the page.
    pub fn charge_copy_in(&self, len: u64) {
        sim::count(&FILE_BYTES, len);
        sim::copy_to(&self.recency, len);
    }

    /// Keeps the page in memory until [`Self::unpin`] is called as often.
    pub fn pin(&self) {
        self.pins.fetch_add(1, Relaxed);
    }

    /// Ends one [`Self::pin`].
    pub fn unpin(&self) {
        self.pins.fetch_sub(1, Relaxed);
    }

    /// Whether the page must stay in memory.
    pub(crate) fn is_pinned(&self) -> bool {
        self.pins.load(Relaxed) > 0
    }

    /// Waits for bytes that were read ahead and are still on their way; returns whether it had to. The caller does not have the
    /// page's lock.
    pub fn wait_until_ready(&self) -> bool {
        let ready = Nanos(self.state.read().ready_at.load(Relaxed));
        if ready == Nanos::ZERO {
            return false;
        }
        let waits = ready > sim::now();
        if waits {
            sim::medium_until(Activity::DATA, ready);
        }
        // No task is earlier than this lock.
        self.state.read().ready_at.store(0, Relaxed);
        waits
    }

    /// Whether the page differs from the device.
    pub fn is_dirty(&self) -> bool {
        self.dirty.load(Relaxed)
    }

    /// Sets whether it is dirty; returns whether it was.
    pub(super) fn set_dirty(&self, dirty: bool) -> bool {
        self.dirty.swap(dirty, Relaxed)
    }

    /// Whether write-back has it on its way.
    pub(super) fn is_in_flight(&self) -> bool {
        self.in_flight.load(Relaxed)
    }

    pub(super) fn set_in_flight(&self, in_flight: bool) {
        self.in_flight.store(in_flight, Relaxed);
    }

    /// Whether the device does not have what it holds.
    pub fn is_busy(&self) -> bool {
        self.is_dirty() || self.is_pinned() || self.is_in_flight()
    }

    pub(super) fn take_reference(&self) -> bool {
        self.referenced.swap(false, Relaxed)
    }

    /// Takes the page out of its mapping unless something beside the map and the caller has it.
    pub(super) fn forget_if_unused(self: &Arc<Self>) -> bool {
        let Some(owner) = self.owner.upgrade() else { return true };
        let _changes = owner.changes.lock();
        let mut pages = owner.pages.write();
        let unused = Arc::strong_count(self) == 2 && !self.is_busy();
        if unused {
            pages.remove(self.index);
        }
        unused
    }
}

/// Pages by index, in leaves of neighbours.
#[derive(Default)]
struct Pages {
    leaves: BTreeMap<u64, Leaf>,
}

struct Leaf {
    pages: Box<[Option<Arc<Page>>; LEAF_PAGES as usize]>,
    used: u32,
}

const LEAF_PAGES: u64 = 64;

impl Pages {
    #[inline]
    fn get(&self, index: u64) -> Option<&Arc<Page>> {
        self.leaves.get(&(index / LEAF_PAGES))?.pages[(index % LEAF_PAGES) as usize].as_ref()
    }

    /// True if a new leaf was made.
    fn insert(&mut self, index: u64, page: Arc<Page>) -> bool {
        let leaves = self.leaves.len();
        let _own = ran::aside();
        let empty = || Leaf { pages: Box::new([const { None }; LEAF_PAGES as usize]), used: 0 };
        let leaf = self.leaves.entry(index / LEAF_PAGES).or_insert_with(empty);
        let before = leaf.pages[(index % LEAF_PAGES) as usize].replace(page);
        leaf.used += u32::from(before.is_none());
        self.leaves.len() > leaves
    }

    fn remove(&mut self, index: u64) -> Option<Arc<Page>> {
        let leaf = self.leaves.get_mut(&(index / LEAF_PAGES))?;
        let removed = leaf.pages[(index % LEAF_PAGES) as usize].take()?;
        leaf.used -= 1;
        if leaf.used == 0 {
            self.leaves.remove(&(index / LEAF_PAGES));
        }
        Some(removed)
    }

    fn range(&self, from: u64, to: u64) -> impl Iterator<Item = &Arc<Page>> {
        let leaves = self.leaves.range(from / LEAF_PAGES..to.max(from).div_ceil(LEAF_PAGES));
        let pages = leaves.flat_map(|(_, leaf)| leaf.pages.iter().flatten());
        pages.filter(move |page| (from..to).contains(&page.index))
    }
}

/// The pages of an inode or of the device.
pub struct Mapping {
    number: u64,
    /// A task that adds or removes a page has it.
    changes: Mutex<()>,
    pages: parking_lot::RwLock<Pages>,
    dirty: Mutex<TreeSet<u64>>,
    writing: Mutex<()>,
    me: Weak<Mapping>,
}

impl Mapping {
    /// An empty mapping; `number` tells it apart from others of the cache.
    pub fn new(number: u64) -> Arc<Self> {
        ran::allocate(1);
        Arc::new_cyclic(|me| Self {
            number,
            changes: Mutex::new(&PAGES, ()),
            pages: parking_lot::RwLock::default(),
            dirty: Mutex::new(&DIRTY_INDEXES, TreeSet::new()),
            writing: Mutex::new(&WRITING, ()),
            me: Weak::clone(me),
        })
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The page at `index`, if it is cached.
    #[inline]
    pub fn get(&self, index: u64) -> Option<Arc<Page>> {
        ran::did(Work::NODE, 2);
        sim::work(Work::STEP, 2);
        let pages = self.pages.read();
        let page = pages.get(index)?;
        page.referenced.store(true, Relaxed);
        Some(Arc::clone(page))
    }

    /// Whether there is a page at `index`.
    pub fn has(&self, index: u64) -> bool {
        self.pages.read().get(index).is_some()
    }

    /// The page at `index`, and whether it had to be made.
    pub(super) fn get_or_make(&self, index: u64, buffers: &Arc<Buffers>) -> (Arc<Page>, bool) {
        let state = PageState {
            bytes: buffers.take(),
            block: if self.number == 0 { index } else { NO_BLOCK },
            uptodate: false,
            growth: Growth::None,
            ready_at: AtomicU64::new(0),
            marks_window: false,
            transaction: 0,
        };
        buffers.pages.fetch_add(1, Relaxed);
        let page = ran::shared(Page {
            index,
            state: RwLock::new(&PAGE, state),
            referenced: AtomicBool::new(false),
            dirty: AtomicBool::new(false),
            recency: Recency::new(),
            in_flight: AtomicBool::new(false),
            pins: AtomicU32::new(0),
            owner: Weak::clone(&self.me),
            buffers: Arc::clone(buffers),
        });
        let _changes = self.changes.lock();
        let mut pages = self.pages.write();
        if let Some(other) = pages.get(index) {
            return (Arc::clone(other), false);
        }
        let grows = pages.insert(index, Arc::clone(&page));
        drop(pages);
        ran::did(Work::NODE, 2);
        ran::node(2);
        ran::allocate(u64::from(grows));
        (page, true)
    }

    /// The cached pages of a range of indexes.
    pub fn range(&self, from: u64, to: u64) -> Vec<Arc<Page>> {
        let all: Vec<_> = self.pages.read().range(from, to).map(Arc::clone).collect();
        // A list begins with room for four, and doubles.
        let rooms = (all.len() as u64).max(4).next_power_of_two().ilog2() - 1;
        ran::allocate(if all.is_empty() { 0 } else { rooms.into() });
        all
    }

    /// Whether nothing is cached.
    pub fn is_empty(&self) -> bool {
        self.pages.read().leaves.is_empty()
    }

    pub(super) fn remove(&self, index: u64) {
        let _changes = self.changes.lock();
        self.pages.write().remove(index);
    }

    /// True if nothing was dirty before.
    pub(super) fn add_dirty(&self, index: u64) -> bool {
        let mut dirty = self.dirty.lock();
        dirty.insert(index);
        dirty.len() == 1
    }

    pub(super) fn remove_dirty(&self, index: u64) {
        self.dirty.lock().remove(&index);
    }

    pub(super) fn has_dirty(&self) -> bool {
        !self.dirty.lock().is_empty()
    }

    /// The indexes of dirty pages, in order.
    pub(crate) fn dirty_indexes(&self) -> Vec<u64> {
        ran::collected(self.dirty.lock().iter().copied())
    }

    /// Waits for write-back of this mapping that is under way, and keeps others from starting.
    pub(crate) fn begin_writing(&self) -> MutexGuard<'_, ()> {
        self.writing.lock()
    }
}
