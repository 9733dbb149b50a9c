//! A program laid out for running: steps numbered, targets resolved.

use crate::filebench::program::{Action, Amount, Flowop, Operation, Program, Thread};
use crate::filebench::vocabulary::{Class, Direction, Op};

/// All threads and steps of a program.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) threads: Vec<ThreadPlan>,
    /// What the statistics need to know of each step, by its number.
    pub(crate) steps: Vec<StepInfo>,
}

/// A kind of thread.
#[derive(Debug)]
pub(crate) struct ThreadPlan {
    pub(crate) process: usize,
    pub(crate) process_name: String,
    pub(crate) name: String,
    pub(crate) process_instances: u32,
    /// Instances in each process.
    pub(crate) instances: u32,
    /// I/O goes from and to a random place in so many bytes of the thread; 0: in a buffer of the flowop.
    pub(crate) memory: u64,
    pub(crate) body: Vec<Step>,
    /// Number of the first of its steps.
    pub(crate) first_step: usize,
    pub(crate) step_count: usize,
    /// Most writes that may be under way at once, by slot; 0 without asynchronous writes.
    pub(crate) aio_workers: usize,
}

/// A step of a loop.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) iterations: Amount,
    pub(crate) kind: StepKind,
}

/// What a step does.
#[derive(Debug)]
pub(crate) enum StepKind {
    Operation(Task),
    Composite(Vec<Step>),
}

/// An operation with its number.
#[derive(Debug)]
pub(crate) struct Task {
    /// Number of the step in the program.
    pub(crate) id: usize,
    pub(crate) operation: Operation,
    /// Numbers of the steps that it wakes or posts to.
    pub(crate) targets: Vec<usize>,
    /// Number, within the thread, of the step that it counts.
    pub(crate) counts: Option<usize>,
}

/// What the statistics need to know of a step.
#[derive(Debug)]
pub(crate) struct StepInfo {
    pub(crate) name: String,
    pub(crate) op: Op,
    pub(crate) class: Class,
    pub(crate) direction: Direction,
}

/// Threads of Linux's asynchronous I/O library work on at most so many files at once.
const AIO_WORKERS: usize = 20;

impl Plan {
    pub(crate) fn new(program: &Program) -> Self {
        let mut plan = Self { threads: Vec::new(), steps: Vec::new() };
        for (index, process) in program.processes.iter().enumerate() {
            for thread in &process.threads {
                let first_step = plan.steps.len();
                let body = plan.steps_of(&thread.flowops);
                plan.threads.push(ThreadPlan {
                    process: index,
                    process_name: process.name.clone(),
                    name: thread.name.clone(),
                    memory: thread.memsize,
                    process_instances: process.instances,
                    instances: thread.instances,
                    body,
                    first_step,
                    step_count: plan.steps.len() - first_step,
                    aio_workers: aio_workers(thread, program),
                });
            }
        }
        plan.resolve();
        plan
    }

    fn steps_of(&mut self, flowops: &[Flowop]) -> Vec<Step> {
        flowops.iter().map(|flowop| self.step(flowop)).collect()
    }

    fn step(&mut self, flowop: &Flowop) -> Step {
        let kind = match &flowop.action {
            Action::Composite(body) => StepKind::Composite(self.steps_of(body)),
            Action::Operation(operation) => {
                let (op, info) = (operation.op, operation.op.info());
                let id = self.steps.len();
                let (class, direction) = (info.class, info.direction);
                self.steps.push(StepInfo { name: flowop.name.clone(), op, class, direction });
                let operation = Operation::clone(operation);
                StepKind::Operation(Task { id, operation, targets: Vec::new(), counts: None })
            }
        };
        Step { name: flowop.name.clone(), iterations: flowop.iterations.clone(), kind }
    }

    /// Finds the steps that `target=` names.
    fn resolve(&mut self) {
        let steps = &self.steps;
        for thread in &mut self.threads {
            let own = thread.first_step..thread.first_step + thread.step_count;
            each_task(&mut thread.body, &mut |task| {
                let Some(target) = &task.operation.target else { return };
                let named = |id: &usize| steps[*id].name == *target;
                match task.operation.op {
                    Op::Wakeup | Op::SemPost => task.targets = (0..steps.len()).filter(named).collect(),
                    _ => task.counts = own.clone().find(named).map(|id| id - own.start),
                }
            });
        }
    }

    /// Whether any step is of a type for which `wanted` is true.
    pub(crate) fn has(&self, wanted: impl Fn(Op) -> bool) -> bool {
        self.steps.iter().any(|step| wanted(step.op))
    }
}

impl ThreadPlan {
    /// How many threads of this kind run.
    pub(crate) fn total(&self) -> usize {
        self.process_instances as usize * self.instances as usize
    }
}

fn each_task(steps: &mut [Step], visit: &mut impl FnMut(&mut Task)) {
    for step in steps {
        match &mut step.kind {
            StepKind::Operation(task) => visit(task),
            StepKind::Composite(body) => each_task(body, visit),
        }
    }
}

/// Requests for one slot are done in turn, those for different slots side by side.
fn aio_workers(thread: &Thread, program: &Program) -> usize {
    let mut slots: Vec<u8> = Vec::new();
    let mut most = 0;
    for (_, operation) in thread.operations() {
        if operation.op != Op::AioWrite {
            continue;
        }
        if operation.opennext {
            let files = operation.fileset.map_or(1.0, |index| program.filesets[index].entries.mean());
            most = most.max(files as usize);
        } else if !slots.contains(&operation.fd) {
            slots.push(operation.fd);
        }
    }
    (most + slots.len()).min(AIO_WORKERS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filebench::{Overrides, Personality};

    fn plan(name: &str) -> Plan {
        Plan::new(&Personality::find(name).unwrap().load(&Overrides::new()).unwrap())
    }

    #[test]
    fn targets_lead_to_the_steps_of_that_name() {
        let plan = plan("oltp");
        let mut posts = Vec::new();
        for step in &plan.threads[2].body {
            if let StepKind::Operation(task) = &step.kind
                && task.operation.op == Op::SemPost
            {
                posts.push(plan.steps[task.targets[0]].name.clone());
            }
        }
        assert_eq!(posts, ["lg-block", "dbwr-block"]);
        assert_eq!(plan.threads[2].total(), 200);
    }

    #[test]
    fn asynchronous_writes_get_a_worker_for_each_slot_up_to_the_limit_of_the_library() {
        let workers = |name| plan(name).threads.iter().map(|thread| thread.aio_workers).collect::<Vec<_>>();
        assert_eq!(workers("oltp"), [1, 10, 0]);
        assert_eq!(workers("tpcso"), [1, 20, 0]);
        assert_eq!(workers("varmail"), [0]);
    }

    #[test]
    fn steps_of_composites_are_numbered_in_the_order_of_the_loop() {
        let plan = plan("netsfs");
        assert_eq!(plan.steps[0].name, "launch1.openfile3");
        assert_eq!(plan.steps.last().unwrap().name, "ratecontrol");
        assert_eq!(plan.steps.len(), 9 + 7 + 3 + 2);
    }
}
