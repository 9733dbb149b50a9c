//! Failures of every access of operations, on every design of the table in each way in which it is mounted.
//!
//! A failure prints program, kind and number of the access. A design says how many programs it passes over
//! ([`design::Checking::fail_every`]). `WEIR_FAULTS_FS=words` tries only designs whose names contain the words,
//! `WEIR_FAULTS_PROGRAM=words` all programs whose names contain the words, where otherwise every fifteenth is tried at most, and
//! none that loads whole nodes of trees word by word; `weir check faults` tries them all.

mod regressions;

use crate::shared::harness;

use crate::shared::harness::{checking, mutant, subject};
use check::Limits;
use check::canary::{Flaw, flawed};
use check::crash::Subject;
use check::crash::programs::{self, Program};
use check::faults::{Kind, Outcome, Tally, fail_many, fail_operations, poison_reading};

const SEED: u64 = 20_261_122;
/// Programs with thousands of loads.
const LONG: [&str; 3] = ["truncate", "tree", "rename over"];

fn named(name: &str) -> Program {
    programs::all().into_iter().find(|program| program.name == name).expect("a program")
}

/// Programs that a design does not pass over, from the `first` on; or those that the environment names.
fn chosen(subject: &Subject, first: usize) -> Vec<Program> {
    let all = programs::all().into_iter();
    if let Ok(words) = std::env::var("WEIR_FAULTS_PROGRAM") {
        return all.filter(|program| program.name.contains(&words)).collect();
    }
    let every = 15 * checking(subject.design.name()).fail_every;
    let long = |program: &Program| LONG.iter().any(|words| program.name.contains(words));
    all.filter(|program| !long(program)).skip(first % every).step_by(every).collect()
}

fn fail_programs(subject: &Subject, chosen: &[Program]) -> Tally {
    let began = std::time::Instant::now();
    let tally = fail_many(subject, chosen, (SEED, &Limits::default()), &|_| ());
    println!(
        "{subject}, seed {SEED}: {} programs, {} failures {:?}, {:?}, {} violations, {:.1} s",
        tally.programs,
        tally.failures(),
        tally.injected,
        tally.outcomes,
        tally.violations.len(),
        began.elapsed().as_secs_f64()
    );
    tally.violations.iter().take(20).for_each(|violation| println!("  {violation}"));
    tally
}

#[test]
fn every_failure_is_answered_and_undone_or_ends_all_changes() {
    let wanted = std::env::var("WEIR_FAULTS_FS").unwrap_or_default();
    let mut all = Tally::default();
    for (first, subject) in harness::subjects().into_iter().enumerate() {
        if !subject.design.name().contains(&wanted) {
            continue;
        }
        let tally = fail_programs(&subject, &chosen(&subject, first));
        assert_eq!(tally.violations, []);
        all.add(tally);
    }
    if wanted.is_empty() {
        assert!(Kind::ALL.iter().all(|kind| all.injected.contains_key(kind)), "{:?}", all.injected);
        for outcome in [Outcome::Absorbed, Outcome::Undone, Outcome::Stopped, Outcome::MountedLater] {
            assert!(all.outcomes.contains_key(&outcome), "{:?}", all.outcomes);
        }
    }
}

#[test]
fn every_failure_of_a_change_of_a_large_attribute_is_answered_and_undone_or_ends_all_changes() {
    for name in ["pmfs", "hinfs", "nova"] {
        let tally = fail_programs(&subject(name, &[]), &programs::large_attributes());
        assert_eq!(tally.violations, []);
    }
}

#[test]
fn every_failure_of_a_rename_that_leaves_a_whiteout_is_answered_and_undone_or_ends_all_changes() {
    // The others are variants of these.
    for name in ["pmfs", "nova", "redo", "ext4"] {
        let tally = fail_programs(&subject(name, &[]), &programs::whiteouts());
        assert_eq!(tally.violations, []);
    }
}

#[test]
fn a_design_that_hides_failures_is_found() {
    let honest = subject("pmfs", &[]);
    let lying = Subject { design: flawed(&honest.design, Flaw::HiddenFailures), ..honest.clone() };
    for name in ["unlink", "rename foo bar", "rmdir A", "write 4097 new"] {
        let found = fail_operations(&lying, &named(name), SEED).violations;
        assert!(found.iter().any(|violation| violation.what.contains("but")), "{name}: {found:?}");
        assert_eq!(fail_operations(&honest, &named(name), SEED).violations, [], "{name}");
    }
}

#[test]
fn a_list_of_a_directory_that_ends_at_a_poisoned_line_is_found() {
    let honest = subject("pmfs", &[]);
    let lying = Subject { design: flawed(&honest.design, Flaw::HiddenFailures), ..honest.clone() };
    let found = poison_reading(&lying, SEED).violations;
    assert!(found.iter().any(|violation| violation.what.contains("does not list")), "{found:?}");
    assert_eq!(poison_reading(&honest, SEED).violations, []);
}

#[test]
fn a_design_that_does_not_roll_back_is_found() {
    for name in ["pmfs", "hinfs"] {
        let subject = &harness::mounts(name, Some(mutant(name, "rollback-left-out")))[0];
        assert_ne!(fail_operations(subject, &named("mkdir A"), SEED).violations, [], "{name}");
    }
}
