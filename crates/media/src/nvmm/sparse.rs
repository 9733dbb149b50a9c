//! Pool files with holes: parts of a file that have no blocks on the host yet.
//!
//! A store into a hole that the host cannot fill ends the process by `SIGBUS` (`lost.rs`). So an allocator of a design asks for the
//! host's blocks before it gives out its own ([`super::Region::back`]), and a full disk is an ordinary "no space". The host is
//! asked once for each part of [`PART`] bytes.
//!
//! ```text
//!   part:  unknown ──back: fallocate──► backed ──punch: a hole in it──► unknown
//! ```
//!
//! A file without holes needs none of this.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use rustix::fs::{FallocateFlags, fallocate};

use crate::MediaError;

/// What is asked for at once.
const PART: u64 = 2 << 20;

/// A bit for each part: the host has blocks for all of it. None while the file has no hole.
#[derive(Debug, Default)]
pub(super) struct Backed(OnceLock<Box<[AtomicU64]>>);

fn parts(offset: u64, len: u64) -> std::ops::Range<u64> {
    offset / PART..(offset + len).div_ceil(PART)
}

impl Backed {
    /// Looks whether a file of `len` bytes has holes.
    pub(super) fn of(file: &File, len: u64) -> Self {
        let backed = Self::default();
        if file.metadata().is_ok_and(|data| data.blocks() * 512 < len) {
            backed.0.get_or_init(|| words(len, 0));
        }
        backed
    }

    /// Has the host reserve blocks for a range; false when it has none left.
    #[inline]
    pub(super) fn ensure(&self, file: &File, (offset, len): (u64, u64), size: u64) -> bool {
        match self.0.get() {
            None => true,
            Some(words) => parts(offset, len).all(|part| ensure_part(words, file, part, size)),
        }
    }

    /// Gives the host its blocks of a range back, which nothing uses.
    pub(super) fn punch(&self, file: &File, (offset, len): (u64, u64), size: u64) -> Result<(), MediaError> {
        let words = self.0.get_or_init(|| words(size, u64::MAX));
        fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len)
            .map_err(|errno| MediaError::io("give space of the file back", &errno.into()))?;
        // After it: what reserves the part meanwhile may have come before the hole.
        for part in parts(offset, len) {
            if let Some(word) = words.get((part / 64) as usize) {
                word.fetch_and(!(1 << (part % 64)), Release);
            }
        }
        Ok(())
    }
}

fn words(len: u64, value: u64) -> Box<[AtomicU64]> {
    (0..len.div_ceil(PART).div_ceil(64)).map(|_| AtomicU64::new(value)).collect()
}

fn ensure_part(words: &[AtomicU64], file: &File, part: u64, size: u64) -> bool {
    let Some(word) = words.get((part / 64) as usize) else { return true };
    let bit = 1 << (part % 64);
    if word.load(Acquire) & bit != 0 {
        return true;
    }
    let (start, end) = (part * PART, ((part + 1) * PART).min(size));
    match fallocate(file, FallocateFlags::empty(), start, end - start) {
        // Some hosts cannot reserve; there a hole is filled at the first store.
        Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => {
            word.fetch_or(bit, Relaxed);
            true
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_is_filled_before_use_and_can_be_made_again() {
        let file = tempfile::tempfile().expect("a file");
        let size = 3 * PART + 4096;
        file.set_len(size).expect("a size");
        let blocks = || file.metadata().expect("metadata").blocks() * 512;
        let backed = Backed::of(&file, size);
        assert_eq!(blocks(), 0);
        assert!(backed.ensure(&file, (PART, 4096), size) && blocks() >= PART);
        assert!(backed.ensure(&file, (size - 4096, 4096), size), "the last part is short");
        backed.punch(&file, (PART, PART), size).expect("a hole");
        assert!(blocks() < PART);
        assert!(backed.ensure(&file, (2 * PART - 1, 2), size) && blocks() >= 2 * PART, "both parts again");
        assert_eq!(file.metadata().expect("metadata").len(), size);
    }

    #[test]
    fn a_file_without_holes_is_asked_nothing() {
        let file = tempfile::tempfile().expect("a file");
        fallocate(&file, FallocateFlags::empty(), 0, PART).expect("space");
        assert!(Backed::of(&file, PART).0.get().is_none());
    }
}
