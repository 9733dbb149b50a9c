//! Crest's format to the rest.

use std::io::Write;
use std::ops::Range;

use design::{Format, FsError, FsckReport, Needs, OptionError, Options};
use media::Storage;
use sim::Bytes;

use super::dump::{PARTS, dump};
use super::mkfs::mkfs;
use super::repair::repair;
use super::{fsck, recovery, resize};
use crate::format::certify::certify;
use crate::format::layout::{self, BITS_40, BLOCK, Geometry, incompat};
use crate::format::zone::shards_max;
use crate::store::{superblock, zone_table};
use crate::{NAME, damaged};

/// The smallest pool: 15 zones of 16 KiB.
const MIN_SIZE: Bytes = Bytes::kib(256);
/// Shards of a pool whose maker does not say how many: more than cores of a machine are of no use.
const SHARDS_USUAL: u32 = 64;

/// The format.
pub(crate) struct CrestFormat;

/// Shards of a pool of so many zones, with these options.
fn shards(zones: u32, options: &Options) -> Result<u32, FsError> {
    let (asked, most) = (options.number("shards"), shards_max(zones));
    match asked {
        0 => Ok(most.min(SHARDS_USUAL)),
        asked if asked <= u64::from(most) => Ok(asked as u32),
        asked => Err(FsError::Option(OptionError::Value {
            name: "shards".to_owned(),
            value: asked.to_string(),
            expected: format!("at most {most} in {zones} zones, or 0"),
        })),
    }
}

impl Format for CrestFormat {
    fn needs(&self, _: &Options) -> Needs {
        Needs::Memory
    }

    fn min_size(&self, options: &Options) -> Bytes {
        // Sixteen zones a shard, of the smallest size, and what comes before them.
        let zones = 16 * options.number("shards");
        MIN_SIZE.max(Bytes((zones + 2) * layout::ZONE_BYTES.start()))
    }

    fn size_for(&self, files: Bytes, _: &Options) -> Bytes {
        // A 16th of the zones is kept, and a line of the log may be needed for each block.
        Bytes(files.0.saturating_add(files.0 / 8).saturating_add(Bytes::mib(1).0))
    }

    fn mkfs(&self, storage: &Storage, options: &Options) -> Result<(), FsError> {
        let region = storage.memory()?;
        let size = Bytes(region.len());
        let needed = self.min_size(options);
        if size < needed {
            return Err(FsError::TooSmall { design: NAME, needed, size });
        }
        let most = Bytes(BITS_40 * BLOCK);
        if size > most {
            return Err(FsError::TooLarge { design: NAME, most, size });
        }
        let made = size.0 / BLOCK * BLOCK;
        let shards = shards(Geometry::new(made, made).zones, options)?;
        let checksums = options.choice("checksum") == "data";
        let checksums = if checksums { incompat::CHECKSUMS } else { 0 };
        let parity = if options.flag("parity") { incompat::PARITY } else { 0 };
        let always = incompat::INLINE | incompat::NONCE | incompat::BATCHES;
        mkfs(region, shards, always | checksums | parity).map_err(damaged)
    }

    fn recognises(&self, storage: &Storage) -> bool {
        storage.memory().is_ok_and(|region| superblock::has_magic(region))
    }

    fn recover(&self, storage: &Storage) -> Result<Vec<String>, FsError> {
        recovery::recover(storage.memory()?)
    }

    fn replay(&self, storage: &Storage) -> Result<Vec<String>, FsError> {
        let region = storage.memory()?;
        zone_table::make_equal(region, &zone_table::load(region)?)
    }

    fn certify(&self, image: &[u8], edited: &mut [u8]) {
        certify(image, edited);
    }

    fn fsck(&self, storage: &Storage) -> FsckReport {
        match storage.memory() {
            Ok(region) => fsck::check(region),
            Err(error) => FsckReport::unchecked(error.to_string()),
        }
    }

    fn repair(&self, storage: &Storage) -> Result<Vec<String>, FsError> {
        repair(storage.memory()?)
    }

    fn grow(&self, storage: &Storage) -> Result<Bytes, FsError> {
        resize::grow(storage.memory()?)
    }

    fn grows_to(&self, storage: &Storage) -> Result<Option<Bytes>, FsError> {
        resize::grows_to(storage.memory()?).map(Some)
    }

    fn shrink(&self, storage: &Storage, size: Bytes) -> Result<Bytes, FsError> {
        resize::shrink(storage.memory()?, size)
    }

    fn may_have_holes(&self) -> bool {
        false
    }

    fn journal(&self, _: &Storage) -> Result<Vec<Range<u64>>, FsError> {
        Err(FsError::NoJournal { design: NAME, why: "its log is where its metadata is" })
    }

    fn dump(&self, storage: &Storage, part: &str, out: &mut dyn Write) -> Result<(), FsError> {
        dump(storage.memory()?, part, out)
    }

    fn dump_parts(&self) -> &'static [(&'static str, &'static str)] {
        PARTS
    }
}
