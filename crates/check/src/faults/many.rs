//! Programs side by side.

use super::{Tally, fail_operations, fail_recovery, poison_reading};
use crate::crash::{Program, Subject};
use crate::limits::Limits;

/// Lets everything fail in each of some programs, in what a crash in them leaves, and first of all in what only reads, within
/// limits. `done` is told of each program. Violations come in the order of the programs.
pub fn fail_many(
    subject: &Subject,
    programs: &[Program],
    (seed, limits): (u64, &Limits),
    done: &(dyn Fn(&Tally) + Sync),
) -> Tally {
    let one = |number: usize| {
        let tally = match number.checked_sub(1) {
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
    for tally in limits.side_by_side(programs.len() + 1, &one) {
        all.add(tally);
    }
    all
}
