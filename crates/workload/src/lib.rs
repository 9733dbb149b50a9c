//! Workloads: what is done to a file system, never how it is timed.
//!
//! | module | holds |
//! |---|---|
//! | [`suite`] | what every suite of workloads offers: [`Suite`], [`Workload`], [`Job`] |
//! | [`filebench`] | an interpreter for Filebench's workload language, with the well-known personalities |
#![forbid(unsafe_code)]

pub mod filebench;
pub mod suite;
mod tree;

pub use suite::{Job, JobError, LoadError, Suite, Workload};

/// Every suite, in the order in which lists show them.
pub const SUITES: &[&dyn Suite] = &[&filebench::Filebench];
