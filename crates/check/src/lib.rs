//! Reliability harnesses for every design. They compare what a file system answers with a model, and what a power loss leaves
//! with what the design promises.
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
//! | [`configured`] | [`Configured`]: a design with its options, as the harnesses reach it |
//! | [`op`] | [`Op`]: an operation by path; [`Runner`] carries it out on a mounted design |
//! | [`generate`] | [`Generator`]: random operations over a few names |
//! | [`model`] | [`Model`]: the reference, POSIX in maps |
//! | [`tree`] | [`Tree`]: what can be seen of a file system; differences |
//! | [`observe`](mod@observe) | a mounted design as a tree, checked on the way |
//! | [`lockstep`] | random runs of a design beside the model |
//! | [`kernel`] | the same operations on a directory of the host |
//! | [`shrink`] | makes a failing program shorter |
//! | [`crash`] | crashes at every point of programs, and of the recoveries after them |
//! | [`recall`] | which seeded bugs the checks find |
//! | [`faults`] | failures of every access of programs, and of the recoveries after crashes |
//! | [`fuzz`] | edited images: no call panics or hangs, and fsck and mount agree |
//! | [`schedules`] | several tasks at once, in many orders |
//! | [`program`] | what a power loss leaves of a user's own program, on models of file systems and on designs |
//! | [`canary`] | designs with a flaw that must be found |
//! | [`Limits`] | how many threads work, and until when |
//!
//! All randomness comes from a seed, which every failure reports. This crate knows no particular design and prints nothing: it
//! returns what it did and found.

#![forbid(unsafe_code)]

pub mod canary;
pub mod configured;
pub mod crash;
pub mod faults;
pub mod fuzz;
pub mod generate;
pub mod kernel;
mod limits;
pub mod lockstep;
pub mod model;
mod names;
pub mod observe;
pub mod op;
pub mod program;
pub mod recall;
pub mod schedules;
pub mod shrink;
pub mod tree;

pub use configured::Configured;
pub use generate::Generator;
pub use limits::Limits;
pub use model::Model;
pub use observe::observe;
pub use op::{File, NEW, Op, Pattern, Reply, Runner};
pub use tree::{Tree, difference};
