//! Recall: seeds known bugs and reports which of them the checks find.
//!
//! Two ways to seed one:
//!
//! * A design with a bug in it ([`Seeded`]): [`find`] tries programs from the shortest on, each with every check that may see the
//!   bug, until one does.
//! * A flush or a fence that is left out ([`forgotten`], [`forgotten_in_recovery`]): each one of each program in turn, by the line
//!   of the source that asks for it. If the medium is in the same state at every fence without it, it is *equivalent*: the lints
//!   report it as redundant, and no check is expected to find it.
//!
//! | check | sees |
//! |---|---|
//! | `model` | other answers or another tree than the model, without any crash |
//! | `lints` | what was not flushed or fenced at a return, or committed too early |
//! | `crash` | a crash that leaves what is not allowed |
//! | `fsck` | a broken invariant, after a crash or without one |
//! | `faults` | a failure that was not undone |
//! | `schedules` | a call that is not atomic, or loses something, in some order of several tasks |

mod forgotten;

use std::time::{Duration, Instant};

pub use forgotten::{Counts, Forgotten, LeaveOut, Line, Unnoticed, forgotten, forgotten_in_recovery};

use crate::configured::try_virtually;
use crate::crash::{Effort, Program, Subject, explore, lints};
use crate::faults::fail_operations;
use crate::limits::Limits;
use crate::lockstep;
use crate::op::Op;
use crate::schedules::{self, Scenario};

/// Schedules of each scenario in which a race is looked for.
const SCHEDULES_MAX: u64 = 4_000;

/// A design in which there is a bug.
#[derive(Clone, Debug)]
pub struct Seeded {
    /// The name of the bug.
    pub name: String,
    /// The class of bugs that it stands for.
    pub class: String,
    /// The design, mounted in each way in which the bug may show.
    pub subjects: Vec<Subject>,
    /// It shows only when the medium fails.
    pub needs_failure: bool,
    /// Names of the programs that are tried first; the others follow.
    pub programs: &'static [&'static str],
    /// Names of the scenarios that alone show it: a race of several tasks.
    pub scenarios: &'static [&'static str],
}

/// How a bug was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The design, with its options.
    pub subject: String,
    /// The checks that see it with this program.
    pub checks: Vec<&'static str>,
    /// The shortest program.
    pub program: String,
    /// How many operations it explores, and how many make them possible.
    pub ops: (usize, usize),
    /// How many crash images showed it, of how many.
    pub images: (usize, usize),
    /// What was wrong, in the words of the first check.
    pub what: String,
    /// Time until it was found.
    pub took: Duration,
}

/// Looks for a bug with programs: those that it names, then the others, from the shortest on. None: no check sees it.
pub fn find(seeded: &Seeded, programs: &[Program], seed: u64) -> Option<Found> {
    let began = Instant::now();
    if !seeded.scenarios.is_empty() {
        return find_race(seeded, seed);
    }
    let mut programs: Vec<&Program> = programs.iter().collect();
    let is_named = |program: &Program| seeded.programs.contains(&program.name.as_str());
    programs.sort_by_key(|program| (!is_named(program), program.core.len(), program.setup.len()));
    for program in programs {
        for subject in &seeded.subjects {
            let sight = if seeded.needs_failure {
                look_at_failures(subject, program, seed)
            } else {
                look(subject, program, seed)
            };
            if let Some(what) = sight.what {
                return Some(Found {
                    subject: format!("{} {}", subject.design.name(), subject.design.arguments()),
                    checks: sight.checks,
                    program: program.name.clone(),
                    ops: (program.core.len(), program.setup.len()),
                    images: sight.images,
                    what,
                    took: began.elapsed(),
                });
            }
        }
    }
    None
}

/// Looks for a race in many orders of the tasks of its scenarios.
fn find_race(seeded: &Seeded, seed: u64) -> Option<Found> {
    let began = Instant::now();
    let scenarios: Vec<Scenario> =
        seeded.scenarios.iter().filter_map(|name| Scenario::named(name).ok()).collect();
    let effort = schedules::Effort { seed, schedules: 0..SCHEDULES_MAX, limits: Limits::of(1) };
    seeded.subjects.iter().find_map(|subject| {
        let tallies = schedules::explore(&subject.design, &scenarios, &effort, &|| ());
        let failed = |tally: schedules::Tally| Some((tally.scenario, tally.failure?));
        let (program, failure) = tallies.into_iter().find_map(failed)?;
        Some(Found {
            subject: format!("{} {}", subject.design.name(), subject.design.arguments()),
            checks: vec!["schedules"],
            program,
            ops: (failure.program.iter().map(Vec::len).sum(), 0),
            images: (0, 0),
            what: failure.what,
            took: began.elapsed(),
        })
    })
}

/// Looks for several bugs, within limits; `done` is called for each.
pub fn find_all(
    seeded: &[Seeded],
    programs: &[Program],
    (seed, limits): (u64, &Limits),
    done: &(dyn Fn() + Sync),
) -> Vec<Option<Found>> {
    let one = |number: usize| {
        let found = find(&seeded[number], programs, seed);
        done();
        found
    };
    limits.side_by_side(seeded.len(), &one)
}

/// What the checks see of one program.
#[derive(Default)]
struct Sight {
    checks: Vec<&'static str>,
    images: (usize, usize),
    what: Option<String>,
}

impl Sight {
    fn add(&mut self, check: &'static str, what: String) {
        let check = if what.contains("fsck: ") { "fsck" } else { check };
        if !self.checks.contains(&check) {
            self.checks.push(check);
        }
        self.what.get_or_insert(what);
    }
}

/// The checks that let nothing fail.
fn look(subject: &Subject, program: &Program, seed: u64) -> Sight {
    let mut sight = Sight::default();
    let ops: Vec<Op> = program.setup.iter().chain(&program.core).cloned().collect();
    if let Err(found) = lockstep::run(&subject.design, subject.size, seed, &ops, None) {
        sight.add("model", found.what);
    }
    let (owned, of) = (subject.clone(), program.clone());
    match try_virtually(seed, move || lints(&owned, &of, &[])) {
        Ok(found) => found.into_iter().for_each(|what| sight.add("lints", what)),
        Err(what) => sight.add("lints", what),
    }
    let (owned, of) = (subject.clone(), program.clone());
    let effort = Effort { violations_max: usize::MAX, ..Effort::usual(seed, 0) };
    match try_virtually(seed, move || explore(&owned, &of, &effort, &[])) {
        Ok(tally) => {
            sight.images = (tally.violations.len(), tally.distinct_images);
            tally.violations.into_iter().for_each(|violation| sight.add("crash", violation.what));
        }
        Err(what) => sight.add("crash", what),
    }
    sight
}

fn look_at_failures(subject: &Subject, program: &Program, seed: u64) -> Sight {
    let mut sight = Sight::default();
    for violation in fail_operations(subject, program, seed).violations {
        sight.add("faults", violation.what);
    }
    sight
}
