//! TPC-C on SQLite itself, in this process ([`crate::sqlite`]): the tables and transactions in SQL.
//!
//! All terminals share one connection and take turns, a transaction each, since SQLite has one writer at a time. What SQLite
//! computes is charged by row under the virtual clock; under the real one it takes its time.
//!
//! | module | holds |
//! |---|---|
//! | `load` | the first rows, which are those of the other layers |
//! | `transactions` | the five transactions |

mod load;
mod transactions;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use rusqlite::Connection;
use sim::{LockClass, Mutex, Nanos, Seed};
use vfs::Syscalls;

use super::COUNTS;
use super::engine::Done;
use super::schema::Scale;
use crate::app::control::{Failure, Tally};
use crate::sqlite::{Counts, Databases};
pub(super) use transactions::Terminal;

/// The turn of a terminal.
pub(super) static CONNECTION: LockClass = LockClass::new("app.tpcc.connection");

const DATABASE: &str = "tpcc.db";
const TABLES: &str = include_str!("tables.sql");
const CONDITIONS: &str = include_str!("conditions.sql");
/// Statements that are kept compiled: all that transactions have.
const STATEMENTS: usize = 64;

/// How a commit becomes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Journal {
    /// Old pages are written to a journal, which is removed: SQLite's default.
    Delete,
    /// New pages are appended to a log.
    Wal,
}

/// How the database is used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// Bytes of SQLite's cache of pages.
    pub(super) cache: u64,
    pub(super) journal: Journal,
    pub(super) clients: u64,
}

/// SQLite's own cache of pages (`SQLITE_DEFAULT_CACHE_SIZE`, -2000).
pub(super) const USUAL_CACHE: u64 = 2000 << 10;

/// The least that SQLite works with.
pub(super) const LEAST_CACHE: u64 = 16 << 10;
/// Bytes of a page (`SQLITE_DEFAULT_PAGE_SIZE`).
pub(super) const PAGE: u64 = 4096;
/// Room for pages that are not full, and for the journal or the log.
pub(super) const BESIDE: u64 = 64 << 20;

/// A database of a run.
pub(super) struct Database {
    files: Databases,
    connection: Mutex<Option<Connection>>,
    /// What was counted when the measured time began.
    begun: OnceLock<[u64; COUNTS.len()]>,
    /// Terminals that have not left yet.
    clients: AtomicU64,
}

fn values(counts: &Counts) -> [u64; COUNTS.len()] {
    [
        &counts.reads,
        &counts.read_bytes,
        &counts.writes,
        &counts.written_bytes,
        &counts.log_writes,
        &counts.log_bytes,
        &counts.log_syncs,
        &counts.page_syncs,
    ]
    .map(|count| count.load(Relaxed))
}

/// A statement that failed.
#[expect(clippy::needless_pass_by_value, reason = "map_err passes a value")]
fn failed(error: rusqlite::Error) -> Failure {
    let full = error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull);
    Failure::new(format!("SQLite: {error}"), full.then_some(vfs::Errno::ENOSPC))
}

/// Makes the database with its first rows.
pub(super) fn populate(calls: Arc<dyn Syscalls>, scale: Scale, seed: Seed) -> Done {
    let files = Databases::new(calls, 0);
    let connection = files.connect(DATABASE).map_err(failed)?;
    connection.execute_batch("pragma journal_mode = off; pragma synchronous = off; begin").map_err(failed)?;
    connection.execute_batch(TABLES).map_err(failed)?;
    load::fill(&connection, scale, seed)?;
    connection.execute_batch("commit").map_err(failed)
}

impl Database {
    /// Opens the database of a run.
    pub(super) fn open(calls: Arc<dyn Syscalls>, settings: Settings) -> Done<Self> {
        let files = Databases::new(calls, 0);
        let connection = files.connect(DATABASE).map_err(failed)?;
        // Without memory that processes share, only one may use a database with a log, which is said before it is read.
        let (first, journal) = match settings.journal {
            Journal::Delete => ("", "delete"),
            Journal::Wal => ("pragma locking_mode = exclusive;", "wal"),
        };
        let cache = settings.cache >> 10;
        let pragmas = format!(
            "{first} pragma cache_size = -{cache}; pragma synchronous = full; pragma temp_store = memory; \
             pragma journal_mode = {journal}"
        );
        connection.execute_batch(&pragmas).map_err(failed)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        Ok(Self {
            files,
            connection: Mutex::new(&CONNECTION, Some(connection)),
            begun: OnceLock::new(),
            clients: AtomicU64::new(settings.clients),
        })
    }

    /// Calls count from now on, if this was not said before.
    fn begin_counting(&self) {
        self.begun.get_or_init(|| values(self.files.counts()));
    }

    /// A terminal has ended; the last one tells what was counted.
    fn leave(&self, tally: &mut Tally) {
        if self.clients.fetch_sub(1, Relaxed) > 1 {
            return;
        }
        let begun = self.begun.get().copied().unwrap_or_default();
        for ((name, now), before) in COUNTS.into_iter().zip(values(self.files.counts())).zip(begun) {
            tally.add(name, now - before);
        }
    }

    /// Closes the database. Unless its work was cut short, the consistency conditions must hold.
    pub(super) fn close(&self, is_whole: bool) -> Done {
        let Some(connection) = self.connection.lock().take() else { return Ok(()) };
        if is_whole { check(&connection) } else { Ok(()) }
    }
}

/// Checks the consistency conditions 1 to 4; the failure names the first that is broken, and the row.
fn check(connection: &Connection) -> Done {
    let mut conditions = connection.prepare(CONDITIONS).map_err(failed)?;
    let mut broken = conditions.query([]).map_err(failed)?;
    let Some(row) = broken.next().map_err(failed)? else { return Ok(()) };
    let (condition, told): (i64, String) = (row.get(0).map_err(failed)?, row.get(1).map_err(failed)?);
    Err(Failure::new(format!("consistency condition {condition} does not hold: {told}"), None))
}

/// What SQLite computes for rows, under the virtual clock.
fn computes(row: Nanos, rows: u64) {
    if sim::clock() == sim::Clock::Virtual {
        sim::compute_for(row * rows);
    }
}

#[cfg(test)]
mod tests;
