//! Pieces of files: what a draft stores to new blocks, to reserved ones, and behind the end.

use std::ops::Range;

use sim::ran;

use super::draft::Draft;
use crate::ablation::Without;
use crate::format::layout::{BLOCK, FILE_MAX};
use crate::format::mutant;
use crate::format::record::{Body, Hole};
use crate::format::zone::Want;
use crate::index::Index;
use crate::index::follow::Shown;
use crate::index::inode::{Changing, State};
use crate::index::map::{Place, Run};
use crate::index::span::Span;
use base::error::{Error, Result};

impl Draft<'_> {
    /// Zeroes what lies behind the end of a file in its last block, up to `until`, before the file grows over it: in place, or in a
    /// new block with the rest.
    pub(crate) fn zero_tail(&mut self, file: &State, until: u64) -> Result<()> {
        let end = until.min(file.size.next_multiple_of(BLOCK));
        if end <= file.size || self.index.rules.lacks(mutant::TAIL_NOT_ZEROED) {
            return Ok(());
        }
        let (last, within) = (file.size / BLOCK, (file.size % BLOCK) as usize);
        match file.blocks()?.get(last).filter(|place| !place.unwritten) {
            Some(place) if self.index.takes_stores(file, last, place) => {
                let zeros = [0; BLOCK as usize];
                let at = place.block * BLOCK + within as u64;
                self.store(at, &zeros[..(end - file.size) as usize])
            }
            Some(place) => {
                let mut bytes = [0; BLOCK as usize];
                self.index.load_rest(file, Some(place), last, &mut bytes, within..BLOCK as usize)?;
                self.store_block((last, None), &bytes)
            }
            None => Ok(()),
        }
    }

    /// Stores all of `data` for a locked file, piece by piece; returns where it ends: earlier when space runs out.
    pub(crate) fn write_pieces(&mut self, file: &State, offset: u64, data: &[u8]) -> Result<u64> {
        let (mut at, end) = (offset, offset + data.len() as u64);
        while at < end {
            let rest = &data[(at - offset) as usize..];
            let done = if at.is_multiple_of(BLOCK) && rest.len() as u64 >= BLOCK {
                self.write_blocks(file, at / BLOCK, rest)
            } else {
                self.write_part(file, at, rest)
            };
            match done {
                Ok(bytes) => at += bytes,
                Err(Error::NoSpace) if at > offset => break,
                Err(error) => return Err(error),
            }
        }
        Ok(at)
    }

    /// Writes some whole blocks from `first` on; returns how many bytes.
    fn write_blocks(&mut self, file: &State, first: u64, data: &[u8]) -> Result<u64> {
        let (mut count, most) = (0, data.len() as u64 / BLOCK);
        let reserved = |run: &Run| run.place.filter(|place| place.unwritten);
        let mut runs = file.blocks()?.runs(first..first + most).peekable();
        let target = match runs.peek().and_then(|run| Some((run.count, reserved(run)?))) {
            Some((neighbours, place)) => {
                count = neighbours;
                place.block
            }
            None => {
                for run in runs.take_while(|run| reserved(run).is_none()) {
                    count += run.count;
                }
                let blocks = self.take(count)?;
                count = blocks.count;
                blocks.first
            }
        };
        self.store_whole(target, &data[..(count * BLOCK) as usize])?;
        self.map(first, target, count, false);
        Ok(count * BLOCK)
    }

    /// Writes bytes within one block; returns how many.
    fn write_part(&mut self, file: &State, at: u64, data: &[u8]) -> Result<u64> {
        let (block, within) = (at / BLOCK, (at % BLOCK) as usize);
        let len = data.len().min(BLOCK as usize - within);
        let place = file.blocks()?.get(block);
        if let Some(place @ Place { block, unwritten: false }) = place
            && at >= file.size
            && self.index.without != Without::Appends
            && self.index.takes_stores(file, at / BLOCK, place)
        {
            self.store(block * BLOCK + within as u64, &data[..len])?;
            return Ok(len as u64);
        }
        let mut bytes = [0; BLOCK as usize];
        let old_end = self.index.load_rest(file, place, block, &mut bytes, within..within + len)?;
        bytes[within..within + len].copy_from_slice(&data[..len]);
        let new_end = self.size.saturating_sub(block * BLOCK).min(BLOCK) as usize;
        self.store_block((block, place), &bytes[..new_end.max(old_end).max(within + len)])?;
        Ok(len as u64)
    }

    /// Stores the bytes of a block of a file to a new block, or to the one that is reserved for it.
    fn store_block(&mut self, (block, place): (u64, Option<Place>), bytes: &[u8]) -> Result<()> {
        let target = match place.filter(|place| place.unwritten) {
            Some(place) => place.block,
            None => self.take(1)?.first,
        };
        if self.index.sums.are_on() {
            let mut whole = [0; BLOCK as usize];
            whole[..bytes.len()].copy_from_slice(bytes);
            self.store_whole(target, &whole)?;
        } else {
            self.store(target * BLOCK, bytes)?;
        }
        self.map(block, target, 1, false);
        Ok(())
    }

    /// Gives a block of a file a new place, with its bytes and zeros behind the end.
    pub(crate) fn copy_block(&mut self, file: &State, block: u64) -> Result<()> {
        let place = file.blocks()?.get(block);
        let mut bytes = [0; BLOCK as usize];
        self.index.load_rest(file, place, block, &mut bytes, BLOCK as usize..BLOCK as usize)?;
        self.store_block((block, place), &bytes)
    }

    // ---- ranges

    /// Zeroes the parts of blocks with which a span begins and ends.
    pub(crate) fn zero_edges(&mut self, file: &State, span: Span) -> Result<()> {
        let (first, last) = (span.start / BLOCK, (span.end - 1) / BLOCK);
        let ragged = |block: u64| block * BLOCK < span.start || span.end < (block + 1) * BLOCK;
        for block in (first..=last).step_by((last - first).max(1) as usize) {
            let place = file.blocks()?.get(block);
            let is_written = place.is_some_and(|place| !place.unwritten);
            let (from, to) = (span.start.max(block * BLOCK), span.end.min((block + 1) * BLOCK));
            if !ragged(block) || !is_written || from >= file.size {
                continue;
            }
            let new = (from - block * BLOCK) as usize..(to - block * BLOCK) as usize;
            let mut bytes = [0; BLOCK as usize];
            self.index.load_rest(file, place, block, &mut bytes, new)?;
            let end = self.size.saturating_sub(block * BLOCK).min(BLOCK) as usize;
            self.store_block((block, place), &bytes[..end])?;
        }
        Ok(())
    }

    /// Lets every block of a span have a place; those that it covers whole read as zeros.
    pub(crate) fn zero_blocks(&mut self, file: &State, span: Span) -> Result<()> {
        let range = span.blocks();
        let missing = (range.end - range.start).saturating_sub(file.blocks()?.mapped());
        if missing > self.index.zones.counts().1 {
            return Err(Error::NoSpace);
        }
        for run in file.blocks()?.runs(range) {
            match run.place {
                None => self.reserve_new(run.file..run.file + run.count)?,
                Some(place) if !place.unwritten => {
                    let whole = span.whole();
                    for at in whole.start.max(run.file)..whole.end.min(run.file + run.count) {
                        let block = place.block + at - run.file;
                        // What is reserved is written in place.
                        if self.index.zones.references(block) > 1 {
                            self.reserve_new(at..at + 1)?;
                        } else {
                            self.map(at, block, 1, true);
                        }
                    }
                }
                Some(_) => {}
            }
        }
        if self.extents.len() > self.index.extents_max() { Err(Error::NoSpace) } else { Ok(()) }
    }

    /// Gives blocks of a file new ones that read as zeros.
    fn reserve_new(&mut self, range: Range<u64>) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let blocks = self.take(range.end - at)?;
            self.map(at, blocks.first, blocks.count, true);
            at += blocks.count;
        }
        Ok(())
    }
}

impl Index {
    /// Writes into a locked file; returns how many bytes, fewer when space runs out.
    pub(crate) fn write_file(&self, file: &mut Changing<'_>, offset: u64, data: &[u8]) -> Result<usize> {
        file.blocks()?;
        if data.is_empty() {
            return Ok(0);
        }
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= FILE_MAX);
        let end = end.ok_or(Error::TooLarge)?;
        let mut draft = Draft::of(self, file);
        draft.size = file.size.max(end);
        // A block that takes no stores gets its zeros with the bytes that are written to it.
        let (last, first) = (file.size / BLOCK, offset / BLOCK);
        let rewrites = last == first
            && file.blocks()?.get(last).is_some_and(|place| !self.takes_stores(file, last, place));
        if !rewrites {
            draft.zero_tail(file, offset)?;
        }
        let at = draft.write_pieces(file, offset, data)?;
        draft.size = file.size.max(at);
        draft.commit(file, Want::Records, &[])?;
        self.shown(file, &Shown::Written(offset, &data[..(at - offset) as usize]));
        Ok((at - offset) as usize)
    }

    /// Gives blocks of a range new places, with all their bytes, of which records have some.
    pub(crate) fn move_patched(&self, file: &mut Changing<'_>, range: Range<u64>) -> Result<()> {
        let patched = file.blocks().map_or_else(|_| Vec::new(), |blocks| blocks.patched(range));
        for some in patched.chunks(self.extents_max()) {
            let mut draft = Draft::of(self, file);
            draft.moves = true;
            for block in some {
                draft.copy_block(file, *block)?;
            }
            draft.commit(file, Want::Records, &[])?;
        }
        Ok(())
    }

    /// Records that make holes of the blocks of a range that have places, one for each run of these; of many runs that lie close
    /// to each other, the holes between them are in the record, too.
    pub(crate) fn holes(&self, file: &State, range: Range<u64>, time: u64) -> Result<Vec<Body>> {
        let most = (self.geometry.record_lines() / 2) as usize;
        let mut gap = 0;
        loop {
            let mut holes: Vec<Body> = Vec::new();
            for run in file.blocks()?.runs(range.clone()) {
                if run.place.is_none() {
                    continue;
                }
                match holes.last_mut() {
                    Some(Body::Hole(last)) if run.file - (last.from + last.count) <= gap => {
                        last.count = run.file + run.count - last.from;
                    }
                    _ => {
                        let (ino, from, count) = (file.ino, run.file, run.count);
                        ran::push(&mut holes, Body::Hole(Hole { ino, from, count, before: 0, time }));
                    }
                }
            }
            if holes.len() <= most {
                return Ok(holes);
            }
            gap = 2 * gap + 1;
        }
    }
}
