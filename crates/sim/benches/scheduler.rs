//! Cost of a scheduler step: interactions a second with 80 tasks, every one of which switches.

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sim::{Machine, Seed, Setup, TaskSpec, Work};

/// `tasks` tasks that each interact `rounds` times; all advance alike, so nearly every interaction switches.
fn interactions(tasks: u64, rounds: u64) -> Duration {
    let setup = Setup::virtual_clock(Machine::unit(), Seed(1));
    let elapsed = sim::run(&setup, move || {
        let start = Instant::now();
        let handles: Vec<_> = (0..tasks)
            .map(|n| {
                sim::spawn(TaskSpec::named(format!("t{n}")).on_core(n as u16), move || {
                    for _ in 0..rounds {
                        sim::work(Work::Step, 1 + n % 7);
                        sim::interact();
                    }
                })
            })
            .collect();
        handles.into_iter().for_each(sim::JoinHandle::join);
        start.elapsed()
    });
    elapsed.expect("the run ends")
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("scheduler");
    for tasks in [1, 2, 80] {
        group.throughput(Throughput::Elements(1));
        group.bench_function(format!("interaction_{tasks}_tasks"), |b| {
            b.iter_custom(|n| interactions(tasks, n.div_ceil(tasks)));
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
