//! Emulated media: what stores bytes, what an access costs, how it fails, and who is told.

#![allow(unsafe_code)] // mappings and cache-line instructions; every block says why it is sound

pub mod error;
pub mod nvmm;

pub use error::MediaError;
