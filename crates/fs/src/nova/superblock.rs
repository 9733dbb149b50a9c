//! The superblock and its copy.
//!
//! Both are written by mkfs, and again only to grow an image or to convert an older one, so either can be used whenever the other
//! is bad. What changes (the clean word, the journals, the heads of inode tables) lies elsewhere, each in a line of its own.

use media::MediaError;
use media::nvmm::Region;
use zerocopy::IntoBytes;

use super::layout::{
    BLOCK, COPY, Geometry, INODE_BYTES, MAGIC, MAX_IMAGE, SHARDS_MAX, Superblock, VERSION, checksum,
};
use super::recovery::store_clean;
use base::error::Result;
use design::FsError;

/// Where the checksum lies.
const CHECKSUM_AT: std::ops::Range<usize> = 12..16;

/// Smallest and largest use of a block by a log page: the smallest takes the entry of a name of 255 bytes.
pub(crate) const LOG_BYTES: std::ops::RangeInclusive<u64> = 512..=BLOCK;

/// Sizes of a chunk of an inode table.
pub(crate) const CHUNK_BYTES: std::ops::RangeInclusive<u64> = BLOCK..=2 << 20;

impl Superblock {
    /// That of a new image.
    pub(crate) fn new(size: u64, shards: u64, log_bytes: u64, chunk_bytes: u64) -> Self {
        let mut superblock = Self {
            magic: MAGIC,
            version: VERSION,
            checksum: 0,
            size,
            shards: shards as u32,
            log_bytes: log_bytes as u32,
            chunk_bytes,
        };
        superblock.checksum = superblock.compute_checksum();
        superblock
    }

    fn compute_checksum(&self) -> u32 {
        let bytes = self.as_bytes();
        checksum(&[&bytes[..CHECKSUM_AT.start], &bytes[CHECKSUM_AT.end..]])
    }

    /// What is wrong with it, if anything.
    fn fault(&self, region_len: u64) -> Option<String> {
        let chunk_is_possible = CHUNK_BYTES.contains(&self.chunk_bytes) && self.chunk_bytes.is_power_of_two();
        match () {
            () if self.magic != MAGIC => Some(format!("its magic is {:#x}, not {MAGIC:#x}", self.magic)),
            () if self.checksum != self.compute_checksum() => Some("its checksum is wrong".to_owned()),
            () if !(1..=VERSION).contains(&self.version) => Some(format!("version {} is none", self.version)),
            () if self.size > region_len.min(MAX_IMAGE) || !self.size.is_multiple_of(BLOCK) => {
                Some(format!("it says {} bytes, the region has {region_len}", self.size))
            }
            () if !(1..=SHARDS_MAX).contains(&self.shards.into()) => {
                Some(format!("{} shards, there can be 1 to {SHARDS_MAX}", self.shards))
            }
            () if !LOG_BYTES.contains(&self.log_bytes.into())
                || !self.log_bytes.is_multiple_of(64)
                || !chunk_is_possible =>
            {
                let Self { log_bytes, chunk_bytes, .. } = self;
                Some(format!(
                    "log pages of {log_bytes} and inode chunks of {chunk_bytes} bytes are impossible"
                ))
            }
            () if self.size < smallest(self.shards.into(), self.chunk_bytes) => {
                Some(format!("{} bytes are too few for {} shards", self.size, self.shards))
            }
            () => None,
        }
    }
}

/// The smallest image: the fixed parts, an inode chunk for each shard, and a few blocks.
pub(crate) fn smallest(shards: u64, chunk_bytes: u64) -> u64 {
    (Geometry::head_blocks(shards) + 16) * BLOCK + shards * chunk_bytes.max(INODE_BYTES)
}

/// The superblock that can be used, and whether it is the copy.
pub(crate) fn load(region: &Region) -> Result<(Superblock, bool), FsError> {
    let fault_of = |read: &Result<Superblock, MediaError>| match read {
        Ok(superblock) => superblock.fault(region.len()),
        Err(error) => Some(format!("it cannot be read: {error}")),
    };
    let (primary, copy) = (region.read::<Superblock>(0), region.read::<Superblock>(COPY));
    for read in [&primary, &copy].into_iter().flatten() {
        if read.magic == MAGIC && read.version > VERSION && read.checksum == read.compute_checksum() {
            return Err(FsError::NewerFormat { design: "nova", found: read.version, known: VERSION });
        }
    }
    let Some(fault) = fault_of(&primary) else { return Ok((primary?, false)) };
    let has_magic =
        |read: &Result<Superblock, MediaError>| read.as_ref().is_ok_and(|found| found.magic == MAGIC);
    match fault_of(&copy) {
        None => Ok((copy?, true)),
        Some(_) if !has_magic(&primary) && !has_magic(&copy) => {
            Err(FsError::WrongFormat { design: "nova", found: format!("superblock: {fault}") })
        }
        Some(copy_fault) => {
            Err(FsError::Damaged { design: "nova", what: format!("superblock: {fault}; copy: {copy_fault}") })
        }
    }
}

/// Says that the file system has `size` bytes. The list of free blocks that unmounting has saved lacks the new ones, so the next
/// mount has to find them by a scan. The copy is changed first: while the two differ, either size is that of a file system that can
/// be mounted.
pub(crate) fn resize(region: &Region, superblock: &Superblock, size: u64) -> Result<()> {
    store_clean(region, 0)?;
    let mut new = Superblock { size, ..*superblock };
    new.checksum = new.compute_checksum();
    store(region, COPY, &new)?;
    store(region, 0, &new)
}

/// Makes an image of an older version one of [`VERSION`]. The copy is changed first: while the two differ, the image is valid in
/// both versions, because nothing of the new one was written yet.
pub(crate) fn convert(region: &Region, superblock: &Superblock) -> Result<()> {
    if superblock.version == VERSION {
        return Ok(());
    }
    let mut new = Superblock { version: VERSION, ..*superblock };
    new.checksum = new.compute_checksum();
    store(region, COPY, &new)?;
    store(region, 0, &new)
}

/// What is wrong with the copy of a superblock that can be used. Between two versions it may be of either, and it may have the new
/// size of a file system that was to grow.
pub(crate) fn copy_fault(region: &Region, superblock: &Superblock) -> Option<String> {
    let repeats = |copy: &Superblock| {
        let Superblock { version, checksum, size, .. } = *superblock;
        copy.size >= size
            && copy.fault(region.len()).is_none()
            && Superblock { version, checksum, size, ..*copy } == *superblock
    };
    match region.read::<Superblock>(COPY) {
        Ok(copy) if repeats(&copy) => None,
        Ok(_) => Some("the copy of the superblock differs from it".to_owned()),
        Err(error) => Some(format!("the copy of the superblock cannot be read: {error}")),
    }
}

/// Writes a superblock to its place, or the copy to its own: whole lines, so that unreadable ones heal.
pub(crate) fn store(region: &Region, at: u64, superblock: &Superblock) -> Result<()> {
    let mut line = [0; 64];
    line[..size_of::<Superblock>()].copy_from_slice(superblock.as_bytes());
    region.store(at, &line)?;
    region.flush(at, 64);
    region.fence();
    Ok(())
}
