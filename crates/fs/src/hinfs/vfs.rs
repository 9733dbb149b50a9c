//! The adapter from [`FileSystem`] to HiNFS. Names and attributes are PMFS's; data goes through the buffer.

use vfs::{
    Attr, DirEntry, FallocateMode, FileKind, FileSystem, Ino, IoFlags, NewInode, OpenFlags, RenameFlags,
    Result, SeekTo, SetAttr, StatFs, Written,
};

use super::HiNfs;
use crate::error::{Error, Result as DesignResult};
use crate::pmfs::Volume;
use crate::pmfs::inode::{Inode, seconds};
use crate::pmfs::layout::{BLOCK, ROOT_INO, RawInode};
use crate::pmfs::namei::Node;

impl HiNfs {
    /// Changes the size: what is cut off is dropped, the rest of the file is settled, then it is PMFS's work. What the open
    /// transaction waits for is not dropped but written: the transaction commits before the cut, and a crash between the two
    /// would show blocks that were never written.
    fn set_size(&self, inode: &Inode, raw: &mut RawInode, size: u64) -> DesignResult<()> {
        if size < raw.size {
            self.complete_file(inode)?;
            self.drop_from(inode, size.div_ceil(BLOCK))?;
        }
        self.settle_file(inode)?;
        self.volume.set_size(inode, raw, size)
    }

    fn release_last(&self, inode: &Inode) {
        if self.volume.raw(inode).is_ok_and(|raw| raw.links == 0) {
            // There is nobody to tell; an inode that could not be freed stays on the truncate list.
            let _ = self.volume.reap(inode, self);
        }
    }
}

impl FileSystem for HiNfs {
    fn root(&self) -> Ino {
        Ino(ROOT_INO)
    }

    fn statfs(&self) -> Result<StatFs> {
        Ok(self.volume.stat_fs())
    }

    fn sync(&self) -> Result<()> {
        Ok(self.sync_all()?)
    }

    fn unmount(&self) -> Result<()> {
        self.stop_writeback();
        self.sync_all()?;
        Ok(self.volume.unmount()?)
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

    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        Ok(self.volume.get_attr(self.volume.lookup_name(parent.0, name)?)?)
    }

    fn create(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.mknod(parent, name, FileKind::Regular, 0, new)
    }

    fn mkdir(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.mknod(parent, name, FileKind::Directory, 0, new)
    }

    fn mknod(&self, parent: Ino, name: &[u8], kind: FileKind, rdev: u64, new: &NewInode) -> Result<Attr> {
        self.relieve_journal();
        self.volume.make_attr(parent, name, Node { kind, rdev, new, target: &[] })
    }

    fn symlink(&self, parent: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Attr> {
        if target.len() as u64 >= BLOCK {
            return Err(vfs::Errno::ENAMETOOLONG);
        }
        self.relieve_journal();
        self.volume.make_attr(parent, name, Node { kind: FileKind::Symlink, rdev: 0, new, target })
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        Ok(self.volume.read_link(ino.0)?)
    }

    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.relieve_journal();
        let raw = self.volume.link(ino.0, parent.0, name, self)?;
        Ok(self.volume.attr(self.volume.inodes.get(ino.0)?, &raw)?)
    }

    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.relieve_journal();
        if let Some(inode) = self.volume.unlink(parent.0, name, self)? {
            self.volume.reap(inode, self)?;
        }
        Ok(())
    }

    fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.relieve_journal();
        let inode = self.volume.rmdir(parent.0, name)?;
        self.volume.reap(inode, self)?;
        Ok(())
    }

    fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), flags: RenameFlags) -> Result<()> {
        self.relieve_journal();
        let orphan = self.volume.rename((from.0.0, from.1), (to.0.0, to.1), flags, self)?;
        if let Some(inode) = orphan {
            self.volume.reap(inode, self)?;
        }
        Ok(())
    }

    fn readdir(&self, ino: Ino, cursor: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let mut give = |name: &[u8], ino, next| sink(DirEntry { ino, kind: None, name, next });
        Ok(self.volume.read_dir(ino.0, cursor, &mut give)?)
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        Ok(self.volume.get_attr(ino.0)?)
    }

    fn setattr(&self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        self.relieve_journal();
        let volume = &self.volume;
        let inode = volume.inodes.get(ino.0)?;
        let state = inode.state.write();
        let mut raw = volume.live_or_open(inode, &state)?;
        if let Some(size) = set.size {
            raw = volume.regular(inode, &state)?;
            self.set_size(inode, &mut raw, size)?;
        }
        if (SetAttr { size: None, ..*set }) != SetAttr::default() {
            // An open transaction has logged the first half of the inode: undoing it would undo this.
            self.complete_file(inode)?;
            volume.set_fields(inode, &mut raw, set)?;
        }
        Ok(volume.attr(inode, &raw)?)
    }

    /// One word in place, which no transaction has logged; durable when its line is next written back.
    fn accessed(&self, ino: Ino) -> Result<()> {
        let inode = self.volume.inodes.get(ino.0)?;
        let state = inode.state.read();
        self.volume.live_or_open(inode, &state)?;
        let at = inode.offset + crate::pmfs::layout::ino::ATIME;
        Ok(self.volume.region.store_u32(at, seconds()).map_err(Error::from)?)
    }

    fn open(&self, ino: Ino, _flags: OpenFlags) -> Result<()> {
        let inode = self.volume.inodes.get(ino.0)?;
        Ok(self.volume.open_inode(inode, &mut inode.state.write())?)
    }

    fn release(&self, ino: Ino) {
        let Ok(inode) = self.volume.inodes.get(ino.0) else { return };
        let mut state = inode.state.write();
        state.opens = state.opens.saturating_sub(1);
        let last = state.opens == 0;
        drop(state);
        if last {
            self.release_last(inode);
        }
    }

    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8], _flags: IoFlags) -> Result<usize> {
        let inode = self.volume.inodes.get(ino.0)?;
        let state = inode.state.read();
        let raw = self.volume.regular(inode, &state)?;
        Ok(HiNfs::read(self, inode, &raw, offset, buffer)?)
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], flags: IoFlags) -> Result<Written> {
        let inode = self.volume.inodes.get(ino.0)?;
        let state = inode.state.write();
        let mut raw = self.volume.regular(inode, &state)?;
        let offset = if flags.contains(IoFlags::APPEND) { raw.size } else { offset };
        let sync = self.settings.sync || flags.intersects(IoFlags::SYNC | IoFlags::DSYNC);
        let bytes = HiNfs::write(self, inode, &mut raw, (offset, data), sync)?;
        if sync && !self.settings.checker {
            HiNfs::fsync(self, inode)?;
        }
        Ok(Written { offset, bytes })
    }

    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64) -> Result<()> {
        Volume::check_fallocate(mode, len)?;
        self.relieve_journal();
        let inode = self.volume.inodes.get(ino.0)?;
        let state = inode.state.write();
        let mut raw = self.volume.regular(inode, &state)?;
        self.settle_file(inode)?;
        Ok(self.volume.fallocate(inode, &mut raw, mode, (offset, len))?)
    }

    fn seek(&self, ino: Ino, offset: u64, to: SeekTo) -> Result<u64> {
        let inode = self.volume.inodes.get(ino.0)?;
        let state = inode.state.read();
        let raw = self.volume.regular(inode, &state)?;
        Ok(self.volume.seek_file(&raw, offset, to)?)
    }

    fn fsync(&self, ino: Ino, _data_only: bool) -> Result<()> {
        let inode = self.volume.inodes.get(ino.0)?;
        // For writing: no write of another task may have the open transaction in its hands.
        let state = inode.state.write();
        self.volume.live_or_open(inode, &state)?;
        Ok(HiNfs::fsync(self, inode)?)
    }
}
