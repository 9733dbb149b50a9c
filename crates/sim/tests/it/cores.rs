//! Cores as a resource, against closed forms: who shares a core gets its part of it, and all of them no more than it has.

use std::sync::Arc;

use rand::RngExt;
use sim::{
    Activity, Condvar, LockClass, Machine, Mutex, Nanos, Op, RwLock, Scheduling, Seed, Semaphore, Setup,
    TaskSpec, Work, ledger::Snapshot,
};

static LOCK: LockClass = LockClass::new("test.lock");

const MS: u64 = 1_000_000;
const POLICY: Scheduling = Scheduling {
    latency: Nanos::from_millis(6),
    granularity: Nanos(750_000),
    wakeup_granularity: Nanos::from_millis(1),
};

/// One socket of `cores` cores on which a step takes 1 ns and nothing else takes time.
fn machine(cores: u16) -> Machine {
    let mut machine = Machine { work_ps: [0; Work::MAX], ..Machine::unit() };
    machine.work_ps[Work::STEP.index()] = 1_000;
    Machine { sockets: 1, cores_per_socket: cores, scheduling: Some(POLICY), ..machine }
}

fn run<T: Send + 'static>(machine: Machine, main: impl FnOnce() -> T + Send + 'static) -> T {
    sim::run(&Setup::virtual_clock(machine, Seed(7)), main).expect("the run ends")
}

/// CPU work of `total` ns in pieces of `piece`.
fn compute(total: u64, piece: u64) {
    for _ in 0..total / piece {
        sim::work(Work::STEP, piece);
        sim::interact();
    }
}

/// When each of `specs` ends that computes for `total` ns.
fn ends(specs: Vec<TaskSpec>, total: u64, piece: u64) -> Vec<u64> {
    let start = |spec| {
        sim::spawn(spec, move || {
            compute(total, piece);
            sim::now().0
        })
    };
    let tasks: Vec<_> = specs.into_iter().map(start).collect();
    tasks.into_iter().map(sim::JoinHandle::join).collect()
}

fn within(value: u64, expected: u64, tolerance: f64, what: &str) {
    let off = (value as f64 / expected as f64 - 1.0).abs();
    assert!(off <= tolerance, "{what}: {value} is {:.2} % off {expected}", off * 100.0);
}

#[test]
fn tasks_on_one_core_share_it_and_end_together() {
    for piece in [10_000, 50 * MS] {
        for n in [1, 2, 3, 8] {
            let specs = (0..n).map(|n| TaskSpec::named(format!("t{n}")).on_core(1)).collect();
            let ends = run(machine(2), move || ends(specs, 100 * MS, piece));
            let (first, last) = (*ends.iter().min().unwrap(), *ends.iter().max().unwrap());
            assert_eq!(last, n * 100 * MS, "{n} tasks, pieces of {piece}: the core is never idle");
            assert!(last - first <= n * 6 * MS, "{n} tasks, pieces of {piece}: {ends:?}");
        }
    }
}

#[test]
fn without_a_policy_each_task_has_the_core_to_itself() {
    let specs = (0..5).map(|n| TaskSpec::named(format!("t{n}"))).collect();
    let ends = run(Machine { scheduling: None, ..machine(1) }, move || ends(specs, 10 * MS, 10_000));
    assert_eq!(ends, [10 * MS; 5]);
}

/// The worker's time for `total`, beside a flusher on core `flusher` that computes for `busy` in each `period`.
fn beside_a_flusher(flusher: u16, busy: u64, period: u64, total: u64) -> u64 {
    run(machine(2), move || {
        let spec = TaskSpec::named("flusher").on_core(flusher).background();
        sim::spawn(spec, move || {
            for turn in 1_u64.. {
                compute(busy, busy.min(10_000));
                sim::sleep_until(Nanos(turn * period));
            }
        });
        ends(vec![TaskSpec::named("worker").on_core(0)], total, 10_000)[0]
    })
}

#[test]
fn a_flusher_on_a_workers_core_costs_the_worker_what_it_uses() {
    let total = 1_000 * MS;
    assert_eq!(beside_a_flusher(1, MS, 10 * MS, total), total, "on another core it costs nothing");
    for (busy, period) in [(MS, 10 * MS), (MS, 4 * MS), (10_000, 100_000)] {
        let left = 1.0 - busy as f64 / period as f64;
        let what = format!("{busy} of {period}");
        within(beside_a_flusher(0, busy, period, total), (total as f64 / left) as u64, 0.01, &what);
    }
}

#[test]
fn a_flusher_that_is_always_busy_halves_a_worker() {
    within(beside_a_flusher(0, 50 * MS, 1, 1_000 * MS), 2_000 * MS, 0.01, "always busy");
}

#[test]
fn a_hundred_tasks_on_twelve_cores_get_what_twelve_cores_give() {
    const TOTAL: u64 = 100 * MS;
    let specs = |movable: bool| -> Vec<TaskSpec> {
        let spec = |n: u16| TaskSpec::named(format!("t{n}")).on_core(n);
        (0..100).map(|n| if movable { spec(n).movable() } else { spec(n) }).collect()
    };
    let pinned = run(machine(12), move || ends(specs(false), TOTAL, 20_000));
    assert_eq!(*pinned.iter().max().unwrap(), 9 * TOTAL, "nine of them are on each of the first four cores");
    let moved = run(machine(12), move || ends(specs(true), TOTAL, 20_000));
    within(*moved.iter().max().unwrap(), TOTAL * 100 / 12, 0.06, "movable");
}

/// One socket of `cores` cores of two hardware threads, which do 1.25 times the work of one.
fn threaded(cores: u16) -> Machine {
    Machine { two_threads_per_mille: Some(1_250), ..machine(cores) }
}

#[test]
fn two_hardware_threads_do_what_the_machine_says_and_two_cores_do_twice() {
    let on = |cores: [u16; 2]| cores.map(|core| TaskSpec::named("t").on_core(core)).to_vec();
    // Processors 0 and 2 are the threads of core 0: 200 ms of work at 1.25 of a core.
    let shared = run(threaded(2), move || ends(on([0, 2]), 100 * MS, 10_000));
    for end in &shared {
        within(*end, 160 * MS, 0.001, "siblings");
    }
    assert_eq!(run(threaded(2), move || ends(on([0, 1]), 100 * MS, 10_000)), [100 * MS; 2]);
}

#[test]
fn a_hardware_thread_is_slowed_only_while_its_sibling_works() {
    let (short, long) = run(threaded(1), || {
        let short = sim::spawn(TaskSpec::named("short").on_core(1), || {
            compute(50 * MS, 10_000);
            sim::now().0
        });
        let long = ends(vec![TaskSpec::named("long").on_core(0)], 100 * MS, 10_000)[0];
        (short.join(), long)
    });
    within(short, 80 * MS, 0.001, "the short one beside the long one");
    within(long, 130 * MS, 0.001, "50 ms in 80, and 50 alone");
}

#[test]
fn a_flusher_on_the_sibling_slows_a_worker_by_what_the_pair_loses() {
    let end = run(threaded(1), || {
        let spec = TaskSpec::named("flusher").on_core(1).background();
        sim::spawn(spec, || {
            loop {
                compute(MS, 10_000);
            }
        });
        ends(vec![TaskSpec::named("worker").on_core(0)], 100 * MS, 10_000)[0]
    });
    within(end, 160 * MS, 0.001, "beside a flusher");
}

#[test]
fn a_hundred_tasks_on_six_cores_of_two_threads_get_what_these_give() {
    const TOTAL: u64 = 100 * MS;
    let specs = || (0..100).map(|n| TaskSpec::named(format!("t{n}")).on_core(n).movable()).collect();
    let ends = run(threaded(6), move || ends(specs(), TOTAL, 20_000));
    within(*ends.iter().max().unwrap(), TOTAL * 100 * 100 / (6 * 125), 0.06, "six cores at 1.25");
}

#[test]
fn a_movable_task_prefers_a_core_of_which_both_threads_are_free() {
    let places = run(threaded(3), || {
        let hog = |core: u16| sim::spawn(TaskSpec::named("hog").on_core(core), || compute(50 * MS, 10_000));
        let hogs = [hog(0), hog(1)];
        let place = || {
            let start = |_| {
                sim::spawn(TaskSpec::named("moves").on_core(0).movable(), || {
                    compute(MS, 10_000);
                    sim::core()
                })
            };
            let tasks: Vec<_> = (0..2).map(start).collect();
            tasks.into_iter().map(sim::JoinHandle::join).collect::<Vec<_>>()
        };
        let places = place();
        hogs.into_iter().for_each(sim::JoinHandle::join);
        places
    });
    assert_eq!(places, [2, 3], "core 2 is idle; then the sibling of core 0 is the first that is free");
}

#[test]
fn a_task_that_wakes_on_the_core_of_one_that_runs_for_long_preempts_it_at_once() {
    let (woken, end) = run(machine(1), || {
        let sleeper = sim::spawn(TaskSpec::named("sleeper"), || {
            sim::sleep(Nanos(100 * MS));
            compute(MS, MS);
            sim::now().0
        });
        let hog = ends(vec![TaskSpec::named("hog")], 1_000 * MS, 1_000 * MS)[0];
        (sleeper.join(), hog)
    });
    assert_eq!((woken, end), (101 * MS, 1_001 * MS));
}

#[test]
fn a_task_that_has_run_as_long_waits_for_the_end_of_the_slice() {
    let woken = run(machine(1), || {
        let both = ["one", "other"].map(|name| {
            sim::spawn(TaskSpec::named(name), || {
                compute(60 * MS, 10_000);
                sim::sleep(Nanos(1_000));
                let woken = sim::now().0;
                compute(10 * MS, 10_000);
                woken
            })
        });
        both.map(sim::JoinHandle::join)
    });
    // The first wakes while the other has run as long but for one slice.
    assert!(woken[0] > 117 * MS + 1_000 && woken[0] < 121 * MS, "{woken:?}");
}

/// What others have seen stays: a lock released at a time is not held longer because the holder was preempted before it.
#[test]
fn a_preempted_task_keeps_its_locks_and_loses_none_of_its_work() {
    let (counted, snapshot, end) = run(machine(2), || {
        let count = Arc::new(Mutex::new(&LOCK, 0_u64));
        let shared = Arc::clone(&count);
        let start = |n: u16| {
            let count = Arc::clone(&shared);
            sim::spawn(TaskSpec::named(format!("t{n}")).on_core(n), move || {
                for _ in 0..200 {
                    let mut value = count.lock();
                    let before = *value;
                    sim::work(Work::STEP, 50_000);
                    sim::interact();
                    *value = before + 1;
                    drop(value);
                    sim::work(Work::STEP, 150_000);
                }
            })
        };
        let tasks: Vec<_> = (0..6).map(start).collect();
        tasks.into_iter().for_each(sim::JoinHandle::join);
        let counted = *count.lock();
        (counted, Snapshot::of_run(), sim::now().0)
    });
    assert_eq!(counted, 1_200);
    let software = snapshot.time(sim::Op::NONE, Activity::SOFTWARE).0;
    assert_eq!(software, 1_200 * 200_000, "each task has done its work once");
    assert!(software <= 2 * end, "two cores have no more than twice the time: {software} in {end}");
    assert!(snapshot.time(sim::Op::NONE, Activity::CORE_WAIT).0 > 0);
}

/// Tasks that compute, sleep, lock and move at random; the ends of all, and the sum of what they computed.
fn at_random(seed: u64, cores: u16) -> (Vec<u64>, u64, u64) {
    let body = move || {
        let locks: Arc<[Mutex<u64>; 3]> = Arc::new([0; 3].map(|zero| Mutex::new(&LOCK, zero)));
        let changed = Arc::new(Condvar::new());
        let tasks: Vec<_> = (0..20_u16)
            .map(|n| {
                let (locks, changed) = (Arc::clone(&locks), Arc::clone(&changed));
                let spec = TaskSpec::named(format!("t{n}")).on_core(n);
                let mut rng = sim::seed().derive("task", u64::from(n)).rng();
                sim::spawn(if n % 3 == 0 { spec.movable() } else { spec }, move || {
                    for _ in 0..100 {
                        match rng.random_range(0..6) {
                            4 => {
                                let timeout = Nanos(rng.random_range(1..MS));
                                drop(changed.wait_timeout(locks[0].lock(), timeout));
                            }
                            5 => changed.notify_all(),
                            0 => sim::sleep(Nanos(rng.random_range(0..3 * MS))),
                            1 => {
                                let mut value = locks[rng.random_range(0..3)].lock();
                                sim::work(Work::STEP, rng.random_range(0..100_000));
                                *value += 1;
                            }
                            _ => compute(rng.random_range(1..5 * MS), 200_000),
                        }
                    }
                    sim::now().0
                })
            })
            .collect();
        let ends: Vec<u64> = tasks.into_iter().map(sim::JoinHandle::join).collect();
        (ends, Snapshot::of_run().time(sim::Op::NONE, Activity::SOFTWARE).0, sim::now().0)
    };
    sim::run(&Setup::virtual_clock(machine(cores), Seed(seed)), body).expect("the run ends")
}

#[test]
fn random_tasks_never_use_more_than_the_cores_have_and_repeat_from_their_seed() {
    for seed in 0..20 {
        let cores = 1 + seed as u16 % 5;
        let (ends, computed, end) = at_random(seed, cores);
        assert!(computed <= u64::from(cores) * end, "seed {seed}: {computed} ns in {end} on {cores} cores");
        assert_eq!(at_random(seed, cores), (ends, computed, end), "seed {seed}");
    }
}

#[test]
fn a_movable_task_wakes_on_a_free_core_of_its_socket_first() {
    let cores = run(Machine { sockets: 2, cores_per_socket: 2, ..machine(2) }, || {
        let hog = |core: u16| sim::spawn(TaskSpec::named("hog").on_core(core), || compute(50 * MS, 10_000));
        let mut hogs = vec![hog(2)];
        let waker = sim::spawn(TaskSpec::named("moves").on_core(2).movable(), || {
            let mut cores = Vec::new();
            for _ in 0..3 {
                compute(MS, 10_000);
                cores.push(sim::core());
                sim::sleep(Nanos(5 * MS));
            }
            cores
        });
        sim::sleep(Nanos(3 * MS));
        hogs.push(hog(3));
        let cores = waker.join();
        hogs.into_iter().for_each(sim::JoinHandle::join);
        cores
    });
    assert_eq!(cores, [3, 0, 0], "core 2 is taken from the start, core 3 from 3 ms on");
}

#[test]
fn a_movable_task_that_is_preempted_goes_to_a_free_core() {
    let (moved, bound) = run(machine(2), || {
        let spec = |name: &str| TaskSpec::named(name).on_core(1);
        let ends_at = |spec: TaskSpec| {
            let task = sim::spawn(spec, || {
                compute(50 * MS, 10_000);
                (sim::now().0, sim::core())
            });
            let hog = sim::spawn(TaskSpec::named("hog").on_core(1), || compute(50 * MS, 10_000));
            let end = task.join();
            hog.join();
            end
        };
        let start = sim::now().0;
        let (moved, core) = ends_at(spec("moves").movable());
        assert_eq!(core, 0, "main waits, so core 0 is free");
        let second = sim::now().0;
        (moved - start, ends_at(spec("bound")).0 - second)
    });
    within(moved, 50 * MS, 0.01, "it is preempted once, and goes on elsewhere");
    assert!(bound > 90 * MS, "{bound}: a bound one shares the core to the end");
}

#[test]
fn a_task_that_spins_for_one_behind_it_on_its_core_lets_it_run() {
    use sim::sync::{AtomicBool, Ordering::SeqCst, spin_loop};
    let end = run(machine(1), || {
        let flag = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&flag);
        let setter = sim::spawn(TaskSpec::named("setter"), move || {
            compute(MS, 10_000);
            shared.store(true, SeqCst);
        });
        while !flag.load(SeqCst) {
            spin_loop();
        }
        setter.join();
        sim::now().0
    });
    assert!((4 * MS..20 * MS).contains(&end), "{end}: a slice of spinning, then the setter");
}

/// Destructors of a panicking task may sleep: nothing else runs in the middle of the panic, and it is the panic that is told.
#[test]
fn a_panic_on_a_shared_core_ends_the_run_with_its_own_message() {
    struct Sleeps;
    impl Drop for Sleeps {
        fn drop(&mut self) {
            sim::sleep(Nanos(10 * MS));
        }
    }
    let error = sim::run(&Setup::virtual_clock(machine(1), Seed(7)), || {
        let others: Vec<_> = (0..3)
            .map(|n| sim::spawn(TaskSpec::named(format!("t{n}")), || compute(50 * MS, 10_000)))
            .collect();
        let fails = sim::spawn(TaskSpec::named("fails"), || {
            let _sleeps = Sleeps;
            compute(20 * MS, 10_000);
            panic!("on purpose");
        });
        others.into_iter().for_each(sim::JoinHandle::join);
        fails.join();
    });
    let text = error.unwrap_err().to_string();
    assert!(text.contains("\"fails\" panicked") && text.contains("on purpose"), "{text}");
}

/// What a task on core 1 waits for, and what ends that wait 10 µs later.
struct Case {
    name: &'static str,
    begin: fn(&Things),
    end: fn(&Things),
}

struct Things {
    mutex: Mutex<()>,
    sleeping: Mutex<()>,
    rwlock: RwLock<()>,
    semaphore: Semaphore,
    gate: (Mutex<bool>, Condvar),
}

const WAITS: [Case; 5] = [
    Case { name: "mutex", begin: |things| drop(things.mutex.lock()), end: |_| () },
    Case { name: "sleeping mutex", begin: |things| drop(things.sleeping.lock()), end: |_| () },
    Case { name: "rwlock", begin: |things| drop(things.rwlock.read()), end: |_| () },
    Case {
        name: "semaphore",
        begin: |things| things.semaphore.acquire(1),
        end: |things| things.semaphore.release(1),
    },
    Case {
        name: "condition",
        begin: |things| {
            let mut open = things.gate.0.lock();
            while !*open {
                open = things.gate.1.wait(open);
            }
        },
        end: |things| {
            *things.gate.0.lock() = true;
            things.gate.1.notify_all();
        },
    },
];

/// The ledger of an operation on core 1 that waits, while another task takes its core for `busy` ns.
fn wait_without_a_core(wait: &'static Case, busy: u64) -> Snapshot {
    const WAITING: Op = Op::new(1, "wait");
    run(machine(2), move || {
        let things = Arc::new(Things {
            mutex: Mutex::new(&LOCK, ()),
            sleeping: Mutex::sleeping(&LOCK, ()),
            rwlock: RwLock::new(&LOCK, ()),
            semaphore: Semaphore::new(&LOCK, 0),
            gate: (Mutex::new(&LOCK, false), Condvar::of_class(&LOCK)),
        });
        let held = (things.mutex.lock(), things.sleeping.lock(), things.rwlock.write());
        let shared = Arc::clone(&things);
        let waiter = sim::spawn(TaskSpec::named("waiter").on_core(1), move || {
            let _op = sim::op(WAITING);
            (wait.begin)(&shared);
        });
        let other = sim::spawn(TaskSpec::named("other").on_core(1), move || {
            sim::sleep(Nanos(1_000));
            compute(busy, 1_000);
        });
        sim::sleep(Nanos(10_000));
        drop(held);
        (wait.end)(&things);
        waiter.join();
        other.join();
        let ledger = Snapshot::of_run();
        assert_eq!(ledger.calls(WAITING), 1);
        let parts = [Activity::LOCK_WAIT, Activity::CORE_WAIT].map(|part| ledger.time(WAITING, part).0);
        let (name, total) = (wait.name, ledger.total(WAITING).0);
        assert_eq!(ledger.booked(WAITING).0, total, "{name}: {parts:?} of {total}");
        assert_eq!(ledger.lock_waits(WAITING), [("test.lock", Nanos(parts[0]))], "{name}");
        ledger
    })
}

#[test]
fn a_wait_for_a_core_inside_a_wait_for_a_lock_is_booked_once() {
    for wait in &WAITS {
        let (alone, crowded) = (wait_without_a_core(wait, 1_000), wait_without_a_core(wait, 400_000));
        let lock_wait = |ledger: &Snapshot| ledger.time(Op::new(1, "wait"), Activity::LOCK_WAIT);
        assert_eq!(lock_wait(&alone), lock_wait(&crowded), "{}", wait.name);
        assert!(crowded.time(Op::new(1, "wait"), Activity::CORE_WAIT).0 > 100_000, "{}", wait.name);
    }
}
