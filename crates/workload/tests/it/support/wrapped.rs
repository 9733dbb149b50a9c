//! System calls with a hook in them: some that note, some that lie, some that fail.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use vfs::{
    Attr, DirEntry, Errno, FallocateMode, Fd, FileKind, OpenFlags, RenameFlags, Result, SetAttr, StatFs,
    Syscalls, Whence, XattrMode,
};

/// What may be done around a call.
pub(crate) trait Hook: Send + Sync {
    /// Before an open.
    fn opens(&self, _path: &[u8]) {}
    /// Before an open, its flags.
    fn opens_with(&self, _flags: OpenFlags) {}
    /// Before a stat.
    fn stats(&self, _path: &[u8]) {}
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
pub(crate) fn recording(inner: Arc<dyn Syscalls>, log: Arc<Mutex<Vec<String>>>) -> Arc<dyn Syscalls> {
    Arc::new(Wrapped { inner, hook: Recording(log) })
}

struct Recording(Arc<Mutex<Vec<String>>>);

impl Hook for Recording {
    fn opens(&self, path: &[u8]) {
        self.0.lock().unwrap().push(String::from_utf8_lossy(path).into_owned());
    }
}

/// Notes the flags of every open.
pub(crate) fn noting_flags(inner: Arc<dyn Syscalls>, seen: Arc<Mutex<Vec<OpenFlags>>>) -> Arc<dyn Syscalls> {
    Arc::new(Wrapped { inner, hook: NotingFlags(seen) })
}

struct NotingFlags(Arc<Mutex<Vec<OpenFlags>>>);

impl Hook for NotingFlags {
    fn opens_with(&self, flags: OpenFlags) {
        self.0.lock().unwrap().push(flags);
    }
}

/// Notes every path whose attributes are asked for.
pub(crate) fn noting_stats(
    inner: Arc<dyn Syscalls>,
    seen: Arc<Mutex<BTreeSet<Vec<u8>>>>,
) -> Arc<dyn Syscalls> {
    Arc::new(Wrapped { inner, hook: NotingStats(seen) })
}

struct NotingStats(Arc<Mutex<BTreeSet<Vec<u8>>>>);

impl Hook for NotingStats {
    fn stats(&self, path: &[u8]) {
        self.0.lock().unwrap().insert(path.to_vec());
    }
}

/// How a read is falsified.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lie {
    /// One bit is wrong.
    Bit,
    /// The data is that of the place one byte further.
    Shift,
    /// Zeros.
    Zero,
}

/// Falsifies the hundredth read.
pub(crate) fn lying(inner: Arc<dyn Syscalls>, lie: Lie, reads: Arc<AtomicU64>) -> Arc<dyn Syscalls> {
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
pub(crate) fn full_after(inner: Arc<dyn Syscalls>, writes: u64) -> Arc<dyn Syscalls> {
    failing_after(inner, writes, Errno::ENOSPC)
}

/// Fails with `errno` after so many writes.
pub(crate) fn failing_after(inner: Arc<dyn Syscalls>, writes: u64, errno: Errno) -> Arc<dyn Syscalls> {
    Arc::new(Wrapped { inner, hook: Failing { left: AtomicU64::new(writes), errno } })
}

struct Failing {
    left: AtomicU64,
    errno: Errno,
}

impl Hook for Failing {
    fn writes(&self) -> Result<()> {
        let left = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        left.map(|_| ()).map_err(|_| self.errno)
    }
}

/// Rings a bell at an open.
pub(crate) fn ringing(
    inner: Arc<dyn Syscalls>,
    at: u64,
    bell: impl Fn() + Send + Sync + 'static,
) -> Arc<dyn Syscalls> {
    Arc::new(Wrapped { inner, hook: Ringing { opens: AtomicU64::new(0), at, bell } })
}

struct Ringing<F> {
    opens: AtomicU64,
    at: u64,
    bell: F,
}

impl<F: Fn() + Send + Sync> Hook for Ringing<F> {
    fn opens(&self, _path: &[u8]) {
        if self.opens.fetch_add(1, Relaxed) + 1 == self.at {
            (self.bell)();
        }
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
    fn stat(&self, path: &[u8]) -> Result<Attr> {
        self.hook.stats(path);
        self.inner.stat(path)
    }

    fn open(&self, path: &[u8], flags: OpenFlags, mode: u32) -> Result<Fd> {
        self.hook.opens(path);
        self.hook.opens_with(flags);
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

/// System calls that do nothing and take no time but the machine's for a call. Every file has the same size.
pub(crate) struct Nothing {
    size: u64,
    next: AtomicU64,
    /// Bytes left to read, by descriptor modulo a large number.
    left: Vec<AtomicU64>,
}

const DESCRIPTORS: usize = 4096;

impl Nothing {
    /// Files of `size` bytes.
    pub(crate) fn new(size: u64) -> Self {
        let left = (0..DESCRIPTORS).map(|_| AtomicU64::new(0)).collect();
        Self { size, next: AtomicU64::new(0), left }
    }

    fn left(&self, fd: Fd) -> &AtomicU64 {
        &self.left[fd.0 as usize % DESCRIPTORS]
    }

    fn attr(&self) -> Attr {
        super::attr(vfs::Ino(1), FileKind::Regular, self.size)
    }
}

macro_rules! nothing {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty = $value:expr;)*) => {
        $(fn $name(&self, $($argument: $type),*) -> $result {
            let _ = ($($argument,)*);
            sim::work(sim::Work::SYSCALL, 1);
            $value
        })*
    };
}

impl Syscalls for Nothing {
    fn open(&self, _path: &[u8], _flags: OpenFlags, _mode: u32) -> Result<Fd> {
        sim::work(sim::Work::SYSCALL, 1);
        let fd = Fd(self.next.fetch_add(1, Relaxed) as u32 % DESCRIPTORS as u32);
        self.left(fd).store(self.size, Relaxed);
        Ok(fd)
    }

    fn read(&self, fd: Fd, buffer: &mut [u8]) -> Result<usize> {
        sim::work(sim::Work::SYSCALL, 1);
        let left = self.left(fd).load(Relaxed);
        let read = left.min(buffer.len() as u64);
        self.left(fd).store(left - read, Relaxed);
        Ok(read as usize)
    }

    fn lseek(&self, fd: Fd, offset: i64, whence: Whence) -> Result<u64> {
        sim::work(sim::Work::SYSCALL, 1);
        if whence == Whence::Set {
            self.left(fd).store(self.size, Relaxed);
            return Ok(offset.unsigned_abs());
        }
        Ok(self.size)
    }

    fn write(&self, _fd: Fd, data: &[u8]) -> Result<usize> {
        sim::work(sim::Work::SYSCALL, 1);
        Ok(data.len())
    }

    fn pwrite(&self, _fd: Fd, data: &[u8], _offset: u64) -> Result<usize> {
        sim::work(sim::Work::SYSCALL, 1);
        Ok(data.len())
    }

    fn pread(&self, _fd: Fd, buffer: &mut [u8], _offset: u64) -> Result<usize> {
        sim::work(sim::Work::SYSCALL, 1);
        Ok(buffer.len())
    }

    fn fstat(&self, _fd: Fd) -> Result<Attr> {
        sim::work(sim::Work::SYSCALL, 1);
        Ok(self.attr())
    }

    fn stat(&self, _path: &[u8]) -> Result<Attr> {
        sim::work(sim::Work::SYSCALL, 1);
        Ok(self.attr())
    }

    fn lstat(&self, path: &[u8]) -> Result<Attr> {
        self.stat(path)
    }

    fn umask(&self, _mask: u32) -> u32 {
        0
    }

    nothing! {
        close(fd: Fd) -> Result<()> = Ok(());
        dup(fd: Fd) -> Result<Fd> = Err(Errno::ENOSYS);
        fsync(fd: Fd) -> Result<()> = Ok(());
        fdatasync(fd: Fd) -> Result<()> = Ok(());
        ftruncate(fd: Fd, size: u64) -> Result<()> = Ok(());
        fallocate(fd: Fd, mode: FallocateMode, offset: u64, len: u64) -> Result<()> = Ok(());
        getdents(fd: Fd, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> = Ok(());
        mkdir(path: &[u8], mode: u32) -> Result<()> = Ok(());
        rmdir(path: &[u8]) -> Result<()> = Ok(());
        mknod(path: &[u8], kind: FileKind, mode: u32, rdev: u64) -> Result<()> = Ok(());
        unlink(path: &[u8]) -> Result<()> = Ok(());
        rename(from: &[u8], to: &[u8], flags: RenameFlags) -> Result<()> = Ok(());
        link(from: &[u8], to: &[u8]) -> Result<()> = Ok(());
        symlink(target: &[u8], path: &[u8]) -> Result<()> = Ok(());
        readlink(path: &[u8]) -> Result<Vec<u8>> = Err(Errno::ENOSYS);
        truncate(path: &[u8], size: u64) -> Result<()> = Ok(());
        setattr(path: &[u8], set: &SetAttr) -> Result<()> = Ok(());
        getxattr(path: &[u8], name: &[u8]) -> Result<Vec<u8>> = Err(Errno::ENOSYS);
        setxattr(path: &[u8], name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> = Ok(());
        listxattr(path: &[u8]) -> Result<Vec<u8>> = Err(Errno::ENOSYS);
        removexattr(path: &[u8], name: &[u8]) -> Result<()> = Ok(());
        chdir(path: &[u8]) -> Result<()> = Ok(());
        sync() -> Result<()> = Ok(());
        statfs(path: &[u8]) -> Result<StatFs> = Err(Errno::ENOSYS);
    }
}
