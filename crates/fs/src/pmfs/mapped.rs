//! Mapped files: loads and stores go to the blocks, through the processor's cache.
//!
//! The first store to a page since it was synced is a page fault: it maps a hole to a zeroed block in a transaction, or stores the
//! times, which are flushed and durable after the next fence. The bytes are durable when an msync or fsync has flushed their lines,
//! see `dax.rs`. An fsync of a
//! file that was never mapped stays the fence that it is, as in PMFS's module.
//!
//! An access takes the lock of the inode and looks the block up, which a processor has in its page table: a mapped access of a few
//! bytes costs a lock more here than on a machine.

use std::ops::Range;

use sim::ByteRun;
use vfs::mapping::{PAGE, within_file};
use vfs::{Errno, FallocateMode, Ino, MappedFiles, Result, Timestamp};

use super::Volume;
use super::file::hole;
use super::inode::Inode;
use super::layout::RawInode;
use super::map::Tree;
use super::vfs::{DataPath, Mounted, is_regular};
use base::dax::WHOLE_FILE;
use base::error::Result as DesignResult;

impl Volume {
    /// Where a place in a file lies; none in a hole.
    fn place(&self, raw: &RawInode, offset: u64) -> DesignResult<Option<u64>> {
        let tree = Tree::of(raw);
        let block = tree.lookup(&self.region, offset >> tree.shift)?;
        Ok(block.map(|at| at + (offset & ((1 << tree.shift) - 1))))
    }

    /// Stores bytes within one page, inside of a file whose lock the caller holds for writing; whether the page was clean.
    fn store_mapped(
        &self,
        inode: &Inode,
        raw: &mut RawInode,
        offset: u64,
        data: &[u8],
    ) -> DesignResult<bool> {
        let mut was_clean = !self.maps.is_dirty(inode.ino, offset / PAGE);
        let at = match self.place(raw, offset)? {
            Some(at) if was_clean => {
                self.store_times(inode, raw, Timestamp::now())?;
                at
            }
            Some(at) => at,
            None => {
                was_clean = true;
                let page = offset - offset % PAGE;
                self.fallocate(inode, raw, FallocateMode::KEEP_SIZE, ByteRun::new(page, PAGE))?;
                self.place(raw, offset)?.ok_or_else(|| hole(inode, offset / PAGE))?
            }
        };
        self.maps.note(inode.ino, offset, data.len());
        self.region.store(at, data)?;
        Ok(was_clean)
    }

    /// Makes what was stored to the mapped pages of these bytes durable.
    pub(crate) fn flush_mapped(&self, ino: u64, bytes: Range<u64>) -> DesignResult<()> {
        let inode = self.inodes.get(ino)?;
        let state = inode.state.read();
        let raw = self.live_or_open(inode, &state)?;
        self.maps.flush(&self.region, (ino, bytes), |page| self.place(&raw, page * PAGE))
    }

    /// The same for all files.
    pub(crate) fn flush_all_mapped(&self) -> DesignResult<()> {
        self.maps.flush_all(|ino| self.flush_mapped(ino, WHOLE_FILE))
    }
}

impl<D: DataPath> MappedFiles for Mounted<D> {
    fn map(&self, ino: Ino, pages: &Range<u64>, writable: bool) -> Result<()> {
        self.before_change()?;
        let volume = self.volume();
        let inode = volume.inodes.get(ino.0)?;
        let state = volume.lock(inode);
        if !is_regular(&volume.live_or_open(inode, &state)?) {
            return Err(Errno::ENODEV);
        }
        self.0.before_map(inode)?;
        volume.maps.map(ino.0, pages, writable);
        Ok(())
    }

    fn unmap(&self, ino: Ino, pages: &Range<u64>, writable: bool) {
        let Ok(inode) = self.volume().inodes.get(ino.0) else { return };
        let _state = inode.state.write();
        self.volume().maps.unmap(ino.0, pages, writable);
    }

    fn load(&self, ino: Ino, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let volume = self.volume();
        let inode = volume.inodes.get(ino.0)?;
        let state = inode.state.read();
        let raw = volume.regular(inode, &state)?;
        let (bytes, beyond) = buffer.split_at_mut(within_file(raw.size, offset, buffer.len())?);
        self.0.read(inode, &raw, offset, bytes)?;
        beyond.fill(0);
        Ok(())
    }

    fn store(&self, ino: Ino, offset: u64, data: &[u8]) -> Result<bool> {
        self.before_change()?;
        let volume = self.volume();
        let inode = volume.inodes.get(ino.0)?;
        let state = volume.lock(inode);
        let mut raw = volume.regular(inode, &state)?;
        match within_file(raw.size, offset, data.len())? {
            0 => Ok(false),
            len => Ok(volume.store_mapped(inode, &mut raw, offset, &data[..len])?),
        }
    }

    fn sync(&self, ino: Ino, bytes: Range<u64>) -> Result<()> {
        self.volume().flush_mapped(ino.0, bytes)?;
        Ok(self.volume().check_sound()?)
    }
}
