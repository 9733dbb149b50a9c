//! Every seeded bug is found, and so is every flush and fence that is left out where it matters.
//!
//! `WEIR_RECALL=words` seeds only the bugs whose names contain the words, `WEIR_RECALL_FS=words` only those of designs whose names
//! contain them.

mod between_tasks;
mod fences;

use std::collections::BTreeSet;

use crate::shared::harness::{mounts, mutant, small};
use check::Limits;
use check::crash::programs::{self, Program};
use check::recall::{Seeded, find, find_all};
use design::Mutant;
use fs::FILE_SYSTEMS;

const SEED: u64 = 20_261_123;

fn seeded(design: &str, mutant: Mutant) -> Seeded {
    Seeded {
        name: mutant.name().to_owned(),
        class: mutant.class().to_owned(),
        subjects: mounts(design, Some(mutant)),
        needs_failure: mutant.needs_failure(),
        programs: mutant.programs(),
        scenarios: mutant.scenarios(),
    }
}

/// Seeds every bug into a design, finds it, and says of what class it is.
fn recall(design: &str) {
    let wanted = std::env::var("WEIR_RECALL").unwrap_or_default();
    let mutants = fs::by_name(design).expect("a design").mutants();
    let mutants: Vec<Mutant> =
        mutants.iter().copied().filter(|mutant| mutant.name().contains(&wanted)).collect();
    let all: Vec<Seeded> = mutants.iter().map(|mutant| seeded(design, *mutant)).collect();
    for (mutant, found) in
        mutants.iter().zip(find_all(&all, &programs::alone(), (SEED, &Limits::of(2)), &|| ()))
    {
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
    let classes: BTreeSet<_> = mutants.iter().map(Mutant::class).collect();
    assert_eq!(classes.len(), mutants.len(), "{design}: each bug stands for a class of its own");
}

#[test]
fn every_seeded_bug_is_found() {
    let wanted = std::env::var("WEIR_RECALL_FS").unwrap_or_default();
    // Designs of one code share a list.
    let mut seen = BTreeSet::new();
    for design in FILE_SYSTEMS.iter().filter(|design| design.name().contains(&wanted)) {
        if seen.insert(design.mutants().as_ptr()) {
            recall(design.name());
        }
    }
}

#[test]
fn a_bug_that_is_not_there_is_not_found() {
    let mut sound = seeded("pmfs", mutant("pmfs", "undo-skips-oldest"));
    sound.subjects.iter_mut().for_each(|subject| subject.design = small("pmfs"));
    let programs: Vec<Program> = programs::all().into_iter().take(5).collect();
    assert!(find(&sound, &programs, SEED).is_none());
}
