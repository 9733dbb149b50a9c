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
                println!("{}: {:?}, {}: {}", mutant.name(), found.checks, found.program, found.what);
            }
        }
    }
    assert_eq!(missed, [""; 0]);
}

const OWN: &str =
    "times have a fence of their own, as published: the next fence of the call makes them durable as well";
const FRESH: &str = "nothing reaches the object yet, and another fence comes before anything does";
const GONE: &str = "nothing reaches the object any more, and the fence of the next step follows";
const AGAIN: &str = "the same object is flushed again before the call returns";

/// Lines whose loss no program shows, by a part of their text, with why. All follow from the published order: a fence for each
/// step.
const REDUNDANT: &[(Target, &str, &str)] = &[
    (Target::Fence, "self.touch", OWN),
    (Target::Flush, "self.touch", AGAIN),
    (Target::Fence, "grow(end, now, &written)", "the times are stored again, as published, and fenced"),
    (Target::Flush, "grow(end, now, &written)", AGAIN),
    (Target::Fence, "self.fence(placed.flush())", FRESH),
    (Target::Flush, "self.fence(placed.flush())", AGAIN),
    (Target::Fence, "placed.own(", FRESH),
    (Target::Fence, "self.fence(described.flush())", FRESH),
    (Target::Flush, "self.fence(described.flush())", AGAIN),
    (Target::Fence, "zero.own_names(", FRESH),
    (Target::Fence, "self.fence(named)", FRESH),
    (Target::Fence, "self.fence(named.flush())", FRESH),
    (Target::Flush, "self.fence(named.flush())", AGAIN),
    (Target::Fence, ".place(0)?.flush()", FRESH),
    (Target::Flush, ".place(0)?.flush()", AGAIN),
    (Target::Fence, "owned.zero()", FRESH),
    (
        Target::Fence,
        "add_link(",
        "a count that is too large is lowered by recovery; another fence comes before the name",
    ),
    (Target::Fence, "drop_link(", GONE),
    (Target::Flush, "drop_link(", AGAIN),
    (Target::Fence, "self.fence((erased,", GONE),
    (Target::Fence, "self.fence(disowned.flush())", GONE),
    (Target::Flush, "self.fence(disowned.flush())", AGAIN),
    (Target::Fence, "pages.disown_empty(", GONE),
    (Target::Flush, "pages.disown_empty(", AGAIN),
    (
        Target::Fence,
        "clear_source(&away)",
        "the pointer leads to a dentry that leads nowhere, which recovery forgets; a fence follows",
    ),
    (
        Target::Fence,
        "point_to(",
        "the number lies in the same line and is stored later: a line persists in order",
    ),
    (Target::Flush, "point_to(", AGAIN),
    (Target::Fence, "point_over(", "as point_to"),
    (Target::Flush, "point_over(", AGAIN),
];

/// The text of a line of this crate.
fn text_of(file: &str, line: u32) -> String {
    let path = format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{file}: {error}"));
    text.lines().nth(line as usize - 1).unwrap_or_default().trim().to_owned()
}

#[test]
fn a_flush_or_fence_that_is_left_out_is_noticed_or_has_its_reason() {
    let subject = subject(small_with(&[]));
    let mut programs = programs::all();
    // Those that raise a tree of blocks write two megabytes of zeros in a format without holes.
    programs.retain(|program| program.core.len() == 1 && !program.name.contains("tree"));
    let mut bare = Vec::new();
    for target in [Target::Flush, Target::Fence] {
        let found = forgotten(&subject, &programs, &LeaveOut::each(target), (SEED, &Limits::of(2)));
        let all = found.all();
        let (noticed, unseen) = (all.killed(), all.survived.len());
        println!(
            "{target}: {} left out, {noticed} noticed, {} equivalent, {unseen} not",
            all.total, all.equivalent
        );
        for ((file, line), counts) in &found.sites {
            let text = text_of(file, *line);
            let has_reason = REDUNDANT.iter().any(|(of, part, _)| *of == target && text.contains(part));
            let programs = counts.survived.iter().take(2);
            if !counts.survived.is_empty() {
                println!(
                    "  {file}:{line}: {unseen} of {}: {text}: {:?}",
                    counts.total,
                    programs.collect::<Vec<_>>(),
                    unseen = counts.survived.len()
                );
            }
            if counts.killed() == 0 && !counts.survived.is_empty() && !has_reason {
                bare.push(format!("{target} {file}:{line}: {text}"));
            }
        }
        assert!(noticed > 100, "{target}: {noticed}");
    }
    assert!(bare.is_empty(), "never noticed, and without a reason: {bare:#?}");
}
