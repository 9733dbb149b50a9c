//! The format. All numbers are little endian.
//!
//! ```text
//! 0       superblock A
//! 4 KiB   superblock B
//! 8 KiB   zone table A, then zone table B: one word of 8 bytes for each zone
//! …       zones
//! ```
//!
//! A superblock is replaced by storing A, a fence, storing B, a fence: of those whose checksum is right, the one of the larger
//! generation counts. Of the two words of a zone, A counts if its check is right, otherwise B.

use twox_hash::XxHash3_64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// "WEIRCRST".
pub const MAGIC: u64 = u64::from_le_bytes(*b"WEIRCRST");
/// The version that this code writes and reads.
pub const VERSION: u32 = 1;
/// Bytes of a line: records begin at lines and take whole lines.
pub const LINE: usize = 64;
/// Bytes of a block of data.
pub const BLOCK: u64 = 4096;
/// Largest file: what 48 bits can count, less what a sum may add.
pub(crate) const FILE_MAX: u64 = 1 << 47;
/// One of so many lines of a log zone is parity, in a pool that has it.
pub(crate) const PARITY_PART: u32 = 16;
/// Bytes of the first line of a record that its kind determines.
pub const BODY: usize = 40;
/// Most lines of a record: half of the smallest zone.
pub const RECORD_LINES_MAX: usize = 128;
/// The smallest and the largest zone, in bytes.
pub const ZONE_BYTES: std::ops::RangeInclusive<u64> = 16 << 10..=2 << 20;
/// Where the two superblocks begin.
pub const SUPERBLOCKS: [u64; 2] = [0, 4096];
/// Where the table of zones begins.
pub const TABLE: u64 = 8192;
/// How many times its size a pool can become without a further table.
pub const GROWTH: u64 = 8;
/// Openings of zones, and inode numbers, that the superblock reserves at a time.
pub const RESERVED: u64 = 1 << 16;
/// The root directory.
pub const ROOT_INO: u64 = 1;
/// Most blocks of one extent: 64 MiB.
pub(crate) const EXTENT_BLOCKS_MAX: u16 = (1 << 14) - 1;
/// Numbers of blocks, and openings of zones, have 40 bits.
pub(crate) const BITS_40: u64 = (1 << 40) - 1;
/// Sizes of files and inode numbers have 48 bits.
pub(crate) const BITS_48: u64 = (1 << 48) - 1;

/// Bytes of a zone in a pool of `size` bytes: a 256th of it as a power of two, within [`ZONE_BYTES`].
pub fn zone_bytes(size: u64) -> u64 {
    let part = (size / 256).max(1);
    (1 << part.ilog2()).clamp(*ZONE_BYTES.start(), *ZONE_BYTES.end())
}

/// Where the first zone of a pool begins that was made with `size` bytes.
pub(crate) fn first_zone(size: u64) -> u64 {
    let zone = zone_bytes(size);
    (TABLE + 2 * table_bytes(size)).next_multiple_of(zone)
}

/// Bytes of one copy of the table of zones, with room to grow.
pub(crate) fn table_bytes(size: u64) -> u64 {
    (size / zone_bytes(size) * GROWTH * 8).next_multiple_of(BLOCK)
}

/// Where everything lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a zone.
    pub zone_bytes: u64,
    /// Where the first zone begins.
    pub first_zone: u64,
    /// Zones.
    pub zones: u32,
    /// Bytes of one copy of the table of zones.
    pub table_bytes: u64,
    /// Whether log zones have parity.
    pub parity: bool,
    /// Whether the seals of a zone depend on the nonce in its Open.
    pub keyed: bool,
    /// Whether copies may be stored in batches.
    pub batches: bool,
}

impl Geometry {
    /// Of a pool with this superblock.
    pub fn of(superblock: &Superblock) -> Self {
        let parity = superblock.incompat & incompat::PARITY != 0;
        let keyed = superblock.incompat & incompat::NONCE != 0;
        let batches = superblock.incompat & incompat::BATCHES != 0;
        Self { parity, keyed, batches, ..Self::new(superblock.size, superblock.made) }
    }

    /// Of a pool of `size` bytes that was made with `made` bytes, without features.
    pub fn new(size: u64, made: u64) -> Self {
        let (zone_bytes, first_zone) = (zone_bytes(made), first_zone(made));
        let zones = size.saturating_sub(first_zone) / zone_bytes;
        let table_bytes = table_bytes(made);
        let zones = zones.min(table_bytes / 8) as u32;
        Self { zone_bytes, first_zone, zones, table_bytes, parity: false, keyed: false, batches: false }
    }

    /// Lines of a zone.
    pub fn zone_lines(&self) -> u32 {
        (self.zone_bytes / LINE as u64) as u32
    }

    /// Lines of a zone that records may take.
    pub fn record_lines(&self) -> u32 {
        let kept = if self.parity { self.zone_lines() / PARITY_PART } else { 0 };
        self.zone_lines() - kept
    }

    /// Columns of the parity of a log zone: the lines behind the records and the head; none in a pool without.
    pub fn columns(&self) -> Option<u32> {
        self.parity.then(|| self.zone_lines() - self.record_lines() - 1)
    }

    /// Blocks of a zone.
    pub(crate) fn zone_blocks(&self) -> u32 {
        (self.zone_bytes / BLOCK) as u32
    }

    /// Where a zone begins.
    pub fn zone_at(&self, zone: u32) -> u64 {
        self.first_zone + u64::from(zone) * self.zone_bytes
    }

    /// Where the two copies of the word of a zone lie.
    pub fn words_at(&self, zone: u32) -> [u64; 2] {
        [TABLE, TABLE + self.table_bytes].map(|table| table + 8 * u64::from(zone))
    }

    /// The zone of a block, and the place of the block in it; none for a block of no zone.
    pub fn zone_of(&self, block: u64) -> Option<(u32, u32)> {
        let within = block.checked_mul(BLOCK)?.checked_sub(self.first_zone)?;
        let zone = within / self.zone_bytes;
        let place = within % self.zone_bytes / BLOCK;
        (zone < u64::from(self.zones)).then_some((zone as u32, place as u32))
    }

    /// The number of a block of a zone.
    pub fn block_at(&self, zone: u32, place: u32) -> u64 {
        self.zone_at(zone) / BLOCK + u64::from(place)
    }
}

/// A number of 40 bits.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct U40([u8; 5]);

/// A number of 48 bits.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct U48([u8; 6]);

impl U40 {
    /// The low 40 bits of a number.
    #[inline]
    pub fn new(value: u64) -> Self {
        let mut bytes = [0; 5];
        bytes.copy_from_slice(&value.to_le_bytes()[..5]);
        Self(bytes)
    }

    /// The number.
    #[inline]
    pub fn get(self) -> u64 {
        let mut bytes = [0; 8];
        bytes[..5].copy_from_slice(&self.0);
        u64::from_le_bytes(bytes)
    }
}

impl U48 {
    /// The low 48 bits of a number.
    #[inline]
    pub fn new(value: u64) -> Self {
        let mut bytes = [0; 6];
        bytes.copy_from_slice(&value.to_le_bytes()[..6]);
        Self(bytes)
    }

    /// The number.
    #[inline]
    pub fn get(self) -> u64 {
        let mut bytes = [0; 8];
        bytes[..6].copy_from_slice(&self.0);
        u64::from_le_bytes(bytes)
    }
}

/// The superblock. Its first 8 bytes after the magic number say whether this code may read the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Superblock {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// Shards that the pool has.
    pub shards: u32,
    /// Features that other code may ignore.
    pub compat: u64,
    /// Features without which the pool may only be read.
    pub ro_compat: u64,
    /// Features without which the pool may not be mounted.
    pub incompat: u64,
    /// Bytes of the pool.
    pub size: u64,
    /// Bytes of the pool when it was made: they determine the zones.
    pub made: u64,
    /// Random at mkfs: seeds every seal.
    pub secret: [u64; 2],
    /// Grows with each store of the superblock.
    pub generation: u64,
    /// The device's count of dirty shutdowns.
    pub shutdowns: u64,
    /// Openings of zones below this number may have been used.
    pub openings: u64,
    /// Inode numbers below this one may have been used.
    pub inodes: u64,
    /// XXH3-64 of the other bytes.
    pub checksum: u64,
}

/// The first line of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Head {
    /// XXH3-64 of all other bytes of the record, seeded with the secret and the record's place.
    pub(crate) seal: u64,
    /// See [`kind`].
    pub(crate) kind: u8,
    /// Lines of the record.
    pub(crate) lines: u8,
    /// Lines of its group before this record; a copy keeps it.
    pub(crate) part: u16,
    /// Lines of its group; 0: the record stands alone. With [`sets::BATCH`] something else.
    pub(crate) group: u16,
    /// What the record sets: see [`sets`].
    pub(crate) sets: u8,
    /// Items of [`kind::NAMES`].
    pub(crate) items: u8,
    /// Operation: see `record::Id`.
    pub(crate) id: u64,
    /// By kind.
    pub(crate) body: [u8; BODY],
}

/// Bits of `Superblock::incompat`.
pub mod incompat {
    /// Written blocks have checksums, which a reader compares and a writer keeps.
    pub const CHECKSUMS: u64 = 1;
    /// Records may hold bytes of blocks (`kind::INLINE`).
    pub const INLINE: u64 = 2;
    /// Log zones that are full have parity, for which a sixteenth of each is kept (`parity.rs`).
    pub const PARITY: u64 = 4;
    /// The seals of a zone depend on the nonce in its Open, which a copy of the pool does not share.
    pub const NONCE: u64 = 8;
    /// Copies that the cleaner makes may be durable in any order with others of their batch (`sets::BATCH`).
    pub const BATCHES: u64 = 16;
}

/// Kinds of records.
pub mod kind {
    /// The first record of a log zone.
    pub const OPEN: u8 = 1;
    /// A new inode, with its name.
    pub const CREATE: u8 = 2;
    /// Names come and go: link, unlink, rmdir, rename, exchange.
    pub const NAMES: u8 = 3;
    /// Blocks of a file get places; the file may grow.
    pub const WRITE: u8 = 4;
    /// A file becomes shorter.
    pub const CUT: u8 = 5;
    /// A range becomes a hole.
    pub const HOLE: u8 = 6;
    /// Mode and owner.
    pub const OWNER: u8 = 7;
    /// Times that a call set explicitly, or that were copied.
    pub const TIMES: u8 = 8;
    /// An extended attribute.
    pub const XATTR: u8 = 9;
    /// Records of an operation that failed.
    pub const VOID: u8 = 10;
    /// Bytes of a block, in the record itself; only in a pool with `incompat::INLINE`.
    pub const INLINE: u8 = 11;
    /// Kinds that are reserved: `Fenced`, `Snapshot`, `Forget`.
    pub const RESERVED: std::ops::RangeInclusive<u8> = 12..=14;
    /// The head of the parity of a zone, which is no record: only in a pool with `incompat::PARITY`.
    pub const PARITY: u8 = 15;
}

/// Bits of `Head::sets`.
pub mod sets {
    /// The size of the file is set (Write).
    pub const SIZE: u8 = 1;
    /// The times are set (Write, Inline).
    pub const TIMES: u8 = 2;
    /// The extents have checksums, but for those that are not written (Write).
    pub const CHECKED: u8 = 4;
    /// The attribute is removed (Xattr).
    pub(crate) const REMOVED: u8 = 8;
    /// The record is a copy that was stored with others under one fence: in the place of `group` are the lines of these before it,
    /// and one. Only in a pool with [`super::incompat::BATCHES`].
    pub(crate) const BATCH: u8 = 128;
}

/// Bits of `RawTimes::mask`.
pub mod times {
    /// The time of the last access is set.
    pub const ATIME: u8 = 1;
    /// The time of the last change of the data is set.
    pub const MTIME: u8 = 2;
    /// The time of the last change is set, to the stamp.
    pub const CTIME: u8 = 4;
}

/// Body of [`kind::OPEN`].
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawOpen {
    /// The shard's zone before this one, and the opening of that; 0 if this mount had none.
    pub(crate) zone: [u8; 4],
    pub(crate) opening: U40,
    /// Lines of that zone that hold records.
    pub(crate) lines: [u8; 2],
    pub(crate) shard: [u8; 2],
    pub(crate) epoch: [u8; 2],
    /// In a pool with `incompat::NONCE`: seals the other records of the zone.
    pub(crate) nonce: [u8; 8],
    pub(crate) zero: [u8; 17],
}

/// Body of [`kind::CREATE`]. The name follows, then the target of a symbolic link.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawCreate {
    pub(crate) ino: U48,
    pub(crate) dir: U48,
    pub(crate) mode: [u8; 2],
    pub(crate) target_len: [u8; 2],
    pub(crate) uid: [u8; 4],
    pub(crate) gid: [u8; 4],
    pub(crate) rdev: [u8; 4],
    pub(crate) time: [u8; 8],
    pub(crate) name_len: u8,
    pub(crate) zero: [u8; 3],
}

/// Body of [`kind::NAMES`]: the time and the first item. Further items follow, then the names of all in order.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawNames {
    pub(crate) time: [u8; 8],
    pub(crate) zero: [u8; 8],
    pub(crate) item: RawItem,
}

/// A name that comes or goes.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawItem {
    /// See [`item`].
    pub(crate) what: u8,
    /// Which add of its operation; of a removal, which add of the operation that added the name.
    pub(crate) index: u8,
    pub(crate) name_len: u8,
    pub(crate) zero: u8,
    pub(crate) dir: U48,
    pub(crate) ino: U48,
    /// Of a removal: the operation that added the name.
    pub(crate) added: [u8; 8],
}

/// Bits of `RawItem::what`.
pub mod item {
    /// A name comes.
    pub const ADD: u8 = 1;
    /// A name goes.
    pub const REMOVE: u8 = 2;
    /// The directory's times are set.
    pub const DIR: u8 = 4;
    /// The inode's time of change is set.
    pub const INODE: u8 = 8;
}

/// Body of [`kind::WRITE`]. Further extents follow, then checksums of the blocks of extents of several blocks.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawWrite {
    pub(crate) ino: U48,
    pub(crate) extents: [u8; 2],
    pub(crate) size: U48,
    pub(crate) zero: [u8; 2],
    pub(crate) time: [u8; 8],
    pub(crate) extent: RawExtent,
}

/// Blocks of a file that lie side by side, and where.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawExtent {
    pub(crate) file: U40,
    pub(crate) place: U40,
    /// Low 14 bits: blocks. Bit 14: shared with another file. Bit 15: allocated, not written.
    pub(crate) count: [u8; 2],
    /// CRC-32C of the block, if there is one and it has a checksum.
    pub(crate) checksum: [u8; 4],
}

/// Body of [`kind::INLINE`]. The bytes follow.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawInline {
    pub(crate) ino: U48,
    /// The block of the file.
    pub(crate) file: U40,
    pub(crate) zero: u8,
    /// The first byte within the block, and how many: at least one, none of the next block.
    pub(crate) from: [u8; 2],
    pub(crate) len: [u8; 2],
    pub(crate) zero2: [u8; 16],
    pub(crate) time: [u8; 8],
}

/// Body of [`kind::CUT`] and [`kind::HOLE`]: fields by kind.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawRange {
    pub(crate) ino: U48,
    /// Cut: the size. Hole: the first block.
    pub(crate) from: U48,
    /// Hole: the number of blocks.
    pub(crate) count: U48,
    /// Log zones of smaller openings may hold what this record hides.
    pub(crate) before: U40,
    pub(crate) zero: [u8; 9],
    pub(crate) time: [u8; 8],
}

/// Body of [`kind::OWNER`]: always all of it.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawOwner {
    pub(crate) ino: U48,
    pub(crate) mode: [u8; 2],
    pub(crate) uid: [u8; 4],
    pub(crate) gid: [u8; 4],
    pub(crate) time: [u8; 8],
    pub(crate) zero: [u8; 16],
}

/// Body of [`kind::TIMES`].
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawTimes {
    pub(crate) ino: U48,
    /// See [`times`].
    pub(crate) mask: u8,
    pub(crate) zero: u8,
    /// When the call was made.
    pub(crate) stamp: [u8; 8],
    pub(crate) atime: [u8; 8],
    pub(crate) mtime: [u8; 8],
    pub(crate) zero2: [u8; 8],
}

/// Body of [`kind::XATTR`]. The name follows, then the value, unless that lies in blocks.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawXattr {
    pub(crate) ino: U48,
    pub(crate) name_len: u8,
    pub(crate) zero: u8,
    pub(crate) before: U40,
    /// First block of a long value; 0: the value is in the record.
    pub(crate) place: U40,
    pub(crate) value_len: [u8; 4],
    pub(crate) time: [u8; 8],
    pub(crate) zero2: [u8; 10],
}

/// Body of [`kind::VOID`].
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawVoid {
    pub(crate) zone: [u8; 4],
    pub(crate) opening: U40,
    pub(crate) zero: [u8; 7],
    /// The operation whose records do not count.
    pub(crate) id: [u8; 8],
    pub(crate) zero2: [u8; 16],
}

/// Bytes of an item.
pub(crate) const ITEM_BYTES: usize = size_of::<RawItem>();
/// Bytes of an extent.
pub(crate) const EXTENT_BYTES: usize = size_of::<RawExtent>();

const _: () = {
    assert!(size_of::<Superblock>() == 112 && size_of::<Head>() == LINE);
    assert!(size_of::<RawOpen>() == BODY && size_of::<RawCreate>() == BODY && size_of::<RawNames>() == BODY);
    assert!(size_of::<RawWrite>() == BODY && size_of::<RawRange>() == BODY && size_of::<RawOwner>() == BODY);
    assert!(size_of::<RawTimes>() == BODY && size_of::<RawXattr>() == BODY && size_of::<RawVoid>() == BODY);
    assert!(size_of::<RawInline>() == BODY);
    assert!(ITEM_BYTES == 24 && EXTENT_BYTES == 16);
};

impl Superblock {
    /// The checksum that the superblock should have.
    pub fn sum(&self) -> u64 {
        let bytes = self.as_bytes();
        XxHash3_64::oneshot(bytes.get(..bytes.len() - 8).unwrap_or(bytes))
    }

    /// Whether these are the bytes of a superblock of this format.
    pub fn is_sound(&self) -> bool {
        self.magic == MAGIC && self.checksum == self.sum()
    }

    /// Of the two copies, the one that counts; none if both are damaged.
    pub fn newest(copies: [Self; 2]) -> Option<Self> {
        copies.into_iter().filter(Self::is_sound).max_by_key(|copy| copy.generation)
    }

    /// The same after a change.
    #[must_use]
    pub fn next(mut self) -> Self {
        self.generation += 1;
        self.checksum = self.sum();
        self
    }
}
