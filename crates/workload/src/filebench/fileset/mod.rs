//! Filesets in memory: what exists where, and which file is next. No file is touched here.
//!
//! | module | holds |
//! |---|---|
//! | [`tree`] | the shape: directories, files, their paths and nominal sizes |
//! | [`pick`] | the state: which entries exist, which are in use, the rotors |
//! | [`bitset`] | the sets that picking needs, with "next member from here" in a few steps |
//!
//! Everything is indexed by small integers; a file costs about twenty bytes, so a fileset of 5 GB in
//! 327,680 files fits into 7 MB.

pub mod bitset;
pub mod pick;
pub mod tree;
