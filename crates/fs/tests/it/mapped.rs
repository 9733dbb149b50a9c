//! Mapped files: do loads, stores and syncs of a mapping keep what `vfs::mapping` says, on every design that maps files?

use std::sync::Arc;

use design::{Design, Options};
use fs::FILE_SYSTEMS;
use media::Storage;
use media::nvmm::Region;
use sim::ledger::Snapshot;
use sim::{Bytes, Clock, Machine, Nanos, Seed, Setup};
use vfs::{
    Credentials, Errno, FallocateMode, Fd, LeftOut, Mapping, Mount, MountOptions, OpenFlags, Process,
    Protection, SetAttr, SetTime, Syscalls, Timestamp,
};

const PAGE: u64 = 4096;
const READ: Protection = Protection::READ;
const BOTH: Protection = Protection::READ.union(Protection::WRITE);

fn options(design: &dyn Design, given: &[(&str, &str)]) -> Options {
    let given = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Options::resolve(design.name(), design.options(), &given).expect("valid options")
}

/// Runs `body` in a process on a fresh image of a design under both clocks, then checks the image.
fn on(design: &'static dyn Design, body: fn(&Process)) {
    on_with(design, &[], body);
}

/// The same with options.
fn on_with(design: &'static dyn Design, given: &'static [(&str, &str)], body: fn(&Process)) {
    for clock in [Clock::Virtual, Clock::Real] {
        let mut setup = Setup::virtual_clock(Machine::unit(), Seed(1));
        setup.clock = clock;
        let report = sim::run(&setup, move || {
            let null = Box::new(media::nvmm::null::Null);
            let region = Arc::new(Region::anonymous(Bytes::mib(32), null).expect("memory"));
            let options = options(design, given);
            design.format().mkfs(&Storage::from(&region), &options).expect("mkfs");
            let fs = design.mount(&Storage::from(&region), &options).expect("mount");
            let mount = Mount::new(fs, MountOptions::default()).expect("mount");
            let process = Process::new(Arc::clone(&mount), Credentials::root());
            body(&process);
            drop(process);
            mount.unmount().expect("unmount");
            design.format().fsck(&Storage::from(&region)).violations
        });
        let violations = report.unwrap_or_else(|error| panic!("{} {clock}: {error}", design.name()));
        assert_eq!(violations, [], "{} {clock}", design.name());
    }
}

/// Whether a design says that it maps files.
fn maps(design: &'static dyn Design) -> bool {
    let maps = sim::run(&Setup::virtual_clock(Machine::unit(), Seed(1)), move || {
        let null = Box::new(media::nvmm::null::Null);
        let region = Arc::new(Region::anonymous(Bytes::mib(32), null).expect("memory"));
        design.format().mkfs(&Storage::from(&region), &options(design, &[])).expect("mkfs");
        let fs = design.mount(&Storage::from(&region), &options(design, &[])).expect("mount");
        fs.unmount().expect("unmount");
        fs.mapped_files().is_some()
    });
    maps.unwrap_or_else(|error| panic!("{}: {error}", design.name()))
}

/// The same on every design that maps files.
fn on_every_design(body: fn(&Process)) {
    on_designs_with(LeftOut::empty(), body);
}

/// The same on those whose formats have room for these.
fn on_designs_with(needs: LeftOut, body: fn(&Process)) {
    let has = |design: &&dyn Design| !design.promises(&options(*design, &[])).left_out.intersects(needs);
    let mapping = FILE_SYSTEMS.iter().copied().filter(|design| maps(*design)).filter(has);
    assert!(mapping.map(|design| on(design, body)).count() > 1, "designs map files");
    on_with(fs::by_name("crest").expect("a design"), &[("mmap", "atomic")], body);
}

fn open(process: &Process, path: &str) -> Fd {
    let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREATE;
    process.open(path.as_bytes(), flags, 0o644).expect("open")
}

fn map(process: &Process, fd: Fd, pages: u64) -> Box<dyn Mapping> {
    process.mmap(fd, 0, pages * PAGE, BOTH).expect("mmap")
}

fn write(process: &Process, fd: Fd, at: u64, data: &[u8]) {
    assert_eq!(process.pwrite(fd, data, at), Ok(data.len()));
}

fn read(process: &Process, fd: Fd, at: u64, len: usize) -> Vec<u8> {
    let mut buffer = vec![0xEE; len];
    let read = process.pread(fd, &mut buffer, at).expect("read");
    buffer.truncate(read);
    buffer
}

fn loaded(mapping: &dyn Mapping, at: u64, len: usize) -> Vec<u8> {
    let mut buffer = vec![0xEE; len];
    mapping.read(at, &mut buffer).expect("load");
    buffer
}

fn pattern(len: usize, tag: usize) -> Vec<u8> {
    (0..len).map(|at| (1 + (at * 7 + tag * 31) % 251) as u8).collect()
}

#[test]
fn a_mapping_and_a_descriptor_see_the_same_bytes() {
    on_every_design(|process| {
        let fd = open(process, "file");
        write(process, fd, 0, &pattern(20_000, 1));
        let mapping = map(process, fd, 5);
        assert_eq!(loaded(&*mapping, 0, 20_000), pattern(20_000, 1));
        // A write, which may replace the block that the mapping has stored to.
        mapping.write(4000, b"stored across a border").unwrap();
        write(process, fd, 4010, b"WRITTEN");
        write(process, fd, 8192, &pattern(4096, 2));
        assert_eq!(loaded(&*mapping, 4000, 22), b"stored acrWRITTENorder"[..22].to_vec());
        assert_eq!(read(process, fd, 4000, 22), loaded(&*mapping, 4000, 22));
        assert_eq!(loaded(&*mapping, 8192, 4096), pattern(4096, 2));
        mapping.write(8200, b"again").unwrap();
        let second = process.mmap(fd, 4096, 8192, READ).expect("a second mapping");
        assert_eq!(loaded(&*second, 8200 - 4096, 5), b"again");
        assert_eq!(read(process, fd, 8200, 5), b"again");
    });
}

#[test]
fn what_a_mapping_stores_is_read_after_a_sync_and_without_caches() {
    on_every_design(|process| {
        let fd = open(process, "file");
        write(process, fd, 0, &pattern(9000, 1));
        let mapping = map(process, fd, 3);
        mapping.write(100, b"synced").unwrap();
        mapping.sync(0, PAGE).unwrap();
        mapping.write(5000, b"not synced").unwrap();
        drop(mapping);
        process.fsync(fd).unwrap();
        process.drop_caches().unwrap();
        assert_eq!(
            (read(process, fd, 100, 6), read(process, fd, 5000, 10)),
            (b"synced".to_vec(), b"not synced".to_vec())
        );
    });
}

#[test]
fn a_hole_reads_as_zeros_and_gets_a_block_at_the_first_store() {
    on_designs_with(LeftOut::HOLES, |process| {
        let fd = open(process, "file");
        process.ftruncate(fd, 100_000).unwrap();
        let mapping = map(process, fd, 25);
        assert_eq!(loaded(&*mapping, 0, 99_000), vec![0; 99_000]);
        process.fsync(fd).unwrap();
        let before = process.fstat(fd).unwrap().blocks;
        mapping.write(50_000, b"x").unwrap();
        mapping.sync(0, 25 * PAGE).unwrap();
        assert!(process.fstat(fd).unwrap().blocks > before);
        let mut expected = vec![0; 100_000];
        expected[50_000] = b'x';
        assert_eq!(read(process, fd, 0, 100_000), expected);
        assert_eq!(process.fstat(fd).unwrap().size, 100_000);
    });
}

#[test]
fn beyond_the_page_of_the_end_is_a_fault_and_within_it_are_zeros() {
    on_every_design(|process| {
        let fd = open(process, "file");
        write(process, fd, 0, &pattern(5000, 1));
        let mapping = map(process, fd, 4);
        assert_eq!(loaded(&*mapping, 4990, 100)[10..], [0; 90]);
        mapping.write(4990, &[7; 500]).unwrap();
        assert_eq!(loaded(&*mapping, 4990, 500), [vec![7; 10], vec![0; 490]].concat());
        assert_eq!(process.fstat(fd).unwrap().size, 5000);
        let mut byte = [0];
        assert_eq!(mapping.read(8192, &mut byte), Err(Errno::EFAULT));
        assert_eq!(mapping.write(8192, &byte), Err(Errno::EFAULT));
        assert_eq!(mapping.write(8190, &[1; 4]), Err(Errno::EFAULT));
        assert_eq!(mapping.read(4 * PAGE, &mut byte), Err(Errno::EFAULT), "outside of the mapping");
        process.ftruncate(fd, 12_000).unwrap();
        assert_eq!(loaded(&*mapping, 5000, 7000), vec![0; 7000], "what was dropped does not come back");
        mapping.write(11_999, b"z").unwrap();
        process.ftruncate(fd, 100).unwrap();
        assert_eq!(mapping.read(4096, &mut byte), Err(Errno::EFAULT));
        process.ftruncate(fd, 12_000).unwrap();
        assert_eq!(loaded(&*mapping, 100, 11_900), vec![0; 11_900], "what was cut does not come back");
        mapping.write(11_999, b"z").unwrap();
        assert_eq!(read(process, fd, 11_999, 1), b"z");
    });
}

#[test]
fn a_mapping_outlives_its_descriptor_and_the_names_of_its_file() {
    on_every_design(|process| {
        let first = open(process, "first");
        process.unlink(b"first").unwrap();
        process.close(first).unwrap();
        process.sync().unwrap();
        let free = process.statfs(b"/").unwrap();
        let fd = open(process, "file");
        write(process, fd, 0, &pattern(9000, 1));
        let mapping = map(process, fd, 3);
        process.close(fd).unwrap();
        process.unlink(b"file").unwrap();
        mapping.write(8990, b"0123456789").unwrap();
        assert_eq!(loaded(&*mapping, 8980, 20), [&pattern(9000, 1)[8980..8990], b"0123456789"].concat());
        mapping.sync(0, 3 * PAGE).unwrap();
        drop(mapping);
        process.sync().unwrap();
        assert_eq!(process.statfs(b"/").unwrap(), free, "its blocks and its inode are free again");
        // The number of the inode is used again, and nothing of the mapping is left with it.
        let next = open(process, "next");
        write(process, next, 0, &pattern(9000, 2));
        assert_eq!(read(process, next, 0, 9000), pattern(9000, 2));
    });
}

#[test]
fn the_first_store_since_a_sync_sets_the_time_of_modification() {
    on_every_design(|process| {
        let fd = open(process, "file");
        write(process, fd, 0, &pattern(5000, 1));
        let mapping = map(process, fd, 2);
        let old = Timestamp { secs: 1000, nanos: 0 };
        let set = SetAttr { mtime: Some(SetTime::To(old)), ..SetAttr::default() };
        for round in 0..2 {
            mapping.sync(0, 2 * PAGE).unwrap();
            process.setattr(b"file", &set).unwrap();
            assert_eq!(loaded(&*mapping, 0, 10).len(), 10);
            assert_eq!(process.fstat(fd).unwrap().mtime, old, "a load changes nothing, round {round}");
            mapping.write(0, b"x").unwrap();
            assert!(process.fstat(fd).unwrap().mtime > old, "round {round}");
        }
    });
}

#[test]
fn only_open_regular_files_are_mapped_and_only_as_they_are_open() {
    on_every_design(|process| {
        let fd = open(process, "file");
        write(process, fd, 0, &pattern(5000, 1));
        let mmap = |fd, offset, len, protection| process.mmap(fd, offset, len, protection).map(drop);
        assert_eq!(mmap(fd, 1, PAGE, READ), Err(Errno::EINVAL));
        assert_eq!(mmap(fd, 0, 0, READ), Err(Errno::EINVAL));
        assert_eq!(mmap(Fd(99), 0, PAGE, READ), Err(Errno::EBADF));
        let read_only = process.open(b"file", OpenFlags::READ, 0).unwrap();
        assert_eq!(mmap(read_only, 0, PAGE, BOTH), Err(Errno::EACCES));
        assert_eq!(mmap(read_only, 0, PAGE, READ), Ok(()));
        let write_only = process.open(b"file", OpenFlags::WRITE, 0).unwrap();
        assert_eq!(mmap(write_only, 0, PAGE, READ), Err(Errno::EACCES));
        assert_eq!(mmap(write_only, 0, PAGE, Protection::WRITE), Err(Errno::EACCES));
        process.mkdir(b"dir", 0o755).unwrap();
        let dir = process.open(b"dir", OpenFlags::READ, 0).unwrap();
        assert_eq!(mmap(dir, 0, PAGE, READ), Err(Errno::ENODEV));
        let mapping = process.mmap(fd, 0, PAGE, READ).unwrap();
        assert_eq!(mapping.write(0, b"x"), Err(Errno::EFAULT), "it may not be stored to");
        assert_eq!(mapping.sync(1, 1), Err(Errno::EINVAL));
        assert_eq!(mapping.sync(0, 2 * PAGE), Err(Errno::ENOMEM));
    });
}

#[test]
fn a_design_without_mapped_files_says_so() {
    for design in FILE_SYSTEMS.iter().copied().filter(|design| !maps(*design)) {
        on(design, |process| {
            let fd = open(process, "file");
            write(process, fd, 0, b"bytes");
            assert_eq!(process.mmap(fd, 0, PAGE, READ).map(drop), Err(Errno::ENODEV));
        });
    }
}

#[test]
fn a_store_to_a_hole_without_space_is_an_error_and_changes_nothing() {
    on_designs_with(LeftOut::HOLES, |process| {
        let fd = open(process, "file");
        process.ftruncate(fd, 64 * PAGE).unwrap();
        let mapping = map(process, fd, 64);
        let full = open(process, "full");
        let mut at = 0;
        while let Ok(written) = process.pwrite(full, &[1; 16 << 10], at) {
            at += written as u64;
        }
        let stored =
            (0..64).find_map(|page| mapping.write(page * PAGE, b"x").err().map(|errno| (page, errno)));
        let (page, errno) = stored.expect("there is no space for all of them");
        assert_eq!(errno, Errno::ENOSPC);
        assert_eq!(loaded(&*mapping, page * PAGE, 10), [0; 10]);
        process.ftruncate(full, 0).unwrap();
        process.sync().unwrap();
        mapping.write(page * PAGE, b"x").unwrap();
        assert_eq!(read(process, fd, page * PAGE, 1), b"x");
    });
}

#[test]
fn ranges_that_are_freed_or_reserved_are_seen_by_a_mapping() {
    on_every_design(|process| {
        let fd = open(process, "file");
        write(process, fd, 0, &pattern(4 * PAGE as usize, 1));
        let mapping = map(process, fd, 4);
        mapping.write(PAGE, b"dirty").unwrap();
        let punch = FallocateMode::PUNCH_HOLE | FallocateMode::KEEP_SIZE;
        match process.fallocate(fd, punch, PAGE, PAGE) {
            Err(Errno::EOPNOTSUPP) => return,
            done => done.unwrap(),
        }
        assert_eq!(loaded(&*mapping, PAGE, PAGE as usize), vec![0; PAGE as usize]);
        mapping.sync(0, 4 * PAGE).unwrap();
        mapping.write(PAGE + 10, b"new").unwrap();
        assert_eq!(read(process, fd, PAGE, 14), [&[0; 10][..], b"new\0"].concat());
    });
}

/// Memory that is mapped directly: what a sync flushes are the lines that were stored to.
#[test]
fn a_sync_flushes_the_lines_that_were_stored_to() {
    for name in ["pmfs", "hinfs", "nova", "rcache", "squirrelfs"] {
        on(fs::by_name(name).expect("a design"), |process| {
            let fd = open(process, "file");
            write(process, fd, 0, &pattern(3 * PAGE as usize, 1));
            let mapping = map(process, fd, 3);
            for at in [0, 100, 4096, 8191] {
                mapping.write(at, b"x").unwrap();
            }
            let lines = |sync: &dyn Fn()| {
                let before = Snapshot::of_task();
                sync();
                let since = Snapshot::of_task().since(&before);
                let count = |what| since.count_all(what);
                (count(&media::charges::LINES_WRITTEN), count(&media::charges::FENCES) > 0)
            };
            assert_eq!(lines(&|| mapping.sync(PAGE, PAGE).unwrap()), (2, true));
            assert_eq!(lines(&|| process.fsync(fd).unwrap()), (2, true));
            assert_eq!(lines(&|| process.fsync(fd).unwrap()).0, 0, "nothing is left");
        });
    }
}

#[test]
fn a_page_that_a_read_cache_has_is_not_stale_after_a_store() {
    on(fs::by_name("rcache").expect("a design"), |process| {
        let fd = open(process, "file");
        write(process, fd, 0, &pattern(4096, 1));
        let heat = |expected: &[u8]| {
            for _ in 0..10 {
                assert_eq!(read(process, fd, 0, 8), expected);
                sim::sleep(Nanos(100_000));
            }
        };
        heat(&pattern(8, 1));
        let mapping = map(process, fd, 1);
        mapping.write(0, b"mapped!!").unwrap();
        heat(b"mapped!!");
        mapping.write(0, b"mapped?!").unwrap();
        heat(b"mapped?!");
        drop(mapping);
        heat(b"mapped?!");
    });
}

#[test]
fn what_hinfs_has_buffered_is_in_a_mapping() {
    on(fs::by_name("hinfs").expect("a design"), |process| {
        let fd = open(process, "file");
        write(process, fd, 0, &pattern(9000, 1));
        write(process, fd, 10, b"buffered");
        let mapping = map(process, fd, 3);
        assert_eq!(loaded(&*mapping, 10, 8), b"buffered");
        write(process, fd, 4090, b"written under a mapping");
        assert_eq!(loaded(&*mapping, 4090, 23), b"written under a mapping");
        drop(mapping);
        write(process, fd, 4090, b"buffered");
        assert_eq!(read(process, fd, 4090, 23), b"bufferedunder a mapping");
    });
}
