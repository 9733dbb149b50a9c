//! The pool as a whole: making and mounting one, its saved index, checks, repair, another size.
//!
//! | file | holds |
//! |---|---|
//! | `mkfs.rs` | making an empty pool |
//! | `loaded.rs` `build.rs` `recovery.rs` | what a mount reads; what it makes of that; mounting |
//! | `save.rs` `saved.rs` `same.rs` | saved indexes: unmount, mount; comparing one with the logs |
//! | `fsck.rs` `repair.rs` `dump.rs` `resize.rs` | checking, repairing, showing; another size |
//! | `format.rs` | the adapter to [`design::Format`] |
//!
//! The highest room: it uses all others.

use crate::ablation::Without;
use crate::format::mutant::Rules;
use crate::index::cache::Admit;
use crate::index::sharing::Sharing;
use crate::store::frames;

pub(crate) mod build;
pub(crate) mod dump;
pub(crate) mod format;
pub(crate) mod fsck;
pub(crate) mod loaded;
pub(crate) mod mkfs;
pub(crate) mod recovery;
pub(crate) mod repair;
pub(crate) mod resize;
pub(crate) mod same;
pub(crate) mod save;
pub(crate) mod saved;

/// The options of a mount.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) rules: Rules,
    /// The inodes that tasks may share.
    pub(crate) sharing: Sharing,
    pub(crate) without: Without,
    pub(crate) frames: frames::Settings,
    /// The blocks that get cached frames.
    pub(crate) admit: Admit,
    /// Whether overwrites go in place (`atomic=words`).
    pub(crate) words: bool,
    /// Whether stores of mappings go to frames (`mmap=atomic`).
    pub(crate) maps_atomically: bool,
}

impl Settings {
    /// Whether small overwrites may be records with their bytes.
    fn takes_inlines(&self) -> bool {
        self.without != Without::Inline && !self.words && self.frames.dirty() == 0
    }
}
