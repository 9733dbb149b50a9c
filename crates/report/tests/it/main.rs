//! The tests of this crate: one program, a module for each topic.

mod browser;
mod characterize;
mod exchange;
mod figures;
mod formats;
mod grains;
mod sample;
