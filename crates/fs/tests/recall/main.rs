//! Every seeded bug is found, and so is every flush and fence that is left out where it matters.
//!
//! `WEIR_RECALL=words` seeds only the bugs whose names contain the words.

#![allow(unreachable_pub)] // what the test binaries share is not a library

#[path = "../shared/harness.rs"]
mod harness;

mod between_tasks;
mod fences;

use std::collections::BTreeSet;

use check::Limits;
use check::crash::Subject;
use check::crash::programs::{self, Program};
use check::recall::{Seeded, find, find_all};
use fs::Mutant;
use harness::{mutant, promises, with_mutant, with_options};
use media::recorder::Mode;
use sim::Bytes;

const SEED: u64 = 20_261_123;
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

const EXT2: &[(&str, &str)] = &[("cache", "256k"), ("block_size", "1k"), ("lost_found", "false")];
const EXT4: &[(&str, &str)] =
    &[("cache", "256k"), ("block_size", "1k"), ("journal", "1MiB"), ("lost_found", "false")];

const DAX: &[(&str, &str)] = &[("cache", "256k"), ("journal", "4MiB"), ("lost_found", "false")];

/// How each design is mounted.
fn mounts(design: &str) -> Vec<&'static [(&'static str, &'static str)]> {
    match design {
        "pmfs" => vec![PMFS],
        "ext2" => vec![EXT2],
        "ext4" => vec![EXT4],
        "ext4-dax" => vec![DAX],
        _ => vec![BUFFERED, SYNC],
    }
}

fn seeded(design: &str, mutant: Mutant) -> Seeded {
    let subject = |options| Subject {
        design: with_mutant(design, options, mutant),
        size: match design {
            "ext4-dax" => Bytes::kib(5500),
            _ => Bytes::mib(if design.starts_with("ext") { 2 } else { 1 }),
        },
        promises: promises(design, options),
        mode: Mode::Adr,
    };
    Seeded {
        name: mutant.name().to_owned(),
        class: mutant.class().to_owned(),
        subjects: mounts(design).into_iter().map(subject).collect(),
        needs_failure: mutant.needs_failure(),
        programs: mutant.programs(),
    }
}

/// Programs that show the bugs of ext4-dax; with all programs the search takes minutes.
const SHOW_DAX: [&str; 8] = [
    "creat foo",
    "write 1 new",
    "write three blocks, new",
    "append inside a block",
    "creat, append, fsync",
    "a file in place of a directory",
    "remount",
    "remount with an orphan",
];

/// Seeds every bug into a design, finds it, and says which classes there were.
fn recall(design: &str) -> BTreeSet<&'static str> {
    recall_with(design, &programs::all())
}

fn recall_with(design: &str, programs: &[Program]) -> BTreeSet<&'static str> {
    let wanted = std::env::var("WEIR_RECALL").unwrap_or_default();
    let mutants = fs::by_name(design).expect("a design").mutants();
    let mutants: Vec<Mutant> =
        mutants.iter().copied().filter(|mutant| mutant.name().contains(&wanted)).collect();
    let all: Vec<Seeded> = mutants.iter().map(|mutant| seeded(design, *mutant)).collect();
    for (mutant, found) in mutants.iter().zip(find_all(&all, programs, (SEED, &Limits::of(2)), &|| ())) {
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
    mutants.iter().map(fs::Mutant::class).collect()
}

fn mutants_of(design: &str) -> usize {
    fs::by_name(design).expect("a design").mutants().len()
}

#[test]
fn every_bug_seeded_in_pmfs_is_found() {
    assert_eq!(recall("pmfs").len(), mutants_of("pmfs"), "each bug stands for a class of its own");
}

#[test]
fn every_bug_seeded_in_hinfs_is_found() {
    assert_eq!(recall("hinfs").len(), mutants_of("hinfs"), "each bug stands for a class of its own");
}

#[test]
fn every_bug_seeded_in_ext4_is_found() {
    assert_eq!(recall("ext4").len(), mutants_of("ext4"), "each bug stands for a class of its own");
}

#[test]
fn every_bug_seeded_in_ext4_dax_is_found() {
    let shows = |program: &Program| SHOW_DAX.contains(&program.name.as_str());
    let programs: Vec<Program> = programs::all().into_iter().filter(shows).collect();
    let found = recall_with("ext4-dax", &programs);
    assert_eq!(found.len(), mutants_of("ext4-dax"), "each bug stands for a class of its own");
}

#[test]
fn every_bug_seeded_in_ext2_is_found() {
    assert_eq!(recall("ext2").len(), mutants_of("ext2"), "each bug stands for a class of its own");
}

#[test]
fn a_bug_that_is_not_there_is_not_found() {
    let mut sound = seeded("pmfs", mutant("pmfs", "undo-skips-oldest"));
    sound.subjects.iter_mut().for_each(|subject| subject.design = with_options("pmfs", PMFS));
    let programs: Vec<Program> = programs::all().into_iter().take(5).collect();
    assert!(find(&sound, &programs, SEED).is_none());
}
