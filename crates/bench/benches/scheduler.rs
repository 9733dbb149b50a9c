//! What the façade costs on the host, in nanoseconds for one call.
//!
//! * `virtual/…`: a step of the scheduler and the primitives under the virtual clock. `interaction_80_tasks`
//!   is the figure that bounds how fast experiments run: every interaction of 80 tasks switches. The mutexes
//!   of 8 tasks, one for each, show what the release of the sleeping kind costs by being an interaction.
//! * `real/…`: the same calls under the real clock, beside what they stand for: one predictable branch more.
//!
//! CPU time of the thread: other load on the host would double wall time.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use rustix::time::{ClockId, clock_gettime};
use sim::{
    Activity, Clock, Line, LockClass, Machine, Mutex, Nanos, Op, RwLock, Scheduling, Seed, Server, Setup,
    TaskSpec, Work,
};

/// A scope that collects work.
const JOURNAL: Activity = Activity::new(8, "journal").with_work();

static CLASS: LockClass = LockClass::new("bench");
static LINE: LockClass = LockClass::of_lines("bench.line", "a counter");
const OP: Op = Op::new(1, "bench");

/// CPU time of this thread: a virtual run has only one.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// `tasks` tasks that each do `step` `rounds` times, advancing alike, so that nearly every interaction
/// switches.
fn together(tasks: u64, rounds: u64, step: impl Fn(u64) + Clone + Send + 'static) -> Duration {
    together_on(Machine::unit(), tasks, rounds, step)
}

/// The same on a machine of its own.
fn together_on(
    machine: Machine,
    tasks: u64,
    rounds: u64,
    step: impl Fn(u64) + Clone + Send + 'static,
) -> Duration {
    let setup = Setup::virtual_clock(machine, Seed(1));
    let elapsed = sim::run(&setup, move || {
        let handles: Vec<_> = (0..tasks)
            .map(|n| {
                let step = step.clone();
                sim::spawn(TaskSpec::named(format!("t{n}")).on_core(n as u16), move || {
                    for _ in 0..rounds {
                        step(n);
                    }
                })
            })
            .collect();
        // The first tasks touch their stacks when the first of them runs: outside what is measured they
        // cannot be.
        let start = cpu_time();
        handles.into_iter().for_each(sim::JoinHandle::join);
        cpu_time().saturating_sub(start)
    });
    elapsed.expect("the run ends")
}

/// One task that does `step` `rounds` times.
fn alone(clock: Clock, rounds: u64, step: impl Fn() + Send + 'static) -> Duration {
    let setup = Setup { clock, ..Setup::virtual_clock(Machine::unit(), Seed(1)) };
    let elapsed = sim::run(&setup, move || {
        let start = cpu_time();
        for _ in 0..rounds {
            step();
        }
        cpu_time().saturating_sub(start)
    });
    elapsed.expect("the run ends")
}

fn scheduling(c: &mut Criterion) {
    let mut group = c.benchmark_group("virtual");
    for tasks in [1, 2, 80] {
        group.bench_function(format!("interaction_{tasks}_tasks"), |b| {
            b.iter_custom(|n| {
                together(tasks, n.div_ceil(tasks), |n| {
                    sim::work(Work::STEP, 1 + n % 7);
                    sim::interact();
                })
            });
        });
    }
    // As on 80 cores of their own, but the run queues are looked at; and five to a core.
    for cores in [80, 16] {
        let sharing = move || Machine {
            sockets: 1,
            cores_per_socket: cores,
            scheduling: Some(Scheduling {
                latency: Nanos::from_millis(24),
                granularity: Nanos::from_millis(3),
                wakeup_granularity: Nanos::from_millis(4),
            }),
            ..Machine::unit()
        };
        group.bench_function(format!("interaction_80_tasks_with_queues_on_{cores}_cores"), |b| {
            b.iter_custom(|n| {
                together_on(sharing(), 80, n.div_ceil(80), |n| {
                    sim::work(Work::STEP, 1 + n % 7);
                    sim::interact();
                })
            });
        });
    }
    group.bench_function("spawn_and_join", |b| {
        b.iter_custom(|n| alone(Clock::Virtual, n, || sim::spawn(TaskSpec::named("child"), || ()).join()));
    });
    for (name, make) in [
        ("convoy_of_8_on_a_mutex", Mutex::new as fn(_, _) -> _),
        ("convoy_of_8_on_a_sleeping_mutex", Mutex::sleeping),
    ] {
        group.bench_function(name, |b| {
            b.iter_custom(|n| {
                let mutex = std::sync::Arc::new(make(&CLASS, 0_u64));
                together(8, n.div_ceil(8), move |_| {
                    let mut value = mutex.lock();
                    sim::work(Work::STEP, 10);
                    *value += 1;
                })
            });
        });
    }
    for (name, make) in [
        ("mutexes_of_8_tasks", Mutex::new as fn(_, _) -> _),
        ("sleeping_mutexes_of_8_tasks", Mutex::sleeping),
    ] {
        group.bench_function(name, |b| {
            b.iter_custom(|n| {
                let mutexes: [_; 8] = std::array::from_fn(|_| make(&CLASS, 0_u64));
                let mutexes = std::sync::Arc::new(mutexes);
                together(8, n.div_ceil(8), move |n| {
                    *mutexes[n as usize].lock() += 1;
                    sim::work(Work::STEP, 10);
                })
            });
        });
    }
    group.finish();
}

fn primitives(c: &mut Criterion, clock: Clock) {
    let mut group = c.benchmark_group(clock.to_string());
    let mut bench = |name: &str, step: fn(&Primitives)| {
        group.bench_function(name, |b| {
            b.iter_custom(|n| {
                let primitives = Primitives::default();
                alone(clock, n, move || step(black_box(&primitives)))
            });
        });
    };
    bench("nothing", |_| {});
    bench("work", |_| sim::work(Work::STEP, 1));
    bench("op", |_| {
        let _op = sim::op(OP);
        sim::work(Work::STEP, 1);
    });
    bench("scope", |_| drop(sim::scope(JOURNAL)));
    bench("copy_64", |_| sim::copy(64));
    bench("copy_4096", |_| sim::copy(4096));
    bench("mutex_lock_unlock", |p| *p.mutex.lock() += 1);
    bench("sleeping_mutex_lock_unlock", |p| *p.sleeping.lock() += 1);
    bench("bare_mutex_lock_unlock", |p| *p.bare.lock() += 1);
    bench("rwlock_read", |p| drop(black_box(p.rwlock.read())));
    bench("bare_rwlock_read", |p| drop(black_box(p.bare_rwlock.read())));
    bench("line_touch", |p| p.line.touch());
    bench("server_serve", |p| {
        p.server.serve(Nanos(1));
    });
    bench("atomic_fetch_add", |p| {
        p.atomic.fetch_add(1, Relaxed);
    });
    bench("bare_atomic_fetch_add", |p| {
        p.bare_atomic.fetch_add(1, Relaxed);
    });
    bench("core", |_| {
        black_box(sim::core());
    });
    bench("now", |_| {
        black_box(sim::now());
    });
    group.finish();
}

struct Primitives {
    mutex: Mutex<u64>,
    sleeping: Mutex<u64>,
    bare: parking_lot::Mutex<u64>,
    rwlock: RwLock<u64>,
    bare_rwlock: parking_lot::RwLock<u64>,
    line: Line,
    server: Server,
    atomic: sim::sync::AtomicU64,
    bare_atomic: AtomicU64,
}

impl Default for Primitives {
    fn default() -> Self {
        Self {
            mutex: Mutex::new(&CLASS, 0),
            sleeping: Mutex::sleeping(&CLASS, 0),
            bare: parking_lot::Mutex::new(0),
            rwlock: RwLock::new(&CLASS, 0),
            bare_rwlock: parking_lot::RwLock::new(0),
            line: Line::new(&LINE),
            server: Server::new(1),
            atomic: sim::sync::AtomicU64::new(0),
            bare_atomic: AtomicU64::new(0),
        }
    }
}

fn bench(c: &mut Criterion) {
    scheduling(c);
    primitives(c, Clock::Virtual);
    primitives(c, Clock::Real);
}

criterion_group!(benches, bench);
criterion_main!(benches);
