//! Every seeded bug is found by a check of a mounted file system, or by the histories.

use check::Limits;
use check::recall::{Seeded, find_all};
use design::Mutant;
use wofs::mutant;

use crate::crash::reuse;
use crate::harness::{SEED, programs, subject};

/// Bugs that need longer stories than programs tell, or a device that is almost full: `histories` finds each of them.
const BY_HISTORIES: &[Mutant] = &[
    mutant::UNLINK_FREED_EARLY,
    mutant::BIN_TARGET_BY_INO,
    mutant::BIN_BY_LARGER,
    mutant::NAMED_IGNORED,
    mutant::RENAME_CREATE_FREED,
    mutant::MEMBER_FREED_ALONE,
    mutant::NOT_ZEROED,
    mutant::RELEASE_UNFENCED,
    mutant::FREED_IN_PAIR,
    mutant::NO_BLANKING,
    mutant::WAITS_NOT_REBUILT,
    mutant::PATCH_NOT_TAGGED,
];

fn seeded(mutant: Mutant) -> Seeded {
    Seeded {
        name: mutant.name().to_owned(),
        class: mutant.class().to_owned(),
        subjects: vec![subject(Some(mutant))],
        needs_failure: mutant.needs_failure(),
        programs: mutant.programs(),
        scenarios: mutant.scenarios(),
    }
}

#[test]
fn every_seeded_bug_is_found_by_a_check_of_a_mounted_file_system() {
    let wanted = std::env::var("WEIR_RECALL").unwrap_or_default();
    let all: Vec<Mutant> = mutant::ALL
        .iter()
        .copied()
        .filter(|mutant| !BY_HISTORIES.contains(mutant) && mutant.name().contains(&wanted))
        .collect();
    let seeded: Vec<Seeded> = all.iter().map(|mutant| seeded(*mutant)).collect();
    let programs: Vec<_> =
        programs().into_iter().filter(|program| !program.together).chain(reuse()).collect();
    let mut missed = Vec::new();
    for (mutant, found) in all.iter().zip(find_all(&seeded, &programs, (SEED, &Limits::of(2)), &|| ())) {
        match found {
            Some(found) => {
                println!("{}: {:?} by {:?}: {}", mutant.name(), found.checks, found.program, found.what)
            }
            None => missed.push(mutant.name()),
        }
    }
    assert_eq!(missed, [""; 0]);
}
