//! HiNFS, held to its paper and to the invariants and figures of `docs/designs/hinfs.md`.
//!
//! | module | holds |
//! |---|---|
//! | `numbers` | what an operation costs and moves ("Figures") |
//! | `benefit` | which writes are lazy and which eager (paper, sections 3.3.1 and 3.3.2) |
//! | `writeback` | order, thresholds, ages, waiting, the journal's pressure (paper, section 3.2) |
//! | `random` | read = last write, under many tasks, tiny pools and remounts (invariants 1 to 5) |
//! | `crash` | what a power loss leaves (invariants 6 and 7) |
//! | `failures` | media that refuse a load or a store in the middle |

mod benefit;
mod crash;
mod failures;
mod numbers;
mod random;
mod support;
mod writeback;
