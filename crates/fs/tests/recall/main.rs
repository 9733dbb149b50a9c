//! Every seeded bug is found, and so is every flush and fence that is left out where it matters.
//!
//! `WEIR_RECALL=words` seeds only the bugs whose names contain the words.

#![allow(unreachable_pub)] // what the test binaries share is not a library

#[path = "../shared/harness.rs"]
mod harness;

use check::crash::programs::{self, Program};
use check::crash::{Guarantee, Subject};
use check::recall::{Seeded, find, forgotten};
use fs::Mutant;
use harness::{with_mutant, with_options};
use media::fault::Target;
use media::recorder::Mode;
use sim::Bytes;

const SEED: u64 = 20_261_123;
const IN_PLACE: Guarantee = Guarantee::InPlace { block: 4096 };
const PMFS: &[(&str, &str)] = &[("jsize", "64k")];
const BUFFERED: &[(&str, &str)] =
    &[("jsize", "64k"), ("buffer", "16k"), ("medium_write", "200ns"), ("writeback_tasks", "1")];
const SYNC: &[(&str, &str)] = &[
    ("jsize", "64k"),
    ("buffer", "16k"),
    ("medium_write", "200ns"),
    ("writeback_tasks", "1"),
    ("sync", "true"),
];

/// How each design is mounted, and what it promises then.
fn mounts(design: &str) -> Vec<(&'static [(&'static str, &'static str)], Guarantee)> {
    match design {
        "pmfs" => vec![(PMFS, IN_PLACE)],
        _ => vec![(BUFFERED, Guarantee::Buffered), (SYNC, IN_PLACE)],
    }
}

fn seeded(design: &str, mutant: Mutant) -> Seeded {
    let subject = |(options, guarantee)| Subject {
        design: with_mutant(design, options, mutant),
        size: Bytes::mib(1),
        guarantee,
        mode: Mode::Adr,
    };
    Seeded {
        name: mutant.name().to_owned(),
        class: mutant.class().to_owned(),
        subjects: mounts(design).into_iter().map(subject).collect(),
        needs_failure: mutant.needs_failure(),
    }
}

fn recall(design: &str) {
    let (programs, wanted) = (programs::all(), std::env::var("WEIR_RECALL").unwrap_or_default());
    let mutants = fs::by_name(design).expect("a design").mutants();
    for mutant in mutants.iter().copied().filter(|mutant| mutant.name().contains(&wanted)) {
        let found = find(&seeded(design, mutant), &programs, SEED);
        let found = found.unwrap_or_else(|| panic!("{design}: {} is not found", mutant.name()));
        println!(
            "{}: {} by {:?}, {:?} with {:?} operations, {:?} images, {:?}: {}",
            found.subject,
            mutant.class(),
            found.checks,
            found.program,
            found.ops,
            found.images,
            found.took,
            found.what
        );
    }
}

#[test]
fn every_bug_seeded_in_pmfs_is_found() {
    recall("pmfs");
}

#[test]
fn every_bug_seeded_in_hinfs_is_found() {
    recall("hinfs");
}

#[test]
fn every_flush_and_fence_that_is_left_out_is_found_or_redundant() {
    let words = std::env::var("WEIR_RECALL").unwrap_or_default();
    let programs: Vec<Program> = programs::all()
        .into_iter()
        .filter(|program| program.name.contains(&words) && program.core.len() == 1)
        .collect();
    for design in ["pmfs", "hinfs"] {
        for (options, guarantee) in mounts(design) {
            let subject = Subject {
                design: with_options(design, options),
                size: Bytes::mib(1),
                guarantee,
                mode: Mode::Adr,
            };
            for target in [Target::Flush, Target::Fence] {
                let began = std::time::Instant::now();
                let found = forgotten(&subject, &programs, target, (SEED, 2));
                println!("{subject}: {target}: {found:?}, {:?}", began.elapsed());
            }
        }
    }
}
