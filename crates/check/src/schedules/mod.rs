//! Concurrency: short programs of several tasks under schedules of every kind, and what may come of them.
//!
//! | module | holds |
//! |---|---|
//! | `scenario` | [`Scenario`]: what tasks do to a small tree, by name; [`pairs`] of actions, random ones |
//! | `execute` | one schedule of one scenario, and what must hold afterwards |
//! | `history` | the search for an order of the calls that explains what was seen |
//! | `shrink` | a failure with fewer operations and fewer switches |
//!
//! # What is promised, and checked
//!
//! The designs hold the lock of an inode (PMFS: `pmfs.inode`, shared for reads; HiNFS on top of it) through every call that reads
//! or changes its contents or attributes, and the locks of all directories and inodes of a call on names. So every call is
//! atomic, a read of several blocks and a listing of a directory included: more than POSIX asks for. What is checked is just
//! that: *linearizability* of the whole history, with the answers of every call, its errors and data among them, and with the tree
//! that is there in the end. Of a call by path, only the call itself is one step: paths are looked up and held open before the
//! tasks begin ([`crate::Runner::pin`]), as a program with open descriptors has it.
//!
//! After that nothing is open, the design unmounts, fsck is content (it compares the map of free blocks with what is reachable),
//! the next mount shows the same tree and as many free blocks and inodes. On the way nobody may panic or wait for ever: the
//! scheduler finds deadlocks and lost wake-ups, and names tasks and locks.
//!
//! # Why the virtual clock chooses
//!
//! Every wait of a design goes through `sim::sync`, and the virtual clock decides who goes on already. Letting it decide otherwise
//! ([`sim::explore`]) runs the code as it is, locks, background tasks and media included. A library that explores threads, such as
//! `shuttle`, has locks and threads of its own: what it would run were a copy of the design, with another's locks.
//!
//! # What is not seen
//!
//! Two loads of words in a row, without a lock, a store or any charge of time between them, are never divided; nor is one copy of
//! bytes to or from the medium. All of this is one host thread: orders that only the memory model of real processors allows do
//! not come up. No schedule is crashed here.

mod execute;
mod history;
mod scenario;
mod shrink;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use sim::{Bytes, Schedule, Switch};

use crate::design::Design;
use crate::limits::Limits;
use crate::op::Op;
pub(crate) use execute::Preempt;
use execute::{Ground, execute};
pub use scenario::{Scenario, draw, pairs};
use shrink::Shrinking;

/// What the region has beside what the format needs.
const SPARE: Bytes = Bytes::kib(128);
/// Failures that are made short; more of them say little more.
const SHRUNK_MAX: usize = 10;
/// More switches of a failure are counted, and not told.
const SWITCHES_TOLD: usize = 40;
/// A scenario is given so many schedules in a row, then the next one has its turn.
pub const BATCH: u64 = 8;

/// How much to try.
#[derive(Clone, Debug)]
pub struct Effort {
    /// The first schedule of every scenario has this seed, the next ones those that follow.
    pub seed: u64,
    /// Schedules of each scenario, at most.
    pub schedules: u64,
    /// How far.
    pub limits: Limits,
}

/// What became of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Its name.
    pub scenario: String,
    /// Schedules tried.
    pub schedules: u64,
    /// Interleavings among them that differ.
    pub interleavings: u64,
    /// Outcomes that differ: answers and tree.
    pub outcomes: u64,
    /// Decisions of the run without a preemption, doubled: the `length` of its schedules.
    pub length: u64,
    /// What was wrong in the first schedule that failed.
    pub failure: Option<Failure>,
}

/// A schedule that did not end well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its seed: the scenario fails again with it.
    pub seed: u64,
    /// What was wrong.
    pub what: String,
    /// Operations of each task that still fail, on the same tree; of the first failures, as few as were found.
    pub program: Vec<Vec<Op>>,
    /// Switches that make them fail.
    pub switches: Vec<Switch>,
    /// What is wrong then.
    pub program_what: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "seed {}: {}", self.seed, self.what)?;
        writeln!(f, "fewer operations that fail:")?;
        for (task, ops) in self.program.iter().enumerate() {
            ops.iter().try_for_each(|op| writeln!(f, "  task {task}: {op:?}"))?;
        }
        let told = self.switches.iter().take(SWITCHES_TOLD);
        let told: Vec<_> = told.map(|switch| format!("to {} at point {}", switch.to, switch.point)).collect();
        let more = if self.switches.len() > told.len() { " …" } else { "" };
        writeln!(f, "with {} switches of tasks: {}{more}", self.switches.len(), told.join(", "))?;
        write!(f, "  -> {}", self.program_what)
    }
}

/// The schedule of a seed: half of them random, a quarter each with one and with two preemptions by priority.
fn schedule_of(seed: u64, length: u64) -> Schedule {
    match seed % 4 {
        0 | 1 => Schedule::Random,
        2 => Schedule::Pct { depth: 2, length },
        _ => Schedule::Pct { depth: 3, length },
    }
}

/// A scenario while it is being explored.
struct Exploring<'a> {
    scenario: &'a Scenario,
    next: u64,
    interleavings: BTreeSet<u64>,
    outcomes: BTreeSet<u64>,
    tally: Tally,
}

/// A design with the trees that scenarios start from, which are made when they are needed.
struct Grounds {
    design: Arc<dyn Design>,
    /// The usual one and the full one.
    made: [OnceLock<Result<Arc<Ground>, String>>; 2],
    /// Failures that have been made short.
    shrunk: AtomicUsize,
}

impl Grounds {
    fn get(&self, full: bool) -> Result<&Arc<Ground>, String> {
        let size = Bytes((self.design.min_size().0 + SPARE.0).next_multiple_of(4096));
        let made = self.made[usize::from(full)].get_or_init(|| Ground::new(&self.design, size, full));
        made.as_ref().map_err(Clone::clone)
    }
}

impl Exploring<'_> {
    /// A few schedules more. False when there is nothing left to do.
    fn go_on(&mut self, grounds: &Grounds, effort: &Effort) -> bool {
        let ground = match grounds.get(self.scenario.full) {
            Ok(ground) => ground,
            Err(what) => {
                self.fail(effort.seed, what);
                return false;
            }
        };
        if self.tally.length == 0 {
            let alone = Schedule::Directed(Vec::new());
            self.tally.length =
                1 + 2 * execute(&grounds.design, ground, self.scenario, (&alone, 0)).1.decisions;
        }
        let end = (self.next + BATCH).min(effort.schedules);
        while self.next < end && !effort.limits.are_reached() {
            let seed = effort.seed.wrapping_add(self.next);
            self.next += 1;
            let schedule = schedule_of(seed, self.tally.length);
            let (ran, interleaving) = execute(&grounds.design, ground, self.scenario, (&schedule, seed));
            self.tally.schedules += 1;
            self.interleavings.insert(interleaving.fingerprint);
            match ran {
                Ok(outcome) => {
                    self.outcomes.insert(outcome);
                }
                Err(what) => {
                    self.fail(seed, what);
                    let mut shrinking = Shrinking::new(&grounds.design, ground, self.tally.length);
                    if let Some(failure) = &mut self.tally.failure
                        && grounds.shrunk.fetch_add(1, Relaxed) < SHRUNK_MAX
                    {
                        shrinking.shrink(self.scenario, failure, interleaving.switches);
                    }
                    return false;
                }
            }
        }
        self.next < effort.schedules
    }

    fn fail(&mut self, seed: u64, what: String) {
        let program = self.scenario.tasks.clone();
        let failure = Failure { seed, program_what: what.clone(), what, program, switches: Vec::new() };
        self.tally.failure = Some(failure);
    }

    fn into_tally(self) -> Tally {
        let (interleavings, outcomes) = (self.interleavings.len() as u64, self.outcomes.len() as u64);
        Tally { scenario: self.scenario.name.clone(), interleavings, outcomes, ..self.tally }
    }
}

/// Explores scenarios side by side, a few schedules of each in turn, until each has had all of its schedules or has failed, or
/// the time is over. The tallies are in the order of the scenarios; which schedules fail does not depend on the threads.
/// `batch` is told after each turn.
pub fn explore(
    design: &Arc<dyn Design>,
    scenarios: &[Scenario],
    effort: &Effort,
    batch: &(dyn Fn() + Sync),
) -> Vec<Tally> {
    let grounds = Grounds {
        design: Arc::clone(design),
        made: [OnceLock::new(), OnceLock::new()],
        shrunk: AtomicUsize::new(0),
    };
    let exploring: Vec<_> =
        scenarios.iter().map(|scenario| Mutex::new(Some(Exploring::new(scenario)))).collect();
    let ended: Vec<OnceLock<Tally>> = scenarios.iter().map(|_| OnceLock::new()).collect();
    let (next, left) = (AtomicUsize::new(0), AtomicUsize::new(scenarios.len()));
    effort.limits.on_threads(|| {
        while left.load(Relaxed) > 0 && !effort.limits.are_reached() {
            let at = next.fetch_add(1, Relaxed) % exploring.len();
            let mut one = exploring[at].lock().unwrap_or_else(PoisonError::into_inner);
            if one.as_mut().is_some_and(|one| !one.go_on(&grounds, effort)) {
                left.fetch_sub(1, Relaxed);
                let _ = ended[at].set(one.take().expect("it was there").into_tally());
            }
            drop(one);
            batch();
        }
    });
    let rest = exploring.into_iter().map(|one| one.into_inner().unwrap_or_else(PoisonError::into_inner));
    let tallies = rest
        .zip(ended)
        .map(|(one, ended)| one.map_or_else(|| ended.into_inner(), |one| Some(one.into_tally())));
    tallies.flatten().collect()
}

impl<'a> Exploring<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let (interleavings, outcomes, tally) = Default::default();
        Self { scenario, next: 0, interleavings, outcomes, tally }
    }
}
