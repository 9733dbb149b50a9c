//! Files that people write: plans, machines, media, processors, papers, scripts.
//!
//! [`read`] gives a TOML file as a [`Table`], and every message about it has file, line and column. [`nearest`] words the
//! suggestion for a name that does not exist; every part of Weir that looks up a name uses it, so that one misspelling is
//! answered alike everywhere. [`position`] turns an offset into line and column for formats that are not TOML.

#![forbid(unsafe_code)]

mod near;
mod place;
mod table;

pub use near::{did_you_mean, nearest, nearest_of, nearest_or_toml};
pub use place::position;
pub use table::{Item, Problem, Problems, Table, read};
