//! Runs the cells of a plan and gathers their samples.
//!
//! Under the virtual clock cells do not meet: each has its own scheduler on its own host thread, as many at once as cores and
//! memory allow, and the order in which they run changes nothing: the longest go first, and plans that run together share one
//! queue. Under the real clock they run one after the other, by default interleaved: the first repeat of all cells, then the
//! second, so that drift of the host meets all alike.
//!
//! Cells of equal settings and seed give equal samples under the virtual clock, so they run once, also across plans that share a
//! [`Runner`]; with [`Runner::keep_in`] also across processes.
//!
//! A cell that fails has a sample without numbers that says why, and the others go on. A plan of which no cell was measured is an
//! error. Under the real clock a cell during which the host was busy runs again, as long as there is a budget: one more run for
//! each [`BUDGET`] of the plan, and at most [`MOST_ATTEMPTS`] of a cell. The calmest of its runs counts, whatever it measured.
//!
//! Lock order: `Queue` only; it is never held while a cell runs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use media::Medium;
use results::events::SIMULATED;
use results::{FailureKind, ResultFile, Sample, SampleFailure};
use serde_json::{Value, json};
use sim::{Bytes, Clock, Machine, Seed, Work};
use vfs::Linux;

use crate::canonical;
use crate::cell::{self, RegionPool, Run};
use crate::cells::{Cost, Kept, Known};
use crate::contention;
use crate::counters::{Counters, counting, simulated};
use crate::environment;
use crate::error::Error;
use crate::machine::{self, MachinePreset};
use crate::memory_model;
use crate::plan::matrix::Subject;
use crate::plan::{CellSpec, Order, Plan};
use crate::readings::run::Size;

/// Runs for which one may be made again.
pub const BUDGET: usize = 4;
/// Runs of one cell and repeat.
pub const MOST_ATTEMPTS: u32 = 3;

/// What is told while cells run. Calls come from several threads.
pub trait Progress: Sync {
    /// Plans of that many runs together begin.
    fn begins(&self, _plans: &[&Plan], _runs: usize) {}
    /// A run begins.
    fn started(&self, _title: &str) {}
    /// A run has ended.
    fn finished(&self, _title: &str, _sample: &Sample) {}
}

/// Reports nothing.
#[derive(Debug)]
pub struct Silent;

impl Progress for Silent {}

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Host threads for the virtual clock; 0: all cores.
    pub jobs: usize,
    /// Memory that cells may declare together; `None`: nine tenths of what the host has free.
    pub memory: Option<Bytes>,
    /// Where to keep the unmounted image of each cell.
    pub save_image: Option<PathBuf>,
    /// Whether to check the image and every file's content after each cell.
    pub check: bool,
    /// Whether to look what tasks wait for in the kernel, in cells on directories of the host.
    pub kernel_locks: bool,
    /// Whether to leave the files that a cell has made in a directory of the host.
    pub keep_files: bool,
    /// Whether this process is watched by the plugin that counts what a simulated processor does.
    pub is_watched: bool,
    /// The command that runs one cell while it is watched ([`Runner::watched`]); without it nothing is simulated.
    pub counted: Vec<OsString>,
    /// Set to end early: running cells finish, no other begins.
    pub interrupt: Arc<AtomicBool>,
    /// The command that works as one worker on a directory of the host ([`cell::worker`]); without it FxMark is refused there.
    pub worker: Vec<OsString>,
}

/// Runs plans, and remembers what has run.
pub struct Runner<'p> {
    settings: Settings,
    progress: &'p dyn Progress,
    known: Known,
    costs: BTreeMap<String, Cost>,
    kept: Option<Kept>,
    spare: Arc<RegionPool>,
}

/// A plan and all that it is resolved to.
struct Batch<'a> {
    plan: &'a Plan,
    cells: Vec<CellSpec>,
    /// The machine of each cell, with the prices of its design, in the order of the cells.
    machines: Vec<Machine>,
    /// What the machine is, for the keys of cells.
    priced: Value,
    /// Whose locks stand beside a file system.
    kernel: Option<Linux>,
    /// The result, without samples yet.
    file: ResultFile,
}

/// A cell and repeat that must run, and what it is called.
struct Task<'a> {
    batch: &'a Batch<'a>,
    spec: &'a CellSpec,
    repeat: u32,
    key: String,
}

/// A cell and repeat of plans, without running it.
#[derive(Clone, Debug)]
pub struct CellToRun {
    /// The key: cells of one key are one cell.
    pub key: String,
    /// What it is called.
    pub title: String,
    /// What is measured and what is done: cells of a kind take alike for their effort.
    pub kind: String,
    /// How long it takes, to compare it with others ([`cell::effort`]).
    pub effort: u64,
    /// Memory that it is expected to fill.
    pub memory: Bytes,
    /// Which repeat it is.
    pub repeat: u32,
    /// Where its randomness starts.
    pub seed: Seed,
}

/// What workers share.
struct Queue<'a> {
    waiting: Vec<Task<'a>>,
    limit: Bytes,
    used: Bytes,
    running: usize,
    done: BTreeMap<String, (Sample, Cost)>,
}

impl<'p> Runner<'p> {
    /// A runner that tells `progress`.
    pub fn new(settings: Settings, progress: &'p dyn Progress) -> Self {
        let (known, costs) = (Known::new(), BTreeMap::new());
        Self { settings, progress, known, costs, kept: None, spare: Arc::default() }
    }

    /// Takes the samples that were kept, and keeps each new one of the virtual clock as soon as its cell has run.
    pub fn keep_in(&mut self, (kept, known): (Kept, Known)) {
        self.known.extend(known);
        self.kept = Some(kept);
    }

    /// What keeps the samples for other processes, which from now on is the caller's.
    pub(crate) fn take_kept(&mut self) -> Option<Kept> {
        self.kept.take()
    }

    /// Takes samples that were measured elsewhere, by the keys of their cells.
    pub fn know(&mut self, known: Known) {
        self.known.extend(known);
    }

    /// The sample of a cell that has run or is known.
    pub fn sample(&self, key: &str) -> Option<&Sample> {
        self.known.get(key)
    }

    /// What a cell took that has run here.
    pub fn cost(&self, key: &str) -> Option<Cost> {
        self.costs.get(key).copied()
    }

    /// Every cell and repeat of the plans, those of one key once, in the order of the plans.
    pub fn cells(plans: &[Plan]) -> Result<Vec<CellToRun>, Error> {
        let (mut seen, mut cells) = (BTreeSet::new(), Vec::new());
        for plan in plans {
            let batch = Batch::new(plan)?;
            for task in batch.tasks().filter(|task| seen.insert(task.key.clone())) {
                let (key, repeat, seed) = (task.key, task.repeat, seed(plan, task.repeat));
                let kind = ["fs", "scheme", "workload"]
                    .map(|axis| task.spec.axes.get(axis).cloned().unwrap_or_default());
                let (title, effort) = (task.spec.title(), cell::effort(task.spec));
                cells.push(CellToRun {
                    key,
                    title,
                    kind: kind.join(" "),
                    effort,
                    memory: cell::memory(task.spec)?,
                    repeat,
                    seed,
                });
            }
        }
        Ok(cells)
    }

    /// What [`Settings::counted`] does with its standard input: one cell of a plan, as `task` says. Its parent reads the answer.
    pub fn watched(mut self, task: &str) -> Result<String, Error> {
        self.settings.is_watched = true;
        simulated::work(task, |plan, axes, repeat| {
            let plan = Plan { counters: Counters::None, ..plan.clone() };
            let batch = Batch::new(&plan)?;
            let mut tasks = batch.tasks();
            let task = tasks.find(|task| task.spec.axes == *axes && task.repeat == repeat);
            let none = || Error::Setting("the plan has no such cell".to_owned());
            let sample = self.run_task(&task.ok_or_else(none)?, &Arc::default());
            match sample {
                Some(Sample { failure: Some(failure), .. }) => Err(Error::Setting(failure.what)),
                Some(sample) => Ok(sample),
                None => Err(Error::Setting("interrupted".to_owned())),
            }
        })
    }

    /// The keys of the samples of a plan's result, in their order.
    pub fn keys(plan: &Plan) -> Result<Vec<String>, Error> {
        let batch = Batch::new(plan)?;
        Ok(batch.in_result().map(|(cell, repeat)| batch.key(cell, repeat)).collect())
    }

    /// Runs these cells of the plans that are not known, under the virtual clock, without making results of them.
    pub(crate) fn measure_these(&mut self, plans: &[Plan], wanted: &BTreeSet<String>) -> Result<(), Error> {
        let batches = plans.iter().map(Batch::new).collect::<Result<Vec<_>, _>>()?;
        self.measure(&batches, Some(wanted))
    }

    /// The results of plans whose cells are known, marked partial where some are not.
    pub fn assemble(&self, plans: &[Plan]) -> Result<Vec<ResultFile>, Error> {
        let assemble = |plan| {
            let batch = Batch::new(plan)?;
            Ok(Self::file(&batch, batch.samples(&self.known), true))
        };
        plans.iter().map(assemble).collect()
    }

    /// Runs a plan. An interrupt gives the samples so far, marked partial.
    pub fn run(&mut self, plan: &Plan) -> Result<ResultFile, Error> {
        let mut files = self.run_all(std::slice::from_ref(plan))?;
        Ok(files.pop().expect("the first plan always has a result"))
    }

    /// Runs plans: the cells of all under the virtual clock side by side, then the others plan by plan. An interrupt gives the
    /// samples so far, marked partial, and leaves out the plans of which nothing has run, except the first.
    pub fn run_all(&mut self, plans: &[Plan]) -> Result<Vec<ResultFile>, Error> {
        let batches = plans.iter().map(Batch::new).collect::<Result<Vec<_>, _>>()?;
        self.measure(&batches, None)?;
        let mut files = Vec::new();
        for batch in &batches {
            let samples = match batch.plan.clock {
                Clock::Virtual => batch.samples(&self.known),
                Clock::Real => {
                    let tasks: Vec<Task<'_>> = batch.tasks().collect();
                    self.begin(&[batch], &tasks)?;
                    self.one_by_one(&tasks)
                }
            };
            files.push(Self::file(batch, samples, self.interrupted()));
        }
        none_measured(&files)?;
        let mut first = true;
        files.retain(|file| std::mem::take(&mut first) || !file.partial || !file.samples.is_empty());
        Ok(files)
    }

    /// Runs every cell of these plans that is not known, under the virtual clock, without making results of them.
    pub(crate) fn measure_all(&mut self, plans: &[Plan]) -> Result<Size, Error> {
        if let Some(plan) = plans.iter().find(|plan| plan.clock == Clock::Real) {
            let message = "runs under the real clock, where no two runs of a cell are alike: give it clock = \"virtual\"";
            return Err(Error::Setting(format!("plan {}: {message}", plan.name)));
        }
        let batches = plans.iter().map(Batch::new).collect::<Result<Vec<_>, _>>()?;
        let keys = || batches.iter().flat_map(Batch::tasks).map(|task| task.key);
        let cells: BTreeSet<String> = keys().collect();
        let known = cells.iter().filter(|key| self.known.contains_key(*key)).count();
        self.measure(&batches, None)?;
        Ok(Size { asked: keys().count(), cells: cells.len(), known })
    }

    /// Runs what is not known of the batches under the virtual clock; only cells that are `wanted`, if that is said.
    fn measure(&mut self, batches: &[Batch<'_>], wanted: Option<&BTreeSet<String>>) -> Result<(), Error> {
        let modelled: Vec<_> = batches.iter().filter(|batch| batch.plan.clock == Clock::Virtual).collect();
        let mut tasks = self.unknown(&modelled);
        tasks.retain(|task| wanted.is_none_or(|wanted| wanted.contains(&task.key)));
        if tasks.is_empty() {
            return Ok(());
        }
        self.begin(&modelled, &tasks)?;
        for (key, (sample, cost)) in self.side_by_side(tasks) {
            self.costs.insert(key.clone(), cost);
            self.known.insert(key, sample);
        }
        Ok(())
    }

    fn begin(&self, batches: &[&Batch<'_>], tasks: &[Task<'_>]) -> Result<(), Error> {
        admit(tasks)?;
        let plans: Vec<&Plan> = batches.iter().map(|batch| batch.plan).collect();
        self.progress.begins(&plans, tasks.len());
        Ok(())
    }

    /// The result of a plan, whose samples may be fewer than it wants if the run `may_lack` some.
    fn file(batch: &Batch<'_>, samples: Vec<Sample>, may_lack: bool) -> ResultFile {
        let plan = batch.plan;
        let whole = samples.len() == batch.cells.len() * plan.repeats as usize
            && !samples.iter().any(|sample| sample.partial);
        let cells: Vec<_> = batch.cells.iter().map(|cell| &cell.axes).collect();
        let hypotheses = plan.expect.iter().map(|hypothesis| hypothesis.judge(&cells, &samples)).collect();
        let lines = contention::lines_of(&samples);
        ResultFile { partial: may_lack && !whole, lines, hypotheses, samples, ..batch.file.clone() }
    }

    /// Whether it was asked to end early.
    pub fn interrupted(&self) -> bool {
        self.settings.interrupt.load(Relaxed)
    }

    /// Everything that has not run yet, each once, the longest first: at the end no core waits long for another.
    fn unknown<'a>(&self, batches: &[&'a Batch<'a>]) -> Vec<Task<'a>> {
        let mut seen = BTreeSet::new();
        let tasks = batches.iter().flat_map(|batch| batch.tasks());
        let mut tasks: Vec<Task<'a>> = tasks
            .filter(|task| !self.known.contains_key(&task.key) && seen.insert(task.key.clone()))
            .collect();
        tasks.sort_by_cached_key(|task| Reverse((cell::effort(task.spec), cell::memory(task.spec).ok())));
        tasks
    }

    /// What cells may declare together: of what is free, a tenth is left to other programs.
    fn limit(&self) -> Bytes {
        self.settings.memory.unwrap_or(Bytes(environment::available_bytes() / 10 * 9))
    }

    fn one_by_one(&self, tasks: &[Task<'_>]) -> Vec<Sample> {
        let mut budget = tasks.len().div_ceil(BUDGET);
        let wanted = tasks.iter().take_while(|_| !self.interrupted());
        wanted.filter_map(|task| self.run_until_calm(task, &mut budget)).collect()
    }

    /// Runs a task again while the host is too busy to be relied on, and keeps the calmest run.
    fn run_until_calm(&self, task: &Task<'_>, budget: &mut usize) -> Option<Sample> {
        let mut calmest = self.run_task(task, &Arc::default())?;
        let mut attempts = 1;
        while is_noisy(&calmest) && attempts < MOST_ATTEMPTS && *budget > 0 && !self.interrupted() {
            (*budget, attempts) = (*budget - 1, attempts + 1);
            let again =
                self.run_task(task, &Arc::default()).filter(|again| again.is_measured() && !again.partial);
            if let Some(again) = again.filter(|again| taken(again) < taken(&calmest)) {
                calmest = again;
            }
        }
        if let Some(host) = &mut calmest.host {
            host.attempts = attempts;
        }
        Some(calmest)
    }

    fn side_by_side(&self, tasks: Vec<Task<'_>>) -> BTreeMap<String, (Sample, Cost)> {
        let jobs = if self.settings.jobs == 0 { environment::cores() } else { self.settings.jobs };
        let jobs = jobs.min(tasks.len());
        let queue =
            Queue { waiting: tasks, limit: self.limit(), used: Bytes(0), running: 0, done: BTreeMap::new() };
        let shared = (Mutex::new(queue), Condvar::new());
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| self.worker(&shared));
            }
        });
        self.spare.clear();
        shared.0.into_inner().unwrap_or_else(PoisonError::into_inner).done
    }

    /// Takes tasks that fit into memory until there are none.
    fn worker(&self, shared: &(Mutex<Queue<'_>>, Condvar)) {
        while let Some((task, memory)) = self.next(shared) {
            let outcome = self.run_and_keep(&task);
            let mut queue = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
            queue.used = Bytes(queue.used.0 - memory.0);
            queue.running -= 1;
            queue.done.extend(outcome.map(|outcome| (task.key, outcome)));
            shared.1.notify_all();
        }
    }

    /// The next task, once memory allows it; `None` when there is nothing left to begin.
    fn next<'a>(&self, shared: &(Mutex<Queue<'a>>, Condvar)) -> Option<(Task<'a>, Bytes)> {
        let mut queue = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if self.interrupted() || queue.waiting.is_empty() {
                return None;
            }
            let room = Bytes(queue.limit.0.saturating_sub(queue.used.0));
            let fits = |task: &Task<'_>| cell::memory(task.spec).is_ok_and(|needed| needed <= room);
            // One that is larger than the limit runs alone: the host has been found large enough.
            let next = queue.waiting.iter().position(fits).or_else(|| (queue.running == 0).then_some(0));
            if let Some(at) = next {
                let task = queue.waiting.remove(at);
                let memory = cell::memory(task.spec).unwrap_or(room);
                queue.used = queue.used + memory;
                queue.running += 1;
                return Some((task, memory));
            }
            // What is running may need the memory.
            self.spare.clear();
            queue = shared.1.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The sample of a task with what it took, which is kept.
    fn run_and_keep(&self, task: &Task<'_>) -> Option<(Sample, Cost)> {
        let (began, before, own) = (Instant::now(), cell::thread_cpu_ns(), Arc::<AtomicU64>::default());
        let sample = self.run_task(task, &own)?;
        let here = cell::thread_cpu_ns().saturating_sub(before);
        let cost = Cost { cpu_ns: here + own.load(Relaxed), wall_ns: began.elapsed().as_nanos() as u64 };
        self.keep(task, &sample, cost);
        Some((sample, cost))
    }

    /// The sample of a task, which says why if it failed; none if it was given up before it measured anything.
    fn run_task(&self, task: &Task<'_>, spent_ns: &Arc<AtomicU64>) -> Option<Sample> {
        let Batch { plan, kernel, .. } = task.batch;
        if plan.clock == Clock::Real {
            // Each cell meets the host's memory as its first one does.
            self.spare.clear();
        }
        let title = task.spec.title();
        self.progress.started(&title);
        let run = Run {
            clock: plan.clock,
            machine: task.batch.machine_of(task.spec).clone(),
            kernel: *kernel,
            alone: plan.is_of_one_design(),
            seed: seed(plan, task.repeat),
            repeat: task.repeat,
            save_image: self.settings.save_image.clone(),
            check: self.settings.check,
            kernel_locks: self.settings.kernel_locks,
            keep_files: self.settings.keep_files,
            counts: plan.counters.real() && plan.clock == Clock::Real,
            is_watched: self.settings.is_watched,
            counting: Arc::default(),
            interrupt: Arc::clone(&self.settings.interrupt),
            worker: self.settings.worker.clone(),
            spare: Arc::clone(&self.spare),
            spent_ns: Arc::clone(spent_ns),
        };
        let sample = match cell::run(task.spec, &run) {
            Ok(mut sample) => {
                if plan.counters.real() && plan.clock == Clock::Virtual && !self.interrupted() {
                    counting::join(&mut sample, task.spec, &run);
                }
                if plan.counters.simulated() && !self.interrupted() {
                    simulated::join(&mut sample, plan, task.spec, &self.settings.counted);
                }
                sample
            }
            Err(_) if self.interrupted() => return None,
            Err(error) => Sample::failed(task.spec.axes.clone(), task.repeat, run.seed.0, failure(error)),
        };
        self.progress.finished(&title, &sample);
        Some(sample)
    }

    /// Keeps a whole sample of the virtual clock for other processes, if that is wanted.
    fn keep(&self, task: &Task<'_>, sample: &Sample, cost: Cost) {
        if let Some(kept) = &self.kept
            && !sample.partial
            && !lacks_counts(task.batch.plan, sample)
            && (sample.is_measured() || kept.keeps_failures())
        {
            kept.add(&task.key, sample, cost);
        }
    }

    /// What keeps the samples for other processes.
    pub fn kept(&self) -> Option<&Kept> {
        self.kept.as_ref()
    }
}

impl std::fmt::Debug for Runner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl<'a> Batch<'a> {
    fn new(plan: &'a Plan) -> Result<Self, Error> {
        let (preset, priced) = machine(plan)?;
        let cells = plan.cells()?;
        let machines = cells.iter().map(|cell| of_cell(plan, &preset, cell)).collect::<Result<_, _>>()?;
        let mut file = empty_file(plan, &preset.machine)?;
        if plan.clock == Clock::Virtual {
            file.memory = memories(&preset, &cells);
        }
        Ok(Self { plan, cells, machines, priced, kernel: preset.kernel, file })
    }

    fn machine_of(&self, spec: &CellSpec) -> &Machine {
        let at = self.cells.iter().position(|cell| std::ptr::eq(cell, spec));
        &self.machines[at.expect("a task is of a cell of its batch")]
    }

    /// Every cell and repeat in the order of the plan.
    fn tasks(&'a self) -> impl Iterator<Item = Task<'a>> {
        let tasks = in_order(self.plan, &self.cells).into_iter();
        tasks.map(|(repeat, spec)| Task { batch: self, spec, repeat, key: self.key(spec, repeat) })
    }

    /// The hash of everything that decides a sample under the virtual clock, but for the build.
    fn key(&self, spec: &CellSpec, repeat: u32) -> String {
        let mut decisive = json!({
            "schema": "weir.cell/1",
            "cell": spec.identity(),
            "machine": self.priced,
            "clock": self.plan.clock,
            "seed": self.plan.seed,
            "repeat": repeat,
        });
        if spec.prices.is_some() {
            let machine = self.machine_of(spec);
            let parts: Vec<_> = machine.parts.iter().map(|price| json!([price.part, price.ps])).collect();
            let ran: Vec<u64> = Work::RAN.iter().map(|work| machine.work_ps[work.index()]).collect();
            decisive["prices"] = json!([parts, ran, machine.originals]);
        }
        if self.kernel.is_none() && !self.plan.is_of_one_design() {
            decisive["walks"] = json!("the front end");
        }
        if !self.plan.counters.is_none() {
            decisive["counters"] = json!(self.plan.counters);
        }
        canonical::hash(&decisive)
    }

    /// Cells and repeats in the order of the result.
    fn in_result(&self) -> impl Iterator<Item = (&CellSpec, u32)> {
        self.cells.iter().flat_map(|cell| (0..self.plan.repeats).map(move |repeat| (cell, repeat)))
    }

    /// The samples of all cells, each with its repeats, whichever cell ran for them.
    fn samples(&self, known: &Known) -> Vec<Sample> {
        let found = self.in_result().filter_map(|(cell, repeat)| {
            let sample = known.get(&self.key(cell, repeat))?;
            Some(Sample { axes: cell.axes.clone(), ..sample.clone() })
        });
        found.collect()
    }
}

/// Whether a simulated processor was to count, and did not: another host may have what this one lacks.
fn lacks_counts(plan: &Plan, sample: &Sample) -> bool {
    plan.counters.simulated() && !sample.counters.contains_key(&format!("{SIMULATED}instructions"))
}

/// Whether the host was busy meanwhile.
fn is_noisy(sample: &Sample) -> bool {
    sample.host.as_ref().is_some_and(|host| !host.noise.is_empty())
}

/// Processor time that others took or withheld, as a part of the sample's time.
fn taken(sample: &Sample) -> f64 {
    let share =
        |host: &results::HostRecord| (host.others_ns + host.steal_ns) as f64 / host.wall_ns.max(1) as f64;
    sample.host.as_ref().map_or(0.0, share)
}

/// Why a cell has no numbers. Its name is beside it.
fn failure(error: Error) -> SampleFailure {
    match error {
        Error::Cell { what, .. } => SampleFailure { kind: FailureKind::Run, what },
        Error::Corrupt { what, .. } => SampleFailure { kind: FailureKind::Corrupt, what },
        other => SampleFailure { kind: FailureKind::Run, what: other.to_string() },
    }
}

/// Nothing to keep is an error: the first failure, with its cell.
fn none_measured(files: &[ResultFile]) -> Result<(), Error> {
    let mut samples = files.iter().flat_map(|file| &file.samples);
    if samples.clone().any(Sample::is_measured) {
        return Ok(());
    }
    let Some((sample, failure)) = samples.find_map(|s| Some((s, s.failure.as_ref()?))) else { return Ok(()) };
    let (cell, what) = (cell::title(&sample.axes), failure.what.clone());
    Err(match failure.kind {
        FailureKind::Run => Error::Cell { cell, what },
        FailureKind::Corrupt => Error::Corrupt { cell, what },
    })
}

/// A result of the plan without samples yet.
fn empty_file(plan: &Plan, machine: &Machine) -> Result<ResultFile, Error> {
    let mut file = ResultFile::new(&plan.name, plan.to_json(), plan.seed, cell::clock(plan.clock));
    file.why.clone_from(&plan.why);
    file.machine = if plan.clock == Clock::Virtual { machine.name.clone() } else { "host".to_owned() };
    file.environment = environment::capture();
    file.notes.extend(plan.note.clone());
    file.prices = plan.priced_as()?;
    Ok(file)
}

/// The sentences about the memories under load that cells have: the machine's, and those of their media.
fn memories(preset: &MachinePreset, cells: &[CellSpec]) -> Vec<String> {
    let mut media: Vec<&Medium> = cells.iter().map(|cell| &cell.medium).collect();
    let mut seen = BTreeSet::new();
    media.retain(|medium| seen.insert(medium.to_string()));
    let of_media = media.into_iter().filter_map(memory_model::sentence_of_medium);
    memory_model::sentence_of_machine(preset).into_iter().chain(of_media).collect()
}

/// Refuses cells that cannot have the memory that they declare.
fn admit(tasks: &[Task<'_>]) -> Result<(), Error> {
    let available = Bytes(environment::available_bytes());
    for task in tasks {
        let needed = cell::memory(task.spec)?;
        if needed > available && available > Bytes(0) {
            let title = task.spec.title();
            return Err(Error::Host(format!(
                "{title} needs {needed} of memory and this host has {available} free; take {}{}",
                task.spec.workload.how_to_shrink(),
                if task.spec.region.is_some() {
                    ", or a smaller region (--region; in a plan: region)"
                } else {
                    ""
                }
            )));
        }
    }
    Ok(())
}

/// The machine that prices CPU work with the kernel whose locks a file system has beside it, and what decides both, without names
/// and sources. The real clock takes the shape only: calls in this process meet no kernel.
fn machine(plan: &Plan) -> Result<(MachinePreset, Value), Error> {
    match plan.clock {
        // The processor of each cell is in the cell.
        Clock::Virtual if plan.is_of_processors() => {
            let machine = Machine { name: plan.machine.clone(), ..Machine::unit() };
            Ok((MachinePreset::bare(machine), Value::Null))
        }
        Clock::Virtual => MachinePreset::load(&plan.machine).map(|preset| {
            let priced = preset.values.iter().map(|value| json!([value.key, value.value])).collect();
            (preset, priced)
        }),
        Clock::Real => Ok((MachinePreset::bare(machine::of_host()), Value::Null)),
    }
}

/// The machine with the prices that a cell's design pays.
fn of_cell(plan: &Plan, preset: &MachinePreset, cell: &CellSpec) -> Result<Machine, Error> {
    match (&cell.subject, cell.prices) {
        (Subject::Design { design, .. }, Some(prices)) => preset.priced(prices, design.name(), plan.as_new),
        _ => Ok(preset.machine.clone()),
    }
}

/// The same for all cells of a repeat, so that designs meet the same files and the same random numbers.
fn seed(plan: &Plan, repeat: u32) -> Seed {
    // A simulator makes a stream of its own of each seed.
    if plan.is_of_processors() {
        return Seed(plan.seed + u64::from(repeat));
    }
    Seed(plan.seed).derive("repeat", u64::from(repeat))
}

/// Cells and repeats in the order of the plan.
fn in_order<'a>(plan: &Plan, cells: &'a [CellSpec]) -> Vec<(u32, &'a CellSpec)> {
    let repeats = 0..plan.repeats;
    match plan.order {
        Order::Interleaved => {
            repeats.flat_map(|repeat| cells.iter().map(move |cell| (repeat, cell))).collect()
        }
        Order::Sequential => {
            cells.iter().flat_map(|cell| (0..plan.repeats).map(move |repeat| (repeat, cell))).collect()
        }
    }
}
