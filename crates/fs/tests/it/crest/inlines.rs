//! Small overwrites of a mount: records with their bytes, under one fence, beside all that may meet them.

use std::sync::Arc;

use check::crash::programs::Program;
use check::crash::{Effort, Subject, explore};
use check::{Configured, File, NEW, Op, Pattern};
use design::Mutant;
use fs::crest::format::inline::LINES_MAX;
use fs::crest::format::layout::{SUPERBLOCKS, Superblock, incompat};
use fs::crest::format::mutant;
use media::Storage;
use media::nvmm::Region;
use rand::RngExt;
use sim::{Bytes, Machine, Schedule, Seed, Setup, TaskSpec};
use vfs::{FallocateMode, FileSystem, Ino, IoFlags};

use super::mount::{assert_sound, cost, crest, made, mounted};
use crate::shared::harness::{self, Given, checking, subject, virtually, with_mutant, with_options};

const SEED: u64 = 20_261_127;
const NONE: IoFlags = IoFlags::empty();

fn file(fs: &dyn FileSystem, name: &[u8], bytes: &[u8]) -> Ino {
    let ino = fs.create(fs.root(), name, &NEW).expect("a new name").ino;
    assert_eq!(fs.write(ino, 0, bytes, NONE).expect("room").bytes, bytes.len());
    ino
}

#[test]
fn an_overwrite_of_at_most_a_kibibyte_within_a_block_is_one_record_under_one_fence() {
    virtually(1, || {
        let region = made(Bytes::mib(8));
        let fs = mounted(&region);
        let ino = file(&*fs, b"file", &[1; 10_000]);
        let write = |at: u64, len: usize| cost(|| fs.write(ino, at, &vec![2; len], NONE));
        assert_eq!([write(0, 1), write(10, 64), write(3000, 1024)], [(1, 2), (1, 2), (1, 17)]);
        assert_eq!(write(4096, 1025).0, 2, "more is a copy of the block");
        assert_eq!(write(4090, 10).0, 2, "and so is what lies in two blocks");
        assert_eq!(write(9984, 32).0, 2, "or passes the end");
        assert_eq!(write(10_016, 16), (2, 2), "what is appended goes in place");
        assert_eq!(write(9995, 10), (1, 2), "within the file again");
        assert_eq!(write(10_032, 16), (2, 30), "R8: not in place then");
        assert_eq!(write(10_048, 16), (2, 2), "the block has all its bytes");
        fs.unmount().expect("unmount");
        assert_sound(&region);
    });
}

/// A block has records of so many lines; the next overwrite copies it, and its records are dead.
#[test]
fn records_of_a_block_are_bounded_and_those_that_are_replaced_do_not_count() {
    virtually(1, || {
        let region = made(Bytes::mib(8));
        let fs = mounted(&region);
        let ino = file(&*fs, b"file", &[1; 4096]);
        let copies = |at: u64| cost(|| fs.write(ino, at, &[3; 40], NONE)).1 > 64;
        assert!((0..1000).all(|_| !copies(77)), "the same bytes again and again");
        let before = fs.statfs().expect("statfs").blocks_free;
        let copied = (0..200).filter(|round| copies(round * 20)).count();
        assert_eq!(copied, 200 / (LINES_MAX as usize / 2), "a copy each time that 128 lines are full");
        fs.truncate_to(ino, 0);
        assert!(fs.statfs().expect("statfs").blocks_free > before, "they go with their block");
    });
}

trait Truncate {
    fn truncate_to(&self, ino: Ino, size: u64);
}

impl Truncate for Arc<dyn FileSystem> {
    fn truncate_to(&self, ino: Ino, size: u64) {
        let set = vfs::SetAttr { size: Some(size), ..vfs::SetAttr::default() };
        self.setattr(ino, &set).expect("it is truncated");
    }
}

/// A pool of code that did not know such records is mounted, and gets none.
#[test]
fn a_pool_without_the_feature_is_mounted_and_gets_no_such_record() {
    virtually(1, || {
        let region = made(Bytes::mib(8));
        for at in SUPERBLOCKS {
            let mut superblock: Superblock = region.read(at).expect("a load");
            assert_eq!(
                superblock.incompat,
                incompat::INLINE | incompat::NONCE | incompat::BATCHES,
                "other code refuses a pool that may have them"
            );
            superblock.incompat = 0;
            region.write(at, &superblock.next()).expect("a store");
        }
        let fs = mounted(&region);
        let ino = file(&*fs, b"file", &[1; 4096]);
        assert_eq!(cost(|| fs.write(ino, 100, &[2; 64], NONE)), (2, 65));
        fs.unmount().expect("unmount");
        assert_sound(&region);
    });
}

/// Files, and what they should hold.
struct Mirror {
    fs: Arc<dyn FileSystem>,
    files: [(Ino, Vec<u8>); 2],
}

const LEN: usize = 5 * 4096;

impl Mirror {
    fn lookup(fs: Arc<dyn FileSystem>, bytes: [Vec<u8>; 2]) -> Self {
        let ino = |name: &[u8]| fs.lookup(fs.root(), name).expect("it is there").ino;
        let [one, two] = bytes;
        let files = [(ino(b"one"), one), (ino(b"two"), two)];
        Self { fs, files }
    }

    fn write(&mut self, nth: usize, at: usize, bytes: &[u8]) -> Result<(), String> {
        let (ino, want) = &mut self.files[nth];
        let written = self.fs.write(*ino, at as u64, bytes, NONE);
        let written = written.map_err(|errno| format!("write: {errno}"))?.bytes;
        want.resize(want.len().max(at + written), 0);
        want[at..at + written].copy_from_slice(&bytes[..written]);
        Ok(())
    }

    fn clone(&mut self, from: usize) -> Result<(), String> {
        let ((source, want), (target, _)) = (self.files[from].clone(), self.files[1 - from].clone());
        self.fs.setattr(target, &vfs::SetAttr { size: Some(0), ..vfs::SetAttr::default() }).expect("shorter");
        self.files[1 - from].1.clear();
        self.fs
            .clone_range((source, 0), (target, 0), want.len() as u64)
            .map_err(|it| format!("clone: {it}"))?;
        self.files[1 - from].1 = want;
        Ok(())
    }

    /// A store through a mapping.
    fn store(&mut self, nth: usize, at: usize, byte: u8) -> Result<(), String> {
        let (ino, want) = &mut self.files[nth];
        let (maps, page) = (self.fs.mapped_files().expect("files can be mapped"), at as u64 / 4096);
        maps.map(*ino, &(page..page + 1), true).map_err(|errno| format!("map: {errno}"))?;
        let mut seen = [0];
        maps.load(*ino, at as u64, &mut seen).map_err(|errno| format!("load: {errno}"))?;
        let was = want.get(at).copied().unwrap_or(0);
        maps.store(*ino, at as u64, &[byte]).map_err(|errno| format!("store: {errno}"))?;
        maps.sync(*ino, 0..u64::MAX).map_err(|errno| format!("msync: {errno}"))?;
        maps.unmap(*ino, &(page..page + 1), true);
        want[at] = byte;
        if seen == [was] { Ok(()) } else { Err(format!("the mapping shows {seen:?} at {at}, not {was}")) }
    }

    fn check(&self) -> Result<(), String> {
        for (ino, want) in &self.files {
            let mut seen = vec![0; LEN + 1];
            let len = self.fs.read(*ino, 0, &mut seen, NONE).map_err(|errno| format!("read: {errno}"))?;
            if let Some(at) = (0..len.max(want.len())).find(|at| seen[..len].get(*at) != want.get(*at)) {
                return Err(format!(
                    "byte {at} of inode {}: {:?}, not {:?}",
                    ino.0,
                    seen.get(at),
                    want.get(at)
                ));
            }
        }
        Ok(())
    }
}

/// Random changes of two files, most of them small overwrites; mounts in between, each as one of `mounts`. What differs first.
fn random(region: &Arc<Region>, mounts: &[Arc<Configured>], seed: u64, steps: usize) -> Result<(), String> {
    let mut rng = Seed(seed).rng();
    mounts[0].mkfs(region)?;
    let fs = mounts[0].mount(region)?;
    let first = file(&*fs, b"one", &vec![9; LEN]);
    file(&*fs, b"two", &[8; 100]);
    let mut mirror = Mirror::lookup(fs, [vec![9; LEN], vec![8; 100]]);
    assert_eq!(mirror.files[0].0, first);
    for step in 0..steps {
        let nth = rng.random_range(0..2);
        let len = mirror.files[nth].1.len();
        let bytes = vec![step as u8; [1, 60, 64, 300, 1024, 1100][rng.random_range(0..6)]];
        let within = rng.random_range(0..len.max(1));
        let fail = |what| format!("seed {seed}, step {step}: {what}");
        match rng.random_range(0..40) {
            0..25 => mirror.write(nth, within, &bytes[..bytes.len().min(LEN - within)]),
            25..29 => mirror.write(nth, len, &bytes[..bytes.len().min(LEN - len)]),
            29 => mirror.write(nth, within / 4096 * 4096 / 2, &[step as u8; 4096]),
            30..34 => {
                let fs = Arc::clone(&mirror.fs);
                let size = if rng.random_range(0..2) == 0 { within } else { LEN.min(len + within) };
                fs.truncate_to(mirror.files[nth].0, size as u64);
                mirror.files[nth].1.resize(size, 0);
                Ok(())
            }
            34 => mirror.clone(nth),
            35 if len > 0 => mirror.store(nth, within, step as u8),
            36 => {
                let punch = FallocateMode::PUNCH_HOLE | FallocateMode::KEEP_SIZE;
                let mode =
                    if step % 2 == 0 { punch } else { FallocateMode::ZERO_RANGE | FallocateMode::KEEP_SIZE };
                let (from, to) = (within, len.min(within + 5000));
                let (ino, want) = &mut mirror.files[nth];
                if from < to {
                    let done = mirror.fs.fallocate(*ino, mode, from as u64, (to - from) as u64);
                    done.map_err(|errno| fail(format!("fallocate: {errno}")))?;
                    want[from..to].fill(0);
                }
                Ok(())
            }
            37 => {
                mirror.fs.unmount().map_err(|errno| fail(format!("unmount: {errno}")))?;
                if let Some(what) = mounts[0].fsck(region).first() {
                    return Err(fail(what.clone()));
                }
                let fs = mounts[rng.random_range(0..mounts.len())].mount(region).map_err(fail)?;
                let [one, two] = mirror.files;
                mirror = Mirror::lookup(fs, [one.1, two.1]);
                Ok(())
            }
            _ => Ok(()),
        }
        .map_err(fail)?;
        mirror.check().map_err(fail)?;
    }
    mirror.fs.unmount().map_err(|errno| format!("seed {seed}: unmount: {errno}"))
}

/// Formats and mounts that meet small overwrites.
fn mounts(format: Given<'static>) -> Vec<Arc<Configured>> {
    let ways: [Given<'static>; 6] = [
        &[],
        &[],
        &[("atomic", "words")],
        &[("sync", "fsync"), ("buffer", "16k")],
        &[("without", "inline")],
        &[("shared-after", "0")],
    ];
    ways.iter().map(|more| with_options("crest", &[format, *more].concat())).collect()
}

#[test]
fn small_overwrites_are_read_right_beside_all_other_changes_and_by_every_mount() {
    let formats: [Given<'static>; 2] = [&[], &[("checksum", "data")]];
    for format in formats {
        for seed in 0..6 {
            virtually(1, move || {
                // 31 zones, so that the log wraps.
                let region = harness::region(Bytes::kib(512));
                assert_eq!(random(&region, &mounts(format), seed, 2500), Ok(()), "{format:?}");
            });
        }
    }
}

/// Mounts that read the logs: a saved index has the bytes, whatever has become of the records.
const BY_LOGS: Given<'static> = &[("without", "image")];

/// The bytes of a file of which one record was overwritten before the log wraps several times, as the next mount reads them.
fn after_cleaning(design: &Configured) -> Vec<u8> {
    let region = harness::region(Bytes::kib(512));
    design.mkfs(&region).expect("mkfs");
    let fs = design.mount(&region).expect("mount");
    let ino = file(&*fs, b"file", &[1; 5000]);
    fs.write(ino, 4090, &[2; 6], NONE).expect("room");
    for round in 0..20_000 {
        let set = vfs::SetAttr { perm: Some(0o600 + round % 8), ..vfs::SetAttr::default() };
        fs.setattr(ino, &set).expect("the cleaner finds room");
        // Records that stay in each zone, so that none is empty and the cleaner has to copy.
        if round % 50 == 0 {
            fs.create(fs.root(), format!("{round}").as_bytes(), &NEW).expect("room");
        }
    }
    fs.unmount().expect("unmount");
    let fs = design.mount(&region).expect("mount again");
    let mut bytes = vec![0; 5000];
    let ino = fs.lookup(fs.root(), b"file").expect("it is there").ino;
    assert_eq!(fs.read(ino, 0, &mut bytes, NONE), Ok(5000));
    bytes
}

#[test]
fn the_cleaner_keeps_records_with_bytes_of_blocks() {
    let mut want = vec![1; 5000];
    want[4090..4096].fill(2);
    let sound = virtually(1, || after_cleaning(&with_options("crest", BY_LOGS)));
    assert!(sound == want);
    let broken = virtually(1, || after_cleaning(&with_mutant("crest", BY_LOGS, mutant::INLINE_NOT_HELD)));
    assert!(broken != want, "canary: {} is not found", mutant::INLINE_NOT_HELD.name());
}

/// Canaries: the rules about blocks of which records have bytes, on a mount.
#[test]
fn a_mount_without_one_of_the_rules_shows_other_bytes() {
    let broken = [
        mutant::INLINE_IN_PLACE,
        mutant::INLINE_OVER_WRITE,
        mutant::MAPPED_OVER_INLINE,
        mutant::CLONED_WITHOUT_INLINE,
    ];
    for mutant in broken {
        let found = (0..12).find_map(|seed| virtually(1, move || one_of(mutant, seed)));
        println!("{}: {}", mutant.name(), found.unwrap_or_else(|| panic!("{} is not found", mutant.name())));
    }
}

fn one_of(mutant: Mutant, seed: u64) -> Option<String> {
    let region = harness::region(Bytes::kib(512));
    random(&region, &[with_mutant("crest", BY_LOGS, mutant)], seed, 2500).err()
}

fn at(path: &str) -> File {
    File::At(path.into())
}

fn write(offset: u64, len: usize, tag: u8) -> Op {
    Op::Write(at("foo"), Some(offset), Pattern { len, tag })
}

/// Small overwrites, and what may meet the records of a block.
fn programs() -> Vec<Program> {
    let after = |more: &[Op]| [&[Op::Create("foo".into()), write(0, 9000, 1)], more].concat();
    let some = [write(100, 64, 2), write(4000, 96, 3), write(150, 300, 4), write(8200, 800, 5)];
    let append = |len| Op::Write(at("foo"), None, Pattern { len, tag: 6 });
    let truncate = |size| Op::Truncate(at("foo"), size);
    let clone = Op::Clone((at("foo"), 0), (at("bar"), 0), 9000);
    let fallocate = |mode, from, len| Op::Fallocate(at("foo"), mode, from, len);
    let with_other = [&some[..], &[Op::Create("bar".into())]].concat();
    vec![
        Program::new("small overwrites", after(&[]), some.to_vec()),
        Program::new("small overwrites, the same bytes", after(&some), some.to_vec()),
        Program::new(
            "small overwrites, then the block",
            after(&some),
            vec![write(0, 4096, 7), write(50, 64, 8)],
        ),
        Program::new(
            "small overwrites, then an append",
            after(&some),
            vec![append(50), append(50), write(8990, 20, 7)],
        ),
        Program::new(
            "small overwrites, a cut and growth",
            after(&some),
            vec![truncate(8210), truncate(9000), write(8205, 10, 7), truncate(120), truncate(200)],
        ),
        Program::new("small overwrites, a clone", after(&with_other), vec![clone, write(100, 64, 7)]),
        Program::new(
            "small overwrites, a hole and zeros",
            after(&some),
            vec![
                fallocate(FallocateMode::PUNCH_HOLE | FallocateMode::KEEP_SIZE, 0, 4096),
                fallocate(FallocateMode::ZERO_RANGE, 8192, 100),
                write(10, 64, 7),
            ],
        ),
        Program::new(
            "small overwrites, remount",
            after(&some),
            vec![Op::Remount, write(110, 8, 7), Op::Remount],
        ),
    ]
}

#[test]
fn every_crash_around_small_overwrites_leaves_an_allowed_state() {
    let formats: [Given<'static>; 2] = [&[], &[("checksum", "data")]];
    for format in formats {
        for program in programs() {
            let tally = explore(&subject("crest", format), &program, &Effort::usual(SEED, 1), &[]);
            println!("{}: {} points, {} images", program.name, tally.points, tally.distinct_images);
            assert_eq!(tally.without_space, 0, "{}", program.name);
            assert!(tally.violations.is_empty(), "seed {SEED}, {}: {:?}", program.name, tally.violations);
        }
    }
}

/// Canary: a block that records have bytes of is changed in place, and the crash shows the old ones.
#[test]
fn a_block_that_is_changed_in_place_under_bytes_of_records_is_found() {
    let design = with_mutant("crest", checking("crest").small, mutant::INLINE_IN_PLACE);
    let subject = Subject { design, ..subject("crest", &[]) };
    let wrong = |program: &Program| explore(&subject, program, &Effort::usual(SEED, 0), &[]).violations;
    assert!(programs().iter().any(|program| !wrong(program).is_empty()));
}

/// H11: no byte changes under a reader. A read beside small overwrites of its block, and writes that give the block a new place,
/// sees each of them whole or not at all.
#[test]
fn a_read_beside_small_overwrites_sees_each_whole() {
    for shared in ["0", "8"] {
        let run = move || {
            let region = harness::region(Bytes::mib(1));
            let given = [checking("crest").tiny, &[("shared-after", shared)]].concat();
            let options = harness::options(crest(), &given);
            let storage = Storage::from(&region);
            crest().format().mkfs(&storage, &options).expect("mkfs");
            let fs = crest().mount(&storage, &options).expect("mount");
            let ino = file(&*fs, b"file", &[0; 8192]);
            let writer = |core: u16, at: u64, len: usize| {
                let fs = Arc::clone(&fs);
                let write = move |tag: u8| fs.write(ino, at, &vec![tag; len], NONE).expect("room");
                sim::spawn(TaskSpec::named("writer").on_core(core), move || {
                    (1..4).for_each(|tag| _ = write(tag));
                })
            };
            let writers = [writer(0, 100, 600), writer(1, 4096, 4096)];
            for _ in 0..6 {
                let mut bytes = [0; 8192];
                fs.read(ino, 0, &mut bytes, NONE).expect("it is read");
                let whole = |range: std::ops::Range<usize>| {
                    let first = bytes[range.start];
                    bytes[range].iter().all(|byte| *byte == first)
                };
                assert!(whole(100..700) && whole(4096..8192), "a part of a write");
                assert!(bytes[..100].iter().chain(&bytes[700..4096]).all(|byte| *byte == 0));
            }
            for writer in writers {
                writer.join();
            }
        };
        for seed in SEED..SEED + 150 {
            let setup = Setup::virtual_clock(Machine::unit(), Seed(seed));
            let (done, _) = sim::explore(&setup, &Schedule::Pct { depth: 3, length: 400 }, run);
            done.unwrap_or_else(|failure| panic!("seed {seed}, shared-after {shared}: {failure}"));
        }
    }
}
