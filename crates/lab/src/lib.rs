//! Experiments: plans, cells, runs, claims, calibration.
//!
//! | module | holds |
//! |---|---|
//! | [`plan`] | [`Plan`]: what varies, what is kept, what is expected; checked whole before anything runs |
//! | [`named`] | the workload of a cell, by its name |
//! | [`cells`] | samples on disk, by the keys of their cells |
//! | [`canonical`] | one text for one document, and its hash |
//! | [`campaign`] | one plan on many hosts |
//! | [`runner`] | [`Runner`]: cells side by side as memory allows, or one by one under the real clock |
//! | [`cell`] | one cell, run once |
//! | [`claims`] | published numbers, and how each is computed from cells |
//! | [`readings`] | what a paper leaves open, and its claims under each answer |
//! | [`neighbours`] | the settings beside those of a plan: seeds, lengths, machines, media |
//! | [`counters`] | events of processors: the host's, and those of a simulated one |
//! | [`contention`] | the locks and cache lines that results name, and that can be free in a run |
//! | [`machine`] | what CPU work costs on which machine, each value with its source |
//! | [`prices`] | the sets of prices by which designs are compared |
//! | [`trust`] | how far a modelled ratio of two designs may be wrong |
//! | [`calibrate`](mod@calibrate) | measures the machine `this-host` |
//! | [`medium`] | a medium by itself: loops of loads and stores |
//! | [`medium_load`], [`memory_model`] | a memory under load: measured by itself; that of a machine, and what pages say of one |
//! | [`validation`] | the model beside published measurements: rows, errors, limits, controls |
//! | [`flash`] | the SSD model by itself: traces, and the device's part of the FAST 2024 study |
//! | [`kernel_fs`] | file systems of the host's kernel, made for a cell and gone with it |
//! | [`kernel_locks`] | what tasks wait for in the kernel of the host |
//! | [`environment`] | facts about the host |
//! | [`watch`] | what the host does while a cell runs under the real clock |
//! | [`presets`] | the plans, papers and machines that are part of the program |
//! | [`document`] | TOML with places: messages that point at line and column |
//!
//! This crate knows no output format: it measures and judges, `report` shows.

#![forbid(unsafe_code)]

pub mod calibrate;
pub mod campaign;
pub mod canonical;
pub mod cell;
pub mod cells;
pub mod claims;
pub mod contention;
pub mod counters;
pub mod environment;
pub mod error;
pub mod flash;
pub mod kernel_fs;
pub mod kernel_locks;
pub mod machine;
pub mod medium;
pub mod medium_load;
pub mod memory_model;
pub mod named;
pub mod neighbours;
mod originals;
pub mod plan;
pub mod presets;
pub mod prices;
pub mod readings;
pub mod runner;
pub mod trust;
pub mod validation;
pub mod watch;

pub use error::Error;
pub use machine::MachinePreset;
pub use plan::{CellSpec, Plan};
pub use prices::Prices;
pub use runner::{Progress, Runner, Settings, Silent};
