//! Cost models against closed forms, under the virtual clock (`docs/models/nvmm.md`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use media::nvmm::hinfs::{Hinfs, Round};
use media::{CostModel, Medium, Region};
use rand::RngExt;
use sim::{
    Activity, Bytes, Clock, KIB, MIB, Machine, Nanos, PAGE_BYTES, Rate, Seed, Setup, TaskSpec, Work,
    ledger::Snapshot,
};

/// A machine whose CPU work costs nothing: what remains is the medium.
fn bare_machine() -> Machine {
    Machine { work_ps: [0; Work::MAX], copy_ps_per_byte: 0, dram_ps_per_byte: 0, ..Machine::unit() }
}

fn virtual_run<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    sim::run(&Setup::virtual_clock(bare_machine(), Seed(1)), body).expect("the run ends")
}

fn region(medium: &str, size: u64) -> Arc<Region> {
    let model = Medium::parse(medium).expect("a medium").build().expect("a model");
    Arc::new(Region::anonymous(Bytes(size), model).expect("memory"))
}

/// Runs `body(task)` in `tasks` tasks at once; returns the time until the last has ended.
fn together(tasks: u64, body: impl Fn(u64) + Send + Sync + 'static) -> Nanos {
    virtual_run(move || {
        let body = Arc::new(body);
        let start = |task| {
            let body = Arc::clone(&body);
            sim::spawn(TaskSpec::named(format!("t{task}")).on_core(task as u16), move || body(task))
        };
        let handles: Vec<_> = (0..tasks).map(start).collect();
        handles.into_iter().for_each(sim::JoinHandle::join);
        sim::now()
    })
}

/// Bytes a second of `tasks` writers that store a page past the cache again and again, for 20 ms: what is
/// counted is what they all do in the same window, because first come first served is not fair to the last.
fn write_bandwidth(medium: &str, tasks: u64) -> f64 {
    const WINDOW: Nanos = Nanos::from_millis(20);
    let region = region(medium, MIB);
    let pages = Arc::new(AtomicU64::new(0));
    let written = Arc::clone(&pages);
    together(tasks, move |task| {
        let page = [7; PAGE_BYTES];
        loop {
            region.nt_store(task * 4 * KIB, &page).expect("in range");
            region.fence();
            if sim::now() > WINDOW {
                return;
            }
            written.fetch_add(1, Relaxed);
        }
    });
    (pages.load(Relaxed) * 4 * KIB) as f64 / WINDOW.as_secs_f64()
}

fn near(value: f64, expected: f64, tolerance: f64) -> bool {
    (value / expected - 1.0).abs() <= tolerance
}

#[test]
fn one_hinfs_writer_gets_a_line_every_latency() {
    for (latency, expected) in [("50ns", 1280e6), ("200ns", 320e6), ("800ns", 80e6)] {
        let found = write_bandwidth(&format!("hinfs,latency={latency}"), 1);
        assert!(near(found, expected, 0.01), "{latency}: {found}");
    }
}

#[test]
fn hinfs_bandwidth_grows_to_the_limit_of_writers_and_stays() {
    for tasks in 1..=8 {
        let expected = tasks.min(3) as f64 * 320e6;
        let found = write_bandwidth("hinfs", tasks);
        assert!(near(found, expected, 0.01), "{tasks} writers: {found}");
    }
    assert!(near(write_bandwidth("hinfs,round=ceil", 8), 1280e6, 0.01));
}

#[test]
fn hinfs_frac_is_a_token_bucket_at_exactly_the_bandwidth() {
    assert!(near(write_bandwidth("hinfs,round=frac", 1), 320e6, 0.01));
    assert!(near(write_bandwidth("hinfs,round=frac", 3), 960e6, 0.01));
    assert!(near(write_bandwidth("hinfs,round=frac", 8), 1000e6, 0.01));
}

#[test]
fn the_hinfs_emulator_rounds_as_its_table_says() {
    // Table of `docs/models/nvmm.md`, "hinfs": latency, writers by floor, resulting cap.
    for (latency, writers, cap) in
        [(50, 1, 1280), (100, 1, 640), (200, 3, 960), (400, 6, 960), (800, 12, 960)]
    {
        let model = Hinfs::new(Nanos(latency), Rate(1_000_000_000), Round::Floor);
        assert_eq!(model.writers(), Some(writers), "{latency} ns");
        assert_eq!(model.effective_bandwidth(), Rate(cap * 1_000_000), "{latency} ns");
    }
    assert_eq!(Hinfs::new(Nanos(200), Rate(1_000_000_000), Round::Ceil).writers(), Some(4));
}

#[test]
fn hinfs_charges_flushed_lines_and_nothing_else() {
    let region = region("hinfs", MIB);
    let (stores, one, two_stores, load) = virtual_run(move || {
        let timed = |body: &dyn Fn()| {
            let start = sim::now();
            body();
            sim::now() - start
        };
        (
            timed(&|| region.store(0, &[1; 256]).expect("in range")),
            timed(&|| region.flush(63, 2)),
            timed(&|| {
                region.store_u64(0, 1).expect("in range");
                region.store_u64(8, 2).expect("in range");
                region.flush(0, 16);
                region.fence();
            }),
            timed(&|| region.load(0, &mut [0; 4096]).expect("in range")),
        )
    });
    assert_eq!(stores, Nanos(0));
    assert_eq!(one, Nanos(400), "two bytes on two lines");
    assert_eq!(two_stores, Nanos(200), "two stores to a line, one flush");
    assert_eq!(load, Nanos(0));
}

#[test]
fn a_large_copy_is_charged_by_page_so_that_writers_take_turns() {
    let region = region("hinfs,bandwidth=1MB/s", MIB);
    let elapsed = together(2, move |task| {
        region.nt_store(task * 64 * KIB, &[1; 16 * KIB as usize]).expect("in range");
        if task == 0 {
            // With one slot and turns by page, both end within one page of each other.
            assert!(sim::now() >= Nanos(7 * 64 * 200), "{}", sim::now());
        }
    });
    assert_eq!(elapsed, Nanos(8 * 64 * 200));
}

#[test]
fn a_token_bucket_gives_its_rate() {
    for tasks in [1, 4] {
        let found = write_bandwidth("bucket,write_bandwidth=1GB/s", tasks);
        assert!(near(found, 1e9, 0.01), "{tasks} writers: {found}");
    }
}

#[test]
fn waiting_for_bandwidth_is_booked_apart_from_the_service() {
    let region = region("hinfs,bandwidth=1MB/s", MIB);
    let booked = virtual_run(move || {
        let write = |region: Arc<Region>| {
            sim::spawn(TaskSpec::named("writer"), move || {
                let _scope = sim::scope(media::charges::JOURNAL);
                region.nt_store(0, &[1; PAGE_BYTES]).expect("in range");
            })
        };
        let (a, b) = (write(Arc::clone(&region)), write(region));
        a.join();
        b.join();
        let run = Snapshot::of_run();
        let none = sim::Op::NONE;
        (
            run.time(none, media::charges::JOURNAL),
            run.time(none, Activity::MEDIUM_WAIT),
            run.count_all(&media::charges::LINES_WRITTEN),
        )
    });
    assert_eq!(booked, (Nanos(2 * 12_800), Nanos(12_800), 128));
}

/// Accesses a second of `tasks` closed loops on the flat medium, with a pause of `think` between accesses.
fn closed_loop(tasks: u64, think: Nanos) -> f64 {
    const ROUNDS: u64 = 400;
    let region = region("flat,write_latency=1us,write_bandwidth=4.096GB/s", MIB);
    let elapsed = together(tasks, move |task| {
        let page = [1; PAGE_BYTES];
        for _ in 0..ROUNDS {
            region.nt_store(task * 4 * KIB, &page).expect("in range");
            sim::sleep(think);
        }
    });
    (tasks * ROUNDS) as f64 / elapsed.as_secs_f64()
}

#[test]
fn closed_loops_follow_the_law_of_latency_and_capacity() {
    // A page takes 1 us on the channel and 1 us of latency: capacity 1e6 a second.
    for think in [Nanos(0), Nanos(3_000)] {
        for tasks in [1, 2, 4, 8, 16] {
            let expected = (tasks as f64 / (2_000 + think.0) as f64 * 1e9).min(1e6);
            let found = closed_loop(tasks, think);
            assert!(near(found, expected, 0.01), "{tasks} tasks, think {think}: {found} not {expected}");
        }
    }
}

#[test]
fn only_a_full_duplex_medium_carries_more_in_both_directions_than_in_one() {
    let mixed = |medium: &str| {
        let region = region(medium, MIB);
        let elapsed = together(8, move |task| {
            let mut page = [1; PAGE_BYTES];
            for _ in 0..200 {
                match task % 2 {
                    0 => region.nt_store(task * 4 * KIB, &page).expect("in range"),
                    _ => region.load(task * 4 * KIB, &mut page).expect("in range"),
                }
            }
        });
        (8 * 200 * 4 * KIB) as f64 / elapsed.as_secs_f64()
    };
    let half = mixed("flat,read_bandwidth=10GB/s,write_bandwidth=10GB/s");
    let full = mixed("flat,read_bandwidth=10GB/s,write_bandwidth=10GB/s,duplex=full");
    assert!(near(half, 10e9, 0.01), "{half}");
    assert!(near(full, 20e9, 0.01), "{full}");
}

#[test]
fn the_same_seed_gives_the_same_time_to_the_nanosecond() {
    let run = || write_bandwidth("optane.100x6", 7).to_bits();
    assert_eq!(run(), run());
}

#[test]
fn a_model_can_be_used_in_run_after_run() {
    let region = region("hinfs", MIB);
    let time = |region: Arc<Region>| {
        virtual_run(move || {
            region.nt_store(0, &[1; PAGE_BYTES]).expect("in range");
            sim::now()
        })
    };
    region.nt_store(0, &[1; PAGE_BYTES]).expect("outside any run nothing is charged");
    assert_eq!(time(Arc::clone(&region)), Nanos(12_800));
    assert_eq!(time(region), Nanos(12_800));
}

/// A region outlives a run that ends in the middle of a queue: the next begins with times from zero again.
#[test]
fn what_a_run_has_left_in_a_medium_is_no_wait_of_the_next() {
    for medium in ["hinfs", "hinfs,round=frac", "flat,write_bandwidth=1GB/s", "bucket", "optane,queue=1"] {
        let region = region(medium, MIB);
        let time = |pages: u64| {
            let region = Arc::clone(&region);
            virtual_run(move || {
                (0..pages).for_each(|_| region.nt_store(0, &[1; PAGE_BYTES]).expect("in range"));
                sim::now()
            })
        };
        let first = time(1);
        time(50);
        assert_eq!(time(1), first, "{medium}");
    }
}

#[test]
fn the_random_numbers_of_a_medium_are_those_of_the_run() {
    let time = |seed: u64| {
        let region = region("optane,replace=random,buffer_lines=8,drain=lazy", MIB);
        let body = move || {
            for line in (0..4_000_u64).map(|n| n * 7 % 4_096) {
                region.nt_store(line * 256, &[1; 64]).expect("in range");
                region.nt_store((line * 31 % 64) * 256, &[1; 64]).expect("in range");
            }
            sim::now()
        };
        sim::run(&Setup::virtual_clock(bare_machine(), Seed(seed)), body).expect("the run ends")
    };
    assert_eq!(time(1), time(1));
    assert!((2..10).any(|seed| time(seed) != time(1)), "other seeds choose other victims");
}

#[test]
fn a_line_at_the_edge_of_an_unaligned_store_is_charged_once() {
    // Offset and length of a store past the cache, and the lines that it touches.
    let stores =
        [(3, 100, 2), (0, 4096, 64), (60, 8, 2), (61, 3, 1), (4093, 10, 2), (1, 4096, 65), (8, 120, 2)];
    for (off, len, lines) in stores {
        let region = region("hinfs", MIB);
        let (time, counted) = virtual_run(move || {
            region.nt_store(off, &vec![1; len]).expect("in range");
            (sim::now(), Snapshot::of_run().count(&media::charges::LINES_WRITTEN, Activity::DATA))
        });
        assert_eq!((time, counted), (Nanos(200 * lines), lines), "{len} bytes at {off}");
    }
}

/// Of metadata too: an inode on slow memory costs more than one in DRAM.
#[test]
fn the_first_use_of_metadata_costs_what_its_medium_costs() {
    let mut machine = bare_machine();
    machine.work_ps[Work::MISS.index()] = 100_000;
    let time = |medium: &str| {
        let region = region(medium, MIB);
        let body = move || {
            let recency = sim::Recency::new();
            let first = sim::now();
            region.touch(&recency, 4096, 2);
            let second = sim::now();
            region.touch(&recency, 4096, 2);
            (second.since(first), sim::now().since(second))
        };
        sim::run(&Setup::virtual_clock(machine.clone(), Seed(1)), body).expect("the run ends")
    };
    assert_eq!(time("hinfs"), (Nanos(200), Nanos(0)), "loads cost nothing extra");
    assert_eq!(time("flat,read_latency=300ns"), (Nanos(500), Nanos(0)));
    let (optane, again) = time("optane");
    assert!(optane > Nanos(200 + 124) && again == Nanos(0), "{optane}, {again}");
}

#[test]
fn a_page_that_a_cache_holds_is_not_loaded_from_the_medium_where_copies_are_priced_by_level() {
    let caches = sim::Caches {
        private: Bytes::kib(256),
        private_copy_ps_per_byte: 125,
        socket_copy_ps_per_byte: 250,
        socket_hit_ps: 0,
        flush_evicts: false,
        ways: None,
    };
    let times = |caches| {
        let region = region("flat,read_latency=1us", MIB);
        let body = move || {
            let load = || {
                let start = sim::now();
                region.load(0, &mut [0; PAGE_BYTES]).expect("in range");
                sim::now().since(start).0
            };
            let first = [load(), load()];
            region.nt_store(512, &[1; 64]).expect("in range");
            let after_nt_store = load();
            region.store(4096, &[1; PAGE_BYTES]).expect("in range");
            let start = sim::now();
            region.load(4096, &mut [0; PAGE_BYTES]).expect("in range");
            (first, after_nt_store, sim::now().since(start).0)
        };
        let machine = Machine { caches, ..bare_machine() };
        sim::run(&Setup::virtual_clock(machine, Seed(1)), body).expect("the run ends")
    };
    assert_eq!(times(Some(caches)), ([1_000, 512], 1_000, 512));
    assert_eq!(times(None), ([1_000, 1_000], 1_000, 1_000), "otherwise each load goes to the medium");
}

/// Writes `count` chunks of `chunk` bytes at random places of `set` bytes; returns the ratio and bytes a
/// second.
fn optane_random(medium: &str, chunk: u64, set: u64, count: u64) -> (f64, f64) {
    let region = region(medium, set);
    virtual_run(move || {
        let mut rng = Seed(3).rng();
        let data = vec![1; chunk as usize];
        for _ in 0..count {
            region.nt_store(rng.random_range(0..set / chunk) * chunk, &data).expect("in range");
        }
        (figure(region.model(), "effective_write_ratio"), (count * chunk) as f64 / sim::now().as_secs_f64())
    })
}

fn figure(model: &dyn CostModel, name: &str) -> f64 {
    model.figures().into_iter().find(|(known, _)| *known == name).expect("a figure of this name").1
}

#[test]
fn optane_writes_four_times_what_random_lines_ask_for() {
    for (chunk, expected) in [(64, 0.25), (128, 0.5), (256, 1.0), (1024, 1.0)] {
        // Accepting takes no time here, so that the media is what limits.
        let (ratio, bandwidth) = optane_random("optane,write_accept=1ns", chunk, 64 * MIB, 20_000);
        assert!(near(ratio, expected, 0.02), "{chunk} B: EWR {ratio}");
        assert!(near(bandwidth, expected * 2.3e9, 0.05), "{chunk} B: {bandwidth} B/s");
    }
}

/// 256 bytes at 6.6 GB/s for each line that leaves the buffer with a quarter that was never written; the reads of the media are one
/// after the other, so a load that misses waits for all of them.
#[test]
fn optane_reads_the_rest_of_a_line_before_it_writes_a_part_of_it() {
    let after = |quarters: u64, evicted: u64| {
        let region = region("optane,buffer_lines=8,drain=lazy,queue=1000,write_accept=1ns", MIB);
        virtual_run(move || {
            for line in 0..8 + evicted {
                region.nt_store(line * 256, &vec![1; quarters as usize * 64]).expect("in range");
            }
            let read = figure(region.model(), "media_read_bytes");
            let start = sim::now();
            region.load(MIB / 2, &mut [0; 64]).expect("in range");
            (read, sim::now().since(start).0)
        })
    };
    let read_ns = |lines: u64| lines as f64 * 256.0 / 6.6;
    let (nothing, alone) = after(4, 40);
    assert_eq!((nothing, alone), (0.0, 305), "whole lines need no read");
    // The load itself makes one more line leave, and reads one more.
    let (read, waited) = after(1, 40);
    assert!((read - 40.0 * 256.0).abs() < 1e-6, "{read}");
    let (shorter, longer) = (read_ns(41) - 60.0, read_ns(42) + 1.0);
    assert!((shorter..longer).contains(&(waited as f64)), "{waited} ns for {shorter} to {longer}");
}

#[test]
fn optane_keeps_sequential_streams_apart_up_to_the_size_of_its_buffer() {
    let ratio = |medium: &str, streams: u64| {
        let region = region(medium, 64 * MIB);
        virtual_run(move || {
            for line in 0..4096 {
                for stream in 0..streams {
                    region.nt_store(stream * 256 * KIB + line * 64, &[1; 64]).expect("in range");
                }
            }
            figure(region.model(), "effective_write_ratio")
        })
    };
    for streams in [1, 8, 64] {
        assert!(near(ratio("optane", streams), 1.0, 0.02), "{streams} streams");
    }
    assert!(near(ratio("optane", 80), 0.25, 0.02), "LRU falls off the edge");
    let random = ratio("optane,replace=random", 128);
    assert!((0.26..0.40).contains(&random), "random replacement declines: {random}");
}

#[test]
fn optane_merges_overwrites_that_fit_its_buffer() {
    // A line leaves when its four quarters were written: 25/3 random writes of a quarter for one of the
    // media.
    let (ratio, _) = optane_random("optane", 64, 8 * KIB, 100_000);
    assert!(near(ratio, 25.0 / 12.0, 0.02), "EWR {ratio}");
    let (lazy, _) = optane_random("optane,drain=lazy", 64, 8 * KIB, 100_000);
    assert!(lazy == 0.0, "nothing ever leaves: {lazy}");
}

#[test]
fn optane_reads_cost_the_published_means() {
    let region = region("optane,parallel=1", 64 * MIB);
    let (sequential, random) = virtual_run(move || {
        let mut line = [0; 64];
        for at in 0..40_000 {
            region.load(at * 64, &mut line).expect("in range");
        }
        let sequential = sim::now().0 as f64 / 40_000.0;
        let mut rng = Seed(5).rng();
        let start = sim::now();
        for _ in 0..10_000 {
            region.load(rng.random_range(0..MIB) * 64 % (64 * MIB), &mut line).expect("in range");
        }
        (sequential, (sim::now() - start).0 as f64 / 10_000.0)
    });
    assert!(near(sequential, 169.25, 0.01), "{sequential} ns");
    assert!(near(random, 305.0, 0.01), "{random} ns");
}

#[test]
fn the_region_charges_the_machine_for_copies_flushes_and_fences() {
    let region = region("dram", MIB);
    let setup = Setup::virtual_clock(Machine::unit(), Seed(1));
    let times = sim::run(&setup, move || {
        assert_eq!(sim::clock(), Clock::Virtual);
        let timed = |body: &dyn Fn()| {
            let start = sim::now();
            body();
            (sim::now() - start).0
        };
        [
            timed(&|| region.nt_store(0, &[1; 512]).expect("in range")),
            timed(&|| region.load(0, &mut [0; 512]).expect("in range")),
            timed(&|| region.flush(0, 512)),
            timed(&|| region.fence()),
            timed(&|| region.peek(0, &mut [0; 512]).expect("in range")),
            timed(&|| assert!(region.load_u64(0).is_ok())),
        ]
    });
    assert_eq!(times.expect("the run ends"), [512, 512, 8, 1, 0, 0]);
}
