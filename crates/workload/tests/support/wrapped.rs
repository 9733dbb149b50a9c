//! System calls with a hook in them: some that note, some that lie, some that fail.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use vfs::{
    Attr, DirEntry, Errno, FallocateMode, Fd, FileKind, OpenFlags, RenameFlags, Result, SetAttr, StatFs,
    Syscalls, Whence, XattrMode,
};

/// What may be done around a call.
pub trait Hook: Send + Sync {
    /// Before an open.
    fn opens(&self, _path: &[u8]) {}
    /// After a read.
    fn has_read(&self, _data: &mut [u8]) {}
    /// Before a write.
    fn writes(&self) -> Result<()> {
        Ok(())
    }
}

struct Wrapped<H> {
    inner: Arc<dyn Syscalls>,
    hook: H,
}

/// Notes every path that is opened.
pub fn recording(inner: Arc<dyn Syscalls>, log: Arc<Mutex<Vec<String>>>) -> Arc<dyn Syscalls> {
    Arc::new(Wrapped { inner, hook: Recording(log) })
}

struct Recording(Arc<Mutex<Vec<String>>>);

impl Hook for Recording {
    fn opens(&self, path: &[u8]) {
        self.0.lock().unwrap().push(String::from_utf8_lossy(path).into_owned());
    }
}

/// How a read is falsified.
#[derive(Clone, Copy, Debug)]
pub enum Lie {
    /// One bit is wrong.
    Bit,
    /// The data is that of the place one byte further.
    Shift,
    /// Zeros.
    Zero,
}

/// Falsifies the hundredth read.
pub fn lying(inner: Arc<dyn Syscalls>, lie: Lie, reads: Arc<AtomicU64>) -> Arc<dyn Syscalls> {
    Arc::new(Wrapped { inner, hook: Lying { lie, reads } })
}

struct Lying {
    lie: Lie,
    reads: Arc<AtomicU64>,
}

impl Hook for Lying {
    fn has_read(&self, data: &mut [u8]) {
        if data.len() < 2 || self.reads.fetch_add(1, Relaxed) < 100 {
            return;
        }
        match self.lie {
            Lie::Bit => data[1] ^= 0x20,
            Lie::Shift => data.rotate_left(1),
            Lie::Zero => data.fill(0),
        }
    }
}

/// Has no space left after so many writes.
pub fn full_after(inner: Arc<dyn Syscalls>, writes: u64) -> Arc<dyn Syscalls> {
    Arc::new(Wrapped { inner, hook: Full { left: AtomicU64::new(writes) } })
}

struct Full {
    left: AtomicU64,
}

impl Hook for Full {
    fn writes(&self) -> Result<()> {
        let left = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        left.map(|_| ()).map_err(|_| Errno::ENOSPC)
    }
}

macro_rules! delegate {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(fn $name(&self, $($argument: $type),*) -> $result {
            self.inner.$name($($argument),*)
        })*
    };
}

impl<H: Hook> Syscalls for Wrapped<H> {
    fn open(&self, path: &[u8], flags: OpenFlags, mode: u32) -> Result<Fd> {
        self.hook.opens(path);
        self.inner.open(path, flags, mode)
    }

    fn read(&self, fd: Fd, buffer: &mut [u8]) -> Result<usize> {
        let read = self.inner.read(fd, buffer)?;
        self.hook.has_read(&mut buffer[..read]);
        Ok(read)
    }

    fn pread(&self, fd: Fd, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let read = self.inner.pread(fd, buffer, offset)?;
        self.hook.has_read(&mut buffer[..read]);
        Ok(read)
    }

    fn write(&self, fd: Fd, data: &[u8]) -> Result<usize> {
        self.hook.writes()?;
        self.inner.write(fd, data)
    }

    delegate! {
        close(fd: Fd) -> Result<()>;
        dup(fd: Fd) -> Result<Fd>;
        pwrite(fd: Fd, data: &[u8], offset: u64) -> Result<usize>;
        lseek(fd: Fd, offset: i64, whence: Whence) -> Result<u64>;
        fsync(fd: Fd) -> Result<()>;
        fdatasync(fd: Fd) -> Result<()>;
        fstat(fd: Fd) -> Result<Attr>;
        ftruncate(fd: Fd, size: u64) -> Result<()>;
        fallocate(fd: Fd, mode: FallocateMode, offset: u64, len: u64) -> Result<()>;
        getdents(fd: Fd, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()>;
        stat(path: &[u8]) -> Result<Attr>;
        lstat(path: &[u8]) -> Result<Attr>;
        mkdir(path: &[u8], mode: u32) -> Result<()>;
        rmdir(path: &[u8]) -> Result<()>;
        mknod(path: &[u8], kind: FileKind, mode: u32, rdev: u64) -> Result<()>;
        unlink(path: &[u8]) -> Result<()>;
        rename(from: &[u8], to: &[u8], flags: RenameFlags) -> Result<()>;
        link(from: &[u8], to: &[u8]) -> Result<()>;
        symlink(target: &[u8], path: &[u8]) -> Result<()>;
        readlink(path: &[u8]) -> Result<Vec<u8>>;
        truncate(path: &[u8], size: u64) -> Result<()>;
        setattr(path: &[u8], set: &SetAttr) -> Result<()>;
        getxattr(path: &[u8], name: &[u8]) -> Result<Vec<u8>>;
        setxattr(path: &[u8], name: &[u8], value: &[u8], mode: XattrMode) -> Result<()>;
        listxattr(path: &[u8]) -> Result<Vec<u8>>;
        removexattr(path: &[u8], name: &[u8]) -> Result<()>;
        chdir(path: &[u8]) -> Result<()>;
        umask(mask: u32) -> u32;
        sync() -> Result<()>;
        statfs(path: &[u8]) -> Result<StatFs>;
    }
}
