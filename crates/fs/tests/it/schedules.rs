//! Several tasks at once, under many schedules: every call is atomic, no task waits for ever, and no block or inode is lost.

use crate::shared::harness;
use std::sync::Arc;
use std::time::Instant;

use crate::shared::harness::tiny;
use check::canary::{Flaw, flawed};
use check::schedules::{self, Effort, Scenario, Tally};
use check::{Configured, Limits};

fn effort(schedules: u64) -> Effort {
    Effort { seed: 1, schedules: 0..schedules, limits: Limits::of(2) }
}

fn explore(design: &Arc<Configured>, scenarios: &[Scenario], effort: &Effort) -> Vec<Tally> {
    schedules::explore(design, scenarios, effort, &|| ())
}

/// Complains of the first failure.
fn assert_sound(design: &Arc<Configured>, tallies: &[Tally]) {
    let failed: Vec<_> = tallies.iter().filter(|tally| tally.failure.is_some()).collect();
    for tally in failed.iter().take(5) {
        if let Some(failure) = &tally.failure {
            println!("{}: {}: {failure}\n", design.name(), tally.scenario);
        }
    }
    assert!(failed.is_empty(), "{}: {} of {} scenarios failed", design.name(), failed.len(), tallies.len());
}

/// Every design, whose limits are so near that it writes back, commits and cleans as often as it can. `WEIR_SCHEDULES_FS=words`
/// takes
/// only designs whose names contain the words.
#[test]
fn every_pair_of_actions_is_linearizable() {
    let wanted = std::env::var("WEIR_SCHEDULES_FS").unwrap_or_default();
    for design in harness::names().filter(|name| name.contains(&wanted)).map(tiny) {
        let began = Instant::now();
        let tallies = explore(&design, &schedules::pairs(), &effort(3));
        let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
        println!(
            "{}: {} scenarios, {} schedules, {} interleavings, {} outcomes in {:?}",
            design.name(),
            tallies.len(),
            sum(|tally| tally.schedules),
            sum(|tally| tally.interleavings),
            sum(|tally| tally.outcomes),
            began.elapsed(),
        );
        assert_sound(&design, &tallies);
    }
}

/// Two tasks waited for what a third had in flight, and each woke the other whenever it found nothing to write, before the third
/// could go on.
#[test]
fn tasks_that_sync_one_file_do_not_keep_each_other_awake() {
    let hinfs = tiny("hinfs");
    for (seed, name) in [
        (206, "punch | sync | orphan-append"),
        (334, "orphan-append | unlink; sync; extend | create | read; sync"),
        (15, "extend | create-below; push; reserve | rmdir | push; sync; move-dir"),
    ] {
        let scenario = [Scenario::named(name).expect("actions")];
        assert_sound(&hinfs, &explore(&hinfs, &scenario, &Effort { seed, ..effort(1) }));
    }
}

/// The race needs one preemption at one place: how many schedules it takes is measured.
#[test]
fn an_append_in_two_steps_is_found_and_made_short() {
    let scenario = [Scenario::named("sync; append; list | append; chmod").expect("actions")];
    let mut taken = Vec::new();
    for round in 0..20 {
        let design = flawed(&tiny("pmfs"), Flaw::TornAppend);
        let effort = Effort { seed: 10_001 * round, schedules: 0..400, limits: Limits::of(1) };
        let tally = explore(&design, &scenario, &effort).remove(0);
        let failure = tally.failure.unwrap_or_else(|| panic!("not found in {} schedules", tally.schedules));
        assert!(failure.what.contains("no order of the calls explains it"), "{failure}");
        assert_eq!(failure.program.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1], "{failure}");
        assert!(failure.switches.len() <= 2, "{failure}");
        taken.push(tally.schedules);
    }
    let mean = taken.iter().sum::<u64>() as f64 / taken.len() as f64;
    println!("found after {mean:.1} schedules on average: {taken:?}");
    assert!(mean < 20.0, "{mean}");
}

#[test]
fn a_failing_schedule_fails_again_by_its_scenario_and_seed() {
    let design = flawed(&tiny("pmfs"), Flaw::TornAppend);
    let scenario = [Scenario::named("append | append").expect("actions")];
    let failure = explore(&design, &scenario, &effort(1000)).remove(0).failure.expect("it is found");
    let again = Effort { seed: failure.seed, schedules: 0..1, ..effort(1) };
    assert_eq!(explore(&design, &scenario, &again).remove(0).failure, Some(failure));
}

/// Between the load of the word and its store lies nothing at which a task could switch, but for the two accesses themselves.
#[test]
fn a_lock_free_word_that_changes_in_two_steps_is_found_by_a_switch_between_its_atomics() {
    let mutant = harness::mutant("rcache", "rcache-end-in-two-steps");
    let scenario = [Scenario::named(mutant.scenarios()[0]).expect("actions")];
    let effort = effort(4000);
    let design = harness::with_mutant("rcache", harness::checking("rcache").tiny, mutant);
    let tally = explore(&design, &scenario, &effort).remove(0);
    let failure = tally.failure.unwrap_or_else(|| panic!("not found in {} schedules", tally.schedules));
    println!("found after {} schedules: {failure}", tally.schedules);
    let sound = tiny("rcache");
    assert_sound(&sound, &explore(&sound, &scenario, &Effort { schedules: 0..tally.schedules, ..effort }));
}
