//! Runs one schedule of one scenario and judges it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use media::event::{Event, Tap, TaskId};
use media::nvmm::Region;
use sim::ledger::Snapshot;
use sim::{Bytes, Interleaving, Machine, PAGE_BYTES, Schedule, Seed, Setup, TaskSpec};
use vfs::{Errno, FileSystem};

use super::history::{Call, History, explain};
use super::scenario::{FILES, Scenario, Start, TREE};
use crate::configured::{self, Configured, fsck, unmount};
use crate::model::Model;
use crate::observe::observe;
use crate::op::{File, Op, Pattern, Runner};
use crate::tree::{Tree, difference, fingerprint};

/// Bytes that are left on a full tree: a few blocks.
const LEFT: u64 = 12_288;
/// What the file that takes the space is called.
const FILL: &str = "fill";
/// Write this much at once to take the space.
const PIECE: usize = 4096;

/// An image to start from, unmounted, and the model of it.
#[derive(Debug)]
pub(super) struct Ground {
    bytes: Vec<u8>,
    model: Model,
}

impl Ground {
    /// Makes the tree that scenarios begin with, on a region of `size`.
    pub(super) fn new(design: &Arc<Configured>, size: Bytes, start: Start) -> Result<Arc<Self>, String> {
        match start {
            Start::Usual => Self::made(design, size, |_, _| Ok(())).map(|made| made.0),
            Start::Full => Self::made(design, size, fill).map(|made| made.0),
            Start::Worn => {
                let (_, changes) = Self::made(design, size, move |runner, _| wear(runner, size))?;
                let again = move |runner: &mut Runner, model: &mut Model| {
                    (0..changes).try_for_each(|number| both(runner, model, &change(number)))
                };
                Self::made(design, size, again).map(|made| made.0)
            }
        }
    }

    /// Makes the tree, and then what `more` makes of it; with what that answers.
    fn made<T: Send + 'static>(
        design: &Arc<Configured>,
        size: Bytes,
        more: impl FnOnce(&mut Runner, &mut Model) -> Result<T, String> + Send + 'static,
    ) -> Result<(Arc<Self>, T), String> {
        let design = Arc::clone(design);
        let setup = Setup::virtual_clock(Machine::unit(), Seed(0));
        // Runs without a switch, so that a design that waits for ever is also found here.
        let (made, _) = sim::explore(&setup, &Schedule::Directed(Vec::new()), move || {
            let region = configured::region(size);
            design.mkfs(&region).map_err(|error| format!("mkfs: {error}"))?;
            let mut runner = Runner::new(design.mount(&region).map_err(|error| format!("mount: {error}"))?);
            let mut model = Model::of(&*runner.fs, design.promises())?;
            for op in tree() {
                both(&mut runner, &mut model, &op)?;
            }
            let more = more(&mut runner, &mut model)?;
            unmount(&*runner.fs)?;
            fsck(&design, &region)?;
            let mut bytes = vec![0; region.len() as usize];
            region.peek(0, &mut bytes).map_err(|error| error.to_string())?;
            Ok((Arc::new(Self { bytes, model }), more))
        });
        made.map_err(|error| error.to_string()).and_then(|ground| ground)
    }

    fn region(&self) -> Result<Arc<Region>, String> {
        let region = configured::region(Bytes(self.bytes.len() as u64));
        // A page of zeros is there already; touching it would cost the host a page.
        let pages = self.bytes.chunks(PAGE_BYTES).zip((0..).step_by(PAGE_BYTES));
        for (page, at) in pages.filter(|(page, _)| page.iter().any(|byte| *byte != 0)) {
            region.store(at, page).map_err(|error| error.to_string())?;
        }
        Ok(region)
    }
}

/// What makes the tree.
fn tree() -> Vec<Op> {
    let dirs = TREE.iter().map(|path| Op::Mkdir((*path).to_owned()));
    let files = FILES.iter().zip(1..).flat_map(|((path, len), tag)| {
        let write = Op::Write(File::At((*path).to_owned()), Some(0), Pattern { len: *len, tag });
        [Op::Create((*path).to_owned()), write]
    });
    dirs.chain(files).collect()
}

fn both(runner: &mut Runner, model: &mut Model, op: &Op) -> Result<(), String> {
    let (done, expected) = (runner.run(op), model.run(op, None));
    if done == expected { Ok(()) } else { Err(format!("setup: {op:?} gave {done:?}, expected {expected:?}")) }
}

/// Takes all space with a file, and gives a little of it back.
fn fill(runner: &mut Runner, model: &mut Model) -> Result<(), String> {
    let file = || File::At(FILL.to_owned());
    both(runner, model, &Op::Create(FILL.to_owned()))?;
    let mut size = 0;
    loop {
        let op = Op::Write(file(), Some(size), Pattern { len: PIECE, tag: 9 });
        match runner.run(&op) {
            Err(Errno::ENOSPC) => break,
            done if done == model.run(&op, None) => size += PIECE as u64,
            done => return Err(format!("setup: {op:?} gave {done:?}")),
        }
    }
    both(runner, model, &Op::Truncate(file(), size.saturating_sub(LEFT)))
}

/// The change of this number that wears a pool: a file comes or goes.
fn change(number: u64) -> Op {
    let path = "worn".to_owned();
    if number.is_multiple_of(2) { Op::Create(path) } else { Op::Unlink(path) }
}

/// Changes until one reads an eighth of the region, because it cleans, or the changes of that many lines have not led to it; how
/// many came before.
fn wear(runner: &mut Runner, size: Bytes) -> Result<u64, String> {
    let changes = size.0 / 64;
    for number in 0..changes {
        let before = Snapshot::of_task();
        runner.run(&change(number)).map_err(|errno| format!("setup: change {number}: {}", errno.name()))?;
        let loaded = Snapshot::of_task().since(&before).count_all(&media::charges::BYTES_LOADED);
        if loaded >= size.0 / 8 {
            return Ok(number);
        }
    }
    Ok(changes)
}

/// Allows a switch after every store, flush and fence, so that other tasks see words that are stored without a lock, and the
/// state between two stores that belong together. Designs must hold no lock of the host over a store.
#[derive(Debug)]
pub(crate) struct Preempt;

impl Tap for Preempt {
    fn event(&self, _: TaskId, event: Event<'_>) {
        if !matches!(event, Event::Mark(_)) {
            sim::interact();
        }
    }
}

/// What a run showed.
#[derive(Debug)]
struct Shown {
    history: History,
    tree: Tree,
}

/// Runs a scenario in the order of `schedule`. Returns a number for its outcome (answers and tree), or what is wrong.
pub(super) fn execute(
    design: &Arc<Configured>,
    ground: &Arc<Ground>,
    scenario: &Scenario,
    (schedule, seed): (&Schedule, u64),
) -> (Result<u64, String>, Interleaving) {
    let setup = Setup::virtual_clock(Machine::unit(), Seed(seed));
    let mut start = ground.model.clone();
    for pin in scenario.pins() {
        // A path that is not there is made by the scenario itself, and is looked up when its turn comes.
        let _ = start.pin(&pin);
    }
    let (ran, interleaving) = {
        let (design, ground, scenario) = (Arc::clone(design), Arc::clone(ground), scenario.clone());
        sim::explore(&setup, schedule, move || run(&design, &ground, &scenario))
    };
    let shown = ran.map_err(|error| error.to_string()).and_then(|shown| shown);
    let judged = shown.and_then(|shown| {
        explain(&start, &shown.history, &shown.tree, scenario.start == Start::Full)?;
        Ok(outcome(&shown))
    });
    (judged, interleaving)
}

fn run(design: &Configured, ground: &Ground, scenario: &Scenario) -> Result<Shown, String> {
    let region = ground.region()?;
    let mount = || design.mount(&region).map_err(|error| format!("mount: {error}"));
    let mut runner = Runner::new(mount()?);
    for pin in scenario.pins() {
        let _ = runner.pin(&pin);
    }
    let preempt: Arc<dyn Tap> = Arc::new(Preempt);
    region.attach(Arc::clone(&preempt));
    let history = together(&runner, scenario);
    region.detach(&preempt);
    runner.close_all();
    let tree = observe(&*runner.fs)?;
    check_afterwards(design, &region, &*runner.fs, &tree)?;
    Ok(Shown { history, tree })
}

/// All tasks at once; their calls.
fn together(runner: &Runner, scenario: &Scenario) -> History {
    let clock = Arc::new(AtomicU64::new(0));
    let tasks = scenario.tasks.iter().zip(0..).map(|(ops, number)| {
        let (mut runner, ops, clock) = (runner.beside(), ops.clone(), Arc::clone(&clock));
        let spec = TaskSpec::named(format!("task {number}")).on_core(number);
        sim::spawn(spec, move || {
            let mut call = |op: Op| {
                let began = clock.fetch_add(1, Relaxed);
                let answer = runner.run(&op);
                Call { op, began, ended: clock.fetch_add(1, Relaxed), answer }
            };
            let calls = ops.into_iter().map(&mut call).collect::<Vec<_>>();
            // A shortened program may lack its last calls.
            runner.close_opened();
            calls
        })
    });
    let tasks: Vec<_> = tasks.collect();
    tasks.into_iter().map(sim::JoinHandle::join).collect()
}

/// Unmounts; fsck must find nothing, and the next mount must show the same tree and the same free space.
fn check_afterwards(
    design: &Configured,
    region: &Arc<Region>,
    fs: &dyn FileSystem,
    tree: &Tree,
) -> Result<(), String> {
    let free = |fs: &dyn FileSystem| fs.statfs().map_err(|errno| format!("statfs: {}", errno.name()));
    let before = free(fs)?;
    unmount(fs)?;
    fsck(design, region)?;
    let fs = design.mount(region).map_err(|error| format!("mount again: {error}"))?;
    difference(&observe(&*fs)?, tree).map_or(Ok(()), |what| Err(format!("after a remount: {what}")))?;
    let after = free(&*fs)?;
    if (before.blocks_free, before.files_free) != (after.blocks_free, after.files_free) {
        let (before, after) =
            ((before.blocks_free, before.files_free), (after.blocks_free, after.files_free));
        return Err(format!("free blocks and inodes {before:?}, after a remount {after:?}"));
    }
    unmount(&*fs)
}

fn outcome(shown: &Shown) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    fingerprint(&shown.tree).hash(&mut hasher);
    for call in shown.history.iter().flatten() {
        format!("{:?}", call.answer).hash(&mut hasher);
    }
    hasher.finish()
}
