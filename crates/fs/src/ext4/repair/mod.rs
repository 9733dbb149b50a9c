//! Repair of an image that was not unmounted and has no journal: what e2fsck does then.
//!
//! | pass | does |
//! |---|---|
//! | `blocks` | drops pointers that lead nowhere, what lies beyond the end of a file, and inodes of no kind |
//! | | counts how often each block is used |
//! | | copies a block that two inodes have, for all but one of them |
//! | here | writes the bitmaps, descriptors and counts anew |
//! | `names` | cuts directory blocks off where their records end to make sense |
//! | | drops names that lead to nothing, a second time to a directory, or that occur twice |
//! | | lets a directory whose index misses a name go without one |
//! | | puts what has no name, and directories that cannot be reached, into `lost+found`; sets `..` and counts links |
//!
//! An inode without links is free, whatever else it says. A file of extents that shares a block, or whose tree is damaged, loses
//! its contents; files of block maps get copies.
//!
//! Everything is changed in the cache and written at the end, in any order: a crash meanwhile leaves an image that a repair makes
//! sound, too. Superblock and descriptors must be readable; sizes of the root must be right.
//!
//! Source: e2fsck(8) and the passes that its sources describe.

mod blocks;
mod names;

use std::collections::BTreeMap;

use ::vfs::FileKind;

use super::Volume;
use super::alloc::{Groups, bit, set_bit, set_padding};
use super::inode::{Inode, InodeState};
use super::journal::Handle;
use super::layout::{ROOT_INO, crc32c, group_flag};
use crate::cache::Mapping;
use crate::error::{Error, Result};

static INODE: sim::LockClass = sim::LockClass::new("ext4.repaired_inode");

/// How often a block of metadata counts as used.
const METADATA: u8 = u8::MAX;

/// An inode in use.
#[derive(Clone, Debug)]
struct Known {
    kind: FileKind,
    /// Links as the inode has them.
    links: u16,
    /// Names that lead to it.
    names: u32,
    /// Of a directory: where it is named, what `..` says, and how many directories it has.
    parent: Option<u64>,
    dotdot: u64,
    children: u32,
}

struct Repair<'a> {
    volume: &'a Volume,
    handle: Handle<'a>,
    /// How often each block is used.
    counts: Vec<u8>,
    inodes: BTreeMap<u64, Known>,
    /// References to blocks of attributes.
    attributes: BTreeMap<u64, u32>,
    /// What was mended, and how often.
    mended: BTreeMap<&'static str, u64>,
}

/// Makes an image sound. The volume was opened and not mounted; open it again afterwards. Returns what was done, in words.
pub(super) fn repair(volume: &Volume) -> Result<String> {
    let mut repair = Repair {
        volume,
        handle: Handle::none(),
        counts: vec![0; volume.geo.blocks as usize],
        inodes: BTreeMap::new(),
        attributes: BTreeMap::new(),
        mended: BTreeMap::new(),
    };
    repair.count_metadata();
    repair.mend_blocks()?;
    if !repair.inodes.get(&ROOT_INO).is_some_and(|root| root.kind == FileKind::Directory) {
        return Err(Error::Corrupt("there is no root directory; run e2fsck".to_owned()));
    }
    repair.write_maps()?;
    repair.mend_names()?;
    volume.write_metadata()?;
    // Only what is durable may be called clean.
    volume.device.flush()?;
    volume.leave_clean()?;
    let said: Vec<_> = repair.mended.iter().map(|(what, count)| format!("{count} {what}")).collect();
    let said = if said.is_empty() { "nothing was wrong".to_owned() } else { said.join(", ") };
    Ok(format!("it was not unmounted, and has no journal; it was checked and repaired: {said}"))
}

impl Repair<'_> {
    fn note(&mut self, what: &'static str) {
        *self.mended.entry(what).or_default() += 1;
    }

    fn count_metadata(&mut self) {
        let geo = &self.volume.geo;
        let descriptors = self.volume.groups.lock().descriptors.clone();
        let mut taken: Vec<(u64, u64)> = vec![(0, geo.first_data_block + 1)];
        for (group, descriptor) in (0..).zip(&descriptors) {
            taken.push((geo.group_start(group), u64::from(geo.base_blocks(group))));
            taken.push((descriptor.block_bitmap(), 1));
            taken.push((descriptor.inode_bitmap(), 1));
            taken.push((descriptor.inode_table(), u64::from(geo.table_blocks())));
        }
        for (start, len) in taken {
            let end = (start + len).min(geo.blocks);
            self.counts[start as usize..end as usize].fill(METADATA);
        }
    }

    /// An inode of the table as the code of a mounted file system takes it; it is in no cache.
    fn inode(&self, ino: u64) -> Result<Inode> {
        let (raw, extra) = self.volume.read_inode(ino)?;
        Ok(Inode {
            ino,
            state: sim::RwLock::new(&INODE, InodeState::of(raw, extra)),
            mapping: Mapping::new(ino),
            open: false.into(),
            readahead: crate::ext4::readahead::Readahead::none(),
        })
    }

    /// Writes bitmaps, descriptors and counts of what is in use.
    fn write_maps(&mut self) -> Result<()> {
        let (volume, geo) = (self.volume, &self.volume.geo);
        let mut descriptors = volume.groups.lock().descriptors.clone();
        let mut changed = false;
        for (group, descriptor) in (0..geo.groups).zip(&mut descriptors) {
            let before = descriptor.clone();
            let blocks = self.block_bits(group);
            let inodes = self.inode_bits(group);
            let count = |bits: &[u8], end: u32| (0..end).filter(|at| !bit(bits, *at)).count() as u32;
            descriptor.set_free_blocks(count(&blocks, geo.group_blocks(group)));
            descriptor.set_free_inodes(count(&inodes, geo.inodes_per_group));
            descriptor.set_used_dirs(self.directories_in(group));
            descriptor.clear(group_flag::BLOCK_UNINIT | group_flag::INODE_UNINIT);
            if geo.metadata_csum {
                let sum = |bits: &[u8], len: u32| crc32c(geo.checksum_seed, &bits[..len as usize / 8]);
                descriptor.set_block_bitmap_csum(sum(&blocks, geo.blocks_per_group));
                descriptor.set_inode_bitmap_csum(sum(&inodes, geo.inodes_per_group));
            }
            for (at, bits) in [(descriptor.block_bitmap(), &blocks), (descriptor.inode_bitmap(), &inodes)] {
                if !volume.look(at, |old| old == &bits[..])? {
                    changed = true;
                    volume.change(&self.handle, at, |old| old.copy_from_slice(bits))?;
                }
            }
            if *descriptor != before {
                changed = true;
                volume.store_group(&self.handle, group, descriptor)?;
            }
        }
        *volume.groups.lock() = Groups::new(descriptors);
        if changed {
            self.note("times bitmaps and counts");
        }
        Ok(())
    }

    fn block_bits(&self, group: u32) -> Vec<u8> {
        let geo = &self.volume.geo;
        let mut bits = vec![0; geo.block_bytes as usize];
        let start = geo.group_start(group);
        let used = |at: &u32| self.counts[(start + u64::from(*at)) as usize] > 0;
        (0..geo.group_blocks(group)).filter(used).for_each(|at| set_bit(&mut bits, at));
        set_padding(&mut bits, geo.group_blocks(group));
        bits
    }

    fn inode_bits(&self, group: u32) -> Vec<u8> {
        let geo = &self.volume.geo;
        let mut bits = vec![0; geo.block_bytes as usize];
        let first = u64::from(group) * u64::from(geo.inodes_per_group) + 1;
        let used = |at: &u32| {
            let ino = first + u64::from(*at);
            ino < geo.first_ino || self.inodes.contains_key(&ino)
        };
        (0..geo.inodes_per_group).filter(used).for_each(|at| set_bit(&mut bits, at));
        set_padding(&mut bits, geo.inodes_per_group);
        bits
    }

    fn directories_in(&self, group: u32) -> u32 {
        let per_group = u64::from(self.volume.geo.inodes_per_group);
        let first = u64::from(group) * per_group + 1;
        let inodes = self.inodes.range(first..first + per_group);
        inodes.filter(|(_, known)| known.kind == FileKind::Directory).count() as u32
    }
}
