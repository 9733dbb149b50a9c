//! How fast the simulator is: accesses that hit L1, micro-benchmarks under software and hardware logging, and the controller alone
//! under random reads. CPU time of the thread: other load on the host would multiply wall time.

use std::hint::black_box;
use std::time::Duration;

use archsim::engine::{Engine, Feed, Flaws};
use archsim::memory::controller::{Controller, Done};
use archsim::op::{Kind, Op};
use archsim::run::run_prepared;
use archsim::{Config, Machine, scheme};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rustix::time::{ClockId, clock_gettime};

const ACCESSES: u64 = 1_000_000;

/// CPU time of this thread that `times` runs of `body` take.
fn cpu_time(times: u64, mut body: impl FnMut()) -> Duration {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
    };
    let before = now();
    (0..times).for_each(|_| body());
    now().saturating_sub(before)
}

/// Loads and stores of 16 KiB, over and over.
struct Resident(u64);

impl Feed for Resident {
    fn next(&mut self, _: usize, ops: &mut Vec<Op>) -> bool {
        for at in 0..1000.min(self.0) {
            let kind = if at % 4 == 0 { Kind::Store } else { Kind::Load };
            ops.push(Op::new(kind, (1 << 20) + at * 40 % (16 << 10), at));
        }
        self.0 = self.0.saturating_sub(1000);
        !ops.is_empty()
    }

    fn payload(&self, _: u64, _: usize) -> u64 {
        0
    }
}

fn resident(criterion: &mut Criterion) {
    let machine = Machine::load("hpca18").expect("it is in the program");
    let scheme = scheme::by_name("non-pers").expect("it is in the table");
    let mut group = criterion.benchmark_group("accesses");
    group.throughput(Throughput::Elements(ACCESSES)).sample_size(10);
    group.bench_function("l1_resident", |bench| {
        bench.iter_custom(|times| {
            cpu_time(times, || {
                let mut engine = Engine::new(&machine, scheme, 1, Flaws::default(), Resident(ACCESSES));
                engine.run(u64::MAX).expect("it fits");
                black_box(engine.threads[0].retired);
            })
        });
    });
    group.finish();
}

fn mixed(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("accesses");
    for (scheme, workload, threads) in
        [("undo-clwb", "btree", 1), ("non-pers", "rbtree", 1), ("fwb", "hash", 4)]
    {
        let mut machine = Machine::load("hpca18").expect("it is in the program");
        machine.set("footprint", "1MiB").expect("legal");
        machine.warmup = 0;
        let (name, of) = (format!("{workload}_{scheme}_{threads}"), (scheme.to_owned(), workload.to_owned()));
        let config =
            Config { machine, scheme: of.0, workload: of.1, threads, seed: 1, ops: 10_000, trace: None };
        // The structures are built once; every run begins with them.
        let mut prepared = None;
        let accesses = run_prepared(&config, &mut prepared).expect("it fits").accesses;
        group.throughput(Throughput::Elements(accesses)).sample_size(10);
        group.bench_function(&name, |bench| {
            bench.iter_custom(|times| {
                cpu_time(times, || {
                    black_box(run_prepared(&config, &mut prepared).expect("it fits").time);
                })
            });
        });
    }
    group.finish();
}

fn controller(criterion: &mut Criterion) {
    let machine = Machine::load("hpca18").expect("it is in the program");
    let mut group = criterion.benchmark_group("requests");
    group.throughput(Throughput::Elements(ACCESSES)).sample_size(10);
    group.bench_function("random_reads", |bench| {
        bench.iter_custom(|times| cpu_time(times, || random_reads(&machine)));
    });
    group.finish();
}

/// A million reads at random places, 32 at a time.
fn random_reads(machine: &Machine) {
    let mut controller = Controller::new(machine);
    let (mut line, mut now, mut open, mut left) = (1_u64, 0, 0, ACCESSES);
    let mut done = Vec::new();
    while left > 0 {
        while open < 32 {
            line = line.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            open += u32::from(controller.read(line >> 40, now).is_none());
        }
        now = controller.next();
        controller.step(now, &mut done);
        let read = done.drain(..).filter(|event| matches!(event, Done::Read(..))).count();
        open -= read as u32;
        left = left.saturating_sub(read as u64);
    }
    black_box(now);
}

criterion_group!(benches, resident, mixed, controller);
criterion_main!(benches);
