//! Crash states of a user's program: from a trace with contents to the trees that a power loss may leave, and what a checker says
//! of them. `docs/crash-of-programs.md` is the manual.
//!
//! ```text
//!   trace + contents ──► story ──► operations ──► points ──► states ──► trees ──► folder ──► checker
//!                        (deeds)   (micro-ops)    (model: covered, closed)  (dedup)            │
//!                          │                                                     judge ◄───────┘
//!                          └──► designs: replay under the recorder ──────────────► cause, fix
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `halves` | calls that never returned, put into the trace |
//! | `mapped` | what was stored through mappings, as far as samples show it |
//! | [`story`] | what a trace shows: deeds on inodes with their bytes, syncs, acknowledgements |
//! | `walk` | how it is found: names, links, descriptors, positions |
//! | [`operations`] | deeds as micro-operations, each of which persists alone or, of data, by pieces |
//! | [`model`] | file systems as tables of clauses (`presets/crash-models`), each with its source |
//! | [`points`] | crash points: what has begun, what a sync has covered, what is free |
//! | `closure` | which sets of micro-operations are legal |
//! | [`states`] | the legal sets of a point: all of them, or those that show most |
//! | [`tree`] | a set as a tree: its hash, its files |
//! | [`folder`] | a tree in a folder of the host |
//! | [`checker`] | the user's command in that folder |
//! | [`world`] | where it runs: the path of its tree, its network |
//! | [`judge`] | which trees are checked, in which order, and what came of it |
//! | [`designs`] | the program on a design of Weir, whose images are mounted |
//! | [`run`] | all of it |
//! | [`random`] | small programs, for tests of models |
//! | [`members`] | whether a tree that was seen is legal in a model |
//! | [`promises`] | what needs no checker |
//! | `stacks` | where in the program a call was made |
//! | [`cause`] | the fewest lost operations, and the pair of calls behind them |
//! | [`fix`] | which sync would help, tried on the model |
//!
//! A **legal state** is a set of micro-operations that have begun, which has every one that a sync has covered and is closed under
//! the order of the model. Nothing here names a file system: a model is data.
//!
//! Nothing outside the scratch folder is written, whatever a trace contains: names of a tree are single components, folders are
//! made before what is in them, files are made new and never through a link; devices and FIFOs are left out and named.

pub mod alike;
pub mod cause;
pub mod checker;
mod closure;
pub mod designs;
pub mod fix;
pub mod folder;
mod halves;
pub mod judge;
mod mapped;
pub mod members;
pub mod model;
pub mod operations;
pub mod points;
pub mod promises;
pub mod random;
pub mod run;
mod stacks;
pub mod states;
pub mod story;
pub mod tree;
mod walk;
pub mod world;

/// A set of small numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bits(Vec<u64>);

impl Bits {
    /// An empty set of numbers below `count`.
    pub fn new(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    /// Whether it has a number.
    pub fn has(&self, at: u32) -> bool {
        self.0.get(at as usize / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Adds a number.
    pub fn add(&mut self, at: u32) {
        if let Some(word) = self.0.get_mut(at as usize / 64) {
            *word |= 1 << (at % 64);
        }
    }

    /// Takes a number out.
    pub fn remove(&mut self, at: u32) {
        if let Some(word) = self.0.get_mut(at as usize / 64) {
            *word &= !(1 << (at % 64));
        }
    }

    /// The numbers that both have, as words, into `key`.
    pub(crate) fn masked(&self, mask: &Self, key: &mut Vec<u64>) {
        key.clear();
        key.extend(self.0.iter().zip(&mask.0).map(|(own, mask)| own & mask));
    }

    /// The word at a place: 64 numbers.
    pub(crate) fn word(&self, at: u32) -> u64 {
        self.0.get(at as usize).copied().unwrap_or(0)
    }

    /// Its numbers, the least first.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(at as u32 * 64 + bit)
            })
        })
    }

    /// How many it has.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
}

#[cfg(test)]
mod tests;
