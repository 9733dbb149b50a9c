//! NOVA and its read cache beside what the checks of every design cover: cleaning, unloaded inodes, fences and time of operations,
//! what the cache counts.

mod full;
mod repairs;

use std::sync::Arc;

use crate::shared::harness::{small, subject, virtually, with_options};
use check::configured::{fsck, region};
use check::crash::{Effort, Watch, explore_many, programs};
use check::{NEW, difference, observe};
use sim::Bytes;
use sim::ledger::Snapshot;
use vfs::{FallocateMode, FileSystem, IoFlags, OpenFlags, RenameFlags, SetAttr, XattrMode};

const SEED: u64 = 20_261_124;

/// Fences of one call, which succeeds.
fn fences<T: std::fmt::Debug>(call: impl FnOnce() -> Result<T, vfs::Errno>) -> u64 {
    let before = Snapshot::of_task();
    call().expect("the call succeeds");
    Snapshot::of_task().since(&before).count_all(&media::charges::FENCES)
}

/// What unmounting saves takes a block; an image that has none is clean all the same.
#[test]
fn a_full_image_is_clean_after_its_unmount_and_has_all_of_its_files_after_the_next_mount() {
    let (design, region) = (with_options("nova", &[("shards", "1")]), region(Bytes::mib(1)));
    virtually(1, move || {
        design.mkfs(&region).expect("mkfs");
        let fs = design.mount(&region).expect("mount");
        let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
        let dirs: Vec<_> = (0..30_u8)
            .map(|number| fs.mkdir(fs.root(), &[b'a' + number], &NEW).expect("mkdir").ino)
            .collect();
        let names: Vec<_> = (0..12_u8).map(|number| [b'a' + number; 200]).collect();
        for dir in &dirs {
            for name in &names {
                fs.link(file, *dir, name).expect("link");
            }
        }
        let full = (0..1000).find_map(|page| fs.write(file, page * 4096, &[7; 4096], IoFlags::empty()).err());
        assert_eq!(full, Some(vfs::Errno::ENOSPC));
        // The logs of removals may take the blocks that are reserved for them.
        let left = || fs.statfs().expect("space").blocks_free;
        for name in &names {
            dirs.iter().take_while(|_| left() > 0).for_each(|dir| fs.unlink(*dir, name).expect("unlink"));
        }
        assert_eq!(left(), 0);
        let before = observe(&*fs).expect("a tree");
        fs.unmount().expect("unmount");
        let mut word = [0; 8];
        region.peek(2 * 4096, &mut word).expect("the clean word");
        assert_eq!(u64::from_le_bytes(word), 1, "nothing could be saved");
        fsck(&design, &region).expect("fsck");
        let fs = design.mount(&region).expect("mount");
        assert_eq!(difference(&observe(&*fs).expect("a tree"), &before), None);
        fs.unmount().expect("unmount");
        fsck(&design, &region).expect("fsck");
    });
}

/// What is reserved for removals is not spent on modes and times, whose log entries stay.
#[test]
fn a_full_image_whose_modes_were_changed_until_nothing_was_left_can_be_emptied() {
    let (design, region) = (with_options("nova", &[("shards", "1")]), region(Bytes::mib(1)));
    virtually(1, move || {
        design.mkfs(&region).expect("mkfs");
        let fs = design.mount(&region).expect("mount");
        let names: Vec<_> = (0..60_u8).map(|number| vec![b'A' + number; 40]).collect();
        let create = |name: &Vec<u8>| fs.create(fs.root(), name, &NEW).expect("create").ino;
        let files: Vec<_> = names.iter().map(create).collect();
        let full =
            (0..1000).find_map(|page| fs.write(files[0], page * 4096, &[7; 4096], IoFlags::empty()).err());
        assert_eq!(full, Some(vfs::Errno::ENOSPC));
        let change = |mode| SetAttr { perm: Some(mode), ..SetAttr::default() };
        let refused = (0..2_000_u32)
            .flat_map(|round| files.iter().map(move |file| (file, round)))
            .find_map(|(file, round)| fs.setattr(*file, &change(round & 0o777)).err());
        assert_eq!(refused, Some(vfs::Errno::ENOSPC), "the logs grow");
        // The first, which has all the data, last.
        names.iter().rev().for_each(|name| fs.unlink(fs.root(), name).expect("unlink"));
        fs.unmount().expect("unmount");
        fsck(&design, &region).expect("fsck");
    });
}

/// Version 1 knows no attributes beyond one block, and is valid in version 2.
#[test]
fn an_image_of_version_1_shows_what_it_held_and_becomes_one_of_version_2() {
    const VERSION: u64 = 8;
    let (design, region) = (small("nova"), region(Bytes::mib(1)));
    virtually(1, move || {
        design.mkfs(&region).expect("mkfs");
        let fs = design.mount(&region).expect("mount");
        let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
        fs.setxattr(file, b"user.a", &[1; 1000], XattrMode::Set).expect("set");
        let before = observe(&*fs).expect("a tree");
        fs.unmount().expect("unmount");
        for superblock in [0, 4096] {
            let mut bytes = [0; 40];
            region.store_u32(superblock + VERSION, 1).expect("a store");
            region.peek(superblock, &mut bytes).expect("a load");
            let sum = crc32c::crc32c(&[&bytes[..12], &bytes[16..]].concat());
            region.store_u32(superblock + 12, sum).expect("a store");
        }
        fsck(&design, &region).expect("fsck of version 1");
        let fs = design.mount(&region).expect("mount of version 1");
        assert_eq!(difference(&observe(&*fs).expect("a tree"), &before), None);
        fs.setxattr(file, b"user.large", &vec![2; 1 << 16], XattrMode::Set).expect("set");
        let after = observe(&*fs).expect("a tree");
        fs.unmount().expect("unmount");
        assert_eq!([0, 4096].map(|at| region.load_u32(at + VERSION)), [Ok(2), Ok(2)]);
        fsck(&design, &region).expect("fsck");
        let fs = design.mount(&region).expect("mount");
        assert_eq!(difference(&observe(&*fs).expect("a tree"), &after), None);
        fs.unmount().expect("unmount");
    });
}

/// Under the real clock files that are not open are unloaded when many others were used since; their logs are replayed.
#[test]
fn a_file_is_as_it_was_after_so_many_others_were_used_that_it_was_unloaded() {
    let (design, region) = (with_options("nova", &[]), region(Bytes::mib(64)));
    design.mkfs(&region).expect("mkfs");
    let fs = design.mount(&region).expect("mount");
    let root = fs.root();
    let [file, removed] = [b"file", b"gone"].map(|name| fs.create(root, name, &NEW).expect("create").ino);
    fs.write(file, 5000, &[7; 3000], IoFlags::empty()).expect("write");
    fs.setattr(file, &SetAttr { perm: Some(0o640), ..SetAttr::default() }).expect("chmod");
    fs.accessed(file).expect("access");
    fs.open(removed, OpenFlags::PATH).expect("open");
    fs.unlink(root, b"gone").expect("unlink");
    let before = [file, removed].map(|ino| fs.getattr(ino).expect("stat"));
    for number in 0..70_000 {
        fs.create(root, format!("{number}").as_bytes(), &NEW).expect("create");
    }
    assert_eq!([file, removed].map(|ino| fs.getattr(ino).expect("stat")), before);
    let mut bytes = vec![1; 8000];
    assert_eq!(fs.read(file, 0, &mut bytes, IoFlags::empty()), Ok(8000));
    assert!(bytes[..5000].iter().all(|byte| *byte == 0) && bytes[5000..].iter().all(|byte| *byte == 7));
    // So were most of the others.
    for number in 0..70_000 {
        let attr = fs.lookup(root, format!("{number}").as_bytes()).expect("lookup");
        assert_eq!((attr.size, attr.nlink), (0, 1));
    }
    assert_eq!(fs.getattr(file).expect("stat"), before[0]);
    fs.release(removed);
    fs.unmount().expect("unmount");
    fsck(&design, &region).expect("fsck");
}

/// What the table in the header of `nova/mod.rs` says.
#[test]
fn operations_take_as_many_fences_as_the_table_says() {
    let table = virtually(SEED, || {
        let design = with_options("nova", &[]);
        let region = region(Bytes::mib(16));
        design.mkfs(&region).expect("mkfs");
        let fs = design.mount(&region).expect("mount");
        let root = fs.root();
        let file = fs.create(root, b"file", &NEW).expect("create").ino;
        let dir = fs.mkdir(root, b"dir", &NEW).expect("mkdir").ino;
        let none = RenameFlags::empty();
        let size = |size| SetAttr { size: Some(size), ..SetAttr::default() };
        let punch = FallocateMode::PUNCH_HOLE | FallocateMode::KEEP_SIZE;
        fs.open(file, OpenFlags::WRITE).expect("open");
        let table: Vec<(&str, u64, u64)> = vec![
            ("write 4 KiB", 2, fences(|| fs.write(file, 0, &[1; 4096], IoFlags::empty()))),
            ("overwrite 4 KiB", 2, fences(|| fs.write(file, 0, &[2; 4096], IoFlags::empty()))),
            ("append 100 bytes", 2, fences(|| fs.write(file, 0, &[3; 100], IoFlags::APPEND))),
            ("write 1 MiB", 2, fences(|| fs.write(file, 0, &[4; 1 << 20], IoFlags::empty()))),
            ("truncate", 2, fences(|| fs.setattr(file, &size(5000)))),
            ("chmod", 2, fences(|| fs.setattr(file, &SetAttr { perm: Some(0o600), ..SetAttr::default() }))),
            ("zero a range", 2, fences(|| fs.fallocate(file, FallocateMode::ZERO_RANGE, 6000, 24_000))),
            ("punch a hole", 2, fences(|| fs.fallocate(file, punch, 0, 10_000))),
            ("fsync", 0, fences(|| fs.fsync(file, false))),
            ("read", 0, fences(|| fs.read(file, 0, &mut [0; 4096], IoFlags::empty()))),
            ("create", 3, fences(|| fs.create(root, b"a", &NEW))),
            ("mkdir", 3, fences(|| fs.mkdir(root, b"d", &NEW))),
            ("symlink", 3, fences(|| fs.symlink(root, b"s", b"target", &NEW))),
            ("link", 3, fences(|| fs.link(file, dir, b"b"))),
            ("rename", 3, fences(|| fs.rename((root, b"a"), (root, b"c"), none.into()))),
            ("rename across", 3, fences(|| fs.rename((root, b"c"), (dir, b"c"), none.into()))),
            ("rename over", 3, fences(|| fs.rename((dir, b"c"), (dir, b"b"), none.into()))),
            ("exchange", 3, fences(|| fs.rename((dir, b"b"), (root, b"d"), RenameFlags::EXCHANGE.into()))),
            ("setxattr", 3, fences(|| fs.setxattr(file, b"user.a", b"x", XattrMode::Set))),
            ("unlink, open", 3, fences(|| fs.unlink(root, b"file"))),
            (
                "close the last",
                1,
                fences(|| {
                    fs.release(file);
                    Ok(())
                }),
            ),
            ("unlink", 3, fences(|| fs.unlink(root, b"s"))),
            ("rmdir", 3, fences(|| fs.rmdir(dir, b"b"))),
        ];
        fs.unmount().expect("unmount");
        table
    });
    for (name, expected, found) in &table {
        println!("{name:18} {found} fences, expected {expected}");
    }
    assert!(table.iter().all(|(_, expected, found)| expected == found), "{table:?}");
}

/// Unloading inodes saves memory of the host only.
#[test]
fn an_access_takes_as_long_after_many_inodes_were_used() {
    const MORE_THAN_STAY_LOADED: u32 = 66_000;
    let (few, many) = virtually(SEED, || {
        let design = with_options("nova", &[]);
        let region = region(Bytes::mib(16));
        design.mkfs(&region).expect("mkfs");
        let fs = design.mount(&region).expect("mount");
        let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
        let read = || fs.read(file, 0, &mut [0; 8], IoFlags::empty()).expect("read");
        let time_of_second = || {
            read();
            let before = sim::now();
            read();
            sim::now().since(before)
        };
        let few = time_of_second();
        for _ in 0..MORE_THAN_STAY_LOADED {
            fs.create(fs.root(), b"other", &NEW).expect("create");
            fs.unlink(fs.root(), b"other").expect("unlink");
        }
        let many = time_of_second();
        fs.unmount().expect("unmount");
        (few, many)
    });
    assert_eq!(few, many);
}

/// What `call` takes on a volume with so many shards, the second time.
fn time_of(shards: &'static str, call: fn(&dyn FileSystem)) -> u64 {
    virtually(SEED, move || {
        let design = with_options("nova", &[("shards", shards)]);
        let region = region(Bytes::mib(16));
        design.mkfs(&region).expect("mkfs");
        let fs = design.mount(&region).expect("mount");
        call(&*fs);
        let before = sim::now();
        call(&*fs);
        let took = sim::now().since(before).0;
        fs.unmount().expect("unmount");
        took
    })
}

/// There and back.
fn move_between_directories(fs: &dyn FileSystem) {
    let root = fs.root();
    if fs.lookup(root, b"d").is_err() {
        fs.mkdir(root, b"d", &NEW).expect("mkdir");
        fs.create(root, b"f", &NEW).expect("create");
    }
    let dir = fs.lookup(root, b"d").expect("made").ino;
    fs.rename((root, b"f"), (dir, b"f"), RenameFlags::empty().into()).expect("rename");
    fs.rename((dir, b"f"), (root, b"f"), RenameFlags::empty().into()).expect("rename");
}

#[test]
fn a_rename_between_directories_takes_as_long_however_many_shards_there_are() {
    assert_eq!(time_of("64", move_between_directories), time_of("2", move_between_directories));
}

#[test]
fn a_listing_takes_longer_for_each_name() {
    let took = virtually(SEED, || {
        let design = with_options("nova", &[]);
        let region = region(Bytes::mib(16));
        design.mkfs(&region).expect("mkfs");
        let fs = design.mount(&region).expect("mount");
        let took = [100, 200].map(|names| {
            for name in 0..names {
                let _ = fs.create(fs.root(), format!("{name}").as_bytes(), &NEW);
            }
            let before = sim::now();
            let mut listed = 0;
            let mut count = |_: vfs::DirEntry<'_>| {
                listed += 1;
                true
            };
            fs.readdir(fs.root(), 0, &mut count).expect("list");
            assert_eq!(listed, names + 2);
            sim::now().since(before).0
        });
        fs.unmount().expect("unmount");
        took
    });
    assert!(took[1] >= took[0] + 100, "{took:?}");
}

/// Many overwrites and names in short log pages: the fast and the thorough cleaner run, the log stays short, and what is there is
/// there after a clean remount and after a recovery.
#[test]
fn cleaning_keeps_logs_short_and_changes_nothing() {
    virtually(SEED, || {
        let design = small("nova");
        let region = region(Bytes::mib(4));
        design.mkfs(&region).expect("mkfs");
        let fs = design.mount(&region).expect("mount");
        let root = fs.root();
        let file = fs.create(root, b"file", &NEW).expect("create").ino;
        let hot = fs.create(root, b"hot", &NEW).expect("create").ino;
        for number in 0..400_u64 {
            fs.write(hot, 0, &[number as u8; 100], IoFlags::empty()).expect("write");
            let (page, byte) = (number * 7 % 10, number as u8);
            fs.write(file, page * 4096, &[byte; 4096], IoFlags::empty()).expect("write");
            let name = format!("name {}", number % 9);
            if fs.create(root, name.as_bytes(), &NEW).is_err() {
                fs.unlink(root, name.as_bytes()).expect("unlink");
            }
            if number % 50 == 0 {
                let size = Some(20_000 + number);
                fs.setattr(file, &SetAttr { size, ..SetAttr::default() }).expect("truncate");
                // The attributes change later than the contents.
                sim::sleep(sim::Nanos(1000));
                let perm = Some(0o600 + number as u32 % 8);
                fs.setattr(file, &SetAttr { perm, ..SetAttr::default() }).expect("chmod");
            }
        }
        let counted = fs.counters();
        println!("{counted:?}, {} blocks free", fs.statfs().expect("statfs").blocks_free);
        assert!(counted.iter().all(|(_, count)| *count > 0), "{counted:?}");
        let before = observe(&*fs).expect("a tree");
        let times = |fs: &dyn FileSystem| {
            [root, hot, file]
                .map(|ino| fs.getattr(ino).map(|attr| (attr.mtime, attr.ctime)).expect("attributes"))
        };
        let changed = times(&*fs);
        // What a crash leaves: the image as it is, mounted by another.
        let crashed = small("nova").mount(&region).expect("recover");
        let after = observe(&*crashed).expect("a tree");
        assert_eq!(difference(&after, &before), None);
        assert_eq!(times(&*crashed), changed);
        crashed.unmount().expect("unmount");
        fsck(&design, &region).expect("fsck");
        let again = design.mount(&region).expect("mount");
        assert_eq!(difference(&observe(&*again).expect("a tree"), &before), None);
        again.unmount().expect("unmount");
        drop(fs);
    });
}

/// Tasks on several cores at once, on a volume with fewer shards than cores.
#[test]
fn shards_are_shared_by_more_cores() {
    let done = virtually(SEED, || {
        let design = small("nova");
        let region = region(Bytes::mib(8));
        design.mkfs(&region)?;
        let fs = design.mount(&region)?;
        let tasks: Vec<_> = (0..6_u16)
            .map(|task| {
                let fs = Arc::clone(&fs);
                let spec = sim::TaskSpec::named(format!("task {task}")).on_core(task * 7);
                sim::spawn(spec, move || {
                    for number in 0..60 {
                        let name = format!("{task} {number}");
                        let file = fs.create(fs.root(), name.as_bytes(), &NEW).expect("create").ino;
                        fs.write(file, 0, &[task as u8; 5000], IoFlags::empty()).expect("write");
                        if number % 3 > 0 {
                            fs.unlink(fs.root(), name.as_bytes()).expect("unlink");
                        }
                    }
                })
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
    assert_eq!(done, Ok::<(), String>(()));
}

/// Tasks read and change the same pages on several cores, while the copier fills, dooms and evicts: each read gives one whole
/// version of a page, and never one that is older than what the task has seen of it before.
#[test]
fn a_cached_read_is_never_stale() {
    let hits = virtually(SEED, || {
        let design = small("rcache");
        let region = region(Bytes::mib(8));
        design.mkfs(&region).expect("mkfs");
        let fs = design.mount(&region).expect("mount");
        let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
        let pages = 6_u64;
        fs.write(file, 0, &vec![1; pages as usize * 4096], IoFlags::empty()).expect("write");
        let readers: Vec<_> = (0..4_u16)
            .map(|task| {
                let fs = Arc::clone(&fs);
                let spec = sim::TaskSpec::named(format!("reader {task}")).on_core(task * 7);
                sim::spawn(spec, move || {
                    let mut seen = [0_u8; 6];
                    for number in 0..3000_u64 {
                        let page = (number * (3 + u64::from(task)) / 2) % pages;
                        let mut bytes = [0; 4096];
                        fs.read(file, page * 4096, &mut bytes, IoFlags::empty()).expect("read");
                        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a page of two versions");
                        assert!(bytes[0] >= seen[page as usize], "an older version");
                        seen[page as usize] = bytes[0];
                    }
                })
            })
            .collect();
        for version in 2..=200_u8 {
            let page = u64::from(version) % pages;
            fs.write(file, page * 4096, &[version; 4096], IoFlags::empty()).expect("write");
            sim::sleep(sim::Nanos(40_000));
        }
        readers.into_iter().for_each(sim::JoinHandle::join);
        let counters = fs.counters();
        fs.unmount().expect("unmount");
        fsck(&design, &region).expect("fsck");
        counters
    });
    println!("{hits:?}");
    for name in ["cache hits", "pages copied", "pages invalidated", "pages evicted"] {
        assert!(hits.iter().any(|(counter, count)| *counter == name && *count > 0), "{name}: {hits:?}");
    }
}

/// A volume with a cache of these options; `body` gets it and a way to write a file of so many pages, to read it once, and to let
/// the
/// copier finish.
fn with_cache<T: Send + 'static>(
    options: &'static [(&'static str, &'static str)],
    body: fn(&dyn FileSystem) -> T,
) -> (T, Vec<(&'static str, u64)>) {
    virtually(SEED, move || {
        let design = with_options("rcache", options);
        let region = region(Bytes::mib(8));
        design.mkfs(&region).expect("mkfs");
        let fs = design.mount(&region).expect("mount");
        let outcome = body(&*fs);
        let counters = fs.counters();
        fs.unmount().expect("unmount");
        fsck(&design, &region).expect("fsck");
        (outcome, counters)
    })
}

fn file_of(fs: &dyn FileSystem, name: &[u8], pages: usize) -> vfs::Ino {
    let file = fs.create(fs.root(), name, &NEW).expect("create").ino;
    fs.write(file, 0, &vec![1; pages * 4096], IoFlags::empty()).expect("write");
    file
}

/// Reads every page, and lets the copier do what it is asked for.
fn read_through(fs: &dyn FileSystem, file: vfs::Ino, pages: u64) {
    for page in 0..pages {
        fs.read(file, page * 4096, &mut [0; 4096], IoFlags::empty()).expect("read");
    }
    sim::sleep(sim::Nanos(100_000_000));
}

fn counter(counters: &[(&'static str, u64)], name: &str) -> u64 {
    counters.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count)
}

#[test]
fn a_page_whose_request_finds_the_queue_full_is_cached_by_a_sweep() {
    let ((), counters) = with_cache(&[("threshold", "0"), ("requests", "1"), ("cache", "1MiB")], |fs| {
        let file = file_of(fs, b"file", 64);
        (0..2).for_each(|_| read_through(fs, file, 64));
    });
    assert_eq!(
        [counter(&counters, "cache misses"), counter(&counters, "cache hits")],
        [64, 64],
        "{counters:?}"
    );
}

/// Entries stand in arrays by page number, which a file without holes fills.
#[test]
fn a_page_behind_a_large_hole_is_read_and_takes_no_memory_of_the_cache() {
    const FAR: u64 = 1 << 45;
    let ((), counters) = with_cache(&[("threshold", "0"), ("cache", "64k")], |fs| {
        let file = file_of(fs, b"file", 1);
        fs.write(file, FAR, &[2; 4096], IoFlags::empty()).expect("write");
        for _ in 0..2 {
            let mut bytes = [0; 4096];
            assert_eq!(fs.read(file, FAR, &mut bytes, IoFlags::empty()), Ok(4096));
            assert_eq!(bytes, [2; 4096]);
        }
        (0..2).for_each(|_| read_through(fs, file, 1));
    });
    assert_eq!(counter(&counters, "cache hits"), 1, "{counters:?}");
}

#[test]
fn the_frames_of_a_removed_file_serve_the_next() {
    let ((), counters) = with_cache(&[("threshold", "0"), ("cache", "64k")], |fs| {
        for name in [b"one", b"two"] {
            let file = file_of(fs, name, 16);
            (0..2).for_each(|_| read_through(fs, file, 16));
            fs.unlink(fs.root(), name).expect("unlink");
        }
    });
    assert_eq!(
        [counter(&counters, "cache hits"), counter(&counters, "pages evicted")],
        [32, 0],
        "{counters:?}"
    );
}

#[test]
fn a_crash_inside_a_cleaning_leaves_one_log_or_the_other() {
    let (subject, programs) = (subject("nova", &[]), programs::log_cleaning());
    let program = |number: usize| programs[number].clone();
    let effort = Effort::usual(SEED, 4);
    let tally = explore_many(&subject, (programs.len(), &program), (&effort, &[]), &Watch::default());
    println!("{} points, {} images, {} distinct", tally.points, tally.images, tally.distinct_images);
    tally.violations.iter().take(12).for_each(|violation| println!("  {violation}"));
    assert_eq!(tally.violations.len(), 0);
}
