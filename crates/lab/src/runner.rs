//! Runs the cells of a plan and gathers their samples.
//!
//! Under the virtual clock cells do not meet: each has its own scheduler on its own host thread, as many at once as cores and
//! memory allow, and the order in which they end changes nothing. Under the real clock they run one after the other, by default
//! interleaved: the first repeat of all cells, then the second, so that drift of the host meets all alike.
//!
//! Cells of equal settings and seed give equal samples under the virtual clock, so they run once, also across plans that share a
//! [`Runner`].
//!
//! Lock order: `Queue` only; it is never held while a cell runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use results::{ResultFile, Sample};
use sim::{Bytes, Clock, Machine, Seed};

use crate::cell::{self, Run};
use crate::environment;
use crate::error::Error;
use crate::machine::MachinePreset;
use crate::plan::{CellSpec, Order, Plan};

/// What is told while cells run. Calls come from several threads.
pub trait Progress: Sync {
    /// A plan of that many runs begins.
    fn begins(&self, _plan: &Plan, _runs: usize) {}
    /// A run begins.
    fn started(&self, _title: &str) {}
    /// A run has ended.
    fn finished(&self, _title: &str, _sample: &Sample) {}
}

/// Tells nobody.
#[derive(Debug)]
pub struct Silent;

impl Progress for Silent {}

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Host threads for the virtual clock; 0: all cores.
    pub jobs: usize,
    /// Memory that cells may declare together; `None`: three quarters of what the host has.
    pub memory: Option<Bytes>,
    /// Where to keep the unmounted image of each cell.
    pub save_image: Option<PathBuf>,
    /// Whether to check the image and every file's content after each cell.
    pub check: bool,
    /// Set to end early: running cells finish, no other begins.
    pub interrupt: Arc<AtomicBool>,
}

/// Runs plans, and remembers what has run.
pub struct Runner<'p> {
    settings: Settings,
    progress: &'p dyn Progress,
    known: BTreeMap<String, Sample>,
}

/// A cell and repeat that must run, and what it is called.
struct Task {
    spec: CellSpec,
    repeat: u32,
    key: String,
}

/// What workers share.
struct Queue {
    waiting: Vec<Task>,
    used: Bytes,
    running: usize,
    done: BTreeMap<String, Sample>,
    failed: Option<Error>,
}

impl<'p> Runner<'p> {
    /// A runner that tells `progress`.
    pub fn new(settings: Settings, progress: &'p dyn Progress) -> Self {
        Self { settings, progress, known: BTreeMap::new() }
    }

    /// Runs a plan. An interrupt gives the samples so far, marked partial.
    pub fn run(&mut self, plan: &Plan) -> Result<ResultFile, Error> {
        let cells = plan.cells()?;
        let machine = machine(plan)?;
        let mut file = empty_file(plan, &machine);
        let tasks = self.tasks(plan, &cells, &machine);
        admit(&tasks)?;
        self.progress.begins(plan, tasks.len());
        let order = task_order(&tasks);
        let done = match plan.clock {
            Clock::Virtual => self.side_by_side(plan, &machine, tasks)?,
            Clock::Real => self.one_by_one(plan, &machine, tasks)?,
        };
        if plan.clock == Clock::Virtual {
            self.known.extend(done.clone());
        }
        file.samples = match plan.clock {
            Clock::Virtual => {
                samples(plan, &cells, &machine, |key| self.known.get(key).or_else(|| done.get(key)))
            }
            Clock::Real => order.iter().filter_map(|key| done.get(key).cloned()).collect(),
        };
        file.partial = self.interrupted();
        file.hypotheses = plan.expect.iter().map(|hypothesis| hypothesis.judge(&file.samples)).collect();
        Ok(file)
    }

    /// Whether it was asked to end early.
    pub fn interrupted(&self) -> bool {
        self.settings.interrupt.load(Relaxed)
    }

    /// Everything that must run, each once, in the order in which it should begin.
    fn tasks(&self, plan: &Plan, cells: &[CellSpec], machine: &Machine) -> Vec<Task> {
        let mut tasks: Vec<Task> = Vec::new();
        for (repeat, spec) in in_order(plan, cells) {
            let key = key(plan, spec, repeat, machine);
            let repeated = tasks.iter().any(|task| task.key == key) || self.known.contains_key(&key);
            if plan.clock == Clock::Real || !repeated {
                tasks.push(Task { spec: spec.clone(), repeat, key });
            }
        }
        tasks
    }

    fn limit(&self) -> Bytes {
        self.settings.memory.unwrap_or(Bytes(environment::memory_bytes() / 4 * 3))
    }

    fn one_by_one(
        &self,
        plan: &Plan,
        machine: &Machine,
        tasks: Vec<Task>,
    ) -> Result<BTreeMap<String, Sample>, Error> {
        let mut done = BTreeMap::new();
        for task in tasks {
            if self.interrupted() {
                break;
            }
            done.insert(task.key.clone(), self.run_task(plan, machine, &task)?);
        }
        Ok(done)
    }

    fn side_by_side(
        &self,
        plan: &Plan,
        machine: &Machine,
        tasks: Vec<Task>,
    ) -> Result<BTreeMap<String, Sample>, Error> {
        let jobs = if self.settings.jobs == 0 { environment::cores() } else { self.settings.jobs };
        let jobs = jobs.min(tasks.len());
        let queue = Queue { waiting: tasks, used: Bytes(0), running: 0, done: BTreeMap::new(), failed: None };
        let shared = (Mutex::new(queue), Condvar::new());
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| self.worker(plan, machine, &shared));
            }
        });
        let queue = shared.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        queue.failed.map_or(Ok(queue.done), Err)
    }

    /// Takes tasks that fit into memory until there are none.
    fn worker(&self, plan: &Plan, machine: &Machine, shared: &(Mutex<Queue>, Condvar)) {
        while let Some((task, memory)) = self.next(shared) {
            let outcome = self.run_task(plan, machine, &task);
            let mut queue = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
            queue.used = Bytes(queue.used.0 - memory.0);
            queue.running -= 1;
            match outcome {
                Ok(sample) => drop(queue.done.insert(task.key, sample)),
                Err(error) => queue.failed = queue.failed.take().or(Some(error)),
            }
            shared.1.notify_all();
        }
    }

    /// The next task, once memory allows it; `None` when there is nothing left to begin.
    fn next(&self, shared: &(Mutex<Queue>, Condvar)) -> Option<(Task, Bytes)> {
        let mut queue = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if queue.failed.is_some() || self.interrupted() || queue.waiting.is_empty() {
                return None;
            }
            let room = Bytes(self.limit().0.saturating_sub(queue.used.0));
            let fits = |task: &Task| cell::memory(&task.spec).is_ok_and(|needed| needed <= room);
            // One that is larger than the limit runs alone: the host has been found large enough.
            let next = queue.waiting.iter().position(fits).or_else(|| (queue.running == 0).then_some(0));
            if let Some(at) = next {
                let task = queue.waiting.remove(at);
                let memory = cell::memory(&task.spec).unwrap_or(room);
                queue.used = queue.used + memory;
                queue.running += 1;
                return Some((task, memory));
            }
            queue = shared.1.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run_task(&self, plan: &Plan, machine: &Machine, task: &Task) -> Result<Sample, Error> {
        let title = task.spec.title();
        self.progress.started(&title);
        let run = Run {
            clock: plan.clock,
            machine: machine.clone(),
            seed: seed(plan, task.repeat),
            repeat: task.repeat,
            save_image: self.settings.save_image.clone(),
            check: self.settings.check,
            interrupt: Arc::clone(&self.settings.interrupt),
        };
        let sample = cell::run(&task.spec, &run)?;
        self.progress.finished(&title, &sample);
        Ok(sample)
    }
}

impl std::fmt::Debug for Runner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// A result of the plan without samples yet.
fn empty_file(plan: &Plan, machine: &Machine) -> ResultFile {
    let mut file = ResultFile::new(&plan.name, plan.to_json(), plan.seed, cell::clock(plan.clock));
    file.why.clone_from(&plan.why);
    file.machine = if plan.clock == Clock::Virtual { machine.name.clone() } else { "host".to_owned() };
    file.environment = environment::capture();
    file
}

/// Refuses cells that cannot have the memory that they declare.
fn admit(tasks: &[Task]) -> Result<(), Error> {
    let available = Bytes(environment::available_bytes());
    for task in tasks {
        let needed = cell::memory(&task.spec)?;
        if needed > available && available > Bytes(0) {
            let title = task.spec.title();
            return Err(Error::Host(format!(
                "{title} needs {needed} of memory and this host has {available} free; \
                 take --quick, fewer or smaller files (-D nfiles=…), or a smaller --region"
            )));
        }
    }
    Ok(())
}

/// The machine that prices CPU work. The real clock takes its shape only.
fn machine(plan: &Plan) -> Result<Machine, Error> {
    match plan.clock {
        Clock::Virtual => Ok(MachinePreset::load(&plan.machine)?.machine),
        Clock::Real => {
            let cores = environment::cores() as u16;
            Ok(Machine { name: "host".to_owned(), sockets: 1, cores_per_socket: cores, ..Machine::unit() })
        }
    }
}

/// The same for all cells of a repeat, so that designs meet the same files and the same dice.
fn seed(plan: &Plan, repeat: u32) -> Seed {
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

/// Everything that decides a sample.
fn key(plan: &Plan, spec: &CellSpec, repeat: u32, machine: &Machine) -> String {
    let place = if plan.clock == Clock::Real { format!("{:?}", spec.axes) } else { String::new() };
    format!("{} | {} | {} | {repeat} | {place}", spec.settings(), machine.name, plan.seed)
}

fn task_order(tasks: &[Task]) -> Vec<String> {
    tasks.iter().map(|task| task.key.clone()).collect()
}

/// The samples of all cells in the order of the plan, whichever cell ran for them.
fn samples<'a>(
    plan: &Plan,
    cells: &[CellSpec],
    machine: &Machine,
    find: impl Fn(&str) -> Option<&'a Sample>,
) -> Vec<Sample> {
    let pairs = cells.iter().flat_map(|cell| (0..plan.repeats).map(move |repeat| (cell, repeat)));
    let found = pairs.filter_map(|(cell, repeat)| {
        let sample = find(&key(plan, cell, repeat, machine))?;
        Some(Sample { axes: cell.axes.clone(), ..sample.clone() })
    });
    found.collect()
}
