//! The tests of this crate: one program, a module for each topic.

mod histories;
