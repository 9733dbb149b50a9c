//! The tests of this crate that make and mount pools: one program, a module for each topic.

mod batches;
mod holes;
mod images;
mod mounts;
mod room;
mod steady;
mod steps;
mod superseded;
mod support;
mod together;
