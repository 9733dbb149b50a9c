//! The real programs beside the applications that are made after them: `weir bench app/NAME --program` starts the program in the
//! directory under test and takes what it prints as the measurement.
//!
//! Two numbers of one name are comparable where the program has the options for it: those that it has not are refused as variables.
//! Each program's work is checked by its own means, and what it has printed must be whole.
//!
//! | module | program | package of Debian | checked by |
//! |---|---|---|---|
//! | `dbench` | dbench 4 | dbench | its exit, each client's result, and that bytes were moved |
//! | `rocksdb` | db_bench 7 | rocksdb-tools | checksums of all tables, after the writes |
//! | `postmark` | postmark 1.5 | postmark | as many files removed as made |
//! | `tpcc` | PostgreSQL, pgbench | postgresql | the standard's consistency conditions 1 to 4, by SQL |
//! | `exim` | Exim 4 | exim4-daemon-light | messages taken, in mailboxes and logged as completed are as many |
//!
//! `process` starts them so that none outlives a run; `postgres` is the server below `tpcc`, `smtp` a client of Exim.

mod dbench;
mod exim;
mod postgres;
mod postmark;
mod process;
mod rocksdb;
mod smtp;
mod tpcc;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use results::OperationRecord;
use sim::Nanos;

use self::process::{Group, last_lines};
use super::variables::{Reader, Values};
use crate::suite::{How, Job, JobError, LoadError, Measured, Phase, Processes, Settings, Stop, Workload};

/// The variable by which the command asks for the program.
pub const VARIABLE: &str = "program";

/// A program.
struct Real {
    /// The application that is made after it.
    name: &'static str,
    /// Finds it on this host; an error says what is missing, and what to install.
    find: fn() -> Result<PathBuf, String>,
    /// The variable that the number of threads sets.
    clients: &'static str,
    /// Whether it runs for a time that it is told.
    is_timed: bool,
    read: fn(&mut Reader) -> Result<Box<dyn Started>, LoadError>,
}

const PROGRAMS: [Real; 5] =
    [dbench::PROGRAM, rocksdb::PROGRAM, postmark::PROGRAM, tpcc::PROGRAM, exim::PROGRAM];

/// A program with its variables.
trait Started: Send + Sync {
    /// Runs it, and tells what it has measured; none if an interrupt has ended it. `watch` is told when the measured time begins
    /// and ends. Nothing that it has started is left when this returns.
    fn run(&self, place: &Place<'_>, watch: &mut dyn FnMut(Phase)) -> Result<Option<Counted>, String>;
}

/// A program that is one process, measured from its start to its end.
trait OneProcess: Send + Sync {
    /// Its arguments, for a run of so many seconds.
    fn arguments(&self, seconds: u64) -> Vec<String>;

    /// What it reads from its standard input.
    fn input(&self) -> String {
        String::new()
    }

    /// What it has measured in a run of so many seconds, by what it has printed; an error says what is missing.
    fn measured(&self, printed: &str, seconds: u64) -> Result<Counted, String>;
}

impl<P: OneProcess> Started for P {
    fn run(&self, place: &Place<'_>, watch: &mut dyn FnMut(Phase)) -> Result<Option<Counted>, String> {
        let group = Group::new().map_err(|error| error.to_string())?;
        let mut command = Command::new(place.path);
        command.args(self.arguments(place.seconds)).current_dir(place.directory);
        watch(Phase::Begins);
        let ended = group.run(&mut command, &self.input(), place.how);
        watch(Phase::Ends);
        let Some(ended) = ended.map_err(|error| error.to_string())? else { return Ok(None) };
        let printed = ended.success()?;
        let counted = self.measured(&printed, place.seconds);
        counted.map(Some).map_err(|missing| format!("{missing}: {}", last_lines(&printed)))
    }
}

/// Where a program runs, and how.
struct Place<'r> {
    /// The program.
    path: &'r Path,
    /// The directory under test.
    directory: &'r Path,
    /// How long it runs, if it is told a time.
    seconds: u64,
    how: &'r How,
}

/// What a program says of its run.
#[derive(Debug, Default, PartialEq)]
struct Counted {
    /// None: the time between the phases that it was watched in.
    elapsed: Option<Nanos>,
    ops: u64,
    read_bytes: u64,
    written_bytes: u64,
    operations: Vec<OperationRecord>,
    counters: BTreeMap<String, u64>,
    /// What its counts do not tell apart, or leave out.
    unsaid: Option<&'static str>,
}

/// The program of the application `name`.
pub(super) fn load(name: &str, settings: &Settings) -> Result<Arc<dyn Workload>, LoadError> {
    let Some(real) = PROGRAMS.iter().find(|real| real.name == name) else {
        let known = PROGRAMS.map(|real| format!("app/{}", real.name)).join(", ");
        return Err(LoadError::Wrong(format!("--program: app/{name} has none; these have one: {known}")));
    };
    let path = (real.find)().map_err(|told| LoadError::Host(format!("app/{name} --program: {told}")))?;
    let mut settings = settings.clone();
    settings.vars.remove(VARIABLE);
    let mut reader = Reader::new(real.name, real.clients, &settings);
    let started = (real.read)(&mut reader)?;
    let mut values = reader.finish()?;
    values.push((VARIABLE.to_owned(), path.display().to_string()));
    Ok(Arc::new(Program(Arc::new(Loaded { real, path, started, values }))))
}

/// Whether the program of this workload ends by itself, so that it is told no time.
pub fn ends_by_itself(workload: &str) -> bool {
    let name = workload.strip_prefix("app/").unwrap_or(workload);
    PROGRAMS.iter().any(|real| real.name == name && !real.is_timed)
}

/// Where a program is, by the folders of `PATH`: the first file of its name there that can be executed.
pub fn found(binary: impl AsRef<Path>) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(&binary)).find(|path| is_program(path))
}

/// Whether a file can be executed.
pub fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|about| about.is_file() && about.mode() & 0o111 != 0)
}

struct Loaded {
    real: &'static Real,
    path: PathBuf,
    started: Box<dyn Started>,
    values: Values,
}

/// The workload.
struct Program(Arc<Loaded>);

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Program").field(&self.0.path).field(&self.0.values).finish()
    }
}

impl Workload for Program {
    fn settings(&self) -> String {
        format!("app/{} program {:?}", self.0.real.name, self.0.values)
    }

    fn variables(&self) -> Vec<(String, String)> {
        self.0.values.clone()
    }

    fn data_bytes(&self) -> u64 {
        0
    }

    fn tasks(&self) -> u64 {
        1
    }

    fn ends(&self) -> bool {
        !self.0.real.is_timed
    }

    fn sizes(&self) -> &'static [&'static str] {
        &[]
    }

    fn job(&self, how: &How, processes: Arc<dyn Processes>) -> Result<Arc<dyn Job>, JobError> {
        let Some(place) = processes.program() else {
            let told = "--program runs in a directory of the host: --fs host:DIR --clock real";
            return Err(JobError::Failed(format!("app/{}: {told}", self.0.real.name)));
        };
        Ok(Arc::new(Run { loaded: Arc::clone(&self.0), how: how.clone(), directory: place.directory }))
    }
}

/// A run of a program.
struct Run {
    loaded: Arc<Loaded>,
    how: How,
    directory: PathBuf,
}

impl Run {
    fn failed(&self, told: impl std::fmt::Display) -> JobError {
        let told = format!("app/{}: {}: {told}", self.loaded.real.name, self.loaded.path.display());
        // As the C library words ENOSPC.
        let is_full = told.contains("No space left on device");
        if is_full { JobError::Full(told) } else { JobError::Failed(told) }
    }
}

/// A second at least, and whole ones: programs are told seconds.
fn seconds(stop: Stop) -> u64 {
    match stop {
        Stop::After(Nanos::MAX) | Stop::Operations(_) => 0,
        Stop::After(time) => time.0.div_ceil(Nanos::from_secs(1).0).max(1),
    }
}

impl Job for Run {
    fn prepare(&self) -> Result<(), JobError> {
        Ok(())
    }

    fn work(&self, watch: &mut dyn FnMut(Phase)) -> Result<Measured, JobError> {
        let Loaded { real, path, started, .. } = &*self.loaded;
        let seconds = seconds(self.how.stop);
        if real.is_timed && seconds == 0 {
            return Err(self.failed("it runs for a time: --runtime 10s"));
        }
        let (mut begin, mut life) = (sim::now(), Nanos(0));
        let mut timed = |phase| {
            match phase {
                Phase::Ends => life = sim::now().since(begin),
                _ => begin = sim::now(),
            }
            watch(phase);
        };
        let place = Place { path, directory: &self.directory, seconds, how: &self.how };
        let counted = started.run(&place, &mut timed).map_err(|told| self.failed(told))?;
        let Some(counted) = counted else {
            return Ok(Measured { cut_short: true, ..Measured::default() });
        };
        let clock = match (counted.elapsed, real.is_timed) {
            (Some(_), _) => "its time is of its own clock",
            (None, true) => "its time is that of its work",
            (None, false) => "its time is that of the process",
        };
        Ok(Measured {
            elapsed: counted.elapsed.unwrap_or(life),
            ops: counted.ops,
            read_bytes: counted.read_bytes,
            written_bytes: counted.written_bytes,
            operations: counted.operations,
            counters: counted.counters,
            notes: [format!("measured by the program {}: {clock}", path.display())]
                .into_iter()
                .chain(counted.unsaid.map(str::to_owned))
                .collect(),
            ..Measured::default()
        })
    }

    fn verify(&self, _calls: &dyn vfs::Syscalls) -> Result<(), JobError> {
        Ok(())
    }
}

/// The number that follows `before` in a line that begins with it.
fn number_after(printed: &str, before: &str) -> Option<f64> {
    let line = printed.lines().find_map(|line| line.trim_start().strip_prefix(before))?;
    line.split_whitespace().next()?.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()
}
