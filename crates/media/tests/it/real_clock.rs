//! The same models under the real clock. Times are printed, never judged: a busy host may be as late as it
//! likes.

use std::sync::Arc;
use std::time::Instant;

use media::{Medium, Region};
use sim::{Bytes, MIB, Machine, PAGE_BYTES, Seed, Setup, TaskSpec};

fn real_run<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    sim::run(&Setup::real_clock(Machine::unit(), Seed(1)), body).expect("the run ends")
}

fn region(medium: &str) -> Arc<Region> {
    let model = Medium::parse(medium).expect("a medium").build().expect("a model");
    Arc::new(Region::anonymous(Bytes(MIB), model).expect("memory"))
}

/// Median nanoseconds of `access` over many.
fn median_ns(mut access: impl FnMut()) -> u64 {
    let mut times: Vec<u64> = (0..2_000)
        .map(|_| {
            let start = Instant::now();
            access();
            start.elapsed().as_nanos() as u64
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

#[test]
fn injected_latency_is_near_its_target() {
    for latency in [50, 100, 200, 400, 800] {
        let region = region(&format!("hinfs,latency={latency}ns"));
        let (line, page) = real_run(move || {
            let line = median_ns(|| region.flush(0, 64));
            (line, median_ns(|| region.nt_store(0, &[1; PAGE_BYTES]).expect("in range")))
        });
        println!(
            "line: target {latency} ns, achieved {line} ns; page: target {} ns, achieved {page} ns",
            latency * 64
        );
        assert!(line > 0 && page > 0);
    }
}

#[test]
fn writers_beyond_the_limit_wait_for_their_turn() {
    for tasks in [1, 2, 4] {
        let region = region("hinfs,bandwidth=320MB/s");
        let rate = real_run(move || {
            let start = Instant::now();
            let write = |task: u64| {
                let region = Arc::clone(&region);
                sim::spawn(TaskSpec::named(format!("t{task}")), move || {
                    for _ in 0..200 {
                        region.nt_store(task * 8192, &[1; PAGE_BYTES]).expect("in range");
                    }
                })
            };
            let tasks: Vec<_> = (0..tasks).map(write).collect();
            let written = tasks.len() * 200 * PAGE_BYTES;
            tasks.into_iter().for_each(sim::JoinHandle::join);
            written as f64 / start.elapsed().as_secs_f64() / 1e6
        });
        println!("{tasks} writers of one slot: target 320 MB/s, achieved {rate:.0} MB/s");
        assert!(rate > 0.0);
    }
}

#[test]
fn outside_a_run_nothing_is_charged_and_all_works() {
    let region = region("optane.100");
    region.nt_store(3, &[5; 5000]).expect("in range");
    region.fence();
    let mut back = [0; 5000];
    region.load(3, &mut back).expect("in range");
    assert_eq!(back, [5; 5000]);
}
