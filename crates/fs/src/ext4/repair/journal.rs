//! A journal that no mount takes is made anew, as e2fsck does: what it had not written home is lost, and its old blocks are free.

use super::Repair;
use crate::error::{Error, Result};
use crate::ext4::Volume;
use crate::ext4::layout::{JOURNAL_INO, compat};
use crate::ext4::mkfs::{LEAST_JOURNAL, usual_journal};

/// Blocks that the map of a new journal may need.
const MAP_BLOCKS: u64 = 32;

/// What is wrong with the journal of an image, if it lies in the image and is to be made anew.
pub(super) fn lost(volume: &Volume) -> Result<Option<String>> {
    let Err(what) = volume.check_journal() else { return Ok(None) };
    let number = u64::from(volume.superblock.lock().journal_inum.get());
    if number != 0 && number != JOURNAL_INO {
        return Err(Error::Corrupt(format!("the journal in inode {number}: {what}; run e2fsck")));
    }
    Ok(Some(what))
}

impl Repair<'_> {
    /// Frees the inode of the journal; its blocks have not been counted.
    pub(super) fn drop_journal(&self) -> Result<()> {
        let (block, at) = self.volume.inode_at(JOURNAL_INO)?;
        let len = self.volume.geo.inode_bytes;
        self.volume.change(&self.handle, block, |bytes| bytes[at..at + len].fill(0))
    }

    /// Makes a new journal once it is known which blocks are free; without room for one the file system has none.
    pub(super) fn make_journal(&mut self, what: &str) -> Result<()> {
        let volume = self.volume;
        // The log goes past the cache.
        volume.write_metadata()?;
        let fits = |blocks: &u32| u64::from(*blocks) + MAP_BLOCKS <= volume.space.available();
        match [usual_journal(volume.geo.blocks), LEAST_JOURNAL].into_iter().find(fits) {
            Some(blocks) if blocks > 0 => {
                volume.make_journal(&self.handle, blocks)?;
                let made = format!("{what}: made anew; what it had not written home is lost");
                self.journal_note = Some(format!("the journal: {made}"));
            }
            _ => {
                let mut superblock = volume.superblock.lock();
                superblock.feature_compat = (superblock.feature_compat.get() & !compat::HAS_JOURNAL).into();
                superblock.journal_inum = 0.into();
                superblock.jnl_backup_type = 0;
                superblock.jnl_blocks = Default::default();
                drop(superblock);
                self.journal_note =
                    Some(format!("the journal: {what}: dropped, there is no room for a new one"));
            }
        }
        Ok(())
    }
}
