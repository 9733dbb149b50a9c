//! The journal's format: jbd2, all numbers big-endian. Source: "ext4 Data Structures and Algorithms", Journal (jbd2).
//!
//! ```text
//! superblock | descriptor, blocks … | revoke … | commit | descriptor …
//! ```

use crate::layout::crc32c;

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
/// Fewest blocks of a journal (jbd2).
pub(crate) const LEAST_JOURNAL: u32 = 1024;
pub(crate) const SUPERBLOCK_BYTES: usize = 1024;

/// Words of the superblock that name features.
pub(crate) const COMPAT_AT: usize = 0x24;
pub(crate) const INCOMPAT_AT: usize = 0x28;
const RO_COMPAT_AT: usize = 0x2c;
/// The feature of the compatible word: a commit block has a checksum of what its transaction has logged.
pub(crate) const COMPAT_CHECKSUM: u32 = 0x1;

pub(crate) mod incompat {
    pub(crate) const REVOKE: u32 = 0x1;
    pub(crate) const IS_64BIT: u32 = 0x2;
    /// A commit block may reach the device before what it commits.
    pub(crate) const ASYNC_COMMIT: u32 = 0x4;
    pub(crate) const CSUM_V2: u32 = 0x8;
    pub(crate) const CSUM_V3: u32 = 0x10;
    /// Behind the log lies an area of fast commits.
    pub(crate) const FAST_COMMIT: u32 = 0x20;
    pub(crate) const KNOWN: u32 = REVOKE | IS_64BIT | ASYNC_COMMIT | CSUM_V2 | CSUM_V3 | FAST_COMMIT;
}

/// Blocks of the area of fast commits where the superblock gives no number (`JBD2_DEFAULT_FAST_COMMIT_BLOCKS`).
const USUAL_FAST_BLOCKS: u32 = 256;
/// A log is not shorter than this (`JBD2_MIN_JOURNAL_BLOCKS`).
const LEAST_LOG: u32 = 1024;
/// The kind of checksum that the superblock names: CRC-32C.
pub(crate) const CRC32C: u8 = 4;

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
    /// The blocks of fast commits, from the first to before the last.
    pub(crate) fast: Option<(u32, u32)>,
    pub(crate) wide: bool,
    pub(crate) async_commit: bool,
    pub(crate) csum_v1: bool,
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
    /// From a superblock's bytes.
    pub(crate) fn of(bytes: &[u8], block_bytes: u32, blocks: u64) -> Result<Self, Unusable> {
        let damaged = |what: &str| Err(Unusable::Damaged(what.to_owned()));
        let kind = be32(bytes, 4);
        if be32(bytes, 0) != MAGIC || !(kind == SUPERBLOCK_V1 || kind == SUPERBLOCK_V2) {
            return damaged("no journal superblock");
        }
        // The old superblock ends before the words of features.
        let word = |at: usize| if kind == SUPERBLOCK_V2 { be32(bytes, at) } else { 0 };
        let (compat, incompat) = (word(COMPAT_AT), word(INCOMPAT_AT));
        check_features(incompat, word(RO_COMPAT_AT))?;
        let has = |bit| incompat & bit != 0;
        let (csum_v2, csum_v3) = (has(incompat::CSUM_V2), has(incompat::CSUM_V3));
        let csum_v1 = compat & COMPAT_CHECKSUM != 0;
        if csum_v2 && csum_v3 || csum_v1 && (csum_v2 || csum_v3) {
            return damaged("the journal superblock names two versions of checksums");
        }
        if csum_v2 || csum_v3 {
            if bytes[0x50] != CRC32C {
                return damaged("the journal superblock names an unknown kind of checksum");
            }
            if be32(bytes, 0xfc) != superblock_checksum(bytes) {
                return damaged("wrong checksum of the journal superblock");
            }
        }
        let (len, first) = (be32(bytes, 0x10), be32(bytes, 0x14));
        if be32(bytes, 0xc) != block_bytes || first == 0 || first >= len || u64::from(len) > blocks {
            return damaged("impossible journal sizes");
        }
        let fast_blocks = match be32(bytes, 0x54) {
            0 => USUAL_FAST_BLOCKS,
            blocks => blocks,
        };
        let (end, fast) = match len.checked_sub(fast_blocks) {
            _ if !has(incompat::FAST_COMMIT) => (len, None),
            Some(end) if end >= LEAST_LOG && first < end => (end, Some((end + 1, len))),
            _ => return damaged("the area of fast commits leaves no room for the log"),
        };
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&bytes[0x30..0x40]);
        Ok(Self {
            block_bytes,
            first,
            end,
            fast,
            wide: has(incompat::IS_64BIT),
            async_commit: has(incompat::ASYNC_COMMIT),
            csum_v1,
            csum_v2,
            csum_v3,
            uuid,
            seed: crc32c(!0, &uuid),
        })
    }

    pub(crate) fn has_checksums(&self) -> bool {
        self.csum_v2 || self.csum_v3
    }

    /// Length of a tag: in version 2 two bytes of it are not used (Linux: `journal_tag_bytes`).
    pub(crate) fn tag_bytes(&self) -> usize {
        let version_2 = if self.csum_v2 { 2 } else { 0 };
        match () {
            () if self.csum_v3 => 16,
            () if self.wide => 12 + version_2,
            () => 8 + version_2,
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
        let mut block = sim::ran::zeroed(self.block_bytes as usize);
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

    /// Whether the checksum of a commit block is right. Only its first sector may have reached the device: what follows the header
    /// is zero then (Linux: `jbd2_commit_block_csum_verify_partial`).
    pub(crate) fn commit_is_right(&self, block: &[u8]) -> bool {
        let mut copy = block.to_vec();
        self.seal_commit(&mut copy);
        if copy == block {
            return true;
        }
        copy[COMMIT_BYTES..].fill(0);
        self.seal_commit(&mut copy);
        copy[..COMMIT_BYTES] == block[..COMMIT_BYTES]
    }

    /// Whether a commit block of version 1 has the checksum `logged` of what its transaction has logged, or none.
    pub(crate) fn commit_has(block: &[u8], logged: u32) -> bool {
        let has = (block[12], block[13], be32(block, 16));
        has == (CRC32, CRC32_BYTES, logged) || has == (0, 0, 0)
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

/// Whether the superblock of a journal in the image has words that e2fsck clears: of a version that it is not of, or of a journal
/// that several file systems use, which only one on a device of its own may be.
pub(crate) fn has_stale_words(bytes: &[u8]) -> bool {
    let users = be32(bytes, USERS_AT);
    match be32(bytes, 4) {
        SUPERBLOCK_V1 => {
            users != 0 || [COMPAT_AT, INCOMPAT_AT, RO_COMPAT_AT].iter().any(|at| be32(bytes, *at) != 0)
        }
        SUPERBLOCK_V2 => users > 1,
        _ => false,
    }
}

/// The word with the number of file systems that use the journal.
const USERS_AT: usize = 0x40;

/// Length of the header of a commit block.
const COMMIT_BYTES: usize = 60;
/// The kind and length of a checksum of version 1.
const CRC32: u8 = 1;
const CRC32_BYTES: u8 = 4;

/// The checksum of version 1, of the descriptors and blocks of a transaction: the kernel's `crc32_be`, sixteen bytes a step.
pub(crate) static CHECKSUM_1: crc::Crc<u32, crc::Table<16>> =
    crc::Crc::<u32, crc::Table<16>>::new(&crc::CRC_32_MPEG_2);

/// When a transaction committed, in seconds.
pub(crate) fn commit_time(block: &[u8]) -> u64 {
    u64::from(be32(block, 0x30)) << 32 | u64::from(be32(block, 0x34))
}

/// Why no mount takes a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// It contradicts itself.
    Damaged(String),
    /// It has features that are not known here: nothing is wrong with it.
    Foreign(String),
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Damaged(what) | Self::Foreign(what)) = self;
        f.write_str(what)
    }
}

fn check_features(incompat: u32, ro_compat: u32) -> Result<(), Unusable> {
    let (unknown, others) = (incompat & !incompat::KNOWN, ro_compat);
    if (unknown, others) == (0, 0) {
        return Ok(());
    }
    Err(Unusable::Foreign(format!(
        "features that weir does not know (incompat {unknown:#x}, ro_compat {others:#x}); mount it once with a kernel that does, \
         or run e2fsck"
    )))
}

/// The checksum of a journal's superblock.
pub(crate) fn superblock_checksum(bytes: &[u8]) -> u32 {
    let mut copy = sim::ran::copied(&bytes[..SUPERBLOCK_BYTES]);
    put_be32(&mut copy, 0xfc, 0);
    crc32c(!0, &copy)
}
