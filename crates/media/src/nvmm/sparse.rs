//! Pool files with holes: parts of a file that have no blocks on the host yet.
//!
//! A store into a hole that the host cannot fill ends the process by `SIGBUS` (`lost.rs`). So an allocator of a design asks for the
//! host's blocks before it gives out its own ([`super::Region::back`]), and a full disk is an ordinary "no space". The host is
//! asked once for each part of [`PART`] bytes.
//!
//! ```text
//!   opened:  all of it data ─────────────────► backed
//!            anything else ──► unknown
//!   part:    unknown ──back: fallocate──► backed ──punch: a hole in it──► unknown
//! ```
//!
//! Where the holes are, the host says (`SEEK_DATA`, `SEEK_HOLE`). How many blocks a file takes (`st_blocks`) does not tell: it
//! counts blocks of the host's metadata and blocks beyond the end, and one such block hides a hole. The host may call reserved
//! blocks that were never stored to a hole: then it is asked in vain, once for each part. Where it calls a file of fewer blocks
//! than bytes all data, as a host does that knows no holes, nothing is known of any part.
//!
//! When the host has no space left, there may still be free blocks that it has given already: in parts that are backed, and where
//! there is data ([`super::Region::backed_from`]).
//!
//! None of this helps on a host that moves a block when it is stored to (btrfs, ZFS, a file that shares blocks with another): there
//! each store may need space, which no call reserves. Nor does an allocator ask for blocks that are in use, so a pool must not be
//! copied with holes for its zeros (`cp --sparse=always`) to a host that then becomes full.
//!
//! Lock order: `changing` is a leaf, and no task switch comes under it.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;

use crate::MediaError;

/// What is asked for at once.
const PART: u64 = 2 << 20;

/// Which parts the host has blocks for.
#[derive(Debug, Default)]
pub(super) struct Backed {
    /// A bit for each part: the host has blocks for all of it. None while it has for the whole file.
    parts: OnceLock<Box<[AtomicU64]>>,
    /// Held from a change of the file until its bits say so: otherwise a part could count as backed in which a hole was made since
    /// it was reserved.
    changing: Mutex<()>,
}

fn parts(offset: u64, len: u64) -> Range<u64> {
    offset / PART..(offset + len).div_ceil(PART)
}

impl Backed {
    /// Looks where a file of `len` bytes has holes.
    pub(super) fn of(file: &File, len: u64) -> Self {
        let backed = Self::default();
        let takes_less = file.metadata().map_or(true, |data| data.blocks() * 512 < len);
        let mut at = 0;
        while let Some(data) = data_from(file, at, len).unwrap_or(Some(at..len)) {
            if data == (0..len) && !takes_less {
                return backed;
            }
            if data == (0..len) {
                break;
            }
            let whole =
                data.start.div_ceil(PART)..if data.end == len { parts(0, len).end } else { data.end / PART };
            backed.set(whole, len);
            at = data.end;
        }
        backed.parts.get_or_init(|| words(len, 0));
        backed
    }

    /// Notes that the host has blocks for these parts.
    fn set(&self, parts: Range<u64>, len: u64) {
        let words = self.parts.get_or_init(|| words(len, 0));
        for part in parts {
            if let Some(word) = words.get((part / 64) as usize) {
                word.fetch_or(1 << (part % 64), Relaxed);
            }
        }
    }

    /// The first range at or after `from` for which the host has blocks, without asking it for any.
    pub(super) fn next_from(&self, file: &File, from: u64, size: u64) -> Option<Range<u64>> {
        if from >= size {
            return None;
        }
        let Some(words) = self.parts.get() else { return Some(from..size) };
        let is_backed = |part: &u64| {
            words.get((part / 64) as usize).is_some_and(|word| word.load(Acquire) >> (part % 64) & 1 == 1)
        };
        let mut after = parts(from, size - from).skip_while(|part| !is_backed(part)).peekable();
        let first = after.peek().copied();
        let parts = first.map(|first| first..first + after.take_while(is_backed).count() as u64);
        let reserved = parts.map(|parts| from.max(parts.start * PART)..size.min(parts.end * PART));
        let data = data_from(file, from, size).ok().flatten();
        reserved.into_iter().chain(data).min_by_key(|range| range.start)
    }

    /// Has the host reserve blocks for a range; false when it has none left.
    #[inline]
    pub(super) fn ensure(&self, file: &File, (offset, len): (u64, u64), size: u64) -> bool {
        let Some(words) = self.parts.get() else { return true };
        let reserve = |start: u64, end: u64| fallocate(file, FallocateFlags::empty(), start, end - start);
        parts(offset, len).all(|part| {
            let (start, end) = (part * PART, ((part + 1) * PART).min(size));
            self.ensure_part(words, part, || reserve(start, end))
                // A host that is nearly full, or full where this much was given before.
                || reserve(start.max(offset), end.min(offset + len)).is_ok()
        })
    }

    fn ensure_part(
        &self,
        words: &[AtomicU64],
        part: u64,
        reserve: impl FnOnce() -> Result<(), Errno>,
    ) -> bool {
        let Some(word) = words.get((part / 64) as usize) else { return true };
        let bit = 1 << (part % 64);
        if word.load(Acquire) & bit != 0 {
            return true;
        }
        let _changing = self.changing.lock();
        match reserve() {
            // Some hosts cannot reserve; there a hole is filled at the first store.
            Ok(()) | Err(Errno::OPNOTSUPP) => {
                word.fetch_or(bit, Relaxed);
                true
            }
            Err(_) => false,
        }
    }

    /// Gives the host its blocks of a range back, which nothing uses.
    pub(super) fn punch(&self, file: &File, (offset, len): (u64, u64), size: u64) -> Result<(), MediaError> {
        let words = self.parts.get_or_init(|| words(size, u64::MAX));
        let _changing = self.changing.lock();
        fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len).map_err(
            |errno| match errno {
                Errno::OPNOTSUPP | Errno::NOSYS => MediaError::NoHoles,
                errno => MediaError::io("give space of the file back", &errno.into()),
            },
        )?;
        for part in parts(offset, len) {
            if let Some(word) = words.get((part / 64) as usize) {
                word.fetch_and(!(1 << (part % 64)), Release);
            }
        }
        Ok(())
    }
}

/// The first range at or after `from` that is no hole. An error: the host does not tell.
pub(super) fn data_from(file: &File, from: u64, len: u64) -> Result<Option<Range<u64>>, Errno> {
    let start = match seek(file, SeekFrom::Data(from)) {
        Err(Errno::NXIO) => return Ok(None),
        start => start?,
    };
    let end = seek(file, SeekFrom::Hole(start))?.min(len);
    Ok((start < end).then_some(start..end))
}

fn words(len: u64, value: u64) -> Box<[AtomicU64]> {
    (0..len.div_ceil(PART).div_ceil(64)).map(|_| AtomicU64::new(value)).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

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
    fn a_part_in_which_a_hole_is_made_while_it_is_reserved_is_reserved_again() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(PART).expect("a size");
        let (file, backed, hole) = (&file, &Backed::of(&file, PART), (PART / 2, PART / 4));
        std::thread::scope(|scope| {
            let words = backed.parts.get().expect("it has holes");
            assert!(backed.ensure_part(words, 0, || {
                fallocate(file, FallocateFlags::empty(), 0, PART)?;
                let punched = scope.spawn(move || backed.punch(file, hole, PART).expect("a hole"));
                // It ends meanwhile, if it does not wait.
                let until = std::time::Instant::now() + std::time::Duration::from_millis(100);
                while !punched.is_finished() && std::time::Instant::now() < until {
                    std::thread::yield_now();
                }
                Ok(())
            }));
        });
        assert!(file.metadata().expect("metadata").blocks() * 512 < PART, "there is a hole now");
        assert!(backed.ensure(file, hole, PART));
        assert!(file.metadata().expect("metadata").blocks() * 512 >= PART, "a store would meet the hole");
    }

    #[test]
    fn a_file_without_holes_is_asked_nothing() {
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(&vec![1; PART as usize + 4096], 0).expect("a write");
        assert!(Backed::of(&file, PART + 4096).parts.get().is_none());
    }

    #[test]
    fn a_hole_is_found_in_a_file_that_has_blocks_enough_beyond_its_end() {
        let file = tempfile::tempfile().expect("a file");
        let size = 2 * PART;
        file.write_all_at(&vec![1; PART as usize], 0).expect("a write");
        file.set_len(size).expect("a size");
        fallocate(&file, FallocateFlags::KEEP_SIZE, size, 2 * PART).expect("space");
        assert!(file.metadata().expect("metadata").blocks() * 512 >= size, "the count of blocks hides it");
        let backed = Backed::of(&file, size);
        let asked = |part| {
            let mut asked = false;
            let words = backed.parts.get().expect("it has holes");
            backed.ensure_part(words, part, || {
                asked = true;
                Ok(())
            });
            asked
        };
        assert!(!asked(0) && asked(1), "the part with the hole alone is asked for");
    }

    #[test]
    fn what_the_host_has_given_is_found_without_asking_it() {
        let file = tempfile::tempfile().expect("a file");
        let size = 8 * PART + 4096;
        file.set_len(size).expect("a size");
        let some = vec![1; 3 * 4096];
        file.write_all_at(&some, PART + 8192).expect("a write");
        file.write_all_at(&vec![1; PART as usize], 3 * PART).expect("a write");
        let backed = Backed::of(&file, size);
        let from = |at| backed.next_from(&file, at, size);
        let data = PART + 8192..PART + 8192 + some.len() as u64;
        assert_eq!(
            (from(0), from(data.start + 4096)),
            (Some(data.clone()), Some(data.start + 4096..data.end))
        );
        assert_eq!(from(data.end), Some(3 * PART..4 * PART));
        assert_eq!(from(4 * PART), None);
        assert!(backed.ensure(&file, (4 * PART, 1), size) && backed.ensure(&file, (size - 1, 1), size));
        assert_eq!(from(data.end), Some(3 * PART..5 * PART), "one range");
        assert_eq!(from(5 * PART), Some(8 * PART..size), "the last part is short");
        backed.punch(&file, (3 * PART, PART), size).expect("a hole");
        assert_eq!(from(3 * PART), Some(4 * PART..5 * PART));
        assert_eq!(from(size), None);
    }
}
