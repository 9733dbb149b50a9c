//! A program whose result does not depend on who comes first ends alike under both clocks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sim::{
    Clock, Condvar, JoinHandle, LockClass, Machine, Mutex, Nanos, RwLock, Seed, Semaphore, Setup, TaskSpec,
    Work,
};

static QUEUE: LockClass = LockClass::new("test.queue");
static TABLE: LockClass = LockClass::new("test.table");
static PERMITS: LockClass = LockClass::new("test.permits");

fn both_clocks<T: Send + PartialEq + std::fmt::Debug + 'static>(program: fn() -> T) -> T {
    let run = |clock| {
        let setup = Setup { clock, ..Setup::virtual_clock(Machine::unit(), Seed(9)) };
        sim::run(&setup, program).expect("the program ends")
    };
    let result = run(Clock::Virtual);
    for _ in 0..5 {
        assert_eq!(run(Clock::Real), result);
    }
    result
}

fn tasks<T: Send + 'static>(n: u64, body: impl Fn(u64) -> T + Clone + Send + 'static) -> Vec<T> {
    let start = |n: u64| {
        let body = body.clone();
        sim::spawn(TaskSpec::named(format!("t{n}")).on_core(n as u16), move || body(n))
    };
    (0..n).map(start).collect::<Vec<_>>().into_iter().map(JoinHandle::join).collect()
}

/// A queue of limited length with a condition for each end.
struct Bounded {
    items: Mutex<VecDeque<u64>>,
    not_empty: Condvar,
    not_full: Condvar,
}

impl Bounded {
    const LENGTH: usize = 4;

    fn put(&self, item: u64) {
        let mut items = self.items.lock();
        while items.len() == Self::LENGTH {
            items = self.not_full.wait(items);
        }
        items.push_back(item);
        self.not_empty.notify_one();
    }

    fn get(&self) -> u64 {
        loop {
            let mut items = self.items.lock();
            while items.is_empty() {
                // Timeouts that come and go must not swallow notifications.
                items = self.not_empty.wait_timeout(items, Nanos(50_000)).0;
            }
            if let Some(item) = items.pop_front() {
                self.not_full.notify_one();
                return item;
            }
        }
    }
}

#[test]
fn a_bounded_queue_delivers_everything_once() {
    let sum = both_clocks(|| {
        let items = Mutex::new(&QUEUE, VecDeque::new());
        let queue = Arc::new(Bounded { items, not_empty: Condvar::new(), not_full: Condvar::new() });
        let got = tasks(8, move |n| match n % 2 {
            0 => {
                (0..500).for_each(|item| queue.put(n * 1_000 + item));
                Vec::new()
            }
            _ => (0..500).map(|_| queue.get()).collect(),
        });
        let mut got: Vec<u64> = got.into_iter().flatten().collect();
        got.sort_unstable();
        got
    });
    let expected: Vec<u64> = (0..4).flat_map(|n| (0..500).map(move |item| 2 * n * 1_000 + item)).collect();
    assert_eq!(sum, expected);
}

/// Each of the waiters needs one `notify_one`; none may be lost to a waiter that has timed out.
#[test]
fn as_many_wake_as_are_notified() {
    both_clocks(|| {
        let state = Arc::new((Mutex::new(&QUEUE, 0_u64), Condvar::new()));
        let shared = Arc::clone(&state);
        tasks(6, move |n| {
            let (tokens, given) = &*shared;
            for _ in 0..200 {
                if n < 3 {
                    let mut tokens = tokens.lock();
                    while *tokens == 0 {
                        let patience = if n == 0 { Nanos(1) } else { Nanos::from_secs(20) };
                        let (guard, notified) = given.wait_timeout(tokens, patience);
                        tokens = guard;
                        assert!(notified || n == 0 || *tokens > 0, "a notification was lost");
                    }
                    *tokens -= 1;
                } else {
                    *tokens.lock() += 1;
                    given.notify_one();
                    sim::work(Work::STEP, 5);
                }
            }
        });
        *state.0.lock()
    });
}

#[test]
fn counters_under_every_kind_of_lock_end_at_the_same_sum() {
    let sums = both_clocks(|| {
        let world = Arc::new((
            RwLock::new(&TABLE, vec![0_u64; 8]),
            Semaphore::new(&PERMITS, 2),
            Mutex::new(&QUEUE, 0_u64),
        ));
        let shared = Arc::clone(&world);
        let read: u64 = tasks(8, move |n| {
            let mut odd = 0;
            for round in 0..200 {
                shared.1.acquire(1 + round % 2);
                if let Some(mut sum) = shared.2.try_lock() {
                    *sum += 1;
                } else {
                    *shared.2.lock() += 1;
                }
                shared.1.release(1 + round % 2);
                let row = shared.0.read();
                odd += u64::from(row.iter().sum::<u64>() % 8 != 0);
                drop(row);
                shared.0.write().iter_mut().for_each(|cell| *cell += n);
            }
            odd
        })
        .into_iter()
        .sum();
        (read, world.0.read().clone(), *world.2.lock(), world.1.available())
    });
    assert_eq!(sums, (0, vec![200 * 28; 8], 1_600, 2));
}

/// A failed attempt must not touch the lock: once it released what another had.
#[test]
fn attempts_take_only_a_free_lock() {
    let most = both_clocks(|| {
        let lock = Arc::new((Mutex::new(&TABLE, ()), AtomicU64::new(0), AtomicU64::new(0)));
        let shared = Arc::clone(&lock);
        tasks(4, move |_| {
            let (mutex, inside, most) = &*shared;
            for _ in 0..500 {
                if let Some(_guard) = mutex.try_lock() {
                    most.fetch_max(inside.fetch_add(1, Relaxed) + 1, Relaxed);
                    sim::medium(Nanos(50));
                    sim::interact();
                    inside.fetch_sub(1, Relaxed);
                }
                sim::medium(Nanos(10));
            }
        });
        lock.2.load(Relaxed)
    });
    assert_eq!(most, 1);
}
