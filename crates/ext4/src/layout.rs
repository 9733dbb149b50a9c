//! The on-disk format of ext2 and ext4: structures, constants, checksums.
//!
//! All numbers are little-endian; those of the journal, big-endian, are in `journal/format.rs`. Source: the kernel's
//! documentation, "ext4 Data Structures and Algorithms" (Documentation/filesystems/ext4).

use std::sync::OnceLock;

use vfs::{FileKind, Timestamp};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Where the primary superblock lies on the device.
pub(crate) const SUPERBLOCK_OFFSET: u64 = 1024;
/// Its length.
pub(crate) const SUPERBLOCK_BYTES: usize = 1024;
/// `s_magic`.
pub(crate) const MAGIC: u16 = 0xef53;
/// Inode of the blocks that the medium cannot use (`mke2fs -l`); its pointers are all that it has.
pub(crate) const BAD_INO: u64 = 1;
/// Inode of the root directory.
pub(crate) const ROOT_INO: u64 = 2;
/// Inode of a boot loader.
pub(crate) const BOOT_INO: u64 = 5;
/// Inode that keeps blocks for more group descriptors.
pub(crate) const RESIZE_INO: u64 = 7;
/// Inode of the journal, as mkfs makes it.
pub(crate) const JOURNAL_INO: u64 = 8;
/// First inode that is not reserved, as mkfs makes it.
pub(crate) const FIRST_INO: u32 = 11;
/// Length of the part of an inode that every file system has.
pub(crate) const OLD_INODE_BYTES: usize = 128;
/// Most links of a file or, without `dir_nlink`, of a directory.
pub(crate) const LINK_MAX: u16 = 65_000;
/// Longest name.
pub(crate) const NAME_MAX: u32 = 255;

/// `s_feature_compat`.
pub(crate) mod compat {
    pub(crate) const HAS_JOURNAL: u32 = 0x4;
    pub(crate) const EXT_ATTR: u32 = 0x8;
    pub(crate) const RESIZE_INODE: u32 = 0x10;
    pub(crate) const DIR_INDEX: u32 = 0x20;
    pub(crate) const SPARSE_SUPER2: u32 = 0x200;
    pub(crate) const ORPHAN_FILE: u32 = 0x1000;
}

/// `s_feature_incompat`.
pub(crate) mod incompat {
    pub(crate) const FILETYPE: u32 = 0x2;
    pub(crate) const RECOVER: u32 = 0x4;
    pub(crate) const EXTENTS: u32 = 0x40;
    pub(crate) const IS_64BIT: u32 = 0x80;
    pub(crate) const FLEX_BG: u32 = 0x200;
    pub(crate) const CSUM_SEED: u32 = 0x2000;
    /// What this code knows.
    pub(crate) const KNOWN: u32 = FILETYPE | RECOVER | EXTENTS | IS_64BIT | FLEX_BG | CSUM_SEED;
    /// The names of the others.
    pub(crate) const OTHERS: [(u32, &str); 12] = [
        (0x1, "compression"),
        (0x8, "journal_dev"),
        (0x10, "meta_bg"),
        (0x100, "mmp"),
        (0x400, "ea_inode"),
        (0x1000, "dirdata"),
        (0x4000, "large_dir"),
        (0x8000, "inline_data"),
        (0x1_0000, "encrypt"),
        (0x2_0000, "casefold"),
        (0x20, "an unknown feature (bit 5)"),
        (0x800, "an unknown feature (bit 11)"),
    ];
}

/// `s_feature_ro_compat`.
pub(crate) mod ro_compat {
    pub(crate) const SPARSE_SUPER: u32 = 0x1;
    pub(crate) const LARGE_FILE: u32 = 0x2;
    pub(crate) const HUGE_FILE: u32 = 0x8;
    pub(crate) const GDT_CSUM: u32 = 0x10;
    pub(crate) const DIR_NLINK: u32 = 0x20;
    pub(crate) const EXTRA_ISIZE: u32 = 0x40;
    pub(crate) const METADATA_CSUM: u32 = 0x400;
    pub(crate) const BIGALLOC: u32 = 0x200;
    pub(crate) const QUOTA: u32 = 0x100;
    /// The file of orphans holds some.
    pub(crate) const ORPHAN_PRESENT: u32 = 0x1_0000;
    pub(crate) const KNOWN: u32 = SPARSE_SUPER
        | LARGE_FILE
        | HUGE_FILE
        | GDT_CSUM
        | DIR_NLINK
        | EXTRA_ISIZE
        | METADATA_CSUM
        | ORPHAN_PRESENT;
    /// The names of the others.
    pub(crate) const OTHERS: [(u32, &str); 10] = [
        (0x4, "btree_dir"),
        (0x80, "snapshot"),
        (0x100, "quota"),
        (BIGALLOC, "bigalloc"),
        (0x800, "replica"),
        (0x1000, "read-only"),
        (0x2000, "project"),
        (0x4000, "shared_blocks"),
        (0x8000, "verity"),
        (0x2_0000, "an unknown feature (bit 17)"),
    ];
}

/// `i_flags`.
pub(crate) mod flag {
    /// Nothing of it may change (`chattr +i`); it may only grow (`chattr +a`).
    pub(crate) const IMMUTABLE: u32 = 0x10;
    pub(crate) const APPEND: u32 = 0x20;
    /// dump(8) passes over it (`chattr +d`); reading does not set its access time (`chattr +A`).
    pub(crate) const NODUMP: u32 = 0x40;
    pub(crate) const NOATIME: u32 = 0x80;
    pub(crate) const INDEX: u32 = 0x1000;
    pub(crate) const HUGE_FILE: u32 = 0x4_0000;
    pub(crate) const EXTENTS: u32 = 0x8_0000;
    /// It keeps the value of an attribute.
    pub(crate) const KEEPS_VALUE: u32 = 0x20_0000;
    /// Flags of a kind of inode that this code cannot read.
    pub(crate) const UNREADABLE: u32 = 0x4 | 0x800 | KEEPS_VALUE | 0x1000_0000;
}

/// `bg_flags`.
pub(crate) mod group_flag {
    pub(crate) const INODE_UNINIT: u16 = 1;
    pub(crate) const BLOCK_UNINIT: u16 = 2;
    pub(crate) const INODE_ZEROED: u16 = 4;
}

/// `s_state`: unmounted cleanly; has errors.
pub(crate) const STATE_CLEAN: u16 = 1;
pub(crate) const STATE_ERRORS: u16 = 2;

/// The superblock.
#[derive(Clone, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Superblock {
    pub(crate) inodes_count: U32,
    pub(crate) blocks_count_lo: U32,
    pub(crate) r_blocks_count_lo: U32,
    pub(crate) free_blocks_count_lo: U32,
    pub(crate) free_inodes_count: U32,
    pub(crate) first_data_block: U32,
    pub(crate) log_block_size: U32,
    pub(crate) log_cluster_size: U32,
    pub(crate) blocks_per_group: U32,
    pub(crate) clusters_per_group: U32,
    pub(crate) inodes_per_group: U32,
    pub(crate) mtime: U32,
    pub(crate) wtime: U32,
    pub(crate) mnt_count: U16,
    pub(crate) max_mnt_count: U16,
    pub(crate) magic: U16,
    pub(crate) state: U16,
    pub(crate) errors: U16,
    pub(crate) minor_rev_level: U16,
    pub(crate) lastcheck: U32,
    pub(crate) checkinterval: U32,
    pub(crate) creator_os: U32,
    pub(crate) rev_level: U32,
    pub(crate) def_resuid: U16,
    pub(crate) def_resgid: U16,
    pub(crate) first_ino: U32,
    pub(crate) inode_size: U16,
    pub(crate) block_group_nr: U16,
    pub(crate) feature_compat: U32,
    pub(crate) feature_incompat: U32,
    pub(crate) feature_ro_compat: U32,
    pub(crate) uuid: [u8; 16],
    pub(crate) volume_name: [u8; 16],
    pub(crate) last_mounted: [u8; 64],
    pub(crate) algorithm_usage_bitmap: U32,
    pub(crate) prealloc_blocks: u8,
    pub(crate) prealloc_dir_blocks: u8,
    pub(crate) reserved_gdt_blocks: U16,
    pub(crate) journal_uuid: [u8; 16],
    pub(crate) journal_inum: U32,
    pub(crate) journal_dev: U32,
    pub(crate) last_orphan: U32,
    pub(crate) hash_seed: [U32; 4],
    pub(crate) def_hash_version: u8,
    pub(crate) jnl_backup_type: u8,
    pub(crate) desc_size: U16,
    pub(crate) default_mount_opts: U32,
    pub(crate) first_meta_bg: U32,
    pub(crate) mkfs_time: U32,
    pub(crate) jnl_blocks: [U32; 17],
    pub(crate) blocks_count_hi: U32,
    pub(crate) r_blocks_count_hi: U32,
    pub(crate) free_blocks_count_hi: U32,
    pub(crate) min_extra_isize: U16,
    pub(crate) want_extra_isize: U16,
    pub(crate) flags: U32,
    pub(crate) raid_stride: U16,
    pub(crate) mmp_interval: U16,
    pub(crate) mmp_block: U64,
    pub(crate) raid_stripe_width: U32,
    pub(crate) log_groups_per_flex: u8,
    pub(crate) checksum_type: u8,
    pub(crate) encryption_level: u8,
    pub(crate) reserved_pad: u8,
    pub(crate) kbytes_written: U64,
    pub(crate) snapshots: [U32; 5],
    pub(crate) error_count: U32,
    pub(crate) error_log: [U32; 26],
    pub(crate) mount_opts: [u8; 64],
    pub(crate) usr_quota_inum: U32,
    pub(crate) grp_quota_inum: U32,
    pub(crate) overhead_clusters: U32,
    pub(crate) backup_bgs: [U32; 2],
    pub(crate) encryption: [u8; 20],
    pub(crate) lpf_ino: U32,
    pub(crate) prj_quota_inum: U32,
    pub(crate) checksum_seed: U32,
    /// Upper parts of times, codes of errors, the encoding of names.
    pub(crate) times_hi: [U32; 3],
    pub(crate) orphan_file_inum: U32,
    pub(crate) reserved: [U32; 94],
    pub(crate) checksum: U32,
}

const _: () = assert!(size_of::<Superblock>() == SUPERBLOCK_BYTES);

/// Offset of `s_snapshot_id`.
const SNAPSHOT_ID_AT: usize = 0x184;
const _: () = assert!(std::mem::offset_of!(Superblock, snapshots) + 4 == SNAPSHOT_ID_AT);

/// For each bit of the checksum the change of `s_snapshot_id` that flips it: a CRC is linear.
static FILLERS: OnceLock<[u32; 32]> = OnceLock::new();

/// The change of `s_snapshot_id` that changes the checksum by `difference`: takes the bytes behind it, and itself, back.
fn filler(difference: u32) -> u32 {
    (SNAPSHOT_ID_AT..SUPERBLOCK_BYTES - 4).fold(difference, |register, _| {
        let entry = |low: u32| crc32c(low, &[0]);
        let low = (0..256).find(|low| entry(*low) >> 24 == register >> 24).unwrap_or_default();
        (register ^ entry(low)) << 8 | low
    })
}

/// `s_flags`: names are hashed as unsigned bytes.
pub(crate) const FLAG_UNSIGNED_HASH: u32 = 2;
pub(crate) const FLAG_SIGNED_HASH: u32 = 1;

impl Superblock {
    pub(crate) fn blocks(&self) -> u64 {
        u64::from(self.blocks_count_lo.get()) | u64::from(self.blocks_count_hi.get()) << 32
    }

    pub(crate) fn has_compat(&self, feature: u32) -> bool {
        self.feature_compat.get() & feature != 0
    }

    pub(crate) fn has_incompat(&self, feature: u32) -> bool {
        self.feature_incompat.get() & feature != 0
    }

    pub(crate) fn has_ro_compat(&self, feature: u32) -> bool {
        self.feature_ro_compat.get() & feature != 0
    }

    /// Blocks that only root, or the user or group that is named, may take.
    pub(crate) fn kept_blocks(&self) -> u64 {
        let upper = if self.has_incompat(incompat::IS_64BIT) { self.r_blocks_count_hi.get() } else { 0 };
        u64::from(upper) << 32 | u64::from(self.r_blocks_count_lo.get())
    }

    pub(crate) fn set_kept_blocks(&mut self, kept: u64) {
        self.r_blocks_count_lo = (kept as u32).into();
        self.r_blocks_count_hi = ((kept >> 32) as u32).into();
    }

    pub(crate) fn set_free_blocks(&mut self, free: u64) {
        self.free_blocks_count_lo = (free as u32).into();
        self.free_blocks_count_hi = ((free >> 32) as u32).into();
    }

    /// Its own checksum as it should be.
    pub(crate) fn right_checksum(&self) -> u32 {
        crc32c(!0, &self.as_bytes()[..SUPERBLOCK_BYTES - 4])
    }

    /// Makes the checksum right, where the file system has one.
    ///
    /// The superblock has two sectors, and a power loss may leave one of them old. Everything that changes lies in the first, and
    /// the checksum in the second; so a checksum that is there stays, and a field that nothing uses (`s_snapshot_id`, of a feature
    /// that is in no kernel) takes the value that makes it right. Then one sector is written, which is atomic.
    pub(crate) fn seal(&mut self) {
        if !self.has_ro_compat(ro_compat::METADATA_CSUM) {
            return;
        }
        if self.checksum.get() == 0 {
            self.checksum = self.right_checksum().into();
            return;
        }
        let difference = self.right_checksum() ^ self.checksum.get();
        let columns = FILLERS.get_or_init(|| std::array::from_fn(|bit| filler(1 << bit)));
        let fillers = columns.iter().enumerate().filter(|(bit, _)| difference >> bit & 1 == 1);
        let filler = fillers.fold(self.snapshots[1].get(), |all, (_, filler)| all ^ filler);
        self.snapshots[1] = filler.into();
    }

    /// Where the checksums of the metadata start.
    pub(crate) fn checksum_seed(&self) -> u32 {
        if self.has_incompat(incompat::CSUM_SEED) { self.checksum_seed.get() } else { crc32c(!0, &self.uuid) }
    }
}

/// A group descriptor; without `64bit` its first 32 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct GroupDescriptor {
    pub(crate) block_bitmap_lo: U32,
    pub(crate) inode_bitmap_lo: U32,
    pub(crate) inode_table_lo: U32,
    pub(crate) free_blocks_lo: U16,
    pub(crate) free_inodes_lo: U16,
    pub(crate) used_dirs_lo: U16,
    pub(crate) flags: U16,
    pub(crate) exclude_bitmap_lo: U32,
    pub(crate) block_bitmap_csum_lo: U16,
    pub(crate) inode_bitmap_csum_lo: U16,
    pub(crate) itable_unused_lo: U16,
    pub(crate) checksum: U16,
    pub(crate) block_bitmap_hi: U32,
    pub(crate) inode_bitmap_hi: U32,
    pub(crate) inode_table_hi: U32,
    pub(crate) free_blocks_hi: U16,
    pub(crate) free_inodes_hi: U16,
    pub(crate) used_dirs_hi: U16,
    pub(crate) itable_unused_hi: U16,
    pub(crate) exclude_bitmap_hi: U32,
    pub(crate) block_bitmap_csum_hi: U16,
    pub(crate) inode_bitmap_csum_hi: U16,
    pub(crate) reserved: U32,
}

/// Length of a descriptor with, and without, `64bit`.
pub(crate) const DESCRIPTOR_BYTES: usize = 64;
pub(crate) const OLD_DESCRIPTOR_BYTES: usize = 32;

const _: () = assert!(size_of::<GroupDescriptor>() == DESCRIPTOR_BYTES);

fn wide(lo: U32, hi: U32) -> u64 {
    u64::from(lo.get()) | u64::from(hi.get()) << 32
}

fn split(block: u64) -> (U32, U32) {
    ((block as u32).into(), ((block >> 32) as u32).into())
}

fn wide_count(lo: U16, hi: U16) -> u32 {
    u32::from(lo.get()) | u32::from(hi.get()) << 16
}

fn split_count(count: u32) -> (U16, U16) {
    ((count as u16).into(), ((count >> 16) as u16).into())
}

impl GroupDescriptor {
    /// From its bytes, as many as the file system has for each.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut whole = [0; DESCRIPTOR_BYTES];
        let len = bytes.len().min(DESCRIPTOR_BYTES);
        whole[..len].copy_from_slice(&bytes[..len]);
        Self::read_from_bytes(&whole).expect("the size is right")
    }

    pub(crate) fn block_bitmap(&self) -> u64 {
        wide(self.block_bitmap_lo, self.block_bitmap_hi)
    }

    pub(crate) fn inode_bitmap(&self) -> u64 {
        wide(self.inode_bitmap_lo, self.inode_bitmap_hi)
    }

    pub(crate) fn inode_table(&self) -> u64 {
        wide(self.inode_table_lo, self.inode_table_hi)
    }

    pub(crate) fn free_blocks(&self) -> u32 {
        wide_count(self.free_blocks_lo, self.free_blocks_hi)
    }

    pub(crate) fn free_inodes(&self) -> u32 {
        wide_count(self.free_inodes_lo, self.free_inodes_hi)
    }

    pub(crate) fn used_dirs(&self) -> u32 {
        wide_count(self.used_dirs_lo, self.used_dirs_hi)
    }

    pub(crate) fn itable_unused(&self) -> u32 {
        wide_count(self.itable_unused_lo, self.itable_unused_hi)
    }

    pub(crate) fn set_block_bitmap(&mut self, block: u64) {
        (self.block_bitmap_lo, self.block_bitmap_hi) = split(block);
    }

    pub(crate) fn set_inode_bitmap(&mut self, block: u64) {
        (self.inode_bitmap_lo, self.inode_bitmap_hi) = split(block);
    }

    pub(crate) fn set_inode_table(&mut self, block: u64) {
        (self.inode_table_lo, self.inode_table_hi) = split(block);
    }

    pub(crate) fn set_free_blocks(&mut self, count: u32) {
        (self.free_blocks_lo, self.free_blocks_hi) = split_count(count);
    }

    pub(crate) fn set_free_inodes(&mut self, count: u32) {
        (self.free_inodes_lo, self.free_inodes_hi) = split_count(count);
    }

    pub(crate) fn set_used_dirs(&mut self, count: u32) {
        (self.used_dirs_lo, self.used_dirs_hi) = split_count(count);
    }

    pub(crate) fn set_itable_unused(&mut self, count: u32) {
        (self.itable_unused_lo, self.itable_unused_hi) = split_count(count);
    }

    pub(crate) fn block_bitmap_csum(&self) -> u32 {
        wide_count(self.block_bitmap_csum_lo, self.block_bitmap_csum_hi)
    }

    pub(crate) fn inode_bitmap_csum(&self) -> u32 {
        wide_count(self.inode_bitmap_csum_lo, self.inode_bitmap_csum_hi)
    }

    pub(crate) fn set_block_bitmap_csum(&mut self, csum: u32) {
        (self.block_bitmap_csum_lo, self.block_bitmap_csum_hi) = split_count(csum);
    }

    pub(crate) fn set_inode_bitmap_csum(&mut self, csum: u32) {
        (self.inode_bitmap_csum_lo, self.inode_bitmap_csum_hi) = split_count(csum);
    }

    pub(crate) fn has(&self, flag: u16) -> bool {
        self.flags.get() & flag != 0
    }

    pub(crate) fn clear(&mut self, flag: u16) {
        self.flags = (self.flags.get() & !flag).into();
    }
}

/// The first 160 bytes of an inode. One of 128 bytes ends before `extra_isize`.
#[derive(Clone, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawInode {
    pub(crate) mode: U16,
    pub(crate) uid_lo: U16,
    pub(crate) size_lo: U32,
    pub(crate) atime: U32,
    pub(crate) ctime: U32,
    pub(crate) mtime: U32,
    pub(crate) dtime: U32,
    pub(crate) gid_lo: U16,
    pub(crate) links: U16,
    pub(crate) blocks_lo: U32,
    pub(crate) flags: U32,
    pub(crate) version_lo: U32,
    pub(crate) block: [u8; 60],
    pub(crate) generation: U32,
    pub(crate) file_acl_lo: U32,
    pub(crate) size_hi: U32,
    pub(crate) obsolete_fragment: U32,
    pub(crate) blocks_hi: U16,
    pub(crate) file_acl_hi: U16,
    pub(crate) uid_hi: U16,
    pub(crate) gid_hi: U16,
    pub(crate) checksum_lo: U16,
    pub(crate) reserved: U16,
    pub(crate) extra_isize: U16,
    pub(crate) checksum_hi: U16,
    pub(crate) ctime_extra: U32,
    pub(crate) mtime_extra: U32,
    pub(crate) atime_extra: U32,
    pub(crate) crtime: U32,
    pub(crate) crtime_extra: U32,
    pub(crate) version_hi: U32,
    pub(crate) projid: U32,
}

/// Length of [`RawInode`].
pub(crate) const RAW_INODE_BYTES: usize = 160;
/// `i_extra_isize` of a new inode: all fields of [`RawInode`].
pub(crate) const EXTRA_ISIZE: u16 = (RAW_INODE_BYTES - OLD_INODE_BYTES) as u16;

const _: () = assert!(size_of::<RawInode>() == RAW_INODE_BYTES);

impl RawInode {
    /// All zero.
    pub(crate) fn zero() -> Self {
        Self::read_from_bytes(&[0; RAW_INODE_BYTES]).expect("the size is right")
    }

    pub(crate) fn kind(&self) -> Option<FileKind> {
        FileKind::from_mode(u32::from(self.mode.get()))
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.kind() == Some(FileKind::Directory)
    }

    pub(crate) fn is_regular(&self) -> bool {
        self.kind() == Some(FileKind::Regular)
    }

    pub(crate) fn has(&self, flag: u32) -> bool {
        self.flags.get() & flag != 0
    }

    pub(crate) fn size(&self) -> u64 {
        // The upper half is the size's for regular files; directories may use it with large_dir, which is not known here.
        let hi = if self.is_regular() { self.size_hi.get() } else { 0 };
        u64::from(self.size_lo.get()) | u64::from(hi) << 32
    }

    pub(crate) fn set_size(&mut self, size: u64) {
        self.size_lo = (size as u32).into();
        if self.is_regular() {
            self.size_hi = ((size >> 32) as u32).into();
        }
    }

    pub(crate) fn file_acl(&self) -> u64 {
        u64::from(self.file_acl_lo.get()) | u64::from(self.file_acl_hi.get()) << 32
    }

    pub(crate) fn set_file_acl(&mut self, block: u64) {
        self.file_acl_lo = (block as u32).into();
        self.file_acl_hi = ((block >> 32) as u16).into();
    }

    pub(crate) fn uid(&self) -> u32 {
        wide_count(self.uid_lo, self.uid_hi)
    }

    pub(crate) fn gid(&self) -> u32 {
        wide_count(self.gid_lo, self.gid_hi)
    }

    pub(crate) fn set_owner(&mut self, uid: u32, gid: u32) {
        (self.uid_lo, self.uid_hi) = split_count(uid);
        (self.gid_lo, self.gid_hi) = split_count(gid);
    }

    /// Whether the inode has the extra field that ends at byte `end` of it.
    pub(crate) fn has_extra(&self, end: usize) -> bool {
        OLD_INODE_BYTES + usize::from(self.extra_isize.get()) >= end
    }

    pub(crate) fn atime(&self) -> Timestamp {
        decode_time(self.atime, self.atime_extra, self.has_extra(0x90))
    }

    pub(crate) fn mtime(&self) -> Timestamp {
        decode_time(self.mtime, self.mtime_extra, self.has_extra(0x8c))
    }

    pub(crate) fn ctime(&self) -> Timestamp {
        decode_time(self.ctime, self.ctime_extra, self.has_extra(0x88))
    }

    pub(crate) fn set_atime(&mut self, time: Timestamp) {
        let extra = self.has_extra(0x90);
        encode_time(&mut self.atime, &mut self.atime_extra, extra, time);
    }

    pub(crate) fn set_mtime(&mut self, time: Timestamp) {
        let extra = self.has_extra(0x8c);
        encode_time(&mut self.mtime, &mut self.mtime_extra, extra, time);
    }

    pub(crate) fn set_ctime(&mut self, time: Timestamp) {
        let extra = self.has_extra(0x88);
        encode_time(&mut self.ctime, &mut self.ctime_extra, extra, time);
    }

    pub(crate) fn set_crtime(&mut self, time: Timestamp) {
        if self.has_extra(0x98) {
            encode_time(&mut self.crtime, &mut self.crtime_extra, true, time);
        }
    }
}

impl RawInode {
    /// When it was made, where there is room for that.
    pub(crate) fn crtime(&self) -> Option<Timestamp> {
        self.has_extra(0x98).then(|| decode_time(self.crtime, self.crtime_extra, true))
    }
}

/// Two bits of the extra word extend the seconds beyond 2038, the others are nanoseconds.
fn decode_time(time: U32, extra: U32, has_extra: bool) -> Timestamp {
    let secs = i64::from(time.get().cast_signed());
    if !has_extra {
        return Timestamp { secs, nanos: 0 };
    }
    let (epoch, nanos) = (extra.get() & 3, extra.get() >> 2);
    Timestamp { secs: secs + (i64::from(epoch) << 32), nanos: nanos.min(999_999_999) }
}

fn encode_time(time: &mut U32, extra: &mut U32, has_extra: bool, value: Timestamp) {
    // What 34 bits cannot hold becomes the nearest that they can; without the extra word it is 32 bits.
    let most = if has_extra { (3_i64 << 32) + i64::from(i32::MAX) } else { i64::from(i32::MAX) };
    let secs = value.secs.clamp(i64::from(i32::MIN), most);
    *time = (secs as u32).into();
    if has_extra {
        let epoch = ((secs - i64::from(secs as i32)) >> 32) as u32 & 3;
        *extra = (epoch | value.nanos << 2).into();
    }
}

/// The kind of an inode in a directory entry.
pub(crate) fn entry_kind(kind: FileKind) -> u8 {
    match kind {
        FileKind::Regular => 1,
        FileKind::Directory => 2,
        FileKind::CharDevice => 3,
        FileKind::BlockDevice => 4,
        FileKind::Fifo => 5,
        FileKind::Socket => 6,
        FileKind::Symlink => 7,
    }
}

/// The kind that a directory entry says.
pub(crate) fn kind_of_entry(byte: u8) -> Option<FileKind> {
    Some(match byte {
        1 => FileKind::Regular,
        2 => FileKind::Directory,
        3 => FileKind::CharDevice,
        4 => FileKind::BlockDevice,
        5 => FileKind::Fifo,
        6 => FileKind::Socket,
        7 => FileKind::Symlink,
        _ => return None,
    })
}

/// CRC-32C as the kernel computes it: no inversion at either end.
pub(crate) fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    !base::persist::checksum::crc32c_append(!seed, bytes)
}

/// Little-endian words of a block. The caller has checked that they are inside.
pub(crate) fn le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_34_bits_of_seconds() {
        let mut inode = RawInode::zero();
        inode.extra_isize = EXTRA_ISIZE.into();
        for secs in [0, -1, i64::from(i32::MIN), 1 << 31, (1 << 32) + 5, (3 << 32) - 7, (3 << 32) + 9] {
            let time = Timestamp { secs, nanos: 123_456_789 };
            inode.set_mtime(time);
            assert_eq!(inode.mtime(), time);
        }
    }

    #[test]
    fn the_checksum_is_that_of_the_kernel() {
        assert_eq!(!crc32c(!0, b"123456789"), 0xe306_9283);
    }

    #[test]
    fn a_superblock_that_changes_keeps_its_second_sector() {
        let mut superblock = Superblock::read_from_bytes(&[0; SUPERBLOCK_BYTES]).expect("the size is right");
        superblock.feature_ro_compat = ro_compat::METADATA_CSUM.into();
        superblock.seal();
        let second = superblock.as_bytes()[512..].to_vec();
        for time in [1, 77, u32::MAX] {
            (superblock.mtime, superblock.last_orphan) = (time.into(), (!time).into());
            superblock.seal();
            assert_eq!(superblock.checksum.get(), superblock.right_checksum());
            assert_eq!(superblock.as_bytes()[512..], second);
        }
    }
}
