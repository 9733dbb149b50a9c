//! Feature flags that an image gets when it first needs them, as in Linux.
//!
//! | flag | set by | without it |
//! |---|---|---|
//! | `ext_attr` | the first change of an attribute (Linux: `ext4_xattr_update_super_block`) | e2fsck drops blocks of attributes |
//! | `large_file` | the first file of 2 GiB (Linux: `ext4_do_update_inode`) | e2fsck sets it, and calls the image changed |
//!
//! Linux does not set these itself, and neither does Weir: `dir_nlink` (a directory without it has 65,000 links at most),
//! `huge_file` (a file without it has 2 TiB at most), `extra_isize` (needed by no inode).

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::Volume;
use super::journal::Handle;
use super::layout::{FIRST_INO, OLD_INODE_BYTES, Superblock, compat, ro_compat};
use base::error::Result;

/// The largest file without `large_file`, in bytes.
const MOST_SMALL_BYTES: u64 = 0x7fff_ffff;

/// The flags that the superblock has.
pub(crate) struct Features {
    ext_attr: AtomicBool,
    large_file: AtomicBool,
}

impl Features {
    pub(crate) fn of(superblock: &Superblock) -> Self {
        // An image of the first revision has inodes of the size that it needs, and says so when it gets a large file.
        let large_file = superblock.has_ro_compat(ro_compat::LARGE_FILE) && superblock.rev_level.get() > 0;
        Self { ext_attr: superblock.has_compat(compat::EXT_ATTR).into(), large_file: large_file.into() }
    }
}

impl Volume {
    /// An attribute was changed.
    pub(crate) fn use_attributes(&self, handle: &Handle<'_>) -> Result<()> {
        if self.features.ext_attr.swap(true, Relaxed) {
            return Ok(());
        }
        self.change_superblock(handle, |superblock| {
            superblock.feature_compat = (superblock.feature_compat.get() | compat::EXT_ATTR).into();
        })
    }

    /// A file has this size.
    pub(crate) fn use_size(&self, handle: &Handle<'_>, size: u64) -> Result<()> {
        if size <= MOST_SMALL_BYTES || self.features.large_file.swap(true, Relaxed) {
            return Ok(());
        }
        self.change_superblock(handle, |superblock| {
            let features = superblock.feature_ro_compat.get() | ro_compat::LARGE_FILE;
            superblock.feature_ro_compat = features.into();
            // The first revision has no words of features (Linux: `ext4_update_dynamic_rev`).
            if superblock.rev_level.get() == 0 {
                superblock.rev_level = 1.into();
                superblock.first_ino = FIRST_INO.into();
                superblock.inode_size = (OLD_INODE_BYTES as u16).into();
            }
        })
    }
}
