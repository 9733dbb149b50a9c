//! Every failure of an access is answered and undone.

use check::crash::programs::{self, Program};
use check::faults::{Tally, fail_operations};

use crate::crash::reuse;
use crate::harness::{SEED, subject};

#[test]
fn every_failure_is_answered_and_undone() {
    let some = programs::all().into_iter().filter(|program| !program.together).step_by(2);
    let chosen: Vec<Program> = some.chain(reuse().into_iter().take(4)).collect();
    let mut tally = Tally::default();
    for program in &chosen {
        tally.add(fail_operations(&subject(None), program, SEED));
    }
    println!("{} programs, {} failures, {:?}", tally.programs, tally.failures(), tally.outcomes);
    tally.violations.iter().take(8).for_each(|violation| println!("  {violation}"));
    assert_eq!(tally.violations.len(), 0);
    assert!(tally.failures() > 300);
}
