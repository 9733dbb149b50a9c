//! The same seed gives the same run, on any host, also when many things happen at one instant.

use crate::program::{Program, execute, machine, trace};
use proptest::prelude::*;
use sim::{Nanos, Seed, Setup};

proptest! {
    /// Short spans: most events share their instant with others. `execute` asserts that no other task is inside a
    /// lock with others.
    #[test]
    fn a_program_of_simultaneous_events_gives_the_same_trace_twice(
        seed: u64, tasks in 1..40_usize, steps in 1..20_usize, longest in 1..50_u64,
    ) {
        let program = Program::random(seed, tasks, steps, longest);
        prop_assert_eq!(trace(&program, Nanos(100)), trace(&program, Nanos(100)));
    }

    #[test]
    fn runs_beside_each_other_on_several_host_threads_do_not_meet(seed: u64) {
        let program = Program::random(seed, 8, 10, 30);
        let alone = trace(&program, Nanos(100));
        std::thread::scope(|scope| {
            let runs: Vec<_> = (0..3).map(|_| scope.spawn(|| trace(&program, Nanos(100)))).collect();
            for run in runs {
                assert_eq!(run.join().expect("no panic"), alone);
            }
        });
    }
}

/// Threads of a real run hold each other out as tasks do.
#[test]
fn locks_exclude_under_the_real_clock() {
    for seed in 0..20 {
        let program = Program::random(seed, 6, 20, 2_000);
        execute(&program, &Setup::real_clock(machine(), Seed(seed)));
    }
}

/// Changing the generator or the derivation would change the meaning of every seed that was ever published.
#[test]
fn a_seed_means_the_same_for_ever() {
    use rand::Rng as _;
    let mut rng = Seed(42).derive("golden", 7).rng();
    let numbers: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
    assert_eq!(numbers, [17_868_413_362_419_011_407, 3_418_876_166_023_750_039, 4_341_772_942_096_219_347]);
}
