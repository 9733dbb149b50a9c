//! What the model of the last-level cache promises.

use std::sync::Arc;

use sim::{Bytes, Machine, Nanos, Recency, Seed, Setup, Work};

const CACHE: u64 = 1 << 20;

/// Every access that misses costs 100 ns; nothing else costs anything.
fn machine() -> Machine {
    let mut machine = Machine {
        work_ps: [0; Work::COUNT],
        copy_ps_per_byte: 0,
        dram_ps_per_byte: 0,
        cache: Bytes(CACHE),
        ..Machine::unit()
    };
    machine.work_ps[Work::Miss as usize] = 100_000;
    machine
}

fn run<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    sim::run(&Setup::virtual_clock(machine(), Seed(1)), body).unwrap()
}

/// What using `object` takes now.
fn cost(object: &Recency, lines: u64) -> Nanos {
    let start = sim::now();
    object.touch(lines);
    sim::now().since(start)
}

#[test]
fn an_object_stays_cached_until_as_much_has_come_in_as_the_cache_holds() {
    run(|| {
        let object = Recency::new();
        assert_eq!(cost(&object, 3), Nanos(300), "it was in no cache");
        assert_eq!(cost(&object, 3), Nanos(0), "it has just come in");
        sim::copy(CACHE);
        assert_eq!(cost(&object, 3), Nanos(0), "the cache has room for what came in");
        sim::copy(CACHE + 64);
        assert_eq!(cost(&object, 3), Nanos(300), "a line more than the cache holds has come in");
    });
}

#[test]
fn a_use_keeps_an_object_and_misses_push_others_out() {
    run(|| {
        let (kept, left) = (Recency::now(), Recency::now());
        for _ in 0..4 {
            sim::copy(CACHE / 2);
            assert_eq!(cost(&kept, 1), Nanos(0), "it is used twice for each filling of the cache");
        }
        assert_eq!(cost(&left, 1), Nanos(100));
        let many: Vec<_> = (0..=CACHE / 64).map(|_| Recency::new()).collect();
        for object in &many {
            object.touch(1);
        }
        assert_eq!(cost(&kept, 1), Nanos(100), "as many lines as the cache holds came in by misses");
    });
}

#[test]
fn an_object_that_outlives_its_run_is_cold_in_the_next() {
    let object = Arc::new(Recency::new());
    for _ in 0..2 {
        let object = Arc::clone(&object);
        assert_eq!(run(move || cost(&object, 1)), Nanos(100));
    }
}
