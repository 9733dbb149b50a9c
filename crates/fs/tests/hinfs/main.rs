//! HiNFS, held to its paper: the invariants of `specs/hinfs.md` 4.11 and the figures of section 8.
//!
//! | module | holds |
//! |---|---|
//! | `numbers` | what an operation costs and moves (section 8) |
//! | `benefit` | which writes are lazy and which eager (4.6) |
//! | `writeback` | order, thresholds, ages, waiting, the journal's pressure (4.2, 4.3, 4.8) |
//! | `random` | read = last write, under many tasks, tiny pools and remounts (4.11, 1 to 5) |
//! | `crash` | what a power loss leaves (4.11, 6 and 7; crash-testing.md 5.2) |
//! | `failures` | media that refuse a load or a store in the middle |

#![allow(unreachable_pub)] // what the test binaries share is not a library

mod benefit;
mod crash;
mod failures;
#[path = "../shared/harness.rs"]
mod harness;
mod numbers;
mod random;
mod support;
mod writeback;
