//! Files and directories that tasks share, from the first change on.

use std::collections::BTreeSet;
use std::sync::Arc;

use check::schedules::{Effort, Scenario, explore};
use check::tree::difference;
use check::{Limits, NEW, observe};
use media::Storage;
use sim::{Bytes, Machine, Nanos, Schedule, Seed, Setup, TaskSpec};
use vfs::{IoFlags, RenameFlags};

use crate::shared::harness::{self, tiny};

const SEED: u64 = 20_261_128;

fn assert_linearizable(names: &[&str], schedules: u64) {
    let crest = tiny("crest");
    let scenarios: Vec<_> = names.iter().map(|name| Scenario::named(name).expect("actions")).collect();
    let effort = Effort { seed: SEED, schedules: 0..schedules, limits: Limits::of(2) };
    for tally in explore(&crest, &scenarios, &effort, &|| ()) {
        if let Some(failure) = tally.failure {
            panic!("seed {SEED}: {}: {failure}", tally.scenario);
        }
        println!("{}: {} interleavings, {} outcomes", tally.scenario, tally.interleavings, tally.outcomes);
        assert!(tally.interleavings > schedules / 4, "{}: tasks switch", tally.scenario);
    }
}

#[test]
fn a_read_of_two_blocks_sees_each_of_two_overwrites_whole() {
    assert_linearizable(&["write | write | read", "write; read | write; read"], 300);
}

#[test]
fn an_overwrite_beside_a_truncation_comes_before_or_after_it() {
    assert_linearizable(&["write | cut | read", "write; write | cut", "write | grow; read"], 300);
}

#[test]
fn a_name_that_is_made_and_removed_at_once_is_there_or_not() {
    assert_linearizable(&["create | create", "rename-back | unlink", "rename-over | unlink; link"], 300);
}

#[test]
fn no_name_is_made_in_a_directory_that_is_removed() {
    assert_linearizable(&["create-below | rmdir", "create-below | rmdir | list"], 300);
}

#[test]
fn renames_that_cross_keep_every_name() {
    assert_linearizable(
        &[
            "rename-away | rename-back",
            "exchange | rename-away",
            "exchange | rename-back; exchange",
            "rename | rename-over",
        ],
        300,
    );
}

#[test]
fn a_listing_shows_the_names_of_one_moment() {
    assert_linearizable(
        &["create; unlink | list; list", "rename | list", "rename-away | rename-back | list"],
        300,
    );
}

/// Tasks on four cores overwrite blocks of one file and make names in one directory, in turns, so that both are shared soon; then
/// the times are those of the last changes, and a mount finds the same.
#[test]
fn what_tasks_did_to_a_shared_inode_is_seen_by_a_stat_and_by_the_next_mount() {
    let setup = Setup::virtual_clock(Machine { cores_per_socket: 4, ..Machine::unit() }, Seed(SEED));
    sim::run(&setup, || {
        let region = harness::region(Bytes::mib(8));
        let crest = fs::by_name("crest").expect("crest is a design");
        let options = harness::options(crest, &[]);
        let storage = Storage::from(&region);
        crest.format().mkfs(&storage, &options).expect("mkfs");
        let mount = || crest.mount(&storage, &options).expect("mount");
        let fs = mount();
        let (root, none) = (fs.root(), IoFlags::empty());
        let file = fs.create(root, b"file", &NEW).expect("it is made").ino;
        fs.write(file, 0, &vec![1; 40 * 4096], none).expect("it is written");
        let mut last = fs.getattr(file).expect("it is there").mtime;
        for round in 0..40_u64 {
            let other = Arc::clone(&fs);
            let task = move || {
                sim::sleep(Nanos(1_000));
                other.write(file, round * 4096, &[round as u8; 4096], none).expect("it is overwritten");
                other.create(root, format!("name {round}").as_bytes(), &NEW).expect("it is made");
            };
            sim::spawn(TaskSpec::named("writer").on_core((round % 4) as u16), task).join();
            if round % 13 == 12 {
                let attr = fs.getattr(file).expect("it is there");
                assert!(attr.mtime > last && attr.mtime == attr.ctime, "round {round}: {attr:?}");
                last = attr.mtime;
                assert!(fs.getattr(root).expect("it is there").mtime > last, "round {round}");
            }
        }
        let tree = observe(&*fs).expect("a sound tree");
        fs.unmount().expect("unmount");
        assert_eq!(crest.format().fsck(&storage).violations, []);
        assert_eq!(difference(&observe(&*mount()).expect("a sound tree"), &tree), None);
    })
    .expect("the run ends");
}

/// Lookups of one task beside a rename: enough that some come while it is under way.
const PAIRS: u32 = 40;

/// A renamed file is found under the old or the new name by a task that looks for the old one first.
#[test]
fn a_lookup_that_misses_the_old_name_is_followed_by_one_that_finds_the_new() {
    let looked = || {
        let region = harness::region(Bytes::mib(1));
        let crest = fs::by_name("crest").expect("crest is a design");
        let options = harness::options(crest, harness::checking("crest").tiny);
        let storage = Storage::from(&region);
        crest.format().mkfs(&storage, &options).expect("mkfs");
        let fs = crest.mount(&storage, &options).expect("mount");
        let root = fs.root();
        fs.create(root, b"old", &NEW).expect("it is made");
        let other = Arc::clone(&fs);
        let rename = move || {
            other.rename((root, b"old"), (root, b"new"), RenameFlags::empty().into()).expect("it is renamed");
        };
        let rename = sim::spawn(TaskSpec::named("rename").on_core(0), rename);
        let pair = move |_| (fs.lookup(root, b"old").is_ok(), fs.lookup(root, b"new").is_ok());
        let lookups = move || (0..PAIRS).map(pair).collect::<BTreeSet<_>>();
        let looked = sim::spawn(TaskSpec::named("lookup").on_core(1), lookups).join();
        rename.join();
        looked
    };
    let mut seen = BTreeSet::new();
    // One preemption, so that the rename is stopped between the two names before a lookup waits for the file.
    let schedule = Schedule::Pct { depth: 2, length: 150 };
    for seed in SEED..SEED + 1000 {
        let setup = Setup::virtual_clock(Machine::unit(), Seed(seed));
        let (looked, _) = sim::explore(&setup, &schedule, looked);
        seen.append(&mut looked.expect("the run ends"));
        assert!(!seen.contains(&(false, false)), "seed {seed}: neither name was there");
    }
    assert!(seen.len() > 1, "{seen:?}");
}
