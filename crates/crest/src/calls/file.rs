//! The contents of files: new data goes into new blocks or behind the end of a file, and one record makes a whole call count.
//!
//! | a write goes | when |
//! |---|---|
//! | in place, beyond the end | the block is the file's own and written, and the bytes begin at or behind its end (`place.rs`) |
//! | in place | the block was reserved only (*unwritten*): no call reads it until the record says that it is written |
//! | to the record itself | it overwrites at most 1 KiB within a written block (`patch.rs`) |
//! | to a new block, with the rest of the old one | else |
//!
//! A write of whole blocks stores its data before it locks the file: the blocks are new, and what it stores there does not depend
//! on what the file holds. So writers of one file wait for each other's records only. Not if blocks of the file were ever reserved,
//! which such a write has to use, nor to append, as the place is not known before.
//!
//! Overwrites of a file that tasks share need not lock it alone: see `sharing.rs`.
//!
//! So bytes behind the end within the last block may be anything. Before a file grows over them they are zeroed, in place where
//! that may be, and fenced before the record that makes it grow (R9).

use sim::ByteRun;
use sim::sync::Ordering::Relaxed;
use vfs::{FallocateMode, SeekTo, Written};

use super::Volume;
use super::draft::{Draft, records};
use crate::format::layout::{BLOCK, FILE_MAX};
use crate::format::mutant;
use crate::format::record::Write;
use crate::format::zone::Want;
use crate::index::follow::Shown;
use crate::index::inode::{Changing, Inode, State, now};
use crate::index::map::{Granule, Held};
use crate::index::span::Span;
use crate::parts;
use crate::store::log::Call;
use base::error::{Error, Result};

impl Volume {
    /// Reads from a file; returns how many bytes.
    pub(crate) fn read_file(&self, file: &State, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let len = file.size.saturating_sub(offset).min(buffer.len() as u64);
        if len == 0 {
            file.blocks()?;
            return Ok(0);
        }
        let span = Span { start: offset, end: offset + len };
        let out = &mut buffer[..len as usize];
        if file.is_dirty() {
            self.read_frames(file, span, out)?;
        } else if file.pages.is_some() {
            self.read_pages(file, span, out)?;
        } else {
            let _granules =
                if file.shared { file.blocks()?.hold(span.blocks(), Granule::read) } else { Held::default() };
            self.read_medium(file, span, out)?;
        }
        Ok(len as usize)
    }

    /// Writes into a file, at its end where `offset` is none; where, and how many bytes: fewer when space runs out.
    pub(crate) fn write(
        &self,
        inode: &Inode,
        offset: Option<u64>,
        data: &[u8],
        syncs: bool,
    ) -> Result<Written> {
        self.tend();
        if self.frames.are_used() {
            return self.write_buffered(inode, offset, data, syncs);
        }
        // What is appended overwrites nothing.
        if let Some(offset) = offset.filter(|_| self.words)
            && self.write_in_place(&mut inode.changing()?, offset, data)?
        {
            return Ok(Written { offset, bytes: data.len() });
        }
        let whole = |offset: &u64| offset.is_multiple_of(BLOCK) && (data.len() as u64).is_multiple_of(BLOCK);
        let ahead = offset.filter(|offset| whole(offset) && !data.is_empty() && inode.takes_data_ahead());
        let mut ahead = ahead.map(|offset| self.store_ahead(offset, data)).transpose()?;
        let alone = if inode.shared.load(Relaxed) { None } else { inode.changing_unshared()? };
        let mut file = match alone {
            Some(file) => file,
            None => {
                if let Some(offset) = offset
                    && let Some(bytes) = self.overwrite(inode, offset, data, &mut ahead)?
                {
                    return Ok(Written { offset, bytes });
                }
                inode.changing()?
            }
        };
        if let Some(at) = offset
            && self.write_inline_alone(inode, &mut file, at, data)?
        {
            return Ok(Written { offset: at, bytes: data.len() });
        }
        let (offset, size, mapped) = (offset.unwrap_or(file.size), file.size, file.blocks()?.mapped());
        let bytes = match ahead {
            Some(mut draft) => {
                let end = draft.size;
                (draft.durable, draft.size, draft.time) = (size, size.max(end), file.stamp(now()));
                draft.zero_tail(&file, offset)?;
                draft.commit(&mut file, Want::Records, &[])?;
                self.shown(&mut file, &Shown::Written(offset, &data[..(end - offset) as usize]));
                (end - offset) as usize
            }
            None => self.write_file(&mut file, offset, data)?,
        };
        if bytes > 0 && (file.size, file.blocks()?.mapped()) == (size, mapped) {
            inode.count_change(&mut file);
        }
        Ok(Written { offset, bytes })
    }

    /// Overwrites blocks of a file that tasks share; returns how many bytes. None, and nothing has changed, where it must be locked
    /// alone. `ahead`: the data, if it is stored already.
    fn overwrite<'v>(
        &'v self,
        inode: &Inode,
        offset: u64,
        data: &[u8],
        ahead: &mut Option<Draft<'v>>,
    ) -> Result<Option<usize>> {
        let file = inode.reading()?;
        let end = ahead.as_ref().map_or(offset.saturating_add(data.len() as u64), |draft| draft.size);
        let (span, blocks) = (Span { start: offset, end }, file.blocks()?);
        if !file.shared || data.is_empty() || end > file.size || !blocks.has_all(span.blocks()) {
            return Ok(None);
        }
        let mut granules = match self.rules.lacks(mutant::GRANULES_UNLOCKED) {
            true => Held::default(),
            false => blocks.hold(span.blocks(), Granule::write),
        };
        if self.write_inline_beside(inode, &file, &mut granules, span, data)? {
            return Ok(Some(data.len()));
        }
        let (mut draft, end) = match ahead.take() {
            Some(draft) => (draft, end),
            None => {
                let mut draft = Draft::of(self, &file);
                let end = draft.write_pieces(&file, offset, data)?;
                (draft, end)
            }
        };
        draft.fence_data();
        let time = inode.stamp_beside(&file, self.shard(), now());
        let extents = self.sums.with_sums(draft.extents);
        let write = Write { ino: file.ino, extents, size: None, time: Some(time) };
        let before = if self.rules.lacks(mutant::GRANULE_WITHOUT_ID) { 0 } else { granules.last() };
        let call =
            Call { want: Want::Records, after: file.last.max(before), makes: false, needs: &draft.stored };
        let done = self.commit(call, |ticket| records(ticket, &write, &[], false))?;
        draft.taken.keep();
        let _part = sim::part(&parts::PUBLISH);
        let published = self.publish(&write.extents, done.time(), |at, place| blocks.replace(at, place));
        granules.note(done.time());
        inode.shares().note(self.shard(), done.time(), time);
        self.zones.change_inlines(blocks.take_change());
        self.free(&published.freed);
        Ok(Some((end - offset) as usize))
    }

    /// Stores whole blocks of data to new blocks and fences them, before the file is locked.
    fn store_ahead(&self, offset: u64, data: &[u8]) -> Result<Draft<'_>> {
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= FILE_MAX);
        let end = end.ok_or(Error::TooLarge)?;
        let mut draft = Draft { size: offset, ..Draft::new(self, 0) };
        while draft.size < end {
            let rest = &data[(draft.size - offset) as usize..];
            let blocks = match draft.take(rest.len() as u64 / BLOCK) {
                Err(Error::NoSpace) if draft.size > offset => break,
                blocks => blocks?,
            };
            let bytes = blocks.count * BLOCK;
            draft.store_whole(blocks.first, &rest[..bytes as usize])?;
            draft.map(draft.size / BLOCK, blocks.first, blocks.count, false);
            draft.size += bytes;
        }
        draft.fence_data();
        Ok(draft)
    }

    /// Zeroes or frees a range; one operation. Nothing is only reserved (`Promises::reservations`).
    pub(crate) fn fallocate(
        &self,
        file: &mut Changing<'_>,
        mode: FallocateMode,
        ByteRun { at: offset, len }: ByteRun,
    ) -> Result<()> {
        let end = offset.checked_add(len).filter(|end| *end <= FILE_MAX).ok_or(Error::TooLarge)?;
        self.settle(file)?;
        let span = Span { start: offset, end };
        let punches = mode.contains(FallocateMode::PUNCH_HOLE);
        let mut draft = Draft::of(self, file);
        if !punches && !mode.contains(FallocateMode::KEEP_SIZE) {
            draft.size = draft.size.max(end);
            // A block that is zeroed whole needs no zeros behind the end; it must get one place only.
            if !span.whole().contains(&(file.size / BLOCK)) {
                draft.zero_tail(file, end)?;
            }
        }
        let mut holes = Vec::new();
        draft.zero_edges(file, span)?;
        if punches {
            holes = self.holes(file, span.whole(), draft.time)?;
        } else {
            draft.zero_blocks(file, span)?;
        }
        let want = if punches && draft.extents.is_empty() { Want::Removals } else { Want::Records };
        draft.commit(file, want, &holes)?;
        self.shown(file, &Shown::Zeros(span));
        Ok(())
    }
}

/// The next data or hole at or after `offset`.
pub(crate) fn seek(file: &State, offset: u64, to: SeekTo) -> Result<u64> {
    let blocks = file.blocks()?;
    if offset >= file.size {
        return Err(Error::NothingThere);
    }
    let (first, end) = (offset / BLOCK, file.size.div_ceil(BLOCK));
    let found = match to {
        SeekTo::Data => {
            let data = [blocks.next_mapped(first), file.next_dirty_page(first)];
            data.into_iter().flatten().min().filter(|found| *found < end).ok_or(Error::NothingThere)?
        }
        SeekTo::Hole => {
            let runs = blocks.runs(first..end).filter(|run| run.place.is_none());
            let mut holes = runs.flat_map(|run| run.file..run.file + run.count);
            holes.find(|page| file.next_dirty_page(*page) != Some(*page)).unwrap_or(end)
        }
    };
    Ok((found * BLOCK).max(offset).min(file.size))
}
