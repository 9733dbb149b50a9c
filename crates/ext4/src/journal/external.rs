//! A journal on a device of its own, as `mke2fs -O journal_dev` makes it and `mke2fs -J device=` uses it.
//!
//! ```text
//! block 0: superblock of ext2's format with the feature journal_dev | block 1: the journal's superblock | from 2 on: the log
//! ```
//!
//! With blocks of 1 KiB everything lies one block later. The file system and its journal know each other by UUID.

use std::sync::Arc;

use media::block::{BlockDevice, Hint, Piece, Queue};
use zerocopy::IntoBytes;

use super::attach::JournalPlace;
use super::format::{self, LEAST_JOURNAL};
use super::{JournalMap, new_superblock};
use crate::layout::{self, SUPERBLOCK_BYTES, Superblock, le16, le32};
use crate::superblock;
use base::error::{Error, Result};
use design::FsError;

/// The incompatible feature of a journal's device.
const JOURNAL_DEV: u32 = 0x8;
/// Where the superblock of ext2's format lies.
const SUPERBLOCK_AT: u64 = 1024;
/// Fields of it: magic, incompatible features, UUID.
const MAGIC_AT: usize = 0x38;
const INCOMPAT_AT: usize = 0x60;
const UUID_AT: usize = 0x68;

/// The block of the journal's superblock.
fn first_block(block_bytes: u32) -> u64 {
    if block_bytes == 1024 { 2 } else { 1 }
}

fn map_of(block_bytes: u32, blocks: u64) -> JournalMap {
    let first = first_block(block_bytes);
    JournalMap((0..blocks).map(|block| block.max(first)).collect())
}

/// The UUID of a journal of ext4 on a device of its own, by the superblock that the device has at byte 1024; none when it holds no
/// such journal.
pub fn journal_uuid(head: &[u8; SUPERBLOCK_BYTES]) -> Option<[u8; 16]> {
    let is_one = le16(head, MAGIC_AT) == layout::MAGIC && le32(head, INCOMPAT_AT) & JOURNAL_DEV != 0;
    is_one.then(|| head[UUID_AT..UUID_AT + 16].try_into().expect("sixteen bytes"))
}

/// The journal on a device, which must be the one that the file system names.
pub(super) fn place(
    device: &Arc<dyn BlockDevice>,
    block_bytes: u32,
    uuid: &[u8; 16],
) -> std::result::Result<JournalPlace, FsError> {
    let wrong = |found: &str| FsError::WrongFormat { design: "ext4", found: found.to_owned() };
    let head = superblock::read_bytes(&**device, SUPERBLOCK_AT, SUPERBLOCK_BYTES)?;
    match head.first_chunk().and_then(journal_uuid) {
        None => return Err(wrong("the journal device has no journal")),
        Some(found) if found != *uuid => {
            return Err(wrong("the journal device has the journal of another file system"));
        }
        Some(_) => {}
    }
    let blocks = u64::from(le32(&head, 4));
    if blocks > device.geometry().bytes.0 / u64::from(block_bytes) {
        return Err(wrong("the journal device is shorter than the journal"));
    }
    Ok(JournalPlace { device: Arc::clone(device), map: map_of(block_bytes, blocks) })
}

/// Makes an empty journal on a device for the file system with this superblock, which then names it.
pub(crate) fn make(device: &Arc<dyn BlockDevice>, of: &mut Superblock) -> Result<()> {
    let block_bytes = 1024_u32 << of.log_block_size.get();
    let blocks = (device.geometry().bytes.0 / u64::from(block_bytes)).min(u64::from(u32::MAX)) as u32;
    if blocks < LEAST_JOURNAL {
        return Err(Error::Corrupt(format!("a journal of {blocks} blocks is too small")));
    }
    let mut uuid = of.uuid;
    uuid[15] ^= 0xff;
    let mut head = of.clone();
    head.blocks_count_lo = blocks.into();
    head.blocks_count_hi = 0.into();
    head.set_kept_blocks(0);
    head.inodes_count = 0.into();
    head.uuid = uuid;
    head.feature_compat = 0.into();
    head.feature_incompat = JOURNAL_DEV.into();
    head.feature_ro_compat = 0.into();
    head.checksum_type = 0;
    let queue = Queue::new(Arc::clone(device));
    let first = first_block(block_bytes);
    let mut start = vec![0; (first * u64::from(block_bytes)) as usize];
    let at = SUPERBLOCK_AT as usize;
    start[at..at + SUPERBLOCK_BYTES].copy_from_slice(head.as_bytes());
    queue.write(&[Piece { off: 0, data: &start, hint: Hint::None }], false)?;
    let mut log = new_superblock(block_bytes, blocks, &uuid);
    format::put_be32(&mut log, 0x14, first as u32 + 1);
    log[0x100..0x110].copy_from_slice(&of.uuid);
    log.resize((block_bytes as usize).max(format::SUPERBLOCK_BYTES), 0);
    let off = first * u64::from(block_bytes);
    queue.write(&[Piece { off, data: &log, hint: Hint::None }], true)?;
    of.journal_uuid = uuid;
    of.journal_inum = 0.into();
    Ok(())
}
