//! A run: one task and one process a worker, a common start, a common window. On a directory of the host a worker is a process of
//! the host (`worker_processes`).
//!
//! ```text
//! prepare   own files, each from its core ─ the first worker makes what is shared ─ sync
//! work      open ─ barrier ─▷ start ─ warm-up ─▷ begin ═══ measured ═══▷ end
//! ```
//!
//! A worker stops at its first look at the clock past the end. The end is known beforehand, or comes when the first worker has
//! nothing left to work on (its files are removed, the file system is full), or when enough operations were done: operations
//! that end later do not count. With the switch `mean_elapsed` only a full file system, or an end of MWRM, ends the run for all.
//!
//! A call that fails ends the run; the sample says which, and is marked as cut short.
//!
//! Lock order: `fxmark.run` only; nothing is taken under it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use results::{Histogram, StepRecord, WorkerRecord};
use serde::{Deserialize, Serialize};
use sim::{Bytes, JoinHandle, LockClass, Mutex, Nanos, Seed, TaskSpec};
use vfs::Syscalls;

use super::control::{Control, LEAD, Window};
use super::names::ROOT;
use super::parameters::{BLOCK, Parameters, Placement};
use super::prepare::{self, Prepared};
use super::table::{Benchmark, Loop, Sharing};
use super::verify;
use super::worker::{Listing, Worker};
use super::worker_processes::{Worked, WorkerProcesses};
use crate::suite::{How, Job, JobError, Measured, Phase, Processes, Stop, sleep_until_begin};
use crate::tree::{self, CallFailed};

pub(super) static RUN: LockClass = LockClass::new("fxmark.run");

/// A benchmark with everything that decides what its workers do.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) benchmark: &'static Benchmark,
    pub(super) parameters: Parameters,
    pub(super) seed: Seed,
    pub(super) stop: Stop,
    /// Whether every read is compared with what was written.
    pub(super) check: bool,
}

impl Plan {
    /// What worker `w` prepares for: one in the background of DRBL has a file to overwrite, the others use those of the workers
    /// that they disturb.
    pub(super) fn own_work(&self, w: u64) -> Loop {
        let work = self.benchmark.work;
        if self.is_foreground(w) {
            return work;
        }
        match work {
            Loop::Read(_) => work,
            // It opens nothing and has no files of its own.
            _ => Loop::Stat(Sharing::Medium),
        }
    }

    pub(super) fn is_foreground(&self, w: u64) -> bool {
        w < self.parameters.foreground()
    }

    /// What a worker reads into or writes from.
    fn buffer(&self) -> Bytes {
        match self.benchmark.work {
            Loop::ReadThrough | Loop::ReadSkewed => Bytes(self.parameters.io),
            _ => Bytes(BLOCK),
        }
    }

    /// The measured time, where that is what ends the run.
    pub(super) fn duration(&self) -> Nanos {
        match self.stop {
            Stop::After(time) => time,
            Stop::Operations(_) => Nanos::ZERO,
        }
    }

    /// Whether the end of the run depends on what workers do, so that each must see what the others did before.
    pub(super) fn is_ordered(&self) -> bool {
        let lasting = matches!(self.benchmark.work, Loop::Read(_) | Loop::Overwrite(_) | Loop::OverwriteSync)
            || matches!(
                self.benchmark.work,
                Loop::ReadThrough
                    | Loop::ReadSkewed
                    | Loop::WriteThrough
                    | Loop::WriteThroughSync
                    | Loop::Stat(_)
                    | Loop::List(_)
            )
            || self.benchmark.work == Loop::RenameWithin;
        !lasting || matches!(self.stop, Stop::Operations(_))
    }
}

/// What a worker has left behind.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Ended {
    /// The core on which it ran; none when it was not placed.
    pub(super) core: Option<u16>,
    /// The process of the host that it was, if it was one.
    pub(super) process: Option<u32>,
    pub(super) ops: u64,
    pub(super) bytes: u64,
    pub(super) errors: u64,
    /// Whether it ended because the file system was full.
    pub(super) full: bool,
    pub(super) elapsed: Nanos,
    /// Processor time of its loop, under the real clock.
    pub(super) cpu: Option<Nanos>,
    pub(super) latency: Histogram,
    pub(super) listing: Listing,
    /// The number of its next operation, counted or not.
    pub(super) next: u64,
}

/// The run of one benchmark.
pub(super) struct Run {
    plan: Plan,
    how: How,
    processes: Vec<Arc<dyn Syscalls>>,
    main: Arc<dyn Syscalls>,
    /// Processes of the host, in the place of tasks.
    crew: Option<WorkerProcesses>,
    cores: Vec<u16>,
    notes: Vec<String>,
    /// Whether the root is of this run.
    made: AtomicBool,
    /// Set by [`Job::prepare`] and [`Job::work`].
    prepared: Mutex<Vec<Prepared>>,
    ended: Mutex<Vec<Ended>>,
}

impl Run {
    /// A run, unless there are fewer cores than workers.
    pub(super) fn new(plan: Plan, how: &How, processes: &dyn Processes) -> Result<Self, JobError> {
        let (workers, cores) = (plan.parameters.workers, u64::from(how.cores.count()));
        let mut notes = Vec::new();
        if workers > cores {
            let told = format!("{workers} workers share {cores} cores");
            if !plan.parameters.oversubscribe {
                return Err(JobError::Failed(format!(
                    "{told}: take at most {cores} threads, a machine with more cores (--machine, `weir list machines`), \
                     or -D oversubscribe=true"
                )));
            }
            notes.push(told);
        }
        let core = |w| match plan.parameters.placement {
            Placement::RoundRobin => how.cores.round_robin(w),
            Placement::Sequential | Placement::Free => (w % cores) as u16,
        };
        let crew = processes.program().map(WorkerProcesses::new).transpose()?;
        let tasks = if crew.is_none() { workers } else { 0 };
        Ok(Self {
            crew,
            cores: (0..workers).map(core).collect(),
            processes: (0..tasks).map(|_| processes.start_plain()).collect(),
            main: processes.start_plain(),
            how: how.clone(),
            plan,
            notes,
            made: AtomicBool::new(false),
            prepared: Mutex::new(&RUN, Vec::new()),
            ended: Mutex::new(&RUN, Vec::new()),
        })
    }

    /// Starts one task for each worker, on its core, in the order of the workers.
    fn start<T: Send + 'static>(
        &self,
        name: &str,
        body: impl Fn(u64, &dyn Syscalls) -> T + Clone + Send + 'static,
    ) -> Vec<JoinHandle<T>> {
        let start = |w: u64| {
            let (calls, body) = (Arc::clone(&self.processes[w as usize]), body.clone());
            let mut spec = TaskSpec::named(format!("{name}-{w}")).on_core(self.cores[w as usize]);
            spec = spec.with_buffer(self.plan.buffer());
            if self.plan.parameters.placement != Placement::Free {
                spec = spec.pinned();
            }
            sim::spawn(spec, move || body(w, &*calls))
        };
        (0..self.plan.parameters.workers).map(start).collect()
    }

    fn prepare_tasks(&self) -> Result<Vec<Prepared>, CallFailed> {
        let plan = self.plan.clone();
        let tasks = self.start("prepare", move |w, calls| {
            if w == 0 {
                prepare::shared(&plan, calls)?;
            }
            prepare::own(&plan, w, calls)
        });
        // All are joined before the first error is told: nothing works on while the files are removed.
        let made: Vec<_> = tasks.into_iter().map(JoinHandle::join).collect();
        made.into_iter().collect()
    }

    fn work_in_tasks(&self, watch: &mut dyn FnMut(Phase)) -> Worked {
        let control = Arc::new(Control::new(&self.plan, &self.how));
        let (plan, shared) = (self.plan.clone(), Arc::clone(&control));
        let prepared = self.prepared.lock().clone();
        let tasks = self.start("worker", move |w, calls| {
            shared.work(Worker::new(&plan, w, calls, prepared[w as usize]), || shared.wait_for_start())
        });
        let begin = control.start();
        if self.plan.parameters.warmup == Nanos::ZERO {
            // Each worker sleeps until then, and what it books from then on is of calls that count.
            sim::sleep_until(Nanos(begin.0.saturating_sub(LEAD.0)));
            watch(Phase::Ready);
        }
        control.ready.set();
        sleep_until_begin(self.how.interrupt.as_deref(), begin);
        watch(Phase::Begins);
        let mut ended: Vec<Ended> = tasks.into_iter().map(JoinHandle::join).collect();
        watch(Phase::Ends);
        ended.iter_mut().enumerate().for_each(|(w, ended)| ended.core = self.core(w));
        Worked { ended, window: control.window(begin), operations: Vec::new() }
    }

    /// The core of worker `w`, if it has one.
    fn core(&self, w: usize) -> Option<u16> {
        (self.plan.parameters.placement != Placement::Free).then(|| self.cores[w])
    }

    fn measured(&self, ended: &[Ended], window: Window) -> Measured {
        let foreground = self.plan.parameters.foreground() as usize;
        let (measured, beside) = ended.split_at(foreground);
        let mean = measured.iter().map(|worker| worker.elapsed.0).sum::<u64>() / foreground as u64;
        let elapsed = if self.plan.parameters.switches.mean_elapsed { Nanos(mean) } else { window.elapsed };
        let mut outcome = Measured { elapsed, notes: self.notes.clone(), ..Measured::default() };
        outcome.ops = measured.iter().map(|worker| worker.ops).sum();
        outcome.errors = ended.iter().map(|worker| worker.errors).sum();
        outcome.provided_for = ended.iter().filter(|worker| worker.full).count() as u64;
        let bytes = measured.iter().map(|worker| worker.bytes).sum();
        match self.plan.benchmark.work {
            Loop::Read(_) | Loop::ReadThrough | Loop::ReadSkewed => {
                (outcome.read_ops, outcome.read_bytes) = (outcome.ops, bytes);
            }
            Loop::Overwrite(_)
            | Loop::OverwriteSync
            | Loop::WriteThrough
            | Loop::WriteThroughSync
            | Loop::Append
            | Loop::CreateWrite => {
                (outcome.write_ops, outcome.written_bytes) = (outcome.ops, bytes);
            }
            _ => {}
        }
        outcome.steps.push(step("operation", measured));
        if !beside.is_empty() {
            outcome.steps.push(step("background", beside));
        }
        for (w, worker) in ended.iter().enumerate() {
            outcome.workers.push(WorkerRecord {
                core: worker.core,
                process: worker.process,
                background: w >= foreground,
                ops: worker.ops,
                errors: worker.errors,
                elapsed_ns: worker.elapsed.0,
                cpu_ns: worker.cpu.map(|cpu| cpu.0),
            });
        }
        let listings = || measured.iter().map(|worker| worker.listing);
        if matches!(self.plan.benchmark.work, Loop::List(_)) {
            let mut count = |name: &str, of: fn(Listing) -> u64| {
                outcome.counters.insert(format!("listing.{name}"), listings().map(of).sum());
            };
            count("entries", |listing| listing.entries);
            count("getdents", |listing| listing.calls);
            count("passes", |listing| listing.passes);
        }
        outcome.notes.extend(window.failed);
        outcome.cut_short = outcome.errors > 0;
        outcome
    }
}

fn step(name: &str, workers: &[Ended]) -> StepRecord {
    let mut record = StepRecord { name: name.to_owned(), ..StepRecord::default() };
    for worker in workers {
        record.count += worker.ops;
        record.bytes += worker.bytes;
        record.latency_ns.merge(&worker.latency);
    }
    record
}

pub(super) fn failed(error: &CallFailed) -> JobError {
    match error.errno {
        vfs::Errno::ENOSPC => JobError::Full(format!("fxmark: prepare: {error}")),
        _ => JobError::Failed(format!("fxmark: prepare: {error}")),
    }
}

impl Job for Run {
    fn prepare(&self) -> Result<(), JobError> {
        prepare::root(&*self.main).map_err(|told| JobError::Failed(format!("fxmark: prepare: {told}")))?;
        self.made.store(true, Relaxed);
        let made = match &self.crew {
            Some(crew) => {
                let cores: Vec<_> = (0..self.cores.len()).map(|w| self.core(w)).collect();
                crew.prepare(&self.plan, &cores)?
            }
            None => self.prepare_tasks().map_err(|error| failed(&error))?,
        };
        *self.prepared.lock() = made;
        self.main.sync().map_err(|errno| failed(&CallFailed::of("sync", ROOT)(errno)))
    }

    fn work(&self, watch: &mut dyn FnMut(Phase)) -> Result<Measured, JobError> {
        let worked = match &self.crew {
            Some(crew) => crew.work(&self.plan, &self.how, watch)?,
            None => self.work_in_tasks(watch),
        };
        let mut measured = self.measured(&worked.ended, worked.window);
        measured.operations = worked.operations;
        *self.ended.lock() = worked.ended;
        Ok(measured)
    }

    fn verify(&self, calls: &dyn Syscalls) -> Result<(), JobError> {
        let (prepared, ended) = (self.prepared.lock(), self.ended.lock());
        let next: Vec<u64> = ended.iter().map(|worker| worker.next).collect();
        verify::all(&self.plan, calls, &prepared, &next)
            .map_err(|told| JobError::Failed(format!("fxmark: verify: {told}")))
    }

    fn conclude(&self) -> Result<(), JobError> {
        if !self.made.load(Relaxed) {
            return Ok(());
        }
        let told = |error: CallFailed| JobError::Failed(format!("fxmark: clearing up: {error}"));
        tree::remove(&*self.main, ROOT).map_err(told)
    }
}
