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

use std::ops::Range;

use vfs::{Errno, Result};

use super::draft::Draft;
use crate::format::layout::{BLOCK, EXTENT_BYTES};
use crate::format::mutant;
use crate::format::zone::Want;
use crate::index::Index;
use crate::index::inode::{Changing, State, now};
use crate::index::mapped_pages::keep;
use crate::index::pages::{Page, Pages};
use crate::index::span::{Span, bytes_before};
use crate::index::sums;
use crate::store::alloc::Taken;
use base::dax::WHOLE_FILE;
use base::error::{Error, Result as DesignResult};

impl Index {
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
        let wanted = pages.wanted().min(blocks);
        let has = pages.spare.len() as u64 + pages.held.range(..).count() as u64;
        let missing = wanted.saturating_sub(has);
        let most = self.pages_of_a_group();
        let done = if wanted > most {
            self.losses.tell(&format!(
                "mmap=atomic: {wanted} pages are asked for, and a sync can make {most} durable at once"
            ));
            Err(Errno::EFBIG)
        } else if missing == 0 {
            Ok(())
        } else if let Some(frames) = self.take_frames(missing) {
            pages.spare.extend(frames);
            Ok(())
        } else {
            self.losses.tell(&format!(
                "mmap=atomic: {missing} frames are asked for, and not as many are free (-O buffer)"
            ));
            Err(Errno::ENOMEM)
        };
        if done.is_err() {
            pages.mapped.pop();
        }
        keep(self, file, pages);
        done
    }

    /// Ends a mapping of these pages; false: there is none that stores to frames.
    pub(crate) fn unmap_atomically(&self, file: &mut Changing<'_>, range: &Range<u64>) -> bool {
        let Some(mut pages) = file.pages.take() else { return false };
        let found = pages.mapped.iter().position(|other| other == range);
        if let Some(index) = found {
            pages.mapped.swap_remove(index);
        }
        keep(self, file, pages);
        found.is_some()
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
        let were_clean = pages.dirty == 0;
        let was_clean = self.make_dirty(file, &mut pages, at, data.len());
        if was_clean.is_ok()
            && let Some(page) = pages.held.get(&at)
        {
            self.frames.write(&page.frame, within, data);
        }
        if let Ok(true) = was_clean {
            if were_clean {
                pages.kept = file.kept_stamp();
            }
            pages.stamp = file.stamp(now());
            file.data_changed(pages.stamp);
            self.mapped.set(file.ino, true);
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

    // ---- syncs

    /// Makes what was stored to the pages of these bytes durable: all of it, or nothing.
    pub(crate) fn sync_pages(&self, file: &mut Changing<'_>, bytes: Range<u64>) -> DesignResult<()> {
        let Some(mut pages) = file.pages.take() else { return Ok(()) };
        let dirty = pages.dirty_in(bytes.start / BLOCK..bytes.end.div_ceil(BLOCK));
        let parts = if self.rules.lacks(mutant::MSYNC_IN_PAGES) { 1 } else { dirty.len().max(1) };
        let done = dirty.chunks(parts).try_for_each(|some| self.sync_some(file, &mut pages, some));
        self.mapped.note_synced(file.ino, &pages);
        if pages.mapped.is_empty() {
            keep(self, file, pages);
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
        let mut draft = Draft::new(self, file.size);
        (draft.time, draft.settles) = (pages.stamp, true);
        let mut replaced = 0;
        for (at, target) in dirty {
            let Some(page) = pages.held.get(at) else { continue };
            let mut bytes = [0; BLOCK as usize];
            self.frames.bytes(&page.frame, 0, &mut bytes);
            match self.sums.are_on() {
                true => draft.store_whole(*target, &bytes)?,
                false => draft.store(target * BLOCK, &bytes[..bytes_before(file.size, *at)])?,
            }
            replaced += u64::from(file.blocks()?.get(*at).is_some());
            draft.map(*at, *target, 1, false);
        }
        // Blocks that are replaced count as one with those that replace them, as where frames are settled.
        self.zones.pair(replaced);
        let done = draft.commit(file, Want::Removals, &[]);
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
        for ino in self.mapped.files() {
            // One that is gone has nothing to sync.
            let Ok(inode) = self.inodes.get(ino) else { continue };
            done = done.and(self.sync_pages(&mut inode.write(), WHOLE_FILE));
        }
        done
    }
}
