//! Processors, caches, a memory controller and NVRAM, under software and hardware logging.
//!
//! The study is "Steal but No Force: Efficient Hardware Undo+Redo Logging for Persistent Memory Systems" (HPCA 2018, shown as
//! slides of UCSC in 2016). A program of transactions runs under a logging scheme on a simulated machine; events are simulated
//! in the order of their times, in picoseconds, so that a run repeats to the cycle from its seed.
//!
//! ```text
//!  workload ──PmCtx──► scheme::software ──ops──► core (window, store buffer) ──► cache (L1, last level)
//!                                                   │ records of hardware           │ misses, evictions
//!                                                   ▼                               ▼
//!                                         log::buffer ───────────────────► memory::controller ──► bank
//!                                                   ▲ head                          │ durable
//!                                                  fwb ◄────────────────────────────┘
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`machine`] | every parameter, presets, canonical text |
//! | [`workload`] | programs over [`workload::PmCtx`] |
//! | [`trace`] | capture, import and replay of memory accesses |
//! | [`scheme`] | logging schemes; [`scheme::software`] turns a program into operations |
//! | [`core`] | a hardware thread: window, store buffer, write combining |
//! | [`cache`] | L1s, the inclusive last level, coherence |
//! | [`log`] | format of records, the log buffer |
//! | [`fwb`] | scans that write data back, head advance |
//! | [`memory`] | controller, banks, energy |
//! | [`engine`] | the order of events |
//! | [`mod@run`] | a run and its record |
//! | `essence` | what a run depends on |
//! | [`timeline`] | what one transaction makes every part do |
//! | [`crash`] | recovery, the oracle, campaigns over schemes and mutants |

#![forbid(unsafe_code)]

pub mod cache;
pub mod core;
pub mod crash;
pub mod engine;
pub mod error;
mod essence;
pub mod fwb;
pub mod log;
pub mod machine;
pub mod memory;
pub mod op;
pub mod run;
pub mod scheme;
pub mod timeline;
pub mod trace;
pub mod workload;

pub use error::Error;
pub use machine::Machine;
pub use run::{Config, Outcome, run};
