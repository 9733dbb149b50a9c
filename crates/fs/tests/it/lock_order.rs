//! The order of locks that each design declares is held in debug builds: a task that takes two locks in the other order is stopped.
//!
//! The designs' own order is tested by everything else that runs here: a debug build panics where a call breaks it.

use design::Design;
use sim::{Clock, LockClass, Machine, Mutex, Seed, Setup};

/// Classes that no task holds: of conditions, of permits, and of states that a call waits for.
const NOT_HELD: [&str; 8] = [
    "pmfs.cleaner",
    "pmfs.journal_space",
    "hinfs.no_free_page",
    "hinfs.writeback_idle",
    "rcache.copier",
    "ext4.journal_wait",
    "crest.writeback_idle",
    "linux.locked_transaction",
];

/// The classes of a design that declare an order.
fn ordered(design: &dyn Design) -> Vec<&'static LockClass> {
    design.classes().into_iter().filter(|class| class.above().is_some()).collect()
}

#[test]
fn every_lock_of_a_design_declares_its_order() {
    let mut bare: Vec<&str> = Vec::new();
    for design in fs::FILE_SYSTEMS {
        let locks = design.classes().into_iter().filter(|class| class.line().is_none());
        let own = locks.filter(|class| !NOT_HELD.contains(&class.name()));
        bare.extend(own.filter(|class| class.above().is_none()).map(LockClass::name));
    }
    assert_eq!(bare, [""; 0], "add `.under(&[…])` to the class");
}

/// Takes a lock of each class, the second while the first is held; whether the run ends well.
fn ends(clock: Clock, first: &'static LockClass, second: &'static LockClass) -> Result<(), String> {
    let setup = Setup { clock, ..Setup::virtual_clock(Machine::unit(), Seed(1)) };
    let run = sim::run(&setup, move || {
        let (first, second) = (Mutex::new(first, ()), Mutex::new(second, ()));
        let held = first.lock();
        drop(second.lock());
        drop(held);
    });
    run.map(drop).map_err(|error| error.to_string())
}

/// Whether a class is declared to be above another, at any distance.
fn is_above(above: &LockClass, below: &LockClass) -> bool {
    let (mut reached, mut at) = (vec![below], 0);
    while let Some(class) = reached.get(at).copied() {
        for next in class.above().into_iter().flatten().copied() {
            if !reached.iter().any(|known| std::ptr::eq(*known, next)) {
                reached.push(next);
            }
        }
        at += 1;
    }
    reached[1..].iter().any(|class| std::ptr::eq(*class, above))
}

/// In each design with two classes of which one is above the other: the declared order ends well, the other one is found.
#[test]
fn two_locks_in_the_wrong_order_are_found_in_every_design() {
    let mut pairs = 0;
    for design in fs::FILE_SYSTEMS {
        for below in ordered(*design) {
            for above in
                below.above().into_iter().flatten().copied().filter(|above| !std::ptr::eq(*above, below))
            {
                // Of classes that are above each other the header of their module gives the order, not the check.
                if is_above(below, above) {
                    continue;
                }
                pairs += 1;
                for clock in [Clock::Virtual, Clock::Real] {
                    let (below_name, above_name) = (below.name(), above.name());
                    assert_eq!(ends(clock, above, below), Ok(()), "{above_name}, then {below_name}");
                    let found = ends(clock, below, above).expect_err("a wrong order");
                    assert!(found.contains("lock order") && found.contains(above_name), "{found}");
                }
            }
        }
    }
    assert!(pairs > 60, "{pairs} pairs");
}
