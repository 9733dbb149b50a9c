//! Suites of workloads: what the laboratory knows of a workload, whichever suite it is of.
//!
//! ```text
//! Suite::load      a name or a file, variables, switches        ─▶ Workload     all errors are found here
//! Workload::job    seed, stop, the processes of one subject      ─▶ Job
//!   prepare        directories and files; never counted
//!   work           the tasks, one measured window                ─▶ Measured
//!   verify         every file against what must be in it
//!   conclude       what must not be left for the next run is removed
//! ```
//!
//! The tasks of a job belong to the suite: how many there are, on which cores, and whether they share a process. A job asks
//! [`Processes`] for as many processes as it wants.
//!
//! Everything after `load` happens inside `sim::run`, under either clock.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use results::{JobRecord, OperationRecord, SpanRecord, StepRecord, WorkerRecord};
use serde::{Deserialize, Serialize};
use sim::{Clock, LockClass, Nanos, Seed};
use thiserror::Error;
use vfs::Syscalls;

/// A family of workloads that are written, named and measured alike.
pub trait Suite: Sync {
    /// The name, which stands before those of its workloads: `NAME/WORKLOAD`.
    fn name(&self) -> &'static str;

    /// One line: what it is, and where it was published.
    fn summary(&self) -> &'static str;

    /// Its built-in workloads, the best-known first.
    fn entries(&self) -> Vec<Entry>;

    /// The workloads for which the suite's name stands when it is given alone.
    fn usual(&self) -> Vec<Entry>;

    /// How long its workloads are measured when nothing is said, under the virtual clock (`modelled`) or the real one.
    /// [`Nanos::MAX`]: until they end by themselves.
    fn usual_time(&self, modelled: bool) -> Nanos;

    /// The ending of files that hold a workload of this suite, if there are such files.
    fn extension(&self) -> Option<&'static str> {
        None
    }

    /// Whether a part of a run's start is usually left unmeasured: what its workloads do at first is not what they do later.
    fn warms_up(&self) -> bool {
        false
    }

    /// Names of variables that hold how many files a workload has: an experiment of a tenth of the size has a tenth of them.
    fn file_counts(&self) -> &'static [&'static str] {
        &[]
    }

    /// The switches with which it repeats what its original does.
    fn switches(&self) -> &'static [Switch];

    /// The classes of locks and cache lines of its own for which its tasks may wait.
    fn classes(&self) -> &'static [&'static LockClass] {
        &[]
    }

    /// The built-in workload `name`, without the suite's name.
    fn load(&self, name: &str, settings: &Settings) -> Result<Arc<dyn Workload>, LoadError>;

    /// The workload in the file called `name` that holds `text`.
    fn read(&self, name: &str, _text: &str, _settings: &Settings) -> Result<Arc<dyn Workload>, LoadError> {
        Err(LoadError::Wrong(format!("{name}: {} has no files with workloads", self.name())))
    }

    /// The workload in the file at `path`, of a suite whose files are no texts; none of one whose files are ([`Suite::read`]).
    fn open(&self, _path: &Path, _settings: &Settings) -> Option<Result<Arc<dyn Workload>, LoadError>> {
        None
    }

    /// More about the built-in workload `name`, for people: its text, or what it does in detail.
    fn describe(&self, name: &str) -> Option<String>;
}

/// A built-in workload in lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name in the suite.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
}

/// A switch between what the original of a suite does and what it should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Its name.
    pub name: &'static str,
    /// How it stands when nothing is said.
    pub default: bool,
    /// What happens when it is on.
    pub help: &'static str,
}

/// What a plan says about a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Variables by name; they win over the workload's own values.
    pub vars: BTreeMap<String, String>,
    /// The number of threads or workers, which wins over a variable; none: the workload's own.
    pub threads: Option<String>,
    /// Switches by name.
    pub switches: BTreeMap<String, bool>,
}

/// Why there is no workload.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The suite has none of that name.
    #[error("there is no workload called \"{0}\"")]
    Unknown(String),
    /// The text, a variable or a switch is wrong: the whole message, with places where there are any.
    #[error("{0}")]
    Wrong(String),
    /// This host lacks what it needs: the whole message, with what to install.
    #[error("{0}")]
    Host(String),
}

/// A workload with its variables and switches, checked.
pub trait Workload: Send + Sync + fmt::Debug {
    /// Everything that decides what it does, as text: workloads of equal settings do the same.
    fn settings(&self) -> String;

    /// Its variables with their values, in the order in which it defines them.
    fn variables(&self) -> Vec<(String, String)>;

    /// Bytes of all its files together when it begins.
    fn data_bytes(&self) -> u64;

    /// How many small files it begins with, for designs whose number of files depends on the size of the storage; 0: few, or each
    /// as large as [`Self::data_bytes`] says.
    fn small_files(&self) -> u64 {
        0
    }

    /// By how much its files grow while it runs: what is appended and never removed.
    fn growth(&self) -> Growth {
        Growth::None
    }

    /// How many tasks work at once.
    fn tasks(&self) -> u64;

    /// Whether it ends by itself, so that no time need be said.
    fn ends(&self) -> bool {
        false
    }

    /// Whether it can work on a block device, which is one file and has no directories.
    fn works_on_a_device(&self) -> bool {
        false
    }

    /// Whether its paths and links are someone else's, so that nothing may follow them out of a directory of the host.
    fn is_foreign(&self) -> bool {
        false
    }

    /// Names of variables whose smaller values make it smaller; those that it does not have are passed over.
    fn sizes(&self) -> &'static [&'static str];

    /// How to make it smaller, by variables that it has: `fewer or smaller files (-D nfiles=…, in a plan vars)`.
    fn how_to_shrink(&self) -> String {
        let own = self.variables();
        let has = |name: &&&str| own.iter().any(|(known, _)| known == **name);
        let flags: Vec<String> = self.sizes().iter().filter(has).map(|name| format!("-D {name}=…")).collect();
        match &flags[..] {
            [] => "fewer or smaller files (it has no variable for that: change its text)".to_owned(),
            _ => format!("fewer or smaller files ({}; in a plan: vars)", flags.join(", ")),
        }
    }

    /// Its work on the processes of a subject.
    fn job(&self, how: &How, processes: Arc<dyn Processes>) -> Result<Arc<dyn Job>, JobError>;
}

/// By how much the files of a workload grow beyond [`Workload::data_bytes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// They do not, or as much is removed as is added.
    None,
    /// With each operation, by so many bytes at most.
    PerOperation(u64),
    /// By so many bytes until the workload ends by itself.
    ToBytes(u64),
}

/// The cores on which tasks can be placed, numbered socket by socket. On a machine whose cores have two hardware threads each of
/// these is one; such a machine has one socket, or is filled core by core only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Sockets.
    pub sockets: u16,
    /// Cores of each.
    pub per_socket: u16,
}

impl Cores {
    /// All of them.
    pub fn count(self) -> u16 {
        self.sockets.saturating_mul(self.per_socket).max(1)
    }

    /// The core of task number `task` when each socket takes one in turn.
    pub(crate) fn round_robin(self, task: u64) -> u16 {
        let task = (task % u64::from(self.count())) as u16;
        let sockets = self.sockets.max(1);
        task % sockets * self.per_socket + task / sockets
    }
}

impl Default for Cores {
    fn default() -> Self {
        Self { sockets: 1, per_socket: 1 }
    }
}

/// How a job is run.
#[derive(Clone, Debug, Default)]
pub struct How {
    /// Where all its randomness starts.
    pub seed: Seed,
    /// How long it runs before it is measured; [`How::stop`] counts from there. A job that ends by itself has none.
    pub warm_up: Nanos,
    /// When it has run enough.
    pub stop: Stop,
    /// Where its tasks can run.
    pub cores: Cores,
    /// Whether every read is compared with what must have been written, and [`Job::verify`] is called.
    pub check: bool,
    /// Ends the work early when it is set, from outside.
    pub interrupt: Option<Arc<AtomicBool>>,
}

impl How {
    /// Whether the work is to end early.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(|interrupt| interrupt.load(Relaxed))
    }
}

/// Sleeps until the measured time begins, or until an interrupt ends the run before it. Under the virtual clock an interrupt ends
/// the tasks that are waited for, and the time is then over at once.
pub(crate) fn sleep_until_begin(interrupt: Option<&AtomicBool>, begin: Nanos) {
    const LOOK: Nanos = Nanos::from_millis(20);
    if let (Clock::Real, Some(interrupt)) = (sim::clock(), interrupt) {
        while sim::now() + LOOK < begin && !interrupt.load(Relaxed) {
            sim::sleep(LOOK);
        }
        if interrupt.load(Relaxed) {
            return;
        }
    }
    sim::sleep_until(begin);
}

/// Whether the main task is ready for calls that count: tasks make none before.
#[derive(Debug, Default)]
pub(crate) struct Ready(AtomicBool);

impl Ready {
    /// The main task has taken what the end is compared with.
    pub(crate) fn set(&self) {
        self.0.store(true, Release);
    }

    /// Sleeps until the start, and on where a busy host has made the main task late.
    pub(crate) fn sleep_until(&self, start: Nanos) {
        const LOOK: Nanos = Nanos::from_micros(50);
        sim::sleep_until(start);
        while !self.0.load(Acquire) {
            sim::sleep(LOOK);
        }
    }
}

/// When a job has run enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stop {
    /// After a time of the clock in force; [`Nanos::MAX`] for a workload that ends by itself.
    After(Nanos),
    /// After that many operations.
    Operations(u64),
}

impl Default for Stop {
    fn default() -> Self {
        Self::After(Nanos::from_secs(10))
    }
}

/// Makes processes whose calls go to the subject.
pub trait Processes: Send + Sync {
    /// The calls of a new process, with descriptors and a working directory of its own.
    fn start(&self) -> Arc<dyn Syscalls>;

    /// The same, except that under the real clock the laboratory does not note how long each call takes: for loops that note it
    /// themselves, and whose calls take hardly longer than a look at the clock.
    fn start_plain(&self) -> Arc<dyn Syscalls>;

    /// Where the subject is a directory of the host: how a job starts processes of the host whose calls go there.
    fn program(&self) -> Option<Program> {
        None
    }
}

/// A program that works as a worker of a job, in a process of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The program and its arguments; nothing where there is none.
    pub command: Vec<OsString>,
    /// The directory under test, in which it works.
    pub directory: PathBuf,
}

/// What a job tells its caller while it works, from the main task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// All is ready, and no task works until the measured time begins: take the snapshots that its end is compared with. A
    /// workload whose tasks are at work before that does not tell it.
    Ready,
    /// The measured time begins: take the snapshots if none were taken.
    Begins,
    /// The measured time has ended; tasks may still be inside their last call.
    Ends,
}

/// The work of a workload on one subject.
pub trait Job: Send + Sync {
    /// Makes directories and files.
    fn prepare(&self) -> Result<(), JobError>;

    /// Works on what [`Job::prepare`] has left, and measures. Calls `watch` when the measured time begins and ends.
    fn work(&self, watch: &mut dyn FnMut(Phase)) -> Result<Measured, JobError>;

    /// Compares every file with what must be in it, through `calls`: perhaps after a mount.
    fn verify(&self, calls: &dyn Syscalls) -> Result<(), JobError>;

    /// The file whose place on the device a result shows, if there is one that matters.
    fn placed(&self) -> Option<&[u8]> {
        None
    }

    /// Removes what would change the next run. For subjects that outlive the job: a directory of the host.
    fn conclude(&self) -> Result<(), JobError> {
        Ok(())
    }
}

/// What a job has measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// The measured time.
    pub elapsed: Nanos,
    /// Operations, as the suite counts them.
    pub ops: u64,
    /// Operations that read data.
    pub read_ops: u64,
    /// Operations that wrote data.
    pub write_ops: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Operations that failed, where the suite counts them itself.
    pub errors: u64,
    /// Calls that failed in a way that the workload provides for, and are no errors: they found no space where that is its end, or
    /// no file where it asks whether there is one.
    pub provided_for: u64,
    /// Whether it ended too early to be compared with others.
    pub cut_short: bool,
    /// By kind of operation, where they were booked outside this process.
    pub operations: Vec<OperationRecord>,
    /// By step of the workload.
    pub steps: Vec<StepRecord>,
    /// By worker.
    pub workers: Vec<WorkerRecord>,
    /// By job and direction.
    pub jobs: Vec<JobRecord>,
    /// What happened when, of a program.
    pub spans: Vec<SpanRecord>,
    /// Further counts by name.
    pub counters: BTreeMap<String, u64>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

/// Why a job failed.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum JobError {
    /// A call found no space.
    #[error("{0}")]
    Full(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

/// The suite called `name`.
pub fn by_name(name: &str) -> Option<&'static dyn Suite> {
    crate::SUITES.iter().copied().find(|suite| suite.name() == name)
}

/// The built-in workload called `name`: `SUITE/WORKLOAD`, or `WORKLOAD` alone for that of the first suite that has one.
pub fn find(name: &str) -> Option<(&'static dyn Suite, Entry)> {
    let (suite, short) = match name.split_once('/') {
        Some((suite, short)) => (Some(suite), short),
        None => (None, name),
    };
    all().find(|(of, entry)| entry.name == short && suite.is_none_or(|name| of.name() == name))
}

/// Every built-in workload of every suite.
pub fn all() -> impl Iterator<Item = (&'static dyn Suite, Entry)> {
    crate::SUITES.iter().flat_map(|suite| suite.entries().into_iter().map(move |entry| (*suite, entry)))
}

/// The name by which plans and results call a workload.
pub fn full_name(suite: &dyn Suite, entry: Entry) -> String {
    format!("{}/{}", suite.name(), entry.name)
}

impl fmt::Debug for dyn Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
