//! Making an empty file system.

use std::sync::Arc;

use media::nvmm::Region;

use crate::layout::{BLOCK, Geometry, Kind, ROOT};
use crate::mutant::Rules;
use crate::package::{Attributes, Create, Package};
use crate::superblock;
use ::vfs::FileKind;
use base::error::Result;

/// Makes an empty file system: a container of each kind, and the root's CREATE in its own.
pub(crate) fn mkfs(region: &Arc<Region>) -> Result<()> {
    let geometry = Geometry::of(region.len());
    region.store_u64(0, 0)?;
    region.flush(0, 8);
    region.fence();
    region.nt_zero(BLOCK, (geometry.first() - 1) * BLOCK)?;
    for (block, kind) in (geometry.first()..).zip(Kind::ALL) {
        region.nt_zero(block * BLOCK, BLOCK)?;
        set_bit(region, &geometry, (kind, block), true)?;
    }
    let now = crate::inode::now();
    let mode = FileKind::Directory.mode_bits() | 0o755;
    let attributes = Attributes { mode, uid: 0, gid: 0, atime: now, mtime: now, ctime: now };
    let root = Create {
        vtail: 1,
        key: (ROOT, 1),
        parent: 0,
        name: b"/".to_vec(),
        attributes,
        rdev: 0,
        changed: now,
        renamed: false,
    };
    let place = (geometry.first() + Kind::Create.index() as u64) * BLOCK;
    region.nt_store(place, &Package::Create(root).encode(Rules::default()))?;
    region.fence();
    superblock::save(region, None)?;
    superblock::store(region)?;
    region.fence();
    Ok(())
}

/// Stores and flushes the bit that makes a block a container, or no container. The caller knows that no other task changes bits.
pub(crate) fn set_bit(
    region: &Region,
    geometry: &Geometry,
    (kind, block): (Kind, u64),
    is_set: bool,
) -> Result<()> {
    let (word, bit) = geometry.bit(kind, block);
    let old = region.load_u64(word)?;
    region.store_u64(word, if is_set { old | bit } else { old & !bit })?;
    region.flush(word, 8);
    Ok(())
}
