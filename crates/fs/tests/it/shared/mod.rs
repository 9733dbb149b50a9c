//! What several topics share.

pub(crate) mod harness;
