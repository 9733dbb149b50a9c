//! A journal that no mount takes is made anew, as e2fsck does: what it had not written home is lost, and its old blocks are free.

use std::sync::Arc;

use media::block::BlockDevice;

use super::overlay::Overlay;
use super::{INODE, Repair};
use crate::inode::{Inode, InodeState};
use crate::journal::format::{LEAST_JOURNAL, Unusable};
use crate::journal::{Handle, JournalMap};
use crate::layout::{EXTRA_ISIZE, JOURNAL_INO, OLD_INODE_BYTES, RAW_INODE_BYTES, compat, flag};
use crate::mkfs::usual_journal;
use crate::runs::Visited;
use crate::{JournalPlace, Settings, Volume, damaged, fsck, map};
use base::error::{Error, Result};
use design::FsError;

/// Blocks that the map of a new journal may need.
const MAP_BLOCKS: u64 = 32;

/// What is wrong with the journal of an image, if it lies in the image and is to be made anew.
pub(super) fn lost(volume: &Volume) -> Result<Option<String>> {
    let what = match volume.journal_fault() {
        Ok(()) => match map::journal_over_metadata(volume) {
            Some(block) => format!("its block {block} lies in metadata"),
            None if exceeds_its_size(volume) && has_extents(volume) => {
                "it has blocks behind its end".to_owned()
            }
            None => return Ok(None),
        },
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

/// Finds a journal again whose inode, or the number of that in the superblock, is damaged: in the usual inode, or by the copy of
/// its map in the superblock. What looks like a journal there is one; says what was done.
pub(super) fn restore(device: &Arc<dyn BlockDevice>, settings: &Settings) -> Result<Option<String>, FsError> {
    let open = || Volume::open(device, Settings { repairs: true, ..settings.clone() });
    let volume = open()?;
    let is_damaged = match volume.journal_fault() {
        Err(Unusable::Damaged(_)) => true,
        // Blocks behind its end may be those of others.
        Ok(()) => exceeds_its_size(&volume) || copy_is_sounder(device, settings, &volume)?,
        Err(Unusable::Foreign(_)) => false,
    };
    if !is_damaged {
        return Ok(None);
    }
    let number = u64::from(volume.superblock.lock().journal_inum.get());
    if number != JOURNAL_INO {
        volume.superblock.lock().journal_inum = (JOURNAL_INO as u32).into();
        if volume.journal_fault().is_err() && !is_restored(&volume)? {
            return Ok(None);
        }
        volume.keep_superblock().map_err(damaged)?;
        return Ok(Some(format!(
            "inode {number}, where the superblock has the journal, holds none: that of inode {JOURNAL_INO} was taken"
        )));
    }
    let restored = is_restored(&volume)?;
    Ok(restored.then(|| {
        "the inode of the journal was damaged: written anew by its copy in the superblock".to_owned()
    }))
}

/// Whether the journal could be given its inode again by the copy; a copy that cannot be read is none.
fn is_restored(volume: &Volume) -> Result<bool, FsError> {
    match volume.restore_journal_inode() {
        Err(Error::Corrupt(_)) => Ok(false),
        restored => restored.map_err(damaged),
    }
}

/// Whether the journal has its blocks as extents.
pub(super) fn has_extents(volume: &Volume) -> bool {
    let number = u64::from(volume.superblock.lock().journal_inum.get());
    volume.read_inode(number).is_ok_and(|(raw, _)| raw.has(flag::EXTENTS))
}

/// Whether the journal has blocks behind its end.
pub(super) fn exceeds_its_size(volume: &Volume) -> bool {
    let number = u64::from(volume.superblock.lock().journal_inum.get());
    if number == 0 || !volume.superblock.lock().has_compat(compat::HAS_JOURNAL) {
        return false;
    }
    let size = volume.read_inode(number).map(|(raw, _)| raw.size() / u64::from(volume.geo.block_bytes));
    matches!((size, volume.check_journal_inode(number)), (Ok(size), Ok(end)) if end > size)
}

/// Whether the copy of the map says other blocks than the inode does, and fewer things are wrong with the image by it: the inode
/// takes blocks of others then.
fn copy_is_sounder(
    device: &Arc<dyn BlockDevice>,
    settings: &Settings,
    volume: &Volume,
) -> Result<bool, FsError> {
    let differs = |copy: &JournalMap| volume.journal_map(JOURNAL_INO).is_ok_and(|own| own.0 != copy.0);
    if !volume.journal_inode_by_copy().is_some_and(|(_, copy)| differs(&copy)) {
        return Ok(false);
    }
    let tried: Arc<dyn BlockDevice> = Overlay::new(device);
    let by_copy = Volume::open(&tried, Settings { repairs: true, ..settings.clone() })?;
    let restored = is_restored(&by_copy)?;
    let faults = |device| fsck::check(device, None, settings.journal_device.is_some()).violations.len();
    Ok(restored && faults(&tried) < faults(device))
}

impl Volume {
    /// Writes the superblock as it is in memory.
    fn keep_superblock(&self) -> Result<()> {
        let mut superblock = self.superblock.lock();
        self.write_superblock(&mut superblock)
    }

    /// Gives the journal its inode again by the copy of its map, if there is a journal; whether it did.
    fn restore_journal_inode(&self) -> Result<bool> {
        let Some((raw, map)) = self.journal_inode_by_copy() else { return Ok(false) };
        let place = JournalPlace { device: Arc::clone(&self.device), map };
        if !self.has_journal_at(&place) {
            return Ok(false);
        }
        let extra = vec![0; self.geo.inode_bytes.saturating_sub(RAW_INODE_BYTES)].into_boxed_slice();
        let inode = Inode::alone(JOURNAL_INO, &INODE, InodeState::of(raw, extra));
        let mut state = inode.state.write();
        if self.geo.inode_bytes > OLD_INODE_BYTES {
            state.raw.extra_isize = EXTRA_ISIZE.min((self.geo.inode_bytes - OLD_INODE_BYTES) as u16).into();
        }
        let mut blocks = 0;
        let mut seen = |visited: Visited| {
            let run = map::run_of(visited);
            self.check_data_blocks(&inode, run.first, run.count)?;
            blocks += run.count.cast_signed();
            Ok(())
        };
        map::visit(self, &inode, &state, &mut seen)?;
        state.add_blocks(self, blocks);
        self.store_inode(&Handle::none(), &inode, &mut state)?;
        self.write_metadata()?;
        Ok(true)
    }
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
