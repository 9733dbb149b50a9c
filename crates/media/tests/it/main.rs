//! The tests of this crate: one program, a module for each topic.

mod block;
mod block_crashes;
mod cost;
mod disk;
mod flash;
mod flash_invariants;
mod lints;
mod mechanisms;
mod media;
mod partition;
mod queue;
mod real_clock;
mod recorder;
mod region;
