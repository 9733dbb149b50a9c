//! The storage layers: which files a database has, how large pages and blocks of the log are, and where each lies.
//!
//! | | `postgres` | `innodb` |
//! |---|---|---|
//! | pages | 8 KiB, a file for each tree | 16 KiB, all in one tablespace |
//! | torn pages | a page's first change behind a checkpoint logs the page | pages are written twice, first to blocks 64 to 183 |
//! | log | segments of 16 MiB, used again; blocks of 8 KiB | two files of 48 MiB in a circle; blocks of 512 bytes |
//! | checkpoint | every 48 MiB of log or 300 s: all pages | pages in batches, those that changed first in front |
//!
//! Sources: PostgreSQL 8.4's defaults (`checkpoint_segments` 3, `checkpoint_timeout` 300 s, `full_page_writes` on, WAL blocks of
//! 8 KiB, segments of 16 MiB) and its calls as PostgreSQL 15 makes them (strace); MySQL's defaults (`innodb_page_size` 16 KiB,
//! `innodb_log_file_size` 48 MiB times 2, doublewrite of 128 pages of which 120 are for batches).

use super::log::Lengths;

const MIB: u64 = 1 << 20;

/// Pages of the tablespace's first part, in which the doublewrite buffer lies.
pub(super) const FIRST_FREE: u32 = 192;
/// The first page of the doublewrite buffer.
pub(super) const DOUBLEWRITE: u32 = 64;
/// Its pages for batches; those behind are for single pages.
pub(super) const BATCH: usize = 120;
/// The segments of log between two checkpoints.
pub(super) const SEGMENTS: u64 = 3;
/// The first blocks of the first log file, which hold no log.
pub(super) const LOG_HEAD: u64 = 2048;

/// A storage layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::app::tpcc) enum Layer {
    /// As PostgreSQL writes.
    Postgres,
    /// As MySQL's InnoDB writes.
    InnoDb,
}

impl Layer {
    /// Bytes of a page.
    pub(in crate::app::tpcc) fn page(self) -> usize {
        match self {
            Self::Postgres => 8 << 10,
            Self::InnoDb => 16 << 10,
        }
    }

    /// Bytes of a block of the log.
    pub(super) fn block(self) -> u64 {
        match self {
            Self::Postgres => 8 << 10,
            Self::InnoDb => 512,
        }
    }

    /// Bytes of log in a file.
    pub(super) fn log_file(self) -> u64 {
        match self {
            Self::Postgres => 16 * MIB,
            Self::InnoDb => 48 * MIB - LOG_HEAD,
        }
    }

    /// Bytes of log files, and of the doublewrite buffer.
    pub(in crate::app::tpcc) fn besides_pages(self) -> u64 {
        match self {
            Self::Postgres => (2 * SEGMENTS + 2) * 16 * MIB,
            Self::InnoDb => 2 * 48 * MIB + u64::from(FIRST_FREE) * (16 << 10),
        }
    }

    /// The pool of a default installation.
    pub(in crate::app::tpcc) fn usual_pool(self) -> u64 {
        match self {
            Self::Postgres => 32 * MIB,
            Self::InnoDb => 128 * MIB,
        }
    }

    /// PostgreSQL's records as they were found there; InnoDB's are as long as what they hold.
    pub(super) fn lengths(self) -> Lengths {
        match self {
            Self::Postgres => Lengths { update: 120, insert: 100 },
            Self::InnoDb => Lengths::default(),
        }
    }

    /// Where the log of a new database begins.
    pub(super) fn first_lsn(self) -> u64 {
        match self {
            Self::Postgres => 16 * MIB,
            Self::InnoDb => 8192,
        }
    }

    /// How full leaves are made at first, in hundredths: PostgreSQL's fillfactor of B-trees, InnoDB's 15 of 16.
    pub(super) fn fill(self) -> usize {
        match self {
            Self::Postgres => 90,
            Self::InnoDb => 93,
        }
    }

    /// The file of tree number `tree`.
    pub(super) fn file(self, tree: usize) -> u16 {
        match self {
            Self::Postgres => tree as u16,
            Self::InnoDb => 0,
        }
    }

    /// The root of tree number `tree`.
    pub(super) fn root(self, tree: usize) -> u32 {
        match self {
            Self::Postgres => 1,
            Self::InnoDb => 1 + tree as u32,
        }
    }

    /// The first page of a file that no one has.
    pub(super) fn first_free(self) -> u32 {
        match self {
            Self::Postgres => 2,
            Self::InnoDb => FIRST_FREE,
        }
    }

    /// How many files hold pages of so many trees.
    pub(super) fn files(self, trees: usize) -> usize {
        match self {
            Self::Postgres => trees,
            Self::InnoDb => 1,
        }
    }

    /// The name of a file of pages.
    pub(super) fn path(self, file: usize) -> String {
        match self {
            Self::Postgres => format!("data/base/1/{}", 16384 + file),
            Self::InnoDb => "data/ibdata1".to_owned(),
        }
    }

    /// The name of the log file with number `number`.
    pub(super) fn log_path(self, number: u64) -> String {
        match self {
            Self::Postgres => format!("data/pg_wal/{number:024X}"),
            Self::InnoDb => format!("data/ib_logfile{}", number % 2),
        }
    }

    /// Directories, each behind that above it.
    pub(super) fn directories(self) -> &'static [&'static str] {
        match self {
            Self::Postgres => &["data", "data/base", "data/base/1", "data/pg_wal", "data/global"],
            Self::InnoDb => &["data"],
        }
    }

    /// The number of the log file of a position, and the offset there.
    pub(super) fn log_place(self, lsn: u64) -> (u64, u64) {
        let (number, offset) = (lsn / self.log_file(), lsn % self.log_file());
        match self {
            Self::Postgres => (number, offset),
            Self::InnoDb => (number, LOG_HEAD + offset),
        }
    }
}
