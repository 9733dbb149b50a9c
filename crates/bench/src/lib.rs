//! Benches of all crates, apart from these, so that their tests build without what benches need.
//!
//! `cargo bench -p weir-bench --bench NAME`; the header of each says what it measures.
//!
//! | bench | of |
//! |---|---|
//! | `scheduler` | `sim` |
//! | `region`, `flash` | `media` |
//! | `calls` | `vfs` |
//! | `pmfs`, `memory`, `remount`, `aging`, `versus_tmpfs`, `versus_kernel` | `fs` |
//! | `overhead` | `workload` |
//! | `speed` | `archsim` |
//! | `mount` | `fuse` |

#![forbid(unsafe_code)]
