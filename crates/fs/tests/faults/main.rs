//! Failures of every access of operations, on every design that is ready for it.
//!
//! A failure prints program, kind and number of the access. `WEIR_FAULTS_PROGRAM=words` tries all programs whose names contain the
//! words, where otherwise every sixth is tried, and none that loads whole nodes of trees word by word; `weir check faults` tries
//! them all.

#![allow(unreachable_pub)] // what the test binaries share is not a library

#[path = "../shared/harness.rs"]
mod harness;
mod regressions;

use std::sync::Arc;

use check::Limits;
use check::canary::{Flaw, flawed};
use check::crash::Subject;
use check::crash::programs::{self, Program};
use check::faults::{Kind, Outcome, Tally, fail_many, fail_operations};
use harness::{mutant, promises, with_mutant, with_options};
use media::recorder::Mode;
use sim::Bytes;

const SEED: u64 = 20_261_122;
const PMFS: &[(&str, &str)] = &[("jsize", "64k")];
const HINFS: &[(&str, &str)] =
    &[("jsize", "64k"), ("buffer", "64k"), ("medium_write", "200ns"), ("writeback_tasks", "1")];

const EXT4: &[(&str, &str)] =
    &[("cache", "256k"), ("block_size", "1k"), ("journal", "1MiB"), ("lost_found", "false")];
const EXT2: &[(&str, &str)] = &[("cache", "256k"), ("block_size", "1k"), ("lost_found", "false")];

/// Programs with thousands of loads.
const LONG: [&str; 3] = ["truncate", "tree", "rename over"];

fn subject(name: &str, options: &[(&str, &str)]) -> Subject {
    Subject {
        design: with_options(name, options),
        size: Bytes::mib(1),
        promises: promises(name, options),
        mode: Mode::Adr,
    }
}

fn named(name: &str) -> Program {
    programs::all().into_iter().find(|program| program.name == name).expect("a program")
}

fn fail(subject: &Subject, first: usize) -> Tally {
    let chosen: Vec<Program> = match std::env::var("WEIR_FAULTS_PROGRAM") {
        Ok(words) => programs::all().into_iter().filter(|program| program.name.contains(&words)).collect(),
        Err(_) => {
            let long = |program: &Program| LONG.iter().any(|words| program.name.contains(words));
            let short = programs::all().into_iter().filter(|program| !long(program));
            short.skip(first).step_by(6).collect()
        }
    };
    fail_programs(subject, &chosen)
}

fn fail_programs(subject: &Subject, chosen: &[Program]) -> Tally {
    let began = std::time::Instant::now();
    let tally = fail_many(subject, chosen, (SEED, &Limits::default()), &|_| ());
    println!(
        "{subject}, seed {SEED}: {} programs, {} failures {:?}, {:?}, {} violations, {:.1} s",
        tally.programs,
        tally.failures(),
        tally.injected,
        tally.outcomes,
        tally.violations.len(),
        began.elapsed().as_secs_f64()
    );
    tally.violations.iter().take(20).for_each(|violation| println!("  {violation}"));
    tally
}

#[test]
fn every_failure_in_pmfs_is_answered_and_undone_or_ends_all_changes() {
    let tally = fail(&subject("pmfs", PMFS), 0);
    assert_eq!(tally.violations, []);
    // Only requests to a block device are torn.
    assert!(
        Kind::ALL.iter().all(|kind| *kind == Kind::Torn || tally.injected.contains_key(kind)),
        "{:?}",
        tally.injected
    );
    for outcome in [Outcome::Absorbed, Outcome::Undone, Outcome::Stopped, Outcome::MountedLater] {
        assert!(tally.outcomes.contains_key(&outcome), "{:?}", tally.outcomes);
    }
}

#[test]
fn every_failure_of_a_request_to_a_block_device_is_answered_and_undone_or_ends_all_changes() {
    for (name, options) in [("ext4", EXT4), ("ext2", EXT2)] {
        let subject = Subject { size: Bytes::mib(2), ..subject(name, options) };
        let tally = fail(&subject, 1);
        assert_eq!(tally.violations, []);
        assert!(Kind::ALL.iter().all(|kind| tally.injected.contains_key(kind)), "{:?}", tally.injected);
    }
}

#[test]
fn every_failure_of_memory_that_holds_blocks_is_answered_and_undone_or_ends_all_changes() {
    let options = &[("cache", "256k"), ("journal", "4MiB"), ("lost_found", "false")];
    let subject = Subject { size: Bytes::kib(5500), ..subject("ext4-dax", options) };
    // A mount looks at each line of the log, so there are many lines to poison: few programs.
    let tally = fail_programs(
        &subject,
        &["append a block", "unlink", "rename foo bar", "rename over itself"].map(named),
    );
    assert_eq!(tally.violations, []);
}

#[test]
fn every_failure_in_hinfs_and_its_write_back_is_answered_and_undone_or_ends_all_changes() {
    assert_eq!(fail(&subject("hinfs", HINFS), 2).violations, []);
}

#[test]
fn every_failure_in_a_hinfs_mounted_sync_is_answered_and_undone_or_ends_all_changes() {
    let options: Vec<_> = HINFS.iter().copied().chain([("sync", "true")]).collect();
    assert_eq!(fail(&subject("hinfs", &options), 4).violations, []);
}

#[test]
fn every_failure_of_a_change_of_a_large_attribute_is_answered_and_undone_or_ends_all_changes() {
    for (name, options) in [("pmfs", PMFS), ("hinfs", HINFS), ("nova", &[("shards", "1")])] {
        let tally = fail_programs(&subject(name, options), &programs::large_attributes());
        assert_eq!(tally.violations, []);
    }
}

#[test]
fn a_design_that_hides_failures_is_found() {
    let honest = subject("pmfs", PMFS);
    let lying =
        Subject { design: flawed(Arc::clone(&honest.design), Flaw::HiddenFailures), ..honest.clone() };
    for name in ["unlink", "rename foo bar", "rmdir A", "write 4097 new"] {
        let found = fail_operations(&lying, &named(name), SEED).violations;
        assert!(found.iter().any(|violation| violation.what.contains("but")), "{name}: {found:?}");
        assert_eq!(fail_operations(&honest, &named(name), SEED).violations, [], "{name}");
    }
}

#[test]
fn a_design_that_does_not_roll_back_is_found() {
    for (name, options) in [("pmfs", PMFS), ("hinfs", HINFS)] {
        let design = with_mutant(name, options, mutant(name, "rollback-left-out"));
        let subject = Subject { design, ..subject(name, options) };
        assert_ne!(fail_operations(&subject, &named("mkdir A"), SEED).violations, [], "{name}");
    }
}
