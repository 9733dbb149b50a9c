//! Every failure of an access is answered and undone.

use check::crash::programs::{self, Program};
use check::faults::{Tally, fail_operations, poison_reading};

use crate::harness::{SEED, subject};

#[test]
fn every_failure_is_answered_and_undone() {
    let some = programs::all().into_iter().filter(|program| !program.together).step_by(2);
    let chosen: Vec<Program> = some.chain(programs::reused().into_iter().take(4)).collect();
    let mut tally = Tally::default();
    for program in &chosen {
        tally.add(fail_operations(&subject(None), program, SEED));
    }
    println!("{} programs, {} failures, {:?}", tally.programs, tally.failures(), tally.outcomes);
    tally.violations.iter().take(8).for_each(|violation| println!("  {violation}"));
    assert_eq!(tally.violations.len(), 0);
    assert!(tally.failures() > 300);
}

#[test]
fn a_line_that_cannot_be_read_is_confined_to_what_needs_it_and_healed_by_a_write() {
    assert_eq!(poison_reading(&subject(None), SEED).violations, []);
}
