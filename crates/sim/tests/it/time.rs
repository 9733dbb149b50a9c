//! Time passes as it is asked to: timers, running ahead, joins, cores.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sim::{Condvar, LockClass, Machine, Mutex, Nanos, Seed, Setup, TaskSpec, Work};

static LOCK: LockClass = LockClass::new("test.lock");
static LINE: LockClass = LockClass::of_lines("test.line", "a counter");

fn virtual_clock() -> Setup {
    let machine = Machine { work_ps: [0; Work::MAX], ..Machine::unit() };
    Setup::virtual_clock(machine, Seed(5))
}

fn run<T: Send + 'static>(setup: &Setup, main: impl FnOnce() -> T + Send + 'static) -> T {
    sim::run(setup, main).expect("the run ends")
}

/// A task that notes its number and time when it gets somewhere.
type Notes = Arc<Mutex<Vec<(u64, Nanos)>>>;

#[test]
fn sleepers_wake_in_the_order_of_time_and_on_time() {
    let notes = run(&virtual_clock(), || {
        let notes: Notes = Arc::new(Mutex::new(&LOCK, Vec::new()));
        let start = |n: u64| {
            let notes = Arc::clone(&notes);
            sim::spawn(TaskSpec::named("sleeper"), move || {
                sim::sleep(Nanos(1_000 - 10 * n));
                notes.lock().push((n, sim::now()));
                sim::sleep_until(Nanos(500)); // long past
                sim::sleep_until(Nanos(2_000 + n));
                notes.lock().push((n, sim::now()));
            })
        };
        (0..50).map(start).collect::<Vec<_>>().into_iter().for_each(sim::JoinHandle::join);
        notes.lock().clone()
    });
    let first = (0..50).rev().map(|n| (n, Nanos(1_000 - 10 * n)));
    assert_eq!(notes, first.chain((0..50).map(|n| (n, Nanos(2_000 + n)))).collect::<Vec<_>>());
}

#[test]
fn a_wait_ends_at_its_timeout_or_at_the_notification_whichever_comes_first() {
    let times = run(&virtual_clock(), || {
        let pair = Arc::new((Mutex::new(&LOCK, ()), Condvar::new()));
        let start = |timeout: u64| {
            let pair = Arc::clone(&pair);
            sim::spawn(TaskSpec::named("waiter"), move || {
                let (guard, notified) = pair.1.wait_timeout(pair.0.lock(), Nanos(timeout));
                drop(guard);
                (timeout, notified, sim::now())
            })
        };
        let waiters: Vec<_> = [300, 50, u64::MAX, 99].map(start).into_iter().collect();
        sim::medium(Nanos(100));
        // Those with 50 and 99 have gone, and must not swallow it: it is for the first of the others.
        pair.1.notify_one();
        sim::medium(Nanos(300));
        pair.1.notify_one();
        waiters.into_iter().map(sim::JoinHandle::join).collect::<Vec<_>>()
    });
    let expected = [(300, true, 100), (50, false, 50), (u64::MAX, true, 400), (99, false, 99)]
        .map(|(t, n, at)| (t, n, Nanos(at)));
    assert_eq!(times, expected);
}

/// The notifier has run ahead: its notification must not reach a waiter whose timeout ends before it.
#[test]
fn a_notification_from_ahead_comes_too_late_for_an_earlier_timeout() {
    let notified = run(&virtual_clock(), || {
        let pair = Arc::new((Mutex::new(&LOCK, ()), Condvar::new()));
        let shared = Arc::clone(&pair);
        let waiter = sim::spawn(TaskSpec::named("waiter"), move || {
            shared.1.wait_timeout(shared.0.lock(), Nanos(50)).1
        });
        sim::sleep(Nanos(1)); // the waiter waits
        sim::medium(Nanos(100)); // ahead
        pair.1.notify_all();
        waiter.join()
    });
    assert!(!notified);
}

#[test]
fn a_task_runs_ahead_on_private_work_up_to_the_limit_only() {
    let furthest_apart = |run_ahead: Nanos| {
        run(&Setup { run_ahead, ..virtual_clock() }, || {
            let steps = Arc::new(AtomicU64::new(0));
            let counted = Arc::clone(&steps);
            let other = sim::spawn(TaskSpec::named("other"), move || {
                for _ in 0..100 {
                    sim::medium(Nanos(10));
                    counted.fetch_add(1, Relaxed);
                }
            });
            sim::interact();
            sim::sleep(Nanos(5)); // the other begins
            let seen = steps.load(Relaxed);
            other.join();
            seen * 10
        })
    };
    // At 5 ns of main, the other is at most the limit and one step ahead.
    assert_eq!(furthest_apart(Nanos(0)), 0);
    assert_eq!(furthest_apart(Nanos(100)), 100);
    assert_eq!(furthest_apart(Nanos(1_000_000)), 1_000);
}

#[test]
fn joining_takes_until_the_task_has_ended_in_virtual_time() {
    let (joined, result) = run(&virtual_clock(), || {
        let child = sim::spawn(TaskSpec::named("child"), || {
            let grandchild = sim::spawn(TaskSpec::named("grandchild"), || {
                sim::medium(Nanos(700));
                sim::now()
            });
            sim::medium(Nanos(100));
            (sim::now(), grandchild.join())
        });
        sim::sleep(Nanos(50));
        let result = child.join();
        (sim::now(), result)
    });
    assert_eq!((joined, result), (Nanos(700), (Nanos(100), Nanos(700))));
}

#[test]
fn a_child_starts_at_the_time_of_its_parent() {
    let times = run(&virtual_clock(), || {
        sim::medium(Nanos(123));
        (sim::now(), sim::spawn(TaskSpec::named("child"), sim::now).join())
    });
    assert_eq!(times, (Nanos(123), Nanos(123)));
}

#[test]
fn many_short_lived_tasks_reuse_their_numbers() {
    let highest = run(&virtual_clock(), || {
        let mut highest = 0;
        for _ in 0..20_000 {
            let id = sim::spawn(TaskSpec::named("short"), || sim::task::current_id().expect("in a run"));
            highest = highest.max(id.join());
        }
        highest
    });
    assert_eq!(highest, 1);
}

#[test]
fn thousands_of_tasks_live_at_once() {
    let sum = run(&Setup { stack: sim::Bytes::kib(16), ..virtual_clock() }, || {
        let start = |n: u64| {
            sim::spawn(TaskSpec::named("t"), move || {
                sim::sleep(Nanos(10_000 - n));
                n
            })
        };
        let handles: Vec<_> = (0..3_000).map(start).collect();
        handles.into_iter().map(sim::JoinHandle::join).sum::<u64>()
    });
    assert_eq!(sum, 2_999 * 3_000 / 2);
}

#[test]
fn cores_wrap_around_the_machine() {
    // 80 cores: 81 is core 1, so its line is at home there.
    let mut machine = Machine::unit();
    machine.work_ps[Work::LINE_SAME_SOCKET.index()] = 1_000_000;
    let spans = run(&Setup::virtual_clock(machine, Seed(5)), || {
        let line = Arc::new(sim::Line::new(&LINE));
        [1, 81, 2].map(|core| {
            let line = Arc::clone(&line);
            let touch = move || {
                let start = sim::now();
                line.touch();
                sim::now() - start
            };
            sim::spawn(TaskSpec::named("t").on_core(core), touch).join()
        })
    });
    assert_eq!(spans, [Nanos(1), Nanos(1), Nanos(1_001)]);
}

#[test]
fn outside_a_run_the_clock_is_real_and_stands_at_zero() {
    assert_eq!((sim::clock(), sim::now(), sim::seed()), (sim::Clock::Real, Nanos(0), Seed(0)));
    let server = sim::Server::new(1);
    server.serve(Nanos(1_000_000_000));
    sim::medium(Nanos(1_000_000_000));
    sim::work(Work::SYSCALL, 1);
    assert_eq!(sim::spawn(TaskSpec::named("thread"), || 7).join(), 7);
}

#[test]
fn the_real_clock_waits_as_long_as_the_model_says() {
    let spans = run(&Setup::real_clock(Machine::unit(), Seed(1)), || {
        [200, 1_000, 20_000, 2_000_000].map(|ns| {
            let mut spans: Vec<u64> = (0..101)
                .map(|_| {
                    let start = std::time::Instant::now();
                    sim::medium(Nanos(ns));
                    start.elapsed().as_nanos() as u64
                })
                .collect();
            spans.sort_unstable();
            (ns, spans[20])
        })
    });
    for (asked, waited) in spans {
        // A busy host lengthens waits without limit; it never shortens them by more than the overshoot that
        // is taken off.
        assert!(waited + 300 >= asked, "{asked} ns took {waited} ns");
    }
}
