//! How many requests of 4 KiB the SSD model simulates in a second of one core, 32 outstanding.
//!
//! The device is `fast24` with 4 GiB in lines of 512 KiB, so that its map is larger than a core's cache. It is filled, then
//! overwritten at random three times over: collection is in its steady state before anything is measured. Beside the wall
//! time, which other work on this host lengthens, the requests in a second of this thread's own processor time are printed,
//! of the best and the middle batch.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use media::flash::{Command, Data, Op, PAGE, Queues, Ssd, SsdModel};
use sim::Nanos;

const REQUESTS: u64 = 200_000;
const DEPTH: u64 = 32;
/// Batches whose processor time is taken; other work on the host spoils the caches of some.
const ROUNDS: usize = 15;

/// A device in its steady state, and where time stands.
fn steady() -> (Ssd, u64) {
    let config = SsdModel::parse("fast24,capacity=4GiB").map(|model| model.config().expect("possible"));
    let mut ssd = Ssd::new(&config.expect("a preset"), Data::Drop).expect("possible");
    let pages = ssd.size(0).expect("a namespace").0 / PAGE;
    let mut random = Random(1);
    replay(&mut ssd, Op::Write, pages, |i| i);
    replay(&mut ssd, Op::Write, 3 * pages, |_| random.next() % pages);
    (ssd, pages)
}

/// Closed loop; returns when the last request completed.
fn replay(ssd: &mut Ssd, op: Op, count: u64, mut page: impl FnMut(u64) -> u64) -> Nanos {
    let mut queues = Queues::new(1);
    let mut last = ssd.now();
    let mut next = 0;
    while next < DEPTH.min(count) {
        queues.post(0, next, Command::new(op, page(next) * PAGE, PAGE), last);
        next += 1;
    }
    while let Some(done) = queues.next(ssd).expect("no refusal") {
        last = done.at;
        if next < count {
            queues.post(0, next, Command::new(op, page(next) * PAGE, PAGE), last);
            next += 1;
        }
    }
    last
}

/// Processor time of this thread so far.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

fn requests(c: &mut Criterion) {
    let (ssd, pages) = steady();
    println!("write amplification before: {:.2}", ssd.statistics().write_amplification);
    let mut group = c.benchmark_group("flash");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    for (name, op) in [("random-read-4k", Op::Read), ("random-write-4k-steady", Op::Write)] {
        let mut random = Random(7);
        let mut ssd = ssd.clone();
        let rates = (0..ROUNDS).map(|_| {
            let before = processor_ns();
            replay(&mut ssd, op, REQUESTS, |_| random.next() % pages);
            REQUESTS as f64 * 1e3 / (processor_ns() - before) as f64
        });
        let mut rates: Vec<f64> = rates.collect();
        rates.sort_by(f64::total_cmp);
        let (best, middle) = (rates[rates.len() - 1], rates[rates.len() / 2]);
        println!(
            "{name}: {best:.2} million requests in a second of processor time, best of {ROUNDS}; median {middle:.2}"
        );
        // The device goes on from batch to batch: a copy would be cold.
        group.bench_function(name, |b| {
            b.iter_batched(
                || (),
                |()| black_box(replay(&mut ssd, op, REQUESTS, |_| random.next() % pages)),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, requests);
criterion_main!(benches);
