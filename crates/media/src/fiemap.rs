//! Where a file of this host lies on its device: Linux's FIEMAP.
//!
//! The kernel answers with a header and as many extents as fit the buffer, from a byte of the file on; the last extent of a file is
//! marked. With `FIEMAP_FLAG_SYNC` it writes the file back first, so that blocks that are not allocated yet are.
//!
//! Reference: Linux, `Documentation/filesystems/fiemap.rst`, `include/uapi/linux/fiemap.h`.

use std::fs::File;
use std::io;

use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

/// A run of a file's bytes on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostExtent {
    /// The first byte of the file.
    pub offset: u64,
    /// The first byte on the device; none if the file system does not say, or keeps the data elsewhere (in the inode, compressed).
    pub physical: Option<u64>,
    /// Length in bytes.
    pub len: u64,
    /// It reads as zeros until it is written.
    pub unwritten: bool,
}

/// `struct fiemap` without its extents.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Header {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Found {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    more_reserved: [u32; 3],
}

/// Extents of a call.
const COUNT: usize = 256;

#[repr(C)]
struct Request {
    header: Header,
    found: [Found; COUNT],
}

/// `FS_IOC_FIEMAP`: its number holds the size of the header alone.
const FIEMAP: Opcode = opcode::read_write::<Header>(b'f', 11);
const FLAG_SYNC: u32 = 1;
const EXTENT_LAST: u32 = 1;
/// Unknown place, delayed allocation, encoded, within metadata, at an odd byte: not a place that could be read on the device.
const EXTENT_ELSEWHERE: u32 = 0x2 | 0x4 | 0x8 | 0x100 | 0x200 | 0x400;
const EXTENT_UNWRITTEN: u32 = 0x800;

/// The extents of a file, in its order; holes are left out. `EOPNOTSUPP`: its file system has no device to lie on.
pub fn host_extents(file: &File) -> io::Result<Vec<HostExtent>> {
    let mut extents = Vec::new();
    let mut start = 0;
    loop {
        let header = Header {
            start,
            length: u64::MAX - start,
            flags: FLAG_SYNC,
            count: COUNT as u32,
            ..Header::default()
        };
        let mut request = Request { header, found: [Found::default(); COUNT] };
        // SAFETY: the opcode is that of FIEMAP, which reads the header and writes at most `count` extents behind it; `Request`
        // has the kernel's layout and room for that many, and every bit pattern is a value of its fields.
        unsafe {
            let call = Updater::<FIEMAP, Request>::new(&mut request);
            ioctl(file, call)?;
        }
        let found = &request.found[..COUNT.min(request.header.mapped as usize)];
        extents.extend(found.iter().map(|found| HostExtent {
            offset: found.logical,
            physical: (found.flags & EXTENT_ELSEWHERE == 0).then_some(found.physical),
            len: found.length,
            unwritten: found.flags & EXTENT_UNWRITTEN != 0,
        }));
        match found.last() {
            Some(last) if last.flags & EXTENT_LAST == 0 && last.length > 0 => {
                start = last.logical + last.length;
            }
            _ => return Ok(extents),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_kernels_sizes() {
        assert_eq!((size_of::<Header>(), size_of::<Found>()), (32, 56));
        assert_eq!(FIEMAP, 0xc020_660b);
    }
}
