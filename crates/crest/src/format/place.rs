//! Where a write goes: the decisions that need no more than what is known of the block.

use super::mutant::{self, Rules};

/// What is known of a block that a write touches in part.
#[derive(Clone, Copy, Debug, Default)]
pub struct Block {
    /// References to it in files: 1 unless it was cloned.
    pub references: u32,
    /// Whether its record has a checksum.
    pub checked: bool,
    /// Whether its record says that it was allocated only.
    pub unwritten: bool,
    /// Whether records have bytes of this block (`Inline`) that are applied over those of its place.
    pub bytes_in_log: bool,
}

impl Block {
    /// Whether bytes may be stored in place: those that no call can read, beyond the end of the file, and those of a mapping. Other
    /// bytes go to a new block, and so do these where the answer is no.
    ///
    /// Not in a block that another file has, too (its end may lie further), nor in one with a checksum (a crash before the new
    /// checksum would leave a wrong one), nor in one over which recovery applies bytes of records: they would hide
    /// what was stored later.
    pub fn takes_stores(&self, rules: Rules) -> bool {
        let cloned = self.references > 1 && !rules.lacks(mutant::SHARED_IN_PLACE);
        let checked = self.checked && !rules.lacks(mutant::CHECKED_IN_PLACE);
        let hidden = self.bytes_in_log && !rules.lacks(mutant::INLINE_IN_PLACE);
        !(cloned || checked || self.unwritten || hidden)
    }
}
