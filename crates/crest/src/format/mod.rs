//! The format and its meaning: pure functions of bytes and records, which know neither clocks nor locks nor a region.
//!
//! | file | from | to |
//! |---|---|---|
//! | [`layout`] | | structures on the medium |
//! | [`record`] [`raw`] | records | bytes with a seal, and back |
//! | [`zone`] | the table of zones and the bytes of log zones | records, damage; which zone may be taken, which is cleaned |
//! | [`tree`] [`merge`] | records, in any order | the tree: names, inodes, places of blocks |
//! | [`inline`] | bytes of blocks that lie in records | what a block holds |
//! | [`sieve`] | records, zone by zone | those that may count |
//! | [`superseded`] | records | those that later ones do not say anew, for a mount |
//! | [`clean`] | records, the tree, the zones that are present | what of each record must be kept |
//! | [`live`] | a record, the state of what it names | the same, for one record |
//! | [`place`] | what is known of a block | where a write goes |
//! | `saved.rs` | | pieces of a saved index, and the word that names it |
//! | `certify.rs` | an edited pool | the same with right seals |
//! | [`mutant`] | | rules that can be left out |
//!
//! The lowest room: it uses no other. `crates/fs/tests/it/crest` tries all small histories against it.

pub(crate) mod certify;
pub mod clean;
pub mod inline;
pub mod layout;
pub mod live;
pub mod merge;
pub mod mutant;
pub mod place;
pub mod raw;
pub mod record;
pub(crate) mod saved;
pub mod sieve;
pub mod superseded;
pub mod tree;
pub mod zone;
