//! Failures of every access of every operation, on every design that is ready for it.
//!
//! A failure prints program, kind and number of the access. `WEIR_FAULTS_PROGRAM=words` tries only the programs whose names contain
//! the words.

#![allow(unreachable_pub)] // what the test binaries share is not a library

#[path = "../shared/harness.rs"]
mod harness;

use check::crash::programs::{self, Program};
use check::crash::{Guarantee, Subject};
use check::faults::{Tally, fail_many};
use harness::with_options;
use media::recorder::Mode;
use sim::Bytes;

const SEED: u64 = 20_261_122;
const IN_PLACE: Guarantee = Guarantee::InPlace { block: 4096 };

fn subject(name: &str, guarantee: Guarantee, more: &[(&str, &str)]) -> Subject {
    let mut options = vec![("jsize", "64k")];
    options.extend_from_slice(more);
    Subject { design: with_options(name, &options), size: Bytes::mib(1), guarantee, mode: Mode::Adr }
}

fn pmfs() -> Subject {
    subject("pmfs", IN_PLACE, &[])
}

fn hinfs(name: &str) -> Subject {
    subject(
        name,
        Guarantee::Buffered,
        &[("buffer", "64k"), ("medium_write", "200ns"), ("writeback_tasks", "1")],
    )
}

fn hinfs_sync() -> Subject {
    subject(
        "hinfs",
        IN_PLACE,
        &[("buffer", "64k"), ("medium_write", "200ns"), ("writeback_tasks", "1"), ("sync", "true")],
    )
}

fn programs_named(words: &str) -> Vec<Program> {
    programs::all().into_iter().filter(|program| program.name.contains(words)).collect()
}

fn fail(subject: &Subject) -> Tally {
    let filter = std::env::var("WEIR_FAULTS_PROGRAM").unwrap_or_default();
    let began = std::time::Instant::now();
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let tally = fail_many(subject, &programs_named(&filter), (SEED, jobs), &|_| ());
    println!(
        "{subject}: {} programs, {} failures {:?}, {:?}, {} violations, {:.1} s",
        tally.programs,
        tally.failures(),
        tally.injected,
        tally.outcomes,
        tally.violations.len(),
        began.elapsed().as_secs_f64()
    );
    let most = std::env::var("WEIR_FAULTS_TOLD").ok().and_then(|told| told.parse().ok()).unwrap_or(20);
    tally.violations.iter().take(most).for_each(|violation| println!("  {violation}"));
    tally
}

#[test]
fn every_failure_in_pmfs_is_answered_and_undone() {
    assert_eq!(fail(&pmfs()).violations, []);
}

#[test]
fn every_failure_in_hinfs_is_answered_and_undone() {
    assert_eq!(fail(&hinfs("hinfs")).violations, []);
}

#[test]
fn every_failure_in_a_hinfs_mounted_sync_is_answered_and_undone() {
    assert_eq!(fail(&hinfs_sync()).violations, []);
}
