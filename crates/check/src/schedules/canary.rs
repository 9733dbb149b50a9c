//! A design with a race, for tests of the tests.

use std::sync::Arc;

use media::nvmm::Region;
use sim::Bytes;
use vfs::{
    Attr, DirEntry, FallocateMode, FileKind, FileSystem, Ino, IoFlags, NewInode, OpenFlags, RenameFlags,
    Result, SetAttr, StatFs, Written,
};

use crate::design::Design;

/// Like `design`, but an append first asks for the size and then writes there: another may have appended in between.
pub fn torn_append(design: Arc<dyn Design>) -> Arc<dyn Design> {
    Arc::new(Torn(design))
}

struct Torn(Arc<dyn Design>);

impl Design for Torn {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn arguments(&self) -> String {
        self.0.arguments()
    }

    fn min_size(&self) -> Bytes {
        self.0.min_size()
    }

    fn mkfs(&self, region: &Arc<Region>) -> std::result::Result<(), String> {
        self.0.mkfs(region)
    }

    fn mount(&self, region: &Arc<Region>) -> std::result::Result<Arc<dyn FileSystem>, String> {
        self.0.mount(region).map(|fs| -> Arc<dyn FileSystem> { Arc::new(TornFs(fs)) })
    }

    fn recover(&self, region: &Arc<Region>) -> std::result::Result<(), String> {
        self.0.recover(region)
    }

    fn fsck(&self, region: &Region) -> Vec<String> {
        self.0.fsck(region)
    }
}

/// Hands every call on, but for an append.
struct TornFs(Arc<dyn FileSystem>);

impl FileSystem for TornFs {
    fn write(&self, ino: Ino, offset: u64, data: &[u8], flags: IoFlags) -> Result<Written> {
        if !flags.contains(IoFlags::APPEND) {
            return self.0.write(ino, offset, data, flags);
        }
        let size = self.0.getattr(ino)?.size;
        sim::interact();
        self.0.write(ino, size, data, flags - IoFlags::APPEND)
    }

    fn root(&self) -> Ino {
        self.0.root()
    }

    fn statfs(&self) -> Result<StatFs> {
        self.0.statfs()
    }

    fn sync(&self) -> Result<()> {
        self.0.sync()
    }

    fn unmount(&self) -> Result<()> {
        self.0.unmount()
    }

    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.0.lookup(parent, name)
    }

    fn create(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.0.create(parent, name, new)
    }

    fn mkdir(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.0.mkdir(parent, name, new)
    }

    fn mknod(&self, parent: Ino, name: &[u8], kind: FileKind, rdev: u64, new: &NewInode) -> Result<Attr> {
        self.0.mknod(parent, name, kind, rdev, new)
    }

    fn symlink(&self, parent: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Attr> {
        self.0.symlink(parent, name, target, new)
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        self.0.readlink(ino)
    }

    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.0.link(ino, parent, name)
    }

    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.0.unlink(parent, name)
    }

    fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.0.rmdir(parent, name)
    }

    fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), flags: RenameFlags) -> Result<()> {
        self.0.rename(from, to, flags)
    }

    fn readdir(&self, ino: Ino, cursor: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        self.0.readdir(ino, cursor, sink)
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.0.getattr(ino)
    }

    fn setattr(&self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        self.0.setattr(ino, set)
    }

    fn open(&self, ino: Ino, flags: OpenFlags) -> Result<()> {
        self.0.open(ino, flags)
    }

    fn release(&self, ino: Ino) {
        self.0.release(ino);
    }

    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8], flags: IoFlags) -> Result<usize> {
        self.0.read(ino, offset, buffer, flags)
    }

    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64) -> Result<()> {
        self.0.fallocate(ino, mode, offset, len)
    }

    fn fsync(&self, ino: Ino, data_only: bool) -> Result<()> {
        self.0.fsync(ino, data_only)
    }
}
