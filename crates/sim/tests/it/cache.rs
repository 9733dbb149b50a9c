//! What the model of the caches promises.

use std::sync::Arc;

use sim::{Bytes, CachedPage, Caches, Machine, Nanos, Recency, Seed, Setup, TaskSpec, Work};

const CACHE: u64 = 1 << 20;

/// Every access that misses costs 100 ns; nothing else costs anything.
fn machine() -> Machine {
    let mut machine = Machine {
        work_ps: [0; Work::MAX],
        copy_ps_per_byte: 0,
        dram_ps_per_byte: 0,
        cache: Bytes(CACHE),
        ..Machine::unit()
    };
    machine.work_ps[Work::MISS.index()] = 100_000;
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
        sim::copy_past_to(None, 4 * CACHE);
        sim::copy(CACHE / 2);
        assert_eq!(cost(&object, 3), Nanos(0), "the cache has room for what came in: both sides of the copy");
        sim::copy(CACHE / 2 + 64);
        assert_eq!(cost(&object, 3), Nanos(300), "a line more than the cache holds has come in");
    });
}

#[test]
fn a_use_keeps_an_object_and_misses_push_others_out() {
    run(|| {
        let (kept, left) = (Recency::now(1), Recency::now(1));
        for _ in 0..4 {
            sim::copy(CACHE / 4);
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
fn what_is_made_comes_in_and_pushes_out_what_was_made_long_before() {
    run(|| {
        let made: Vec<_> = (0..CACHE / 64).map(|_| Recency::now(2)).collect();
        let (first, last) = (cost(&made[0], 2), cost(&made[made.len() - 1], 2));
        assert_eq!((first, last), (Nanos(200), Nanos(0)), "twice as many lines were made as the cache holds");
    });
}

#[test]
fn objects_that_are_used_in_turn_do_not_all_stay_when_they_are_more_than_the_cache_holds() {
    run(|| {
        // 256 KiB each; every pass uses all, and one more comes in.
        const LINES: u64 = 4096;
        let objects: Vec<_> = (0..100).map(|_| Recency::new()).collect();
        for all in 1..=objects.len() {
            let pass: Nanos = objects[..all].iter().map(|object| cost(object, LINES)).sum();
            let (came_in, whole) = (Nanos(100 * LINES), Nanos(100 * LINES * all as u64));
            // The cache holds four beside the one that is used: the sixth pushes out the first, and so on for ever.
            assert_eq!(pass, if all <= 6 { came_in } else { whole }, "pass over {all}");
        }
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

const PRIVATE: u64 = 1 << 14;

/// Two sockets of two cores. A line from the socket's cache takes 10 ns; a byte takes 1 ns from memory, a quarter from the socket's
/// cache and an eighth from the private one. Memory serves one socket 2 bytes in a nanosecond.
fn levels() -> Machine {
    let caches = Caches {
        private: Bytes(PRIVATE),
        private_copy_ps_per_byte: 125,
        socket_copy_ps_per_byte: 250,
        socket_hit_ps: 10_000,
        flush_evicts: false,
        ways: None,
    };
    Machine {
        sockets: 2,
        cores_per_socket: 2,
        copy_ps_per_byte: 1_000,
        dram_ps_per_byte: 500,
        dram_per_socket: true,
        caches: Some(caches),
        ..machine()
    }
}

fn run_with_levels<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    sim::run(&Setup::virtual_clock(levels(), Seed(1)), body).unwrap()
}

/// A task that copies with a buffer in its private cache.
fn task(core: u16) -> TaskSpec {
    TaskSpec::named("use").on_core(core).with_buffer(Bytes(4096))
}

/// What `body` takes on `core`.
fn on_core(core: u16, body: impl FnOnce() + Send + 'static) -> Nanos {
    let timed = move || {
        let start = sim::now();
        body();
        sim::now().since(start)
    };
    sim::spawn(task(core), timed).join()
}

fn touch_on(core: u16, object: &Arc<Recency>) -> Nanos {
    let object = Arc::clone(object);
    on_core(core, move || object.touch(2))
}

fn copy_on(core: u16, object: &Arc<Recency>, bytes: u64) -> Nanos {
    let object = Arc::clone(object);
    on_core(core, move || {
        sim::copy_from(&object, bytes);
    })
}

#[test]
fn an_object_comes_from_the_private_cache_then_that_of_the_socket_then_memory() {
    run_with_levels(|| {
        let object = Arc::new(Recency::new());
        assert_eq!(touch_on(0, &object), Nanos(200), "memory");
        assert_eq!(touch_on(0, &object), Nanos(0), "the core's own cache");
        assert_eq!(touch_on(1, &object), Nanos(20), "another core of the socket");
        assert_eq!(touch_on(2, &object), Nanos(200), "another socket");
        assert_eq!(touch_on(0, &object), Nanos(20), "the first socket has it still");
        on_core(0, || sim::copy(PRIVATE));
        assert_eq!(touch_on(0, &object), Nanos(20), "the private cache was filled since");
        on_core(1, || sim::copy(PRIVATE));
        assert_eq!(touch_on(0, &object), Nanos(0), "what another core copies fills another private cache");
        on_core(3, || (0..4).for_each(|_| sim::copy(CACHE)));
        assert_eq!(touch_on(0, &object), Nanos(0), "and the other socket's");
        on_core(1, || sim::copy(CACHE));
        assert_eq!(touch_on(1, &object), Nanos(200), "the cache of the socket was filled");
    });
}

#[test]
fn a_copy_costs_what_the_level_costs_that_holds_the_object() {
    run_with_levels(|| {
        let page = Arc::new(Recency::new());
        assert_eq!(copy_on(0, &page, 4096), Nanos(2048), "half of a copy between memory and memory");
        assert_eq!(copy_on(0, &page, 4096), Nanos(512));
        assert_eq!(copy_on(1, &page, 4096), Nanos(1024));
        for _ in 0..=PRIVATE / 4096 {
            assert_eq!(copy_on(0, &Arc::new(Recency::new()), 4096), Nanos(2048));
        }
        assert_eq!(
            copy_on(0, &page, 4096),
            Nanos(1024),
            "other pages have pushed it out of the private cache"
        );
        page.evict();
        assert_eq!(copy_on(0, &page, 4096), Nanos(2048), "it was stored past the caches");
    });
}

#[test]
fn the_lines_of_a_page_come_in_and_leave_one_by_one() {
    run_with_levels(|| {
        let page = Arc::new(CachedPage::new());
        let read = |offset: u64, bytes: u64| {
            let page = Arc::clone(&page);
            on_core(0, move || _ = sim::copy_from_page(&page, offset, bytes, sim::Stream::default()))
        };
        assert_eq!(read(256, 256), Nanos(128), "four lines from memory");
        assert_eq!(read(256, 256), Nanos(32), "which are there now");
        assert_eq!(read(512, 256), Nanos(128), "those beside them are not");
        assert_eq!(read(256, 512), Nanos(64), "all eight");
        assert_eq!(read(200, 100), Nanos(50), "a line of the two that the range shares is missing");
        page.evict(256, 64);
        assert_eq!(read(320, 64), Nanos(8), "another line was written back");
        assert_eq!(read(256, 64), Nanos(32));
        on_core(0, || sim::copy(PRIVATE));
        on_core(1, || sim::copy(CACHE));
        assert_eq!(read(320, 64), Nanos(32), "the page was forgotten");
        assert_eq!(read(256, 64), Nanos(32), "with all of its lines");
    });
}

#[test]
fn pages_of_which_little_is_used_take_little_room() {
    run_with_levels(|| {
        let pages: Vec<_> = (0..CACHE / 256).map(|_| Arc::new(CachedPage::new())).collect();
        let pass = |line: u64| {
            let read = |page: &Arc<CachedPage>| {
                let page = Arc::clone(page);
                on_core(0, move || _ = sim::copy_from_page(&page, line * 64, 64, sim::Stream::default()))
            };
            pages.iter().map(read).max()
        };
        assert_eq!(pass(0), Some(Nanos(32)));
        assert_eq!(pass(0), Some(Nanos(16)), "a line of each page fits");
        (1..8).for_each(|line| _ = pass(line));
        assert_eq!(pass(0), Some(Nanos(32)), "eight lines of each do not");
    });
}

#[test]
fn what_is_copied_again_and_again_by_its_core_needs_no_memory_bandwidth() {
    const ROUNDS: u64 = 1_000;
    let end = |again: bool| {
        run_with_levels(move || {
            let tasks: Vec<_> = (0..4)
                .map(|core| {
                    sim::spawn(task(core), move || {
                        let page = Recency::new();
                        for _ in 0..ROUNDS {
                            if !again {
                                page.evict();
                            }
                            sim::copy_from(&page, 4096);
                        }
                        sim::now().0
                    })
                })
                .collect();
            tasks.into_iter().map(sim::JoinHandle::join).max().unwrap()
        })
    };
    assert_eq!(end(true), 2048 + (ROUNDS - 1) * 512, "each at the speed of its private cache");
    // Two cores that fetch 2 B/ns on each memory that gives 4 B/ns: neither waits for the other.
    assert_eq!(end(false), ROUNDS * 2048);
}

#[test]
fn a_read_takes_half_of_the_bandwidth_that_a_store_or_a_copy_between_memory_and_memory_takes() {
    let end = |copy: fn(&Recency)| {
        // Cores that are faster than memory, which carries 1 B/ns of a copy between memory and memory.
        let machine = Machine { copy_ps_per_byte: 100, dram_ps_per_byte: 1_000, ..levels() };
        sim::run(&Setup::virtual_clock(machine, Seed(1)), move || {
            on_core(0, move || (0..100).for_each(|_| copy(&Recency::new()))).0
        })
    };
    let copy_from = |page: &Recency| assert!(sim::copy_from(page, 4096), "from memory");
    let copy_to = |page: &Recency| assert!(sim::copy_to(page, 4096), "to memory");
    assert_eq!(end(copy_from).unwrap(), 100 * 2048);
    assert_eq!(end(copy_to).unwrap(), 100 * 4096, "what is stored to comes in first");
    assert_eq!(end(|_| sim::copy(4096)).unwrap(), 100 * 4096);
}

#[test]
fn the_buffer_of_a_copy_is_used_again_and_takes_no_room() {
    run_with_levels(|| {
        let pages: Arc<[Recency]> = (0..CACHE / 4096).map(|_| Recency::new()).collect();
        let costs = || {
            let pages = Arc::clone(&pages);
            let copy = move || {
                for page in pages.iter() {
                    sim::copy_from(page, 4096);
                }
            };
            on_core(0, copy).0 / (CACHE / 4096)
        };
        assert_eq!(
            [costs(), costs()],
            [2048, 1024],
            "the cache of the socket holds as many pages as it has room for"
        );
    });
}

#[test]
fn each_socket_has_its_own_bandwidth_of_memory() {
    let end = |cores: [u16; 2], dram_per_socket: bool| {
        let machine = Machine { dram_ps_per_byte: 1_000, dram_per_socket, ..levels() };
        let body = move || {
            let copy = |core| {
                sim::spawn(TaskSpec::named("copy").on_core(core), || {
                    (0..100).for_each(|_| sim::copy(4096));
                    sim::now().0
                })
            };
            cores.map(copy).map(sim::JoinHandle::join).into_iter().max().unwrap()
        };
        sim::run(&Setup::virtual_clock(machine, Seed(1)), body).unwrap()
    };
    assert_eq!(end([0, 1], true), 200 * 4096, "two cores of a socket share its memory");
    assert_eq!(end([0, 2], true), 100 * 4096, "two sockets share none");
    assert_eq!(end([0, 2], false), 200 * 4096, "unless the machine has one memory");
}

/// A migration costs the lines that it loses: with nothing but the caches charged, what the task had in its core's own.
#[test]
fn a_task_that_moves_loses_its_private_cache() {
    run_with_levels(|| {
        let pages: Arc<Vec<_>> = Arc::new((0..3).map(|_| Recency::new()).collect());
        let all = |core| {
            let pages = Arc::clone(&pages);
            on_core(core, move || pages.iter().for_each(|page| page.touch(4)))
        };
        assert_eq!([all(0), all(0), all(1), all(1), all(2)].map(|span| span.0), [1200, 0, 120, 0, 1200]);
    });
}

#[test]
fn each_of_eight_sockets_has_a_cache_of_its_own() {
    let machine = Machine { sockets: 8, cores_per_socket: 1, ..machine() };
    let costs = sim::run(&Setup::virtual_clock(machine, Seed(1)), || {
        let object = Arc::new(Recency::new());
        let on = |core: u16| {
            let object = Arc::clone(&object);
            sim::spawn(TaskSpec::named("user").on_core(core), move || cost(&object, 1).0).join()
        };
        let first = (0..8).map(on).collect::<Vec<_>>();
        let second = (0..8).map(on).collect::<Vec<_>>();
        (first, second)
    });
    assert_eq!(costs.unwrap(), (vec![100; 8], vec![0; 8]), "a miss in each, and then none");
}

#[test]
fn a_buffer_that_is_larger_than_the_private_cache_comes_from_memory_too() {
    let end = |bytes: u64| {
        let spec = task(0).with_buffer(Bytes(bytes));
        run_with_levels(move || {
            let start = sim::now();
            let copy =
                || (0..100).for_each(|_| assert!(sim::copy_from(&Recency::new(), 4096), "from memory"));
            sim::spawn(spec, copy).join();
            sim::now().since(start).0
        })
    };
    assert_eq!([end(PRIVATE), end(PRIVATE + 1), end(u64::MAX)], [100 * 2048, 100 * 4096, 100 * 4096]);
}

/// The machine of [`levels`] whose socket's cache has sets.
fn run_with_ways<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let mut machine = levels();
    machine.caches.as_mut().unwrap().ways = Some(11);
    sim::run(&Setup::virtual_clock(machine, Seed(1)), body).unwrap()
}

#[test]
fn a_cache_with_ways_keeps_a_part_of_what_is_used_in_turn_and_does_not_fit() {
    // A fifth more than the cache holds, a page at a time; what all uses of the last ten passes took from memory.
    let pages = CACHE / 4096 * 6 / 5;
    let passes = move || {
        let pages: Vec<_> = (0..pages).map(|_| Arc::new(Recency::new())).collect();
        let mut missed = 0;
        for pass in 0..20 {
            for page in &pages {
                missed += u64::from(copy_on(0, page, 4096) == Nanos(2048) && pass >= 10);
            }
        }
        missed
    };
    let all = 10 * pages;
    assert_eq!(run_with_levels(passes), all, "a list of uses keeps nothing");
    let missed = run_with_ways(passes);
    assert!((all * 3 / 10..all / 2).contains(&missed), "{missed} of {all}: 37 % are expected");
}

#[test]
fn a_buffer_that_says_where_it_is_used_is_cached_at_these_places() {
    let copies = |places: u64| {
        run_with_ways(move || {
            let spec = TaskSpec::named("use").on_core(0).with_places(Bytes(128 * CACHE));
            let body = move || {
                let mut last = Nanos(0);
                for turn in 0..100 {
                    let object = Recency::new();
                    sim::buffer_at(turn % places * CACHE);
                    let start = sim::now();
                    sim::copy_from(&object, 4096);
                    last = sim::now().since(start);
                }
                last
            };
            sim::spawn(spec, body).join()
        })
    };
    assert_eq!(copies(2), Nanos(2048), "only the object comes from memory");
    assert_eq!(copies(100), Nanos(4096), "neither is");
}
