//! Kinds of updates of a line, data that moves with a lock, locks that hand over by a wake-up, sequence locks, and the pace of
//! operations: each against a closed form.

use std::sync::Arc;

use sim::{
    Line, LockClass, Machine, Mutex, MutexGuard, Nanos, Op, RwLock, RwLockWriteGuard, Seed, Sequence,
    SequenceGuard, Setup, TaskSpec, Work,
};

static LINE: LockClass = LockClass::of_lines("test.moving.line", "a count");
static LOCK: LockClass = LockClass::new("test.moving.lock");

const UPDATE: u64 = 17;
const NEAR: u64 = 51;
const FAR: u64 = 165;
const WAKEUP: u64 = 1920;

fn machine() -> Machine {
    let mut machine = Machine { sockets: 8, cores_per_socket: 10, ..Machine::unit() };
    for (work, ns) in [
        (Work::LOCK, UPDATE),
        (Work::LINE_SAME_SOCKET, NEAR),
        (Work::LINE_CROSS_SOCKET, FAR),
        (Work::WAKEUP, WAKEUP),
    ] {
        machine.work_ps[work.index()] = ns * 1_000;
    }
    machine
}

fn setup() -> Setup {
    Setup::virtual_clock(machine(), Seed(1))
}

/// Runs `body` on each of `cores`, each beginning so many nanoseconds after the first; returns how long each took.
fn on_cores<T: Send + Sync + 'static>(
    setup: &Setup,
    shared: T,
    cores: &[(u16, u64)],
    body: fn(&T),
) -> Vec<u64> {
    let cores = cores.to_vec();
    sim::run(setup, move || {
        let shared = Arc::new(shared);
        let start = |(core, after): (u16, u64)| {
            let shared = Arc::clone(&shared);
            sim::spawn(TaskSpec::named("task").on_core(core), move || {
                sim::sleep_until(Nanos(10_000 + after));
                let start = sim::now();
                body(&shared);
                sim::now().since(start).0
            })
        };
        let tasks: Vec<_> = cores.into_iter().map(start).collect();
        tasks.into_iter().map(sim::JoinHandle::join).collect()
    })
    .unwrap()
}

#[test]
fn an_exchange_takes_two_transfers_where_another_core_wrote_last_and_none_where_this_one_did() {
    let line = Line::new(&LINE);
    let took = on_cores(&setup(), line, &[(0, 0), (1, 1_000), (1, 2_000), (10, 3_000)], Line::exchange);
    assert_eq!(took, [UPDATE, 2 * NEAR + UPDATE, UPDATE, 2 * FAR + UPDATE]);
}

#[test]
fn the_third_exchange_of_a_queue_has_one_failed_try_and_the_second_has_none() {
    // One after the other, a nanosecond apart.
    let took = on_cores(&setup(), Line::new(&LINE), &[(0, 0), (1, 1), (2, 2)], Line::exchange);
    let second = UPDATE + 2 * NEAR + UPDATE;
    assert_eq!(took, [UPDATE, second - 1, second + 2 * NEAR + UPDATE + NEAR + UPDATE - 2]);
}

#[test]
fn an_add_takes_one_transfer_as_ever() {
    let took = on_cores(&setup(), Line::new(&LINE), &[(0, 0), (1, 1_000), (10, 2_000)], Line::touch);
    assert_eq!(took, [UPDATE, NEAR + UPDATE, FAR + UPDATE]);
}

#[test]
fn data_moves_with_its_lock_from_the_core_that_had_it_last() {
    fn change(lock: &Mutex<()>) {
        MutexGuard::touch(&lock.lock(), 12);
    }
    let cores = [(0, 0), (0, 5_000), (1, 10_000), (10, 15_000)];
    let took = on_cores(&setup(), Mutex::new(&LOCK, ()), &cores, change);
    assert_eq!(took, [UPDATE, UPDATE, 13 * NEAR + UPDATE, 13 * FAR + UPDATE]);
    fn write(lock: &RwLock<()>) {
        RwLockWriteGuard::touch(&lock.write(), 12);
    }
    assert_eq!(on_cores(&setup(), RwLock::new(&LOCK, ()), &cores, write), took);
}

#[test]
fn data_that_moves_is_free_with_its_lock() {
    let setup = Setup { free: vec![LOCK.name().to_owned()], ..setup() };
    let change = |lock: &Mutex<()>| MutexGuard::touch(&lock.lock(), 12);
    assert_eq!(on_cores(&setup, Mutex::new(&LOCK, ()), &[(0, 0), (10, 5_000)], change), [0, 0]);
}

#[test]
fn a_waking_lock_is_handed_over_by_a_wake_up_of_both_sides() {
    fn hold(lock: &Mutex<()>) {
        let _held = lock.lock();
        sim::compute_for(Nanos(1_000));
    }
    let took = on_cores(&setup(), Mutex::waking(&LOCK, ()), &[(0, 0), (1, 1)], hold);
    let held = UPDATE + 1_000;
    assert_eq!(took, [held + WAKEUP, held + NEAR + UPDATE + 2 * WAKEUP + 1_000 - 1]);
    assert_eq!(on_cores(&setup(), Mutex::waking(&LOCK, ()), &[(0, 0), (0, 9_000)], hold), [held, held]);
}

#[test]
fn a_reader_fetches_the_word_of_a_sequence_once_for_each_change() {
    fn read_twice(sequence: &Sequence) {
        let seen = sequence.read();
        assert!(!sequence.changed(seen));
    }
    fn either(sequence: &Sequence) {
        if sim::core() == 0 { drop(sequence.write()) } else { read_twice(sequence) }
    }
    let cores = [(10, 0), (0, 1_000), (10, 2_000), (10, 3_000), (1, 4_000), (0, 5_000)];
    let took = on_cores(&setup(), Sequence::new(&LOCK), &cores, either);
    // Before the second write a core of another socket and one of its own have looked.
    assert_eq!(took, [0, FAR + 3 * UPDATE, FAR, 0, NEAR, NEAR + FAR + 3 * UPDATE]);
}

#[test]
fn a_reader_waits_out_a_writer_and_sees_that_one_has_come_between() {
    let sequence = Arc::new(Sequence::new(&LOCK));
    let ended = sim::run(&setup(), move || {
        let seen = sequence.read();
        let other = Arc::clone(&sequence);
        let writer = sim::spawn(TaskSpec::named("writer").on_core(1), move || {
            let guard = other.write();
            sim::compute_for(Nanos(5_000));
            SequenceGuard::touch(&guard, 8);
            drop(guard);
            sim::now()
        });
        sim::sleep_until(Nanos(2_500));
        assert!(sequence.changed(seen), "a writer is in");
        let again = sequence.read();
        let read_at = sim::now();
        assert!(!sequence.changed(again));
        (writer.join(), read_at)
    });
    let (written, read) = ended.unwrap();
    assert!(read >= written && read.0 < written.0 + 3 * FAR, "{read} after {written}");
}

#[test]
fn the_pace_of_operations_varies_evenly_within_its_bounds_and_repeats_with_the_seed() {
    let paces = |seed: u64, jitter: u32| {
        let setup = Setup { work_jitter_per_mille: jitter, ..Setup::virtual_clock(machine(), Seed(seed)) };
        let body = || {
            let operation = |_| {
                let _op = sim::op(Op::new(1, "read"));
                let start = sim::now();
                sim::compute_for(Nanos(1_000));
                sim::now().since(start).0
            };
            (0..4_000).map(operation).collect::<Vec<_>>()
        };
        sim::run(&setup, body).unwrap()
    };
    let drawn = paces(1, 150);
    assert!(drawn.iter().all(|ns| (850..=1_150).contains(ns)));
    assert!(drawn.contains(&850) && drawn.contains(&1_150));
    let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
    // The spread of a uniform draw is 300 / √12; its mean over 4,000 of them is within four standard errors.
    assert!((mean - 1_000.0).abs() < 4.0 * 300.0 / 12f64.sqrt() / 4_000f64.sqrt(), "{mean}");
    assert_eq!(drawn, paces(1, 150));
    assert_ne!(drawn, paces(2, 150));
    assert!(paces(1, 0).iter().all(|ns| *ns == 1_000), "without jitter work takes what it costs");
}
