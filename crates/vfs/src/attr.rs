//! The attributes of an inode.

use sim::{Clock, Nanos};

/// An inode number. The design chooses what it encodes; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ino(pub u64);

impl std::fmt::Display for Ino {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The kind of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // POSIX's words
pub enum FileKind {
    Regular,
    Directory,
    Symlink,
    CharDevice,
    BlockDevice,
    Fifo,
    Socket,
}

impl FileKind {
    /// The kind's bits in `st_mode`.
    pub const fn mode_bits(self) -> u32 {
        match self {
            Self::Fifo => 0o010_000,
            Self::CharDevice => 0o020_000,
            Self::Directory => 0o040_000,
            Self::BlockDevice => 0o060_000,
            Self::Regular => 0o100_000,
            Self::Symlink => 0o120_000,
            Self::Socket => 0o140_000,
        }
    }

    /// The kind in the bits of an `st_mode`; none when they are not one of POSIX's.
    pub const fn from_mode(mode: u32) -> Option<Self> {
        Some(match mode & 0o170_000 {
            0o010_000 => Self::Fifo,
            0o020_000 => Self::CharDevice,
            0o040_000 => Self::Directory,
            0o060_000 => Self::BlockDevice,
            0o100_000 => Self::Regular,
            0o120_000 => Self::Symlink,
            0o140_000 => Self::Socket,
            _ => return None,
        })
    }
}

/// A point in calendar time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub secs: i64,
    /// Nanoseconds of the second.
    pub nanos: u32,
}

/// Virtual runs begin at this second of calendar time.
const VIRTUAL_EPOCH_SECS: i64 = 1_700_000_000;

impl Timestamp {
    /// Now: the calendar, or under the virtual clock a fixed epoch plus the task's time.
    pub fn now() -> Self {
        match sim::clock() {
            Clock::Virtual => Self::at(sim::now()),
            Clock::Real => {
                let time = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
                Self { secs: time.tv_sec, nanos: time.tv_nsec as u32 }
            }
        }
    }

    fn at(virtual_time: Nanos) -> Self {
        let (secs, nanos) = (virtual_time.0 / 1_000_000_000, virtual_time.0 % 1_000_000_000);
        Self { secs: VIRTUAL_EPOCH_SECS + secs.cast_signed(), nanos: nanos as u32 }
    }
}

/// User and group of an inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// The attributes of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Its number.
    pub ino: Ino,
    /// Its kind.
    pub kind: FileKind,
    /// Permission, set-id and sticky bits (`0o7777`).
    pub perm: u32,
    /// Links.
    pub nlink: u32,
    /// Owner.
    pub owner: Owner,
    /// Device number of a device node.
    pub rdev: u64,
    /// Size in bytes.
    pub size: u64,
    /// Space taken, in units of 512 bytes, as `st_blocks`.
    pub blocks: u64,
    /// Preferred I/O size in bytes, as `st_blksize`.
    pub blksize: u32,
    /// Last access.
    pub atime: Timestamp,
    /// Last change of data.
    pub mtime: Timestamp,
    /// Last change of attributes.
    pub ctime: Timestamp,
    /// Distinguishes successive inodes of one number.
    pub generation: u32,
}

/// What a new inode starts with. `vfs` has applied the umask and the set-group-id rule of the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewInode {
    /// Permission bits.
    pub perm: u32,
    /// Owner.
    pub owner: Owner,
}

/// A new value for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The present.
    Now,
    /// A given time.
    To(Timestamp),
}

/// Attributes to change; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission bits.
    pub perm: Option<u32>,
    /// User.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size: truncates or extends with a hole.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<SetTime>,
    /// Last change of data.
    pub mtime: Option<SetTime>,
}

/// A name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// The inode it leads to.
    pub ino: Ino,
    /// Its kind, when the directory knows it without reading the inode.
    pub kind: Option<FileKind>,
    /// The name.
    pub name: &'a [u8],
    /// Where to continue after this entry.
    pub next: u64,
}

/// Space of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatFs {
    /// The unit of the counts of blocks below, in bytes, as `f_frsize`.
    pub frsize: u32,
    /// Blocks in all.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// Inodes in all.
    pub files: u64,
    /// Free inodes.
    pub files_free: u64,
    /// Longest name in bytes.
    pub name_max: u32,
}

/// A run of a file that lies on the device in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileExtent {
    /// The first byte of the file.
    pub offset: u64,
    /// The first byte on the device.
    pub physical: u64,
    /// Length in bytes.
    pub len: u64,
    /// It reads as zeros until it is written.
    pub unwritten: bool,
}
