//! Inode 7: it owns the blocks that are kept behind the descriptors of each copy of the superblock for more of them, so that the
//! file system can grow while it is mounted (feature `resize_inode`).
//!
//! Its one pointer is that to blocks of pointers to blocks of pointers. The block behind it has, at the number of each kept block,
//! the kept block itself, and that holds the numbers of the same block behind all copies. Source: the kernel's `fs/ext4/resize.c`
//! (`verify_reserved_gdb`), and what e2fsck checks of it (`check_resize_inode`).

use ::vfs::FileKind;

use super::Volume;
use super::fields::CASEFOLD;
use super::fsck::INODE;
use super::inode::{Inode, InodeState, change_time};
use super::journal::Handle;
use super::layout::{
    EXTRA_ISIZE, OLD_INODE_BYTES, RAW_INODE_BYTES, RESIZE_INO, RawInode, flag, le16, le32, put32,
};
use base::error::{Error, Result};

/// Offset of the pointers in an inode, and the pointer that it has.
const BLOCK_AT: usize = 0x28;
const DOUBLE: usize = 13;
const SLOTS: usize = 15;

impl Volume {
    /// What is wrong with inode 7, in words.
    pub(crate) fn resize_fault(&self) -> Result<Option<String>> {
        let (at, offset) = match self.inode_at(RESIZE_INO) {
            Err(Error::NoEntry) => return Ok(None), // the table is lost
            found => found?,
        };
        let raw = self.look(at, |bytes| bytes[offset..offset + OLD_INODE_BYTES].to_vec())?;
        let pointer = |slot: usize| u64::from(le32(&raw, BLOCK_AT + slot * 4));
        let has_others = (0..SLOTS).any(|slot| slot != DOUBLE && pointer(slot) != 0);
        if !self.geo.resize_inode {
            let holds = has_others || pointer(DOUBLE) != 0;
            return Ok(holds.then(|| "it has blocks, and there is no feature resize_inode".to_owned()));
        }
        let table = pointer(DOUBLE);
        let is_file = FileKind::from_mode(u32::from(le16(&raw, 0))) == Some(FileKind::Regular);
        let inside = table > self.geo.first_data_block && table < self.geo.blocks;
        // Flags of a map of another kind, and attributes.
        let has_more =
            le32(&raw, 0x20) & (flag::EXTENTS | flag::HUGE_FILE | CASEFOLD) != 0 || le32(&raw, 0x68) != 0;
        // A time of deletion that is a number of an inode would be a place in the list of orphans.
        let is_listed = (1..=self.geo.inodes()).contains(&u64::from(le32(&raw, 0x14)));
        if has_others || !inside || !is_file || le16(&raw, 0x1a) == 0 || is_listed || has_more {
            return Ok(Some(
                "it is not the file of blocks for more descriptors that it should be".to_owned(),
            ));
        }
        let mut kept = vec![0; self.geo.block_bytes as usize / 4];
        for (slot, block) in self.kept_blocks() {
            kept[slot] = block;
            if !has_pointers(self, u64::from(block), &self.copies_of(block))? {
                return Ok(Some(format!("block {block} does not have those behind the copies")));
            }
        }
        if !has_pointers(self, table, &kept)? {
            return Ok(Some("it does not have the blocks that are kept for descriptors".to_owned()));
        }
        let size = u64::from(le32(&raw, 4)) | u64::from(le32(&raw, 0x6c)) << 32;
        let slots = u64::from(self.geo.block_bytes / 4);
        if size > (slots.pow(3) + slots.pow(2) + slots + 12) * u64::from(self.geo.block_bytes) {
            return Ok(Some("its size is more than any file has".to_owned()));
        }
        let upper = if self.geo.huge_file { u64::from(le16(&raw, 0x74)) << 32 } else { 0 };
        let sectors = u64::from(le32(&raw, 0x1c)) | upper;
        let should = u64::from(self.resize_blocks() * (self.geo.block_bytes / 512));
        Ok((sectors != should).then(|| format!("it counts {sectors} sectors, has {should}")))
    }

    /// The kept blocks behind the primary descriptors, each with its slot in the table of inode 7.
    fn kept_blocks(&self) -> impl Iterator<Item = (usize, u32)> {
        let (own, slots) = (self.geo.descriptor_blocks(), self.geo.block_bytes / 4);
        let first = self.geo.first_data_block as u32 + 1 + own;
        (0..self.geo.reserved_gdt_blocks).map(move |kept| (((own + kept) % slots) as usize, first + kept))
    }

    /// The same block behind each copy of the descriptors.
    fn copies_of(&self, block: u32) -> Vec<u32> {
        let holders = (1..self.geo.groups).filter(|group| self.geo.has_superblock(*group));
        holders
            .map(|group| (self.geo.group_start(group) + u64::from(block) - self.geo.first_data_block) as u32)
            .collect()
    }

    fn resize_blocks(&self) -> u32 {
        let copies = (1..self.geo.groups).filter(|group| self.geo.has_superblock(*group)).count() as u32;
        1 + self.geo.reserved_gdt_blocks * (1 + copies)
    }

    /// Makes inode 7 anew, with its table in block `table`, which is free.
    pub(crate) fn make_resize_inode(&self, handle: &Handle<'_>, table: u64) -> Result<()> {
        let slots = u64::from(self.geo.block_bytes / 4);
        let mut raw = RawInode::zero();
        raw.mode = ((FileKind::Regular.mode_bits() | 0o600) as u16).into();
        raw.links = 1.into();
        if self.geo.inode_bytes > OLD_INODE_BYTES {
            raw.extra_isize = EXTRA_ISIZE.min((self.geo.inode_bytes - OLD_INODE_BYTES) as u16).into();
        }
        let now = change_time();
        raw.set_atime(now);
        raw.set_mtime(now);
        raw.set_ctime(now);
        raw.set_size((slots * slots + slots + 12) * u64::from(self.geo.block_bytes));
        put32(&mut raw.block, DOUBLE * 4, table as u32);
        let extra = vec![0; self.geo.inode_bytes.saturating_sub(RAW_INODE_BYTES)].into_boxed_slice();
        let mut state = InodeState::of(raw, extra);
        state.add_blocks(self, i64::from(self.resize_blocks()));
        self.change_new(handle, table, |bytes| {
            self.kept_blocks().for_each(|(slot, block)| put32(bytes, slot * 4, block));
        })?;
        for (_, block) in self.kept_blocks() {
            let copies = self.copies_of(block);
            self.change_new(handle, u64::from(block), |bytes| {
                copies.iter().enumerate().for_each(|(slot, copy)| put32(bytes, slot * 4, *copy));
            })?;
        }
        let inode = Inode::alone(RESIZE_INO, &INODE, InodeState::of(RawInode::zero(), Box::default()));
        self.store_inode(handle, &inode, &mut state)
    }
}

/// Whether a block has these pointers and no other.
fn has_pointers(volume: &Volume, block: u64, should: &[u32]) -> Result<bool> {
    volume.look(block, |bytes| {
        let slots = 0..bytes.len() / 4;
        slots.into_iter().all(|slot| le32(bytes, slot * 4) == should.get(slot).copied().unwrap_or(0))
    })
}
