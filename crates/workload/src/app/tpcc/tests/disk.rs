//! A disk in memory: writes that are not synced may be lost or torn by a crash, sector by sector. Names are durable at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use rand::RngExt as _;
use sim::Rng;
use vfs::{
    Attr, DirEntry, Errno, FallocateMode, Fd, FileKind, Ino, OpenFlags, Owner, RenameFlags, Result, SetAttr,
    StatFs, Syscalls, Timestamp, Whence, XattrMode,
};

/// What a crash keeps or loses as a whole.
const SECTOR: usize = 512;

/// Bytes that copies of a disk share until one of them is changed; none: zeros.
type Chunk = Option<Arc<Vec<u8>>>;
const CHUNK: usize = 64 << 10;

#[derive(Clone, Default)]
struct Content {
    len: usize,
    chunks: Vec<Chunk>,
    /// The length at the last sync, and the sectors of then that were written since.
    durable_len: usize,
    before: BTreeMap<usize, [u8; SECTOR]>,
}

impl Content {
    fn sector(&self, number: usize) -> [u8; SECTOR] {
        let (chunk, at) = (number * SECTOR / CHUNK, number * SECTOR % CHUNK);
        let mut bytes = [0; SECTOR];
        if let Some(Some(chunk)) = self.chunks.get(chunk) {
            bytes.copy_from_slice(&chunk[at..at + SECTOR]);
        }
        bytes
    }

    fn set_sector(&mut self, number: usize, bytes: &[u8; SECTOR]) {
        let (chunk, at) = (number * SECTOR / CHUNK, number * SECTOR % CHUNK);
        if self.chunks.len() <= chunk {
            self.chunks.resize(chunk + 1, None);
        }
        if self.chunks[chunk].is_some() || bytes.iter().any(|byte| *byte != 0) {
            let chunk = self.chunks[chunk].get_or_insert_with(|| Arc::new(vec![0; CHUNK]));
            Arc::make_mut(chunk)[at..at + SECTOR].copy_from_slice(bytes);
        }
    }

    fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        for number in offset / SECTOR..end.div_ceil(SECTOR) {
            let old = self.sector(number);
            let mut new = old;
            let from = offset.max(number * SECTOR);
            let to = end.min((number + 1) * SECTOR);
            new[from % SECTOR..][..to - from].copy_from_slice(&bytes[from - offset..to - offset]);
            if new != old {
                self.before.entry(number).or_insert(old);
                self.set_sector(number, &new);
            }
        }
        self.len = self.len.max(end);
    }

    fn sync(&mut self) {
        self.before.clear();
        self.durable_len = self.len;
    }

    /// Loses a part of what was not synced.
    fn crash(&mut self, keeps: f64, rng: &mut Rng) {
        for (number, old) in std::mem::take(&mut self.before) {
            if !rng.random_bool(keeps) {
                self.set_sector(number, &old);
            }
        }
        if !rng.random_bool(keeps) {
            let kept = self.durable_len.div_ceil(SECTOR)..self.len.div_ceil(SECTOR);
            kept.for_each(|number| self.set_sector(number, &[0; SECTOR]));
            self.len = self.durable_len;
        }
        self.durable_len = self.len;
    }
}

#[derive(Default)]
struct Inner {
    names: BTreeMap<Vec<u8>, u64>,
    files: BTreeMap<u64, Content>,
    open: Vec<u64>,
    next: u64,
    /// Calls that write or sync until all fail.
    left: Option<u64>,
}

/// A disk, shared by its processes.
#[derive(Default)]
pub(in crate::app::tpcc) struct Disk(Arc<Mutex<Inner>>);

struct Process(Arc<Mutex<Inner>>);

fn locked(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap()
}

impl Disk {
    pub(in crate::app::tpcc) fn process(&self) -> Arc<dyn Syscalls> {
        Arc::new(Process(Arc::clone(&self.0)))
    }

    /// Everything is as after a sync.
    pub(in crate::app::tpcc) fn make_durable(&self) {
        locked(&self.0).files.values_mut().for_each(Content::sync);
    }

    /// After so many writes and syncs each call fails.
    pub(in crate::app::tpcc) fn fail_after(&self, calls: u64) {
        locked(&self.0).left = Some(calls);
    }

    /// Another disk with the same contents.
    pub(in crate::app::tpcc) fn copy(&self) -> Self {
        let inner = locked(&self.0);
        let (names, files) = (inner.names.clone(), inner.files.clone());
        Self(Arc::new(Mutex::new(Inner { names, files, next: inner.next, ..Inner::default() })))
    }

    /// What a crash leaves: of each sector that was not synced the new or the old bytes.
    pub(in crate::app::tpcc) fn after_crash(&self, rng: &mut Rng) -> Self {
        let (keeps, disk) = ([0.0, 0.5, 0.9, 1.0][rng.random_range(0..4)], self.copy());
        locked(&disk.0).files.values_mut().for_each(|file| file.crash(keeps, rng));
        disk
    }

    /// Takes the log of another disk up to a place that `cut` chooses between the first and the last byte that differ.
    pub(in crate::app::tpcc) fn take_log_of(&self, other: &Self, mut cut: impl FnMut(usize) -> usize) {
        let (mut inner, other) = (locked(&self.0), locked(&other.0));
        for (name, number) in &other.names {
            let is_log = name.starts_with(b"data/pg_wal/0") || name.starts_with(b"data/ib_logfile0");
            let Some(mine) = inner.names.get(name).copied().filter(|_| is_log) else { continue };
            let (theirs, mine) = (&other.files[number], inner.files.get_mut(&mine).unwrap());
            let sectors = 0..theirs.len.div_ceil(SECTOR);
            let differing: Vec<usize> =
                sectors.filter(|number| mine.sector(*number) != theirs.sector(*number)).collect();
            let (Some(first), Some(last)) = (differing.first(), differing.last()) else { continue };
            let end = first * SECTOR + cut((last - first + 1) * SECTOR);
            for number in differing.iter().copied().filter(|number| number * SECTOR < end) {
                let mut bytes = mine.sector(number);
                let len = (end - number * SECTOR).min(SECTOR);
                bytes[..len].copy_from_slice(&theirs.sector(number)[..len]);
                mine.set_sector(number, &bytes);
            }
        }
    }
}

impl Process {
    /// Books a call that writes or syncs.
    fn spend(&self) -> Result<MutexGuard<'_, Inner>> {
        let mut inner = locked(&self.0);
        match &mut inner.left {
            Some(0) => Err(Errno::EIO),
            Some(left) => {
                *left -= 1;
                Ok(inner)
            }
            None => Ok(inner),
        }
    }
}

impl Inner {
    fn file(&mut self, fd: Fd) -> Result<&mut Content> {
        let number = *self.open.get(fd.0 as usize).ok_or(Errno::EBADF)?;
        self.files.get_mut(&number).ok_or(Errno::EBADF)
    }
}

fn attr(size: usize) -> Attr {
    let now = Timestamp { secs: 0, nanos: 0 };
    Attr {
        ino: Ino(1),
        kind: FileKind::Regular,
        perm: 0o644,
        nlink: 1,
        owner: Owner::default(),
        rdev: 0,
        size: size as u64,
        blocks: 0,
        blksize: 4096,
        atime: now,
        mtime: now,
        ctime: now,
        generation: 0,
    }
}

impl Syscalls for Process {
    fn open(&self, path: &[u8], flags: OpenFlags, _mode: u32) -> Result<Fd> {
        let mut inner = locked(&self.0);
        let number = match inner.names.get(path) {
            Some(number) => *number,
            None if flags.intersects(OpenFlags::CREATE | OpenFlags::DIRECTORY) => {
                inner.next += 1;
                let number = inner.next;
                inner.names.insert(path.to_vec(), number);
                inner.files.insert(number, Content::default());
                number
            }
            None => return Err(Errno::ENOENT),
        };
        inner.open.push(number);
        Ok(Fd(inner.open.len() as u32 - 1))
    }

    fn close(&self, _fd: Fd) -> Result<()> {
        Ok(())
    }

    fn pread(&self, fd: Fd, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let mut inner = locked(&self.0);
        let (file, from) = (inner.file(fd)?, offset as usize);
        let len = buffer.len().min(file.len.saturating_sub(from));
        for number in from / SECTOR..(from + len).div_ceil(SECTOR) {
            let (start, end) = (from.max(number * SECTOR), (from + len).min((number + 1) * SECTOR));
            buffer[start - from..end - from]
                .copy_from_slice(&file.sector(number)[start % SECTOR..][..end - start]);
        }
        Ok(len)
    }

    fn pwrite(&self, fd: Fd, bytes: &[u8], offset: u64) -> Result<usize> {
        self.spend()?.file(fd)?.write(bytes, offset as usize);
        Ok(bytes.len())
    }

    fn fsync(&self, fd: Fd) -> Result<()> {
        self.spend()?.file(fd)?.sync();
        Ok(())
    }

    fn fdatasync(&self, fd: Fd) -> Result<()> {
        self.fsync(fd)
    }

    fn mkdir(&self, path: &[u8], mode: u32) -> Result<()> {
        self.open(path, OpenFlags::CREATE, mode).map(drop)
    }

    fn rename(&self, from: &[u8], to: &[u8], _flags: RenameFlags) -> Result<()> {
        let mut inner = self.spend()?;
        let number = inner.names.remove(from).ok_or(Errno::ENOENT)?;
        inner.names.insert(to.to_vec(), number);
        Ok(())
    }

    fn unlink(&self, path: &[u8]) -> Result<()> {
        self.spend()?.names.remove(path).map(drop).ok_or(Errno::ENOENT)
    }

    fn fstat(&self, fd: Fd) -> Result<Attr> {
        Ok(attr(locked(&self.0).file(fd)?.len))
    }

    fn stat(&self, path: &[u8]) -> Result<Attr> {
        let inner = locked(&self.0);
        let number = inner.names.get(path).ok_or(Errno::ENOENT)?;
        Ok(attr(inner.files.get(number).map_or(0, |file| file.len)))
    }

    /// What was cut is back after a crash, unless it was synced.
    fn ftruncate(&self, fd: Fd, size: u64) -> Result<()> {
        let mut inner = self.spend()?;
        let (file, size) = (inner.file(fd)?, size as usize);
        let zeros = vec![0; file.len.saturating_sub(size)];
        file.write(&zeros, size);
        file.len = size;
        file.durable_len = file.durable_len.min(size);
        Ok(())
    }

    fn dup(&self, _fd: Fd) -> Result<Fd> {
        Err(Errno::ENOSYS)
    }
    fn read(&self, _fd: Fd, _buffer: &mut [u8]) -> Result<usize> {
        Err(Errno::ENOSYS)
    }
    fn write(&self, _fd: Fd, _data: &[u8]) -> Result<usize> {
        Err(Errno::ENOSYS)
    }
    fn lseek(&self, _fd: Fd, _offset: i64, _whence: Whence) -> Result<u64> {
        Err(Errno::ENOSYS)
    }
    fn fallocate(&self, _fd: Fd, _mode: FallocateMode, _offset: u64, _len: u64) -> Result<()> {
        Err(Errno::ENOSYS)
    }
    fn getdents(&self, _fd: Fd, _sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        Err(Errno::ENOSYS)
    }
    fn lstat(&self, _path: &[u8]) -> Result<Attr> {
        Err(Errno::ENOSYS)
    }
    fn rmdir(&self, _path: &[u8]) -> Result<()> {
        Err(Errno::ENOSYS)
    }
    fn mknod(&self, _path: &[u8], _kind: FileKind, _mode: u32, _rdev: u64) -> Result<()> {
        Err(Errno::ENOSYS)
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
    fn setattr(&self, _path: &[u8], _set: &SetAttr) -> Result<()> {
        Err(Errno::ENOSYS)
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
    fn umask(&self, _mask: u32) -> u32 {
        0
    }
    fn sync(&self) -> Result<()> {
        Ok(())
    }
    fn statfs(&self, _path: &[u8]) -> Result<StatFs> {
        Err(Errno::ENOSYS)
    }
}
