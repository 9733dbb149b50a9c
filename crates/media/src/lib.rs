//! Emulated media: what stores bytes, what an access costs, how it fails, and who is told.

#![allow(unsafe_code)] // mappings and cache-line instructions; every block says why it is sound

pub mod cost;
pub mod error;
pub mod event;
pub mod fault;
pub mod medium;
pub mod nvmm;
mod preset;
pub mod recorder;

pub use cost::CostModel;
pub use error::MediaError;
pub use event::{Event, Mark, Promise, Tap};
pub use medium::{MEDIA, Medium, MediumError, MediumType};
pub use nvmm::Region;
