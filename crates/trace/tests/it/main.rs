//! The tests of this crate.

#![allow(missing_docs, reason = "a test's name is its promise")]
#![allow(clippy::format_push_string, clippy::format_collect, reason = "traces are put together as they read")]
#![allow(clippy::naive_bytecount, clippy::needless_for_each, reason = "a few hundred bytes")]
#![allow(clippy::needless_pass_by_value, reason = "a value for a test is made where it is used")]

mod anonymize;
mod compile;
mod contents;
mod cut;
mod docs;
mod format;
mod import;
mod losses;
mod preload;
mod shared;
mod speed;
mod strace;
mod strace_real;
