//! The lock that spreads its readers: it excludes as any such lock, and readers of one object do not wait for each other's lines.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sim::sync::{AtomicU32, Ordering};
use sim::{LockClass, Machine, Nanos, Schedule, Seed, Setup, SpreadReadGuard, SpreadRwLock, TaskSpec, Work};

static LOCK: LockClass = LockClass::new("test.spread");

const CORES: u16 = 4;

fn machine() -> Machine {
    let mut machine = Machine { sockets: 2, cores_per_socket: CORES / 2, ..Machine::unit() };
    for (work, ns) in [(Work::LOCK, 17), (Work::LINE_SAME_SOCKET, 51), (Work::LINE_CROSS_SOCKET, 165)] {
        machine.work_ps[work.index()] = ns * 1_000;
    }
    machine
}

/// A lock around two words that only belong together, with readers spread.
fn spread() -> Arc<SpreadRwLock<[AtomicU32; 2]>> {
    let lock = Arc::new(SpreadRwLock::new(&LOCK, [const { AtomicU32::new(0) }; 2]));
    for round in 0..40 {
        let lock = Arc::clone(&lock);
        let reader = TaskSpec::named("reader").on_core(round % CORES);
        sim::spawn(reader, move || drop(lock.read())).join();
    }
    lock
}

/// Two readers on cores of their own beside a writer, and a reader behind them; how often a reader saw a change half done.
fn torn() -> u64 {
    let (lock, torn) = (spread(), Arc::new(AtomicU64::new(0)));
    let tasks: Vec<_> = (0..3)
        .map(|number| {
            let (lock, torn) = (Arc::clone(&lock), Arc::clone(&torn));
            sim::spawn(TaskSpec::named("task").on_core(number), move || match number {
                0 => {
                    let words = lock.write();
                    words[0].store(1, Ordering::Relaxed);
                    words[1].store(1, Ordering::Relaxed);
                }
                _ => {
                    for _ in 0..2 {
                        let words = lock.read();
                        let seen = [words[0].load(Ordering::Relaxed), words[1].load(Ordering::Relaxed)];
                        torn.fetch_add(u64::from(seen[0] != seen[1]), Relaxed);
                    }
                }
            })
        })
        .collect();
    tasks.into_iter().for_each(sim::JoinHandle::join);
    torn.load(Relaxed)
}

#[test]
fn no_reader_is_in_with_a_writer_in_any_schedule() {
    for seed in 0..2000 {
        let schedule = if seed % 2 == 0 { Schedule::Random } else { Schedule::Pct { depth: 3, length: 400 } };
        let setup = Setup::virtual_clock(machine(), Seed(seed));
        let found = sim::explore(&setup, &schedule, torn).0.unwrap();
        assert_eq!(found, 0, "seed {seed}");
    }
}

/// What `reads` reads of a task on each core take when the readers are spread, in nanoseconds, the slowest task's.
fn time_of(reads: u32, body: fn(&SpreadRwLock<[AtomicU32; 2]>)) -> u64 {
    let setup = Setup::virtual_clock(machine(), Seed(1));
    sim::run(&setup, move || {
        let lock = spread();
        let start = sim::now();
        let tasks: Vec<_> = (0..CORES)
            .map(|core| {
                let lock = Arc::clone(&lock);
                sim::spawn(TaskSpec::named("task").on_core(core), move || {
                    let start = sim::now();
                    (0..reads).for_each(|_| body(&lock));
                    sim::now().since(start).0
                })
            })
            .collect();
        assert!(sim::now().since(start) <= Nanos(1_000_000));
        tasks.into_iter().map(sim::JoinHandle::join).max().unwrap_or(0)
    })
    .unwrap()
}

#[test]
fn spread_readers_take_one_lock_each_and_no_line_of_another_core() {
    let lock = machine().cost(Work::LOCK, 1).0;
    assert_eq!(time_of(100, |lock| drop(lock.read())), 100 * lock);
}

#[test]
fn a_count_on_the_lock_s_line_is_still_taken_from_core_to_core() {
    let lock = machine().cost(Work::LOCK, 1).0;
    let touching = time_of(100, |lock| SpreadReadGuard::touch(&lock.read()));
    assert!(touching > 100 * 2 * lock, "{touching} ns");
}

#[test]
fn readers_meet_again_after_a_change() {
    let setup = Setup::virtual_clock(machine(), Seed(1));
    let lock = machine().cost(Work::LOCK, 1).0;
    let took = sim::run(&setup, || {
        let lock = spread();
        drop(lock.write());
        let read = |core| {
            let lock = Arc::clone(&lock);
            let task = move || {
                let start = sim::now();
                drop(lock.read());
                sim::now().since(start).0
            };
            sim::spawn(TaskSpec::named("reader").on_core(core), task).join()
        };
        read(0);
        read(CORES - 1)
    });
    assert!(took.unwrap() > lock, "the line comes from the core that read before");
}
