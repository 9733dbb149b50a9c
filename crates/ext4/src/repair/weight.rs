//! How much of an image agrees with itself when it is read by one superblock and one set of descriptors.
//!
//! An inode counts for a reading when it is in use, its checksum is right (without checksums: its map leads to blocks of the file
//! system), and the bitmap has it in use; a directory counts more when its first block begins with a `.` that leads to itself. What
//! is in use and cannot be counts against it. Inodes are free where nothing can be said of them.

use media::block::BlockDevice;

use ::vfs::FileKind;

use crate::groups::bit;
use crate::layout::{GroupDescriptor, RESIZE_INO, ROOT_INO, flag, group_flag, le16, le32};
use crate::superblock::{Geo, overlap, read_bytes};

/// Groups that are looked at, and bytes of a table.
const MOST_GROUPS: u32 = 64;
const MOST_TABLE_BYTES: usize = 256 << 10;
/// What a directory that knows itself counts beside its inode.
const DIRECTORY: i64 = 4;
/// The weight of a directory that lies in the table itself: more than inodes that garbage looks like.
const OVERLAID: i64 = -1024;

/// Of two the greater one is by which more agrees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Weight {
    /// The root is a directory.
    has_root: bool,
    /// What counts for it, without what counts against it.
    sum: i64,
    /// Bitmaps and tables lie where they may, and none over another.
    has_places: bool,
    /// As many blocks are kept for more descriptors as the resize inode has.
    keeps_blocks: bool,
}

impl Weight {
    /// Whether nothing speaks against the reading.
    pub(super) fn is_sound(self) -> bool {
        self.has_root && self.has_places && self.keeps_blocks
    }
}

/// What the slot of an inode holds.
enum Slot {
    Free,
    /// An inode that can be, with the first block of a directory.
    Sound(Option<u64>),
    Broken,
}

/// A device that is read by some geometry.
#[derive(Clone, Copy)]
pub(super) struct Look<'a> {
    pub(super) device: &'a dyn BlockDevice,
    pub(super) geo: &'a Geo,
}

impl Look<'_> {
    pub(super) fn block(&self, block: u64) -> Option<Vec<u8>> {
        let len = self.geo.block_bytes as usize;
        let inside = block < self.geo.blocks;
        inside.then(|| read_bytes(self.device, block * len as u64, len).ok()).flatten()
    }

    /// The bytes of an inode in the table that these descriptors have.
    pub(super) fn inode(&self, descriptors: &[GroupDescriptor], ino: u64) -> Option<Vec<u8>> {
        let per_group = u64::from(self.geo.inodes_per_group);
        let table = descriptors.get(((ino - 1) / per_group) as usize)?.inode_table();
        if table == 0 || table >= self.geo.blocks {
            return None;
        }
        let len = self.geo.inode_bytes;
        let off = table * u64::from(self.geo.block_bytes) + (ino - 1) % per_group * len as u64;
        read_bytes(self.device, off, len).ok()
    }

    pub(super) fn weigh(&self, descriptors: &[GroupDescriptor]) -> Weight {
        let geo = self.geo;
        let step = geo.groups.div_ceil(MOST_GROUPS).max(1) as usize;
        let mut weight = Weight {
            has_places: (0..).zip(descriptors).all(|(group, one)| geo.has_places(group, one))
                && overlap(geo, descriptors).is_empty(),
            keeps_blocks: self.kept_blocks(descriptors).is_none_or(|kept| kept == geo.reserved_gdt_blocks),
            ..Weight::default()
        };
        for (group, descriptor) in (0..).zip(descriptors).step_by(step) {
            weight.sum += self.weigh_table(group, descriptor);
        }
        weight.has_root = self.inode(descriptors, ROOT_INO).is_some_and(|bytes| {
            matches!(self.slot(ROOT_INO, &bytes), Slot::Sound(Some(block)) if self.knows_itself(ROOT_INO, block))
        });
        weight
    }

    /// Whether the first record of the root says of what kind it is.
    pub(super) fn root_says_kinds(&self, descriptors: &[GroupDescriptor]) -> bool {
        let Some(bytes) = self.inode(descriptors, ROOT_INO) else { return false };
        let Slot::Sound(Some(block)) = self.slot(ROOT_INO, &bytes) else { return false };
        let is_dot = |bytes: &Vec<u8>| bytes[6] == 1 && bytes[7] == 2 && bytes[8] == b'.';
        self.knows_itself(ROOT_INO, block) && self.block(block).as_ref().is_some_and(is_dot)
    }

    /// What a table counts: nothing where it is empty, less where it is none.
    pub(super) fn weigh_table(&self, group: u32, descriptor: &GroupDescriptor) -> i64 {
        let (geo, table) = (self.geo, descriptor.inode_table());
        if !geo.is_place(group, table, geo.table_blocks()) {
            return 0;
        }
        let bitmap =
            self.block(descriptor.inode_bitmap()).filter(|_| !descriptor.has(group_flag::INODE_UNINIT));
        let len = (geo.inodes_per_group as usize * geo.inode_bytes).min(MOST_TABLE_BYTES);
        let Ok(bytes) = read_bytes(self.device, table * u64::from(geo.block_bytes), len) else { return 0 };
        let first = u64::from(group) * u64::from(geo.inodes_per_group) + 1;
        let own = table..table + u64::from(geo.table_blocks());
        let mut sum = 0;
        for (index, inode) in (0..).zip(bytes.chunks_exact(geo.inode_bytes)) {
            let ino = first + u64::from(index);
            let in_use = bitmap.as_ref().is_some_and(|bitmap| bit(bitmap, index));
            sum += match self.slot(ino, inode) {
                // Only reserved inodes may be in use and hold nothing.
                Slot::Free => -i64::from(in_use && ino >= geo.first_ino),
                Slot::Broken => -1,
                Slot::Sound(None) => 1 + i64::from(in_use),
                // A table that is too long lies over the directories behind it.
                Slot::Sound(Some(block)) if own.contains(&block) && self.knows_itself(ino, block) => OVERLAID,
                Slot::Sound(Some(block)) if self.knows_itself(ino, block) => DIRECTORY + i64::from(in_use),
                Slot::Sound(Some(_)) => -DIRECTORY,
            };
        }
        sum
    }

    /// Whether a block looks like the bitmap of a group: what is beyond the group is in use, and so is what must be.
    pub(super) fn is_bitmap(&self, group: u32, descriptor: &GroupDescriptor, of_blocks: bool) -> bool {
        let geo = self.geo;
        let at = if of_blocks { descriptor.block_bitmap() } else { descriptor.inode_bitmap() };
        let Some(bytes) = self.block(at) else { return false };
        let (bits, must) = match of_blocks {
            true => (geo.group_blocks(group), geo.base_blocks(group)),
            false if group == 0 => (geo.inodes_per_group, geo.first_ino as u32 - 1),
            false => (geo.inodes_per_group, 0),
        };
        let bits_of_block = bytes.len() as u32 * 8;
        (0..must).chain(bits..bits_of_block).all(|at| bit(&bytes, at))
            && bytes.iter().any(|byte| *byte != 0)
            && (bits < bits_of_block || must > 0)
    }

    /// How many blocks the resize inode has for more descriptors; none where it says nothing.
    pub(super) fn kept_blocks(&self, descriptors: &[GroupDescriptor]) -> Option<u32> {
        if !self.geo.resize_inode {
            return Some(0);
        }
        let inode = self.inode(descriptors, RESIZE_INO)?;
        let table = u64::from(le32(&inode, 0x28 + 13 * 4));
        let bytes = self.block(table).filter(|_| table > self.geo.first_data_block)?;
        let (own, slots) = (u64::from(self.geo.descriptor_blocks()), bytes.len() as u64 / 4);
        let first = self.geo.first_data_block + 1 + own;
        let word = |kept: &u64| le32(&bytes, ((own + kept) % slots) as usize * 4);
        let count = (0..slots).take_while(|kept| u64::from(word(kept)) == first + kept).count();
        Some(count as u32).filter(|count| *count > 0)
    }

    fn slot(&self, ino: u64, bytes: &[u8]) -> Slot {
        let (mode, links) = (le16(bytes, 0), le16(bytes, 0x1a));
        if links == 0 {
            return Slot::Free;
        }
        let is_reserved = ino < self.geo.first_ino && ino != ROOT_INO;
        let Some(kind) = FileKind::from_mode(u32::from(mode)) else {
            return if is_reserved { Slot::Free } else { Slot::Broken };
        };
        if self.geo.metadata_csum {
            let (checksum, wide) = self.geo.inode_checksum(ino, bytes);
            let has =
                u32::from(le16(bytes, 0x7c)) | if wide { u32::from(le16(bytes, 0x82)) << 16 } else { 0 };
            if has != checksum {
                return Slot::Broken;
            }
        }
        let has_map = match kind {
            FileKind::Regular | FileKind::Directory => true,
            FileKind::Symlink => le32(bytes, 0x1c) != 0 && le32(bytes, 4) >= 60,
            _ => false,
        };
        if !has_map {
            return Slot::Sound(None);
        }
        match self.first_block(bytes) {
            None => Slot::Broken,
            Some(first) => Slot::Sound(Some(first).filter(|_| kind == FileKind::Directory)),
        }
    }

    /// The first block of a file, 0 where it has none; none where its map cannot be.
    fn first_block(&self, inode: &[u8]) -> Option<u64> {
        let geo = self.geo;
        let is_block = |block: u64| block > geo.first_data_block && block < geo.blocks;
        let map = &inode[0x28..0x28 + 60];
        if le32(inode, 0x20) & flag::EXTENTS == 0 {
            let pointers = (0..15).map(|at| u64::from(le32(map, at * 4)));
            return pointers
                .clone()
                .all(|block| block == 0 || is_block(block))
                .then(|| u64::from(le32(map, 0)));
        }
        let (entries, max, depth) = (le16(map, 2), le16(map, 4), le16(map, 6));
        if le16(map, 0) != 0xf30a || entries > 4 || max > 4 || depth > 5 {
            return None;
        }
        let child = |entry: &[u8], leaf: bool| match leaf {
            true => u64::from(le16(entry, 6)) << 32 | u64::from(le32(entry, 8)),
            false => u64::from(le16(entry, 8)) << 32 | u64::from(le32(entry, 4)),
        };
        let inside =
            (0..usize::from(entries)).all(|at| is_block(child(&map[12 + at * 12..][..12], depth == 0)));
        if !inside {
            return None;
        }
        let (mut node, mut depth) = (map.to_vec(), depth);
        while depth > 0 {
            node = self.block(child(&node[12..24], false))?;
            if le16(&node, 0) != 0xf30a || le16(&node, 6) != depth - 1 {
                return None;
            }
            depth -= 1;
        }
        Some(if entries == 0 { 0 } else { child(&node[12..24], true) })
    }

    /// Whether a block is the first one of a directory of this number.
    fn knows_itself(&self, ino: u64, block: u64) -> bool {
        let is_place = block > self.geo.first_data_block;
        let bytes = self.block(block).filter(|_| is_place);
        bytes.is_some_and(|bytes| u64::from(le32(&bytes, 0)) == ino && bytes[6] == 1 && bytes[8] == b'.')
    }
}
