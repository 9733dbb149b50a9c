//! Every seeded bug is found by a check of a mounted file system, or by the histories.

use std::path::Path;

use check::Limits;
use check::crash::programs;
use check::recall::{LeaveOut, Line, Seeded, Unnoticed, find_all, forgotten};
use design::Mutant;
use media::fault::Target;
use wofs::mutant;

use crate::harness::{SEED, subject};

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
    let is_wanted = |mutant: &Mutant| wanted.split(',').any(|word| mutant.name().contains(word));
    let all: Vec<Mutant> = mutant::ALL.iter().copied().filter(is_wanted).collect();
    let seeded: Vec<Seeded> = all.iter().map(|mutant| seeded(*mutant)).collect();
    let programs: Vec<_> = programs::reused()
        .into_iter()
        .chain(programs::all().into_iter().filter(|program| !program.together))
        .collect();
    let mut missed = Vec::new();
    for (mutant, found) in all.iter().zip(find_all(&seeded, &programs, (SEED, &Limits::of(2)), &|| ())) {
        match found {
            Some(found) => {
                println!("{}: {:?} by {:?}: {:.200}", mutant.name(), found.checks, found.program, found.what);
            }
            None => missed.push(mutant.name()),
        }
    }
    assert_eq!(missed, [""; 0]);
}

/// Lines whose loss no check notices, by file and function, with the reason.
const UNNOTICED: &[(&str, &str)] = &[
    (
        "superblock.rs save",
        "an unmount whose word is lost leaves one that says less, and a mount reads all packages anyway",
    ),
    ("file.rs store_attr", "of an ATTR that an unmount stores, the fence of the saved word follows"),
    (
        "alloc.rs make_container",
        "needed where the block held packages, or for another task that takes a place at once",
    ),
];

/// The file and function of a line that flushes or fences.
fn function((file, line): &Line) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
    let before: Vec<&str> = text.lines().take(*line as usize).collect();
    let head =
        before.iter().rev().find(|line| line.trim_start().contains("fn ")).copied().unwrap_or_default();
    let name = head.split("fn ").nth(1).and_then(|rest| rest.split(['(', '<']).next()).unwrap_or_default();
    format!("{} {name}", file.rsplit('/').next().unwrap_or_default())
}

#[test]
fn every_flush_and_fence_that_is_left_out_is_noticed_or_has_its_reason() {
    let programs: Vec<_> =
        programs::all().into_iter().filter(|program| !program.together).chain(programs::reused()).collect();
    let mut bare = Vec::new();
    let mut counted = 0;
    for target in [Target::Flush, Target::Fence] {
        let what = LeaveOut { target, enough: Some(Unnoticed::default()) };
        let found = forgotten(&subject(None), &programs, &what, (SEED, &Limits::of(2)));
        for (line, counts) in &found.sites {
            let name = function(line);
            println!(
                "{target} {name}: {} left out, {} noticed, {} equivalent, unnoticed {:?}",
                counts.total,
                counts.killed(),
                counts.equivalent,
                counts.survived.iter().take(3).collect::<Vec<_>>()
            );
            counted += counts.killed();
            if !counts.survived.is_empty() && !UNNOTICED.iter().any(|(known, _)| *known == name) {
                bare.push(format!("{target} {name}"));
            }
        }
    }
    assert!(counted > 200, "{counted}");
    assert_eq!(bare, [""; 0]);
}
