//! Parts that persistent designs share.

pub(crate) mod backed;
pub(crate) mod free_map;
pub(crate) mod slot_table;
