//! Two tasks at once, under many schedules: what lies between two locks of one call.

use std::sync::Arc;

use check::{Design, NEW};
use sim::{Bytes, Machine, Schedule, Seed, Setup, TaskSpec};
use vfs::{FileSystem, Ino, IoFlags, OpenFlags};

use crate::kernel_images::copy;
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

/// Directories `a` and `b`, and a file in each: the directories, the files.
fn two_files(fs: &dyn FileSystem) -> [(Ino, Ino); 2] {
    [b"a", b"b"].map(|name| {
        let dir = fs.mkdir(fs.root(), name, &NEW).expect("mkdir").ino;
        let file = fs.create(dir, b"x", &NEW).expect("create").ino;
        fs.write(file, 0, &[7; 3000], IoFlags::empty()).expect("write");
        (dir, file)
    })
}

/// The list is in the superblock and in the inodes, and each task changes both when its file loses its name and when it is closed.
#[test]
fn tasks_that_remove_open_files_leave_a_list_of_orphans_that_a_mount_can_read() {
    for seed in 0..SEEDS {
        explored(seed, move || {
            let (design, region) = (design(), check::design::region(Bytes::mib(4)));
            design.mkfs(&region).expect("mkfs");
            let fs = design.mount(&region).expect("mount");
            let files = two_files(&*fs);
            for (_, file) in files {
                fs.open(file, OpenFlags::READ).expect("open");
            }
            fs.sync().expect("sync");
            let tasks = files.map(|(dir, file)| {
                let fs = Arc::clone(&fs);
                sim::spawn(TaskSpec::named("remove"), move || {
                    fs.unlink(dir, b"x").expect("unlink");
                    fs.release(file);
                })
            });
            tasks.into_iter().for_each(sim::JoinHandle::join);
            fs.sync().expect("sync");
            let crashed = copy(&region);
            fs.unmount().expect("unmount");
            assert_eq!(design.own_violations(&region), Vec::<String>::new(), "seed {seed}: unmounted");
            let after = design.mount(&crashed).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
            after.unmount().expect("unmount");
            assert_eq!(design.own_violations(&crashed), Vec::<String>::new(), "seed {seed}: crashed");
        });
    }
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
