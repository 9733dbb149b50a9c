//! The tests of this crate: one program, a module for each topic.

mod charges;
mod crash;
mod crest;
mod damage;
mod ext4;
mod faults;
mod formats;
mod fuzz;
mod hinfs;
mod inclusion;
mod like_linux;
mod linux;
mod lock_order;
mod mapped;
mod model;
mod nova;
mod random_damage;
mod recall;
mod resize;
mod schedules;
mod shared;
mod smoke;
