//! Two tasks at once, under many schedules: what lies between two locks of one call.

use std::sync::Arc;

use check::NEW;
use sim::{Bytes, Machine, Schedule, Seed, Setup, Switch, TaskSpec};
use vfs::{FallocateMode, FileSystem, Ino, IoFlags, OpenFlags, SetAttr};

use crate::ext4::kernel_images::copy;
use crate::ext4::{Judged, judged};

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
            let (design, region) = (design(), check::configured::region(Bytes::mib(4)));
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

/// One task removes a file; another makes one, fills it and reads it, all at once where the schedule switches to it. The number of
/// the other task, and whether the new file has got the number of the old.
fn remove_and_make(schedule: &Schedule) -> ((u32, bool), u64) {
    const BYTES: usize = 5000;
    let setup = Setup::virtual_clock(Machine::unit(), Seed(1));
    let shown = schedule.clone();
    let (done, interleaving) = sim::explore(&setup, schedule, move || {
        let (design, region) = (design(), check::configured::region(Bytes::mib(4)));
        design.mkfs(&region).expect("mkfs");
        let fs = design.mount(&region).expect("mount");
        let [(a, old), (b, _)] = two_files(&*fs);
        fs.sync().expect("sync");
        let [removing, making] = [Arc::clone(&fs), Arc::clone(&fs)];
        let removing = sim::spawn(TaskSpec::named("remove"), move || removing.unlink(a, b"x"));
        let making = sim::spawn(TaskSpec::named("make"), move || {
            let fs = making;
            let new = fs.create(b, b"new", &NEW).expect("create").ino;
            fs.open(new, OpenFlags::WRITE).expect("open");
            fs.write(new, 0, &[b'n'; BYTES], IoFlags::empty()).expect("write");
            (new, sim::task::current_id().expect("it is a task"))
        });
        removing.join().expect("unlink");
        let (new, number) = making.join();
        let mut found = vec![0; 2 * BYTES];
        let bytes = fs.read(new, 0, &mut found, IoFlags::empty()).expect("read");
        assert!(found[..bytes] == [b'n'; BYTES], "{shown:?}: {bytes} bytes are left");
        fs.release(new);
        fs.unmount().expect("unmount");
        assert_eq!(design.own_violations(&region), Vec::<String>::new(), "{shown:?}");
        (number, new == old)
    });
    (done.unwrap_or_else(|error| panic!("{error}")), interleaving.points)
}

/// The number of a file that is being removed is free before the last step of the removal.
#[test]
fn a_file_that_gets_the_number_of_one_that_is_being_removed_keeps_what_is_written_to_it() {
    let ((making, _), points) = remove_and_make(&Schedule::Directed(Vec::new()));
    let at = |point| remove_and_make(&Schedule::Directed(vec![Switch { point, to: making }]));
    let reused = (1..points).filter(|point| at(*point).0.1).count();
    assert!(reused > 0 && reused + 1 < points as usize, "{reused} of {points}");
}

#[test]
fn a_direct_read_during_a_cached_append_sees_the_file_before_or_after() {
    const BYTES: usize = 4096;
    for seed in 0..SEEDS {
        explored(seed, move || {
            let (design, region) = (design(), check::configured::region(Bytes::mib(4)));
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

/// Fills the device with the data of a file, and removes the file.
fn leave_secrets(fs: &dyn FileSystem) {
    let file = fs.create(fs.root(), b"secret", &NEW).expect("create").ino;
    while fs.write(file, 0, &[b's'; 4096], IoFlags::APPEND).is_ok() {}
    fs.sync().expect("sync");
    fs.unlink(fs.root(), b"secret").expect("unlink");
    fs.sync().expect("sync");
}

/// The commit of another task gives the file its blocks; the one in which `free` frees them is lost.
fn free_during_a_commit(free: fn(&dyn FileSystem, Ino)) {
    for seed in 0..SEEDS / 4 {
        explored(seed, move || {
            let given = [("block_size", "1k"), ("journal", "1MiB"), ("cache", "1MiB"), ("delalloc", "false")];
            let (design, region) = (judged("ext4", &given), check::configured::region(Bytes::mib(2)));
            design.mkfs(&region).expect("mkfs");
            let fs = design.mount(&region).expect("mount");
            leave_secrets(&*fs);
            let [other, file] =
                [b"other", b"freed"].map(|name| fs.create(fs.root(), name, &NEW).expect("create").ino);
            fs.write(file, 0, &[b'x'; BYTES], IoFlags::empty()).expect("write");
            let (fsyncs, image) = (Arc::clone(&fs), Arc::clone(&region));
            let crash = sim::spawn(TaskSpec::named("fsync"), move || {
                fsyncs.fsync(other, false).expect("fsync");
                copy(&image)
            });
            (0..seed).for_each(|_| sim::interact());
            free(&*fs, file);
            let image = crash.join();
            fs.unmount().expect("unmount");
            let after = design.mount(&image).expect("mount");
            let mut found = [0; BYTES];
            if let Ok(file) = after.lookup(after.root(), b"freed") {
                after.read(file.ino, 0, &mut found, IoFlags::empty()).expect("read");
            }
            assert!(!found.contains(&b's'), "seed {seed}: what another file had is shown");
            after.unmount().expect("unmount");
        });
    }
}

/// Of the file whose blocks are freed.
const BYTES: usize = 14 * 1024;

#[test]
fn a_hole_that_is_punched_during_a_commit_shows_no_data_of_another_file_after_a_crash() {
    free_during_a_commit(|fs, file| {
        let punch = FallocateMode::PUNCH_HOLE | FallocateMode::KEEP_SIZE;
        fs.fallocate(file, punch, 0, BYTES as u64).expect("punch");
    });
}

#[test]
fn a_file_that_is_cut_during_a_commit_shows_no_data_of_another_file_after_a_crash() {
    free_during_a_commit(|fs, file| {
        fs.setattr(file, &SetAttr { size: Some(0), ..SetAttr::default() }).expect("truncate");
    });
}

#[test]
fn a_file_that_is_removed_during_a_commit_shows_no_data_of_another_file_after_a_crash() {
    free_during_a_commit(|fs, _| fs.unlink(fs.root(), b"freed").expect("unlink"));
}
