//! The tests of this crate: one program, a module for each topic.

mod dependency;
mod pool;
#[cfg(feature = "serve")]
mod served;
