//! Memory of this process in which caches keep copies: bytes that tasks share without references into them, as those of a
//! [`crate::Region`], with no medium behind them. It charges and counts nothing.

use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use memmap2::{Advice, MmapOptions, MmapRaw};
use sim::Bytes;

use crate::MediaError;
use crate::nvmm::fits;

/// Bytes of a word.
const WORD: u64 = size_of::<u64>() as u64;

/// A range of memory, zero at first and taken from the host as it is written. All methods take `&self`: share it in an `Arc`.
#[derive(Debug)]
pub struct Memory(MmapRaw);

impl Memory {
    /// So many bytes.
    ///
    /// # Errors
    ///
    /// The length is zero, or the host has no room for it in the process's addresses.
    pub fn new(len: Bytes) -> Result<Self, MediaError> {
        anonymous(len).map(Self)
    }

    /// Copies bytes out.
    ///
    /// # Errors
    ///
    /// [`MediaError::OutOfRange`].
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), MediaError> {
        let from = self.at(offset, buffer.len())?;
        // SAFETY: `at` checked the range, of whose bytes every value is valid; `buffer` is ours, so the two cannot overlap. That no
        // other task writes them meanwhile is the user's to see to, as it is for a region (`nvmm`, "Why it is sound").
        unsafe { ptr::copy_nonoverlapping(from, buffer.as_mut_ptr(), buffer.len()) };
        Ok(())
    }

    /// Copies bytes in.
    ///
    /// # Errors
    ///
    /// [`MediaError::OutOfRange`].
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), MediaError> {
        let to = self.at(offset, bytes.len())?;
        // SAFETY: as for `read`; no references into the memory exist, so `bytes` cannot lie in it.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    /// Copies bytes out, word by word: beside a task that stores them by [`Memory::write_words`], each aligned word of eight bytes
    /// is one that was stored. `offset` need not be aligned.
    ///
    /// # Errors
    ///
    /// [`MediaError::OutOfRange`].
    pub fn read_words(&self, offset: u64, buffer: &mut [u8]) -> Result<(), MediaError> {
        self.each_word(offset, buffer.len(), |word, within, part| {
            let bytes = word.load(Relaxed).to_ne_bytes();
            buffer[part].copy_from_slice(&bytes[within]);
        })
    }

    /// Copies bytes in, word by word: see [`Memory::read_words`]. Of tasks that store one word one must come after the other.
    ///
    /// # Errors
    ///
    /// [`MediaError::OutOfRange`].
    pub fn write_words(&self, offset: u64, bytes: &[u8]) -> Result<(), MediaError> {
        self.each_word(offset, bytes.len(), |word, within, part| {
            let mut whole = word.load(Relaxed).to_ne_bytes();
            whole[within].copy_from_slice(&bytes[part]);
            word.store(u64::from_ne_bytes(whole), Relaxed);
        })
    }

    /// Gives every aligned word that has some of the bytes to `each`, with which of its own and which of all these are.
    #[inline]
    fn each_word(
        &self,
        offset: u64,
        len: usize,
        mut each: impl FnMut(&AtomicU64, Range<usize>, Range<usize>),
    ) -> Result<(), MediaError> {
        self.at(offset, len)?;
        let (mut done, mut within) = (0, (offset % WORD) as usize);
        // The mapping begins at a page and is whole words long, so that each word lies inside.
        let mut at = self.at(offset - offset % WORD, 0)?;
        while done < len {
            let part = (WORD as usize - within).min(len - done);
            // SAFETY: `at` is aligned and the word lies inside the mapping, as said above; every value is valid. Who uses words
            // beside others uses nothing else: the user's to see to, as for `read`.
            let word = unsafe { AtomicU64::from_ptr(at.cast()) };
            each(word, within..within + part, done..done + part);
            done += part;
            within = 0;
            // SAFETY: at most one word behind the last byte, which is the end of the mapping at most.
            at = unsafe { at.add(WORD as usize) };
        }
        Ok(())
    }

    #[inline]
    fn at(&self, offset: u64, len: usize) -> Result<*mut u8, MediaError> {
        let (len, size) = (len as u64, self.0.len() as u64);
        if !fits(offset, len, size) {
            return Err(MediaError::OutOfRange { offset, len, size });
        }
        // SAFETY: the offset lies inside the mapping.
        Ok(unsafe { self.0.as_mut_ptr().add(offset as usize) })
    }
}

/// Memory of this process, zero at first.
pub(crate) fn anonymous(len: Bytes) -> Result<MmapRaw, MediaError> {
    if len.0 == 0 {
        return Err(MediaError::Empty);
    }
    let map = MmapOptions::new().len(len.as_usize()).no_reserve_swap().map_anon();
    let map = MmapRaw::from(map.map_err(|e| MediaError::io("reserve memory", &e))?);
    // Advice only: a host without huge pages is slower, not wrong.
    let _ = map.advise(Advice::HugePage);
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_nothing_outside_is_reached() {
        let memory = Memory::new(Bytes(8192)).expect("memory");
        memory.write(4090, &[1, 2, 3, 4, 5, 6, 7, 8]).expect("inside");
        let mut bytes = [0; 10];
        memory.read(4089, &mut bytes).expect("inside");
        assert_eq!(bytes, [0, 1, 2, 3, 4, 5, 6, 7, 8, 0]);
        for (offset, len) in [(8192, 1), (8191, 2), (u64::MAX, 2), (0, 8193)] {
            let outside = MediaError::OutOfRange { offset, len, size: 8192 };
            assert_eq!(memory.read(offset, &mut vec![0; len as usize]), Err(outside));
            assert_eq!(memory.write(offset, &vec![0; len as usize]), Err(outside));
        }
        assert_eq!(Memory::new(Bytes(0)).err(), Some(MediaError::Empty));
    }

    #[test]
    fn words_are_the_bytes_of_any_range_and_change_no_others() {
        let memory = Memory::new(Bytes(64)).expect("memory");
        let all = |memory: &Memory| {
            let mut bytes = [0; 64];
            memory.read(0, &mut bytes).expect("inside");
            bytes
        };
        for (offset, len) in [(0, 64), (0, 8), (3, 2), (5, 6), (7, 57), (63, 1), (16, 0)] {
            let (before, at) = (all(&memory), offset as usize);
            let bytes: Vec<u8> = (0..len).map(|byte| (byte * 7 + len) as u8).collect();
            memory.write_words(offset, &bytes).expect("inside");
            let mut expected = before;
            expected[at..at + len].copy_from_slice(&bytes);
            assert_eq!(all(&memory), expected, "{len} bytes from {offset} on");
            let mut back = vec![0; len];
            memory.read_words(offset, &mut back).expect("inside");
            assert_eq!(back, bytes);
        }
        assert!(memory.write_words(60, &[0; 5]).is_err() && memory.read_words(64, &mut [0]).is_err());
    }
}
