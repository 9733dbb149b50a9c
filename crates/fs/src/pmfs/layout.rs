//! The on-media format of PMFS: that of the public kernel module (EuroSys 2014), with times in nanoseconds and extended attributes.
//!
//! All numbers are little-endian. A pointer is a byte offset from the start of the image; 0 is none.
//!
//! ```text
//! 0        superblock (96 B)
//! 128      journal descriptor (32 B)
//! 192      inode of the inode table (80 B), then the truncate list's head (16 B)
//! 512      redundant copy of the first 512 B
//! 4096     journal: 64-B log entries
//! 4096 + journal size
//!          blocks of 4 KiB: inode table, root directory, everything else
//! ```
//!
//! | version | differs from the one before |
//! |---|---|
//! | 0 | the kernel module's: times have whole seconds, an inode has 64 bits for its blocks, nothing leads to attributes |
//! | 1 | what was zero in every inode in use holds the fractions of its times; attribute blocks (`xattr.rs`) |
//! | 2 | a fourth level of trees |
//! | 3 | attributes beyond one block |
//!
//! An image of each version is a valid one of the next, such as a version 0 image, whose times have no fractions and whose inodes
//! have no attributes. Recovery converts it by changing the number, after it has emptied the journal and before any other write.
//! Every later version keeps magic, checksum and version number where they are.

use sim::{KIB, MIB};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

#[cfg(target_endian = "big")]
compile_error!("the format is little-endian and its structures are used as they lie on the medium");

/// Identifies a PMFS image.
pub(crate) const MAGIC: u16 = 0xEFFC;
/// Version of the format that is written. All up to it can be read.
pub(crate) const VERSION: u32 = 3;
/// Largest image: an inode counts its blocks in 32 bits.
pub(crate) const MAX_IMAGE: u64 = BLOCK << u32::BITS;
/// Base block: tree nodes, directories, 4-KiB data blocks.
pub(crate) const BLOCK: u64 = 4096;
/// log2 of [`BLOCK`].
pub(crate) const BLOCK_SHIFT: u32 = 12;
/// Offset of the journal descriptor.
pub(crate) const JOURNAL_DESCRIPTOR: u64 = 128;
/// Offset of the inode-table inode.
pub(crate) const TABLE_INODE: u64 = 192;
/// Offset of the truncate list's head: the item behind the inode-table inode.
pub(crate) const TRUNCATE_HEAD: u64 = TABLE_INODE + INODE_BYTES;
/// Offset of the redundant copy.
pub(crate) const COPY: u64 = 512;
/// Bytes that the redundant copy repeats.
pub(crate) const COPIED: usize = 512;
/// Offset of the journal's entries.
pub(crate) const JOURNAL_START: u64 = 4096;
/// Smallest journal.
pub(crate) const JOURNAL_MIN: u64 = 64 * KIB;
/// A slot of the inode table.
pub(crate) const INODE_SLOT: u64 = 128;
/// The inode within its slot; the truncate item follows.
pub(crate) const INODE_BYTES: u64 = 80;
/// Inode number of the root directory. Inode numbers are byte offsets in the inode table.
pub(crate) const ROOT_INO: u64 = INODE_SLOT;
/// Inode number of the saved block map.
pub(crate) const BLOCK_MAP_INO: u64 = 2 * INODE_SLOT;
/// Stands for the number of saved extents: unmounted, and nothing saved.
pub(crate) const NOTHING_SAVED: u64 = u64::MAX;
/// First inode number that is given out.
pub(crate) const FIRST_INO: u64 = 3 * INODE_SLOT;
/// Pointers in a tree node.
pub(crate) const FANOUT: u64 = 512;
/// log2 of [`FANOUT`].
pub(crate) const FANOUT_SHIFT: u32 = 9;
/// Highest tree. The published format has 3, which ends files of 4-KiB blocks at 512 GiB; with 4 they end at 256 TiB.
pub(crate) const MAX_HEIGHT: u8 = 4;
/// Most links of an inode.
pub(crate) const MAX_LINKS: u16 = 32_000;
/// Inode flag: blocks may exist beyond the end of the file.
pub(crate) const FLAG_BEYOND_EOF: u32 = 0x2000_0000;
/// From this size on, the inode table is made of 2-MiB blocks.
pub(crate) const LARGE_DEVICE: u64 = 512 * MIB;

/// The superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Superblock {
    /// Over the bytes from `magic` up to `dynamic`.
    pub(crate) checksum: u16,
    pub(crate) magic: u16,
    pub(crate) block_size: u32,
    pub(crate) size: u64,
    pub(crate) volume_name: [u8; 16],
    pub(crate) journal: u32,
    /// 0 in images that are older than it: it was the upper half of `journal`, so that older code refuses every other number.
    pub(crate) version: u32,
    pub(crate) table_inode: u64,
    /// Start of the dynamic part, which no checksum covers.
    pub(crate) dynamic: u64,
    /// Mount time and write time, always stored together.
    pub(crate) mount_time: u32,
    pub(crate) write_time: u32,
    /// Extents saved in the block map; 0 when it is not valid, [`NOTHING_SAVED`] when a clean unmount had no room for it.
    pub(crate) saved_extents: u64,
    pub(crate) free_blocks: u64,
    pub(crate) inodes: u32,
    pub(crate) inodes_free: u32,
    pub(crate) inodes_used: u32,
    pub(crate) inode_hint: u32,
}

/// Offsets of superblock fields.
pub(crate) mod sb {
    /// Mount and write time, one 8-byte word.
    pub(crate) const TIMES: u64 = 56;
    /// The "fast mount" group: times, saved extents, counts.
    pub(crate) const FAST_MOUNT: u64 = 60;
    /// Its length: it ends the superblock.
    pub(crate) const FAST_MOUNT_LEN: u64 = 36;
    /// The static part.
    pub(crate) const STATIC: std::ops::Range<usize> = 0..TIMES as usize;
    /// Bytes that the checksum covers begin after the checksum itself.
    pub(crate) const CHECKED: std::ops::Range<usize> = 2..48;
}

/// The journal descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct JournalDescriptor {
    pub(crate) base: u64,
    pub(crate) size: u32,
    pub(crate) head: u32,
    /// `tail`, `generation` and `pad` form one word, so that a wrap is one store.
    pub(crate) tail: u32,
    pub(crate) generation: u16,
    pub(crate) pad: u16,
    pub(crate) redo: u16,
    pub(crate) reserved: [u8; 6],
}

/// Offsets of journal descriptor fields.
pub(crate) mod jd {
    pub(crate) const HEAD: u64 = super::JOURNAL_DESCRIPTOR + 12;
    pub(crate) const TAIL_WORD: u64 = super::JOURNAL_DESCRIPTOR + 16;
    // No tail is durable before the head that was stored before it: stores to a line persist in their order.
    const _: () = assert!(HEAD / sim::LINE_BYTES as u64 == TAIL_WORD / sim::LINE_BYTES as u64);
}

/// Bytes of a log entry: one cache line.
pub(crate) const ENTRY: u64 = 64;
/// Old bytes that an entry carries.
pub(crate) const ENTRY_PAYLOAD: usize = 48;

/// A log entry. `generation` is written last and makes the entry valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct LogEntry {
    pub(crate) target: u64,
    pub(crate) transaction: u32,
    pub(crate) generation: u16,
    pub(crate) kind: u8,
    pub(crate) len: u8,
    pub(crate) old: [u8; ENTRY_PAYLOAD],
}

/// Kinds of log entries, as bits.
pub(crate) mod entry {
    /// Old bytes of a range.
    pub(crate) const DATA: u8 = 0;
    /// First entry of a transaction; together with data or commit.
    pub(crate) const START: u8 = 1;
    /// The transaction is complete.
    pub(crate) const COMMIT: u8 = 2;
    /// The transaction was rolled back.
    pub(crate) const ABORT: u8 = 4;
}

/// An inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RawInode {
    pub(crate) reserved: u16,
    pub(crate) height: u8,
    pub(crate) block_type: u8,
    pub(crate) flags: u32,
    pub(crate) root: u64,
    pub(crate) size: u64,
    /// Times are read and set through `times.rs`.
    pub(crate) ctime: u32,
    pub(crate) mtime: u32,
    /// In a free slot: the second in which it was freed.
    pub(crate) ctime_extra: u32,
    pub(crate) mode: u16,
    pub(crate) links: u16,
    /// Data blocks and those of attributes, in units of 4 KiB.
    pub(crate) blocks: u32,
    pub(crate) mtime_extra: u32,
    /// The attributes: see `persist/attributes.rs`.
    pub(crate) xattr: u64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) generation: u32,
    pub(crate) atime: u32,
    pub(crate) rdev: u32,
    pub(crate) atime_extra: u32,
}

impl RawInode {
    /// A slot that may be given out.
    pub(crate) fn is_free(&self) -> bool {
        self.links == 0 && self.mode == 0
    }

    /// log2 of the size of its data blocks.
    pub(crate) fn block_shift(&self) -> u32 {
        BLOCK_SHIFT + FANOUT_SHIFT * u32::from(self.block_type.min(2))
    }

    /// The words at bytes 0 and 8: height and type, and root. One 16-byte store changes both.
    pub(crate) fn tree_pair(&self) -> [u64; 2] {
        let head = u64::from(self.reserved)
            | u64::from(self.height) << 16
            | u64::from(self.block_type) << 24
            | u64::from(self.flags) << 32;
        [head, self.root]
    }
}

/// Offsets of inode fields.
pub(crate) mod ino {
    /// Height, block type, flags and root: 16 bytes changed by one store.
    pub(crate) const TREE: u64 = 0;
    pub(crate) const ROOT: u64 = 8;
    /// Size, ctime and mtime: 16 bytes changed by one store.
    pub(crate) const SIZE: u64 = 16;
    /// ctime and mtime: 8 bytes changed by one store.
    pub(crate) const TIMES: u64 = 24;
    /// Fractions of ctime and mtime, mode, links, blocks: 16 bytes changed by one store.
    pub(crate) const EXTRAS: u64 = 32;
    pub(crate) const MODE: u64 = 36;
    pub(crate) const LINKS: u64 = 38;
    pub(crate) const BLOCKS: u64 = 40;
    pub(crate) const XATTR: u64 = 48;
    pub(crate) const UID: u64 = 56;
    /// Generation, atime, device and fraction of atime: 16 bytes changed by one store.
    pub(crate) const ACCESS: u64 = 64;
    /// The first half, which fits one log entry: tree, size, times with their fractions, mode, links, blocks.
    pub(crate) const HALF: u64 = 48;
}

/// An entry of the truncate list, behind its inode; the head is one too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct TruncateItem {
    /// The size that the inode is to have.
    pub(crate) size: u64,
    /// Next inode of the list.
    pub(crate) next: u64,
}

/// The fixed part of a directory record; the name follows. A record never crosses a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, packed(4))]
pub(crate) struct RecordHeader {
    /// 0: unused.
    pub(crate) ino: u64,
    /// To the next record of the block.
    pub(crate) rec_len: u16,
    pub(crate) name_len: u8,
    pub(crate) file_type: u8,
}

/// Bytes of a [`RecordHeader`].
pub(crate) const RECORD_HEADER: usize = 12;

/// Bytes that a record with a name of `name_len` bytes needs.
pub(crate) const fn record_len(name_len: usize) -> usize {
    (name_len + RECORD_HEADER).next_multiple_of(4)
}

const _: () = {
    assert!(size_of::<Superblock>() == 96);
    assert!(std::mem::offset_of!(Superblock, mount_time) as u64 == sb::TIMES);
    assert!(size_of::<JournalDescriptor>() == 32);
    assert!(size_of::<LogEntry>() as u64 == ENTRY);
    assert!(size_of::<RawInode>() as u64 == INODE_BYTES);
    assert!(std::mem::offset_of!(RawInode, size) as u64 == ino::SIZE);
    assert!(std::mem::offset_of!(RawInode, ctime_extra) as u64 == ino::EXTRAS);
    assert!(std::mem::offset_of!(RawInode, mode) as u64 == ino::MODE);
    assert!(std::mem::offset_of!(RawInode, links) as u64 == ino::LINKS);
    assert!(std::mem::offset_of!(RawInode, blocks) as u64 == ino::BLOCKS);
    assert!(std::mem::offset_of!(RawInode, mtime_extra) as u64 == ino::EXTRAS + 12);
    assert!(std::mem::offset_of!(RawInode, xattr) as u64 == ino::XATTR);
    assert!(std::mem::offset_of!(RawInode, uid) as u64 == ino::UID);
    assert!(std::mem::offset_of!(RawInode, generation) as u64 == ino::ACCESS);
    assert!(std::mem::offset_of!(RawInode, atime_extra) as u64 == ino::ACCESS + 12);
    assert!(size_of::<TruncateItem>() == 16);
    assert!(INODE_BYTES + 16 <= INODE_SLOT);
    assert!(size_of::<RecordHeader>() == RECORD_HEADER);
};
