//! The mount: what calls cost, pools that fill up, the cleaner and crashes of it.

use std::sync::Arc;

use check::crash::programs::Program;
use check::crash::{Effort, Subject, explore};
use check::tree::without_times;
use check::{File, NEW, Op, Pattern, Runner, Tree, observe};
use media::Storage;
use media::nvmm::Region;
use sim::Bytes;
use sim::ledger::Snapshot;
use vfs::{Errno, FileSystem, IoFlags, RenameFlags, SetAttr};

use crate::shared::harness::{self, promises, subject, virtually, with_mutant};

const SEED: u64 = 20_261_127;
/// 31 zones of 16 KiB, one shard.
const SMALL: Bytes = Bytes::kib(512);

pub(super) fn crest() -> &'static dyn design::Design {
    fs::by_name("crest").expect("crest is a design")
}

pub(super) fn made(size: Bytes) -> Arc<Region> {
    let region = harness::region(size);
    let options = harness::options(crest(), &[]);
    crest().format().mkfs(&Storage::from(&region), &options).expect("mkfs");
    region
}

pub(super) fn mounted(region: &Arc<Region>) -> Arc<dyn FileSystem> {
    let options = harness::options(crest(), &[]);
    crest().mount(&Storage::from(region), &options).expect("mount")
}

pub(super) fn assert_sound(region: &Arc<Region>) {
    assert_eq!(crest().format().fsck(&Storage::from(region)).violations, []);
}

/// Fences, and lines that are written.
pub(super) fn cost<T>(call: impl FnOnce() -> vfs::Result<T>) -> (u64, u64) {
    let before = Snapshot::of_task();
    call().expect("the call succeeds");
    let after = Snapshot::of_task().since(&before);
    let count = |count| after.count_all(count);
    (count(&media::charges::FENCES), count(&media::charges::LINES_WRITTEN))
}

/// The table of `docs/designs/crest.md`: a block is 64 lines besides.
#[test]
fn calls_of_a_mount_cost_the_fences_and_lines_of_the_design() {
    virtually(1, || {
        let region = made(Bytes::mib(8));
        let fs = mounted(&region);
        let (root, none) = (fs.root(), IoFlags::empty());
        fs.create(root, b"warm", &NEW).expect("a zone is open");
        let file = fs.lookup(root, b"warm").expect("it is there").ino;
        let block = [7; 4096];
        let set = |set: SetAttr| cost(|| fs.setattr(file, &set));
        let plain: RenameFlags = RenameFlags::empty();
        assert_eq!(cost(|| fs.create(root, b"a", &NEW)), (1, 2), "create");
        assert_eq!(cost(|| fs.rename((root, b"a"), (root, b"b"), plain.into())), (1, 2), "rename");
        assert_eq!(cost(|| fs.link(file, root, b"c")), (1, 2), "link");
        assert_eq!(cost(|| fs.unlink(root, b"b")), (1, 1), "unlink");
        assert_eq!(cost(|| fs.write(file, 0, &block, none)), (2, 65), "append");
        assert_eq!(cost(|| fs.write(file, 0, &block, none)), (2, 65), "overwrite");
        assert_eq!(set(SetAttr { perm: Some(0o600), ..SetAttr::default() }), (1, 1), "chmod");
        assert_eq!(set(SetAttr { size: Some(100), ..SetAttr::default() }), (1, 1), "truncate");
        assert_eq!(set(SetAttr { size: Some(200), ..SetAttr::default() }).0, 2, "growth over an end");
        assert_eq!(cost(|| fs.write(file, 200, &[1; 56], none)), (2, 2), "append in place");
        assert_eq!(cost(|| fs.write(file, 100, &[2; 64], none)), (1, 2), "overwrite 64 bytes");
        assert_eq!(cost(|| fs.write(file, 100, &[3; 65], none)), (1, 3), "overwrite 65 bytes");
        assert_eq!(cost(|| fs.fsync(file, false)), (0, 0), "fsync");
        fs.unmount().expect("unmount");
        assert_sound(&region);
    });
}

/// Makes files and writes a block to each until neither finds room; answers how many there are.
fn fill(fs: &dyn FileSystem) -> usize {
    let (mut files, mut full) = (0, [false; 2]);
    while full != [true; 2] {
        if !full[0] {
            match fs.create(fs.root(), format!("file {files}").as_bytes(), &NEW) {
                Ok(_) => files += 1,
                Err(errno) => full[0] = errno == Errno::ENOSPC,
            }
        }
        if !full[1] {
            let name = format!("file {}", files.max(1) - 1);
            let file = fs.lookup(fs.root(), name.as_bytes()).expect("it was made").ino;
            let offset = fs.getattr(file).expect("it is there").size;
            if let Err(errno) = fs.write(file, offset, &[files as u8; 4096], IoFlags::empty()) {
                full[1] = errno == Errno::ENOSPC;
            }
        }
    }
    files
}

#[test]
fn a_full_pool_says_so_and_can_be_emptied_and_filled_again() {
    virtually(1, || {
        let region = made(SMALL);
        let mut fs = mounted(&region);
        let free = |fs: &dyn FileSystem| fs.statfs().expect("statfs").blocks_free;
        let before = free(&*fs);
        let mut least = usize::MAX;
        for round in 0..6 {
            let files = fill(&*fs);
            least = least.min(files);
            let tree = observe(&*fs).expect("a sound tree");
            if round % 2 == 1 {
                fs.unmount().expect("unmount");
                assert_sound(&region);
                fs = mounted(&region);
                assert_eq!(without_times(observe(&*fs).expect("a sound tree")), without_times(tree));
            }
            let step = [1, 7, 11][round % 3];
            for number in (0..files).map(|number| number * step % files) {
                let gone = fs.unlink(fs.root(), format!("file {number}").as_bytes());
                assert!(gone == Ok(()) || gone == Err(Errno::ENOENT), "{gone:?}: file {number} of {files}");
            }
            for number in 0..files {
                let left = fs.unlink(fs.root(), format!("file {number}").as_bytes());
                assert!(left == Ok(()) || left == Err(Errno::ENOENT), "{left:?}");
            }
            assert_eq!(free(&*fs), before, "round {round}");
        }
        assert!(least > 20, "{least} files fill a pool of {SMALL}");
        fs.unmount().expect("unmount");
        assert_sound(&region);
    });
}

/// Changes of a few files whose records fill the pool many times over.
/// Lines of the medium that a call loads which is refused for want of room.
fn loads_when_full(fs: &dyn FileSystem, file: vfs::Ino, offset: u64) -> u64 {
    let before = Snapshot::of_task();
    assert_eq!(fs.write(file, offset, &[1; 4096], IoFlags::empty()), Err(Errno::ENOSPC));
    Snapshot::of_task().since(&before).count_all(&media::charges::BYTES_LOADED) / 64
}

#[test]
fn a_full_pool_refuses_without_reading_its_log_where_too_little_has_died() {
    virtually(1, || {
        let region = made(SMALL);
        let fs = mounted(&region);
        let [file, other] = ["file", "other"]
            .map(|name| fs.create(fs.root(), name.as_bytes(), &NEW).expect("there is room").ino);
        fs.write(other, 0, &vec![2; 20 * 4096], IoFlags::empty()).expect("there is room");
        let mut end = 0;
        while fs.write(file, end, &[1; 4096], IoFlags::empty()).is_ok() {
            end += 4096;
        }
        let written = end / 4096;
        let mode = |perm| fs.setattr(other, &SetAttr { perm: Some(perm), ..SetAttr::default() });
        assert_eq!(loads_when_full(&*fs, file, end), 0, "nothing has died");
        for round in 0..40 {
            mode(0o600 + round).expect("a record fits");
        }
        assert!(
            loads_when_full(&*fs, file, end) > written,
            "40 lines may be dead in one zone: that is looked for"
        );
        assert_eq!(loads_when_full(&*fs, file, end), 0, "it was looked for");
        fs.unlink(fs.root(), b"other").expect("there is room for a removal");
        fs.write(file, end, &[1; 4096], IoFlags::empty()).expect("there is room again");
    });
}

pub(super) fn churn(round: usize) -> Op {
    let file = |number: usize| format!("dir/file {}", number % 5);
    match round % 7 {
        0 => Op::Create(format!("new {round}")),
        1 => Op::Write(File::At(file(round)), Some(0), Pattern { len: 5000, tag: round as u8 }),
        2 => Op::Chmod(file(round), 0o600 + (round % 8) as u32),
        3 => Op::Truncate(File::At(file(round)), (round % 9000) as u64),
        4 => Op::Unlink(format!("new {}", round - 4)),
        5 => Op::SetXattr(
            file(round),
            "user.a".into(),
            Pattern { len: 100, tag: round as u8 },
            vfs::XattrMode::Set,
        ),
        _ => Op::Rename(file(round), file(round + 1), RenameFlags::EXCHANGE),
    }
}

/// What is there before the churn, and outlives it.
pub(super) fn old_files() -> Vec<Op> {
    let mut ops = vec![Op::Mkdir("dir".into()), Op::Symlink("sym".into(), 60)];
    for number in 0..5 {
        let path = format!("dir/file {number}");
        ops.push(Op::Create(path.clone()));
        ops.push(Op::Write(File::At(path), Some(0), Pattern { len: 6000, tag: number as u8 }));
    }
    ops
}

fn seen(fs: &Arc<dyn FileSystem>) -> Tree {
    observe(&**fs).expect("a sound tree")
}

#[test]
fn the_cleaner_keeps_what_counts_and_a_mount_finds_it() {
    virtually(1, || {
        let region = made(SMALL);
        let mut runner = Runner::new(mounted(&region));
        for op in old_files() {
            runner.run(&op).unwrap_or_else(|errno| panic!("{op:?}: {errno}"));
        }
        for round in 0..30_000 {
            let op = churn(round);
            runner.run(&op).unwrap_or_else(|errno| panic!("{round}: {op:?}: {errno}"));
            if round % 3_001 == 3_000 {
                let before = seen(&runner.fs);
                runner.fs.unmount().expect("unmount");
                assert_sound(&region);
                runner = Runner::new(mounted(&region));
                assert_eq!(seen(&runner.fs), before, "round {round}");
            }
        }
    });
}

/// Fills the free blocks, as a recorded program does first, so that the log is as long as there.
fn litter(fs: &dyn FileSystem) {
    let garbage = fs.create(fs.root(), b"garbage", &NEW).expect("an empty pool").ino;
    let (mut at, piece) = (0, vec![0xEE; 16 * 4096]);
    while let Ok(written) = fs.write(garbage, at, &piece, IoFlags::SYNC) {
        at += written.bytes as u64;
    }
    fs.unlink(fs.root(), b"garbage").expect("it is there");
}

/// All of a full log is cleaned by one call; crashes of steps are in the tests of the crate.
const AT_ONCE: harness::Given<'_> = &[("without", "steps")];

/// A program whose last operation cleans: what comes before it, and that operation.
fn cleaning_program(nth: usize) -> Program {
    let (setup, core) = virtually(1, move || {
        let region = made(SMALL);
        let mut runner = Runner::new(harness::with_options("crest", AT_ONCE).mount(&region).expect("mount"));
        litter(&*runner.fs);
        let mut ops = old_files();
        for op in &ops {
            runner.run(op).unwrap_or_else(|errno| panic!("{op:?}: {errno}"));
        }
        let mut cleaned = 0;
        for round in 0.. {
            let op = churn(round);
            let before = Snapshot::of_task();
            runner.run(&op).unwrap_or_else(|errno| panic!("{round}: {op:?}: {errno}"));
            let fences = Snapshot::of_task().since(&before).count_all(&media::charges::FENCES);
            cleaned += usize::from(fences > 6);
            if cleaned > nth {
                return (ops, op);
            }
            ops.push(op);
        }
        unreachable!("the log wraps")
    });
    Program::new(format!("cleaning {nth}"), setup, vec![core])
}

#[test]
fn a_crash_while_the_cleaner_runs_leaves_an_allowed_state() {
    for nth in [0, 2] {
        let program = cleaning_program(nth);
        let subject =
            Subject { size: SMALL, design: harness::with_options("crest", AT_ONCE), ..subject("crest", &[]) };
        let tally = explore(&subject, &program, &Effort::usual(SEED, 4), &[]);
        println!("{}: {} points, {} images", program.name, tally.points, tally.distinct_images);
        assert_eq!((tally.without_space, tally.violations.len()), (0, 0), "{:?}", tally.violations);
        assert!(tally.points > 6, "{} crash points in a call that cleans", tally.points);
    }
}

/// Canary: a zone that is freed before its copies are durable is found.
#[test]
fn a_cleaner_that_frees_a_zone_too_early_is_found() {
    let design = with_mutant("crest", AT_ONCE, fs::crest::format::mutant::CLEANED_BEFORE_FENCE);
    let sound = subject("crest", &[]);
    let subject = Subject { size: SMALL, design, promises: promises("crest", &[]), ..sound };
    let found = (0..4).any(|nth| {
        let tally = explore(&subject, &cleaning_program(nth), &Effort::usual(SEED, 0), &[]);
        !tally.violations.is_empty()
    });
    assert!(found);
}
