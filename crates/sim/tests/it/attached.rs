//! Host threads that a run has not started, and that join it.

use std::sync::mpsc;

use sim::{Clock, Handle, LockClass, Machine, Mutex, Nanos, Seed, Setup, TaskSpec};

static LOCK: LockClass = LockClass::new("test.attached");

#[test]
fn a_foreign_thread_has_the_clock_of_the_run_while_it_is_attached() {
    let setup = Setup::real_clock(Machine::unit(), Seed(1));
    let times = sim::run(&setup, || {
        let handle = Handle::current().expect("a real run");
        sim::sleep(Nanos::from_millis(2));
        let before = sim::now();
        let thread = std::thread::spawn(move || {
            assert_eq!(sim::now(), Nanos::ZERO, "a stranger");
            let attached = handle.attach(TaskSpec::named("guest"));
            let inside = sim::now();
            drop(attached);
            (inside, sim::now())
        });
        let (inside, left) = thread.join().expect("it ends");
        assert_eq!(left, Nanos::ZERO, "a stranger again");
        (before, inside, sim::now())
    });
    let (before, inside, after) = times.expect("the run ends");
    assert!(before <= inside && inside <= after, "{before} {inside} {after}");
}

#[test]
fn attached_threads_and_tasks_wait_for_each_other_s_locks() {
    let setup = Setup::real_clock(Machine::unit(), Seed(1));
    let sum = sim::run(&setup, || {
        let handle = Handle::current().expect("a real run");
        let sum: &'static Mutex<u64> = Box::leak(Box::new(Mutex::new(&LOCK, 0)));
        let (ended, all_ended) = mpsc::channel();
        for _ in 0..4 {
            let (handle, ended) = (handle.clone(), ended.clone());
            std::thread::spawn(move || {
                let _attached = handle.attach(TaskSpec::named("guest"));
                (0..1000).for_each(|_| *sum.lock() += 1);
                ended.send(()).expect("the main thread waits");
            });
        }
        let task = sim::spawn(TaskSpec::named("task"), move || (0..1000).for_each(|_| *sum.lock() += 1));
        task.join();
        all_ended.iter().take(4).for_each(drop);
        *sum.lock()
    });
    assert_eq!(sum.expect("the run ends"), 5000);
}

#[test]
fn under_the_virtual_clock_no_thread_can_join() {
    let setup = Setup::virtual_clock(Machine::unit(), Seed(1));
    assert_eq!(
        sim::run(&setup, || (sim::clock(), Handle::current().is_none())).expect("it ends"),
        (Clock::Virtual, true)
    );
    assert!(Handle::current().is_none(), "outside a run");
}
