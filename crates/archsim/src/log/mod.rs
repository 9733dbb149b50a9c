//! The log: its format on NVRAM, and the buffer through which hardware writes it.
//!
//! A log is a superblock of one line and a circular area. A *position* counts the bytes ever appended, so that it says the
//! place (modulo the size), the pass (divided by the size) and the order at once; positions stand for sequence numbers.

pub mod buffer;
pub mod record;
pub mod shared;

pub use record::Format;
