//! Pools of another size. The table of zones has room for eight times the size with which a pool was made.
//!
//! | | order |
//! |---|---|
//! | larger | words of the new zones, FENCE, superblock |
//! | smaller | records behind the new end are copied, as the cleaner does; then the superblock |
//!
//! The superblock is what changes the size, one copy after the other, so a crash leaves one size or the other. A saved index is
//! made void before. Blocks of files are not moved: a pool in which some lie behind the new end keeps its size.

use std::collections::BTreeSet;
use std::sync::Arc;

use design::FsError;
use media::nvmm::Region;
use sim::Bytes;

use super::Settings;
use super::recovery::{mount, recover};
use crate::format::layout::{BLOCK, Geometry, Superblock};
use crate::format::zone::{Word, shards_max};
use crate::store::zone_table::{self, Table, is_named, make_void};
use crate::store::{Store, superblock};
use crate::{NAME, damaged};
use base::error::Error;

/// The largest size of a pool that was made with `made` bytes: that of which the table has all zones.
fn size_max(made: u64) -> u64 {
    let geometry = Geometry::new(made, made);
    geometry.first_zone + geometry.table_bytes / 8 * geometry.zone_bytes
}

/// The size to which a pool can grow.
pub(crate) fn grows_to(region: &Region) -> Result<Bytes, FsError> {
    Ok(Bytes(size_max(superblock::load(region)?.made)))
}

/// Grows a pool to its region; the size before.
pub(crate) fn grow(region: &Arc<Region>) -> Result<Bytes, FsError> {
    recover(region)?;
    let table = zone_table::load(region)?;
    let (before, size, most) =
        (table.superblock.size, region.len() / BLOCK * BLOCK, size_max(table.superblock.made));
    if size > most {
        return Err(FsError::TooLarge { design: NAME, most: Bytes(most), size: Bytes(size) });
    }
    if size > before {
        let geometry = Geometry::new(size, table.superblock.made);
        // What lies there may be the table of another pool.
        for zone in table.geometry.zones..geometry.zones {
            for at in geometry.words_at(zone) {
                region.store_u64(at, Word::default().pack(zone))?;
                region.flush(at, 8);
            }
        }
        region.fence();
        set_size(region, &table, size)?;
    }
    Ok(Bytes(before))
}

/// Makes a pool smaller; the size before.
pub(crate) fn shrink(region: &Arc<Region>, size: Bytes) -> Result<Bytes, FsError> {
    let (table, size) = (zone_table::load(region)?, size.0 / BLOCK * BLOCK);
    let before = table.superblock.size;
    if size >= before {
        return Ok(Bytes(before));
    }
    let zones = Geometry::new(size, table.superblock.made).zones;
    if size < table.geometry.first_zone || shards_max(zones) < table.superblock.shards {
        let why = format!(
            "{} shards need {} zones or more, and {} leave {zones}",
            table.superblock.shards,
            16 * table.superblock.shards,
            Bytes(size)
        );
        return Err(FsError::NoShrink { why });
    }
    let volume = mount(region, &Settings::default())?;
    empty_from(&volume, zones, Bytes(size))?;
    drop(volume);
    // Zones that were written meanwhile have taken openings.
    set_size(region, &zone_table::load(region)?, size)?;
    Ok(Bytes(before))
}

/// Stores another size; durable on return.
fn set_size(region: &Region, table: &Table, size: u64) -> Result<(), FsError> {
    let zones = table.saved_zones();
    if is_named(region) || !zones.is_empty() {
        make_void(region, &table.geometry, &zones).map_err(damaged)?;
    }
    let superblock = Superblock { size, ..table.superblock }.next();
    Ok(superblock::store(region, &superblock, false)?)
}

/// Empties all zones from one on, which end up free on the medium; an error if something is in the way of the size.
fn empty_from(store: &Store, first: u32, size: Bytes) -> Result<(), FsError> {
    let in_way = |bytes: Bytes, what| FsError::NoShrink {
        why: format!("{bytes} of {what} lie behind {size}: remove files or give a larger size"),
    };
    let blocks = store.zones.withhold(first);
    if blocks > 0 {
        return Err(in_way(Bytes(blocks * BLOCK), "files"));
    }
    let behind = |store: &Store| -> BTreeSet<u32> {
        store.zones.log_zones().iter().map(|zone| zone.zone).filter(|zone| *zone >= first).collect()
    };
    let logs = behind(store);
    let emptied = if logs.is_empty() { Ok(()) } else { store.evacuate(&logs) };
    let left = behind(store).len() as u64 * store.geometry.zone_bytes;
    match emptied {
        Err(Error::NoSpace) => Err(in_way(Bytes(left), "the log, for which nothing before it is free,")),
        Ok(()) if left > 0 => Err(in_way(Bytes(left), "the log")),
        done => done.map_err(damaged),
    }
}
