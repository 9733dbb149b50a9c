//! The tests of this crate: one program, a module for each topic.

mod cache;
mod differential;
mod host_mapping;
mod kernel;
mod locks;
mod memfs;
mod paths;
mod rules;
mod schedules;
mod shared;
