//! The journal's format: jbd2, all numbers big-endian. Source: "ext4 Data Structures and Algorithms", Journal (jbd2).
//!
//! ```text
//! superblock | descriptor, blocks … | revoke … | commit | descriptor …
//! ```

use crate::ext4::layout::crc32c;

/// First word of every block of the journal's own.
pub(crate) const MAGIC: u32 = 0xc03b_3998;
pub(crate) const DESCRIPTOR: u32 = 1;
pub(crate) const COMMIT: u32 = 2;
pub(crate) const SUPERBLOCK_V1: u32 = 3;
pub(crate) const SUPERBLOCK_V2: u32 = 4;
pub(crate) const REVOKE: u32 = 5;
/// Magic, kind, sequence.
pub(crate) const HEADER_BYTES: usize = 12;
/// Header and the number of bytes in use.
pub(crate) const REVOKE_HEADER_BYTES: usize = 16;
/// Length of the journal's superblock.
pub(crate) const SUPERBLOCK_BYTES: usize = 1024;

pub(crate) mod incompat {
    pub(crate) const REVOKE: u32 = 0x1;
    pub(crate) const IS_64BIT: u32 = 0x2;
    pub(crate) const CSUM_V2: u32 = 0x8;
    pub(crate) const CSUM_V3: u32 = 0x10;
    pub(crate) const KNOWN: u32 = REVOKE | IS_64BIT | CSUM_V2 | CSUM_V3;
}

/// Flags of a tag.
pub(crate) const TAG_ESCAPED: u32 = 1;
pub(crate) const TAG_SAME_UUID: u32 = 2;
pub(crate) const TAG_LAST: u32 = 8;

pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn put_be32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// What a journal's superblock says about the format of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) block_bytes: u32,
    /// The first block of the log; the one before it is the superblock.
    pub(crate) first: u32,
    /// The first block after the log.
    pub(crate) end: u32,
    pub(crate) wide: bool,
    pub(crate) csum_v2: bool,
    pub(crate) csum_v3: bool,
    pub(crate) uuid: [u8; 16],
    pub(crate) seed: u32,
}

/// What a tag says of a logged block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) block: u64,
    pub(crate) flags: u32,
    pub(crate) checksum: u32,
}

impl Format {
    /// From a superblock's bytes; what is wrong in words.
    pub(crate) fn of(bytes: &[u8], block_bytes: u32, blocks: u64) -> Result<Self, String> {
        let kind = be32(bytes, 4);
        if be32(bytes, 0) != MAGIC || !(kind == SUPERBLOCK_V1 || kind == SUPERBLOCK_V2) {
            return Err("no journal superblock".to_owned());
        }
        let incompat = if kind == SUPERBLOCK_V2 { be32(bytes, 0x28) } else { 0 };
        if incompat & !incompat::KNOWN != 0 {
            return Err(format!("unknown journal features {:#x}", incompat & !incompat::KNOWN));
        }
        let (has, end, first) = (|bit| incompat & bit != 0, be32(bytes, 0x10), be32(bytes, 0x14));
        if be32(bytes, 0xc) != block_bytes || first == 0 || first >= end || u64::from(end) > blocks {
            return Err("impossible journal sizes".to_owned());
        }
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&bytes[0x30..0x40]);
        let format = Self {
            block_bytes,
            first,
            end,
            wide: has(incompat::IS_64BIT),
            csum_v2: has(incompat::CSUM_V2),
            csum_v3: has(incompat::CSUM_V3),
            uuid,
            seed: crc32c(!0, &uuid),
        };
        if format.has_checksums() && be32(bytes, 0xfc) != superblock_checksum(bytes) {
            return Err("wrong checksum of the journal superblock".to_owned());
        }
        Ok(format)
    }

    pub(crate) fn has_checksums(&self) -> bool {
        self.csum_v2 || self.csum_v3
    }

    pub(crate) fn tag_bytes(&self) -> usize {
        match () {
            () if self.csum_v3 => 16,
            () if self.wide => 12,
            () => 8,
        }
    }

    /// Bytes at the end of a descriptor or revoke block that hold its checksum.
    pub(crate) fn tail_bytes(&self) -> usize {
        if self.has_checksums() { 4 } else { 0 }
    }

    /// How many blocks one descriptor can name: the first tag is followed by the UUID.
    pub(crate) fn tags_per_block(&self) -> usize {
        (self.block_bytes as usize - HEADER_BYTES - 16 - self.tail_bytes()) / self.tag_bytes()
    }

    /// How many blocks one revoke block can name.
    pub(crate) fn revokes_per_block(&self) -> usize {
        (self.block_bytes as usize - REVOKE_HEADER_BYTES - self.tail_bytes()) / self.revoke_bytes()
    }

    pub(crate) fn revoke_bytes(&self) -> usize {
        if self.wide { 8 } else { 4 }
    }

    /// A block with a header and nothing else.
    pub(crate) fn header(&self, kind: u32, sequence: u32) -> Vec<u8> {
        let mut block = vec![0; self.block_bytes as usize];
        put_be32(&mut block, 0, MAGIC);
        put_be32(&mut block, 4, kind);
        put_be32(&mut block, 8, sequence);
        block
    }

    /// The checksum of a logged block as its tag has it.
    pub(crate) fn data_checksum(&self, sequence: u32, data: &[u8]) -> u32 {
        let checksum = crc32c(crc32c(self.seed, &sequence.to_be_bytes()), data);
        match () {
            () if self.csum_v3 => checksum,
            () if self.csum_v2 => checksum & 0xffff,
            () => 0,
        }
    }

    pub(crate) fn write_tag(&self, to: &mut [u8], tag: Tag) {
        put_be32(to, 0, tag.block as u32);
        if self.csum_v3 {
            put_be32(to, 4, tag.flags);
            put_be32(to, 8, (tag.block >> 32) as u32);
            put_be32(to, 12, tag.checksum);
            return;
        }
        to[4..6].copy_from_slice(&(tag.checksum as u16).to_be_bytes());
        to[6..8].copy_from_slice(&(tag.flags as u16).to_be_bytes());
        if self.wide {
            put_be32(to, 8, (tag.block >> 32) as u32);
        }
    }

    pub(crate) fn read_tag(&self, from: &[u8]) -> Tag {
        let low = u64::from(be32(from, 0));
        if self.csum_v3 {
            let block = low | if self.wide { u64::from(be32(from, 8)) << 32 } else { 0 };
            return Tag { block, flags: be32(from, 4), checksum: be32(from, 12) };
        }
        let block = low | if self.wide { u64::from(be32(from, 8)) << 32 } else { 0 };
        let half = |at: usize| u32::from(u16::from_be_bytes([from[at], from[at + 1]]));
        Tag { block, flags: half(6), checksum: half(4) }
    }

    /// Writes the checksum at the end of a descriptor or revoke block.
    pub(crate) fn seal_tail(&self, block: &mut [u8]) {
        if self.has_checksums() {
            let at = block.len() - 4;
            put_be32(block, at, 0);
            let checksum = crc32c(self.seed, block);
            put_be32(block, at, checksum);
        }
    }

    pub(crate) fn tail_is_right(&self, block: &[u8]) -> bool {
        let mut copy = block.to_vec();
        self.seal_tail(&mut copy);
        copy == block
    }

    /// Writes the checksum of a commit block.
    pub(crate) fn seal_commit(&self, block: &mut [u8]) {
        if self.has_checksums() {
            put_be32(block, 16, 0);
            let checksum = crc32c(self.seed, block);
            put_be32(block, 16, checksum);
        }
    }

    pub(crate) fn commit_is_right(&self, block: &[u8]) -> bool {
        let mut copy = block.to_vec();
        self.seal_commit(&mut copy);
        copy == block
    }

    /// The block after `block` in the log.
    pub(crate) fn after(&self, block: u32) -> u32 {
        if block + 1 == self.end { self.first } else { block + 1 }
    }

    /// Blocks of the log.
    pub(crate) fn len(&self) -> u32 {
        self.end - self.first
    }
}

/// The checksum of a journal's superblock.
pub(crate) fn superblock_checksum(bytes: &[u8]) -> u32 {
    let mut copy = bytes[..SUPERBLOCK_BYTES].to_vec();
    put_be32(&mut copy, 0xfc, 0);
    crc32c(!0, &copy)
}
