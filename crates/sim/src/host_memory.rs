//! A file of the host in this process's memory, for the front end that runs on the host's kernel, and words that the processes of
//! a run share. It lies in this crate because it takes `unsafe`, and the layers that use it have none; nothing else here knows
//! files.
//!
//! # Why it is sound
//!
//! [`HostMemory`] is plain bytes: no reference into it ever exists, every value of its bytes is valid, and every access is checked
//! against its length. Other tasks, and other programs, may change the bytes at any time; an access that races with that moves a
//! mix of old and new ones. [`HostWords`] gives references to atomics alone, for which any value is valid and any other process may
//! store at any time.
//!
//! An access to a page beyond the end of the file ends the process by `SIGBUS`: the caller checks the size of the file
//! first.

use std::ffi::c_void;
use std::io;
use std::os::fd::AsFd;
use std::ptr;
use std::sync::atomic::AtomicU64;

use rustix::fs::fstat;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

/// A shared mapping of a file.
#[derive(Debug)]
pub struct HostMemory {
    base: *mut u8,
    len: usize,
}

// SAFETY: the memory belongs to the value; concurrent accesses are the subject of "Why it is sound" above.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Maps `len` bytes of a file from `offset` on, shared.
    pub fn map(file: impl AsFd, offset: u64, len: usize, (read, write): (bool, bool)) -> io::Result<Self> {
        let mut protection = ProtFlags::empty();
        protection.set(ProtFlags::READ, read);
        protection.set(ProtFlags::WRITE, write);
        // SAFETY: the kernel chooses the place, so no memory that is in use is replaced.
        let base = unsafe { mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, file, offset)? };
        Ok(Self { base: base.cast(), len })
    }

    /// Copies bytes out. The mapping must allow loads, and the file reach to the page.
    pub fn load(&self, at: usize, buffer: &mut [u8]) {
        let from = self.place(at, buffer.len());
        // SAFETY: `place` checked the range; `buffer` is the caller's, so the two cannot overlap.
        unsafe { ptr::copy_nonoverlapping(from, buffer.as_mut_ptr(), buffer.len()) };
    }

    /// Copies bytes in. The mapping must allow stores, and the file reach to the page.
    pub fn store(&self, at: usize, data: &[u8]) {
        let to = self.place(at, data.len());
        // SAFETY: as in `load`.
        unsafe { ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()) };
    }

    /// Makes pages durable; `at` is the first byte of one.
    pub fn sync(&self, at: usize, len: usize) -> io::Result<()> {
        let from = self.place(at, len).cast::<c_void>();
        // SAFETY: `place` checked the range, which msync only reads.
        unsafe { msync(from, len, MsyncFlags::SYNC)? };
        Ok(())
    }

    fn place(&self, at: usize, len: usize) -> *mut u8 {
        assert!(
            at <= self.len && len <= self.len - at,
            "bytes {at} to {at} + {len} of {} are mapped",
            self.len
        );
        // SAFETY: the range lies inside of the mapping.
        unsafe { self.base.add(at) }
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and no reference into it exists. It cannot fail for a range that was mapped.
        let _ = unsafe { munmap(self.base.cast(), self.len) };
    }
}

/// Words of a file that several processes share, in the memory of each.
#[derive(Debug)]
pub struct HostWords {
    memory: HostMemory,
    count: usize,
}

impl HostWords {
    /// Maps the first `count` words of a file, which must have as many and keep them.
    pub fn map(file: impl AsFd, count: usize) -> io::Result<Self> {
        let len = count * size_of::<AtomicU64>();
        if (fstat(&file)?.st_size as u64) < len as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the file is shorter than its words"));
        }
        Ok(Self { memory: HostMemory::map(file, 0, len, (true, true))?, count })
    }

    /// The word with this number.
    pub fn word(&self, number: usize) -> &AtomicU64 {
        assert!(number < self.count, "word {number} of {}", self.count);
        let place = self.memory.place(number * size_of::<AtomicU64>(), size_of::<AtomicU64>());
        // SAFETY: the mapping begins at a page, so the word is aligned; `place` checked that it lies inside; it stays mapped as
        // long as `self`; every process that maps it as words accesses it as an atomic.
        unsafe { AtomicU64::from_ptr(place.cast()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    #[test]
    fn what_one_mapping_stores_into_a_word_the_other_loads() {
        let file = memfd_create("words", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 4096).unwrap();
        let (one, other) = (HostWords::map(&file, 3).unwrap(), HostWords::map(&file, 3).unwrap());
        one.word(2).store(7, Relaxed);
        assert_eq!([0, 1, 2].map(|number| other.word(number).load(Relaxed)), [0, 0, 7]);
        ftruncate(&file, 23).unwrap();
        assert!(HostWords::map(&file, 3).is_err(), "a file that is too short is refused");
    }
}
