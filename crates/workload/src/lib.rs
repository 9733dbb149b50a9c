//! Workloads: what is done to a file system, never how it is timed.
//!
//! | module | holds |
//! |---|---|
//! | [`app`] | applications: the calls of a mail server, a file server's clients and others |
//! | [`archive`] | tar, untar, zip and unzip of a tree of files |
//! | [`bonnie`] | Bonnie and Bonnie++: passes over a large file, and over small ones |
//! | [`block`] | requests to a block device as plain data, and the public formats of traces |
//! | [`charges`] | what a load generator charges to the ledger |
//! | [`fragmentation`] | the experiments of the FAST 2024 study of fragmentation, as layouts and requests |
//! | [`suite`] | what every suite of workloads offers: [`Suite`], [`Workload`], [`Job`] |
//! | [`ffsb`] | profiles of FFSB |
//! | [`filebench`] | an interpreter for Filebench's workload language, with the well-known personalities |
//! | [`fio`] | job files of fio |
//! | [`replay`] | recorded programs |
//! | `sqlite` | SQLite in this process, on the files of a run |
//! | [`fxmark`] | loops on one part of a file system each, with more and more workers |
#![forbid(unsafe_code)]

pub mod app;
pub mod archive;
pub mod block;
pub mod bonnie;
pub mod charges;
pub mod ffsb;
pub mod filebench;
pub mod fio;
pub mod fragmentation;
pub mod fxmark;
pub mod replay;
mod sqlite;
pub mod suite;
mod tree;

pub use suite::{Job, JobError, LoadError, Suite, Workload};

/// Every suite, in the order in which lists show them.
pub const SUITES: &[&dyn Suite] = &[
    &filebench::Filebench,
    &fxmark::FxMark,
    &fragmentation::Fragmentation,
    &fio::Fio,
    &replay::Replay,
    &app::App,
    &bonnie::Bonnie,
    &archive::Archive,
    &ffsb::Ffsb,
];
