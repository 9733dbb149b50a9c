//! PMFS's format, which HiNFS and its variants mount, too.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use design::{Format, FsError, FsckReport, Needs, OptionError, Options};
use media::Storage;
use media::event::Mark;
use media::nvmm::Region;
use sim::{Bytes, KIB, MIB};

use super::layout::{
    BLOCK, COPY, JOURNAL_DESCRIPTOR, JOURNAL_MIN, JOURNAL_START, JournalDescriptor, MAGIC, MAX_IMAGE,
    NOTHING_SAVED, Superblock, TABLE_INODE, VERSION,
};
use super::{Settings, Volume, dump, fsck, mkfs, recovery, repair, superblock};
use base::error::Error;

/// Default size of the journal, as in PMFS.
pub(crate) const JOURNAL_USUAL: u64 = 4 * MIB;

/// The format as the designs make it that mount it.
pub(crate) struct PmfsFormat {
    /// The design that an image names, and errors too.
    pub(crate) design: &'static str,
    /// Bytes of the journal where the options leave it to the design.
    pub(crate) usual_journal: fn(&Region, &Options) -> u64,
}

impl Format for PmfsFormat {
    fn needs(&self, _: &Options) -> Needs {
        Needs::Memory
    }

    fn min_size(&self, options: &Options) -> Bytes {
        min_size(options)
    }

    fn mkfs(&self, storage: &Storage, options: &Options) -> Result<(), FsError> {
        let region = storage.memory()?;
        make(self.design, region, options, (self.usual_journal)(region, options))
    }

    fn recognises(&self, storage: &Storage) -> bool {
        is_made_for(self.design, storage)
    }

    fn recover(&self, storage: &Storage) -> Result<Vec<String>, FsError> {
        recover(storage.memory()?).map_err(|error| error.of(self.design))
    }

    fn replay(&self, storage: &Storage) -> Result<Vec<String>, FsError> {
        self.recover(storage)
    }

    fn fsck(&self, storage: &Storage) -> FsckReport {
        match storage.memory() {
            Ok(region) => fsck::check(region),
            Err(error) => FsckReport::unchecked(error.to_string()),
        }
    }

    fn repair(&self, storage: &Storage) -> Result<Vec<String>, FsError> {
        repair::repair(storage.memory()?)
    }

    fn grow(&self, storage: &Storage) -> Result<Bytes, FsError> {
        recovery::grow(storage.memory()?).map(Bytes).map_err(|error| error.of(self.design))
    }

    fn may_have_holes(&self) -> bool {
        true
    }

    fn journal(&self, storage: &Storage) -> Result<Vec<Range<u64>>, FsError> {
        journal(storage.memory()?).map_err(|error| error.of(self.design))
    }

    fn dump(&self, storage: &Storage, part: &str, out: &mut dyn io::Write) -> Result<(), FsError> {
        dump::dump(storage.memory()?, part, out)
    }

    fn dump_parts(&self) -> &'static [(&'static str, &'static str)] {
        dump::PARTS
    }
}

/// The size of the journal that the options give; `usual` when they leave it to the design.
fn journal_size(options: &Options, usual: u64) -> Result<u64, OptionError> {
    let size = match options.size("jsize").0 {
        0 => usual,
        given => given,
    };
    if size >= JOURNAL_MIN && size.is_power_of_two() && u32::try_from(size).is_ok() {
        return Ok(size);
    }
    Err(OptionError::Value {
        name: "jsize".to_owned(),
        value: options.choice("jsize").to_owned(),
        expected: "a power of two from 64 KiB to 2 GiB".to_owned(),
    })
}

/// The smallest region for a journal of the given options: some blocks beside the fixed parts.
fn min_size(options: &Options) -> Bytes {
    let journal = journal_size(options, JOURNAL_USUAL).unwrap_or(JOURNAL_USUAL);
    Bytes(JOURNAL_START + journal + 64 * KIB)
}

/// Makes the format that PMFS and its descendants share, with a journal of `usual` bytes unless the options say otherwise.
fn make(design: &'static str, region: &Arc<Region>, options: &Options, usual: u64) -> Result<(), FsError> {
    let journal = journal_size(options, usual)?;
    let (needed, size) = (min_size(options), Bytes(region.len()));
    if size < needed {
        return Err(FsError::TooSmall { design, needed, size });
    }
    if size.0 > MAX_IMAGE {
        return Err(FsError::TooLarge { design, most: Bytes(MAX_IMAGE), size });
    }
    mkfs::mkfs((region, design), journal, options.number("num_inodes"), options.mutant()).map_err(|error| {
        match error {
            Error::Media(error) => FsError::Media(error),
            Error::NoSpace => too_many_inodes(options).into(),
            error => FsError::Damaged { design, what: error.to_string() },
        }
    })
}

fn too_many_inodes(options: &Options) -> OptionError {
    OptionError::Value {
        name: "num_inodes".to_owned(),
        value: options.number("num_inodes").to_string(),
        expected: "fewer: there is no room for so many".to_owned(),
    }
}

/// The designs that share the format; an image names the one that it was made for, and any of them can mount it.
const SHARED_BY: [&str; 4] = ["pmfs", "hinfs", "hinfs-nclfw", "hinfs-wb"];

/// Whether the storage has the magic of the format, in either superblock, and was made for `design`, or for none of those that
/// share it.
fn is_made_for(design: &str, storage: &Storage) -> bool {
    let Ok(region) = storage.memory() else { return false };
    let made_for = |at| {
        let superblock = region.read::<Superblock>(at).ok()?;
        let other = SHARED_BY.iter().any(|known| known.as_bytes() == superblock.name());
        Some(superblock.magic == MAGIC && (!other || superblock.name() == design.as_bytes()))
    };
    region.len() >= BLOCK && [0, COPY].into_iter().any(|at| made_for(at) == Some(true))
}

/// Recovers an image of the shared format and says what that took.
fn recover(region: &Arc<Region>) -> Result<Vec<String>, FsError> {
    region.mark(Mark::RecoveryBegin);
    let mut done = Vec::new();
    let (superblock, from_copy) = superblock::load(region)?;
    if from_copy {
        done.push("the primary superblock is bad; the redundant copy was used".to_owned());
        superblock::restore_from_copy(region, &superblock).map_err(recovery::damaged)?;
    }
    match recovery::recover_journal(region, superblock.size, None)? {
        0 => {}
        entries => {
            done.push(format!("journal: {entries} log entries of unfinished transactions were undone"));
        }
    }
    if superblock::convert(region, &superblock).map_err(recovery::damaged)? {
        done.push(format!("format version {} became {VERSION}, as mounting does", superblock.version));
    }
    let Superblock { saved_extents: saved, mount_time, .. } = region.read(0)?;
    let volume = Volume::recover(region, Settings::for_recovery(true))?;
    volume.journal.stop().map_err(recovery::damaged)?;
    match (saved, mount_time) {
        (0, 0) => done.push("new: it was never mounted".to_owned()),
        (0, _) => done.push("not unmounted: the block map was rebuilt by a scan".to_owned()),
        (NOTHING_SAVED, _) => {
            done.push("no room to save the block map: it was rebuilt by a scan".to_owned());
        }
        _ => {}
    }
    Ok(done)
}

/// The descriptor of the journal and its entries.
fn journal(region: &Region) -> Result<Vec<Range<u64>>, FsError> {
    let entries = u64::from(region.read::<JournalDescriptor>(JOURNAL_DESCRIPTOR)?.size);
    Ok(vec![JOURNAL_START..JOURNAL_START + entries, JOURNAL_DESCRIPTOR..TABLE_INODE])
}
