//! Emulated media: what stores bytes, what an access costs, how it fails, and who is told.
//!
//! Bytes reach a medium only through this crate; nothing else maps memory or issues a flush or a fence.
//!
//! ```text
//!    design ──► nvmm::Region ──► mapping: anonymous memory, a file, persistent memory
//!                 │    │   │
//!                 │    │   └──► fault: poisoned lines, failing accesses, dropped flushes
//!                 │    └──────► event: taps ──► recorder: what a power loss can leave
//!                 └───────────► cost: a model computes, sim's clock charges
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`block`] | [`BlockDevice`], requests, devices over memory; [`Storage`]: what a design is made on |
//! | [`nvmm`] | [`Region`], and the cost models of byte-addressable media, a file each |
//! | [`cost`] | [`CostModel`], and what models are made of: channels, token buckets |
//! | [`medium`] | media by name: types with parameters, presets, `hinfs,latency=400ns` |
//! | [`flash`] | an NVMe SSD: when each command completes, down to the die |
//! | [`charges`] | the kinds of work, activities and counts of this crate and of designs |
//! | [`fiemap`] | where a file of this host lies on its device |
//! | [`fresh`] | memory of the host that nothing has touched |
//! | [`event`] | the stream of loads, stores, flushes, fences and marks; [`Tap`] |
//! | [`recorder`] | which bytes are guaranteed, crash images, lints |
//! | [`fault`] | what goes wrong on request |
//! | [`error`] | [`MediaError`] |
//!
//! Locks inside are leaves: none is held over a call that may switch tasks, or into a tap.

#![allow(unsafe_code)] // mappings and cache-line instructions; every block says why it is sound

pub mod block;
pub mod charges;
pub mod cost;
pub mod error;
pub mod event;
pub mod fault;
pub mod fiemap;
pub mod flash;
pub mod fresh;
pub mod medium;
pub mod memory;
pub mod nvmm;
mod preset;
pub mod recorder;
mod watch;

pub use block::{BlockDevice, Storage};
pub use cost::CostModel;
pub use error::MediaError;
pub use event::{BlockEvent, Event, Mark, Promise, Tap};
pub use medium::{MEDIA, Medium, MediumError, MediumType};
pub use memory::Memory;
pub use nvmm::Region;
