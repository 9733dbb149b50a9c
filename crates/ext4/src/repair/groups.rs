//! Group descriptors whose bitmaps or inode table lie where they cannot, and of which no copy knows better: they get new places.
//! A bitmap is made anew from what is in use; an inode table that is lost is lost, and the new one is empty.

use std::sync::Arc;

use media::block::BlockDevice;

use super::Repair;
use crate::layout::GroupDescriptor;
use crate::superblock::{self, Geo};
use crate::{Settings, Volume, damaged};
use base::error::{Error, Result};
use design::FsError;

/// Gives what has no place one, on the device; what was done.
pub(super) fn place(device: &Arc<dyn BlockDevice>, settings: &Settings) -> Result<Vec<String>, FsError> {
    let volume = Volume::open(device, Settings { repairs: true, ..settings.clone() })?;
    let missing = volume.groups.lock().descriptors.iter().filter(|one| is_incomplete(one)).count();
    if missing == 0 {
        return Ok(Vec::new());
    }
    place_in(&volume).map_err(damaged)?;
    Ok(vec![format!("{missing} groups with bitmaps or inode tables in impossible places: new places")])
}

pub(super) fn is_incomplete(descriptor: &GroupDescriptor) -> bool {
    descriptor.block_bitmap() == 0 || descriptor.inode_bitmap() == 0 || descriptor.inode_table() == 0
}

/// What is in use is found out in memory only: that it changes is not written, and is done again once there are tables.
fn place_in(volume: &Volume) -> Result<()> {
    let mut repair = Repair::new(volume, true)?;
    repair.judge_hints();
    repair.count_metadata();
    repair.mend_blocks()?;
    let mut descriptors = volume.groups.lock().descriptors.clone();
    let (mut tables, geo) = (Vec::new(), &volume.geo);
    for (group, descriptor) in (0..geo.groups).zip(&mut descriptors) {
        if !is_incomplete(descriptor) {
            continue;
        }
        if descriptor.block_bitmap() == 0 {
            descriptor.set_block_bitmap(repair.take_place(geo, group, 1)?);
        }
        if descriptor.inode_bitmap() == 0 {
            descriptor.set_inode_bitmap(repair.take_place(geo, group, 1)?);
        }
        if descriptor.inode_table() == 0 {
            let table = repair.take_place(geo, group, geo.table_blocks())?;
            descriptor.set_inode_table(table);
            tables.push(table..table + u64::from(geo.table_blocks()));
        }
    }
    let zeros = vec![0; geo.block_bytes as usize];
    let write = |block: u64, data: &[u8]| {
        let off = block * u64::from(geo.block_bytes);
        let piece = media::block::Piece { off, data, hint: media::block::Hint::None };
        volume.cache.queue().write(&[piece], false)
    };
    for block in tables.into_iter().flatten() {
        write(block, &zeros)?;
    }
    superblock::write_descriptors(&*volume.device, geo, &descriptors)?;
    Ok(volume.device.flush()?)
}

impl Repair<'_> {
    /// A free place for `len` blocks in a row: in the group, or anywhere where groups may lie together.
    fn take_place(&mut self, geo: &Geo, group: u32, len: u32) -> Result<u64> {
        let own = geo.group_start(group)..geo.group_start(group) + u64::from(geo.group_blocks(group));
        let all = geo.first_data_block + 1..geo.blocks;
        let ranges = if geo.flex_bg { vec![own, all] } else { vec![own] };
        for range in ranges {
            let mut run = 0;
            for block in range {
                run = if self.counts[block as usize] == 0 { run + 1 } else { 0 };
                if run == len {
                    let start = block + 1 - u64::from(len);
                    self.counts[start as usize..=block as usize].fill(super::METADATA);
                    return Ok(start);
                }
            }
        }
        Err(Error::Corrupt(format!("group {group} has no room for a bitmap or an inode table; run e2fsck")))
    }
}
