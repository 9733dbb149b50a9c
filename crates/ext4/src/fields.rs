//! Fields of an inode that follow from others: what e2fsck corrects of them, in a check and in a repair.

use ::vfs::FileKind;

use super::Volume;
use super::layout::{FIRST_INO, OLD_INODE_BYTES, RawInode, compat, flag, incompat, le16, ro_compat};

/// `EXT2_IMAGIC_FL`, of AFS servers: no kernel sets it.
const IMAGIC: u32 = 0x2000;
/// `EXT4_CASEFOLD_FL`: an image with that feature is refused.
pub(super) const CASEFOLD: u32 = 0x4000_0000;
const EXTENT_MAGIC: u16 = 0xf30a;
/// A regular file of this size needs the feature `large_file`.
const LARGE: u64 = 1 << 31;

/// Makes the fields right; what was wrong, in words.
pub(super) fn correct(volume: &Volume, raw: &mut RawInode) -> Vec<&'static str> {
    let wide = volume.superblock.lock().has_incompat(incompat::IS_64BIT);
    let kind = raw.kind();
    let is_file = matches!(kind, Some(FileKind::Regular | FileKind::Directory) | None);
    let is_node = !is_file && kind != Some(FileKind::Symlink);
    let mut wrong = Vec::new();
    if lacks_extents(volume, raw) {
        raw.flags = (raw.flags.get() | flag::EXTENTS).into();
        wrong.push("its map is one of extents, and it lacks the flag of extents");
    }
    let mut drop_flags = |raw: &mut RawInode, flags: u32, what: &'static str| {
        if raw.has(flags) {
            raw.flags = (raw.flags.get() & !flags).into();
            wrong.push(what);
        }
    };
    drop_flags(raw, IMAGIC, "it has a flag of AFS");
    if !is_file {
        drop_flags(raw, flag::IMMUTABLE | flag::APPEND, "a link or special file is immutable or append-only");
    }
    if is_node {
        drop_flags(raw, flag::EXTENTS | flag::INDEX, "a special file has the flag of extents or of an index");
    }
    let has_extents = le16(&raw.block, 0) == EXTENT_MAGIC;
    if kind == Some(FileKind::Symlink) && raw.size() < raw.block.len() as u64 && !has_extents {
        drop_flags(raw, flag::EXTENTS, "a link in its inode has the flag of extents");
    }
    if is_node && (raw.size_lo.get() != 0 || raw.size_hi.get() != 0) {
        (raw.size_lo, raw.size_hi) = (0.into(), 0.into());
        wrong.push("a special file has a size");
    }
    if !raw.is_regular() && raw.size_hi.get() != 0 {
        raw.size_hi = 0.into();
        wrong.push("its size has an upper half");
    }
    if raw.obsolete_fragment.get() != 0 {
        raw.obsolete_fragment = 0.into();
        wrong.push("it has a fragment");
    }
    if raw.file_acl_hi.get() != 0 && !wide {
        raw.file_acl_hi = 0.into();
        wrong.push("its block of attributes has an upper half");
    }
    wrong.extend(drop_casefold(raw));
    wrong
}

/// Whether an inode lacks the flag of extents though its map begins as a tree of extents does: e2fsck sets it (links: where the
/// target does not lie in the inode).
fn lacks_extents(volume: &Volume, raw: &RawInode) -> bool {
    let has_map = match raw.kind() {
        Some(FileKind::Regular | FileKind::Directory) => true,
        Some(FileKind::Symlink) => raw.size() >= raw.block.len() as u64,
        _ => false,
    };
    let [entries, most, depth] = [2, 4, 6].map(|at| le16(&raw.block, at));
    has_map
        && volume.geo.extents
        && !raw.has(flag::EXTENTS)
        && raw.links.get() > 0
        && le16(&raw.block, 0) == EXTENT_MAGIC
        && (2..=4).contains(&most)
        && entries <= most
        && depth <= 5
}

/// Drops a flag that only directories of an image with that feature have; what was wrong.
pub(super) fn drop_casefold(raw: &mut RawInode) -> Option<&'static str> {
    let has = raw.has(CASEFOLD);
    raw.flags = (raw.flags.get() & !CASEFOLD).into();
    has.then_some("it has the flag of casefold, which is no feature of the image")
}

/// Whether the size of a regular file is more than its map can reach.
pub(super) fn is_too_large(volume: &Volume, raw: &RawInode) -> bool {
    let block_bytes = u64::from(volume.geo.block_bytes);
    let pointers = block_bytes / 4;
    let most = match raw.has(flag::EXTENTS) {
        true => block_bytes << 32,
        false => (12 + pointers + pointers.pow(2) + pointers.pow(3)) * block_bytes,
    };
    raw.is_regular() && raw.size() >= most
}

/// Features that an inode needs: bits of `compat`, `incompat` and `ro_compat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Needed {
    compat: u32,
    incompat: u32,
    ro_compat: u32,
}

impl Needed {
    /// Those of an inode in use.
    pub(super) fn by(raw: &RawInode) -> Self {
        let when = |needs: bool, feature: u32| if needs { feature } else { 0 };
        Self {
            compat: when(raw.file_acl() != 0, compat::EXT_ATTR),
            incompat: when(raw.has(flag::EXTENTS), incompat::EXTENTS),
            ro_compat: when(raw.is_regular() && raw.size() >= LARGE, ro_compat::LARGE_FILE),
        }
    }

    /// A directory with more subdirectories than links can count.
    pub(super) fn many_links() -> Self {
        Self { ro_compat: ro_compat::DIR_NLINK, ..Self::default() }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.compat |= other.compat;
        self.incompat |= other.incompat;
        self.ro_compat |= other.ro_compat;
    }

    /// The names of those that the superblock does not say.
    pub(super) fn missing(self, volume: &Volume) -> Vec<&'static str> {
        let superblock = volume.superblock.lock();
        let names = [
            (self.compat & !superblock.feature_compat.get(), compat::EXT_ATTR, "ext_attr"),
            (self.incompat & !superblock.feature_incompat.get(), incompat::EXTENTS, "extents"),
            (self.ro_compat & !superblock.feature_ro_compat.get(), ro_compat::LARGE_FILE, "large_file"),
            (self.ro_compat & !superblock.feature_ro_compat.get(), ro_compat::DIR_NLINK, "dir_nlink"),
        ];
        names.into_iter().filter(|(missing, bit, _)| missing & bit != 0).map(|(.., name)| name).collect()
    }

    /// Says them in the superblock, which the caller writes.
    pub(super) fn set(self, volume: &Volume) {
        let mut superblock = volume.superblock.lock();
        // A superblock of the first revision says no features.
        if superblock.rev_level.get() == 0 {
            superblock.rev_level = 1.into();
            superblock.first_ino = FIRST_INO.into();
            superblock.inode_size = (OLD_INODE_BYTES as u16).into();
        }
        superblock.feature_compat = (superblock.feature_compat.get() | self.compat).into();
        superblock.feature_incompat = (superblock.feature_incompat.get() | self.incompat).into();
        superblock.feature_ro_compat = (superblock.feature_ro_compat.get() | self.ro_compat).into();
    }
}
