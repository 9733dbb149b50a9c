//! Releases that leave only their time behind, and tasks that run ahead, must not show in any result: every
//! random program gives the times of a simulator without either, which handles one event after the other.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::program::{EACH, PERMITS, Program, SLEEPING, Step, slots, slow_kernel, trace};
use proptest::prelude::*;
use sim::{Machine, Nanos, Work};

#[derive(Clone, Default)]
struct Line {
    free_at: u64,
    core: Option<u16>,
}

#[derive(Clone, Default)]
struct Lock {
    line: Line,
    writer: bool,
    readers: u64,
    permits: u64,
    /// Sleeping kind: the state of its word.
    word: Word,
    /// Task, how much it wants, and when it is able to go on.
    queue: VecDeque<(usize, u64, u64)>,
}

/// The word of a sleeping mutex, as glibc has it.
#[derive(Clone, Copy, Default, PartialEq)]
enum Word {
    #[default]
    Free,
    Taken,
    /// Taken, and there may be sleepers.
    Contended,
}

/// What a task does when its time comes.
#[derive(Clone, Copy)]
enum Next {
    Step,
    /// It tries again to take a sleeping mutex.
    Retry(usize),
    /// The kernel compares the word before it puts the task to sleep.
    Compare(usize),
}

/// The simulator: a heap of (time, order of insertion, task), each entry a task that executes its next step
/// at that time.
struct Reference<'a> {
    program: &'a Program,
    next_step: Vec<usize>,
    next: Vec<Next>,
    events: BinaryHeap<Reverse<(u64, usize, usize)>>,
    inserted: usize,
    locks: Vec<Lock>,
    lines: Vec<Line>,
    servers: Vec<Vec<u64>>,
    trace: Vec<Vec<Nanos>>,
}

impl<'a> Reference<'a> {
    fn new(program: &'a Program) -> Self {
        let tasks = program.tasks.len();
        let mut this = Self {
            program,
            next_step: vec![0; tasks],
            next: vec![Next::Step; tasks],
            events: BinaryHeap::new(),
            inserted: 0,
            locks: vec![Lock { permits: PERMITS, ..Lock::default() }; 3 * EACH],
            lines: vec![Line::default(); EACH],
            servers: (0..EACH).map(|n| vec![0; slots(n)]).collect(),
            trace: vec![Vec::new(); tasks],
        };
        (0..tasks).for_each(|task| this.go_on(task, 0));
        this
    }

    fn run(mut self) -> Vec<Vec<Nanos>> {
        while let Some(Reverse((time, _, task))) = self.events.pop() {
            match std::mem::replace(&mut self.next[task], Next::Step) {
                Next::Retry(lock) => self.attempt(task, time, lock, Word::Contended),
                Next::Compare(lock) => self.compare(task, time, lock),
                Next::Step => {
                    let steps = &self.program.tasks[task].1;
                    if let Some(step) = steps.get(self.next_step[task]) {
                        self.next_step[task] += 1;
                        self.execute(task, time, *step);
                    }
                }
            }
        }
        self.trace
    }

    fn go_on(&mut self, task: usize, time: u64) {
        self.inserted += 1;
        self.events.push(Reverse((time, self.inserted, task)));
    }

    /// The task goes on at `time`, which others can see.
    fn seen(&mut self, task: usize, time: u64) {
        self.trace[task].push(Nanos(time));
        self.go_on(task, time);
    }

    fn take_line(machine: &Machine, line: &mut Line, core: u16, arrival: u64) -> u64 {
        let moved = line.core.map_or(Nanos(0), |from| machine.transfer(from, core));
        line.core = Some(core);
        line.free_at = line.free_at.max(arrival) + moved.0 + machine.cost(Work::LOCK, 1).0;
        line.free_at
    }

    fn cost(&self, work: Work) -> u64 {
        self.program.machine.cost(work, 1).0
    }

    fn core(&self, task: usize) -> u16 {
        self.program.tasks[task].0 % self.program.machine.cores()
    }

    fn execute(&mut self, task: usize, time: u64, step: Step) {
        let core = self.core(task);
        match step {
            Step::Work(ns) => self.go_on(task, time + ns),
            Step::Sleep(ns) => self.seen(task, time + ns),
            Step::Touch(n) => {
                let end = Self::take_line(&self.program.machine, &mut self.lines[n], core, time);
                self.seen(task, end);
            }
            Step::Serve(n, ns) => {
                let slot = self.servers[n].iter_mut().min().expect("a slot");
                *slot = time.max(*slot) + ns;
                let end = *slot;
                self.seen(task, end);
            }
            Step::Lock(SLEEPING) => self.attempt(task, time, SLEEPING, Word::Taken),
            Step::Unlock(SLEEPING) => self.free(task, time, SLEEPING),
            Step::Lock(n) => self.arrive(task, time, n, 1),
            Step::Unlock(n) => self.leave(task, time, n, 1),
            Step::Read(n) => self.arrive(task, time, EACH + n, 0),
            Step::EndRead(n) => self.leave(task, time, EACH + n, 0),
            Step::Write(n) => self.arrive(task, time, EACH + n, 1),
            Step::EndWrite(n) => self.leave(task, time, EACH + n, 1),
            Step::Acquire(n, permits) => self.acquire(task, time, 2 * EACH + n, permits),
            Step::Release(n, permits) => self.release(task, time, 2 * EACH + n, permits),
        }
    }

    /// A task comes to a sleeping mutex, which gets the state `word` if it is free.
    fn attempt(&mut self, task: usize, time: u64, lock: usize, word: Word) {
        let core = self.core(task);
        let state = &mut self.locks[lock];
        if state.word == Word::Free {
            state.word = word;
            let end = Self::take_line(&self.program.machine, &mut state.line, core, time);
            return self.seen(task, end);
        }
        state.word = Word::Contended;
        self.next[task] = Next::Compare(lock);
        self.go_on(task, time + self.cost(Work::FUTEX));
    }

    fn compare(&mut self, task: usize, time: u64, lock: usize) {
        self.next[task] = Next::Retry(lock);
        match self.locks[lock].word {
            Word::Contended => self.locks[lock].queue.push_back((task, 1, time)),
            Word::Free | Word::Taken => self.go_on(task, time),
        }
    }

    /// The release of a sleeping mutex.
    fn free(&mut self, task: usize, time: u64, lock: usize) {
        let (futex, wakeup) = (self.cost(Work::FUTEX), self.cost(Work::WAKEUP));
        let state = &mut self.locks[lock];
        if std::mem::take(&mut state.word) != Word::Contended {
            return self.go_on(task, time);
        }
        match state.queue.pop_front() {
            None => self.go_on(task, time + futex),
            Some((sleeper, ..)) => {
                self.go_on(task, time + wakeup);
                self.go_on(sleeper, time + 2 * wakeup);
            }
        }
    }

    fn arrive(&mut self, task: usize, time: u64, lock: usize, wants: u64) {
        self.locks[lock].queue.push_back((task, wants, time));
        self.admit(lock, time);
    }

    fn leave(&mut self, task: usize, time: u64, lock: usize, wants: u64) {
        if wants == 1 {
            self.locks[lock].writer = false;
        } else {
            self.locks[lock].readers -= 1;
        }
        self.admit(lock, time);
        self.go_on(task, time);
    }

    fn admit(&mut self, lock: usize, time: u64) {
        while let Some((task, wants, _)) = self.locks[lock].queue.front().copied() {
            let core = self.core(task);
            let state = &mut self.locks[lock];
            if state.writer || (wants == 1 && state.readers > 0) {
                return;
            }
            state.queue.pop_front();
            if wants == 1 {
                state.writer = true;
            } else {
                state.readers += 1;
            }
            let end = Self::take_line(&self.program.machine, &mut state.line, core, time);
            self.seen(task, end);
        }
    }

    fn acquire(&mut self, task: usize, time: u64, lock: usize, wants: u64) {
        let core = self.core(task);
        let state = &mut self.locks[lock];
        let end = Self::take_line(&self.program.machine, &mut state.line, core, time);
        if state.queue.is_empty() && state.permits >= wants {
            state.permits -= wants;
            self.seen(task, end);
        } else {
            state.queue.push_back((task, wants, end));
        }
    }

    fn release(&mut self, task: usize, time: u64, lock: usize, permits: u64) {
        let wakeup = self.cost(Work::WAKEUP);
        let core = self.core(task);
        self.locks[lock].permits += permits;
        let mut now = Self::take_line(&self.program.machine, &mut self.locks[lock].line, core, time);
        while let Some((waiter, wants, able)) = self.locks[lock].queue.front().copied() {
            if self.locks[lock].permits < wants {
                break;
            }
            self.locks[lock].permits -= wants;
            self.locks[lock].queue.pop_front();
            now += wakeup;
            self.seen(waiter, able.max(now + wakeup));
        }
        self.seen(task, now);
    }
}

/// Spans so long that two events at one instant, whose order means nothing, do not happen by chance.
const LONG: u64 = 100_000_000_000;

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn all_times_are_those_of_the_reference(seed: u64, tasks in 1..12_usize, steps in 1..25_usize) {
        let program = Program::random(seed, tasks, steps, LONG);
        let expected = Reference::new(&program).run();
        prop_assert_eq!(trace(&program, Nanos(10_000_000)), expected);
    }

    #[test]
    fn all_times_are_those_of_the_reference_when_the_kernel_is_slow(
        seed: u64, tasks in 1..12_usize, steps in 1..25_usize,
    ) {
        let program = Program::random(seed, tasks, steps, LONG).on(slow_kernel());
        let expected = Reference::new(&program).run();
        prop_assert_eq!(trace(&program, Nanos(10_000_000)), expected);
    }

    #[test]
    fn running_ahead_changes_no_time(seed: u64, tasks in 1..12_usize, steps in 1..25_usize) {
        let program = Program::random(seed, tasks, steps, LONG);
        prop_assert_eq!(trace(&program, Nanos(0)), trace(&program, Nanos(u64::MAX)));
        let program = program.on(slow_kernel());
        prop_assert_eq!(trace(&program, Nanos(0)), trace(&program, Nanos(u64::MAX)));
    }
}

/// The canary: a reference with a wrong cost must disagree with some program.
#[test]
fn the_comparison_notices_a_cost_that_is_wrong_by_a_nanosecond() {
    let differs = (0..20).any(|seed| {
        let program = Program::random(seed, 6, 12, LONG);
        let mut expected = Reference::new(&program);
        expected.lines[0].free_at = 1;
        expected.locks[0].line.core = Some(1);
        expected.run() != trace(&program, Nanos(0))
    });
    assert!(differs);
}
