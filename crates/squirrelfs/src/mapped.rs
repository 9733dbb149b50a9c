//! Mapped files: loads and stores go to the pages, through the processor's cache.
//!
//! The first store to a page since it was synced is a page fault, which stores the times durably. A sync flushes the lines that
//! were stored to, then fences, see `base::dax`. A file has no holes, so a store never needs space.

use std::ops::Range;

use base::dax::WHOLE_FILE;
use base::error::Result as DesignResult;
use vfs::mapping::{PAGE, within_file};
use vfs::{Errno, Ino, MappedFiles, Result};

use crate::Volume;
use crate::layout::FILE;
use crate::vfs::Mounted;

impl Volume {
    /// Makes what was stored to the mapped pages of these bytes durable.
    pub(crate) fn flush_mapped(&self, ino: u64, bytes: Range<u64>) -> DesignResult<()> {
        let inode = self.inodes.get(ino)?;
        let state = inode.state.read();
        inode.check_usable(&state)?;
        let pages = state.raw.pages();
        let place = |page: u64| if page < pages { inode.page(page).map(Some) } else { Ok(None) };
        self.maps.flush(&self.region, (ino, bytes), place)
    }

    /// The same for all files.
    pub(crate) fn flush_all_mapped(&self) -> DesignResult<()> {
        self.maps.flush_all(|ino| self.flush_mapped(ino, WHOLE_FILE))
    }
}

impl MappedFiles for Mounted {
    fn map(&self, ino: Ino, pages: &Range<u64>, writable: bool) -> Result<()> {
        self.0.check_sound()?;
        let inode = self.0.inodes.get(ino.0)?;
        let state = inode.state.write();
        inode.check_usable(&state)?;
        if state.raw.kind != FILE {
            return Err(Errno::ENODEV);
        }
        self.0.maps.map(ino.0, pages, writable);
        Ok(())
    }

    fn unmap(&self, ino: Ino, pages: &Range<u64>, writable: bool) {
        let Ok(inode) = self.0.inodes.get(ino.0) else { return };
        let _state = inode.state.write();
        self.0.maps.unmap(ino.0, pages, writable);
    }

    fn load(&self, ino: Ino, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let inode = self.0.inodes.get(ino.0)?;
        let state = inode.state.read();
        inode.check_usable(&state)?;
        let (bytes, beyond) = buffer.split_at_mut(within_file(state.raw.size, offset, buffer.len())?);
        self.0.read_file(inode, state.raw.size, offset, bytes)?;
        beyond.fill(0);
        Ok(())
    }

    fn store(&self, ino: Ino, offset: u64, data: &[u8]) -> Result<bool> {
        let volume = &*self.0;
        volume.check_sound()?;
        let inode = volume.inodes.get(ino.0)?;
        let mut state = inode.state.write();
        inode.check_usable(&state)?;
        let len = within_file(state.raw.size, offset, data.len())?;
        if len == 0 {
            return Ok(false);
        }
        let at = inode.page(offset / PAGE)? + offset % PAGE;
        let was_clean = !volume.maps.is_dirty(ino.0, offset / PAGE);
        if was_clean {
            volume.change(|| volume.touch(inode, &mut state, true))?;
        }
        volume.maps.note(ino.0, offset, len);
        volume.region.store(at, &data[..len]).map_err(base::error::Error::from)?;
        Ok(was_clean)
    }

    fn sync(&self, ino: Ino, bytes: Range<u64>) -> Result<()> {
        self.0.flush_mapped(ino.0, bytes)?;
        Ok(self.0.check_sound()?)
    }
}
