//! A file of the host in this process's memory, for the front end that runs on the host's kernel. It lies in this crate because it
//! takes `unsafe`, and the layer of that front end has none; nothing else here knows files.
//!
//! # Why it is sound
//!
//! The memory is plain bytes: no reference into it ever exists, every value of its bytes is valid, and every access is checked
//! against its length. Other tasks, and other programs, may change the bytes at any time; an access that races with that moves a
//! mix of old and new ones.
//!
//! An access to a page beyond the end of the file ends the process by `SIGBUS`: the caller checks the size of the file
//! first.

use std::ffi::c_void;
use std::io;
use std::os::fd::AsFd;
use std::ptr;

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
