//! Tasks that clean one log in steps at the same time: the names that they leave are those of a model, before and after a crash.
//!
//! `WEIR_CREST_SEEDS=0,20` runs these seeds of each pool, and `WEIR_CREST_MIB=16,64` pools of these sizes;
//! `WEIR_CREST_SCHEDULES=100` explores so many schedules.

use std::collections::BTreeSet;
use std::sync::Arc;

use check::schedules::{Effort, Scenario, Tally, explore};
use check::{Configured, Limits, NEW};
use crest::design::CrestDesign;
use crest::format::mutant;
use design::Mutant;
use media::nvmm::Region;
use rand::RngExt;
use sim::{Bytes, Rng, Seed, Setup, TaskSpec};
use vfs::{Errno, FileSystem, Ino, IoFlags, Renaming, SetAttr};

use crate::support::{
    assert_sound, copy_of, counted, machine, made, mounted, names_in, numbers, options, region,
};

const SEED: u64 = 20_261_130;
/// Names that a task uses; and where most zones have data.
const NAMES: u64 = 200;
const FEW_NAMES: u64 = 24;

type Names = BTreeSet<Vec<u8>>;

/// A pool, and who works in it.
#[derive(Clone, Copy, Debug)]
struct Ground {
    mib: u64,
    tasks: u16,
    seed: u64,
    /// Whether all tasks make the same calls, so that they want zones at the same time.
    alike: bool,
    /// Zones for each task that a file with data leaves, so that cleaning in steps does not always keep ahead; none: there is no such file.
    left: Option<u64>,
}

/// What was counted: zones that were emptied in steps, runs of the cleaner of all logs.
type Counted = (u64, u64);

impl Ground {
    fn name(&self, rng: &mut Rng) -> Vec<u8> {
        let names = if self.left.is_some() { FEW_NAMES } else { NAMES };
        format!("name {}", rng.random_range(0..names)).into_bytes()
    }

    /// Lines that a task writes in a life.
    fn lines(&self) -> u64 {
        let lines = (self.mib << 20) / 64 / u64::from(self.tasks);
        if self.left.is_some() { lines / 4 } else { lines * 5 / 4 }
    }
}

/// A call in a directory, of which `there` are the names; the lines that it has written, at least.
fn call(
    ground: Ground,
    fs: &dyn FileSystem,
    dir: Ino,
    rng: &mut Rng,
    there: &mut Names,
) -> Result<u64, Errno> {
    let from = ground.name(rng);
    match (rng.random_range(0..8), there.contains(&from)) {
        (0, true) => {
            let file = fs.lookup(dir, &from)?.ino;
            fs.write(file, 0, &[2; 4096], IoFlags::empty())?;
            Ok(1)
        }
        (1, true) => {
            let (file, size) = (fs.lookup(dir, &from)?.ino, Some(rng.random_range(0..4096)));
            fs.setattr(file, &SetAttr { size, ..SetAttr::default() })?;
            Ok(1)
        }
        (2, true) => {
            let to = ground.name(rng);
            fs.rename((dir, &from), (dir, &to), Renaming::default())?;
            there.remove(&from);
            there.insert(to);
            Ok(2)
        }
        (_, true) => {
            fs.unlink(dir, &from)?;
            there.remove(&from);
            Ok(1)
        }
        (_, false) => {
            fs.create(dir, &from, &NEW)?;
            there.insert(from);
            Ok(2)
        }
    }
}

/// Calls of a task in its directory until it has written so many lines. A call that is refused changes nothing.
fn churn(ground: Ground, fs: &dyn FileSystem, task: u16, rng: &mut Rng, there: &mut Names) -> Counted {
    let dir = fs.lookup(fs.root(), format!("{task}").as_bytes()).expect("its directory").ino;
    let mut written = 0;
    let mut next_fill = ground.lines() / 8;
    while written < ground.lines() {
        if let Some(left) = ground.left.filter(|_| task == 0 && written >= next_fill) {
            fill(ground, left, fs);
            next_fill += ground.lines() / 8;
        }
        written += match call(ground, fs, dir, rng, there) {
            Ok(lines) => lines,
            Err(Errno::ENOSPC) => 1,
            Err(error) => panic!("task {task}: {error}"),
        };
    }
    (counted("crest.emptied"), counted("crest.cleaned"))
}

/// Gives a file all blocks that data may take, and takes those of some zones for each task back.
fn fill(ground: Ground, zones: u64, fs: &dyn FileSystem) {
    let file = fs.lookup(fs.root(), b"data").expect("the file with data").ino;
    let (data, mut at) = (vec![1; 1 << 14], fs.getattr(file).expect("a file").size);
    while fs.write(file, at, &data, IoFlags::empty()).is_ok() {
        at += data.len() as u64;
    }
    let zone = ((ground.mib << 20) / 256).max(1 << 14);
    let size = Some(at - u64::from(ground.tasks) * zones * zone);
    fs.setattr(file, &SetAttr { size, ..SetAttr::default() }).expect("a truncation");
}

/// The first directory whose names are not those that its task has left.
fn difference(fs: &dyn FileSystem, left: &[Names]) -> Option<String> {
    left.iter().enumerate().find_map(|(task, names)| {
        let dir = fs.lookup(fs.root(), format!("{task}").as_bytes()).ok()?.ino;
        let seen = names_in(fs, dir);
        let texts = |names: Vec<&Vec<u8>>| {
            names.into_iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect::<Vec<_>>()
        };
        let back = texts(seen.difference(names).collect());
        let lost = texts(names.difference(&seen).collect());
        (seen != *names)
            .then(|| format!("directory {task}: names that are back: {back:?}, and lost: {lost:?}"))
    })
}

/// Two lives of a pool, each with a crash at its end, in which the tasks write more lines than it has: what is wrong then.
fn lives(ground: Ground, bug: Option<Mutant>) -> (Option<String>, Counted) {
    let Ground { mib, tasks, seed, alike, left: zones } = ground;
    let options = options(&[("shards", &tasks.to_string())], bug);
    let mut at: Arc<Region> = region(Bytes::mib(mib));
    let mut fs = made(&at, &options);
    for task in 0..tasks {
        fs.mkdir(fs.root(), format!("{task}").as_bytes(), &NEW).expect("room");
    }
    if let Some(zones) = zones {
        fs.create(fs.root(), b"data", &NEW).expect("room");
        fill(ground, zones, &*fs);
    }
    let (mut left, mut all) = (vec![Names::new(); usize::from(tasks)], (0, 0));
    for life in 0..2 {
        let spawn = |(task, mut there): (u16, Names)| {
            let fs = Arc::clone(&fs);
            let number = if alike { 0 } else { u64::from(task) };
            let mut rng = Seed(seed + life).derive("task", number).rng();
            sim::spawn(TaskSpec::named(format!("task {task}")).on_core(task), move || {
                let counted = churn(ground, &*fs, task, &mut rng, &mut there);
                (there, counted)
            })
        };
        let spawned: Vec<_> = (0..tasks).zip(std::mem::take(&mut left)).map(spawn).collect();
        for (there, (emptied, cleaned)) in spawned.into_iter().map(sim::JoinHandle::join) {
            left.push(there);
            all = (all.0 + emptied, all.1 + cleaned);
        }
        let before = difference(&*fs, &left);
        at = copy_of(&at);
        assert_sound(&at);
        fs = mounted(&at, &options);
        if let Some(wrong) = before.or_else(|| difference(&*fs, &left)) {
            return (Some(format!("life {life}: {wrong}")), all);
        }
    }
    (None, all)
}

fn outcome(ground: Ground, bug: Option<Mutant>) -> (Option<String>, Counted) {
    let run =
        sim::run(&Setup::virtual_clock(machine(ground.tasks), Seed(ground.seed)), move || lives(ground, bug));
    run.unwrap_or_else(|error| (Some(error.to_string()), (0, 0)))
}

#[test]
fn tasks_that_clean_at_the_same_time_leave_the_names_of_a_model() {
    let seeds = numbers("WEIR_CREST_SEEDS", &[0, 1]);
    let ways = [(4, None), (8, None), (4, Some(3)), (4, Some(5)), (8, Some(4))];
    for mib in numbers("WEIR_CREST_MIB", &[4]) {
        // Where a pool is large, cleaning all of its log again and again takes long.
        for (tasks, left) in ways.into_iter().filter(|way| mib < 16 || way.1.is_none()) {
            for seed in SEED + seeds[0]..SEED + seeds[1] {
                let ground = Ground { mib, tasks, seed, alike: seed % 2 == 0, left };
                // With all rules, debug builds survey the whole log now and then.
                let bug = (seed > SEED).then_some(mutant::CUTS_NEVER_DIE);
                let (wrong, (emptied, cleaned)) = outcome(ground, bug);
                println!("{ground:?}: {emptied} zones in steps, {cleaned} times at once");
                assert_eq!(wrong, None, "{ground:?}");
                assert!(emptied > 40, "{ground:?}: only {emptied} zones");
                assert!(left.is_none() || cleaned > 0, "{ground:?}: not once");
            }
        }
    }
}

/// What a bug does in the first of some pools that show it.
fn shown(bug: Mutant, grounds: impl Iterator<Item = Ground>) -> Option<(Ground, String)> {
    let mut tried = grounds.map(|ground| (ground, outcome(ground, Some(bug)).0));
    tried.find_map(|(ground, wrong)| Some((ground, wrong?)))
}

/// Canary: a shard that takes a zone from a list that is older than its claim empties one that another has freed, and frees it under
/// records that are written there then: names that they remove are back.
#[test]
fn a_zone_that_another_shard_has_freed_is_not_emptied() {
    let grounds = (SEED..SEED + 40).map(|seed| Ground { mib: 2, tasks: 4, seed, alike: true, left: None });
    let (ground, wrong) = shown(mutant::VICTIM_OF_OLD_LIST, grounds).expect("it is found");
    println!("{ground:?}: {wrong}");
    assert_eq!(outcome(ground, None).0, None);
}

/// Canary: a step that goes on when all logs were cleaned at once.
#[test]
fn a_step_ends_where_all_logs_were_cleaned_at_once() {
    let grounds = (SEED..SEED + 40).map(|seed| Ground { mib: 2, tasks: 4, seed, alike: true, left: Some(4) });
    let (ground, wrong) = shown(mutant::STEP_BESIDE_CLEANER, grounds).expect("it is found");
    println!("{ground:?}: {wrong}");
    assert_eq!(outcome(ground, None).0, None);
}

/// Scenarios on a pool whose log has passed its end.
const WORN: [&str; 3] = ["worn: churn | churn", "worn: churn | rename-over", "worn: churn | cut"];

/// What the schedules of these scenarios show, with a switch of tasks after any store, flush or fence.
fn explored(bug: Option<Mutant>, schedules: u64) -> Vec<Tally> {
    let options = options(&[("shards", "2")], bug);
    let design = Arc::new(Configured::new(&CrestDesign, options, "-O shards=2".to_owned()));
    let scenarios: Vec<_> = WORN.iter().map(|name| Scenario::named(name).expect("actions")).collect();
    let effort = Effort { seed: SEED, schedules: 0..schedules, limits: Limits::of(1) };
    explore(&design, &scenarios, &effort, &|| ())
}

#[test]
fn schedules_of_tasks_that_clean_at_the_same_time_lose_nothing() {
    let schedules = numbers("WEIR_CREST_SCHEDULES", &[8])[0];
    for tally in explored(None, schedules) {
        println!("{}: {} interleavings, {} outcomes", tally.scenario, tally.interleavings, tally.outcomes);
        if let Some(failure) = tally.failure {
            panic!("seed {SEED}: {}: {failure}", tally.scenario);
        }
    }
}
