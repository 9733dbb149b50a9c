//! Several tasks at once: every call is atomic, no task waits for ever.

use std::sync::Arc;

use check::Limits;
use check::configured::region;
use check::schedules::{Effort, Scenario, explore, pairs};
use sim::schedule::{Schedule, Switch};
use sim::{Bytes, Machine, Nanos, Seed, Setup, TaskSpec};
use vfs::{IoFlags, NewInode, OpenFlags, Owner};

use crate::harness::{SEED, small};

#[test]
fn every_pair_of_actions_is_linearizable() {
    let schedules = std::env::var("WEIR_SCHEDULES").ok().and_then(|count| count.parse().ok()).unwrap_or(2);
    let effort = Effort { seed: SEED, schedules: 0..schedules, limits: Limits::of(2) };
    let tallies = explore(&small(None), &pairs(), &effort, &|| ());
    let failed: Vec<_> = tallies.iter().filter(|tally| tally.failure.is_some()).collect();
    for tally in failed.iter().take(3) {
        println!(
            "{}: {}",
            tally.scenario,
            tally.failure.as_ref().map(ToString::to_string).unwrap_or_default()
        );
    }
    println!(
        "{} scenarios, {} interleavings",
        tallies.len(),
        tallies.iter().map(|tally| tally.interleavings).sum::<u64>()
    );
    assert!(failed.is_empty(), "{} of {} failed", failed.len(), tallies.len());
}

/// A CREATE whose number was drawn before its place had been taken was lost at the next mount, where an UNLINK of a larger number had
/// freed the place in between.
#[test]
fn a_name_that_is_made_beside_a_removal_is_there_after_a_mount() {
    let makes = ["create", "create-below", "mkdir", "symlink", "link", "rename"];
    let pairs = makes.iter().flat_map(|make| ["unlink", "rmdir"].map(|remove| format!("{make} | {remove}")));
    let scenarios: Vec<Scenario> = pairs.map(|name| Scenario::named(&name).unwrap()).collect();
    let effort = Effort { seed: SEED, schedules: 0..300, limits: Limits::of(2) };
    for tally in explore(&small(None), &scenarios, &effort, &|| ()) {
        let failure = tally.failure.as_ref().map(ToString::to_string);
        assert_eq!(failure, None, "{}", tally.scenario);
    }
}

/// A file without a name is closed, and from a point of that on another task opens it, which has looked it up before. Whether
/// that task could use what it has opened, with the free blocks at the end, and the points of the run.
fn opened_beside_the_last_close(point: u64) -> ((bool, u64), u64) {
    let setup = Setup::virtual_clock(Machine::unit(), Seed(SEED));
    let schedule = Schedule::Directed(vec![Switch { point, to: 1 }]);
    let (done, order) = sim::explore(&setup, &schedule, || {
        let (design, region) = (small(None), region(Bytes::kib(256)));
        design.mkfs(&region).expect("mkfs");
        let fs = design.mount(&region).expect("mount");
        let new = NewInode { perm: 0o644, owner: Owner { uid: 0, gid: 0 } };
        let ino = fs.create(fs.root(), b"a", &new).expect("space").ino;
        fs.open(ino, OpenFlags::WRITE).expect("open");
        fs.write(ino, 0, &[1; 5000], IoFlags::empty()).expect("space");
        fs.unlink(fs.root(), b"a").expect("it goes");
        let beside = Arc::clone(&fs);
        let other = sim::spawn(TaskSpec::named("other"), move || {
            if beside.open(ino, OpenFlags::WRITE).is_err() {
                return true;
            }
            sim::sleep(Nanos::from_secs(1));
            let written = beside.write(ino, 5000, &[2; 5000], IoFlags::empty());
            beside.release(ino);
            written.is_ok()
        });
        fs.release(ino);
        (other.join(), fs.statfs().expect("statfs").blocks_free)
    });
    (done.expect("the run ends"), order.points)
}

/// A close that was the last one asks again once it has the lock.
#[test]
fn a_file_that_is_opened_beside_its_last_close_stays_while_it_is_open() {
    let ((is_used, free), points) = opened_beside_the_last_close(u64::MAX);
    assert!(is_used);
    for point in 1..=points {
        let found = opened_beside_the_last_close(point).0;
        assert_eq!(found, (true, free), "another task goes on at point {point}");
    }
}
