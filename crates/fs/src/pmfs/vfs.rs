//! The adapter from [`FileSystem`] to the designs on this format: locks an inode, calls the design, translates errors.
//!
//! Names and attributes are the volume's in all of them. What a design does with file data is its [`DataPath`]; the adapter is
//! compiled for each, so the path of a read or write has no call through a table but the first.

use std::sync::Arc;

use media::event::Mark;
use sim::ByteRun;
use vfs::{
    Attr, DirEntry, Errno, FallocateMode, FileKind, FileSystem, Ino, IoFlags, MappedFiles, NewInode,
    OpenFlags, Renaming, Result, SeekTo, SetAttr, StatFs, Timestamp, Written, XattrMode,
};

use super::Volume;
use super::inode::{Inode, InodeState};
use super::layout::{BLOCK, FANOUT, INODE_BYTES, MAX_HEIGHT, ROOT_INO, RawInode, ino};
use super::namei::{Node, OpenTransactions, is_dir};
use super::times::changed;
use base::dax::WHOLE_FILE;
use base::error::{Error, Result as DesignResult};
use base::persist::tree_nodes;

/// How a design on this format handles file data, with the calls that prepare it for changes. Each method gets a locked inode,
/// locked for writing if it takes `&mut RawInode`, unless the method locks it.
pub(crate) trait DataPath: OpenTransactions + Send + Sync {
    fn volume(&self) -> &Volume;

    /// Reads from a file; returns how many bytes.
    fn read(&self, inode: &Inode, raw: &RawInode, offset: u64, buffer: &mut [u8]) -> DesignResult<usize>;

    /// Writes into a file, durably on return if `sync`; returns how many bytes, fewer when space runs out.
    fn write(&self, inode: &Inode, raw: &mut RawInode, at: (u64, &[u8]), sync: bool) -> DesignResult<usize>;

    /// Locks a file and makes it durable.
    fn fsync(&self, inode: &Inode) -> DesignResult<()>;

    /// Makes everything durable.
    fn sync(&self) -> DesignResult<()>;

    /// A call is about to begin a transaction, for which it may wait.
    fn before_change(&self) {}

    /// The volume is about to change the blocks of a file, and to cut off what is beyond `size`.
    fn before_resize(&self, _inode: &Inode, _raw: &RawInode, _size: u64) -> DesignResult<()> {
        Ok(())
    }

    /// A file is about to be mapped: as long as it is, all of its data is on the medium.
    fn before_map(&self, _inode: &Inode) -> DesignResult<()> {
        Ok(())
    }

    /// Ends background work and makes everything durable: the volume is about to be unmounted.
    fn before_unmount(&self) -> DesignResult<()> {
        Ok(())
    }

    /// What the design counts about itself.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// PMFS itself: to the medium and back.
impl DataPath for Volume {
    fn volume(&self) -> &Volume {
        self
    }

    fn read(&self, _: &Inode, raw: &RawInode, offset: u64, buffer: &mut [u8]) -> DesignResult<usize> {
        self.read_file(raw, offset, buffer)
    }

    fn write(
        &self,
        inode: &Inode,
        raw: &mut RawInode,
        (offset, data): (u64, &[u8]),
        _sync: bool,
    ) -> DesignResult<usize> {
        // Durable on return.
        self.write_file(inode, raw, offset, data)
    }

    /// Every call was durable when it returned, so nothing is left to write back. PMFS's fsync is a fence, and so is this one.
    fn fsync(&self, inode: &Inode) -> DesignResult<()> {
        if !inode.opens.is_open() {
            self.live_or_open(inode, &inode.state.read())?;
        }
        self.region.fence();
        Ok(())
    }

    fn sync(&self) -> DesignResult<()> {
        self.region.fence();
        Ok(())
    }
}

/// A mounted file system of this format.
pub(crate) struct Mounted<D>(pub(crate) Arc<D>);

pub(crate) fn is_regular(raw: &RawInode) -> bool {
    FileKind::from_mode(u32::from(raw.mode)) == Some(FileKind::Regular)
}

impl Volume {
    /// Returns an error after a change that could be neither ended nor undone. The next mount will undo it, and would undo later
    /// changes with it, so all changes are refused and every sync fails.
    #[inline]
    pub(crate) fn check_sound(&self) -> DesignResult<()> {
        if self.journal.has_failed() { Err(Error::Failed) } else { Ok(()) }
    }

    /// A regular file, for reading or writing its data.
    #[inline]
    pub(crate) fn regular(&self, inode: &Inode, state: &InodeState) -> DesignResult<RawInode> {
        let raw = self.live_or_open(inode, state)?;
        match () {
            () if is_regular(&raw) => Ok(raw),
            () if is_dir(&raw) => Err(Error::IsDirectory),
            () => Err(Error::Invalid("not a regular file")),
        }
    }

    pub(crate) fn stat_fs(&self) -> StatFs {
        let (files, files_free) = self.inodes.counts();
        let blocks_free = self.blocks.free();
        StatFs {
            frsize: BLOCK as u32,
            blocks: self.blocks.all(),
            blocks_free,
            // The table grows: free blocks can become inodes.
            files: files + blocks_free * (BLOCK / super::layout::INODE_SLOT),
            files_free: files_free + blocks_free * (BLOCK / super::layout::INODE_SLOT),
            name_max: 255,
        }
    }

    pub(crate) fn get_attr(&self, number: u64) -> DesignResult<Attr> {
        let inode = self.inodes.get(number)?;
        inode.attr(&self.read_shared(inode)?)
    }

    /// Changes every attribute but the size; durable on return. One that is one store is changed in place; several, or mtime, in
    /// a transaction.
    pub(crate) fn set_fields(&self, inode: &Inode, raw: &mut RawInode, set: &SetAttr) -> DesignResult<()> {
        let _scope = sim::scope(media::charges::METADATA);
        let stores = u32::from(set.perm.is_some())
            + u32::from(set.uid.is_some() || set.gid.is_some())
            + u32::from(set.atime.is_some())
            + 2 * u32::from(set.mtime.is_some());
        raw.mode = set.perm.map_or(raw.mode, |perm| raw.mode & 0o170_000 | (perm & 0o7777) as u16);
        raw.uid = set.uid.unwrap_or(raw.uid);
        raw.gid = set.gid.unwrap_or(raw.gid);
        let now = Timestamp::now();
        raw.set_atime(changed(raw.atime(), set.atime, now));
        raw.set_mtime(changed(raw.mtime(), set.mtime, now));
        raw.set_ctime(now);
        if stores <= 1 {
            self.store_fields(inode, raw)?;
            self.region.flush(inode.offset, INODE_BYTES);
            self.region.fence();
            return Ok(());
        }
        let mut tx = self.journal.begin(2)?;
        let work = self.journal.log(&mut tx, &[ByteRun::new(inode.offset, INODE_BYTES)]);
        self.end(tx, work.and_then(|()| self.store_fields(inode, raw)))
    }

    fn store_fields(&self, inode: &Inode, raw: &RawInode) -> DesignResult<()> {
        let owner = u64::from(raw.uid) | u64::from(raw.gid) << 32;
        let alone = |field: u64| {
            self.region.mark(Mark::Commit { at: inode.offset + field, needs: &[] });
            inode.offset + field
        };
        self.store_extras(inode, raw)?;
        self.region.store_u64(alone(ino::UID), owner)?;
        self.store_atime(inode, raw)?;
        Ok(self.region.store_u64(alone(ino::TIMES), raw.times_word())?)
    }

    pub(crate) fn make_attr(&self, parent: Ino, name: &[u8], node: Node<'_>) -> Result<Attr> {
        let (inode, raw) = self.make(parent.0, name, node)?;
        Ok(inode.attr(&raw)?)
    }

    pub(crate) fn read_link(&self, number: u64) -> DesignResult<Vec<u8>> {
        let inode = self.inodes.get(number)?;
        let state = inode.state.read();
        let raw = self.live_or_open(inode, &state)?;
        if FileKind::from_mode(u32::from(raw.mode)) != Some(FileKind::Symlink) {
            return Err(Error::Invalid("not a symbolic link"));
        }
        let mut target = sim::ran::zeroed(raw.size.min(BLOCK) as usize);
        self.region.peek(raw.root, &mut target)?;
        Ok(target)
    }
}

impl<D: DataPath> Mounted<D> {
    pub(super) fn volume(&self) -> &Volume {
        self.0.volume()
    }

    /// Begins a change: refuses it when the volume has failed, and lets the design prepare for a transaction.
    pub(super) fn before_change(&self) -> DesignResult<()> {
        self.volume().check_sound()?;
        self.0.before_change();
        Ok(())
    }

    /// Changes the extended attributes of an inode.
    fn change_attributes(
        &self,
        ino: Ino,
        change: impl FnOnce(&Volume, &Inode, &RawInode) -> DesignResult<()>,
    ) -> Result<()> {
        self.before_change()?;
        let volume = self.volume();
        let inode = volume.inodes.get(ino.0)?;
        let state = volume.lock(inode);
        let raw = volume.live_or_open(inode, &state)?;
        self.0.commit_open(inode)?;
        Ok(change(volume, inode, &raw)?)
    }

    /// Frees an inode without names, unless it is open. One that cannot be freed stays on the truncate list for the next sync or
    /// mount: its name is gone, so the call that removed it has succeeded.
    fn reap(&self, inode: &Inode) {
        if self.volume().reap(inode, &*self.0).is_err() {
            self.volume().note_unfreed();
        }
    }
}

impl<D: DataPath> FileSystem for Mounted<D> {
    fn root(&self) -> Ino {
        Ino(ROOT_INO)
    }

    fn statfs(&self) -> Result<StatFs> {
        Ok(self.volume().stat_fs())
    }

    fn blocks_available(&self, space: &StatFs) -> u64 {
        // One file may take all of it.
        let nodes = tree_nodes(space.blocks_free, FANOUT, MAX_HEIGHT.into());
        space.blocks_free.saturating_sub(nodes)
    }

    fn sync(&self) -> Result<()> {
        self.volume().reap_unfreed(&*self.0);
        self.volume().flush_all_mapped()?;
        self.0.sync()?;
        Ok(self.volume().check_sound()?)
    }

    fn unmount(&self) -> Result<()> {
        self.volume().reap_unfreed(&*self.0);
        self.volume().flush_all_mapped()?;
        self.0.before_unmount()?;
        Ok(self.volume().unmount()?)
    }

    fn trim(&self) -> Result<u64> {
        Ok(self.volume().blocks.trim()?)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.0.counters()
    }

    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        let volume = self.volume();
        Ok(volume.get_attr(volume.lookup_name(parent.0, name)?)?)
    }

    fn create(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.mknod(parent, name, FileKind::Regular, 0, new)
    }

    fn mkdir(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.mknod(parent, name, FileKind::Directory, 0, new)
    }

    fn mknod(&self, parent: Ino, name: &[u8], kind: FileKind, rdev: u64, new: &NewInode) -> Result<Attr> {
        self.before_change()?;
        self.volume().make_attr(parent, name, Node { kind, rdev, new, target: &[] })
    }

    fn symlink(&self, parent: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Attr> {
        if target.len() as u64 >= BLOCK {
            return Err(Errno::ENAMETOOLONG);
        }
        self.before_change()?;
        self.volume().make_attr(parent, name, Node { kind: FileKind::Symlink, rdev: 0, new, target })
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        Ok(self.volume().read_link(ino.0)?)
    }

    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.before_change()?;
        let volume = self.volume();
        let raw = volume.link(ino.0, parent.0, name, &*self.0)?;
        Ok(volume.inodes.get(ino.0)?.attr(&raw)?)
    }

    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.before_change()?;
        if let Some(inode) = self.volume().unlink(parent.0, name, &*self.0)? {
            self.reap(inode);
        }
        Ok(())
    }

    fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.before_change()?;
        self.reap(self.volume().rmdir(parent.0, name)?);
        Ok(())
    }

    fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), how: Renaming<'_>) -> Result<()> {
        self.before_change()?;
        let orphan = self.volume().rename((from.0.0, from.1), (to.0.0, to.1), how, &*self.0)?;
        if let Some(inode) = orphan {
            self.reap(inode);
        }
        Ok(())
    }

    fn readdir(&self, ino: Ino, cursor: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let mut give = |name: &[u8], ino, next| sink(DirEntry { ino, kind: None, name, next });
        Ok(self.volume().read_dir(ino.0, cursor, &mut give)?)
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        Ok(self.volume().get_attr(ino.0)?)
    }

    fn setattr(&self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        self.before_change()?;
        let volume = self.volume();
        let inode = volume.inodes.get(ino.0)?;
        let state = volume.lock(inode);
        let mut raw = volume.live_or_open(inode, &state)?;
        let mut rest = SetAttr { size: None, ..*set };
        if let Some(size) = set.size {
            raw = volume.regular(inode, &state)?;
            if let Some(perm) = rest.perm.take() {
                // The set-id bits that a truncation clears go first: no crash may leave them with other contents.
                self.0.commit_open(inode)?;
                volume.set_fields(inode, &mut raw, &SetAttr { perm: Some(perm), ..SetAttr::default() })?;
            }
            self.0.before_resize(inode, &raw, size)?;
            volume.set_size(inode, &mut raw, size)?;
        }
        if rest != SetAttr::default() {
            self.0.commit_open(inode)?;
            volume.set_fields(inode, &mut raw, &rest)?;
        }
        Ok(inode.attr(&raw)?)
    }

    /// One store in place, which no transaction has logged; durable when its line is next written back.
    fn accessed(&self, ino: Ino) -> Result<()> {
        let volume = self.volume();
        let inode = volume.inodes.get(ino.0)?;
        let state = inode.state.read();
        let mut raw = volume.live_or_open(inode, &state)?;
        let atime = Timestamp::now();
        raw.set_atime(atime);
        Ok(inode.store_accessed(atime, || volume.store_atime(inode, &raw))?)
    }

    fn open(&self, ino: Ino, _flags: OpenFlags) -> Result<()> {
        let inode = self.volume().inodes.get(ino.0)?;
        Ok(self.volume().open_inode(inode)?)
    }

    fn release(&self, ino: Ino) {
        let Ok(inode) = self.volume().inodes.get(ino.0) else { return };
        if inode.opens.remove().frees {
            self.reap(inode);
        }
    }

    fn tmpfile(&self, new: &NewInode) -> Result<Attr> {
        self.before_change()?;
        let (inode, raw) = self.volume().make_nameless(new)?;
        Ok(inode.attr(&raw)?)
    }

    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8], _flags: IoFlags) -> Result<usize> {
        let volume = self.volume();
        let inode = volume.inodes.get(ino.0)?;
        let state = inode.state.read();
        let raw = volume.regular(inode, &state)?;
        Ok(self.0.read(inode, &raw, offset, buffer)?)
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], flags: IoFlags) -> Result<Written> {
        let volume = self.volume();
        volume.check_sound()?;
        let inode = volume.inodes.get(ino.0)?;
        let state = volume.lock(inode);
        let mut raw = volume.regular(inode, &state)?;
        let offset = if flags.contains(IoFlags::APPEND) { raw.size } else { offset };
        let sync = flags.intersects(IoFlags::SYNC | IoFlags::DSYNC);
        let bytes = self.0.write(inode, &mut raw, (offset, data), sync)?;
        Ok(Written { offset, bytes })
    }

    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64) -> Result<()> {
        mode.check(len)?;
        self.before_change()?;
        let volume = self.volume();
        let inode = volume.inodes.get(ino.0)?;
        let state = volume.lock(inode);
        let mut raw = volume.regular(inode, &state)?;
        self.0.before_resize(inode, &raw, raw.size)?;
        Ok(volume.fallocate(inode, &mut raw, mode, ByteRun::new(offset, len))?)
    }

    fn seek(&self, ino: Ino, offset: u64, to: SeekTo) -> Result<u64> {
        let volume = self.volume();
        let inode = volume.inodes.get(ino.0)?;
        let state = inode.state.read();
        let raw = volume.regular(inode, &state)?;
        Ok(volume.seek_file(&raw, offset, to)?)
    }

    fn fsync(&self, ino: Ino, _data_only: bool) -> Result<()> {
        if self.volume().maps.has_dirty(ino.0) {
            self.volume().flush_mapped(ino.0, WHOLE_FILE)?;
        }
        self.0.fsync(self.volume().inodes.get(ino.0)?)?;
        Ok(self.volume().check_sound()?)
    }

    fn mapped_files(&self) -> Option<&dyn MappedFiles> {
        Some(self)
    }

    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        Ok(self.volume().get_attribute(ino.0, name)?)
    }

    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.change_attributes(ino, |volume, inode, raw| {
            volume.set_attribute(inode, raw, (name, value), mode)
        })
    }

    fn listxattr(&self, ino: Ino) -> Result<Vec<u8>> {
        Ok(self.volume().list_attributes(ino.0)?)
    }

    fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        self.change_attributes(ino, |volume, inode, raw| volume.remove_attribute(inode, raw, name))
    }
}
