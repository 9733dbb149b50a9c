//! Applications: the calls of well-known programs, made in this process. `weir bench app/dbench`.
//!
//! An application is a closed loop of clients. Each makes the calls that the real program makes, in the program's order, and
//! computes between them as long as its variables say. What calls that are was read from the programs (strace);
//! `docs/applications.md` says how each is compared with the original.
//!
//! | module | holds |
//! |---|---|
//! | `desktop` | a person's computer, or a telephone: several programs at once |
//! | `kernel_grep` | grep over a tree of sources |
//! | `make_like` | a build of C sources as a kernel's, generated |
//! | `dbench` | DBENCH: the interpreter of its load files |
//! | `exim` | Exim: a mail server that takes messages and delivers them |
//! | `postmark` | PostMark: transactions on many small files |
//! | `rocksdb` | RocksDB: a log, memtables, and tables that are merged |
//! | `program` | the programs themselves, in a directory of the host |
//! | `tpcc` | TPC-C: a supplier's orders, on a storage engine with two storage layers |
//! | `control` | start and end of a run, and what is counted |
//! | `run` | a [`Job`](crate::suite::Job) of clients |
//! | `listing` | reading directories as programs do |
//! | `variables` | variables with their checks |

pub(crate) mod control;
mod dbench;
mod desktop;
mod exim;
mod kernel_grep;
pub(crate) mod listing;
mod make_like;
mod postmark;
mod program;
mod rocksdb;
pub(crate) mod run;
mod tpcc;
pub(crate) mod variables;

use std::sync::Arc;

use sim::{LockClass, Nanos};

pub use program::{VARIABLE as PROGRAM, ends_by_itself, found, is_program};

use crate::suite::{Entry, LoadError, Settings, Suite, Switch, Workload};

static CLASSES: &[&LockClass] = &[
    &exim::TASK_LIST,
    &exim::PROCESS_IDS,
    &exim::BACKLOG,
    rocksdb::CLASSES[0],
    rocksdb::CLASSES[1],
    rocksdb::CLASSES[2],
    rocksdb::CLASSES[3],
    rocksdb::CLASSES[4],
    tpcc::CLASSES[0],
    tpcc::CLASSES[1],
    tpcc::CLASSES[2],
    tpcc::CLASSES[3],
    tpcc::CLASSES[4],
];

/// The suite.
#[derive(Clone, Copy, Debug)]
pub struct App;

/// An application.
struct Application {
    entry: Entry,
    detail: &'static str,
    load: fn(&Settings) -> Result<Arc<dyn Workload>, LoadError>,
}

const APPLICATIONS: &[Application] = &[
    Application {
        entry: Entry {
            name: "exim",
            summary: "a mail server: messages are taken by SMTP, spooled, and appended to mailboxes (FxMark's Exim)",
        },
        detail: exim::DETAIL,
        load: exim::load,
    },
    Application {
        entry: Entry {
            name: "dbench",
            summary: "a file server's clients: the load file of dbench 4, operation for operation (FxMark's DBENCH)",
        },
        detail: dbench::DETAIL,
        load: dbench::load,
    },
    Application {
        entry: Entry {
            name: "rocksdb",
            summary: "a key-value store: random keys are overwritten, tables are merged (FxMark's RocksDB, db_bench)",
        },
        detail: rocksdb::DETAIL,
        load: rocksdb::load,
    },
    Application {
        entry: Entry {
            name: "postmark",
            summary: "PostMark: small files are made, read, appended to and removed, as a mail or news server does",
        },
        detail: postmark::DETAIL,
        load: postmark::load,
    },
    Application {
        entry: Entry {
            name: "tpcc",
            summary: "TPC-C: a supplier's orders in a database whose pages and log are as InnoDB's or PostgreSQL's",
        },
        detail: tpcc::DETAIL,
        load: tpcc::load,
    },
    Application {
        entry: Entry {
            name: "kernel-grep",
            summary: "grep over a tree of sources as large as a tenth of Linux's; nothing is written",
        },
        detail: kernel_grep::DETAIL,
        load: kernel_grep::load,
    },
    Application {
        entry: Entry {
            name: "make-like",
            summary: "make of C sources as of a kernel's tree; generated calls, no recorded build",
        },
        detail: make_like::DETAIL,
        load: make_like::load,
    },
    Application {
        entry: Entry {
            name: "desktop-a",
            summary: "a desktop: browser, database, logs, editor and builds; made up, no recorded trace",
        },
        detail: desktop::DETAIL,
        load: |settings| desktop::load(&desktop::DESKTOP_A, settings),
    },
    Application {
        entry: Entry {
            name: "desktop-b",
            summary: "the same with more of the database; made up, no recorded trace",
        },
        detail: desktop::DETAIL,
        load: |settings| desktop::load(&desktop::DESKTOP_B, settings),
    },
    Application {
        entry: Entry {
            name: "desktop-nosync",
            summary: "a desktop that syncs nothing; made up, no recorded trace",
        },
        detail: desktop::DETAIL,
        load: |settings| desktop::load(&desktop::DESKTOP_NOSYNC, settings),
    },
    Application {
        entry: Entry {
            name: "mobile",
            summary: "a telephone's databases and tiny appends; made from counts, no recorded trace",
        },
        detail: desktop::DETAIL,
        load: |settings| desktop::load(&desktop::MOBILE, settings),
    },
];

/// Applications of the same papers that are not here yet.
const NOT_BUILT: [&str; 3] = ["redb", "sqlite", "kernel-make"];

fn find(name: &str) -> Option<&'static Application> {
    APPLICATIONS.iter().find(|application| application.entry.name == name)
}

impl Suite for App {
    fn name(&self) -> &'static str {
        "app"
    }

    fn summary(&self) -> &'static str {
        "applications: the calls of a mail server, a file server's clients and others"
    }

    fn entries(&self) -> Vec<Entry> {
        APPLICATIONS.iter().map(|application| application.entry).collect()
    }

    fn usual(&self) -> Vec<Entry> {
        self.entries()
    }

    fn usual_time(&self, modelled: bool) -> Nanos {
        // Under the virtual clock a fifth of a second holds thousands of messages, and dbench's first files.
        if modelled { Nanos::from_millis(200) } else { Nanos::from_secs(10) }
    }

    fn warms_up(&self) -> bool {
        true
    }

    fn file_counts(&self) -> &'static [&'static str] {
        &["number"]
    }

    fn switches(&self) -> &'static [Switch] {
        &[]
    }

    fn classes(&self) -> &'static [&'static LockClass] {
        CLASSES
    }

    fn load(&self, name: &str, settings: &Settings) -> Result<Arc<dyn Workload>, LoadError> {
        match find(name) {
            Some(_) if settings.vars.contains_key(program::VARIABLE) => program::load(name, settings),
            Some(application) => (application.load)(settings),
            None if NOT_BUILT.contains(&name) => Err(LoadError::Wrong(format!(
                "app/{name} is not built; record the program and replay it: `weir record -- PROGRAM …`, `weir bench trace:FILE`"
            ))),
            None => Err(LoadError::Unknown(name.to_owned())),
        }
    }

    fn describe(&self, name: &str) -> Option<String> {
        find(name).map(|application| application.detail.to_owned())
    }
}
