//! What the tests of every design share: a reference model, operations that both it and a design carry out, and a look at
//! a mounted design as a tree that can be compared with the model's.

#![allow(dead_code)] // each test binary uses its own part

pub mod generate;
pub mod harness;
pub mod model;
pub mod nested;
pub mod observe;
pub mod op;
pub mod tree;
