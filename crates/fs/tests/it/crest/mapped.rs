//! Mappings whose stores are durable all at once (`mmap=atomic`).

use std::sync::Arc;

use check::crash::programs::{self, Program};
use check::crash::{Effort, Subject, explore};
use check::lockstep::Round;
use check::{File, NEW, Op, Pattern};
use design::Mutant;
use fs::crest::format::mutant::{MAPPED_WRITTEN_BACK, MSYNC_IN_PAGES};
use media::fault::{Fault, Target};
use media::nvmm::Region;
use media::recorder::Plan;
use media::{Medium, Storage};
use sim::{Bytes, Machine, Nanos, Schedule, Seed, Setup, TaskSpec};
use vfs::{
    Credentials, Errno, FallocateMode, FileSystem, Ino, IoFlags, MappedFiles, MappingKind, Mount,
    MountOptions, OpenFlags, Process, Protection, SeekTo, SetAttr, Syscalls,
};

use super::mount::{assert_sound, cost, crest, made};
use crate::shared::harness::{self, Given, promises, subject, virtually, with_mutant, with_options};

const SEED: u64 = 20_261_129;
const PAGE: u64 = 4096;
const NONE: IoFlags = IoFlags::empty();
const ATOMIC: Given<'static> = &[("mmap", "atomic"), ("buffer", "32m")];
/// Write-back finds every file old.
const LAZY: Given<'static> =
    &[("mmap", "atomic"), ("buffer", "32m"), ("sync", "fsync"), ("wake", "1s"), ("dirty_age", "1s")];

fn mounted(region: &Arc<Region>, given: Given) -> Arc<dyn FileSystem> {
    crest().mount(&Storage::from(region), &harness::options(crest(), given)).expect("mount")
}

fn maps(fs: &dyn FileSystem) -> &dyn MappedFiles {
    fs.mapped_files().expect("it maps files")
}

/// An open file with these bytes.
fn file(fs: &dyn FileSystem, name: &[u8], bytes: &[u8]) -> Ino {
    let ino = fs.create(fs.root(), name, &NEW).expect("create").ino;
    fs.open(ino, OpenFlags::READ | OpenFlags::WRITE).expect("open");
    assert_eq!(fs.write(ino, 0, bytes, NONE).expect("write").bytes, bytes.len());
    ino
}

fn read(fs: &dyn FileSystem, ino: Ino) -> Vec<u8> {
    let mut bytes = vec![0xAA; fs.getattr(ino).expect("it is there").size as usize];
    assert_eq!(fs.read(ino, 0, &mut bytes, NONE), Ok(bytes.len()));
    bytes
}

/// What a mount after a crash shows of a file, if all that is under way survives.
fn after_a_crash(region: &Region, name: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; region.len() as usize];
    region.load(0, &mut bytes).expect("it is read");
    let copy = harness::region(Bytes(region.len()));
    copy.store(0, &bytes).expect("it is stored");
    let fs = mounted(&copy, &[]);
    let ino = fs.lookup(fs.root(), name).expect("it is there").ino;
    let bytes = read(&*fs, ino);
    fs.unmount().expect("unmount");
    bytes
}

/// A pool of 8 MiB with a mapped file of four pages of ones.
fn with_mapped(
    given: Given<'static>,
    body: impl FnOnce(&Arc<Region>, &dyn FileSystem, Ino) + Send + 'static,
) {
    virtually(1, move || {
        let region = made(Bytes::mib(8));
        let fs = mounted(&region, given);
        let ino = file(&*fs, b"file", &[1; 4 * PAGE as usize]);
        fs.fsync(ino, false).expect("fsync");
        maps(&*fs).map(ino, &(0..4), true).expect("mmap");
        body(&region, &*fs, ino);
        maps(&*fs).unmap(ino, &(0..4), true);
        fs.release(ino);
        fs.unmount().expect("unmount");
        assert_sound(&region);
    });
}

#[test]
fn a_store_costs_no_line_and_an_msync_one_record_for_all_pages() {
    with_mapped(ATOMIC, |region, fs, ino| {
        let store = |at: u64, len: usize| cost(|| maps(fs).store(ino, at, &vec![2; len]).map(drop));
        assert_eq!((store(10, 100), store(PAGE, 4096), store(3 * PAGE, 8)), ((0, 0), (0, 0), (0, 0)));
        assert_eq!(after_a_crash(region, b"file"), [1; 4 * PAGE as usize], "nothing is durable");
        let sync = |pages: std::ops::Range<u64>| maps(fs).sync(ino, pages.start * PAGE..pages.end * PAGE);
        assert_eq!(cost(|| sync(0..2)), (2, 2 * 64 + 1), "two pages, neighbours");
        let mut expected = [1; 4 * PAGE as usize];
        expected[10..110].fill(2);
        expected[4096..8192].fill(2);
        assert_eq!(after_a_crash(region, b"file"), expected, "the pages of the call alone");
        assert_eq!(cost(|| sync(0..2)), (0, 0), "nothing is dirty");
        assert_eq!(cost(|| sync(0..4)), (2, 64 + 1));
        expected[3 * 4096..][..8].fill(2);
        assert_eq!(after_a_crash(region, b"file"), expected);
        assert_eq!(read(fs, ino), expected);
        // The frames have stayed: no load of the medium.
        assert_eq!((store(0, 8), store(3 * PAGE, 8), store(2 * PAGE, 8)), ((0, 0), (0, 0), (0, 0)));
        assert_eq!(cost(|| fs.fsync(ino, false)), (2, 3 * 64 + 2), "two extents");
    });
}

#[test]
fn a_write_is_durable_at_once_without_what_was_stored_to_its_page() {
    for given in [ATOMIC, LAZY] {
        with_mapped(given, |region, fs, ino| {
            let mut shown = [1; 4 * PAGE as usize];
            let mut durable = shown;
            maps(fs).store(ino, 0, &[2; 3000]).expect("a store");
            shown[..3000].fill(2);
            // An overwrite that a record may hold, one over a border, and an append.
            for (at, len, tag) in [(100, 50, 3), (4000, 200, 4), (8192, 4096, 5)] {
                fs.write(ino, at as u64, &vec![tag; len], NONE).expect("write");
                shown[at..at + len].fill(tag);
                durable[at..at + len].fill(tag);
                assert_eq!(read(fs, ino), shown);
                assert_eq!(after_a_crash(region, b"file"), durable);
            }
            let mut byte = [0; 60];
            maps(fs).load(ino, 95, &mut byte).expect("a load");
            assert_eq!(byte, shown[95..155]);
            maps(fs).sync(ino, 0..PAGE).expect("msync");
            assert_eq!(after_a_crash(region, b"file"), shown);
        });
    }
}

#[test]
fn what_is_not_synced_outlives_the_mapping_and_an_fsync_makes_it_durable() {
    with_mapped(ATOMIC, |region, fs, ino| {
        maps(fs).map(ino, &(0..4), true).expect("a second mapping");
        maps(fs).store(ino, 5, &[2; 10]).expect("a store");
        maps(fs).store(ino, 3 * PAGE, &[2; 10]).expect("a store");
        maps(fs).unmap(ino, &(0..4), true);
        maps(fs).unmap(ino, &(0..4), true);
        assert_eq!((read(fs, ino)[5], after_a_crash(region, b"file")[5]), (2, 1));
        fs.write(ino, 0, &[3; 7], NONE).expect("write");
        assert_eq!(read(fs, ino)[4..9], [3, 3, 3, 2, 2]);
        fs.fsync(ino, false).expect("fsync");
        assert_eq!(after_a_crash(region, b"file"), read(fs, ino));
        maps(fs).map(ino, &(0..4), true).expect("mmap");
        maps(fs).store(ino, 5, &[4; 10]).expect("a store");
        fs.sync().expect("sync");
        assert_eq!(after_a_crash(region, b"file")[5], 4);
        maps(fs).store(ino, 5, &[5; 10]).expect("a store");
    });
}

#[test]
fn pages_that_end_are_gone_and_their_blocks_and_frames_are_free() {
    with_mapped(ATOMIC, |_, fs, ino| {
        let free = || fs.statfs().expect("statfs").blocks_free;
        let before = free();
        let store = |page: u64| maps(fs).store(ino, page * PAGE + 10, &[2; 10]).expect("a store");
        let punch = FallocateMode::PUNCH_HOLE | FallocateMode::KEEP_SIZE;
        (0..4).for_each(|page| assert!(store(page)));
        fs.fallocate(ino, punch, PAGE, PAGE + 15).expect("punch");
        let bytes = read(fs, ino);
        assert_eq!(
            (bytes[4096..8192 + 15].iter().max(), &bytes[8192 + 15..8192 + 21]),
            (Some(&0), &[2, 2, 2, 2, 2, 1][..])
        );
        assert_eq!(fs.seek(ino, 0, SeekTo::Hole), Ok(PAGE));
        assert!(store(1), "a page of a hole");
        assert_eq!(
            (fs.seek(ino, PAGE, SeekTo::Data), fs.seek(ino, 0, SeekTo::Hole)),
            (Ok(PAGE), Ok(4 * PAGE))
        );
        let size = |size| SetAttr { size: Some(size), ..SetAttr::default() };
        fs.setattr(ino, &size(15)).expect("truncate");
        assert_eq!(read(fs, ino)[9..], [1, 2, 2, 2, 2, 2]);
        fs.setattr(ino, &size(4 * PAGE)).expect("truncate");
        assert_eq!(read(fs, ino)[15..].iter().max(), Some(&0));
        maps(fs).sync(ino, 0..4 * PAGE).expect("msync");
        assert_eq!(free(), before + 3, "one page is left");
        store(0);
        let other = file(fs, b"other", &[7; 2 * PAGE as usize]);
        fs.clone_range((other, 0), (ino, 0), 2 * PAGE).expect("clone");
        assert_eq!(read(fs, ino)[..2 * PAGE as usize], [7; 2 * PAGE as usize]);
        store(1);
        fs.clone_range((ino, 0), (other, 0), 2 * PAGE).expect("clone");
        assert_eq!(read(fs, other), read(fs, ino)[..2 * PAGE as usize]);
        fs.release(other);
    });
}

#[test]
fn a_mapping_gets_all_that_its_stores_need_or_says_why_not() {
    virtually(1, || {
        let region = made(Bytes::mib(8));
        let fs = mounted(&region, &[("buffer", "64k")]);
        let ino = file(&*fs, b"file", &[1; 100]);
        let map = |pages: u64, kind| maps(&*fs).map_as(ino, &(0..pages), true, kind);
        assert_eq!(map(17, MappingKind::Atomic), Err(Errno::ENOMEM), "sixteen frames");
        assert_eq!(map(16, MappingKind::Atomic), Ok(()));
        assert_eq!(map(16, MappingKind::Atomic), Ok(()), "the same pages need no more");
        assert_eq!(map(1, MappingKind::Direct), Err(Errno::EBUSY));
        assert_eq!(map(1, MappingKind::AsMounted), Err(Errno::EBUSY));
        assert_eq!(maps(&*fs).map(ino, &(0..1), false), Ok(()), "for loads only");
        maps(&*fs).store(ino, 0, b"x").expect("a store");
        let mut byte = [0];
        maps(&*fs).load(ino, 0, &mut byte).expect("a load");
        assert_eq!(&byte, b"x");
        (0..2).for_each(|_| maps(&*fs).unmap(ino, &(0..16), true));
        assert_eq!(map(1, MappingKind::Direct), Ok(()));
        assert_eq!(after_a_crash(&region, b"file")[0], b'x', "the first direct one syncs");
        assert_eq!(map(1, MappingKind::Atomic), Err(Errno::EBUSY));
        maps(&*fs).unmap(ino, &(0..1), true);
        assert_eq!(map(16, MappingKind::Atomic), Ok(()), "all frames are free again");
        maps(&*fs).unmap(ino, &(0..16), true);
        maps(&*fs).unmap(ino, &(0..1), false);
        fs.release(ino);
        fs.unmount().expect("unmount");
        // Zones of 16 KiB: 744 extents.
        let region = made(Bytes::mib(4));
        let fs = mounted(&region, ATOMIC);
        let ino = file(&*fs, b"file", &[1; 100]);
        fs.setattr(ino, &SetAttr { size: Some(800 * PAGE), ..SetAttr::default() }).expect("truncate");
        let map = |pages: u64| maps(&*fs).map(ino, &(0..pages), true);
        assert_eq!((map(745), map(744)), (Err(Errno::EFBIG), Ok(())));
        (0..744).for_each(|page| _ = maps(&*fs).store(ino, page * PAGE, b"y").expect("a store"));
        assert_eq!(cost(|| maps(&*fs).sync(ino, 0..744 * PAGE)).0, 2, "one group");
        maps(&*fs).unmap(ino, &(0..744), true);
        fs.release(ino);
        fs.unmount().expect("unmount");
        assert_sound(&region);
    });
}

#[test]
fn a_full_pool_refuses_a_store_and_no_sync() {
    with_mapped(ATOMIC, |region, fs, ino| {
        maps(fs).store(ino, 0, &[2; 10]).expect("a store");
        let full = file(fs, b"full", b"");
        let mut at = 0;
        while let Ok(written) = fs.write(full, at, &[9; PAGE as usize], NONE) {
            at += written.bytes as u64;
        }
        assert_eq!(maps(fs).store(ino, PAGE, &[2; 10]), Err(Errno::ENOSPC));
        assert_eq!(read(fs, ino)[PAGE as usize], 1);
        maps(fs).store(ino, 20, &[2; 10]).expect("a page that has its block");
        maps(fs).sync(ino, 0..PAGE).expect("msync");
        assert_eq!(after_a_crash(region, b"file")[20], 2);
        maps(fs).store(ino, 40, &[2; 10]).expect("the block that the sync has freed");
        fs.release(full);
    });
}

/// The medium refuses each store of an msync in turn.
#[test]
fn an_msync_that_fails_has_made_nothing_durable_and_can_be_made_again() {
    with_mapped(ATOMIC, |region, fs, ino| {
        let (mut durable, mut failures) = ([1; 4 * PAGE as usize], 0);
        for nth in 1.. {
            let tag = 1 + nth as u8;
            for page in [0, 1, 3] {
                maps(fs).store(ino, page * PAGE + 100, &[tag; 50]).expect("a store");
            }
            region.inject(Fault::FailNth { target: Target::Store, nth });
            let synced = maps(fs).sync(ino, 0..4 * PAGE);
            region.clear_faults();
            let failed = synced.is_err();
            if failed {
                failures += 1;
                assert_eq!(
                    (synced, after_a_crash(region, b"file")),
                    (Err(Errno::EIO), durable.to_vec()),
                    "store {nth}"
                );
                maps(fs).sync(ino, 0..4 * PAGE).expect("the second msync");
            }
            for page in [0, 1, 3] {
                durable[page * PAGE as usize + 100..][..50].fill(tag);
            }
            assert_eq!(after_a_crash(region, b"file"), durable, "store {nth}");
            if !failed {
                break;
            }
        }
        assert!(failures >= 4, "three pages and a record: {failures}");
    });
}

// ---- crashes

fn at(path: &str) -> File {
    File::At(path.into())
}

fn programs() -> Vec<Program> {
    let store = |offset: u64, len: usize, tag: u8| Op::Store(0, offset, Pattern { len, tag });
    let write = |offset: Option<u64>, len: usize, tag: u8| Op::Write(at("foo"), offset, Pattern { len, tag });
    let program = |name: &str, len: usize, core: Vec<Op>| {
        let setup = vec![Op::Create("foo".into()), write(Some(0), len, 1), Op::Map("foo".into(), 0)];
        Program::new(name, setup, core)
    };
    let punch = FallocateMode::PUNCH_HOLE | FallocateMode::KEEP_SIZE;
    let msync = || Op::Msync(0);
    let clone = Op::Clone((at("foo"), 0), (at("bar"), 0), 8192);
    let mut all = vec![
        program(
            "three pages",
            20_000,
            vec![store(100, 50, 2), store(4000, 8, 3), store(16_000, 300, 4), msync()],
        ),
        program("pages twice", 8192, vec![store(4000, 200, 2), msync(), store(4000, 200, 3), msync()]),
        program("fsync of pages", 8192, vec![store(4000, 200, 2), Op::Fsync(at("foo"))]),
        program("sync of pages", 8192, vec![store(4000, 200, 2), Op::Sync]),
        program("unmap, remount", 8192, vec![store(4000, 200, 2), Op::Unmap(0), Op::Remount]),
        program("small write", 8192, vec![store(4000, 200, 2), write(Some(4050), 40, 3), msync()]),
        program("long write", 8192, vec![store(4000, 200, 2), write(Some(4050), 4100, 3), msync()]),
        program("append", 8000, vec![store(4000, 4000, 2), write(None, 300, 3), msync()]),
        program(
            "punch",
            12_288,
            vec![store(4000, 5000, 2), Op::Fallocate(at("foo"), punch, 4096, 4100), msync()],
        ),
        program(
            "cut and grow",
            8192,
            vec![store(4000, 200, 2), Op::Truncate(at("foo"), 4100), Op::Truncate(at("foo"), 8000), msync()],
        ),
        program(
            "clone",
            8192,
            vec![Op::Create("bar".into()), store(4000, 200, 2), clone, store(0, 8, 3), msync()],
        ),
    ];
    all.extend(programs::mapped());
    all
}

fn violations(subject: Subject) -> Vec<String> {
    virtually(SEED, move || {
        let plan = Plan { exhaustive_max: 48, pair_units_max: 6, draws: 12, seed: Seed(SEED) };
        let effort = Effort { plan, ..Effort::usual(SEED, 1) };
        let explored = programs().into_iter().map(|program| explore(&subject, &program, &effort, &[]));
        let found = explored.flat_map(|tally| {
            assert_eq!(tally.without_space, 0);
            tally.violations
        });
        found.map(|violation| violation.to_string()).collect()
    })
}

#[test]
fn a_crash_leaves_all_pages_of_an_msync_or_none() {
    let ways: [Given<'static>; 3] = [&[], &[("checksum", "data")], &[("atomic", "words")]];
    for way in ways {
        let subject = subject("crest", &[ATOMIC, way].concat());
        assert_eq!(violations(subject), Vec::<String>::new(), "{way:?}");
    }
}

/// Where writes are buffered all is judged by bytes.
#[test]
fn a_crash_of_a_mount_with_frames_leaves_what_mappings_may_leave() {
    assert_eq!(violations(subject("crest", LAZY)), Vec::<String>::new());
}

fn with_bug(mutant: Mutant) -> Subject {
    let design = with_mutant("crest", &[harness::checking("crest").small, ATOMIC].concat(), mutant);
    Subject { design, promises: promises("crest", ATOMIC), ..subject("crest", ATOMIC) }
}

#[test]
fn pages_of_an_msync_with_records_of_their_own_and_pages_written_back_are_found() {
    for mutant in [MSYNC_IN_PAGES, MAPPED_WRITTEN_BACK] {
        let found = violations(with_bug(mutant));
        assert!(found.iter().any(|what| what.contains("a part of a sync")), "{}: {found:?}", mutant.name());
    }
}

/// Write-back that finds every file old does not find the pages of a mapping.
#[test]
fn write_back_leaves_dirty_pages_alone() {
    with_mapped(LAZY, |region, fs, ino| {
        maps(fs).store(ino, 0, &[2; 10]).expect("a store");
        sim::sleep(Nanos::from_secs(60));
        assert_eq!((read(fs, ino)[0], after_a_crash(region, b"file")[0]), (2, 1));
    });
}

// ---- beside other calls

#[test]
fn random_operations_answer_as_the_reference_does() {
    let ways: [Given<'static>; 4] =
        [&[], &[("checksum", "data")], &[("sync", "fsync")], &[("atomic", "words")]];
    for (way, given) in ways.into_iter().enumerate() {
        // The second pool is full at times.
        for (number, size) in [Bytes::mib(8), Bytes::kib(1280)].into_iter().enumerate() {
            let design = with_options("crest", &[&[("shards", "2")], ATOMIC, given].concat());
            let seed = SEED + 10 * way as u64 + number as u64;
            let round = Round { design, size, seed, ops: 1500, maps: true };
            if let Err(failed) = round.run(None, None) {
                panic!("{given:?} on {size}: {failed}");
            }
        }
    }
}

/// Tasks store to two pages in turn while another syncs both: what is durable are the pages as they were at one moment.
#[test]
fn an_msync_beside_stores_has_the_pages_of_one_moment() {
    let run = || {
        let region = made(Bytes::mib(1));
        let fs = mounted(&region, &[("mmap", "atomic"), ("buffer", "64k"), ("shards", "2")]);
        let ino = file(&*fs, b"file", &[0; 2 * PAGE as usize]);
        maps(&*fs).map(ino, &(0..2), true).expect("mmap");
        let writer = |core: u16, byte: u64| {
            let fs = Arc::clone(&fs);
            sim::spawn(TaskSpec::named("writer").on_core(core), move || {
                for round in 1..4_u8 {
                    for page in [0, PAGE] {
                        maps(&*fs).store(ino, page + byte, &[round]).expect("a store");
                    }
                }
            })
        };
        let writers = [writer(0, 7), writer(1, 2000)];
        for _ in 0..3 {
            maps(&*fs).sync(ino, 0..2 * PAGE).expect("msync");
            let bytes = after_a_crash(&region, b"file");
            for byte in [7, 2000] {
                let (first, second) = (bytes[byte], bytes[byte + PAGE as usize]);
                assert!(first == second || first == second + 1, "{first} and {second} of byte {byte}");
            }
        }
        writers.into_iter().for_each(sim::JoinHandle::join);
        maps(&*fs).unmap(ino, &(0..2), true);
        fs.release(ino);
        fs.unmount().expect("unmount");
        assert_eq!(after_a_crash(&region, b"file")[7], 3);
    };
    for seed in SEED..SEED + 60 {
        let setup = Setup::virtual_clock(Machine::unit(), Seed(seed));
        let (done, _) = sim::explore(&setup, &Schedule::Pct { depth: 3, length: 300 }, run);
        done.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

/// What a mapping of a kind pays for stores of so many bytes to each of some pages, and for their sync, in virtual nanoseconds; and
/// fences and lines of the sync.
fn priced(kind: MappingKind, pages: u64, len: usize) -> ([u64; 2], (u64, u64)) {
    // Copies, calls and faults as on `fxmark-server`.
    let mut machine = Machine { copy_ps_per_byte: 323, dram_ps_per_byte: 7, ..Machine::unit() };
    machine.work_ps[..2].copy_from_slice(&[80_000, 127_000]);
    let run = sim::run(&Setup::virtual_clock(machine, Seed(1)), move || {
        let model = Medium::named("optane.100x6").and_then(|medium| medium.build()).expect("a preset");
        let region = Arc::new(Region::anonymous(Bytes::mib(16), model).expect("memory"));
        crest().format().mkfs(&Storage::from(&region), &harness::options(crest(), &[])).expect("mkfs");
        let mount =
            Mount::new(mounted(&region, &[("buffer", "32m")]), MountOptions::default()).expect("mount");
        let process = Process::new(Arc::clone(&mount), Credentials::root());
        let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREATE;
        let fd = process.open(b"file", flags, 0o644).expect("open");
        process.pwrite(fd, &vec![1; (pages * PAGE) as usize], 0).expect("write");
        let both = Protection::READ | Protection::WRITE;
        let mapping = process.mmap_as(fd, 0, pages * PAGE, both, kind).expect("mmap");
        let mut last = ([0; 2], (0, 0));
        // Once more, when each page has been touched.
        for tag in 2..4 {
            let began = sim::now();
            for page in 0..pages {
                mapping.write(page * PAGE, &vec![tag; len]).expect("a store");
            }
            let stored = sim::now();
            let cost = cost(|| mapping.sync(0, pages * PAGE));
            last = ([stored.since(began).0, sim::now().since(stored).0], cost);
        }
        drop(mapping);
        process.close(fd).expect("close");
        drop(process);
        mount.unmount().expect("unmount");
        last
    });
    run.expect("it runs")
}

/// The figures of `docs/designs/crest.md`, which it prints.
#[test]
fn an_msync_of_a_direct_mapping_flushes_lines_and_an_atomic_one_stores_pages_and_a_record() {
    for (pages, len) in [1, 16, 256].into_iter().flat_map(|pages| [(pages, 64), (pages, 4096)]) {
        let [direct, atomic] =
            [MappingKind::Direct, MappingKind::Atomic].map(|kind| priced(kind, pages, len));
        assert_eq!(direct.1, (1, pages * len as u64 / 64));
        assert_eq!((atomic.1.0, atomic.1.1 - pages * 64 <= 4), (2, true), "{atomic:?}");
        println!(
            "{pages} pages, {len} bytes of each: stores, msync in ns: direct {:?}, atomic {:?}",
            direct.0, atomic.0
        );
    }
}
