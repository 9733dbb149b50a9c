//! System calls with their latencies: from call to return, by kind of operation.
//!
//! Stands between a workload and the calls that it makes. Kinds are those of the ledger (`vfs::ops`), so that a record has the
//! latencies and the ledger of the same calls.
//!
//! Tallies are sharded by host thread; under the virtual clock there is one thread and no lock is ever waited for. A shard is
//! locked only after the call has returned.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use results::{Histogram, SeriesRecord};
use sim::{Nanos, Op};
use vfs::{
    Attr, DirEntry, Errno, FallocateMode, Fd, FileExtent, FileKind, LockAction, LockOwner, Mapping,
    MappingKind, OpenFlags, Protection, RenameFlags, Result, SetAttr, StatFs, Syscalls, Whence, XattrMode,
    ops,
};

const SHARDS: usize = 16;
/// Parts into which the measured time is divided.
pub(super) const PARTS: usize = 100;

/// What was seen of one kind of operation.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// From call to return.
    pub(super) latency: Histogram,
    /// Bytes that were moved.
    pub(super) bytes: u64,
    /// Calls that failed.
    pub(super) errors: u64,
}

impl Tally {
    fn merge(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.bytes += other.bytes;
        self.errors += other.errors;
    }
}

/// Tallies of one shard by the operation's number.
type Shard = [Option<Tally>; Op::MAX];

/// What was seen of the calls of all processes.
pub(super) struct Tallies {
    shards: [Mutex<Box<Shard>>; SHARDS],
    /// Set from outside to end the run early.
    interrupt: Arc<AtomicBool>,
    /// Whether the measured time has begun.
    begun: AtomicBool,
    /// When it began, in nanoseconds of the clock in force.
    begin_ns: AtomicU64,
    /// Calls that ended in each part of the measured time.
    parts: [AtomicU64; PARTS],
    /// Length of a part; 0: calls are not counted over time.
    part_ns: u64,
}

/// The calls of one process, passed on and timed.
pub(super) struct Timed {
    inner: Arc<dyn Syscalls>,
    tallies: Arc<Tallies>,
}

/// The shard of this host thread.
fn shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    let known = SHARD.get();
    if known != usize::MAX {
        return known;
    }
    let new = NEXT.fetch_add(1, Relaxed) % SHARDS;
    SHARD.set(new);
    new
}

impl Tallies {
    /// Nothing seen yet, of a run that `interrupt` ends early and whose measured time of `window` is known beforehand.
    pub(super) fn new(interrupt: &Arc<AtomicBool>, window: Option<Nanos>) -> Self {
        let empty = || Mutex::new(Box::new([const { None }; Op::MAX]));
        Self {
            shards: std::array::from_fn(|_| empty()),
            interrupt: Arc::clone(interrupt),
            begun: AtomicBool::new(false),
            begin_ns: AtomicU64::new(0),
            parts: [const { AtomicU64::new(0) }; PARTS],
            part_ns: window.map_or(0, |window| (window.0 / PARTS as u64).max(1)),
        }
    }

    /// Whether the files are still being made and the run is to end: no further call is made.
    fn is_given_up(&self) -> bool {
        self.interrupt.load(Relaxed) && !self.begun.load(Relaxed)
    }

    /// Counts a call that ended at `now`.
    #[inline]
    fn count(&self, now: Nanos) {
        if self.part_ns > 0 && self.begun.load(Relaxed) {
            let part = now.0.saturating_sub(self.begin_ns.load(Relaxed)) / self.part_ns;
            if let Some(part) = self.parts.get(part as usize) {
                part.fetch_add(1, Relaxed);
            }
        }
    }

    /// Makes a call and notes how long it took; `moved` says how many bytes.
    #[inline]
    fn moving<T>(
        &self,
        op: Op,
        call: impl FnOnce() -> Result<T>,
        moved: impl FnOnce(&T) -> usize,
    ) -> Result<T> {
        if self.is_given_up() {
            return Err(Errno::EIO);
        }
        let start = sim::now();
        let outcome = call();
        self.note(op, start, &outcome, moved);
        outcome
    }

    /// Notes a call that began at `start` and has just ended.
    #[inline]
    fn note<T>(&self, op: Op, start: Nanos, outcome: &Result<T>, moved: impl FnOnce(&T) -> usize) {
        let now = sim::now();
        let latency = now.since(start);
        self.count(now);
        let mut shard = self.shards[shard()].lock().unwrap_or_else(PoisonError::into_inner);
        let tally = shard[op.index()].get_or_insert_default();
        tally.latency.record(latency.0);
        match outcome {
            Ok(value) => tally.bytes += moved(value) as u64,
            Err(_) => tally.errors += 1,
        }
    }

    /// How long the measured time is; none where that is not known beforehand.
    pub(super) fn length(&self) -> Option<Duration> {
        (self.part_ns > 0).then(|| Duration::from_nanos(self.part_ns * PARTS as u64))
    }

    /// Calls that have ended in the measured time, where they are counted over time.
    pub(super) fn calls(&self) -> u64 {
        self.parts.iter().map(|part| part.load(Relaxed)).sum()
    }

    /// How long the measured time has lasted; none before it begins.
    pub(super) fn running_for(&self) -> Option<Nanos> {
        let begin = Nanos(self.begin_ns.load(Relaxed));
        self.begun.load(Relaxed).then(|| sim::now().since(begin))
    }

    /// Calls over time, if they were counted: in the parts of the time that a run really took, which may have ended early.
    pub(super) fn series(&self, elapsed: Nanos) -> Option<SeriesRecord> {
        let taken = (elapsed.0.saturating_add(self.part_ns / 2)).checked_div(self.part_ns)?.max(1);
        let parts = self.parts.iter().take(usize::try_from(taken).unwrap_or(PARTS));
        let ops: Vec<u64> = parts.map(|part| part.load(Relaxed)).collect();
        (self.part_ns > 0 && ops.iter().any(|ops| *ops > 0))
            .then_some(SeriesRecord { step_ns: self.part_ns, ops })
    }

    /// The measured time begins.
    pub(super) fn begin(&self) {
        self.begin_ns.store(sim::now().0, Relaxed);
        self.begun.store(true, Relaxed);
    }

    /// Forgets what was seen: the measured time begins.
    pub(super) fn restart(&self) {
        self.begin();
        for shard in &self.shards {
            **shard.lock().unwrap_or_else(PoisonError::into_inner) = [const { None }; Op::MAX];
        }
    }

    /// What was seen, by the operation's number.
    pub(super) fn sum(&self) -> BTreeMap<usize, Tally> {
        let mut sum: BTreeMap<usize, Tally> = BTreeMap::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for (op, tally) in shard.iter().enumerate() {
                if let Some(tally) = tally {
                    sum.entry(op).or_default().merge(tally);
                }
            }
        }
        sum
    }
}

impl Timed {
    /// Passes calls on to `inner`, and notes them in `tallies`.
    pub(super) fn new(inner: Arc<dyn Syscalls>, tallies: &Arc<Tallies>) -> Self {
        Self { inner, tallies: Arc::clone(tallies) }
    }

    #[inline]
    fn moving<T>(
        &self,
        op: Op,
        call: impl FnOnce() -> Result<T>,
        moved: impl FnOnce(&T) -> usize,
    ) -> Result<T> {
        self.tallies.moving(op, call, moved)
    }

    #[inline]
    fn call<T>(&self, op: Op, call: impl FnOnce() -> Result<T>) -> Result<T> {
        self.moving(op, call, |_| 0)
    }
}

/// A mapping whose loads, stores and syncs are timed.
struct TimedMapping {
    inner: Box<dyn Mapping>,
    tallies: Arc<Tallies>,
}

impl Mapping for TimedMapping {
    fn read(&self, at: u64, buffer: &mut [u8]) -> Result<()> {
        let len = buffer.len();
        self.tallies.moving(ops::LOAD, || self.inner.read(at, buffer), |()| len)
    }

    fn write(&self, at: u64, data: &[u8]) -> Result<()> {
        self.tallies.moving(ops::STORE, || self.inner.write(at, data), |()| data.len())
    }

    fn sync(&self, at: u64, len: u64) -> Result<()> {
        self.tallies.moving(ops::MSYNC, || self.inner.sync(at, len), |()| 0)
    }
}

impl Syscalls for Timed {
    /// What the ledger has booked it as tells whether it made a file.
    fn open(&self, path: &[u8], flags: OpenFlags, mode: u32) -> Result<Fd> {
        if self.tallies.is_given_up() {
            return Err(Errno::EIO);
        }
        let (made, start) = (sim::ledger::calls(ops::CREATE), sim::now());
        let outcome = self.inner.open(path, flags, mode);
        let op = if sim::ledger::calls(ops::CREATE) > made { ops::CREATE } else { ops::OPEN };
        self.tallies.note(op, start, &outcome, |_| 0);
        outcome
    }

    fn close(&self, fd: Fd) -> Result<()> {
        self.call(ops::CLOSE, || self.inner.close(fd))
    }

    fn dup(&self, fd: Fd) -> Result<Fd> {
        self.call(ops::OPEN, || self.inner.dup(fd))
    }

    fn read(&self, fd: Fd, buffer: &mut [u8]) -> Result<usize> {
        self.moving(ops::READ, || self.inner.read(fd, buffer), |bytes| *bytes)
    }

    fn write(&self, fd: Fd, data: &[u8]) -> Result<usize> {
        self.moving(ops::WRITE, || self.inner.write(fd, data), |bytes| *bytes)
    }

    fn pread(&self, fd: Fd, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.moving(ops::READ, || self.inner.pread(fd, buffer, offset), |bytes| *bytes)
    }

    fn pwrite(&self, fd: Fd, data: &[u8], offset: u64) -> Result<usize> {
        self.moving(ops::WRITE, || self.inner.pwrite(fd, data, offset), |bytes| *bytes)
    }

    fn lseek(&self, fd: Fd, offset: i64, whence: Whence) -> Result<u64> {
        self.call(ops::SEEK, || self.inner.lseek(fd, offset, whence))
    }

    fn fsync(&self, fd: Fd) -> Result<()> {
        self.call(ops::FSYNC, || self.inner.fsync(fd))
    }

    fn fdatasync(&self, fd: Fd) -> Result<()> {
        self.call(ops::FSYNC, || self.inner.fdatasync(fd))
    }

    fn fstat(&self, fd: Fd) -> Result<Attr> {
        self.call(ops::STAT, || self.inner.fstat(fd))
    }

    fn ftruncate(&self, fd: Fd, size: u64) -> Result<()> {
        self.call(ops::TRUNCATE, || self.inner.ftruncate(fd, size))
    }

    fn flock(&self, fd: Fd, action: LockAction) -> Result<()> {
        self.call(ops::LOCK, || self.inner.flock(fd, action))
    }

    fn lock(&self, fd: Fd, action: LockAction, owner: LockOwner, offset: u64, len: u64) -> Result<()> {
        self.call(ops::LOCK, || self.inner.lock(fd, action, owner, offset, len))
    }

    fn fsetattr(&self, fd: Fd, set: &SetAttr) -> Result<()> {
        self.call(ops::SETATTR, || self.inner.fsetattr(fd, set))
    }

    fn fgetxattr(&self, fd: Fd, name: &[u8]) -> Result<Vec<u8>> {
        self.call(ops::XATTR, || self.inner.fgetxattr(fd, name))
    }

    fn fsetxattr(&self, fd: Fd, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.call(ops::XATTR, || self.inner.fsetxattr(fd, name, value, mode))
    }

    fn flistxattr(&self, fd: Fd) -> Result<Vec<u8>> {
        self.call(ops::XATTR, || self.inner.flistxattr(fd))
    }

    fn fremovexattr(&self, fd: Fd, name: &[u8]) -> Result<()> {
        self.call(ops::XATTR, || self.inner.fremovexattr(fd, name))
    }

    fn fallocate(&self, fd: Fd, mode: FallocateMode, offset: u64, len: u64) -> Result<()> {
        self.call(ops::FALLOCATE, || self.inner.fallocate(fd, mode, offset, len))
    }

    fn mmap_as(
        &self,
        fd: Fd,
        offset: u64,
        len: u64,
        protection: Protection,
        kind: MappingKind,
    ) -> Result<Box<dyn Mapping>> {
        let inner = self.call(ops::MMAP, || self.inner.mmap_as(fd, offset, len, protection, kind))?;
        Ok(Box::new(TimedMapping { inner, tallies: Arc::clone(&self.tallies) }))
    }

    fn getdents(&self, fd: Fd, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        self.call(ops::READDIR, || self.inner.getdents(fd, sink))
    }

    fn stat(&self, path: &[u8]) -> Result<Attr> {
        self.call(ops::STAT, || self.inner.stat(path))
    }

    fn lstat(&self, path: &[u8]) -> Result<Attr> {
        self.call(ops::STAT, || self.inner.lstat(path))
    }

    fn mkdir(&self, path: &[u8], mode: u32) -> Result<()> {
        self.call(ops::MKDIR, || self.inner.mkdir(path, mode))
    }

    fn rmdir(&self, path: &[u8]) -> Result<()> {
        self.call(ops::RMDIR, || self.inner.rmdir(path))
    }

    fn mknod(&self, path: &[u8], kind: FileKind, mode: u32, rdev: u64) -> Result<()> {
        self.call(ops::MKNOD, || self.inner.mknod(path, kind, mode, rdev))
    }

    fn unlink(&self, path: &[u8]) -> Result<()> {
        self.call(ops::UNLINK, || self.inner.unlink(path))
    }

    fn rename(&self, from: &[u8], to: &[u8], flags: RenameFlags) -> Result<()> {
        self.call(ops::RENAME, || self.inner.rename(from, to, flags))
    }

    fn link(&self, from: &[u8], to: &[u8]) -> Result<()> {
        self.call(ops::LINK, || self.inner.link(from, to))
    }

    fn symlink(&self, target: &[u8], path: &[u8]) -> Result<()> {
        self.call(ops::SYMLINK, || self.inner.symlink(target, path))
    }

    fn readlink(&self, path: &[u8]) -> Result<Vec<u8>> {
        self.call(ops::READLINK, || self.inner.readlink(path))
    }

    fn truncate(&self, path: &[u8], size: u64) -> Result<()> {
        self.call(ops::TRUNCATE, || self.inner.truncate(path, size))
    }

    fn setattr(&self, path: &[u8], set: &SetAttr) -> Result<()> {
        self.call(ops::SETATTR, || self.inner.setattr(path, set))
    }

    fn lsetattr(&self, path: &[u8], set: &SetAttr) -> Result<()> {
        self.call(ops::SETATTR, || self.inner.lsetattr(path, set))
    }

    fn getxattr(&self, path: &[u8], name: &[u8]) -> Result<Vec<u8>> {
        self.call(ops::XATTR, || self.inner.getxattr(path, name))
    }

    fn setxattr(&self, path: &[u8], name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.call(ops::XATTR, || self.inner.setxattr(path, name, value, mode))
    }

    fn listxattr(&self, path: &[u8]) -> Result<Vec<u8>> {
        self.call(ops::XATTR, || self.inner.listxattr(path))
    }

    fn removexattr(&self, path: &[u8], name: &[u8]) -> Result<()> {
        self.call(ops::XATTR, || self.inner.removexattr(path, name))
    }

    fn chdir(&self, path: &[u8]) -> Result<()> {
        self.call(ops::STAT, || self.inner.chdir(path))
    }

    fn umask(&self, mask: u32) -> u32 {
        self.inner.umask(mask)
    }

    fn sync(&self) -> Result<()> {
        self.call(ops::SYNC, || self.inner.sync())
    }

    fn statfs(&self, path: &[u8]) -> Result<StatFs> {
        self.call(ops::STATFS, || self.inner.statfs(path))
    }

    fn drop_caches(&self) -> Result<()> {
        self.inner.drop_caches()
    }

    fn extents(&self, fd: Fd) -> Result<Vec<FileExtent>> {
        self.inner.extents(fd)
    }
}
