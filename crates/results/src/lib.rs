//! What a measurement leaves behind: plain data that outlives the program that measured it.
//!
//! | module | holds |
//! |---|---|
//! | [`record`] | [`ResultFile`] and its [`Sample`]s: one cell of a plan, run once |
//! | [`histogram`] | [`Histogram`] of latencies, kept whole in the file |
//! | [`claim`] | [`ClaimOutcome`]: a published number beside the measured one |
//! | [`correlation`] | which numbers go together: coefficients with errors, intervals and chances |
//! | [`curve`] | curves over the number of threads, and the class of each: scales, saturates, collapses, never scales |
//! | [`environment`] | [`Environment`]: the facts about the host, without who or where |
//! | [`event_rates`] | the same counts by access, instruction and operation |
//! | [`events`] | [`EventCounts`]: which events of processors were counted, and why others were not |
//! | [`program`] | classes of a recorded program's time |
//! | [`kernel`] | [`KernelLocks`]: what tasks waited for in the kernel of the host |
//! | [`prices`] | by which prices designs ran, and how far their ratios may be wrong |
//! | [`relation`] | rates of events beside throughput: the points of coefficients |
//! | [`scaling`] | how throughput grows with the workers: [`scaling::Usl`], [`scaling::Limit`] |
//! | [`statistics`] | medians, intervals, verdicts, many of them at once |
//! | [`steady`] | whether a longer run would show the same rate |
//! | [`validation`] | [`validation::ValidationFile`]: the model beside published measurements |
//! | [`file`](mod@file) | reading with clear errors, writing whole or not at all |
//!
//! Every key carries its unit last in its name (`elapsed_ns`, `written_bytes`). A counter that was never
//! wired is absent; a counter that is 0 was counted and found to be 0. The JSON Schemas of the documents
//! lie in `schema/`, and a test holds them equal to what is written.
//!
//! This crate does not know the crates that run experiments or print results. It takes no locks.

#![forbid(unsafe_code)]

pub mod claim;
pub mod correlation;
pub mod curve;
pub mod environment;
pub mod event_rates;
pub mod events;
pub mod file;
pub mod histogram;
pub mod kernel;
pub mod paired;
pub mod prices;
pub mod program;
pub mod record;
pub mod relation;
pub mod scaling;
pub mod statistics;
pub mod steady;
mod student;
pub mod validation;

pub use claim::{ClaimOutcome, ClaimsFile, Class, Input, Origin, ReadingOutcome};
pub use environment::Environment;
pub use events::{EventCounts, EventRecord, EventWindows};
pub use file::FileError;
pub use histogram::{Histogram, Summary};
pub use kernel::{KernelLock, KernelLocks};
pub use prices::{ErrorRecord, PricesRecord};
pub use record::{
    BACKGROUND, Clock, CostRecord, FailureKind, HostFacts, HostRecord, HypothesisOutcome, InputKind,
    InputRecord, JobRecord, NeighbourRecord, OperationRecord, PartRecord, PlacementRecord, ResultFile,
    ResultsFile, Sample, SampleFailure, SeriesRecord, SpanRecord, StepRecord, WorkRecord, WorkerRecord,
};
