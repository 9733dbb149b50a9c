//! Redo's format.

use std::io::Write;
use std::ops::Range;

use design::{Format, FsError, FsckReport, Needs, Options};
use media::Storage;
use sim::Bytes;

use super::design::NAME;
use super::dump::{PARTS, dump};
use super::fsck;
use super::inode::BLOCK_COST;
use super::layout::{MAGIC, Superblock};
use super::log::size_for;
use super::mkfs::mkfs;
use super::recovery::load;
use super::repair::repair;
use super::state::BLOCK;
use super::vfs::MIN_SIZE;
use base::error::Error;

/// The format.
pub(crate) struct RedoFormat;

impl Format for RedoFormat {
    fn needs(&self, _: &Options) -> Needs {
        Needs::Memory
    }

    fn min_size(&self, _: &Options) -> Bytes {
        MIN_SIZE
    }

    fn size_for(&self, files: Bytes, _: &Options) -> Bytes {
        // Two halves, each with a checkpoint of all files and a log.
        Bytes(size_for(files.0.saturating_add(files.0 / BLOCK * (BLOCK_COST - BLOCK))))
    }

    fn mkfs(&self, storage: &Storage, _: &Options) -> Result<(), FsError> {
        let region = storage.memory()?;
        let size = Bytes(region.len());
        if size < MIN_SIZE {
            return Err(FsError::TooSmall { design: NAME, needed: MIN_SIZE, size });
        }
        mkfs(region).map_err(damaged)
    }

    fn recognises(&self, storage: &Storage) -> bool {
        let Ok(region) = storage.memory() else { return false };
        region.len() >= MIN_SIZE.0 && region.read::<Superblock>(0).is_ok_and(|found| found.magic == MAGIC)
    }

    fn recover(&self, storage: &Storage) -> Result<Vec<String>, FsError> {
        // A mount reads what it finds and changes nothing.
        load(storage.memory()?).map(|_| Vec::new()).map_err(damaged)
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
        repair(storage.memory()?).map_err(damaged)
    }

    fn grow(&self, _: &Storage) -> Result<Bytes, FsError> {
        Err(FsError::NoGrowth { design: NAME, advice: "copy its files to a larger pool" })
    }

    fn may_have_holes(&self) -> bool {
        false
    }

    fn journal(&self, _: &Storage) -> Result<Vec<Range<u64>>, FsError> {
        Err(FsError::NoJournal { design: NAME, why: "its log is where its data is" })
    }

    fn dump(&self, storage: &Storage, part: &str, out: &mut dyn Write) -> Result<(), FsError> {
        dump(storage.memory()?, part, out)
    }

    fn dump_parts(&self) -> &'static [(&'static str, &'static str)] {
        PARTS
    }
}

/// An error of this design as one of making, mounting or checking.
pub(super) fn damaged(error: Error) -> FsError {
    match error {
        Error::Media(error) => FsError::Media(error),
        other => FsError::Damaged { design: NAME, what: other.to_string() },
    }
}
