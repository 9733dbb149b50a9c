//! The superblock and the group descriptors: reading, judging, falling back to a backup.

use std::collections::BTreeMap;
use std::sync::Arc;

use media::block::{BlockDevice, WriteFlags};
use sim::Bytes;
use zerocopy::FromBytes;
use zerocopy::little_endian::U32;

use super::layout::{
    DESCRIPTOR_BYTES, FIRST_INO, FLAG_UNSIGNED_HASH, GroupDescriptor, MAGIC, OLD_DESCRIPTOR_BYTES,
    OLD_INODE_BYTES, STATE_CLEAN, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET, Superblock, compat, crc32c,
    group_flag, incompat, le16, put16, ro_compat,
};
use super::{Settings, mutant};
use base::error::{Error, Result};
use design::FsError;

/// `s_checksum_type` of CRC-32C, the only one.
const CRC32C: u8 = 1;
/// Blocks of a group, at least, as mke2fs makes them.
const LEAST_GROUP: u64 = 256;

impl Superblock {
    /// Whether a mount has something to finish: the image was not unmounted.
    pub(crate) fn needs_recovery(&self) -> bool {
        self.has_incompat(incompat::RECOVER)
            || self.last_orphan.get() != 0
            || self.has_orphan_file_to_read()
            || self.state.get() & STATE_CLEAN == 0
    }

    /// Whether the kernel's file of orphans holds some. The flag without the file is damage, for `weir fsck` to tell.
    pub(crate) fn has_orphan_file_to_read(&self) -> bool {
        self.has_compat(compat::ORPHAN_FILE) && self.has_ro_compat(ro_compat::ORPHAN_PRESENT)
    }

    /// The kernel's file of orphans holds none.
    pub(crate) fn leave_orphan_file(&mut self) {
        self.feature_ro_compat = (self.feature_ro_compat.get() & !ro_compat::ORPHAN_PRESENT).into();
    }

    /// Whether there is a journal, and it is empty.
    pub(crate) fn has_nothing_to_replay(&self) -> bool {
        self.has_compat(compat::HAS_JOURNAL) && !self.has_incompat(incompat::RECOVER)
    }
}

/// What does not change while a file system is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Geo {
    pub(crate) block_bytes: u32,
    pub(crate) blocks: u64,
    pub(crate) first_data_block: u64,
    pub(crate) blocks_per_group: u32,
    pub(crate) inodes_per_group: u32,
    pub(crate) groups: u32,
    pub(crate) inode_bytes: usize,
    pub(crate) descriptor_bytes: usize,
    pub(crate) first_ino: u64,
    pub(crate) reserved_gdt_blocks: u32,
    pub(crate) backup_groups: Option<[u32; 2]>,
    /// The inode of the kernel's file of orphans.
    pub(crate) orphan_file: Option<u64>,
    pub(crate) uuid: [u8; 16],
    pub(crate) checksum_seed: u32,
    pub(crate) metadata_csum: bool,
    pub(crate) gdt_csum: bool,
    pub(crate) extents: bool,
    pub(crate) filetype: bool,
    pub(crate) dir_index: bool,
    pub(crate) dir_nlink: bool,
    pub(crate) huge_file: bool,
    pub(crate) sparse_super: bool,
    /// Bitmaps and tables may lie in other groups.
    pub(crate) flex_bg: bool,
    /// Groups whose bitmaps and tables mke2fs puts beside each other.
    pub(crate) flex_groups: u64,
    /// Inode 7 has the blocks that are kept for more descriptors.
    pub(crate) resize_inode: bool,
    pub(crate) hash_version: u8,
    pub(crate) unsigned_hash: bool,
    pub(crate) hash_seed: [u32; 4],
}

impl Geo {
    /// Judges a superblock; what is wrong in words.
    pub(crate) fn of(superblock: &Superblock, device_bytes: u64) -> std::result::Result<Self, String> {
        let sb = superblock;
        let log = sb.log_block_size.get();
        if log > 2 {
            return Err(format!(
                "a block size of 1024 times 2^{log} bytes is not supported: 1, 2 or 4 KiB are"
            ));
        }
        let block_bytes = 1024_u32 << log;
        let old = sb.rev_level.get() == 0;
        let inode_bytes = if old { OLD_INODE_BYTES } else { usize::from(sb.inode_size.get()) };
        let wide = sb.has_incompat(incompat::IS_64BIT);
        let descriptor_bytes = if wide { usize::from(sb.desc_size.get()) } else { OLD_DESCRIPTOR_BYTES };
        let first_data_block = u64::from(sb.first_data_block.get());
        check_sizes(sb, block_bytes, (inode_bytes, descriptor_bytes))?;
        let (per_group, inodes) = (sb.blocks_per_group.get(), sb.inodes_per_group.get());
        let blocks = sb.blocks();
        if blocks > device_bytes / u64::from(block_bytes) {
            let needed = Bytes(blocks.saturating_mul(u64::from(block_bytes)));
            return Err(format!("the file system has {needed}, the device only {}", Bytes(device_bytes)));
        }
        let groups = (blocks - first_data_block).div_ceil(u64::from(per_group)) as u32;
        if u64::from(sb.inodes_count.get()) != u64::from(groups) * u64::from(inodes) {
            return Err("inodes_count is not that of the groups".to_owned());
        }
        let backup_groups = sb.has_compat(compat::SPARSE_SUPER2);
        let orphan_file = sb.has_compat(compat::ORPHAN_FILE);
        let unsigned = sb.flags.get() & FLAG_UNSIGNED_HASH != 0;
        Ok(Self {
            block_bytes,
            blocks,
            first_data_block,
            blocks_per_group: per_group,
            inodes_per_group: inodes,
            groups,
            inode_bytes,
            descriptor_bytes,
            first_ino: u64::from(if old { FIRST_INO } else { sb.first_ino.get() }),
            reserved_gdt_blocks: u32::from(sb.reserved_gdt_blocks.get()),
            backup_groups: backup_groups.then(|| sb.backup_bgs.map(U32::get)),
            orphan_file: orphan_file.then(|| u64::from(sb.orphan_file_inum.get())).filter(|ino| *ino != 0),
            uuid: sb.uuid,
            checksum_seed: sb.checksum_seed(),
            metadata_csum: sb.has_ro_compat(ro_compat::METADATA_CSUM),
            gdt_csum: sb.has_ro_compat(ro_compat::GDT_CSUM | ro_compat::METADATA_CSUM),
            extents: sb.has_incompat(incompat::EXTENTS),
            filetype: sb.has_incompat(incompat::FILETYPE),
            dir_index: sb.has_compat(compat::DIR_INDEX),
            dir_nlink: sb.has_ro_compat(ro_compat::DIR_NLINK),
            huge_file: sb.has_ro_compat(ro_compat::HUGE_FILE),
            sparse_super: sb.has_ro_compat(ro_compat::SPARSE_SUPER),
            flex_bg: sb.has_incompat(incompat::FLEX_BG),
            flex_groups: 1 << sb.log_groups_per_flex.min(31),
            resize_inode: sb.has_compat(compat::RESIZE_INODE),
            hash_version: sb.def_hash_version,
            unsigned_hash: unsigned,
            hash_seed: sb.hash_seed.map(U32::get),
        })
    }

    /// The first block of a group.
    pub(crate) fn group_start(&self, group: u32) -> u64 {
        self.first_data_block + u64::from(group) * u64::from(self.blocks_per_group)
    }

    /// Whether a copy of the superblock that says it is of `group` may be at a block; those of old tools say 0.
    fn is_copy_at(&self, group: u16, block: u64) -> bool {
        let at = block.saturating_sub(self.first_data_block) / u64::from(self.blocks_per_group);
        block < self.blocks
            && self.group_start(at as u32) == block
            && self.has_superblock(at as u32)
            && (group == 0 || u64::from(group) == at)
    }

    /// How many blocks a group has: the last one may be short.
    pub(crate) fn group_blocks(&self, group: u32) -> u32 {
        let left = self.blocks - self.group_start(group);
        left.min(u64::from(self.blocks_per_group)) as u32
    }

    /// The group of a block, and its number there. The caller has checked that the block exists.
    pub(crate) fn group_of(&self, block: u64) -> (u32, u32) {
        let at = block - self.first_data_block;
        let per_group = u64::from(self.blocks_per_group);
        ((at / per_group) as u32, (at % per_group) as u32)
    }

    /// Whether a group holds a copy of the superblock and of the descriptors.
    pub(crate) fn has_superblock(&self, group: u32) -> bool {
        if let Some(backups) = self.backup_groups {
            return group == 0 || backups.contains(&group);
        }
        let power_of = |base: u32| {
            let mut power = base;
            while power < group {
                power = power.saturating_mul(base);
            }
            power == group
        };
        group <= 1 || !self.sparse_super || power_of(3) || power_of(5) || power_of(7)
    }

    /// Blocks that the descriptors take.
    pub(crate) fn descriptor_blocks(&self) -> u32 {
        (self.groups as usize * self.descriptor_bytes).div_ceil(self.block_bytes as usize) as u32
    }

    /// Blocks at the beginning of a group that hold the superblock, descriptors and room for more of them.
    pub(crate) fn base_blocks(&self, group: u32) -> u32 {
        if self.has_superblock(group) { 1 + self.descriptor_blocks() + self.reserved_gdt_blocks } else { 0 }
    }

    /// Blocks of an inode table.
    pub(crate) fn table_blocks(&self) -> u32 {
        (self.inodes_per_group as usize * self.inode_bytes).div_ceil(self.block_bytes as usize) as u32
    }

    /// Block and offset of the primary descriptor of a group.
    pub(crate) fn descriptor_at(&self, group: u32) -> (u64, usize) {
        let per_block = self.block_bytes as usize / self.descriptor_bytes;
        let block = self.first_data_block + 1 + u64::from(group) / per_block as u64;
        (block, group as usize % per_block * self.descriptor_bytes)
    }

    /// Block and offset of the primary superblock.
    pub(crate) fn superblock_at(&self) -> (u64, usize) {
        let block_bytes = u64::from(self.block_bytes);
        (SUPERBLOCK_OFFSET / block_bytes, (SUPERBLOCK_OFFSET % block_bytes) as usize)
    }

    /// Number of inodes.
    pub(crate) fn inodes(&self) -> u64 {
        u64::from(self.groups) * u64::from(self.inodes_per_group)
    }

    /// The places within a group of its bitmaps and its table of inodes, where they lie in it.
    pub(crate) fn own_metadata(
        &self,
        group: u32,
        descriptor: &GroupDescriptor,
    ) -> impl Iterator<Item = u32> + use<> {
        let (start, table) = (self.group_start(group), descriptor.inode_table());
        let blocks = start..start + u64::from(self.group_blocks(group));
        let bitmaps = [descriptor.block_bitmap(), descriptor.inode_bitmap()].into_iter();
        let all = bitmaps.chain(table..table + u64::from(self.table_blocks()));
        all.filter(move |block| blocks.contains(block)).map(move |block| (block - start) as u32)
    }

    /// Whether the list of orphans may lead to an inode of this number: not to a reserved one.
    pub(crate) fn may_be_orphan(&self, ino: u64) -> bool {
        (self.first_ino..=self.inodes()).contains(&ino)
    }

    /// The checksum of a group's descriptor; `bytes` are as many as a descriptor has here.
    pub(crate) fn descriptor_checksum(&self, group: u32, bytes: &[u8]) -> u16 {
        const AT: usize = 0x1e;
        let mut bytes = sim::ran::copied(bytes);
        let number = group.to_le_bytes();
        if self.metadata_csum {
            put16(&mut bytes, AT, 0);
            return crc32c(crc32c(self.checksum_seed, &number), &bytes) as u16;
        }
        const CRC16: crc::Crc<u16> = crc::Crc::<u16>::new(&crc::CRC_16_MODBUS);
        base::persist::checksum::charge_for(bytes.len());
        let mut digest = CRC16.digest();
        digest.update(&self.uuid);
        digest.update(&number);
        digest.update(&bytes[..AT]);
        digest.update(&bytes[AT + 2..]);
        digest.finalize()
    }

    /// Writes a descriptor with its checksum over its bytes in a block of descriptors.
    pub(crate) fn store_descriptor(&self, group: u32, descriptor: &GroupDescriptor, to: &mut [u8]) {
        use zerocopy::IntoBytes;
        let len = self.descriptor_bytes.min(DESCRIPTOR_BYTES);
        to[..len].copy_from_slice(&descriptor.as_bytes()[..len]);
        if self.gdt_csum {
            let checksum = self.descriptor_checksum(group, &to[..self.descriptor_bytes]);
            put16(to, 0x1e, checksum);
        }
    }

    /// Reads a descriptor and judges it.
    pub(crate) fn load_descriptor(&self, group: u32, bytes: &[u8]) -> Result<GroupDescriptor> {
        if self.gdt_csum && le16(bytes, 0x1e) != self.descriptor_checksum(group, bytes) {
            return Err(Error::Corrupt(format!("descriptor of group {group}: wrong checksum")));
        }
        self.possible_descriptor(group, bytes)
    }

    /// Reads a descriptor whatever its checksum says.
    pub(crate) fn possible_descriptor(&self, group: u32, bytes: &[u8]) -> Result<GroupDescriptor> {
        let descriptor = GroupDescriptor::of(bytes);
        let fits = self.has_places(group, &descriptor)
            && descriptor.free_blocks() <= self.group_blocks(group)
            && descriptor.free_inodes() <= self.inodes_per_group
            && descriptor.itable_unused() <= self.inodes_per_group;
        if fits {
            Ok(descriptor)
        } else {
            Err(Error::Corrupt(format!("descriptor of group {group} is not possible")))
        }
    }

    /// Whether blocks may hold bitmaps or the table of a group.
    pub(super) fn is_place(&self, group: u32, start: u64, len: u32) -> bool {
        let (own, blocks) = (self.group_start(group), u64::from(self.group_blocks(group)));
        let range = if self.flex_bg { self.first_data_block + 1..self.blocks } else { own..own + blocks };
        range.contains(&start) && start.saturating_add(u64::from(len)) <= range.end
    }

    /// Whether bitmaps and table of a group lie where they may.
    pub(super) fn has_places(&self, group: u32, descriptor: &GroupDescriptor) -> bool {
        self.is_place(group, descriptor.block_bitmap(), 1)
            && self.is_place(group, descriptor.inode_bitmap(), 1)
            && self.is_place(group, descriptor.inode_table(), self.table_blocks())
    }
}

/// Judges the sizes of a superblock; what is wrong in words.
fn check_sizes(
    sb: &Superblock,
    block_bytes: u32,
    (inode_bytes, descriptor_bytes): (usize, usize),
) -> std::result::Result<(), String> {
    let (bits, log) = (block_bytes * 8, sb.log_block_size.get());
    let wide = sb.has_incompat(incompat::IS_64BIT);
    let first_data_block = u64::from(sb.first_data_block.get());
    let (per_group, inodes) = (sb.blocks_per_group.get(), sb.inodes_per_group.get());
    let checks = [
        (first_data_block == u64::from(log == 0), "first_data_block does not fit the block size"),
        (inode_bytes.is_power_of_two() && inode_bytes >= OLD_INODE_BYTES, "inode_size is not possible"),
        (inode_bytes <= block_bytes as usize, "inode_size is larger than a block"),
        (
            descriptor_bytes.is_power_of_two() && descriptor_bytes <= block_bytes as usize,
            "desc_size is not possible",
        ),
        (!wide || descriptor_bytes >= DESCRIPTOR_BYTES, "desc_size is too small for 64bit"),
        (
            !sb.has_ro_compat(ro_compat::METADATA_CSUM) || sb.checksum_type == CRC32C,
            "checksum_type is not that of CRC-32C",
        ),
        (
            sb.has_ro_compat(ro_compat::BIGALLOC) || sb.log_cluster_size.get() == log,
            "log_cluster_size is not that of the blocks",
        ),
        (
            per_group > 0 && per_group <= bits && per_group.is_multiple_of(8),
            "blocks_per_group is not possible",
        ),
        (inodes > 0 && inodes <= bits && inodes.is_multiple_of(8), "inodes_per_group is not possible"),
        (sb.blocks() > first_data_block, "the file system has no blocks"),
        (u32::from(sb.reserved_gdt_blocks.get()) <= block_bytes / 4, "reserved_gdt_blocks is not possible"),
        (
            sb.rev_level.get() == 0 || (FIRST_INO..=sb.inodes_count.get()).contains(&sb.first_ino.get()),
            "first_ino is not possible",
        ),
        (
            !sb.has_compat(compat::ORPHAN_FILE) || sb.orphan_file_inum.get() <= sb.inodes_count.get(),
            "orphan_file_inum is not possible",
        ),
        (
            sb.clusters_per_group.get() == per_group || sb.clusters_per_group.get() == 0,
            "clusters differ from blocks",
        ),
    ];
    if let Some((_, what)) = checks.into_iter().find(|(holds, _)| !holds) {
        return Err(what.to_owned());
    }
    Ok(())
}

/// A superblock that was found.
pub(crate) struct Found {
    pub(crate) superblock: Superblock,
    pub(crate) geo: Geo,
    /// Says that and which backup was used.
    pub(crate) note: Option<String>,
    /// Its checksum is wrong.
    pub(crate) torn: bool,
}

/// Reads `len` bytes at `off` whatever the device's logical block.
pub(crate) fn read_bytes(
    device: &dyn BlockDevice,
    off: u64,
    len: usize,
) -> Result<Vec<u8>, media::MediaError> {
    let unit = u64::from(device.geometry().block_bytes);
    let start = off / unit * unit;
    let end = (off + len as u64).div_ceil(unit) * unit;
    let mut bytes = vec![0; (end - start) as usize];
    device.read(start, &mut bytes)?;
    Ok(bytes[(off - start) as usize..][..len].to_vec())
}

/// Writes bytes at `off` whatever the device's logical block.
pub(crate) fn write_bytes(device: &dyn BlockDevice, off: u64, data: &[u8]) -> Result<(), media::MediaError> {
    let unit = u64::from(device.geometry().block_bytes);
    let (start, end) = (off / unit * unit, (off + data.len() as u64).div_ceil(unit) * unit);
    let mut bytes = read_bytes(device, start, (end - start) as usize)?;
    bytes[(off - start) as usize..][..data.len()].copy_from_slice(data);
    device.write(start, &bytes, WriteFlags::default())
}

/// Whether the device begins with a superblock of this format.
pub(crate) fn has_magic(device: &dyn BlockDevice) -> bool {
    let bytes = read_bytes(device, SUPERBLOCK_OFFSET, SUPERBLOCK_BYTES);
    bytes.is_ok_and(|bytes| Superblock::read_from_bytes(&bytes).is_ok_and(|sb| sb.magic.get() == MAGIC))
}

/// Whether the files of the image that begins here have extents, by a primary superblock that may use what is not supported or say
/// what cannot be; none where there is none.
pub(crate) fn is_modern(device: &dyn BlockDevice) -> Option<bool> {
    let (superblock, _) = read_raw(device, SUPERBLOCK_OFFSET).ok()?;
    Some(superblock.has_incompat(incompat::EXTENTS))
}

/// The superblock at an offset, and whether its checksum is wrong; what it says is not judged.
pub(super) fn read_raw(device: &dyn BlockDevice, off: u64) -> Result<(Superblock, bool), String> {
    let size = device.geometry().bytes.0;
    if off + SUPERBLOCK_BYTES as u64 > size {
        return Err("the device is too small".to_owned());
    }
    let bytes = read_bytes(device, off, SUPERBLOCK_BYTES).map_err(|error| error.to_string())?;
    let superblock = Superblock::read_from_bytes(&bytes).map_err(|_| "too short".to_owned())?;
    if superblock.magic.get() != MAGIC {
        return Err(format!("magic {:#06x} instead of {MAGIC:#06x}", superblock.magic.get()));
    }
    let torn = superblock.has_ro_compat(ro_compat::METADATA_CSUM)
        && superblock.checksum.get() != superblock.right_checksum();
    Ok((superblock, torn))
}

/// The superblock at an offset with what it says, and whether its checksum is wrong.
fn read_any(device: &dyn BlockDevice, off: u64) -> Result<(Superblock, Geo, bool), String> {
    let (superblock, torn) = read_raw(device, off)?;
    let geo = Geo::of(&superblock, device.geometry().bytes.0);
    Ok((superblock, if torn { geo.map_err(|_| "wrong checksum".to_owned()) } else { geo }?, torn))
}

fn read_one(device: &dyn BlockDevice, off: u64) -> Result<(Superblock, Geo), String> {
    match read_any(device, off)? {
        (_, _, true) => Err("wrong checksum".to_owned()),
        (superblock, geo, false) => Ok((superblock, geo)),
    }
}

/// Reads the primary superblock before a replay, on memory: its checksum may be wrong. Each of its fields is as it was before
/// or after the write that was cut, and what leads to the journal never changes.
fn load_torn(device: &Arc<dyn BlockDevice>) -> Result<Found, FsError> {
    let (superblock, geo, torn) = read_any(&**device, SUPERBLOCK_OFFSET)
        .map_err(|what| FsError::Damaged { design: "ext4", what: format!("superblock: {what}") })?;
    Ok(Found { superblock, geo, note: None, torn })
}

/// Whether checksums of an image may be wrong until its log is replayed: where data lies in memory, the driver under the metadata
/// stores words.
pub(super) fn may_tear(settings: &Settings) -> bool {
    settings.memory.is_some() && settings.mutant != Some(mutant::TORN_GROUP_REFUSED)
}

/// Reads the superblock before a replay.
pub(super) fn load_to_replay(device: &Arc<dyn BlockDevice>, settings: &Settings) -> Result<Found, FsError> {
    if may_tear(settings) { load_torn(device).or_else(|_| load(device)) } else { load(device) }
}

const SIZES: [u64; 3] = [1024, 2048, 4096];

fn first_block(block_bytes: u64) -> u64 {
    u64::from(block_bytes == 1024)
}

/// Where copies lie in groups of the usual size, as size of a block and number of one.
pub(super) fn usual_places() -> impl Iterator<Item = (u64, u64)> {
    SIZES
        .into_iter()
        .flat_map(move |size| [1, 3, 5, 7, 9].map(|group| (size, first_block(size) + group * size * 8)))
}

/// Where the copy of group 1 lies in groups of any size that mke2fs makes (`-g`).
pub(super) fn other_places() -> impl Iterator<Item = (u64, u64)> {
    SIZES.into_iter().flat_map(move |size| {
        (LEAST_GROUP..size * 8).step_by(8).map(move |blocks| (size, first_block(size) + blocks))
    })
}

/// The copy of a superblock at a block.
pub(super) fn copy_at(device: &dyn BlockDevice, block_bytes: u64, block: u64) -> Option<(Superblock, Geo)> {
    let (superblock, geo) = read_one(device, block * block_bytes).ok()?;
    let is_copy =
        u64::from(geo.block_bytes) == block_bytes && geo.is_copy_at(superblock.block_group_nr.get(), block);
    is_copy.then_some((superblock, geo))
}

/// Reads the superblock; where the primary is damaged, a copy.
pub(crate) fn load(device: &Arc<dyn BlockDevice>) -> Result<Found, FsError> {
    let design = "ext4";
    if let Ok((superblock, false)) = read_raw(&**device, SUPERBLOCK_OFFSET) {
        // A geometry that comes with a feature is no damage.
        check_readable(&superblock)?;
    }
    let primary = match read_one(&**device, SUPERBLOCK_OFFSET) {
        Ok((superblock, geo)) => return Ok(Found { superblock, geo, note: None, torn: false }),
        Err(what) => what,
    };
    for (block_bytes, block) in usual_places().chain(other_places()) {
        let Some((mut superblock, geo)) = copy_at(&**device, block_bytes, block) else { continue };
        // A copy is as old as the last resize: it does not know how the file system was left.
        superblock.state = (superblock.state.get() & !STATE_CLEAN).into();
        let note = format!("the primary superblock is bad ({primary}); the backup at block {block} was used");
        return Ok(Found { superblock, geo, note: Some(note), torn: false });
    }
    if has_magic(&**device) {
        return Err(FsError::Damaged { design, what: format!("superblock: {primary}; no backup was found") });
    }
    Err(FsError::WrongFormat { design, found: format!("no superblock ({primary}), and no backup") })
}

/// Reads the descriptors of all groups. Where an image is being repaired, a copy stands in for one that is damaged; where it is
/// about to be replayed and may tear, a checksum may be wrong, which is said in `torn`.
pub(crate) fn load_descriptors(
    device: &dyn BlockDevice,
    geo: &Geo,
    (repairs, tears): (bool, bool),
    torn: &mut bool,
) -> Result<Vec<GroupDescriptor>, FsError> {
    let (mut all, mut block, mut loaded) = (Vec::with_capacity(geo.groups as usize), Vec::new(), u64::MAX);
    for group in 0..geo.groups {
        let (at, offset) = geo.descriptor_at(group);
        if at != loaded {
            block = read_bytes(device, at * u64::from(geo.block_bytes), geo.block_bytes as usize)?;
            loaded = at;
        }
        let bytes = &block[offset..offset + geo.descriptor_bytes];
        let mut found = geo.load_descriptor(group, bytes);
        if tears && found.is_err() {
            (found, *torn) = (geo.possible_descriptor(group, bytes), true);
        }
        if repairs && found.is_err() {
            found = Ok(salvaged_descriptor(device, geo, group, bytes));
        }
        all.push(found.map_err(super::damaged)?);
    }
    if repairs {
        part_descriptors(device, geo, &mut all);
    }
    Ok(all)
}

/// What a repair takes for a descriptor that is wrong: a copy, or what is possible of it. What has no place is 0.
fn salvaged_descriptor(device: &dyn BlockDevice, geo: &Geo, group: u32, bytes: &[u8]) -> GroupDescriptor {
    let mut descriptor = GroupDescriptor::of(bytes);
    let has_right_places = !geo.gdt_csum && geo.has_places(group, &descriptor);
    if !has_right_places && let Some(copy) = copied_descriptor(device, geo, group) {
        return copy;
    }
    let table_blocks = geo.table_blocks();
    if !geo.is_place(group, descriptor.block_bitmap(), 1) {
        descriptor.set_block_bitmap(0);
    }
    if !geo.is_place(group, descriptor.inode_bitmap(), 1) {
        descriptor.set_inode_bitmap(0);
    }
    if !geo.is_place(group, descriptor.inode_table(), table_blocks) {
        descriptor.set_inode_table(0);
    }
    descriptor.clear(group_flag::BLOCK_UNINIT | group_flag::INODE_UNINIT);
    descriptor.set_itable_unused(0);
    descriptor
}

/// Where bitmaps and tables lie over each other or over the superblock, takes copies of the descriptors if those do not; else the
/// later one has no place.
fn part_descriptors(device: &dyn BlockDevice, geo: &Geo, all: &mut [GroupDescriptor]) {
    if overlap(geo, all).is_empty() {
        return;
    }
    let copies: Option<Vec<_>> = (0..geo.groups).map(|group| copied_descriptor(device, geo, group)).collect();
    if let Some(copies) = copies.filter(|copies| overlap(geo, copies).is_empty()) {
        all.clone_from_slice(&copies);
        return;
    }
    for (group, part) in overlap(geo, all) {
        match part {
            0 => all[group].set_block_bitmap(0),
            1 => all[group].set_inode_bitmap(0),
            _ => all[group].set_inode_table(0),
        }
    }
}

/// Groups whose block bitmap (0), inode bitmap (1) or inode table (2) lies over something that comes before it.
pub(super) fn overlap(geo: &Geo, all: &[GroupDescriptor]) -> Vec<(usize, u8)> {
    let mut taken: BTreeMap<u64, u64> = BTreeMap::new();
    let mut take = |start: u64, len: u64| {
        let before = taken.range(..start.saturating_add(len)).next_back();
        let before = before.is_some_and(|(at, other)| at.saturating_add(*other) > start);
        if !before && start > 0 && len > 0 {
            taken.insert(start, len);
        }
        before
    };
    for group in 0..geo.groups {
        take(geo.group_start(group), u64::from(geo.base_blocks(group)));
    }
    let mut found = Vec::new();
    for part in 0..3 {
        for (group, descriptor) in all.iter().enumerate() {
            let (start, len) = match part {
                0 => (descriptor.block_bitmap(), 1),
                1 => (descriptor.inode_bitmap(), 1),
                _ => (descriptor.inode_table(), u64::from(geo.table_blocks())),
            };
            if start > 0 && take(start, len) {
                found.push((group, part));
            }
        }
    }
    found
}

/// Copies of a descriptor, at most two of them, that groups hold. They are old: of what they say, only the places count.
pub(super) fn copied_descriptors(device: &dyn BlockDevice, geo: &Geo, group: u32) -> Vec<GroupDescriptor> {
    let (at, offset) = geo.descriptor_at(group);
    let holders = (1..geo.groups).filter(|holder| geo.has_superblock(*holder));
    let copies = holders.filter_map(|holder| {
        let block = geo.group_start(holder) + (at - geo.first_data_block);
        let off = block * u64::from(geo.block_bytes) + offset as u64;
        let bytes = read_bytes(device, off, geo.descriptor_bytes).ok()?;
        let mut descriptor = geo.load_descriptor(group, &bytes).ok()?;
        descriptor.clear(group_flag::BLOCK_UNINIT | group_flag::INODE_UNINIT);
        descriptor.set_itable_unused(0);
        Some(descriptor)
    });
    copies.take(2).collect()
}

fn copied_descriptor(device: &dyn BlockDevice, geo: &Geo, group: u32) -> Option<GroupDescriptor> {
    copied_descriptors(device, geo, group).into_iter().next()
}

/// The bytes of a descriptor.
pub(super) fn raw_descriptor(device: &dyn BlockDevice, geo: &Geo, group: u32) -> Result<Vec<u8>, FsError> {
    let (at, offset) = geo.descriptor_at(group);
    Ok(read_bytes(device, at * u64::from(geo.block_bytes) + offset as u64, geo.descriptor_bytes)?)
}

/// All descriptors, whatever they say.
pub(super) fn raw_descriptors(device: &dyn BlockDevice, geo: &Geo) -> Result<Vec<GroupDescriptor>, FsError> {
    (0..geo.groups).map(|group| Ok(GroupDescriptor::of(&raw_descriptor(device, geo, group)?))).collect()
}

/// Writes all descriptors, with right checksums.
pub(super) fn write_descriptors(
    device: &dyn BlockDevice,
    geo: &Geo,
    all: &[GroupDescriptor],
) -> Result<(), media::MediaError> {
    let first = geo.descriptor_at(0).0;
    for block in first..first + u64::from(geo.descriptor_blocks()) {
        let off = block * u64::from(geo.block_bytes);
        let mut bytes = read_bytes(device, off, geo.block_bytes as usize)?;
        for (group, descriptor) in (0..geo.groups).zip(all) {
            let (at, offset) = geo.descriptor_at(group);
            if at == block {
                geo.store_descriptor(group, descriptor, &mut bytes[offset..]);
            }
        }
        device.write(off, &bytes, WriteFlags::default())?;
    }
    Ok(())
}

/// Names the features of an image that this code cannot even read.
pub(super) fn check_readable(superblock: &Superblock) -> Result<(), FsError> {
    let log = superblock.log_block_size.get();
    if (3..=6).contains(&log) {
        let size = Bytes(1024 << log);
        let what = format!("the image has blocks of {size}; weir supports 1, 2 and 4 KiB");
        return Err(FsError::Unsupported { what });
    }
    check_features(superblock, ro_compat::KNOWN | !ro_compat::BIGALLOC)
}

/// Names the features of an image that this code does not know. A mount that only reads need not know those of `ro_compat`;
/// groups of clusters it could not read.
pub(crate) fn check_mountable(superblock: &Superblock, reads_only: bool) -> Result<(), FsError> {
    if reads_only { check_readable(superblock) } else { check_features(superblock, ro_compat::KNOWN) }
}

fn check_features(superblock: &Superblock, known_ro: u32) -> Result<(), FsError> {
    let unknown_incompat = superblock.feature_incompat.get() & !incompat::KNOWN;
    let unknown_ro = superblock.feature_ro_compat.get() & !known_ro;
    if unknown_incompat == 0 && unknown_ro == 0 {
        return Ok(());
    }
    let name = |bits: u32, known: &[(u32, &str)]| -> Vec<String> {
        let named = known.iter().filter(|(bit, _)| bits & bit != 0);
        let mut names: Vec<_> = named.map(|(_, name)| (*name).to_owned()).collect();
        let rest = bits & !known.iter().fold(0, |all, (bit, _)| all | bit);
        if rest != 0 {
            names.push(format!("unknown bits {rest:#x}"));
        }
        names
    };
    let mut names = name(unknown_incompat, &incompat::OTHERS);
    names.extend(name(unknown_ro, &ro_compat::OTHERS));
    let names = names.join(", ");
    let reads = unknown_incompat == 0 && unknown_ro & ro_compat::BIGALLOC == 0;
    let advice = if reads { "mount it with -o ro, or make it without" } else { "make it without" };
    Err(FsError::Unsupported {
        what: format!("the image uses {names}, which weir does not support; {advice} (mke2fs -O ^FEATURE)"),
    })
}
