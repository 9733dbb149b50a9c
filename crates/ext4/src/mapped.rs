//! Mapped files: pages of the page cache, or, on memory (`ext4-dax`), the blocks themselves.
//!
//! | | the first store to a page since it was written back | later stores | msync |
//! |---|---|---|---|
//! | page cache | as a write: room for the block, times, the page dirty | a copy into the page | the fsync of the whole file |
//! | memory, a block | the times, in a handle | stores through the processor's cache | flushes the lines, fences, commits |
//! | memory, a hole or unwritten | as a write, durable in itself | as above | as above |
//!
//! With `data=journal` every store is as a write, because a page belongs to a transaction then. An access takes the lock of the
//! inode, which a processor does not.
//!
//! Source: Linux 5.15, `fs/ext4/inode.c` (`ext4_page_mkwrite`) and `fs/ext4/file.c` (`ext4_dax_fault`): a fault for a store does
//! the part of a write that is not the copy.

use std::ops::Range;
use std::sync::Arc;

use ::vfs::mapping::{PAGE, within_file};
use ::vfs::{Errno, FileKind, Ino, MappedFiles, Result};
use media::Region;
use sim::Activity;

use super::Volume;
use super::inode::{Inode, InodeState, change_time};
use super::journal::DataMode;
use super::runs::Mapped;
use super::vfs::Mounted;
use base::dax::WHOLE_FILE;
use base::error::{Error, Result as DesignResult};

impl Volume {
    /// Stores bytes within one page, inside of a file; whether a part of the page was clean.
    fn store_mapped(
        &self,
        inode: &Arc<Inode>,
        state: &mut InodeState,
        offset: u64,
        data: &[u8],
    ) -> DesignResult<bool> {
        if let Some(memory) = self.memory() {
            return self.store_mapped_memory(&Arc::clone(memory), inode, state, (offset, data));
        }
        let (mut at, end) = (offset, offset + data.len() as u64);
        let mut was_clean = self.claim_blocks_of(inode, state, (offset, data.len()))?;
        while at < end {
            let len = (self.block_bytes() - at % self.block_bytes()).min(end - at);
            let piece = &data[(at - offset) as usize..][..len as usize];
            if !self.store_dirty(inode, at, piece) {
                was_clean = true;
                self.write_whole(inode, state, at, piece)?;
            }
            at += len;
        }
        Ok(was_clean)
    }

    /// Where a page has several blocks: gives each of a range its place, with the bytes that it has, so that a store that finds no
    /// space for one of them changes none. Whether one was clean.
    fn claim_blocks_of(
        &self,
        inode: &Arc<Inode>,
        state: &mut InodeState,
        (offset, len): (u64, usize),
    ) -> DesignResult<bool> {
        let (first, last) = (offset / self.block_bytes(), (offset + len as u64 - 1) / self.block_bytes());
        let is_clean = |index| inode.mapping().get(index).is_none_or(|page| !page.is_dirty());
        if first == last || !(first..=last).any(is_clean) {
            return Ok(false);
        }
        let mut bytes = sim::ran::zeroed(len);
        self.read_file(inode, state, offset, &mut bytes)?;
        self.write_whole(inode, state, offset, &bytes)?;
        Ok(true)
    }

    /// A write that may not be cut short.
    fn write_whole(
        &self,
        inode: &Arc<Inode>,
        state: &mut InodeState,
        offset: u64,
        data: &[u8],
    ) -> DesignResult<()> {
        let written = self.write_file(inode, state, offset, data)?;
        if written < data.len() { Err(Error::NoSpace) } else { Ok(()) }
    }

    /// Copies into a block's page that is dirty already. False: there is more to do.
    fn store_dirty(&self, inode: &Inode, offset: u64, data: &[u8]) -> bool {
        let (index, inside) = (offset / self.block_bytes(), (offset % self.block_bytes()) as usize);
        if self.data_mode() == Some(DataMode::Journal) {
            return false;
        }
        let Some(page) = inode.mapping().get(index) else { return false };
        let mut state = page.state.write();
        if !page.is_dirty() || !state.is_at_hand() {
            return false;
        }
        page.charge_copy_in(data.len() as u64);
        state.bytes[inside..inside + data.len()].copy_from_slice(data);
        self.cache.mark_dirty(inode.mapping(), &page);
        true
    }

    /// Stores to the block of a page; a hole is written to first.
    fn store_mapped_memory(
        &self,
        memory: &Region,
        inode: &Arc<Inode>,
        state: &mut InodeState,
        (offset, data): (u64, &[u8]),
    ) -> DesignResult<bool> {
        let page = offset / PAGE;
        let mut was_clean = !self.maps.is_dirty(inode.ino, page);
        match self.place(inode, state, page)? {
            Some(at) => {
                if was_clean {
                    let handle = self.begin(8)?;
                    let now = change_time();
                    state.raw.set_mtime(now);
                    state.raw.set_ctime(now);
                    self.store_inode(&handle, inode, state)?;
                }
                let _scope = sim::scope(Activity::DATA);
                self.maps.note(inode.ino, offset, data.len());
                memory.store(at + offset % PAGE, data)?;
            }
            None => {
                was_clean = true;
                self.write_whole(inode, state, offset, data)?;
                self.maps.note(inode.ino, offset, data.len());
            }
        }
        Ok(was_clean)
    }

    /// Where a page lies in memory; none in a hole, and where it is not written.
    fn place(&self, inode: &Inode, state: &InodeState, page: u64) -> DesignResult<Option<u64>> {
        Ok(match self.map(inode, state, page, 1)? {
            Mapped::Blocks { start, unwritten: false, .. } => Some(start * self.block_bytes()),
            _ => None,
        })
    }

    /// On memory: makes what was stored to the mapped pages of these bytes durable.
    pub(super) fn flush_mapped(&self, ino: u64, bytes: Range<u64>) -> DesignResult<()> {
        let Some(memory) = self.memory() else { return Ok(()) };
        let inode = self.inode(ino)?;
        let state = inode.state.read();
        state.check_live()?;
        self.maps.flush(memory, (ino, bytes), |page| self.place(&inode, &state, page))
    }

    /// The same for all files.
    pub(super) fn flush_all_mapped(&self) -> DesignResult<()> {
        self.maps.flush_all(|ino| self.flush_mapped(ino, WHOLE_FILE))
    }
}

impl MappedFiles for Mounted {
    fn map(&self, ino: Ino, pages: &Range<u64>, writable: bool) -> Result<()> {
        let inode = self.0.inode(ino.0)?;
        let state = inode.state.write();
        state.check_live()?;
        if state.raw.kind() != Some(FileKind::Regular) {
            return Err(Errno::ENODEV);
        }
        if self.0.memory().is_some() {
            self.0.maps.map(ino.0, pages, writable);
        }
        Ok(())
    }

    fn unmap(&self, ino: Ino, pages: &Range<u64>, writable: bool) {
        if self.0.memory().is_some() {
            self.0.maps.unmap(ino.0, pages, writable);
        }
    }

    fn load(&self, ino: Ino, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let inode = self.0.inode(ino.0)?;
        let state = inode.state.read();
        Volume::check_regular(&state)?;
        let (bytes, beyond) = buffer.split_at_mut(within_file(state.raw.size(), offset, buffer.len())?);
        self.0.read_file(&inode, &state, offset, bytes)?;
        beyond.fill(0);
        Ok(())
    }

    fn store(&self, ino: Ino, offset: u64, data: &[u8]) -> Result<bool> {
        self.0.check_running()?;
        let inode = self.0.inode(ino.0)?;
        let mut state = inode.change();
        Volume::check_regular(&state)?;
        let was_clean = match within_file(state.raw.size(), offset, data.len())? {
            0 => false,
            len => self.0.store_mapped(&inode, &mut state, offset, &data[..len])?,
        };
        drop(state);
        // As a store that faults (Linux: `fault_dirty_shared_page`).
        if was_clean {
            self.0.balance_dirty(&inode)?;
        }
        Ok(was_clean)
    }

    fn sync(&self, ino: Ino, bytes: Range<u64>) -> Result<()> {
        let inode = self.0.inode(ino.0)?;
        inode.state.read().check_live()?;
        self.0.flush_mapped(ino.0, bytes)?;
        Ok(self.0.fsync(&inode)?)
    }
}
