//! The front end's part of calls: a file system whose own work is in no tally, under `vfs`.

use std::sync::Arc;

use sim::ran::{Tally, aside};
use vfs::{
    Attr, Credentials, DirEntry, Fd, FileKind, FileSystem, Ino, IoFlags, LockAction, LockKind, Mount,
    MountOptions, NewInode, OpenFlags, Process, RenameFlags, Renaming, Result, SetAttr, StatFs, Syscalls,
    Whence, Written, XattrMode,
};

use super::{LeftOut, Seen, leaving_out, on_design};

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

/// The calls of a program on a design, each without what the design does.
pub(super) fn calls_above(name: &'static str, rounds: u64, left_out: LeftOut) -> Vec<Seen> {
    on_design(name, move |fs| {
        let mount = Mount::new(Arc::new(Aside(fs)), MountOptions::default()).expect("mount");
        let process = Process::new(Arc::clone(&mount), Credentials::root());
        let mut program = Program { process: &process, seen: Vec::new() };
        leaving_out(left_out, || (0..rounds).for_each(|round| program.round(round)));
        let seen = program.seen;
        drop(process);
        mount.unmount().expect("unmount");
        seen
    })
}

struct Program<'a> {
    process: &'a Process,
    seen: Vec<Seen>,
}

impl Program<'_> {
    fn call<T>(&mut self, name: &'static str, body: impl FnOnce(&Process) -> Result<T>) -> T {
        let before = Tally::of_task();
        let value = body(self.process);
        self.seen.push((name, Tally::of_task().since(&before)));
        value.unwrap_or_else(|errno| panic!("{name}: {errno}"))
    }

    /// One of each call; in every other round no name is cached.
    fn round(&mut self, round: u64) {
        let path =
            |kind: &str| format!("/{kind}, whose name is longer than thirty bytes, {round}").into_bytes();
        let (dir, other, link, symlink) = (path("dir"), path("other"), path("link"), path("symlink"));
        let file = [&dir[..], b"/file"].concat();
        let forgets = |program: &mut Self| {
            if round.is_multiple_of(2) {
                program.call("drop_caches", Syscalls::drop_caches);
            }
        };
        self.call("mkdir", |process| process.mkdir(&dir, 0o755));
        let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREATE;
        let fd = self.call("create", |process| process.open(&file, flags, 0o644));
        self.contents(fd);
        self.call("close", |process| process.close(fd));
        forgets(self);
        self.call("stat", |process| process.stat(&file));
        self.call("truncate", |process| process.truncate(&file, 100));
        self.call("link", |process| process.link(&file, &link));
        self.call("symlink", |process| process.symlink(&file, &symlink));
        self.call("readlink", |process| process.readlink(&symlink));
        self.call("stat through a link", |process| process.stat(&symlink));
        self.call("setxattr", |process| process.setxattr(&file, b"user.a", b"value", XattrMode::Set));
        self.call("getxattr", |process| process.getxattr(&file, b"user.a"));
        self.call("listxattr", |process| process.listxattr(&file));
        self.call("rename", |process| process.rename(&file, &other, RenameFlags::empty()));
        self.listing();
        forgets(self);
        self.removals([&link, &symlink], &other, &dir);
    }

    fn contents(&mut self, fd: Fd) {
        let (data, mut buffer) = (vec![7; 5000], vec![0; 4096]);
        self.call("write", |process| process.write(fd, &data));
        self.call("append", |process| process.write(fd, &data));
        self.call("overwrite", |process| process.pwrite(fd, &data, 100));
        self.call("read", |process| process.pread(fd, &mut buffer, 0));
        self.call("lseek", |process| process.lseek(fd, 0, Whence::Set));
        self.call("fstat", |process| process.fstat(fd));
        self.call("fsync", |process| process.fsync(fd));
        self.call("ftruncate", |process| process.ftruncate(fd, 4000));
        self.call("flock", |process| process.flock(fd, LockAction::Try(LockKind::Exclusive)));
        let second = self.call("dup", |process| process.dup(fd));
        self.call("close", |process| process.close(second));
    }

    fn listing(&mut self) {
        let root = self.call("open", |process| process.open(b"/", OpenFlags::READ, 0));
        self.call("readdir", |process| process.getdents(root, &mut |_| true));
        self.call("close", |process| process.close(root));
        self.call("statfs", |process| process.statfs(b"/"));
    }

    /// A file loses its last name while it is open, too.
    fn removals(&mut self, names: [&[u8]; 2], last: &[u8], dir: &[u8]) {
        for name in names {
            self.call("unlink", |process| process.unlink(name));
        }
        let fd = self.call("open", |process| process.open(last, OpenFlags::READ, 0));
        self.call("unlink of an open file", |process| process.unlink(last));
        self.call("close", |process| process.close(fd));
        self.call("rmdir", |process| process.rmdir(dir));
    }
}
