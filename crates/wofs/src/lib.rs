//! WOFS: each call is one checksummed package, written once, with one ordering point.
#![forbid(unsafe_code)]

pub mod layout;
pub mod ledger;
pub mod map;
pub mod merge;
pub mod mutant;
pub mod package;
