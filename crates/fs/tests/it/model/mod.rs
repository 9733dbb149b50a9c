//! Random operations on a design and on the reference, answer by answer, then tree by tree.
//!
//! Every design of the table in each of its [`configurations`]; `WEIR_MODEL_OPS=n` operations for each seed,
//! `WEIR_MODEL_FS=words` only designs whose names contain the words. A failure prints the seed and the shortest program that shows
//! a difference.

use crate::shared::harness;
use std::sync::Arc;

use crate::shared::harness::{checking, small, small_with, virtually, with_options};
use check::configured::{fsck, region};
use check::kernel::HostDir;
use check::lockstep::{Prepare, Round, run_many};
use check::{Configured, Limits, NEW, difference, observe};
use media::fault::{Fault, Target};
use rand::RngExt;
use sim::{Bytes, Seed, TaskSpec};
use vfs::{Errno, FileSystem, IoFlags, RenameFlags};

const EXT2: &[(&str, &str)] = &[("cache", "256k"), ("block_size", "1k"), ("lost_found", "false")];
const EXT4: &[(&str, &str)] =
    &[("cache", "256k"), ("block_size", "1k"), ("journal", "1MiB"), ("lost_found", "false")];

/// A region that most programs do not fill.
const ROOMY: Bytes = Bytes::mib(8);
/// Room beside the smallest region, so that space runs out.
const SCARCE: Bytes = Bytes::kib(256);

/// A design, small, on regions of both sizes, then in each other way in which it is mounted or made.
fn configurations(name: &str) -> Vec<(Arc<Configured>, Bytes)> {
    let (design, checking) = (small(name), checking(name));
    let beside =
        |design: &Configured, room: Bytes| Bytes((design.min_size().0 + room.0).next_multiple_of(4096));
    let scarce = (Arc::clone(&design), beside(&design, SCARCE));
    let roomy = (Arc::clone(&design), beside(&design, ROOMY));
    let variants = checking.variants.iter().map(|more| (small_with(name, more), ROOMY));
    // A format may have blocks of 2 MiB.
    let formats = checking.formats.iter().map(|more| (small_with(name, more), Bytes(8 * ROOMY.0)));
    let others = variants.chain(formats).map(|(design, room)| {
        let size = beside(&design, room);
        (design, size)
    });
    [roomy, scarce].into_iter().chain(others).collect()
}

/// An inode and a mapping of the page cache get the number of removed ones; a sync writes the new one's pages back.
#[test]
fn a_file_in_the_place_of_a_removed_one_is_written_back() {
    const WRITEBACK: &[(&str, &str)] =
        &[("cache", "256k"), ("block_size", "1k"), ("journal", "1MiB"), ("data", "writeback")];
    for (name, options) in [("ext4", EXT4), ("ext4", WRITEBACK), ("ext2", EXT2)] {
        virtually(1, move || {
            let (design, region) = (with_options(name, options), region(Bytes::mib(8)));
            design.mkfs(&region).expect("mkfs");
            let fs = design.mount(&region).expect("mount");
            for byte in [1, 2] {
                let _ = fs.unlink(fs.root(), b"file");
                let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
                fs.write(file, 0, &[byte], IoFlags::empty()).expect("write");
            }
            fs.unmount().expect("unmount");
            let fs = design.mount(&region).expect("mount again");
            let file = fs.lookup(fs.root(), b"file").expect("the file").ino;
            let mut back = [0];
            assert_eq!(fs.read(file, 0, &mut back, IoFlags::empty()), Ok(1));
            assert_eq!(back, [2], "{name}");
            fs.unmount().expect("unmount");
        });
    }
}

/// The page of the last block, which the write covers in part, is read before the others are made, and all do not fit the cache.
#[test]
fn a_write_of_the_size_of_the_cache_keeps_the_rest_of_its_last_block() {
    for (name, options) in [("ext4", EXT4), ("ext2", EXT2)] {
        virtually(1, move || {
            let (design, region) = (with_options(name, options), region(Bytes::mib(8)));
            design.mkfs(&region).expect("mkfs");
            let fs = design.mount(&region).expect("mount");
            let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
            let old = vec![1; 300 << 10];
            assert_eq!(fs.write(file, 0, &old, IoFlags::empty()).expect("write").bytes, old.len());
            fs.unmount().expect("unmount");
            let fs = design.mount(&region).expect("mount again");
            let file = fs.lookup(fs.root(), b"file").expect("the file").ino;
            let new = vec![2; (256 << 10) - 100];
            assert_eq!(fs.write(file, 0, &new, IoFlags::empty()).expect("write").bytes, new.len());
            let mut back = vec![0; 300 << 10];
            assert_eq!(fs.read(file, 0, &mut back, IoFlags::empty()), Ok(back.len()));
            let wrong =
                back.iter().enumerate().find(|(at, byte)| **byte != if *at < new.len() { 2 } else { 1 });
            assert_eq!(wrong, None, "{name}");
            fs.unmount().expect("unmount");
        });
    }
}

#[test]
fn every_answer_is_that_of_the_reference() {
    compare(false);
}

/// Mapped files besides; a design that maps none says so.
#[test]
fn every_answer_with_mapped_files_is_that_of_the_reference() {
    compare(true);
}

fn compare(maps: bool) {
    let ops: usize = std::env::var("WEIR_MODEL_OPS").ok().and_then(|n| n.parse().ok()).unwrap_or(1500);
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = std::env::var("WEIR_MODEL_FS").unwrap_or_default();
    let names = harness::names().filter(|name| name.contains(&wanted));
    for (index, (design, size)) in names.flat_map(configurations).enumerate() {
        let round = |number: usize| {
            let seed = (1000 * index + number) as u64;
            Round { design: Arc::clone(&design), size, seed, ops, maps }
        };
        let (total, failed) = run_many((3, &round), (None, None), &Limits::of(jobs), &|_| ());
        let shown = format!("{} {} on {size}", design.name(), design.arguments());
        if let Some(failed) = failed {
            panic!("{shown}: {failed}");
        }
        println!(
            "{shown}: {} operations agree, {} of them without space, {} remounts",
            total.ops, total.out_of_space, total.remounts
        );
    }
}

/// The host as well, beside PMFS, also where space runs out.
#[test]
fn the_kernel_answers_as_the_reference_does() {
    let host = HostDir::new(&std::env::temp_dir()).expect("a directory of the host");
    for (design, size) in configurations("pmfs") {
        let round = |number: usize| Round {
            design: Arc::clone(&design),
            size,
            seed: number as u64,
            ops: 2000,
            maps: false,
        };
        let (total, failed) = run_many((3, &round), (Some(&host), None), &Limits::of(2), &|_| ());
        if let Some(failed) = failed {
            panic!("{} on {size}: {failed}", design.arguments());
        }
        println!("{} of {} operations were carried out by the host as well", total.on_host, total.ops);
        assert!(total.on_host > total.ops / 2, "{total:?}");
    }
}

#[test]
fn an_operation_that_does_not_reach_the_host_is_a_difference() {
    let host = HostDir::new(&std::env::temp_dir()).expect("a directory of the host").leaving_out("rename");
    let (design, size) = configurations("pmfs").remove(0);
    let failed = Round { design, size, seed: 1, ops: 500, maps: false }
        .run(Some(&host), None)
        .expect_err("a difference");
    assert!(failed.program.len() <= 3, "{failed}");
    assert!(failed.program.iter().any(|op| op.name() == "rename"), "{failed}");
}

#[test]
fn a_store_that_fails_is_a_difference_and_the_program_that_shows_it_is_short() {
    let prepare: Prepare =
        Arc::new(|region| region.inject(Fault::FailNth { target: Target::Store, nth: 100 }));
    let (design, size) = configurations("pmfs").remove(0);
    let round = Round { design, size, seed: 1, ops: 3000, maps: false };
    let failed = round.run(None, Some(&prepare)).expect_err("a difference");
    println!("{failed}");
    assert!(failed.what.contains("EIO"), "{failed}");
    assert!(failed.program.len() < failed.ops / 2, "{failed}");
    let again = Round { ops: failed.ops, ..round }.run(None, Some(&prepare)).expect_err("again");
    assert_eq!((again.what, again.program), (failed.what, failed.program));
}

/// One of several tasks on shared directories.
fn meddle(fs: &dyn FileSystem, dirs: &[vfs::Ino], seed: Seed, task: u64) {
    let mut rng = seed.derive("meddle", task).rng();
    for _ in 0..400 {
        let dir = dirs[rng.random_range(0..dirs.len())];
        let other = dirs[rng.random_range(0..dirs.len())];
        let name = format!("n{}", rng.random_range(0..12));
        let to = format!("n{}", rng.random_range(0..12));
        let done = match rng.random_range(0..10) {
            0..3 => fs.create(dir, name.as_bytes(), &NEW).map(drop),
            3 => fs.mkdir(dir, name.as_bytes(), &NEW).map(drop),
            4 => fs.unlink(dir, name.as_bytes()),
            5 => fs.rmdir(dir, name.as_bytes()),
            6 => fs.rename((dir, name.as_bytes()), (other, to.as_bytes()), RenameFlags::empty().into()),
            7 => fs.rename((dir, name.as_bytes()), (other, to.as_bytes()), RenameFlags::EXCHANGE.into()),
            8 => fs
                .lookup(dir, name.as_bytes())
                .and_then(|attr| fs.link(attr.ino, other, to.as_bytes()))
                .map(drop),
            _ => fs.lookup(dir, name.as_bytes()).and_then(|attr| {
                fs.write(attr.ino, rng.random_range(0..9000), &[task as u8 + 1; 3000], IoFlags::empty())
                    .map(drop)
            }),
        };
        if let Err(errno) = done {
            let fine = [
                Errno::ENOENT,
                Errno::EEXIST,
                Errno::EISDIR,
                Errno::ENOTDIR,
                Errno::ENOTEMPTY,
                Errno::EINVAL,
                Errno::EPERM,
                Errno::ENOSPC,
            ];
            assert!(fine.contains(&errno), "seed {seed:?}, task {task}: {}", errno.name());
        }
    }
}

#[test]
fn many_tasks_leave_one_consistent_tree() {
    let mut operations = 0;
    for (design, size) in harness::names().map(|name| configurations(name).remove(0)) {
        for seed in 0..8u64 {
            let shown = design.arguments();
            let design = Arc::clone(&design);
            let complaint = virtually(seed, move || {
                let region = region(size);
                design.mkfs(&region)?;
                let fs = design.mount(&region)?;
                let dirs: Vec<_> = (0..3)
                    .map(|number| {
                        fs.mkdir(fs.root(), format!("d{number}").as_bytes(), &NEW).expect("mkdir").ino
                    })
                    .chain([fs.root()])
                    .collect();
                let tasks: Vec<_> = (0..6u64)
                    .map(|task| {
                        let (fs, dirs) = (Arc::clone(&fs), dirs.clone());
                        let spec = TaskSpec::named(format!("task {task}")).on_core(task as u16 * 7);
                        sim::spawn(spec, move || meddle(&*fs, &dirs, Seed(seed), task))
                    })
                    .collect();
                tasks.into_iter().for_each(sim::JoinHandle::join);
                let before = observe(&*fs)?;
                fs.unmount().map_err(|errno| errno.name().to_owned())?;
                fsck(&design, &region)?;
                let fs = design.mount(&region)?;
                let after = observe(&*fs)?;
                fs.unmount().map_err(|errno| errno.name().to_owned())?;
                difference(&after, &before).map_or(Ok(()), Err)
            });
            complaint.unwrap_or_else(|what: String| panic!("{shown}, seed {seed}: {what}"));
            operations += 6 * 400;
        }
    }
    println!("{operations} operations of 6 tasks");
}
