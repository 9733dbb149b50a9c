//! Crashes at every point of every operation, failures of every access. `WEIR_CRASH_EVERY=n` takes one program of so many,
//! `WEIR_CRASH_PROGRAM=words` those whose names contain the words.

use check::Limits;
use check::configured::virtually;
use check::crash::programs::{self, Program};
use check::crash::{Effort, Watch, explore_many, lints};
use check::faults::{Tally, fail_operations, fail_recovery, poison_reading};

use crate::harness::{small_with, subject};

const SEED: u64 = 20_261_129;

fn taken(every: usize, programs: impl IntoIterator<Item = Program>) -> Vec<Program> {
    let every = std::env::var("WEIR_CRASH_EVERY").ok().and_then(|every| every.parse().ok()).unwrap_or(every);
    let words = std::env::var("WEIR_CRASH_PROGRAM").unwrap_or_default();
    let every = if words.is_empty() { every } else { 1 };
    // A format without holes writes two megabytes of zeros for those that raise a tree of blocks, which takes minutes.
    let is_long = |program: &Program| words.is_empty() && program.name.contains("tree");
    let named = programs.into_iter().filter(|program| program.name.contains(&words) && !is_long(program));
    named.enumerate().filter(|(number, _)| number.is_multiple_of(every)).map(|(_, program)| program).collect()
}

fn explored(what: &str, programs: &[Program], nested: usize) {
    let subject = subject(small_with(&[]));
    let program = |number: usize| programs[number].clone();
    let watch = Watch { limits: Limits::of(2), explored: &|_| () };
    let effort = Effort { after_commits: true, ..Effort::usual(SEED, nested) };
    let tally = explore_many(&subject, (programs.len(), &program), (&effort, &[]), &watch);
    println!(
        "{what}: {} programs, {} without space, {} images, {} nested, {} violations",
        tally.programs,
        tally.without_space,
        tally.distinct_images,
        tally.nested_images,
        tally.violations.len()
    );
    tally.violations.iter().take(12).for_each(|violation| println!("  {violation}"));
    assert!(tally.violations.is_empty(), "{what}");
}

#[test]
fn every_crash_of_one_operation_leaves_an_allowed_state() {
    explored("one operation", &taken(2, programs::all().into_iter().chain(programs::large_writes())), 2);
}

#[test]
fn crashes_of_random_programs_leave_allowed_states() {
    explored("random", &taken(1, (0..40).map(|number| programs::random(SEED, number))), 1);
}

#[test]
fn a_crash_leaves_words_of_what_a_mapping_has_stored_and_all_of_it_after_a_sync() {
    explored("mapped", &taken(2, programs::mapped()), 1);
}

#[test]
fn what_has_returned_is_flushed_and_fenced_and_commits_keep_their_order() {
    let subject = subject(small_with(&[]));
    for program in taken(3, programs::all()).into_iter().filter(|program| !program.together) {
        let subject = subject.clone();
        let found = virtually(SEED, move || lints(&subject, &program, &[]));
        assert_eq!(found, Vec::<String>::new());
    }
}

#[test]
fn every_failure_is_answered_and_undone_or_ends_all_changes() {
    let chosen = taken(30, programs::all());
    let (subject, mut tally) = (subject(small_with(&[])), Tally::default());
    for program in &chosen {
        tally.add(fail_operations(&subject, program, SEED));
        tally.add(fail_recovery(&subject, program, SEED));
    }
    println!("{} programs, {:?}, {:?}", tally.programs, tally.injected, tally.outcomes);
    tally.violations.iter().take(12).for_each(|violation| println!("  {violation}"));
    assert!(tally.violations.is_empty());
}

#[test]
fn a_line_that_cannot_be_read_is_confined_to_what_needs_it_and_healed_by_a_write() {
    assert_eq!(poison_reading(&subject(small_with(&[])), SEED).violations, []);
}
