//! Reliability harnesses, for every design alike: what a file system answers is compared with a model, what a power loss leaves
//! of it with what it promises.
//!
//! ```text
//!   weir check, tests ──► Lockstep ──► Runner ──► a design     answers and trees are those of the model
//!          │                 │  └─────► Kernel ──► vfs::Host    ... and those of the host's kernel
//!          │                 └────────► shrink: the shortest program that shows a difference
//!          ├────────────► schedules: scenarios ──► orders of tasks ──► linearizable?
//!          ├────────────► fuzz: images ──► mutants ──► fsck, recover, mount, use
//!          └────────────► crash: programs ──► record ──► crash points ──► images ──► recover, judge, use
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`design`] | [`Design`]: all that the harnesses know of a file system |
//! | [`op`] | [`Op`]: an operation by path; [`Runner`] carries it out on a mounted design |
//! | [`generate`] | [`Generator`]: random operations over a few names |
//! | [`model`] | [`Model`]: the reference, POSIX in maps |
//! | [`tree`] | [`Tree`]: what can be seen of a file system; differences |
//! | [`observe`](mod@observe) | a mounted design as a tree, checked on the way |
//! | [`lockstep`] | random runs of a design beside the model |
//! | [`kernel`] | the same operations on a directory of the host |
//! | [`shrink`] | a failing program made short |
//! | [`crash`] | crashes at every point of programs, and of the recoveries after them |
//! | [`recall`] | what the checks find of bugs that were seeded |
//! | [`faults`] | failures of every access of programs, and of the recoveries after crashes |
//! | [`fuzz`] | images with edits: nobody panics, hangs, or says what is not so |
//! | [`schedules`] | several tasks at once, in many orders |
//! | [`canary`] | designs with a flaw that must be found |
//! | [`Limits`] | on how many threads, and until when |
//!
//! Everything random comes from a seed, which every failure names. No particular design is known here, and no output: what was
//! done and found is returned.

#![forbid(unsafe_code)]

pub mod canary;
pub mod crash;
pub mod design;
pub mod faults;
pub mod fuzz;
pub mod generate;
pub mod kernel;
mod limits;
pub mod lockstep;
pub mod model;
pub mod observe;
pub mod op;
pub mod recall;
pub mod schedules;
pub mod shrink;
pub mod tree;

pub use design::Design;
pub use generate::Generator;
pub use limits::Limits;
pub use model::Model;
pub use observe::observe;
pub use op::{File, NEW, Op, Pattern, Reply, Runner};
pub use tree::{Tree, difference};
