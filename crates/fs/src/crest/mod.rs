//! Crest: each call is one self-certifying record in the log of its core, made durable by one fence.
//!
//! This module holds the format and its meaning as pure functions: they read bytes and records, and know neither clocks nor locks
//! nor a region. `docs/designs/crest.md` states the rules and argues for them; `crates/fs/tests/crest` tries all small histories
//! against them.
//!
//! | file | from | to |
//! |---|---|---|
//! | [`layout`] | | structures on the medium |
//! | [`record`] | records | bytes with a seal, and back |
//! | [`zone`] | the table of zones and the bytes of log zones | records, damage; which zone may be taken, which is cleaned |
//! | [`merge`] | records, in any order | the tree: names, inodes, places of blocks |
//! | [`clean`] | records, the tree, the zones that are present | what of each record must be kept |
//! | [`place`] | what is known of a block | where a write goes |
//!
//! Lock order: none; nothing here blocks.

pub mod clean;
pub mod layout;
pub mod merge;
pub mod mutant;
pub mod place;
pub mod record;
pub mod zone;
