//! A thread of the program as a task: it waits, computes, calls, and compares.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rand::RngExt as _;
use results::program::{self, COMPUTES, OWN_ORDER};
use sim::{Nanos, Rng};
use trace::compile::Step;
use vfs::Errno;

use super::call::{self, Made, Place, Scratch};
use super::compare::{agrees, excused, words};
use super::copy::Copy;
use super::load::{Start, step_of};
use super::run::Shared;
use super::slices::Slices;
use super::variables::{Order, Pace};
use crate::charges::{PROGRAM, TRACE_ORDER};

/// What a task has counted.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Calls that were made.
    pub(super) calls: u64,
    /// Those that failed, as recorded or not.
    pub(super) failed: u64,
    pub(super) reads: (u64, u64),
    pub(super) writes: (u64, u64),
    /// Waits for other threads.
    pub(super) waits: u64,
    /// Calls that were not made, by the reason.
    pub(super) left: BTreeMap<&'static str, u64>,
    /// Time by class.
    pub(super) slices: Slices,
}

impl Tally {
    pub(super) fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.failed += other.failed;
        self.reads = (self.reads.0 + other.reads.0, self.reads.1 + other.reads.1);
        self.writes = (self.writes.0 + other.writes.0, self.writes.1 + other.writes.1);
        self.waits += other.waits;
        self.slices.merge(&other.slices);
        for (reason, count) in &other.left {
            *self.left.entry(reason).or_default() += count;
        }
    }

    fn note(&mut self, step: &Step, got: i64) {
        self.calls += 1;
        self.failed += u64::from(got < 0);
        let bytes = got.max(0) as u64;
        if step.call.op.reads() {
            self.reads = (self.reads.0 + 1, self.reads.1 + bytes);
        }
        if step.call.op.writes() {
            self.writes = (self.writes.0 + 1, self.writes.1 + bytes);
        }
    }
}

/// A thread of a copy.
pub(super) struct Task {
    pub(super) shared: Arc<Shared>,
    pub(super) copy: usize,
    /// Its place among the program's threads.
    pub(super) thread: usize,
    pub(super) rng: Rng,
}

/// What a task has while it runs.
struct Running<'t> {
    task: &'t Task,
    copy: &'t Copy,
    scratch: Scratch,
    tally: Tally,
    rng: Rng,
    /// `pace=timed`: when the next call is due.
    due: Nanos,
    /// Up to when time is booked on classes.
    booked: Nanos,
}

impl Task {
    /// Takes the thread's steps.
    pub(super) fn run(self) -> Tally {
        let copy = &self.shared.copies[self.copy];
        let mut running = Running {
            task: &self,
            copy,
            scratch: Scratch::default(),
            tally: Tally::default(),
            rng: self.rng.clone(),
            due: sim::now(),
            booked: sim::now(),
        };
        running.steps();
        running.tally
    }
}

impl Running<'_> {
    fn steps(&mut self) {
        let shared = &*self.task.shared;
        let program = &shared.loaded.program;
        let steps = &program.threads[self.task.thread].steps;
        let mut starts = shared.loaded.plan.starts[self.task.thread].iter().peekable();
        let mut forks = shared.loaded.plan.forks[self.task.thread].iter().peekable();
        for (own, number) in steps.iter().enumerate() {
            let step = program.get(*number);
            match forks.next_if(|fork| fork.step == own as u32) {
                Some(fork) if shared.variables.order == Order::Resource => self.fork(*number, step, fork),
                _ => self.before(*number, step),
            }
            if shared.is_over(self.task.copy) {
                break;
            }
            self.step(step);
            self.book(program::class_of(step.call.op.name()));
            if shared.is_awaited(*number) {
                self.copy.threads.ended(self.task.thread, own as u32);
            }
            if shared.variables.order == Order::Resource {
                while let Some(start) = starts.next_if(|start| start.step == own as u32) {
                    Shared::start(&self.task.shared, self.task.copy, start.thread);
                }
            }
        }
    }

    /// Books the time since the last booking on a class.
    fn book(&mut self, class: usize) {
        let (begin, now) = (self.task.shared.begin(), sim::now());
        self.tally.slices.add(class, self.booked.since(begin).0, now.since(begin).0);
        self.booked = now;
    }

    /// What the program does before a call: it waits for its other threads, and computes.
    fn before(&mut self, number: u32, step: &Step) {
        self.wait(number);
        self.think(step);
    }

    /// A fork: the child begins when the parent has come to it. What the parent then waits for is its child, after a vfork.
    fn fork(&mut self, number: u32, step: &Step, fork: &Start) {
        self.think(step);
        if !self.task.shared.is_over(self.task.copy) {
            Shared::start(&self.task.shared, self.task.copy, fork.thread);
        }
        self.wait(number);
    }

    fn wait(&mut self, number: u32) {
        let shared = &*self.task.shared;
        let program = &shared.loaded.program;
        let waits = match shared.variables.order {
            Order::Resource => program.waits(number),
            Order::Thread => &[],
            Order::Total => shared.previous(number),
        };
        if waits.is_empty() {
            return;
        }
        let _op = sim::op(PROGRAM);
        let _scope = sim::scope(TRACE_ORDER);
        for wait in waits {
            // A trace that was cut may lack the step, or its thread.
            let thread = program.thread_at(wait.thread).filter(|_| step_of(program, *wait).is_some());
            if let Some(thread) = thread {
                self.tally.waits += u64::from(self.copy.threads.wait(self.task.thread, thread, wait.step));
            }
        }
        self.book(OWN_ORDER);
    }

    /// Computes as long as the pace says, or waits until the call is due.
    fn think(&mut self, step: &Step) {
        let shared = &*self.task.shared;
        let (variables, times) = (&shared.variables, &step.times);
        let mut span = match variables.pace {
            Pace::Think => scaled(times.cpu_ns(shared.loaded.program.summary.level_ns), variables.cpu_scale),
            Pace::Asap | Pace::Timed => Nanos::ZERO,
        };
        if variables.jitter > Nanos::ZERO {
            span += Nanos(self.rng.random_range(0..=variables.jitter.0));
        }
        if variables.pace == Pace::Timed {
            self.due += scaled(times.gap_ns, 1.0 / variables.speed);
        }
        let is_early = variables.pace == Pace::Timed && sim::now() < self.due;
        if span > Nanos::ZERO || is_early {
            let _op = sim::op(PROGRAM);
            compute(span);
            if is_early {
                sim::sleep_until(self.due);
            }
            self.book(COMPUTES);
        }
        self.due += self.duration(step);
    }

    /// How long the call took in the recording, as `pace=timed` has it.
    fn duration(&self, step: &Step) -> Nanos {
        let variables = &self.task.shared.variables;
        match variables.pace {
            Pace::Timed => scaled(step.times.duration_ns, 1.0 / variables.speed),
            _ => Nanos::ZERO,
        }
    }

    /// Makes the call, and compares.
    fn step(&mut self, step: &Step) {
        let shared = &*self.task.shared;
        if let Some(reason) = excused(step) {
            *self.tally.left.entry(reason).or_default() += 1;
            return;
        }
        if step.no_file {
            *self.tally.left.entry(NO_FILE).or_default() += 1;
            return;
        }
        let process = shared.loaded.plan.process[self.task.thread];
        let place = Place { loaded: &shared.loaded, copy: self.copy, data: &shared.data, process };
        let (got, agreed) = match call::make(place, &mut self.scratch, step) {
            Made::Nothing => return,
            Made::Left(reason) => {
                *self.tally.left.entry(reason).or_default() += 1;
                return;
            }
            Made::Listed(made, recorded) => (made, made == recorded),
            Made::Result(got) => (got, agrees(step.call.op, step.result, got)),
        };
        if !step.implied {
            self.tally.note(step, got);
            shared.calls.fetch_add(u64::from(shared.counts), Relaxed);
        }
        if !agreed {
            self.differs(step, got);
        }
    }

    #[cold]
    fn differs(&self, step: &Step, got: i64) {
        let shared = &*self.task.shared;
        let told = || format!("{}:{}: {}", shared.loaded.file, step.line, self.sentence(step, got));
        let is_full = got == -i64::from(Errno::ENOSPC.number());
        shared.differs(step, got, is_full, told);
    }

    /// `thread 3: write "log/main" 4096 = ENOSPC, recorded 4096`.
    fn sentence(&self, step: &Step, got: i64) -> String {
        let program = &self.task.shared.loaded.program;
        let thread = &program.threads[self.task.thread].thread;
        let call = &step.call;
        let mut text = format!("thread {}: {}", thread.number, call.op.name());
        let handle = call.fd.map(|handle| format!(" of descriptor {handle}"));
        match call.path {
            Some(_) => text.extend([" \"", &program.path_of(call.path).escape_ascii().to_string(), "\""]),
            None => text.push_str(&handle.unwrap_or_default()),
        }
        let len = if call.len > 0 { format!(" {}", call.len) } else { String::new() };
        let copy = if self.copy.number > 0 { format!(" (copy {})", self.copy.number) } else { String::new() };
        format!("{text}{len}{copy} = {}, recorded {}", words(got), words(step.result))
    }
}

/// Why what is on a FIFO, a socket or a device is not done: to open it may wait for ever.
const NO_FILE: &str = "are on FIFOs, sockets and devices, which are no files";

/// Computes for so long. Under the real clock that is processor time, of which a busy host gives this thread no more than it gave
/// the program.
fn compute(span: Nanos) {
    let Some(start) = sim::cpu_time() else { return sim::compute_for(span) };
    let mut left = span;
    while left > Nanos::ZERO {
        sim::compute_for(left.min(SPIN));
        left = span.since(sim::cpu_time().unwrap_or(start + span).since(start));
    }
}

/// Spun at once between two looks at the processor time.
const SPIN: Nanos = Nanos::from_micros(50);

fn scaled(ns: u64, factor: f64) -> Nanos {
    if factor.total_cmp(&1.0).is_eq() { Nanos(ns) } else { Nanos((ns as f64 * factor) as u64) }
}
