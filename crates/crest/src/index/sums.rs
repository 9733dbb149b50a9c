//! Checksums of the blocks of files (`checksum=data`): CRC-32C of all bytes of a block, in the extents of records, and here by the
//! number of the block on the medium.
//!
//! | bits of a word | say |
//! |---|---|
//! | 0 to 31 | the checksum |
//! | 32 | the block has one |
//! | 33 | its bytes were compared since the mount, or this mount has stored them |
//!
//! A block that has a checksum is stored whole, with zeros behind the end of its file, and is never changed in place (R8,
//! `place.rs`): a crash between a store and a new record would leave a checksum that is wrong. So a page of a mapped file gets a
//! block without one when it is stored to. A block is compared when it is read for the first time after a mount, and by a scrub; a
//! read that finds it wrong answers `EIO`, and the listener of the mount is told of file and offset. Other blocks are not affected.
//!
//! A word changes while its block belongs to a call that has taken it, or under the lock of a file that has the block.

use sim::sync::{AtomicU64, Ordering::Relaxed};
use vfs::Verified;

use super::Index;
use super::follow::Follower;
use super::inode::State;
use super::map::{Place, Run};
use crate::format::layout::{BLOCK, Geometry};
use crate::format::record::{Extent, Extents};
use crate::store::alloc::push;
use base::error::{Error, Result};
use base::persist::checksum::crc32c;

/// Most blocks of an extent with checksums, so that a few extents fit a record.
const BLOCKS: u16 = 1024;
/// Bytes of a checksum in a record.
pub(crate) const BYTES: u64 = 4;

const HAS: u64 = 1 << 32;
const COMPARED: u64 = 1 << 33;

/// The checksums of all blocks; no words in a pool without checksums of data.
pub(crate) struct Sums {
    first: u64,
    words: Box<[AtomicU64]>,
}

impl Sums {
    /// None of the blocks has one yet. `on`: blocks that are stored get one.
    pub(crate) fn new(geometry: &Geometry, on: bool) -> Self {
        let blocks = if on { u64::from(geometry.zones) * u64::from(geometry.zone_blocks()) } else { 0 };
        Self { first: geometry.block_at(0, 0), words: (0..blocks).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Whether blocks that are stored get checksums.
    pub(crate) fn are_on(&self) -> bool {
        !self.words.is_empty()
    }

    fn word(&self, block: u64) -> Option<&AtomicU64> {
        self.words.get(usize::try_from(block.checked_sub(self.first)?).ok()?)
    }

    /// The checksum of a block.
    pub(crate) fn get(&self, block: u64) -> Option<u32> {
        let word = self.word(block)?.load(Relaxed);
        (word & HAS != 0).then_some(word as u32)
    }

    /// A record has this checksum of a block: a mount finds it.
    pub(crate) fn found(&self, block: u64, sum: u32) {
        if let Some(word) = self.word(block) {
            word.store(u64::from(sum) | HAS, Relaxed);
        }
    }

    /// The words of all blocks as a mount finds them.
    pub(crate) fn words(&self) -> impl Iterator<Item = u64> {
        self.words.iter().map(|word| word.load(Relaxed) & !COMPARED)
    }

    /// A mount finds these words.
    pub(crate) fn restore(&self, kept: impl Iterator<Item = u64>) {
        self.words.iter().zip(kept).for_each(|(word, kept)| word.store(kept & !COMPARED, Relaxed));
    }

    /// A block has no checksum from now on.
    pub(crate) fn forget(&self, block: u64) {
        if let Some(word) = self.word(block) {
            word.store(0, Relaxed);
        }
    }

    /// The checksum with which the bytes of a block are to be compared, if it has one and they were not compared yet.
    fn pending(&self, block: u64) -> Option<u32> {
        let word = self.word(block)?.load(Relaxed);
        (word & (HAS | COMPARED) == HAS).then_some(word as u32)
    }

    fn compared(&self, block: u64) {
        if let Some(word) = self.word(block) {
            word.fetch_or(COMPARED, Relaxed);
        }
    }

    /// Extents as a record has them: each with the checksums of all its blocks, or of none.
    pub(crate) fn with_sums(&self, extents: Extents) -> Extents {
        if !self.are_on() {
            return extents;
        }
        let mut all = Extents::new();
        for extent in extents {
            if extent.unwritten {
                push(&mut all, extent);
                continue;
            }
            let mut begins = true;
            for at in 0..extent.count {
                let sum = self.get(extent.place + u64::from(at));
                let goes_on = |last: &&mut Extent| !begins && last.checksums.is_empty() == sum.is_none();
                match all.last_mut().filter(goes_on).filter(|last| sum.is_none() || last.count < BLOCKS) {
                    Some(last) => {
                        last.count += 1;
                        last.checksums.extend(sum);
                    }
                    None => {
                        let (file, place) = (extent.file + u64::from(at), extent.place + u64::from(at));
                        let checksums = sum.into_iter().collect();
                        push(&mut all, Extent { file, place, count: 1, checksums, ..extent });
                    }
                }
                begins = false;
            }
        }
        all
    }
}

impl Follower for Sums {
    fn filled(&self, first: u64, bytes: &[u8]) {
        for (block, bytes) in (first..).zip(bytes.chunks(BLOCK as usize)) {
            if let Some(word) = self.word(block) {
                word.store(u64::from(crc32c(bytes)) | HAS | COMPARED, Relaxed);
            }
        }
    }
}

impl Index {
    /// Compares a block of a file with its checksum, unless it has none or that was done since the mount. `known`: its bytes, if
    /// the caller has read them all.
    pub(crate) fn compare(&self, file: &State, at: u64, block: u64, known: Option<&[u8]>) -> Result<()> {
        let Some(sum) = self.sums.pending(block) else { return Ok(()) };
        let mut bytes = [0; BLOCK as usize];
        let bytes = match known {
            Some(known) => known,
            None => {
                self.load_block(file, at, block, &mut bytes)?;
                &bytes
            }
        };
        if crc32c(bytes) != sum {
            return Err(self.wrong_sum(file, at, block));
        }
        self.sums.compared(block);
        Ok(())
    }

    /// Compares the blocks of a run with their checksums, after `bytes` of the file from `offset` on were read of it.
    pub(crate) fn compare_run(&self, file: &State, run: &Run, offset: u64, bytes: &[u8]) -> Result<()> {
        let Some(place) = run.place.filter(|_| self.sums.are_on()) else { return Ok(()) };
        let end = offset + bytes.len() as u64;
        for at in offset / BLOCK..end.div_ceil(BLOCK) {
            let whole = (at * BLOCK).checked_sub(offset).and_then(|from| {
                let from = from as usize;
                bytes.get(from..from + BLOCK as usize)
            });
            self.compare(file, at, place.block + at - run.file, whole)?;
        }
        Ok(())
    }

    fn load_block(&self, file: &State, at: u64, block: u64, bytes: &mut [u8]) -> Result<()> {
        self.region.load(block * BLOCK, bytes).map_err(|error| {
            self.losses.tell(&format!("inode {}: byte {}: {error}", file.ino, at * BLOCK));
            error.into()
        })
    }

    fn wrong_sum(&self, file: &State, at: u64, block: u64) -> Error {
        let what = format!(
            "inode {}: byte {}: the checksum of block {block} of the pool does not fit its bytes",
            file.ino,
            at * BLOCK
        );
        self.losses.tell(&what);
        Error::Damaged(what)
    }

    /// Reads all blocks of a range of a file, and compares those with checksums, whether that was done before or not.
    pub(crate) fn verify_file(&self, file: &State, offset: u64, len: u64) -> Result<Verified> {
        let end = offset.saturating_add(len).min(file.size);
        let mut verified = Verified::default();
        if offset >= end {
            return Ok(verified);
        }
        let mut bytes = [0; BLOCK as usize];
        for run in file.blocks()?.runs(offset / BLOCK..end.div_ceil(BLOCK)) {
            let Some(Place { block, unwritten: false }) = run.place else { continue };
            for at in 0..run.count {
                self.load_block(file, run.file + at, block + at, &mut bytes)?;
                verified.read += BLOCK;
                match self.sums.get(block + at) {
                    Some(sum) if crc32c(&bytes) != sum => {
                        return Err(self.wrong_sum(file, run.file + at, block + at));
                    }
                    Some(_) => {
                        self.sums.compared(block + at);
                        verified.compared += BLOCK;
                    }
                    None => {}
                }
            }
        }
        Ok(verified)
    }
}
