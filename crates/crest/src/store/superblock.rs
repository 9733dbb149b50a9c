//! The superblock: reading it, and replacing it.
//!
//! Both copies lie in lines of their own. The copy that does not count is stored first, then, after a fence, the other one: it may
//! be torn already, and a crash must leave one of the two.

use design::FsError;
use media::MediaError;
use media::nvmm::Region;

use crate::NAME;
use crate::format::layout::{
    BITS_40, BITS_48, Geometry, MAGIC, SUPERBLOCKS, Superblock, VERSION, ZONE_BYTES, incompat,
};
use crate::format::zone::shards_max;
use base::error::Result;

/// Features without which a pool may not be mounted, as this code knows them.
const KNOWN_INCOMPAT: u64 =
    incompat::CHECKSUMS | incompat::INLINE | incompat::PARITY | incompat::NONCE | incompat::BATCHES;
/// Features without which a pool may only be read: none yet.
const KNOWN_RO_COMPAT: u64 = 0;

/// Both copies; one that cannot be read counts as zeros.
fn copies(region: &Region) -> [Superblock; 2] {
    let zeros = Superblock {
        magic: 0,
        version: 0,
        shards: 0,
        compat: 0,
        ro_compat: 0,
        incompat: 0,
        size: 0,
        made: 0,
        secret: [0; 2],
        generation: 0,
        shutdowns: 0,
        openings: 0,
        inodes: 0,
        checksum: 1,
    };
    SUPERBLOCKS.map(|at| region.read(at).unwrap_or(zeros))
}

/// Whether one of the copies is of this format.
pub(crate) fn has_magic(region: &Region) -> bool {
    copies(region).iter().any(|copy| copy.magic == MAGIC)
}

/// The secret of the pool that a region held before, or zero.
pub(crate) fn old_secret(region: &Region) -> u64 {
    Superblock::newest(copies(region)).map_or(0, |old| old.secret[0])
}

/// Whether a copy is damaged, or older than the other one.
pub(crate) fn differ(region: &Region) -> bool {
    let [a, b] = copies(region);
    !a.is_sound() || a != b
}

/// Reads the superblock that counts, and refuses a pool that this code must not mount.
pub(crate) fn load(region: &Region) -> Result<Superblock, FsError> {
    if !has_magic(region) {
        let found = "neither superblock has its magic number; was this made by `weir mkfs crest`?".to_owned();
        return Err(FsError::WrongFormat { design: NAME, found });
    }
    let damaged = |what: String| Err(FsError::Damaged { design: NAME, what: format!("superblock: {what}") });
    let Some(found) = Superblock::newest(copies(region)) else {
        return damaged("the checksums of both copies are wrong".to_owned());
    };
    if found.version > VERSION {
        return Err(FsError::NewerFormat { design: NAME, found: found.version, known: VERSION });
    }
    let unknown = (found.incompat & !KNOWN_INCOMPAT, found.ro_compat & !KNOWN_RO_COMPAT);
    if unknown != (0, 0) {
        let what = format!(
            "the crest image uses features that this weir does not know (incompat {:#x}, ro_compat {:#x}): \
             mount it with the weir that made it",
            unknown.0, unknown.1
        );
        return Err(FsError::Unsupported { what });
    }
    let geometry = Geometry::new(found.size, found.made);
    match found {
        Superblock { size, .. } if size > region.len() => {
            damaged(format!("made for {size} bytes, the region has {}", region.len()))
        }
        Superblock { made, .. } if made < *ZONE_BYTES.start() => damaged(format!("made with {made} bytes")),
        Superblock { openings, inodes, .. } if openings > BITS_40 || inodes > BITS_48 => {
            damaged(format!("openings to {openings} and inodes to {inodes} cannot be"))
        }
        Superblock { shards, .. } if shards == 0 || shards > shards_max(geometry.zones) => {
            damaged(format!("{shards} shards in {} zones", geometry.zones))
        }
        _ => Ok(found),
    }
}

/// Stores a superblock in both copies; durable on return.
///
/// `together`: a seeded bug stores both under one fence.
pub(crate) fn store(region: &Region, superblock: &Superblock, together: bool) -> Result<(), MediaError> {
    let [a, b] = copies(region);
    let first = usize::from(a.is_sound() && (!b.is_sound() || a.generation > b.generation));
    for at in [SUPERBLOCKS[first], SUPERBLOCKS[1 - first]] {
        region.write(at, superblock)?;
        region.flush(at, size_of::<Superblock>() as u64);
        if !together || at == SUPERBLOCKS[1 - first] {
            region.fence();
        }
    }
    Ok(())
}
