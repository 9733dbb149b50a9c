//! The format: superblock, bitmaps, containers and the four kinds of packages. All numbers are little endian.
//!
//! ```text
//! block 0     1      2 …                                  …
//! superblock  copy   bitmaps ATTR, UNLINK, CREATE, DATA   blocks: each holds data, or is a container of packages
//! ```
//!
//! A bitmap has one bit for each block of the device. A set bit makes its block a container of packages of that kind.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of a block.
pub const BLOCK: u64 = 4096;
/// Bytes of a unit, the smallest package: one line.
pub const UNIT: u64 = 64;
/// "WEIRWOFS".
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"WEIRWOFS");
/// The version that this code writes and reads.
pub(crate) const VERSION: u32 = 1;
/// The first byte of every package.
pub(crate) const PACKAGE_MAGIC: u8 = 0xB7;
/// Longest name in bytes.
pub const NAME_MAX: usize = 91;
/// Number of the root directory.
pub const ROOT: u32 = 1;
/// Inode numbers there are, at most.
pub(crate) const INODES_MAX: u32 = 1 << 20;
/// Names of an inode, at most; also links of a directory.
pub(crate) const LINKS_MAX: u32 = 32_000;
/// Where the word of the last unmount lies.
pub(crate) const SAVED: u64 = 64;
/// Containers that `mkfs` makes, one of each kind. They stay containers, so that a full device can still remove names.
pub(crate) const PINNED: u64 = 4;
/// Largest file in bytes: numbers of blocks have 32 bits.
pub(crate) const FILE_MAX: u64 = u32::MAX as u64 * BLOCK;
/// Packages that one write may consist of.
pub(crate) const PIECES_MAX: usize = u16::MAX as usize;

/// Kinds of packages, in the order of their bitmaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// All attributes of an inode, its size among them.
    Attr,
    /// A name is gone.
    Unlink,
    /// A name, with the inode that it leads to.
    Create,
    /// Blocks of a file.
    Data,
}

impl Kind {
    /// All of them, in the order of their bitmaps.
    pub const ALL: [Self; 4] = [Self::Attr, Self::Unlink, Self::Create, Self::Data];

    /// Its place among the bitmaps.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Bytes of a package.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Create => 4 * UNIT,
            _ => UNIT,
        }
    }

    /// The places for packages in a container.
    pub(crate) fn places(self, block: u64) -> impl Iterator<Item = u64> {
        let (start, bytes) = (block * BLOCK, self.bytes());
        (0..BLOCK / bytes).map(move |place| start + place * bytes)
    }
}

/// In blocks 0 and 1.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Superblock {
    pub(crate) magic: u64,
    pub(crate) version: u32,
    /// CRC-32C of the superblock with this field zero.
    pub(crate) crc: u32,
    /// Bytes of the region.
    pub(crate) size: u64,
    pub(crate) zero: [u64; 5],
}

/// Every package begins with it.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Head {
    pub(crate) magic: u8,
    pub(crate) kind: u8,
    /// Of a CREATE and an UNLINK: [`RENAME`]; of an ATTR: the permission bits.
    pub(crate) flags: u16,
    /// CRC-32C of the package with this field, and the patched size of a DATA, zero.
    pub(crate) crc: u32,
    /// The number of the package: one counter for all.
    pub(crate) vtail: u64,
}

/// Flag of a CREATE and an UNLINK: the package belongs to a rename.
pub(crate) const RENAME: u16 = 1;

/// A CREATE: 256 bytes, one line of the medium that WOFS was made for.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RawCreate {
    pub(crate) head: Head,
    pub(crate) rdev: u64,
    pub(crate) ino: u32,
    pub(crate) birth: u32,
    pub(crate) parent: u32,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) atime: u64,
    pub(crate) mtime: u64,
    pub(crate) ctime: u64,
    /// When the names of the parent changed.
    pub(crate) changed: u64,
    pub(crate) name_len: u8,
    pub(crate) name: [u8; NAME_MAX],
    pub(crate) zero: [u8; 84],
}

/// An UNLINK.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RawUnlink {
    pub(crate) head: Head,
    /// Where the CREATE lies that it hides.
    pub(crate) hides: u64,
    pub(crate) ino: u32,
    pub(crate) birth: u32,
    pub(crate) changed: u64,
    /// Of a rename: where its CREATE lies.
    pub(crate) mate: u64,
    /// Of a rename: the number of its CREATE.
    pub(crate) mate_vtail: u64,
    pub(crate) parent: u32,
    pub(crate) zero: u32,
}

/// A DATA.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RawData {
    pub(crate) head: Head,
    /// The patched size in 48 bits, above them the low 16 bits of the package's number; zero: none. Outside the checksum, and
    /// before the last word that the checksum covers.
    pub(crate) patch: u64,
    pub(crate) ino: u32,
    pub(crate) birth: u32,
    pub(crate) time: u64,
    /// Size of the file after the write.
    pub(crate) size: u64,
    /// First block of the file.
    pub(crate) first: u32,
    /// First block on the device.
    pub(crate) block: u32,
    pub(crate) blocks: u32,
    /// Its place among the packages of one write, and their number.
    pub(crate) index: u16,
    pub(crate) count: u16,
}

/// Offset of [`RawData::patch`].
pub(crate) const PATCH: u64 = 16;

/// An ATTR.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RawAttr {
    pub(crate) head: Head,
    pub(crate) atime: u64,
    pub(crate) ino: u32,
    pub(crate) birth: u32,
    pub(crate) mtime: u64,
    pub(crate) ctime: u64,
    pub(crate) size: u64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

const _: () = assert!(size_of::<Superblock>() == 64 && size_of::<Head>() == 16);
const _: () = assert!(size_of::<RawCreate>() == 256 && size_of::<RawUnlink>() == 64);
const _: () = assert!(size_of::<RawData>() == 64 && size_of::<RawAttr>() == 64);
const _: () = assert!(std::mem::offset_of!(RawData, patch) == PATCH as usize);

/// Where things lie on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Blocks of the device.
    pub(crate) blocks: u64,
    /// Blocks of each bitmap.
    pub(crate) bitmap: u64,
}

impl Geometry {
    /// Of a device of so many bytes.
    pub(crate) fn of(size: u64) -> Self {
        let blocks = (size / BLOCK).min(u64::from(u32::MAX));
        Self { blocks, bitmap: blocks.div_ceil(8 * BLOCK) }
    }

    /// The first block that can hold data or be a container.
    pub(crate) fn first(&self) -> u64 {
        2 + Kind::ALL.len() as u64 * self.bitmap
    }

    /// Whether a block can hold data or be a container.
    pub(crate) fn holds(&self, block: u64) -> bool {
        (self.first()..self.blocks).contains(&block)
    }

    /// Whether a block is one of the containers that `mkfs` made.
    pub(crate) fn is_pinned(&self, block: u64) -> bool {
        (self.first()..self.first() + PINNED).contains(&block)
    }

    /// The aligned word of a bitmap that has the bit of a block, and the bit.
    pub(crate) fn bit(&self, kind: Kind, block: u64) -> (u64, u64) {
        let bitmap = (2 + kind.index() as u64 * self.bitmap) * BLOCK;
        (bitmap + block / 64 * 8, 1 << (block % 64))
    }
}
