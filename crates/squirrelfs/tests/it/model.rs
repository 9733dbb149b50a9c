//! Random operations beside the reference, tasks at once, edited images.

use check::fuzz::{self, Fuzzer};
use check::lockstep::{Round, run_many};
use check::{Limits, schedules};
use sim::Bytes;

use crate::harness::small_with;

/// `WEIR_MODEL_ROUNDS=n` rounds with and without room, with each way to find a free dentry.
#[test]
fn every_answer_and_every_tree_is_that_of_the_reference() {
    let rounds = std::env::var("WEIR_MODEL_ROUNDS").ok().and_then(|count| count.parse().ok()).unwrap_or(6);
    for (given, size) in [
        (&[][..], Bytes::mib(12)),
        (&[("free_dentry", "hint"), ("copy_fence", "page")], Bytes::kib(4096 + 256)),
    ] {
        let design = small_with(given);
        let round = |number: usize| Round {
            design: std::sync::Arc::clone(&design),
            size,
            seed: 1 + number as u64,
            ops: 600,
            maps: number.is_multiple_of(2),
        };
        let (seen, failed) = run_many((rounds, &round), (None, None), &Limits::of(2), &|_| ());
        println!("{size}: {seen:?}");
        assert!(failed.is_none(), "{}", failed.expect("it failed"));
    }
}

#[test]
fn every_pair_of_actions_is_linearizable() {
    let effort = schedules::Effort { seed: 1, schedules: 0..2, limits: Limits::of(2) };
    let tallies = schedules::explore(&small_with(&[]), &schedules::pairs(), &effort, &|| ());
    let failed: Vec<_> =
        tallies.iter().filter_map(|tally| Some((&tally.scenario, tally.failure.as_ref()?))).collect();
    for (scenario, failure) in failed.iter().take(5) {
        println!("{scenario}: {failure}\n");
    }
    assert!(failed.is_empty(), "{} of {} scenarios", failed.len(), tallies.len());
}

#[test]
fn edited_images_are_refused_or_used_and_nothing_panics() {
    let fuzzer = Fuzzer::new(&small_with(&[]), 7).expect("the images can be made");
    let tally = fuzzer.run(&fuzz::Effort { seed: 7, mutants: 0..500, limits: Limits::of(1) }, &|| ());
    println!("{tally:?}");
    assert!(tally.failures.is_empty(), "{:#?}", tally.failures);
    assert!(tally.refused > 30 && tally.sound > 5 && tally.damaged > 50, "{tally:?}");
}
