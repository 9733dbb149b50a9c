//! Every nanosecond of a task is booked once, on the right line.

use std::sync::Arc;

use proptest::prelude::*;
use rand::RngExt;
use sim::ledger::Snapshot;
use sim::{
    Activity, Condvar, Count, Line, LockClass, Machine, Mutex, Nanos, Op, Part, PartPrice, Recency, Rng,
    RwLock, Scheduling, Seed, Semaphore, Server, Setup, TaskSpec, Work,
};

static MUTEX: LockClass = LockClass::new("test.mutex");
static RWLOCK: LockClass = LockClass::new("test.rwlock");
static SEMAPHORE: LockClass = LockClass::new("test.semaphore");
static QUEUE: LockClass = LockClass::new("test.queue");
static LINE: LockClass = LockClass::of_lines("test.line", "a counter");
static FENCES: Count = Count::new("test.fences", "", "fences of the test");
const METADATA: Activity = Activity::new(7, "metadata");
const JOURNAL: Activity = Activity::new(8, "journal").with_work();
const STALL: Activity = Activity::new(9, "stall").with_waits();
const GENERATING: Activity = Activity::new(10, "generator");
const GENERATOR: Work = Work::new(24, "generator").booked_on(GENERATING);
const ACTIVITIES: [Activity; 11] = [
    Activity::SOFTWARE,
    Activity::COPY,
    Activity::DATA,
    Activity::MEDIUM_WAIT,
    Activity::LOCK_WAIT,
    Activity::SLEEP,
    Activity::CORE_WAIT,
    METADATA,
    JOURNAL,
    STALL,
    GENERATING,
];
const SCOPES: [Activity; 5] = [Activity::DATA, METADATA, JOURNAL, STALL, Activity::MEDIUM_WAIT];
const OPS: [Op; 3] = [Op::new(1, "read"), Op::new(2, "write"), Op::new(39, "fsync")];

fn run<T: Send + 'static>(setup: &Setup, main: impl FnOnce() -> T + Send + 'static) -> T {
    sim::run(setup, main).expect("the run ends")
}

fn virtual_clock() -> Setup {
    Setup::virtual_clock(Machine::unit(), Seed(3))
}

/// A machine with so many cores, which tasks share in slices of about as long as the steps of a task.
fn few_cores(cores: u16) -> Machine {
    let times = Scheduling { latency: Nanos(600), granularity: Nanos(75), wakeup_granularity: Nanos(100) };
    Machine { sockets: 1, cores_per_socket: cores, scheduling: Some(times), ..Machine::unit() }
}

fn sum_of_parts(snapshot: &Snapshot, op: Op) -> Nanos {
    snapshot.booked(op)
}

struct World {
    mutex: Mutex<()>,
    rwlock: RwLock<()>,
    semaphore: Semaphore,
    server: Server,
    line: Line,
    queue: (Mutex<u64>, Condvar),
}

/// Anything that takes time.
fn any_step(world: &World, rng: &mut Rng, depth: u32) {
    let span = Nanos(rng.random_range(0..100));
    let _scope = rng.random::<bool>().then(|| sim::scope(SCOPES[rng.random_range(0..SCOPES.len())]));
    match rng.random_range(0..14) {
        0 => sim::work(Work::OF_SIM[rng.random_range(0..Work::OF_SIM.len())], span.0),
        1 => sim::copy(span.0 * 50),
        2 => sim::medium(span),
        3 => sim::sleep(span),
        4 => sim::medium_until(METADATA, sim::now() + span),
        5 => world.server.serve(span),
        6 => world.line.touch(),
        7 if depth == 0 => {
            let _guard = world.mutex.lock();
            any_step(world, rng, 1);
        }
        8 if depth < 2 => {
            let _guard = world.rwlock.read();
            any_step(world, rng, 2);
        }
        9 if depth < 2 => {
            let _guard = world.rwlock.write();
            any_step(world, rng, 2);
        }
        10 if depth < 3 => {
            world.semaphore.acquire(1);
            any_step(world, rng, 3);
            world.semaphore.release(1);
        }
        11 => drop(world.mutex.try_lock()),
        12 => {
            let _ = world.queue.1.wait_timeout(world.queue.0.lock(), span);
        }
        13 => {
            world.queue.1.notify_one();
            world.queue.1.notify_all();
        }
        _ => drop(sim::spawn(TaskSpec::named("child"), move || sim::medium(span))),
    }
}

/// A task's work: operations with private time between them. Returns its ledger and how long it took.
fn task(world: &World, mut rng: Rng) -> (Snapshot, Nanos) {
    // It may have waited for its core already.
    let (before, start) = (Snapshot::of_task(), sim::now());
    for _ in 0..20 {
        let (kind, later) = (OPS[rng.random_range(0..3)], rng.random::<bool>());
        let op = rng.random::<bool>().then(|| sim::op(if later { Op::UNDECIDED } else { kind }));
        let inner = rng.random::<bool>().then(|| sim::op(OPS[rng.random_range(0..3)]));
        any_step(world, &mut rng, 0);
        drop(inner);
        if let Some(op) = &op {
            op.set_op(kind);
        }
        any_step(world, &mut rng, 0);
        drop(op);
    }
    (Snapshot::of_task().since(&before), sim::now() - start)
}

proptest! {
    #[test]
    fn the_parts_of_operations_sum_to_their_totals_and_all_to_the_life_of_the_task(
        seed: u64,
        tasks in 1..10_u64,
        shared_cores in prop::option::of(1..4_u16),
    ) {
        let machine = shared_cores.map_or_else(Machine::unit, few_cores);
        let tasks = run(&Setup { run_ahead: Nanos(200), machine, ..virtual_clock() }, move || {
            let world = Arc::new(World {
                mutex: Mutex::new(&MUTEX, ()),
                rwlock: RwLock::new(&RWLOCK, ()),
                semaphore: Semaphore::new(&SEMAPHORE, 2),
                server: Server::new(1),
                line: Line::new(&LINE),
                queue: (Mutex::new(&QUEUE, 0), Condvar::of_class(&QUEUE)),
            });
            let start = |n: u64| {
                let (world, rng) = (Arc::clone(&world), Seed(seed).derive("task", n).rng());
                sim::spawn(TaskSpec::named("t").on_core(n as u16), move || task(&world, rng))
            };
            let handles: Vec<_> = (0..tasks).map(start).collect();
            handles.into_iter().map(sim::JoinHandle::join).collect::<Vec<_>>()
        });
        for (ledger, life) in tasks {
            for op in OPS {
                prop_assert_eq!(sum_of_parts(&ledger, op), ledger.total(op));
            }
            let inside: Nanos = OPS.iter().map(|op| ledger.total(*op)).sum();
            prop_assert_eq!(inside + sum_of_parts(&ledger, Op::NONE), life);
            for op in OPS.into_iter().chain([Op::NONE]) {
                let by_name: Nanos = ledger.lock_waits(op).into_iter().map(|(_, wait)| wait).sum();
                let waits = ledger.time(op, Activity::LOCK_WAIT) + ledger.time(op, STALL);
                prop_assert!(by_name <= waits, "{} by name, {} in all", by_name, waits);
                let of_lines: Nanos = ledger.line_waits(op).into_iter().map(|(_, wait)| wait).sum();
                let all = ACTIVITIES.map(|activity| (ledger.named(op, activity), ledger.time(op, activity)));
                prop_assert!(all.iter().all(|(named, time)| named <= time), "{all:?}");
                prop_assert_eq!(all.iter().map(|(named, _)| *named).sum::<Nanos>(), by_name + of_lines);
            }
        }
    }
}

#[test]
fn cpu_work_in_the_scope_of_the_journal_is_journal_and_waits_in_that_of_a_stall_are_stalls() {
    let ledger = run(&virtual_clock(), || {
        let (lock, line) = (Mutex::new(&MUTEX, ()), Line::new(&LINE));
        {
            let _scope = sim::scope(JOURNAL);
            sim::work(Work::STEP, 10); // 10
            sim::copy(100); // 100
            sim::medium(Nanos(1_000)); // 1000
            drop(lock.lock()); // 1
            line.touch(); // 1
            sim::sleep(Nanos(7)); // sleep
        }
        sim::work(Work::STEP, 3);
        {
            let _scope = sim::scope(STALL);
            let _ = Condvar::of_class(&QUEUE).wait_timeout(lock.lock(), Nanos(500)); // lock twice: 2
            sim::sleep(Nanos(40));
        }
        sim::work(GENERATOR, 5);
        assert_eq!(sim::ledger::current_scope(), Activity::DATA);
        Snapshot::of_task()
    });
    let expected = [
        (JOURNAL, 1_112),
        (Activity::SLEEP, 7),
        (Activity::SOFTWARE, 3 + 2),
        (STALL, 540),
        (GENERATING, 5),
        (Activity::LOCK_WAIT, 0),
    ];
    for (activity, ns) in expected {
        assert_eq!(ledger.time(Op::NONE, activity), Nanos(ns), "{activity:?}");
    }
    assert_eq!(ledger.lock_waits(Op::NONE), [("test.queue", Nanos(500))]);
}

#[test]
fn a_wait_for_a_lock_is_booked_on_its_name_and_taking_it_is_software() {
    let ledger = run(&virtual_clock(), || {
        let lock = Arc::new(Mutex::new(&MUTEX, ()));
        let shared = Arc::clone(&lock);
        let waiter = sim::spawn(TaskSpec::named("waiter").on_core(1), move || {
            sim::medium(Nanos(10));
            let _op = sim::op(OPS[0]);
            drop(shared.lock());
            sim::now()
        });
        let guard = lock.lock(); // until 1
        sim::medium(Nanos(99));
        drop(guard); // at 100
        assert_eq!(waiter.join(), Nanos(102)); // the line's transfer, and the lock's own work
        Snapshot::of_run()
    });
    assert_eq!(ledger.lock_waits(OPS[0]), [("test.mutex", Nanos(90))]);
    assert_eq!(ledger.time(OPS[0], Activity::SOFTWARE), Nanos(2));
    assert_eq!(
        ledger.line_waits(OPS[0]),
        [("test.mutex", Nanos(1))],
        "the line of its word, which had been elsewhere"
    );
    assert_eq!((ledger.total(OPS[0]), ledger.calls(OPS[0])), (Nanos(92), 1));
}

#[test]
fn an_operation_decided_late_is_booked_whole_on_its_kind_with_its_lock_waits() {
    let ledger = run(&virtual_clock(), || {
        let lock = Arc::new(Mutex::new(&MUTEX, ()));
        let shared = Arc::clone(&lock);
        let waiter = sim::spawn(TaskSpec::named("waiter").on_core(1), move || {
            sim::medium(Nanos(10));
            let op = sim::op(Op::UNDECIDED);
            drop(shared.lock());
            let inner = sim::op(OPS[0]);
            inner.set_op(OPS[0]); // not its operation
            drop(inner);
            op.set_op(OPS[1]);
            op.set_op(OPS[2]); // too late
            sim::medium(Nanos(5));
            drop(op);
            assert_eq!([sim::ledger::calls(OPS[0]), sim::ledger::calls(OPS[1])], [0, 1]);
        });
        let guard = lock.lock(); // until 1
        sim::medium(Nanos(99));
        drop(guard); // at 100
        waiter.join();
        Snapshot::of_run()
    });
    assert_eq!(ledger.lock_waits(OPS[1]), [("test.mutex", Nanos(90))]);
    assert_eq!(ledger.line_waits(OPS[1]), [("test.mutex", Nanos(1))]);
    assert_eq!(ledger.named(OPS[1], Activity::SOFTWARE), Nanos(1));
    assert_eq!((ledger.total(OPS[1]), ledger.calls(OPS[1])), (Nanos(97), 1));
    assert_eq!(sum_of_parts(&ledger, OPS[1]), Nanos(97));
    assert_eq!((ledger.calls(OPS[0]), ledger.calls(OPS[2]), ledger.calls(Op::NONE)), (0, 0, 0));
}

#[test]
fn the_units_of_work_at_their_prices_are_the_time_of_cpu_work() {
    static PART: Part = Part::new("test.part");
    let mut machine = Machine::unit();
    let (locks, steps, misses) = (Work::LOCK.index(), Work::STEP.index(), Work::MISS.index());
    (machine.work_ps[locks], machine.work_ps[steps], machine.work_ps[misses]) = (14_000, 6_000, 80_000);
    let (before, ledger) = run(&Setup { machine, ..virtual_clock() }, || {
        let (lock, line, missed) = (Mutex::new(&MUTEX, ()), Line::new(&LINE), Recency::new());
        let before = Snapshot::of_task();
        let op = sim::op(Op::UNDECIDED); // its units move with it
        sim::work(Work::STEP, 3);
        {
            let _part = sim::part(&PART);
            drop(lock.lock());
            line.touch();
            missed.touch(2);
        }
        missed.touch(2); // in the cache now
        sim::copy(100);
        op.set_op(OPS[0]);
        sim::work(Work::STEP, 1);
        drop(op);
        (before, Snapshot::of_task())
    });
    let units = [Work::STEP, Work::LOCK, Work::MISS].map(|work| ledger.units(OPS[0], work));
    assert_eq!(units, [4, 2, 2]);
    assert_eq!(ledger.copied_bytes(OPS[0]), 100);
    assert_eq!(ledger.time(OPS[0], Activity::SOFTWARE), Nanos(4 * 6 + 2 * 14 + 2 * 80));
    assert_eq!(ledger.parts(OPS[0]), [("test.part", 1, Nanos(2 * 14 + 2 * 80))]);
    let window = ledger.since(&before);
    assert_eq!((window.units(OPS[0], Work::STEP), window.parts(OPS[0]).len()), (4, 1));
    assert!(ledger.since(&ledger).parts(OPS[0]).is_empty());
}

#[test]
fn a_part_costs_what_the_machine_says_that_its_original_takes_and_kinds_without_a_price_cost_nothing() {
    static PRICED: Part = Part::new("test.priced");
    static FREE: Part = Part::new("test.free");
    const OPTIONAL: Work = Work::new(47, "test_optional");
    let timed = |price: Option<u64>, optional_ps: u64| {
        let mut machine = Machine::unit();
        machine.parts =
            price.map(|ps| PartPrice { part: "test.priced".to_owned(), ps }).into_iter().collect();
        machine.work_ps[OPTIONAL.index()] = optional_ps;
        run(&Setup { machine, ..virtual_clock() }, || {
            let op = sim::op(OPS[0]);
            for _ in 0..3 {
                let _part = sim::part(&PRICED);
                let _inside = sim::part(&FREE);
                sim::priced(OPTIONAL, 2);
            }
            drop(op);
            Snapshot::of_task()
        })
    };
    let (with, without) = (timed(Some(450_000), 5_000), timed(None, 0));
    assert_eq!(with.total(OPS[0]), Nanos(3 * 450 + 3 * 10));
    assert_eq!(with.parts(OPS[0]), [("test.free", 3, Nanos(30)), ("test.priced", 3, Nanos(3 * 460))]);
    assert_eq!(with.units(OPS[0], OPTIONAL), 6);
    assert_eq!((without.total(OPS[0]), without.units(OPS[0], OPTIONAL)), (Nanos(0), 0));
}

/// What a task that was woken pays for its lock is counted by it, once.
#[test]
fn a_lock_that_is_handed_over_is_one_unit_of_the_task_that_gets_it() {
    let ledger = run(&virtual_clock(), || {
        let lock = Arc::new(Mutex::new(&MUTEX, ()));
        let shared = Arc::clone(&lock);
        let waiter = sim::spawn(TaskSpec::named("waiter").on_core(1), move || {
            sim::medium(Nanos(10));
            let _op = sim::op(OPS[0]);
            drop(shared.lock());
        });
        let guard = lock.lock();
        sim::medium(Nanos(99));
        drop(guard);
        waiter.join();
        Snapshot::of_run()
    });
    assert_eq!(ledger.units(OPS[0], Work::LOCK), 1);
}

#[test]
fn an_operation_that_a_window_begins_in_counts_with_its_part_of_the_window() {
    let (before, window) = run(&virtual_clock(), || {
        let work = || {
            let _op = sim::op(OPS[0]);
            sim::medium(Nanos(100));
            sim::interact();
            sim::medium(Nanos(60));
        };
        let task = sim::spawn(TaskSpec::named("worker").on_core(1), move || (0..3).for_each(|_| work()));
        sim::sleep(Nanos(250)); // the second operation is at 260, where it lets others go first
        let before = Snapshot::of_run();
        task.join();
        let window = Snapshot::of_run().since(&before);
        (before, window)
    });
    assert_eq!((before.calls(OPS[0]), before.total(OPS[0])), (1, Nanos(260)));
    assert_eq!((window.calls(OPS[0]), window.total(OPS[0])), (2, Nanos(220)));
    for ledger in [before, window] {
        assert_eq!(ledger.booked(OPS[0]), ledger.total(OPS[0]));
    }
}

#[test]
fn the_ledgers_of_ended_tasks_stay_in_the_sum() {
    let (sum, window) = run(&virtual_clock(), || {
        let work = |n: u64| {
            sim::spawn(TaskSpec::named("short"), move || {
                let _op = sim::op(OPS[1]);
                sim::medium(Nanos(n));
                sim::count(&FENCES, 2);
            })
        };
        (1..=100).map(work).for_each(sim::JoinHandle::join);
        let before = Snapshot::of_run();
        (1..=10).map(work).for_each(sim::JoinHandle::join);
        let after = Snapshot::of_run();
        (after.clone(), after.since(&before))
    });
    assert_eq!((sum.calls(OPS[1]), sum.total(OPS[1])), (110, Nanos(5050 + 55)));
    assert_eq!((window.calls(OPS[1]), window.total(OPS[1])), (10, Nanos(55)));
    assert_eq!((window.count_all(&FENCES), window.count(&FENCES, Activity::DATA)), (20, 20));
}

#[test]
fn under_the_real_clock_software_is_what_remains() {
    let ledger = run(&Setup::real_clock(Machine::unit(), Seed(1)), || {
        for _ in 0..100 {
            let _op = sim::op(OPS[2]);
            sim::medium(Nanos(20_000));
            std::hint::black_box((0..1_000_u64).fold(0, |sum, n| sum ^ std::hint::black_box(n)));
        }
        Snapshot::of_run()
    });
    assert_eq!(ledger.calls(OPS[2]), 100);
    assert!(ledger.time(OPS[2], Activity::DATA) >= Nanos(100 * 19_000), "{ledger:?}");
    assert!(ledger.time(OPS[2], Activity::SOFTWARE) > Nanos(0), "{ledger:?}");
    assert_eq!(sum_of_parts(&ledger, OPS[2]), ledger.total(OPS[2]));
}
