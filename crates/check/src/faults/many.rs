//! Programs in parallel.

use std::ops::Range;

use super::{Tally, fail_operations, fail_recovery, poison_reading};
use crate::crash::{Program, Subject};
use crate::limits::Limits;

/// Lets every access fail: first in a program that only reads, then in each given program and in the mounts after its crashes,
/// within limits. Calls `done` for each program. Violations are in the order of the programs.
pub fn fail_many(
    subject: &Subject,
    programs: &[Program],
    (seed, limits): (u64, &Limits),
    done: &(dyn Fn(&Tally) + Sync),
) -> Tally {
    fail_range(subject, programs, 0..programs.len() + 1, (seed, limits), done)
}

/// The part of [`fail_many`] with these numbers: 0 is the program that only reads, `n + 1` the given program `n`.
pub fn fail_range(
    subject: &Subject,
    programs: &[Program],
    range: Range<usize>,
    (seed, limits): (u64, &Limits),
    done: &(dyn Fn(&Tally) + Sync),
) -> Tally {
    let one = |at: usize| {
        let tally = match (range.start + at).checked_sub(1) {
            None => poison_reading(subject, seed),
            Some(at) => {
                let mut tally = fail_operations(subject, &programs[at], seed);
                tally.add(fail_recovery(subject, &programs[at], seed));
                tally
            }
        };
        done(&tally);
        tally
    };
    let mut all = Tally::default();
    for tally in limits.side_by_side(range.len(), &one) {
        all.add(tally);
    }
    all
}
