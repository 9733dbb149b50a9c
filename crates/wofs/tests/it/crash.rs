//! Crashes at every point of programs leave what was before or after the call.

use crate::harness::{SEED, subject};
use check::Limits;
use check::configured::virtually;
use check::crash::programs::{self, Program};
use check::crash::{Effort, Tally, Watch, explore_many, lints};

fn explore(name: &str, programs: &[Program], nested: usize) {
    let subject = subject(None);
    let program = |number: usize| programs[number].clone();
    let watch = Watch { limits: Limits::of(2), explored: &|_| () };
    let tally: Tally =
        explore_many(&subject, (programs.len(), &program), (&Effort::usual(SEED, nested), &[]), &watch);
    println!(
        "{name}: {} programs, {} without space, {} points, {} images, {} states, {} nested",
        tally.programs,
        tally.without_space,
        tally.points,
        tally.distinct_images,
        tally.distinct_states,
        tally.nested_images
    );
    tally.violations.iter().take(8).for_each(|violation| println!("  {violation}"));
    assert_eq!(tally.violations.len(), 0, "seed {SEED}");
}

#[test]
fn crashes_of_every_operation_leave_what_was_before_or_after_it() {
    explore("one operation", &programs::all(), 1);
}

#[test]
fn crashes_of_random_programs_leave_what_was_before_or_after_each_operation() {
    let count = std::env::var("WEIR_CRASH_RANDOM").ok().and_then(|count| count.parse().ok()).unwrap_or(40);
    let random: Vec<_> = (0..count).map(|number| programs::random(SEED, number)).collect();
    explore("random programs", &random, 1);
}

#[test]
fn crashes_of_stories_in_which_places_and_numbers_are_used_again_leave_what_was_before_or_after() {
    explore("stories of reuse", &programs::reused(), 2);
}

#[test]
fn what_has_returned_is_flushed_and_fenced_and_commits_keep_their_order() {
    let found: Vec<_> = programs::all()
        .into_iter()
        .filter(|program| !program.together)
        .flat_map(|program| {
            let subject = subject(None);
            virtually(SEED, move || lints(&subject, &program, &[]))
        })
        .collect();
    assert_eq!(found, Vec::<String>::new());
}
