//! NOVA's format, which RCache mounts, too.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use design::{Format, FsError, FsckReport, Needs, OptionError, Options};
use media::Storage;
use media::nvmm::Region;
use sim::{Bytes, LINE_BYTES, MIB};

use super::layout::{BLOCK, COPY, Geometry, MAGIC, MAX_IMAGE, SHARDS_MAX, Superblock};
use super::superblock::{CHUNK_BYTES, LOG_BYTES, smallest};
use super::{Settings, Volume, dump, fsck, mkfs, recovery, repair, superblock};
use base::error::Error;

/// The format. An image says nothing of how it was mounted.
pub(crate) struct NovaFormat {
    /// The design that errors name.
    pub(crate) design: &'static str,
}

impl Format for NovaFormat {
    fn needs(&self, _: &Options) -> Needs {
        Needs::Memory
    }

    fn min_size(&self, options: &Options) -> Bytes {
        min_size(options)
    }

    fn mkfs(&self, storage: &Storage, options: &Options) -> Result<(), FsError> {
        make(self.design, storage.memory()?, options)
    }

    fn recognises(&self, storage: &Storage) -> bool {
        storage.memory().is_ok_and(|region| has_magic(region))
    }

    fn recover(&self, storage: &Storage) -> Result<Vec<String>, FsError> {
        recover(storage.memory()?)
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
        repair::repair(storage.memory()?, false)
    }

    fn repair_at_any_loss(&self, storage: &Storage) -> Result<Vec<String>, FsError> {
        repair::repair(storage.memory()?, true)
    }

    fn grow(&self, storage: &Storage) -> Result<Bytes, FsError> {
        grow(storage.memory()?)
    }

    fn may_have_holes(&self) -> bool {
        true
    }

    fn journal(&self, storage: &Storage) -> Result<Vec<Range<u64>>, FsError> {
        journal(storage.memory()?)
    }

    fn dump(&self, storage: &Storage, part: &str, out: &mut dyn io::Write) -> Result<(), FsError> {
        dump::dump(storage.memory()?, part, out)
    }

    fn dump_parts(&self) -> &'static [(&'static str, &'static str)] {
        dump::PARTS
    }
}

/// A power of two from `range`, or none.
fn wrong(name: &str, options: &Options, expected: &str) -> OptionError {
    OptionError::Value {
        name: name.to_owned(),
        value: options.choice(name).to_owned(),
        expected: expected.to_owned(),
    }
}

/// Shards, bytes of a log page and of an inode chunk, of an image of `size` bytes.
fn shape(size: u64, options: &Options) -> Result<(u64, u64, u64), OptionError> {
    let shards = match options.number("shards") {
        0 => (size / (32 * MIB)).clamp(2, 128),
        given => given,
    };
    let log_bytes = options.size("log_page").0;
    let chunk = match options.size("inode_chunk").0 {
        0 => (size / shards.max(1) / 1024)
            .max(1)
            .next_power_of_two()
            .clamp(*CHUNK_BYTES.start(), *CHUNK_BYTES.end()),
        given => given,
    };
    if !(1..=SHARDS_MAX).contains(&shards) {
        return Err(wrong("shards", options, "a number from 1 to 256, or 0"));
    }
    if !LOG_BYTES.contains(&log_bytes) || !log_bytes.is_multiple_of(64) {
        return Err(wrong("log_page", options, "a multiple of 64 from 512 to 4k"));
    }
    if !CHUNK_BYTES.contains(&chunk) || !chunk.is_power_of_two() {
        return Err(wrong("inode_chunk", options, "a power of two from 4k to 2M, or 0"));
    }
    Ok((shards, log_bytes, chunk))
}

/// The smallest region: that of the fewest shards unless the options say how many.
fn min_size(options: &Options) -> Bytes {
    let (shards, _, chunk) = shape(0, options).unwrap_or((2, BLOCK, BLOCK));
    Bytes(smallest(shards, chunk))
}

/// Makes the format.
fn make(design: &'static str, region: &Arc<Region>, options: &Options) -> Result<(), FsError> {
    let size = region.len() / BLOCK * BLOCK;
    let (shards, log_bytes, chunk) = shape(size, options)?;
    let needed = Bytes(smallest(shards, chunk));
    if size < needed.0 {
        return Err(FsError::TooSmall { design, needed, size: Bytes(region.len()) });
    }
    if size > MAX_IMAGE {
        return Err(FsError::TooLarge { design, most: Bytes(MAX_IMAGE), size: Bytes(region.len()) });
    }
    mkfs::mkfs(region, &Superblock::new(size, shards, log_bytes, chunk), options.mutant()).map_err(|error| {
        match error {
            Error::Media(error) => FsError::Media(error),
            error => FsError::Damaged { design, what: error.to_string() },
        }
    })
}

/// Whether a region has the magic of the format, in either superblock.
fn has_magic(region: &Region) -> bool {
    let is_ours = |at| region.read::<Superblock>(at).is_ok_and(|superblock| superblock.magic == MAGIC);
    region.len() >= COPY + BLOCK && [0, COPY].into_iter().any(is_ours)
}

/// Recovers an image and says what that took.
fn recover(region: &Arc<Region>) -> Result<Vec<String>, FsError> {
    let (volume, done) = Volume::mount(region, Settings { cleaning: true, mutant: None }, None)?;
    volume.unmount().map_err(recovery::damaged)?;
    Ok(done)
}

/// Grows an image to its region; returns the size before.
fn grow(region: &Arc<Region>) -> Result<Bytes, FsError> {
    recover(region)?;
    let (superblock, _) = superblock::load(region)?;
    let size = (region.len() / BLOCK * BLOCK).min(MAX_IMAGE);
    if size > superblock.size {
        superblock::resize(region, &superblock, size).map_err(recovery::damaged)?;
        recover(region)?;
    }
    Ok(Bytes(superblock.size))
}

/// The journal of each shard, with the line that says how far it is valid.
fn journal(region: &Arc<Region>) -> Result<Vec<Range<u64>>, FsError> {
    let (superblock, _) = superblock::load(region)?;
    let geometry = Geometry::of(&superblock);
    let of = |shard| {
        let (line, block) = (Geometry::shard_at(shard), geometry.journal_at(shard));
        [line..line + LINE_BYTES as u64, block..block + BLOCK]
    };
    Ok((0..geometry.shards).flat_map(of).collect())
}
