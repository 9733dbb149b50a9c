//! Threads that wait for each other: block and wakeup, semaphores.
//!
//! Every instance of a waiting flowop has its own condition or semaphore. A `wakeup` or `sempost` reaches all
//! instances of the flowops that its target names, in all threads and processes.

use std::sync::Arc;

use crate::filebench::program::Operation;
use crate::filebench::run::control::Gate;
use crate::filebench::run::plan::{Plan, Step, StepKind, Task};
use crate::filebench::run::worker::{Flow, Halt, Worker};
use crate::filebench::vocabulary::Op;

/// A semaphore: what is posted, and the credit that blocking posts need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credit {
    posted: u64,
    high_water: u64,
}

/// What the instances of one step wait for.
pub(crate) enum StepGates {
    /// Nothing.
    None,
    /// How often each was woken.
    Blocks(Vec<Gate<u64>>),
    /// The semaphore of each.
    Semaphores(Vec<Gate<Credit>>),
}

impl StepGates {
    /// The gates of all steps, by their numbers.
    pub(crate) fn of(plan: &Plan) -> Vec<Self> {
        let mut gates: Vec<Self> = plan.steps.iter().map(|_| Self::None).collect();
        for thread in &plan.threads {
            fill(&thread.body, thread.total(), &mut gates);
        }
        gates
    }

    /// Makes all who wait look again.
    pub(crate) fn wake(&self) {
        match self {
            Self::None => {}
            Self::Blocks(gates) => gates.iter().for_each(Gate::wake),
            Self::Semaphores(gates) => gates.iter().for_each(Gate::wake),
        }
    }
}

fn fill(steps: &[Step], instances: usize, gates: &mut [StepGates]) {
    for step in steps {
        match &step.kind {
            StepKind::Composite(body) => fill(body, instances, gates),
            StepKind::Operation(task) => gates[task.id] = gates_of(&task.operation, instances),
        }
    }
}

fn gates_of(operation: &Operation, instances: usize) -> StepGates {
    let credit = Credit { posted: 0, high_water: operation.highwater };
    match operation.op {
        Op::Block => StepGates::Blocks((0..instances).map(|_| Gate::new(0)).collect()),
        Op::SemBlock => StepGates::Semaphores((0..instances).map(|_| Gate::new(credit)).collect()),
        _ => StepGates::None,
    }
}

/// Waits for a wakeup that comes after this call; earlier ones are lost.
pub(super) fn block(worker: &mut Worker, task: &Task) -> Flow {
    let run = Arc::clone(&worker.run);
    let StepGates::Blocks(gates) = &run.gates[task.id] else { return Ok(()) };
    let start = sim::now();
    let mut seen = None;
    let woken = gates[worker.instance].wait(&run.control, |times| {
        let before = *seen.get_or_insert(*times);
        (*times > before).then_some(())
    });
    woken.ok_or(Halt::Stop)?;
    worker.account(task, start, 0)
}

/// Wakes all who wait in the target; an operation for each of its instances.
pub(super) fn wakeup(worker: &mut Worker, task: &Task) -> Flow {
    let run = Arc::clone(&worker.run);
    for target in &task.targets {
        let StepGates::Blocks(gates) = &run.gates[*target] else { continue };
        for gate in gates {
            worker.timed(task, |_| {
                gate.update(|times| *times += 1);
                Ok(0)
            })?;
        }
    }
    Ok(())
}

/// Gives `value` to the credit of its own semaphore, then takes `value` of what was posted.
pub(super) fn sem_block(worker: &mut Worker, task: &Task) -> Flow {
    let run = Arc::clone(&worker.run);
    let StepGates::Semaphores(gates) = &run.gates[task.id] else { return Ok(()) };
    let value = task.operation.value.draw(&mut worker.rng);
    let start = sim::now();
    let gate = &gates[worker.instance];
    gate.update(|credit| credit.high_water += value);
    let taken = gate.wait(&run.control, |credit| {
        credit.posted = credit.posted.checked_sub(value)?;
        Some(())
    });
    taken.ok_or(Halt::Stop)?;
    worker.account(task, start, 0)
}

/// Posts `value` to every instance of the target; a blocking post first waits for as much credit there.
pub(super) fn sem_post(worker: &mut Worker, task: &Task) -> Flow {
    let run = Arc::clone(&worker.run);
    let value = task.operation.value.draw(&mut worker.rng);
    let start = sim::now();
    for target in &task.targets {
        let StepGates::Semaphores(gates) = &run.gates[*target] else { continue };
        for gate in gates {
            if task.operation.blocking {
                let paid = gate.wait(&run.control, |credit| {
                    credit.high_water = credit.high_water.checked_sub(value)?;
                    Some(())
                });
                paid.ok_or(Halt::Stop)?;
            }
            gate.update(|credit| credit.posted += value);
        }
    }
    worker.account(task, start, 0)
}
