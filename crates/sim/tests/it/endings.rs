//! How runs end: with a result, a panic, a deadlock, an endless loop; and what becomes of the tasks that are
//! left.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use sim::{
    Clock, Condvar, JoinHandle, LockClass, Machine, Mutex, Nanos, Op, RunError, RwLock, Seed, Setup, TaskSpec,
};

static A: LockClass = LockClass::new("test.a");
static B: LockClass = LockClass::new("test.b");
static C: LockClass = LockClass::of_lines("test.c", "a counter");

fn setup() -> Setup {
    Setup::virtual_clock(Machine::unit(), Seed(77))
}

fn named(name: &str) -> TaskSpec {
    TaskSpec::named(name)
}

/// The text of the error of a run that does not end well.
fn error_of<T: Send + 'static>(setup: &Setup, main: impl FnOnce() -> T + Send + 'static) -> String {
    sim::run(setup, main).err().expect("the run fails").to_string()
}

fn forever() {
    loop {
        sim::sleep(Nanos(1_000));
    }
}

/// Counts how often it is dropped, and takes a lock to do so.
struct Witness(Arc<Mutex<u32>>);

impl Drop for Witness {
    fn drop(&mut self) {
        *self.0.lock() += 1;
    }
}

#[test]
fn a_panic_is_reported_with_task_time_and_seed_under_both_clocks() {
    for clock in [Clock::Virtual, Clock::Real] {
        let setup = Setup { clock, ..setup() };
        let body = || {
            sim::spawn(named("flusher"), || {
                sim::medium(Nanos(1_234));
                panic!("block {} is lost", 7)
            })
            .join();
        };
        match sim::run(&setup, body) {
            Err(RunError::Panicked { task, time, seed, message }) => {
                assert_eq!(
                    (task.as_str(), seed, message.as_str()),
                    ("flusher", 77, "block 7 is lost"),
                    "{clock}"
                );
                assert!(time >= Nanos(1_234), "{clock}: {time}");
            }
            other => panic!("{clock}: {other:?}"),
        }
    }
}

#[test]
fn a_panic_of_main_is_reported() {
    assert_eq!(error_of(&setup(), || panic!("no")), "task \"main\" panicked at 0 ns (seed 77): no");
    let real = Setup { clock: Clock::Real, ..setup() };
    assert!(error_of(&real, || panic!("no")).starts_with("task \"main\" panicked at "));
}

#[test]
fn a_panic_that_is_never_joined_fails_a_real_run() {
    let real = Setup { clock: Clock::Real, ..setup() };
    let error = error_of(&real, || {
        let handle = sim::spawn(named("lost"), || panic!("unseen"));
        while !handle.is_finished() {
            std::thread::yield_now();
        }
    });
    assert!(error.contains("\"lost\" panicked"), "{error}");
}

#[test]
fn two_tasks_that_wait_for_each_others_locks_are_named_with_the_locks() {
    let error = error_of(&setup(), || {
        let (a, b) = (Arc::new(Mutex::new(&A, ())), Arc::new(Mutex::new(&B, ())));
        let (a2, b2) = (Arc::clone(&a), Arc::clone(&b));
        let first = sim::spawn(named("first"), move || {
            let _a = a.lock();
            sim::medium(Nanos(100));
            let _b = b.lock();
        });
        let second = sim::spawn(named("second"), move || {
            let _b = b2.lock();
            sim::medium(Nanos(100));
            let _a = a2.lock();
        });
        sim::spawn(named("clock").background(), forever);
        first.join();
        second.join();
    });
    assert_eq!(
        error,
        "deadlock at 101 ns (seed 77): \"second\" waits for test.a held by \"first\"; \
         \"first\" waits for test.b held by \"second\""
    );
}

#[test]
fn a_task_that_takes_a_lock_twice_is_a_deadlock() {
    let error = error_of(&setup(), || {
        let a = Mutex::new(&A, ());
        let _one = a.lock();
        let _two = a.lock();
    });
    assert!(error.ends_with("\"main\" waits for test.a held by \"main\""), "{error}");
}

#[test]
fn joining_a_task_that_waits_for_ones_own_lock_is_a_deadlock() {
    let error = error_of(&setup(), || {
        let a = Arc::new(Mutex::new(&A, ()));
        let shared = Arc::clone(&a);
        sim::spawn(named("clock").background(), forever);
        let child = sim::spawn(named("child"), move || drop(shared.lock()));
        let _guard = a.lock();
        child.join();
    });
    assert!(error.contains("\"child\" waits for test.a held by \"main\""), "{error}");
}

#[test]
fn a_lock_that_changed_hands_makes_no_false_cycle() {
    // "late" waits behind "early" for what "owner" held first; the owner then waits for what "late" holds.
    let result = sim::run(&setup(), || {
        let (a, b) = (Arc::new(Mutex::new(&A, ())), Arc::new(Mutex::new(&B, ())));
        let start = |name: &str, body: Box<dyn FnOnce() + Send>| sim::spawn(named(name), body);
        let (a1, a2, a3, b1, b3) = (a.clone(), a.clone(), a, b.clone(), b);
        let tasks = [
            start(
                "owner",
                Box::new(move || {
                    let guard = a1.lock();
                    sim::medium(Nanos(100));
                    drop(guard);
                    drop(b1.lock());
                }),
            ),
            start(
                "early",
                Box::new(move || {
                    sim::medium(Nanos(10));
                    let _a = a2.lock();
                    sim::medium(Nanos(1_000));
                }),
            ),
            start(
                "late",
                Box::new(move || {
                    let _b = b3.lock();
                    sim::medium(Nanos(20));
                    drop(a3.lock());
                }),
            ),
        ];
        tasks.into_iter().for_each(JoinHandle::join);
    });
    result.expect("no deadlock");
}

#[test]
fn a_run_in_which_nothing_is_ready_is_a_deadlock() {
    let error = error_of(&setup(), || {
        let lock = Arc::new(RwLock::new(&A, ()));
        let shared = Arc::clone(&lock);
        let (mutex, condvar) = (Mutex::new(&B, ()), Condvar::new());
        sim::spawn(named("writer"), move || drop(shared.write()));
        let _reading = lock.read();
        drop(condvar.wait(mutex.lock()));
    });
    assert!(
        error.contains("\"main\" waits for sim.condvar") && error.contains("\"writer\" waits for test.a"),
        "{error}"
    );
}

#[test]
fn background_tasks_alone_do_not_keep_a_run_going_for_ever() {
    let error = error_of(&setup(), || {
        sim::spawn(named("flusher").background(), || {
            loop {
                sim::sleep(Nanos::from_secs(5));
            }
        });
        let (mutex, condvar) = (Mutex::new(&B, ()), Condvar::new());
        drop(condvar.wait(mutex.lock()));
    });
    assert!(
        error.starts_with("deadlock at 36") && error.contains("\"main\" waits for sim.condvar"),
        "{error}"
    );
    assert!(!error.contains("flusher"), "{error}");
}

#[test]
fn waiting_long_for_a_background_task_is_no_deadlock() {
    let result = sim::run(&setup(), || {
        let pair = Arc::new((Mutex::new(&B, false), Condvar::new()));
        let shared = Arc::clone(&pair);
        sim::spawn(named("cleaner").background(), move || {
            (0..3_000).for_each(|_| sim::sleep(Nanos::from_secs(1)));
            *shared.0.lock() = true;
            shared.1.notify_all();
        });
        let mut done = pair.0.lock();
        while !*done {
            done = pair.1.wait(done);
        }
        sim::now()
    });
    assert!(result.expect("the cleaner comes") > Nanos::from_secs(3_000));
}

#[test]
fn a_run_ends_with_main_and_waits_for_no_background_task() {
    let result = sim::run(&setup(), || {
        sim::spawn(named("flusher").background(), forever);
        let condvar = Arc::new((Mutex::new(&B, ()), Condvar::new()));
        sim::spawn(named("idle").background(), move || drop(condvar.1.wait(condvar.0.lock())));
        sim::sleep(Nanos(5_500));
        sim::now()
    });
    assert_eq!(result.expect("main ends"), Nanos(5_500));
}

#[test]
fn an_endless_loop_that_charges_nothing_is_found_and_named() {
    const OP: Op = Op::new(1, "read");
    let interacting = error_of(&setup(), || {
        sim::medium(Nanos(42));
        loop {
            sim::interact();
        }
    });
    assert!(interacting.contains("endless loop at 42 ns: task \"main\""), "{interacting}");
    let operating = error_of(&setup(), || {
        while sim::now() < Nanos(1) {
            let _op = sim::op(OP);
        }
    });
    assert!(operating.contains("endless loop at 0 ns: task \"main\""), "{operating}");
}

#[test]
fn an_endless_loop_of_many_tasks_at_one_instant_is_an_error_and_not_an_abort_in_a_destructor() {
    for tasks in [1, 2, 8, 64] {
        let told = error_of(&setup(), move || {
            let count = Arc::new(Mutex::new(&A, 0));
            let all: Vec<JoinHandle<()>> = (0..tasks)
                .map(|task| {
                    let witness = Witness(Arc::clone(&count));
                    sim::spawn(named("idle"), move || {
                        let _witness = witness;
                        loop {
                            sim::interact();
                            if task % 2 == 1 {
                                sim::sleep(Nanos(0));
                            }
                        }
                    })
                })
                .collect();
            all.into_iter().for_each(JoinHandle::join);
        });
        assert!(told.contains("endless loop at"), "{tasks} tasks: {told}");
    }
}

#[test]
fn what_is_left_at_the_end_is_unwound_and_its_destructors_may_take_contended_locks() {
    let dropped = Arc::new(Mutex::new(&A, 0));
    let count = Arc::clone(&dropped);
    sim::run(&setup(), move || {
        for n in 0..10 {
            let witness = Witness(Arc::clone(&count));
            let shared = Arc::clone(&count);
            sim::spawn(named("left"), move || {
                let _witness = witness;
                match n % 5 {
                    0 => forever(),
                    1 => loop {
                        sim::work(sim::Work::STEP, 1);
                        sim::interact();
                    },
                    2 => loop {
                        let _guard = shared.lock(); // held, or waited for, at the end
                        sim::sleep(Nanos(300));
                    },
                    3 => loop {
                        drop(shared.lock());
                    },
                    _ => {
                        let condvar = Condvar::new();
                        let mutex = Mutex::new(&B, ());
                        let _guard = condvar.wait(mutex.lock());
                    }
                }
            });
        }
        sim::sleep(Nanos(10_000));
        sim::spawn(named("never started"), {
            let witness = Witness(Arc::clone(&count));
            move || drop(witness)
        });
    })
    .expect("main ends");
    assert_eq!(*dropped.lock(), 11);
}

#[test]
fn a_panic_unwinds_the_other_tasks_too() {
    let dropped = Arc::new(Mutex::new(&A, 0));
    let count = Arc::clone(&dropped);
    let error = error_of(&setup(), move || {
        for _ in 0..3 {
            let witness = Witness(Arc::clone(&count));
            sim::spawn(named("left"), move || {
                let _witness = witness;
                forever();
            });
        }
        let _mine = Witness(Arc::clone(&count));
        let _held = Witness(Arc::clone(&count));
        sim::sleep(Nanos(10));
        panic!("stop");
    });
    // The time is that at which the destructors are done.
    assert_eq!(error, "task \"main\" panicked at 12 ns (seed 77): stop");
    assert_eq!(*dropped.lock(), 5);
}

/// Stops its task and joins it, as the handle of a file system's background work does.
struct Service {
    stop: Arc<AtomicU32>,
    task: Option<JoinHandle<()>>,
}

impl Service {
    fn start() -> Self {
        let stop = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&stop);
        let task = sim::spawn(named("service").background(), move || {
            while seen.load(Relaxed) == 0 {
                sim::sleep(Nanos(100));
            }
        });
        Self { stop, task: Some(task) }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop.store(1, Relaxed);
        self.task.take().expect("joined once").join();
    }
}

#[test]
fn a_destructor_may_join_a_task_when_all_is_well() {
    let end = sim::run(&setup(), || {
        drop(Service::start());
        sim::now()
    });
    assert!(end.expect("main ends") < Nanos(300));
}

#[test]
fn a_panic_past_a_destructor_that_joins_is_still_reported() {
    let error = error_of(&setup(), || {
        let _service = Service::start();
        sim::sleep(Nanos(10));
        panic!("first");
    });
    assert!(
        error.contains("task \"main\" panicked") && error.contains("panic, and then a destructor"),
        "{error}"
    );
}

#[test]
fn a_handle_that_outlives_its_run_says_so() {
    let handle = sim::run(&setup(), || sim::spawn(named("left"), forever)).expect("main ends");
    let joined = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| handle.join()));
    let payload = joined.expect_err("there is no result");
    assert!(payload.downcast_ref::<&str>().is_some_and(|text| text.contains("its run ended")));
}

#[test]
fn locks_forget_the_times_of_an_earlier_run() {
    let world = Arc::new((Mutex::new(&A, ()), RwLock::new(&B, ()), sim::Server::new(2), sim::Line::new(&C)));
    let end_of_run = |world: &Arc<(Mutex<()>, RwLock<()>, sim::Server, sim::Line)>, sleep: Nanos| {
        let world = Arc::clone(world);
        let body = move || {
            sim::sleep(sleep);
            drop(world.0.lock());
            drop(world.1.write());
            drop(world.1.read());
            world.2.serve(Nanos(100));
            world.3.touch();
            sim::now() - sleep
        };
        sim::run(&setup(), body).expect("main ends")
    };
    let first = end_of_run(&world, Nanos::from_secs(100));
    assert_eq!(end_of_run(&world, Nanos(0)), first);
    drop(world.0.lock());
}

#[test]
fn a_run_inside_a_run_is_refused() {
    assert!(error_of(&setup(), || sim::run(&setup(), || ()).is_ok()).contains("a run inside a run"));
}

#[test]
fn a_lock_held_outside_the_run_is_reported() {
    let lock = Arc::new(Mutex::new(&A, ()));
    let _outside = lock.lock();
    let shared = Arc::clone(&lock);
    let error = error_of(&setup(), move || drop(shared.lock()));
    assert!(error.contains("lock test.a is held by something outside this run"), "{error}");
}
