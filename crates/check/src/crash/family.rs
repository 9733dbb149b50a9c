//! Programs by number: single ones, sequences, and random ones.

use super::programs::{self, Program};
use crate::model::Model;
use crate::op::Op;

/// Many programs, each made when it is asked for.
#[derive(Clone, Debug)]
pub enum Family {
    /// All sequences of `depth` of these programs on one tree, including repeats of a program.
    Sequences {
        /// What the sequences are made of.
        programs: Vec<Program>,
        /// How long they are.
        depth: u32,
    },
    /// Every two of these programs at once, on one tree: those of one operation, each pair in one order.
    Together {
        /// What the pairs are made of.
        programs: Vec<Program>,
    },
    /// Random ones ([`programs::random`]).
    Random {
        /// Where they come from.
        seed: u64,
        /// How many.
        count: usize,
    },
}

impl Family {
    /// All programs, alone or in sequence; those that fill a log, or write much at once, only alone. From depth three on, only
    /// programs that change names are taken, because there are too many.
    pub fn of_depth(depth: u32) -> Self {
        let mut programs = if depth == 1 { programs::alone() } else { programs::all() };
        programs.retain(|program| depth < 3 || program.changes_names());
        Self::Sequences { programs, depth }
    }

    /// The programs that store by mappings, alone.
    pub fn mapped() -> Self {
        Self::Sequences { programs: programs::mapped(), depth: 1 }
    }

    /// Every two programs of one operation at once.
    pub fn together() -> Self {
        Self::Together { programs: programs::single() }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        match self {
            Self::Together { programs } => programs.len() * (programs.len() + 1) / 2,
            Self::Sequences { programs, depth } => programs.len().pow(*depth),
            Self::Random { count, .. } => *count,
        }
    }

    /// The name of one of them.
    pub fn name(&self, number: usize) -> String {
        match self {
            Self::Sequences { programs, depth } => {
                let names = parts(programs, *depth, number).map(|program| program.name.as_str());
                names.collect::<Vec<_>>().join("; ")
            }
            Self::Together { programs } => {
                let (first, second) = unordered(number);
                format!("{} | {}", programs[first].name, programs[second].name)
            }
            Self::Random { seed, .. } => programs::random_name(*seed, number),
        }
    }

    /// One of them.
    pub fn program(&self, number: usize) -> Program {
        match self {
            Self::Sequences { programs, depth } => {
                let mut parts = parts(programs, *depth, number);
                let first = parts.next().cloned().expect("a sequence has a first part");
                parts.fold(first, |before, next| pair(&before, next))
            }
            Self::Together { programs } => {
                let (first, second) = unordered(number);
                beside(&programs[first], &programs[second])
            }
            Self::Random { seed, .. } => programs::random(*seed, number),
        }
    }
}

/// The programs of sequence `number`: its digits, the first program's first.
fn parts(programs: &[Program], depth: u32, number: usize) -> impl Iterator<Item = &Program> {
    let base = programs.len();
    (0..depth).rev().map(move |place| &programs[number / base.pow(place) % base])
}

/// Pair `number` of the pairs (0, 0), (0, 1), (1, 1), (0, 2), …, each in one order.
fn unordered(number: usize) -> (usize, usize) {
    let mut second = 0;
    let mut number = number;
    while number > second {
        second += 1;
        number -= second;
    }
    (number, second)
}

/// Both programs at once, on a tree that has what both need, as far as possible.
fn beside(first: &Program, second: &Program) -> Program {
    let mut model = Model::new(0o755, (0, 0));
    let mut setup = first.setup.clone();
    apply(&mut model, &first.setup);
    setup.extend(possible(&mut model, &second.setup));
    let core = [&first.core[..], &second.core[..]].concat();
    Program { name: format!("{} | {}", first.name, second.name), setup, core, together: true }
}

/// The second program after the first, on one tree. The setup of both comes first. Where the first program removes what the
/// second needs, the setup of the second is repeated between them, and explored like the rest.
fn pair(first: &Program, second: &Program) -> Program {
    let mut model = Model::new(0o755, (0, 0));
    let mut setup = first.setup.clone();
    apply(&mut model, &first.setup);
    setup.extend(possible(&mut model, &second.setup));
    apply(&mut model, &first.core);
    let mut core = first.core.clone();
    if !succeeds_as_alone(&model, second) {
        core.extend(possible(&mut model, &second.setup));
    }
    core.extend(second.core.iter().cloned());
    Program::new(format!("{}; {}", first.name, second.name), setup, core)
}

fn apply(model: &mut Model, ops: &[Op]) -> Vec<bool> {
    ops.iter().map(|op| run(model, op)).collect()
}

/// Whether an operation succeeds. A remount closes what is open.
fn run(model: &mut Model, op: &Op) -> bool {
    if matches!(op, Op::Remount) {
        model.close_all();
    }
    model.run(op, None).is_ok()
}

/// Those operations that succeed, carried out.
fn possible(model: &mut Model, ops: &[Op]) -> Vec<Op> {
    ops.iter().filter(|op| run(model, op)).cloned().collect()
}

/// Whether the core of a program succeeds on this tree as it does alone.
fn succeeds_as_alone(model: &Model, program: &Program) -> bool {
    let mut alone = Model::new(0o755, (0, 0));
    apply(&mut alone, &program.setup);
    apply(&mut alone, &program.core) == apply(&mut model.clone(), &program.core)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_second_program_of_a_pair_has_what_it_needs() {
        let all = programs::all();
        let named = |name: &str| all.iter().find(|program| program.name == name).expect("a program");
        let pair = pair(named("rename foo bar"), named("write 100 over"));
        assert_eq!(pair.name, "rename foo bar; write 100 over");
        let kinds: Vec<_> = pair.core.iter().map(Op::name).collect();
        assert_eq!(kinds, ["rename", "create", "write", "write"]);
    }

    #[test]
    fn numbers_lead_to_every_pair_once() {
        let pairs: BTreeSet<_> = (0..10).map(unordered).collect();
        let all = (0..4).flat_map(|second| (0..=second).map(move |first| (first, second))).collect();
        assert_eq!(pairs, all);
    }

    #[test]
    fn numbers_lead_to_every_sequence() {
        let programs: Vec<_> = programs::all().into_iter().take(3).collect();
        let family = Family::Sequences { programs: programs.clone(), depth: 3 };
        assert_eq!(family.count(), 27);
        let names: BTreeSet<_> = (0..27).map(|number| family.name(number)).collect();
        assert_eq!(names.len(), 27);
        for number in [0, 5, 26] {
            assert_eq!(family.program(number).name, family.name(number));
        }
        assert_eq!(family.name(5), [0, 1, 2].map(|part: usize| programs[part].name.clone()).join("; "));
    }

    #[test]
    fn sequences_of_three_change_only_names() {
        let family = Family::of_depth(3);
        assert!(family.count() > 100_000, "{}", family.count());
        let core = family.program(family.count() / 2).core;
        assert!(!core.iter().any(|op| matches!(op, Op::Truncate(..) | Op::Fallocate(..))), "{core:?}");
    }

    #[test]
    fn random_programs_are_the_same_each_time_and_of_several_lengths() {
        let family = Family::Random { seed: 7, count: 50 };
        let lengths: BTreeSet<_> = (0..50).map(|number| family.program(number).core.len()).collect();
        assert_eq!(lengths, BTreeSet::from([1, 2, 3, 4, 5]));
        assert_eq!(format!("{:?}", family.program(3)), format!("{:?}", family.program(3)));
    }
}
