//! The format, byte by byte. Little endian; a pointer is a byte offset from the start of the region, 0 is none.
//!
//! | block | holds |
//! |---|---|
//! | 0, 1 | superblock, its copy |
//! | 2 | the clean word: the first page of what unmounting saved; 1: unmounted, nothing saved; 2: never mounted; 0: not unmounted |
//! | 3 … | the shard table: two lines for each shard, the journal's and the inode table's |
//! | … | one journal block for each shard |
//! | rest | data, log pages, inode chunks, attribute blocks, in any order |
//!
//! ```text
//! shard table, shard s at 3 * 4096 + 128 s:   | committed 8 | … 64 | first inode chunk 8 | … 128
//!
//! inode, 128 bytes:
//!   0 state      generation << 32 | 0 free, 1 live, 2 without a name and open           (journaled)
//!   8 accessed   time of the last access, in place
//!  16 xattr      extended attributes: `persist/attributes.rs`                          (journaled)
//!  24 ctime      of the last change of these                                          (journaled)
//!  32 mode 4, checksum 4    40 uid 4, gid 4    48 device 8    56 created 8             (fixed)
//!  64 log head   72 log tail: the commit word                                          (journaled, or one store)
//!  80 own number    88 zero …    120 next inode chunk, in the last slot of a chunk
//!
//! log page:   entries, to byte `log_bytes - 32`;   the next page at `log_bytes - 8`
//! ```
//!
//! Every log entry begins with its kind (1 byte) and holds a CRC-32C of itself at byte 4. An entry never crosses a page. Where the
//! next one does not fit, one of kind [`kind::NEXT_PAGE`] is written, if there is room for any.
//!
//! Times are 34 bits of seconds in two's complement and 30 of nanoseconds in a word: from 1697 to 2242.

use vfs::Timestamp;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Size of a block, of data as of a log.
pub(crate) const BLOCK: u64 = 4096;
/// "WEIRNOVA".
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"WEIRNOVA");
/// Version of the format that is written. All from 1 on can be read: 2 added attributes beyond one block.
pub(crate) const VERSION: u32 = 2;
/// The copy of the superblock.
pub(crate) const COPY: u64 = BLOCK;
/// The clean word.
pub(crate) const CLEAN: u64 = 2 * BLOCK;
/// The clean word of an image that was too full for what unmounting saves.
pub(crate) const NOTHING_SAVED: u64 = 1;
/// The clean word of a new image, of which nothing is saved either.
pub(crate) const NEVER_MOUNTED: u64 = 2;
/// The shard table.
pub(crate) const SHARD_TABLE: u64 = 3 * BLOCK;
/// Two lines of the shard table.
pub(crate) const SHARD_BYTES: u64 = 128;
/// The first inode chunk, within a shard's two lines.
pub(crate) const SHARD_INODES: u64 = 64;
/// Most shards: the block numbers in DRAM and the table's size rest on it.
pub(crate) const SHARDS_MAX: u64 = 256;
/// Largest image: block numbers have 32 bits in DRAM.
pub(crate) const MAX_IMAGE: u64 = 1 << 44;
/// Size of an inode.
pub(crate) const INODE_BYTES: u64 = 128;
/// The root directory.
pub(crate) const ROOT_INO: u64 = 1;
/// Most links of an inode, as in NOVA.
pub(crate) const MAX_LINKS: u32 = 32_000;
/// End of the largest file, in blocks.
pub(crate) const FILE_BLOCKS_MAX: u64 = 1 << 44;
/// What a log page keeps at its end.
pub(crate) const PAGE_TAIL: u64 = 32;
/// The smallest entry: where less is left of a page, it ends.
pub(crate) const ENTRY_MIN: u64 = 40;

/// Fields of an inode.
pub(crate) mod ino {
    pub(crate) const STATE: u64 = 0;
    pub(crate) const ACCESSED: u64 = 8;
    pub(crate) const XATTR: u64 = 16;
    pub(crate) const CTIME: u64 = 24;
    pub(crate) const MODE: u64 = 32;
    pub(crate) const HEAD: u64 = 64;
    pub(crate) const TAIL: u64 = 72;
    pub(crate) const NEXT_CHUNK: u64 = 120;
    /// What making an inode writes: all but the state before it and the chunk pointer behind it.
    pub(crate) const BODY: std::ops::Range<usize> = 8..120;
}

/// States of an inode.
pub(crate) mod state {
    pub(crate) const FREE: u32 = 0;
    pub(crate) const LIVE: u32 = 1;
    pub(crate) const ORPHAN: u32 = 2;
}

/// Kinds of log entries.
pub(crate) mod kind {
    pub(crate) const WRITE: u8 = 1;
    pub(crate) const NAME: u8 = 2;
    pub(crate) const SET: u8 = 3;
    pub(crate) const LINKS: u8 = 4;
    pub(crate) const NEXT_PAGE: u8 = 7;
}

/// The superblock. Nothing in it changes after mkfs but the size, and the version of an image that older code has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Superblock {
    pub(crate) magic: u64,
    pub(crate) version: u32,
    /// Of everything else.
    pub(crate) checksum: u32,
    pub(crate) size: u64,
    pub(crate) shards: u32,
    /// Bytes of a block that a log page uses.
    pub(crate) log_bytes: u32,
    /// Size of a chunk of an inode table.
    pub(crate) chunk_bytes: u64,
}

/// An inode as it lies on the medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RawInode {
    pub(crate) state: u64,
    pub(crate) accessed: u64,
    pub(crate) xattr: u64,
    pub(crate) ctime: u64,
    pub(crate) mode: u32,
    pub(crate) checksum: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) rdev: u64,
    pub(crate) created: u64,
    pub(crate) head: u64,
    pub(crate) tail: u64,
    pub(crate) ino: u64,
    pub(crate) zero: [u64; 4],
    pub(crate) next_chunk: u64,
}

/// New data: `pages` blocks from `block` on are the file's from page `first` on. Without a block the pages become a hole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct WriteEntry {
    pub(crate) kind: u8,
    pub(crate) zero: [u8; 3],
    pub(crate) checksum: u32,
    /// Offset of the first block.
    pub(crate) block: u64,
    pub(crate) first: u64,
    pub(crate) pages: u64,
    /// Size of the file after this write.
    pub(crate) size: u64,
    /// When the file was changed, or [`NO_TIME`].
    pub(crate) time: u64,
    pub(crate) reserved: [u64; 2],
}

/// Attributes: all of them, as they are from here on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct SetEntry {
    pub(crate) kind: u8,
    /// What was asked for: see [`set`].
    pub(crate) mask: u8,
    pub(crate) mode: u16,
    pub(crate) checksum: u32,
    pub(crate) size: u64,
    pub(crate) atime: u64,
    pub(crate) mtime: u64,
    pub(crate) ctime: u64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) reserved: [u64; 2],
}

/// Bits of [`SetEntry::mask`].
pub(crate) mod set {
    /// The size: blocks beyond it are cut off.
    pub(crate) const SIZE: u8 = 1;
    /// The time of the last access, which counts unless there is a later one in place.
    pub(crate) const ATIME: u8 = 2;
    /// Mode, owner, or the time of the last change.
    pub(crate) const OTHER: u8 = 4;
    /// Written by the cleaner: what the dropped entries had led to.
    pub(crate) const CLEANED: u8 = 8;
}

/// The link count changes. As long as the entries of files, so that each of those begins a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct LinksEntry {
    pub(crate) kind: u8,
    pub(crate) zero: [u8; 3],
    pub(crate) checksum: u32,
    pub(crate) links: u32,
    pub(crate) pad: u32,
    pub(crate) ctime: u64,
    pub(crate) reserved: [u64; 5],
}

/// In an entry that the cleaner copied: the entry of attributes before it has the times.
pub(crate) const NO_TIME: u64 = 0;

/// A name comes or, without an inode, goes. The name follows, padded to words with zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct NameEntry {
    pub(crate) kind: u8,
    pub(crate) name_len: u8,
    /// Links of the directory after this.
    pub(crate) links: u16,
    pub(crate) checksum: u32,
    pub(crate) ino: u64,
    /// When the directory was changed, or [`NO_TIME`]. A changed parent (`..`) is a change of its attributes only.
    pub(crate) time: u64,
}

/// Bytes before the name in a [`NameEntry`].
pub(crate) const NAME_HEADER: usize = size_of::<NameEntry>();

/// Bytes of the entry of a name.
pub(crate) fn name_entry_bytes(name_len: usize) -> u64 {
    ((NAME_HEADER + name_len) as u64).next_multiple_of(8).max(ENTRY_MIN)
}

/// A page of what unmounting saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct SavedHeader {
    pub(crate) magic: u32,
    /// CRC-32C of the header, with zero here, and of the ranges.
    pub(crate) checksum: u32,
    pub(crate) next: u64,
    /// Ranges of free blocks in this page, then ranges of inode numbers in use.
    pub(crate) blocks: u32,
    pub(crate) inodes: u32,
    pub(crate) zero: u64,
}

/// "SAVE".
pub(crate) const SAVED_MAGIC: u32 = u32::from_le_bytes(*b"SAVE");
/// Ranges (first, last) of 16 bytes in a saved page.
pub(crate) const SAVED_RANGES: usize = (BLOCK as usize - size_of::<SavedHeader>()) / 16;

const _: () = {
    assert!(size_of::<RawInode>() as u64 == INODE_BYTES);
    assert!(size_of::<WriteEntry>() == 64 && size_of::<SetEntry>() == 64 && size_of::<LinksEntry>() == 64);
    assert!(NAME_HEADER == 24 && size_of::<SavedHeader>() == 32);
};

/// CRC-32C.
pub(crate) fn checksum(parts: &[&[u8]]) -> u32 {
    parts.iter().fold(0, |sum, part| base::persist::checksum::crc32c_append(sum, part))
}

/// Where the checksum of an entry lies.
pub(crate) const ENTRY_CHECKSUM: std::ops::Range<usize> = 4..8;

/// CRC-32C of an entry without its checksum.
pub(crate) fn entry_checksum(entry: &[u8]) -> u32 {
    checksum(&[&entry[..ENTRY_CHECKSUM.start], &entry[ENTRY_CHECKSUM.end..]])
}

impl RawInode {
    pub(crate) fn state(&self) -> u32 {
        self.state as u32
    }

    pub(crate) fn generation(&self) -> u32 {
        (self.state >> 32) as u32
    }

    /// Of what is fixed when an inode is made.
    pub(crate) fn compute_checksum(&self) -> u32 {
        let words = [u64::from(self.generation()), u64::from(self.mode), self.rdev, self.created, self.ino];
        checksum(&[words.as_bytes(), self.uid.as_bytes(), self.gid.as_bytes()])
    }
}

/// The state word of an inode.
pub(crate) fn state_word(generation: u32, state: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(state)
}

const LAST_SECS: i64 = (1 << 33) - 1;
const LAST_NANOS: u32 = 999_999_999;

/// A time as a word; one beyond either end becomes that end.
pub(crate) fn pack(time: Timestamp) -> u64 {
    let first = Timestamp { secs: !LAST_SECS, nanos: 0 };
    let last = Timestamp { secs: LAST_SECS, nanos: LAST_NANOS };
    let Timestamp { secs, nanos } = time.clamp(first, last);
    (secs << 30).cast_unsigned() | u64::from(nanos.min(LAST_NANOS))
}

/// The time of a word; no bits of a damaged image make a second longer.
pub(crate) fn unpack(word: u64) -> Timestamp {
    let nanos = (word & ((1 << 30) - 1)) as u32;
    Timestamp { secs: word.cast_signed() >> 30, nanos: nanos.min(LAST_NANOS) }
}

/// Where everything lies that the superblock decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Blocks of the image.
    pub(crate) blocks: u64,
    pub(crate) shards: u64,
    /// The part of a log page that entries use.
    pub(crate) log_room: u64,
    pub(crate) chunk_bytes: u64,
}

impl Geometry {
    pub(crate) fn of(superblock: &Superblock) -> Self {
        Self {
            blocks: superblock.size / BLOCK,
            shards: superblock.shards.into(),
            log_room: u64::from(superblock.log_bytes) - PAGE_TAIL,
            chunk_bytes: superblock.chunk_bytes,
        }
    }

    /// More inodes than the image can have: all of its blocks as tables.
    pub(crate) fn most_inodes(&self) -> u64 {
        self.blocks * (BLOCK / INODE_BYTES)
    }

    fn table_blocks(shards: u64) -> u64 {
        (shards * SHARD_BYTES).div_ceil(BLOCK)
    }

    /// Blocks before the first that can be given out, in an image of so many shards.
    pub(crate) fn head_blocks(shards: u64) -> u64 {
        SHARD_TABLE / BLOCK + Self::table_blocks(shards) + shards
    }

    /// The first block that can be given out.
    pub(crate) fn first_block(&self) -> u64 {
        Self::head_blocks(self.shards)
    }

    /// The two lines of a shard.
    pub(crate) fn shard_at(shard: u64) -> u64 {
        SHARD_TABLE + shard * SHARD_BYTES
    }

    /// The journal of a shard.
    pub(crate) fn journal_at(&self, shard: u64) -> u64 {
        SHARD_TABLE + (Self::table_blocks(self.shards) + shard) * BLOCK
    }

    pub(crate) fn slots_per_chunk(&self) -> u64 {
        self.chunk_bytes / INODE_BYTES
    }

    pub(crate) fn chunk_blocks(&self) -> u64 {
        self.chunk_bytes / BLOCK
    }

    /// Whether `offset` is that of `blocks` blocks that can be given out.
    pub(crate) fn holds(&self, offset: u64, blocks: u64) -> bool {
        let first = offset / BLOCK;
        offset.is_multiple_of(BLOCK)
            && first >= self.first_block()
            && first.checked_add(blocks).is_some_and(|end| end <= self.blocks)
    }

    /// Where the pointer to the next page lies, of the log page at `page`.
    pub(crate) fn next_at(&self, page: u64) -> u64 {
        page + self.log_room + PAGE_TAIL - 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_nanoseconds_from_1697_to_2242() {
        for secs in [0, 1, -1, i64::from(i32::MAX) + 1, 1 << 32, -(1 << 32), LAST_SECS, !LAST_SECS] {
            for nanos in [0, 1, LAST_NANOS] {
                let time = Timestamp { secs, nanos };
                assert_eq!(unpack(pack(time)), time);
            }
        }
        assert_eq!(unpack(pack(Timestamp { secs: i64::MAX, nanos: 0 })).secs, LAST_SECS);
        assert_eq!(
            unpack(pack(Timestamp { secs: i64::MIN, nanos: 5 })),
            Timestamp { secs: !LAST_SECS, nanos: 0 }
        );
        assert_eq!(unpack(u64::MAX).nanos, LAST_NANOS);
    }
}
