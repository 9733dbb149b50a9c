//! PMFS under the real clock, one thread, memory that costs nothing: what its own code takes for a call.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use media::Storage;
use media::nvmm::Region;
use sim::Bytes;
use vfs::{FileSystem, IoFlags, NewInode, Owner};

const NEW: NewInode = NewInode { perm: 0o644, owner: Owner { uid: 0, gid: 0 } };

fn mounted() -> Arc<dyn FileSystem> {
    let region = Region::anonymous(Bytes::mib(256), Box::new(media::nvmm::null::Null)).expect("memory");
    let design = fs::by_name("pmfs").expect("pmfs is a design");
    let options = design::Options::resolve("pmfs", design.options(), &BTreeMap::default()).expect("defaults");
    let region = Arc::new(region);
    design.format().mkfs(&Storage::from(&region), &options).expect("mkfs");
    design.mount(&Storage::from(&region), &options).expect("mount")
}

fn calls(criterion: &mut Criterion) {
    let fs = mounted();
    let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
    let data = vec![7u8; 1 << 20];
    for chunk in 0..64u64 {
        fs.write(file, chunk << 20, &data, IoFlags::empty()).expect("write");
    }
    let mut group = criterion.benchmark_group("pmfs");
    let (mut at, mut page) = (0u64, [0u8; 4096]);
    group.bench_function("read 4 KiB", |bench| {
        bench.iter(|| {
            at = (at + 4096 * 7919) % (64 << 20);
            fs.read(file, at, black_box(&mut page), IoFlags::empty())
        });
    });
    group.bench_function("overwrite 4 KiB", |bench| {
        bench.iter(|| {
            at = (at + 4096 * 7919) % (64 << 20);
            fs.write(file, at, black_box(&page), IoFlags::empty())
        });
    });
    let dir = fs.mkdir(fs.root(), b"private", &NEW).expect("mkdir").ino;
    group.bench_function("create and unlink an empty file", |bench| {
        bench.iter(|| {
            fs.create(dir, b"a file", &NEW).and_then(|_| fs.unlink(dir, b"a file")).expect("create, unlink");
        });
    });
    group.bench_function("append 4 KiB, truncate at 1 MiB", |bench| {
        let log = fs.create(dir, b"log", &NEW).expect("create").ino;
        let mut size = 0;
        bench.iter(|| {
            if size == 1 << 20 {
                size = 0;
                fs.setattr(log, &vfs::SetAttr { size: Some(0), ..Default::default() }).expect("truncate");
            }
            size += 4096;
            fs.write(log, 0, black_box(&page), IoFlags::APPEND)
        });
        fs.unlink(dir, b"log").expect("unlink");
    });
    group.finish();
    fs.unmount().expect("unmount");
}

criterion_group!(benches, calls);
criterion_main!(benches);
