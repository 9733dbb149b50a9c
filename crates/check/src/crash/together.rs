//! Two operations at once, each in a task of its own: records them under several schedules and crashes them everywhere.
//!
//! A crash may leave what a sequential order of the operations leaves. An operation that has returned takes effect, one that has
//! not begun does not, and one under way takes effect completely, in part as the clauses allow, or not at all. An order counts if
//! both operations answer in it as they did in the run.
//!
//! | first | second | a crash may leave, for each order that counts |
//! |---|---|---|
//! | under way | not begun | the first under way |
//! | returned | not begun | the first |
//! | under way | under way | the earlier under way; the earlier, and the later under way |
//! | returned | under way | the first, and the second under way; both, where the second comes first |
//! | returned | returned | both |
//!
//! Recovery may read here what is not guaranteed (lint L8): a crash comes between any two stores of the other task, and a line
//! that recovery reads only to find that it does not count may be half stored then. What recovery makes of it is judged.

use std::sync::{Arc, Mutex, PoisonError};

use media::event::{Event, Mark, Promise, Tap, TaskId};
use media::fault::Fault;
use media::recorder::Trace;
use sim::{Machine, Schedule, Seed, Setup, TaskSpec};
use vfs::Errno;

use super::allowed::Allowed;
use super::explore::{Explorer, Progress};
use super::programs::Program;
use super::record::{IDLE, States, agree, fill_free_blocks};
use super::{Effort, Subject, Tally};
use crate::configured::{self, timed, try_virtually};
use crate::model::Model;
use crate::op::{Op, Reply, Runner};
use crate::schedules::{Preempt, resolved};

/// Schedules of a pair: random ones, and one with few preemptions.
const SCHEDULES: [Schedule; 3] =
    [Schedule::Random, Schedule::Random, Schedule::Pct { depth: 3, length: 400 }];

/// What two tasks did.
struct Recorded {
    trace: Arc<Trace>,
    /// Before the operations.
    model: Model,
    /// The operations in the order in which they began, by their place in the program.
    began: Vec<usize>,
    /// The answers, by place.
    answers: Vec<Result<Reply, Errno>>,
}

/// Explores all crashes of a program whose two operations are carried out at once, in several orders; `faults` go wrong while
/// they run.
pub(super) fn explore_together(
    subject: &Subject,
    program: &Program,
    effort: &Effort,
    faults: &[Fault],
) -> Tally {
    let mut sum = Tally { programs: 1, ..Tally::default() };
    for (schedule, number) in SCHEDULES.iter().zip(0..) {
        let tally =
            match explore_one(subject, program, (effort, faults), (schedule, effort.plan.seed.0 + number)) {
                Ok(tally) => tally,
                Err(what) => Tally::failed(&program.name, format!("schedule {number}: {what}")),
            };
        sum.add(Tally { programs: 0, ..tally });
        if !sum.violations.is_empty() || sum.without_space > 0 {
            break;
        }
    }
    Tally { without_space: sum.without_space.min(1), ..sum }
}

fn explore_one(
    subject: &Subject,
    program: &Program,
    (effort, faults): (&Effort, &[Fault]),
    (schedule, seed): (&Schedule, u64),
) -> Result<Tally, String> {
    let setup = Setup::virtual_clock(Machine::unit(), Seed(seed));
    let (recorded, _) = {
        let (subject, program, faults) = (subject.clone(), program.clone(), faults.to_vec());
        sim::explore(&setup, schedule, move || timed(|| record(&subject, &program, &faults)))
    };
    let (recorded, recording) = recorded.map_err(|error| error.to_string())?;
    let Some(recorded) = recorded? else {
        return Ok(Tally { without_space: 1, cpu: recording, ..Tally::default() });
    };
    let (subject, program, effort) = (subject.clone(), program.clone(), *effort);
    let explored = try_virtually(seed, move || timed(|| visit(&subject, &program, &effort, recorded)))?;
    let (tally, exploring) = explored;
    Ok(Tally { cpu: recording + exploring, ..tally? })
}

/// All crashes of what was recorded.
fn visit(subject: &Subject, program: &Program, effort: &Effort, recorded: Recorded) -> Result<Tally, String> {
    let orders = orders(subject, program, &recorded)?;
    let mut explorer = Explorer::new(subject, &program.name, effort, &recorded.trace)?;
    explorer.lints_reads = false;
    let mut pair = Pair { orders, began: recorded.began, tasks: Vec::new(), ended: [false; 2] };
    explorer.visit_all(&mut pair);
    Ok(explorer.tally)
}

/// Runs the setup, then both operations at once. None: no space for them.
fn record(subject: &Subject, program: &Program, faults: &[Fault]) -> Result<Option<Recorded>, String> {
    let (design, region) = (&subject.design, configured::region(subject.size));
    design.mkfs(&region).map_err(|error| format!("mkfs: {error}"))?;
    let fs = design.mount(&region).map_err(|error| format!("mount: {error}"))?;
    let mut runner = Runner::new(fs);
    fill_free_blocks(&*runner.fs)?;
    let mut model = Model::of(&*runner.fs, subject.promises)?;
    for op in &program.setup {
        let Some(_) = agree(&mut runner, &mut model, op).map_err(|what| format!("setup: {what}"))? else {
            return Ok(None);
        };
    }
    runner.fs.sync().map_err(|errno| format!("sync: {}", errno.name()))?;
    // A path is looked up before its operation is carried out; what it leads to stays the same between the two.
    for path in program.core.iter().flat_map(resolved).filter(|path| !path.is_empty()) {
        if runner.pin(path).is_ok() {
            model.pin(path).map_err(|errno| format!("{path}: {}", errno.name()))?;
        }
    }
    let trace = Trace::attach(&region).map_err(|error| error.to_string())?;
    for fault in faults {
        region.inject(*fault);
    }
    let preempt: Arc<dyn Tap> = Arc::new(Preempt);
    region.attach(Arc::clone(&preempt));
    let began = Arc::new(Mutex::new(Vec::new()));
    let promise = if subject.promises.buffers_data() { Promise::Nothing } else { Promise::All };
    let tasks = program.core.iter().cloned().enumerate().map(|(place, op)| {
        let (mut runner, region, began) = (runner.beside(), Arc::clone(&region), Arc::clone(&began));
        let spec = TaskSpec::named(format!("task {place}")).on_core(place as u16);
        sim::spawn(spec, move || {
            sim::interact();
            // Between these two no other task goes on.
            began.lock().unwrap_or_else(PoisonError::into_inner).push(place);
            region.mark(Mark::OpBegin(op.name()));
            let answer = runner.run(&op);
            region.mark(Mark::OpEnd(op.name(), promise));
            runner.close_opened();
            answer
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let answers: Vec<_> = tasks.into_iter().map(sim::JoinHandle::join).collect();
    region.detach(&preempt);
    if subject.promises.buffers_data() {
        sim::sleep(IDLE);
    }
    region.detach(&trace);
    if answers.contains(&Err(Errno::ENOSPC)) {
        return Ok(None);
    }
    let began = std::mem::take(&mut *began.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Some(Recorded { trace, model, began, answers }))
}

/// The operations one after the other.
struct Order {
    promises: vfs::Promises,
    /// By their places in the program.
    places: [usize; 2],
    ops: Vec<Op>,
    states: States,
}

/// The orders in which the operations answer as they did. There is at least one.
fn orders(subject: &Subject, program: &Program, recorded: &Recorded) -> Result<Vec<Order>, String> {
    let order = |places: [usize; 2]| {
        let mut model = recorded.model.clone();
        let mut states = States::new(subject.promises, &model);
        let ops: Vec<Op> = places.iter().map(|place| program.core[*place].clone()).collect();
        for (op, place) in ops.iter().zip(places) {
            let before = model.clone();
            let expected = model.run(op, None);
            if expected != recorded.answers[place] {
                return None;
            }
            states.push((op, expected.is_ok()), &before, &model);
        }
        Some(Order { promises: subject.promises, places, ops, states })
    };
    let orders: Vec<_> = [[0, 1], [1, 0]].into_iter().filter_map(order).collect();
    if orders.is_empty() {
        return Err(format!("the answers {:?} come in no order of the calls", recorded.answers));
    }
    Ok(orders)
}

/// How far both have come.
struct Pair {
    orders: Vec<Order>,
    /// The places in the order in which they begin.
    began: Vec<usize>,
    /// The tasks of those that have begun.
    tasks: Vec<TaskId>,
    /// By place.
    ended: [bool; 2],
}

impl Pair {
    /// Whether the operation at a place has begun.
    fn has_begun(&self, place: usize) -> bool {
        self.began[..self.tasks.len()].contains(&place)
    }
}

impl Progress for Pair {
    fn see(&mut self, task: TaskId, event: Event<'_>) {
        match event {
            Event::Mark(Mark::OpBegin(_)) => {
                // What has returned comes before what begins.
                if let Some(returned) = self.ended.iter().position(|ended| *ended) {
                    self.orders.retain(|order| order.places[0] == returned);
                }
                self.tasks.push(task);
            }
            Event::Mark(Mark::OpEnd(..)) => {
                if let Some(at) = self.tasks.iter().position(|known| *known == task) {
                    self.ended[self.began[at]] = true;
                }
            }
            _ => {}
        }
    }

    fn allowed(&self) -> Vec<Allowed<'_>> {
        let mut allowed = Vec::new();
        for order in &self.orders {
            let mut add = |done, inside| {
                let Order { promises, ops, states, .. } = order;
                allowed.push(Allowed { promises: *promises, ops, states, done, inside });
            };
            let [first, second] = order.places;
            let begun = [first, second].map(|place| self.has_begun(place));
            match (begun, [first, second].map(|place| self.ended[place])) {
                ([true, false], [true, _]) => add(1, false),
                ([true, false], [false, _]) => add(0, true),
                // What has returned before the other began comes before it: this order counts no more.
                ([false, true], [_, true]) => {}
                // The later one of this order has begun alone: it has done nothing yet, or the other order counts, too.
                ([false, false | true], _) => add(0, false),
                (_, [true | false, true]) => add(2, false),
                (_, [true, false]) => add(1, true),
                (_, [false, false]) => {
                    add(0, true);
                    add(1, true);
                }
            }
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use vfs::Promises;

    use super::*;

    #[test]
    fn what_has_returned_is_durable_also_before_the_other_begins() {
        let model = Model::new(0o755, (0, 0));
        let order = |places| Order {
            promises: Promises::STRICT,
            places,
            ops: Vec::new(),
            states: States::new(Promises::STRICT, &model),
        };
        let orders = vec![order([0, 1]), order([1, 0])];
        let mut pair = Pair { orders, began: vec![0, 1], tasks: Vec::new(), ended: [false; 2] };
        let moments =
            |pair: &Pair| -> Vec<_> { pair.allowed().iter().map(|one| (one.done, one.inside)).collect() };
        pair.see(7, Event::Mark(Mark::OpBegin("create")));
        assert_eq!(moments(&pair), [(0, true), (0, false)]);
        pair.see(7, Event::Mark(Mark::OpEnd("create", Promise::All)));
        assert_eq!(moments(&pair), [(1, false)], "the state before both is allowed no more");
        pair.see(8, Event::Mark(Mark::OpBegin("unlink")));
        assert_eq!(moments(&pair), [(1, true)]);
    }
}
