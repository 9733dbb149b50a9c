//! Tasks that want room at once, on pools whose logs are full of records that are dead: none is refused while a tenth is free.
//!
//! `WEIR_CREST_MIB=24,64,128` runs pools of these sizes, `WEIR_CREST_LEFT=100,50` with so many hundredths of the blocks left free by a
//! file with data, and `WEIR_CREST_SEEDS=0,3` these seeds of each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

use check::schedules::{Effort, Scenario, Tally, explore};
use check::{Configured, Limits, NEW};
use crest::design::CrestDesign;
use crest::format::mutant;
use design::{Design, Mutant};
use media::nvmm::Region;
use sim::{Bytes, Nanos, Seed, Setup, TaskSpec};
use vfs::{Errno, FileSystem, Ino, IoFlags, SetAttr};

use crate::support::{Given, assert_sound, counted, machine, made, numbers, options, region};

const SEED: u64 = 20_261_130;
const WRITERS: u16 = 3;
const CHURNERS: u16 = 4;
/// Bytes of the file that a writer writes anew.
const FILE: usize = 512 << 10;

/// Calls of a task, or of all.
#[derive(Debug, Default)]
struct Calls {
    number: u64,
    longest: Nanos,
    /// The error of each call that was refused although more than a tenth of the blocks was free, with the free blocks and all.
    refused: Vec<(Errno, u64, u64)>,
    /// Refusals that were right.
    full: u64,
    /// Zones that were emptied in steps, and runs of the cleaner of all logs.
    emptied: u64,
    cleaned: u64,
}

impl Calls {
    /// Makes a call, which may be refused only while at most a tenth of the blocks is free.
    fn judge<T>(&mut self, fs: &dyn FileSystem, call: impl FnOnce() -> vfs::Result<T>) {
        let began = sim::now();
        let done = call();
        self.number += 1;
        self.longest = self.longest.max(sim::now().since(began));
        let Err(errno) = done else { return };
        let space = fs.statfs().expect("statfs");
        if errno == Errno::ENOSPC && space.blocks_free * 10 <= space.blocks {
            self.full += 1;
        } else {
            self.refused.push((errno, space.blocks_free, space.blocks));
        }
    }

    fn end(mut self) -> Self {
        (self.emptied, self.cleaned) = (counted("crest.emptied"), counted("crest.cleaned"));
        self
    }

    fn add(mut self, other: Self) -> Self {
        self.number += other.number;
        self.longest = self.longest.max(other.longest);
        self.refused.extend(other.refused);
        self.full += other.full;
        self.emptied += other.emptied;
        self.cleaned += other.cleaned;
        self
    }
}

/// A pool, and how much is done in it.
#[derive(Clone, Copy, Debug)]
struct Ground {
    mib: u64,
    seed: u64,
    /// Hundredths of the blocks that a file with data leaves free at most, besides the files of the writers.
    left: u64,
    /// Files that each churner makes and removes.
    pairs: u64,
    /// Whether the clock is virtual.
    is_virtual: bool,
    given: Given<'static>,
}

impl Ground {
    /// A pool in which the log passes what is left for it about one and a half times.
    fn wrapping(mib: u64, seed: u64, left: u64) -> Self {
        // A pair takes three lines, and the first lap takes all that is free.
        let lines = (mib << 20) / 64 * left / 100;
        let pairs = lines * 5 / 2 / 3 / u64::from(CHURNERS);
        Self { mib, seed, left, pairs, is_virtual: true, given: &[("shards", "4")] }
    }
}

/// Writes a file in pieces until so many hundredths of the blocks are free.
fn fill(fs: &dyn FileSystem, left: u64) {
    let (file, data) = (fs.create(fs.root(), b"data", &NEW).expect("an empty pool").ino, vec![9; 64 << 10]);
    let is_more = || fs.statfs().expect("statfs");
    let mut at = 0;
    while {
        let space = is_more();
        space.blocks_free * 100 > space.blocks * left
    } {
        fs.write(file, at, &data, IoFlags::empty()).expect("room for data");
        at += data.len() as u64;
    }
}

/// A task that writes its file anew while others churn: over what it has, and, each fourth time, from nothing.
fn write(fs: &dyn FileSystem, file: Ino, churning: &AtomicU16) -> Calls {
    let (mut calls, mut round) = (Calls::default(), 0_u64);
    while churning.load(Relaxed) > 0 {
        if round % 4 == 3 {
            let size = Some(0);
            calls.judge(fs, || fs.setattr(file, &SetAttr { size, ..SetAttr::default() }));
        }
        calls.judge(fs, || fs.write(file, 0, &vec![round as u8; FILE], IoFlags::empty()));
        round += 1;
    }
    calls.end()
}

/// A task that makes and removes a file.
fn churn(fs: &dyn FileSystem, task: u16, pairs: u64, churning: &AtomicU16) -> Calls {
    let (mut calls, name) = (Calls::default(), format!("churn {task}"));
    for _ in 0..pairs {
        calls.judge(fs, || fs.create(fs.root(), name.as_bytes(), &NEW));
        calls.judge(fs, || fs.unlink(fs.root(), name.as_bytes()));
    }
    churning.fetch_sub(1, Relaxed);
    calls.end()
}

/// Writers beside tasks that make and remove files; the pool is sound afterwards.
fn writers_beside_churn(region: &Arc<Region>, ground: Ground, bug: Option<Mutant>) -> Calls {
    let fs = made(region, &options(ground.given, bug));
    let files: Vec<Ino> = (0..WRITERS)
        .map(|task| {
            let file = fs.create(fs.root(), format!("file {task}").as_bytes(), &NEW).expect("room").ino;
            fs.write(file, 0, &vec![1; FILE], IoFlags::empty()).expect("room");
            file
        })
        .collect();
    fill(&*fs, ground.left);
    let churning = Arc::new(AtomicU16::new(CHURNERS));
    let spawn = |task: u16| {
        let (fs, churning, files) = (Arc::clone(&fs), Arc::clone(&churning), files.clone());
        sim::spawn(TaskSpec::named(format!("task {task}")).on_core(task), move || {
            match files.get(usize::from(task)) {
                Some(file) => write(&*fs, *file, &churning),
                None => churn(&*fs, task, ground.pairs, &churning),
            }
        })
    };
    let tasks: Vec<_> = (0..WRITERS + CHURNERS).map(spawn).collect();
    let all = tasks.into_iter().map(sim::JoinHandle::join).fold(Calls::default(), Calls::add);
    fs.unmount().expect("unmount");
    assert_sound(region);
    all
}

fn ran(ground: Ground, bug: Option<Mutant>) -> Calls {
    let (machine, seed) = (machine(WRITERS + CHURNERS), Seed(ground.seed));
    let setup = match ground.is_virtual {
        true => Setup::virtual_clock(machine, seed),
        false => Setup::real_clock(machine, seed),
    };
    let run = sim::run(&setup, move || writers_beside_churn(&region(Bytes::mib(ground.mib)), ground, bug));
    run.unwrap_or_else(|error| panic!("{ground:?}: {error}"))
}

/// Runs a pool, and asserts that no call was refused while a tenth of it was free.
fn assert_none_refused(ground: Ground) -> Calls {
    let calls = ran(ground, None);
    let Calls { number, longest, full, emptied, cleaned, .. } = calls;
    println!(
        "{ground:?}: {number} calls, longest {longest}, {} refused, {full} on a full pool, {emptied} zones in steps, {cleaned} times at once",
        calls.refused.len()
    );
    let first = calls.refused.first();
    assert_eq!(first, None, "{ground:?}: {} of {number} calls were refused", calls.refused.len());
    calls
}

#[test]
fn no_task_is_refused_while_a_tenth_of_the_pool_is_free() {
    let seeds = numbers("WEIR_CREST_SEEDS", &[0, 1]);
    let left = numbers("WEIR_CREST_LEFT", &[100, 50, 20]);
    let of_pool = |mib: u64| left.iter().map(move |left| (mib, *left));
    for (mib, left) in numbers("WEIR_CREST_MIB", &[24]).into_iter().flat_map(of_pool) {
        for seed in seeds[0]..seeds[1] {
            let calls = assert_none_refused(Ground::wrapping(mib, SEED + seed, left));
            let emptied = calls.emptied + calls.cleaned;
            assert!(emptied > 40, "{mib} MiB, {left} % left: the log has not passed its end");
        }
    }
}

/// The options of a log that is cleaned by the call that finds it full.
const AT_ONCE: Given<'_> = &[("shards", "4"), ("without", "steps")];

#[test]
fn no_task_is_refused_while_another_cleans_all_of_the_log() {
    let ground = Ground { given: AT_ONCE, ..Ground::wrapping(8, SEED, 60) };
    let calls = assert_none_refused(ground);
    assert!(calls.cleaned > 1, "all of the log was cleaned {} times", calls.cleaned);
}

/// Canary: calls that find no room and do not clean.
#[test]
fn calls_that_are_refused_without_cleaning_are_found() {
    let ground = Ground { given: AT_ONCE, ..Ground::wrapping(8, SEED, 60) };
    let calls = ran(ground, Some(mutant::REFUSED_UNCLEANED));
    println!("{} of {} calls were refused", calls.refused.len(), calls.number);
    assert!(!calls.refused.is_empty(), "{ground:?}");
}

#[test]
fn no_thread_is_refused_while_a_tenth_of_the_pool_is_free() {
    for given in [AT_ONCE, &AT_ONCE[..1]] {
        assert_none_refused(Ground { is_virtual: false, given, ..Ground::wrapping(8, SEED, 60) });
    }
}

/// Two or three tasks at once that each need the room that cleaning gains.
const SCENARIOS: [&str; 4] = [
    "worn: create | create-below",
    "worn: append | create; create-below",
    "worn: push | unlink; create | mkdir",
    "worn: chmod | create",
];

/// What the schedules of scenarios show on a small instance, in which no call may be refused.
fn explored(more: Given<'_>, bug: Option<Mutant>, names: &[&str], schedules: u64) -> Vec<Tally> {
    let given = [CrestDesign.checking().tiny, more].concat();
    let arguments: Vec<_> = given.iter().map(|(name, value)| format!("-O {name}={value}")).collect();
    let design = Arc::new(Configured::new(&CrestDesign, options(&given, bug), arguments.join(" ")));
    let scenarios: Vec<_> = names.iter().map(|name| Scenario::named(name).expect("actions")).collect();
    let effort = Effort { seed: SEED, schedules: 0..schedules, limits: Limits::of(1) };
    explore(&design, &scenarios, &effort, &|| ())
}

#[test]
fn of_tasks_that_find_a_full_log_none_is_refused() {
    for (more, schedules) in [(&AT_ONCE[1..], 40), (&[], 10)] {
        for tally in explored(more, None, &SCENARIOS, schedules) {
            println!(
                "{}: {} interleavings, {} outcomes",
                tally.scenario, tally.interleavings, tally.outcomes
            );
            if let Some(failure) = tally.failure {
                panic!("seed {SEED}, {more:?}: {}: {failure}", tally.scenario);
            }
        }
    }
}

/// Canary: a task that is refused while another cleans is found by its scenario.
#[test]
fn a_schedule_with_a_task_that_is_refused_while_another_cleans_is_found() {
    let (bug, more) = (mutant::REFUSED_WHILE_CLEANING, &AT_ONCE[1..]);
    let tally = explored(more, Some(bug), bug.scenarios(), 100).remove(0);
    let failure = tally.failure.expect("it is found");
    println!("found after {} schedules: {failure}", tally.schedules);
    let sound = explored(more, None, bug.scenarios(), tally.schedules);
    assert!(sound.iter().all(|tally| tally.failure.is_none()), "{:?}", sound[0].failure);
}
