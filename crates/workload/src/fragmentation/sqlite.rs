//! A database that SQLite writes row by row while another file grows, then reads in one scan.
//!
//! It is SQLite itself, in this process ([`crate::sqlite`]). Its own work under the virtual clock is [`PAGE_STEPS`] for each page
//! that it reads; the calls and the file system charge theirs.
//!
//! ```text
//! journal_mode = off, synchronous = on, a table of an id (primary key, not the rowid) and 16 KiB of text in four columns
//! 10,000 times, id descending: INSERT (a transaction of its own); append 100 KiB to the other file, fdatasync
//! `reads` times: sync, drop caches, wait 5 s, open, SELECT * without looking at the rows: only this is timed
//! ```
//!
//! Reference: the study's artifact.

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::{Connection, params};
use sim::{KIB, Nanos};
use vfs::{Fd, OpenFlags, Syscalls};

use super::layout::mixed;
use super::target::{settle, told, write_all};
use crate::sqlite::Databases;
use crate::suite::{How, Job, JobError, Measured, Phase, Processes};

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
    databases: Databases,
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
        let databases = Databases::new(processes.start(), self.page_steps);
        Arc::new(Run { plan: self, seed: how.seed.0, databases })
    }
}

impl Run {
    fn connect(&self) -> Result<Connection, JobError> {
        let connection = self.databases.connect(DATABASE).map_err(|error| words(&error))?;
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
                write_all(self.databases.calls(), other, &zeros, at)?;
                self.databases.calls().fdatasync(other).map_err(told("fdatasync"))?;
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
        let fd =
            self.databases.calls().open(DATABASE.as_bytes(), OpenFlags::READ, 0).map_err(told("open"))?;
        let extents = self.databases.calls().extents(fd).map_or(0, |extents| extents.len() as u64);
        let size = self.databases.calls().fstat(fd).map_err(told("stat"))?.size;
        self.databases.calls().close(fd).map_err(told("close"))?;
        Ok(BTreeMap::from([("extents".to_owned(), extents), ("file_pages".to_owned(), size / (4 * KIB))]))
    }
}

impl Job for Run {
    fn prepare(&self) -> Result<(), JobError> {
        let flags = OpenFlags::WRITE | OpenFlags::CREATE;
        let other = self.databases.calls().open(OTHER, flags, 0o644).map_err(told("open"))?;
        let connection = self.connect()?;
        self.insert_rows(&connection, other)?;
        drop(connection);
        self.databases.calls().close(other).map_err(told("close"))
    }

    fn work(&self, watch: &mut dyn FnMut(Phase)) -> Result<Measured, JobError> {
        let mut measured = Measured { counters: self.shape()?, ..Measured::default() };
        watch(Phase::Begins);
        let missing = self.databases.missing();
        for _ in 0..self.plan.reads.max(1) {
            self.databases.calls().sync().map_err(told("sync"))?;
            settle(self.databases.calls())?;
            let (took, rows) = self.scan()?;
            if rows != self.plan.rows {
                return Err(JobError::Failed(format!("{rows} of {} rows", self.plan.rows)));
            }
            measured.elapsed += took;
            // Four pages of text in each row.
            measured.ops += rows * 4;
        }
        watch(Phase::Ends);
        measured.provided_for = self.databases.missing() - missing;
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
