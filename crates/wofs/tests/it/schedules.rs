//! Several tasks at once: every call is atomic, no task waits for ever.

use check::Limits;
use check::schedules::{Effort, explore, pairs};

use crate::harness::{SEED, small};

#[test]
fn every_pair_of_actions_is_linearizable() {
    let schedules = std::env::var("WEIR_SCHEDULES").ok().and_then(|count| count.parse().ok()).unwrap_or(2);
    let effort = Effort { seed: SEED, schedules: 0..schedules, limits: Limits::of(2) };
    let tallies = explore(&small(None), &pairs(), &effort, &|| ());
    let failed: Vec<_> = tallies.iter().filter(|tally| tally.failure.is_some()).collect();
    for tally in failed.iter().take(3) {
        println!(
            "{}: {}",
            tally.scenario,
            tally.failure.as_ref().map(ToString::to_string).unwrap_or_default()
        );
    }
    println!(
        "{} scenarios, {} interleavings",
        tallies.len(),
        tallies.iter().map(|tally| tally.interleavings).sum::<u64>()
    );
    assert!(failed.is_empty(), "{} of {} failed", failed.len(), tallies.len());
}
