//! Attributes of an inode for readers that do not lock it, in the space of a cache line.

use std::num::NonZeroU32;

use vfs::{Attr, FileKind, Ino, Owner};

use super::layout::{BLOCK, pack, unpack};

/// Attributes without what all inodes have in common, or follows from the rest; times are packed.
#[derive(Clone, Copy)]
pub(super) struct UnlockedAttr {
    size: u64,
    blocks: u64,
    pub(super) atime: u64,
    mtime: u64,
    ctime: u64,
    mode: NonZeroU32,
    nlink: u32,
    uid: u32,
    gid: u32,
    rdev: u32,
    generation: u32,
}

impl UnlockedAttr {
    /// None for a device number that does not fit.
    pub(super) fn of(attr: &Attr) -> Option<Self> {
        Some(Self {
            size: attr.size,
            blocks: attr.blocks,
            atime: pack(attr.atime),
            mtime: pack(attr.mtime),
            ctime: pack(attr.ctime),
            mode: NonZeroU32::new(attr.kind.mode_bits() | attr.perm)?,
            nlink: attr.nlink,
            uid: attr.owner.uid,
            gid: attr.owner.gid,
            rdev: u32::try_from(attr.rdev).ok()?,
            generation: attr.generation,
        })
    }

    pub(super) fn attr(&self, ino: u64) -> Option<Attr> {
        Some(Attr {
            ino: Ino(ino),
            kind: FileKind::from_mode(self.mode.get())?,
            perm: self.mode.get() & 0o7777,
            nlink: self.nlink,
            owner: Owner { uid: self.uid, gid: self.gid },
            rdev: u64::from(self.rdev),
            size: self.size,
            blocks: self.blocks,
            blksize: BLOCK as u32,
            atime: unpack(self.atime),
            mtime: unpack(self.mtime),
            ctime: unpack(self.ctime),
            generation: self.generation,
        })
    }
}
