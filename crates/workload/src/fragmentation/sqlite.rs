//! A database that SQLite writes row by row while another file grows, then reads in one scan.
//!
//! It is SQLite itself, in this process: its virtual file system ([`Files`]) makes the system calls of the run. Its own work under
//! the virtual clock is [`PAGE_STEPS`] for each page that it reads; the calls and the file system charge theirs.
//!
//! ```text
//! journal_mode = off, synchronous = on, a table of an id (primary key, not the rowid) and 16 KiB of text in four columns
//! 10,000 times, id descending: INSERT (a transaction of its own); append 100 KiB to the other file, fdatasync
//! `reads` times: sync, drop caches, wait 5 s, open, SELECT * without looking at the rows: only this is timed
//! ```
//!
//! SQLite has one table of virtual file systems for the process, so there is one entry for all runs, and the name of a database
//! says which run it is of.
//!
//! References: the study's artifact; the documentation of SQLite's VFS (sqlite.org/vfs.html).

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result as IoResult};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags as DatabaseFlags, params};
use sim::{KIB, Nanos, Work};
use sqlite_vfs::{DatabaseHandle, LockKind, OpenKind, OpenOptions, Vfs, WalDisabled, register};
use vfs::{Errno, Fd, OpenFlags, Syscalls};

use super::layout::mixed;
use super::target::{settle, told, write_all};
use crate::suite::{How, Job, JobError, Measured, Phase, Processes};

/// The name of the virtual file system.
const VFS: &str = "weir-fragmentation";
const DATABASE: &str = "/database";
const OTHER: &[u8] = b"/other";

/// What SQLite does with a page of this scan, in steps of a search of the machine `fast24-server` (7 ns): 250 ns of user time for
/// each of 41,302 pages on an AMD EPYC (SQLite 3.40.1, `sqlite3_exec` without a callback, file in memory, getrusage(2)), doubled
/// for a processor of two thirds of the clock that does three quarters as much in a cycle.
pub(super) const PAGE_STEPS: u64 = 70;

/// Characters of the four columns.
const COLUMNS: [usize; 4] = [4096, 4096, 4096, 4094];

/// What is done.
#[derive(Clone, Debug)]
pub(super) struct Database {
    pub(super) rows: u64,
    /// Bytes that the other file grows by after each row; 0: there is none.
    pub(super) other: u64,
    pub(super) reads: u64,
    /// SQLite's own work on a page.
    pub(super) page_steps: u64,
}

struct Run {
    plan: Database,
    seed: u64,
    number: u64,
    known: Known,
}

/// A run that is under way.
#[derive(Clone)]
struct Known {
    calls: Arc<dyn Syscalls>,
    page_steps: u64,
    /// How often SQLite asked for a file that was not there.
    missing: Arc<AtomicU64>,
}

/// The runs that are under way, by number. Held for a look-up only.
static RUNS: Mutex<BTreeMap<u64, Known>> = Mutex::new(BTreeMap::new());
static REGISTERED: Once = Once::new();

fn runs() -> MutexGuard<'static, BTreeMap<u64, Known>> {
    RUNS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The files of all runs, as SQLite sees them.
struct Files;

/// An open file of SQLite.
struct File {
    run: Known,
    fd: Fd,
    lock: LockKind,
}

fn io(errno: Errno) -> Error {
    let kind = if errno == Errno::ENOENT { ErrorKind::NotFound } else { ErrorKind::Other };
    Error::new(kind, errno.to_string())
}

/// `NUMBER:PATH`.
fn resolve(name: &str) -> IoResult<(Known, &[u8])> {
    let unknown = || Error::new(ErrorKind::NotFound, format!("{name}: no run has this file"));
    let (number, path) = name.split_once(':').ok_or_else(unknown)?;
    let number: u64 = number.parse().map_err(|_| unknown())?;
    let run = runs().get(&number).cloned().ok_or_else(unknown)?;
    Ok((run, path.as_bytes()))
}

impl Vfs for Files {
    type Handle = File;

    fn open(&self, db: &str, opts: OpenOptions) -> IoResult<File> {
        if opts.kind != OpenKind::MainDb {
            return Err(Error::new(ErrorKind::Unsupported, "only a database itself, no journal"));
        }
        let (run, path) = resolve(db)?;
        let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREATE;
        let fd = run.calls.open(path, flags, 0o644).map_err(io)?;
        Ok(File { run, fd, lock: LockKind::None })
    }

    fn delete(&self, db: &str) -> IoResult<()> {
        let (run, path) = resolve(db)?;
        run.calls.unlink(path).map_err(io)
    }

    fn exists(&self, db: &str) -> IoResult<bool> {
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

    /// SQLite asks for randomness once, for names that this run does not use.
    fn random(&self, buffer: &mut [i8]) {
        for (at, byte) in (0..).zip(buffer) {
            *byte = mixed(1, at) as i8;
        }
    }

    fn sleep(&self, duration: Duration) -> Duration {
        sim::sleep(Nanos(duration.as_nanos() as u64));
        duration
    }
}

impl DatabaseHandle for File {
    type WalIndex = WalDisabled;

    fn size(&self) -> IoResult<u64> {
        self.run.calls.fstat(self.fd).map(|attr| attr.size).map_err(io)
    }

    fn read_exact_at(&mut self, buf: &mut [u8], offset: u64) -> IoResult<()> {
        sim::work(Work::STEP, self.run.page_steps);
        let bytes = self.run.calls.pread(self.fd, buf, offset).map_err(io)?;
        if bytes < buf.len() {
            buf[bytes..].fill(0);
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    fn write_all_at(&mut self, buf: &[u8], offset: u64) -> IoResult<()> {
        match self.run.calls.pwrite(self.fd, buf, offset).map_err(io)? {
            bytes if bytes == buf.len() => Ok(()),
            _ => Err(ErrorKind::WriteZero.into()),
        }
    }

    fn sync(&mut self, _data_only: bool) -> IoResult<()> {
        self.run.calls.fdatasync(self.fd).map_err(io)
    }

    /// SQLite tells how large the database will be, too. Its own files on Unix grow by writes all the same, unless they have a
    /// chunk size.
    fn set_len(&mut self, size: u64) -> IoResult<()> {
        if size > self.size()? {
            return Ok(());
        }
        self.run.calls.ftruncate(self.fd, size).map_err(io)
    }

    /// Nothing else opens the file.
    fn lock(&mut self, lock: LockKind) -> IoResult<bool> {
        self.lock = lock;
        Ok(true)
    }

    fn reserved(&mut self) -> IoResult<bool> {
        Ok(matches!(self.lock, LockKind::Reserved | LockKind::Pending | LockKind::Exclusive))
    }

    fn current_lock(&self) -> IoResult<LockKind> {
        Ok(self.lock)
    }

    fn wal_index(&self, _readonly: bool) -> IoResult<WalDisabled> {
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

fn words(error: &rusqlite::Error) -> JobError {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => JobError::Full(format!("SQLite: {error}")),
        _ => JobError::Failed(format!("SQLite: {error}")),
    }
}

impl Database {
    pub(super) fn data_bytes(&self) -> u64 {
        self.rows * (17 * KIB + self.other)
    }

    pub(super) fn job(self, how: &How, processes: &dyn Processes) -> Arc<dyn Job> {
        REGISTERED.call_once(|| register(VFS, Files, false).expect("SQLite takes a virtual file system"));
        let calls = processes.start();
        let mut runs = runs();
        let number = runs.last_key_value().map_or(1, |(number, _)| number + 1);
        let known = Known { calls, page_steps: self.page_steps, missing: Arc::default() };
        runs.insert(number, known.clone());
        Arc::new(Run { plan: self, seed: how.seed.0, number, known })
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        runs().remove(&self.number);
    }
}

impl Run {
    fn connect(&self) -> Result<Connection, JobError> {
        let flags = DatabaseFlags::SQLITE_OPEN_READ_WRITE
            | DatabaseFlags::SQLITE_OPEN_CREATE
            | DatabaseFlags::SQLITE_OPEN_NO_MUTEX;
        let name = format!("{}:{DATABASE}", self.number);
        let connection =
            Connection::open_with_flags_and_vfs(name, flags, VFS).map_err(|error| words(&error))?;
        connection
            .execute_batch("PRAGMA journal_mode = off; PRAGMA synchronous = on;")
            .map_err(|error| words(&error))?;
        Ok(connection)
    }

    /// Letters without a pattern.
    fn letters(&self, row: u64, column: usize) -> String {
        let letter = |at: u64| {
            const LETTERS: &[u8; 52] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
            char::from(LETTERS[(mixed(self.seed ^ row, at) % 52) as usize])
        };
        let first = column as u64 * 4096;
        (first..first + COLUMNS[column] as u64).map(letter).collect()
    }

    fn insert_rows(&self, connection: &Connection, other: Fd) -> Result<(), JobError> {
        let table =
            "CREATE TABLE t (id INT PRIMARY KEY, a CHAR(4096), b CHAR(4096), c CHAR(4096), d CHAR(4094))";
        connection.execute_batch(table).map_err(|error| words(&error))?;
        let mut insert =
            connection.prepare("INSERT INTO t VALUES (?, ?, ?, ?, ?)").map_err(|error| words(&error))?;
        let zeros = vec![0; self.plan.other as usize];
        for row in (1..=self.plan.rows).rev() {
            let [a, b, c, d] = [0, 1, 2, 3].map(|column| self.letters(row, column));
            insert.execute(params![row.cast_signed(), a, b, c, d]).map_err(|error| words(&error))?;
            if self.plan.other > 0 {
                let at = (self.plan.rows - row) * self.plan.other;
                write_all(&*self.known.calls, other, &zeros, at)?;
                self.known.calls.fdatasync(other).map_err(told("fdatasync"))?;
            }
        }
        Ok(())
    }

    /// One scan; how many rows.
    fn scan(&self) -> Result<(Nanos, u64), JobError> {
        let connection = self.connect()?;
        let begin = sim::now();
        let mut select = connection.prepare("SELECT * FROM t").map_err(|error| words(&error))?;
        let mut rows = select.query([]).map_err(|error| words(&error))?;
        let mut count = 0;
        while rows.next().map_err(|error| words(&error))?.is_some() {
            count += 1;
        }
        Ok((sim::now().since(begin), count))
    }

    fn shape(&self) -> Result<BTreeMap<String, u64>, JobError> {
        let fd = self.known.calls.open(DATABASE.as_bytes(), OpenFlags::READ, 0).map_err(told("open"))?;
        let extents = self.known.calls.extents(fd).map_or(0, |extents| extents.len() as u64);
        let size = self.known.calls.fstat(fd).map_err(told("stat"))?.size;
        self.known.calls.close(fd).map_err(told("close"))?;
        Ok(BTreeMap::from([("extents".to_owned(), extents), ("file_pages".to_owned(), size / (4 * KIB))]))
    }
}

impl Job for Run {
    fn prepare(&self) -> Result<(), JobError> {
        let flags = OpenFlags::WRITE | OpenFlags::CREATE;
        let other = self.known.calls.open(OTHER, flags, 0o644).map_err(told("open"))?;
        let connection = self.connect()?;
        self.insert_rows(&connection, other)?;
        drop(connection);
        self.known.calls.close(other).map_err(told("close"))
    }

    fn work(&self, watch: &mut dyn FnMut(Phase)) -> Result<Measured, JobError> {
        let mut measured = Measured { counters: self.shape()?, ..Measured::default() };
        watch(Phase::Begins);
        let missing = self.known.missing.load(Relaxed);
        for _ in 0..self.plan.reads.max(1) {
            self.known.calls.sync().map_err(told("sync"))?;
            settle(&*self.known.calls)?;
            let (took, rows) = self.scan()?;
            if rows != self.plan.rows {
                return Err(JobError::Failed(format!("{rows} of {} rows", self.plan.rows)));
            }
            measured.elapsed += took;
            // Four pages of text in each row.
            measured.ops += rows * 4;
        }
        watch(Phase::Ends);
        measured.provided_for = self.known.missing.load(Relaxed) - missing;
        (measured.read_ops, measured.read_bytes) = (measured.ops, measured.ops * 4 * KIB);
        Ok(measured)
    }

    fn verify(&self, _calls: &dyn Syscalls) -> Result<(), JobError> {
        let connection = self.connect()?;
        let found = connection.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
        match found.map_err(|error| words(&error))?.as_str() {
            "ok" => Ok(()),
            wrong => Err(JobError::Failed(format!("SQLite: {wrong}"))),
        }
    }
}
