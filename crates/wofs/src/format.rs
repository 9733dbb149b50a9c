//! The format, as the rest of the system makes, checks and repairs it.

use std::io::Write;
use std::ops::Range;

use design::{Format, FsError, FsckReport, Needs, Options};
use media::Storage;
use sim::Bytes;

use crate::design::NAME;
use crate::dump::{PARTS, dump};
use crate::layout::{BLOCK, Geometry, Kind, MAGIC, Superblock};
use crate::mkfs::mkfs;
use crate::mutant::Rules;
use crate::package::{self, Package};
use crate::recovery::{Loaded, load};
use crate::{fsck, repair};
use base::error::{Error, Result};

/// The smallest region: containers of all kinds, and some blocks.
const MIN_SIZE: Bytes = Bytes::kib(128);
/// Numbers of blocks have 32 bits.
const MAX_SIZE: Bytes = Bytes(u32::MAX as u64 * BLOCK);

/// The format.
pub(crate) struct WofsFormat;

/// Reads an image and refuses what fsck would report.
pub(crate) fn load_sound(storage: &Storage, rules: Rules) -> Result<Loaded, FsError> {
    let region = storage.memory()?;
    let loaded = load(region, rules).map_err(damaged)?;
    let mut report = FsckReport::default();
    for copy in [0, BLOCK] {
        crate::superblock::read(region, copy).map_err(damaged)?;
    }
    crate::superblock::saved(region).map_err(damaged)?;
    fsck::check_loaded(&loaded, &mut report);
    match report.violations.first() {
        Some(violation) => Err(FsError::Damaged {
            design: NAME,
            what: format!("{violation}: run weir fsck --repair, or mount a copy"),
        }),
        None => Ok(loaded),
    }
}

impl Format for WofsFormat {
    fn needs(&self, _: &Options) -> Needs {
        Needs::Memory
    }

    fn min_size(&self, _: &Options) -> Bytes {
        MIN_SIZE
    }

    fn size_for(&self, files: Bytes, _: &Options) -> Bytes {
        // Packages: a line for each piece of a file, four for each name.
        Bytes(files.0.saturating_add(files.0 / 8).saturating_add(MIN_SIZE.0).next_multiple_of(BLOCK))
    }

    fn mkfs(&self, storage: &Storage, _: &Options) -> Result<(), FsError> {
        let region = storage.memory()?;
        let size = Bytes(region.len());
        if size < MIN_SIZE {
            return Err(FsError::TooSmall { design: NAME, needed: MIN_SIZE, size });
        }
        if size > MAX_SIZE {
            return Err(FsError::TooLarge { design: NAME, most: MAX_SIZE, size });
        }
        mkfs(region).map_err(damaged)
    }

    fn recognises(&self, storage: &Storage) -> bool {
        let Ok(region) = storage.memory() else { return false };
        let is_ours = |copy| region.read::<Superblock>(copy).is_ok_and(|found| found.magic == MAGIC);
        region.len() >= MIN_SIZE.0 && (is_ours(0) || is_ours(BLOCK))
    }

    fn recover(&self, storage: &Storage) -> Result<Vec<String>, FsError> {
        // A mount reads what it finds and changes nothing of it.
        load_sound(storage, Rules::default()).map(|_| Vec::new())
    }

    fn replay(&self, storage: &Storage) -> Result<Vec<String>, FsError> {
        load(storage.memory()?, Rules::default()).map(|_| Vec::new()).map_err(damaged)
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
        Err(FsError::NoJournal { design: NAME, why: "its packages are all that it has of names and files" })
    }

    fn certify(&self, image: &[u8], edited: &mut [u8]) {
        let geometry = Geometry::of(image.len() as u64);
        for kind in Kind::ALL {
            for block in geometry.first()..geometry.blocks {
                let (word, bit) = geometry.bit(kind, block);
                let has_bit = image.get(word as usize..word as usize + 8).is_some_and(|bytes| {
                    let bytes: [u8; 8] = bytes.try_into().unwrap_or_default();
                    u64::from_le_bytes(bytes) & bit != 0
                });
                for place in has_bit.then(|| kind.places(block)).into_iter().flatten() {
                    let range = place as usize..(place + kind.bytes()) as usize;
                    let (Some(old), Some(new)) = (image.get(range.clone()), edited.get_mut(range)) else {
                        continue;
                    };
                    if old != new && Package::decode(kind, old, Rules::default()).is_some() {
                        package::certify(kind, new);
                    }
                }
            }
        }
    }

    fn dump(&self, storage: &Storage, part: &str, out: &mut dyn Write) -> Result<(), FsError> {
        dump(storage.memory()?, part, out)
    }

    fn dump_parts(&self) -> &'static [(&'static str, &'static str)] {
        PARTS
    }
}

/// An error of this design as one of making, mounting or checking.
pub(crate) fn damaged(error: Error) -> FsError {
    match error {
        Error::Media(error) => FsError::Media(error),
        other => FsError::Damaged { design: NAME, what: other.to_string() },
    }
}
