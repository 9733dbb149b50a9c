//! File contents: direct access to the medium.
//!
//! A write into blocks that exist copies past the cache, then changes only times, or size and times in one 16-byte store (for
//! their fractions see `times.rs`). Any other write is a transaction: log the inode's first half, allocate, zero the unwritten
//! edges of new blocks, copy, set the size, commit. Data is durable before the commit, so a committed size never covers bytes
//! that were not written.

use std::ops::Range;

use media::event::Mark;
use sim::{Activity, ByteRun, Run};
use vfs::{FallocateMode, SeekTo, Timestamp};

use super::Volume;
use super::inode::Inode;
use super::journal::Transaction;
use super::layout::{BLOCK_SHIFT, RawInode, ino};
use super::map::{FILL_MAX, Filled, Freed, Tree, fill_entries};
use super::mutant;
use base::error::{Error, Result};

/// What [`Clears::Uncovered`] clears is whole words of this many bytes, so that no line is stored twice for a part of a word.
const WORD: u64 = 8;

/// A piece of a request that lies in one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The block, in units of the file's block size.
    pub(crate) block: u64,
    /// First byte within it.
    pub(crate) within: u64,
    /// Bytes.
    pub(crate) len: u64,
    /// First byte within the request's buffer.
    pub(crate) at: usize,
}

/// Splits `len` bytes at `offset` at the borders of blocks of `1 << shift` bytes.
pub(crate) fn pieces(offset: u64, len: u64, shift: u32) -> impl Iterator<Item = Piece> {
    let size = 1 << shift;
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let within = (offset + done) & (size - 1);
        let piece = Piece {
            block: (offset + done) >> shift,
            within,
            len: (len - done).min(size - within),
            at: done as usize,
        };
        done += piece.len;
        Some(piece)
    })
}

/// A write that may add blocks to a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteRange {
    /// First byte.
    pub(crate) offset: u64,
    /// Byte behind the last.
    pub(crate) end: u64,
    /// Size of the file before.
    pub(crate) size: u64,
    /// Block size of the file, as a power of two.
    pub(crate) shift: u32,
}

/// What is cleared of a new block that a write fills in part: published trees of PMFS's module differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clears {
    /// The block, see [`WriteRange::clears`].
    Whole,
    /// What lies before and behind the write, in whole words.
    Uncovered,
}

impl WriteRange {
    /// The parts of a new block that are cleared before the write fills it in part, as offsets in the block.
    pub(crate) fn cleared(&self, block: u64, clears: Clears) -> [Range<u64>; 2] {
        let (start, stop, size) = (block << self.shift, (block + 1) << self.shift, 1 << self.shift);
        match clears {
            Clears::Whole if self.clears(block) => [0..size, 0..0],
            Clears::Whole => [0..0, 0..0],
            Clears::Uncovered => {
                let head = self.offset.clamp(start, stop) - start;
                let tail = self.end.clamp(start, stop) - start;
                [0..head.next_multiple_of(WORD), tail / WORD * WORD..size]
            }
        }
    }

    /// Whether a block that was new to the file is cleared before the write fills it in part.
    ///
    /// PMFS's module clears such a block whole, unless the write lies within one block and begins with it
    /// (`pmfs_clear_edge_blk`): what is beyond the end of the file may be anything. Where the file goes on behind such a write,
    /// the module shows what the block held before; here it is cleared then, too.
    pub(crate) fn clears(&self, block: u64) -> bool {
        let (start, stop) = (block << self.shift, (block + 1) << self.shift);
        let ends_within = start < self.end && self.end < stop;
        start < self.offset || (ends_within && (start > self.offset || self.size > self.end))
    }
}

impl Volume {
    /// Reads from a file whose lock the caller holds; returns how many bytes.
    pub(crate) fn read_file(&self, raw: &RawInode, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let len = raw.size.saturating_sub(offset).min(buffer.len() as u64);
        let tree = Tree::of(raw);
        for piece in pieces(offset, len, tree.shift) {
            let part = &mut buffer[piece.at..piece.at + piece.len as usize];
            match tree.lookup(&self.region, piece.block)? {
                Some(at) => self.region.load(at + piece.within, part)?,
                None => part.fill(0),
            }
        }
        Ok(len as usize)
    }

    /// Writes into a file whose lock the caller holds for writing; returns how many bytes, fewer when space runs out.
    pub(crate) fn write_file(
        &self,
        inode: &Inode,
        raw: &mut RawInode,
        offset: u64,
        data: &[u8],
    ) -> Result<usize> {
        let end = offset.checked_add(data.len() as u64).ok_or(Error::TooLarge)?;
        let tree = Tree::of(raw);
        if end > Tree::most_bytes(tree.shift) {
            return Err(Error::TooLarge);
        }
        if offset > raw.size && !data.is_empty() {
            self.zero_gap(raw, offset)?;
        }
        let chunk_bytes = FILL_MAX << tree.shift;
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let len = (chunk_bytes - at % chunk_bytes).min((data.len() - done) as u64) as usize;
            match self.write_chunk(inode, raw, at, &data[done..done + len]) {
                Ok(written) if written < len => return Ok(done + written),
                Ok(written) => done += written,
                // What was written before counts; the next call meets the error.
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Writes a piece that needs at most [`FILL_MAX`] blocks.
    fn write_chunk(&self, inode: &Inode, raw: &mut RawInode, offset: u64, data: &[u8]) -> Result<usize> {
        let tree = Tree::of(raw);
        let (first, last) = (offset >> tree.shift, (offset + data.len() as u64 - 1) >> tree.shift);
        if first == last
            && let Some(at) = tree.lookup(&self.region, first)?
        {
            let at = at + (offset & ((1 << tree.shift) - 1));
            self.region.nt_store(at, data)?;
            self.finish_in_place(
                inode,
                raw,
                offset + data.len() as u64,
                ByteRun::new(at, data.len() as u64),
            )?;
            return Ok(data.len());
        }
        if self.has(mutant::TWO_COMMITS) && data.len() as u64 > 1 << BLOCK_SHIFT {
            let (head, tail) = data.split_at(data.len() / 2);
            let done = self.write_chunk(inode, raw, offset, head)?;
            return Ok(done + self.write_chunk(inode, raw, offset + done as u64, tail)?);
        }
        let mut tx = self.begin_growth(inode, fill_entries(last - first + 1))?;
        let written = self.write_growing(inode, raw, &mut tx, (offset, data));
        self.end(tx, written)
    }

    /// Size and times after a write into existing blocks, durable on return: an fsync of another task cannot fence what this one
    /// has written.
    fn finish_in_place(&self, inode: &Inode, raw: &mut RawInode, end: u64, written: ByteRun) -> Result<()> {
        if end > raw.size {
            self.region.fence();
            self.store_size(inode, raw, end, &[written])?;
        } else {
            self.store_times(inode, raw, Timestamp::now())?;
        }
        self.region.fence();
        Ok(())
    }

    /// ctime and mtime, in place; durable after the next fence. An inode that leaves its era has no open transaction.
    pub(crate) fn store_times(&self, inode: &Inode, raw: &mut RawInode, now: Timestamp) -> Result<()> {
        let _scope = sim::scope(media::charges::METADATA);
        if raw.leaves_era(now) {
            return self.log_and_store_half(inode, raw, now);
        }
        raw.touch(now);
        self.store_extras(inode, raw)?;
        self.region.mark(Mark::Commit { at: inode.offset + ino::TIMES, needs: &[] });
        self.region.store_u64(inode.offset + ino::TIMES, raw.times_word())?;
        self.region.flush(inode.offset + ino::TIMES, 8);
        Ok(())
    }

    /// Stores the first half of an inode with new times, in a transaction of its own.
    #[cold]
    pub(crate) fn log_and_store_half(&self, inode: &Inode, raw: &mut RawInode, now: Timestamp) -> Result<()> {
        let tx = self.begin_growth(inode, 0)?;
        raw.touch(now);
        self.end(tx, self.store_half(inode, raw))
    }

    /// Begins a transaction that may add blocks to a file: its inode's first half is logged.
    pub(crate) fn begin_growth(&self, inode: &Inode, entries: u32) -> Result<Transaction> {
        let mut tx = self.journal.begin(1 + entries)?;
        match self.journal.log(&mut tx, &[inode.half()]) {
            Ok(()) => Ok(tx),
            Err(error) => {
                self.journal.abort(tx)?;
                Err(error)
            }
        }
    }

    /// Commits a transaction whose work succeeded; otherwise rolls it back.
    pub(crate) fn end<T>(&self, tx: Transaction, work: Result<T>) -> Result<T> {
        match work {
            Ok(value) => self.journal.commit(tx).map(|()| value),
            Err(error) if self.has(mutant::ROLLBACK_LEFT_OUT) => self.journal.commit(tx).and(Err(error)),
            Err(error) => {
                self.roll_back(tx)?;
                Err(error)
            }
        }
    }

    /// Puts back what a transaction has changed, on the medium and in the block map.
    pub(crate) fn roll_back(&self, tx: Transaction) -> Result<()> {
        self.roll_back_with(tx, || Ok(()))
    }

    /// Like [`Volume::roll_back`]; `forget` is called when the medium is as before and the blocks are not yet free.
    pub(crate) fn roll_back_with(
        &self,
        mut tx: Transaction,
        forget: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let taken = std::mem::take(&mut tx.taken);
        self.journal.abort(tx)?;
        forget()?;
        self.blocks.put_many(taken)
    }

    fn write_growing(
        &self,
        inode: &Inode,
        raw: &mut RawInode,
        tx: &mut Transaction,
        (offset, data): (u64, &[u8]),
    ) -> Result<usize> {
        let mut tree = Tree::of(raw);
        let write = WriteRange { offset, end: offset + data.len() as u64, size: raw.size, shift: tree.shift };
        let (first, last) = (offset >> tree.shift, (write.end - 1) >> tree.shift);
        let filled = tree.fill(self, tx, Run::new(first, last - first + 1), &mut |block, at| {
            let _scope = sim::scope(Activity::DATA);
            self.clear_parts(at, write.cleared(block, self.settings.clears))
        })?;
        let len = (((first + filled.mapped) << tree.shift).saturating_sub(offset)).min(data.len() as u64);
        if len == 0 {
            return Err(Error::NoSpace);
        }
        for piece in pieces(offset, len, tree.shift) {
            let at = tree.lookup(&self.region, piece.block)?.ok_or_else(|| hole(inode, piece.block))?;
            self.store_new_data(at + piece.within, &data[piece.at..piece.at + piece.len as usize])?;
        }
        self.store_growth(inode, raw, &tree, filled, offset + len)?;
        Ok(len as usize)
    }

    /// Clears parts of a new block.
    pub(crate) fn clear_parts(&self, block: u64, parts: [Range<u64>; 2]) -> Result<()> {
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            self.region.nt_zero(block + part.start, part.end - part.start)?;
        }
        Ok(())
    }

    /// Copies data into blocks that a transaction adds to a file.
    pub(crate) fn store_new_data(&self, at: u64, data: &[u8]) -> Result<()> {
        if self.has(mutant::TAIL_NOT_FLUSHED) {
            let (words, tail) = data.split_at(data.len() / 8 * 8);
            self.region.nt_store(at, words)?;
            return Ok(self.region.store(at + words.len() as u64, tail)?);
        }
        Ok(self.region.nt_store(at, data)?)
    }

    /// Stores the tree, the block count, the size if it grows, and the times of an inode whose first half is logged.
    pub(crate) fn store_growth(
        &self,
        inode: &Inode,
        raw: &mut RawInode,
        tree: &Tree,
        filled: Filled,
        end: u64,
    ) -> Result<()> {
        (raw.root, raw.height) = (tree.root, tree.height);
        raw.blocks = raw.blocks.saturating_add((filled.added << (tree.shift - BLOCK_SHIFT)) as u32);
        raw.size = raw.size.max(end);
        raw.touch(Timestamp::now());
        self.store_half(inode, raw)
    }

    /// Reserves, zeroes or frees a range.
    pub(crate) fn fallocate(
        &self,
        inode: &Inode,
        raw: &mut RawInode,
        mode: FallocateMode,
        ByteRun { at: offset, len }: ByteRun,
    ) -> Result<()> {
        let end = offset.checked_add(len).ok_or(Error::TooLarge)?;
        if end > Tree::most_bytes(raw.block_shift()) {
            return Err(Error::TooLarge);
        }
        if mode.contains(FallocateMode::PUNCH_HOLE) {
            return self.punch_hole(inode, raw, offset, end);
        }
        self.reserve(inode, raw, offset..end, mode.contains(FallocateMode::KEEP_SIZE))?;
        if mode.contains(FallocateMode::ZERO_RANGE) {
            self.zero_mapped(raw, offset, end)?;
        }
        Ok(())
    }

    /// Maps every hole of a range to a zeroed block. The size changes with the last of them, so that a crash in the middle leaves
    /// nothing but blocks beyond the end. A range for whose blocks there is no space changes nothing; where nodes of the tree find
    /// none, or others have taken it meanwhile, the blocks that were mapped stay.
    fn reserve(
        &self,
        inode: &Inode,
        raw: &mut RawInode,
        Range { start: offset, end }: Range<u64>,
        keep_size: bool,
    ) -> Result<()> {
        if end > raw.size && !keep_size {
            self.zero_gap(raw, end)?;
        }
        let shift = raw.block_shift();
        let (mut first, stop) = (offset >> shift, end.div_ceil(1 << shift));
        if first < stop {
            check_space(self, inode, raw, Run::new(first, stop - first))?;
        }
        while first < stop {
            let count = (stop - first).min(FILL_MAX - first % FILL_MAX);
            let size = if keep_size || first + count < stop { 0 } else { end };
            let mut tx = self.begin_growth(inode, fill_entries(count))?;
            let done = self.reserve_chunk(inode, raw, &mut tx, Run::new(first, count), size);
            self.end(tx, done)?;
            first += count;
        }
        Ok(())
    }

    fn reserve_chunk(
        &self,
        inode: &Inode,
        raw: &mut RawInode,
        tx: &mut Transaction,
        Run { first, count }: Run,
        end: u64,
    ) -> Result<()> {
        let mut tree = Tree::of(raw);
        let shift = tree.shift;
        let filled = tree.fill(self, tx, Run::new(first, count), &mut |_, at| {
            let _scope = sim::scope(Activity::DATA);
            Ok(self.region.nt_zero(at, 1 << shift)?)
        })?;
        if filled.mapped < count {
            return Err(Error::NoSpace);
        }
        if (first + count) << shift > raw.size.max(end) {
            raw.flags |= super::layout::FLAG_BEYOND_EOF;
        }
        self.store_growth(inode, raw, &tree, filled, end)
    }

    /// Zeroes what is mapped of a range, in place.
    pub(crate) fn zero_mapped(&self, raw: &RawInode, offset: u64, end: u64) -> Result<()> {
        let tree = Tree::of(raw);
        for piece in pieces(offset, end - offset, tree.shift) {
            if let Some(at) = tree.lookup(&self.region, piece.block)? {
                self.region.nt_zero(at + piece.within, piece.len)?;
            }
        }
        self.region.fence();
        Ok(())
    }

    /// Frees the whole blocks of a range and zeroes its ragged edges.
    fn punch_hole(&self, inode: &Inode, raw: &mut RawInode, offset: u64, end: u64) -> Result<()> {
        let shift = raw.block_shift();
        let (first, stop) = (offset.div_ceil(1 << shift), end >> shift);
        if first >= stop {
            self.zero_mapped(raw, offset, end)?;
            self.store_times(inode, raw, Timestamp::now())?;
            self.region.fence();
            return Ok(());
        }
        self.zero_mapped(raw, offset, first << shift)?;
        self.zero_mapped(raw, stop << shift, end)?;
        let mut block = first;
        while block < stop {
            let count = (stop - block).min(FILL_MAX - block % FILL_MAX);
            self.unmap_chunk(inode, raw, block, count)?;
            block += count;
        }
        Ok(())
    }

    /// Takes mapped blocks of one lowest node out of the tree in a transaction, then frees them.
    fn unmap_chunk(&self, inode: &Inode, raw: &mut RawInode, first: u64, count: u64) -> Result<()> {
        let tree = Tree::of(raw);
        let slots = tree.slots(&self.region, inode.offset + ino::ROOT, Run::new(first, count))?;
        if slots.is_empty() {
            return Ok(());
        }
        let mut tx = self.begin_growth(inode, fill_entries(count))?;
        let cleared = self.clear_slots(inode, raw, &mut tx, &slots);
        self.end(tx, cleared)?;
        let freed = |&(pointer, offset)| Freed { offset, shift: tree.shift, pointer };
        self.free_blocks(slots.iter().map(freed))
    }

    fn clear_slots(
        &self,
        inode: &Inode,
        raw: &mut RawInode,
        tx: &mut Transaction,
        slots: &[(u64, u64)],
    ) -> Result<()> {
        if let (Some((low, _)), Some((high, _))) = (slots.first(), slots.last()) {
            self.journal.log(tx, &[ByteRun::new(*low, high - low + 8)])?;
        }
        for (slot, _) in slots {
            if *slot == inode.offset + ino::ROOT {
                raw.root = 0;
            } else {
                self.region.store_u64(*slot, 0)?;
            }
        }
        raw.blocks = raw.blocks.saturating_sub((slots.len() as u32) << (raw.block_shift() - BLOCK_SHIFT));
        raw.touch(Timestamp::now());
        self.store_half(inode, raw)
    }

    /// The next data or hole at or after `offset`.
    pub(crate) fn seek_file(&self, raw: &RawInode, offset: u64, to: SeekTo) -> Result<u64> {
        if offset >= raw.size {
            return Err(Error::NothingThere);
        }
        let tree = Tree::of(raw);
        let (mut block, end) = (offset >> tree.shift, raw.size.div_ceil(1 << tree.shift));
        let mut next_data = end;
        tree.visit_from(&self.region, block, &mut |visited| {
            let found = visited.block.unwrap_or(end).min(end);
            match to {
                SeekTo::Data => next_data = found,
                // Data without a gap goes on; the first gap ends the walk.
                SeekTo::Hole if found == block && block < end => {
                    block += 1;
                    return Ok(());
                }
                SeekTo::Hole => {}
            }
            Err(Error::NothingThere)
        })
        .or_else(|error| if error == Error::NothingThere { Ok(()) } else { Err(error) })?;
        let found = if to == SeekTo::Data { next_data } else { block };
        match to {
            SeekTo::Data if found >= end => Err(Error::NothingThere),
            _ => Ok((found << tree.shift).max(offset).min(raw.size)),
        }
    }
}

/// A block that was just mapped is a hole.
pub(super) fn hole(inode: &Inode, block: u64) -> Error {
    Error::Corrupt(format!("inode {}: block {block} was just mapped and is a hole", inode.ino))
}

/// Says that there is no space for the holes of a range, before any of them is filled.
fn check_space(volume: &Volume, inode: &Inode, raw: &RawInode, Run { first, count }: Run) -> Result<()> {
    let tree = Tree::of(raw);
    let free = volume.blocks.free() >> (tree.shift - BLOCK_SHIFT);
    // What is mapped need not be counted where there is space for all.
    if count <= free {
        return Ok(());
    }
    let (mut at, end, mut holes) = (first, first + count, 0);
    while at < end && holes <= free {
        let chunk = (end - at).min(FILL_MAX - at % FILL_MAX);
        let mapped = tree.slots(&volume.region, inode.offset + ino::ROOT, Run::new(at, chunk))?.len() as u64;
        holes += chunk - mapped;
        at += chunk;
    }
    if holes > free { Err(Error::NoSpace) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_block_is_cleared_where_the_module_clears_it_and_where_the_file_goes_on() {
        let cleared = |size: u64, offset: u64, end: u64| -> Vec<u64> {
            let write = WriteRange { offset, end, size, shift: 12 };
            (offset >> 12..=(end - 1) >> 12).filter(|&block| write.clears(block)).collect()
        };
        assert_eq!(cleared(0, 0, 100), [0; 0], "begins with its only block");
        assert_eq!(cleared(0, 0, 4096), [0; 0]);
        assert_eq!(cleared(0, 0, 8192), [0; 0]);
        assert_eq!(cleared(0, 0, 8193), [2], "ends within the last of several");
        assert_eq!(cleared(0, 100, 8193), [0, 2], "begins within the first, ends within the last");
        assert_eq!(cleared(0, 4196, 4296), [1], "begins within its only block");
        assert_eq!(cleared(9000, 0, 100), [0], "the file goes on within the block");
        assert_eq!(cleared(100, 0, 100), [0; 0]);
    }

    #[test]
    fn what_a_write_does_not_cover_is_cleared_in_whole_words() {
        let cleared = |offset: u64, end: u64, block: u64| {
            let write = WriteRange { offset, end, size: 0, shift: 12 };
            write.cleared(block, Clears::Uncovered).map(|part| (part.start, part.end))
        };
        assert_eq!(cleared(0, 4096, 0), [(0, 0), (4096, 4096)], "covered whole");
        assert_eq!(cleared(0, 100, 0), [(0, 0), (96, 4096)]);
        assert_eq!(cleared(100, 8193, 0), [(0, 104), (4096, 4096)]);
        assert_eq!(cleared(100, 8193, 1), [(0, 0), (4096, 4096)]);
        assert_eq!(cleared(100, 8193, 2), [(0, 0), (0, 4096)]);
    }
}
