//! A journal that no mount takes is made anew, as e2fsck does: what it had not written home is lost, and its old blocks are free.

use std::sync::Arc;

use media::block::BlockDevice;

use super::Repair;
use crate::journal::format::{LEAST_JOURNAL, Unusable};
use crate::journal::recovery::Care;
use crate::layout::{JOURNAL_INO, compat, incompat};
use crate::mkfs::usual_journal;
use crate::{JournalPlace, Settings, Volume, damaged};
use base::error::{Error, Result};
use design::FsError;

/// Blocks that the map of a new journal may need.
const MAP_BLOCKS: u64 = 32;

/// What is wrong with the journal of an image, if it lies in the image and is to be made anew.
pub(super) fn lost(volume: &Volume) -> Result<Option<String>> {
    let what = match volume.journal_fault() {
        Ok(()) => return Ok(None),
        // Nothing is wrong with it, and there may be transactions in it.
        Err(Unusable::Foreign(what)) => return Err(Error::Corrupt(format!("the journal has {what}"))),
        Err(Unusable::Damaged(what)) => what,
    };
    let number = u64::from(volume.superblock.lock().journal_inum.get());
    // One in another inode is a file from now on.
    let shown =
        if number != 0 && number != JOURNAL_INO { format!("it was in inode {number}: {what}") } else { what };
    Ok(Some(shown))
}

/// Replays a journal whose inode is lost by the copy of its map in the superblock, as e2fsck does: the log may have the inode, and
/// whatever else lies beside it. Says what was done.
pub(super) fn replay_by_copy(
    device: &Arc<dyn BlockDevice>,
    settings: &Settings,
) -> Result<Option<String>, FsError> {
    let open = || Volume::open(device, Settings { repairs: true, ..settings.clone() });
    let volume = open()?;
    if !volume.superblock.lock().has_incompat(incompat::RECOVER) || volume.find_journal().is_ok() {
        return Ok(None);
    }
    let Some(map) = volume.journal_map_by_copy() else { return Ok(None) };
    let place = JournalPlace { device: Arc::clone(device), map };
    let Ok((replayed, ..)) = volume.recover_journal(&place, Care::Salvage) else { return Ok(None) };
    device.flush()?;
    if open()?.find_journal().is_ok() {
        Volume::mount(device, settings.clone())?.unmount().map_err(damaged)?;
    }
    let given_up: Vec<String> = replayed.given_up.iter().map(|what| format!("; gave up {what}")).collect();
    Ok(Some(format!(
        "the inode of the journal was lost; {} transactions were replayed by its copy{}",
        replayed.transactions,
        given_up.concat()
    )))
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
