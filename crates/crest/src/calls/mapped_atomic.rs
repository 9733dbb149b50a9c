//! Files that are mapped with `mmap=atomic`: pages are frames of DRAM, and what is stored to them is durable all at once, by a
//! sync.
//!
//! A *page in a frame* holds what the file shows there; its block holds what is durable. Its first store takes a frame, which is
//! filled from the block, and a new block of the medium. A sync stores the dirty pages of its range to these blocks, fences, and
//! makes one record, or one group, of all of them: after a crash all of them are there or none (R3, L2).
//!
//! # A page
//!
//! | from | to | by | |
//! |---|---|---|---|
//! | on the medium | dirty | a store | block taken, frame filled |
//! | clean | dirty | a store | block taken |
//! | dirty | dirty | a store | in the frame |
//! | dirty | clean | a sync | bytes to the taken block, FENCE, record, FENCE; the frame stays |
//! | dirty | dirty | a sync that fails | nothing has changed; the next one tries again |
//! | dirty, clean | on the medium | a cut, a hole, zeros, a clone over it, removal of the file | after the record of that |
//! | clean | on the medium | the end of its last mapping | |
//!
//! All of them with the inode locked for writing; loads and reads share the lock.
//!
//! # What other calls do
//!
//! | what | while there are pages in frames |
//! |---|---|
//! | read, load | bytes of the frames, between them those of the medium |
//! | write, append | atomic and durable as the mount says, without what was stored to the page; then the frame gets it, too |
//! | with `sync=fsync` | writes of the file are durable when they return, as while it is mapped directly; a truncation syncs it |
//! | truncation, punch, zeroed range | durable as ever; frames lose the same bytes |
//! | fsync, sync, unmount | sync all dirty pages of a file, as one group |
//! | clone of the file | syncs it first: a clone names blocks. One over a part of it drops the pages there |
//! | unmap | dirty pages stay, dirty, until they are synced: POSIX keeps what was stored to a shared mapping |
//! | write-back, a lack of frames | nothing: these frames are in no list |
//! | a mapping for loads only | has no kind, and sees the frames |
//! | one for stores of the other kind | `EBUSY`: a store cannot be both. The first direct one after the last syncs what is left |
//! | a size, a hole that is looked for | sizes are durable at once; a dirty page is data |
//! | times | the first store to a page sets them in DRAM, the sync in the log, with the stamp of the store |
//!
//! # What is taken when
//!
//! A store must not fail for lack of a frame, as no program expects it, and a sync must not be cut in two. So `mmap` takes the
//! frames of its whole length, or of as many pages as the pool has blocks, and fails with `ENOMEM` where they are not free. It
//! fails with `EFBIG` where so many pages, each an extent, are more than the records of a call may have: 3 for each line of a zone
//! but 8, a fifth less with checksums. The block of a page is taken by its first store, which says `ENOSPC` where there is none,
//! so that a sync finds room for data; its records may take what removals may. If even that is not there it says `ENOSPC`.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sim::map::TreeMap;
use sim::ran;
use vfs::{Errno, Result};

use super::buffered::bytes_before;
use super::draft::Draft;
use super::file::Span;
use crate::Volume;
use crate::format::layout::{BLOCK, EXTENT_BYTES};
use crate::format::mutant;
use crate::format::zone::Want;
use crate::index::inode::{Changing, State, now};
use crate::index::sums;
use crate::store::alloc::{Blocks, Taken};
use crate::store::frames;
use base::dax::WHOLE_FILE;
use base::error::{Error, Result as DesignResult};

/// A page in a frame.
struct Page {
    frame: frames::Page,
    /// The block to which it will be stored, of a dirty one.
    target: Option<u64>,
}

/// The pages of a file that are in frames.
#[derive(Default)]
pub(crate) struct Pages {
    /// Those of mappings that may store to them.
    mapped: Vec<Range<u64>>,
    held: TreeMap<u64, Page>,
    dirty: u64,
    /// Frames for pages that have none yet.
    spare: Vec<frames::Page>,
    /// The time of the last store that made a page dirty, for the record.
    stamp: u64,
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages")
            .field("mapped", &self.mapped)
            .field("dirty", &self.dirty)
            .finish_non_exhaustive()
    }
}

impl Pages {
    /// Pages that may become dirty or are.
    fn count(&self) -> u64 {
        let mut ranges = self.mapped.clone();
        ranges.extend(
            self.held.range(..).filter(|(_, page)| page.target.is_some()).map(|(at, _)| *at..*at + 1),
        );
        ranges.sort_by_key(|range| range.start);
        let (mut count, mut end) = (0_u64, 0);
        for range in ranges {
            count = count.saturating_add(range.end.saturating_sub(range.start.max(end)));
            end = end.max(range.end);
        }
        count
    }

    /// The dirty pages of a range, and the blocks that were taken for these, both ascending.
    fn dirty_in(&self, range: Range<u64>) -> Vec<(u64, u64)> {
        let dirty = self.held.range(range).filter_map(|(at, page)| Some((*at, page.target?)));
        let (pages, mut targets): (Vec<u64>, Vec<u64>) = dirty.unzip();
        ran::allocate(2 * u64::from(!pages.is_empty()));
        // Which of them gets which does not matter: neighbours in one extent.
        targets.sort_unstable();
        pages.into_iter().zip(targets).collect()
    }

    /// A frame for a page that has none: a spare one, or that of a clean page.
    fn frame(&mut self) -> Option<frames::Page> {
        if let Some(frame) = self.spare.pop() {
            return Some(frame);
        }
        let clean = self.held.range(..).find(|(_, page)| page.target.is_none()).map(|(at, _)| *at)?;
        self.held.remove(&clean).map(|page| page.frame)
    }
}

impl State {
    /// Whether stores of mappings go to frames.
    pub(crate) fn is_mapped_atomically(&self) -> bool {
        self.pages.as_ref().is_some_and(|pages| !pages.mapped.is_empty())
    }

    /// Whether pages are dirty.
    pub(crate) fn has_dirty_pages(&self) -> bool {
        self.pages.as_ref().is_some_and(|pages| pages.dirty > 0)
    }

    /// The first dirty page from one on.
    pub(crate) fn next_dirty_page(&self, first: u64) -> Option<u64> {
        let pages = self.pages.as_ref().filter(|pages| pages.dirty > 0)?;
        pages.held.range(first..).find(|(_, page)| page.target.is_some()).map(|(at, _)| *at)
    }
}

/// The files with dirty pages. A lock of the host, held for one look, under those of inodes.
#[derive(Default)]
pub(crate) struct Unsynced {
    files: parking_lot::Mutex<BTreeSet<u64>>,
    /// How many: what is asked first.
    count: AtomicU64,
}

impl Unsynced {
    #[inline]
    pub(crate) fn has(&self, ino: u64) -> bool {
        self.count.load(Relaxed) > 0 && self.files.lock().contains(&ino)
    }

    fn set(&self, ino: u64, is_dirty: bool) {
        let mut files = self.files.lock();
        if is_dirty {
            files.insert(ino)
        } else {
            files.remove(&ino)
        };
        self.count.store(files.len() as u64, Relaxed);
    }

    pub(crate) fn all(&self) -> Vec<u64> {
        if self.count.load(Relaxed) == 0 { Vec::new() } else { self.files.lock().iter().copied().collect() }
    }
}

impl Volume {
    /// Pages that one sync can make durable, however they lie.
    fn pages_of_a_group(&self) -> u64 {
        let extents = self.extents_max() as u64;
        let extent = EXTENT_BYTES as u64;
        if self.sums.are_on() { extents * extent / (extent + sums::BYTES) } else { extents }
    }

    /// Begins a mapping of these pages, and takes what its stores will need. `ENOMEM`, `EFBIG`.
    pub(crate) fn map_atomically(&self, file: &mut Changing<'_>, range: &Range<u64>) -> Result<()> {
        let blocks = u64::from(self.geometry.zones) * u64::from(self.geometry.zone_blocks());
        let mut pages = file.pages.take().unwrap_or_default();
        pages.mapped.push(range.clone());
        let wanted = pages.count().min(blocks);
        let has = pages.spare.len() as u64 + pages.held.range(..).count() as u64;
        let missing = wanted.saturating_sub(has);
        let most = self.pages_of_a_group();
        let done = if wanted > most {
            self.tell(&format!(
                "mmap=atomic: {wanted} pages are asked for, and a sync can make {most} durable at once"
            ));
            Err(Errno::EFBIG)
        } else if missing == 0 {
            Ok(())
        } else if let Some(frames) = self.take_frames(missing) {
            pages.spare.extend(frames);
            Ok(())
        } else {
            self.tell(&format!(
                "mmap=atomic: {missing} frames are asked for, and not as many are free (-O buffer)"
            ));
            Err(Errno::ENOMEM)
        };
        if done.is_err() {
            pages.mapped.pop();
        }
        self.keep_pages(file, pages);
        done
    }

    /// Ends a mapping of these pages; false: there is none that stores to frames.
    pub(crate) fn unmap_atomically(&self, file: &mut Changing<'_>, range: &Range<u64>) -> bool {
        let Some(mut pages) = file.pages.take() else { return false };
        let found = pages.mapped.iter().position(|other| other == range);
        if let Some(index) = found {
            pages.mapped.swap_remove(index);
        }
        self.keep_pages(file, pages);
        found.is_some()
    }

    /// The file has these pages. What no mapping needs goes: clean ones, and frames.
    fn keep_pages(&self, file: &mut State, mut pages: Box<Pages>) {
        let is_wanted = |at: u64| pages.mapped.iter().any(|range| range.contains(&at));
        let clean = pages.held.range(..).filter(|(at, page)| page.target.is_none() && !is_wanted(**at));
        for at in clean.map(|(at, _)| *at).collect::<Vec<_>>() {
            pages.spare.extend(pages.held.remove(&at).map(|page| page.frame));
        }
        let has = pages.spare.len() as u64 + pages.held.range(..).count() as u64;
        let excess = has.saturating_sub(pages.count()).min(pages.spare.len() as u64);
        let kept = pages.spare.len() - excess as usize;
        self.frames.put(self.shard(), pages.spare.split_off(kept));
        if !pages.mapped.is_empty() || pages.dirty > 0 {
            file.pages = Some(pages);
        }
    }

    // ---- bytes

    /// Stores bytes within one page, inside of a file; whether the page was clean.
    pub(crate) fn store_atomically(
        &self,
        file: &mut Changing<'_>,
        offset: u64,
        data: &[u8],
    ) -> DesignResult<bool> {
        let (at, within) = (offset / BLOCK, (offset % BLOCK) as usize);
        let Some(mut pages) = file.pages.take() else { return Ok(false) };
        let was_clean = self.make_dirty(file, &mut pages, at, data.len());
        if was_clean.is_ok()
            && let Some(page) = pages.held.get(&at)
        {
            self.frames.write(&page.frame, within, data);
        }
        if let Ok(true) = was_clean {
            pages.stamp = file.stamp(now());
            file.data_changed(pages.stamp);
            self.unsynced.set(file.ino, true);
        }
        file.pages = Some(pages);
        if self.rules.lacks(mutant::MAPPED_WRITTEN_BACK) {
            self.sync_pages(file, at * BLOCK..(at + 1) * BLOCK)?;
        }
        was_clean
    }

    /// Gives a page that is not dirty a block, and a frame with its bytes unless all of them are about to be stored; whether it was
    /// not.
    fn make_dirty(&self, file: &State, pages: &mut Pages, at: u64, len: usize) -> DesignResult<bool> {
        if pages.held.get(&at).is_some_and(|page| page.target.is_some()) {
            return Ok(false);
        }
        if self.losses.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let mut taken = Taken::new(&self.zones);
        let block = self.take_blocks(1)?;
        taken.add(block);
        if pages.held.get(&at).is_none() {
            let mut bytes = [0; BLOCK as usize];
            if len < BLOCK as usize {
                let span = Span { start: at * BLOCK, end: file.size.min((at + 1) * BLOCK) };
                self.read_medium(file, span, &mut bytes[..bytes_before(file.size, at)])?;
            }
            // Those of its whole length were taken with the mapping, or of as many pages as there are blocks.
            let frame = pages.frame().ok_or(Error::NoSpace)?;
            self.frames.fill(&frame, 0, &bytes);
            pages.held.insert(at, Page { frame, target: None });
        }
        if let Some(page) = pages.held.get_mut(&at) {
            page.target = Some(block.first);
            pages.dirty += 1;
            taken.keep();
        }
        Ok(true)
    }

    /// Reads bytes of a file that has pages in frames, which lie before its end.
    pub(crate) fn read_pages(&self, file: &State, span: Span, out: &mut [u8]) -> DesignResult<()> {
        let Some(pages) = file.pages.as_deref() else { return self.read_medium(file, span, out) };
        let held = pages.held.range(span.blocks()).map(|(at, page)| (*at, 0, &page.frame));
        self.read_over(file, span, out, held)
    }

    /// A call has written these bytes: frames show them, too.
    pub(crate) fn show_written(&self, file: &State, offset: u64, data: &[u8]) {
        let Some(pages) = file.pages.as_deref() else { return };
        let span = Span { start: offset, end: offset + data.len() as u64 };
        for (at, page) in pages.held.range(span.blocks()) {
            let (start, end) = (span.start.max(at * BLOCK), span.end.min((at + 1) * BLOCK));
            let bytes = &data[(start - offset) as usize..(end - offset) as usize];
            self.frames.write(&page.frame, (start - at * BLOCK) as usize, bytes);
        }
    }

    /// A call has made zeros, or a hole, of these bytes.
    pub(crate) fn show_zeros(&self, file: &mut State, span: Span) {
        self.drop_pages(file, span.start.div_ceil(BLOCK)..span.end / BLOCK);
        let Some(pages) = file.pages.as_deref() else { return };
        for (at, page) in pages.held.range(span.blocks()) {
            let within = |byte: u64| byte.clamp(at * BLOCK, (at + 1) * BLOCK) - at * BLOCK;
            self.frames.zero(&page.frame, within(span.start) as usize..within(span.end) as usize);
        }
    }

    /// A call has given a file this size: it has no pages behind, and zeros in that with the end.
    pub(crate) fn show_size(&self, file: &mut State, size: u64) {
        if file.pages.is_some() {
            self.drop_pages(file, size.div_ceil(BLOCK)..u64::MAX);
            self.show_zeros(file, Span { start: size, end: size.next_multiple_of(BLOCK) });
        }
    }

    /// Pages of a range are on the medium only: what was stored to them and not synced is gone.
    pub(crate) fn drop_pages(&self, file: &mut State, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Some(mut pages) = file.pages.take() else { return };
        let gone = ran::collected(pages.held.range(range).map(|(at, _)| *at));
        for page in gone.iter().filter_map(|at| pages.held.remove(at)).collect::<Vec<_>>() {
            if let Some(first) = page.target {
                self.zones.put(Blocks { first, count: 1 });
                pages.dirty -= 1;
            }
            pages.spare.push(page.frame);
        }
        self.note_synced(file.ino, &pages);
        self.keep_pages(file, pages);
    }

    /// A file is gone, and all its mappings.
    pub(crate) fn forget_pages(&self, file: &mut State) {
        if let Some(pages) = &mut file.pages {
            pages.mapped.clear();
        }
        self.drop_pages(file, 0..u64::MAX);
    }

    // ---- syncs

    fn note_synced(&self, ino: u64, pages: &Pages) {
        if pages.dirty == 0 {
            self.unsynced.set(ino, false);
        }
    }

    /// Makes what was stored to the pages of these bytes durable: all of it, or nothing.
    pub(crate) fn sync_pages(&self, file: &mut Changing<'_>, bytes: Range<u64>) -> DesignResult<()> {
        let Some(mut pages) = file.pages.take() else { return Ok(()) };
        let dirty = pages.dirty_in(bytes.start / BLOCK..bytes.end.div_ceil(BLOCK));
        let parts = if self.rules.lacks(mutant::MSYNC_IN_PAGES) { 1 } else { dirty.len().max(1) };
        let done = dirty.chunks(parts).try_for_each(|some| self.sync_some(file, &mut pages, some));
        self.note_synced(file.ino, &pages);
        if pages.mapped.is_empty() {
            self.keep_pages(file, pages);
        } else {
            file.pages = Some(pages);
        }
        done
    }

    /// Makes dirty pages durable, each in the block that it is given here.
    fn sync_some(
        &self,
        file: &mut Changing<'_>,
        pages: &mut Pages,
        dirty: &[(u64, u64)],
    ) -> DesignResult<()> {
        let mut draft = Draft::new(Taken::new(&self.zones), file.size);
        (draft.time, draft.settles) = (pages.stamp, true);
        let mut replaced = 0;
        for (at, target) in dirty {
            let Some(page) = pages.held.get(at) else { continue };
            let mut bytes = [0; BLOCK as usize];
            self.frames.bytes(&page.frame, 0, &mut bytes);
            let mut end = bytes_before(file.size, *at);
            if self.sums.are_on() {
                self.sums.stored(*target, &bytes);
                end = BLOCK as usize;
            }
            self.store(&mut draft, target * BLOCK, &bytes[..end])?;
            replaced += u64::from(file.blocks()?.get(*at).is_some());
            draft.map(*at, *target, 1, false);
        }
        // Blocks that are replaced count as one with those that replace them, as where frames are settled.
        self.zones.pair(replaced);
        let done = self.commit_draft(file, draft, Want::Removals, &[]);
        if done.is_err() {
            self.zones.unpair(replaced);
            return done;
        }
        for (at, _) in dirty {
            if let Some(page) = pages.held.get_mut(at) {
                page.target = None;
                pages.dirty -= 1;
            }
        }
        Ok(())
    }

    /// The same for all files.
    pub(crate) fn sync_all_pages(&self) -> DesignResult<()> {
        let mut done = Ok(());
        for ino in self.unsynced.all() {
            // One that is gone has nothing to sync.
            let Ok(inode) = self.inodes.get(ino) else { continue };
            done = done.and(self.sync_pages(&mut inode.write(), WHOLE_FILE));
        }
        done
    }
}
