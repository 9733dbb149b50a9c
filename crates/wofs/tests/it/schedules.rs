//! Several tasks at once: every call is atomic, no task waits for ever.

use check::Limits;
use check::schedules::{Effort, Scenario, explore, pairs};

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

/// A CREATE whose number was drawn before its place had been taken was lost at the next mount, where an UNLINK of a larger number had
/// freed the place in between.
#[test]
fn a_name_that_is_made_beside_a_removal_is_there_after_a_mount() {
    let makes = ["create", "create-below", "mkdir", "symlink", "link", "rename"];
    let pairs = makes.iter().flat_map(|make| ["unlink", "rmdir"].map(|remove| format!("{make} | {remove}")));
    let scenarios: Vec<Scenario> = pairs.map(|name| Scenario::named(&name).unwrap()).collect();
    let effort = Effort { seed: SEED, schedules: 0..300, limits: Limits::of(2) };
    for tally in explore(&small(None), &scenarios, &effort, &|| ()) {
        let failure = tally.failure.as_ref().map(ToString::to_string);
        assert_eq!(failure, None, "{}", tally.scenario);
    }
}
