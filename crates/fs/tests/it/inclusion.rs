//! Every tree that a crash leaves on a design must be legal in the model of `check::program` that stands for it: else the model is
//! stronger than a file system, and a check of a user's program would call that sound which is not. That a model which allows
//! everything would pass as well is why random trees that break a rule must be refused (`check::program`'s tests, `random`).
//!
//! `WEIR_INCLUSION=500 cargo test -p weir-fs --test it inclusion:: -- --nocapture` takes so many programs.

use std::sync::Arc;

use check::crash::Subject;
use check::program::designs::{Recovered, gather, size_for};
use check::program::members::Membership;
use check::program::model::Model;
use check::program::operations::Operations;
use check::program::random::random;

use crate::shared::harness::subject;

/// Trees that a model refuses, of how many.
fn refused(design: &str, (model, tear): (&str, u64), seeds: std::ops::Range<u64>) -> (Vec<String>, usize) {
    let usual = subject(design, &[]);
    let mut model = Model::named(model).expect("a model");
    model.tear = tear;
    let (mut wrong, mut all) = (Vec::new(), 0);
    for seed in seeds {
        let story = Arc::new(random(seed, b'a'));
        let operations = Operations::of(&story);
        let subject = Subject { size: size_for(&usual.design, &story), ..usual.clone() };
        let gathered =
            gather(&story, &subject, 400, seed).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        wrong.extend(gathered.bugs.iter().map(|bug| format!("seed {seed}: {bug}")));
        let asked = Membership { story: &story, operations: &operations, model: &model };
        for one in &gathered.trees {
            let next = story.calls.get(one.done).map_or(u64::MAX, |call| call.begin_ns);
            let at_ns = if one.inside { next + 1 } else { next };
            all += 1;
            if asked.has(at_ns, &one.tree).expect("bytes") == Some(false) {
                let (done, inside) = (one.done, one.inside);
                wrong.push(format!(
                    "seed {seed}: after {done} calls (inside: {inside}): {:?}: {:?}",
                    story.deeds,
                    one.tree.keys()
                ));
            }
        }
    }
    (wrong, all)
}

fn programs() -> u64 {
    std::env::var("WEIR_INCLUSION").ok().and_then(|count| count.parse().ok()).unwrap_or(12)
}

fn holds(design: &str, model: (&str, u64)) {
    let (wrong, all) = refused(design, model, 0..programs());
    println!(
        "{design}: {} of {all} trees of {} programs are not legal in {}",
        wrong.len(),
        programs(),
        model.0
    );
    // One for each would be that of an empty file system.
    assert!(all as u64 > programs(), "{all} trees are too few to say anything");
    assert!(
        wrong.is_empty(),
        "{} of {all} trees of {design} are not legal in {model:?}: {}",
        wrong.len(),
        wrong[0]
    );
}

#[test]
fn every_tree_of_nova_is_legal_on_posix() {
    holds("nova", ("posix", 8));
}

#[test]
fn every_tree_of_pmfs_is_legal_on_posix() {
    holds("pmfs", ("posix", 8));
}

#[test]
fn every_tree_of_crest_is_legal_on_posix() {
    holds("crest", ("posix", 8));
}

#[test]
fn every_tree_of_squirrelfs_is_legal_on_posix() {
    holds("squirrelfs", ("posix", 8));
}

#[test]
fn every_tree_of_wofs_is_legal_on_posix() {
    holds("wofs", ("posix", 8));
}

#[test]
fn every_tree_of_ext4_is_legal_in_its_model() {
    holds("ext4", ("ext4", 512));
}

/// The canary of the comparison: a tree with bytes that a program has never written is refused.
#[test]
fn trees_of_other_programs_are_refused() {
    let model = Model::named("posix").expect("a model");
    let mut all = 0;
    let usual = subject("pmfs", &[]);
    for seed in 0..6 {
        let (own, other) = (Arc::new(random(seed, b'a')), random(seed + 100, b'A'));
        let subject = Subject { size: size_for(&usual.design, &own), ..usual.clone() };
        let gathered = gather(&own, &subject, 40, seed).expect("a run");
        let operations = Operations::of(&other);
        let asked = Membership { story: &other, operations: &operations, model: &model };
        let is_foreign =
            |one: &&Recovered| one.tree.values().any(|entry| entry.content.iter().any(|byte| *byte != 0));
        for one in gathered.trees.iter().filter(is_foreign) {
            all += 1;
            assert_ne!(asked.has(u64::MAX, &one.tree).expect("bytes"), Some(true), "seed {seed}");
        }
    }
    assert!(all > 0, "no program has written anything");
}
