//! Fields of the superblock that follow from others: what a check tells of them, and a repair corrects. Those without which nothing
//! can be read, [`super::superblock::Geo`] judges, too, so that no mount takes them.

use super::layout::{FIRST_INO, OLD_INODE_BYTES, Superblock, compat, incompat, ro_compat};

/// Largest descriptor (`EXT2_MAX_DESC_SIZE`), and the most groups that bitmaps lie together of, as a power of two.
const MOST_DESCRIPTOR_BYTES: u16 = 1024;
const MOST_FLEX: u8 = 31;

/// What a field is, and what it should be; sets it.
struct Fields(Vec<String>);

impl Fields {
    fn right(&mut self, name: &str, is: u64, should: u64) -> u64 {
        if is != should {
            self.0.push(format!("{name} is {is}, should be {should}"));
        }
        should
    }
}

/// Makes the fields right; what was wrong, in words.
pub(super) fn correct(sb: &mut Superblock) -> Vec<String> {
    let mut fields = Fields(Vec::new());
    let log = sb.log_block_size.get();
    if log > 2 {
        return fields.0;
    }
    correct_revision(sb, &mut fields, 1024 << log);
    if !sb.has_incompat(incompat::IS_64BIT) {
        let upper = fields.right("blocks_count_hi", sb.blocks_count_hi.get().into(), 0);
        sb.blocks_count_hi = (upper as u32).into();
    }
    // A journal in the image, or none, has no UUID here; e2fsck looks for one on another device.
    let is_outside = sb.has_compat(compat::HAS_JOURNAL) && sb.journal_inum.get() == 0;
    if !is_outside && sb.journal_uuid != [0; 16] {
        fields.0.push("journal_uuid is there, and no journal on another device".to_owned());
        sb.journal_uuid = [0; 16];
    }
    correct_inodes(sb, &mut fields);
    let first = u64::from(log == 0);
    sb.first_data_block =
        (fields.right("first_data_block", sb.first_data_block.get().into(), first) as u32).into();
    if !sb.has_ro_compat(ro_compat::BIGALLOC) {
        let cluster = fields.right("log_cluster_size", sb.log_cluster_size.get().into(), log.into());
        sb.log_cluster_size = (cluster as u32).into();
        // A mount takes none, too, as the kernel does; e2fsck does not.
        let (is, blocks) = (sb.clusters_per_group.get(), sb.blocks_per_group.get());
        sb.clusters_per_group = (fields.right("clusters_per_group", is.into(), blocks.into()) as u32).into();
    }
    if sb.has_ro_compat(ro_compat::METADATA_CSUM) {
        sb.checksum_type = fields.right("checksum_type", sb.checksum_type.into(), 1) as u8;
    }
    if sb.kept_blocks() > sb.blocks() / 2 {
        let kept = fields.right("r_blocks_count", sb.kept_blocks(), 0);
        sb.set_kept_blocks(kept);
    }
    let desc = sb.desc_size.get();
    let possible = desc == 0 || desc.is_power_of_two() && desc <= MOST_DESCRIPTOR_BYTES;
    if !sb.has_incompat(incompat::IS_64BIT) && !possible {
        sb.desc_size = (fields.right("desc_size", desc.into(), 0) as u16).into();
    }
    if sb.log_groups_per_flex > MOST_FLEX {
        sb.log_groups_per_flex = fields.right("log_groups_per_flex", sb.log_groups_per_flex.into(), 0) as u8;
    }
    if sb.reserved_gdt_blocks.get() != 0 && !sb.has_compat(compat::RESIZE_INODE) {
        let kept = u64::from(sb.reserved_gdt_blocks.get());
        sb.reserved_gdt_blocks = (fields.right("reserved_gdt_blocks", kept, 0) as u16).into();
    }
    let (first, per_group) = (u64::from(sb.first_data_block.get()), u64::from(sb.blocks_per_group.get()));
    if per_group > 0 && sb.blocks() > first {
        let groups = (sb.blocks() - first).div_ceil(per_group);
        let inodes = groups.saturating_mul(sb.inodes_per_group.get().into());
        if u32::try_from(inodes).is_ok() {
            sb.inodes_count =
                (fields.right("inodes_count", sb.inodes_count.get().into(), inodes) as u32).into();
        }
    }
    fields.0
}

/// Inodes that only a feature gives a use.
fn correct_inodes(sb: &mut Superblock, fields: &mut Fields) {
    let waits = sb.has_incompat(incompat::RECOVER);
    if !sb.has_compat(compat::HAS_JOURNAL) && waits && sb.journal_inum.get() == 0 {
        fields.0.push("a journal is to be replayed, and there is none".to_owned());
        sb.feature_incompat = (sb.feature_incompat.get() & !incompat::RECOVER).into();
    }
    if !sb.has_compat(compat::HAS_JOURNAL) && !waits {
        sb.journal_inum = (fields.right("journal_inum", sb.journal_inum.get().into(), 0) as u32).into();
    }
    let has_no_use = !sb.has_compat(compat::HAS_JOURNAL) || sb.orphan_file_inum.get() == 0;
    if sb.has_compat(compat::ORPHAN_FILE) && has_no_use && !waits {
        fields.0.push("there is to be a file of orphans, and no journal or no such file".to_owned());
        sb.feature_compat = (sb.feature_compat.get() & !compat::ORPHAN_FILE).into();
    }
    if !sb.has_compat(compat::ORPHAN_FILE) {
        let orphans = fields.right("orphan_file_inum", sb.orphan_file_inum.get().into(), 0);
        sb.orphan_file_inum = (orphans as u32).into();
    }
    if !sb.has_compat(compat::ORPHAN_FILE) && sb.has_ro_compat(ro_compat::ORPHAN_PRESENT) {
        fields.0.push("a file of orphans is to hold some, and there is no such file".to_owned());
        sb.leave_orphan_file();
    }
    if !sb.has_ro_compat(ro_compat::QUOTA) {
        sb.usr_quota_inum = (fields.right("usr_quota_inum", sb.usr_quota_inum.get().into(), 0) as u32).into();
        sb.grp_quota_inum = (fields.right("grp_quota_inum", sb.grp_quota_inum.get().into(), 0) as u32).into();
        sb.prj_quota_inum = (fields.right("prj_quota_inum", sb.prj_quota_inum.get().into(), 0) as u32).into();
    }
}

/// A superblock of the first revision has no features, no size of inodes and no first inode.
fn correct_revision(sb: &mut Superblock, fields: &mut Fields, block_bytes: u32) {
    let features = sb.feature_compat.get() | sb.feature_incompat.get() | sb.feature_ro_compat.get();
    let (revision, size) = (sb.rev_level.get(), usize::from(sb.inode_size.get()));
    let has_sizes = size.is_power_of_two() && size >= OLD_INODE_BYTES && size <= block_bytes as usize;
    let should = match revision {
        0 if features != 0 && has_sizes => 1,
        0 => 0,
        _ if features == 0 && size == 0 && sb.first_ino.get() == 0 => 0,
        _ => 1,
    };
    sb.rev_level = (fields.right("rev_level", revision.into(), should) as u32).into();
    // Every mke2fs makes it so; inodes that count as reserved would be lost.
    if should > 0 && sb.first_ino.get() != FIRST_INO {
        let first = fields.right("first_ino", sb.first_ino.get().into(), FIRST_INO.into());
        sb.first_ino = (first as u32).into();
    }
}
