//! The superblock. It has no checksum and no copy, as published.

use media::nvmm::Region;

use crate::layout::{CLEAN, Layout, MAGIC, PAGE, Superblock};
use base::error::{Error, Result};

/// Reads the superblock of an image, and where its regions lie.
pub(crate) fn load(region: &Region) -> Result<(Superblock, Layout)> {
    let corrupt = |what: String| Err(Error::Corrupt(format!("superblock: {what}")));
    if region.len() < PAGE {
        return corrupt(format!("the region has {} bytes, less than a page", region.len()));
    }
    let superblock: Superblock = region.read(0)?;
    match superblock {
        Superblock { magic, .. } if magic != MAGIC => {
            corrupt(format!("magic {magic:#x}, expected {MAGIC:#x}"))
        }
        Superblock { page_bytes, .. } if page_bytes != PAGE => {
            corrupt(format!("pages of {page_bytes} bytes, this code knows those of {PAGE}"))
        }
        Superblock { size, .. } if size != region.len() => {
            corrupt(format!("made for {size} bytes, the region has {}", region.len()))
        }
        Superblock { clean, .. } if clean > 1 => corrupt(format!("clean is {clean}, it is 0 or 1")),
        Superblock { size, inodes, .. } => match Layout::new(size, inodes) {
            Some(layout) => Ok((superblock, layout)),
            None => corrupt(format!("{inodes} inodes in {size} bytes")),
        },
    }
}

/// Says whether the image is that of an unmounted file system.
pub(crate) fn store_clean(region: &Region, clean: bool) -> Result<()> {
    region.store_u64(CLEAN, u64::from(clean))?;
    region.flush(CLEAN, 8);
    region.fence();
    Ok(())
}
