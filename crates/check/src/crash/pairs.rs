//! Two programs, one after the other.

use super::programs::Program;
use crate::model::Model;
use crate::op::Op;

/// The second program after the first, on one tree: what both need comes first; where the first has taken away what the second
/// needs, that is made anew between them, and crashed as everything else.
pub fn pair(first: &Program, second: &Program) -> Program {
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
    Program { name: name(first, second), setup, core }
}

/// The name of a pair.
pub fn name(first: &Program, second: &Program) -> String {
    format!("{}; {}", first.name, second.name)
}

/// All pairs of some programs, by number.
pub fn numbered(programs: &[Program], number: usize) -> Program {
    pair(&programs[number / programs.len()], &programs[number % programs.len()])
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

/// Whether the core of a program has the success on this tree that it has on its own.
fn succeeds_as_alone(model: &Model, program: &Program) -> bool {
    let mut alone = Model::new(0o755, (0, 0));
    apply(&mut alone, &program.setup);
    apply(&mut alone, &program.core) == apply(&mut model.clone(), &program.core)
}

#[cfg(test)]
mod tests {
    use super::super::programs;
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
    fn numbers_lead_to_every_pair() {
        let all: Vec<_> = programs::all().into_iter().take(3).collect();
        let names: std::collections::BTreeSet<_> = (0..9).map(|number| numbered(&all, number).name).collect();
        assert_eq!(names.len(), 9);
    }
}
