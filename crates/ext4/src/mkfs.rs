//! Making an image: the layout of mkfs.ext2 and mkfs.ext4 without `flex_bg` and `resize_inode`.
//!
//! Each group holds its own bitmaps and inode table behind the copies of superblock and descriptors, where it has them. Only
//! that skeleton is written directly; the root, `lost+found` and the journal are made by the same code that makes inodes in a
//! mounted file system.

use std::sync::Arc;

use ::vfs::{FileKind, NewInode, Owner, Timestamp};
use media::block::{BlockDevice, Hint, Piece};
use sim::{Bytes, Run};
use zerocopy::{FromBytes, IntoBytes};

use super::extent;
use super::groups::{set_bit, set_padding};
use super::journal::format::LEAST_JOURNAL;
use super::journal::recovery::set_features;
use super::journal::{Handle, make_external, new_superblock};
use super::layout::{
    EXTRA_ISIZE, FIRST_INO, FLAG_SIGNED_HASH, GroupDescriptor, JOURNAL_INO, MAGIC, OLD_INODE_BYTES, ROOT_INO,
    STATE_CLEAN, SUPERBLOCK_BYTES, Superblock, compat, crc32c, flag, group_flag, incompat, ro_compat,
};
use super::namei::Node;
use super::superblock::Geo;
use super::{Settings, Volume, damaged};
use base::error::Result;
use design::FsError;

/// What is to be made.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) design: &'static str,
    pub(crate) block_bytes: u32,
    pub(crate) inode_bytes: u32,
    /// One inode for so many bytes.
    pub(crate) inode_ratio: u64,
    /// Blocks of the journal; none: as mkfs chooses; 0: no journal.
    pub(crate) journal_blocks: Option<u32>,
    pub(crate) extents: bool,
    pub(crate) checksums: bool,
    pub(crate) dir_index: bool,
    pub(crate) wide: bool,
    pub(crate) lost_found: bool,
    /// The part of the blocks that only root may take.
    pub(crate) kept: f64,
    /// Inode tables are left as they are, and zeroed as they are used (mke2fs: `lazy_itable_init`).
    pub(crate) lazy_tables: bool,
}

/// Fewest blocks that a group must have beside its own metadata, or it is left out.
const LEAST_BLOCKS: u64 = 50;

/// Blocks of the journal for a file system of so many blocks, as mke2fs chooses.
pub(super) fn usual_journal(blocks: u64) -> u32 {
    match blocks {
        0..2_048 => 0,
        2_048..32_768 => LEAST_JOURNAL,
        32_768..262_144 => 4_096,
        262_144..524_288 => 8_192,
        _ => 16_384,
    }
}

impl Plan {
    fn has_journal(&self) -> bool {
        self.journal_blocks != Some(0)
    }

    /// Blocks of the journal for a file system of so many blocks.
    fn journal(&self, blocks: u64) -> u32 {
        self.journal_blocks.unwrap_or(usual_journal(blocks))
    }

    /// The smallest device that holds it.
    pub(crate) fn min_size(&self) -> Bytes {
        let journal = if self.has_journal() {
            self.journal_blocks.unwrap_or(LEAST_JOURNAL).max(LEAST_JOURNAL)
        } else {
            0
        };
        let blocks = u64::from(journal) + 192;
        let floor = if self.has_journal() && self.journal_blocks.is_none() { 2_048 } else { 0 };
        Bytes(blocks.max(floor) * u64::from(self.block_bytes))
    }

    /// The superblock for a device of so many bytes.
    fn superblock(&self, device_bytes: u64) -> Superblock {
        let mut sb = Superblock::read_from_bytes(&[0; SUPERBLOCK_BYTES]).expect("the size is right");
        let first = u64::from(self.block_bytes == 1024);
        let per_group = self.block_bytes * 8;
        let mut blocks = device_bytes / u64::from(self.block_bytes);
        let inodes_of = |blocks: u64| {
            let groups = (blocks - first).div_ceil(u64::from(per_group));
            let wanted = (blocks * u64::from(self.block_bytes) / self.inode_ratio).div_ceil(groups).max(16);
            // Whole blocks of the table, and whole bytes of the bitmap.
            let step = u64::from(self.block_bytes / self.inode_bytes).max(8);
            (groups, wanted.next_multiple_of(step).min(u64::from(per_group)))
        };
        let (groups, inodes) = inodes_of(blocks);
        let last = (blocks - first) - (groups - 1) * u64::from(per_group);
        let table = inodes * u64::from(self.inode_bytes) / u64::from(self.block_bytes);
        if groups > 1 && last < table + LEAST_BLOCKS + 8 {
            blocks -= last;
        }
        let (groups, _) = inodes_of(blocks);
        sb.set_kept_blocks((blocks as f64 * self.kept) as u64);
        sb.inodes_count = ((groups * inodes) as u32).into();
        sb.blocks_count_lo = (blocks as u32).into();
        sb.blocks_count_hi = ((blocks >> 32) as u32).into();
        sb.first_data_block = (first as u32).into();
        sb.log_block_size = (self.block_bytes.trailing_zeros() - 10).into();
        sb.log_cluster_size = sb.log_block_size;
        sb.blocks_per_group = per_group.into();
        sb.clusters_per_group = per_group.into();
        sb.inodes_per_group = (inodes as u32).into();
        sb.magic = MAGIC.into();
        sb.state = STATE_CLEAN.into();
        sb.errors = 2.into();
        sb.rev_level = 1.into();
        sb.first_ino = FIRST_INO.into();
        sb.inode_size = (self.inode_bytes as u16).into();
        sb.max_mnt_count = u16::MAX.into();
        self.set_features(&mut sb);
        Self::set_identity(&mut sb);
        sb
    }

    fn set_features(&self, sb: &mut Superblock) {
        let when = |holds: bool, feature: u32| if holds { feature } else { 0 };
        sb.feature_compat = (compat::EXT_ATTR | when(self.dir_index, compat::DIR_INDEX)).into();
        sb.feature_incompat = (incompat::FILETYPE
            | when(self.extents, incompat::EXTENTS)
            | when(self.wide, incompat::IS_64BIT))
        .into();
        let modern = ro_compat::HUGE_FILE | ro_compat::DIR_NLINK;
        let wide_inodes = self.inode_bytes as usize > OLD_INODE_BYTES;
        sb.feature_ro_compat = (ro_compat::SPARSE_SUPER
            | ro_compat::LARGE_FILE
            | when(self.extents, modern)
            | when(self.extents && wide_inodes, ro_compat::EXTRA_ISIZE)
            | when(self.checksums, ro_compat::METADATA_CSUM))
        .into();
        sb.desc_size = if self.wide { 64 } else { 0 }.into();
        sb.checksum_type = u8::from(self.checksums);
        if wide_inodes {
            sb.min_extra_isize = EXTRA_ISIZE.into();
            sb.want_extra_isize = EXTRA_ISIZE.into();
        }
        sb.def_hash_version = super::hash::HALF_MD4;
        sb.flags = FLAG_SIGNED_HASH.into();
    }

    /// UUID and seed of the hashes, from the seed of the run; the time.
    fn set_identity(sb: &mut Superblock) {
        let word = |number| sim::seed().derive("ext4.mkfs", number).0;
        sb.uuid[..8].copy_from_slice(&word(0).to_le_bytes());
        sb.uuid[8..].copy_from_slice(&word(1).to_le_bytes());
        // Version 4, variant 1 (RFC 9562).
        sb.uuid[6] = sb.uuid[6] & 0x0f | 0x40;
        sb.uuid[8] = sb.uuid[8] & 0x3f | 0x80;
        sb.hash_seed = std::array::from_fn(|number| (word(2 + number as u64) as u32).into());
        let now = Timestamp::now().secs as u32;
        sb.mkfs_time = now.into();
        sb.wtime = now.into();
        sb.lastcheck = now.into();
    }
}

/// Makes an empty file system; its journal lies in it, or on the other device.
pub(crate) fn mkfs(
    device: &Arc<dyn BlockDevice>,
    journal_device: Option<&Arc<dyn BlockDevice>>,
    plan: &Plan,
) -> Result<(), FsError> {
    let size = device.geometry().bytes;
    let needed = plan.min_size();
    if size < needed {
        return Err(FsError::TooSmall { design: plan.design, needed, size });
    }
    let most = Bytes(u64::from(u32::MAX) * u64::from(plan.block_bytes));
    if size > most && !plan.wide {
        return Err(FsError::TooLarge { design: plan.design, most, size });
    }
    let mut superblock = plan.superblock(size.0);
    superblock.seal();
    let geo = Geo::of(&superblock, size.0)
        .map_err(|what| FsError::Damaged { design: plan.design, what: format!("mkfs: {what}") })?;
    if let Some(journal) = journal_device {
        superblock.feature_compat = (superblock.feature_compat.get() | compat::HAS_JOURNAL).into();
        make_external(journal, &mut superblock).map_err(damaged)?;
        superblock.seal();
    }
    let skeleton = Skeleton { device, geo: &geo, lazy: plan.lazy_tables && geo.gdt_csum };
    let (mut free_blocks, mut free_inodes) = (0_u64, 0_u64);
    let mut descriptors = Vec::with_capacity(geo.groups as usize);
    for group in 0..geo.groups {
        let descriptor = skeleton.group(group)?;
        free_blocks += u64::from(descriptor.free_blocks());
        free_inodes += u64::from(descriptor.free_inodes());
        descriptors.push(descriptor);
    }
    superblock.set_free_blocks(free_blocks);
    superblock.free_inodes_count = (free_inodes as u32).into();
    skeleton.heads(&superblock, &descriptors, &[0])?;
    let inside = plan.has_journal() && journal_device.is_none();
    let journal = if inside { plan.journal(geo.blocks) } else { 0 };
    let superblock = fill(device, journal, plan.lost_found).map_err(damaged)?;
    let (superblock, descriptors) = superblock;
    let backups: Vec<u32> = (1..geo.groups).filter(|group| geo.has_superblock(*group)).collect();
    skeleton.heads(&superblock, &descriptors, &backups)?;
    device.flush()?;
    Ok(())
}

/// What is written directly.
struct Skeleton<'a> {
    device: &'a Arc<dyn BlockDevice>,
    geo: &'a Geo,
    /// Inode tables are not written.
    lazy: bool,
}

impl Skeleton<'_> {
    fn write(&self, block: u64, bytes: &[u8]) -> Result<(), FsError> {
        let off = block * u64::from(self.geo.block_bytes);
        let queue = media::block::Queue::new(Arc::clone(self.device));
        Ok(queue.write(&[Piece { off, data: bytes, hint: Hint::None }], false)?)
    }

    /// Writes the bitmaps and the inode table of a group; returns its descriptor.
    fn group(&self, group: u32) -> Result<GroupDescriptor, FsError> {
        let geo = self.geo;
        let base = geo.base_blocks(group);
        let start = geo.group_start(group);
        let (bitmap, inodes, table) = (base, base + 1, base + 2);
        let used = table + geo.table_blocks();
        let mut descriptor = GroupDescriptor::default();
        let place = |at: u32| {
            let block = start + u64::from(at);
            ((block as u32).into(), ((block >> 32) as u32).into())
        };
        (descriptor.block_bitmap_lo, descriptor.block_bitmap_hi) = place(bitmap);
        (descriptor.inode_bitmap_lo, descriptor.inode_bitmap_hi) = place(inodes);
        (descriptor.inode_table_lo, descriptor.inode_table_hi) = place(table);
        let mut bits = vec![0; geo.block_bytes as usize];
        (0..used).for_each(|at| set_bit(&mut bits, at));
        set_padding(&mut bits, geo.group_blocks(group));
        self.write(start + u64::from(bitmap), &bits)?;
        if geo.metadata_csum {
            descriptor
                .set_block_bitmap_csum(crc32c(geo.checksum_seed, &bits[..geo.blocks_per_group as usize / 8]));
        }
        let reserved = if group == 0 { FIRST_INO - 1 } else { 0 };
        bits.fill(0);
        (0..reserved).for_each(|at| set_bit(&mut bits, at));
        set_padding(&mut bits, geo.inodes_per_group);
        self.write(start + u64::from(inodes), &bits)?;
        if geo.metadata_csum {
            descriptor
                .set_inode_bitmap_csum(crc32c(geo.checksum_seed, &bits[..geo.inodes_per_group as usize / 8]));
        }
        if !self.lazy {
            let zeros = vec![0; geo.table_blocks() as usize * geo.block_bytes as usize];
            self.write(start + u64::from(table), &zeros)?;
        }
        descriptor.set_free_blocks(geo.group_blocks(group) - used);
        descriptor.set_free_inodes(geo.inodes_per_group - reserved);
        if geo.gdt_csum {
            descriptor.set_itable_unused(geo.inodes_per_group - reserved);
            descriptor.flags = if self.lazy { 0 } else { group_flag::INODE_ZEROED }.into();
        }
        Ok(descriptor)
    }

    /// Writes superblock and descriptors to these groups.
    fn heads(
        &self,
        superblock: &Superblock,
        descriptors: &[GroupDescriptor],
        to: &[u32],
    ) -> Result<(), FsError> {
        let geo = self.geo;
        let block_bytes = geo.block_bytes as usize;
        let mut table = vec![0; geo.descriptor_blocks() as usize * block_bytes];
        for (group, descriptor) in descriptors.iter().enumerate() {
            geo.store_descriptor(group as u32, descriptor, &mut table[group * geo.descriptor_bytes..]);
        }
        for group in to {
            let mut copy = superblock.clone();
            copy.block_group_nr = (*group as u16).into();
            copy.seal();
            let mut block = vec![0; block_bytes];
            let at = if *group == 0 { geo.superblock_at().1 } else { 0 };
            block[at..at + SUPERBLOCK_BYTES].copy_from_slice(copy.as_bytes());
            let start = if *group == 0 { geo.superblock_at().0 } else { geo.group_start(*group) };
            self.write(start, &block)?;
            self.write(geo.group_start(*group) + 1, &table)?;
        }
        Ok(())
    }
}

/// Makes the root, the journal and, where it is wanted, `lost+found`; returns superblock and descriptors as they are in the end.
fn fill(
    device: &Arc<dyn BlockDevice>,
    journal: u32,
    lost_found: bool,
) -> Result<(Superblock, Vec<GroupDescriptor>)> {
    let volume = Volume::open(device, Settings::default())
        .map_err(|error| base::error::Error::Corrupt(format!("mkfs: {error}")))?;
    let handle = Handle::none();
    let root = volume.new_inode(ROOT_INO, (FileKind::Directory.mode_bits() | 0o755) as u16);
    {
        let mut state = root.state.write();
        state.raw.links = 2.into();
        if volume.geo.extents {
            state.raw.flags = flag::EXTENTS.into();
            extent::init(&mut state.raw.block);
        }
        volume.init_dir(&handle, &root, &mut state, ROOT_INO)?;
        volume.store_inode(&handle, &root, &mut state)?;
    }
    volume.count_directory(&handle, 0)?;
    if journal > 0 {
        volume.make_journal(&handle, journal)?;
    }
    if lost_found {
        let new = NewInode { perm: 0o700, owner: Owner::default() };
        let node = Node { kind: FileKind::Directory, rdev: 0, new: &new, target: &[] };
        volume.make(ROOT_INO, b"lost+found", node)?;
    }
    volume.write_metadata()?;
    volume.leave_clean()?;
    let descriptors = volume.groups.lock().descriptors.clone();
    let superblock = volume.superblock.lock().clone();
    Ok((superblock, descriptors))
}

impl Volume {
    /// The root was made without its number being allocated: counts it.
    fn count_directory(&self, handle: &Handle<'_>, group: u32) -> Result<()> {
        let mut groups = self.groups.lock();
        let descriptor = &mut groups.descriptors[group as usize];
        descriptor.set_used_dirs(descriptor.used_dirs() + 1);
        let descriptor = descriptor.clone();
        self.store_group(handle, group, &descriptor)
    }

    /// Makes the journal's inode and an empty log.
    pub(super) fn make_journal(&self, handle: &Handle<'_>, blocks: u32) -> Result<()> {
        let inode = self.new_inode(JOURNAL_INO, (FileKind::Regular.mode_bits() | 0o600) as u16);
        let mut state = inode.state.write();
        state.raw.links = 1.into();
        if self.geo.extents {
            state.raw.flags = flag::EXTENTS.into();
            extent::init(&mut state.raw.block);
        }
        let size = u64::from(self.geo.block_bytes);
        let zeros = vec![0; size as usize];
        let (mut at, mut first) = (0, None);
        while at < u64::from(blocks) {
            let hole = Run::new(at, u64::from(blocks) - at);
            let Run { first: start, count: len } = self.map_new(handle, &inode, &mut state, hole, false)?;
            first = first.or(Some(start));
            let pieces: Vec<_> = (start..start + len)
                .map(|block| Piece { off: block * size, data: &zeros, hint: Hint::None })
                .collect();
            self.cache.queue().write(&pieces, false)?;
            at += len;
        }
        state.raw.set_size(u64::from(blocks) * size);
        self.store_inode(handle, &inode, &mut state)?;
        let mut head = new_superblock(self.geo.block_bytes, blocks, &self.geo.uuid);
        let wide = self.superblock.lock().has_incompat(incompat::IS_64BIT);
        set_features(&mut head, wide, self.geo.metadata_csum);
        head.resize(size as usize, 0);
        let off = first.unwrap_or_default() * size;
        self.cache.queue().write(&[Piece { off, data: &head, hint: Hint::None }], false)?;
        let mut superblock = self.superblock.lock();
        superblock.feature_compat = (superblock.feature_compat.get() | compat::HAS_JOURNAL).into();
        superblock.journal_inum = (JOURNAL_INO as u32).into();
        superblock.jnl_backup_type = 1;
        for (slot, bytes) in state.raw.block.chunks_exact(4).enumerate() {
            superblock.jnl_blocks[slot] = super::layout::le32(bytes, 0).into();
        }
        superblock.jnl_blocks[15] = state.raw.size_hi;
        superblock.jnl_blocks[16] = state.raw.size_lo;
        drop(superblock);
        drop(state);
        self.forget_inode(&inode);
        Ok(())
    }
}
