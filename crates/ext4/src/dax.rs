//! Contents of files in memory (`ext4-dax`): a read is loads, a write is stores past the processor's cache; no page of a file is
//! in the page cache. Metadata and journal stay blocks: they go through the cache to a RAM-disk driver over the same memory.
//!
//! # A write
//!
//! | step | what | a crash after it leaves |
//! |---|---|---|
//! | 1 | holes get unwritten blocks, whose borders become borders of extents; the transaction may commit | zeros, or holes |
//! | 2 | bytes are stored; what the write does not cover of new blocks is zeroed; a fence | the same; old blocks have new words |
//! | 3 | a second handle makes the blocks written and sets size and times | the same, until it commits |
//!
//! Step 3 needs no space, since step 1 made the borders. A write that needs no blocks has no step 1. A file with block maps, which
//! have no unwritten blocks, does all in one handle, so that no commit comes before the data. Data needs no order of the journal:
//! it is durable before the handle that shows it begins. An fsync therefore only commits.
//!
//! From 4.7 on Linux gives holes blocks that are zeroed and written at once (`EXT4_GET_BLOCKS_CREATE_ZERO`, fs/ext4/inode.c), so
//! that a page fault beside the write finds no block without contents: each new block is stored twice. A file that grows is an
//! orphan from step 1 to step 3, since e2fsck wants no written block beyond the end. Under `new_extents=zeroed`, or below such a
//! kernel, step 1 stores zeros, fences, and makes the blocks written in its own handle.
//!
//! What the last block holds beyond the end is zeroed when the file grows, as everywhere here, and at once: after a crash the bytes
//! of an uncommitted cut may be zero, as a page that write-back took early would leave them.
//!
//! # What a power loss may tear
//!
//! A block device keeps sectors whole; memory keeps aligned words of 8 bytes. The driver ends each request with a fence, so of the
//! blocks that were stored since the last fence any words may be old. What the format has against that:
//!
//! | blocks | torn by a crash | why that is no harm |
//! |---|---|---|
//! | log, but for the commit block | no | durable before the commit block is stored |
//! | commit block | yes | its checksum is wrong, or its first word is old: the transaction did not happen |
//! | metadata at home, during a checkpoint | yes | the log has all of it until that is durable, and a mount replays it first |
//! | group descriptors | as these | a mount reads them before the replay: their checksums are judged after it |
//! | the superblock | as these | mount and unmount change it through the log too; what leads to the journal never changes |
//! | the journal's superblock | yes | each value of the word that changes is right; `recovery::mend_torn` knows a torn checksum |
//! | file data | yes | a write promises words |
//!
//! The kernel refuses a torn superblock; e2fsck then takes a backup. The note of an error in the superblock of a file system that
//! has stopped is written in place; a power loss in that write may tear it.
//!
//! Source: Linux 4.0 to 5.15, `fs/dax.c` (`dax_iomap_actor`: `copy_from_iter_flushcache`), `fs/ext4/inode.c` and
//! `drivers/nvdimm/pmem.c`; the kernel's documentation, "Direct Access for files". Linux refuses `data=journal` and blocks that are
//! not pages; so does this.

use std::ops::Range;
use std::sync::Arc;

use media::Region;
use media::nvmm::load_counted;
use sim::{Activity, PAGE_BYTES, ran};

use super::inode::{Inode, InodeState, change_time};
use super::journal::Handle;
use super::journal::credits::WRITE_CREDITS;
use super::layout::flag;
use super::runs::Mapped;
use super::{Volume, extent, mutant, parts};
use base::error::{Error, Result};

/// Kernels whose pmem driver copies to a program by `memcpy_mcsafe`, eight bytes at a time: commit b3a9a0c36e1f, "dax: Introduce a
/// ->copy_to_iter dax operation", with `_copy_to_iter_mcsafe` from 4.19 on, to ec6347bb4339, "Rename memcpy_mcsafe() to
/// copy_mc_to_{user, kernel}()", in 5.10, which copies as fast as others where the processor recovers by itself. Its price is of
/// lines that were in no cache, as in the rows that it comes from: fewer of them are under way at once. Of lines in caches the
/// five instructions a word take what a copy there does.
const COPIES_MCSAFE: Range<(u16, u16)> = (4, 19)..(5, 10);

/// Blocks of a file that follow each other in memory.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The first block of the file.
    index: u64,
    /// The first block of the memory.
    start: u64,
    len: u64,
    /// What it holds is not the file's.
    fresh: bool,
}

impl Volume {
    /// The memory that data lies in.
    pub(crate) fn memory(&self) -> Option<&Arc<Region>> {
        self.settings.memory.as_ref()
    }

    /// Reads a range inside of a file.
    pub(super) fn load_data(
        &self,
        memory: &Region,
        inode: &Inode,
        state: &InodeState,
        (offset, buffer): (u64, &mut [u8]),
    ) -> Result<usize> {
        let _part = sim::part(&parts::IOMAP);
        let (size, end) = (self.block_bytes(), offset + buffer.len() as u64);
        let mut at = offset;
        while at < end {
            let (index, inside) = (at / size, at % size);
            let mapped = self.map(inode, state, index, end.div_ceil(size) - index)?;
            let (Mapped::Blocks { len, .. } | Mapped::Hole(len)) = mapped;
            let piece = (len.max(1) * size - inside).min(end - at);
            let to = &mut buffer[(at - offset) as usize..][..piece as usize];
            let _scope = sim::scope(Activity::DATA);
            if let Mapped::Blocks { start, unwritten: false, .. } = mapped {
                let missed = self.load_bytes(memory, start * size + inside, to)?;
                if sim::linux().is_some_and(|version| COPIES_MCSAFE.contains(&version)) {
                    sim::priced(::vfs::charges::COPY_MCSAFE, missed.div_ceil(sim::LINE_BYTES as u64));
                }
            } else {
                sim::copy(piece);
                to.fill(0);
            }
            at += piece;
        }
        Ok(buffer.len())
    }

    /// Copies from memory to a program, at once or by way of a page of DRAM; how many of the bytes were in no cache.
    fn load_bytes(&self, memory: &Region, off: u64, to: &mut [u8]) -> Result<u64> {
        if !self.settings.staged {
            return Ok(load_counted(memory, off, to)?);
        }
        let (mut page, mut missed) = ([0; PAGE_BYTES], 0);
        for (at, piece) in (off..).step_by(PAGE_BYTES).zip(to.chunks_mut(PAGE_BYTES)) {
            let staged = &mut page[..piece.len()];
            missed += load_counted(memory, at, staged)?;
            sim::copy(piece.len() as u64);
            piece.copy_from_slice(staged);
        }
        Ok(missed)
    }

    /// Copies from a program to memory, at once or by way of a page of DRAM.
    fn store_bytes(&self, memory: &Region, off: u64, bytes: &[u8]) -> Result<()> {
        if !self.settings.staged {
            return Ok(memory.nt_store(off, bytes)?);
        }
        let mut page = [0; PAGE_BYTES];
        for (at, piece) in (off..).step_by(PAGE_BYTES).zip(bytes.chunks(PAGE_BYTES)) {
            let staged = &mut page[..piece.len()];
            staged.copy_from_slice(piece);
            sim::copy(piece.len() as u64);
            memory.nt_store(at, staged)?;
        }
        Ok(())
    }

    /// Zeroes bytes of the memory that are a file's, durably.
    pub(super) fn zero_data(&self, memory: &Region, off: u64, len: u64) -> Result<()> {
        if self.has(mutant::TAIL_NOT_ZEROED) {
            return Ok(());
        }
        let _scope = sim::scope(Activity::DATA);
        memory.nt_zero(off, len)?;
        memory.fence();
        Ok(())
    }

    /// Writes part of a file, at most what one handle may give blocks to; returns how many bytes, fewer when space runs out.
    pub(super) fn store_chunk(
        &self,
        memory: &Region,
        inode: &Arc<Inode>,
        state: &mut InodeState,
        (offset, data): (u64, &[u8]),
    ) -> Result<usize> {
        let _part = sim::part(&parts::IOMAP);
        let size = self.block_bytes();
        let (first, last) = (offset / size, (offset + data.len() as u64).div_ceil(size));
        let extents = state.raw.has(flag::EXTENTS);
        let was_orphan = state.orphan;
        let mut runs = self.written_runs(inode, state, first..last)?;
        let mut handle = None;
        if runs.is_none() {
            let reserving = self.begin(WRITE_CREDITS)?;
            let mut reserved = self.reserve_runs(&reserving, inode, state, first..last)?;
            let zeroed = if extents && self.settings.zeroes_new {
                let grows = offset + data.len() as u64 > state.raw.size();
                self.zero_runs(&reserving, (memory, inode), state, (&mut reserved, grows))
            } else {
                Ok(())
            };
            self.store_inode(&reserving, inode, state)?;
            if let Err(error) = zeroed {
                drop(reserving);
                return self.give_up(inode, state, was_orphan, error);
            }
            handle = Some(reserving).filter(|_| !extents);
            runs = Some(reserved);
        }
        let runs = runs.unwrap_or_default();
        let reached = runs.last().map_or(first, |run| run.index + run.len);
        let end = (offset + data.len() as u64).min(reached * size).max(offset);
        if let Err(error) = self.store_data(memory, &runs, (offset, &data[..(end - offset) as usize])) {
            drop(handle);
            return self.give_up(inode, state, was_orphan, error);
        }
        let handle = match handle {
            Some(handle) => handle,
            None => self.begin(WRITE_CREDITS)?,
        };
        if extents {
            self.make_written(&handle, inode, state, &runs)?;
        }
        if end > offset {
            state.raw.set_size(end.max(state.raw.size()));
            let now = change_time();
            state.raw.set_mtime(now);
            state.raw.set_ctime(now);
        }
        if !was_orphan {
            self.remove_orphan(&handle, inode, state)?;
        }
        self.store_inode(&handle, inode, state)?;
        Ok((end - offset) as usize)
    }

    /// Zeroes the new blocks of a write, and makes them written in the handle that gave them to the file, which is an orphan until
    /// its size is set if it grows. A failure leaves them unwritten.
    fn zero_runs(
        &self,
        handle: &Handle<'_>,
        (memory, inode): (&Region, &Inode),
        state: &mut InodeState,
        (runs, grows): (&mut [Run], bool),
    ) -> Result<()> {
        if grows {
            self.add_orphan(handle, inode, state)?;
        }
        if !self.has(mutant::NEW_BLOCK_NOT_ZEROED) {
            let _scope = sim::scope(Activity::DATA);
            for run in runs.iter().filter(|run| run.fresh) {
                memory.nt_zero(run.start * self.block_bytes(), run.len * self.block_bytes())?;
            }
            memory.fence();
        }
        self.make_written(handle, inode, state, runs)?;
        for run in runs {
            run.fresh = false;
        }
        Ok(())
    }

    /// The blocks of a range of a file, if all of them are there and written.
    fn written_runs(
        &self,
        inode: &Inode,
        state: &InodeState,
        Range { start: first, end: last }: Range<u64>,
    ) -> Result<Option<Vec<Run>>> {
        let (mut runs, mut index) = (Vec::new(), first);
        while index < last {
            let Mapped::Blocks { start, len, unwritten: false } =
                self.map(inode, state, index, last - index)?
            else {
                return Ok(None);
            };
            ran::push(&mut runs, Run { index, start, len, fresh: false });
            index += len;
        }
        Ok(Some(runs))
    }

    /// The blocks of a range of a file, unwritten ones where there are holes; fewer when space runs out.
    fn reserve_runs(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
        Range { start: first, end: last }: Range<u64>,
    ) -> Result<Vec<Run>> {
        let (mut runs, mut index) = (Vec::new(), first);
        while index < last {
            let run = match self.map(inode, state, index, last - index)? {
                Mapped::Blocks { start, len, unwritten } => Ok(Run { index, start, len, fresh: unwritten }),
                Mapped::Hole(len) => self
                    .map_new(handle, inode, state, sim::Run::new(index, len), true)
                    .map(|new| Run { index, start: new.first, len: new.count, fresh: true }),
            };
            let isolate = |run: Run| {
                if run.fresh && state.raw.has(flag::EXTENTS) {
                    extent::isolate(self, handle, inode, state, run.index..run.index + run.len)?;
                }
                Ok(run)
            };
            match run.and_then(isolate) {
                Ok(run) => {
                    index += run.len;
                    ran::push(&mut runs, run);
                }
                Err(Error::NoSpace) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(runs)
    }

    /// Stores the bytes of a write, and zeroes around them in new blocks.
    fn store_data(&self, memory: &Region, runs: &[Run], (offset, data): (u64, &[u8])) -> Result<()> {
        let (size, end) = (self.block_bytes(), offset + data.len() as u64);
        let _scope = sim::scope(Activity::DATA);
        for run in runs {
            let (begin, after) = (run.index * size, (run.index + run.len) * size);
            let (from, to) = (begin.max(offset), after.min(end));
            let place = |at: u64| run.start * size + (at - begin);
            if run.fresh && !self.has(mutant::NEW_BLOCK_NOT_ZEROED) {
                memory.nt_zero(place(begin), from - begin)?;
                memory.nt_zero(place(to), after - to)?;
            }
            let bytes = &data[(from - offset) as usize..(to - offset) as usize];
            if self.has(mutant::DATA_IN_CACHE) {
                memory.store(place(from), bytes)?;
            } else {
                self.store_bytes(memory, place(from), bytes)?;
            }
        }
        memory.fence();
        Ok(())
    }

    /// Makes what a write reserved written: each stretch at once, since its blocks may be one extent.
    fn make_written(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
        runs: &[Run],
    ) -> Result<()> {
        let mut stretches: Vec<Range<u64>> = Vec::new();
        for run in runs.iter().filter(|run| run.fresh) {
            match stretches.last_mut() {
                Some(last) if last.end == run.index => last.end += run.len,
                _ => ran::push(&mut stretches, run.index..run.index + run.len),
            }
        }
        stretches.into_iter().try_for_each(|range| extent::convert(self, handle, inode, state, range))
    }

    /// The memory did not take the data: blocks beyond the end are freed, those of holes stay unwritten, or zero.
    fn give_up<T>(&self, inode: &Inode, state: &mut InodeState, was_orphan: bool, error: Error) -> Result<T> {
        let end = state.raw.size().div_ceil(self.block_bytes());
        self.cut(inode, state, end)?;
        if state.orphan && !was_orphan {
            let handle = self.begin(WRITE_CREDITS)?;
            self.remove_orphan(&handle, inode, state)?;
            self.store_inode(&handle, inode, state)?;
        }
        Err(error)
    }
}
