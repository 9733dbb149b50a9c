//! Files whose data is in frames until it is settled: the mount with `sync=fsync`.
//!
//! A *lazy* write goes to frames, the size and the times to DRAM; nothing of it is durable. Settling a file stores its frames to
//! their blocks, fences, and makes one record of all of them, with the size. So a record never says a size of which a byte is
//! not durable, and never one that the file did not have between two calls: frames behind the durable size are settled
//! together. Those before it, of which a file may have many, are settled a batch at a time.
//!
//! | what | settles the file |
//! |---|---|
//! | fsync, sync, unmount; write-back (`writeback.rs`) | yes |
//! | rename, link | yes: the size is durable with the name |
//! | a truncation | what it leaves; the frames behind the new end are dropped when the cut is durable |
//! | fallocate, mmap, a look for holes; a write with `O_SYNC`, to a mapped file, or without frame or block | yes, then as strict |
//!
//! The block of a frame is taken when the frame is, so that settling finds room; the zones for its record are kept (`zone.rs`).
//! Blocks are new ones, but for those that were reserved, and for the block in which the durable end lies: of that one the frame
//! holds only what follows, and is stored in place behind the end, as a strict append is.
//!
//! | a frame's bytes | are |
//! |---|---|
//! | before its first (`from`) | on the medium |
//! | up to the end of the file | those of the file |
//! | behind | anything |
//!
//! # Lazy or eager
//!
//! A file that was written once between its last two syncs is written eagerly, that is, as under `sync=strict`: a frame would be
//! filled to be copied once. A second write without a sync between them makes it lazy again.

use std::ops::Range;

use sim::ran;
use vfs::Written;

use super::Volume;
use super::draft::Draft;
use crate::format::layout::{BLOCK, FILE_MAX};
use crate::format::mutant;
use crate::format::zone::Want;
use crate::index::Index;
use crate::index::buffer::Buffer;
use crate::index::inode::{Changing, Inode, State, now};
use crate::index::map::Place;
use crate::index::span::{Span, bytes_before};
use crate::store::alloc::{Blocks, Taken};
use crate::store::frames::{self, Frame, Frames, Page};
use base::error::{Error, Result};

/// Frames before the durable end that one record settles.
const BATCH: usize = 1024;

/// A frame that a write needs.
struct Need {
    block: u64,
    /// The bytes of the block that the write sets.
    set: Range<usize>,
    place: Option<Place>,
    /// Where the durable bytes of the block end.
    durable: usize,
    /// The file has a frame there, which begins behind the write's first byte.
    widens: bool,
    /// Bytes behind the end may be stored to its block in place.
    takes_stores: bool,
    /// Another file has its block, too.
    is_cloned: bool,
}

impl Need {
    /// Whether the write sets only what follows the durable end of a block that the file has.
    fn follows_end(&self) -> bool {
        let is_written = self.place.is_some_and(|place| !place.unwritten);
        is_written && self.takes_stores && self.set.start >= self.durable && !self.widens
    }

    /// What a block has to be taken for.
    fn takes(&self) -> frames::Taken {
        match self.place {
            None => frames::Taken::ForHole,
            Some(place) if !place.unwritten && !self.follows_end() => {
                if self.is_cloned {
                    frames::Taken::Beside
                } else {
                    frames::Taken::Instead
                }
            }
            Some(_) => frames::Taken::Not,
        }
    }

    fn takes_block(&self) -> bool {
        self.takes() != frames::Taken::Not
    }
}

impl Volume {
    /// Writes into a file of a mount with frames, at its end where `offset` is none; where, and how many bytes.
    pub(crate) fn write_buffered(
        &self,
        inode: &Inode,
        offset: Option<u64>,
        data: &[u8],
        syncs: bool,
    ) -> Result<Written> {
        let done = self.write_lazily_or_not(inode, offset, data, syncs);
        match done {
            // Frames of other files may have taken what there was, beside the blocks that they replace.
            Err(Error::NoSpace) if !self.frames.files().is_empty() => {
                self.settle_all()?;
                self.write_lazily_or_not(inode, offset, data, true)
            }
            done => done,
        }
    }

    fn write_lazily_or_not(
        &self,
        inode: &Inode,
        offset: Option<u64>,
        data: &[u8],
        syncs: bool,
    ) -> Result<Written> {
        let mut file = inode.changing()?;
        file.blocks()?;
        // A frame has all bytes of a block, or those behind its end.
        self.move_patched(&mut file, 0..u64::MAX)?;
        let offset = offset.unwrap_or(file.size);
        if !syncs && self.is_lazy(&mut file) && self.write_lazily(&mut file, offset, data)? {
            return Ok(Written { offset, bytes: data.len() });
        }
        self.settle(&mut file)?;
        let bytes = match self.write_in_place(&mut file, offset, data)? {
            true => data.len(),
            false => self.write_file(&mut file, offset, data)?,
        };
        Ok(Written { offset, bytes })
    }

    /// Counts a write; whether it may go to frames.
    fn is_lazy(&self, file: &mut State) -> bool {
        if self.maps.is_mapped(file.ino) || file.pages.is_some() {
            return false;
        }
        let buffer = file.buffer.get_or_insert_with(|| ran::boxed(Buffer::default()));
        buffer.writes = buffer.writes.saturating_add(1);
        buffer.eager &= buffer.writes == 1;
        !buffer.eager
    }

    /// Writes into frames; false: nothing was done, because there are not enough, or not enough blocks.
    fn write_lazily(&self, file: &mut Changing<'_>, offset: u64, data: &[u8]) -> Result<bool> {
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= FILE_MAX);
        let span = Span { start: offset, end: end.ok_or(Error::TooLarge)? };
        if data.is_empty() {
            return Ok(true);
        }
        let mut needs = self.needs(file, span)?;
        if self.has_too_many(file, needs.len()) {
            self.settle(file)?;
            needs = self.needs(file, span)?;
            if self.has_too_many(file, needs.len()) {
                return Ok(false);
            }
        }
        let Some((mut taken, mut targets)) = self.take_targets(&needs)? else { return Ok(false) };
        let count = needs.iter().filter(|need| !need.widens).count() as u64;
        let pages = if count > 0 { self.take_frames(count) } else { Some(Vec::new()) };
        let Some(pages) = pages else { return Ok(false) };
        let size = file.size.max(span.end);
        let made = self.make_frames(file, &needs, pages, (&mut targets, size))?;
        taken.blocks.clear();
        self.add_frames(file, made);
        fill_frames(&self.frames, file, span, data);
        Ok(true)
    }
}

impl Index {
    /// The frames that a write needs and the file does not have, or not from early enough on.
    fn needs(&self, file: &State, span: Span) -> Result<Vec<Need>> {
        let (blocks, durable, size) = (file.blocks()?, file.durable_size(), file.size);
        let frames = file.buffer.as_deref().map(|buffer| &buffer.frames);
        let mut needs = Vec::new();
        // The block in which the file ends, if it grows over that without writing there: its bytes behind the end become zeros.
        let end = (size / BLOCK, (size % BLOCK) as usize);
        let gap = (end.1 > 0 && end.0 < span.start / BLOCK).then_some(end.0);
        for block in gap.into_iter().chain(span.blocks()) {
            let start = if gap == Some(block) { end.1 } else { bytes_before(span.start, block) };
            let set = start..if gap == Some(block) { BLOCK as usize } else { bytes_before(span.end, block) };
            let frame = frames.and_then(|frames| frames.get(&block));
            if frame.is_some_and(|frame| frame.from() <= set.start) {
                continue;
            }
            let place = blocks.get(block);
            let is_written = place.is_some_and(|place| !place.unwritten);
            if gap == Some(block) && !is_written {
                continue;
            }
            let durable = if is_written { bytes_before(durable, block) } else { 0 };
            let takes_stores = place.is_none_or(|place| self.takes_stores(file, block, place));
            let is_cloned = place.is_some_and(|place| self.zones.references(place.block) > 1);
            ran::push(
                &mut needs,
                Need { block, set, place, durable, widens: frame.is_some(), takes_stores, is_cloned },
            );
        }
        Ok(needs)
    }

    /// Whether so many frames more could not be settled with one record.
    fn has_too_many(&self, file: &State, more: usize) -> bool {
        let beyond = file.buffer.as_ref().map_or(0, |buffer| buffer.beyond);
        beyond + more as u64 > self.extents_max() as u64
    }

    /// Takes a block for each frame that needs one; none if there are not so many.
    fn take_targets(&self, needs: &[Need]) -> Result<Option<(Taken<'_>, Vec<u64>)>> {
        let mut missing = needs.iter().filter(|need| need.takes_block()).count() as u64;
        let (mut taken, mut targets) = (Taken::new(&self.zones), Vec::new());
        while missing > 0 {
            let blocks = match self.take_blocks(missing) {
                Err(Error::NoSpace) => return Ok(None),
                blocks => blocks?,
            };
            taken.add(blocks);
            missing -= blocks.count;
            ran::extend(&mut targets, blocks.first..blocks.first + blocks.count);
        }
        // They are used from the end on.
        targets.reverse();
        Ok(Some((taken, targets)))
    }

    /// Makes frames of pages, with what the write leaves of their blocks; widens those that begin too late. What the file has
    /// does not change when this fails.
    fn make_frames(
        &self,
        file: &mut State,
        needs: &[Need],
        mut pages: Vec<Page>,
        (targets, size): (&mut Vec<u64>, u64),
    ) -> Result<Vec<(u64, Frame)>> {
        let mut made = Vec::with_capacity(pages.len());
        ran::allocate(u64::from(!pages.is_empty()));
        let mut done = Ok(());
        for need in needs.iter().filter(|need| need.widens) {
            // These bytes of its page mean nothing until it is widened.
            let frame = file.buffer.as_ref().and_then(|buffer| buffer.frames.get(&need.block));
            if let (Some(frame), Some(place)) = (frame, need.place) {
                done = done.and(self.frames.load(
                    &self.region,
                    frame.page(),
                    place.block * BLOCK,
                    0..frame.from(),
                ));
            }
        }
        for need in needs.iter().filter(|need| !need.widens) {
            let Some(page) = pages.pop() else { break };
            let own = need.place.filter(|_| !need.takes_block()).map(|place| place.block);
            let Some(target) = own.or_else(|| targets.pop()) else { break };
            let from = if need.follows_end() { need.durable } else { 0 };
            let frame = Frame::new(page, from, target, need.takes());
            let rest = need.set.end..bytes_before(size, need.block).max(need.set.end);
            for part in [from..need.set.start, rest] {
                done = done.and(self.fetch(&frame, need, part));
            }
            made.push((need.block, frame));
        }
        match done {
            Ok(()) => {
                self.widen(file, needs, targets);
                Ok(made)
            }
            Err(error) => {
                pages.extend(made.into_iter().map(|(_, frame)| frame.into_page()));
                self.frames.put(self.shard(), pages);
                Err(error.into())
            }
        }
    }

    /// Frames that begin too late for a write get a block of their own.
    fn widen(&self, file: &mut State, needs: &[Need], targets: &mut Vec<u64>) {
        for need in needs.iter().filter(|need| need.widens) {
            let frame = file.buffer.as_mut().and_then(|buffer| buffer.frames.get_mut(&need.block));
            if let (Some(frame), Some(target)) = (frame, targets.pop()) {
                frame.widen(target);
                self.zones.pair(1);
            }
        }
    }

    /// Fills bytes of a new frame with what the file has there.
    fn fetch(
        &self,
        frame: &Frame,
        need: &Need,
        part: Range<usize>,
    ) -> std::result::Result<(), media::MediaError> {
        let split = need.durable.clamp(part.start, part.end.max(part.start));
        if let Some(place) = need.place.filter(|_| part.start < split) {
            self.frames.load(
                &self.region,
                frame.page(),
                place.block * BLOCK + part.start as u64,
                part.start..split,
            )?;
        }
        if split < part.end {
            self.frames.zero(frame.page(), split..part.end);
        }
        Ok(())
    }

    /// New frames become the file's.
    fn add_frames(&self, file: &mut State, made: Vec<(u64, Frame)>) {
        let (ino, size, kept) = (file.ino, file.size, file.kept_stamp());
        let over_holes = count(made.iter().map(|(_, frame)| frame), frames::Taken::ForHole);
        self.zones.pair(count(made.iter().map(|(_, frame)| frame), frames::Taken::Instead));
        let Some(buffer) = file.buffer.as_deref_mut() else { return };
        if buffer.frames.is_empty() {
            (buffer.durable, buffer.beyond) = (size, 0);
            buffer.kept = kept;
        }
        let first_beyond = buffer.durable / BLOCK;
        buffer.over_holes += over_holes;
        buffer.beyond += made.iter().filter(|(block, _)| *block >= first_beyond).count() as u64;
        for (block, frame) in made {
            buffer.frames.insert(block, frame);
        }
        if buffer.listed.is_none() {
            buffer.listed = Some(self.frames.list(self.shard(), ino));
        }
    }

    // ---- settling

    /// Makes a file durable, and learns from it how the file is written.
    pub(crate) fn sync_file(&self, file: &mut Changing<'_>) -> Result<()> {
        if let Some(buffer) = file.buffer.as_deref_mut().filter(|buffer| buffer.writes > 0) {
            buffer.eager = buffer.writes == 1;
            buffer.writes = 0;
        }
        self.settle(file)
    }

    /// Makes the data of a file durable that is in frames.
    pub(crate) fn settle(&self, file: &mut Changing<'_>) -> Result<()> {
        self.settle_before(file, u64::MAX)
    }

    /// Settles a file that gets a name, with which its size is durable.
    pub(crate) fn settle_named(&self, file: &mut Changing<'_>) -> Result<()> {
        if self.rules.lacks(mutant::NAME_BEFORE_SIZE) { Ok(()) } else { self.settle(file) }
    }

    /// Settles the frames of blocks before one.
    pub(crate) fn settle_before(&self, file: &mut Changing<'_>, block: u64) -> Result<()> {
        let Some(mut buffer) = file.buffer.take() else { return Ok(()) };
        let mut done = Ok(());
        while done.is_ok() && buffer.frames.range(..block).next().is_some() {
            done = self.settle_some(file, &mut buffer, block);
        }
        self.put_back(file, buffer);
        done
    }

    /// Settles a file that write-back has chosen. How it is written is not known until its next sync.
    pub(crate) fn write_back(&self, file: &mut Changing<'_>) -> Result<()> {
        if let Some(buffer) = file.buffer.as_deref_mut() {
            buffer.writes = 0;
        }
        self.settle(file)
    }

    /// The file has what is left of its buffer.
    fn put_back(&self, file: &mut State, mut buffer: Box<Buffer>) {
        if buffer.frames.is_empty() {
            buffer.spared = false;
            if let Some(listed) = buffer.listed.take() {
                self.frames.unlist(listed);
            }
        }
        if buffer.eager || buffer.writes > 0 || !buffer.frames.is_empty() {
            file.buffer = Some(buffer);
        }
    }

    /// Settles some frames of blocks before one: a batch of those before the durable end, or all others.
    fn settle_some(&self, file: &mut Changing<'_>, buffer: &mut Buffer, block: u64) -> Result<()> {
        let first_beyond = buffer.durable / BLOCK;
        let numbers = |range: Range<u64>, most| {
            ran::collected(buffer.frames.range(range).map(|(block, _)| *block).take(most))
        };
        let mut blocks = numbers(0..first_beyond.min(block), BATCH.min(self.extents_max()));
        let mut size = buffer.durable;
        if blocks.is_empty() {
            blocks = numbers(first_beyond..block, usize::MAX);
            size = file.size;
        }
        if self.rules.lacks(mutant::SIZE_AHEAD_OF_DATA) {
            size = file.size;
            blocks.truncate(1);
        }
        let mut draft = Draft::new(self, buffer.durable);
        (draft.size, draft.time, draft.settles) = (size, buffer.stamp, true);
        for block in &blocks {
            let Some(frame) = buffer.frames.get(block) else { continue };
            let end = bytes_before(file.size, *block).max(frame.from());
            let is_whole = self.sums.are_on() && frame.from() == 0;
            if is_whole && end < BLOCK as usize {
                self.frames.zero(frame.page(), end..BLOCK as usize);
            }
            let mut bytes = [0; BLOCK as usize];
            let bytes = &mut bytes[frame.from()..if is_whole { BLOCK as usize } else { end }];
            self.frames.bytes(frame.page(), frame.from(), bytes);
            let bytes = &*bytes;
            if is_whole {
                draft.store_whole(frame.target, bytes)?;
            } else {
                self.sums.forget(frame.target);
                draft.store(frame.target * BLOCK + frame.from() as u64, bytes)?;
            }
            let place = Place { block: frame.target, unwritten: false };
            let old = file.blocks()?.get(*block);
            if let Some(old) = old.filter(|_| frame.taken == frames::Taken::Beside) {
                ran::push(&mut draft.beside, old.block);
            }
            if old != Some(place) {
                draft.map(*block, frame.target, 1, false);
            }
        }
        draft.commit(file, Want::Removals, &[])?;
        buffer.durable = size;
        let keeping = self.keeping();
        self.free_frames(buffer, &blocks, |frame| match keeping {
            Some(cache) if frame.from() == 0 => {
                cache.publish(&self.frames, self.shard(), frame.target, frame.into_page(), 0);
                None
            }
            _ => Some(frame.into_page()),
        });
        Ok(())
    }

    /// Drops the frames of blocks from `first` on: the file does not have these any more.
    pub(crate) fn drop_frames(&self, file: &mut State, first: u64) {
        let Some(mut buffer) = file.buffer.take() else { return };
        let gone = ran::collected(buffer.frames.range(first..).map(|(block, _)| *block));
        self.free_frames(&mut buffer, &gone, |frame| {
            self.zones.unpair(u64::from(frame.taken == frames::Taken::Instead));
            if frame.taken != frames::Taken::Not {
                self.zones.put(Blocks { first: frame.target, count: 1 });
            }
            Some(frame.into_page())
        });
        self.put_back(file, buffer);
    }

    /// Takes frames from a file; of those that `gone` gives back the pages are free.
    fn free_frames(&self, buffer: &mut Buffer, blocks: &[u64], gone: impl Fn(Frame) -> Option<Page>) {
        let mut pages = Vec::with_capacity(blocks.len());
        ran::allocate(u64::from(!blocks.is_empty()));
        for frame in blocks.iter().filter_map(|block| buffer.frames.remove(block)) {
            buffer.over_holes -= u64::from(frame.taken == frames::Taken::ForHole);
            pages.extend(gone(frame));
        }
        self.frames.put(self.shard(), pages);
    }

    /// Settles all files.
    pub(crate) fn settle_all(&self) -> Result<()> {
        let mut done = Ok(());
        for ino in &self.frames.files() {
            // One that is gone has nothing to settle.
            let Ok(inode) = self.inodes.get(*ino) else { continue };
            done = done.and(self.settle(&mut inode.write()));
        }
        done
    }
}

/// Copies a write to the frames, all of which there are.
fn fill_frames(frames: &Frames, file: &mut State, span: Span, data: &[u8]) {
    let (time, old) = (file.stamp(now()), file.size);
    let Some(buffer) = file.buffer.as_deref_mut() else { return };
    let gap = bytes_before(old, old / BLOCK)..bytes_before(span.start, old / BLOCK);
    if gap.start > 0
        && gap.start < gap.end
        && let Some(frame) = buffer.frames.get(&(old / BLOCK)).filter(|frame| frame.from() <= gap.start)
    {
        frames.zero(frame.page(), gap);
    }
    let mut done = 0;
    for block in span.blocks() {
        let within = (span.start.max(block * BLOCK) - block * BLOCK) as usize;
        let len = bytes_before(span.end, block) - within;
        if let Some(frame) = buffer.frames.get(&block) {
            frames.write(frame.page(), within, &data[done..done + len]);
        }
        done += len;
    }
    (buffer.stamp, buffer.written) = (time, sim::now());
    file.size = old.max(span.end);
    file.data_changed(time);
}

/// The number of frames that took a block for this.
fn count<'f>(frames: impl Iterator<Item = &'f Frame>, what: frames::Taken) -> u64 {
    frames.filter(|frame| frame.taken == what).count() as u64
}
