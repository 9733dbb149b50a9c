//! File contents: new data goes into new blocks, and one move of the log's tail makes a whole call count.
//!
//! A call is a [`Draft`] first: blocks that were filled and entries that were written behind the tail. Its commit is a fence, the
//! tail, a fence ([`Volume::commit_draft`]), whatever the length of the call: a write is all there after a crash or not at all.
//! Blocks that it replaces are free after that, never before.
//!
//! Bytes between the end of a file and the end of its last block are zeros, always: so a file grows without touching them, and a
//! truncation that leaves a part of a block replaces that block.
//!
//! A write that finds too little space is cut short, as POSIX has it; what it answers counts as one.

use std::ops::Range;

use media::event::Mark;
use sim::ByteRun;
use vfs::{FallocateMode, SeekTo, SetAttr, SetTime, Timestamp};

use super::alloc::{Extent, Need, Taken};
use super::inode::{Changing, Inode, Loaded, apply_set, apply_write};
use super::layout::{BLOCK, FILE_BLOCKS_MAX, SetEntry, WriteEntry, ino, kind, pack, set};
use super::log::Append;
use super::map::Place;
use super::mutant;
use super::original;
use super::parts;
use super::{PageCache, Volume};
use base::error::{Error, Result};

/// An entry that is written and does not count yet.
enum Change {
    Write(WriteEntry),
    Set(SetEntry),
}

/// A change of one file that does not count yet.
struct Draft<'v> {
    append: Append<'v>,
    /// New blocks.
    taken: Taken<'v>,
    changes: Vec<(Change, u64)>,
    /// Size of the file at the end.
    size: u64,
    mtime: u64,
    need: Need,
}

/// What new blocks are filled with, where the span lies; around it, with what the file has there.
#[derive(Clone, Copy)]
enum Source<'a> {
    Data(Span, &'a [u8]),
    Zeros(Span),
}

/// Neighbouring pages whose blocks were neighbours, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreedRun {
    pub(crate) page: u64,
    /// Block number.
    pub(crate) block: u64,
    pub(crate) pages: u64,
}

/// Blocks that a commit has made free.
#[derive(Default)]
pub(crate) struct Freed {
    runs: Vec<FreedRun>,
}

impl Freed {
    pub(crate) fn add(&mut self, page: u64, block: u64) {
        match self.runs.last_mut() {
            Some(run) if run.page + run.pages == page && run.block + run.pages == block => run.pages += 1,
            _ => sim::ran::push(&mut self.runs, FreedRun { page, block, pages: 1 }),
        }
    }
}

/// Bytes `start..end` of a file.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u64,
    end: u64,
}

impl Span {
    fn pages(self) -> Range<u64> {
        self.start / BLOCK..self.end.div_ceil(BLOCK)
    }
}

impl Volume {
    /// Reads from a file; returns how many bytes.
    pub(crate) fn read_file(
        &self,
        number: u64,
        loaded: &Loaded,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        let len = loaded.facts.size.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let (mut done, mut before) = (0, Place::HOLE);
        while done < len {
            let at = offset + done as u64;
            let within = at % BLOCK;
            let part = (len - done).min((BLOCK - within) as usize);
            let piece = &mut buffer[done..done + part];
            let place = loaded.blocks.get(at / BLOCK);
            let from_cache = |cache: &dyn PageCache, piece: &mut [u8]| {
                // Asked outside the cell: it takes a lock, and a task that waits in a cell's initialization stops its host thread.
                let file = match loaded.cached.get() {
                    Some(file) => file,
                    None => {
                        let file = cache.file(number);
                        loaded.cached.get_or_init(|| file)
                    }
                };
                cache.read(file, at / BLOCK, place.block(), within, piece)
            };
            match &self.cache {
                _ if place.is_hole() => piece.fill(0),
                Some(cache) if !self.maps.is_writable(number, at / BLOCK) && from_cache(&**cache, piece) => {}
                _ => {
                    // Pages that lie in a row are taken for those of one entry.
                    if place != before.next() {
                        self.read_entry(at / BLOCK, place);
                    }
                    before = place;
                    self.region.load(place.block() * BLOCK + within, piece)?;
                }
            }
            done += part;
        }
        Ok(len)
    }

    /// Writes into a file; returns how many bytes, fewer when space runs out.
    pub(crate) fn write_file(&self, file: &mut Changing<'_>, offset: u64, data: &[u8]) -> Result<usize> {
        if data.is_empty() {
            return Ok(0);
        }
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= FILE_BLOCKS_MAX * BLOCK);
        let span = Span { start: offset, end: end.ok_or(Error::TooLarge)? };
        if self.has(mutant::TWO_COMMITS) && data.len() as u64 > BLOCK {
            let half = data.len() / 2;
            let done = self.write_span(file, Span { end: offset + half as u64, ..span }, &data[..half])?;
            return Ok(
                done + self.write_span(file, Span { start: offset + half as u64, ..span }, &data[half..])?
            );
        }
        self.write_span(file, span, data)
    }

    fn write_span(&self, file: &mut Changing<'_>, span: Span, data: &[u8]) -> Result<usize> {
        let _part = sim::part(&parts::COW_WRITE);
        let mut draft = self.begin_draft(file, Need::Growth);
        let Range { start: first, end: stop } = span.pages();
        let mut page = first;
        while page < stop {
            match self.draft_blocks(file, &mut draft, page..stop, Source::Data(span, data)) {
                Ok(blocks) => page += blocks,
                Err(Error::NoSpace) if page > first => break,
                Err(error) => return Err(error),
            }
        }
        self.commit_draft(file, draft)?;
        Ok((span.end.min(page * BLOCK) - span.start) as usize)
    }

    fn begin_draft(&self, file: &mut Changing<'_>, need: Need) -> Draft<'_> {
        self.make_log_room(file);
        Draft {
            append: self.begin_append(&file.log, need),
            taken: Taken::new(&self.blocks),
            changes: Vec::new(),
            size: file.facts.size,
            mtime: pack(Timestamp::now()),
            need,
        }
    }

    /// Takes blocks for the first of some pages, fills them, and writes their entry; answers how many.
    fn draft_blocks(
        &self,
        file: &Loaded,
        draft: &mut Draft<'_>,
        Range { start: page, end: stop }: Range<u64>,
        source: Source<'_>,
    ) -> Result<u64> {
        let extent = draft.taken.take(stop - page, draft.need)?;
        let size = match source {
            Source::Data(span, _) => draft.size.max(span.end.min((page + extent.blocks) * BLOCK)),
            Source::Zeros(_) => draft.size,
        };
        let filled = self.fill_extent(file, extent, page, source);
        let entry = WriteEntry {
            block: extent.offset,
            first: page,
            pages: extent.blocks,
            size,
            ..WriteEntry::default()
        };
        match filled.and_then(|()| self.draft_write(draft, entry)) {
            Ok(()) => {
                draft.append.needs_data(&self.region, extent.offset, extent.blocks * BLOCK);
                draft.size = size;
                Ok(extent.blocks)
            }
            Err(error) => {
                draft.taken.undo();
                Err(error)
            }
        }
    }

    fn draft_write(&self, draft: &mut Draft<'_>, entry: WriteEntry) -> Result<()> {
        let _scope = sim::scope(media::charges::METADATA);
        let entry = WriteEntry { kind: kind::WRITE, time: draft.mtime, ..entry };
        let at = self.append(&mut draft.append, &entry)?;
        sim::ran::push(&mut draft.changes, (Change::Write(entry), at));
        Ok(())
    }

    fn draft_set(&self, draft: &mut Draft<'_>, entry: SetEntry) -> Result<()> {
        let _scope = sim::scope(media::charges::METADATA);
        let entry = SetEntry { kind: kind::SET, ..entry };
        let at = self.append(&mut draft.append, &entry)?;
        sim::ran::push(&mut draft.changes, (Change::Set(entry), at));
        Ok(())
    }

    /// Makes a draft count, whole; nothing of it does when this fails.
    fn commit_draft(&self, file: &mut Changing<'_>, draft: Draft<'_>) -> Result<()> {
        let Draft { append, taken, changes, .. } = draft;
        let inode = file.inode;
        {
            let _scope = sim::scope(media::charges::METADATA);
            self.commit_append(inode.offset, &mut file.log, append)?;
        }
        taken.keep();
        let mut freed = Freed::default();
        for (change, at) in &changes {
            let mut gone = |page, old: Place| {
                freed.add(page, old.block());
                self.mark_replaced(page, old);
            };
            match change {
                Change::Write(entry) => apply_write(file, entry, *at, &mut gone),
                Change::Set(entry) => apply_set(file, entry, *at, &mut gone),
            }
            if let Change::Set(SetEntry { mask, .. }) = change
                && mask & set::ATIME != 0
            {
                inode.forget_access();
            }
        }
        self.retire(inode, ino::TAIL, &freed)
    }

    /// Frees blocks to which no durable pointer leads since the word at `word` of the inode was changed. Copies of them in the
    /// page cache are dropped first.
    pub(crate) fn retire(&self, inode: &Inode, word: u64, freed: &Freed) -> Result<()> {
        let cache = self.cache.as_deref();
        let cached = cache.and_then(|cache| Some((cache, cache.known(inode.ino)?)));
        for run in &freed.runs {
            for block in run.block..run.block + run.pages {
                let pointer = inode.offset + word;
                self.region.mark(Mark::Free { off: block * BLOCK, len: BLOCK, pointer });
            }
            let Some((cache, file)) = &cached else {
                self.blocks.put(Extent { offset: run.block * BLOCK, blocks: run.pages })?;
                continue;
            };
            for number in 0..run.pages {
                let block = run.block + number;
                if !cache.invalidate(file, run.page + number, block) {
                    self.blocks.put(Extent { offset: block * BLOCK, blocks: 1 })?;
                }
            }
        }
        Ok(())
    }

    /// Fills new blocks for the pages from `page` on.
    fn fill_extent(&self, file: &Loaded, extent: Extent, page: u64, source: Source<'_>) -> Result<()> {
        let (from, to) = (page * BLOCK, (page + extent.blocks) * BLOCK);
        let (span, data) = match source {
            Source::Data(span, data) => (span, Some(data)),
            Source::Zeros(span) => (span, None),
        };
        let mut at = from;
        while at < to {
            let target = extent.offset + (at - from);
            let (start, end) = (span.start.max(at), span.end.min(to));
            // Whole blocks go past the cache as one; a block that keeps a part of what it was is put together first.
            let whole_end = if start == at { end / BLOCK * BLOCK } else { at };
            if whole_end > at {
                match data {
                    Some(data) => {
                        let bytes = (at - span.start) as usize..(whole_end - span.start) as usize;
                        self.region.nt_store(target, &data[bytes])?;
                    }
                    None => self.region.nt_zero(target, whole_end - at)?,
                }
                at = whole_end;
                continue;
            }
            let end = end.min(at + BLOCK);
            let within = (start - at) as usize..(end.max(start) - at) as usize;
            let kept = within.clone();
            let mut block = [0; BLOCK as usize];
            // Only what stays is read, so that what cannot be read can be overwritten.
            self.load_part(file, at, &mut block[..within.start])?;
            self.load_part(file, at + within.end as u64, &mut block[within.end..])?;
            match data {
                Some(data) => {
                    let from = (start - span.start) as usize;
                    block[within.clone()].copy_from_slice(&data[from..from + within.len()]);
                }
                None => block[within].fill(0),
            }
            self.store_block(target, &block, kept)?;
            at += BLOCK;
        }
        Ok(())
    }

    /// Stores a block that was put together, of which `new` comes from the call. The original copies the rest through the caches
    /// and flushes it (`nova_handle_head_tail_blocks`), which costs more than to store it past them; so does a run that stands for
    /// it.
    fn store_block(&self, target: u64, block: &[u8; BLOCK as usize], new: Range<usize>) -> Result<()> {
        if !sim::follows_originals() {
            return Ok(self.region.nt_store(target, block)?);
        }
        for kept in [0..new.start, new.end..block.len()] {
            if !kept.is_empty() {
                self.region.store(target + kept.start as u64, &block[kept.clone()])?;
                self.region.flush(target + kept.start as u64, kept.len() as u64);
            }
        }
        Ok(self.region.nt_store(target + new.start as u64, &block[new])?)
    }

    /// Reads what a file has at `at`, up to the end of its block; zeros, which are there, in a hole.
    fn load_part(&self, file: &Loaded, at: u64, bytes: &mut [u8]) -> Result<()> {
        match file.blocks.get(at / BLOCK) {
            _ if bytes.is_empty() => Ok(()),
            place if place.is_hole() => Ok(()),
            place => {
                original::copied_rest(bytes.len());
                Ok(self.region.load(place.block() * BLOCK + at % BLOCK, bytes)?)
            }
        }
    }

    /// Changes attributes, the size of a file among them; one commit, durable on return.
    pub(crate) fn set_attributes(&self, file: &mut Changing<'_>, change: &SetAttr) -> Result<()> {
        let size = change.size.unwrap_or(file.facts.size);
        if size > FILE_BLOCKS_MAX * BLOCK {
            return Err(Error::TooLarge);
        }
        // What a cut frees is more than its log entry may need; other changes free nothing.
        let need = if size < file.facts.size { Need::Removal } else { Need::Growth };
        let mut draft = self.begin_draft(file, need);
        draft.size = size;
        let within = size % BLOCK;
        let cuts_block = change.size.is_some() && size < file.facts.size && within != 0;
        let entry = set_entry(file, change, draft.mtime);
        if cuts_block && !self.has(mutant::TAIL_NOT_ZEROED) {
            let page = size / BLOCK;
            let tail = Span { start: size, end: (page + 1) * BLOCK };
            self.draft_edge(file, &mut draft, page, tail)?;
        }
        self.draft_set(&mut draft, entry)?;
        self.commit_draft(file, draft)
    }

    /// Replaces a block by one in which `span` is zero; nothing to do in a hole.
    fn draft_edge(&self, file: &Loaded, draft: &mut Draft<'_>, page: u64, span: Span) -> Result<()> {
        if file.blocks.get(page).is_hole() {
            return Ok(());
        }
        self.draft_blocks(file, draft, page..page + 1, Source::Zeros(span)).map(drop)
    }

    /// Reserves, zeroes or frees a range; one commit.
    pub(crate) fn fallocate(
        &self,
        file: &mut Changing<'_>,
        mode: FallocateMode,
        ByteRun { at: offset, len }: ByteRun,
    ) -> Result<()> {
        let end =
            offset.checked_add(len).filter(|end| *end <= FILE_BLOCKS_MAX * BLOCK).ok_or(Error::TooLarge)?;
        let span = Span { start: offset, end };
        let punches = mode.contains(FallocateMode::PUNCH_HOLE);
        let mut draft = self.begin_draft(file, if punches { Need::Removal } else { Need::Growth });
        if !punches && !mode.contains(FallocateMode::KEEP_SIZE) {
            draft.size = draft.size.max(end);
        }
        if punches {
            self.draft_hole(file, &mut draft, span)?;
        } else {
            self.draft_reserved(file, &mut draft, span, mode.contains(FallocateMode::ZERO_RANGE))?;
        }
        self.commit_draft(file, draft)
    }

    /// Makes a hole of the whole blocks of a span, and zeroes its ragged edges.
    fn draft_hole(&self, file: &Loaded, draft: &mut Draft<'_>, span: Span) -> Result<()> {
        let (first, stop) = (span.start.div_ceil(BLOCK), span.end / BLOCK);
        self.draft_edges(file, draft, span)?;
        if first < stop {
            let entry = WriteEntry { first, pages: stop - first, size: draft.size, ..WriteEntry::default() };
            return self.draft_write(draft, entry);
        }
        self.draft_times(file, draft)
    }

    /// Zeroes the parts of blocks with which a span begins and ends.
    fn draft_edges(&self, file: &Loaded, draft: &mut Draft<'_>, span: Span) -> Result<()> {
        let (first, last) = (span.start / BLOCK, (span.end - 1) / BLOCK);
        let ragged = |page: u64| page * BLOCK < span.start || span.end < (page + 1) * BLOCK;
        if ragged(first) {
            self.draft_edge(file, draft, first, span)?;
        }
        if last != first && ragged(last) {
            self.draft_edge(file, draft, last, span)?;
        }
        Ok(())
    }

    /// Lets every page of a span have a block, zeroed where it is new or where all are to be zero.
    fn draft_reserved(&self, file: &Loaded, draft: &mut Draft<'_>, span: Span, zero: bool) -> Result<()> {
        let Range { start: first, end: stop } = span.pages();
        let present = file.blocks.mapped().min(stop - first);
        if (stop - first).saturating_sub(present) > self.blocks.free() {
            return Err(Error::NoSpace);
        }
        if zero {
            self.draft_edges(file, draft, span)?;
        }
        let ragged = |page: u64| page * BLOCK < span.start || span.end < (page + 1) * BLOCK;
        let mut page = first;
        while page < stop {
            let next = file.blocks.next_mapped(page).map_or(stop, |(next, _)| next.min(stop));
            let is_zeroed = zero && next == page && !ragged(page);
            if next == page && !is_zeroed {
                page += 1;
                continue;
            }
            let until = if is_zeroed { page + 1 } else { next };
            let all = Span { start: page * BLOCK, end: until * BLOCK };
            page += self.draft_blocks(file, draft, page..until, Source::Zeros(all))?;
        }
        self.draft_times(file, draft)
    }

    /// An entry for the new size and times, where no block changes.
    fn draft_times(&self, file: &Loaded, draft: &mut Draft<'_>) -> Result<()> {
        let mut entry = set_entry(file, &SetAttr::default(), draft.mtime);
        (entry.size, entry.mtime) = (draft.size, draft.mtime);
        self.draft_set(draft, entry)
    }

    /// The next data or hole at or after `offset`.
    pub(crate) fn seek_file(loaded: &Loaded, offset: u64, to: SeekTo) -> Result<u64> {
        let size = loaded.facts.size;
        if offset >= size {
            return Err(Error::NothingThere);
        }
        let (mut page, end) = (offset / BLOCK, size.div_ceil(BLOCK));
        let found = match to {
            SeekTo::Data => match loaded.blocks.next_mapped(page) {
                Some((found, _)) if found < end => found,
                _ => return Err(Error::NothingThere),
            },
            SeekTo::Hole => {
                while page < end && !loaded.blocks.get(page).is_hole() {
                    page += 1;
                }
                page
            }
        };
        Ok((found * BLOCK).max(offset).min(size))
    }
}

/// The entry that changes attributes as asked.
fn set_entry(file: &Loaded, change: &SetAttr, now: u64) -> SetEntry {
    let facts = &file.facts;
    let time = |old: u64, new: Option<SetTime>| match new {
        None => old,
        Some(SetTime::Now) => now,
        Some(SetTime::To(time)) => pack(time),
    };
    let touched = change.size.is_some();
    let mut mask = set::OTHER;
    mask |= if touched { set::SIZE } else { 0 };
    mask |= if change.atime.is_some() { set::ATIME } else { 0 };
    SetEntry {
        kind: kind::SET,
        mask,
        mode: (change.perm.map_or(facts.mode, |perm| facts.mode & 0o170_000 | perm & 0o7777)) as u16,
        checksum: 0,
        size: change.size.unwrap_or(facts.size),
        atime: time(facts.atime, change.atime),
        mtime: time(if touched { now } else { facts.mtime }, change.mtime),
        ctime: now,
        uid: change.uid.unwrap_or(facts.uid),
        gid: change.gid.unwrap_or(facts.gid),
        reserved: [0; 2],
    }
}
