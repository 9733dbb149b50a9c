//! A process: descriptors, working directory, umask and credentials, and the system calls on a [`Mount`].
//!
//! | module | holds |
//! |---|---|
//! | `mod.rs` | [`Process`], and [`Syscalls`] in terms of the rest |
//! | `open.rs` | `open` and its flags, `dup` |
//! | `io.rs` | reading, writing, offsets, sizes |
//! | `copying.rs` | copies between files |
//! | `locking.rs` | advisory locks |
//! | `mapping.rs` | mapped files |
//! | `names.rs` | calls that change names |
//! | `attributes.rs` | stat, chmod, chown, utimens, truncate, extended attributes |
//!
//! Every call is an operation of the ledger and charges one system-call entry and one `Work::CALL`. An `open`
//! that makes a file is booked as `create`.
//!
//! Threads share a process by reference. An open file has one offset, under a lock that a read or write at
//! the offset holds until it returns, so two reads never return the same bytes; `pread` and `pwrite` take no
//! lock here. A file that another thread closes during a call stays usable until the call returns.
//!
//! Lock order: `vfs.position`, then the claims of the dentry cache, then `vfs.attributes`, then the design's
//! locks. `vfs.locks` stands by itself.

mod attributes;
mod copying;
mod io;
mod locking;
mod mapping;
mod names;
mod open;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use sim::{LockClass, Op, Work};

use crate::attr::{Attr, DirEntry, FileExtent, FileKind, SetAttr, StatFs};
use crate::credentials::{Access, Credentials};
use crate::descriptors::Descriptors;
use crate::errno::{Errno, Result};
use crate::flags::{
    FallocateMode, IoFlags, MappingKind, OpenFlags, Protection, RenameFlags, Whence, XattrMode,
};
use crate::locks::{LockAction, LockOwner, range_of};
use crate::mapping::Mapping;
use crate::mount::Mount;
use crate::ops;
use crate::syscalls::{Fd, OFFSET_MAX, Syscalls, check_offset};
use crate::vnode::Vnode;
use crate::walk::{Reached, Walk};

pub(crate) static POSITION: LockClass = LockClass::new("vfs.position").under(&[]);

/// Limits of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open descriptors; one more is `EMFILE`.
    pub descriptors: u32,
    /// Size in bytes that a write or truncation may give a file; more is `EFBIG`.
    pub file_size: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { descriptors: 1 << 20, file_size: OFFSET_MAX }
    }
}

/// A process on a mounted file system.
pub struct Process {
    mount: Arc<Mount>,
    who: Credentials,
    limits: Limits,
    /// Held for one reference count, never over a yield.
    cwd: Mutex<Arc<Vnode>>,
    umask: AtomicU32,
    files: Descriptors<OpenFile>,
    /// Its number as a holder of locks; 0: none yet.
    lock_number: AtomicU64,
}

/// An open file description: what all duplicates of a descriptor share.
struct OpenFile {
    vnode: Arc<Vnode>,
    flags: OpenFlags,
    io: IoFlags,
    /// The offset of a file, the cursor of a directory.
    position: sim::Mutex<u64>,
    /// Its number as a holder of locks; 0: none yet.
    lock_number: AtomicU64,
}

impl OpenFile {
    fn new(vnode: Arc<Vnode>, flags: OpenFlags) -> Arc<Self> {
        let position = sim::Mutex::new(&POSITION, 0);
        // Its memory is in the price of `OPEN_FILE`.
        let _own = sim::ran::aside();
        Arc::new(Self { vnode, flags, io: flags.io(), position, lock_number: AtomicU64::new(0) })
    }

    /// `EBADF` for a descriptor that is only a reference.
    fn check_usable(&self) -> Result<()> {
        if self.flags.contains(OpenFlags::PATH) { Err(Errno::EBADF) } else { Ok(()) }
    }
}

impl Process {
    /// A process in the root directory, with umask 022.
    pub fn new(mount: Arc<Mount>, who: Credentials) -> Self {
        Self::with_limits(mount, who, Limits::default())
    }

    /// The same with limits.
    pub fn with_limits(mount: Arc<Mount>, who: Credentials, limits: Limits) -> Self {
        let cwd = Mutex::new(Arc::clone(mount.root()));
        let files = Descriptors::new(limits.descriptors);
        let (umask, lock_number) = (AtomicU32::new(0o022), AtomicU64::new(0));
        Self { mount, who, limits, cwd, umask, files, lock_number }
    }

    /// The mount that it works on.
    pub fn mount(&self) -> &Arc<Mount> {
        &self.mount
    }

    /// Who it is.
    pub fn credentials(&self) -> &Credentials {
        &self.who
    }

    /// Runs `call` on an open file.
    #[inline]
    fn with_file<T>(&self, fd: Fd, call: impl FnOnce(&OpenFile) -> Result<T>) -> Result<T> {
        let file = self.files.get(fd)?;
        let result = call(&file);
        self.put(file);
        result
    }

    /// Like [`Process::with_file`], for files that are more than a reference.
    #[inline]
    fn with_usable<T>(&self, fd: Fd, call: impl FnOnce(&OpenFile) -> Result<T>) -> Result<T> {
        self.with_file(fd, |file| file.check_usable().and_then(|()| call(file)))
    }

    /// Gives back a reference to an open file; the last one closes it.
    #[inline]
    fn put(&self, file: Arc<OpenFile>) {
        if let Some(file) = Descriptors::put(file) {
            end(&self.mount, file);
        }
    }

    fn walk<'a>(&'a self, path: &'a [u8]) -> Result<Walk<'a>> {
        Walk::new(&self.mount, &self.who, || Arc::clone(&self.cwd.lock()), path)
    }

    /// The vnode that a path leads to.
    fn resolve(&self, path: &[u8], follow: bool) -> Result<Reached> {
        self.walk(path)?.resolve(follow)
    }

    fn stat_by_design(&self, path: &[u8]) -> Option<Attr> {
        self.mount.stat_by_design(&self.who, || self.cwd.lock().ino, path)
    }

    fn check(&self, vnode: &Vnode, want: Access) -> Result<()> {
        self.who.check(&vnode.subject(), want)
    }

    fn umask(&self) -> u32 {
        self.umask.load(Relaxed)
    }
}

impl Drop for Process {
    /// Closes what is open, unless the run is over: then the design may not be called.
    fn drop(&mut self) {
        if !crate::run_is_over() {
            let open: Vec<_> = self.files.drain().collect();
            for file in open {
                self.mount.locks.closed(file.vnode.ino, &self.lock_number);
                self.put(file);
            }
        }
    }
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process")
            .field("who", &self.who)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// The last reference to an open file is gone.
fn end(mount: &Mount, file: OpenFile) {
    file.vnode.touch();
    mount.locks.released(file.vnode.ino, &file.lock_number);
    if !file.flags.contains(OpenFlags::PATH) {
        mount.file_system().release(file.vnode.ino);
    }
    drop(file);
    mount.reap();
}

impl Process {
    /// Begins a system call that may take space for this program's user.
    #[inline]
    fn enter(&self, op: Op) -> sim::ledger::OpGuard {
        let crate::Owner { uid, gid } = self.who.owner();
        sim::work_for(uid, gid);
        enter(op)
    }
}

/// Begins a system call.
#[inline]
fn enter(op: Op) -> sim::ledger::OpGuard {
    let guard = sim::op(op);
    sim::work(Work::SYSCALL, 1);
    sim::work(Work::CALL, 1);
    guard
}

impl Syscalls for Process {
    fn open(&self, path: &[u8], flags: OpenFlags, mode: u32) -> Result<Fd> {
        let may_create = flags.intersects(OpenFlags::CREATE | OpenFlags::TMPFILE);
        let op = self.enter(if may_create { Op::UNDECIDED } else { ops::OPEN });
        let opened = self.open_path(path, flags, mode);
        op.set_op(if matches!(opened, Ok((_, true))) { ops::CREATE } else { ops::OPEN });
        opened.map(|(fd, _)| fd)
    }

    fn close(&self, fd: Fd) -> Result<()> {
        let _op = self.enter(ops::CLOSE);
        let file = self.files.take(fd)?;
        self.mount.locks.closed(file.vnode.ino, &self.lock_number);
        self.put(file);
        Ok(())
    }

    fn dup(&self, fd: Fd) -> Result<Fd> {
        let _op = enter(ops::OPEN);
        self.dup_file(fd)
    }

    fn read(&self, fd: Fd, buffer: &mut [u8]) -> Result<usize> {
        let _op = enter(ops::READ);
        self.with_file(fd, |file| self.read_on(file, buffer))
    }

    fn write(&self, fd: Fd, data: &[u8]) -> Result<usize> {
        let _op = self.enter(ops::WRITE);
        self.with_file(fd, |file| self.write_on(file, data))
    }

    #[inline]
    fn pread(&self, fd: Fd, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let _op = enter(ops::READ);
        check_offset(offset)?;
        self.with_file(fd, |file| self.read_at(file, buffer, offset))
    }

    #[inline]
    fn pwrite(&self, fd: Fd, data: &[u8], offset: u64) -> Result<usize> {
        let _op = self.enter(ops::WRITE);
        check_offset(offset)?;
        self.with_file(fd, |file| self.write_at(file, data, offset)).map(|written| written.bytes)
    }

    fn lseek(&self, fd: Fd, offset: i64, whence: Whence) -> Result<u64> {
        let _op = enter(ops::SEEK);
        self.with_usable(fd, |file| self.seek(file, offset, whence))
    }

    fn fsync(&self, fd: Fd) -> Result<()> {
        let _op = self.enter(ops::FSYNC);
        self.with_usable(fd, |file| self.mount.file_system().fsync(file.vnode.ino, false))
    }

    fn fdatasync(&self, fd: Fd) -> Result<()> {
        let _op = self.enter(ops::FSYNC);
        self.with_usable(fd, |file| self.mount.file_system().fsync(file.vnode.ino, true))
    }

    fn fstat(&self, fd: Fd) -> Result<Attr> {
        let _op = enter(ops::STAT);
        self.with_file(fd, |file| self.mount.file_system().getattr(file.vnode.ino))
    }

    fn ftruncate(&self, fd: Fd, size: u64) -> Result<()> {
        let _op = self.enter(ops::TRUNCATE);
        check_offset(size)?;
        self.with_usable(fd, |file| self.truncate_file(file, size))
    }

    fn flock(&self, fd: Fd, action: LockAction) -> Result<()> {
        let _op = enter(ops::LOCK);
        self.with_usable(fd, |file| self.lock_file(file, action))
    }

    fn lock(&self, fd: Fd, action: LockAction, owner: LockOwner, offset: u64, len: u64) -> Result<()> {
        let _op = enter(ops::LOCK);
        check_offset(offset)?;
        self.with_usable(fd, |file| self.lock_range(file, action, owner, range_of(offset, len)?))
    }

    fn fsetattr(&self, fd: Fd, set: &SetAttr) -> Result<()> {
        let _op = self.enter(ops::SETATTR);
        self.with_usable(fd, |file| self.change_file(file, set))
    }

    fn fgetxattr(&self, fd: Fd, name: &[u8]) -> Result<Vec<u8>> {
        let _op = enter(ops::XATTR);
        self.with_usable(fd, |file| self.get_xattr(&file.vnode, name))
    }

    fn fsetxattr(&self, fd: Fd, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let _op = self.enter(ops::XATTR);
        self.with_usable(fd, |file| self.set_xattr(&file.vnode, name, value, mode))
    }

    fn flistxattr(&self, fd: Fd) -> Result<Vec<u8>> {
        let _op = enter(ops::XATTR);
        self.with_usable(fd, |file| self.list_xattr(&file.vnode))
    }

    fn fremovexattr(&self, fd: Fd, name: &[u8]) -> Result<()> {
        let _op = self.enter(ops::XATTR);
        self.with_usable(fd, |file| self.remove_xattr(&file.vnode, name))
    }

    fn copy_file_range(&self, from: (Fd, u64), to: (Fd, u64), len: u64) -> Result<u64> {
        let _op = self.enter(ops::WRITE);
        self.with_usable(from.0, |source| {
            self.with_usable(to.0, |target| self.copy((source, from.1), (target, to.1), len))
        })
    }

    fn clone_range(&self, from: (Fd, u64), to: (Fd, u64), len: u64) -> Result<()> {
        let _op = self.enter(ops::WRITE);
        self.with_usable(from.0, |source| {
            self.with_usable(to.0, |target| self.clone_blocks((source, from.1), (target, to.1), len))
        })
    }

    fn fallocate(&self, fd: Fd, mode: FallocateMode, offset: u64, len: u64) -> Result<()> {
        let _op = self.enter(ops::FALLOCATE);
        self.with_usable(fd, |file| self.allocate(file, mode, offset, len))
    }

    fn mmap_as(
        &self,
        fd: Fd,
        offset: u64,
        len: u64,
        protection: Protection,
        kind: MappingKind,
    ) -> Result<Box<dyn Mapping>> {
        let _op = self.enter(ops::MMAP);
        self.map_file(fd, (offset, len), protection, kind)
    }

    fn getdents(&self, fd: Fd, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let _op = enter(ops::READDIR);
        self.with_usable(fd, |file| self.read_entries(file, sink))
    }

    fn stat(&self, path: &[u8]) -> Result<Attr> {
        let _op = enter(ops::STAT);
        if let Some(attr) = self.stat_by_design(path).filter(|attr| attr.kind != FileKind::Symlink) {
            return Ok(attr);
        }
        self.mount.file_system().getattr(self.resolve(path, true)?.ino)
    }

    fn lstat(&self, path: &[u8]) -> Result<Attr> {
        let _op = enter(ops::STAT);
        if let Some(attr) = self.stat_by_design(path) {
            return Ok(attr);
        }
        self.mount.file_system().getattr(self.resolve(path, false)?.ino)
    }

    fn mkdir(&self, path: &[u8], mode: u32) -> Result<()> {
        let _op = self.enter(ops::MKDIR);
        self.make_directory(path, mode)
    }

    fn rmdir(&self, path: &[u8]) -> Result<()> {
        let _op = self.enter(ops::RMDIR);
        self.remove_directory(path)
    }

    fn mknod(&self, path: &[u8], kind: FileKind, mode: u32, rdev: u64) -> Result<()> {
        let _op = self.enter(ops::MKNOD);
        self.make_node(path, kind, mode, rdev)
    }

    fn unlink(&self, path: &[u8]) -> Result<()> {
        let _op = self.enter(ops::UNLINK);
        self.remove_file(path)
    }

    fn rename(&self, from: &[u8], to: &[u8], flags: RenameFlags) -> Result<()> {
        let _op = self.enter(ops::RENAME);
        self.rename_paths(from, to, flags)
    }

    fn link(&self, from: &[u8], to: &[u8]) -> Result<()> {
        let _op = self.enter(ops::LINK);
        self.add_name(from, to)
    }

    fn symlink(&self, target: &[u8], path: &[u8]) -> Result<()> {
        let _op = self.enter(ops::SYMLINK);
        self.make_symlink(target, path)
    }

    fn readlink(&self, path: &[u8]) -> Result<Vec<u8>> {
        let _op = enter(ops::READLINK);
        self.read_link(path)
    }

    fn truncate(&self, path: &[u8], size: u64) -> Result<()> {
        let _op = self.enter(ops::TRUNCATE);
        self.truncate_path(path, size)
    }

    fn setattr(&self, path: &[u8], set: &SetAttr) -> Result<()> {
        let _op = self.enter(ops::SETATTR);
        self.change_attributes(&*self.resolve(path, true)?, set)
    }

    fn lsetattr(&self, path: &[u8], set: &SetAttr) -> Result<()> {
        let _op = self.enter(ops::SETATTR);
        self.change_link(&*self.resolve(path, false)?, set)
    }

    fn getxattr(&self, path: &[u8], name: &[u8]) -> Result<Vec<u8>> {
        let _op = enter(ops::XATTR);
        self.get_xattr(&*self.resolve_named(path, name)?, name)
    }

    fn setxattr(&self, path: &[u8], name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let _op = self.enter(ops::XATTR);
        self.set_xattr(&*self.resolve_named(path, name)?, name, value, mode)
    }

    fn listxattr(&self, path: &[u8]) -> Result<Vec<u8>> {
        let _op = enter(ops::XATTR);
        self.list_xattr(&*self.resolve(path, true)?)
    }

    fn removexattr(&self, path: &[u8], name: &[u8]) -> Result<()> {
        let _op = self.enter(ops::XATTR);
        self.remove_xattr(&*self.resolve_named(path, name)?, name)
    }

    fn chdir(&self, path: &[u8]) -> Result<()> {
        let _op = self.enter(ops::STAT);
        self.change_directory(path)
    }

    fn umask(&self, mask: u32) -> u32 {
        self.umask.swap(mask & 0o777, Relaxed)
    }

    fn sync(&self) -> Result<()> {
        let _op = self.enter(ops::SYNC);
        self.mount.reap();
        self.mount.file_system().sync()
    }

    fn statfs(&self, path: &[u8]) -> Result<StatFs> {
        let _op = enter(ops::STATFS);
        let _reached = self.resolve(path, true)?;
        self.mount.file_system().statfs()
    }
    fn drop_caches(&self) -> Result<()> {
        let _op = self.enter(ops::SYNC);
        self.mount.drop_cached_names();
        self.mount.file_system().drop_caches()
    }

    fn extents(&self, fd: Fd) -> Result<Vec<FileExtent>> {
        let _op = enter(ops::STAT);
        self.with_usable(fd, |file| self.mount.file_system().extents(file.vnode.ino))
    }
}
