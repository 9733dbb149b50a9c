//! The adapter from [`FileSystem`]: locks an inode, calls the design, translates errors.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ::vfs::{
    Attr, DirEntry, Errno, FallocateMode, FileExtent, FileKind, FileSystem, Ino, InodeFlags, IoFlags,
    Listener, MappedFiles, NewInode, OpenFlags, Renaming, Result, SeekTo, SetAttr, SetTime, StatFs,
    Timestamp, Written, XattrMode,
};
use sim::{ByteRun, Run};

use super::Volume;
use super::inode::change_time;
use super::layout::{ROOT_INO, flag};
use super::namei::Node;
use base::dax::WHOLE_FILE;
use base::error::{Error, Result as DesignResult};

/// A mounted file system.
pub(crate) struct Mounted(pub(crate) Arc<Volume>);

fn time(set: Option<SetTime>) -> Option<Timestamp> {
    set.map(|set| match set {
        SetTime::Now => change_time(),
        SetTime::To(time) => time,
    })
}

impl Volume {
    fn set_attributes(&self, ino: u64, set: &SetAttr) -> DesignResult<Attr> {
        let inode = self.inode(ino)?;
        let mut state = inode.change();
        state.check_live()?;
        let restricted = set.size.is_some() || set.perm.is_some() || set.uid.is_some() || set.gid.is_some();
        if state.raw.has(flag::IMMUTABLE) || state.raw.has(flag::APPEND) && restricted {
            return Err(Error::NotPermitted);
        }
        if let Some(size) = set.size {
            Self::check_regular(&state)?;
            self.set_size(&inode, &mut state, size)?;
        }
        if (SetAttr { size: None, ..*set }) != SetAttr::default() {
            let handle = self.begin(8)?;
            if let Some(perm) = set.perm {
                state.raw.mode = (state.raw.mode.get() & 0o170_000 | (perm & 0o7777) as u16).into();
            }
            let (uid, gid) = (set.uid.unwrap_or(state.raw.uid()), set.gid.unwrap_or(state.raw.gid()));
            state.raw.set_owner(uid, gid);
            if let Some(atime) = time(set.atime) {
                state.raw.set_atime(atime);
            }
            if let Some(mtime) = time(set.mtime) {
                state.raw.set_mtime(mtime);
            }
            state.raw.set_ctime(change_time());
            self.store_inode(&handle, &inode, &mut state)?;
        }
        state.attr(self.geo.block_bytes, ino)
    }
}

impl FileSystem for Mounted {
    fn root(&self) -> Ino {
        Ino(ROOT_INO)
    }

    fn statfs(&self) -> Result<StatFs> {
        Ok(self.0.stat_fs())
    }

    fn blocks_available(&self, space: &StatFs) -> u64 {
        self.0.blocks_available(space)
    }

    fn sync(&self) -> Result<()> {
        self.0.flush_all_mapped()?;
        Ok(self.0.sync()?)
    }

    fn unmount(&self) -> Result<()> {
        self.0.flush_all_mapped()?;
        Ok(self.0.unmount()?)
    }

    fn listen(&self, listener: Listener) {
        self.0.notes.iter().for_each(|note| listener(note));
        // There is one operator.
        let _ = self.0.listener.set(listener);
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.0.cache.counters()
    }

    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        Ok(self.0.lookup(parent.0, name)?)
    }

    fn create(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.mknod(parent, name, FileKind::Regular, 0, new)
    }

    fn mkdir(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.mknod(parent, name, FileKind::Directory, 0, new)
    }

    fn mknod(&self, parent: Ino, name: &[u8], kind: FileKind, rdev: u64, new: &NewInode) -> Result<Attr> {
        Ok(self.0.make(parent.0, name, Node { kind, rdev, new, target: &[] })?)
    }

    fn symlink(&self, parent: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Attr> {
        if target.len() >= self.0.geo.block_bytes as usize {
            return Err(Errno::ENAMETOOLONG);
        }
        Ok(self.0.make(parent.0, name, Node { kind: FileKind::Symlink, rdev: 0, new, target })?)
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        Ok(self.0.read_link(ino.0)?)
    }

    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        Ok(self.0.link(ino.0, parent.0, name)?)
    }

    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        Ok(self.0.unlink(parent.0, name)?)
    }

    fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        Ok(self.0.rmdir(parent.0, name)?)
    }

    fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), how: Renaming<'_>) -> Result<()> {
        Ok(self.0.rename((from.0.0, from.1), (to.0.0, to.1), how)?)
    }

    fn readdir(&self, ino: Ino, cursor: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let inode = self.0.inode(ino.0)?;
        let state = inode.state.read();
        if state.gone || state.raw.links.get() == 0 {
            // A removed directory has no names, not even `.`.
            return if inode.opens.is_open() { Ok(()) } else { Err(Errno::ENOENT) };
        }
        Ok(self.0.read_dir(&inode, &state, cursor, sink)?)
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        Ok(self.0.inode(ino.0)?.attr()?)
    }

    fn setattr(&self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        Ok(self.0.set_attributes(ino.0, set)?)
    }

    fn birth_time(&self, ino: Ino) -> Result<Option<Timestamp>> {
        let inode = self.0.inode(ino.0)?;
        let state = inode.state.read();
        state.check_live()?;
        Ok(state.raw.crtime())
    }

    fn inode_flags(&self, ino: Ino) -> Result<InodeFlags> {
        Ok(InodeFlags::from_bits_retain(self.0.inode_flags(ino.0)?))
    }

    fn set_inode_flags(&self, ino: Ino, flags: InodeFlags) -> Result<()> {
        Ok(self.0.set_inode_flags(ino.0, flags.bits())?)
    }

    fn accessed(&self, ino: Ino) -> Result<()> {
        let inode = self.0.inode(ino.0)?;
        let mut state = inode.change_beside();
        state.check_live()?;
        if state.raw.has(flag::NOATIME) {
            return Ok(());
        }
        let handle = self.0.begin(4)?;
        state.raw.set_atime(change_time());
        Ok(self.0.store_inode(&handle, &inode, &mut state)?)
    }

    fn open(&self, ino: Ino, flags: OpenFlags) -> Result<()> {
        let inode = self.0.inode(ino.0)?;
        if inode.opens.add() {
            return Ok(());
        }
        let state = inode.state.read();
        state.check_live()?;
        let writes = flags.intersects(OpenFlags::WRITE | OpenFlags::TRUNCATE);
        let appends = flags.contains(OpenFlags::APPEND) && !flags.contains(OpenFlags::TRUNCATE);
        let refused = state.raw.has(flag::IMMUTABLE) || state.raw.has(flag::APPEND) && !appends;
        if writes && refused && state.raw.is_regular() {
            return Err(Errno::EPERM);
        }
        inode.opens.add_locked();
        Ok(())
    }

    /// Takes the inode's lock only where a close has something to do.
    fn release(&self, ino: Ino) {
        let Ok(inode) = self.0.inode(ino.0) else { return };
        let closed = inode.opens.remove();
        if !closed.frees && inode.allocates_on_close.load(Relaxed) {
            let mut state = inode.change();
            if inode.allocates_on_close.swap(false, Relaxed) {
                // What fails here fails at the next sync of the file.
                let _ = self.0.allocate_delayed(&inode, &mut state);
            }
        }
        if closed.last {
            self.0.discard_windows(&inode);
        }
        if closed.frees {
            // What cannot be freed now is on the list of orphans, or found by fsck.
            let _ = self.0.reap(&inode);
        }
    }

    fn tmpfile(&self, new: &NewInode) -> Result<Attr> {
        let node = Node { kind: FileKind::Regular, rdev: 0, new, target: &[] };
        Ok(self.0.with_space(|| self.0.make_nameless(ROOT_INO, node))?)
    }

    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8], flags: IoFlags) -> Result<usize> {
        let inode = self.0.inode(ino.0)?;
        if self.0.memory().is_none() && !flags.contains(IoFlags::DIRECT) {
            return Ok(self.0.read_buffered(&inode, offset, buffer)?);
        }
        let direct = flags.contains(IoFlags::DIRECT);
        let state = if direct { self.0.read_settled(&inode)? } else { inode.state.read() };
        Volume::check_regular(&state)?;
        if direct
            && self.0.memory().is_none()
            && let Some(bytes) = self.0.read_direct(&inode, &state, offset, buffer)?
        {
            return Ok(bytes);
        }
        Ok(self.0.read_file(&inode, &state, offset, buffer)?)
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], flags: IoFlags) -> Result<Written> {
        self.0.check_running()?;
        let inode = self.0.inode(ino.0)?;
        let direct = flags.contains(IoFlags::DIRECT) && self.0.memory().is_none();
        if direct && !flags.contains(IoFlags::APPEND) && self.0.overwrite_direct(&inode, offset, data)? {
            if flags.intersects(IoFlags::SYNC | IoFlags::DSYNC) {
                self.0.fsync(&inode)?;
            }
            return Ok(Written { offset, bytes: data.len() });
        }
        let mut state = inode.change();
        Volume::check_regular(&state)?;
        if state.raw.has(flag::IMMUTABLE) {
            return Err(Errno::EPERM); // it was open when it got the flag
        }
        let offset = if flags.contains(IoFlags::APPEND) { state.raw.size() } else { offset };
        if direct {
            self.0.allocate_delayed(&inode, &mut state)?;
        }
        let past = if direct { self.0.write_direct(&inode, &mut state, offset, data)? } else { None };
        let bytes = match past {
            Some(bytes) => bytes,
            None => self.0.write_file(&inode, &mut state, offset, data)?,
        };
        drop(state);
        if flags.intersects(IoFlags::SYNC | IoFlags::DSYNC) {
            self.0.fsync(&inode)?;
        } else if direct && past.is_none() {
            self.0.write_data(inode.mapping())?;
        } else {
            self.0.balance_dirty(&inode)?;
        }
        Ok(Written { offset, bytes })
    }

    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64) -> Result<()> {
        mode.check(len)?;
        let frees = !(mode - FallocateMode::KEEP_SIZE).is_empty();
        let inode = self.0.inode(ino.0)?;
        let mut state = inode.change();
        Volume::check_regular(&state)?;
        // A file of an image of ext2, or of one that was ext3 once.
        if !frees && !state.raw.has(flag::EXTENTS) {
            return Err(Errno::EOPNOTSUPP);
        }
        if state.raw.has(flag::IMMUTABLE) || frees && state.raw.has(flag::APPEND) {
            return Err(Errno::EPERM);
        }
        Ok(self.0.with_space_of(&mut state, |state| {
            self.0.fallocate(&inode, state, mode, ByteRun::new(offset, len))
        })?)
    }

    fn seek(&self, ino: Ino, offset: u64, to: SeekTo) -> Result<u64> {
        let inode = self.0.inode(ino.0)?;
        let state = inode.state.read();
        Volume::check_regular(&state)?;
        Ok(self.0.seek_file(&inode, &state, offset, to)?)
    }

    fn fsync(&self, ino: Ino, _data_only: bool) -> Result<()> {
        let inode = self.0.inode(ino.0)?;
        if !inode.opens.is_open() {
            inode.state.read().check_live()?;
        }
        if self.0.maps.has_dirty(ino.0) {
            self.0.flush_mapped(ino.0, WHOLE_FILE)?;
        }
        Ok(self.0.fsync(&inode)?)
    }

    fn drop_caches(&self) -> Result<()> {
        self.0.drop_caches();
        Ok(())
    }

    fn extents(&self, ino: Ino) -> Result<Vec<FileExtent>> {
        let inode = self.0.inode(ino.0)?;
        let state = self.0.read_settled(&inode)?;
        Volume::check_regular(&state)?;
        let size = u64::from(self.0.geo.block_bytes);
        let extents = self.0.extents(&inode, &state)?.into_iter();
        let bytes = |(index, run, unwritten): (u64, Run, bool)| FileExtent {
            offset: index * size,
            physical: run.first * size,
            len: run.count * size,
            unwritten,
        };
        Ok(sim::ran::collected(extents.map(bytes)))
    }

    fn mapped_files(&self) -> Option<&dyn MappedFiles> {
        Some(self)
    }

    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        Ok(self.0.get_attribute(ino.0, name)?)
    }

    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        Ok(self.0.set_attribute(ino.0, name, value, mode)?)
    }

    fn listxattr(&self, ino: Ino) -> Result<Vec<u8>> {
        Ok(self.0.list_attributes(ino.0)?)
    }

    fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        Ok(self.0.remove_attribute(ino.0, name)?)
    }
}

impl Volume {
    /// As [`Volume::with_space`], for work on an inode that is locked.
    fn with_space_of<S, R>(
        &self,
        state: &mut S,
        work: impl Fn(&mut S) -> DesignResult<R>,
    ) -> DesignResult<R> {
        match work(state) {
            Err(Error::NoSpace) if self.space.has_busy() => {
                self.commit_all(false)?;
                work(state)
            }
            done => done,
        }
    }
}
