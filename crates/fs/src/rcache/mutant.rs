//! The bug that can be seeded in RCache: a race, which only a switch of tasks between two atomics shows.

use design::Mutant;

/// The copier ends a copy (number 5 of the table of states) by a load and a store of the word: a writer that dooms the entry
/// between them is overlooked, and the old block, which it left to the copier, is lost.
pub(crate) const END_IN_TWO_STEPS: Mutant =
    Mutant::new("rcache-end-in-two-steps", "lock-free word changed in two steps")
        .shown_by_tasks(&["read | write"]);

/// All of them.
pub(crate) const ALL: [Mutant; 1] = [END_IN_TWO_STEPS];
