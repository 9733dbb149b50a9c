//! What a setting of `optane` turns on, against closed forms: posted stores, loads before stores, one timeline, streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use media::{Medium, Region};
use sim::{Bytes, KIB, MIB, Machine, Nanos, Seed, Setup, TaskSpec, Work};

/// One DIMM in round numbers: 64 ns for a media read of 256 bytes, 128 ns for a write, a queue that never fills.
const PLAIN: &str = "optane,dimms=1,read_hit=100ns,read_miss=300ns,write_accept=80ns,read_bandwidth=4GB/s,\
                     write_bandwidth=2GB/s,queue=1000000,parallel=8";

fn region(medium: &str) -> Arc<Region> {
    let model = Medium::parse(medium).expect("a medium").build().expect("a model");
    Arc::new(Region::anonymous(Bytes(8 * MIB), model).expect("memory"))
}

fn run<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let machine =
        Machine { work_ps: [0; Work::MAX], copy_ps_per_byte: 0, dram_ps_per_byte: 0, ..Machine::unit() };
    sim::run(&Setup::virtual_clock(machine, Seed(1)), body).expect("the run ends")
}

fn timed(body: impl FnOnce()) -> Nanos {
    let start = sim::now();
    body();
    sim::now() - start
}

/// Accesses that each of `tasks` tasks ends in a millisecond, in all.
fn accesses(medium: &str, tasks: u64, access: fn(&Region, u64)) -> u64 {
    const WINDOW: Nanos = Nanos::from_millis(1);
    let region = region(medium);
    run(move || {
        let done = Arc::new(AtomicU64::new(0));
        let start = |task: u64| {
            let (region, done) = (Arc::clone(&region), Arc::clone(&done));
            sim::spawn(TaskSpec::named(format!("t{task}")).on_core(task as u16), move || {
                for turn in 0.. {
                    access(&region, task * 128 * KIB + turn % 512 * 256);
                    if sim::now() > WINDOW {
                        return;
                    }
                    done.fetch_add(1, Relaxed);
                }
            })
        };
        let tasks: Vec<_> = (0..tasks).map(start).collect();
        tasks.into_iter().for_each(sim::JoinHandle::join);
        done.load(Relaxed)
    })
}

fn store(region: &Region, at: u64) {
    region.nt_store(at, &[7; 256]).expect("in range");
}

fn load(region: &Region, at: u64) {
    region.load(at, &mut [0; 256]).expect("in range");
}

fn near(value: u64, expected: f64) -> bool {
    (value as f64 / expected - 1.0).abs() < 0.01
}

#[test]
fn a_posted_store_takes_its_lines_and_only_a_fence_waits_until_the_last_is_accepted() {
    let region = region(&format!("{PLAIN},store_line=20ns"));
    run(move || {
        for lines in [1, 2, 8, 32] {
            let bytes = vec![7; lines * 64];
            let stored = timed(|| region.nt_store(0, &bytes).expect("in range"));
            assert_eq!(stored, Nanos(20 * lines as u64), "no fence");
            assert_eq!(timed(|| region.fence()), Nanos(80));
            assert_eq!(timed(|| region.fence()), Nanos(0), "nothing is under way");
            let flushed = timed(|| {
                region.store(0, &bytes).expect("in range");
                region.flush(0, bytes.len() as u64);
                region.fence();
            });
            assert_eq!(flushed, Nanos(20 * lines as u64 + 80));
        }
    });
}

#[test]
fn the_copy_and_the_lines_of_a_posted_store_overlap() {
    let region = region(&format!("{PLAIN},store_line=20ns"));
    let machine = Machine { copy_ps_per_byte: 250, dram_ps_per_byte: 0, ..Machine::unit() };
    let machine = Machine { work_ps: [0; Work::MAX], ..machine };
    let took = sim::run(&Setup::virtual_clock(machine, Seed(1)), move || {
        timed(|| region.nt_store(0, &[7; 512]).expect("in range"))
    });
    assert_eq!(took.expect("the run ends"), Nanos(160), "8 lines of 20 ns, and 128 ns of copy beside them");
}

#[test]
fn a_store_into_the_cache_loads_its_lines_first_where_the_setting_says_so() {
    for (fetch, expected) in [("no", 0), ("yes", (300 + 3 * 100) / 8)] {
        let region = region(&format!("{PLAIN},fetch={fetch}"));
        run(move || {
            assert_eq!(timed(|| region.store(4096, &[7; 256]).expect("in range")), Nanos(expected));
            assert_eq!(timed(|| region.store_cached(8192, &[7; 256]).expect("in range")), Nanos(0));
        });
    }
}

#[test]
fn loads_that_follow_at_once_overlap_and_a_fence_parts_them() {
    let region = region(&format!("{PLAIN},window=yes"));
    run(move || {
        let one = |at: u64| timed(|| region.load(at, &mut [0; 64]).expect("in range"));
        assert_eq!(one(0), Nanos(300), "nothing before it");
        assert_eq!(one(4096), Nanos(64), "300 ns of 8 at once are less than the media take for each");
        region.fence();
        assert_eq!(one(8192), Nanos(300));
        sim::medium(Nanos(1));
        assert_eq!(one(12_288), Nanos(300), "a step lies between");
    });
}

#[test]
fn a_copy_begins_with_a_whole_latency_which_goes_on_in_order_is_a_mean() {
    let region = region(&format!("{PLAIN},window=yes"));
    run(move || {
        let copy = |at: u64, bytes: usize| {
            sim::medium(Nanos(1_000));
            timed(|| region.load(at, &mut vec![0; bytes]).expect("in range"))
        };
        let (lines, line, mean) = (4, 300 + 3 * 100, 150);
        assert_eq!(copy(8192, 1024), Nanos(300 + (lines * line - 300) / 8), "anywhere");
        assert_eq!(copy(9216, 1024), Nanos(mean + (lines * line - mean) / 8), "the next lines");
        let pages = copy(64 * 1024, 8192);
        assert_eq!(pages, Nanos(300 + (16 * line - 300) / 8 + 16 * line / 8), "its second page goes on");
    });
}

#[test]
fn a_first_use_of_metadata_takes_the_load_alone_where_its_time_is_the_whole() {
    for (loads, expected) in [("extra", 80 + 300), ("whole", 300)] {
        let region = region(&format!("{PLAIN},loads={loads}"));
        let mut machine = Machine { copy_ps_per_byte: 0, dram_ps_per_byte: 0, ..Machine::unit() };
        machine.work_ps[Work::MISS.index()] = 80_000;
        let took = sim::run(&Setup::virtual_clock(machine, Seed(1)), move || {
            let object = sim::Recency::new();
            (timed(|| region.touch(&object, 0, 1)), timed(|| region.touch(&object, 0, 1)))
        });
        assert_eq!(took.expect("the run ends"), (Nanos(expected), Nanos(0)), "{loads}");
    }
}

#[test]
fn what_is_flushed_is_loaded_again_on_a_machine_whose_flushes_evict() {
    for (flush_evicts, again) in [(false, 0), (true, 100)] {
        let region = region(PLAIN);
        let caches = sim::Caches {
            private: Bytes(MIB),
            private_copy_ps_per_byte: 0,
            socket_copy_ps_per_byte: 0,
            socket_hit_ps: 0,
            flush_evicts,
            ways: None,
        };
        let machine =
            Machine { copy_ps_per_byte: 0, dram_ps_per_byte: 0, caches: Some(caches), ..Machine::unit() };
        let machine = Machine { work_ps: [0; Work::MAX], ..machine };
        let took = sim::run(&Setup::virtual_clock(machine, Seed(1)), move || {
            region.load(0, &mut [0; 256]).expect("in range");
            region.flush(4096, 64); // of another page
            let kept = timed(|| region.load(0, &mut [0; 256]).expect("in range"));
            region.flush(0, 64);
            // The buffer of the DIMM has it still: four hits of 100 ns at once.
            (kept, timed(|| region.load(0, &mut [0; 256]).expect("in range")))
        });
        assert_eq!(took.expect("the run ends"), (Nanos(0), Nanos(again)));
    }
}

#[test]
fn on_one_timeline_a_mix_has_less_bandwidth_than_either_and_turning_costs() {
    fn mix(region: &Region, at: u64) {
        if (at / 256).is_multiple_of(2) { store(region, at) } else { load(region, at) }
    }
    let medium = |more: &str| format!("{PLAIN},queue=4,store_line=1ns{more}");
    // 16 tasks keep the media busy.
    let two = accesses(&medium(""), 16, mix);
    let one = accesses(&medium(",timeline=one"), 16, mix);
    let turning = accesses(&medium(",timeline=one,turn=32ns"), 16, mix);
    assert!(near(two, 1e6 / 64.0), "half of them are writes of 128 ns beside reads: {two}");
    assert!(near(one, 2.0 * 1e6 / (128.0 + 64.0)), "{one}");
    assert!(turning < one * 19 / 20, "{turning} with turns, {one} without");
    assert!(
        turning > (2.0 * 1e6 / (128.0 + 64.0 + 2.0 * 32.0)) as u64 * 99 / 100,
        "at most one turn an access"
    );
}

#[test]
fn streams_beyond_those_that_do_no_harm_write_and_read_parts_of_lines() {
    let medium = format!(
        "{PLAIN},queue=0,timeline=one,store_line=1ns,write_streams=4,read_streams=8,streams_power=500"
    );
    let line =
        |service: f64, tasks: f64, streams: f64| 1e6 / (service * (tasks / streams).max(1.0).sqrt().min(4.0));
    for tasks in [1, 2, 4, 9, 16, 30] {
        let found = accesses(&medium, tasks, store);
        assert!(near(found, line(128.0, tasks as f64, 4.0)), "{tasks} writers: {found}");
    }
    for tasks in [8, 16, 32] {
        let found = accesses(&medium, tasks, load);
        assert!(near(found, line(64.0, tasks as f64, 8.0)), "{tasks} readers: {found}");
    }
}

#[test]
fn an_interleaved_set_has_its_tasks_spread_over_its_modules() {
    let medium = |dimms: u64| {
        format!("{PLAIN},queue=0,timeline=one,store_line=1ns,write_streams=4,streams_power=500,dimms={dimms}")
            .replace("dimms=1,", "")
    };
    let (one, six) = (accesses(&medium(1), 24, store), accesses(&medium(6), 24, store));
    assert!(near(one, 1e6 / (128.0 * 6.0_f64.sqrt())), "24 tasks, 4 do no harm: {one}");
    assert!(six > 12 * one, "four a module: {six}, one module {one}");
}

#[test]
fn quarters_that_are_written_alone_lose_nothing_more_beside_others() {
    fn quarter(region: &Region, at: u64) {
        region.nt_store(at, &[7; 64]).expect("in range");
    }
    let medium = |streams: u64| {
        format!("{PLAIN},queue=0,timeline=one,store_line=1ns,write_streams={streams},buffer_lines=1")
    };
    let (with, without) = (accesses(&medium(1), 16, quarter), accesses(&medium(0), 16, quarter));
    assert!(near(with, without as f64), "{with} and {without}");
}

/// Mean extra time of so many single lines, a row apart, on one bank after the other.
fn lines(medium: &str, writes: bool) -> f64 {
    const COUNT: u64 = 1000;
    let region = region(medium);
    run(move || {
        let took = timed(|| {
            for at in 0..COUNT {
                let off = at * 4 * KIB;
                if writes {
                    region.nt_store(off % (4 * MIB), &[1; 64]).expect("in range");
                } else {
                    region.load(off % (4 * MIB), &mut [0; 64]).expect("in range");
                }
            }
        });
        took.0 as f64 / COUNT as f64
    })
}

#[test]
fn a_given_rate_of_hits_takes_the_mean_of_hits_and_misses_to_a_thousandth() {
    // What a hit takes, 36 ns, is DRAM's.
    for (rate, read, write) in [
        (50, 68.0, 168.0),
        (60, 61.6, 141.6),
        (70, 55.2, 115.2),
        (80, 48.8, 88.8),
        (90, 42.4, 62.4),
        (100, 36.0, 36.0),
    ] {
        let medium = format!("buffered,rate={rate}");
        for (writes, expected) in [(false, read), (true, write)] {
            let found = 36.0 + lines(&medium, writes);
            assert!((found / expected - 1.0_f64).abs() < 0.001, "{rate} %: {found} ns, expected {expected}");
        }
    }
}

#[test]
fn a_buffer_hits_within_the_block_that_its_bank_served_last() {
    for size in [256, 512, 1024, 2048, 4096] {
        let region = region(&format!("buffered,size={size}B"));
        let took = run(move || timed(|| region.nt_store(0, &[1; 4096]).expect("in range")));
        // Each block misses once, and banks work at once: 8 of them.
        let of_a_bank = (4096 / size as u64).div_ceil(8);
        assert_eq!(took.0, of_a_bank * 264, "{size} B");
    }
}

#[test]
fn accesses_to_other_banks_do_not_wait_and_those_to_one_bank_do() {
    let both = |second: u64| {
        let region = region("buffered,size=2KiB");
        run(move || {
            let start = |at: u64| {
                let region = Arc::clone(&region);
                sim::spawn(TaskSpec::named(format!("t{at}")).on_core((at > 0).into()), move || {
                    timed(|| region.nt_store(at, &[1; 64]).expect("in range"))
                })
            };
            let tasks = [start(0), start(second)];
            tasks.map(|task| task.join().0).into_iter().max()
        })
    };
    assert_eq!(both(2 * KIB), Some(264));
    assert_eq!(both(16 * KIB), Some(528));
}
