//! Designs with a planted flaw that a check must find.

use std::sync::Arc;

use media::nvmm::Region;
use vfs::{
    Attr, DirEntry, Errno, FallocateMode, FileKind, FileSystem, Ino, IoFlags, NewInode, OpenFlags, Renaming,
    Result, SetAttr, StatFs, Written, XattrMode,
};

use crate::configured::{Altered, Configured, Sound};

/// What is wrong with a design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// An append asks for the size and then writes there, so that another append can come in between.
    TornAppend,
    /// Removals, renames, writes and syncs report success although the medium has failed, and lists of directories end there.
    HiddenFailures,
    /// The value 1 in the 8-byte word at this offset makes fsck panic.
    PanicAt(u64),
    /// The value 1 in the 8-byte word at this offset makes mounting read for ever.
    LoopAt(u64),
}

/// Like `design`, with a flaw.
pub fn flawed(design: &Configured, flaw: Flaw) -> Arc<Configured> {
    Arc::new(design.altered(flaw))
}

fn is_one(region: &Region, offset: u64) -> bool {
    region.load_u64(offset) == Ok(1)
}

impl Altered for Flaw {
    fn mount(&self, sound: &Sound, region: &Arc<Region>) -> std::result::Result<Arc<dyn FileSystem>, String> {
        while matches!(*self, Self::LoopAt(offset) if is_one(region, offset)) {}
        let fs = sound.mount(region)?;
        Ok(Arc::new(FlawedFs { fs, flaw: *self }))
    }

    fn fsck(&self, sound: &Sound, region: &Arc<Region>) -> Vec<String> {
        if let Self::PanicAt(offset) = *self {
            assert!(!is_one(region, offset), "the word at {offset} is 1");
        }
        sound.fsck(region)
    }
}

/// Passes every call on, except for what the flaw changes.
struct FlawedFs {
    fs: Arc<dyn FileSystem>,
    flaw: Flaw,
}

impl FlawedFs {
    /// The answer of a call that may be hidden, and what is claimed instead.
    fn said<T>(&self, answer: Result<T>, claimed: T) -> Result<T> {
        let hides = self.flaw == Flaw::HiddenFailures && answer.as_ref().err() == Some(&Errno::EIO);
        if hides { Ok(claimed) } else { answer }
    }
}

impl FileSystem for FlawedFs {
    fn write(&self, ino: Ino, offset: u64, data: &[u8], flags: IoFlags) -> Result<Written> {
        if self.flaw == Flaw::TornAppend && flags.contains(IoFlags::APPEND) {
            let size = self.fs.getattr(ino)?.size;
            sim::interact();
            return self.fs.write(ino, size, data, flags - IoFlags::APPEND);
        }
        self.said(self.fs.write(ino, offset, data, flags), Written { offset, bytes: data.len() })
    }

    fn root(&self) -> Ino {
        self.fs.root()
    }

    fn statfs(&self) -> Result<StatFs> {
        self.fs.statfs()
    }

    fn sync(&self) -> Result<()> {
        self.said(self.fs.sync(), ())
    }

    fn unmount(&self) -> Result<()> {
        self.fs.unmount()
    }

    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.fs.lookup(parent, name)
    }

    fn create(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.fs.create(parent, name, new)
    }

    fn mkdir(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.fs.mkdir(parent, name, new)
    }

    fn mknod(&self, parent: Ino, name: &[u8], kind: FileKind, rdev: u64, new: &NewInode) -> Result<Attr> {
        self.fs.mknod(parent, name, kind, rdev, new)
    }

    fn symlink(&self, parent: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Attr> {
        self.fs.symlink(parent, name, target, new)
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        self.fs.readlink(ino)
    }

    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.fs.link(ino, parent, name)
    }

    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.said(self.fs.unlink(parent, name), ())
    }

    fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.said(self.fs.rmdir(parent, name), ())
    }

    fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), how: Renaming<'_>) -> Result<()> {
        self.said(self.fs.rename(from, to, how), ())
    }

    fn readdir(&self, ino: Ino, cursor: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        self.said(self.fs.readdir(ino, cursor, sink), ())
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.fs.getattr(ino)
    }

    fn setattr(&self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        self.fs.setattr(ino, set)
    }

    fn open(&self, ino: Ino, flags: OpenFlags) -> Result<()> {
        self.fs.open(ino, flags)
    }

    fn release(&self, ino: Ino) {
        self.fs.release(ino);
    }

    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8], flags: IoFlags) -> Result<usize> {
        self.fs.read(ino, offset, buffer, flags)
    }

    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64) -> Result<()> {
        self.fs.fallocate(ino, mode, offset, len)
    }

    fn fsync(&self, ino: Ino, data_only: bool) -> Result<()> {
        self.said(self.fs.fsync(ino, data_only), ())
    }

    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.fs.getxattr(ino, name)
    }

    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.fs.setxattr(ino, name, value, mode)
    }

    fn listxattr(&self, ino: Ino) -> Result<Vec<u8>> {
        self.fs.listxattr(ino)
    }

    fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        self.fs.removexattr(ino, name)
    }
}
