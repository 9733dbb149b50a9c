//! Memory of this process in which caches keep copies: bytes that tasks share without references into them, as those of a
//! [`crate::Region`], with no medium behind them. It charges and counts nothing.

use std::ptr;

use memmap2::{Advice, MmapOptions, MmapRaw};
use sim::Bytes;

use crate::MediaError;
use crate::nvmm::fits;

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
}
