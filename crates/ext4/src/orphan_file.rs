//! The file of orphans (`orphan_file`), which the kernel fills instead of the list.
//!
//! ```text
//! block of the file: inode u32 | inode u32 | … | magic u32 | checksum u32        0: a free slot
//! ```
//!
//! A mount after a crash works its slots off and empties each in the transaction that frees or cuts the inode; then the flag
//! `orphan_present` goes. The orphans of a mount here are on the list, which the kernel and e2fsck read on every image.
//!
//! Source: the kernel's documentation, "Orphan file"; `fs/ext4/orphan.c`.

use std::collections::BTreeMap;

use super::Volume;
use super::journal::Handle;
use super::layout::{crc32c, le32, put32};
use base::error::{Error, Result};

const MAGIC: u32 = 0x0b10_ca04;
/// Magic and checksum at the end of a block.
const TAIL_BYTES: usize = 8;

/// Where an inode stands in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    block: u64,
    at: usize,
    /// Of the file's checksums.
    seed: u32,
}

fn checksum(seed: u32, block: u64, bytes: &[u8]) -> u32 {
    crc32c(crc32c(seed, &block.to_le_bytes()), &bytes[..bytes.len() - TAIL_BYTES])
}

/// Whether an inode is that of a file of orphans: one of its blocks says so.
pub(crate) fn holds_orphans(volume: &Volume, number: u64) -> bool {
    let says_so = |block: &u64| {
        volume.look(*block, |bytes| le32(bytes, bytes.len() - TAIL_BYTES) == MAGIC).unwrap_or(false)
    };
    number >= volume.geo.first_ino
        && volume.orphan_file(number).is_ok_and(|(_, blocks)| blocks.iter().any(says_so))
}

impl Volume {
    /// Seed of the checksums, and the blocks, of the file.
    pub(crate) fn orphan_file(&self, number: u64) -> Result<(u32, Vec<u64>)> {
        let (raw, _) = self.read_inode(number)?;
        if !raw.is_regular() || raw.links.get() == 0 {
            return Err(Error::Corrupt(format!("the file of orphans, inode {number}, is no file")));
        }
        let blocks = self.special_map(number, "the file of orphans")?;
        Ok((self.inode_seed(number, raw.generation.get()), blocks))
    }

    /// The inodes in the file, and where they stand.
    pub(crate) fn orphan_slots(&self) -> Result<BTreeMap<u64, Slot>> {
        let mut slots = BTreeMap::new();
        let Some(number) = self.geo.orphan_file else { return Ok(slots) };
        let (seed, blocks) = self.orphan_file(number)?;
        for block in blocks {
            let bytes = self.look(block, <[u8]>::to_vec)?;
            let end = bytes.len() - TAIL_BYTES;
            let sealed = !self.geo.metadata_csum || le32(&bytes, end + 4) == checksum(seed, block, &bytes);
            if le32(&bytes, end) != MAGIC || !sealed {
                let what = format!("block {block} of the file of orphans has a wrong magic or checksum");
                return Err(self.corrupt(what));
            }
            for at in (0..end).step_by(4).filter(|at| le32(&bytes, *at) != 0) {
                let ino = u64::from(le32(&bytes, at));
                let is_one = ino >= self.geo.first_ino && ino <= self.geo.inodes() && ino != number;
                if !is_one
                    || !self.inode_in_use(ino)?
                    || slots.insert(ino, Slot { block, at, seed }).is_some()
                {
                    return Err(
                        self.corrupt(format!("the file of orphans leads to inode {ino}, which is none"))
                    );
                }
            }
        }
        if !slots.is_empty() && self.journal.is_none() && !self.settings.read_only {
            return Err(Error::Corrupt("there are orphans, but no journal".to_owned()));
        }
        Ok(slots)
    }

    /// The same where the superblock says that there are some.
    pub(crate) fn present_orphan_slots(&self) -> Result<BTreeMap<u64, Slot>> {
        let present = self.superblock.lock().has_orphan_file_to_read();
        if present { self.orphan_slots() } else { Ok(BTreeMap::new()) }
    }

    /// Empties a slot.
    pub(crate) fn free_orphan_slot(&self, handle: &Handle<'_>, slot: Slot) -> Result<()> {
        self.change(handle, slot.block, |bytes| {
            put32(bytes, slot.at, 0);
            self.seal_orphan_block(slot.seed, slot.block, bytes);
        })
    }

    /// Empties the file, whatever its blocks hold; says whether they held anything else.
    pub(crate) fn empty_orphan_file(&self, handle: &Handle<'_>, number: u64) -> Result<bool> {
        let (seed, blocks) = self.orphan_file(number)?;
        let mut held = false;
        for block in blocks {
            let mut empty = vec![0; self.geo.block_bytes as usize];
            let end = empty.len() - TAIL_BYTES;
            put32(&mut empty, end, MAGIC);
            self.seal_orphan_block(seed, block, &mut empty);
            if self.look(block, |bytes| bytes != empty)? {
                held = true;
                self.change(handle, block, |bytes| bytes.copy_from_slice(&empty))?;
            }
        }
        Ok(held)
    }

    fn seal_orphan_block(&self, seed: u32, block: u64, bytes: &mut [u8]) {
        if self.geo.metadata_csum {
            let (end, checksum) = (bytes.len() - 4, checksum(seed, block, bytes));
            put32(bytes, end, checksum);
        }
    }
}
