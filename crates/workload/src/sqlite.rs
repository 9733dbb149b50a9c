//! SQLite in this process, on the files of a run: its virtual file system makes the system calls of the run.
//!
//! SQLite has one table of virtual file systems for the process, so there is one entry for all runs, and the name of a database
//! says which run it is of: `NUMBER:PATH`. One connection uses a database at a time, so that its locks need no call.
//!
//! What the files of SQLite on Unix do besides is done here, too: the first sync of a new journal syncs its directory.
//!
//! Reference: the documentation of SQLite's VFS (sqlite.org/vfs.html); `os_unix.c` of SQLite 3.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags as DatabaseFlags};
use sim::{Nanos, Work};
use sqlite_vfs::{DatabaseHandle, LockKind, OpenAccess, OpenKind, OpenOptions, Vfs, WalDisabled, register};
use vfs::{Errno, Fd, OpenFlags, Syscalls};

/// The name of the virtual file system.
const VFS: &str = "weir";

/// The databases of a run, while it lasts.
#[derive(Debug)]
pub(crate) struct Databases {
    number: u64,
    run: Run,
}

/// A run that is under way.
#[derive(Clone)]
struct Run {
    calls: Arc<dyn Syscalls>,
    /// SQLite's own work on each page that it reads, in steps.
    page_steps: u64,
    /// Files that were asked for and not there.
    missing: Arc<AtomicU64>,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("page_steps", &self.page_steps).finish_non_exhaustive()
    }
}

/// The runs that are under way, by number. Held for a look-up only.
static RUNS: Mutex<BTreeMap<u64, Run>> = Mutex::new(BTreeMap::new());
static REGISTERED: Once = Once::new();

fn runs() -> MutexGuard<'static, BTreeMap<u64, Run>> {
    RUNS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Databases {
    /// Those of a run that makes these calls; SQLite's own work on a page that it reads is so many steps.
    pub(crate) fn new(calls: Arc<dyn Syscalls>, page_steps: u64) -> Self {
        REGISTERED.call_once(|| register(VFS, Files, false).expect("SQLite takes a virtual file system"));
        let run = Run { calls, page_steps, missing: Arc::default() };
        let mut runs = runs();
        let number = runs.last_key_value().map_or(1, |(number, _)| number + 1);
        runs.insert(number, run.clone());
        Self { number, run }
    }

    /// The calls of the run.
    pub(crate) fn calls(&self) -> &dyn Syscalls {
        &*self.run.calls
    }

    /// How many files SQLite asked for that were not there.
    pub(crate) fn missing(&self) -> u64 {
        self.run.missing.load(Relaxed)
    }

    /// Opens a database, or makes it. Its memory is that of SQLite, and its temporary tables stay there.
    pub(crate) fn connect(&self, path: &str) -> rusqlite::Result<Connection> {
        let flags = DatabaseFlags::SQLITE_OPEN_READ_WRITE
            | DatabaseFlags::SQLITE_OPEN_CREATE
            | DatabaseFlags::SQLITE_OPEN_NO_MUTEX;
        Connection::open_with_flags_and_vfs(format!("{}:{path}", self.number), flags, VFS)
    }
}

impl Drop for Databases {
    fn drop(&mut self) {
        runs().remove(&self.number);
    }
}

/// The files of all runs, as SQLite sees them.
struct Files;

/// An open file of SQLite.
struct File {
    run: Run,
    fd: Fd,
    /// The directory that its first sync makes durable: that of a journal which is new.
    new_in: Option<Vec<u8>>,
    lock: LockKind,
}

fn io(errno: Errno) -> Error {
    let kind = if errno == Errno::ENOENT { ErrorKind::NotFound } else { ErrorKind::Other };
    Error::new(kind, errno.to_string())
}

/// `NUMBER:PATH`.
fn resolve(name: &str) -> Result<(Run, &[u8])> {
    let unknown = || Error::new(ErrorKind::NotFound, format!("{name}: no run has this file"));
    let (number, path) = name.split_once(':').ok_or_else(unknown)?;
    let number: u64 = number.parse().map_err(|_| unknown())?;
    let run = runs().get(&number).cloned().ok_or_else(unknown)?;
    Ok((run, path.as_bytes()))
}

/// The directory of a path.
fn above(path: &[u8]) -> Vec<u8> {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(0) => b"/".to_vec(),
        Some(at) => path[..at].to_vec(),
        None => b".".to_vec(),
    }
}

impl Vfs for Files {
    type Handle = File;

    fn open(&self, db: &str, opts: OpenOptions) -> Result<File> {
        let is_log = matches!(opts.kind, OpenKind::MainJournal | OpenKind::Wal);
        if !is_log && opts.kind != OpenKind::MainDb {
            return Err(Error::new(ErrorKind::Unsupported, "only a database, its journal and its log"));
        }
        let (run, path) = resolve(db)?;
        let makes = matches!(opts.access, OpenAccess::Create | OpenAccess::CreateNew);
        let flags = OpenFlags::READ | OpenFlags::WRITE;
        let flags = if makes { flags | OpenFlags::CREATE } else { flags };
        let fd = run.calls.open(path, flags, 0o644).map_err(io)?;
        let new_in = (is_log && makes).then(|| above(path));
        Ok(File { run, fd, new_in, lock: LockKind::None })
    }

    fn delete(&self, db: &str) -> Result<()> {
        let (run, path) = resolve(db)?;
        run.calls.unlink(path).map_err(io)
    }

    fn exists(&self, db: &str) -> Result<bool> {
        let (run, path) = resolve(db)?;
        match run.calls.stat(path) {
            Ok(_) => Ok(true),
            Err(Errno::ENOENT) => {
                run.missing.fetch_add(1, Relaxed);
                Ok(false)
            }
            Err(errno) => Err(io(errno)),
        }
    }

    fn temporary_name(&self) -> String {
        "none".to_owned()
    }

    /// SQLite asks for what names of files and checksums of journals begin with: the same in each run.
    fn random(&self, buffer: &mut [i8]) {
        for (at, byte) in (1_u64..).zip(buffer) {
            *byte = (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as i8;
        }
    }

    fn sleep(&self, duration: Duration) -> Duration {
        sim::sleep(Nanos(duration.as_nanos() as u64));
        duration
    }
}

impl DatabaseHandle for File {
    type WalIndex = WalDisabled;

    fn size(&self) -> Result<u64> {
        self.run.calls.fstat(self.fd).map(|attr| attr.size).map_err(io)
    }

    fn read_exact_at(&mut self, buf: &mut [u8], offset: u64) -> Result<()> {
        sim::work(Work::STEP, self.run.page_steps);
        let bytes = self.run.calls.pread(self.fd, buf, offset).map_err(io)?;
        if bytes < buf.len() {
            buf[bytes..].fill(0);
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    fn write_all_at(&mut self, buf: &[u8], offset: u64) -> Result<()> {
        let written = self.run.calls.pwrite(self.fd, buf, offset).map_err(io)?;
        if written == buf.len() { Ok(()) } else { Err(ErrorKind::WriteZero.into()) }
    }

    fn sync(&mut self, _data_only: bool) -> Result<()> {
        self.run.calls.fdatasync(self.fd).map_err(io)?;
        let Some(directory) = self.new_in.take() else { return Ok(()) };
        let flags = OpenFlags::READ | OpenFlags::DIRECTORY;
        let fd = self.run.calls.open(&directory, flags, 0).map_err(io)?;
        let synced = self.run.calls.fsync(fd).map_err(io);
        self.run.calls.close(fd).map_err(io)?;
        synced
    }

    /// SQLite tells how large the database will be, too. Its own files on Unix grow by writes all the same, unless they have a
    /// chunk size.
    fn set_len(&mut self, size: u64) -> Result<()> {
        if size > self.size()? {
            return Ok(());
        }
        self.run.calls.ftruncate(self.fd, size).map_err(io)
    }

    /// Nothing else opens the file.
    fn lock(&mut self, lock: LockKind) -> Result<bool> {
        self.lock = lock;
        Ok(true)
    }

    fn reserved(&mut self) -> Result<bool> {
        Ok(matches!(self.lock, LockKind::Reserved | LockKind::Pending | LockKind::Exclusive))
    }

    fn current_lock(&self) -> Result<LockKind> {
        Ok(self.lock)
    }

    fn wal_index(&self, _readonly: bool) -> Result<WalDisabled> {
        Ok(WalDisabled)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = self.run.calls.close(self.fd);
        }
    }
}
