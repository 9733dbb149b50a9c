//! Programs in parallel.

use media::fault::Fault;

use super::explore::explore;
use super::programs::Program;
use super::together::explore_together;
use super::{Effort, Subject, Tally};
use crate::configured::try_virtually;
use crate::limits::Limits;

/// Limits of the exploration, and a callback for its progress.
pub struct Watch<'a> {
    /// How far.
    pub limits: Limits,
    /// Called for each program that was explored.
    pub explored: &'a (dyn Fn(&Tally) + Sync),
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Default for Watch<'_> {
    /// No limits and no callback.
    fn default() -> Self {
        Self { limits: Limits::default(), explored: &|_| () }
    }
}

/// Explores the programs with the numbers `0..count`, each in a virtual run of its own; `seed` is that of the runs. Violations
/// are in the order of the programs, with any number of threads.
pub fn explore_many(
    subject: &Subject,
    (count, program): (usize, &(dyn Fn(usize) -> Program + Sync)),
    (effort, faults): (&Effort, &[Fault]),
    watch: &Watch<'_>,
) -> Tally {
    let one = |number: usize| {
        let tally = explore_one(subject, program(number), effort, faults);
        (watch.explored)(&tally);
        tally
    };
    let mut all = Tally::default();
    for mut tally in watch.limits.side_by_side(count, &one) {
        tally.violations.sort();
        all.add(tally);
    }
    all
}

/// One program in a run of its own. A run that panics or hangs is a violation.
fn explore_one(subject: &Subject, program: Program, effort: &Effort, faults: &[Fault]) -> Tally {
    if program.together {
        return explore_together(subject, &program, effort, faults);
    }
    let (name, subject, effort, faults) = (program.name.clone(), subject.clone(), *effort, faults.to_vec());
    let run = move || explore(&subject, &program, &effort, &faults);
    try_virtually(effort.plan.seed.0, run).unwrap_or_else(|what| Tally::failed(&name, what))
}
