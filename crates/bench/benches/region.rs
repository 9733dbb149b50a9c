//! What the façade and the tap cost on the host: a 4 KiB store past the cache and a 4 KiB load, beside a bare
//! `memcpy`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{
    Bencher, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime,
};
use media::event::Counting;
use media::nvmm::null::Null;
use media::{CostModel, Medium, Region};
use sim::{Bytes, MIB, Machine, PAGE_BYTES, Seed, Setup};

/// Small enough to stay in a cache: what is measured is the code, not the memory.
const PAGES: u64 = 64;
const SIZE: u64 = PAGES * PAGE_BYTES as u64;

fn memory(model: Box<dyn CostModel>, taps: usize) -> Region {
    let region = Region::anonymous(Bytes(SIZE.max(MIB)), model).expect("memory");
    for _ in 0..taps {
        region.attach(Arc::new(Counting::new()));
    }
    region.nt_zero(0, SIZE).expect("in range");
    region
}

fn page_of(n: u64) -> u64 {
    n % PAGES * PAGE_BYTES as u64
}

fn store_pages(region: &Region, n: u64) -> Duration {
    let page = [7; PAGE_BYTES];
    let start = Instant::now();
    for at in 0..n {
        region.nt_store(page_of(at), black_box(&page)).expect("in range");
        region.fence();
    }
    start.elapsed()
}

fn load_pages(region: &Region, n: u64) -> Duration {
    let mut page = [7; PAGE_BYTES];
    let start = Instant::now();
    for at in 0..n {
        region.load(page_of(at), black_box(&mut page)).expect("in range");
    }
    start.elapsed()
}

/// Measures inside a virtual run.
fn virtually(b: &mut Bencher<'_>, medium: &'static str, work: fn(&Region, u64) -> Duration) {
    b.iter_custom(|n| {
        let setup = Setup::virtual_clock(Machine::unit(), Seed(1));
        let model = Medium::parse(medium).expect("a medium").build().expect("a model");
        sim::run(&setup, move || work(&memory(model, 0), n)).expect("the run ends")
    });
}

fn bare_copies(group: &mut BenchmarkGroup<'_, WallTime>) {
    let mut memory = vec![1_u8; SIZE as usize];
    let page = [7_u8; PAGE_BYTES];
    group.bench_function("memcpy", |b| {
        let mut at = 0;
        b.iter(|| {
            at += 1;
            let off = page_of(at) as usize;
            black_box(&mut memory)[off..off + PAGE_BYTES].copy_from_slice(black_box(&page));
        });
    });
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("region_4k");
    group.throughput(Throughput::Bytes(PAGE_BYTES as u64));
    bare_copies(&mut group);
    for (name, taps) in [("tap_off", 0), ("tap_counting", 1)] {
        let region = memory(Box::new(Null), taps);
        group
            .bench_function(format!("nt_store_fence/{name}"), |b| b.iter_custom(|n| store_pages(&region, n)));
        group.bench_function(format!("load/{name}"), |b| b.iter_custom(|n| load_pages(&region, n)));
    }
    for medium in ["dram", "hinfs", "optane.100"] {
        group.bench_function(format!("nt_store_fence/virtual/{medium}"), |b| {
            virtually(b, medium, store_pages);
        });
        group.bench_function(format!("load/virtual/{medium}"), |b| virtually(b, medium, load_pages));
    }
    group.finish();
    c.bench_function("load_u64", |b| {
        let region = memory(Box::new(Null), 0);
        let mut at = 0;
        b.iter(|| {
            at = (at + 8) % SIZE;
            region.load_u64(black_box(at))
        });
    });
}

criterion_group!(benches, bench);
criterion_main!(benches);
