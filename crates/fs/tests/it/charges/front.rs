//! The front end's part of calls: a file system whose own work is in no tally, under `vfs`.

use std::sync::Arc;

use sim::ran::aside;
use vfs::{
    Attr, DirEntry, FileKind, FileSystem, Ino, IoFlags, NewInode, OpenFlags, Renaming, Result, SetAttr,
    StatFs, Written, XattrMode,
};

/// A design whose work is not counted.
pub(super) struct Aside(pub(super) Arc<dyn FileSystem>);

/// Calls of a trait that are passed on, without a tally of what they do.
macro_rules! passed_on {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(fn $name(&self, $($argument: $kind),*) -> $result {
            let _design = aside();
            self.0.$name($($argument),*)
        })*
    };
}

impl FileSystem for Aside {
    passed_on! {
        fn root() -> Ino;
        fn statfs() -> Result<StatFs>;
        fn sync() -> Result<()>;
        fn unmount() -> Result<()>;
        fn lookup(parent: Ino, name: &[u8]) -> Result<Attr>;
        fn create(parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr>;
        fn mkdir(parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr>;
        fn mknod(parent: Ino, name: &[u8], kind: FileKind, rdev: u64, new: &NewInode) -> Result<Attr>;
        fn symlink(parent: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Attr>;
        fn readlink(ino: Ino) -> Result<Vec<u8>>;
        fn link(ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr>;
        fn unlink(parent: Ino, name: &[u8]) -> Result<()>;
        fn rmdir(parent: Ino, name: &[u8]) -> Result<()>;
        fn rename(from: (Ino, &[u8]), to: (Ino, &[u8]), how: Renaming<'_>) -> Result<()>;
        fn readdir(ino: Ino, cursor: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()>;
        fn getattr(ino: Ino) -> Result<Attr>;
        fn setattr(ino: Ino, set: &SetAttr) -> Result<Attr>;
        fn accessed(ino: Ino) -> Result<()>;
        fn open(ino: Ino, flags: OpenFlags) -> Result<()>;
        fn release(ino: Ino) -> ();
        fn read(ino: Ino, offset: u64, buffer: &mut [u8], flags: IoFlags) -> Result<usize>;
        fn write(ino: Ino, offset: u64, data: &[u8], flags: IoFlags) -> Result<Written>;
        fn fsync(ino: Ino, data_only: bool) -> Result<()>;
        fn getxattr(ino: Ino, name: &[u8]) -> Result<Vec<u8>>;
        fn setxattr(ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()>;
        fn listxattr(ino: Ino) -> Result<Vec<u8>>;
    }
}
