//! Explored runs: every interleaving can be had, the same seed gives the same, and what goes wrong is told as in any run.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sim::{
    Condvar, Interleaving, LockClass, Machine, Mutex, Nanos, RunError, RwLock, Schedule, Seed, Setup,
    TaskSpec, Work,
};

static A: LockClass = LockClass::new("test.a");
static B: LockClass = LockClass::new("test.b");

fn explore<T: Send + 'static>(
    seed: u64,
    schedule: &Schedule,
    main: impl FnOnce() -> T + Send + 'static,
) -> (Result<T, RunError>, Interleaving) {
    sim::explore(&Setup::virtual_clock(Machine::unit(), Seed(seed)), schedule, main)
}

/// Tasks that each run `body` with their number, joined.
fn together(tasks: u64, body: impl Fn(u64) + Clone + Send + 'static) {
    let tasks: Vec<_> = (0..tasks)
        .map(|number| {
            let body = body.clone();
            sim::spawn(TaskSpec::named(format!("t{number}")), move || body(number))
        })
        .collect();
    tasks.into_iter().for_each(sim::JoinHandle::join);
}

/// Two tasks that each add one in two steps: 1 when both read before either writes.
fn lost_update() -> u64 {
    let count = Arc::new(AtomicU64::new(0));
    let shared = Arc::clone(&count);
    together(2, move |_| {
        let seen = shared.load(Relaxed);
        sim::work(Work::STEP, 1);
        shared.store(seen + 1, Relaxed);
    });
    count.load(Relaxed)
}

/// The order in which two tasks take a lock twice each: one of six.
fn order_of_turns() -> String {
    let order = Arc::new(Mutex::new(&A, String::new()));
    let shared = Arc::clone(&order);
    together(2, move |number| (0..2).for_each(|_| shared.lock().push_str(&number.to_string())));
    order.lock().clone()
}

#[test]
fn random_schedules_reach_every_order_of_two_tasks_turns() {
    let orders: BTreeSet<_> =
        (0..200).map(|seed| explore(seed, &Schedule::Random, order_of_turns).0.unwrap()).collect();
    assert_eq!(orders.into_iter().collect::<Vec<_>>(), ["0011", "0101", "0110", "1001", "1010", "1100"]);
}

#[test]
fn a_lost_update_is_found_as_often_as_is_promised() {
    let length = explore(0, &Schedule::Directed(Vec::new()), lost_update).1.decisions;
    for (schedule, bound) in
        [(Schedule::Random, 20), (Schedule::Pct { depth: 2, length }, 2 * length as usize)]
    {
        let found = (0..1000).filter(|seed| explore(*seed, &schedule, lost_update).0.unwrap() == 1).count();
        println!("{schedule:?}: {found} of 1000");
        assert!(found >= 1000 / bound, "{schedule:?}: {found} of 1000");
    }
}

#[test]
fn without_a_switch_the_running_task_goes_on() {
    let (order, interleaving) = explore(3, &Schedule::Directed(Vec::new()), order_of_turns);
    assert_eq!(order.unwrap(), "0011");
    assert_eq!(interleaving.switches, []);
    assert!(interleaving.decisions > 0 && interleaving.points > interleaving.decisions, "{interleaving:?}");
}

#[test]
fn the_same_seed_gives_the_same_run_and_its_switches_give_it_without_the_seed() {
    for schedule in [Schedule::Random, Schedule::Pct { depth: 3, length: 40 }] {
        for seed in 0..50 {
            let (order, interleaving) = explore(seed, &schedule, order_of_turns);
            let order = order.unwrap();
            assert_eq!(explore(seed, &schedule, order_of_turns).1, interleaving, "seed {seed}");
            let directed = Schedule::Directed(interleaving.switches.clone());
            let (again, repeated) = explore(99, &directed, order_of_turns);
            assert_eq!((again.unwrap(), repeated), (order, interleaving), "seed {seed}, {schedule:?}");
        }
    }
}

#[test]
fn fingerprints_tell_interleavings_apart() {
    let mut orders = BTreeSet::new();
    for seed in 0..100 {
        let (order, interleaving) = explore(seed, &Schedule::Random, order_of_turns);
        orders.insert((interleaving.fingerprint, order.unwrap()));
    }
    let fingerprints: BTreeSet<_> = orders.iter().map(|(fingerprint, _)| fingerprint).collect();
    assert_eq!(fingerprints.len(), orders.len(), "one interleaving has one outcome");
    assert!(fingerprints.len() > 20, "{}", fingerprints.len());
}

/// The two locks are taken in both orders: a deadlock in some schedules only.
#[test]
fn a_deadlock_that_needs_a_preemption_is_found_and_named() {
    let body = || {
        let (a, b) = (Arc::new(Mutex::new(&A, ())), Arc::new(RwLock::new(&B, ())));
        together(2, move |number| {
            if number == 0 {
                let _a = a.lock();
                let _b = b.write();
            } else {
                let _b = b.write();
                let _a = a.lock();
            }
        });
    };
    let errors: Vec<_> = (0..100).filter_map(|seed| explore(seed, &Schedule::Random, body).0.err()).collect();
    assert!((10..90).contains(&errors.len()), "{}", errors.len());
    for error in errors {
        let text = error.to_string();
        assert!(
            text.contains("waits for test.a held by") && text.contains("waits for test.b held by"),
            "{text}"
        );
    }
}

/// The flag is set without the mutex: between the look at it and the wait the notification may be lost.
#[test]
fn a_lost_wake_up_is_a_deadlock_in_some_schedules_and_a_wait_loses_none() {
    let run = |locked: bool| {
        move || {
            let shared = Arc::new((Mutex::new(&A, ()), Condvar::new(), AtomicU64::new(0)));
            together(2, move |number| {
                let (mutex, changed, flag) = &*shared;
                if number == 0 {
                    let mut guard = mutex.lock();
                    while flag.load(Relaxed) == 0 {
                        sim::work(Work::STEP, 1);
                        guard = changed.wait(guard);
                    }
                } else {
                    let guard = locked.then(|| mutex.lock());
                    flag.store(1, Relaxed);
                    drop(guard);
                    changed.notify_all();
                }
            });
        }
    };
    let lost =
        |locked| (0..200).filter(|seed| explore(*seed, &Schedule::Random, run(locked)).0.is_err()).count();
    assert!(lost(false) > 5, "{}", lost(false));
    assert_eq!(lost(true), 0);
}

#[test]
fn timeouts_and_sleepers_keep_no_task_from_going_on() {
    let body = || {
        sim::spawn(TaskSpec::named("ticks").background(), || {
            loop {
                sim::sleep(Nanos::from_secs(5));
            }
        });
        together(2, |_| (0..100).for_each(|_| sim::work(Work::STEP, 1)));
    };
    for seed in 0..20 {
        for schedule in [Schedule::Random, Schedule::Pct { depth: 3, length: 200 }] {
            let (done, interleaving) = explore(seed, &schedule, body);
            done.unwrap();
            assert!(interleaving.points < 2_000, "{interleaving:?}");
        }
    }
}

#[test]
fn a_wait_that_nothing_ends_is_found_although_background_tasks_go_on() {
    let body = || {
        sim::spawn(TaskSpec::named("ticks").background(), || {
            loop {
                sim::sleep(Nanos(1));
            }
        });
        let (mutex, never) = (Mutex::new(&A, ()), Condvar::new());
        drop(never.wait(mutex.lock()));
    };
    let error = explore(1, &Schedule::Random, body).0.unwrap_err().to_string();
    assert!(error.contains("deadlock") && error.contains("\"main\" waits for sim.condvar"), "{error}");
}

#[test]
fn an_endless_loop_is_found() {
    let error = explore(1, &Schedule::Random, || {
        loop {
            sim::work(Work::STEP, 1);
        }
    });
    let error = error.0.unwrap_err().to_string();
    assert!(error.contains("no end after"), "{error}");
}
