//! Redo in the table of designs.

use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use ::vfs::{FileSystem, Promises};
use media::Storage;
use sim::{Bytes, LockClass};

use super::layout::{MAGIC, Superblock};
use super::log::{Volume, capacity, format, load, size_for, superblock};
use super::repair::repair;
use super::state::{BLOCK, BLOCK_COST};
use super::vfs::{MIN_SIZE, Redo};
use super::{fsck, mutant};
use crate::error::Error;
use crate::fs_type::{Checking, FsError, FsType, FsckReport};
use crate::mutant::Mutant;
use crate::options::{OptionSpec, Options};

/// Redo.
pub(crate) struct RedoType;

const NAME: &str = "redo";

fn damaged(error: Error) -> FsError {
    match error {
        Error::Media(error) => FsError::Media(error),
        other => FsError::Damaged { design: NAME, what: other.to_string() },
    }
}

impl FsType for RedoType {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "all state in DRAM, every change in a redo log; the template for new designs"
    }

    fn options(&self) -> &'static [OptionSpec] {
        &[]
    }

    fn classes(&self) -> Vec<&'static LockClass> {
        vec![&super::vfs::VOLUME]
    }

    fn promises(&self, _: &Options) -> Promises {
        Promises::STRICT
    }

    fn checking(&self) -> Checking {
        // An image takes long to mount: all files are read.
        Checking { crash_every: 3, ..Checking::default() }
    }

    fn min_size(&self, _: &Options) -> Bytes {
        MIN_SIZE
    }

    fn size_for(&self, files: Bytes, _: &Options) -> Bytes {
        // Two halves, each with a checkpoint of all files and a log.
        Bytes(size_for(files.0.saturating_add(files.0 / BLOCK * (BLOCK_COST - BLOCK))))
    }

    fn dram(&self, _: &Options, size: Bytes) -> Bytes {
        Bytes(capacity(size.0))
    }

    fn mkfs(&self, storage: &Storage, _: &Options) -> Result<(), FsError> {
        let region = storage.memory()?;
        let size = Bytes(region.len());
        if size < MIN_SIZE {
            return Err(FsError::TooSmall { design: NAME, needed: MIN_SIZE, size });
        }
        format(region).map_err(damaged)
    }

    fn mount(&self, storage: &Storage, options: &Options) -> Result<Arc<dyn FileSystem>, FsError> {
        if !self.recognises(storage) {
            let found = "the magic number is another".to_owned();
            return Err(FsError::WrongFormat { design: NAME, found });
        }
        let volume = Volume::open(storage.memory()?, options.mutant()).map_err(damaged)?;
        Ok(Arc::new(Redo::new(volume)))
    }

    fn recognises(&self, storage: &Storage) -> bool {
        let Ok(region) = storage.memory() else { return false };
        region.len() >= MIN_SIZE.0 && region.read::<Superblock>(0).is_ok_and(|found| found.magic == MAGIC)
    }

    fn recover(&self, storage: &Storage) -> Result<Vec<String>, FsError> {
        // A mount reads what it finds and changes nothing.
        load(storage.memory()?).map(|_| Vec::new()).map_err(damaged)
    }

    fn fsck(&self, storage: &Storage) -> FsckReport {
        match storage.memory() {
            Ok(region) => fsck::check(region),
            Err(error) => FsckReport::unchecked(error.to_string()),
        }
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

    fn repair(&self, storage: &Storage) -> Result<Vec<String>, FsError> {
        repair(storage.memory()?).map_err(damaged)
    }

    fn mutants(&self) -> &'static [Mutant] {
        mutant::ALL
    }

    fn dump(&self, storage: &Storage, part: &str, out: &mut dyn Write) -> Result<(), FsError> {
        let region = storage.memory()?;
        let mut words = part.split_whitespace();
        match (words.next(), words.next().map(str::parse::<u64>)) {
            (Some("superblock"), None) => writeln!(out, "{:#?}", superblock(region).map_err(damaged)?)?,
            (Some("log"), None) => {
                let loaded = load(region).map_err(damaged)?;
                writeln!(out, "half {}: {:?}, {} records", loaded.active, loaded.header, loaded.records)?;
            }
            (Some("inode"), Some(Ok(ino))) => {
                let loaded = load(region).map_err(damaged)?;
                let inode = loaded.state.inode(ino).map_err(|error| no_part(part, &error.to_string()))?;
                writeln!(out, "{inode:#?}")?;
            }
            _ => return Err(no_part(part, "there are superblock, log, inode N")),
        }
        Ok(())
    }

    fn dump_parts(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("superblock", "size, active half"),
            ("log", "checkpoint, tail and number of records of the active half"),
            ("inode N", "an inode with its names or blocks"),
        ]
    }
}

fn no_part(part: &str, why: &str) -> FsError {
    FsError::NoSuchPart { part: part.to_owned(), why: why.to_owned() }
}
