//! Tasks that want room at once, on pools whose logs are full of records that are dead: none is refused while there is some.

use std::sync::Arc;

use check::schedules::{Effort, Scenario, Tally, explore};
use check::{Configured, Limits, NEW};
use fs::crest::format::mutant;
use media::nvmm::Region;
use media::{Medium, Storage};
use sim::{Bytes, Machine, Seed, Setup, TaskSpec};
use vfs::{Errno, FileSystem, IoFlags};

use crate::shared::harness::{self, tiny, with_mutant, with_options};

const SEED: u64 = 20_261_129;
const WRITERS: u16 = 3;
const CHURNERS: u16 = 4;

/// Calls of each kind that a run makes.
#[derive(Clone, Copy)]
struct Share {
    /// Bytes of the file that a writer writes anew.
    file: usize,
    /// How often it does.
    writes: usize,
    /// Files that each of the others makes and removes.
    pairs: usize,
}

/// What was refused although more than a tenth of the blocks was free, with the free blocks and all.
type Refused = (Errno, u64, u64);

/// Judges a call, which may be refused only while hardly anything is free.
fn judge<T>(fs: &dyn FileSystem, done: &vfs::Result<T>, refused: &mut Vec<Refused>) {
    if let &Err(errno) = done {
        let space = fs.statfs().expect("statfs");
        if errno != Errno::ENOSPC || space.blocks_free * 10 > space.blocks {
            refused.push((errno, space.blocks_free, space.blocks));
        }
    }
}

/// Writers beside tasks that make and remove files; what was refused. The pool is sound afterwards.
fn writers_beside_churn(region: &Arc<Region>, share: Share) -> Vec<Refused> {
    let crest = super::mount::crest();
    let (storage, options) = (Storage::from(region), harness::options(crest, &[("shards", "4")]));
    crest.format().mkfs(&storage, &options).expect("mkfs");
    let fs = crest.mount(&storage, &options).expect("mount");
    let root = fs.root();
    let writer = |task: u16| {
        let (fs, data) = (Arc::clone(&fs), vec![task as u8; share.file]);
        move || {
            let mut refused = Vec::new();
            let file = fs.create(root, format!("file {task}").as_bytes(), &NEW).expect("an empty pool").ino;
            for _ in 0..share.writes {
                judge(&*fs, &fs.write(file, 0, &data, IoFlags::empty()), &mut refused);
            }
            refused
        }
    };
    let churner = |task: u16| {
        let fs = Arc::clone(&fs);
        move || {
            let mut refused = Vec::new();
            let name = format!("churn {task}");
            for _ in 0..share.pairs {
                judge(&*fs, &fs.create(root, name.as_bytes(), &NEW), &mut refused);
                judge(&*fs, &fs.unlink(root, name.as_bytes()), &mut refused);
            }
            refused
        }
    };
    let spawn = |task: u16| {
        let spec = TaskSpec::named(format!("task {task}")).on_core(task);
        if task < WRITERS { sim::spawn(spec, writer(task)) } else { sim::spawn(spec, churner(task)) }
    };
    let tasks: Vec<_> = (0..WRITERS + CHURNERS).map(spawn).collect();
    let refused = tasks.into_iter().flat_map(sim::JoinHandle::join).collect();
    fs.unmount().expect("unmount");
    assert_eq!(crest.format().fsck(&storage).violations, []);
    refused
}

fn machine() -> Machine {
    Machine { cores_per_socket: WRITERS + CHURNERS, ..Machine::unit() }
}

/// What is refused under the virtual clock.
fn refused_in_turn(seed: u64) -> Vec<Refused> {
    let setup = Setup::virtual_clock(machine(), Seed(seed));
    let refused = sim::run(&setup, || {
        let medium = Medium::named("optane.100x6").and_then(|medium| medium.build()).expect("a preset");
        let region = Arc::new(Region::anonymous(Bytes::mib(4), medium).expect("memory"));
        writers_beside_churn(&region, Share { file: 256 << 10, writes: 40, pairs: 5_000 })
    });
    refused.expect("the run ends")
}

#[test]
fn no_task_is_refused_while_another_cleans_and_a_tenth_is_free() {
    for seed in SEED..SEED + 3 {
        assert_eq!(refused_in_turn(seed), [], "seed {seed}");
    }
}

#[test]
fn no_thread_is_refused_while_another_cleans_and_a_tenth_is_free() {
    let refused = sim::run(&Setup::real_clock(machine(), Seed(SEED)), || {
        let region = harness::region(Bytes::mib(8));
        writers_beside_churn(&region, Share { file: 512 << 10, writes: 60, pairs: 12_000 })
    });
    assert_eq!(refused.expect("the run ends"), []);
}

/// Two or three tasks at once that each need the room that cleaning gains.
const SCENARIOS: [&str; 4] = [
    "worn: create | create-below",
    "worn: append | create; create-below",
    "worn: push | unlink; create | mkdir",
    "worn: chmod | create",
];

fn explored(design: &Arc<Configured>, names: &[&str], schedules: u64) -> Vec<Tally> {
    let scenarios: Vec<_> = names.iter().map(|name| Scenario::named(name).expect("actions")).collect();
    let effort = Effort { seed: SEED, schedules: 0..schedules, limits: Limits::of(2) };
    explore(design, &scenarios, &effort, &|| ())
}

/// The options of a log that is cleaned by the call that finds it full.
fn at_once() -> Vec<(&'static str, &'static str)> {
    [harness::checking("crest").tiny, &[("without", "steps")]].concat()
}

fn assert_none_is_refused(design: &Arc<Configured>, schedules: u64) {
    for tally in explored(design, &SCENARIOS, schedules) {
        println!("{}: {} interleavings, {} outcomes", tally.scenario, tally.interleavings, tally.outcomes);
        if let Some(failure) = tally.failure {
            panic!("seed {SEED}: {}: {failure}", tally.scenario);
        }
    }
}

#[test]
fn of_tasks_that_find_a_full_log_none_is_refused() {
    assert_none_is_refused(&with_options("crest", &at_once()), 40);
}

#[test]
fn of_tasks_that_clean_a_log_in_steps_none_is_refused() {
    assert_none_is_refused(&tiny("crest"), 10);
}

/// Canary: a task that is refused while another cleans is found by its scenario.
#[test]
fn a_task_that_is_refused_while_another_cleans_is_found() {
    let bug = mutant::REFUSED_WHILE_CLEANING;
    let design = with_mutant("crest", &at_once(), bug);
    let tally = explored(&design, bug.scenarios(), 100).remove(0);
    let failure = tally.failure.expect("it is found");
    println!("found after {} schedules: {failure}", tally.schedules);
    let sound = explored(&with_options("crest", &at_once()), bug.scenarios(), tally.schedules);
    assert!(sound.iter().all(|tally| tally.failure.is_none()), "{:?}", sound[0].failure);
}
