//! The adapter from [`FileSystem`] to the design: locks an inode, calls the design, translates errors. Extended attributes,
//! fallocate, files without a name, devices and exchanges the format does not have.

use std::sync::Arc;

use base::dax::WHOLE_FILE;
use base::error::{Error, Result as DesignResult};
use vfs::{
    Attr, DirEntry, Errno, FileKind, FileSystem, Ino, IoFlags, MappedFiles, NewInode, OpenFlags, RenameFlags,
    Renaming, Result, SeekTo, SetAttr, StatFs, Written,
};

use crate::Volume;
use crate::inode::State;
use crate::layout::{FILE, NAME_MAX, PAGE, ROOT, SYMLINK, TARGET_MAX};
use crate::namei::Node;

/// A mounted file system.
pub(crate) struct Mounted(pub(crate) Arc<Volume>);

/// Refuses a name that the format has no room for.
fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_MAX { Err(Errno::ENAMETOOLONG) } else { Ok(()) }
}

/// Refuses what is no regular file.
fn check_regular(state: &State) -> DesignResult<()> {
    match state.raw.kind {
        FILE => Ok(()),
        _ if state.raw.is_dir() => Err(Error::IsDirectory),
        _ => Err(Error::Invalid("not a regular file")),
    }
}

impl FileSystem for Mounted {
    fn root(&self) -> Ino {
        Ino(ROOT)
    }

    fn statfs(&self) -> Result<StatFs> {
        Ok(StatFs {
            frsize: PAGE as u32,
            blocks: self.0.layout.pages,
            blocks_free: self.0.pages.free(),
            files: self.0.layout.inodes - 1,
            files_free: self.0.numbers.free(),
            name_max: NAME_MAX as u32,
        })
    }

    fn sync(&self) -> Result<()> {
        self.0.flush_all_mapped()?;
        Ok(self.0.check_sound()?)
    }

    fn unmount(&self) -> Result<()> {
        self.0.flush_all_mapped()?;
        Ok(self.0.end()?)
    }

    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        check_name(name)?;
        self.getattr(Ino(self.0.lookup_name(parent.0, name)?))
    }

    fn create(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.mknod(parent, name, FileKind::Regular, 0, new)
    }

    fn mkdir(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.mknod(parent, name, FileKind::Directory, 0, new)
    }

    fn mknod(&self, parent: Ino, name: &[u8], kind: FileKind, _rdev: u64, new: &NewInode) -> Result<Attr> {
        check_name(name)?;
        if !matches!(kind, FileKind::Regular | FileKind::Directory) {
            return Err(Errno::EOPNOTSUPP);
        }
        self.0.check_sound()?;
        Ok(self.0.make(parent.0, name, Node { kind, new, target: &[] })?)
    }

    fn symlink(&self, parent: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Attr> {
        check_name(name)?;
        if target.len() > TARGET_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        self.0.check_sound()?;
        Ok(self.0.make(parent.0, name, Node { kind: FileKind::Symlink, new, target })?)
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        let inode = self.0.inodes.get(ino.0)?;
        let state = inode.state.read();
        inode.check_usable(&state)?;
        if state.raw.kind != SYMLINK {
            return Err(Errno::EINVAL);
        }
        let mut target = sim::ran::zeroed(state.raw.size.min(PAGE) as usize);
        self.0.read_file(inode, state.raw.size, 0, &mut target)?;
        Ok(target)
    }

    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        check_name(name)?;
        self.0.check_sound()?;
        Ok(self.0.link(ino.0, parent.0, name)?)
    }

    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        check_name(name)?;
        self.0.check_sound()?;
        Ok(self.0.unlink(parent.0, name)?)
    }

    fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        check_name(name)?;
        self.0.check_sound()?;
        Ok(self.0.rmdir(parent.0, name)?)
    }

    fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), how: Renaming<'_>) -> Result<()> {
        check_name(from.1).and_then(|()| check_name(to.1))?;
        if how.flags.contains(RenameFlags::EXCHANGE) || how.whiteout.is_some() {
            return Err(Errno::EINVAL);
        }
        self.0.check_sound()?;
        Ok(self.0.rename((from.0.0, from.1), (to.0.0, to.1), how.flags)?)
    }

    fn readdir(&self, ino: Ino, cursor: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let mut give = |name: &[u8], ino, next| sink(DirEntry { ino: Ino(ino), kind: None, name, next });
        Ok(self.0.read_dir(ino.0, cursor, &mut give)?)
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        let inode = self.0.inodes.get(ino.0)?;
        let state = inode.state.read();
        inode.check_usable(&state)?;
        Ok(inode.attr(&state)?)
    }

    fn setattr(&self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        self.0.check_sound()?;
        let inode = self.0.inodes.get(ino.0)?;
        let mut state = inode.state.write();
        inode.check_usable(&state)?;
        if let Some(size) = set.size {
            check_regular(&state)?;
            self.0.set_size(inode, &mut state, size)?;
        }
        if (SetAttr { size: None, ..*set }) != SetAttr::default() {
            self.0.set_fields(inode, &mut state, set)?;
        }
        Ok(inode.attr(&state)?)
    }

    fn accessed(&self, ino: Ino) -> Result<()> {
        self.0.check_sound()?;
        let inode = self.0.inodes.get(ino.0)?;
        let mut state = inode.state.write();
        inode.check_usable(&state)?;
        Ok(self.0.set_accessed(inode, &mut state)?)
    }

    fn open(&self, ino: Ino, _: OpenFlags) -> Result<()> {
        Ok(self.0.inodes.get(ino.0)?.open()?)
    }

    fn release(&self, ino: Ino) {
        let Ok(inode) = self.0.inodes.get(ino.0) else { return };
        if inode.opens.remove().frees {
            // What cannot be freed now the next mount frees, which no change of this one comes before.
            let _ = self.0.reap(inode);
        }
    }

    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8], _: IoFlags) -> Result<usize> {
        let inode = self.0.inodes.get(ino.0)?;
        let state = inode.state.read();
        inode.check_usable(&state)?;
        check_regular(&state)?;
        Ok(self.0.read_file(inode, state.raw.size, offset, buffer)?)
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], flags: IoFlags) -> Result<Written> {
        self.0.check_sound()?;
        let inode = self.0.inodes.get(ino.0)?;
        let mut state = inode.state.write();
        inode.check_usable(&state)?;
        check_regular(&state)?;
        let offset = if flags.contains(IoFlags::APPEND) { state.raw.size } else { offset };
        let bytes = self.0.write_file(inode, &mut state, offset, data)?;
        Ok(Written { offset, bytes })
    }

    fn seek(&self, ino: Ino, offset: u64, to: SeekTo) -> Result<u64> {
        let inode = self.0.inodes.get(ino.0)?;
        let state = inode.state.read();
        inode.check_usable(&state)?;
        check_regular(&state)?;
        to.without_holes(state.raw.size, offset)
    }

    /// Every call was durable when it returned: only what mappings have stored is left.
    fn fsync(&self, ino: Ino, _: bool) -> Result<()> {
        let inode = self.0.inodes.get(ino.0)?;
        inode.check_usable(&inode.state.read())?;
        if self.0.maps.has_dirty(ino.0) {
            self.0.flush_mapped(ino.0, WHOLE_FILE)?;
        }
        Ok(self.0.check_sound()?)
    }

    fn mapped_files(&self) -> Option<&dyn MappedFiles> {
        Some(self)
    }
}
