//! The superblock.

use media::nvmm::Region;

use super::layout::{MAGIC, Superblock};
use base::error::{Error, Result};

/// Reads the superblock of an image.
pub(super) fn load(region: &Region) -> Result<Superblock> {
    let superblock: Superblock = region.read(0)?;
    let corrupt = |what: String| Err(Error::Corrupt(format!("superblock: {what}")));
    match superblock {
        Superblock { magic, .. } if magic != MAGIC => {
            corrupt(format!("magic {magic:#x}, expected {MAGIC:#x}"))
        }
        Superblock { size, .. } if size != region.len() => {
            corrupt(format!("made for {size} bytes, the region has {}", region.len()))
        }
        Superblock { active, .. } if active > 1 => {
            corrupt(format!("half {active} is active, there are 0 and 1"))
        }
        _ => Ok(superblock),
    }
}
