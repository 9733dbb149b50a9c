//! The superblock, its copy, and the word that the last unmount has left.

use media::nvmm::Region;
use zerocopy::IntoBytes;

use crate::layout::{BLOCK, MAGIC, SAVED, Superblock, VERSION};
use base::error::{Error, Result};
use base::persist::checksum::crc32c;

/// An unmount stores a number that is larger than those of all packages, and 16 bits that say so.
const CHECK: u64 = 0xA5C3;

impl Superblock {
    /// Of a region of `size` bytes.
    pub(crate) fn new(size: u64) -> Self {
        let mut superblock = Self { magic: MAGIC, version: VERSION, crc: 0, size, zero: [0; 5] };
        superblock.crc = crc32c(superblock.as_bytes());
        superblock
    }
}

/// Stores the superblock and its copy; they are durable after a fence.
pub(crate) fn store(region: &Region) -> Result<()> {
    for copy in [0, BLOCK] {
        region.write(copy, &Superblock::new(region.len()))?;
        region.flush(copy, size_of::<Superblock>() as u64);
    }
    Ok(())
}

/// Reads one copy, at `offset`.
pub(crate) fn read(region: &Region, offset: u64) -> Result<Superblock> {
    let found: Superblock = region.read(offset)?;
    let corrupt = |what: String| Err(Error::Corrupt(format!("superblock at byte {offset}: {what}")));
    match found {
        _ if found.magic != MAGIC => corrupt(format!("magic {:#x}, expected {MAGIC:#x}", found.magic)),
        _ if crc32c(Superblock { crc: 0, ..found }.as_bytes()) != found.crc => {
            corrupt("wrong checksum".to_owned())
        }
        _ if found.version > VERSION => corrupt(format!("version {}, known up to {VERSION}", found.version)),
        _ if found.size != region.len() => {
            corrupt(format!("made for {} bytes, the region has {}", found.size, region.len()))
        }
        _ => Ok(found),
    }
}

/// The number that an unmount has saved; none: the file system was not unmounted. An error: the word is damaged.
pub(crate) fn saved(region: &Region) -> Result<Option<u64>> {
    match region.load_u64(SAVED)? {
        0 => Ok(None),
        word if word >> 48 == CHECK => Ok(Some(word & ((1 << 48) - 1))),
        word => Err(Error::Corrupt(format!("the word of the last unmount is {word:#x}"))),
    }
}

/// Stores that number, or that there is none, durably.
pub(crate) fn save(region: &Region, next: Option<u64>) -> Result<()> {
    let word = next.map_or(0, |next| CHECK << 48 | next & ((1 << 48) - 1));
    if region.load_u64(SAVED)? == word {
        return Ok(());
    }
    region.store_u64(SAVED, word)?;
    region.flush(SAVED, 8);
    region.fence();
    Ok(())
}
