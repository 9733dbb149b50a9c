//! Experiments: plans, cells, runs, claims, calibration.
#![forbid(unsafe_code)]
pub mod document;
pub mod error;
pub mod machine;
pub mod presets;
pub use error::Error;
