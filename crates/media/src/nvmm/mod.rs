//! Byte-addressable storage: the region that designs load from and store to.
//!
//! # What is durable
//!
//! ```text
//!   store, write, store_u64 …        flush                      fence
//!   ──────────► dirty in a cache ───────────► being written back ───────► guaranteed
//!                      │                                          ▲
//!                      └── may be written back at any time ──┐    │
//!   nt_store, nt_zero                                        ▼    │
//!   ──────────────────────────────────────────────► pending, per word
//! ```
//!
//! The unit of atomicity is an aligned word of 8 bytes (16 for [`Region::store_pair`]); the unit of
//! write-back is a line of 64. A fence completes the flushes and non-temporal stores of its own task only.
//! `recorder` holds the exact model.
//!
//! # What an access costs
//!
//! | call | CPU (`sim`) | medium ([`CostModel`]) | counted |
//! |---|---|---|---|
//! | [`peek`], [`read`], `load_u*` | nothing: a cached read | nothing | – |
//! | [`load`] | `copy_from(page, len)` | `load`, a page at a time, unless the page is in a cache | bytes loaded |
//! | [`touch`], before metadata is read | `Miss` a line, unless [`CostModel::loads_whole`] | `load`, unless it is in a cache | – |
//! | [`store`] | `copy_to(page, len)` | `fetch`, a page at a time, unless the page is in a cache | bytes stored |
//! | [`write`], `store_u*`, [`store_pair`] | nothing: a few instructions | – | bytes stored |
//! | [`nt_store`], [`nt_zero`] | `copy_past_to` | `write_since` its beginning, a page at a time | bytes and lines |
//! | [`flush`] | `FlushIssue` for each line | `write`, a page at a time | lines |
//! | [`fence`] | `Fence` | `fence` | fences |
//!
//! Where the medium is a memory under load ([`CostModel::memory`]), copy and medium are one stream: `load`, `fetch` and the write
//! of a non-temporal store are part of the copy's charge ([`sim::memory`]).
//!
//! Pages are in a cache only on a machine that prices copies by level; on others each load goes to the medium. A line that
//! a store past the cache shares with the edge of its range is written once.
//!
//! [`touch`]: Region::touch
//! [`peek`]: Region::peek
//! [`read`]: Region::read
//! [`load`]: Region::load
//! [`store`]: Region::store
//! [`write`]: Region::write
//! [`store_pair`]: Region::store_pair
//! [`nt_store`]: Region::nt_store
//! [`nt_zero`]: Region::nt_zero
//! [`flush`]: Region::flush
//! [`fence`]: Region::fence
//!
//! # Why it is sound
//!
//! A region is plain bytes: no reference into it ever exists, every value of its bytes is valid, and every
//! access is checked against its length. Bytes move by `copy_nonoverlapping` between the mapping and a buffer
//! of the caller; words of up to 8 bytes are atomics. What a medium cannot decide is whether two tasks copy
//! from and to the same bytes at once: designs hold their locks over copies, as they must on real persistent
//! memory, and read without a lock by words only.
//!
//! # Watching
//!
//! The bounds check of an access compares with a limit that is zero while something is to fail, and for loads
//! while a tap hears them: then every access takes the slow path, which checks the real length, shows
//! faults and tells loads. Otherwise a load is one compare and the load.

pub mod bucket;
pub mod buffered;
mod cached;
pub mod curve;
pub mod flat;
pub mod hinfs;
mod instruction;
pub mod lost;
mod mapping;
pub mod memory;
pub mod null;
pub mod optane;
mod sparse;

use std::ops::Range;
use std::panic::Location;
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};

use sim::{Bytes, LINE_BYTES, Nanos, PAGE_BYTES, Recency};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::MediaError;
use crate::cost::CostModel;
use crate::event::{Event, Mark, Site, StoreKind, Tap};
use crate::fault::{Fault, Target};
use crate::watch::Watch;
use cached::CachedPages;
use instruction::Instructions;
pub use mapping::Access;
use mapping::Mapping;

const LINE: u64 = LINE_BYTES as u64;
const PAGE: u64 = PAGE_BYTES as u64;
/// The unit that a non-temporal store writes whole.
const WORD: u64 = 8;

static ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// Where a copy goes: out of the region or into it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Out,
    In,
}

/// A range of byte-addressable storage. All methods take `&self`: share it in an `Arc`.
pub struct Region {
    base: *mut u8,
    len: u64,
    /// `len`, or zero while loads may fail or a tap hears them.
    load_limit: AtomicU64,
    /// `len`, or zero while stores may fail; always zero when the region is read-only.
    store_limit: AtomicU64,
    /// A tap listens, or a fault is injected.
    watched: AtomicBool,
    read_only: bool,
    /// Present when the memory is really persistent.
    instructions: Option<Instructions>,
    model: Box<dyn CostModel>,
    cached: CachedPages,
    watch: Arc<Watch>,
    /// Where it begins in the region whose taps and faults it has: not at zero if it is a part.
    origin: u64,
    mapping: Mapping,
}

// SAFETY: the memory belongs to `mapping`, which only goes with the region; concurrent accesses are the
// subject of "Why it is sound" above.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Region").field("len", &self.len).field("model", &self.model).finish_non_exhaustive()
    }
}

/// # Opening
impl Region {
    /// Memory of this process, zero at first and touched lazily.
    pub fn anonymous(len: Bytes, model: Box<dyn CostModel>) -> Result<Self, MediaError> {
        Ok(Self::over(Mapping::anonymous(len)?, None, false, model))
    }

    /// Memory of this process as long as this region, which has no user any more, and zero. That of an anonymous region is used
    /// again: a host takes longer to give out pages than to have them cleared.
    pub fn renewed(self, model: Box<dyn CostModel>) -> Result<Self, MediaError> {
        Ok(Self::over(self.mapping.renewed()?, None, false, model))
    }

    /// Takes all memory of an anonymous region from the host now: a page that is used first costs time that no medium takes, and
    /// real time is measured. Without effect on other regions, and on a host that cannot (Linux before 5.14).
    pub fn populate(&self) {
        self.mapping.populate();
    }

    /// A file, mapped through the host's page cache and locked against other users. With `len` a missing file
    /// is created and a shorter one grows; a longer one keeps its length ([`Access::New`]: it is created, or refused). Durable
    /// against power loss only by [`Region::sync`].
    pub fn file(
        path: &Path,
        len: Option<Bytes>,
        access: Access,
        model: Box<dyn CostModel>,
    ) -> Result<Self, MediaError> {
        let mapping = Mapping::file(path, len, access)?;
        Ok(Self::over(mapping, None, access == Access::ReadOnly, model))
    }

    /// Real persistent memory: a file on a file system that maps it directly. Flushes and fences are the
    /// processor's own, and what they promise survives a power loss. The model is usually [`null::Null`]: the
    /// memory takes its own time.
    pub fn direct(
        path: &Path,
        len: Option<Bytes>,
        access: Access,
        model: Box<dyn CostModel>,
    ) -> Result<Self, MediaError> {
        let (mapping, instructions) = Mapping::direct(path, len, access)?;
        Ok(Self::over(mapping, Some(instructions), false, model))
    }

    fn over(
        mapping: Mapping,
        instructions: Option<Instructions>,
        read_only: bool,
        model: Box<dyn CostModel>,
    ) -> Self {
        let len = mapping.len();
        Self {
            base: mapping.base(),
            len,
            load_limit: AtomicU64::new(len),
            store_limit: AtomicU64::new(if read_only { 0 } else { len }),
            watched: AtomicBool::new(false),
            read_only,
            instructions,
            model,
            cached: CachedPages::new(len),
            watch: Arc::new(Watch::new()),
            origin: 0,
            mapping,
        }
    }

    /// Pages of a region as a region of its own, which takes no time. Its taps and faults are those of the whole, which know its
    /// bytes by their place there: so one recorder sees a design that is made on memory and on a block device.
    pub fn part(whole: &Arc<Self>, range: Range<u64>) -> Result<Self, MediaError> {
        aligned::<PAGE>(range.start)?;
        if range.is_empty() {
            return Err(MediaError::Empty);
        }
        whole.check_range(range.start, range.end - range.start)?;
        let (origin, instructions, read_only) = (range.start, whole.instructions, whole.read_only);
        let part = Self::over(
            Mapping::Part(Arc::clone(whole), range),
            instructions,
            read_only,
            Box::new(null::Null),
        );
        // Every access asks the whole what is to fail, and who hears of it.
        let (load_limit, store_limit, watched) =
            (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(true));
        Ok(Self { load_limit, store_limit, watched, watch: Arc::clone(&whole.watch), origin, ..part })
    }

    /// The region that is watched: this one, or the one that it is a part of.
    fn whole(&self) -> &Self {
        match &self.mapping {
            Mapping::Part(whole, _) => whole.whole(),
            _ => self,
        }
    }

    /// Size in bytes; never zero.
    #[inline]
    #[allow(clippy::len_without_is_empty)] // a region is never empty
    pub fn len(&self) -> u64 {
        self.len
    }

    /// What accesses cost.
    pub fn model(&self) -> &dyn CostModel {
        &*self.model
    }

    /// Whether fences make bytes survive a power loss of this host.
    pub fn is_persistent(&self) -> bool {
        self.instructions.is_some()
    }

    /// Whether only [`Region::sync`] makes what was stored survive a power loss of this host: it is in the page cache of the host.
    pub(crate) fn needs_sync(&self) -> bool {
        self.mapping.needs_sync()
    }

    /// Makes all that was stored survive a power loss: `msync` of a file, nothing where a fence suffices or
    /// nothing helps. After one that failed none succeeds until the file is opened anew: what the host has dropped is lost.
    pub fn sync(&self) -> Result<(), MediaError> {
        self.mapping.sync()
    }
}

/// Copies file data out of a region as [`Region::load`] does; how many of the bytes came from the medium and not from the
/// processor's caches.
pub fn load_counted(region: &Region, off: u64, buf: &mut [u8]) -> Result<u64, MediaError> {
    let from = region.load_from(off, buf.len() as u64)?;
    sim::count(&crate::charges::BYTES_LOADED, buf.len() as u64);
    let (mut at, mut missed) = (0, 0);
    for (piece, len) in pages(off, buf.len() as u64) {
        if region.copied(piece, len, Way::Out, at > 0) {
            missed += len;
            if at == 0 { region.model.load(piece, len) } else { region.model.load_on(piece, len) }
        }
        // SAFETY: `load_from` checked the whole range; `buf` is ours, so the two cannot overlap.
        unsafe { ptr::copy_nonoverlapping(from.add(at), buf.as_mut_ptr().add(at), len as usize) };
        at += len as usize;
    }
    Ok(missed)
}

/// # Loads
impl Region {
    /// Copies file data out of the region: the path that pays for the medium.
    pub fn load(&self, off: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        load_counted(self, off, buf).map(drop)
    }

    /// Comes to an object of metadata, `lines` cache lines from `off` on, whose last use `recency` remembers: when it is in no
    /// cache, the lines are loaded from the medium. What is read of it next is a plain memory read.
    #[inline]
    pub fn touch(&self, recency: &Recency, off: u64, lines: u64) {
        recency.touch_with(lines, !self.model.loads_whole(), || self.model.load(off, lines * LINE));
    }

    /// Comes to `lines` cache lines of metadata from `off` on, which lie in one page and of which no object remembers the last use:
    /// as [`Region::touch`], by what is known of the page. Nothing on a machine that does not price copies by level.
    #[inline]
    pub fn touch_page(&self, off: u64, lines: u64) {
        if sim::cache::prices_copies() {
            let (page, part) = (self.cached.of(off), (off % PAGE, lines * LINE));
            page.touch_with(part, !self.model.loads_whole(), || self.model.load(off, lines * LINE));
        }
    }

    /// Charges a copy between a page and a buffer of the caller; true when the bytes come from the medium, which has not been
    /// charged by it. `goes_on`: the copy has begun at an earlier page.
    #[inline]
    fn copied(&self, off: u64, len: u64, way: Way, goes_on: bool) -> bool {
        let stream = sim::Stream { memory: self.model.memory().map(|memory| &**memory), goes_on };
        match way {
            _ if !sim::cache::prices_copies() => sim::copy_uncached(len, way == Way::In, stream),
            Way::Out => sim::copy_from_page(self.cached.of(off), off % PAGE, len, stream),
            Way::In => sim::copy_to_page(self.cached.of(off), off % PAGE, len, stream),
        }
    }

    /// Copies metadata out of the region: a plain memory read, served by the caches.
    #[inline]
    pub fn peek(&self, off: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        let from = self.load_from(off, buf.len() as u64)?;
        // SAFETY: `load_from` checked the range; `buf` is ours, so the two cannot overlap.
        unsafe { ptr::copy_nonoverlapping(from, buf.as_mut_ptr(), buf.len()) };
        Ok(())
    }

    /// Reads a structure: a plain memory read.
    #[inline]
    pub fn read<T: FromBytes>(&self, off: u64) -> Result<T, MediaError> {
        let from = self.load_from(off, size_of::<T>() as u64)?;
        // SAFETY: `load_from` checked the range, and any bytes are a valid `T`.
        Ok(unsafe { from.cast::<T>().read_unaligned() })
    }

    /// An aligned word.
    #[inline]
    pub fn load_u16(&self, off: u64) -> Result<u16, MediaError> {
        let from = self.load_word::<2>(off)?;
        // SAFETY: `load_word` checked range and alignment (the base is page-aligned).
        Ok(u16::from_le(unsafe { AtomicU16::from_ptr(from.cast()) }.load(Ordering::Acquire)))
    }

    /// An aligned word.
    #[inline]
    pub fn load_u32(&self, off: u64) -> Result<u32, MediaError> {
        let from = self.load_word::<4>(off)?;
        // SAFETY: as in `load_u16`.
        Ok(u32::from_le(unsafe { AtomicU32::from_ptr(from.cast()) }.load(Ordering::Acquire)))
    }

    /// An aligned word.
    #[inline]
    pub fn load_u64(&self, off: u64) -> Result<u64, MediaError> {
        let from = self.load_word::<8>(off)?;
        // SAFETY: as in `load_u16`.
        Ok(u64::from_le(unsafe { AtomicU64::from_ptr(from.cast()) }.load(Ordering::Acquire)))
    }

    #[inline]
    fn load_word<const SIZE: u64>(&self, off: u64) -> Result<*mut u8, MediaError> {
        aligned::<SIZE>(off)?;
        self.load_from(off, SIZE)
    }

    #[inline]
    fn load_from(&self, off: u64, len: u64) -> Result<*mut u8, MediaError> {
        if !fits(off, len, self.load_limit.load(Ordering::Relaxed)) {
            self.load_slowly(off, len)?;
        }
        // SAFETY: the range lies inside the mapping.
        Ok(unsafe { self.base.add(off as usize) })
    }

    /// The range is outside, a load may fail, or a tap hears loads.
    #[cold]
    fn load_slowly(&self, off: u64, len: u64) -> Result<(), MediaError> {
        self.check_range(off, len)?;
        self.watch.admit(Target::Load, self.origin + off, len)?;
        self.watch.tell_load(self.origin + off, len);
        Ok(())
    }
}

/// # Stores
impl Region {
    /// Copies bytes into the region through the cache: durable after flush and fence.
    pub fn store(&self, off: u64, data: &[u8]) -> Result<(), MediaError> {
        self.check_range(off, data.len() as u64)?;
        for (piece, len) in pages(off, data.len() as u64) {
            if self.copied(piece, len, Way::In, piece > off) {
                self.model.fetch(piece, len);
            }
        }
        self.store_bytes(off, data)
    }

    /// Copies bytes to lines that a cache has, as [`Region::write`] does a structure.
    pub fn store_cached(&self, off: u64, data: &[u8]) -> Result<(), MediaError> {
        self.store_bytes(off, data)
    }

    /// Writes a structure through the cache.
    #[inline]
    pub fn write<T: IntoBytes + Immutable>(&self, off: u64, value: &T) -> Result<(), MediaError> {
        self.store_bytes(off, value.as_bytes())
    }

    #[inline]
    fn store_bytes(&self, off: u64, data: &[u8]) -> Result<(), MediaError> {
        let to = self.store_to(off, data.len() as u64)?;
        // SAFETY: `store_to` checked the range; `data` cannot lie in the region, of which no references
        // exist.
        unsafe { ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()) };
        self.stored(off, data, StoreKind::Bytes);
        Ok(())
    }

    /// Stores an aligned word.
    #[inline]
    pub fn store_u16(&self, off: u64, v: u16) -> Result<(), MediaError> {
        let to = self.store_word::<2>(off)?;
        // SAFETY: `store_word` checked range and alignment (the base is page-aligned).
        unsafe { AtomicU16::from_ptr(to.cast()) }.store(v.to_le(), Ordering::Release);
        self.stored(off, &v.to_le_bytes(), StoreKind::Word);
        Ok(())
    }

    /// Stores an aligned word.
    #[inline]
    pub fn store_u32(&self, off: u64, v: u32) -> Result<(), MediaError> {
        let to = self.store_word::<4>(off)?;
        // SAFETY: as in `store_u16`.
        unsafe { AtomicU32::from_ptr(to.cast()) }.store(v.to_le(), Ordering::Release);
        self.stored(off, &v.to_le_bytes(), StoreKind::Word);
        Ok(())
    }

    /// Stores an aligned word: the unit that a power loss cannot tear.
    #[inline]
    pub fn store_u64(&self, off: u64, v: u64) -> Result<(), MediaError> {
        let to = self.store_word::<8>(off)?;
        // SAFETY: as in `store_u16`.
        unsafe { AtomicU64::from_ptr(to.cast()) }.store(v.to_le(), Ordering::Release);
        self.stored(off, &v.to_le_bytes(), StoreKind::Word);
        Ok(())
    }

    /// Stores two words, 16-aligned, so that a power loss cannot tear them apart. Readers may still see one
    /// without the other unless the region is persistent, where it is one instruction.
    #[inline]
    pub fn store_pair(&self, off: u64, v: [u64; 2]) -> Result<(), MediaError> {
        aligned::<16>(off)?;
        let to = self.store_to(off, 16)?;
        let pair = v.map(u64::to_le);
        match self.instructions {
            // SAFETY: `store_to` checked the range, and `aligned` the alignment.
            Some(instructions) => unsafe { instructions.store_pair(to, pair) },
            None => {
                for (index, word) in pair.into_iter().enumerate() {
                    // SAFETY: as in `store_u16`; both words lie in the checked 16 bytes.
                    unsafe { AtomicU64::from_ptr(to.add(8 * index).cast()) }.store(word, Ordering::Release);
                }
            }
        }
        self.stored(off, pair.as_bytes(), StoreKind::Pair);
        Ok(())
    }

    /// Copies bytes into the region past the cache, as a bulk write does: durable after a fence. The bytes
    /// before the first and after the last whole word go through the cache and are flushed, as PMFS does. A
    /// range that does not fit is refused as a whole; a fault in the middle leaves the pages before it
    /// written.
    #[track_caller]
    pub fn nt_store(&self, off: u64, data: &[u8]) -> Result<(), MediaError> {
        // One check for the whole range, so that nothing is written when a part does not fit.
        self.check_range(off, data.len() as u64)?;
        let head = (off.wrapping_neg() % WORD).min(data.len() as u64);
        let (head, rest) = data.split_at(head as usize);
        let (body, tail) = rest.split_at(rest.len() - rest.len() % WORD as usize);
        self.store_edge(off, head)?;
        let start = off + head.len() as u64;
        let end = start + body.len() as u64;
        // Lines of the edges are written by their flushes.
        let first = if head.is_empty() { start } else { start.next_multiple_of(LINE) };
        let last = if tail.is_empty() { end } else { end / LINE * LINE };
        let mut at = 0;
        for (piece, len) in pages(start, body.len() as u64) {
            let (from, to) = (piece.max(first), (piece + len).min(last));
            let lines = lines(from, to.saturating_sub(from));
            self.nt_words(piece, &body[at..at + len as usize], from, lines)?;
            at += len as usize;
        }
        self.store_edge(end, tail)
    }

    /// Zeroes bytes past the cache.
    #[track_caller]
    pub fn nt_zero(&self, off: u64, len: u64) -> Result<(), MediaError> {
        self.check_range(off, len)?;
        for (piece, len) in pages(off, len) {
            self.nt_store(piece, &ZEROS[..len as usize])?;
        }
        Ok(())
    }

    /// Part of a word at the edge of a bulk store.
    #[inline]
    #[track_caller]
    fn store_edge(&self, off: u64, data: &[u8]) -> Result<(), MediaError> {
        if !data.is_empty() {
            self.store(off, data)?;
            self.flush(off, data.len() as u64);
        }
        Ok(())
    }

    /// Whole words inside one page, past the cache, of which `lines` lines from `written` on are charged.
    #[inline]
    fn nt_words(&self, off: u64, data: &[u8], written: u64, lines: u64) -> Result<(), MediaError> {
        let len = data.len() as u64;
        let to = self.store_to(off, len)?;
        let started = if self.model.posts_stores() { sim::now() } else { Nanos::ZERO };
        let posted = sim::copy_past_to(self.model.memory().map(|memory| &**memory), len);
        if sim::cache::prices_copies() {
            self.cached.of(off).evict(off % PAGE, len);
        }
        match self.instructions {
            // SAFETY: `store_to` checked the range; offset and length are multiples of 8.
            Some(instructions) => unsafe { instructions.stream(to, data) },
            // SAFETY: `store_to` checked the range; `data` cannot lie in the region, of which no references
            // exist.
            None => unsafe { ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()) },
        }
        if self.is_watched() {
            self.watch.tell(Event::NtStore { off: self.origin + off, data });
        }
        sim::count(&crate::charges::BYTES_NT_STORED, len);
        if lines > 0 {
            sim::count(&crate::charges::LINES_WRITTEN, lines);
            if !posted {
                self.model.write_since(written, lines, started);
            }
        }
        Ok(())
    }

    #[inline]
    fn store_word<const SIZE: u64>(&self, off: u64) -> Result<*mut u8, MediaError> {
        aligned::<SIZE>(off)?;
        self.store_to(off, SIZE)
    }

    #[inline]
    fn store_to(&self, off: u64, len: u64) -> Result<*mut u8, MediaError> {
        if !fits(off, len, self.store_limit.load(Ordering::Relaxed)) {
            self.admit_store(off, len)?;
        }
        // SAFETY: the range lies inside the mapping.
        Ok(unsafe { self.base.add(off as usize) })
    }

    /// The range is outside, or the region is read-only, or a store may fail.
    #[cold]
    fn admit_store(&self, off: u64, len: u64) -> Result<(), MediaError> {
        self.check_range(off, len)?;
        if self.read_only {
            return Err(MediaError::ReadOnly { offset: off });
        }
        self.watch.admit(Target::Store, self.origin + off, len)
    }

    #[inline]
    fn stored(&self, off: u64, data: &[u8], kind: StoreKind) {
        sim::count(&crate::charges::BYTES_STORED, data.len() as u64);
        if self.is_watched() {
            self.watch.tell(Event::Store { off: self.origin + off, data, kind });
        }
    }
}

/// # Ordering
impl Region {
    /// Starts the write-back of every line that holds one of these bytes. Bytes outside the region are
    /// ignored.
    #[track_caller]
    pub fn flush(&self, off: u64, len: u64) {
        let end = off.saturating_add(len).min(self.len);
        if len == 0 || off >= end || self.leaves_out_of(Target::Flush, Location::caller()) {
            return;
        }
        let (first, len) = (off - off % LINE, end - (off - off % LINE));
        let lines = lines(first, len);
        sim::work(crate::charges::FLUSH_ISSUE, lines);
        sim::count(&crate::charges::FLUSHES, 1);
        sim::count(&crate::charges::LINES_WRITTEN, lines);
        if let Some(instructions) = self.instructions {
            for line in 0..lines {
                // SAFETY: every line begins inside the region.
                unsafe { instructions.write_back(self.base.add((first + line * LINE) as usize)) };
            }
        }
        // Told before the time passes: what another task stores meanwhile is not part of this write-back.
        if self.is_watched() {
            self.watch.tell(Event::Flush { off: self.origin + off, len: end - off });
        }
        let evicts = sim::cache::flush_evicts();
        for (piece, len) in pages(first, len) {
            if evicts {
                self.cached.of(piece).evict(piece % PAGE, len);
            }
            self.model.write(piece, len.div_ceil(LINE));
        }
    }

    /// Waits until this task's earlier flushes and non-temporal stores are durable.
    #[track_caller]
    pub fn fence(&self) {
        if self.leaves_out_of(Target::Fence, Location::caller()) {
            return;
        }
        sim::work(crate::charges::STORE_FENCE, 1);
        sim::count(&crate::charges::FENCES, 1);
        if let Some(instructions) = self.instructions {
            instructions.fence();
        }
        self.model.fence();
        if self.is_watched() {
            self.watch.tell(Event::Fence);
        }
    }

    /// Copies out, unseen by taps, untouched by faults and at no cost: for the recorder.
    pub(crate) fn copy_out(&self, off: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.check_range(off, buf.len() as u64)?;
        // SAFETY: the range was checked; `buf` cannot lie in the region, of which no references exist.
        unsafe { ptr::copy_nonoverlapping(self.base.add(off as usize), buf.as_mut_ptr(), buf.len()) };
        Ok(())
    }

    /// Copies in, unseen by taps, untouched by faults and at no cost: for the recorder's scratch regions.
    pub(crate) fn copy_in(&self, off: u64, data: &[u8]) -> Result<(), MediaError> {
        self.check_range(off, data.len() as u64)?;
        if self.read_only {
            return Err(MediaError::ReadOnly { offset: off });
        }
        // SAFETY: as in `copy_out`, and the mapping is writable.
        unsafe { ptr::copy_nonoverlapping(data.as_ptr(), self.base.add(off as usize), data.len()) };
        Ok(())
    }

    /// Tells the taps what the design is doing.
    #[inline]
    pub fn mark(&self, mark: Mark<'_>) {
        if self.is_watched() {
            mark.moved(self.origin, |mark| self.watch.tell(Event::Mark(mark)));
        }
    }
}

/// # Watching
impl Region {
    /// Its taps and faults, for a block device that lies on it.
    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Lets `tap` listen from now on, after those that listen already.
    pub fn attach(&self, tap: Arc<dyn Tap>) {
        self.watch.change_taps(|taps| taps.push(tap));
        self.whole().rewatch();
    }

    /// Stops telling `tap`. The region keeps it alive until it goes itself.
    pub fn detach<T: Tap + ?Sized>(&self, tap: &Arc<T>) {
        let gone = Arc::as_ptr(tap).cast::<()>();
        self.watch.change_taps(|taps| taps.retain(|tap| Arc::as_ptr(tap).cast::<()>() != gone));
        self.whole().rewatch();
    }

    /// Makes something go wrong.
    pub fn inject(&self, fault: Fault) {
        self.watch.add_fault(fault);
        self.whole().rewatch();
    }

    /// Makes all well again; returns how many accesses have gone wrong since it was so last.
    pub fn clear_faults(&self) -> u64 {
        let struck = self.watch.clear_faults();
        self.whole().rewatch();
        struck
    }

    /// Whether a design's allocator may give out the block or inode that it is about to: a fault may say that no space is left.
    #[inline]
    pub fn grants_space(&self) -> bool {
        !(self.is_watched() && self.watch.drops(Target::Space))
    }

    /// Whether a tap listens or a fault is armed: only then is it worth gathering what a mark says.
    #[inline]
    pub fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    /// Whether a range that an allocator gives out can be stored to. Of a file with holes the host reserves its blocks now, or has
    /// none left.
    #[inline]
    pub fn back(&self, offset: u64, len: u64) -> bool {
        self.mapping.back(offset, len)
    }

    /// The first range at or after `from` for which the host has blocks: where an allocator looks when [`Region::back`] says that
    /// the host has no more.
    pub fn backed_from(&self, from: u64) -> Option<Range<u64>> {
        self.mapping.backed_from(from)
    }

    /// The first range at or after `from` that may hold anything but zeros: all of the rest, but for the holes of a file. On some
    /// hosts (tmpfs) a load of a hole takes space.
    pub fn data_from(&self, from: u64) -> Option<Range<u64>> {
        self.mapping.data_from(from)
    }

    /// Gives the host the space of a range back, which no part of the design uses and the allocator does not give out meanwhile;
    /// its bytes are lost. Returns the bytes: none where the host has none to get. [`MediaError::NoHoles`]: it cannot take them.
    pub fn punch(&self, offset: u64, len: u64) -> Result<u64, MediaError> {
        self.check_range(offset, len)?;
        Ok(if self.mapping.punch(offset, len)? { len } else { 0 })
    }

    fn rewatch(&self) {
        let faulty = self.watch.is_faulty();
        let limit = |slow: bool| if slow { 0 } else { self.len };
        self.watched.store(faulty || self.watch.is_heard(), Ordering::Release);
        self.load_limit.store(limit(faulty || self.watch.hears_loads()), Ordering::Release);
        self.store_limit.store(limit(faulty || self.read_only), Ordering::Release);
    }

    /// Whether a fault makes the flush or fence that `site` asks for not happen.
    #[inline]
    fn leaves_out_of(&self, target: Target, site: Site) -> bool {
        self.is_watched() && self.watch.drops_for(target, site)
    }

    #[inline]
    fn check_range(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        if fits(offset, len, self.len) {
            Ok(())
        } else {
            Err(MediaError::OutOfRange { offset, len, size: self.len })
        }
    }
}

#[inline]
pub(crate) fn fits(off: u64, len: u64, limit: u64) -> bool {
    off <= limit && len <= limit - off
}

#[inline]
fn aligned<const ALIGN: u64>(offset: u64) -> Result<(), MediaError> {
    if offset.is_multiple_of(ALIGN) { Ok(()) } else { Err(MediaError::Misaligned { offset, align: ALIGN }) }
}

/// Number of lines that hold a byte of the range.
#[inline]
fn lines(off: u64, len: u64) -> u64 {
    if len == 0 { 0 } else { (off + len - 1) / LINE - off / LINE + 1 }
}

/// Cuts a range at page borders: no piece is longer than a page, and no line is in two pieces.
#[inline]
fn pages(off: u64, len: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = off + len;
    let mut at = off;
    std::iter::from_fn(move || {
        let from = at;
        at = (from / PAGE * PAGE + PAGE).min(end);
        (from < end).then(|| (from, at - from))
    })
}

#[cfg(test)]
mod tests;
