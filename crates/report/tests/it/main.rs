//! The tests of this crate: one program, a module for each topic.

mod browser;
mod exchange;
mod figures;
mod formats;
mod grains;
mod sample;
