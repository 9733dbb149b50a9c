//! The superblock and its redundant copy.
//!
//! The copy repeats the first 512 bytes as they were at the last unmount. Recovery takes only the static part from it, which the
//! checksum covers. The journal descriptor, the inode table and the saved-map counter in it may be out of date: a mount that used
//! them would undo no transaction and give out blocks that are in use.

use crc::{CRC_16_IBM_SDLC, Crc};
use media::MediaError;
use media::nvmm::Region;
use zerocopy::IntoBytes;

use super::layout::{
    BLOCK, COPIED, COPY, JOURNAL_DESCRIPTOR, JOURNAL_MIN, JOURNAL_START, JournalDescriptor, MAGIC, MAX_IMAGE,
    Superblock, TABLE_INODE, VERSION, sb,
};
use base::error::Result;
use design::FsError;

const CHECKSUM: Crc<u16> = Crc::<u16>::new(&CRC_16_IBM_SDLC);

impl Superblock {
    /// The static part of a new image, made for a design.
    pub(crate) fn new(size: u64, design: &str) -> Self {
        let mut volume_name = [0; 16];
        volume_name[..design.len()].copy_from_slice(design.as_bytes());
        let mut superblock = Self {
            checksum: 0,
            magic: MAGIC,
            block_size: BLOCK as u32,
            size,
            volume_name,
            journal: JOURNAL_DESCRIPTOR as u32,
            version: VERSION,
            table_inode: TABLE_INODE,
            dynamic: 0,
            mount_time: 0,
            write_time: 0,
            saved_extents: 0,
            free_blocks: 0,
            inodes: 0,
            inodes_free: 0,
            inodes_used: 0,
            inode_hint: 0,
        };
        superblock.checksum = superblock.compute_checksum();
        superblock
    }

    /// The name that mkfs gave it: the design's, or none in an older image.
    pub(crate) fn name(&self) -> &[u8] {
        self.volume_name.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    fn compute_checksum(&self) -> u16 {
        CHECKSUM.checksum(&self.as_bytes()[sb::CHECKED])
    }

    /// Whether its format is newer than this code. The other fields of such a superblock cannot be interpreted.
    fn is_newer(&self) -> bool {
        self.magic == MAGIC && self.checksum == self.compute_checksum() && self.version > VERSION
    }

    /// What is wrong with it, if anything.
    pub(crate) fn fault(&self, region_len: u64) -> Option<String> {
        if self.magic != MAGIC {
            return Some(format!("its magic is {:#06x}, not {MAGIC:#06x}", self.magic));
        }
        if self.checksum != self.compute_checksum() {
            return Some("its checksum is wrong".to_owned());
        }
        if self.size > region_len {
            return Some(format!("the file system has {} bytes, the region only {region_len}", self.size));
        }
        if u64::from(self.block_size) != BLOCK
            || self.size > MAX_IMAGE
            || u64::from(self.journal) != JOURNAL_DESCRIPTOR
            || self.table_inode != TABLE_INODE
        {
            return Some("its layout is not one that this version writes".to_owned());
        }
        None
    }
}

/// What is wrong with a journal descriptor, if anything.
pub(crate) fn journal_fault(descriptor: &JournalDescriptor, size: u64) -> Option<String> {
    let bytes = u64::from(descriptor.size);
    let in_ring = |offset: u32| offset.is_multiple_of(64) && offset < descriptor.size;
    let sound = descriptor.base == JOURNAL_START
        && bytes >= JOURNAL_MIN
        && bytes.is_power_of_two()
        && descriptor.base + bytes < size
        && in_ring(descriptor.head)
        && in_ring(descriptor.tail)
        && descriptor.generation != 0;
    (!sound).then(|| {
        let JournalDescriptor { base, size, head, tail, generation, .. } = descriptor;
        format!("journal descriptor is impossible: base {base}, size {size}, head {head}, tail {tail}, generation {generation}")
    })
}

/// The static part of a superblock that can be used, and whether it is that of the redundant copy. The rest is zero: before
/// recovery it may be what an unfinished transaction left there ([`Superblock::with_dynamic_of`]).
pub(crate) fn load(region: &Region) -> Result<(Superblock, bool), FsError> {
    let primary = read_static(region, 0);
    refuse_newer(&primary)?;
    let unreadable = |error: &MediaError| format!("it cannot be read: {error}");
    let fault = primary.as_ref().map_or_else(|error| Some(unreadable(error)), |sb| sb.fault(region.len()));
    let Some(fault) = fault else { return Ok((primary?, false)) };
    let copy = read_static(region, COPY);
    refuse_newer(&copy)?;
    let copy = copy?;
    match copy.fault(region.len()) {
        None => Ok((copy, true)),
        Some(_) if primary.is_ok_and(|primary| primary.magic != MAGIC) && copy.magic != MAGIC => {
            Err(FsError::WrongFormat { design: "pmfs", found: format!("superblock: {fault}") })
        }
        Some(copy_fault) => Err(FsError::Damaged {
            design: "pmfs",
            what: format!("superblock: {fault}; redundant copy: {copy_fault}"),
        }),
    }
}

/// What is wrong with the redundant copy of a superblock that can be used. Between two versions it may be of either, and have the
/// new size of a file system that was to grow.
pub(crate) fn copy_fault(region: &Region, superblock: &Superblock) -> Option<String> {
    let repeats = |copy: &Superblock| {
        let Superblock { version, checksum, size, .. } = *superblock;
        copy.size >= size && Superblock { checksum, size, version, ..*copy } == *superblock
    };
    match read_static(region, COPY) {
        Ok(copy) => {
            let other = (!repeats(&copy)).then(|| "it is not that of the primary".to_owned());
            copy.fault(region.len()).or(other)
        }
        Err(error) => Some(format!("it cannot be read: {error}")),
    }
    .map(|fault| format!("redundant superblock: {fault}"))
}

fn refuse_newer(superblock: &Result<Superblock, MediaError>) -> Result<(), FsError> {
    match superblock {
        Ok(superblock) if superblock.is_newer() => {
            Err(FsError::NewerFormat { design: "pmfs", found: superblock.version, known: VERSION })
        }
        _ => Ok(()),
    }
}

fn read_static(region: &Region, at: u64) -> Result<Superblock, MediaError> {
    let mut bytes = [0; size_of::<Superblock>()];
    region.peek(at, &mut bytes[sb::STATIC])?;
    Ok(zerocopy::transmute!(bytes))
}

impl Superblock {
    /// This static part with the times and counts of the primary, or with none where they cannot be read: that leads to a scan.
    pub(crate) fn with_dynamic_of(mut self, region: &Region) -> Self {
        let dynamic = &mut self.as_mut_bytes()[sb::STATIC.end..];
        if region.peek(sb::TIMES, dynamic).is_err() {
            dynamic.fill(0);
        }
        self
    }

    /// Stores the "fast mount" group, which the caller has logged.
    pub(crate) fn store_fast_mount(&self, region: &Region) -> Result<()> {
        let group = self.as_bytes().last_chunk::<{ sb::FAST_MOUNT_LEN as usize }>();
        Ok(region.write(sb::FAST_MOUNT, group.expect("a superblock is longer than its last part"))?)
    }
}

/// Writes a superblock whose static part came from the copy over a primary that is bad: whole lines, so that unreadable ones
/// heal.
pub(crate) fn restore_from_copy(region: &Region, superblock: &Superblock) -> Result<()> {
    let mut bytes = [0; JOURNAL_DESCRIPTOR as usize];
    bytes[..size_of::<Superblock>()].copy_from_slice(superblock.with_dynamic_of(region).as_bytes());
    region.store(0, &bytes)?;
    region.flush(0, bytes.len() as u64);
    region.fence();
    Ok(())
}

/// Makes an image of an older version one of [`VERSION`]; says whether it was older. Its journal is empty, and nothing of the new
/// version was written yet. The copy is changed first. If the primary is lost after that, the image has the new version; until
/// the primary is changed too, the image is valid in both versions.
pub(crate) fn convert(region: &Region, superblock: &Superblock) -> Result<bool> {
    if superblock.version == VERSION {
        return Ok(false);
    }
    let mut new = Superblock { version: VERSION, ..*superblock };
    new.checksum = new.compute_checksum();
    for at in [COPY, 0] {
        region.store(at, &new.as_bytes()[sb::STATIC])?;
        region.flush(at, sb::STATIC.end as u64);
        region.fence();
    }
    Ok(true)
}

/// Says that the file system has `size` bytes. The copy is changed first: while the two differ, either size is that of a file
/// system that can be mounted, because blocks are given out beyond the old end only after both are changed.
pub(crate) fn resize(region: &Region, superblock: &Superblock, size: u64) -> Result<()> {
    let mut new = Superblock { size, ..*superblock };
    new.checksum = new.compute_checksum();
    for at in [COPY, 0] {
        region.store(at, &new.as_bytes()[sb::STATIC])?;
        region.flush(at, sb::STATIC.end as u64);
        region.fence();
    }
    Ok(())
}

/// Makes the redundant copy equal to the primary.
pub(crate) fn refresh_copy(region: &Region) -> Result<()> {
    let mut bytes = [0; COPIED];
    region.peek(0, &mut bytes)?;
    region.store(COPY, &bytes)?;
    region.flush(COPY, COPIED as u64);
    region.fence();
    Ok(())
}
