//! The tests of this crate: one program, a module for each topic.

mod browser;
mod figures;
mod formats;
mod grains;
mod sample;
