//! The adapter from [`FileSystem`] to NOVA: locks an inode, calls the design, translates errors.

use std::sync::Arc;

use sim::{ByteRun, Work};
use vfs::{
    Attr, DirEntry, Errno, FallocateMode, FileKind, FileSystem, Ino, IoFlags, MappedFiles, NewInode,
    OpenFlags, Promises, Renaming, Result, SeekTo, SetAttr, StatFs, Timestamp, Written, XattrMode,
};

use super::Volume;
use super::dir::read_name;
use super::inode::{Inode, Loaded};
use super::layout::{BLOCK, INODE_BYTES, ROOT_INO, RawInode, WriteEntry, unpack};
use super::namei::Node;
use base::dax::WHOLE_FILE;
use base::error::{Error, Result as DesignResult};

/// The promises. A write gives its blocks new places, which no reservation keeps free.
pub(crate) const PROMISES: Promises = Promises { reservations: false, ..Promises::STRICT };

/// A mounted volume.
pub(crate) struct Mounted(pub(crate) Arc<Volume>);

/// Cursors before those of names: the beginning, after `.`, after `..`.
const FIRST_NAME: u64 = 2;

impl Volume {
    /// Complains about what is not a regular file.
    pub(super) fn check_regular(loaded: &Loaded) -> DesignResult<()> {
        match loaded.facts.kind() {
            Some(FileKind::Regular) => Ok(()),
            Some(FileKind::Directory) => Err(Error::IsDirectory),
            _ => Err(Error::Invalid("not a regular file")),
        }
    }

    fn stat_fs(&self) -> StatFs {
        let (files, files_free) = self.inodes.counts();
        let blocks_free = self.blocks.free();
        // The tables grow: free blocks can become inodes.
        let more = blocks_free * (BLOCK / INODE_BYTES);
        StatFs {
            frsize: BLOCK as u32,
            blocks: self.geometry.blocks,
            blocks_free,
            files: files + more,
            files_free: files_free + more,
            name_max: 255,
        }
    }

    fn read_link(&self, number: u64) -> DesignResult<Vec<u8>> {
        let loaded = self.reading(self.inodes.get(number)?)?;
        if loaded.facts.kind() != Some(FileKind::Symlink) {
            return Err(Error::Invalid("not a symbolic link"));
        }
        let mut target = sim::ran::zeroed(loaded.facts.size.min(BLOCK) as usize);
        let place = loaded.blocks.get(0);
        if place.is_hole() {
            return Err(Error::Corrupt(format!("inode {number}: a symbolic link without a target")));
        }
        self.region.peek(place.block() * BLOCK, &mut target)?;
        Ok(target)
    }

    fn read_dir(
        &self,
        number: u64,
        mut cursor: u64,
        sink: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> DesignResult<()> {
        let dir = self.reading(self.inodes.get(number)?)?;
        if !dir.facts.is_dir() {
            return Err(Error::NotDirectory);
        }
        if dir.facts.links == 0 {
            return Ok(());
        }
        let mut give = |name: &[u8], ino, next| sink(DirEntry { ino: Ino(ino), kind: None, name, next });
        if cursor == 0 {
            if !give(b".", number, 1) {
                return Ok(());
            }
            cursor = 1;
        }
        if cursor == 1 {
            if !give(b"..", dir.names.parent, FIRST_NAME) {
                return Ok(());
            }
            cursor = FIRST_NAME;
        }
        let (mut slot, mut bytes, mut steps) = (cursor - FIRST_NAME, [0; 256], 0);
        while let Some((found, known)) = dir.names.next_from(slot) {
            let len = read_name(&self.region, known.at, &mut bytes)?;
            // The slots up to this one, and the entry of its name.
            steps += found - slot + 2;
            slot = found + 1;
            if !give(&bytes[..len], known.ino, slot + FIRST_NAME) {
                break;
            }
        }
        sim::work(Work::STEP, steps);
        Ok(())
    }
}

impl Mounted {
    pub(super) fn inode(&self, ino: Ino) -> DesignResult<&Inode> {
        self.0.unload_old();
        self.0.inodes.get(ino.0)
    }

    /// The volume, for a change: none when an earlier one could not be ended.
    pub(super) fn sound(&self) -> DesignResult<&Volume> {
        self.0.check_sound()?;
        self.0.unload_old();
        Ok(&self.0)
    }
}

impl FileSystem for Mounted {
    fn root(&self) -> Ino {
        Ino(ROOT_INO)
    }

    fn statfs(&self) -> Result<StatFs> {
        Ok(self.0.stat_fs())
    }

    fn blocks_available(&self, _: &StatFs) -> u64 {
        // One file may take all of it, block by block, with an entry in its log for each; its name and its inode may need two more.
        let (blocks, geometry) = (self.0.blocks.unreserved(), &self.0.geometry);
        let entries = (geometry.log_room / size_of::<WriteEntry>() as u64).max(1);
        blocks.saturating_sub(blocks / entries + 2)
    }

    /// Everything was durable when it returned, but for times of access and what mappings have stored.
    fn sync(&self) -> Result<()> {
        self.0.reap_left_over();
        self.0.flush_all_mapped()?;
        self.0.region.fence();
        Ok(self.0.check_sound()?)
    }

    fn unmount(&self) -> Result<()> {
        self.0.reap_left_over();
        self.0.flush_all_mapped()?;
        Ok(self.0.unmount()?)
    }

    fn trim(&self) -> Result<u64> {
        Ok(self.0.blocks.trim()?)
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let cache = self.0.cache.iter().flat_map(|cache| cache.counters());
        self.0.counters.all().into_iter().chain(cache).collect()
    }

    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        Ok(self.0.get_attr(self.0.lookup_name(parent.0, name)?)?)
    }

    fn create(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.mknod(parent, name, FileKind::Regular, 0, new)
    }

    fn mkdir(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.mknod(parent, name, FileKind::Directory, 0, new)
    }

    fn mknod(&self, parent: Ino, name: &[u8], kind: FileKind, rdev: u64, new: &NewInode) -> Result<Attr> {
        Ok(self.sound()?.make(parent.0, name, Node { kind, rdev, new, target: &[] })?)
    }

    fn symlink(&self, parent: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Attr> {
        if target.len() as u64 >= BLOCK {
            return Err(Errno::ENAMETOOLONG);
        }
        Ok(self.sound()?.make(parent.0, name, Node { kind: FileKind::Symlink, rdev: 0, new, target })?)
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        Ok(self.0.read_link(ino.0)?)
    }

    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        Ok(self.sound()?.link(ino.0, parent.0, name)?)
    }

    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        Ok(self.sound()?.unlink(parent.0, name)?)
    }

    fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        Ok(self.sound()?.rmdir(parent.0, name)?)
    }

    fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), how: Renaming<'_>) -> Result<()> {
        Ok(self.sound()?.rename((from.0.0, from.1), (to.0.0, to.1), how)?)
    }

    fn readdir(&self, ino: Ino, cursor: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        Ok(self.0.read_dir(ino.0, cursor, sink)?)
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        Ok(self.0.get_attr(ino.0)?)
    }

    fn setattr(&self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let volume = self.sound()?;
        let inode = self.inode(ino)?;
        let mut loaded = volume.changing(inode)?;
        if set.size.is_some() {
            Volume::check_regular(&loaded)?;
        }
        if *set != SetAttr::default() {
            volume.set_attributes(&mut loaded, set)?;
        }
        Ok(inode.attr(&loaded)?)
    }

    fn birth_time(&self, ino: Ino) -> Result<Option<Timestamp>> {
        let inode = self.inode(ino)?;
        drop(self.0.reading(inode)?);
        let raw: RawInode = self.0.region.read(inode.offset).map_err(Error::from)?;
        Ok(Some(unpack(raw.created)))
    }

    fn accessed(&self, ino: Ino) -> Result<()> {
        Ok(self.0.note_access(self.inode(ino)?)?)
    }

    fn open(&self, ino: Ino, _flags: OpenFlags) -> Result<()> {
        let inode = self.inode(ino)?;
        if inode.opens.add() {
            return Ok(());
        }
        let loaded = self.0.changing(inode)?;
        if loaded.facts.links == 0 && !inode.opens.is_open() {
            return Err(Errno::ENOENT);
        }
        inode.opens.add_locked();
        Ok(())
    }

    fn release(&self, ino: Ino) {
        let Ok(inode) = self.inode(ino) else { return };
        if inode.opens.remove().frees {
            self.0.reap(inode);
        }
    }

    fn tmpfile(&self, new: &NewInode) -> Result<Attr> {
        Ok(self.sound()?.make_nameless(new)?)
    }

    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8], _flags: IoFlags) -> Result<usize> {
        let loaded = self.0.reading(self.inode(ino)?)?;
        Volume::check_regular(&loaded)?;
        Ok(self.0.read_file(ino.0, &loaded, offset, buffer)?)
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], flags: IoFlags) -> Result<Written> {
        let volume = self.sound()?;
        let mut file = volume.changing(self.inode(ino)?)?;
        Volume::check_regular(&file)?;
        let offset = if flags.contains(IoFlags::APPEND) { file.facts.size } else { offset };
        let bytes = volume.write_file(&mut file, offset, data)?;
        Ok(Written { offset, bytes })
    }

    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64) -> Result<()> {
        mode.check(len)?;
        let volume = self.sound()?;
        let mut file = volume.changing(self.inode(ino)?)?;
        Volume::check_regular(&file)?;
        PROMISES.check_reserving(mode)?;
        Ok(volume.fallocate(&mut file, mode, ByteRun::new(offset, len))?)
    }

    fn seek(&self, ino: Ino, offset: u64, to: SeekTo) -> Result<u64> {
        let loaded = self.0.reading(self.inode(ino)?)?;
        Volume::check_regular(&loaded)?;
        Ok(Volume::seek_file(&loaded, offset, to)?)
    }

    /// Nothing is left to do but for what mappings have stored: what has returned is durable. What is open need not be looked at,
    /// as in `nova_fsync`.
    fn fsync(&self, ino: Ino, _data_only: bool) -> Result<()> {
        if self.0.maps.has_dirty(ino.0) {
            self.0.flush_mapped(ino.0, WHOLE_FILE)?;
        }
        let inode = self.inode(ino)?;
        if !inode.opens.is_open() {
            drop(self.0.reading(inode)?);
        }
        Ok(self.0.check_sound()?)
    }

    fn mapped_files(&self) -> Option<&dyn MappedFiles> {
        Some(self)
    }

    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        Ok(self.0.get_attribute(ino.0, name)?)
    }

    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let volume = self.sound()?;
        Ok(volume.set_attribute(&mut volume.changing(self.inode(ino)?)?, (name, value), mode)?)
    }

    fn listxattr(&self, ino: Ino) -> Result<Vec<u8>> {
        Ok(self.0.list_attributes(ino.0)?)
    }

    fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        let volume = self.sound()?;
        Ok(volume.remove_attribute(&mut volume.changing(self.inode(ino)?)?, name)?)
    }
}
