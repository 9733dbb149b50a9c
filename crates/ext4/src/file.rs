//! Contents of files: reading and writing through the page cache, cutting, reserving.
//!
//! Blocks are allocated when data is written back (`delalloc.rs`), or with `nodelalloc` when they are written to, inside the handle
//! in which the pages become dirty: an ordered commit that follows finds them. A page of a hole or of unwritten blocks is cached as
//! zeros and has no block.
//!
//! A page remembers how the file grew by it, until it is written back. The study of fragmentation on flash (FAST 2024) lets the
//! device know: a page that raised the size is an append, behind the block of the page before it; every other one an overwrite.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ::vfs::{FallocateMode, FileKind, SeekTo};
use sim::{Activity, ByteRun, Run};

use super::extent;
use super::inode::{Inode, InodeState, change_time};
use super::journal::credits::{TRUNCATE_CREDITS, WRITE_CREDITS};
use super::journal::{DataMode, Handle};
use super::layout::flag;
use super::runs::Mapped;
use super::{JOURNALED_BYTES, Volume, mutant};
use base::cache::{FILE_BYTES, Growth, NO_BLOCK, Page, PageState};
use base::error::{Error, Result};

/// Blocks that one handle writes at most.
const CHUNK_BLOCKS: u64 = 256;

/// A block of a file that is written: where it is on the device, and whether what it held before is not the file's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claimed {
    pub(super) block: u64,
    fresh: bool,
    growth: Growth,
}

/// Copies from a page to a program.
fn copy_out(page: &Page, state: &PageState, inside: usize, to: &mut [u8]) {
    page.charge_copy_out(to.len() as u64);
    to.copy_from_slice(&state.bytes[inside..][..to.len()]);
}

impl Volume {
    /// A regular file that may be read and written.
    pub(crate) fn check_regular(state: &InodeState) -> Result<()> {
        state.check_live()?;
        match state.raw.kind() {
            Some(FileKind::Regular) => Ok(()),
            Some(FileKind::Directory) => Err(Error::IsDirectory),
            _ => Err(Error::Invalid("not a regular file")),
        }
    }

    pub(super) fn block_bytes(&self) -> u64 {
        u64::from(self.geo.block_bytes)
    }

    /// Reads from a file; returns how many bytes.
    pub(crate) fn read_file(
        &self,
        inode: &Arc<Inode>,
        state: &InodeState,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        let size = state.raw.size();
        let len = (buffer.len() as u64).min(size.saturating_sub(offset));
        if let Some(memory) = self.memory() {
            return self.load_data(memory, inode, state, (offset, &mut buffer[..len as usize]));
        }
        let (mut at, end) = (offset, offset + len);
        while at < end {
            let (index, inside) = (at / self.block_bytes(), at % self.block_bytes());
            let piece = (self.block_bytes() - inside).min(end - at);
            let to = &mut buffer[(at - offset) as usize..][..piece as usize];
            if !self.read_cached(inode, index, inside as usize, to) {
                let page = self.page_for_read(inode, state, index..=(end - 1) / self.block_bytes())?;
                copy_out(&page, &page.state.read(), inside as usize, to);
            }
            at += piece;
        }
        Ok(len as usize)
    }

    /// Reads through the cache. What is at hand is read without the inode's lock, as in Linux (`filemap_read`), which looks at the
    /// size and takes references of pages. In Linux a write or truncate beside it may show in a part of what is read; here it does
    /// not: after a change that came between, and where a page is missing, the read goes on, or begins again, with the lock.
    pub(crate) fn read_buffered(&self, inode: &Arc<Inode>, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let changes = inode.changes();
        let shown = inode.shown_size().filter(|_| changes.is_multiple_of(2));
        let mut done = 0;
        if let Some(size) = shown {
            let len = (buffer.len() as u64).min(size.saturating_sub(offset)) as usize;
            done = self.read_at_hand(inode, offset, &mut buffer[..len]);
            if done == len && inode.changes() == changes {
                return Ok(len);
            }
        }
        let state = inode.state.read();
        Self::check_regular(&state)?;
        if inode.changes() != changes {
            done = 0;
        }
        Ok(done + self.read_file(inode, &state, offset + done as u64, &mut buffer[done..])?)
    }

    /// Copies from the pages that are in the cache up to the first that is not; how many bytes.
    fn read_at_hand(&self, inode: &Inode, offset: u64, buffer: &mut [u8]) -> usize {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset + done as u64;
            let (index, inside) = (at / self.block_bytes(), (at % self.block_bytes()) as usize);
            let piece = (self.block_bytes() as usize - inside).min(buffer.len() - done);
            if !self.read_cached(inode, index, inside, &mut buffer[done..done + piece]) {
                break;
            }
            done += piece;
        }
        done
    }

    /// Copies from a page that is in the cache; false if there is more to do. The page's lock stands for a reference to it, which
    /// is an update of its line when it is taken, and another when it is dropped (`get_page`, `put_page`).
    #[inline]
    fn read_cached(&self, inode: &Inode, index: u64, inside: usize, to: &mut [u8]) -> bool {
        let Some(page) = inode.mapping().get(index) else { return false };
        let state = page.state.read();
        if !state.is_at_hand() {
            return false;
        }
        self.cache.count_hit();
        inode.last_read.store(index, Relaxed);
        copy_out(&page, &state, inside, to);
        drop(state);
        page.state.touch();
        true
    }

    /// Reads one page, and waits.
    pub(super) fn fill(
        &self,
        inode: &Arc<Inode>,
        state: &InodeState,
        index: u64,
        page: &Arc<Page>,
    ) -> Result<()> {
        let mapped = self.map(inode, state, index, 1)?;
        let mut page = page.state.write();
        if page.uptodate {
            return Ok(());
        }
        if let Mapped::Blocks { start, unwritten: false, .. } = mapped {
            page.block = start;
            let off = start * u64::from(self.geo.block_bytes);
            let _scope = sim::scope(Activity::DATA);
            self.cache.queue().read(&mut [(off, &mut page.bytes)])?;
        } else {
            page.bytes.fill(0);
        }
        page.uptodate = true;
        Ok(())
    }

    /// Makes the page of a block that is partly overwritten, or cut, hold what the file has there.
    fn load_page(&self, inode: &Arc<Inode>, state: &InodeState, index: u64) -> Result<Arc<Page>> {
        let page = self.cache.page(inode.mapping(), index);
        if !page.state.read().uptodate {
            self.fill(inode, state, index, &page)?;
        }
        page.wait_until_ready();
        Ok(page)
    }

    /// Writes into a file; returns how many bytes, fewer when space runs out.
    pub(crate) fn write_file(
        &self,
        inode: &Arc<Inode>,
        state: &mut InodeState,
        offset: u64,
        data: &[u8],
    ) -> Result<usize> {
        let most = self.max_file_bytes(state);
        if offset >= most && !data.is_empty() {
            return Err(Error::TooLarge);
        }
        let data = &data[..(data.len() as u64).min(most - offset.min(most)) as usize];
        if !data.is_empty() {
            self.zero_tail(inode, state, offset)?;
        }
        let (mut done, mut retried) = (0, false);
        while done < data.len() {
            let at = offset + done as u64;
            let chunk_end = (at / self.block_bytes() + CHUNK_BLOCKS) * self.block_bytes();
            let len = (data.len() - done).min((chunk_end - at) as usize);
            let piece = &data[done..done + len];
            let written = match self.memory() {
                Some(memory) => self.store_chunk(memory, inode, state, (at, piece))?,
                None if self.overwrite_cached(inode, state, at, piece) => len,
                None => self.write_chunk(inode, state, at, piece)?,
            };
            done += written;
            if written < len {
                // Blocks that were freed lately become usable by a commit.
                if retried || !self.space.has_busy() {
                    break;
                }
                retried = true;
                self.commit_all(false)?;
            }
        }
        if done == 0 && !data.is_empty() {
            return Err(Error::NoSpace);
        }
        Ok(done)
    }

    /// Writes into one page that is cached and has its place, where nothing of the inode changes: the size stays, and the times
    /// are those of this tick already (Linux: `file_update_time`). False: there is more to do.
    fn overwrite_cached(&self, inode: &Inode, state: &InodeState, offset: u64, data: &[u8]) -> bool {
        let (index, inside) = (offset / self.block_bytes(), (offset % self.block_bytes()) as usize);
        let now = change_time();
        let stays = offset + data.len() as u64 <= state.raw.size()
            && inside + data.len() <= self.geo.block_bytes as usize
            && state.raw.mtime() == now
            && state.raw.ctime() == now;
        if !stays || self.data_mode() == Some(DataMode::Journal) {
            return false;
        }
        let Some(page) = inode.mapping().get(index) else { return false };
        let mut state = page.state.write();
        // One that is dirty and has no block is delayed; one that is clean and has none shows a hole.
        let has_place = state.block != NO_BLOCK || page.is_dirty();
        if !has_place || !state.is_at_hand() {
            return false;
        }
        self.cache.count_hit();
        sim::count(&FILE_BYTES, data.len() as u64);
        sim::copy(data.len() as u64);
        state.bytes[inside..inside + data.len()].copy_from_slice(data);
        self.cache.mark_dirty(inode.mapping(), &page);
        true
    }

    /// Writes at most a chunk inside one handle.
    fn write_chunk(
        &self,
        inode: &Arc<Inode>,
        state: &mut InodeState,
        offset: u64,
        data: &[u8],
    ) -> Result<usize> {
        let size = self.block_bytes();
        let (first, last) = (offset / size, (offset + data.len() as u64 - 1) / size);
        // What a partial block has must be read before the handle: a commit waits for handles, and reading may wait. Its page is
        // held, so that the cache cannot take it for another block of the chunk.
        let mut held = [const { None }; 2];
        for (held, index) in held.iter_mut().zip([first, last]) {
            let begin = index * size;
            let whole = offset <= begin && offset + data.len() as u64 >= begin + size;
            if !whole && begin < state.raw.size() {
                *held = Some(self.load_page(inode, state, index)?);
            }
        }
        let delay = self.may_delay(inode, state, first..last + 1)?;
        let journaled = self.data_mode() == Some(DataMode::Journal);
        let credits = WRITE_CREDITS + if journaled { (last - first + 1) as u32 } else { 0 };
        let handle = self.begin(credits)?;
        let blocks = self.claim_blocks(&handle, inode, state, first..last + 1, delay);
        let blocks = blocks.inspect_err(|_| self.drop_unfilled(inode, state, first..last + 1))?;
        let end = (offset + data.len() as u64).min((first + blocks.len() as u64) * size).max(offset);
        let mut at = offset;
        while at < end {
            let (index, inside) = (at / size, at % size);
            let piece = (size - inside).min(end - at);
            let claimed = blocks[(index - first) as usize];
            let from = &data[(at - offset) as usize..][..piece as usize];
            self.write_page(&handle, inode, (index, claimed), inside as usize, from);
            at += piece;
        }
        // Also where only the size grows: the block has zeros, or what was cut, beyond the old end.
        if (blocks.iter().any(|claimed| claimed.fresh) || end > state.raw.size())
            && blocks.iter().any(|claimed| claimed.block != NO_BLOCK)
            && self.data_mode() == Some(DataMode::Ordered)
            && let Some(journal) = handle.journal()
        {
            journal.order(inode.mapping());
        }
        if end > offset {
            self.grow(state, end);
            let now = change_time();
            state.raw.set_mtime(now);
            state.raw.set_ctime(now);
        }
        self.store_inode(&handle, inode, state)?;
        Ok((end - offset) as usize)
    }

    /// How data goes, where there is a journal.
    pub(crate) fn data_mode(&self) -> Option<DataMode> {
        self.journal.as_ref().map(|journal| journal.mode)
    }

    /// The blocks of a range of a file, allocated where there are holes, with whether what they held before is not the file's;
    /// fewer when space runs out. With `delay` holes have no block yet.
    fn claim_blocks(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
        Range { start: first, end }: Range<u64>,
        delay: bool,
    ) -> Result<Vec<Claimed>> {
        let old_end = state.raw.size().div_ceil(self.block_bytes());
        // Only new blocks at the end say what they follow.
        let before = first.checked_sub(1).filter(|_| end > old_end);
        let mut previous = match before.map(|before| self.map(inode, state, before, 1)) {
            Some(Ok(Mapped::Blocks { start, unwritten: false, .. })) => Growth::After(start),
            _ => Growth::First,
        };
        sim::ran::allocate(1);
        let mut blocks: Vec<Claimed> = Vec::with_capacity((end - first) as usize);
        while first + (blocks.len() as u64) < end {
            let index = first + blocks.len() as u64;
            let most = end - index;
            let (start, len, fresh) = match self.map(inode, state, index, most)? {
                Mapped::Hole(len) if delay => {
                    let new = state.delayed.next(index).map_or(len, |next| len.min(next - index));
                    let len = match new {
                        0 => state.delayed.run(index).min(len),
                        new => self.reserve_delayed(state, Run::new(index, new)),
                    };
                    if len == 0 {
                        break;
                    }
                    let claimed = Claimed { block: NO_BLOCK, fresh: false, growth: Growth::None };
                    blocks.extend((0..len).map(|_| claimed));
                    continue;
                }
                Mapped::Blocks { start, len, unwritten: false } => (start, len, false),
                Mapped::Blocks { start, len, unwritten: true } => {
                    match extent::convert(self, handle, inode, state, index..index + len) {
                        Ok(()) => (start, len, true),
                        Err(Error::NoSpace) => break,
                        Err(error) => return Err(error),
                    }
                }
                Mapped::Hole(len) => match self.map_new(handle, inode, state, Run::new(index, len), false) {
                    Ok(new) => (new.first, new.count, true),
                    Err(Error::NoSpace) => break,
                    Err(error) => return Err(error),
                },
            };
            for (step, block) in (start..start + len).enumerate() {
                let grows = fresh && index + step as u64 >= old_end;
                let growth = if grows { previous } else { Growth::None };
                blocks.push(Claimed { block, fresh, growth });
                previous = Growth::After(block);
            }
        }
        Ok(blocks)
    }

    /// Copies into a page and makes it dirty, or part of the transaction.
    fn write_page(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        (index, claimed): (u64, Claimed),
        inside: usize,
        data: &[u8],
    ) {
        let page = self.cache.page(inode.mapping(), index);
        let mut state = page.state.write();
        if !state.uptodate {
            if data.len() < state.bytes.len() {
                state.bytes.fill(0);
            }
            state.uptodate = true;
        }
        let block = claimed.block;
        state.block = block;
        if claimed.growth != Growth::None {
            state.growth = claimed.growth;
        }
        page.charge_copy_in(data.len() as u64);
        state.bytes[inside..inside + data.len()].copy_from_slice(data);
        match handle.journal() {
            Some(journal) if journal.mode == DataMode::Journal => {
                sim::count(&JOURNALED_BYTES, data.len() as u64);
                journal.add_as(block, &page);
            }
            _ => self.cache.mark_dirty(inode.mapping(), &page),
        }
    }

    /// Zeroes part of a block of a file that has it.
    fn zero_part(&self, inode: &Arc<Inode>, state: &mut InodeState, from: u64, to: u64) -> Result<()> {
        let index = from / self.block_bytes();
        if from >= to {
            return Ok(());
        }
        if state.delayed.holds(index) {
            let page = self.load_page(inode, state, index)?;
            let inside = (from % self.block_bytes()) as usize;
            page.state.write().bytes[inside..inside + (to - from) as usize].fill(0);
            return Ok(());
        }
        let Mapped::Blocks { start, unwritten: false, .. } = self.map(inode, state, index, 1)? else {
            // A cached page of a hole is zero.
            return Ok(());
        };
        if let Some(memory) = self.memory() {
            return self.zero_data(memory, start * self.block_bytes() + from % self.block_bytes(), to - from);
        }
        let _held = self.load_page(inode, state, index)?;
        let handle = self.begin(WRITE_CREDITS)?;
        let inside = (from % self.block_bytes()) as usize;
        let zeros = sim::ran::zeroed((to - from) as usize);
        let claimed = Claimed { block: start, fresh: false, growth: Growth::None };
        self.write_page(&handle, inode, (index, claimed), inside, &zeros);
        // Before the size that shows it.
        if self.data_mode() == Some(DataMode::Ordered)
            && let Some(journal) = handle.journal()
        {
            journal.order(inode.mapping());
        }
        Ok(())
    }

    /// Before a file grows: zeroes what its last block holds beyond the end, up to `to`. It was cut off, or comes from a write
    /// that a crash has undone.
    pub(super) fn zero_tail(&self, inode: &Arc<Inode>, state: &mut InodeState, to: u64) -> Result<()> {
        let size = state.raw.size();
        self.zero_part(inode, state, size, to.min(size.next_multiple_of(self.block_bytes())))
    }

    /// Changes the size of a file.
    pub(crate) fn set_size(&self, inode: &Arc<Inode>, state: &mut InodeState, size: u64) -> Result<()> {
        if size > self.max_file_bytes(state) {
            return Err(Error::TooLarge);
        }
        let old = state.raw.size();
        let end = size.div_ceil(self.block_bytes());
        if state.delayed.next(0).is_some_and(|first| first < end) {
            self.allocate_delayed(inode, state)?;
        }
        if size == 0 && old > 0 {
            inode.allocates_on_close.store(true, Relaxed);
        }
        if size < old {
            // What the last block keeps is zeroed when the file grows again: not before this change has committed.
            self.drop_delayed(state, end..u64::MAX);
        }
        self.zero_tail(inode, state, size)?;
        let handle = self.begin(WRITE_CREDITS)?;
        let now = change_time();
        state.raw.set_mtime(now);
        state.raw.set_ctime(now);
        state.raw.set_size(size);
        state.delayed.disk_size = None;
        let cuts = size <= old;
        if cuts {
            self.add_orphan(&handle, inode, state)?;
        }
        self.store_inode(&handle, inode, state)?;
        drop(handle);
        if !cuts {
            return Ok(());
        }
        self.cut(inode, state, size.div_ceil(self.block_bytes()))?;
        if state.raw.links.get() == 0 {
            // It stays on the list until it is closed.
            return Ok(());
        }
        let handle = self.begin(WRITE_CREDITS)?;
        self.remove_orphan(&handle, inode, state)?;
        self.store_inode(&handle, inode, state)
    }

    /// Reserves, zeroes or frees a range.
    pub(crate) fn fallocate(
        &self,
        inode: &Arc<Inode>,
        state: &mut InodeState,
        mode: FallocateMode,
        ByteRun { at: offset, len }: ByteRun,
    ) -> Result<()> {
        self.allocate_delayed(inode, state)?;
        let punch = mode.contains(FallocateMode::PUNCH_HOLE);
        let end = offset.checked_add(len).ok_or(Error::TooLarge)?;
        if end > self.max_file_bytes(state) {
            return Err(Error::TooLarge);
        }
        if punch {
            self.clear_range(inode, state, offset..end)?;
        } else {
            // Without extents nothing says that blocks beyond the end are meant to be there.
            let mapped = !state.raw.has(flag::EXTENTS);
            let keep = mode.contains(FallocateMode::KEEP_SIZE) && mapped;
            let end = if keep { end.min(state.raw.size()) } else { end };
            let reserved = self.reserve_range(inode, state, offset..end);
            if matches!(reserved, Err(Error::NoSpace)) && mapped && end > state.raw.size() {
                let size = self.block_bytes();
                self.clear_range(
                    inode,
                    state,
                    state.raw.size().next_multiple_of(size)..end.next_multiple_of(size),
                )?;
            }
            reserved?;
        }
        // After the reservation, which may find no space: then nothing has become zero.
        if mode.contains(FallocateMode::ZERO_RANGE) {
            self.zero_written(inode, state, offset..end)?;
        }
        let grows = !mode.contains(FallocateMode::KEEP_SIZE) && end > state.raw.size();
        if grows {
            self.zero_tail(inode, state, end)?;
        }
        let handle = self.begin(WRITE_CREDITS)?;
        if grows {
            state.raw.set_size(end);
        }
        let now = change_time();
        state.raw.set_mtime(now);
        state.raw.set_ctime(now);
        self.store_inode(&handle, inode, state)
    }

    /// Zeroes the blocks of a range that are not zero already.
    fn zero_written(
        &self,
        inode: &Arc<Inode>,
        state: &mut InodeState,
        Range { start: offset, end }: Range<u64>,
    ) -> Result<()> {
        let (size, end) = (self.block_bytes(), end.min(state.raw.size()));
        let (mut index, last) = (offset / size, end.div_ceil(size));
        while index < last {
            match self.map(inode, state, index, last - index)? {
                Mapped::Hole(len) | Mapped::Blocks { len, unwritten: true, .. } => index += len.max(1),
                Mapped::Blocks { .. } => {
                    let (from, to) = ((index * size).max(offset), ((index + 1) * size).min(end));
                    self.zero_part(inode, state, from, to)?;
                    index += 1;
                }
            }
        }
        Ok(())
    }

    /// Makes a range read as zeros: whole blocks become holes.
    fn clear_range(
        &self,
        inode: &Arc<Inode>,
        state: &mut InodeState,
        Range { start: offset, end }: Range<u64>,
    ) -> Result<()> {
        let size = self.block_bytes();
        let (first, last) = (offset.div_ceil(size), end / size);
        // Beyond the end may lie what a crash brings back: growth zeroes it, not this.
        let shown = end.min(state.raw.size());
        if first > last {
            return self.zero_part(inode, state, offset, shown);
        }
        if self.data_mode() == Some(DataMode::Ordered) {
            // A commit that gives the file its blocks may come before the one that frees them, and has to find their data.
            self.write_data(inode.mapping())?;
        }
        if first < last && state.raw.has(flag::EXTENTS) {
            // It may find no space for a node: then nothing has become zero, and no written page is forgotten.
            let handle = self.begin(WRITE_CREDITS)?;
            let isolated = extent::isolate(self, &handle, inode, state, first..last);
            self.store_inode(&handle, inode, state)?;
            isolated?;
        }
        self.zero_part(inode, state, offset, shown.min(first * size))?;
        self.zero_part(inode, state, last * size, shown)?;
        self.cache.forget(inode.mapping(), first, last);
        loop {
            let handle = self.begin(TRUNCATE_CREDITS)?;
            let done = self.unmap(&handle, inode, state, first..last)?;
            self.store_inode(&handle, inode, state)?;
            if done {
                return Ok(());
            }
        }
    }

    /// Gives blocks to every hole of a range: unwritten ones with extents, zeroed ones with block maps.
    pub(super) fn reserve_range(
        &self,
        inode: &Arc<Inode>,
        state: &mut InodeState,
        Range { start: offset, end }: Range<u64>,
    ) -> Result<()> {
        let (mut index, last) = (offset / self.block_bytes(), end.div_ceil(self.block_bytes()));
        let extents = state.raw.has(flag::EXTENTS);
        while index < last {
            let hole = match self.map(inode, state, index, last - index)? {
                Mapped::Blocks { len, .. } => {
                    index += len.max(1);
                    continue;
                }
                Mapped::Hole(len) => {
                    if extents {
                        len
                    } else {
                        len.min(CHUNK_BLOCKS)
                    }
                }
            };
            let handle = self.begin(WRITE_CREDITS + if extents { 0 } else { CHUNK_BLOCKS as u32 })?;
            let claimed = self.map_new(&handle, inode, state, Run::new(index, hole), extents);
            self.store_inode(&handle, inode, state)?;
            let Run { first: start, count: len } = claimed?;
            if let Some(memory) = self.memory().filter(|_| !extents) {
                self.zero_data(memory, start * self.block_bytes(), len * self.block_bytes())?;
            } else if !extents {
                let zeros = sim::ran::zeroed(self.geo.block_bytes as usize);
                for step in 0..len {
                    let claimed = Claimed { block: start + step, fresh: true, growth: Growth::None };
                    self.write_page(&handle, inode, (index + step, claimed), 0, &zeros);
                }
                if let Some(journal) = handle.journal() {
                    journal.order(inode.mapping());
                }
            }
            index += len;
        }
        Ok(())
    }

    /// The next data or hole.
    pub(crate) fn seek_file(
        &self,
        inode: &Inode,
        state: &InodeState,
        offset: u64,
        to: SeekTo,
    ) -> Result<u64> {
        let size = state.raw.size();
        if offset >= size {
            return Err(Error::NothingThere);
        }
        let end = size.div_ceil(self.block_bytes());
        let mut index = offset / self.block_bytes();
        while index < end {
            let (len, data) = match self.map(inode, state, index, end - index)? {
                Mapped::Blocks { len, unwritten, .. } => (len, !unwritten),
                Mapped::Hole(len) => match state.delayed.run(index) {
                    0 => (state.delayed.next(index).map_or(len, |next| len.min(next - index)), false),
                    run => (run.min(len), true),
                },
            };
            if data == (to == SeekTo::Data) {
                return Ok((index * self.block_bytes()).max(offset).min(size));
            }
            index += len.max(1);
        }
        if to == SeekTo::Hole { Ok(size) } else { Err(Error::NothingThere) }
    }

    /// Makes a file durable, and with a journal all changes of metadata so far.
    pub(crate) fn fsync(&self, inode: &Arc<Inode>) -> Result<()> {
        self.check_running()?;
        self.settle_delayed(inode)?;
        self.write_data(inode.mapping())?;
        let Some(journal) = &self.journal else {
            self.write_metadata()?;
            if self.has(mutant::FSYNC_WITHOUT_FLUSH) {
                return Ok(());
            }
            return Ok(self.device.flush()?);
        };
        let tid = journal.last_tid();
        if journal.has_committed(tid) {
            return Ok(self.device.flush()?);
        }
        // A commit that another task has under way is waited for; its flush may have come before this data.
        if self.has(mutant::FSYNC_WITHOUT_COMMIT) || self.commit(tid)? {
            return Ok(());
        }
        Ok(self.device.flush()?)
    }
}
