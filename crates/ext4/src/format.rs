//! The format of ext2 and ext4.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use design::{Format, FsError, FsckReport, Needs, OptionError, Options};
use media::block::{BlockDevice, MemoryDevice};
use media::{Region, Storage};
use sim::Bytes;

use super::design::{ExtDesign, beside};
use super::journal::format::LEAST_JOURNAL;
use super::layout::compat;
use super::mkfs::{Plan, usual_journal};
use super::{Settings, Volume, damaged, fsck, repair, superblock};

impl Format for ExtDesign {
    fn needs(&self, options: &Options) -> Needs {
        match self.dax {
            true => Needs::Memory,
            false if self.has_external_journal(options) => Needs::Both,
            false => Needs::Block,
        }
    }

    fn min_size(&self, options: &Options) -> Bytes {
        self.plan(options).min_size()
    }

    fn bytes_per_inode(&self, options: &Options) -> u64 {
        self.plan(options).inode_ratio
    }

    fn outside_journal(&self, storage: &Storage) -> Option<[u8; 16]> {
        let device = self.device(storage).ok().filter(|_| self.modern && !self.dax)?;
        let superblock = superblock::load(&device).ok()?.superblock;
        let is_outside = superblock.has_compat(compat::HAS_JOURNAL) && superblock.journal_inum.get() == 0;
        is_outside.then_some(superblock.journal_uuid)
    }

    fn outside_journal_size(&self, options: &Options, size: Bytes) -> Option<Bytes> {
        if !self.modern || self.dax {
            return None;
        }
        let block_bytes = u64::from(self.block_bytes(options));
        let usual = Bytes(u64::from(usual_journal(size.0 / block_bytes).max(LEAST_JOURNAL)) * block_bytes);
        Some(options.size_or_auto("journal").filter(|size| size.0 > 0).unwrap_or(usual))
    }

    fn mkfs(&self, storage: &Storage, options: &Options) -> Result<(), FsError> {
        self.check_sizes(options)?;
        let journal = if self.has_external_journal(options) {
            Some(beside(storage)?.ok_or(FsError::NoJournalDevice)?)
        } else {
            None
        };
        super::mkfs::mkfs(&self.device(storage)?, journal.as_ref(), &self.plan(options))
    }

    fn recognises(&self, storage: &Storage) -> bool {
        let Ok(device) = self.device(storage) else { return false };
        let modern = match superblock::load(&device) {
            Ok(found) => Some(found.geo.extents),
            // What it uses, or what is wrong with it, is told by a mount and a check.
            Err(FsError::Unsupported { .. } | FsError::Damaged { .. }) => superblock::is_modern(&*device),
            Err(_) => None,
        };
        modern == Some(self.modern)
    }

    fn recover(&self, storage: &Storage) -> Result<Vec<String>, FsError> {
        let device = self.device(storage)?;
        let settings = Settings {
            journal_device: beside(storage)?,
            memory: self.memory(storage),
            cache: fsck::CHECK_CACHE,
            ..Settings::default()
        };
        let found = superblock::load_to_replay(&device, &settings)?;
        superblock::check_mountable(&found.superblock, false)?;
        // Where only a copy is left, a person is to say that it is to be used.
        if found.note.is_some() || !(found.torn || found.superblock.needs_recovery()) {
            return Ok(Vec::new());
        }
        let volume = match Volume::mount(&device, settings) {
            // Only a list of orphans was to be worked off, and something else is wrong, too, or the journal itself cannot be
            // read: the check tells.
            Err(FsError::Damaged { what, .. })
                if found.superblock.has_nothing_to_replay() || Self::journal_is_lost(&device) =>
            {
                return Ok(vec![format!("not recovered: {what}")]);
            }
            mounted => mounted?,
        };
        volume.unmount().map_err(damaged)?;
        Ok(volume.notes.clone())
    }

    fn replay(&self, storage: &Storage) -> Result<Vec<String>, FsError> {
        let device = self.device(storage)?;
        let settings = Settings { memory: self.memory(storage), ..Settings::default() };
        let superblock = superblock::load_to_replay(&device, &settings)?.superblock;
        superblock::check_mountable(&superblock, false)?;
        if superblock.has_compat(compat::HAS_JOURNAL) || !superblock.needs_recovery() {
            return self.recover(storage);
        }
        Ok(vec!["it was not unmounted, and has no journal".to_owned()])
    }

    fn fsck(&self, storage: &Storage) -> FsckReport {
        match self.device(storage) {
            Ok(device) => {
                let journal = beside(storage).ok().flatten();
                fsck::check(&device, self.memory(storage), journal.is_some())
            }
            Err(error) => FsckReport::unchecked(error.to_string()),
        }
    }

    fn repair(&self, storage: &Storage) -> Result<Vec<String>, FsError> {
        let settings = Settings { journal_device: beside(storage)?, ..Settings::default() };
        repair::ask(&self.device(storage)?, &settings, false)
    }

    fn repair_at_any_loss(&self, storage: &Storage) -> Result<Vec<String>, FsError> {
        let settings = Settings { journal_device: beside(storage)?, ..Settings::default() };
        repair::ask(&self.device(storage)?, &settings, true)
    }

    fn grow(&self, _: &Storage) -> Result<Bytes, FsError> {
        let advice =
            "its format is Linux's, whose tools grow it: `truncate -s SIZE POOL`, then `resize2fs POOL`";
        Err(FsError::NoGrowth { design: self.name, advice })
    }

    fn may_have_holes(&self) -> bool {
        false
    }

    fn journal(&self, _: &Storage) -> Result<Vec<Range<u64>>, FsError> {
        let why = "its transactions change a cache of blocks in DRAM, whose stores a processor need not log";
        Err(FsError::NoJournal { design: self.name, why })
    }

    fn dump(&self, storage: &Storage, part: &str, out: &mut dyn io::Write) -> Result<(), FsError> {
        super::dump::dump(&self.device(storage)?, part, out)
    }

    fn dump_parts(&self) -> &'static [(&'static str, &'static str)] {
        super::dump::PARTS
    }
}

impl ExtDesign {
    /// Refuses a journal that is too small to be one, and more blocks for root than the kernel takes.
    fn check_sizes(&self, options: &Options) -> Result<(), OptionError> {
        let kept = options.fraction("reserved");
        if kept > 0.5 {
            let expected = "at most 50%".to_owned();
            return Err(OptionError::Value {
                name: "reserved".to_owned(),
                value: kept.to_string(),
                expected,
            });
        }
        if !self.modern {
            return Ok(());
        }
        let Some(size) = options.size_or_auto("journal") else { return Ok(()) };
        let least = Bytes(u64::from(LEAST_JOURNAL) * u64::from(self.block_bytes(options)));
        if size >= least || size == Bytes(0) && !self.dax {
            return Ok(());
        }
        let none = if self.dax { "" } else { "0, " };
        let expected = format!("{none}auto, or at least {least} ({LEAST_JOURNAL} blocks)");
        Err(OptionError::Value { name: "journal".to_owned(), value: size.to_string(), expected })
    }

    fn block_bytes(&self, options: &Options) -> u32 {
        match () {
            () if self.dax => 4096,
            () => match options.choice("block_size") {
                "1k" => 1024,
                "2k" => 2048,
                _ => 4096,
            },
        }
    }

    fn plan(&self, options: &Options) -> Plan {
        let block_bytes = self.block_bytes(options);
        let journal_blocks = if self.modern {
            let blocks = |size: Bytes| (size.0 / u64::from(block_bytes)).min(u64::from(u32::MAX)) as u32;
            options.size_or_auto("journal").map(blocks)
        } else {
            Some(0)
        };
        Plan {
            design: self.name,
            block_bytes,
            inode_bytes: 256,
            inode_ratio: 16_384,
            journal_blocks,
            extents: self.modern,
            checksums: self.dax || self.modern && options.flag("metadata_csum"),
            dir_index: options.flag("dir_index"),
            wide: self.modern,
            lost_found: options.flag("lost_found"),
            kept: options.fraction("reserved"),
            lazy_tables: self.modern && !self.dax && options.flag("lazy_itable"),
        }
    }

    /// Whether mkfs puts the journal in the memory beside the block device.
    fn has_external_journal(&self, options: &Options) -> bool {
        self.modern && !self.dax && options.flag("external_journal")
    }

    /// The block device; where there is memory only, or data goes there, a RAM disk over it (NVMMBD, EuroSys 2016, section 5.1).
    pub(super) fn device(&self, storage: &Storage) -> Result<Arc<dyn BlockDevice>, FsError> {
        match storage.block() {
            Ok(device) if !self.dax => Ok(Arc::clone(device)),
            _ => over_memory(storage),
        }
    }

    /// Whether the journal of an image is one that no mount takes.
    fn journal_is_lost(device: &Arc<dyn BlockDevice>) -> bool {
        let volume = Volume::open(device, Settings { read_only: true, ..Settings::default() });
        volume.is_ok_and(|volume| volume.journal_fault().is_err())
    }

    /// The memory that data goes to.
    fn memory(&self, storage: &Storage) -> Option<Arc<Region>> {
        storage.memory().ok().filter(|_| self.dax).map(Arc::clone)
    }
}

fn over_memory(storage: &Storage) -> Result<Arc<dyn BlockDevice>, FsError> {
    Ok(MemoryDevice::whole(Arc::clone(storage.memory()?))?)
}
