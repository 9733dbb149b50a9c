//! Crashes everywhere: records a program, visits its crash points, recovers images and judges what is there.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use fs::{FsType, Options};
use media::event::{Event, Mark, Promise, Tap};
use media::fault::Fault;
use media::nvmm::Region;
use media::nvmm::null::Null;
use media::recorder::{
    CrashPoint, Image, Mode, Plan, Point, ReadSet, Recorder, Replay, Rule, Scratch, Trace,
};
use sim::Bytes;
use vfs::FileSystem;

use crate::programs::Program;
use crate::shared::harness;
use crate::shared::model::Model;
use crate::shared::nested;
use crate::shared::observe::observe;
use crate::shared::op::{Op, Runner};
use crate::shared::tree::{Tree, difference, fingerprint};

/// What a design promises about data; metadata changes as one in all of them (crash-testing.md, section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// Writes in place: each aligned word of the range of a write under way is old or new; a size changes with its data; what
    /// has returned is durable, but for a write into one existing block, which is durable after the next fence of any call.
    InPlace,
}

/// A design under test, and what to expect of it.
#[derive(Clone, Copy)]
pub struct Subject {
    /// The design.
    pub design: &'static dyn FsType,
    /// Options for mkfs and mount.
    pub options: &'static [(&'static str, &'static str)],
    /// Size of the region.
    pub size: Bytes,
    /// What it promises.
    pub guarantee: Guarantee,
    /// What survives a crash.
    pub mode: Mode,
}

impl Subject {
    fn options(&self) -> Options {
        harness::options(self.design, self.options)
    }

    /// Data block size of its files.
    fn block(&self) -> u64 {
        if self.options.contains(&("block_size", "2M")) { 2 << 20 } else { 4096 }
    }
}

/// How much to try.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Choices of what persists.
    pub plan: Plan,
    /// Images of each program whose recovery is crashed, too.
    pub nested: usize,
    /// Crashes right after each commit store, too. What they can leave, a crash before the next fence can leave as well; but
    /// where that has too many choices to try them all, these are tried more closely.
    pub after_commits: bool,
}

/// What was done and found.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)] // as their names say
pub struct Tally {
    pub programs: usize,
    pub points: usize,
    pub images: usize,
    pub distinct_images: usize,
    pub distinct_states: usize,
    pub nested_images: usize,
    pub combinations: u128,
    pub violations: Vec<String>,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.programs += other.programs;
        self.points += other.points;
        self.images += other.images;
        self.distinct_images += other.distinct_images;
        self.distinct_states += other.distinct_states;
        self.nested_images += other.nested_images;
        self.combinations = self.combinations.saturating_add(other.combinations);
        self.violations.extend(other.violations);
    }
}

/// A program after its run: what happened, and what the model says before the first and after each operation.
struct Recording {
    trace: Arc<Trace>,
    trees: Vec<Tree>,
    /// By operation: size of its file before and after.
    sizes: Vec<(u64, u64)>,
}

/// Runs a program on a fresh image and records its core; `prepare` sees the region just before.
fn record(subject: &Subject, program: &Program, prepare: &dyn Fn(&Region)) -> Recording {
    let options = subject.options();
    let region = harness::region(subject.size);
    subject.design.mkfs(&region, &options).expect("mkfs");
    let mount = || subject.design.mount(&region, &options).expect("mount");
    let mut runner = Runner::new(mount());
    let root = runner.fs.getattr(runner.fs.root()).expect("the root");
    let mut model = Model::new(root.perm, (root.owner.uid, root.owner.gid));
    for op in &program.setup {
        let expected = model.run(op, None);
        assert_eq!(runner.run(op), expected, "{}: setup {op:?}", program.name);
    }
    runner.fs.sync().expect("sync");
    let trace = Trace::attach(&region).expect("a trace");
    prepare(&region);
    let mut trees = vec![model.tree()];
    let mut sizes = Vec::new();
    let size_of = |model: &Model, op: &Op| match op {
        Op::Write(file, ..) => model.size(file).unwrap_or(0),
        _ => 0,
    };
    for op in &program.core {
        let before = size_of(&model, op);
        region.mark(Mark::OpBegin(op.name()));
        if matches!(op, Op::Remount) {
            runner.close_all();
            runner.fs.unmount().expect("unmount");
            runner = Runner::new(mount());
        } else {
            let done = runner.run(op);
            let expected = model.run(op, None);
            assert_eq!(done, expected, "{}: {op:?}", program.name);
        }
        sizes.push((before, size_of(&model, op)));
        let soft = is_soft(subject, op, before);
        region.mark(Mark::OpEnd(op.name(), if soft { Promise::Nothing } else { Promise::All }));
        trees.push(model.tree());
    }
    region.detach(&trace);
    Recording { trace, trees, sizes }
}

/// Which states a crash may leave at one point.
struct Allowed<'a> {
    program: &'a Program,
    recording: &'a Recording,
    /// Operations that have returned.
    done: usize,
    /// The next one is under way.
    inside: bool,
    /// States before writes that have returned but are not durable.
    soft: &'a [usize],
}

impl Allowed<'_> {
    fn judge(&self, seen: &Tree) -> Option<String> {
        let trees = &self.recording.trees;
        let soft: Vec<&Tree> = self.soft.iter().map(|index| &trees[*index]).collect();
        let before = &trees[self.done];
        let Some(after) = trees.get(self.done + 1).filter(|_| self.inside) else {
            return difference(seen, before, &soft);
        };
        let op = &self.program.core[self.done];
        let (mut with_after, mut with_before) = (soft.clone(), soft);
        if op.changes_data() {
            with_after.push(after);
            // A write that changes the size: the new size shows only new bytes.
            let (old_size, new_size) = self.recording.sizes[self.done];
            if old_size == new_size {
                with_before.push(before);
            }
        }
        let old = difference(seen, before, &with_after)?;
        let new = difference(seen, after, &with_before)?;
        Some(format!("neither as before ({old}) nor as after ({new})"))
    }
}

/// Whether a write may return before it is durable: it goes into one existing block and leaves the size.
fn is_soft(subject: &Subject, op: &Op, size: u64) -> bool {
    let Guarantee::InPlace = subject.guarantee;
    let Op::Write(_, Some(offset), pattern) = op else { return false };
    let end = offset + pattern.len as u64;
    pattern.len > 0 && end <= size && offset / subject.block() == (end - 1) / subject.block()
}

/// Explores all crashes of a program.
pub fn explore(subject: &Subject, program: &Program, effort: &Effort, faults: &[Fault]) -> Tally {
    let inject = |region: &Region| faults.iter().for_each(|fault| region.inject(*fault));
    let recording = record(subject, program, &inject);
    let mut explorer = Explorer::new(*subject, program, effort);
    let mut replay = recording.trace.replay(subject.mode);
    let (mut done, mut inside) = (0, false);
    let mut soft: Vec<usize> = Vec::new();
    explorer.visit(&replay, &recording, (done, inside, &soft));
    loop {
        let point = replay.next_point(|_, event| match event {
            Event::Mark(Mark::OpBegin(_)) => inside = true,
            Event::Mark(Mark::OpEnd(..)) => {
                if is_soft(subject, &program.core[done], recording.sizes[done].0) {
                    soft.push(done);
                }
                (done, inside) = (done + 1, false);
            }
            Event::Fence => soft.clear(),
            _ => {}
        });
        match point {
            None => break,
            Some(Point::AfterCommit) if !effort.after_commits => {}
            Some(_) => explorer.visit(&replay, &recording, (done, inside, &soft)),
        }
    }
    explorer.tally
}

/// What the lints hold against a program: what a call that should be durable leaves unflushed or unfenced (L1, L2), commits
/// before what they make count or by a torn store (L3, L6), blocks that are freed too early (L7). L8 is the explorer's.
pub fn lints(subject: &Subject, program: &Program, faults: &[Fault]) -> Vec<String> {
    let recorder = RefCell::new(None);
    record(subject, program, &|region| {
        *recorder.borrow_mut() = Recorder::attach(region, Mode::Adr, None).ok();
        for fault in faults {
            region.inject(*fault);
        }
    });
    let lints = recorder.into_inner().map_or(Vec::new(), |recorder| recorder.lints());
    let broken = lints.iter().filter(|lint| {
        // A call that changes nothing need not finish what a write before it has left.
        let changes = !matches!(lint.op, "open" | "close");
        match lint.rule {
            Rule::UnflushedAtReturn | Rule::UnfencedAtReturn => changes,
            rule => !rule.is_performance(),
        }
    });
    broken.map(|lint| format!("{}: {lint}", program.name)).collect()
}

/// State of the exploration of one program.
struct Explorer<'a> {
    subject: Subject,
    program: &'a Program,
    effort: &'a Effort,
    options: Options,
    scratch: Scratch,
    /// What recovery reads of the scratch region.
    reads: Arc<ReadSet>,
    second: Option<Scratch>,
    seen: HashSet<(u64, usize, bool)>,
    states: BTreeSet<u64>,
    nested_left: usize,
    empty_free: u64,
    tally: Tally,
}

impl<'a> Explorer<'a> {
    fn new(subject: Subject, program: &'a Program, effort: &'a Effort) -> Self {
        let scratch = Scratch::new(subject.size, Box::new(Null)).expect("memory");
        let reads = Arc::new(ReadSet::new(subject.size.0));
        scratch.region().attach(Arc::clone(&reads) as Arc<dyn Tap>);
        let options = subject.options();
        let region = harness::region(subject.size);
        subject.design.mkfs(&region, &options).expect("mkfs");
        let fs = subject.design.mount(&region, &options).expect("mount");
        let empty_free = fs.statfs().expect("statfs").blocks_free;
        fs.unmount().expect("unmount");
        Self {
            subject,
            program,
            effort,
            options,
            scratch,
            reads,
            second: None,
            seen: HashSet::new(),
            states: BTreeSet::new(),
            nested_left: effort.nested,
            empty_free,
            tally: Tally { programs: 1, ..Tally::default() },
        }
    }

    fn visit(
        &mut self,
        replay: &Replay,
        recording: &Recording,
        (done, inside, soft): (usize, bool, &[usize]),
    ) {
        let point = replay.state().crash_point();
        self.tally.points += 1;
        self.tally.combinations = self.tally.combinations.saturating_add(point.combinations());
        let program = self.program;
        let allowed = Allowed { program, recording, done, inside, soft };
        for (number, choice) in point.choices(&self.effort.plan).iter().enumerate() {
            let image = point.image(choice);
            self.tally.images += 1;
            if !self.seen.insert((image.fingerprint(), done, inside)) {
                continue;
            }
            self.tally.distinct_images += 1;
            if let Err(what) = self.check(&point, &image, &allowed) {
                let place =
                    format!("{} op {done}, event {}, choice {number}", program.name, replay.position());
                let lines = Self::lines_of(&point, &image);
                self.tally.violations.push(format!("{place}: {what}; persisted: {lines}"));
            }
            if self.tally.violations.len() >= 5 {
                return;
            }
        }
        self.tally.distinct_states = self.states.len();
    }

    fn lines_of(point: &CrashPoint, image: &Image) -> String {
        format!("{:?} of {} units", image.persisted_lines(), point.units().len())
    }

    /// Recovers an image and judges it.
    fn check(&mut self, point: &CrashPoint, image: &Image, allowed: &Allowed<'_>) -> Result<(), String> {
        let region = Arc::clone(self.scratch.load(image).expect("the image fits"));
        self.reads.clear();
        let (design, options) = (self.subject.design, &self.options);
        let mount = || design.mount(&region, options).map_err(|error| format!("mount: {error}"));
        let fs = mount()?;
        let luck = self.reads.lints(point.unguaranteed(), None);
        complain(luck.first().map(ToString::to_string))?;
        let tree = observe(&*fs)?;
        if let Some(what) = allowed.judge(&tree) {
            return Err(what);
        }
        let state = fingerprint(&tree);
        let new_state = self.states.insert(state);
        unmount(&*fs)?;
        complain(harness::fsck_complaint(design, &region))?;
        let fs = mount()?;
        complain(difference(&observe(&*fs)?, &tree, &[]).map(|what| format!("after a remount: {what}")))?;
        use_everything(&*fs, &tree)?;
        self.check_free(&*fs, tree.len())?;
        unmount(&*fs)?;
        complain(harness::fsck_complaint(design, &region))?;
        if self.nested_left > 0 && (new_state || allowed.inside) {
            self.nested_left -= 1;
            self.crash_recovery(image, &tree)?;
        }
        Ok(())
    }

    /// When everything was removed, as many blocks are free as in an empty file system, but for the root directory and the
    /// inode table, which do not shrink. (Fsck compares the map itself with what is reachable.)
    fn check_free(&self, fs: &dyn FileSystem, inodes: usize) -> Result<(), String> {
        let name = |errno: vfs::Errno| errno.name().to_owned();
        let free = fs.statfs().map_err(name)?.blocks_free;
        let root_blocks = fs.getattr(fs.root()).map_err(name)?.blocks / 8;
        // A tree that has more than one block has a node, too.
        let root_extra = if root_blocks > 1 { root_blocks } else { 0 };
        match self.empty_free.saturating_sub(free + root_extra) {
            0 => Ok(()),
            2 if inodes >= 29 => Ok(()),
            _ => Err(format!("{free} blocks are free when all is removed, {} when empty", self.empty_free)),
        }
    }

    /// Crashes the recovery of an image: recovering again must lead to the same tree.
    fn crash_recovery(&mut self, image: &Image, expected: &Tree) -> Result<(), String> {
        let (design, options, size) = (self.subject.design, &self.options, self.subject.size);
        let second = self.second.get_or_insert_with(|| Scratch::new(size, Box::new(Null)).expect("memory"));
        let images = nested::crash_recovery(design, &mut self.scratch, image, &mut |image| {
            let region = Arc::clone(second.load(image).expect("the image fits"));
            let fs = design.mount(&region, options).map_err(|error| format!("mount: {error}"))?;
            let seen = observe(&*fs)?;
            unmount(&*fs)?;
            complain(difference(&seen, expected, &[]))?;
            complain(harness::fsck_complaint(design, &region))
        })?;
        self.tally.nested_images += images;
        Ok(())
    }
}

fn unmount(fs: &dyn FileSystem) -> Result<(), String> {
    fs.unmount().map_err(|errno| format!("unmount: {}", errno.name()))
}

fn complain(what: Option<String>) -> Result<(), String> {
    what.map_or(Ok(()), Err)
}

/// Creates and deletes a file in every directory, writes to every file, then removes everything.
fn use_everything(fs: &dyn FileSystem, tree: &Tree) -> Result<(), String> {
    use vfs::FileKind::{Directory, Regular};
    let inos: BTreeMap<&str, vfs::Ino> =
        tree.keys().map(|path| Ok((path.as_str(), find(fs, path)?))).collect::<Result<_, String>>()?;
    for (path, entry) in tree {
        let ino = inos[path.as_str()];
        let failed = |errno: vfs::Errno| format!("\"{path}\" cannot be used: {}", errno.name());
        if entry.kind == Directory {
            fs.create(ino, b"usable?", &crate::shared::op::NEW).map_err(failed)?;
            fs.unlink(ino, b"usable?").map_err(failed)?;
        } else if entry.kind == Regular {
            let size = entry.content.len() as u64;
            check_extension(fs, ino, size).map_err(|what| format!("\"{path}\": {what}"))?;
        }
    }
    for (path, entry) in tree.iter().rev().filter(|(path, _)| !path.is_empty()) {
        let (dir, name) = crate::shared::op::split(path);
        let remove = if entry.kind == Directory { FileSystem::rmdir } else { FileSystem::unlink };
        remove(fs, inos[dir], name.as_bytes())
            .map_err(|errno| format!("\"{path}\" cannot be removed: {}", errno.name()))?;
    }
    Ok(())
}

/// Extending a file shows zeros.
fn check_extension(fs: &dyn FileSystem, ino: vfs::Ino, size: u64) -> Result<(), String> {
    let set = vfs::SetAttr { size: Some(size + 9000), ..vfs::SetAttr::default() };
    fs.setattr(ino, &set).map_err(|errno| format!("extend: {}", errno.name()))?;
    let mut bytes = vec![0xEE; 9000];
    let read = fs.read(ino, size, &mut bytes, vfs::IoFlags::empty());
    match read.map_err(|errno| format!("read: {}", errno.name()))? {
        9000 if bytes.iter().all(|byte| *byte == 0) => Ok(()),
        _ => Err("an extension shows stale bytes".to_owned()),
    }
}

fn find(fs: &dyn FileSystem, path: &str) -> Result<vfs::Ino, String> {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    parts
        .try_fold(fs.root(), |at, name| Ok(fs.lookup(at, name.as_bytes())?.ino))
        .map_err(|errno: vfs::Errno| format!("\"{path}\": {}", errno.name()))
}

/// A design under test in words: options, region, crashes.
pub fn describe(subject: &Subject) -> String {
    let options: Vec<_> = subject.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{} {} on {} {:?}", subject.design.name(), options.join(","), subject.size, subject.mode)
}
