//! What a file-system design is to the rest of Weir: the format of its images, how it is mounted, its options and its errors.
//!
//! The crate `fs` has the designs; checks, pools and the laboratory reach them through [`Design`] and [`Format`] only.

#![forbid(unsafe_code)]

mod design;
mod error;
mod format;
pub mod mutant;
mod needs;
pub mod options;
mod report;

pub use design::{Checking, Design, Given, MountWord};
pub use error::FsError;
pub use format::Format;
pub use mutant::Mutant;
pub use needs::Needs;
pub use options::{OptionError, OptionKind, OptionSpec, Options, Phase};
pub use report::{FsckReport, Violation};
