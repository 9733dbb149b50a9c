//! The format, merge and cleaning of crest against all small histories.
//!
//! A history is a sequence of calls, each by the task of one of two shards, with copies by the cleaner, failed flushes and crashes
//! between and within them. After each call, and at each crash for each subset of the stores that no fence covered (and each torn
//! line), the records are read back and merged: the result must be the state before or after the call that was interrupted, and the
//! latest one if none was. Histories go on after a crash.
//!
//! `WEIR_CREST_DEPTH=long` (or a number of operations) tries longer histories and prints its progress, `long` also more calls by
//! paths; `WEIR_CREST_FAMILY=name` only those of one family or mutant.

mod bytes;
mod cache;
mod clones;
mod copies;
mod explore;
mod families;
mod frames;
mod full;
mod image;
mod inlines;
mod mapped;
mod mount;
mod ops;
mod parity;
mod patched;
mod paths;
mod planted;
mod saved;
mod sharing;
mod sieved;
mod sums;
mod view;
mod world;

use std::time::Instant;

use design::Mutant;
use explore::{Counts, Family, explore};
use families::{families, mutants};
use fs::crest::format::mutant::{self, Rules};
use ops::Op;

/// How deep a family is searched, and whether progress is printed.
fn depth(family: &Family) -> (usize, bool) {
    match std::env::var("WEIR_CREST_DEPTH").as_deref() {
        Err(_) => (family.depth.0, false),
        Ok("long") => (family.depth.1, true),
        Ok(number) => (number.parse().expect("WEIR_CREST_DEPTH is `long` or a number"), true),
    }
}

fn wanted(name: &str) -> bool {
    std::env::var("WEIR_CREST_FAMILY").map_or(true, |only| only == name)
}

#[test]
fn every_small_history_leads_to_an_allowed_state() {
    for family in families().into_iter().filter(|family| wanted(family.name)) {
        let began = Instant::now();
        let (depth, prints) = depth(&family);
        let mut progress = |level: usize, counts: &Counts| {
            if prints {
                eprintln!(
                    "  {} {level}/{depth}: {counts:?} {:.1} s",
                    family.name,
                    began.elapsed().as_secs_f64()
                );
            }
        };
        match explore(&family, Rules::ALL, depth, &mut progress) {
            Ok(counts) => println!(
                "{:12} depth {depth}: {counts:?} {:.1} s",
                family.name,
                began.elapsed().as_secs_f64()
            ),
            Err(violation) => panic!("{}: {}", family.name, violation.text),
        }
    }
}

#[test]
fn every_rule_is_needed() {
    let mut missed = Vec::new();
    for shown in mutants().iter().filter(|shown| wanted(shown.mutant.name())) {
        let began = Instant::now();
        let found =
            explore(&shown.family, Rules::without(shown.mutant), shown.family.depth.0, &mut |_, _| {});
        let start: Vec<_> = shown.family.start.iter().map(|(op, shard)| format!("{op:?}@{shard}")).collect();
        match found {
            Err(violation) => println!(
                "{:27} {} + {} {}; {} ({:.1} s)",
                shown.mutant.name(),
                start.len(),
                violation.steps,
                start.join(", "),
                violation.text,
                began.elapsed().as_secs_f64()
            ),
            Ok(counts) => {
                println!(
                    "{:27} NOT FOUND {counts:?} ({:.1} s)",
                    shown.mutant.name(),
                    began.elapsed().as_secs_f64()
                );
                missed.push(shown.mutant.name());
            }
        }
    }
    // Races are found on the mount, by the tests of recall.
    let looked_for = |mutant: &Mutant| {
        let is_race = !mutant.scenarios().is_empty();
        is_race || mutants().iter().any(|shown| shown.mutant == *mutant) || LONG.contains(mutant)
    };
    missed.extend(mutant::ALL.iter().filter(|mutant| !looked_for(mutant)).map(Mutant::name));
    assert!(missed.is_empty(), "rules that no history needs: {missed:?}");
}

/// Rules that only long histories need.
const LONG: [Mutant; 4] = [
    mutant::CUTS_NEVER_DIE,
    mutant::NO_RESERVE,
    mutant::CLEANER_WITHOUT_RESERVE,
    mutant::CLEANER_NEVER_RESTS,
];

#[test]
fn a_full_pool_can_always_be_emptied() {
    println!("{} files in full pools", full::full_pools(Rules::ALL).expect("every removal finds room"));
    for mutant in [mutant::NO_RESERVE, mutant::CLEANER_WITHOUT_RESERVE, mutant::CLEANER_NEVER_RESTS] {
        let broken = full::full_pools(Rules::without(mutant));
        println!("{:27} {broken:?}", mutant.name());
        assert!(broken.is_err(), "{} is not found", mutant.name());
    }
}

#[test]
fn cutting_a_file_for_ever_needs_no_cleaner() {
    println!("{} log zones at most", full::cut_for_ever(Rules::ALL).expect("few zones"));
    let broken = full::cut_for_ever(Rules::without(mutant::CUTS_NEVER_DIE));
    println!("{:27} {broken:?}", mutant::CUTS_NEVER_DIE.name());
    assert!(broken.is_err(), "a cut that never dies is not found");
}

/// What a call is called, what comes before it, the call, its fences and lines.
type Row<'a> = (&'a str, &'a [Op], Op, (usize, usize));

/// Fences and lines of records of each call, without data; names of one byte.
#[test]
fn calls_cost_the_fences_and_lines_of_the_design() {
    let (a, b) = ((0, 1), (0, 2));
    let (file, data) = ([Op::Create(a)], [Op::Create(a), Op::Write(a, 0, 4)]);
    let rows: [Row<'_>; 12] = [
        ("create", &[Op::Create(b)], Op::Create(a), (1, 2)),
        ("unlink", &file, Op::Unlink(a), (1, 1)),
        ("rename", &file, Op::Rename(a, b), (1, 2)),
        ("rename over a file", &[Op::Create(a), Op::Create(b)], Op::Rename(a, b), (1, 2)),
        ("link", &file, Op::Link(a, b), (1, 2)),
        ("chmod", &file, Op::Chmod(a), (1, 1)),
        ("truncate, shorter", &data, Op::Truncate(a, 1), (1, 1)),
        ("truncate, longer", &data, Op::Truncate(a, 6), (1, 1)),
        (
            "truncate, longer, over an end within a block",
            &[Op::Create(a), Op::Write(a, 0, 3)],
            Op::Truncate(a, 6),
            (2, 1),
        ),
        ("append a block", &data, Op::Write(a, 4, 2), (2, 1)),
        ("overwrite a block", &data, Op::Write(a, 0, 2), (2, 1)),
        ("overwrite 64 bytes", &data, Op::Inline(a, 0, 1), (1, 2)),
    ];
    for (name, start, op, cost) in rows {
        println!("{name}: {} fences, {} lines", cost.0, cost.1);
        assert_eq!(full::cost(start, op), cost, "{name}");
    }
}
