//! Concurrency: runs short programs of several tasks under many schedules and judges the outcomes.
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
//! atomic, including a read of several blocks and a listing of a directory. POSIX asks for less. The check is *linearizability*
//! of the whole history: of the answers of all calls, with their errors and data, and of the final tree. Of a call by path, only
//! the call itself is one step. The harness looks up paths and holds them open before the tasks begin ([`crate::Runner::pin`]),
//! like a program with open descriptors.
//!
//! Then everything is closed and the design unmounts. Fsck must find nothing (it compares the map of free blocks with what is
//! reachable), and the next mount must show the same tree and as many free blocks and inodes. No task may panic or wait for ever;
//! the scheduler finds deadlocks and lost wake-ups, and names the tasks and locks.
//!
//! # Why the virtual clock chooses
//!
//! Every wait of a design goes through `sim::sync`, where the virtual clock chooses the next task. [`sim::explore`] makes it
//! choose differently, and so runs the unchanged code, with its locks, background tasks and media. A library such as `shuttle`
//! has its own locks and threads; it could only run a copy of the design that uses them.
//!
//! # What is not seen
//!
//! No switch happens between two accesses of words without a lock, a store or a charge of time between them, unless the words
//! are atomics of [`sim::sync`], nor inside one copy of bytes to or from the medium. All tasks share one host thread, so
//! reorderings by the memory model of real processors do not occur. This check does not crash the schedules.

mod execute;
mod history;
mod scenario;
mod shrink;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use sim::{Bytes, Schedule, Switch};

use crate::configured::Configured;
use crate::limits::Limits;
use crate::op::Op;
pub(crate) use execute::Preempt;
use execute::{Ground, execute};
use scenario::Start;
pub(crate) use scenario::resolved;
pub use scenario::{Scenario, draw, pairs};
use shrink::Shrinking;

/// What the region has beside what the format needs.
const SPARE: Bytes = Bytes::kib(128);
/// How many failures are shortened; further ones rarely differ.
const SHRUNK_MAX: usize = 10;
/// A failure report lists at most this many switches and counts the rest.
const SWITCHES_TOLD: usize = 40;
/// Schedules that one scenario runs before the next scenario has its turn.
pub const BATCH: u64 = 8;

/// How much to try.
#[derive(Clone, Debug)]
pub struct Effort {
    /// The schedule 0 of every scenario has this seed, the next ones those that follow.
    pub seed: u64,
    /// Schedules of each scenario, by number.
    pub schedules: Range<u64>,
    /// How far.
    pub limits: Limits,
}

/// The result of a scenario.
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

/// A schedule that failed.
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
    design: Arc<Configured>,
    /// One for each [`Start`].
    made: [OnceLock<Result<Arc<Ground>, String>>; 3],
    /// Failures that have been shortened.
    shrunk: AtomicUsize,
}

impl Grounds {
    fn get(&self, start: Start) -> Result<&Arc<Ground>, String> {
        let size = Bytes((self.design.min_size().0 + SPARE.0).next_multiple_of(4096));
        let made = self.made[start as usize].get_or_init(|| Ground::new(&self.design, size, start));
        made.as_ref().map_err(Clone::clone)
    }
}

impl Exploring<'_> {
    /// Runs a few more schedules. False when all have been run.
    fn go_on(&mut self, grounds: &Grounds, effort: &Effort) -> bool {
        let ground = match grounds.get(self.scenario.start) {
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
        let end = (self.next + BATCH).min(effort.schedules.end);
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
        self.next < effort.schedules.end
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
/// `batch` is called after each turn.
pub fn explore(
    design: &Arc<Configured>,
    scenarios: &[Scenario],
    effort: &Effort,
    batch: &(dyn Fn() + Sync),
) -> Vec<Tally> {
    let grounds = Grounds {
        design: Arc::clone(design),
        made: [const { OnceLock::new() }; 3],
        shrunk: AtomicUsize::new(0),
    };
    let fresh = |scenario| Mutex::new(Some(Exploring::new(scenario, effort.schedules.start)));
    let exploring: Vec<_> = scenarios.iter().map(fresh).collect();
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
    fn new(scenario: &'a Scenario, first: u64) -> Self {
        let (interleavings, outcomes, tally) = Default::default();
        Self { scenario, next: first, interleavings, outcomes, tally }
    }
}
