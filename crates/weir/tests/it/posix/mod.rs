//! POSIX's rules for file systems, by the calls of a program: in this process on each design, through a mount of each, and on a
//! file system of this host's kernel, which must agree.
//!
//! | file | rules about |
//! |---|---|
//! | `paths.rs` | what every path may be |
//! | `names.rs` | making, linking, renaming and removing |
//! | `permissions.rs` | who may do what; owners and mode bits |
//! | `contents.rs` | reading, writing, sizes, holes |
//! | `times.rs` | which calls mark which times, and what times are kept |
//! | `xattrs.rs` | extended attributes |
//!
//! `[Linux]` marks what POSIX leaves open and Linux does not.

#![allow(clippy::needless_pass_by_value)] // what a call answered is of no use to anybody after it was compared

mod contents;
mod names;
mod paths;
mod permissions;
mod times;
mod world;
mod xattrs;

use crate::shared::evidence;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use vfs::{LeftOut, Promises};
use world::{Ground, InProcess, Kernel, World};

/// What became of a rule: what was expected and what was found.
type Check = Result<(), String>;

/// A rule: what it says, and the calls that show it.
type Rule = (&'static str, fn(&Ground<'_>) -> Check);

fn rules(promises: &Promises) -> Vec<Rule> {
    let about_attributes = if promises.left_out.contains(LeftOut::ATTRIBUTES) { &[] } else { xattrs::RULES };
    [paths::RULES, names::RULES, permissions::RULES, contents::RULES, times::RULES, about_attributes].concat()
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: T, expected: T) -> Check {
    if got == expected { Ok(()) } else { Err(format!("{what}: {got:?}, expected {expected:?}")) }
}

/// Runs all rules, several at a time where the world allows it, each in a directory of its own; returns what was broken.
fn broken(world: &dyn World) -> Vec<String> {
    let rules = rules(&world.promises());
    let (next, broken) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((number, (says, rule))) = {
            let number = next.fetch_add(1, Relaxed);
            rules.get(number).map(|rule| (number, rule))
        } {
            let outcome = Ground::new(world, number).and_then(|ground| rule(&ground));
            if let Err(why) = outcome {
                broken.lock().unwrap().push(format!("{says}: {why}"));
            }
        }
    };
    if world.is_parallel() {
        // Rules about times mostly sleep.
        std::thread::scope(|scope| (0..24).for_each(|_| drop(scope.spawn(work))));
    } else {
        work();
    }
    let broken = broken.into_inner().unwrap();
    println!("{}: {} rules, {} broken", world.name(), rules.len(), broken.len());
    evidence::record("posix", &world.name(), (rules.len(), "rules"), broken.len(), None);
    broken
}

fn keeps_all(world: &dyn World) {
    let broken = broken(world);
    assert!(broken.is_empty(), "{}:\n  {}", world.name(), broken.join("\n  "));
}

#[test]
fn designs_in_this_process_keep_the_rules() {
    for design in fs::FILE_SYSTEMS.iter().map(|design| design.name()) {
        InProcess::run(design, |world| keeps_all(world));
    }
}

#[test]
fn mounted_designs_keep_the_rules() {
    for design in ["pmfs", "hinfs"] {
        for words in ["cache=pages", "cache=direct"] {
            if let Some(world) = Kernel::mounted(design, words) {
                keeps_all(&world);
            }
        }
    }
}

/// The rules themselves are judged by a file system that everybody trusts.
#[test]
fn the_kernel_s_own_file_system_keeps_the_rules() {
    if let Some(world) = Kernel::of_host() {
        keeps_all(&world);
    }
}

/// A rule that is broken is reported: the canary of this suite.
#[test]
fn a_broken_rule_is_seen() {
    InProcess::run("pmfs", |world| {
        let ground = Ground::new(world, 0).expect("a directory");
        let made = ground.by(world::ROOT, |calls| world::make(calls, "file", 0o600));
        assert_eq!(made, Ok(()));
        let checked = ground
            .by(world::ROOT, |calls| same("mode", calls.stat(b"file").map(|attr| attr.perm), Ok(0o644)));
        assert!(checked.is_err());
    });
}
