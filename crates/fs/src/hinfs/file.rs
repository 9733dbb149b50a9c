//! Reading and writing.
//!
//! A write is split into chunks of at most 512 blocks. A chunk maps its holes under the file's open transaction, then each piece
//! of a block is written:
//!
//! | block is | write is lazy | write is eager |
//! |---|---|---|
//! | buffered | into the page | into the page, whose dirty lines are flushed before the write returns |
//! | not buffered | a page is taken, partial lines are fetched | past the cache to the medium, noted in the ghost |
//!
//! An eager write never leaves an older dirty line behind that could later overwrite it.

use std::ops::Range;

use sim::{Activity, Run, Work};
use vfs::Timestamp;

use super::file_buffer::{
    BlockWrite, Buffered, FileBuffer, FileSlot, Ghost, LockedBuffer, OpenTransaction, lines_of,
};
use super::in_flight::Wanted;
use super::mutant;
use super::pool::Owner;
use super::writeback::SLACK_ENTRIES;
use super::{HiNfs, add};
use crate::pmfs;
use crate::pmfs::file::{Piece, WriteRange, pieces};
use crate::pmfs::inode::Inode;
use crate::pmfs::journal::Transaction;
use crate::pmfs::layout::{BLOCK, BLOCK_SHIFT, INODE_SLOT, RawInode};
use crate::pmfs::map::{FILL_MAX, Filled, Tree};
use base::error::{Error, Result};

/// Log entries that the removal of a file's last name needs when it joins the open transaction: directory record and inode.
pub(crate) const UNLINK_ENTRIES: u32 = 2;

/// The blocks of a chunk, and which of them this write has allocated.
struct Mapped {
    first: u64,
    at: [u64; FILL_MAX as usize],
    fresh: [u64; FILL_MAX as usize / 64],
}

impl Mapped {
    fn set_fresh(&mut self, block: u64, at: u64) {
        let index = (block - self.first) as usize;
        self.at[index] = at;
        self.fresh[index / 64] |= 1 << (index % 64);
    }

    fn get(&self, block: u64) -> (u64, bool) {
        let index = (block - self.first) as usize;
        (self.at[index], self.fresh[index / 64] >> (index % 64) & 1 == 1)
    }
}

/// A write of one chunk, as its pieces see it.
struct ChunkWrite {
    range: WriteRange,
    new_size: u64,
    sync: bool,
    in_tx: bool,
}

impl HiNfs {
    /// Reads from a file whose lock the caller holds.
    pub(crate) fn read(&self, inode: &Inode, raw: &RawInode, offset: u64, out: &mut [u8]) -> Result<usize> {
        let file = self.file(inode)?;
        if file.is_empty() {
            return self.volume.read_file(raw, offset, out);
        }
        let len = raw.size.saturating_sub(offset).min(out.len() as u64);
        for piece in pieces(offset, len, raw.block_shift()) {
            let part = &mut out[piece.at..piece.at + piece.len as usize];
            let buffer = file.lock();
            sim::work(Work::STEP, index_steps(&buffer));
            match buffer.blocks.get(&piece.block) {
                Some(block) => block.read(&self.volume.region, piece.within as usize, part)?,
                None => {
                    drop(buffer);
                    let start = offset + piece.at as u64;
                    self.volume.read_file(raw, start, part)?;
                }
            }
        }
        Ok(len as usize)
    }

    /// Writes into a file whose lock the caller holds for writing; returns how many bytes, fewer when space runs out.
    pub(crate) fn write(
        &self,
        inode: &Inode,
        raw: &mut RawInode,
        (offset, data): (u64, &[u8]),
        sync: bool,
    ) -> Result<usize> {
        let end = offset.checked_add(data.len() as u64).ok_or(Error::TooLarge)?;
        if raw.block_type != 0 || self.volume.maps.is_mapped(inode.ino) {
            // Large blocks are not buffered: the DRAM block equals the 4-KiB block. Nor is a file that is mapped: its mappings see
            // the medium.
            self.settle_file(inode)?;
            return self.volume.write_file(inode, raw, offset, data);
        }
        if end > Tree::most_bytes(BLOCK_SHIFT) {
            return Err(Error::TooLarge);
        }
        let file = self.file(inode)?;
        if offset > raw.size && !data.is_empty() {
            // On the medium, even of a block that is buffered: its dirty lines have zeros there.
            self.volume.zero_gap(raw, offset)?;
            self.volume.region.fence();
        }
        let chunk_bytes = FILL_MAX << BLOCK_SHIFT;
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let len = (chunk_bytes - at % chunk_bytes).min((data.len() - done) as u64) as usize;
            match self.write_chunk(inode, file, raw, (at, &data[done..done + len]), sync) {
                Ok(written) if written < len => {
                    done += written;
                    break;
                }
                Ok(written) => done += written,
                // What was written before counts; the next call meets the error.
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        self.trim_ghosts()?;
        if done == 0 && !data.is_empty() { Err(Error::NoSpace) } else { Ok(done) }
    }

    fn write_chunk(
        &self,
        inode: &Inode,
        file: &FileSlot,
        raw: &mut RawInode,
        (offset, data): (u64, &[u8]),
        sync: bool,
    ) -> Result<usize> {
        let end = offset + data.len() as u64;
        let range = WriteRange { offset, end, size: raw.size, shift: BLOCK_SHIFT };
        let (first, last) = (offset >> BLOCK_SHIFT, (end - 1) >> BLOCK_SHIFT);
        let (mut mapped, holes) = self.map_chunk(raw, first, last)?;
        if holes == 0 && end <= raw.size {
            let now = Timestamp::now();
            if raw.leaves_era(now) {
                self.complete_file(inode)?;
            }
            self.volume.store_times(inode, raw, now)?;
            let chunk = ChunkWrite { range, new_size: raw.size, sync, in_tx: false };
            let written = self.write_pieces(inode, file, &mapped, (offset, data), &chunk)?;
            if sync {
                // The blocks and the size may depend on the open transaction.
                self.complete_file(inode)?;
            }
            return Ok(written);
        }
        if self.volume.has(pmfs::mutant::TWO_COMMITS) && data.len() as u64 > BLOCK {
            let (head, tail) = data.split_at(data.len() / 2);
            let done = self.write_chunk(inode, file, raw, (offset, head), sync)?;
            return Ok(done + self.write_chunk(inode, file, raw, (offset + done as u64, tail), sync)?);
        }
        let mut open = self.open_transaction(inode, raw, file, Run::new(first, last - first + 1))?;
        let grown = self.grow(inode, raw, &mut open.tx, &mut mapped, (offset, data.len(), holes));
        let written = grown.and_then(|len| {
            let chunk = ChunkWrite { range, new_size: raw.size, sync, in_tx: true };
            self.write_pieces(inode, file, &mapped, (offset, &data[..len]), &chunk)
        });
        match written {
            // A growth that found no space is rolled back, unless older growth shares its transaction.
            Ok(0) if open.ticket.is_none() => self.volume.roll_back(open.tx).map(|()| 0),
            Ok(len) => self.leave_open(inode, file, open, sync).map(|()| len),
            Err(error) => {
                self.pool.forget_pending(open.ticket);
                let lost = error.clone();
                self.volume.roll_back_with(open.tx, || self.forget_unmapped(inode, file, lost))?;
                Err(error)
            }
        }
    }

    /// Where the blocks of a chunk lie, and how many are holes.
    fn map_chunk(&self, raw: &RawInode, first: u64, last: u64) -> Result<(Mapped, u64)> {
        let mut mapped = Mapped { first, at: [0; FILL_MAX as usize], fresh: [0; FILL_MAX as usize / 64] };
        let (tree, mut holes) = (Tree::of(raw), 0);
        for block in first..=last {
            match tree.lookup(&self.volume.region, block)? {
                Some(at) => mapped.at[(block - first) as usize] = at,
                None => holes += 1,
            }
        }
        Ok((mapped, holes))
    }

    /// Takes the file's open transaction for a growth within a run of blocks. Begins a new one when there
    /// is none with enough room and the journal cannot enlarge it.
    fn open_transaction(
        &self,
        inode: &Inode,
        raw: &RawInode,
        file: &FileSlot,
        range: Run,
    ) -> Result<OpenTransaction> {
        let mut buffer = file.lock();
        if let Some(mut open) = buffer.open.take() {
            match self.make_room(raw, &mut open.tx, range) {
                Ok(true) => return Ok(open),
                done => {
                    buffer.open = Some(open);
                    done?;
                }
            }
            buffer = self.complete(file, buffer)?;
        }
        drop(buffer);
        self.relieve_journal();
        let need = Tree::of(raw).fill_need(&self.volume.region, &[], range)?;
        let slack = if need > 0 { SLACK_ENTRIES } else { 0 };
        let tx = self.volume.begin_growth(inode, need + slack + UNLINK_ENTRIES)?;
        Ok(OpenTransaction { tx, ticket: None })
    }

    /// Whether a transaction has room for a growth and for a removal; enlarges it if necessary.
    fn make_room(&self, raw: &RawInode, tx: &mut Transaction, range: Run) -> Result<bool> {
        let need = Tree::of(raw).fill_need(&self.volume.region, &tx.nodes, range)? + UNLINK_ENTRIES;
        // One entry is for the commit.
        if tx.room() > need {
            return Ok(true);
        }
        // Twice as much each time: moving costs an entry for each that is used.
        Ok(!self.is_journal_short() && self.volume.journal.enlarge(tx, need + tx.used())?)
    }

    /// Maps the holes and stores the new tree, size and times; returns how many bytes of the write have a place.
    fn grow(
        &self,
        inode: &Inode,
        raw: &mut RawInode,
        tx: &mut Transaction,
        mapped: &mut Mapped,
        (offset, len, holes): (u64, usize, u64),
    ) -> Result<usize> {
        let end = offset + len as u64;
        let (first, last) = (offset >> BLOCK_SHIFT, (end - 1) >> BLOCK_SHIFT);
        let mut tree = Tree::of(raw);
        let mut filled = Filled { mapped: last - first + 1, added: 0 };
        if holes > 0 {
            filled = tree.fill(&self.volume, tx, Run::new(first, last - first + 1), &mut |block, at| {
                mapped.set_fresh(block, at);
                Ok(())
            })?;
            // New nodes must be durable before the commit, which another task may do.
            self.volume.region.fence();
        }
        let placed = ((first + filled.mapped) << BLOCK_SHIFT).saturating_sub(offset).min(len as u64);
        let end = if placed > 0 { offset + placed } else { 0 };
        self.volume.store_growth(inode, raw, &tree, filled, end)?;
        Ok(placed as usize)
    }

    /// After a growth: commits when nothing of the file is left to write back, or when the write is synchronous.
    fn leave_open(
        &self,
        inode: &Inode,
        file: &FileSlot,
        mut open: OpenTransaction,
        sync: bool,
    ) -> Result<()> {
        let mut buffer = file.lock();
        if buffer.waits_for == 0 || self.volume.has(mutant::SIZE_AHEAD_OF_DATA) {
            drop(buffer);
            return self.commit(open);
        }
        let short = self.is_journal_short();
        if open.ticket.is_none() || buffer.ticket_taken || short {
            buffer.ticket_taken = false;
            open.ticket = Some(self.pool.note_pending(inode.ino / INODE_SLOT, open.ticket, short));
        }
        buffer.open = Some(open);
        if sync {
            drop(self.complete(file, buffer)?);
        }
        Ok(())
    }

    fn write_pieces(
        &self,
        inode: &Inode,
        file: &FileSlot,
        mapped: &Mapped,
        (offset, data): (u64, &[u8]),
        chunk: &ChunkWrite,
    ) -> Result<usize> {
        let mut direct = false;
        for piece in pieces(offset, data.len() as u64, BLOCK_SHIFT) {
            let bytes = &data[piece.at..piece.at + piece.len as usize];
            direct |= self.write_piece(inode, file, mapped.get(piece.block), &piece, bytes, chunk)?;
        }
        if direct {
            // Another task may commit the transaction, or sync the file: only this one can fence what it has written.
            self.volume.region.fence();
        }
        Ok(data.len())
    }

    /// Writes a piece; whether it went to the medium and is still to be fenced.
    fn write_piece(
        &self,
        inode: &Inode,
        file: &FileSlot,
        (at, fresh): (u64, bool),
        piece: &Piece,
        data: &[u8],
        chunk: &ChunkWrite,
    ) -> Result<bool> {
        let write = BlockWrite {
            start: piece.block << BLOCK_SHIFT,
            within: piece.within as usize,
            len: data.len(),
            at,
            fresh,
            in_tx: chunk.in_tx,
            old_size: chunk.range.size,
            new_size: chunk.new_size,
        };
        let (mut buffer, buffered) = self.lock_block(file, piece.block);
        sim::work(Work::STEP, index_steps(&buffer));
        if !self.is_eager(&mut buffer, (piece.block, fresh, buffered), chunk.sync) {
            self.write_lazily(inode, file, (buffer, buffered), &write, data)?;
            return Ok(false);
        }
        add(&self.counters.eager_writes, 1);
        if buffered {
            self.absorb(file, &mut buffer, piece.block, &write, data)?;
            drop(self.flush(file, buffer, &Wanted::block(piece.block))?);
            return Ok(false);
        }
        self.note_ghost(&mut buffer, inode, piece.block, &write, chunk.sync);
        drop(buffer);
        let parts = chunk.range.cleared(piece.block, self.volume.settings.clears);
        self.write_directly(&write, parts, data)?;
        Ok(true)
    }

    /// Whether a write to `block` goes straight to the medium.
    fn is_eager(
        &self,
        buffer: &mut FileBuffer,
        (block, fresh, buffered): (u64, bool, bool),
        sync: bool,
    ) -> bool {
        if !self.settings.checker {
            return false;
        }
        if sync {
            return true;
        }
        let state = buffer.ghosts.get(&block).map(|ghost| ghost.eager);
        let inherited = fresh && self.settings.inherit && buffer.last_judged_eager;
        let eager = match state {
            Some(eager) => eager,
            // A block that is buffered was lazy when it was written last.
            None if buffered => false,
            None => inherited || self.settings.benefit.starts_eager(),
        };
        let stale = buffer.last_sync.is_some_and(|sync| sim::now().since(sync) > self.settings.eager_timeout);
        if eager && stale && !self.settings.benefit.starts_eager() {
            buffer.last_judged_eager = false;
            if let Some(ghost) = buffer.ghosts.get_mut(&block) {
                ghost.eager = false;
            }
            return false;
        }
        eager
    }

    fn write_lazily<'a>(
        &self,
        inode: &Inode,
        file: &'a FileSlot,
        (mut buffer, buffered): (LockedBuffer<'a>, bool),
        write: &BlockWrite,
        data: &[u8],
    ) -> Result<()> {
        let block = write.start >> BLOCK_SHIFT;
        let slot = inode.ino / INODE_SLOT;
        if buffered {
            add(&self.counters.lazy_hits, 1);
        } else {
            // Waiting for a page with the file locked would block the write-back that frees one.
            drop(buffer);
            let (page, entry, stalled) = self.pool.take(Owner { slot, block });
            add(&self.counters.lazy_misses, 1);
            add(&self.counters.stalls, u64::from(stalled));
            buffer = file.lock();
            let line_writes = self.forget_ghost(&mut buffer, block);
            sim::ran::did(Work::NODE, index_steps(&buffer));
            let _own = sim::ran::aside();
            buffer.blocks.insert(block, Buffered::new(page, entry, write.at, line_writes));
            file.note_len(&buffer);
        }
        if write.in_tx {
            buffer.mark_in_tx(block);
        }
        self.absorb(file, &mut buffer, block, write, data)
    }

    /// Writes into a buffered block. One that was just added leaves again when its lines cannot be fetched.
    fn absorb(
        &self,
        file: &FileSlot,
        buffer: &mut FileBuffer,
        block: u64,
        write: &BlockWrite,
        data: &[u8],
    ) -> Result<()> {
        let missing = || Error::Corrupt(format!("block {block} left the buffer while its file was locked"));
        let buffered = buffer.blocks.get_mut(&block).ok_or_else(missing)?;
        let first = buffered.dirty == 0;
        match buffered.write(&self.volume.region, write, data, !self.settings.by_line) {
            Ok(fetched) => {
                add(&self.counters.lines_fetched, fetched);
                if first || self.settings.every_move || !self.pool.is_recent(buffered.moved) {
                    buffered.moved = self.pool.touch(buffered.entry);
                }
                Ok(())
            }
            Err(error) => {
                if buffered.dirty == 0 {
                    self.forget_block(file, buffer, block);
                }
                Err(error)
            }
        }
    }

    /// Writes to the medium, to a new block as PMFS does ([`WriteRange::cleared`]).
    fn write_directly(&self, write: &BlockWrite, parts: [Range<u64>; 2], data: &[u8]) -> Result<()> {
        let _scope = sim::scope(Activity::DATA);
        if write.fresh {
            self.volume.clear_parts(write.at, parts)?;
            return self.volume.store_new_data(write.at + write.within as u64, data);
        }
        Ok(self.volume.region.nt_store(write.at + write.within as u64, data)?)
    }

    /// Counts a direct write as if it had been buffered: the next sync judges by it. Where no count could favour the buffer,
    /// there is no judgement.
    fn note_ghost(&self, buffer: &mut FileBuffer, inode: &Inode, block: u64, write: &BlockWrite, sync: bool) {
        if sync || !self.settings.checker || self.settings.benefit.starts_eager() {
            return;
        }
        let (lines, now) = (lines_of(write.within, write.len), sim::now());
        match buffer.ghosts.get_mut(&block) {
            Some(ghost) => {
                if ghost.line_writes == 0 {
                    buffer.unjudged.push(block);
                }
                ghost.age(now, self.settings.dirty_age);
                ghost.dirty |= lines;
                ghost.line_writes += u64::from(lines.count_ones());
                ghost.written = now;
                self.pool.lock().ghosts.touch(ghost.entry, now);
            }
            None => {
                let owner = Owner { slot: inode.ino / INODE_SLOT, block };
                let entry = self.pool.lock().ghosts.add(owner, now);
                let line_writes = u64::from(lines.count_ones());
                let ghost = Ghost { dirty: lines, line_writes, eager: true, written: now, entry };
                buffer.ghosts.insert(block, ghost);
                buffer.unjudged.push(block);
            }
        }
    }

    /// Forgets the ghost of a block that becomes buffered; returns its line writes, which stay counted.
    fn forget_ghost(&self, buffer: &mut FileBuffer, block: u64) -> u64 {
        match buffer.ghosts.remove(&block) {
            Some(ghost) => {
                self.pool.lock().ghosts.remove(ghost.entry);
                ghost.line_writes
            }
            None => 0,
        }
    }

    /// Forgets the oldest ghosts beyond as many as there are pages.
    pub(crate) fn trim_ghosts(&self) -> Result<()> {
        loop {
            let mut pool = self.pool.lock();
            if pool.ghosts.len() <= self.pool.limit() {
                return Ok(());
            }
            let Some((entry, owner)) = pool.ghosts.take_oldest() else { return Ok(()) };
            drop(pool);
            let mut buffer = self.file_of_slot(owner.slot)?.lock();
            let mut pool = self.pool.lock();
            let stale = buffer.ghosts.get(&owner.block).is_some_and(|ghost| ghost.entry == entry);
            if stale && !pool.ghosts.is_linked(entry) {
                buffer.ghosts.remove(&owner.block);
                pool.ghosts.remove(entry);
            }
        }
    }
}

/// Steps of a search in the index of a file.
pub(crate) fn index_steps(buffer: &FileBuffer) -> u64 {
    u64::from((buffer.blocks.len() as u64 + 1).ilog2()) + 1
}
