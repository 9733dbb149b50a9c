//! Locks that are free for a run: no time passes for them, and they exclude all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use sim::{LockClass, Machine, Mutex, Nanos, RwLock, Seed, Setup, TaskSpec, spawn};

static BUSY: LockClass = LockClass::new("test.busy");
static OTHER: LockClass = LockClass::new("test.other");

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
