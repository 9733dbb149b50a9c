//! Flags of the calls.

use bitflags::bitflags;

use crate::errno::{Errno, Result};

bitflags! {
    /// Flags of `open`. Exactly one of reading, writing or both follows from `READ` and `WRITE`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct OpenFlags: u32 {
        /// Reading is allowed.
        const READ = 1;
        /// Writing is allowed.
        const WRITE = 1 << 1;
        /// Make the file if it is missing.
        const CREATE = 1 << 2;
        /// With `CREATE`: fail if it exists.
        const EXCLUSIVE = 1 << 3;
        /// Cut it to length zero.
        const TRUNCATE = 1 << 4;
        /// Every write goes to the end.
        const APPEND = 1 << 5;
        /// A write returns when data and attributes are durable.
        const SYNC = 1 << 6;
        /// A write returns when data, and what is needed to read it, is durable.
        const DSYNC = 1 << 7;
        /// Bypass caches.
        const DIRECT = 1 << 8;
        /// Fail unless it is a directory.
        const DIRECTORY = 1 << 9;
        /// Do not follow a symbolic link at the end of the path.
        const NOFOLLOW = 1 << 10;
        /// Do not update the access time.
        const NOATIME = 1 << 11;
        /// An unnamed file in the directory that the path names.
        const TMPFILE = 1 << 12;
        /// Only a reference to the inode: no reading or writing.
        const PATH = 1 << 13;
    }

    /// How one read or write is to be done.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct IoFlags: u32 {
        /// Durable on return, with attributes.
        const SYNC = 1;
        /// Durable on return, with what is needed to read it.
        const DSYNC = 1 << 1;
        /// Bypass caches.
        const DIRECT = 1 << 2;
        /// Write at the end, wherever that is when the file is locked; the given offset is ignored.
        const APPEND = 1 << 3;
    }

    /// Flags of `renameat2`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct RenameFlags: u32 {
        /// Fail if the new name exists.
        const NOREPLACE = 1;
        /// Exchange the two names; both must exist.
        const EXCHANGE = 1 << 1;
        /// Leave a whiteout in the place of the old name ([`Renaming::whiteout`](crate::Renaming::whiteout)).
        const WHITEOUT = 1 << 2;
    }

    /// Flags of an inode that chattr(1) sets, in Linux's numbers (`FS_IOC_GETFLAGS`). A design may have others.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct InodeFlags: u32 {
        /// Every change is durable when it returns (`S`).
        const SYNC = 1 << 3;
        /// Nothing of it may change, and its names stay (`i`).
        const IMMUTABLE = 1 << 4;
        /// It may only grow (`a`).
        const APPEND = 1 << 5;
        /// dump(8) passes over it (`d`).
        const NODUMP = 1 << 6;
        /// Reading does not set its access time (`A`).
        const NOATIME = 1 << 7;
    }

    /// What a program may do with a mapping.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Protection: u32 {
        /// Load from it.
        const READ = 1;
        /// Store to it; as on x86, one that may be stored to may be loaded from.
        const WRITE = 1 << 1;
    }

    /// Mode of `fallocate`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct FallocateMode: u32 {
        /// Leave the size as it is.
        const KEEP_SIZE = 1;
        /// Free the range; it reads as zeros. Needs `KEEP_SIZE`.
        const PUNCH_HOLE = 1 << 1;
        /// Make the range read as zeros, allocated.
        const ZERO_RANGE = 1 << 4;
    }
}

impl FallocateMode {
    /// Checks that the mode can be, for a range of `len` bytes. `EINVAL` for an empty range, `EOPNOTSUPP` for a hole that changes
    /// the size or is zeroed in place.
    pub fn check(self, len: u64) -> Result<()> {
        match self.contains(Self::PUNCH_HOLE) {
            _ if len == 0 => Err(Errno::EINVAL),
            true if !self.contains(Self::KEEP_SIZE) || self.contains(Self::ZERO_RANGE) => {
                Err(Errno::EOPNOTSUPP)
            }
            _ => Ok(()),
        }
    }
}

impl OpenFlags {
    /// The part of the flags that matters to each read and write.
    pub fn io(self) -> IoFlags {
        let pairs = [
            (Self::SYNC, IoFlags::SYNC),
            (Self::DSYNC, IoFlags::DSYNC),
            (Self::DIRECT, IoFlags::DIRECT),
            (Self::APPEND, IoFlags::APPEND),
        ];
        pairs.into_iter().filter(|(open, _)| self.contains(*open)).map(|(_, io)| io).collect()
    }
}

/// Where the stores of a mapping go, and so what a crash leaves of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MappingKind {
    /// The file system decides: its design, or an option of its mount.
    #[default]
    AsMounted,
    /// To the medium itself (Linux: `MAP_SYNC`). A crash leaves each word that was not synced old or new.
    Direct,
    /// To memory. A sync makes what was stored to all pages of the call durable, or nothing of it.
    Atomic,
}

/// What an inode-level seek looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTo {
    /// The next byte that is not in a hole.
    Data,
    /// The next hole; the end of the file is one.
    Hole,
}

impl SeekTo {
    /// Where it leads from `offset` in a file of `size` bytes that has no hole but its end. `ENXIO` at or beyond the end.
    pub fn without_holes(self, size: u64, offset: u64) -> Result<u64> {
        match self {
            _ if offset >= size => Err(Errno::ENXIO),
            Self::Data => Ok(offset),
            Self::Hole => Ok(size),
        }
    }
}

/// From where `lseek` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// The beginning.
    Set,
    /// The current offset.
    Current,
    /// The end.
    End,
    /// See [`SeekTo`].
    Find(SeekTo),
}

/// Whether an extended attribute must, may or must not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XattrMode {
    /// Either.
    #[default]
    Set,
    /// It must not exist.
    Create,
    /// It must exist.
    Replace,
}
