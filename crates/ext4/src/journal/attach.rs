//! The journal of a file system: where it lies, what a mount holds against it, and its replay.

use std::sync::Arc;

use media::block::{BlockDevice, Queue};

use super::format::{self, Format, SUPERBLOCK_BYTES, Unusable, be32, put_be32};
use super::recovery::{Care, Log, Replayed, mend_torn, set_features};
use super::{DataMode, Journal, JournalMap, external};
use crate::layout::{compat, incompat};
use crate::{Settings, Volume, damaged, mutant, superblock};
use base::error::{Error, Result};
use design::FsError;

/// The device and the blocks of the journal.
pub(crate) struct JournalPlace {
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) map: JournalMap,
}

/// What is said where the device of the journal was not given.
pub(crate) const JOURNAL_ELSEWHERE: &str = "its journal is on another device: name that (`weir fsck --journal FILE`, `weir mount \
    -o journal_path=FILE`), or give it a journal of its own (tune2fs -O ^has_journal, then tune2fs -j)";

impl Volume {
    /// Whether checksums are wrong that the replay of the log may make right.
    pub(crate) fn awaits_replay(&self) -> bool {
        let begins = |place: JournalPlace| {
            let first = place.map.0.first().copied()? * u64::from(self.geo.block_bytes);
            let head = superblock::read_bytes(&*place.device, first, SUPERBLOCK_BYTES).ok()?;
            Some(be32(&head, 0x1c) != 0)
        };
        self.torn && self.find_journal().ok().and_then(begins) == Some(true)
    }

    /// Where the journal is: in an inode, or on a device of its own.
    pub(crate) fn find_journal(&self) -> Result<JournalPlace, FsError> {
        let superblock = self.superblock.lock().clone();
        let number = u64::from(superblock.journal_inum.get());
        if number != 0 {
            let map = self.journal_map(number).map_err(damaged)?;
            return Ok(JournalPlace { device: Arc::clone(&self.device), map });
        }
        let Some(device) = &self.settings.journal_device else {
            return Err(FsError::WrongFormat { design: "ext4", found: JOURNAL_ELSEWHERE.to_owned() });
        };
        external::place(device, self.geo.block_bytes, &superblock.journal_uuid)
    }

    /// Replays the journal; afterwards it is empty and has the features that a mount uses.
    pub(crate) fn recover_journal(
        &self,
        place: &JournalPlace,
        care: Care,
    ) -> Result<(Replayed, JournalMap, Format, Vec<u8>), FsError> {
        let wide = self.superblock.lock().has_incompat(incompat::IS_64BIT);
        let in_memory = self.is_in_memory(place);
        let mut superblock = self.journal_superblock(place).map_err(damaged)?;
        if in_memory && !self.has(mutant::TORN_LOG_REFUSED) {
            mend_torn(&mut superblock);
        }
        let format = self.journal_format(place, &superblock).map_err(|fault| unusable(&fault))?;
        let (queue, home) = self.log_queues(place);
        let log = self.log(place, (&queue, &home), format);
        let mut replayed = log.replay(&superblock, care).map_err(damaged)?;
        self.replay_fast(place, (format, &superblock), &mut replayed)?;
        log.empty(&mut superblock, &replayed).map_err(damaged)?;
        let before = superblock.clone();
        set_features(&mut superblock, wide, self.geo.metadata_csum);
        if superblock[0x28..0x2c] != before[0x28..0x2c] && in_memory {
            // The word of the features comes last: it makes the checksum count.
            let mut first = superblock.clone();
            first[0x28..0x2c].copy_from_slice(&before[0x28..0x2c]);
            log.write_bytes(&first).map_err(damaged)?;
        }
        let format = self.journal_format(place, &superblock).map_err(|fault| unusable(&fault))?;
        Log { format, ..log }.write_superblock(&mut superblock).map_err(damaged)?;
        Ok((replayed, place.map.clone(), format, superblock))
    }

    /// Carries out the fast commits after a log that has been replayed and is not empty yet, as the next transaction of that log.
    fn replay_fast(
        &self,
        place: &JournalPlace,
        (format, superblock): (Format, &[u8]),
        replayed: &mut Replayed,
    ) -> Result<(), FsError> {
        let Some(end) = replayed.end.filter(|_| !replayed.fast.changes.is_empty()) else { return Ok(()) };
        let mut superblock = superblock.to_vec();
        put_be32(&mut superblock, 0x18, end);
        let settings = Settings { preallocates: false, delays: false, ..self.settings.clone() };
        let mut volume = Self::open(&self.device, settings)?;
        let (queues, mode) = (self.log_queues(place), (DataMode::Ordered, self.settings.mutant));
        volume.journal = Some(Journal::new(queues, place.map.clone(), format, superblock, mode));
        volume.replay_fast_commits(&replayed.fast).map_err(damaged)?;
        let fits = volume.journal.as_ref().is_some_and(Journal::running_fits);
        if !fits {
            let what = "fast commits that change more blocks than the log has: e2fsck replays them";
            return Err(damaged(Error::NotSupported(what)));
        }
        volume.commit_all(true).map_err(damaged)
    }

    /// Whether the journal lies in memory: one on a device of its own is in the memory beside the block device.
    fn is_in_memory(&self, place: &JournalPlace) -> bool {
        self.settings.memory.is_some() || !Arc::ptr_eq(&place.device, &self.device)
    }

    /// The first bytes of the journal.
    fn journal_superblock(&self, place: &JournalPlace) -> Result<Vec<u8>> {
        let first = place.map.0.first().copied().unwrap_or_default() * u64::from(self.geo.block_bytes);
        Ok(superblock::read_bytes(&*place.device, first, SUPERBLOCK_BYTES)?)
    }

    fn journal_format(
        &self,
        place: &JournalPlace,
        superblock: &[u8],
    ) -> std::result::Result<Format, Unusable> {
        Format::of(superblock, self.geo.block_bytes, place.map.0.len() as u64)
    }

    /// The queues to the journal's device and to that of the file system.
    fn log_queues(&self, place: &JournalPlace) -> (Queue, Queue) {
        (Queue::new(Arc::clone(&place.device)), Queue::new(Arc::clone(&self.device)))
    }

    fn log<'a>(
        &self,
        place: &'a JournalPlace,
        (queue, home): (&'a Queue, &'a Queue),
        format: Format,
    ) -> Log<'a> {
        let (blocks, tears, mutant) = (self.geo.blocks, self.is_in_memory(place), self.settings.mutant);
        Log { queue, home, map: &place.map, format, blocks, tears, mutant }
    }

    /// Replays what is sound in a log that no mount takes, for a repair; says what was given up. The volume is to be opened again.
    pub(crate) fn salvage_log(&self) -> Result<Vec<String>, FsError> {
        if self.check_log().is_ok() {
            return Ok(Vec::new());
        }
        let (replayed, ..) = self.recover_journal(&self.find_journal()?, Care::Salvage)?;
        let given_up = replayed.given_up.iter().map(|what| format!("journal: gave up {what}"));
        Ok(replayed.note().into_iter().chain(given_up).collect())
    }

    /// What a mount would hold against the transactions of a journal whose superblock it takes.
    pub(crate) fn check_log(&self) -> Result<()> {
        if !self.superblock.lock().has_compat(compat::HAS_JOURNAL) {
            return Ok(());
        }
        let Ok(place) = self.find_journal() else { return Ok(()) };
        let superblock = self.journal_superblock(&place)?;
        let Ok(format) = self.journal_format(&place, &superblock) else { return Ok(()) };
        let (queue, home) = self.log_queues(&place);
        self.log(&place, (&queue, &home), format).check(&superblock)
    }

    /// Whether the superblock names a journal on a device of its own.
    pub(crate) fn has_journal_elsewhere(&self) -> bool {
        let superblock = self.superblock.lock();
        superblock.has_compat(compat::HAS_JOURNAL)
            && superblock.journal_inum.get() == 0
            && superblock.journal_uuid != [0; 16]
    }

    /// What a check holds against the journal's place, its inode and its superblock; nothing where there is none.
    pub(crate) fn journal_fault(&self) -> std::result::Result<(), Unusable> {
        // On a device of its own a mount looks at it.
        if !self.superblock.lock().has_compat(compat::HAS_JOURNAL) || self.has_journal_elsewhere() {
            return Ok(());
        }
        let number = u64::from(self.superblock.lock().journal_inum.get());
        let damaged = |error: Error| Unusable::Damaged(error.to_string());
        let map = self.journal_map(number).map_err(damaged)?;
        let place = JournalPlace { device: Arc::clone(&self.device), map };
        self.check_journal_inode(number).map_err(damaged)?;
        let superblock = self.journal_superblock(&place).map_err(damaged)?;
        self.journal_format(&place, &superblock).map(drop)
    }

    /// Whether the superblock of a journal in the image has words that it should not have.
    pub(crate) fn journal_has_stale_words(&self) -> bool {
        if !self.superblock.lock().has_compat(compat::HAS_JOURNAL) || self.has_journal_elsewhere() {
            return false;
        }
        let read = |place: JournalPlace| self.journal_superblock(&place).ok();
        self.find_journal().ok().and_then(read).is_some_and(|bytes| format::has_stale_words(&bytes))
    }

    /// Clears them. The journal is empty, and gets its features at the next mount.
    pub(crate) fn clear_stale_journal_words(&self) -> Result<(), FsError> {
        let place = self.find_journal()?;
        let mut superblock = self.journal_superblock(&place).map_err(damaged)?;
        let format = self.journal_format(&place, &superblock).map_err(|fault| unusable(&fault))?;
        superblock[format::COMPAT_AT..].fill(0);
        let (queue, home) = self.log_queues(&place);
        self.log(&place, (&queue, &home), format).write_bytes(&superblock).map_err(damaged)
    }

    /// Whether a journal that a mount takes begins at a place.
    pub(crate) fn has_journal_at(&self, place: &JournalPlace) -> bool {
        self.journal_superblock(place).is_ok_and(|superblock| self.journal_format(place, &superblock).is_ok())
    }

    /// Where the blocks of the journal's inode are. As for the kernel it is a file that was not deleted.
    pub(crate) fn journal_map(&self, number: u64) -> Result<JournalMap> {
        let (raw, _) = self.read_inode(number)?;
        if !raw.is_regular() || raw.links.get() == 0 {
            return Err(Error::Corrupt(format!("inode {number} of the journal is no file")));
        }
        self.special_map(number, "the journal").map(JournalMap)
    }
}

/// Why no mount takes a journal.
fn unusable(fault: &Unusable) -> FsError {
    let what = format!("journal: {fault}");
    match fault {
        Unusable::Damaged(_) => FsError::Damaged {
            design: "ext4",
            what: format!(
                "{what}; `weir fsck --repair` makes a new one, and what this one had not written home is lost"
            ),
        },
        Unusable::Foreign(_) => FsError::WrongFormat { design: "ext4", found: what },
    }
}
