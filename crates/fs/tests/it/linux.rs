//! Models of Linux's file systems: right contents, what they refuse, and what their objects cost.

use std::sync::Arc;

use check::lockstep::Round;
use check::{Configured, NEW};
use design::{Design, FsError};
use media::Storage;
use sim::{Bytes, Machine, Nanos, Seed, Setup, TaskSpec, Work};
use vfs::{FileSystem, Ino, IoFlags, RenameFlags};

use crate::shared::harness::{options, region};

fn model(name: &str) -> &'static dyn Design {
    fs::by_name(name).expect("a model")
}

/// A mounted model with 64 MiB, in a run.
fn mounted(name: &str) -> Arc<dyn FileSystem> {
    let storage = Storage::from(&region(Bytes::mib(64)));
    let design = model(name);
    design.format().mkfs(&storage, &options(design, &[])).expect("room");
    design.mount(&storage, &options(design, &[])).expect("a virtual run")
}

/// Eight sockets of ten cores; an update takes 10 ns, a line from another core 100 or 1000 ns, a wake-up 5 µs.
fn machine() -> Machine {
    let mut machine = Machine { sockets: 8, cores_per_socket: 10, ..Machine::unit() };
    machine.work_ps = [0; Work::MAX];
    for (work, ns) in [
        (Work::LOCK, 10),
        (Work::LINE_SAME_SOCKET, 100),
        (Work::LINE_CROSS_SOCKET, 1_000),
        (Work::WAKEUP, 5_000),
    ] {
        machine.work_ps[work.index()] = ns * 1_000;
    }
    (machine.copy_ps_per_byte, machine.dram_ps_per_byte) = (0, 0);
    machine
}

fn setup(free: &[&str]) -> Setup {
    let free = free.iter().map(|name| (*name).to_owned()).collect();
    Setup { free, ..Setup::virtual_clock(machine(), Seed(1)) }
}

/// What a task on `core` takes for `work`.
fn took(core: u16, work: impl FnOnce() + Send + 'static) -> u64 {
    let task = TaskSpec::named("timed").on_core(core);
    let timed = move || {
        let start = sim::now();
        work();
        sim::now().since(start).0
    };
    sim::spawn(task, timed).join()
}

#[test]
fn a_model_answers_every_call_as_the_reference_does() {
    for design in fs::MODELS {
        for (seed, size) in [(1, Bytes::mib(8)), (2, Bytes::kib(320)), (3, Bytes::mib(8))] {
            let configured = Configured::new(*design, options(*design, &[]), String::new());
            let round = Round { design: Arc::new(configured), size, seed, ops: 2_000, maps: false };
            let seen = round.run(None, None).unwrap_or_else(|failed| panic!("{}: {failed}", design.name()));
            assert_eq!((seen.ops, seen.remounts), (2_000, 0), "{}", design.name());
        }
    }
}

#[test]
fn a_model_refuses_what_needs_an_image_and_the_real_clock() {
    for design in fs::MODELS {
        let (format, storage) = (design.format(), Storage::from(&region(Bytes::mib(1))));
        let why = design.without_image().expect("a model has no image");
        let refused = |error: FsError| assert!(error.to_string().contains(why), "{error}");
        refused(format.recover(&storage).unwrap_err());
        refused(format.repair(&storage).unwrap_err());
        refused(format.grow(&storage).unwrap_err());
        refused(format.journal(&storage).unwrap_err());
        refused(format.dump(&storage, "superblock", &mut Vec::new()).unwrap_err());
        assert!(!format.recognises(&storage) && format.fsck(&storage).checked.is_empty());
        let real = design.mount(&storage, &options(*design, &[])).err().expect("no run is going on");
        assert!(real.to_string().contains("virtual clock"), "{real}");
        let small = Storage::from(&region(Bytes::kib(4)));
        assert!(matches!(format.mkfs(&small, &options(*design, &[])), Err(FsError::TooSmall { .. })));
    }
}

#[test]
fn the_table_of_designs_with_an_image_has_no_model_and_names_are_distinct() {
    let mut names: Vec<_> = fs::all().map(design::Design::name).collect();
    assert!(fs::FILE_SYSTEMS.iter().all(|design| design.without_image().is_none()));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

/// A file with a page, which core 0 has written.
fn written(fs: &Arc<dyn FileSystem>) -> Ino {
    let file = fs.create(fs.root(), b"file", &NEW).expect("new").ino;
    fs.write(file, 0, &[1; 4096], IoFlags::empty()).expect("room");
    fs.write(file, 0, &[1; 4096], IoFlags::empty()).expect("room");
    file
}

/// An overwrite on tmpfs: the mutex with four lines, and the page: an exchange, its lock, an add.
#[test]
fn an_overwrite_of_tmpfs_costs_its_mutex_four_lines_and_three_updates_of_the_page() {
    let costs = |free: &'static [&'static str]| {
        sim::run(&setup(free), || {
            let fs = mounted("linux/tmpfs");
            let file = written(&fs);
            let write = |core| {
                let fs = Arc::clone(&fs);
                took(core, move || {
                    fs.write(file, 0, &[2; 4096], IoFlags::empty()).expect("room");
                })
            };
            [write(0), write(1), write(10)]
        })
        .unwrap()
    };
    let of = |transfer: u64| {
        let mutex = transfer + 10 + 4 * transfer;
        let page = (2 * transfer + 10) + (transfer + 10) + 10;
        mutex + page
    };
    assert_eq!(costs(&[]), [of(0), of(100), of(1_000)]);
    // What is free costs nothing, with the lines that move with it; what is not in the row changes nothing.
    let page = |transfer: u64| (2 * transfer + 10) + (transfer + 10) + 10;
    assert_eq!(costs(&["linux.inode"]), [page(0), page(100), page(1_000)]);
    assert_eq!(costs(&["linux.super_stat"]), costs(&[]));
}

/// A handle is two updates of the journal's state and five of the transaction's counts: ext4 less ext4 without a journal.
#[test]
fn a_handle_is_seven_updates_of_two_lines() {
    let write = |name: &'static str| {
        sim::run(&setup(&[]), move || {
            let fs = mounted(name);
            let file = written(&fs);
            took(10, move || {
                fs.write(file, 0, &[2; 4096], IoFlags::empty()).expect("room");
            })
        })
        .unwrap()
    };
    // Each of the two lines comes once from the core that wrote last, and stays.
    assert_eq!(write("linux/ext4") - write("linux/ext4nj"), 2 * 1_000 + 7 * 10);
}

/// Requests of the device: a sync of data and a commit is a page, three blocks and a flush, and a flush of its own.
#[test]
fn a_sync_commits_the_inodes_transaction_once() {
    let requests = |name: &'static str| {
        sim::run(&setup(&[]), move || {
            let fs = mounted(name);
            let file = written(&fs);
            let sync = || {
                let before = fs.counters()[0].1;
                fs.fsync(file, false).expect("there");
                fs.counters()[0].1 - before
            };
            let first = sync();
            fs.write(file, 0, &[3; 4096], IoFlags::empty()).expect("room");
            let same_tick = sync();
            let nothing = sync();
            sim::sleep(Nanos(5_000_000));
            fs.write(file, 0, &[4; 4096], IoFlags::empty()).expect("room");
            [first, same_tick, nothing, sync()]
        })
        .unwrap()
    };
    assert_eq!(requests("linux/ext4"), [6, 2, 1, 6]);
    assert_eq!(requests("linux/ext4nj"), [2, 2, 1, 2]);
    assert_eq!(requests("linux/tmpfs"), [0; 4]);
    // A page; a checkpoint of the list, and a flush where there is none.
    assert_eq!(requests("linux/xfs"), [3, 2, 1, 3]);
    // A page, the tree of the log (a leaf, its root, the tree of logs, the superblock), and a flush; nothing when nothing changed.
    assert_eq!(requests("linux/btrfs"), [6, 6, 0, 6]);
    // A page, its node, and a flush.
    assert_eq!(requests("linux/f2fs"), [3, 3, 1, 3]);
}

/// What `call` takes on core 10, after core 0 has done the same.
fn after_another(name: &'static str, call: fn(&dyn FileSystem, Ino)) -> u64 {
    sim::run(&setup(&[]), move || {
        let fs = mounted(name);
        let file = written(&fs);
        let first = Arc::clone(&fs);
        took(0, move || call(&*first, file));
        took(10, move || call(&*fs, file))
    })
    .unwrap()
}

/// The page is the same on both; the word of the lock comes from the other core, and is updated twice.
#[test]
fn readers_of_xfs_share_a_word_that_each_updates_twice() {
    let read = |name| {
        after_another(name, |fs, file| {
            fs.read(file, 0, &mut [0; 4096], IoFlags::empty()).expect("there");
        })
    };
    assert_eq!(read("linux/xfs") - read("linux/ext4"), 1_000 + 2 * 10);
}

/// The root's count of users by load and exchange, its lock twice, six counters, and the count again: eleven updates of three lines,
/// of which the first costs a second transfer.
#[test]
fn each_listing_of_btrfs_searches_from_the_root_of_its_tree() {
    let list = |name| after_another(name, |fs, _| fs.readdir(fs.root(), 0, &mut |_| true).expect("there"));
    assert_eq!(list("linux/btrfs") - list("linux/ext4"), 4 * 1_000 + 10 * 10);
}

#[test]
fn btrfs_commits_its_transaction_thirty_seconds_after_it_began() {
    let requests = sim::run(&setup(&[]), || {
        let fs = mounted("linux/btrfs");
        let make = |name: &[u8]| fs.create(fs.root(), name, &NEW).map(|_| fs.counters()[0].1).expect("new");
        let first = make(b"a");
        sim::sleep(Nanos(29_000_000_000));
        let before = make(b"b");
        sim::sleep(Nanos(2_000_000_000));
        [first, before, make(b"c"), make(b"d")]
    })
    .unwrap();
    assert_eq!(requests, [0, 0, 8, 8]);
}

/// Of 62 pages two come after a visit to the free pages of the socket: from another core's hands, as its lock and the list's head.
#[test]
fn a_core_takes_free_pages_by_the_batch() {
    let visits = |free: &'static [&'static str]| {
        sim::run(&setup(free), || {
            let fs = mounted("linux/tmpfs");
            let file = written(&fs);
            took(0, move || {
                fs.write(file, 4096, &vec![1; 62 * 4096], IoFlags::empty()).expect("room");
            })
        })
        .unwrap()
    };
    // The first page was made before; no other core has been here.
    assert_eq!(visits(&[]) - visits(&["linux.zone"]), 2 * 10);
}

/// A write of two pages starts a handle for each before the first one stops. A commit that locks the transaction between the two
/// waits for the write, which must not wait for it: the second handle is within the first.
#[test]
fn a_write_of_several_pages_ends_beside_syncs() {
    let ended = sim::run(&setup(&[]), || {
        let fs = mounted("linux/ext4");
        let worker = |core: u16| {
            let fs = Arc::clone(&fs);
            let work = move || {
                let name = format!("file {core}");
                let file = fs.create(fs.root(), name.as_bytes(), &NEW).expect("new").ino;
                for _ in 0..50 {
                    fs.write(file, 100, &[1; 3 * 4096], IoFlags::empty()).expect("room");
                    fs.fsync(file, false).expect("it is there");
                }
            };
            sim::spawn(TaskSpec::named("writer").on_core(core), work)
        };
        let workers: Vec<_> = (0..8).map(worker).collect();
        workers.into_iter().for_each(sim::JoinHandle::join);
    });
    assert_eq!(ended.map_err(|error| error.to_string()), Ok(()));
}

#[test]
fn a_commit_takes_all_who_came() {
    let requests = sim::run(&setup(&[]), || {
        let fs = mounted("linux/ext4");
        let tasks: Vec<_> = (0..20)
            .map(|n: u16| {
                let fs = Arc::clone(&fs);
                sim::spawn(TaskSpec::named(format!("t{n}")).on_core(n), move || {
                    let name = format!("f{n}");
                    let file = fs.create(fs.root(), name.as_bytes(), &NEW).expect("new").ino;
                    fs.fsync(file, false).expect("there");
                })
            })
            .collect();
        tasks.into_iter().for_each(sim::JoinHandle::join);
        fs.counters()[0].1
    })
    .unwrap();
    let flushes = 20;
    assert!(requests < flushes + 4 * 10, "{requests}: fewer than ten commits for twenty files");
}

#[test]
fn two_runs_of_many_tasks_take_the_same_time_and_seeds_differ() {
    let run = |seed: u64| {
        let setup = Setup { work_jitter_per_mille: 150, ..Setup::virtual_clock(Machine::unit(), Seed(seed)) };
        sim::run(&setup, || {
            let fs = mounted("linux/ext4");
            let tasks: Vec<_> = (0..10)
                .map(|n: u16| {
                    let fs = Arc::clone(&fs);
                    sim::spawn(TaskSpec::named(format!("t{n}")).on_core(n), move || {
                        for turn in 0..20 {
                            let _op = sim::op(vfs::ops::ALL[0]);
                            sim::compute_for(Nanos(1_000));
                            let name = format!("f{n}.{turn}");
                            let file = fs.create(fs.root(), name.as_bytes(), &NEW).expect("new").ino;
                            fs.write(file, 0, &[1; 5_000], IoFlags::empty()).expect("room");
                            let new = format!("g{n}.{turn}");
                            let (root, how) = (fs.root(), RenameFlags::empty().into());
                            fs.rename((root, name.as_bytes()), (root, new.as_bytes()), how).expect("there");
                            fs.unlink(root, new.as_bytes()).expect("there");
                        }
                    })
                })
                .collect();
            tasks.into_iter().for_each(sim::JoinHandle::join);
            assert_eq!(fs.statfs().expect("there").blocks_free, 64 * 256, "all pages are free again");
            sim::now()
        })
        .unwrap()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
