//! Workloads: what is done to a file system, never how it is timed.
//!
//! | module | holds |
//! |---|---|
//! | [`filebench`] | an interpreter for Filebench's workload language, with the well-known personalities |
#![forbid(unsafe_code)]

pub mod filebench;
