//! What is buffered of one file: the DRAM block index, the ghost entries, the open transaction.
//!
//! # Lines
//!
//! A bit of `dirty` for each 64-byte line of a buffered block. Set: DRAM has the newest bytes, which the medium lacks. Clear:
//! the medium has them, and the page's bytes there mean nothing. Because a line is fetched only to be written at once, one
//! bit serves as "valid" and "dirty". Bytes of a dirty line beyond the end of the file are zeros.
//!
//! # Transactions
//!
//! A file has at most one open transaction. It has logged the inode's first half; every later growth of the file joins it.
//! It commits when the last buffered block that it waits for (`in_tx`) has been written back, by fsync, or by the removal of
//! the file's last name, which joins it. While a writer has taken it (`open` is none, `waits_for` may not be 0), only that writer
//! can commit it.
//!
//! Lock order: `hinfs.file` comes after `pmfs.inode` and before `hinfs.pool` and the journal. Write-back takes it without the
//! inode's lock, and not while it writes (`in_flight.rs`).

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use media::nvmm::Region;
use sim::sync::AtomicU32;
use sim::sync::Ordering::{Acquire, Release};
use sim::{LINE_BYTES, LockClass, Mutex, MutexGuard, Nanos, PAGE_BYTES, Recency, ran};

use crate::pmfs::journal::Transaction;
use base::error::{Error, Result};
use base::persist::lrw::EntryId;
use base::persist::page::Page;

pub(super) static FILE: LockClass =
    LockClass::new("hinfs.file").under(&[&crate::pmfs::inode::INODE]).several();

/// A file's place in the table of buffers. Most files have no buffer at a time.
pub(crate) struct FileSlot {
    /// Buffered blocks, for readers that need not lock when there are none.
    buffered: AtomicU32,
    state: Mutex<Option<Box<FileBuffer>>>,
}

const _: () = assert!(size_of::<FileSlot>() <= 72);

/// The right to use the buffer of a file.
pub(crate) struct LockedBuffer<'a>(pub(super) MutexGuard<'a, Option<Box<FileBuffer>>>);

impl Deref for LockedBuffer<'_> {
    type Target = FileBuffer;
    fn deref(&self) -> &FileBuffer {
        self.0.as_deref().unwrap_or(&EMPTY)
    }
}

impl DerefMut for LockedBuffer<'_> {
    fn deref_mut(&mut self) -> &mut FileBuffer {
        self.0.get_or_insert_with(|| ran::boxed(FileBuffer::default()))
    }
}

impl LockedBuffer<'_> {
    /// Gives the memory of a buffer back that says nothing.
    pub(crate) fn shrink(&mut self) {
        if self.is_empty() {
            self.clear();
        }
    }

    /// Forgets everything that was known of the file.
    pub(crate) fn clear(&mut self) {
        *self.0 = None;
    }
}

/// The buffer of one file.
#[derive(Default)]
pub(crate) struct FileBuffer {
    pub(crate) blocks: BTreeMap<u64, Buffered>,
    pub(crate) ghosts: BTreeMap<u64, Ghost>,
    pub(crate) open: Option<OpenTransaction>,
    /// Write-back took the ticket of the transaction from the pool, and then found that a writer has taken the transaction.
    pub(crate) ticket_taken: bool,
    /// Blocks that the open transaction waits for.
    pub(crate) waits_for: u32,
    /// When the file was last synced.
    pub(crate) last_sync: Option<Nanos>,
    /// What the last judged block became: new blocks inherit it.
    pub(crate) last_judged_eager: bool,
    /// Ghosts with writes since the last sync.
    pub(crate) unjudged: Vec<u64>,
    /// Data was lost since the last sync, which will say so.
    pub(crate) lost: Option<Error>,
}

/// An open transaction and its ticket in the pool.
#[derive(Debug)]
pub(crate) struct OpenTransaction {
    pub(crate) tx: Transaction,
    /// None before the transaction was first left open.
    pub(crate) ticket: Option<u64>,
}

/// A block that is buffered.
pub(crate) struct Buffered {
    /// Shared while the block is in flight, otherwise this is the only owner.
    page: Arc<Page>,
    /// The block is on its way to the medium, and does not change.
    pub(crate) in_flight: bool,
    /// Lines that DRAM has and the medium lacks.
    pub(crate) dirty: u64,
    /// Where the block lies on the medium.
    pub(crate) at: u64,
    /// Line writes since the last sync (`N_cw`).
    pub(crate) line_writes: u64,
    pub(crate) entry: EntryId,
    pub(crate) in_tx: bool,
    /// Its last move to the end of the pool's list ([`super::pool::Pool::touch`]); nothing while no line is dirty.
    pub(crate) moved: u64,
    /// Of the block's place in the index.
    recency: Recency,
}

/// A block that is written directly: what would be dirty if it were buffered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ghost {
    /// Lines written since the last sync.
    pub(crate) dirty: u64,
    /// Line writes since the last sync.
    pub(crate) line_writes: u64,
    pub(crate) eager: bool,
    pub(crate) written: Nanos,
    pub(crate) entry: EntryId,
}

/// What is known of a file without a buffer.
static EMPTY: FileBuffer = FileBuffer {
    blocks: BTreeMap::new(),
    ghosts: BTreeMap::new(),
    open: None,
    ticket_taken: false,
    waits_for: 0,
    last_sync: None,
    last_judged_eager: false,
    unjudged: Vec::new(),
    lost: None,
};

impl FileBuffer {
    /// Whether it says no more than one that was just made.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
            && self.ghosts.is_empty()
            && self.open.is_none()
            && !self.ticket_taken
            && self.waits_for == 0
            && self.last_sync.is_none()
            && !self.last_judged_eager
            && self.unjudged.is_empty()
            && self.lost.is_none()
    }

    /// The open transaction waits for `block` from now on.
    pub(crate) fn mark_in_tx(&mut self, block: u64) {
        if let Some(buffered) = self.blocks.get_mut(&block).filter(|buffered| !buffered.in_tx) {
            buffered.in_tx = true;
            self.waits_for += 1;
        }
    }
}

impl FileSlot {
    pub(crate) fn new() -> Self {
        Self { buffered: AtomicU32::new(0), state: Mutex::new(&FILE, None) }
    }

    /// Locks the buffer.
    pub(crate) fn lock(&self) -> LockedBuffer<'_> {
        LockedBuffer(self.state.lock())
    }

    /// Whether nothing of the file is buffered. The caller holds the inode's lock, so nothing will be.
    pub(crate) fn is_empty(&self) -> bool {
        self.buffered.load(Acquire) == 0
    }

    /// Blocks were added or taken away.
    pub(crate) fn note_len(&self, buffer: &FileBuffer) {
        self.buffered.store(buffer.blocks.len() as u32, Release);
    }
}

impl Ghost {
    /// Clears lines that write-back would have flushed by now, which the next sync would not flush.
    pub(crate) fn age(&mut self, now: Nanos, dirty_age: Nanos) {
        if now.since(self.written) > dirty_age {
            self.dirty = 0;
        }
    }
}

/// The lines that `len` bytes at `within` touch, as bits. Empty ranges touch none.
pub(crate) fn lines_of(within: usize, len: usize) -> u64 {
    if len == 0 {
        return 0;
    }
    let (first, last) = (within / LINE_BYTES, (within + len - 1) / LINE_BYTES);
    (u64::MAX >> (63 - (last - first))) << first
}

/// The runs of set bits, as byte ranges of a page.
pub(crate) fn runs(mut lines: u64) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut base = 0;
    std::iter::from_fn(move || {
        if lines == 0 {
            return None;
        }
        let skip = lines.trailing_zeros() as usize;
        lines >>= skip;
        let len = lines.trailing_ones() as usize;
        let start = base + skip;
        lines = if len == 64 { 0 } else { lines >> len };
        base = start + len;
        Some(start * LINE_BYTES..base * LINE_BYTES)
    })
}

/// What a buffered block needs to know of the write that comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockWrite {
    /// Offset of the block in the file.
    pub(crate) start: u64,
    /// First byte of the write within the block.
    pub(crate) within: usize,
    /// Its length.
    pub(crate) len: usize,
    /// Where the block lies on the medium.
    pub(crate) at: u64,
    /// The open transaction has to wait for the block.
    pub(crate) in_tx: bool,
    /// The block was allocated by this write: the medium has garbage.
    pub(crate) fresh: bool,
    /// Size of the file before the write: the medium has nothing beyond.
    pub(crate) old_size: u64,
    /// Size of the file after it.
    pub(crate) new_size: u64,
}

impl Buffered {
    /// A block at `at` of the medium; `page` holds none of its bytes yet.
    pub(crate) fn new(page: Arc<Page>, entry: EntryId, at: u64, line_writes: u64) -> Self {
        let recency = Recency::now(1);
        Self { page, in_flight: false, dirty: 0, at, line_writes, entry, in_tx: false, moved: 0, recency }
    }

    /// The index has led here: the processor waits for the line if it has not been used for long.
    pub(crate) fn visit(&self) {
        self.recency.touch(1);
    }

    /// The page, to be changed: the caller has waited until the block was not in flight.
    fn page(&mut self) -> Result<&mut [u8; PAGE_BYTES]> {
        let shared = || Error::Corrupt(format!("the block at {} is changed in flight", self.at));
        Arc::get_mut(&mut self.page).map(Page::bytes_mut).ok_or_else(shared)
    }

    /// The page, for a write-back.
    pub(crate) fn share(&self) -> Arc<Page> {
        Arc::clone(&self.page)
    }

    /// The page, for the pool.
    pub(crate) fn into_page(self) -> Arc<Page> {
        self.page
    }

    /// Copies a write into the page and marks its lines; lines that it covers partially are fetched from the medium, or with
    /// `whole` the whole block. Returns how many were fetched.
    pub(crate) fn write(
        &mut self,
        region: &Region,
        write: &BlockWrite,
        data: &[u8],
        whole: bool,
    ) -> Result<u64> {
        self.visit();
        let fetched = match self.dirty == 0 && write.fresh {
            true => self.prepare_fresh(write, whole).map(|()| 0),
            false => self.prepare(region, write, whole),
        }?;
        self.page()?[write.within..write.within + write.len].copy_from_slice(data);
        self.page.charge_copy_in(data.len());
        let lines = lines_of(write.within, write.len);
        self.dirty |= lines;
        self.line_writes += u64::from(lines.count_ones());
        Ok(fetched)
    }

    /// Makes the lines valid in DRAM that a write covers partially.
    fn prepare(&mut self, region: &Region, write: &BlockWrite, whole: bool) -> Result<u64> {
        if whole {
            let missing = if self.dirty == 0 && write.len < PAGE_BYTES { !0 } else { 0 };
            let fetched = self.fetch(region, write, missing)?;
            self.dirty = !0;
            return Ok(fetched);
        }
        let end = write.within + write.len;
        let edges = [(write.within, write.within % LINE_BYTES), (end, end % LINE_BYTES)];
        let partial = edges
            .iter()
            .filter(|(_, ragged)| *ragged != 0)
            .fold(0, |lines, (at, _)| lines | lines_of(*at, 1));
        self.fetch(region, write, partial & !self.dirty)
    }

    /// A new block: zeros where the file has bytes that this write does not cover.
    fn prepare_fresh(&mut self, write: &BlockWrite, whole: bool) -> Result<()> {
        let valid = write.new_size.saturating_sub(write.start).min(PAGE_BYTES as u64) as usize;
        let valid = if whole { PAGE_BYTES } else { valid.next_multiple_of(LINE_BYTES) };
        let end = (write.within + write.len).min(valid);
        let page = self.page()?;
        page[..write.within].fill(0);
        page[end..valid].fill(0);
        self.page.charge_copy_in(write.within + valid - end);
        self.dirty = lines_of(0, valid);
        Ok(())
    }

    /// Fetches lines from the medium; what lies beyond the old end of the file is zero.
    fn fetch(&mut self, region: &Region, write: &BlockWrite, lines: u64) -> Result<u64> {
        let valid = write.old_size.saturating_sub(write.start).min(PAGE_BYTES as u64) as usize;
        let at = self.at;
        for run in runs(lines) {
            let split = valid.clamp(run.start, run.end);
            let page = self.page()?;
            if split > run.start {
                region.load(at + run.start as u64, &mut page[run.start..split])?;
            }
            page[split..run.end].fill(0);
        }
        Ok(u64::from((lines & lines_of(0, valid)).count_ones()))
    }

    /// Zeros the bytes from `end` on.
    pub(crate) fn zero_from(&mut self, end: usize) -> Result<()> {
        self.page()?[end..].fill(0);
        Ok(())
    }

    /// Reads bytes of the block: dirty lines from DRAM, the others from the medium, one copy for each run.
    pub(crate) fn read(&self, region: &Region, within: usize, out: &mut [u8]) -> Result<()> {
        self.visit();
        let mut done = 0;
        while done < out.len() {
            let at = within + done;
            let line = at / LINE_BYTES;
            let in_dram = self.dirty >> line & 1 == 1;
            let same = if in_dram {
                (self.dirty >> line).trailing_ones()
            } else {
                (self.dirty >> line).trailing_zeros()
            };
            let run_end = ((line + same as usize) * LINE_BYTES).min(PAGE_BYTES);
            let len = (run_end - at).min(out.len() - done);
            let part = &mut out[done..done + len];
            if in_dram {
                part.copy_from_slice(&self.page.bytes()[at..at + len]);
                self.page.charge_copy_out(len);
            } else {
                region.load(self.at + at as u64, part)?;
            }
            done += len;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_that_a_range_touches() {
        assert_eq!(lines_of(0, 112), 0b11);
        assert_eq!(lines_of(63, 2), 0b11);
        assert_eq!(lines_of(64, 64), 0b10);
        assert_eq!(lines_of(0, 4096), !0);
        assert_eq!(lines_of(4095, 1), 1 << 63);
        assert_eq!(lines_of(10, 0), 0);
    }

    #[test]
    fn runs_cover_exactly_the_set_bits() {
        for lines in [0, 1, !0, 0b1011, 1 << 63, 0xf0f0_0000_0000_000f, !1, !0 >> 1] {
            let covered = runs(lines).fold(0, |all, run| all | lines_of(run.start, run.len()));
            assert_eq!(covered, lines, "{lines:b}");
        }
    }
}
