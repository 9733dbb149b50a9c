//! SquirrelFS's format, to the rest.

use std::io::Write;
use std::ops::Range;

use design::{Format, FsError, FsckReport, Needs, OptionError, Options};
use media::Storage;
use sim::Bytes;

use crate::layout::{DENTRY_BYTES, Layout, MAGIC, MIN_SIZE, PAGE, Superblock};
use crate::recovery::recover;
use crate::superblock::{load, store_clean};
use crate::{NAME, damaged, dump, fsck, mkfs, repair};
use base::error::Error;

/// The format.
pub(crate) struct SquirrelFormat;

impl Format for SquirrelFormat {
    fn needs(&self, _: &Options) -> Needs {
        Needs::Memory
    }

    fn min_size(&self, _: &Options) -> Bytes {
        MIN_SIZE
    }

    fn bytes_per_inode(&self, options: &Options) -> u64 {
        options.size("bytes_per_inode").0
    }

    fn size_for(&self, files: Bytes, options: &Options) -> Bytes {
        // A page of contents has a descriptor; an inode with its name comes to so many bytes of the device.
        let per_page = PAGE + 32 + (96 + DENTRY_BYTES) * PAGE / options.size("bytes_per_inode").0.max(1);
        Bytes((files.0 / PAGE + 1).saturating_mul(per_page).saturating_add(MIN_SIZE.0))
    }

    fn mkfs(&self, storage: &Storage, options: &Options) -> Result<(), FsError> {
        let region = storage.memory()?;
        let size = Bytes(region.len());
        if size < MIN_SIZE {
            return Err(FsError::TooSmall { design: NAME, needed: MIN_SIZE, size });
        }
        let inodes = Layout::inodes_for(size.0, options.size("bytes_per_inode").0);
        mkfs::mkfs(region, inodes).map_err(|error| match error {
            Error::NoSpace => too_many_inodes(options).into(),
            error => damaged(error),
        })
    }

    fn recognises(&self, storage: &Storage) -> bool {
        let Ok(region) = storage.memory() else { return false };
        let is_made = |found: Superblock| found.magic == MAGIC && found.page_bytes == PAGE;
        region.len() >= MIN_SIZE.0 && region.read::<Superblock>(0).is_ok_and(is_made)
    }

    fn recover(&self, storage: &Storage) -> Result<Vec<String>, FsError> {
        let region = storage.memory()?;
        if load(region).map_err(damaged)?.0.clean == 1 {
            return Ok(Vec::new());
        }
        let mut done = recover(region, None).map_err(damaged)?;
        store_clean(region, true).map_err(damaged)?;
        done.insert(0, "not unmounted: all tables were scanned".to_owned());
        Ok(done)
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
        repair::repair(storage.memory()?).map_err(damaged)
    }

    fn grow(&self, _: &Storage) -> Result<Bytes, FsError> {
        Err(FsError::NoGrowth { design: NAME, advice: "copy its files to a larger pool" })
    }

    fn may_have_holes(&self) -> bool {
        false
    }

    fn journal(&self, _: &Storage) -> Result<Vec<Range<u64>>, FsError> {
        Err(FsError::NoJournal { design: NAME, why: "it has none: the order of its stores takes its place" })
    }

    fn dump(&self, storage: &Storage, part: &str, out: &mut dyn Write) -> Result<(), FsError> {
        dump::dump(storage.memory()?, part, out)
    }

    fn dump_parts(&self) -> &'static [(&'static str, &'static str)] {
        dump::PARTS
    }
}

fn too_many_inodes(options: &Options) -> OptionError {
    OptionError::Value {
        name: "bytes_per_inode".to_owned(),
        value: options.choice("bytes_per_inode").to_owned(),
        expected: "more: there is no room for so many inodes".to_owned(),
    }
}
