//! Atomics and lock-free code: what explored runs reach, what an ordinary run does, and which core a task is on.

use std::collections::BTreeSet;
use std::sync::Arc;

use sim::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Contended, Ordering::SeqCst, spin_loop};
use sim::{Clock, Interleaving, LockClass, Machine, Nanos, RunError, Schedule, Seed, Setup, TaskSpec, Work};

static COUNT: LockClass = LockClass::of_lines("test.count", "a counter");

fn setup(seed: u64) -> Setup {
    Setup::virtual_clock(Machine::unit(), Seed(seed))
}

/// Tasks on cores of their own that each run `body` with their number, joined.
fn together(tasks: u16, body: impl Fn(u16) + Clone + Send + 'static) {
    let start = |number: u16| {
        let body = body.clone();
        sim::spawn(TaskSpec::named(format!("t{number}")).on_core(number), move || body(number))
    };
    let tasks: Vec<_> = (0..tasks).map(start).collect();
    tasks.into_iter().for_each(sim::JoinHandle::join);
}

/// What a slot of a cache can be in the canary.
const EMPTY: u64 = 0;
const VALID: u64 = 1;
const GONE: u64 = 2;

/// A cached copy whose readers are counted in a word of their own: a seeded fault, since a reader can find the copy valid, and
/// count itself after the other task has found no reader and given the copy away. Between the two words each side does one
/// compare-and-swap. True when a reader used a copy that was gone.
macro_rules! reader_beside_an_invalidation {
    ($atomic:ty) => {
        || {
            let words: Arc<[$atomic; 3]> = Arc::new([VALID, 0, 0].map(<$atomic>::new));
            let shared = Arc::clone(&words);
            together(2, move |task| {
                let [state, readers, misused] = &*shared;
                if task == 0 {
                    if state.compare_exchange(VALID, VALID, SeqCst, SeqCst).is_ok() {
                        let seen = readers.load(SeqCst);
                        if readers.compare_exchange(seen, seen + 1, SeqCst, SeqCst).is_ok() {
                            misused.store(u64::from(state.load(SeqCst) == GONE), SeqCst);
                            readers.fetch_sub(1, SeqCst);
                        }
                    }
                } else if readers.compare_exchange(0, 0, SeqCst, SeqCst).is_ok()
                    && state.compare_exchange(VALID, EMPTY, SeqCst, SeqCst).is_ok()
                {
                    state.store(GONE, SeqCst);
                }
            });
            words[2].load(SeqCst) == 1
        }
    };
}

fn times_found(schedule: &Schedule, body: impl Fn() -> bool + Copy + Send + 'static) -> usize {
    (0..500).filter(|seed| sim::explore(&setup(*seed), schedule, body).0.unwrap()).count()
}

/// The canary: the fault needs a switch between two compare-and-swaps.
#[test]
fn a_race_between_two_compare_and_swaps_is_found_in_explored_runs_and_only_there() {
    let ours = reader_beside_an_invalidation!(AtomicU64);
    let plain = reader_beside_an_invalidation!(std::sync::atomic::AtomicU64);
    assert!((0..200).all(|seed| !sim::run(&setup(seed), ours).unwrap()), "an ordinary run has one order");
    let length = sim::explore(&setup(0), &Schedule::Directed(Vec::new()), ours).1.decisions;
    for schedule in [Schedule::Random, Schedule::Pct { depth: 2, length }] {
        let found = times_found(&schedule, ours);
        println!("{schedule:?}: {found} of 500");
        assert!(found >= 10, "{schedule:?}: {found} of 500");
        assert_eq!(times_found(&schedule, plain), 0, "std's atomics are no points");
    }
}

#[test]
fn the_switches_that_found_a_race_find_it_again() {
    let ours = reader_beside_an_invalidation!(AtomicU64);
    let explored = |seed, schedule: &Schedule| -> (Result<bool, RunError>, Interleaving) {
        sim::explore(&setup(seed), schedule, ours)
    };
    let (seed, switches) = (0..500)
        .map(|seed| (seed, explored(seed, &Schedule::Random)))
        .find_map(|(seed, (found, run))| found.unwrap().then_some((seed, run.switches)))
        .expect("found in 500 runs");
    assert!(explored(seed + 1, &Schedule::Directed(switches)).0.unwrap(), "seed {seed}");
}

#[test]
fn increments_in_two_accesses_are_lost_in_some_orders_and_those_in_one_in_none() {
    let count = |whole: bool| {
        move || {
            let count = Arc::new(AtomicU32::new(0));
            let shared = Arc::clone(&count);
            together(3, move |_| {
                if whole {
                    shared.fetch_update(SeqCst, SeqCst, |n| Some(n + 1)).unwrap();
                } else {
                    shared.store(shared.load(SeqCst) + 1, SeqCst);
                }
            });
            count.load(SeqCst)
        }
    };
    let ends = |whole| -> BTreeSet<u32> {
        (0..300).map(|seed| sim::explore(&setup(seed), &Schedule::Random, count(whole)).0.unwrap()).collect()
    };
    assert_eq!(ends(false), BTreeSet::from([1, 2, 3]));
    assert_eq!(ends(true), BTreeSet::from([3]));
}

/// A stack of three nodes that never leave it, pushed by compare-and-swap; links are numbers of nodes, from 1.
#[test]
fn a_pushed_node_is_never_lost_in_any_order() {
    let body = || {
        let stack = Arc::new((AtomicU32::new(0), [0; 3].map(AtomicU32::new)));
        let shared = Arc::clone(&stack);
        together(3, move |task| {
            let (head, next) = &*shared;
            loop {
                let seen = head.load(SeqCst);
                next[usize::from(task)].store(seen, SeqCst);
                if head.compare_exchange(seen, u32::from(task) + 1, SeqCst, SeqCst).is_ok() {
                    return;
                }
            }
        });
        let (head, next) = &*stack;
        let after = |node: &u32| Some(next[*node as usize - 1].load(SeqCst)).filter(|next| *next > 0);
        std::iter::successors(Some(head.load(SeqCst)), after).count()
    };
    for seed in 0..200 {
        assert_eq!(sim::explore(&setup(seed), &Schedule::Random, body).0.unwrap(), 3, "seed {seed}");
    }
}

#[test]
fn a_shared_pointer_is_replaced_by_one_task_only() {
    let body = || {
        let place = Arc::new(AtomicPtr::<u8>::default());
        let won = Arc::new(AtomicU32::new(0));
        let (shared, winners) = (Arc::clone(&place), Arc::clone(&won));
        together(2, move |task| {
            let mine = std::ptr::without_provenance_mut(usize::from(task) + 1);
            if shared.compare_exchange(std::ptr::null_mut(), mine, SeqCst, SeqCst).is_ok() {
                winners.fetch_add(1, SeqCst);
            }
        });
        assert!(!place.load(SeqCst).is_null());
        won.load(SeqCst)
    };
    assert!((0..50).all(|seed| sim::explore(&setup(seed), &Schedule::Random, body).0.unwrap() == 1));
}

#[test]
fn a_loop_that_waits_for_a_store_ends_when_it_comes_under_both_clocks_and_in_any_order() {
    let body = || {
        let flag = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&flag);
        let waiter = sim::spawn(TaskSpec::named("waiter").on_core(1), move || {
            while !shared.load(SeqCst) {
                spin_loop();
            }
            sim::now()
        });
        sim::sleep(Nanos(10_000));
        flag.store(true, SeqCst);
        waiter.join()
    };
    let end = sim::run(&setup(1), body).unwrap();
    assert!((Nanos(10_000)..Nanos(10_010)).contains(&end), "{end}");
    assert!(sim::run(&Setup { clock: Clock::Real, ..setup(1) }, body).unwrap() >= Nanos(10_000));
    for seed in 0..50 {
        for schedule in [Schedule::Random, Schedule::Pct { depth: 3, length: 100 }] {
            let (ended, run) = sim::explore(&setup(seed), &schedule, body);
            ended.unwrap();
            assert!(run.points < 2_000, "{run:?}");
        }
    }
}

#[test]
fn a_loop_that_waits_for_what_no_task_will_store_is_a_deadlock() {
    let error = sim::run(&setup(1), || {
        let never = AtomicBool::new(false);
        while !never.load(SeqCst) {
            spin_loop();
        }
    });
    let text = error.unwrap_err().to_string();
    assert!(text.contains("deadlock") && text.contains("\"main\" spins"), "{text}");
}

#[test]
fn updates_of_a_contended_word_pay_for_its_line_and_looks_do_not() {
    let mut machine = Machine { work_ps: [0; Work::MAX], ..Machine::unit() };
    machine.work_ps[Work::LOCK.index()] = 5_000;
    machine.work_ps[Work::LINE_SAME_SOCKET.index()] = 60_000;
    let end = sim::run(&Setup::virtual_clock(machine, Seed(1)), || {
        let count = Arc::new(Contended::new(&COUNT, AtomicU64::new(0)));
        let end = Arc::new(AtomicU64::new(0));
        let (shared, latest) = (Arc::clone(&count), Arc::clone(&end));
        together(4, move |_| {
            for _ in 0..100 {
                shared.touch().fetch_add(1, SeqCst);
                let _ = shared.peek().load(SeqCst);
            }
            latest.fetch_max(sim::now().0, SeqCst);
        });
        assert_eq!(count.peek().load(SeqCst), 400);
        Nanos(end.load(SeqCst))
    });
    assert_eq!(end.unwrap(), Nanos(400 * 65 - 60)); // the first update takes the line from no core
}

#[test]
fn a_task_knows_the_modelled_core_that_it_was_placed_on() {
    let cores = || {
        let start =
            |core: u16| sim::spawn(TaskSpec::named("t").on_core(core), sim::core as fn() -> u16).join();
        [0, 1, 39, 79, 80].map(start)
    };
    assert_eq!(sim::run(&setup(1), cores).unwrap(), [0, 1, 39, 79, 0]);
    assert_eq!(sim::explore(&setup(1), &Schedule::Random, cores).0.unwrap(), [0, 1, 39, 79, 0]);
}

/// As for the threads of a mount.
#[test]
fn a_thread_outside_a_run_or_under_the_real_clock_knows_the_cpu_that_it_runs_on() {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let look = || {
        let allowed = sched_getaffinity(None).unwrap();
        let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
        for cpu in cpus {
            let mut one = CpuSet::new();
            one.set(cpu);
            sched_setaffinity(None, &one).unwrap();
            assert_eq!(usize::from(sim::core()), cpu);
        }
        sched_setaffinity(None, &allowed).unwrap();
    };
    std::thread::spawn(look).join().unwrap();
    sim::run(&Setup { clock: Clock::Real, ..setup(1) }, look).unwrap();
}
