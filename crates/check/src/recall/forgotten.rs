//! Flushes and fences left out, one at a time.

use media::event::{BlockEvent, Event};
use media::fault::{Fault, Target};
use media::recorder::{Mode, Persistency, Point, Trace};

use crate::crash::record::record;
use crate::crash::{Effort, Program, Subject, explore, lints};
use crate::design::try_virtually;
use crate::limits::Limits;

/// What was found of the flushes or fences that were left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// All that were left out.
    pub total: usize,
    /// Found by a lint.
    pub by_lints: usize,
    /// Not by a lint, but by a crash.
    pub by_crash: usize,
    /// Without them the medium is in the same state.
    pub equivalent: usize,
    /// Neither found nor equivalent: program and number.
    pub survived: Vec<(String, u64)>,
}

impl Forgotten {
    /// Those that were found.
    pub fn killed(&self) -> usize {
        self.by_lints + self.by_crash
    }

    /// Both together.
    pub fn add(&mut self, other: Self) {
        self.total += other.total;
        self.by_lints += other.by_lints;
        self.by_crash += other.by_crash;
        self.equivalent += other.equivalent;
        self.survived.extend(other.survived);
    }
}

/// Leaves out each flush ([`Target::Flush`]) or fence ([`Target::Fence`]) of some programs in turn, within limits.
pub fn forgotten(
    subject: &Subject,
    programs: &[Program],
    target: Target,
    (seed, limits): (u64, &Limits),
) -> Forgotten {
    let one = |number: usize| of_program(subject, &programs[number], target, seed);
    let mut all = Forgotten::default();
    for found in limits.side_by_side(programs.len(), &one) {
        all.add(found);
    }
    all
}

fn of_program(subject: &Subject, program: &Program, target: Target, seed: u64) -> Forgotten {
    let (owned, of) = (subject.clone(), program.clone());
    let equivalent = try_virtually(seed, move || equivalents(&owned, &of, target)).unwrap_or_default();
    let mut found = Forgotten { total: equivalent.len(), ..Forgotten::default() };
    for (nth, equivalent) in (1..).zip(equivalent) {
        let fault = Fault::DropNth { target, nth };
        let (owned, of) = (subject.clone(), program.clone());
        match () {
            () if equivalent => found.equivalent += 1,
            () if try_virtually(seed, move || lints(&owned, &of, &[fault]))
                .is_ok_and(|lints| lints.is_empty()) =>
            {
                match crash_shows(subject, program, fault, seed) {
                    true => found.by_crash += 1,
                    false => found.survived.push((program.name.clone(), nth)),
                }
            }
            () => found.by_lints += 1,
        }
    }
    found
}

fn crash_shows(subject: &Subject, program: &Program, fault: Fault, seed: u64) -> bool {
    let (owned, of) = (subject.clone(), program.clone());
    let effort = Effort { violations_max: 1, ..Effort::usual(seed, 0) };
    let explored = try_virtually(seed, move || explore(&owned, &of, &effort, &[fault]));
    explored.map_or(true, |tally| !tally.violations.is_empty())
}

/// For each flush or fence of a program, whether the medium is in the same state without it.
fn equivalents(subject: &Subject, program: &Program, target: Target) -> Vec<bool> {
    let Ok(Some(recording)) = record(subject, program, &|_| ()) else { return Vec::new() };
    let trace = &recording.trace;
    (1..).map_while(|nth| is_equivalent(trace, target, nth)).collect()
}

/// Replays a trace with the nth flush or fence and without it. None: there are fewer.
fn is_equivalent(trace: &Trace, target: Target, nth: u64) -> Option<bool> {
    let mut with = trace.replay(Mode::Adr);
    let mut without = with.state().clone();
    let (mut count, mut same) = (0, true);
    while let Some(point) = with.next_point(|task, event| {
        let counts = matches!(
            (target, event),
            (Target::Flush, Event::Flush { .. } | Event::Block(BlockEvent::Flush { .. }))
                | (Target::Fence, Event::Fence)
        );
        count += u64::from(counts);
        if !(counts && count == nth) {
            without.apply(task, event);
        }
    }) {
        same &= point != Point::AfterFence || in_flight(with.state()) == in_flight(&without);
    }
    (count >= nth).then_some(same)
}

/// What a crash may leave or not: how many pieces of which line, and versions of which sector.
fn in_flight(state: &Persistency) -> Vec<(u64, usize)> {
    let lines = state.in_flight().map(|line| (line.offset, line.pieces));
    lines.chain(state.sectors_in_flight()).collect()
}
