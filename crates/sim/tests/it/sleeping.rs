//! The mutex whose waiters sleep: its costs, which task comes between, and that none sleeps for ever.

use std::sync::Arc;

use proptest::prelude::*;
use rand::RngExt;
use sim::ledger::Snapshot;
use sim::{Condvar, LockClass, Machine, Mutex, Nanos, Op, RunError, Seed, Setup, TaskSpec, Work};

static LOCK: LockClass = LockClass::new("test.sleeping");
static OTHER: LockClass = LockClass::new("test.other");

/// What the tests charge, in nanoseconds.
const LOCK_NS: u64 = 20;
const TRANSFER_NS: u64 = 100;
const FUTEX_NS: u64 = 300;
const WAKEUP_NS: u64 = 4_000;
/// From the release to the time at which the sleeper tries again.
const RETURN_NS: u64 = 2 * WAKEUP_NS;
/// Of an acquisition by another core than the last.
const TAKE_NS: u64 = TRANSFER_NS + LOCK_NS;

fn setup() -> Setup {
    let mut machine = Machine { work_ps: [0; Work::MAX], ..Machine::unit() };
    for (work, cost_ns) in [
        (Work::LOCK, LOCK_NS),
        (Work::LINE_SAME_SOCKET, TRANSFER_NS),
        (Work::FUTEX, FUTEX_NS),
        (Work::WAKEUP, WAKEUP_NS),
    ] {
        machine.work_ps[work.index()] = cost_ns * 1_000;
    }
    Setup::virtual_clock(machine, Seed(5))
}

/// When a critical section begins and ends, and when the task goes on after the release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Visit {
    begin: u64,
    end: u64,
    after: u64,
}

fn visit(lock: &Mutex<()>, hold: u64) -> Visit {
    let guard = lock.lock();
    let begin = sim::now().0;
    sim::medium(Nanos(hold));
    let end = sim::now().0;
    drop(guard);
    Visit { begin, end, after: sim::now().0 }
}

/// Runs tasks on cores of their own, each of which visits one lock: (think, hold) for each visit.
fn visits(setup: &Setup, tasks: Vec<Vec<(u64, u64)>>) -> Vec<Vec<Visit>> {
    let body = move || {
        let lock = Arc::new(Mutex::sleeping(&LOCK, ()));
        let start = |(n, list): (usize, Vec<(u64, u64)>)| {
            let lock = Arc::clone(&lock);
            sim::spawn(TaskSpec::named(format!("t{n}")).on_core(n as u16), move || {
                let one = |(think, hold)| {
                    sim::medium(Nanos(think));
                    visit(&lock, hold)
                };
                list.into_iter().map(one).collect()
            })
        };
        let handles: Vec<_> = tasks.into_iter().enumerate().map(start).collect();
        handles.into_iter().map(sim::JoinHandle::join).collect()
    };
    sim::run(setup, body).expect("no task sleeps for ever")
}

#[test]
fn two_tasks_that_always_find_the_lock_taken_pay_two_wake_ups_for_each_turn() {
    const ROUNDS: usize = 50;
    const HOLD: u64 = 1_000;
    // Who has released comes back when the other has the lock, and is asleep before the other's release.
    const THINK: u64 = WAKEUP_NS + 200;
    const PERIOD: u64 = RETURN_NS + TAKE_NS + HOLD;
    let first = LOCK_NS + HOLD;
    let tasks = [0, 1].map(|arrival| {
        let mut list = vec![(THINK, HOLD); ROUNDS];
        list[0].0 = arrival;
        list
    });
    let seen = visits(&setup(), tasks.to_vec());
    for (turn, visit) in (0..ROUNDS).flat_map(|round| [seen[0][round], seen[1][round]]).enumerate() {
        let end = first + turn as u64 * PERIOD;
        // The last release finds no sleeper, but has to ask.
        let call = if turn + 1 == 2 * ROUNDS { FUTEX_NS } else { WAKEUP_NS };
        assert_eq!(visit, Visit { begin: end - HOLD, end, after: end + call }, "turn {turn}");
    }
}

#[test]
fn sleep_is_booked_as_a_wait_for_the_lock() {
    const HOLD: u64 = 1_000;
    let body = || {
        let lock = Arc::new(Mutex::sleeping(&LOCK, ()));
        let shared = Arc::clone(&lock);
        let guard = lock.lock();
        let waiter = sim::spawn(TaskSpec::named("waiter").on_core(1), move || drop(shared.lock()));
        sim::medium(Nanos(HOLD));
        drop(guard);
        waiter.join();
        Snapshot::of_run().lock_waits(Op::NONE)
    };
    let waits = sim::run(&setup(), body).expect("main ends");
    let asleep = HOLD - FUTEX_NS + RETURN_NS;
    assert!(waits.contains(&("test.sleeping", Nanos(asleep))), "{waits:?}");
}

#[test]
fn a_lock_that_is_never_found_taken_costs_what_any_lock_costs() {
    let seen = visits(&setup(), vec![vec![(0, 10), (500, 10)], vec![(200, 10), (500, 10)]]);
    for visit in seen.concat() {
        assert_eq!(visit.after, visit.end);
    }
    assert_eq!(seen[0][0].begin, LOCK_NS);
    assert_eq!(seen[1][0].begin, 200 + TAKE_NS);
}

#[test]
fn a_task_that_comes_between_has_the_lock_before_the_one_that_was_woken() {
    const HOLD: u64 = 1_000;
    let release = LOCK_NS + HOLD;
    let between = release + WAKEUP_NS;
    let seen = visits(&setup(), vec![vec![(0, HOLD)], vec![(1, HOLD)], vec![(between, 9_000)]]);
    let end = between + TAKE_NS + 9_000;
    // It has met no other task, but the one that was woken has: the release wakes that again.
    assert_eq!(seen[2][0], Visit { begin: between + TAKE_NS, end, after: end + WAKEUP_NS });
    assert_eq!(seen[1][0].begin, end + RETURN_NS + TAKE_NS);
}

#[test]
fn a_release_by_one_that_came_between_wakes_none_and_the_other_sleepers_still_wake() {
    const HOLD: u64 = 1_000;
    let release = LOCK_NS + HOLD;
    let between = release + WAKEUP_NS;
    let seen = visits(&setup(), vec![vec![(0, HOLD)], vec![(1, HOLD)], vec![(2, HOLD)], vec![(between, 50)]]);
    // In and out again before the first sleeper is back: it costs what a free lock costs.
    let end = between + TAKE_NS + 50;
    assert_eq!(seen[3][0], Visit { begin: end - 50, end, after: end });
    // The first sleeper finds it free and wakes the second.
    assert_eq!(seen[1][0].begin, release + RETURN_NS + TAKE_NS);
    assert_eq!(seen[2][0].begin, seen[1][0].end + RETURN_NS + TAKE_NS);
    assert_eq!(seen[2][0].after, seen[2][0].end + FUTEX_NS);
}

#[test]
fn no_task_goes_to_sleep_after_the_release_that_would_have_woken_it() {
    // The second fails 10 ns before the release, and is in the kernel only after it.
    let release = LOCK_NS + 1_000;
    let seen = visits(&setup(), vec![vec![(0, 1_000)], vec![(release - 10, 500)]]);
    assert_eq!(seen[0][0].after, release + FUTEX_NS, "it may have a sleeper, and asks");
    assert_eq!(seen[1][0].begin, release - 10 + FUTEX_NS + TAKE_NS);
    assert_eq!(seen[1][0].after, seen[1][0].end + FUTEX_NS, "others may sleep, for all it knows");
}

#[test]
fn an_attempt_that_does_not_wait_leaves_no_trace() {
    let body = || {
        let lock = Arc::new(Mutex::sleeping(&LOCK, ()));
        let shared = Arc::clone(&lock);
        let holder = sim::spawn(TaskSpec::named("holder").on_core(1), move || visit(&shared, 1_000));
        sim::sleep(Nanos(500));
        assert!(lock.try_lock().is_none());
        let held = holder.join();
        let start = sim::now().0;
        let guard = lock.try_lock().expect("free");
        drop(guard);
        (held.after - held.end, sim::now().0 - start)
    };
    assert_eq!(sim::run(&setup(), body).expect("main ends"), (0, TAKE_NS));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Spans about as long as calls and wake-ups, so that tasks meet in every state of the word.
    #[test]
    fn no_task_is_lost_and_no_two_are_inside_at_once(
        seed: u64, tasks in 1..12_usize, rounds in 1..30_usize, longest in 1..12_000_u64,
    ) {
        let mut rng = Seed(seed).derive("visits", 0).rng();
        let mut span = || rng.random_range(0..=longest);
        let plan: Vec<Vec<_>> =
            (0..tasks).map(|_| (0..rounds).map(|_| (span(), span() / 4)).collect()).collect();
        let seen = visits(&setup(), plan.clone());
        prop_assert_eq!(&seen, &visits(&setup(), plan), "the same schedule");
        let mut all = seen.concat();
        prop_assert_eq!(all.len(), tasks * rounds);
        all.sort_by_key(|visit| visit.begin);
        for pair in all.windows(2) {
            prop_assert!(pair[0].end < pair[1].begin, "{:?}", pair);
        }
    }

    /// A queue of one place between tasks: each side waits for the other.
    #[test]
    fn a_condition_under_a_sleeping_mutex_loses_no_notification(
        seed: u64, pairs in 1..4_u64, items in 1..20_u64, longest in 1..12_000_u64,
    ) {
        let body = move || {
            let shared = Arc::new((Mutex::sleeping(&LOCK, None), Condvar::new()));
            let start = |n: u64| {
                let shared = Arc::clone(&shared);
                let mut rng = sim::seed().derive("pause", n).rng();
                sim::spawn(TaskSpec::named(format!("t{n}")).on_core(n as u16), move || {
                    let (place, changed) = &*shared;
                    let fills = n.is_multiple_of(2);
                    let mut taken = 0;
                    for item in 1..=items {
                        sim::medium(Nanos(rng.random_range(0..=longest)));
                        let mut guard = place.lock();
                        while guard.is_some() == fills {
                            guard = changed.wait(guard);
                        }
                        if fills {
                            *guard = Some(item);
                        } else {
                            taken += guard.take().unwrap_or(0);
                        }
                        drop(guard);
                        changed.notify_all();
                    }
                    taken
                })
            };
            let handles: Vec<_> = (0..2 * pairs).map(start).collect();
            handles.into_iter().map(sim::JoinHandle::join).sum::<u64>()
        };
        let taken = sim::run(&Setup { seed: Seed(seed), ..setup() }, body);
        prop_assert_eq!(taken.expect("no task waits for ever"), pairs * items * (items + 1) / 2);
    }
}

#[test]
fn a_deadlock_names_the_sleeping_locks_and_who_holds_them() {
    let body = || {
        let a = Arc::new(Mutex::sleeping(&LOCK, ()));
        let b = Arc::new(Mutex::sleeping(&OTHER, ()));
        let (a2, b2) = (Arc::clone(&a), Arc::clone(&b));
        let first = sim::spawn(TaskSpec::named("first"), move || {
            let _a = a.lock();
            sim::medium(Nanos(1_000));
            let _b = b.lock();
        });
        let second = sim::spawn(TaskSpec::named("second"), move || {
            let _b = b2.lock();
            sim::medium(Nanos(1_001));
            let _a = a2.lock();
        });
        first.join();
        second.join();
    };
    match sim::run(&setup(), body) {
        Err(RunError::Deadlock { waits, .. }) => assert_eq!(
            waits,
            "\"second\" waits for test.sleeping held by \"first\"; \
             \"first\" waits for test.other held by \"second\""
        ),
        other => panic!("{other:?}"),
    }
}

/// Counts how often it is dropped, under a sleeping lock.
struct Witness(Arc<Mutex<u32>>);

impl Drop for Witness {
    fn drop(&mut self) {
        *self.0.lock() += 1;
    }
}

#[test]
fn the_end_of_a_run_releases_the_lock_of_a_task_that_it_meets_in_a_release() {
    const TASKS: u32 = 8;
    for end in 0..40 {
        let dropped = Arc::new(Mutex::sleeping(&LOCK, 0));
        let shared = Arc::clone(&dropped);
        let body = move || {
            for n in 0..TASKS {
                let witness = Witness(Arc::clone(&shared));
                sim::spawn(TaskSpec::named(format!("t{n}")).on_core(n as u16), move || {
                    loop {
                        let guard = witness.0.lock();
                        sim::medium(Nanos(700));
                        drop(guard);
                        sim::medium(Nanos(900 * u64::from(n)));
                    }
                });
            }
            sim::sleep(Nanos(20_000 + 250 * end));
        };
        sim::run(&setup(), body).expect("main ends");
        assert_eq!(*dropped.lock(), TASKS, "an end at {end}");
    }
}
