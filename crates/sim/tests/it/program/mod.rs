//! Random programs of tasks that lock, queue and work, and how `sim` executes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use rand::RngExt;
use sim::{
    Line, LockClass, Machine, Mutex, Nanos, Rng, RwLock, Seed, Semaphore, Server, Setup, TaskSpec, Work,
};

static MUTEX: LockClass = LockClass::new("test.mutex");
static RWLOCK: LockClass = LockClass::new("test.rwlock");
static SEMAPHORE: LockClass = LockClass::new("test.semaphore");
static LINE: LockClass = LockClass::of_lines("test.line", "a counter");

/// How many there are of each kind of thing.
pub(crate) const EACH: usize = 3;
/// The last of the mutexes is of the sleeping kind.
pub(crate) const SLEEPING: usize = EACH - 1;
/// Permits of each semaphore.
pub(crate) const PERMITS: u64 = 3;
/// Slots of server `n`: 1, 2, 3.
pub(crate) const fn slots(server: usize) -> usize {
    server + 1
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Private work of so many nanoseconds.
    Work(u64),
    Sleep(u64),
    Lock(usize),
    Unlock(usize),
    Read(usize),
    EndRead(usize),
    Write(usize),
    EndWrite(usize),
    Acquire(usize, u64),
    Release(usize, u64),
    Serve(usize, u64),
    Touch(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Core and steps of each task.
    pub(crate) tasks: Vec<(u16, Vec<Step>)>,
    pub(crate) machine: Machine,
}

impl Program {
    /// Spans are random in `1..=longest`. Locks are taken in one order, so that no program deadlocks.
    pub(crate) fn random(seed: u64, tasks: usize, steps: usize, longest: u64) -> Self {
        let mut rng = Seed(seed).derive("program", 0).rng();
        let tasks = (0..tasks)
            .map(|_| {
                let mut list = vec![Step::Work(rng.random_range(1..=longest))];
                (0..steps).for_each(|_| random_step(&mut rng, &mut list, 0, longest));
                (rng.random_range(0..6), list)
            })
            .collect();
        Self { tasks, machine: machine() }
    }

    /// The same program on another machine.
    pub(crate) fn on(self, machine: Machine) -> Self {
        Self { machine, ..self }
    }
}

/// Appends one step, or a pair of steps with others between that use only locks from `lowest` on.
fn random_step(rng: &mut Rng, list: &mut Vec<Step>, lowest: usize, longest: u64) {
    let span = rng.random_range(1..=longest);
    let place = rng.random_range(0..EACH);
    let permits = rng.random_range(1..=PERMITS);
    let lock = rng.random_range(lowest..=3 * EACH);
    let (begin, end) = match lock {
        _ if lock < EACH => (Step::Lock(lock), Step::Unlock(lock)),
        _ if lock < 2 * EACH && rng.random() => (Step::Read(lock - EACH), Step::EndRead(lock - EACH)),
        _ if lock < 2 * EACH => (Step::Write(lock - EACH), Step::EndWrite(lock - EACH)),
        _ if lock < 3 * EACH => {
            (Step::Acquire(lock - 2 * EACH, permits), Step::Release(lock - 2 * EACH, permits))
        }
        _ => {
            return list.push(match rng.random_range(0..4) {
                0 => Step::Work(span),
                1 => Step::Sleep(span),
                2 => Step::Serve(place, span),
                _ => Step::Touch(place),
            });
        }
    };
    list.push(begin);
    list.push(Step::Work(span));
    while rng.random_range(0..3) == 0 {
        random_step(rng, list, lock + 1, longest);
    }
    list.push(end);
}

/// Odd costs, so that a mistake in one shows.
pub(crate) fn machine() -> Machine {
    let mut machine = Machine { cores_per_socket: 3, ..Machine::unit() };
    for (work, cost_ns) in
        [(Work::LOCK, 7), (Work::LINE_SAME_SOCKET, 31), (Work::LINE_CROSS_SOCKET, 97), (Work::WAKEUP, 203)]
    {
        machine.work_ps[work.index()] = cost_ns * 1_000;
    }
    machine
}

/// A machine whose kernel takes so long that tasks meet between a failed attempt and its sleep, and between a
/// release and the return of who was woken.
pub(crate) fn slow_kernel() -> Machine {
    let mut machine = machine();
    machine.work_ps[Work::FUTEX.index()] = 11_000_000_059_000;
    machine.work_ps[Work::WAKEUP.index()] = 17_000_000_203_000;
    machine
}

struct World {
    mutexes: [Mutex<()>; EACH],
    rwlocks: [RwLock<()>; EACH],
    semaphores: [Semaphore; EACH],
    servers: [Server; EACH],
    lines: [Line; EACH],
    /// Who is inside: mutexes, then readers (positive) or a writer (negative), then permits in use.
    inside: [AtomicI64; 3 * EACH],
}

impl World {
    fn new() -> Self {
        Self {
            mutexes: std::array::from_fn(|n| match n {
                SLEEPING => Mutex::sleeping(&MUTEX, ()),
                _ => Mutex::new(&MUTEX, ()),
            }),
            rwlocks: std::array::from_fn(|_| RwLock::new(&RWLOCK, ())),
            semaphores: std::array::from_fn(|_| Semaphore::new(&SEMAPHORE, PERMITS)),
            servers: std::array::from_fn(|n| Server::new(slots(n))),
            lines: std::array::from_fn(|_| Line::new(&LINE)),
            inside: std::array::from_fn(|_| AtomicI64::new(0)),
        }
    }

    /// Someone comes in or leaves; the number of those inside must then be in `allowed`.
    fn inside(&self, place: usize, change: i64, allowed: std::ops::RangeInclusive<i64>) {
        let now = self.inside[place].fetch_add(change, Relaxed) + change;
        assert!(allowed.contains(&now), "{now} inside of lock {place}");
    }

    /// Executes `steps`; returns the time after each step at which others can be met.
    fn execute(&self, steps: &[Step]) -> Vec<Nanos> {
        let mut trace = Vec::new();
        let mut left = steps;
        while !left.is_empty() {
            left = self.step(left, &mut trace);
        }
        trace
    }

    /// Executes what is inside of a lock; returns what comes after its end.
    fn body<'a>(&self, mut rest: &'a [Step], trace: &mut Vec<Nanos>) -> &'a [Step] {
        trace.push(sim::now());
        loop {
            match rest[0] {
                Step::Unlock(_) | Step::EndRead(_) | Step::EndWrite(_) | Step::Release(..) => {
                    return &rest[1..];
                }
                _ => rest = self.step(rest, trace),
            }
        }
    }

    /// Executes one step, or everything up to the end of the lock that it takes; returns what is left.
    fn step<'a>(&self, steps: &'a [Step], trace: &mut Vec<Nanos>) -> &'a [Step] {
        let (step, rest) = steps.split_first().expect("not empty");
        match *step {
            Step::Work(ns) => sim::medium(Nanos(ns)),
            Step::Sleep(ns) => sim::sleep(Nanos(ns)),
            Step::Serve(n, ns) => self.servers[n].serve(Nanos(ns)),
            Step::Touch(n) => self.lines[n].touch(),
            Step::Lock(n) => {
                let _guard = self.mutexes[n].lock();
                self.inside(n, 1, 1..=1);
                let rest = self.body(rest, trace);
                self.inside(n, -1, 0..=0);
                return rest;
            }
            Step::Read(n) => {
                let _guard = self.rwlocks[n].read();
                self.inside(EACH + n, 1, 1..=i64::MAX);
                let rest = self.body(rest, trace);
                self.inside(EACH + n, -1, 0..=i64::MAX);
                return rest;
            }
            Step::Write(n) => {
                let _guard = self.rwlocks[n].write();
                self.inside(EACH + n, -1, -1..=-1);
                let rest = self.body(rest, trace);
                self.inside(EACH + n, 1, 0..=0);
                return rest;
            }
            Step::Acquire(n, permits) => {
                self.semaphores[n].acquire(permits);
                self.inside(2 * EACH + n, permits.cast_signed(), 1..=PERMITS.cast_signed());
                let rest = self.body(rest, trace);
                self.inside(2 * EACH + n, -(permits.cast_signed()), 0..=PERMITS.cast_signed());
                self.semaphores[n].release(permits);
                trace.push(sim::now());
                return rest;
            }
            Step::Unlock(_) | Step::EndRead(_) | Step::EndWrite(_) | Step::Release(..) => unreachable!(),
        }
        if !matches!(step, Step::Work(_)) {
            trace.push(sim::now());
        }
        rest
    }
}

/// The time after each step of each task, except private work and releases that charge nothing.
pub(crate) fn trace(program: &Program, run_ahead: Nanos) -> Vec<Vec<Nanos>> {
    let setup = Setup { run_ahead, ..Setup::virtual_clock(program.machine.clone(), Seed(1)) };
    execute(program, &setup)
}

pub(crate) fn execute(program: &Program, setup: &Setup) -> Vec<Vec<Nanos>> {
    let program = program.clone();
    let trace = sim::run(setup, move || {
        let world = Arc::new(World::new());
        let start = |(n, (core, steps)): (usize, (u16, Vec<Step>))| {
            let world = Arc::clone(&world);
            sim::spawn(TaskSpec::named(format!("t{n}")).on_core(core), move || world.execute(&steps))
        };
        let handles: Vec<_> = program.tasks.into_iter().enumerate().map(start).collect();
        handles.into_iter().map(sim::JoinHandle::join).collect()
    });
    trace.expect("the program ends")
}
