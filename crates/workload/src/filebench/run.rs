//! Running a program: on tasks of the clock that is in force, through the system calls of any file system.
//!
//! ```text
//! Engine::new      shapes of the filesets, preflight
//!   prepare        directories and files; never counted
//!   run            one task a thread, common start, one window, one outcome
//!   verify         every file against its pattern
//! ```
//!
//! All of it happens inside `sim::run`, under either clock; the caller mounts before, drops caches between,
//! unmounts after.
//!
//! | module | holds |
//! |---|---|
//! | `plan` | the program laid out: steps numbered, targets resolved |
//! | `control` | start, stop, shared counts, waiting |
//! | `worker` | a thread: slots, loop, accounting |
//! | `files` | a fileset's state behind its lock |
//! | `events` `aio` `buffer` | event generator, asynchronous writes, memory |
//! | `stats` | counts while running |
//! | `prepare` `verify` | before and after |
//!
//! Randomness: the shape of each fileset, the preparation and each thread have streams of their own from
//! [`Options::seed`], by name and number, so a thread draws the same whatever the others do.

pub(crate) mod aio;
mod buffer;
pub(crate) mod control;
pub(crate) mod error;
mod events;
pub(crate) mod files;
pub(crate) mod plan;
mod prepare;
mod stats;
mod verify;
pub(crate) mod worker;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use sim::{Bytes, LockClass, Nanos, Seed, TaskSpec};
use vfs::Syscalls;

pub use control::EndReason;
pub use error::{Advice, EngineError};
pub use prepare::Prepared;
pub use verify::Verified;

pub use crate::suite::Phase;

use super::fileset::tree::{Summary, Tree};
use super::flowop::StepGates;
use super::outcome::{Outcome, RandomVariable, SnapshotOutcome};
use super::pattern::Pattern;
use super::program::{EndPolicy, Program};
use super::quirks::Quirks;
use super::vocabulary::Op;
use control::{Control, Window};
use events::Events;
use files::Files;
use plan::Plan;
use stats::Stats;
use worker::Worker;

/// The classes of locks and cache lines for which its threads may wait.
pub(super) static CLASSES: &[&LockClass] = &[
    &aio::AIO,
    &control::COUNTERS,
    &control::GATE,
    &control::STATE,
    &control::STATISTICS,
    &events::EVENTS,
    &files::APPEND,
    &files::MARKS,
    &files::PICK,
];

/// How to run.
#[derive(Clone)]
pub struct Options {
    /// Where all randomness starts. Default: the seed of the run of the clock.
    pub seed: Seed,
    /// Which of Filebench's quirks are repeated.
    pub quirks: Quirks,
    /// Whether every read is compared with what must have been written, and sizes are kept for
    /// [`Engine::verify`]. Costs host time only. Default off.
    pub check: bool,
    /// Measured time; none takes the script's. Default none.
    pub duration: Option<Nanos>,
    /// Time that runs before the measurement begins. Default none.
    pub warmup: Nanos,
    /// Ends the run after so many counted operations. Default none.
    pub stop_after_ops: Option<u64>,
    /// Ends the run early when it is set, from outside. Default none.
    pub interrupt: Option<Arc<AtomicBool>>,
    /// Files are made in the order of their indexes, not at random. Default off.
    pub ordered: bool,
    /// The core of thread number n. Default: core n.
    pub core: fn(usize) -> u16,
}

impl Options {
    /// The defaults with this seed.
    pub fn new(seed: Seed) -> Self {
        Self {
            seed,
            quirks: Quirks::default(),
            check: false,
            duration: None,
            warmup: Nanos::ZERO,
            stop_after_ops: None,
            interrupt: None,
            ordered: false,
            core: |thread| thread as u16,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new(sim::seed())
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("seed", &self.seed)
            .field("quirks", &self.quirks)
            .field("check", &self.check)
            .field("duration", &self.duration)
            .field("warmup", &self.warmup)
            .field("stop_after_ops", &self.stop_after_ops)
            .finish_non_exhaustive()
    }
}

/// Makes the system calls of one process; called once for each process instance.
pub type NewProcess<'a> = &'a dyn Fn() -> Arc<dyn Syscalls>;

/// What a program needs of the file system, when all its files exist at their nominal sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Files.
    pub files: u64,
    /// Directories, empty ones included.
    pub directories: u64,
    /// Bytes in files.
    pub bytes: u64,
}

/// A program with its filesets, ready to be prepared and run, more than once if wanted.
pub struct Engine {
    pub(crate) program: Arc<Program>,
    pub(crate) options: Options,
    pub(crate) plan: Plan,
    pub(crate) sets: Vec<Files>,
    pub(crate) pattern: Arc<Pattern>,
    /// Whether files may have parts that were never written.
    pub(crate) holes: bool,
}

/// One run.
pub(crate) struct Run {
    pub(crate) engine: Arc<Engine>,
    pub(crate) control: Control,
    pub(crate) stats: Stats,
    pub(crate) gates: Vec<StepGates>,
    pub(crate) events: Option<Events>,
    messages: Mutex<Vec<String>>,
    variables: Mutex<Vec<RandomVariable>>,
}

/// The longest write that needs no copy of the pattern.
const LONGEST_SLICE: u64 = 16 << 20;

impl Engine {
    /// Draws the shapes of the filesets and checks that the files will do.
    pub fn new(program: Arc<Program>, options: Options) -> Result<Arc<Self>, EngineError> {
        let mut sets = Vec::with_capacity(program.filesets.len());
        for (index, fileset) in program.filesets.iter().enumerate() {
            let mut rng = options.seed.derive("filebench.tree", index as u64).rng();
            let tree = Tree::build(fileset, &mut rng)
                .map_err(|error| EngineError::Tree { fileset: fileset.name.clone(), error })?;
            sets.push(Files::new(&fileset.name, tree, options.check));
        }
        let plan = Plan::new(&program);
        let holes = plan.has(|op| matches!(op, Op::Write | Op::AioWrite));
        let pattern = Arc::new(Pattern::new(options.seed, longest_io(&program)));
        let engine = Self { program, options, plan, sets, pattern, holes };
        engine.preflight()?;
        Ok(Arc::new(engine))
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The pattern of all files, for a verifier of its own.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// The filesets as they were drawn: name and Filebench's report of each.
    pub fn filesets(&self) -> Vec<(&str, Summary)> {
        self.sets.iter().map(|files| (files.name.as_str(), files.tree.summary())).collect()
    }

    /// What the file system must have room for. Files grow beyond it in workloads that append.
    pub fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        for files in &self.sets {
            let summary = files.tree.summary();
            needs.files += summary.files;
            needs.directories += summary.leafdirs + u64::from(files.tree.directories());
            needs.bytes = needs.bytes.saturating_add(summary.bytes);
        }
        needs
    }

    /// In a run that is to last its time there must be enough files for all threads at once: two absent
    /// ones for each that creates, six existing ones for each that deletes.
    fn preflight(&self) -> Result<(), EngineError> {
        if self.program.end != EndPolicy::Timeout {
            return Ok(());
        }
        for (index, files) in self.sets.iter().enumerate() {
            let users = |op| self.threads_with(op, index);
            let (creators, deleters) = (users(Op::CreateFile), users(Op::DeleteFile));
            let (entries, part) =
                (u64::from(files.tree.files()), self.program.filesets[index].prealloc_percent);
            let existing = entries * u64::from(part) / 100;
            let absent = entries - existing;
            let needed = |files: u64, percent: u8| (files * 100).div_ceil(u64::from(percent.max(1)));
            let fileset = files.name.clone();
            if absent < 2 * creators {
                let advice = match part {
                    100 => Advice::LessPrealloc,
                    part => Advice::Entries(needed(2 * creators, 100 - part)),
                };
                let (kind, verb) = ("absent", "create");
                let threads = creators;
                return Err(EngineError::NotEnoughFiles {
                    fileset,
                    have: absent,
                    kind,
                    threads,
                    verb,
                    advice,
                });
            }
            if existing < 6 * deleters && (existing > 0 || creators == 0) {
                let advice = match part {
                    0 => Advice::Prealloc,
                    part => Advice::Entries(needed(6 * deleters, part)),
                };
                let (kind, verb) = ("existing", "delete");
                let threads = deleters;
                return Err(EngineError::NotEnoughFiles {
                    fileset,
                    have: existing,
                    kind,
                    threads,
                    verb,
                    advice,
                });
            }
        }
        Ok(())
    }

    /// How many threads do `op` on fileset number `fileset`.
    fn threads_with(&self, op: Op, fileset: usize) -> u64 {
        let uses = |thread: &super::program::Thread| {
            let mut operations = thread.operations().into_iter();
            operations.any(|(_, operation)| operation.op == op && operation.fileset == Some(fileset))
        };
        self.program
            .threads()
            .filter(|(_, thread)| uses(thread))
            .map(|(process, thread)| u64::from(process.instances) * u64::from(thread.instances))
            .sum()
    }

    /// Runs the program on what [`Engine::prepare`] has left, and measures it. All processes share `calls`.
    pub fn run(self: &Arc<Self>, calls: &Arc<dyn Syscalls>) -> Result<Outcome, EngineError> {
        self.run_with(&|| Arc::clone(calls), &mut |_| ())
    }

    /// Like [`Engine::run`], with system calls of its own for each process, and with `watch` being called
    /// from the main task when the measured time begins and ends.
    pub fn run_with(
        self: &Arc<Self>,
        new_process: NewProcess<'_>,
        watch: &mut dyn FnMut(Phase),
    ) -> Result<Outcome, EngineError> {
        if sim::task::current_id().is_none() {
            return Err(EngineError::OutsideRun);
        }
        let run = Arc::new(Run::new(self));
        let threads = run.start_threads(new_process);
        let window = run.control.start(threads.len(), self.options.warmup, self.duration());
        crate::suite::sleep_until_begin(self.options.interrupt.as_deref(), window.begin);
        watch(Phase::Begins);
        let snapshots = run.wait(threads.len(), window);
        watch(Phase::Ends);
        match window.end {
            Some(end) if sim::now() >= end => run.control.stop(end, EndReason::Time),
            _ => run.control.all_done(),
        }
        run.wake_all();
        threads.into_iter().for_each(sim::JoinHandle::join);
        run.outcome(window, snapshots)
    }

    /// The measured time: the caller's, the script's, or none.
    fn duration(&self) -> Option<Nanos> {
        let script = self.program.run.and_then(|run| run.seconds).map(Nanos::from_secs);
        self.options.duration.or(script)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("program", &self.program.name)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Run {
    fn new(engine: &Arc<Engine>) -> Self {
        let (plan, options) = (&engine.plan, &engine.options);
        let counts_others = |op| {
            matches!(op, Op::FinishOnCount | Op::FinishOnBytes | Op::IopsLimit | Op::OpsLimit | Op::BwLimit)
        };
        let ordered = engine.program.end != EndPolicy::Timeout
            || engine.program.run.is_some_and(|run| run.snapshots.is_some())
            || options.stop_after_ops.is_some()
            || plan.has(counts_others);
        let threads = plan.threads.iter().map(plan::ThreadPlan::total).sum();
        let mut rng = options.seed.derive("filebench.events", 0).rng();
        let rate = engine.program.event_rate.as_ref().map_or(0, |rate| rate.draw(&mut rng));
        Self {
            engine: Arc::clone(engine),
            control: Control::new(ordered, options.stop_after_ops, options.quirks.statistics_lock),
            stats: Stats::new(plan.steps.len(), threads),
            gates: StepGates::of(plan),
            events: (rate > 0).then(|| Events::new(rate, sim::now())),
            messages: Mutex::new(Vec::new()),
            variables: Mutex::new(Vec::new()),
        }
    }

    /// One task for each thread of each process.
    fn start_threads(self: &Arc<Self>, new_process: NewProcess<'_>) -> Vec<sim::JoinHandle<()>> {
        let mut tasks = Vec::new();
        let processes = self.engine.program.processes.len();
        let mut instances = vec![0; self.engine.plan.threads.len()];
        for process in 0..processes {
            for process_instance in 0..self.engine.program.processes[process].instances {
                let calls = new_process();
                let kinds = self.engine.plan.threads.iter().enumerate();
                for (kind, plan) in kinds.filter(|(_, plan)| plan.process == process) {
                    for _ in 0..plan.instances {
                        let (number, instance) = (tasks.len(), instances[kind]);
                        instances[kind] += 1;
                        let name = format!(
                            "{}-{}/{}-{}",
                            plan.process_name,
                            process_instance + 1,
                            plan.name,
                            instance + 1
                        );
                        let core = (self.engine.options.core)(number);
                        let spec = TaskSpec::named(name).on_core(core).with_places(Bytes(plan.memory));
                        let worker =
                            Worker::new(Arc::clone(self), Arc::clone(&calls), kind, instance, number);
                        tasks.push(sim::spawn(spec, move || worker.work()));
                    }
                }
            }
        }
        tasks
    }

    /// The main task: waits for the end, taking the snapshots of `psrun` on the way.
    fn wait(&self, threads: usize, window: Window) -> Vec<SnapshotOutcome> {
        let mut taken = Vec::new();
        let Some(snapshots) = self.engine.program.run.and_then(|run| run.snapshots) else {
            self.control.wait_for_end(threads, window.end);
            return taken;
        };
        let (mut since, mut next) = (window.begin, window.begin);
        loop {
            next += Nanos::from_secs(snapshots.period_s);
            let until = window.end.map_or(next, |end| end.min(next));
            let over = self.control.wait_for_end(threads, Some(until));
            if over || window.end.is_some_and(|end| until >= end) {
                return taken;
            }
            let flowops = self.stats.collect(&self.engine.plan.steps);
            taken.push(SnapshotOutcome { elapsed: until.since(since), flowops });
            if snapshots.reset {
                self.stats.clear();
                since = until;
            }
        }
    }

    /// Whether the caller of the run wants it to end.
    #[inline]
    pub(crate) fn is_interrupted(&self) -> bool {
        self.engine.options.interrupt.as_ref().is_some_and(|interrupt| interrupt.load(Relaxed))
    }

    /// Makes every thread that waits look at the clock.
    pub(crate) fn wake_all(&self) {
        self.gates.iter().for_each(StepGates::wake);
        self.engine.sets.iter().for_each(Files::wake);
    }

    pub(crate) fn note_message(&self, message: String) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
    }

    pub(crate) fn note_variable(&self, variable: RandomVariable) {
        self.variables.lock().unwrap_or_else(PoisonError::into_inner).push(variable);
    }

    fn outcome(&self, window: Window, snapshots: Vec<SnapshotOutcome>) -> Result<Outcome, EngineError> {
        let end = self.control.outcome()?.unwrap_or(EndReason::AllDone);
        let since = match self.engine.program.run.and_then(|run| run.snapshots) {
            Some(kind) if kind.reset => {
                snapshots.iter().fold(window.begin, |since, snapshot| since + snapshot.elapsed)
            }
            _ => window.begin,
        };
        Ok(Outcome {
            elapsed: self.control.stop_at().since(since),
            end,
            flowops: self.stats.collect(&self.engine.plan.steps),
            snapshots,
            messages: std::mem::take(&mut self.messages.lock().unwrap_or_else(PoisonError::into_inner)),
            random_variables: std::mem::take(
                &mut self.variables.lock().unwrap_or_else(PoisonError::into_inner),
            ),
        })
    }
}

/// The longest fixed I/O of a program, within reason.
fn longest_io(program: &Program) -> usize {
    let sizes = program.threads().flat_map(|(_, thread)| thread.operations());
    let longest = sizes.filter_map(|(_, operation)| operation.iosize.fixed()).max().unwrap_or(0);
    longest.clamp(prepare::CHUNK_BYTES, LONGEST_SLICE) as usize
}
