//! Locks and lines that are free for a run: no time passes for them, and locks exclude all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use sim::ledger::Snapshot;
use sim::{
    Activity, JoinHandle, Line, LockClass, Machine, Mutex, Nanos, Op, RwLock, Seed, Setup, TaskSpec, Work,
    spawn,
};

static BUSY: LockClass = LockClass::new("test.busy");
static OTHER: LockClass = LockClass::new("test.other");
static LINE: LockClass = LockClass::of_lines("test.line", "a counter");

const TASKS: u64 = 8;
const TURNS: u64 = 10;

/// Something that eight tasks do ten times each for a microsecond; returns when the last has ended.
fn run(free: &[&str], turn: impl Fn(&AtomicBool) + Clone + Send + 'static) -> Nanos {
    let mut setup = Setup::virtual_clock(Machine::unit(), Seed(1));
    setup.free = free.iter().map(|name| (*name).to_owned()).collect();
    let main = move || {
        let inside = Arc::new(AtomicBool::new(false));
        let task = |number: u64| {
            let (inside, turn) = (Arc::clone(&inside), turn.clone());
            let spec = TaskSpec::named(format!("task-{number}")).on_core(number as u16);
            spawn(spec, move || (0..TURNS).for_each(|_| turn(&inside)))
        };
        let tasks: Vec<_> = (0..TASKS).map(task).collect();
        tasks.into_iter().for_each(sim::JoinHandle::join);
        sim::now()
    };
    sim::run(&setup, main).unwrap_or_else(|error| panic!("{error}"))
}

/// Holds what a lock gives for a microsecond, with an interaction in the middle of it.
fn hold(inside: &AtomicBool) {
    assert!(!inside.swap(true, Relaxed), "two tasks have the lock at once");
    sim::medium(Nanos(500));
    sim::interact();
    sim::medium(Nanos(500));
    inside.store(false, Relaxed);
}

fn with_mutex(free: &[&str]) -> Nanos {
    let mutex = Arc::new(Mutex::new(&BUSY, ()));
    run(free, move |inside| {
        let _guard = mutex.lock();
        hold(inside);
    })
}

fn with_rwlock(free: &[&str]) -> Nanos {
    let lock = Arc::new(RwLock::new(&BUSY, ()));
    run(free, move |inside| {
        let _guard = lock.write();
        hold(inside);
    })
}

#[test]
fn a_free_lock_excludes_and_takes_no_time() {
    let alone = TURNS * 1_000;
    for with in [with_mutex, with_rwlock] {
        let (taken, free) = (with(&[]), with(&["test.busy"]));
        assert!(taken.0 >= TASKS * alone, "one after the other: {taken}");
        assert!(free.0 >= alone && free.0 < alone + alone / 10, "side by side: {free}");
        assert_eq!(with(&["test.other"]), taken, "another class changes nothing");
    }
}

#[test]
fn what_is_behind_a_free_lock_is_waited_for_instead() {
    let outer = Arc::new(Mutex::new(&BUSY, ()));
    let inner = Arc::new(Mutex::new(&OTHER, ()));
    let nested = move |inside: &AtomicBool| {
        let _outer = outer.lock();
        let _inner = inner.lock();
        hold(inside);
    };
    let free = run(&["test.busy"], nested);
    assert!(free.0 >= TASKS * TURNS * 1_000, "the inner lock serves one at a time: {free}");
}

/// Operations of each of the cores that share a line.
const OPERATIONS: u64 = 1_000;
/// What a core does between its updates of the line, in nanoseconds.
const BETWEEN: u64 = 100;
/// An update, and the way of the line from one core to the other.
const UPDATE: u64 = 5;
const TRANSFER: u64 = 300;
const COUNTING: Op = Op::new(1, "count");

/// Operations of so many cores that share a line: until when, and their ledger.
fn share_a_line(cores: u16, free: &[&str]) -> (u64, Snapshot) {
    let mut machine = Machine { work_ps: [0; Work::MAX], ..Machine::unit() };
    machine.work_ps[Work::STEP.index()] = 1_000;
    machine.work_ps[Work::LOCK.index()] = UPDATE * 1_000;
    machine.work_ps[Work::LINE_SAME_SOCKET.index()] = TRANSFER * 1_000;
    let mut setup = Setup::virtual_clock(machine, Seed(1));
    setup.free = free.iter().map(|name| (*name).to_owned()).collect();
    let main = move || {
        let line = Arc::new(Line::new(&LINE));
        let count = |core: u16| {
            let line = Arc::clone(&line);
            spawn(TaskSpec::named("count").on_core(core), move || {
                for _ in 0..OPERATIONS {
                    let _op = sim::op(COUNTING);
                    sim::work(Work::STEP, BETWEEN);
                    line.touch();
                }
                sim::now().0
            })
        };
        let tasks: Vec<_> = (0..cores).map(count).collect();
        let end = tasks.into_iter().map(JoinHandle::join).max().expect("a task");
        (end, Snapshot::of_run())
    };
    sim::run(&setup, main).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn two_cores_that_a_line_limits_wait_for_it_by_name_and_run_as_fast_as_predicted_when_it_is_free() {
    let (alone, ledger) = share_a_line(1, &[]);
    assert_eq!((alone, ledger.line_waits(COUNTING)), (OPERATIONS * (BETWEEN + UPDATE), vec![]));
    // The line goes to and fro but for the first update, and the work between its visits is done while it is away.
    let (shared, ledger) = share_a_line(2, &[]);
    assert_eq!(shared, BETWEEN + UPDATE + (2 * OPERATIONS - 1) * (UPDATE + TRANSFER));
    // All but the work itself is waiting for the line, and booked where that work is.
    let work = 2 * OPERATIONS * (BETWEEN + UPDATE);
    let booked = ledger.time(COUNTING, Activity::SOFTWARE).0;
    let waited = Nanos(booked - work);
    assert_eq!(ledger.line_waits(COUNTING), [("test.line", waited)]);
    assert_eq!(ledger.named(COUNTING, Activity::SOFTWARE), waited);
    assert_eq!(ledger.lock_waits(COUNTING), vec![]);
    assert_eq!(ledger.total(COUNTING).0, booked);
    // Without it each core is as fast as alone; without another class nothing changes.
    let (free, ledger) = share_a_line(2, &["test.line"]);
    assert_eq!((free, ledger.line_waits(COUNTING)), (alone, vec![]));
    assert_eq!(share_a_line(2, &["test.other"]).0, shared);
}

#[test]
fn the_words_of_a_free_class_of_locks_and_its_lines_are_free_together() {
    let lock = Arc::new(RwLock::new(&BUSY, ()));
    let read = move |_: &AtomicBool| {
        drop(lock.read());
        lock.touch();
    };
    let (taken, free) = (run(&[], read.clone()), run(&["test.busy"], read));
    assert!(taken > free && free == run(&["test.busy"], |_| ()), "{taken} and {free}");
}
