//! Reading and writing past the page cache (O_DIRECT).
//!
//! The device fills the program's buffer: one request for each run of blocks, as large as the device takes, all of a call in
//! flight at once. What the cache has of the range goes first: dirty pages are written back before a read, and all are forgotten
//! after a write.
//!
//! A write that needs blocks reserves them unwritten, writes the data and makes them written afterwards, so that no crash shows
//! what they held before. It carries no hint: its pages were never in the cache that makes them.
//!
//! Readers share the lock of the inode, and so do writers to blocks that are written, within the size: they take it alone only to
//! forget pages that are cached, and to set times that differ, which they do once a tick (`file_update_time`). Other writes have
//! it alone until the data is on the device (`ext4_dio_write_checks`).
//!
//! A range that is no multiple of the device's block, and data that goes through the journal, take the way through the cache.
//! (The kernel refuses the first with EINVAL.)
//!
//! Source: Linux 5.15, `fs/iomap/direct-io.c`, `fs/ext4/file.c`.

use std::ops::Range;
use std::sync::Arc;

use media::block::{Hint, Piece};
use sim::{Activity, Work};

use super::Volume;
use super::extent;
use super::inode::{Inode, InodeState, change_time};
use super::journal::DataMode;
use super::journal::credits::WRITE_CREDITS;
use super::layout::flag;
use super::runs::Mapped;
use base::error::Result;

/// Pinning the pages of a buffer: a reference taken and dropped, its descriptor, four levels of table.
fn pin_buffer(bytes: usize) {
    let pages = (bytes as u64).div_ceil(4096);
    sim::work(Work::LOCK, 2 * pages);
    sim::work(Work::MISS, pages);
    sim::work(Work::STEP, 4 * pages);
}

impl Volume {
    /// Whether a range can go past the cache.
    fn goes_past_cache(&self, offset: u64, len: usize, unit: u64) -> bool {
        let aligned = offset.is_multiple_of(unit) && (len as u64).is_multiple_of(unit) && len > 0;
        aligned && self.data_mode() != Some(DataMode::Journal)
    }

    /// Writes back what the cache has of a range, and waits for what is under way.
    fn settle_range(&self, inode: &Inode, Range { start: from, end: to }: Range<u64>) -> Result<()> {
        let pages = inode.mapping().range(from, to);
        if pages.iter().any(|page| page.is_busy()) {
            self.write_data(inode.mapping())?;
        }
        Ok(())
    }

    /// Reads into the program's buffer; none if the range has to go through the cache.
    pub(crate) fn read_direct(
        &self,
        inode: &Arc<Inode>,
        state: &InodeState,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<Option<usize>> {
        let unit = u64::from(self.device.geometry().block_bytes);
        if !self.goes_past_cache(offset, buffer.len(), unit) {
            return Ok(None);
        }
        let len = (buffer.len() as u64).min(state.raw.size().saturating_sub(offset)) as usize;
        if len == 0 {
            return Ok(Some(0));
        }
        let block_bytes = self.block_bytes();
        let whole = len.next_multiple_of(unit as usize);
        self.settle_range(inode, offset / block_bytes..(offset + whole as u64).div_ceil(block_bytes))?;
        pin_buffer(whole);
        let (mut at, mut rest) = (offset, &mut buffer[..whole]);
        let mut pieces: Vec<(u64, &mut [u8])> = Vec::new();
        while !rest.is_empty() {
            let (index, inside) = (at / block_bytes, at % block_bytes);
            let most = (inside + rest.len() as u64).div_ceil(block_bytes);
            let mapped = self.map(inode, state, index, most)?;
            let (Mapped::Blocks { len, .. } | Mapped::Hole(len)) = mapped;
            let bytes = (len.max(1) * block_bytes - inside).min(rest.len() as u64) as usize;
            let (piece, after) = rest.split_at_mut(bytes);
            match mapped {
                Mapped::Blocks { start, unwritten: false, .. } => {
                    sim::ran::push(&mut pieces, (start * block_bytes + inside, piece));
                }
                _ => piece.fill(0),
            }
            (at, rest) = (at + bytes as u64, after);
        }
        let _scope = sim::scope(Activity::DATA);
        self.cache.queue().read(&mut pieces)?;
        Ok(Some(len))
    }

    /// Writes from the program's buffer over blocks that are written, within the size of the file, beside other readers and writers
    /// of it; false if the range is not such a one, and nothing was done.
    pub(crate) fn overwrite_direct(&self, inode: &Arc<Inode>, offset: u64, data: &[u8]) -> Result<bool> {
        let state = self.read_settled(inode)?;
        Self::check_regular(&state)?;
        let (block_bytes, end) = (self.block_bytes(), offset.saturating_add(data.len() as u64));
        let fits = self.goes_past_cache(offset, data.len(), block_bytes) && state.raw.has(flag::EXTENTS);
        if !fits || end > state.raw.size() || state.raw.has(flag::IMMUTABLE) {
            return Ok(false);
        }
        let (first, last) = (offset / block_bytes, end / block_bytes);
        let (mut pieces, mut index) = (Vec::new(), first);
        while index < last {
            let Mapped::Blocks { start, len, unwritten: false } =
                self.map(inode, &state, index, last - index)?
            else {
                return Ok(false);
            };
            let from = ((index - first) * block_bytes) as usize;
            let data = &data[from..from + (len * block_bytes) as usize];
            sim::ran::push(&mut pieces, Piece { off: start * block_bytes, data, hint: Hint::None });
            index += len;
        }
        self.settle_range(inode, first..last)?;
        pin_buffer(data.len());
        let written = {
            let _scope = sim::scope(Activity::DATA);
            self.cache.queue().write(&pieces, false)
        };
        let (now, nothing_cached) = (change_time(), inode.mapping().range(first, last).is_empty());
        if written.is_ok() && nothing_cached && (state.raw.mtime(), state.raw.ctime()) == (now, now) {
            return Ok(true);
        }
        drop(state);
        let mut state = inode.change();
        // Also after a failure: a part may have arrived.
        self.cache.forget(inode.mapping(), first, last);
        written?;
        if state.check_live().is_ok() {
            self.finish_direct(inode, &mut state, first..last, (0, false))?;
        }
        Ok(true)
    }

    /// Writes from the program's buffer; none if the range has to go through the cache.
    pub(crate) fn write_direct(
        &self,
        inode: &Arc<Inode>,
        state: &mut InodeState,
        offset: u64,
        data: &[u8],
    ) -> Result<Option<usize>> {
        let block_bytes = self.block_bytes();
        let end = offset + data.len() as u64;
        if !self.goes_past_cache(offset, data.len(), block_bytes)
            || !state.raw.has(flag::EXTENTS)
            || end > self.max_file_bytes(state)
        {
            return Ok(None);
        }
        let (first, last) = (offset / block_bytes, end / block_bytes);
        self.settle_range(inode, first..last)?;
        if self.reserve_range(inode, state, offset..end).is_err() {
            // The way through the cache writes as much as there is space for, or tells the error.
            return Ok(None);
        }
        self.zero_tail(inode, state, offset)?;
        pin_buffer(data.len());
        let (mut pieces, mut unwritten, mut index) = (Vec::new(), false, first);
        while index < last {
            let Mapped::Blocks { start, len, unwritten: new } =
                self.map(inode, state, index, last - index)?
            else {
                return Ok(None);
            };
            unwritten |= new;
            let from = ((index - first) * block_bytes) as usize;
            let data = &data[from..from + (len * block_bytes) as usize];
            sim::ran::push(&mut pieces, Piece { off: start * block_bytes, data, hint: Hint::None });
            index += len;
        }
        let written = {
            let _scope = sim::scope(Activity::DATA);
            self.cache.queue().write(&pieces, false)
        };
        // Also after a failure: a part may have arrived.
        self.cache.forget(inode.mapping(), first, last);
        written?;
        self.finish_direct(inode, state, first..last, (end, unwritten))?;
        Ok(Some(data.len()))
    }

    /// The data is on the device: its blocks become the file's.
    fn finish_direct(
        &self,
        inode: &Arc<Inode>,
        state: &mut InodeState,
        blocks: Range<u64>,
        (end, unwritten): (u64, bool),
    ) -> Result<()> {
        let handle = self.begin(WRITE_CREDITS)?;
        if unwritten {
            extent::convert(self, &handle, inode, state, blocks)?;
        }
        if end > state.raw.size() {
            state.raw.set_size(end);
        }
        let now = change_time();
        state.raw.set_mtime(now);
        state.raw.set_ctime(now);
        self.store_inode(&handle, inode, state)
    }
}
