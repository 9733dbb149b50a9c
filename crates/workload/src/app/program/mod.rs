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

mod dbench;
mod postmark;
mod rocksdb;

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use results::OperationRecord;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group};
use sim::Nanos;

use super::variables::{Reader, Values};
use crate::suite::{How, Job, JobError, LoadError, Measured, Phase, Processes, Settings, Stop, Workload};

/// The variable by which the command asks for the program.
pub const VARIABLE: &str = "program";

/// How often a program is looked at while it runs.
const LOOK: Nanos = Nanos::from_millis(20);

/// A program.
struct Real {
    /// The application that is made after it.
    name: &'static str,
    binary: &'static str,
    package: &'static str,
    /// The variable that the number of threads sets.
    clients: &'static str,
    /// Whether it runs for a time that it is told.
    is_timed: bool,
    read: fn(&mut Reader) -> Result<Box<dyn Started>, LoadError>,
}

const PROGRAMS: [Real; 3] = [dbench::PROGRAM, rocksdb::PROGRAM, postmark::PROGRAM];

/// A program with its variables.
trait Started: Send + Sync {
    /// Its arguments, for a run of so many seconds.
    fn arguments(&self, seconds: u64) -> Vec<String>;

    /// What it reads from its standard input.
    fn input(&self) -> String {
        String::new()
    }

    /// What it has measured in a run of so many seconds, by what it has printed; an error says what is missing.
    fn measured(&self, printed: &str, seconds: u64) -> Result<Counted, String>;
}

/// What a program says of its run.
#[derive(Debug, Default, PartialEq)]
struct Counted {
    /// None: the program's life.
    elapsed: Option<Nanos>,
    ops: u64,
    read_bytes: u64,
    written_bytes: u64,
    operations: Vec<OperationRecord>,
    /// What its counts do not tell apart, or leave out.
    unsaid: Option<&'static str>,
}

/// The program of the application `name`.
pub(super) fn load(name: &str, settings: &Settings) -> Result<Arc<dyn Workload>, LoadError> {
    let Some(real) = PROGRAMS.iter().find(|real| real.name == name) else {
        let known = PROGRAMS.map(|real| format!("app/{}", real.name)).join(", ");
        return Err(LoadError::Wrong(format!("--program: app/{name} has none; these have one: {known}")));
    };
    let path = found(real.binary).ok_or_else(|| {
        LoadError::Host(format!(
            "app/{name} --program: {} is not installed: install the Debian package {}",
            real.binary, real.package
        ))
    })?;
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
        JobError::Failed(format!("app/{}: {}: {told}", self.loaded.real.name, self.loaded.path.display()))
    }

    /// What it prints goes to a file in memory, so that it is never blocked by its reader and leaves nothing behind. It is in a
    /// process group of its own, with all that it starts.
    fn start(&self, output: &File, seconds: u64) -> std::io::Result<Child> {
        let mut child = Command::new(&self.loaded.path)
            .args(self.loaded.started.arguments(seconds))
            .current_dir(&self.directory)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output.try_clone()?)
            .process_group(0)
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that reads nothing may have closed it.
            let _ = stdin.write_all(self.loaded.started.input().as_bytes());
        }
        Ok(child)
    }

    /// Waits for its end; an interrupt ends it, with the processes that it has started. Returns how it has ended by itself.
    fn wait(&self, child: &mut Child) -> std::io::Result<Option<ExitStatus>> {
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            if self.how.interrupt.as_ref().is_some_and(|interrupt| interrupt.load(Relaxed)) {
                let group = Pid::from_child(child);
                kill_process_group(group, Signal::KILL)?;
                child.wait()?;
                return Ok(None);
            }
            sim::sleep(LOOK);
        }
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
        let real = self.loaded.real;
        if real.is_timed && seconds(self.how.stop) == 0 {
            return Err(self.failed("it runs for a time: --runtime 10s"));
        }
        let told = |error: std::io::Error| self.failed(error);
        let output = memfd_create("weir-program", MemfdFlags::CLOEXEC).map_err(|error| told(error.into()))?;
        let mut output = File::from(output);
        watch(Phase::Begins);
        let begin = sim::now();
        let mut child = self.start(&output, seconds(self.how.stop)).map_err(told)?;
        let status = self.wait(&mut child).map_err(told);
        let life = sim::now().since(begin);
        watch(Phase::Ends);
        let Some(status) = status? else {
            return Ok(Measured { cut_short: true, ..Measured::default() });
        };
        let printed = all_of(&mut output).map_err(told)?;
        if !status.success() {
            return Err(self.failed(format!("{status}: {}", last_lines(&printed))));
        }
        let counted = self.loaded.started.measured(&printed, seconds(self.how.stop));
        let counted =
            counted.map_err(|missing| self.failed(format!("{missing}: {}", last_lines(&printed))))?;
        let clock =
            counted.elapsed.map_or("its time is that of the process", |_| "its time is of its own clock");
        Ok(Measured {
            elapsed: counted.elapsed.unwrap_or(life),
            ops: counted.ops,
            read_bytes: counted.read_bytes,
            written_bytes: counted.written_bytes,
            operations: counted.operations,
            notes: [format!("measured by the program {}: {clock}", self.loaded.path.display())]
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

/// What a program has printed; a line that it has written over is a line, too.
fn all_of(output: &mut File) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).replace('\r', "\n"))
}

/// The end of what a program has printed, in a line.
fn last_lines(printed: &str) -> String {
    let lines: Vec<&str> = printed.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join(" · ")
}

/// The number that follows `before` in a line that begins with it.
fn number_after(printed: &str, before: &str) -> Option<f64> {
    let line = printed.lines().find_map(|line| line.trim_start().strip_prefix(before))?;
    line.split_whitespace().next()?.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()
}
