//! The tests of this crate: one program, a module for each topic.

mod counts;
mod crash;
mod faults;
mod fsck;
mod fuzz;
mod harness;
mod histories;
mod model;
mod recall;
mod repair;
mod schedules;
mod space;
mod times;
