//! Mapped files: loads and stores go to the blocks themselves, through the processor's cache.
//!
//! A store to a mapped page changes its block in place, by words of 8 bytes and without the log; every other change still goes to
//! new blocks, and the mapping then sees these. The first store to a page since it was synced is a page fault: it reserves a
//! zeroed block for a hole, or sets the times, each an entry of the log and durable. What is stored is durable when an msync or
//! fsync has flushed its lines, see `dax.rs`. On the medium nothing tells that a file was mapped: the published format marks the
//! ranges whose checksums are off (`mmap` entries), and there are no checksums here.
//!
//! A read cache forgets a page that is mapped for stores, and is not asked for it as long as it is.
//!
//! An access takes the lock of the inode and looks the block up, which a processor has in its page table: a mapped access of a few
//! bytes costs a lock more here than on a machine.

use std::ops::Range;

use sim::ByteRun;
use vfs::mapping::{PAGE, within_file};
use vfs::{Errno, FallocateMode, FileKind, Ino, MappedFiles, Result};

use super::Volume;
use super::inode::{Changing, Loaded};
use super::layout::BLOCK;
use super::vfs::Mounted;
use base::dax::WHOLE_FILE;
use base::error::{Error, Result as DesignResult};

const _: () = assert!(BLOCK == PAGE, "a page is a block");

/// Where a page of a file lies; none in a hole.
fn place(file: &Loaded, page: u64) -> Option<u64> {
    let place = file.blocks.get(page);
    (!place.is_hole()).then(|| place.block() * BLOCK)
}

impl Volume {
    /// Lets the read cache forget the pages of a range, which stay where they are.
    fn forget_cached(&self, file: &Changing<'_>, pages: &Range<u64>) {
        let Some(cache) = &self.cache else { return };
        let Some(cached) = cache.known(file.inode.ino) else { return };
        let mut next = pages.start;
        while let Some((page, place)) = file.blocks.next_mapped(next).filter(|(page, _)| *page < pages.end) {
            cache.forget(&cached, page, place.block());
            next = page + 1;
        }
    }

    /// Stores bytes within one page, inside of a file; whether the page was clean.
    fn store_mapped(&self, file: &mut Changing<'_>, offset: u64, data: &[u8]) -> DesignResult<bool> {
        let (ino, page) = (file.inode.ino, offset / PAGE);
        let was_clean = !self.maps.is_dirty(ino, page) || place(file, page).is_none();
        if was_clean {
            // Where there is a block, this sets the times alone.
            self.fallocate(file, FallocateMode::KEEP_SIZE, ByteRun::new(page * PAGE, PAGE))?;
        }
        let hole = || Error::Corrupt(format!("inode {ino}: block {page} was just mapped and is a hole"));
        let at = place(file, page).ok_or_else(hole)?;
        self.maps.note(ino, offset, data.len());
        self.region.store(at + offset % PAGE, data)?;
        Ok(was_clean)
    }

    /// Makes what was stored to the mapped pages of these bytes durable.
    pub(super) fn flush_mapped(&self, ino: u64, bytes: Range<u64>) -> DesignResult<()> {
        let file = self.reading(self.inodes.get(ino)?)?;
        self.maps.flush(&self.region, (ino, bytes), |page| Ok(place(&file, page)))
    }

    /// The same for all files.
    pub(super) fn flush_all_mapped(&self) -> DesignResult<()> {
        self.maps.flush_all(|ino| self.flush_mapped(ino, WHOLE_FILE))
    }
}

impl MappedFiles for Mounted {
    fn map(&self, ino: Ino, pages: &Range<u64>, writable: bool) -> Result<()> {
        let file = self.0.changing(self.inode(ino)?)?;
        if file.facts.kind() != Some(FileKind::Regular) {
            return Err(Errno::ENODEV);
        }
        if writable {
            self.0.forget_cached(&file, pages);
        }
        self.0.maps.map(ino.0, pages, writable);
        Ok(())
    }

    fn unmap(&self, ino: Ino, pages: &Range<u64>, writable: bool) {
        let Ok(inode) = self.inode(ino) else { return };
        let _state = inode.state.write();
        self.0.maps.unmap(ino.0, pages, writable);
    }

    fn load(&self, ino: Ino, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let file = self.0.reading(self.inode(ino)?)?;
        Volume::check_regular(&file)?;
        let (bytes, beyond) = buffer.split_at_mut(within_file(file.facts.size, offset, buffer.len())?);
        match place(&file, offset / PAGE) {
            Some(at) => self.0.region.load(at + offset % PAGE, bytes).map_err(Error::from)?,
            None => bytes.fill(0),
        }
        beyond.fill(0);
        Ok(())
    }

    fn store(&self, ino: Ino, offset: u64, data: &[u8]) -> Result<bool> {
        let volume = self.sound()?;
        let mut file = volume.changing(self.inode(ino)?)?;
        Volume::check_regular(&file)?;
        match within_file(file.facts.size, offset, data.len())? {
            0 => Ok(false),
            len => Ok(volume.store_mapped(&mut file, offset, &data[..len])?),
        }
    }

    fn sync(&self, ino: Ino, bytes: Range<u64>) -> Result<()> {
        self.0.flush_mapped(ino.0, bytes)?;
        Ok(self.0.check_sound()?)
    }
}
