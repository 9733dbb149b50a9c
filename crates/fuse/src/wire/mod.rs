//! The kernel's protocol: requests that are read from `/dev/fuse`, answers that are written to it.
//!
//! ```text
//!   read  ──► | InHeader | structure of the request | name\0 name\0 or data |
//!   write ◄── | OutHeader: length, -errno, number of the request | structure of the answer, or data |
//! ```
//!
//! We speak it ourselves, because the released crates for it read in a loop of their own, which decides the thread that a request
//! wakes ([`crate::threads`]), and lack `O_TMPFILE` and access-control lists.
//!
//! References: `include/uapi/linux/fuse.h` and `fs/fuse/dev.c` of Linux; fuse(4).

pub(crate) mod abi;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use vfs::{Errno, Result};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use abi::{InHeader, OutHeader};

/// The descriptor of a mount.
#[derive(Debug)]
pub(crate) struct Device(File);

/// What came of an attempt to read a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// A request of so many bytes.
    Bytes(usize),
    /// There is none now.
    Nothing,
    /// The mount has gone.
    End,
}

impl Device {
    /// Reading does not wait.
    pub(crate) fn new(descriptor: OwnedFd) -> io::Result<Self> {
        let device = Self(descriptor.into());
        device.set_waiting(false)?;
        Ok(device)
    }

    /// Whether reading waits until there is a request. One that waits already returns when the next request comes.
    pub(crate) fn set_waiting(&self, waits: bool) -> io::Result<()> {
        let mut flags = rustix::fs::fcntl_getfl(&self.0)?;
        flags.set(OFlags::NONBLOCK, !waits);
        Ok(rustix::fs::fcntl_setfl(&self.0, flags)?)
    }

    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<Read> {
        use rustix::io::Errno;
        loop {
            return match rustix::io::read(&self.0, &mut *buffer) {
                Ok(bytes) => Ok(Read::Bytes(bytes)),
                Err(Errno::AGAIN) => Ok(Read::Nothing),
                Err(Errno::NODEV) => Ok(Read::End),
                // The caller that had made the request has gone.
                Err(Errno::NOENT | Errno::INTR) => continue,
                Err(errno) => Err(errno.into()),
            };
        }
    }

    /// Waits until there is a request, or the mount has gone.
    pub(crate) fn wait(&self) {
        let mut this = [PollFd::new(&self.0, PollFlags::IN)];
        // A signal is no reason to end; the caller reads again.
        let _ = poll(&mut this, None);
    }

    /// Writes an answer or a notification. The kernel refuses an answer to a request that was given up.
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        Ok(rustix::io::write(&self.0, bytes).map(drop)?)
    }

    /// Has the kernel drop pages of a file; returns when it has.
    pub(crate) fn drop_pages(&self, nodeid: u64, offset: u64, len: u64) -> io::Result<()> {
        self.invalidate(abi::InvalInode { nodeid, offset: offset.cast_signed(), len: len.cast_signed() })
    }

    /// Has the kernel ask for the attributes of a file again. It waits for nothing.
    pub(crate) fn drop_attributes(&self, nodeid: u64) -> io::Result<()> {
        self.invalidate(abi::InvalInode { nodeid, offset: -1, len: 0 })
    }

    /// Has the kernel forget a name; returns when it has, for which it waits for its requests in that directory.
    pub(crate) fn drop_name(&self, parent: u64, name: &[u8]) -> io::Result<()> {
        let mut notice = Reply::new();
        notice.put(&abi::InvalEntry { parent, name_bytes: name.len() as u32, flags: 0 });
        notice.put_bytes(name);
        notice.put_bytes(&[0]);
        notice.send(self, 0, abi::NOTIFY_INVAL_ENTRY)
    }

    fn invalidate(&self, what: abi::InvalInode) -> io::Result<()> {
        let mut notice = Reply::new();
        notice.put(&what);
        notice.send(self, 0, abi::NOTIFY_INVAL_INODE)
    }
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) header: InHeader,
    rest: &'a [u8],
}

impl<'a> Request<'a> {
    /// Reads the head. None for what is none.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = InHeader::read_from_prefix(bytes).ok()?;
        // Extensions come last and are not used.
        let kept = rest.len().checked_sub(8 * (header.extensions & 0xFFFF) as usize)?;
        Some(Self { header, rest: &rest[..kept] })
    }

    /// The next structure.
    pub(crate) fn take<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Result<T> {
        let (value, rest) = T::read_from_prefix(self.rest).map_err(|_| Errno::EIO)?;
        self.rest = rest;
        Ok(value)
    }

    /// The next name, which ends with a zero byte.
    pub(crate) fn name(&mut self) -> Result<&'a [u8]> {
        let end = self.rest.iter().position(|byte| *byte == 0).ok_or(Errno::EIO)?;
        let name = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        Ok(name)
    }

    /// All that is left.
    pub(crate) fn data(&self) -> &'a [u8] {
        self.rest
    }
}

/// An answer on its way to the kernel. Its buffer is kept for the next one.
#[derive(Debug)]
pub(crate) struct Reply {
    bytes: Vec<u8>,
    /// Of those, the first so many are the answer.
    len: usize,
}

const HEAD: usize = size_of::<OutHeader>();

impl Reply {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; HEAD + 256], len: HEAD }
    }

    /// Begins anew.
    pub(crate) fn clear(&mut self) {
        self.len = HEAD;
    }

    /// Bytes after the head.
    pub(crate) fn len(&self) -> usize {
        self.len - HEAD
    }

    /// What follows the head.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[HEAD..self.len]
    }

    /// Adds `len` bytes, which the caller overwrites.
    pub(crate) fn room(&mut self, len: usize) -> &mut [u8] {
        let start = self.len;
        self.len += len;
        if self.bytes.len() < self.len {
            self.bytes.resize(self.len, 0);
        }
        &mut self.bytes[start..start + len]
    }

    /// Takes away what goes beyond `len` bytes after the head.
    pub(crate) fn shorten(&mut self, len: usize) {
        self.len = self.len.min(HEAD + len);
    }

    pub(crate) fn put_bytes(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
    }

    pub(crate) fn put<T: IntoBytes + Immutable>(&mut self, value: &T) {
        self.put_bytes(value.as_bytes());
    }

    /// Adds an entry of a directory, unless that would take more than `limit` bytes. Says whether it did.
    pub(crate) fn put_entry(
        &mut self,
        limit: usize,
        entry: Option<&abi::EntryOut>,
        (ino, next, kind): (u64, u64, u32),
        name: &[u8],
    ) -> bool {
        let head = size_of::<abi::Dirent>() + entry.map_or(0, |_| size_of::<abi::EntryOut>());
        let padded = (head + name.len()).next_multiple_of(8);
        if self.len() + padded > limit {
            return false;
        }
        if let Some(entry) = entry {
            self.put(entry);
        }
        self.put(&abi::Dirent { ino, next, name_bytes: name.len() as u32, kind });
        self.put_bytes(name);
        self.room(padded - head - name.len()).fill(0);
        true
    }

    /// Sends it as the answer to the request of number `unique`; `error` is 0, or a negative errno, which takes all else away.
    pub(crate) fn send(&mut self, device: &Device, unique: u64, error: i32) -> io::Result<()> {
        if error < 0 {
            self.clear();
        }
        let head = OutHeader { len: self.len as u32, error, unique };
        self.bytes[..HEAD].copy_from_slice(head.as_bytes());
        device.write(&self.bytes[..self.len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request as the kernel lays it out.
    fn request(rest: &[u8], extensions: u32) -> Vec<u8> {
        let words = [(40 + rest.len()) as u32, abi::opcode::RENAME2, 7, 0, 1, 0, 1000, 1001, 5, extensions];
        words.iter().flat_map(|word| word.to_ne_bytes()).chain(rest.iter().copied()).collect()
    }

    #[test]
    fn a_request_is_read_in_its_order_and_never_beyond_its_end() {
        let mut rest = 9_u64.to_ne_bytes().to_vec();
        rest.extend(1_u32.to_ne_bytes().iter().chain(&[0; 4]));
        rest.extend(b"old\0new\0");
        let bytes = request(&rest, 0);
        let mut read = Request::parse(&bytes).unwrap();
        assert_eq!((read.header.unique, read.header.nodeid, read.header.uid), (7, 1, 1000));
        let to: abi::Rename2In = read.take().unwrap();
        assert_eq!((to.new_parent, to.flags), (9, 1));
        assert_eq!((read.name(), read.name()), (Ok(&b"old"[..]), Ok(&b"new"[..])));
        assert_eq!(read.name(), Err(Errno::EIO));
        assert!(read.take::<abi::LinkIn>().is_err());
        for end in 0..bytes.len() {
            if let Some(mut cut) = Request::parse(&bytes[..end]) {
                let _ = cut.take::<abi::Rename2In>().and_then(|_| cut.name()).and_then(|_| cut.name());
            }
        }
    }

    #[test]
    fn extensions_are_left_out_of_the_data() {
        let bytes = request(b"data\0\0\0\0extended", 1);
        assert_eq!(Request::parse(&bytes).unwrap().data(), b"data\0\0\0\0");
        assert!(Request::parse(&request(b"short", 1)).is_none());
    }

    #[test]
    fn entries_are_padded_and_stop_at_the_limit() {
        let mut reply = Reply::new();
        assert!(reply.put_entry(64, None, (2, 1, 8), b"abc"));
        assert_eq!(reply.len(), 32);
        assert!(reply.put_entry(64, None, (3, 2, 8), b"12345678"));
        assert_eq!(reply.len(), 64);
        assert!(!reply.put_entry(64, None, (4, 3, 8), b"x"), "nothing fits any more");
    }
}
