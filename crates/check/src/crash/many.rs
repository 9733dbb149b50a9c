//! Programs side by side.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use media::fault::Fault;

use super::explore::explore;
use super::programs::Program;
use super::{Effort, Subject, Tally};
use crate::design::try_virtually;

/// How programs are explored: on how many threads, for how long, and who hears of it.
pub struct Watch<'a> {
    /// Threads of the host.
    pub jobs: usize,
    /// No program is begun after this time.
    pub end: Option<Instant>,
    /// Told of each program that was explored.
    pub explored: &'a (dyn Fn(&Tally) + Sync),
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("jobs", &self.jobs).field("end", &self.end).finish_non_exhaustive()
    }
}

impl Default for Watch<'_> {
    /// As many threads as there are cores, to the end, and nobody hears of it.
    fn default() -> Self {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        Self { jobs, end: None, explored: &|_| () }
    }
}

/// Does the work with the numbers `0..count` side by side, as `watch` says; what came of it, in the order of the numbers, whatever
/// the number of threads.
pub(crate) fn side_by_side<T: Send>(
    count: usize,
    watch: (usize, Option<Instant>),
    one: &(dyn Fn(usize) -> T + Sync),
) -> Vec<T> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let (jobs, end) = watch;
    let in_time = || end.is_none_or(|end| Instant::now() < end);
    let work = || {
        while let Some(number) = Some(next.fetch_add(1, Relaxed)).filter(|at| *at < count && in_time()) {
            let came = one(number);
            found.lock().expect("no thread panics with it").push((number, came));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(work);
        }
    });
    let mut found = found.into_inner().expect("no thread panicked");
    found.sort_by_key(|(number, _)| *number);
    found.into_iter().map(|(_, came)| came).collect()
}

/// Explores the programs with the numbers `0..count`, each in a virtual run of its own; `seed` is that of the runs. Violations
/// come in the order of the programs, whatever the number of threads.
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
    for mut tally in side_by_side(count, (watch.jobs, watch.end), &one) {
        tally.violations.sort();
        all.add(tally);
    }
    all
}

/// One program in a run of its own. A run that panics or hangs is a violation.
fn explore_one(subject: &Subject, program: Program, effort: &Effort, faults: &[Fault]) -> Tally {
    let (name, subject, effort, faults) = (program.name.clone(), subject.clone(), *effort, faults.to_vec());
    let run = move || explore(&subject, &program, &effort, &faults);
    try_virtually(effort.plan.seed.0, run).unwrap_or_else(|what| Tally::failed(&name, what))
}
