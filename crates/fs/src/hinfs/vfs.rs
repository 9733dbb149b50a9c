//! File data through the buffer, for the adapter that HiNFS shares with PMFS (`pmfs/vfs.rs`).

use super::HiNfs;
use super::mutant;
use crate::pmfs::Volume;
use crate::pmfs::inode::Inode;
use crate::pmfs::layout::{BLOCK, RawInode};
use crate::pmfs::vfs::DataPath;
use base::error::Result;

impl DataPath for HiNfs {
    fn volume(&self) -> &Volume {
        &self.volume
    }

    fn read(&self, inode: &Inode, raw: &RawInode, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        HiNfs::read(self, inode, raw, offset, buffer)
    }

    fn write(&self, inode: &Inode, raw: &mut RawInode, at: (u64, &[u8]), sync: bool) -> Result<usize> {
        let sync = sync || self.settings.sync;
        let bytes = HiNfs::write(self, inode, raw, at, sync)?;
        if sync && !self.settings.checker {
            HiNfs::fsync(self, inode)?;
        }
        Ok(bytes)
    }

    fn fsync(&self, inode: &Inode) -> Result<()> {
        // For writing: no write of another task may have taken the open transaction.
        let state = inode.state.write();
        self.volume.live_or_open(inode, &state)?;
        HiNfs::fsync(self, inode)
    }

    fn sync(&self) -> Result<()> {
        self.sync_all()
    }

    fn before_change(&self) {
        self.relieve_journal();
    }

    /// Drops the blocks that are cut off and settles the rest of the file. Blocks that the open transaction waits for are
    /// written, not dropped: the transaction commits before the cut, and a crash between the two would show blocks that were
    /// never written.
    fn before_resize(&self, inode: &Inode, raw: &RawInode, size: u64) -> Result<()> {
        if size < raw.size {
            if !self.volume.has(mutant::TRUNCATE_DROPS_WAITED) {
                self.complete_file(inode)?;
            }
            self.drop_from(inode, size.div_ceil(BLOCK))?;
        }
        self.settle_file(inode)
    }

    /// Writes back what is buffered. From here on writes are eager, see `write`.
    fn before_map(&self, inode: &Inode) -> Result<()> {
        self.settle_file(inode)
    }

    fn before_unmount(&self) -> Result<()> {
        self.stop_writeback();
        self.sync_all()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let usage = self.pool.usage();
        let mut list = self.counters.list();
        list.extend([
            ("pages", self.pool.limit()),
            ("pages_used", usage.used),
            ("blocks_listed", usage.listed),
            ("ghosts", usage.ghosts),
            ("transactions_open", usage.pending),
        ]);
        list
    }
}
