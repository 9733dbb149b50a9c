//! System calls on a directory of the host, each noted with its path and what became of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use vfs::{
    Attr, DirEntry, Errno, FallocateMode, Fd, FileKind, Host, LockAction, LockOwner, OpenFlags, RenameFlags,
    Result, SetAttr, StatFs, Syscalls, Whence, XattrMode,
};

/// Calls in the order in which they ended: `open clients/f`, `stat clients/g = ENOENT`.
pub(crate) type Log = Arc<Mutex<Vec<String>>>;

/// The calls of one process.
pub(crate) struct Logged {
    inner: Host,
    log: Log,
    /// What open descriptors lead to.
    open: Mutex<BTreeMap<Fd, String>>,
}

impl Logged {
    pub(crate) fn on(directory: &Path, log: &Log) -> Arc<dyn Syscalls> {
        let inner = Host::new(directory).unwrap();
        Arc::new(Self { inner, log: Arc::clone(log), open: Mutex::default() })
    }

    fn note<T>(&self, call: &str, path: &str, result: Result<T>) -> Result<T> {
        let error = result.as_ref().err().map(|errno| format!(" = {}", errno.name()));
        self.log.lock().unwrap().push(format!("{call} {path}{}", error.unwrap_or_default()));
        result
    }

    fn on_path<T>(&self, call: &str, path: &[u8], result: Result<T>) -> Result<T> {
        self.note(call, &String::from_utf8_lossy(path), result)
    }

    fn on_file<T>(&self, call: &str, fd: Fd, result: Result<T>) -> Result<T> {
        let path = self.open.lock().unwrap().get(&fd).cloned().unwrap_or_default();
        self.note(call, &path, result)
    }
}

impl Syscalls for Logged {
    fn open(&self, path: &[u8], flags: OpenFlags, mode: u32) -> Result<Fd> {
        let opened = self.on_path("open", path, self.inner.open(path, flags, mode))?;
        self.open.lock().unwrap().insert(opened, String::from_utf8_lossy(path).into_owned());
        Ok(opened)
    }
    fn close(&self, fd: Fd) -> Result<()> {
        self.on_file("close", fd, self.inner.close(fd))
    }
    fn dup(&self, _fd: Fd) -> Result<Fd> {
        Err(Errno::ENOSYS)
    }
    fn read(&self, fd: Fd, buffer: &mut [u8]) -> Result<usize> {
        self.on_file("read", fd, self.inner.read(fd, buffer))
    }
    fn write(&self, fd: Fd, data: &[u8]) -> Result<usize> {
        self.on_file(&format!("write {}", data.len()), fd, self.inner.write(fd, data))
    }
    fn pread(&self, fd: Fd, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let call = format!("pread {} {offset}", buffer.len());
        self.on_file(&call, fd, self.inner.pread(fd, buffer, offset))
    }
    fn pwrite(&self, fd: Fd, data: &[u8], offset: u64) -> Result<usize> {
        self.on_file(&format!("pwrite {} {offset}", data.len()), fd, self.inner.pwrite(fd, data, offset))
    }
    fn lseek(&self, fd: Fd, offset: i64, whence: Whence) -> Result<u64> {
        self.on_file("lseek", fd, self.inner.lseek(fd, offset, whence))
    }
    fn fsync(&self, fd: Fd) -> Result<()> {
        self.on_file("fsync", fd, self.inner.fsync(fd))
    }
    fn fdatasync(&self, fd: Fd) -> Result<()> {
        self.on_file("fdatasync", fd, self.inner.fdatasync(fd))
    }
    fn fstat(&self, fd: Fd) -> Result<Attr> {
        self.on_file("fstat", fd, self.inner.fstat(fd))
    }
    fn ftruncate(&self, fd: Fd, size: u64) -> Result<()> {
        self.on_file("ftruncate", fd, self.inner.ftruncate(fd, size))
    }
    fn lock(&self, fd: Fd, action: LockAction, owner: LockOwner, offset: u64, len: u64) -> Result<()> {
        let call = if action == LockAction::Release { "unlock" } else { "lock" };
        self.on_file(call, fd, self.inner.lock(fd, action, owner, offset, len))
    }
    fn fsetattr(&self, fd: Fd, set: &SetAttr) -> Result<()> {
        let call = if set.perm.is_some() { "fchmod" } else { "fchown" };
        self.on_file(call, fd, self.inner.fsetattr(fd, set))
    }
    fn fallocate(&self, _fd: Fd, _mode: FallocateMode, _offset: u64, _len: u64) -> Result<()> {
        Err(Errno::ENOSYS)
    }
    fn getdents(&self, fd: Fd, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        self.on_file("getdents", fd, self.inner.getdents(fd, sink))
    }
    fn stat(&self, path: &[u8]) -> Result<Attr> {
        self.on_path("stat", path, self.inner.stat(path))
    }
    fn lstat(&self, path: &[u8]) -> Result<Attr> {
        self.on_path("lstat", path, self.inner.lstat(path))
    }
    fn mkdir(&self, path: &[u8], mode: u32) -> Result<()> {
        self.on_path("mkdir", path, self.inner.mkdir(path, mode))
    }
    fn rmdir(&self, path: &[u8]) -> Result<()> {
        self.on_path("rmdir", path, self.inner.rmdir(path))
    }
    fn mknod(&self, _path: &[u8], _kind: FileKind, _mode: u32, _rdev: u64) -> Result<()> {
        Err(Errno::ENOSYS)
    }
    fn unlink(&self, path: &[u8]) -> Result<()> {
        self.on_path("unlink", path, self.inner.unlink(path))
    }
    fn rename(&self, from: &[u8], to: &[u8], flags: RenameFlags) -> Result<()> {
        self.on_path("rename", from, self.inner.rename(from, to, flags))
    }
    fn link(&self, _from: &[u8], _to: &[u8]) -> Result<()> {
        Err(Errno::ENOSYS)
    }
    fn symlink(&self, _target: &[u8], _path: &[u8]) -> Result<()> {
        Err(Errno::ENOSYS)
    }
    fn readlink(&self, _path: &[u8]) -> Result<Vec<u8>> {
        Err(Errno::ENOSYS)
    }
    fn truncate(&self, _path: &[u8], _size: u64) -> Result<()> {
        Err(Errno::ENOSYS)
    }
    fn setattr(&self, path: &[u8], set: &SetAttr) -> Result<()> {
        self.on_path("utimes", path, self.inner.setattr(path, set))
    }
    fn getxattr(&self, _path: &[u8], _name: &[u8]) -> Result<Vec<u8>> {
        Err(Errno::ENOSYS)
    }
    fn setxattr(&self, _path: &[u8], _name: &[u8], _value: &[u8], _mode: XattrMode) -> Result<()> {
        Err(Errno::ENOSYS)
    }
    fn listxattr(&self, _path: &[u8]) -> Result<Vec<u8>> {
        Err(Errno::ENOSYS)
    }
    fn removexattr(&self, _path: &[u8], _name: &[u8]) -> Result<()> {
        Err(Errno::ENOSYS)
    }
    fn chdir(&self, _path: &[u8]) -> Result<()> {
        Err(Errno::ENOSYS)
    }
    fn umask(&self, mask: u32) -> u32 {
        self.inner.umask(mask)
    }
    fn sync(&self) -> Result<()> {
        Ok(())
    }
    fn statfs(&self, path: &[u8]) -> Result<StatFs> {
        self.on_path("statfs", path, self.inner.statfs(path))
    }
}
