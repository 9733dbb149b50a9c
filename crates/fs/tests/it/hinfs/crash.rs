//! What a power loss leaves (`docs/models/crash.md`, data durable on sync).
//!
//! Programs run under the virtual clock with their write-back, on an image whose free blocks hold `GARBAGE`. At each fence,
//! before and after it, images of what may have persisted are recovered and compared with the history of each file:
//!
//! * its size is one that it had since it was last synced, or gets by the call under way;
//! * each byte below it is one that it had at that place since then, at a time when the file was that long: never garbage,
//!   nor a zero that was never written;
//! * a name that was created, removed or changed by a call that has returned is, is not, or is changed.

use std::collections::BTreeSet;
use std::sync::Arc;

use check::Configured;
use check::crash::crash_recovery;
use media::Storage;
use media::event::{Event, Mark, Promise, Tap};
use media::fault::{Fault, Target};
use media::nvmm::Region;
use media::nvmm::null::Null;
use media::recorder::{CrashPoint, Image, Mode, Plan, ReadSet, Recorder, Scratch, Trace};
use rand::RngExt;
use sim::{Bytes, Nanos, Rng, Seed, TaskSpec};
use vfs::{FileSystem, Ino, IoFlags, RenameFlags, SetAttr};

use crate::hinfs::support::{DESIGNS, Mounted, PAGE, free_region, paper_region, virtually};
use crate::shared::harness::with_options;

const SIZE: Bytes = Bytes::mib(1);
const GARBAGE: u8 = 0xEE;
const OPTIONS: &[(&str, &str)] =
    &[("jsize", "64k"), ("buffer", "16k"), ("medium_write", "200ns"), ("writeback_tasks", "2")];

#[derive(Clone, Debug)]
enum Op {
    Create(usize),
    /// File, offset, length, synchronous. Offset none: append.
    Write(usize, Option<usize>, usize, bool),
    Fsync(usize),
    Sync,
    Truncate(usize, usize),
    Unlink(usize),
    /// Replaces the second file by the first.
    Rename(usize, usize),
    Chmod(usize),
    /// Seconds: write-back finds old blocks.
    Sleep(u64),
}

/// A file at one moment: none when there is none of that name.
type Content = Option<Vec<u8>>;

/// What a file was after each call, and since when a crash may go back.
#[derive(Clone, Default)]
struct History {
    versions: Vec<Content>,
    /// For each call: the first version whose size a crash may show once the call has returned.
    size_floor: Vec<usize>,
    /// The same for each byte.
    floors: Vec<Vec<usize>>,
}

impl History {
    fn push(&mut self, content: Content, size_floor: usize, floor: Vec<usize>) {
        self.versions.push(content);
        self.size_floor.push(size_floor);
        self.floors.push(floor);
    }

    /// Complains when `seen` cannot be what a crash leaves after call `done` has returned and, if `inside`, during the next.
    fn judge(&self, seen: &Content, done: usize, inside: bool) -> Result<(), String> {
        let last = (done + usize::from(inside)).min(self.versions.len() - 1);
        let size = seen.as_ref().map(Vec::len);
        let allowed = self.size_floor[done]..=last;
        let known = allowed.clone().any(|version| self.versions[version].as_ref().map(Vec::len) == size);
        if !known {
            let sizes: Vec<_> = allowed.map(|v| self.versions[v].as_ref().map(Vec::len)).collect();
            return Err(format!("size {size:?}, allowed {sizes:?}"));
        }
        for (at, byte) in seen.iter().flatten().enumerate() {
            let from = self.floors[done].get(at).copied().unwrap_or(self.size_floor[done]);
            let mut had = (from..=last).filter_map(|v| self.versions[v].as_ref()?.get(at));
            if !had.any(|known| known == byte) {
                return Err(format!(
                    "byte {at} of {size:?} is {byte:#x}, which it never was since it was synced"
                ));
            }
        }
        Ok(())
    }
}

/// Carries out a program and keeps the history of its files.
struct Runner {
    fs: Arc<dyn FileSystem>,
    files: Vec<Option<Ino>>,
    now: Vec<Content>,
    history: Vec<History>,
    /// Of each file now: size floor, and floors of the bytes.
    floor: Vec<(usize, Vec<usize>)>,
    tag: u8,
}

fn name(file: usize) -> String {
    format!("f{file}")
}

impl Runner {
    fn new(fs: Arc<dyn FileSystem>, files: usize) -> Self {
        let mut absent = History::default();
        absent.push(None, 0, Vec::new());
        let history = vec![absent; files];
        let floor = vec![(0, Vec::new()); files];
        Self { fs, files: vec![None; files], now: vec![None; files], history, floor, tag: 0 }
    }

    /// The version that the call under way makes.
    fn version(&self) -> usize {
        self.history[0].versions.len()
    }

    /// Everything of a file is durable once the call under way has returned.
    fn settle(&mut self, file: usize) {
        let version = self.version();
        let len = self.now[file].as_ref().map_or(0, Vec::len);
        self.floor[file] = (version, vec![version; len]);
    }

    fn run(&mut self, op: &Op) {
        self.tag = self.tag % 200 + 1;
        match *op {
            Op::Create(file) if self.files[file].is_none() => {
                let made = self.fs.create(self.fs.root(), name(file).as_bytes(), &crate::hinfs::support::NEW);
                (self.files[file], self.now[file]) = (Some(made.expect("create").ino), Some(Vec::new()));
                self.settle(file);
            }
            Op::Write(file, at, len, sync) => self.write(file, at, len, sync),
            Op::Sync => {
                self.fs.sync().expect("sync");
                (0..self.files.len()).for_each(|file| self.settle(file));
            }
            Op::Rename(from, to) if from != to && self.files[from].is_some() => {
                let root = self.fs.root();
                let (old, new) = (name(from), name(to));
                self.fs
                    .rename((root, old.as_bytes()), (root, new.as_bytes()), RenameFlags::empty().into())
                    .expect("rename");
                self.files[to] = self.files[from].take();
                self.rename_history(from, to);
            }
            Op::Sleep(seconds) => sim::sleep(Nanos::from_secs(seconds)),
            Op::Fsync(file) | Op::Truncate(file, _) | Op::Unlink(file) | Op::Chmod(file) => {
                if let Some(ino) = self.files[file] {
                    self.on_file(op, file, ino);
                }
            }
            _ => {}
        }
        for (file, history) in self.history.iter_mut().enumerate() {
            let (size_floor, floors) = self.floor[file].clone();
            history.push(self.now[file].clone(), size_floor, floors);
        }
    }

    fn on_file(&mut self, op: &Op, file: usize, ino: Ino) {
        match *op {
            Op::Fsync(_) => self.fs.fsync(ino, false).expect("fsync"),
            Op::Truncate(_, size) => {
                self.fs
                    .setattr(ino, &SetAttr { size: Some(size as u64), ..SetAttr::default() })
                    .expect("truncate");
                self.now[file].as_mut().expect("there").resize(size, 0);
            }
            Op::Chmod(_) => {
                self.fs.setattr(ino, &SetAttr { perm: Some(0o600), ..SetAttr::default() }).expect("chmod");
                return;
            }
            _ => {
                self.fs.unlink(self.fs.root(), name(file).as_bytes()).expect("unlink");
                (self.files[file], self.now[file]) = (None, None);
            }
        }
        self.settle(file);
    }

    /// The name `to` leads to what `from` was: with the versions that a crash may show of it.
    fn rename_history(&mut self, from: usize, to: usize) {
        let version = self.version();
        self.now[to] = self.now[from].take();
        // A rename commits what is open of the file, so its size is durable; bytes that were overwritten may lag. Where they
        // had another name then, the histories do not compare: sync first (programs do).
        self.floor[to] = (version, vec![version; self.now[to].as_ref().map_or(0, Vec::len)]);
        self.floor[from] = (version, Vec::new());
    }

    fn write(&mut self, file: usize, at: Option<usize>, len: usize, sync: bool) {
        let Some(ino) = self.files[file] else { return };
        let version = self.version();
        let bytes = self.now[file].as_mut().expect("there");
        let at = at.unwrap_or(bytes.len());
        let data: Vec<u8> =
            (0..len).map(|i| (1 + (i * 7 + usize::from(self.tag) * 41) % 219) as u8).collect();
        let flags = if sync { IoFlags::SYNC } else { IoFlags::empty() };
        self.fs.write(ino, at as u64, &data, flags).expect("write");
        bytes.resize(bytes.len().max(at + len), 0);
        bytes[at..at + len].copy_from_slice(&data);
        if sync {
            // Its own bytes are durable, and the size that they need; so is every older size.
            let (size_floor, floors) = &mut self.floor[file];
            floors.resize(floors.len().max(at + len), *size_floor);
            floors[at..at + len].fill(version);
            *size_floor = version;
        }
    }
}

/// What was explored.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    points: usize,
    images: usize,
    nested_images: usize,
    violations: usize,
}

/// The files that a recovered image shows.
type Files = Vec<Content>;

/// Images of one program that are recovered: everything that this needs, and what it has found.
struct Recoveries<'a> {
    mounted: &'a Mounted,
    design: Arc<Configured>,
    histories: &'a [History],
    first: Scratch,
    /// What recovery reads of `first`.
    reads: Arc<ReadSet>,
    second: Scratch,
    /// Sets of files whose recovery has been crashed.
    crashed: BTreeSet<Files>,
    tally: Tally,
}

/// Runs a program and explores its crashes; returns what was wrong.
fn explore(
    design: &'static str,
    program: &[Op],
    files: usize,
    faults: &[Fault],
    plan: &Plan,
) -> (Tally, Vec<String>) {
    let mounted = Mounted::new(design, free_region(SIZE), OPTIONS);
    // Free blocks hold garbage from now on.
    let fill = mounted.create("garbage");
    while mounted.fs.write(fill, mounted.size(fill), &vec![GARBAGE; 16 * PAGE], IoFlags::SYNC).is_ok() {}
    mounted.unlink("garbage");
    mounted.fs.sync().expect("sync");
    let trace = Trace::attach(&mounted.region).expect("a trace");
    let recorder = Recorder::attach(&mounted.region, Mode::Adr, None).expect("a recorder");
    for fault in faults {
        mounted.region.inject(*fault);
    }
    let mut runner = Runner::new(Arc::clone(&mounted.fs), files);
    for op in program {
        mounted.region.mark(Mark::OpBegin("op"));
        runner.run(op);
        mounted.region.mark(Mark::OpEnd("op", Promise::Nothing));
    }
    mounted.region.detach(&trace);
    mounted.region.detach(&recorder);
    let lints = recorder.lints().into_iter().filter(|lint| !lint.rule.is_performance());
    let mut wrong: Vec<_> = lints.map(|lint| format!("{design}: {lint}")).collect();
    let mut recoveries = Recoveries::new(&mounted, &runner.history);
    let mut seen = BTreeSet::new();
    let (mut done, mut inside) = (0, false);
    let mut replay = trace.replay(Mode::Adr);
    loop {
        let point = replay.state().crash_point();
        recoveries.tally.points += 1;
        for choice in point.choices(plan) {
            let image = point.image(&choice);
            if !seen.insert((image.fingerprint(), done, inside)) {
                continue;
            }
            recoveries.tally.images += 1;
            if let Err(what) = recoveries.check(&point, &image, (done, inside)) {
                let op = program.get(done);
                wrong.push(format!(
                    "{design}: after {done} calls, inside {inside} of {op:?}, event {}: {what}",
                    replay.position()
                ));
            }
        }
        let next = replay.next_point(|_, event| match event {
            Event::Mark(Mark::OpBegin(_)) => inside = true,
            Event::Mark(Mark::OpEnd(..)) => (done, inside) = (done + 1, false),
            _ => {}
        });
        if next.is_none() || wrong.len() > 3 {
            break;
        }
    }
    (Tally { violations: wrong.len(), ..recoveries.tally }, wrong)
}

/// Sets of files of one program whose recovery is crashed.
const CRASHED_RECOVERIES: usize = 6;

impl<'a> Recoveries<'a> {
    fn new(mounted: &'a Mounted, histories: &'a [History]) -> Self {
        let scratch = || Scratch::new(SIZE, Box::new(Null)).expect("memory");
        let (first, reads) = (scratch(), Arc::new(ReadSet::new(SIZE.0)));
        first.region().attach(Arc::clone(&reads) as Arc<dyn Tap>);
        let crashed = BTreeSet::new();
        let design = with_options(mounted.design.name(), OPTIONS);
        Self { mounted, design, histories, first, reads, second: scratch(), crashed, tally: Tally::default() }
    }

    /// Recovers an image and judges it: what recovery reads, what the files are, what they become when they grow.
    fn check(
        &mut self,
        point: &CrashPoint,
        image: &Image,
        (done, inside): (usize, bool),
    ) -> Result<(), String> {
        let region = Arc::clone(self.first.load(image).expect("the image fits"));
        self.reads.clear();
        let fs = self.mounted.recovered(&region)?;
        let luck = self.reads.lints(point.unguaranteed(), None);
        luck.first().map_or(Ok(()), |lint| Err(lint.to_string()))?;
        let files = read_files(&*fs, self.histories.len())?;
        for (file, (history, content)) in self.histories.iter().zip(&files).enumerate() {
            history.judge(content, done, inside).map_err(|what| format!("{}: {what}", name(file)))?;
        }
        grow_files(&*fs, &files)?;
        fs.unmount().map_err(|errno| format!("unmount: {errno:?}"))?;
        let report = self.mounted.design.format().fsck(&Storage::from(&region));
        report.violations.first().map_or(Ok(()), |violation| Err(format!("fsck after use: {violation}")))?;
        if self.crashed.len() < CRASHED_RECOVERIES && self.crashed.insert(files.clone()) {
            self.crash_recovery(image, &files)?;
        }
        Ok(())
    }

    /// Crashes the recovery of an image: recovering again must lead to the same files.
    fn crash_recovery(&mut self, image: &Image, files: &Files) -> Result<(), String> {
        let (mounted, second) = (self.mounted, &mut self.second);
        self.tally.nested_images +=
            crash_recovery((&*self.design, Mode::Adr), &mut self.first, image, &mut |image| {
                let fs = mounted.recovered(second.load(image).expect("the image fits"))?;
                let again = read_files(&*fs, files.len())?;
                fs.unmount().map_err(|errno| format!("unmount: {errno:?}"))?;
                if again == *files { Ok(()) } else { Err("the files are others".to_owned()) }
            })?;
        Ok(())
    }
}

impl Mounted {
    /// Recovers and checks an image, and mounts it as this one is.
    fn recovered(&self, region: &Arc<Region>) -> Result<Arc<dyn FileSystem>, String> {
        self.design.format().recover(&Storage::from(region)).map_err(|error| format!("recover: {error}"))?;
        let report = self.design.format().fsck(&Storage::from(region));
        report.violations.first().map_or(Ok(()), |violation| Err(format!("fsck: {violation}")))?;
        self.design.mount(&Storage::from(region), &self.options).map_err(|error| format!("mount: {error}"))
    }
}

fn read_files(fs: &dyn FileSystem, count: usize) -> Result<Files, String> {
    let read = |file: usize| {
        let Ok(attr) = fs.lookup(fs.root(), name(file).as_bytes()) else { return Ok(None) };
        let mut bytes = vec![0; attr.size as usize];
        let read = fs.read(attr.ino, 0, &mut bytes, IoFlags::empty());
        assert_eq!(read.map_err(|errno| format!("{errno:?}"))?, bytes.len());
        Ok(Some(bytes))
    };
    (0..count).map(read).collect()
}

/// A growth shows zeros, whatever lies beyond the end.
fn grow_files(fs: &dyn FileSystem, files: &Files) -> Result<(), String> {
    for (file, content) in files.iter().enumerate() {
        let Some(end) = content.as_ref().map(|content| content.len() as u64) else { continue };
        let ino = fs.lookup(fs.root(), name(file).as_bytes()).expect("just seen").ino;
        fs.write(ino, end + 300, &[1], IoFlags::empty())
            .map_err(|errno| format!("write after recovery: {errno:?}"))?;
        let mut gap = [1; 300];
        fs.read(ino, end, &mut gap, IoFlags::empty()).map_err(|errno| format!("{errno:?}"))?;
        if gap != [0; 300] {
            return Err(format!("{}: stale bytes after a growth", name(file)));
        }
    }
    Ok(())
}

fn small_plan() -> Plan {
    Plan { exhaustive_max: 48, pair_units_max: 6, draws: 12, seed: Seed(7) }
}

/// A program and what it is for.
type Program = (&'static str, Vec<Op>);

fn programs() -> Vec<Program> {
    [programs_that_grow_a_file(), programs_that_change_a_file(), programs_with_several_files()].concat()
}

fn programs_that_grow_a_file() -> Vec<Program> {
    use Op::{Create, Fsync, Sleep, Unlink, Write};
    vec![
        ("a lazy write that is written back", vec![Create(0), Write(0, None, 5000, false), Sleep(40)]),
        ("a lazy write that is synced", vec![Create(0), Write(0, None, 5000, false), Fsync(0)]),
        (
            "lazy and eager blocks in one growth",
            vec![
                Create(0),
                Write(0, None, 4096, false),
                Fsync(0),
                Write(0, Some(100), 12_000, false),
                Sleep(40),
            ],
        ),
        ("lazy and eager blocks in one growth, which write-back commits", {
            let mut ops = vec![Create(0)];
            ops.extend((0..5).map(|_| Write(0, Some(0), 64, false)));
            ops.extend([
                Write(0, Some(4096), 4096, false),
                Fsync(0),
                Write(0, Some(0), 16_384, false),
                Sleep(40),
            ]);
            ops
        }),
        (
            "appends that join",
            vec![
                Create(0),
                Write(0, None, 3000, false),
                Write(0, None, 3000, false),
                Write(0, None, 9000, false),
                Sleep(40),
            ],
        ),
        ("appends to an old file until the transaction moves", {
            let mut ops = vec![Create(0), Write(0, None, 2 * 4096, true)];
            ops.extend((0..9).map(|_| Write(0, None, 4096, false)));
            ops.push(Sleep(40));
            ops
        }),
        (
            "a removal that joins",
            vec![
                Create(0),
                Write(0, None, 3000, true),
                Write(0, None, 9000, false),
                Unlink(0),
                Create(0),
                Write(0, None, 100, true),
            ],
        ),
        (
            "a synchronous overwrite of what is not committed",
            vec![Create(0), Write(0, None, 9000, false), Write(0, Some(5000), 10, true), Sleep(40)],
        ),
    ]
}

fn programs_that_change_a_file() -> Vec<Program> {
    use Op::{Chmod, Create, Sleep, Truncate, Write};
    vec![
        (
            "a gap behind a lazy block",
            vec![
                Create(0),
                Write(0, None, 100, false),
                Write(0, Some(3000), 100, false),
                Write(0, Some(10_000), 10, false),
                Sleep(40),
            ],
        ),
        (
            "a gap behind what was cut",
            vec![
                Create(0),
                Write(0, None, 5000, true),
                Truncate(0, 1000),
                Write(0, Some(6000), 10, false),
                Sleep(40),
            ],
        ),
        (
            "a cut through what is not committed",
            vec![
                Create(0),
                Write(0, None, 100, true),
                Write(0, None, 12_000, false),
                Truncate(0, 4100),
                Sleep(40),
            ],
        ),
        (
            "a chmod over an open transaction",
            vec![Create(0), Write(0, None, 9000, false), Chmod(0), Sleep(40)],
        ),
    ]
}

fn programs_with_several_files() -> Vec<Program> {
    use Op::{Create, Fsync, Rename, Sleep, Sync, Unlink, Write};
    vec![
        (
            "a replacement",
            vec![
                Create(0),
                Write(0, None, 3000, true),
                Create(1),
                Write(1, None, 5000, false),
                Fsync(1),
                Rename(1, 0),
            ],
        ),
        (
            "more than the pool has pages",
            vec![
                Create(0),
                Create(1),
                Write(0, None, 20_000, false),
                Write(1, None, 20_000, false),
                Write(0, Some(0), 9000, false),
                Sync,
            ],
        ),
        (
            "a slot that is used again",
            vec![
                Create(0),
                Write(0, None, 9000, false),
                Unlink(0),
                Create(1),
                Write(1, None, 9000, false),
                Sleep(40),
                Unlink(1),
            ],
        ),
        (
            "two files, one synced",
            vec![
                Create(0),
                Create(1),
                Write(0, None, 5000, false),
                Write(1, None, 5000, false),
                Fsync(1),
                Write(1, Some(10), 10, false),
                Sleep(40),
            ],
        ),
    ]
}

fn explore_all(what: &str, cases: &[(String, Vec<Op>)]) {
    for design in DESIGNS {
        let cases = cases.to_vec();
        let (tally, wrong) = virtually(1, move || {
            let (mut total, mut all) = (Tally::default(), Vec::new());
            for (name, program) in cases {
                let (tally, wrong) = explore(design, &program, 3, &[], &small_plan());
                total.points += tally.points;
                total.images += tally.images;
                total.nested_images += tally.nested_images;
                total.violations += tally.violations;
                all.extend(wrong.into_iter().map(|wrong| format!("{name}: {wrong}; {program:?}")));
            }
            (total, all)
        });
        println!("{what}, {design}: {tally:?}");
        assert!(wrong.is_empty(), "{}", wrong[..wrong.len().min(5)].join("\n"));
    }
}

#[test]
fn a_crash_shows_durable_data_or_an_earlier_size() {
    let cases: Vec<_> = programs().into_iter().map(|(name, program)| (name.to_owned(), program)).collect();
    explore_all("programs", &cases);
}

#[test]
fn crashes_of_random_programs_do_too() {
    let count = std::env::var("WEIR_HINFS_CRASHES").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    let program = |number: u64| {
        let mut rng = Seed(number).derive("hinfs.crash", 0).rng();
        (format!("seed {number}"), (0..9).map(|_| random_op(&mut rng)).collect())
    };
    let cases: Vec<_> = (0..count).map(program).collect();
    explore_all("random programs", &cases);
}

fn random_op(rng: &mut Rng) -> Op {
    let file = rng.random_range(0..2);
    let edges = [0, 1, 64, 100, 4095, 4096, 5000, 8192, 12_300];
    let edge = |rng: &mut Rng| edges[rng.random_range(0..edges.len())];
    match rng.random_range(0..20) {
        0..4 => Op::Create(file),
        4..12 => {
            let at = (rng.random_range(0..2) == 0).then(|| edge(rng));
            Op::Write(file, at, edge(rng).max(1), rng.random_range(0..5) == 0)
        }
        12 => Op::Fsync(file),
        13 => Op::Sync,
        14 => Op::Truncate(file, edge(rng)),
        15 | 16 => Op::Unlink(file),
        17 => Op::Chmod(file),
        _ => Op::Sleep([1, 6, 40][rng.random_range(0..3)]),
    }
}

/// Write-back commits a transaction after its last block has left the buffer, and a writer has it in its hands while it appends: at
/// both times a file has nothing buffered, and is not durable. A sync at any time after a write must leave what was written.
#[test]
fn a_sync_of_everything_waits_for_every_transaction() {
    for design in DESIGNS {
        for appends in [false, true] {
            let met = virtually(1, move || sync_at_any_time(design, appends));
            println!(
                "{design}, appending meanwhile {appends}: {met} syncs with an open transaction and no buffered block"
            );
            assert!(met > 0, "{design}: the moment was never met");
        }
    }
}

/// Syncs after a write, from at once until write-back has long been through with it; returns how often there was an open
/// transaction that waited for no block.
fn sync_at_any_time(design: &'static str, appends: bool) -> usize {
    const STEP: Nanos = Nanos(20);
    let options = [("jsize", "64k"), ("buffer", "64k"), ("wake", "10us"), ("dirty_age", "10us")];
    let mounted = Arc::new(Mounted::new(design, paper_region(SIZE), &options));
    let recorder = Recorder::attach(&mounted.region, Mode::Adr, None).expect("a recorder");
    let mut crashed = Scratch::new(SIZE, Box::new(Null)).expect("memory");
    let (mut met, mut delay) = (0, Nanos::ZERO);
    while delay < Nanos::from_micros(40) {
        let file = mounted.create(&name(0));
        mounted.write(file, 0, &[1; 64]);
        let writer = appends.then(|| {
            let mounted = Arc::clone(&mounted);
            sim::spawn(TaskSpec::named("writer"), move || mounted.write(file, 64, &[2; 4 * PAGE]))
        });
        sim::sleep(delay);
        met += usize::from(mounted.counter("pages_used") == 0 && mounted.counter("transactions_open") > 0);
        mounted.fs.sync().expect("sync");
        let point = recorder.crash_point();
        let region = crashed.load(&point.image(&point.none())).expect("the image fits");
        let fs = mounted.recovered(region).expect("recovers");
        let files = read_files(&*fs, 1).expect("reads");
        let durable = files[0].as_ref().is_some_and(|bytes| bytes.starts_with(&[1; 64]));
        assert!(
            durable,
            "{design}, appending meanwhile {appends}: {delay} after a write, sync left {files:?}"
        );
        fs.unmount().expect("unmount");
        writer.into_iter().for_each(sim::JoinHandle::join);
        mounted.unlink(&name(0));
        delay += STEP;
    }
    met
}

#[test]
fn a_forgotten_fence_is_noticed() {
    let program = programs()[1].1.clone();
    let caught: Vec<_> = (1..=14)
        .filter(|nth| {
            let (program, fault) = (program.clone(), Fault::DropNth { target: Target::Fence, nth: *nth });
            virtually(1, move || !explore("hinfs", &program, 3, &[fault], &small_plan()).1.is_empty())
        })
        .collect();
    println!("fences of create, write, fsync that are missed: {caught:?} of 14");
    assert!(caught.len() >= 4, "{caught:?}");
}
