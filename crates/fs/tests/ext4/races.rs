//! Two tasks at once, under many schedules: what lies between two locks of one call.

use std::sync::Arc;

use check::{Design, NEW};
use sim::{Bytes, Machine, Schedule, Seed, Setup, TaskSpec};
use vfs::IoFlags;

use crate::{Judged, judged};

const SEEDS: u64 = 400;

fn design() -> Judged {
    judged("ext4", &[("block_size", "1k"), ("journal", "1MiB"), ("cache", "1MiB")])
}

/// Runs `body` in the order that the seed chooses.
fn explored<T: Send + 'static>(seed: u64, body: impl FnOnce() -> T + Send + 'static) -> T {
    let setup = Setup::virtual_clock(Machine::unit(), Seed(seed));
    let (done, _) = sim::explore(&setup, &Schedule::Random, body);
    done.unwrap_or_else(|error| panic!("seed {seed}: {error}"))
}

#[test]
fn a_direct_read_during_a_cached_append_sees_the_file_before_or_after() {
    const BYTES: usize = 4096;
    for seed in 0..SEEDS {
        explored(seed, move || {
            let (design, region) = (design(), check::design::region(Bytes::mib(4)));
            design.mkfs(&region).expect("mkfs");
            let fs = design.mount(&region).expect("mount");
            let file = fs.create(fs.root(), b"x", &NEW).expect("create").ino;
            let other = Arc::clone(&fs);
            let other = sim::spawn(TaskSpec::named("append"), move || {
                other.write(file, 0, &[b'a'; BYTES], IoFlags::APPEND).expect("append");
            });
            let mut found = vec![0; BYTES];
            let bytes = fs.read(file, 0, &mut found, IoFlags::DIRECT).expect("read");
            assert!(found[..bytes].iter().all(|byte| *byte == b'a'), "seed {seed}: zeros were read");
            other.join();
            fs.unmount().expect("unmount");
        });
    }
}
