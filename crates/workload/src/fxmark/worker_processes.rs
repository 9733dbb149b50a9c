//! The workers of a run on a directory of the host: one process each, which this process starts and measures.
//!
//! Lock order: `fxmark.crew` only; nothing is taken under it.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use results::OperationRecord;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use sim::host_memory::HostWords;
use sim::{LockClass, Mutex, Nanos};

use super::control::{Control, LEAD, WORDS, Window};
use super::link::{Link, Order, Report, Said, Told, unexpected};
use super::prepare::Prepared;
use super::run::{Ended, Plan};
use crate::suite::{How, JobError, Phase, Program};

static CREW: LockClass = LockClass::new("fxmark.crew");

/// How often a run that waits for its workers looks whether it is to end early.
const LOOK: Duration = Duration::from_millis(50);

/// The processes of a run.
pub(super) struct WorkerProcesses {
    program: Program,
    /// The words that all share.
    memory: OwnedFd,
    workers: Mutex<Vec<Process>>,
}

/// One of them. It is killed when this is dropped, if it has not ended.
struct Process {
    w: u64,
    host: std::process::Child,
    link: Link,
}

/// What the workers of a run have done.
pub(super) struct Worked {
    pub(super) ended: Vec<Ended>,
    pub(super) window: Window,
    pub(super) operations: Vec<OperationRecord>,
}

fn refused(action: &str, error: &io::Error) -> JobError {
    JobError::Failed(format!("fxmark: cannot {action}: {error}"))
}

impl WorkerProcesses {
    /// Makes what the processes share. There are none yet.
    pub(super) fn new(program: Program) -> Result<Self, JobError> {
        let memory = || -> io::Result<OwnedFd> {
            let file = memfd_create("weir-fxmark", MemfdFlags::CLOEXEC)?;
            ftruncate(&file, (WORDS * size_of::<u64>()) as u64)?;
            Control::clear(&HostWords::map(&file, WORDS)?);
            Ok(file)
        };
        let memory = memory().map_err(|error| refused("make the memory that workers share", &error))?;
        Ok(Self { program, memory, workers: Mutex::new(&CREW, Vec::new()) })
    }

    /// Starts the processes, each of which prepares what it has of its own.
    pub(super) fn prepare(&self, plan: &Plan, cores: &[Option<u16>]) -> Result<Vec<Prepared>, JobError> {
        let started = (0_u64..).zip(cores).map(|(w, core)| {
            let mut process = self.start(w)?;
            let order = Order {
                benchmark: plan.benchmark.entry.name.to_owned(),
                parameters: plan.parameters.clone(),
                seed: plan.seed.0,
                stop: plan.stop,
                check: plan.check,
                w,
                core: *core,
            };
            process.tell(&Told::Order(Box::new(order)))?;
            Ok(process)
        });
        let mut workers = started.collect::<Result<Vec<_>, JobError>>()?;
        // All are heard before the first error is told: nothing works on while the files are removed.
        let heard: Vec<_> = workers.iter_mut().map(Process::prepared).collect();
        *self.workers.lock() = workers;
        heard.into_iter().collect()
    }

    fn start(&self, w: u64) -> Result<Process, JobError> {
        let begin = || -> io::Result<Process> {
            let [path, arguments @ ..] = &self.program.command[..] else {
                return Err(io::Error::other("this program has none that works as a worker's process"));
            };
            let (own, theirs) = UnixStream::pair()?;
            own.set_read_timeout(Some(LOOK))?;
            // A group of its own: Ctrl-C is for the run, which ends its workers itself.
            let host = Command::new(path)
                .args(arguments)
                .current_dir(&self.program.directory)
                .stdin(Stdio::from(OwnedFd::from(theirs)))
                .stdout(Stdio::from(self.memory.try_clone()?))
                .process_group(0)
                .spawn()?;
            Ok(Process { w, host, link: Link::new(own) })
        };
        begin().map_err(|error| refused(&format!("start the process of worker {w}"), &error))
    }

    /// Starts the measured time and waits for its end.
    pub(super) fn work(
        &self,
        plan: &Plan,
        how: &How,
        watch: &mut dyn FnMut(Phase),
    ) -> Result<Worked, JobError> {
        let words = HostWords::map(&self.memory, WORDS).map_err(|error| refused("map memory", &error))?;
        let control = Control::shared(plan, how.interrupt.clone(), words);
        let mut workers = std::mem::take(&mut *self.workers.lock());
        workers.iter_mut().try_for_each(|worker| worker.tell(&Told::Open))?;
        workers.iter_mut().try_for_each(Process::is_ready)?;
        let (start, begin) = control.set();
        let start = control.common(start);
        workers.iter_mut().try_for_each(|worker| worker.tell(&Told::Start(start)))?;
        if plan.parameters.warmup == Nanos::ZERO {
            sim::sleep_until(Nanos(begin.0.saturating_sub(LEAD.0)));
            watch(Phase::Ready);
        }
        sim::sleep_until(begin);
        watch(Phase::Begins);
        let reports = reports(&mut workers, &control);
        watch(Phase::Ends);
        let reports = reports.into_iter().collect::<Result<Vec<_>, _>>()?;
        let (mut ended, mut operations) = (Vec::new(), Vec::new());
        for report in reports {
            control.note(control.own(report.last), report.failed);
            report.operations.into_iter().for_each(|operation| add(&mut operations, operation));
            ended.push(report.ended);
        }
        Ok(Worked { ended, window: control.window(begin), operations })
    }
}

/// What each worker reports, in their order. One that has died ends the run for the others, which are heard all the same.
fn reports(workers: &mut [Process], control: &Control) -> Vec<Result<Report, JobError>> {
    let mut heard: Vec<Option<Result<Report, JobError>>> = workers.iter().map(|_| None).collect();
    while heard.iter().any(Option::is_none) {
        for (worker, report) in workers.iter_mut().zip(&mut heard).filter(|(_, report)| report.is_none()) {
            *report = worker.report().transpose();
            if control.interrupted() || matches!(report, Some(Err(_))) {
                control.end(sim::now());
            }
        }
    }
    heard.into_iter().flatten().collect()
}

impl Process {
    fn tell(&mut self, message: &Told) -> Result<(), JobError> {
        let told = self.link.tell(message);
        told.map_err(|error| self.lost(&error))
    }

    fn prepared(&mut self) -> Result<Prepared, JobError> {
        match self.link.hear().map_err(|error| self.lost(&error))? {
            Said::Prepared(prepared) => prepared,
            other => Err(self.lost(&unexpected(&other))),
        }
    }

    fn is_ready(&mut self) -> Result<(), JobError> {
        match self.link.hear().map_err(|error| self.lost(&error))? {
            Said::Ready => Ok(()),
            other => Err(self.lost(&unexpected(&other))),
        }
    }

    /// Its report, if it has ended.
    fn report(&mut self) -> Result<Option<Report>, JobError> {
        match self.link.listen().map_err(|error| self.lost(&error))? {
            None => Ok(None),
            Some(Said::Ended(report)) => Ok(Some(*report)),
            Some(other) => Err(self.lost(&unexpected(&other))),
        }
    }

    /// What has become of a worker that can be reached no more, or says what it should not.
    fn lost(&mut self, error: &io::Error) -> JobError {
        // Only its end closes its end of the socket.
        let closed = [ErrorKind::UnexpectedEof, ErrorKind::BrokenPipe, ErrorKind::ConnectionReset];
        let why = match closed.contains(&error.kind()).then(|| self.host.wait()) {
            Some(Ok(status)) => format!("has ended: {status}"),
            _ => format!("is given up: {error}"),
        };
        let (w, pid) = (self.w, self.host.id());
        JobError::Failed(format!("fxmark: process {pid} of worker {w} {why}; the cell ended there"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Waiting counts its processor time as ours. It fails for a process that was waited for.
        let _ = self.host.kill();
        let _ = self.host.wait();
    }
}

/// Adds what a worker did of one kind to what the others did of it.
fn add(all: &mut Vec<OperationRecord>, one: OperationRecord) {
    match all.iter_mut().find(|sum| sum.kind == one.kind) {
        Some(sum) => sum.merge(&one),
        None => all.push(one),
    }
}
