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

use std::ops::Range;

use sim::ran;
use sim::sync::Ordering::Relaxed;
use vfs::{FallocateMode, SeekTo, Written};

use super::Volume;
use super::ablation::Without;
use super::alloc::{Blocks, Taken};
use super::attributes::apply;
use super::draft::{Draft, Freed, records};
use super::inode::{Changing, Inode, State, now};
use super::layout::{BLOCK, EXTENT_BYTES};
use super::log::Call;
use super::map::{BlockMap, Granule, Held, Place, Run};
use super::mutant;
use super::parts;
use super::record::{Body, Extent, Hole, Write};
use super::sums;
use super::zone::Want;
use base::error::{Error, Result};

/// Largest file: what 48 bits can count, less what a sum may add.
pub(super) const FILE_MAX: u64 = 1 << 47;

/// Bytes `start..end` of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Span {
    /// Its first block, and the one behind its last.
    pub(super) fn blocks(self) -> Range<u64> {
        self.start / BLOCK..self.end.div_ceil(BLOCK)
    }

    /// The blocks that it covers whole.
    fn whole(self) -> Range<u64> {
        self.start.div_ceil(BLOCK)..self.end / BLOCK
    }
}

/// Takes the places of blocks in holes and behind cuts; each is given to `gone`.
fn unmap(blocks: &mut BlockMap, records: &[Body], mut gone: impl FnMut(Place)) {
    for body in records {
        match body {
            Body::Hole(hole) => {
                for at in hole.from..hole.from + hole.count {
                    blocks.set(at, None).into_iter().for_each(&mut gone);
                }
            }
            Body::Cut(cut) => blocks.cut(cut.size.div_ceil(BLOCK), &mut gone),
            _ => {}
        }
    }
}

impl Volume {
    /// Reads from a file; returns how many bytes.
    pub(super) fn read_file(&self, file: &State, offset: u64, buffer: &mut [u8]) -> Result<usize> {
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

    /// Reads bytes of a file that lie before its end, from the medium.
    pub(super) fn read_medium(&self, file: &State, span: Span, out: &mut [u8]) -> Result<()> {
        for run in file.blocks()?.runs(span.blocks()) {
            let start = span.start.max(run.file * BLOCK);
            let end = span.end.min((run.file + run.count) * BLOCK);
            let piece = &mut out[(start - span.start) as usize..(end - span.start) as usize];
            match run.place.filter(|place| !place.unwritten) {
                Some(place) => {
                    let part = Run { place: Some(place), ..run };
                    self.read_patched(file, &part, start, piece)?;
                }
                None => piece.fill(0),
            }
        }
        Ok(())
    }

    pub(super) fn draft(&self, file: &State) -> Draft<'_> {
        let draft = Draft::new(Taken::new(&self.zones), file.durable_size());
        Draft { size: file.size, time: file.stamp(now()), ..draft }
    }

    /// Extents that the records of one call may have.
    pub(super) fn extents_max(&self) -> usize {
        (self.geometry.record_lines() as usize - 8) * 3
    }

    /// Takes at most `most` neighbouring blocks for a draft.
    fn take(&self, draft: &mut Draft<'_>, most: u64) -> Result<Blocks> {
        if draft.extents.len() >= self.extents_max() {
            return Err(Error::NoSpace);
        }
        // Checksums take their part of the records of a call.
        let room = ((self.extents_max() - draft.extents.len()) * EXTENT_BYTES) as u64 / sums::BYTES;
        let most = if self.sums.are_on() { most.min(room.saturating_sub(draft.blocks)) } else { most };
        if most == 0 {
            return Err(Error::NoSpace);
        }
        let blocks = self.take_blocks(most)?;
        draft.taken.add(blocks);
        Ok(blocks)
    }

    /// Takes at most `most` neighbouring blocks.
    pub(super) fn take_blocks(&self, most: u64) -> Result<Blocks> {
        if !self.region.grants_space() {
            return Err(Error::NoSpace);
        }
        loop {
            match self.zones.take(self.shard(), most) {
                Err(Error::NoSpace) if self.clean(Want::Data)? => {}
                taken => return taken,
            }
        }
    }

    /// Stores data past the cache; fenced with the rest of the draft.
    pub(super) fn store(&self, draft: &mut Draft<'_>, at: u64, data: &[u8]) -> Result<()> {
        let _part = sim::part(&parts::DATA);
        if self.losses.is_read_only() {
            return Err(Error::ReadOnly);
        }
        if !data.is_empty() {
            self.region.nt_store(at, data)?;
            self.note_stored(at, data);
            ran::push(&mut draft.stored, (at, data.len() as u64));
            draft.fenced = false;
        }
        Ok(())
    }

    /// Fences what a draft has stored (R3).
    fn fence_data(&self, draft: &mut Draft<'_>) {
        if !draft.fenced && !self.rules.lacks(mutant::DATA_UNFENCED) {
            let _part = sim::part(&parts::DATA);
            self.region.fence();
        }
        draft.fenced = true;
    }

    /// Zeroes what lies behind the end of a file in its last block, up to `until`, before the file grows over it: in place, or in a
    /// new block with the rest.
    pub(super) fn zero_tail(&self, file: &State, draft: &mut Draft<'_>, until: u64) -> Result<()> {
        let end = until.min(file.size.next_multiple_of(BLOCK));
        if end <= file.size || self.rules.lacks(mutant::TAIL_NOT_ZEROED) {
            return Ok(());
        }
        let (last, within) = (file.size / BLOCK, (file.size % BLOCK) as usize);
        match file.blocks()?.get(last).filter(|place| !place.unwritten) {
            Some(place) if self.takes_stores(file, last, place) => {
                let zeros = [0; BLOCK as usize];
                let at = place.block * BLOCK + within as u64;
                self.store(draft, at, &zeros[..(end - file.size) as usize])
            }
            Some(place) => {
                let mut bytes = [0; BLOCK as usize];
                self.load_rest(file, Some(place), last, &mut bytes, within..BLOCK as usize)?;
                self.store_block(draft, (last, None), &bytes)
            }
            None => Ok(()),
        }
    }

    /// Writes into a file, at its end where `offset` is none; where, and how many bytes: fewer when space runs out.
    pub(super) fn write(
        &self,
        inode: &Inode,
        offset: Option<u64>,
        data: &[u8],
        syncs: bool,
    ) -> Result<Written> {
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
                self.zero_tail(&file, &mut draft, offset)?;
                self.commit_draft(&mut file, draft, Want::Records, &[])?;
                self.show_written(&file, offset, &data[..(end - offset) as usize]);
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
                let mut draft = self.draft(&file);
                let end = self.write_pieces(&file, &mut draft, offset, data)?;
                (draft, end)
            }
        };
        self.fence_data(&mut draft);
        let time = inode.stamp_beside(&file, self.shard(), now());
        let extents = self.sums.with_sums(draft.extents);
        let write = Write { ino: file.ino, extents, size: None, time: Some(time) };
        let before = if self.rules.lacks(mutant::GRANULE_WITHOUT_ID) { 0 } else { granules.last() };
        let call =
            Call { want: Want::Records, after: file.last.max(before), makes: false, needs: &draft.stored };
        let done = self.commit(call, |ticket| records(ticket, &write, &[], false))?;
        draft.taken.keep();
        let _part = sim::part(&parts::PUBLISH);
        let mut freed = Freed::default();
        let replace = |file, place: Place| {
            let old = blocks.replace(file, place);
            if let Some(old) = old {
                self.note_moved(old.block, place.block);
            }
            old
        };
        place(&write.extents, replace, |old| freed.add(old.block));
        granules.note(done.time());
        inode.shares().note(self.shard(), done.time(), time);
        self.zones.change_inlines(blocks.take_change());
        self.free(&freed);
        Ok(Some((end - offset) as usize))
    }

    /// Stores whole blocks of data to new blocks and fences them, before the file is locked.
    fn store_ahead(&self, offset: u64, data: &[u8]) -> Result<Draft<'_>> {
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= FILE_MAX);
        let end = end.ok_or(Error::TooLarge)?;
        let mut draft = Draft { size: offset, ..Draft::new(Taken::new(&self.zones), 0) };
        while draft.size < end {
            let rest = &data[(draft.size - offset) as usize..];
            let blocks = match self.take(&mut draft, rest.len() as u64 / BLOCK) {
                Err(Error::NoSpace) if draft.size > offset => break,
                blocks => blocks?,
            };
            let bytes = blocks.count * BLOCK;
            self.sums.stored(blocks.first, &rest[..bytes as usize]);
            self.store(&mut draft, blocks.first * BLOCK, &rest[..bytes as usize])?;
            draft.map(draft.size / BLOCK, blocks.first, blocks.count, false);
            draft.size += bytes;
        }
        self.fence_data(&mut draft);
        Ok(draft)
    }

    /// Writes into a locked file; returns how many bytes, fewer when space runs out.
    pub(super) fn write_file(&self, file: &mut Changing<'_>, offset: u64, data: &[u8]) -> Result<usize> {
        file.blocks()?;
        if data.is_empty() {
            return Ok(0);
        }
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= FILE_MAX);
        let end = end.ok_or(Error::TooLarge)?;
        let mut draft = self.draft(file);
        draft.size = file.size.max(end);
        // A block that takes no stores gets its zeros with the bytes that are written to it.
        let (last, first) = (file.size / BLOCK, offset / BLOCK);
        let rewrites = last == first
            && file.blocks()?.get(last).is_some_and(|place| !self.takes_stores(file, last, place));
        if !rewrites {
            self.zero_tail(file, &mut draft, offset)?;
        }
        let at = self.write_pieces(file, &mut draft, offset, data)?;
        draft.size = file.size.max(at);
        self.commit_draft(file, draft, Want::Records, &[])?;
        self.show_written(file, offset, &data[..(at - offset) as usize]);
        Ok((at - offset) as usize)
    }

    /// Stores all of `data` for a locked file, piece by piece; returns where it ends: earlier when space runs out.
    fn write_pieces(&self, file: &State, draft: &mut Draft<'_>, offset: u64, data: &[u8]) -> Result<u64> {
        let (mut at, end) = (offset, offset + data.len() as u64);
        while at < end {
            let rest = &data[(at - offset) as usize..];
            let done = if at.is_multiple_of(BLOCK) && rest.len() as u64 >= BLOCK {
                self.write_blocks(file, draft, at / BLOCK, rest)
            } else {
                self.write_part(file, draft, at, rest)
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
    fn write_blocks(&self, file: &State, draft: &mut Draft<'_>, first: u64, data: &[u8]) -> Result<u64> {
        let (mut count, most) = (0, data.len() as u64 / BLOCK);
        let reserved = |run: &Run| run.place.filter(|place| place.unwritten);
        let runs = file.blocks()?.runs(first..first + most);
        let target = match runs.first().and_then(reserved) {
            Some(place) => {
                count = runs[0].count;
                place.block
            }
            None => {
                for run in runs.iter().take_while(|run| reserved(run).is_none()) {
                    count += run.count;
                }
                let blocks = self.take(draft, count)?;
                count = blocks.count;
                blocks.first
            }
        };
        self.sums.stored(target, &data[..(count * BLOCK) as usize]);
        self.store(draft, target * BLOCK, &data[..(count * BLOCK) as usize])?;
        draft.map(first, target, count, false);
        Ok(count * BLOCK)
    }

    /// Writes bytes within one block; returns how many.
    fn write_part(&self, file: &State, draft: &mut Draft<'_>, at: u64, data: &[u8]) -> Result<u64> {
        let (block, within) = (at / BLOCK, (at % BLOCK) as usize);
        let len = data.len().min(BLOCK as usize - within);
        let place = file.blocks()?.get(block);
        if let Some(place @ Place { block, unwritten: false }) = place
            && at >= file.size
            && self.without != Without::Appends
            && self.takes_stores(file, at / BLOCK, place)
        {
            self.store(draft, block * BLOCK + within as u64, &data[..len])?;
            return Ok(len as u64);
        }
        let mut bytes = [0; BLOCK as usize];
        let old_end = self.load_rest(file, place, block, &mut bytes, within..within + len)?;
        bytes[within..within + len].copy_from_slice(&data[..len]);
        let new_end = draft.size.saturating_sub(block * BLOCK).min(BLOCK) as usize;
        self.store_block(draft, (block, place), &bytes[..new_end.max(old_end).max(within + len)])?;
        Ok(len as u64)
    }

    /// Reads what a file has in a block around `new`; returns where its bytes end there.
    fn load_rest(
        &self,
        file: &State,
        place: Option<Place>,
        block: u64,
        bytes: &mut [u8; BLOCK as usize],
        new: Range<usize>,
    ) -> Result<usize> {
        let end = file.size.saturating_sub(block * BLOCK).min(BLOCK) as usize;
        let at = block;
        let Some(Place { block, unwritten: false }) = place else { return Ok(0) };
        if 0 < new.start.min(end) || new.end < end {
            self.compare(file, at, block, None)?;
        }
        // Only what stays is read, so that what cannot be read can be overwritten.
        for rest in [0..new.start.min(end), new.end..end.max(new.end)] {
            if !rest.is_empty() {
                self.load_bytes(file, at, block, rest.start, &mut bytes[rest])?;
            }
        }
        Ok(end)
    }

    /// Stores the bytes of a block of a file to a new block, or to the one that is reserved for it.
    fn store_block(
        &self,
        draft: &mut Draft<'_>,
        (block, place): (u64, Option<Place>),
        bytes: &[u8],
    ) -> Result<()> {
        let target = match place.filter(|place| place.unwritten) {
            Some(place) => place.block,
            None => self.take(draft, 1)?.first,
        };
        let mut whole = [0; BLOCK as usize];
        let bytes = if self.sums.are_on() {
            whole[..bytes.len()].copy_from_slice(bytes);
            self.sums.stored(target, &whole);
            &whole
        } else {
            bytes
        };
        self.store(draft, target * BLOCK, bytes)?;
        draft.map(block, target, 1, false);
        Ok(())
    }

    /// Makes a draft count, whole, with further records beside its extents; nothing of it does when this fails.
    pub(super) fn commit_draft(
        &self,
        file: &mut Changing<'_>,
        mut draft: Draft<'_>,
        want: Want,
        more: &[Body],
    ) -> Result<()> {
        self.fence_data(&mut draft);
        let Draft { taken, extents, stored, durable, size, time, settles, moves, beside, .. } = draft;
        let extents = self.sums.with_sums(extents);
        let cuts = size < file.size && !settles;
        let (grown, changed) = ((size > durable).then_some(size), (!moves).then_some(time));
        let write = Write { ino: file.ino, extents, size: grown, time: changed };
        let call = Call { want, after: file.last, makes: false, needs: &stored };
        let done = self.commit(call, |ticket| records(ticket, &write, more, cuts))?;
        taken.keep();
        let _part = sim::part(&parts::PUBLISH);
        file.last = done.time();
        let (mut freed, mut shared) = (Freed::default(), Freed::default());
        let (mut gone, mut kept) = (|old: Place| freed.add(old.block), 0);
        let blocks = file.blocks_mut()?;
        for extent in &write.extents {
            for at in 0..u64::from(extent.count) {
                let place = Place { block: extent.place + at, unwritten: extent.unwritten };
                let old = blocks.set(extent.file + at, Some(place));
                if old.is_some_and(|old| old.block == place.block) {
                    kept += 1;
                    continue;
                }
                if let Some(old) = old {
                    self.note_moved(old.block, place.block);
                }
                old.into_iter().for_each(&mut gone);
                if extent.shared {
                    shared.add(place.block);
                }
            }
        }
        unmap(blocks, more, gone);
        self.zones.change_inlines(blocks.take_change());
        if kept > 0 {
            self.zones.note_gone(kept);
        }
        if !settles && !moves {
            file.size = size;
            file.data_changed(time);
        }
        for body in more {
            apply(file, body);
        }
        // First, so that a block that goes and comes at once stays in use.
        shared.0.iter().for_each(|run| self.zones.share(*run));
        match settles {
            true => freed.0.iter().for_each(|run| {
                self.note_freed(*run);
                self.zones.put_replaced(*run, &beside);
            }),
            false => self.free(&freed),
        }
        Ok(())
    }

    /// Frees blocks to which nothing durable leads any more.
    pub(super) fn free(&self, freed: &Freed) {
        freed.0.iter().for_each(|run| {
            self.note_freed(*run);
            self.zones.put(*run);
        });
    }

    /// Zeroes or frees a range; one operation. Nothing is only reserved ([`super::design::PROMISES`]).
    pub(super) fn fallocate(
        &self,
        file: &mut Changing<'_>,
        mode: FallocateMode,
        (offset, len): (u64, u64),
    ) -> Result<()> {
        let end = offset.checked_add(len).filter(|end| *end <= FILE_MAX).ok_or(Error::TooLarge)?;
        self.settle(file)?;
        let span = Span { start: offset, end };
        let punches = mode.contains(FallocateMode::PUNCH_HOLE);
        let mut draft = self.draft(file);
        if !punches && !mode.contains(FallocateMode::KEEP_SIZE) {
            draft.size = draft.size.max(end);
            // A block that is zeroed whole needs no zeros behind the end; it must get one place only.
            if !span.whole().contains(&(file.size / BLOCK)) {
                self.zero_tail(file, &mut draft, end)?;
            }
        }
        let mut holes = Vec::new();
        self.zero_edges(file, &mut draft, span)?;
        if punches {
            holes = self.holes(file, span.whole(), draft.time)?;
        } else {
            self.zero_blocks(file, &mut draft, span)?;
        }
        let want = if punches && draft.extents.is_empty() { Want::Removals } else { Want::Records };
        self.commit_draft(file, draft, want, &holes)?;
        self.show_zeros(file, span);
        Ok(())
    }

    /// Zeroes the parts of blocks with which a span begins and ends.
    fn zero_edges(&self, file: &State, draft: &mut Draft<'_>, span: Span) -> Result<()> {
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
            self.load_rest(file, place, block, &mut bytes, new)?;
            let end = draft.size.saturating_sub(block * BLOCK).min(BLOCK) as usize;
            self.store_block(draft, (block, place), &bytes[..end])?;
        }
        Ok(())
    }

    /// Records that make holes of the blocks of a range that have places, one for each run of these; of many runs that lie close
    /// to each other, the holes between them are in the record, too.
    pub(super) fn holes(&self, file: &State, range: Range<u64>, time: u64) -> Result<Vec<Body>> {
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

    /// Lets every block of a span have a place; those that it covers whole read as zeros.
    fn zero_blocks(&self, file: &State, draft: &mut Draft<'_>, span: Span) -> Result<()> {
        let range = span.blocks();
        let missing = (range.end - range.start).saturating_sub(file.blocks()?.mapped());
        if missing > self.zones.counts().1 {
            return Err(Error::NoSpace);
        }
        for run in file.blocks()?.runs(range) {
            match run.place {
                None => self.reserve_new(draft, run.file..run.file + run.count)?,
                Some(place) if !place.unwritten => {
                    let whole = span.whole();
                    for at in whole.start.max(run.file)..whole.end.min(run.file + run.count) {
                        let block = place.block + at - run.file;
                        // What is reserved is written in place.
                        if self.zones.references(block) > 1 {
                            self.reserve_new(draft, at..at + 1)?;
                        } else {
                            draft.map(at, block, 1, true);
                        }
                    }
                }
                Some(_) => {}
            }
        }
        if draft.extents.len() > self.extents_max() { Err(Error::NoSpace) } else { Ok(()) }
    }

    /// Gives blocks of a file new ones that read as zeros.
    fn reserve_new(&self, draft: &mut Draft<'_>, range: Range<u64>) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let blocks = self.take(draft, range.end - at)?;
            draft.map(at, blocks.first, blocks.count, true);
            at += blocks.count;
        }
        Ok(())
    }

    /// Gives a block of a file a new place, with its bytes and zeros behind the end.
    pub(super) fn copy_block(&self, file: &State, draft: &mut Draft<'_>, block: u64) -> Result<()> {
        let place = file.blocks()?.get(block);
        let mut bytes = [0; BLOCK as usize];
        self.load_rest(file, place, block, &mut bytes, BLOCK as usize..BLOCK as usize)?;
        self.store_block(draft, (block, place), &bytes)
    }

    /// Gives a page of a mapped file a block that can be stored to in place; sets the times.
    pub(super) fn prepare_page(&self, file: &mut Changing<'_>, page: u64) -> Result<()> {
        let mut draft = self.draft(file);
        let place = file.blocks()?.get(page);
        if !place.is_some_and(|place| self.takes_stores(file, page, place)) {
            self.copy_block(file, &mut draft, page)?;
            // Stores come without records.
            draft.extents.iter().for_each(|extent| self.sums.forget(extent.place));
        }
        self.commit_draft(file, draft, Want::Records, &[])
    }
}

/// Gives the blocks of extents their places by `set`, and what they had before to `gone`, if it was another block.
fn place(extents: &[Extent], mut set: impl FnMut(u64, Place) -> Option<Place>, mut gone: impl FnMut(Place)) {
    for extent in extents {
        for at in 0..u64::from(extent.count) {
            let place = Place { block: extent.place + at, unwritten: extent.unwritten };
            let old = set(extent.file + at, place);
            old.filter(|old| old.block != place.block).into_iter().for_each(&mut gone);
        }
    }
}

/// The next data or hole at or after `offset`.
pub(super) fn seek(file: &State, offset: u64, to: SeekTo) -> Result<u64> {
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
            let runs = blocks.runs(first..end).into_iter().filter(|run| run.place.is_none());
            let mut holes = runs.flat_map(|run| run.file..run.file + run.count);
            holes.find(|page| file.next_dirty_page(*page) != Some(*page)).unwrap_or(end)
        }
    };
    Ok((found * BLOCK).max(offset).min(file.size))
}
