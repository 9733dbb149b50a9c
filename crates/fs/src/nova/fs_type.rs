//! NOVA in the table of designs.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use media::Storage;
use media::nvmm::Region;
use sim::{Bytes, Count, LINE_BYTES, LockClass, MIB};
use vfs::{FileSystem, Promises};

use super::layout::{BLOCK, COPY, Geometry, MAGIC, MAX_IMAGE, SHARDS_MAX, Superblock};
use super::superblock::{CHUNK_BYTES, LOG_BYTES, smallest};
use super::vfs::Mounted;
use super::{Settings, Volume, dump, fsck, mutant, recovery, repair, superblock};
use crate::error::Error;
use crate::fs_type::{Checking, FsError, FsType, FsckReport, Given};
use crate::mutant::Mutant;
use crate::options::{OptionError, OptionKind, OptionSpec, Options};

/// NOVA.
pub(crate) struct NovaType;

const NAME: &str = "nova";

/// Options of mkfs and mount, shared with the designs that use this format.
pub(crate) const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "shards",
        kind: OptionKind::Count,
        default: "0",
        help: "mkfs: shards, each with a journal, an inode table and a block allocator: 1 to 256; 0: one per 32 MiB, from 2 to 128",
    },
    OptionSpec {
        name: "log_page",
        kind: OptionKind::Size,
        default: "4k",
        help: "mkfs: size of a log page, 512 to 4k; with small pages logs grow and are cleaned sooner",
    },
    OptionSpec {
        name: "inode_chunk",
        kind: OptionKind::Size,
        default: "0",
        help: "mkfs: step by which an inode table grows, 4k to 2M; 0: a 1024th of a shard",
    },
    OptionSpec {
        name: "cleaning",
        kind: OptionKind::Flag,
        default: "true",
        help: "mount: clean logs before they grow (section 3.6 of the paper)",
    },
];

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
pub(crate) fn min_size(options: &Options) -> Bytes {
    let (shards, _, chunk) = shape(0, options).unwrap_or((2, BLOCK, BLOCK));
    Bytes(smallest(shards, chunk))
}

/// Makes the format.
pub(crate) fn make(design: &'static str, region: &Arc<Region>, options: &Options) -> Result<(), FsError> {
    let size = region.len() / BLOCK * BLOCK;
    let (shards, log_bytes, chunk) = shape(size, options)?;
    let needed = Bytes(smallest(shards, chunk));
    if size < needed.0 {
        return Err(FsError::TooSmall { design, needed, size: Bytes(region.len()) });
    }
    if size > MAX_IMAGE {
        return Err(FsError::TooLarge { design, most: Bytes(MAX_IMAGE), size: Bytes(region.len()) });
    }
    recovery::format(region, &Superblock::new(size, shards, log_bytes, chunk), options.mutant()).map_err(
        |error| match error {
            Error::Media(error) => FsError::Media(error),
            error => FsError::Damaged { design, what: error.to_string() },
        },
    )
}

/// How to mount.
pub(crate) fn settings(options: &Options) -> Settings {
    Settings { cleaning: options.flag("cleaning"), mutant: options.mutant() }
}

/// Whether a region has the magic of the format, in either superblock.
pub(crate) fn has_magic(region: &Region) -> bool {
    let is_ours = |at| region.read::<Superblock>(at).is_ok_and(|superblock| superblock.magic == MAGIC);
    region.len() >= COPY + BLOCK && [0, COPY].into_iter().any(is_ours)
}

/// Recovers an image and says what that took.
pub(crate) fn recover(region: &Arc<Region>) -> Result<Vec<String>, FsError> {
    let (volume, done) = Volume::mount(region, Settings { cleaning: true, mutant: None }, None)?;
    volume.unmount().map_err(recovery::damaged)?;
    Ok(done)
}

/// Grows an image to its region; returns the size before.
pub(crate) fn grow(region: &Arc<Region>) -> Result<Bytes, FsError> {
    recover(region)?;
    let (superblock, _) = superblock::load(region)?;
    let size = (region.len() / BLOCK * BLOCK).min(MAX_IMAGE);
    if size > superblock.size {
        superblock::resize(region, &superblock, size).map_err(recovery::damaged)?;
        recover(region)?;
    }
    Ok(Bytes(superblock.size))
}

/// Checks storage that holds the format.
pub(crate) fn check(storage: &Storage) -> FsckReport {
    match storage.memory() {
        Ok(region) => fsck::check(region),
        Err(error) => FsckReport::unchecked(error.to_string()),
    }
}

/// Repairs storage that holds the format.
pub(crate) fn mend(storage: &Storage) -> Result<Vec<String>, FsError> {
    repair::repair(storage.memory()?)
}

/// The journal of each shard, with the line that says how far it is valid.
pub(crate) fn journal(region: &Arc<Region>) -> Result<Vec<Range<u64>>, FsError> {
    let (superblock, _) = superblock::load(region)?;
    let geometry = Geometry::of(&superblock);
    let of = |shard| {
        let (line, block) = (Geometry::shard_at(shard), geometry.journal_at(shard));
        [line..line + LINE_BYTES as u64, block..block + BLOCK]
    };
    Ok((0..geometry.shards).flat_map(of).collect())
}

/// Two shards, and log pages in which few entries fit: logs grow and are cleaned in short programs.
pub(crate) const SMALL: Given = &[("shards", "2"), ("log_page", "512")];

impl FsType for NovaType {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "a log for each inode, new data in new blocks (FAST 2016)"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn classes(&self) -> Vec<&'static LockClass> {
        super::CLASSES.to_vec()
    }

    fn promises(&self, _: &Options) -> Promises {
        Promises::STRICT
    }

    fn checking(&self) -> Checking {
        const OTHERS: &[Given] = &[&[("log_page", "4k")]];
        Checking {
            small: SMALL,
            tiny: SMALL,
            formats: OTHERS,
            crash_every: 4,
            fail_every: 2,
            ..Checking::default()
        }
    }

    fn counts(&self) -> &'static [&'static Count] {
        &super::COUNTS
    }

    fn mutants(&self) -> &'static [Mutant] {
        &mutant::ALL
    }

    fn min_size(&self, options: &Options) -> Bytes {
        min_size(options)
    }

    fn mkfs(&self, storage: &Storage, options: &Options) -> Result<(), FsError> {
        make(NAME, storage.memory()?, options)
    }

    fn mount(&self, storage: &Storage, options: &Options) -> Result<Arc<dyn FileSystem>, FsError> {
        let (volume, _) = Volume::mount(storage.memory()?, settings(options), None)?;
        Ok(Arc::new(Mounted(volume)))
    }

    fn recognises(&self, storage: &Storage) -> bool {
        storage.memory().is_ok_and(|region| has_magic(region))
    }

    fn recover(&self, storage: &Storage) -> Result<Vec<String>, FsError> {
        recover(storage.memory()?)
    }

    fn grow(&self, storage: &Storage) -> Result<Bytes, FsError> {
        grow(storage.memory()?)
    }

    fn may_have_holes(&self) -> bool {
        true
    }

    fn fsck(&self, storage: &Storage) -> FsckReport {
        check(storage)
    }

    fn repair(&self, storage: &Storage) -> Result<Vec<String>, FsError> {
        mend(storage)
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
