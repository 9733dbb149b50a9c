//! The tests of this crate: one program, a module for each topic.

mod atomics;
mod attached;
mod cache;
mod closed_forms;
mod cores;
mod determinism;
mod endings;
mod free;
mod ledger;
mod memory;
mod moving;
mod program;
mod ran;
mod reference;
mod schedules;
mod sleeping;
mod spread;
mod time;
mod two_clocks;
