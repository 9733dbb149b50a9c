//! The tests of this crate: one program, a module for each topic.

mod app;
mod engine;
mod fio;
mod fxmark;
mod host;
mod language;
mod suites;
mod support;
mod trace;
