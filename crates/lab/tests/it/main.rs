//! The tests of this crate: one program, a module for each topic.

mod app;
mod campaign;
mod churn;
mod device;
mod fio;
mod fragmentation;
mod fxmark;
mod pairs;
mod plans;
mod readings;
mod replay;
mod runs;
mod shapes;
mod simulated;
mod suites;
mod validation;
