//! Programs side by side.

use super::{Tally, fail_operations, fail_recovery, poison_reading};
use crate::crash::many::side_by_side;
use crate::crash::{Program, Subject};

/// Lets everything fail in each of some programs, in what a crash in them leaves, and in what only reads. `jobs` threads; `done` is
/// told of each program. Violations come in the order of the programs.
pub fn fail_many(
    subject: &Subject,
    programs: &[Program],
    (seed, jobs): (u64, usize),
    done: &(dyn Fn(&Tally) + Sync),
) -> Tally {
    let one = |number: usize| {
        let tally = match programs.get(number) {
            Some(program) => {
                let mut tally = fail_operations(subject, program, seed);
                tally.add(fail_recovery(subject, program, seed));
                tally
            }
            None => poison_reading(subject, seed),
        };
        done(&tally);
        tally
    };
    let mut all = Tally::default();
    side_by_side(programs.len() + 1, (jobs, None), &one).into_iter().for_each(|tally| all.add(tally));
    all
}
