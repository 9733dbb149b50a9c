//! A run: files are laid out, stages follow each other, tallies become records.
//!
//! ```text
//! prepare   /fio, files of all jobs ─ sync
//! work      stage 0: tasks of its clones ─ (startdelay, ramp_time) ─▷ begin ═══ … ═══ joined ─▷ stage 1 … ─▷ end
//! ```
//!
//! The measured time of the sample is, stage by stage, that of the clone which worked longest; reading back for `verify` is not
//! in it. The ledger counts from the first clone's begin to the end, all stages and the reading back included.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rand::RngExt as _;
use results::{Histogram, JobRecord, StepRecord, WorkerRecord};
use sim::{Bytes, Clock, JoinHandle, LockClass, Mutex, Nanos, TaskSpec};
use vfs::{Errno, OpenFlags, Syscalls};

use super::clones::{self, JobClone, ROOT};
use super::content::Buffer;
use super::job::{Engine, Unified};
use super::layout;
use super::source::{Kind, Source};
use super::steady::Gauge;
use super::tally::{KINDS, Tallies, Tally};
use super::task::{Left, RunState, Worker};
use crate::suite::{How, Job, JobError, Measured, Phase, Processes, Stop, sleep_until_begin};
use crate::tree::{self, CallFailed};

pub(super) static RUN: LockClass = LockClass::new("fio.ended");

/// From the spawning of a stage to its start, for each task: longer than it takes to wake one.
const LEAD: Nanos = Nanos::from_micros(50);

/// The kinds that are I/Os of the job, and not what serves them.
const DATA: std::ops::Range<usize> = 0..3;

/// The run of a job file.
pub(super) struct Run {
    clones: Vec<JobClone>,
    jobs: usize,
    how: How,
    processes: Vec<Arc<dyn Syscalls>>,
    main: Arc<dyn Syscalls>,
    notes: Vec<String>,
    made: AtomicBool,
    ended: Mutex<Vec<Ended>>,
}

/// A clone that has ended.
struct Ended {
    left: Left,
    tallies: Tallies,
}

impl Run {
    pub(super) fn new(
        clones: &[JobClone],
        jobs: usize,
        mut notes: Vec<String>,
        how: &How,
        processes: &dyn Processes,
    ) -> Self {
        // The clones of a job with `thread` share a process.
        let mut shared: BTreeMap<usize, Arc<dyn Syscalls>> = BTreeMap::new();
        let process = |clone: &JobClone| {
            if clone.spec.shares_process {
                return Arc::clone(shared.entry(clone.job).or_insert_with(|| processes.start_plain()));
            }
            processes.start_plain()
        };
        let processes_of = clones.iter().map(process).collect();
        let reads = |clone: &JobClone| clone.spec.mode.reads && !clone.spec.direct && !clone.spec.keeps_cache;
        if sim::clock() == Clock::Real && clones.iter().any(reads) {
            notes.push(
                "reads find in the page cache what was just laid out; fio empties it first (invalidate)"
                    .to_owned(),
            );
        }
        Self {
            clones: clones.to_vec(),
            jobs,
            how: how.clone(),
            processes: processes_of,
            main: processes.start_plain(),
            notes,
            made: AtomicBool::new(false),
            ended: Mutex::new(&RUN, Vec::new()),
        }
    }

    fn state(&self) -> Arc<RunState> {
        let wanted = match self.how.stop {
            Stop::After(_) => u64::MAX,
            Stop::Operations(count) => count,
        };
        let groups = self.clones.last().map_or(0, |clone| clone.group as usize + 1);
        Arc::new(RunState::new((self.jobs, groups), self.how.interrupt.clone(), wanted))
    }

    /// The workers of a stage.
    fn workers(&self, stage: usize, state: &Arc<RunState>) -> Vec<Arc<Worker>> {
        let of_stage = self.clones.iter().zip(&self.processes).filter(|(clone, _)| clone.stage == stage);
        let mut gauges: BTreeMap<u32, Arc<Gauge>> = BTreeMap::new();
        let worker = |(clone, calls): (&JobClone, &Arc<dyn Syscalls>)| {
            let source = Source::new(clone, self.how.seed);
            let mut worker = Worker::new(clone.clone(), source, Arc::clone(calls), Arc::clone(state));
            worker.gauge = clone.spec.steady.map(|steady| {
                let gauge = || Arc::new(Gauge::new(steady));
                if clone.spec.grouped {
                    Arc::clone(gauges.entry(clone.group).or_insert_with(gauge))
                } else {
                    gauge()
                }
            });
            worker.waits = clone.spec.wait_for.as_ref().and_then(|name| self.waited_for(clone, name));
            Arc::new(worker)
        };
        of_stage.map(worker).collect()
    }

    /// The job above `clone` that is called `name`, with the number of its clones.
    fn waited_for(&self, clone: &JobClone, name: &str) -> Option<(usize, u64)> {
        let found =
            self.clones.iter().rev().find(|other| other.job < clone.job && other.spec.name == name)?;
        Some((found.job, found.spec.jobs))
    }

    /// Starts the tasks of a stage; returns them by worker, and when the first clone is measured.
    fn start(&self, workers: &[Arc<Worker>]) -> (Vec<Vec<JoinHandle<Tallies>>>, Nanos) {
        let tasks: u64 = workers.iter().map(|worker| worker.clone.spec.tasks()).sum();
        let start = sim::now() + LEAD * (tasks + 1);
        let mut begins = Nanos::MAX;
        let mut handles = Vec::new();
        for worker in workers {
            let (spec, number) = (&worker.clone.spec, worker.clone.number);
            let (low, high) = spec.delay;
            let delay = self.how.seed.derive("fio.delay", number).rng().random_range(low.0..=high.0);
            let ramp = spec.ramp.max(self.how.warm_up);
            worker.schedule(start + Nanos(delay), ramp);
            begins = begins.min(start + Nanos(delay) + ramp);
            let task = |slot| self.spawn(worker, slot);
            handles.push((0..spec.tasks()).map(task).collect());
        }
        (handles, begins)
    }

    fn spawn(&self, worker: &Arc<Worker>, slot: u64) -> JoinHandle<Tallies> {
        let (clone, worker) = (&worker.clone, Arc::clone(worker));
        let cores = u64::from(self.how.cores.count());
        let spread = matches!(clone.spec.engine, Engine::Tasks { spread: true, .. });
        let listed = &clone.spec.cores;
        let place = clone.number + if spread { slot } else { 0 };
        let core = match listed.len() as u64 {
            0 => (place % cores) as u16,
            many => (u64::from(listed[(place % many) as usize]) % cores) as u16,
        };
        let mut task = TaskSpec::named(format!("{}-{slot}", clone.label)).on_core(core);
        task = task.with_buffer(Bytes(clone.spec.max_size()));
        if !listed.is_empty() {
            task = task.pinned();
        }
        let rng = self.how.seed.derive("fio.content", clone.number << 16 | slot).rng();
        sim::spawn(task, move || worker.run(slot, rng))
    }

    /// Runs the stages.
    fn stages(&self, state: &Arc<RunState>, watch: &mut dyn FnMut(Phase)) -> Vec<Ended> {
        let last = self.clones.last().map_or(0, |clone| clone.stage);
        let mut ended = Vec::new();
        for stage in 0..=last {
            let workers = self.workers(stage, state);
            if state.is_over(sim::now()) && stage > 0 {
                break;
            }
            let (tasks, begins) = self.start(&workers);
            if stage == 0 {
                if let Stop::After(time) = self.how.stop {
                    state.limit.store((begins + time).0, Relaxed);
                }
                sleep_until_begin(self.how.interrupt.as_deref(), begins);
                watch(Phase::Begins);
            }
            for (worker, tasks) in workers.iter().zip(tasks) {
                let mut tallies = Tallies::default();
                for task in tasks {
                    let seen = task.join();
                    tallies.iter_mut().zip(&seen).for_each(|(all, one)| all.merge(one));
                }
                ended.push(Ended { left: worker.left(), tallies });
            }
        }
        watch(Phase::Ends);
        ended
    }

    fn measured(&self, ended: &[Ended], state: &RunState) -> Measured {
        let mut outcome = Measured { notes: self.notes.clone(), ..Measured::default() };
        let mut longest: BTreeMap<usize, Nanos> = BTreeMap::new();
        let mut all = StepRecord { name: "I/O".to_owned(), ..StepRecord::default() };
        for (clone, one) in self.clones.iter().zip(ended) {
            let stage = longest.entry(clone.stage).or_default();
            *stage = (*stage).max(one.left.times.work);
            for tally in &one.tallies[DATA] {
                (all.count, all.bytes) = (all.count + tally.count, all.bytes + tally.bytes);
                all.latency_ns.merge(&tally.total);
            }
            outcome.workers.push(WorkerRecord {
                ops: one.tallies[DATA].iter().map(|tally| tally.count).sum(),
                errors: one.left.mismatches,
                elapsed_ns: one.left.times.work.0,
                ..WorkerRecord::default()
            });
            let [read, write, ..] = &one.tallies;
            outcome.read_ops += read.count;
            outcome.write_ops += write.count;
            outcome.read_bytes += read.bytes;
            outcome.written_bytes += write.bytes;
            outcome.errors += one.left.mismatches;
        }
        outcome.elapsed = longest.into_values().fold(Nanos::ZERO, |sum, time| sum + time);
        outcome.ops = all.count;
        outcome.steps = vec![all];
        outcome.jobs = records(&self.clones, ended);
        outcome.steps.extend(outcome.jobs.iter().filter(|job| !job.name.starts_with(GROUP)).map(step));
        self.endings(&mut outcome, ended, state);
        outcome
    }

    /// What a reader must know of how it ended.
    fn endings(&self, outcome: &mut Measured, ended: &[Ended], state: &RunState) {
        if let Some(failure) = state.failure() {
            outcome
                .notes
                .push(format!("{}; the cell ended there, and its numbers are not valid", failure.what));
            outcome.errors = outcome.errors.max(1);
            outcome.cut_short = true;
        }
        let mut told = BTreeSet::new();
        for (clone, one) in self.clones.iter().zip(ended) {
            if let Some(steady) = &one.left.steady
                && (!clone.spec.grouped || told.insert(clone.group))
            {
                outcome.notes.push(format!("{}: {steady}", clone.label));
            }
            if let Some(depth) = one.left.depth {
                let what = format!("{}: latency_target: a depth of {depth}", clone.label);
                outcome.notes.push(what);
            }
        }
        let verified: u64 = ended.iter().map(|one| one.tallies[4].count).sum();
        if verified > 0 && outcome.errors == 0 {
            outcome.notes.push(format!("{verified} blocks were read back and are what was written"));
        }
        if ended.len() < self.clones.len() {
            let left = &self.clones[ended.len()].label;
            outcome
                .notes
                .push(format!("the run ended before \"{left}\" began: it and what follows were not run"));
        }
        let until_end = matches!(self.how.stop, Stop::After(Nanos::MAX));
        if !until_end && state.was_limited() {
            outcome.notes.push("ended by the time or count of the run, not by the job file".to_owned());
        }
    }
}

/// How the records of groups are called.
const GROUP: &str = "group ";

/// The records of all jobs, then those of groups that have several.
fn records(clones: &[JobClone], ended: &[Ended]) -> Vec<JobRecord> {
    let mut records = Vec::new();
    let all: Vec<(&JobClone, &Ended)> = clones.iter().zip(ended).collect();
    let groups: Vec<u32> = {
        let mut groups: Vec<u32> = all.iter().map(|(clone, _)| clone.group).collect();
        groups.dedup();
        groups
    };
    for group in groups {
        let of_group: Vec<_> = all.iter().copied().filter(|(clone, _)| clone.group == group).collect();
        let (together, alone): (Vec<_>, Vec<_>) =
            of_group.iter().copied().partition(|(clone, _)| clone.spec.grouped);
        if let Some((first, _)) = together.first() {
            records.extend(directions(&first.spec.name, &together));
        }
        for one in &alone {
            records.extend(directions(&one.0.label, std::slice::from_ref(one)));
        }
        if of_group.len() > 1 && !alone.is_empty() {
            records.extend(directions(&format!("{GROUP}{group}"), &of_group));
        }
    }
    records
}

/// The records of some clones together, by direction.
fn directions(name: &str, clones: &[(&JobClone, &Ended)]) -> Vec<JobRecord> {
    let (first, _) = clones[0];
    let record = |direction: &str, kinds: std::ops::Range<usize>| {
        let mut sum = Tally::default();
        let tallies = clones.iter().flat_map(|(_, ended)| &ended.tallies[kinds.clone()]);
        tallies.for_each(|tally| sum.merge(tally));
        let time = |ended: &Ended| {
            if kinds.start == 4 { ended.left.times.verify } else { ended.left.times.work }
        };
        // Of a group, those that did it.
        let did = |ended: &Ended| ended.tallies[kinds.clone()].iter().any(|tally| tally.count > 0);
        let doing: Vec<_> = clones.iter().filter(|(_, ended)| did(ended)).collect();
        JobRecord {
            name: name.to_owned(),
            group: first.group,
            jobs: doing.len() as u32,
            direction: direction.to_owned(),
            count: sum.count,
            bytes: sum.bytes,
            elapsed_ns: doing.iter().map(|(_, ended)| time(ended).0).max().unwrap_or(0),
            slat_ns: sum.late,
            clat_ns: sum.call,
            lat_ns: sum.total,
            percentiles: first.spec.percentiles.clone(),
        }
    };
    let unified = first.spec.unified;
    let mut records = Vec::new();
    for (kind, name) in KINDS.iter().enumerate() {
        if unified != Unified::Mixed || !DATA.contains(&kind) {
            records.push(record(name, kind..kind + 1));
        }
    }
    if unified != Unified::None {
        records.insert(if unified == Unified::Mixed { 0 } else { DATA.end }, record("mixed", DATA));
    }
    records.retain(|record| record.count > 0);
    records
}

fn step(job: &JobRecord) -> StepRecord {
    let mut latency_ns = Histogram::new();
    latency_ns.merge(&job.lat_ns);
    let name = format!("{} {}", job.name, job.direction);
    StepRecord { name, count: job.count, bytes: job.bytes, latency_ns }
}

fn failed(error: &CallFailed) -> JobError {
    match error.errno {
        Errno::ENOSPC => JobError::Full(format!("fio: prepare: {error}")),
        _ => JobError::Failed(format!("fio: prepare: {error}")),
    }
}

impl Job for Run {
    fn prepare(&self) -> Result<(), JobError> {
        layout::root(&*self.main).map_err(|told| JobError::Failed(format!("fio: prepare: {told}")))?;
        self.made.store(true, Relaxed);
        for file in self.clones.iter().flat_map(|clone| &clone.files) {
            layout::directories(&*self.main, &file.path).map_err(|error| failed(&error))?;
        }
        for (path, laid) in clones::laid(&self.clones) {
            layout::file(&*self.main, &path, &laid, self.how.seed).map_err(|error| failed(&error))?;
        }
        self.main.sync().map_err(|errno| failed(&CallFailed::of("sync", ROOT)(errno)))
    }

    fn work(&self, watch: &mut dyn FnMut(Phase)) -> Result<Measured, JobError> {
        let state = self.state();
        let ended = self.stages(&state, watch);
        if let Some(failure) = state.failure().filter(|failure| failure.errno == Some(Errno::ENOSPC)) {
            return Err(JobError::Full(format!("fio: {}", failure.what)));
        }
        let measured = self.measured(&ended, &state);
        *self.ended.lock() = ended;
        Ok(measured)
    }

    /// Files are as long as they must be, and blocks that the last pass of a job with `verify` has written hold what it wrote.
    fn verify(&self, calls: &dyn Syscalls) -> Result<(), JobError> {
        let ended = self.ended.lock();
        for (clone, one) in self.clones.iter().zip(ended.iter()) {
            self.verify_clone(calls, clone, &one.left)
                .map_err(|told| JobError::Failed(format!("fio: verify: {}: {told}", clone.label)))?;
        }
        Ok(())
    }

    fn conclude(&self) -> Result<(), JobError> {
        if !self.made.load(Relaxed) {
            return Ok(());
        }
        tree::remove(&*self.main, ROOT)
            .map_err(|error| JobError::Failed(format!("fio: clearing up: {error}")))
    }
}

impl Run {
    fn verify_clone(&self, calls: &dyn Syscalls, clone: &JobClone, left: &Left) -> Result<(), String> {
        let spec = &clone.spec;
        // A file of several writers holds what the last of them wrote, which none of them knows.
        let writers = |path: &str| {
            let writes = self.clones.iter().filter(|other| other.spec.mode.writes || other.spec.mode.trims);
            writes.flat_map(|other| &other.files).filter(|file| file.path == path).count()
        };
        let removed = |path: &str| {
            self.clones.iter().any(|other| {
                (other.spec.unlink || other.spec.unlink_each_loop)
                    && other.files.iter().any(|file| file.path == path)
            })
        };
        for (index, file) in clone.files.iter().enumerate() {
            let path = &file.path;
            match calls.stat(path.as_bytes()) {
                Err(Errno::ENOENT) if removed(path) || spec.create_on_open => continue,
                Ok(_) if removed(path) => return Err(format!("{path} is there, though it was removed")),
                Err(errno) => return Err(format!("stat of {path}: {errno}")),
                Ok(attr) if spec.mode.reads && attr.size < file.size() => {
                    return Err(format!(
                        "{path} has {} bytes and was laid out with {}",
                        attr.size,
                        file.size()
                    ));
                }
                Ok(_) => {}
            }
            let Some(verify) = spec.verify.as_ref().filter(|_| writers(path) == 1) else { continue };
            let fd = calls
                .open(path.as_bytes(), OpenFlags::READ, 0)
                .map_err(|errno| format!("open of {path}: {errno}"))?;
            let mut buffer = Buffer::new(spec.max_size() as usize);
            for io in left.blocks.iter().filter(|io| io.file == index) {
                let data = buffer.of(io.len as usize);
                let read = calls.pread(fd, data, io.offset);
                if read != Ok(data.len()) {
                    return Err(format!("pread of {} bytes at {} of {path}: {read:?}", io.len, io.offset));
                }
                let Kind::Verify(stamp) = io.kind else { continue };
                verify.check(data, io.offset, Some(stamp)).map_err(|told| format!("{path}: {told}"))?;
            }
            calls.close(fd).map_err(|errno| format!("close of {path}: {errno}"))?;
        }
        Ok(())
    }
}
