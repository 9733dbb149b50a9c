//! The read cache: clean frames.

use std::sync::Arc;

use check::NEW;
use media::nvmm::Region;
use media::{Medium, Storage};
use sim::ledger::Snapshot;
use sim::{Bytes, Machine, Nanos, Seed, Setup};
use vfs::{FallocateMode, FileSystem, Ino, IoFlags, SetAttr};

use super::mount::made;
use crate::shared::harness::{self, Given, mutant, options, virtually};

const BLOCK: usize = 4096;
const NONE: IoFlags = IoFlags::empty();

/// Each mount that has frames: what a call changes is read at once in each.
const MOUNTS: [Given<'static>; 4] = [
    &[("admit", "1"), ("buffer", "32k")],
    &[("admit", "1"), ("buffer", "32k"), ("atomic", "words")],
    &[("admit", "1"), ("buffer", "32k"), ("sync", "fsync"), ("writeback_tasks", "1")],
    &[("admit", "1"), ("buffer", "32k"), ("sync", "fsync"), ("atomic", "words")],
];

fn mounted(region: &Arc<Region>, given: Given) -> Arc<dyn FileSystem> {
    let crest = fs::by_name("crest").expect("crest is a design");
    crest.mount(&Storage::from(region), &harness::options(crest, given)).expect("mount")
}

/// What a file holds, and the bytes that the medium served for it.
fn read(fs: &dyn FileSystem, file: Ino) -> (Vec<u8>, u64) {
    let mut bytes = vec![0xAA; fs.getattr(file).expect("it is there").size as usize];
    let before = Snapshot::of_task();
    assert_eq!(fs.read(file, 0, &mut bytes, NONE), Ok(bytes.len()));
    (bytes, Snapshot::of_task().since(&before).count_all(&media::charges::BYTES_LOADED))
}

/// A pool with a file of so many bytes, each 1, mounted.
fn with_file(len: usize, given: Given<'static>, body: impl FnOnce(&dyn FileSystem, Ino) + Send + 'static) {
    virtually(1, move || {
        let region = made(Bytes::mib(8));
        let fs = mounted(&region, given);
        let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
        fs.write(file, 0, &vec![1; len], IoFlags::SYNC).expect("write");
        body(&*fs, file);
        fs.unmount().expect("unmount");
        let crest = fs::by_name("crest").expect("crest is a design");
        assert_eq!(crest.format().fsck(&Storage::from(&region)).violations, []);
    });
}

#[test]
fn a_block_is_read_from_dram_after_so_many_reads_from_the_medium() {
    with_file(2 * BLOCK, &[("admit", "3"), ("buffer", "32k")], |fs, file| {
        let loaded: Vec<_> = (0..5).map(|_| read(fs, file).1).collect();
        assert_eq!(loaded, [8192, 8192, 8192, 0, 0]);
    });
    with_file(2 * BLOCK, &[("admit", "1"), ("buffer", "0")], |fs, file| {
        assert_eq!([read(fs, file).1, read(fs, file).1], [8192; 2], "no frames");
    });
    with_file(2 * BLOCK, &[("admit", "1"), ("without", "reads")], |fs, file| {
        assert_eq!([read(fs, file).1, read(fs, file).1], [8192; 2], "left out");
    });
}

#[test]
fn a_part_of_a_block_gives_all_of_it_a_frame() {
    with_file(BLOCK, &[("admit", "1"), ("buffer", "32k")], |fs, file| {
        let mut bytes = [0; 100];
        assert_eq!((fs.read(file, 1000, &mut bytes, NONE), bytes), (Ok(100), [1; 100]));
        assert_eq!(read(fs, file), (vec![1; BLOCK], 0));
    });
}

#[test]
fn only_a_medium_slower_than_dram_is_cached_where_nothing_is_said() {
    // Copies 13 GB/s, as `spr-server` does.
    let machine = Machine { copy_ps_per_byte: 77, dram_ps_per_byte: 77, ..Machine::unit() };
    for (medium, caches) in [("optane.100x6", true), ("hinfs", false), ("dram", false)] {
        let run = sim::run(&Setup::virtual_clock(machine.clone(), Seed(1)), move || {
            let model = Medium::named(medium).and_then(|medium| medium.build()).expect("a preset");
            let region = Arc::new(Region::anonymous(Bytes::mib(8), model).expect("memory"));
            let crest = fs::by_name("crest").expect("crest is a design");
            crest.format().mkfs(&Storage::from(&region), &options(crest, &[])).expect("mkfs");
            let fs = mounted(&region, &[("buffer", "64k")]);
            let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
            fs.write(file, 0, &[1; BLOCK], NONE).expect("write");
            let last = (0..40).fold(0, |_, _| read(&*fs, file).1);
            assert_eq!(last, if caches { 0 } else { 4096 }, "{medium}");
            fs.unmount().expect("unmount");
        });
        run.expect(medium);
    }
}

#[test]
fn what_a_call_has_changed_is_read_though_it_was_in_a_frame() {
    for given in MOUNTS {
        with_file(3 * BLOCK + 100, given, move |fs, file| {
            let mut expected = vec![1; 3 * BLOCK + 100];
            let mut tag = 1;
            let seen = |expected: &[u8], what: &str| {
                for _ in 0..2 {
                    assert!(read(fs, file).0 == expected, "after {what}, {given:?}");
                }
            };
            seen(&expected, "creation");
            for (at, len) in
                [(0, BLOCK), (100, 50), (BLOCK - 10, 20), (3 * BLOCK + 100, 200), (3 * BLOCK, 50)]
            {
                for flags in [NONE, IoFlags::SYNC] {
                    tag += 1;
                    fs.write(file, at as u64, &vec![tag; len], flags).expect("write");
                    expected.resize(expected.len().max(at + len), 0);
                    expected[at..at + len].fill(tag);
                    seen(&expected, "a write");
                }
            }
            let size = |size: usize| SetAttr { size: Some(size as u64), ..SetAttr::default() };
            for to in [3 * BLOCK + 10, 3 * BLOCK + 900, BLOCK + 1, 2 * BLOCK] {
                fs.setattr(file, &size(to)).expect("truncate");
                expected.resize(to, 0);
                seen(&expected, "a truncation");
            }
            let zero = |mode| fs.fallocate(file, mode, 10, 5000);
            zero(FallocateMode::ZERO_RANGE).expect("zero");
            expected[10..5010].fill(0);
            seen(&expected, "zeroing");
            fs.write(file, 0, &vec![9; 2 * BLOCK], NONE).expect("write");
            expected.fill(9);
            seen(&expected, "a write to reserved blocks");
            zero(FallocateMode::PUNCH_HOLE | FallocateMode::KEEP_SIZE).expect("punch");
            expected[10..5010].fill(0);
            seen(&expected, "a hole");
            let maps = fs.mapped_files().expect("files can be mapped");
            maps.map(file, &(0..2), true).expect("map");
            for tag in [7, 8] {
                maps.store(file, 6000, &[tag; 30]).expect("store");
                expected[6000..6030].fill(tag);
                seen(&expected, "a store to a page");
            }
            maps.unmap(file, &(0..2), true);
            // Blocks of a file that is gone are another's.
            fs.unlink(fs.root(), b"file").expect("unlink");
            for name in [b"one", b"two"] {
                let other = fs.create(fs.root(), name, &NEW).expect("create").ino;
                fs.write(other, 0, &vec![name[0]; 600 * BLOCK], IoFlags::SYNC).expect("write");
                assert!(read(fs, other).0 == vec![name[0]; 600 * BLOCK], "{given:?}");
                fs.unlink(fs.root(), name).expect("unlink");
            }
        });
    }
}

#[test]
fn a_clone_reads_the_frames_of_its_source_and_keeps_its_bytes() {
    with_file(2 * BLOCK, MOUNTS[0], |fs, file| {
        read(fs, file);
        let other = fs.create(fs.root(), b"other", &NEW).expect("create").ino;
        fs.clone_range((file, 0), (other, 0), 2 * BLOCK as u64).expect("clone");
        assert_eq!(read(fs, other), (vec![1; 2 * BLOCK], 0));
        fs.write(file, 10, &[2; 10], NONE).expect("write");
        assert_eq!(read(fs, other).0, vec![1; 2 * BLOCK]);
        fs.unlink(fs.root(), b"file").expect("unlink");
        assert_eq!(read(fs, other).0, vec![1; 2 * BLOCK]);
    });
}

#[test]
fn clean_frames_give_way_to_dirty_ones() {
    // Of 16 frames clean ones leave three.
    with_file(40 * BLOCK, &[("admit", "1"), ("buffer", "64k"), ("sync", "fsync")], |fs, file| {
        read(fs, file);
        let loaded = read(fs, file).1 as usize / BLOCK;
        assert!((27..40).contains(&loaded), "at most 13 of 40 blocks have frames: {loaded} were loaded");
        let other = fs.create(fs.root(), b"other", &NEW).expect("create").ino;
        let before = Snapshot::of_task();
        for at in 0..14 {
            fs.write(other, at * BLOCK as u64, &[3; BLOCK], NONE).expect("write");
        }
        let written = Snapshot::of_task().since(&before).count_all(&media::charges::LINES_WRITTEN);
        assert_eq!(written, 0, "fourteen writes went to frames");
        assert_eq!((read(fs, file).0, read(fs, other).0), (vec![1; 40 * BLOCK], vec![3; 14 * BLOCK]));
        sim::sleep(Nanos::from_secs(60));
        assert_eq!(read(fs, other).0, vec![3; 14 * BLOCK], "after write-back");
    });
}

#[test]
fn a_frame_that_is_settled_stays_as_a_clean_one() {
    with_file(BLOCK, &[("buffer", "64k"), ("admit", "9"), ("sync", "fsync")], |fs, file| {
        fs.write(file, 0, &vec![2; 2 * BLOCK], NONE).expect("write");
        fs.fsync(file, false).expect("fsync");
        assert_eq!(read(fs, file), (vec![2; 2 * BLOCK], 0));
    });
}

#[test]
fn a_frame_that_keeps_what_a_call_has_changed_is_found() {
    let crest = fs::by_name("crest").expect("crest is a design");
    let stale = virtually(1, move || {
        let region = made(Bytes::mib(8));
        let options = harness::options(crest, MOUNTS[0]).with_mutant(mutant("crest", "frame-kept"));
        let fs = crest.mount(&Storage::from(&region), &options).expect("mount");
        let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
        fs.write(file, 0, &[1; 100], NONE).expect("write");
        read(&*fs, file);
        fs.write(file, 100, &[2; 100], NONE).expect("write");
        read(&*fs, file).0[100..] != [2; 100]
    });
    assert!(stale, "an append was not read: without the rule a frame is stale");
}
