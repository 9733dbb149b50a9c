//! Memory of this process in which caches keep copies: bytes that tasks share without references into them, as those of a
//! [`crate::Region`], with no medium behind them. It charges and counts nothing.

use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use memmap2::{Advice, MmapOptions, MmapRaw};
use sim::Bytes;

use crate::MediaError;
use crate::nvmm::fits;

/// Bytes of a word.
const WORD: u64 = size_of::<u64>() as u64;

/// How many of so many bytes, the first of which is byte `within` of its word, come before the next word; none of a whole word.
fn before_next(within: usize, len: usize) -> usize {
    if within == 0 { 0 } else { (WORD as usize - within).min(len) }
}

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
        let (words, within) = self.words(offset, buffer.len())?;
        let load = |word: &AtomicU64| word.load(Relaxed).to_ne_bytes();
        let (first, rest) = buffer.split_at_mut(before_next(within, buffer.len()));
        let (own, words) = words.split_at(usize::from(!first.is_empty()));
        for word in own {
            first.copy_from_slice(&load(word)[within..within + first.len()]);
        }
        let (whole, last) = rest.as_chunks_mut();
        for (bytes, word) in whole.iter_mut().zip(words) {
            *bytes = load(word);
        }
        if let Some(word) = words.get(whole.len()) {
            last.copy_from_slice(&load(word)[..last.len()]);
        }
        Ok(())
    }

    /// Copies bytes in, word by word: see [`Memory::read_words`]. Of tasks that store one word one must come after the other.
    ///
    /// # Errors
    ///
    /// [`MediaError::OutOfRange`].
    pub fn write_words(&self, offset: u64, bytes: &[u8]) -> Result<(), MediaError> {
        let (words, within) = self.words(offset, bytes.len())?;
        let change = |word: &AtomicU64, at: usize, part: &[u8]| {
            let mut all = word.load(Relaxed).to_ne_bytes();
            all[at..at + part.len()].copy_from_slice(part);
            word.store(u64::from_ne_bytes(all), Relaxed);
        };
        let (first, rest) = bytes.split_at(before_next(within, bytes.len()));
        let (own, words) = words.split_at(usize::from(!first.is_empty()));
        for word in own {
            change(word, within, first);
        }
        let (whole, last) = rest.as_chunks();
        for (bytes, word) in whole.iter().zip(words) {
            word.store(u64::from_ne_bytes(*bytes), Relaxed);
        }
        if let Some(word) = words.get(whole.len()) {
            change(word, 0, last);
        }
        Ok(())
    }

    /// The aligned words that have some of these bytes, and which byte of the first word is the first.
    fn words(&self, offset: u64, len: usize) -> Result<(&[AtomicU64], usize), MediaError> {
        self.at(offset, len)?;
        let within = offset % WORD;
        let first = self.at(offset - within, 0)?;
        let count = if len == 0 { 0 } else { (within + len as u64).div_ceil(WORD) };
        // SAFETY: the mapping begins at a page and is whole pages long, so that each word is aligned and lies inside; every value
        // is valid. Who uses words beside others uses nothing else: the user's to see to, as for `read`.
        let words = unsafe { slice::from_raw_parts(first.cast(), count as usize) };
        Ok((words, within as usize))
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
