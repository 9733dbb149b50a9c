//! Mapped files: loads and stores go to the blocks themselves, through the processor's cache.
//!
//! A store to a mapped page changes its block in place, by words of 8 bytes and without a record; every other change still goes to
//! new blocks, and the mapping then sees these. The first store to a page since it was synced is a page fault: it gives a page
//! without a written block one of zeros, a page whose block others have or whose block has a checksum a copy of it, or sets the
//! times, each a record and durable. What is stored is durable when an msync or fsync has flushed its lines, see `dax.rs`.
//!
//! That is `mmap=direct`. With `mmap=atomic` stores go to frames, see `mapped_atomic.rs`.

use std::ops::Range;

use sim::sync::Ordering::Relaxed;
use vfs::mapping::{PAGE, within_file};
use vfs::{Errno, Ino, MappedFiles, MappingKind, Result};

use super::Volume;
use super::draft::Draft;
use crate::format::layout::BLOCK;
use crate::format::mutant;
use crate::format::zone::Want;
use crate::index::inode::{Changing, State};
use crate::index::span::Span;
use base::dax::WHOLE_FILE;
use base::error::{Error, Result as DesignResult};

const _: () = assert!(BLOCK == PAGE, "a page is a block");

/// Where a page of a file lies; none where it reads as zeros.
fn place(file: &State, page: u64) -> DesignResult<Option<u64>> {
    Ok(file.blocks()?.get(page).filter(|place| !place.unwritten).map(|place| place.block * BLOCK))
}

impl Volume {
    /// Stores bytes within one page, inside of a file; whether the page was clean.
    fn store_mapped(&self, file: &mut Changing<'_>, offset: u64, data: &[u8]) -> DesignResult<bool> {
        let (ino, page) = (file.ino, offset / PAGE);
        let was_clean = !self.maps.is_dirty(ino, page) || place(file, page)?.is_none();
        // A page that was cloned meanwhile needs a block of its own.
        let is_cloned = file.blocks()?.get(page).is_some_and(|place| !self.takes_stores(file, page, place));
        if was_clean || is_cloned {
            self.prepare_page(file, page)?;
        }
        let hole = || Error::Corrupt(format!("inode {ino}: block {page} was just mapped and is a hole"));
        let at = place(file, page)?.ok_or_else(hole)?;
        self.maps.note(ino, offset, data.len());
        self.region.store(at + offset % PAGE, data)?;
        self.stored(at + offset % PAGE, data);
        Ok(was_clean)
    }

    /// Gives a page of a mapped file a block that can be stored to in place; sets the times.
    fn prepare_page(&self, file: &mut Changing<'_>, page: u64) -> DesignResult<()> {
        let mut draft = Draft::of(self, file);
        let place = file.blocks()?.get(page);
        if !place.is_some_and(|place| self.takes_stores(file, page, place)) {
            draft.copy_block(file, page)?;
            // Stores come without records.
            draft.extents.iter().for_each(|extent| self.sums.forget(extent.place));
        }
        draft.commit(file, Want::Records, &[])
    }

    /// Makes what was stored to the mapped pages of these bytes durable.
    pub(crate) fn flush_mapped(&self, ino: u64, bytes: Range<u64>) -> DesignResult<()> {
        let inode = self.inodes.get(ino)?;
        if self.mapped.has(ino) {
            self.sync_pages(&mut inode.changing()?, bytes.clone())?;
        }
        let file = inode.reading()?;
        self.maps.flush(&self.region, (ino, bytes), |page| place(&file, page))
    }

    /// The same of all of a file that is locked.
    pub(crate) fn sync_mapped(&self, file: &mut Changing<'_>) -> DesignResult<()> {
        self.sync_pages(file, WHOLE_FILE)?;
        self.flush_lines(file)
    }

    /// Flushes the lines that direct mappings have stored to a file.
    fn flush_lines(&self, file: &State) -> DesignResult<()> {
        self.maps.flush(&self.region, (file.ino, WHOLE_FILE), |page| place(file, page))
    }

    /// The same for all files.
    pub(crate) fn flush_all_mapped(&self) -> DesignResult<()> {
        self.sync_all_pages()?;
        self.maps.flush_all(|ino| self.flush_mapped(ino, WHOLE_FILE))
    }

    /// Whether mappings have stored to a file what no sync has made durable.
    pub(crate) fn has_unsynced(&self, ino: u64) -> bool {
        self.maps.has_dirty(ino) || self.mapped.has(ino)
    }
}

impl MappedFiles for Volume {
    fn map(&self, ino: Ino, pages: &Range<u64>, writable: bool) -> Result<()> {
        self.map_as(ino, pages, writable, MappingKind::AsMounted)
    }

    fn map_as(&self, ino: Ino, pages: &Range<u64>, writable: bool, kind: MappingKind) -> Result<()> {
        let inode = self.inodes.get(ino.0)?;
        // From now on tasks do not share it, so that a page has its place until the lock is released.
        inode.is_special.store(true, Relaxed);
        let mut file = inode.changing()?;
        if file.blocks().is_err() {
            return Err(Errno::ENODEV);
        }
        let is_atomic = match kind {
            MappingKind::AsMounted => self.maps_atomically,
            MappingKind::Direct => false,
            MappingKind::Atomic => true,
        };
        // What is mapped for loads only has no kind.
        let other = if is_atomic { self.maps.is_stored_to(ino.0) } else { file.is_mapped_atomically() };
        if writable && other {
            return Err(Errno::EBUSY);
        }
        self.settle(&mut file)?;
        if writable && is_atomic {
            // What an earlier direct mapping has stored would be behind a frame.
            self.flush_lines(&file)?;
            return self.map_atomically(&mut file, pages);
        }
        if writable {
            // What an earlier mapping of the other kind has left.
            self.sync_pages(&mut file, WHOLE_FILE)?;
        }
        // Pages show their blocks. No record has bytes of a block while the file is mapped.
        if !self.rules.lacks(mutant::MAPPED_OVER_INLINE) {
            self.move_patched(&mut file, 0..u64::MAX)?;
        }
        self.maps.map(ino.0, pages, writable);
        Ok(())
    }

    fn unmap(&self, ino: Ino, pages: &Range<u64>, writable: bool) {
        let Ok(inode) = self.inodes.get(ino.0) else { return };
        let mut file = inode.write();
        if writable && self.unmap_atomically(&mut file, pages) {
            return;
        }
        self.maps.unmap(ino.0, pages, writable);
    }

    fn load(&self, ino: Ino, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let inode = self.inodes.get(ino.0)?;
        let file = inode.reading()?;
        file.blocks()?;
        let (bytes, beyond) = buffer.split_at_mut(within_file(file.size, offset, buffer.len())?);
        beyond.fill(0);
        if file.pages.is_some() {
            let span = Span { start: offset, end: offset + bytes.len() as u64 };
            return Ok(self.read_pages(&file, span, bytes)?);
        }
        match place(&file, offset / PAGE)? {
            Some(at) => {
                self.compare(&file, offset / PAGE, at / BLOCK, None)?;
                self.region.load(at + offset % PAGE, bytes).map_err(Error::from)?;
            }
            None => bytes.fill(0),
        }
        Ok(())
    }

    fn store(&self, ino: Ino, offset: u64, data: &[u8]) -> Result<bool> {
        let inode = self.inodes.get(ino.0)?;
        let mut file = inode.changing()?;
        file.blocks()?;
        match within_file(file.size, offset, data.len())? {
            0 => Ok(false),
            len if file.is_mapped_atomically() => {
                Ok(self.store_atomically(&mut file, offset, &data[..len])?)
            }
            len => Ok(self.store_mapped(&mut file, offset, &data[..len])?),
        }
    }

    fn sync(&self, ino: Ino, bytes: Range<u64>) -> Result<()> {
        Ok(self.flush_mapped(ino.0, bytes)?)
    }
}
