//! Replay after a crash: three passes over the log, as in jbd2.
//!
//! | pass | does |
//! |---|---|
//! | scan | follows descriptors and commit blocks from the start until one is missing or wrong: the end |
//! | revoke | notes for each revoked block the last transaction that revoked it |
//! | replay | writes each block home unless a transaction at or after its own revoked it |
//!
//! A log is never longer than its blocks, so each pass ends. A transaction whose commit block is missing did not happen.
//!
//! # A torn superblock
//!
//! On memory a power loss may leave words of a block old ([`mend_torn`]). Two words of the journal's superblock change while it is
//! in use: one holds the sequence number and the start of the log, the other the checksum. With either value of the first the
//! image is right: a log that was just emptied is at home already and may be replayed again, and one that was just begun has no
//! transaction yet.

use std::collections::BTreeMap;

use media::block::{Hint, Piece, Queue};

use super::format::{
    COMMIT, DESCRIPTOR, Format, HEADER_BYTES, MAGIC, REVOKE, REVOKE_HEADER_BYTES, SUPERBLOCK_BYTES,
    TAG_ESCAPED, TAG_LAST, TAG_SAME_UUID, Tag, be32, put_be32, superblock_checksum,
};
use super::{JournalMap, format};
use crate::error::{Error, Result};
use crate::ext4::mutant;
use crate::mutant::Mutant;

/// What a recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Replayed {
    pub(crate) transactions: u32,
    pub(crate) blocks: u32,
    pub(crate) revoked: u32,
}

/// The log of a journal.
pub(crate) struct Log<'a> {
    pub(crate) queue: &'a Queue,
    pub(crate) home: &'a Queue,
    pub(crate) map: &'a JournalMap,
    pub(crate) format: Format,
    /// Blocks of the file system.
    pub(crate) blocks: u64,
    /// A seeded bug.
    pub(crate) mutant: Option<Mutant>,
}

/// A transaction that the scan found whole.
struct Found {
    sequence: u32,
    /// Where each logged block lies in the log, and its tag.
    tags: Vec<(u32, Tag)>,
    revoked: Vec<u64>,
}

impl Log<'_> {
    fn read(&self, block: u32) -> Result<Vec<u8>> {
        let missing = || Error::Corrupt(format!("the journal has no block {block}"));
        let at = self.map.0.get(block as usize).copied().ok_or_else(missing)?;
        let mut bytes = vec![0; self.format.block_bytes as usize];
        let off = at * u64::from(self.format.block_bytes);
        self.queue.read(&mut [(off, &mut bytes)])?;
        Ok(bytes)
    }

    /// Reads one transaction from `at` on; none if it is not whole. `budget` counts blocks of the log that may still be read.
    fn transaction(&self, sequence: u32, at: &mut u32, budget: &mut u32) -> Result<Option<Found>> {
        let mut found = Found { sequence, tags: Vec::new(), revoked: Vec::new() };
        let format = &self.format;
        loop {
            if *budget == 0 {
                return Ok(None);
            }
            *budget -= 1;
            let block = self.read(*at)?;
            if be32(&block, 0) != MAGIC || be32(&block, 8) != sequence {
                let taken = self.mutant == Some(mutant::REPLAY_WITHOUT_COMMIT) && !found.tags.is_empty();
                return Ok(taken.then_some(found));
            }
            *at = format.after(*at);
            match be32(&block, 4) {
                DESCRIPTOR if !format.has_checksums() || format.tail_is_right(&block) => {
                    for tag in tags(format, &block) {
                        if *budget == 0 {
                            return Ok(None);
                        }
                        *budget -= 1;
                        found.tags.push((*at, tag));
                        *at = format.after(*at);
                    }
                }
                REVOKE if !format.has_checksums() || format.tail_is_right(&block) => {
                    found.revoked.extend(revokes(format, &block));
                }
                COMMIT if !format.has_checksums() || format.commit_is_right(&block) => {
                    return Ok(Some(found));
                }
                _ => return Ok(None),
            }
        }
    }

    /// The transactions of the log, from `start` on.
    fn scan(&self, start: u32, sequence: u32) -> Result<Vec<Found>> {
        let (mut at, mut sequence) = (start, sequence);
        let mut budget = self.format.len();
        let mut found = Vec::new();
        while let Some(transaction) = self.transaction(sequence, &mut at, &mut budget)? {
            found.push(transaction);
            sequence = sequence.wrapping_add(1);
        }
        Ok(found)
    }

    fn replay_transaction(&self, found: &Found, revoked: &BTreeMap<u64, u32>) -> Result<u32> {
        let mut written = 0;
        for (at, tag) in &found.tags {
            let newer =
                revoked.get(&tag.block).is_some_and(|by| by.wrapping_sub(found.sequence).cast_signed() >= 0);
            if newer {
                continue;
            }
            if tag.block >= self.blocks {
                return Err(Error::Corrupt(format!("the journal logs block {}, beyond the end", tag.block)));
            }
            let mut data = self.read(*at)?;
            if self.format.has_checksums() && self.format.data_checksum(found.sequence, &data) != tag.checksum
            {
                let what = format!(
                    "logged block {} of transaction {} has a wrong checksum",
                    tag.block, found.sequence
                );
                return Err(Error::Corrupt(what));
            }
            if tag.flags & TAG_ESCAPED != 0 {
                put_be32(&mut data, 0, MAGIC);
            }
            let off = tag.block * u64::from(self.format.block_bytes);
            self.home.write(&[Piece { off, data: &data, hint: Hint::None }], false)?;
            written += 1;
        }
        Ok(written)
    }

    /// Replays what the log has and empties it. The superblock is changed to say so.
    pub(crate) fn recover(&self, superblock: &mut [u8]) -> Result<Replayed> {
        let (sequence, start) = (be32(superblock, 0x18), be32(superblock, 0x1c));
        let mut done = Replayed::default();
        let mut next = sequence;
        if start != 0 {
            if start < self.format.first || start >= self.format.end {
                return Err(Error::Corrupt(format!(
                    "the journal starts at its block {start}, outside of the log"
                )));
            }
            let found = self.scan(start, sequence)?;
            let mut revoked = BTreeMap::new();
            for transaction in &found {
                if self.mutant == Some(mutant::REPLAY_IGNORES_REVOKES) {
                    break;
                }
                for block in &transaction.revoked {
                    revoked.insert(*block, transaction.sequence);
                    done.revoked += 1;
                }
            }
            for transaction in &found {
                done.blocks += self.replay_transaction(transaction, &revoked)?;
                done.transactions += 1;
                next = transaction.sequence;
            }
            self.home.device().flush()?;
            next = next.wrapping_add(1);
        }
        put_be32(superblock, 0x18, next);
        put_be32(superblock, 0x1c, 0);
        self.write_superblock(superblock)?;
        Ok(done)
    }

    /// Writes the journal's superblock, sealed.
    pub(crate) fn write_superblock(&self, superblock: &mut [u8]) -> Result<()> {
        if self.format.has_checksums() {
            let checksum = superblock_checksum(superblock);
            put_be32(superblock, 0xfc, checksum);
        }
        self.write_bytes(superblock)
    }

    /// Writes the journal's superblock as it is.
    pub(crate) fn write_bytes(&self, superblock: &[u8]) -> Result<()> {
        let mut data = superblock[..SUPERBLOCK_BYTES].to_vec();
        data.resize(self.format.block_bytes as usize, 0);
        let at = self.map.0.first().copied().unwrap_or_default();
        let off = at * u64::from(self.format.block_bytes);
        Ok(self.queue.write(&[Piece { off, data: &data, hint: Hint::None }], true)?)
    }
}

/// Makes the checksum of a journal's superblock right if it is that of a state around the write that was cut: the log empty or
/// not, and a sequence number no farther away than the log is long. The write may have been that of a recovery, which found the
/// word of an earlier write beside the checksum of the one before. Anything else is damage, and stays.
pub(crate) fn mend_torn(superblock: &mut [u8]) {
    let has = be32(superblock, 0xfc);
    let checked = be32(superblock, 0x28) & (format::incompat::CSUM_V2 | format::incompat::CSUM_V3) != 0;
    if !checked || has == superblock_checksum(superblock) {
        return;
    }
    let sequence = be32(superblock, 0x18);
    let (first, end) = (be32(superblock, 0x14), be32(superblock, 0x10));
    let mut copy = superblock[..SUPERBLOCK_BYTES].to_vec();
    let mut is_of = |start: u32, near: u32| {
        put_be32(&mut copy, 0x18, near);
        put_be32(&mut copy, 0x1c, start);
        superblock_checksum(&copy) == has
    };
    let torn = (0..=end.min(MOST_STEPS)).any(|step| {
        let around = [sequence.wrapping_sub(step), sequence.wrapping_add(step)];
        around.into_iter().any(|near| is_of(0, near) || is_of(first, near))
    });
    if torn {
        let right = superblock_checksum(superblock);
        put_be32(superblock, 0xfc, right);
    }
}

/// Sequence numbers that are tried: a damaged length of the log must not take long.
const MOST_STEPS: u32 = 1 << 16;

/// The tags of a descriptor.
fn tags(format: &Format, block: &[u8]) -> Vec<Tag> {
    let end = block.len() - format.tail_bytes();
    let mut at = HEADER_BYTES;
    let mut tags = Vec::new();
    while at + format.tag_bytes() <= end {
        let tag = format.read_tag(&block[at..]);
        at += format.tag_bytes();
        if tag.flags & TAG_SAME_UUID == 0 {
            at += 16;
        }
        tags.push(tag);
        if tag.flags & TAG_LAST != 0 {
            break;
        }
    }
    tags
}

/// The blocks that a revoke block names.
fn revokes(format: &Format, block: &[u8]) -> Vec<u64> {
    let end = (be32(block, HEADER_BYTES) as usize).min(block.len() - format.tail_bytes());
    let bytes = format.revoke_bytes();
    let names = block.get(REVOKE_HEADER_BYTES..end).unwrap_or_default().chunks_exact(bytes);
    let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    names.map(number).collect()
}

/// Sets the features of a journal that a mount uses: revoke records, and the checksums and width of the file system.
pub(crate) fn set_features(superblock: &mut [u8], wide: bool, checksums: bool) {
    put_be32(superblock, 4, format::SUPERBLOCK_V2);
    let mut incompat = be32(superblock, 0x28) | format::incompat::REVOKE;
    if wide {
        incompat |= format::incompat::IS_64BIT;
    }
    if checksums {
        incompat = incompat & !format::incompat::CSUM_V2 | format::incompat::CSUM_V3;
        // The kind of checksum: CRC-32C.
        superblock[0x50] = 4;
    }
    put_be32(superblock, 0x28, incompat);
    let checksum = superblock_checksum(superblock);
    put_be32(superblock, 0xfc, checksum);
}
