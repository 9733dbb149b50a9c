//! Files as the programs read and write them.
//!
//! | | is as | its calls |
//! |---|---|---|
//! | [`Records`] | GNU tar's archive | reads or writes of 10,240 bytes |
//! | [`Buffered`] | zip's archive: stdio with 16 KiB | writes of what the buffer holds when it is full or left by a seek |
//! | [`Blocks`] | unzip's archive | reads of 8 KiB at multiples of it, an lseek before each that does not follow the last |

use std::cell::Cell;
use std::io::{self, Read, Seek, SeekFrom, Write};

use vfs::{Errno, Fd, Syscalls, Whence};

/// Bytes of a record of tar: twenty blocks of 512.
pub(super) const RECORD: usize = 10_240;
/// Bytes of the buffer that zip gives to stdio.
const BUFFER: usize = 16 << 10;
/// Bytes that unzip reads at once.
const BLOCK: usize = 8 << 10;

/// A call that failed, as an error of I/O: its number comes back from [`errno_of`].
pub(super) fn failed(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.number())
}

/// The number of a failed call.
pub(super) fn errno_of(error: &io::Error) -> Option<Errno> {
    error.raw_os_error().map(Errno::from_number)
}

/// Writes all of `data`.
fn write_all(calls: &dyn Syscalls, fd: Fd, data: &[u8]) -> io::Result<()> {
    let mut left = data;
    while !left.is_empty() {
        match calls.write(fd, left).map_err(failed)? {
            0 => return Err(failed(Errno::ENOSPC)),
            wrote => left = &left[wrote..],
        }
    }
    Ok(())
}

/// An archive of tar.
pub(super) struct Records<'a> {
    calls: &'a dyn Syscalls,
    fd: Fd,
    record: Vec<u8>,
    /// Bytes of the record that were given or taken.
    at: usize,
    /// Bytes that the record holds, of a file that is read.
    len: usize,
    pub(super) bytes: u64,
}

impl<'a> Records<'a> {
    pub(super) fn new(calls: &'a dyn Syscalls, fd: Fd) -> Self {
        Self { calls, fd, record: vec![0; RECORD], at: 0, len: 0, bytes: 0 }
    }

    /// Where the next bytes of the record go.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.record[self.at..]
    }

    /// So many bytes were put there.
    pub(super) fn fill(&mut self, bytes: usize) -> io::Result<()> {
        self.at += bytes;
        if self.at < RECORD {
            return Ok(());
        }
        write_all(self.calls, self.fd, &self.record)?;
        self.bytes += RECORD as u64;
        self.at = 0;
        Ok(())
    }

    /// Fills up with zeros to a multiple of `unit` bytes.
    pub(super) fn pad(&mut self, unit: usize) -> io::Result<()> {
        let zeros = self.at.next_multiple_of(unit) - self.at;
        self.room()[..zeros].fill(0);
        self.fill(zeros)
    }
}

impl Write for Records<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let room = self.room();
        let len = room.len().min(data.len());
        room[..len].copy_from_slice(&data[..len]);
        self.fill(len)?;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Records<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.len {
            self.len = self.calls.read(self.fd, &mut self.record).map_err(failed)?;
            self.at = 0;
            self.bytes += self.len as u64;
        }
        let len = buffer.len().min(self.len - self.at);
        buffer[..len].copy_from_slice(&self.record[self.at..self.at + len]);
        self.at += len;
        Ok(len)
    }
}

/// An archive that zip writes.
pub(super) struct Buffered<'a> {
    calls: &'a dyn Syscalls,
    fd: Fd,
    /// Set: before its next bytes the program tries whether the archive can be sought, by a seek a byte back and one forth.
    tries_seeking: &'a Cell<bool>,
    buffer: Vec<u8>,
    /// Where the buffer begins in the file.
    at: u64,
    pub(super) bytes: u64,
    end: u64,
}

impl<'a> Buffered<'a> {
    pub(super) fn new(calls: &'a dyn Syscalls, fd: Fd, tries_seeking: &'a Cell<bool>) -> Self {
        Self { calls, fd, tries_seeking, buffer: Vec::with_capacity(BUFFER), at: 0, bytes: 0, end: 0 }
    }

    fn try_seeking(&mut self) -> io::Result<()> {
        self.flush()?;
        for offset in [self.at.saturating_sub(1), self.at] {
            self.calls.lseek(self.fd, offset.cast_signed(), Whence::Set).map_err(failed)?;
        }
        Ok(())
    }
}

impl Write for Buffered<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.tries_seeking.take() {
            self.try_seeking()?;
        }
        if self.buffer.len() == BUFFER {
            self.flush()?;
        }
        let len = data.len().min(BUFFER - self.buffer.len());
        self.buffer.extend_from_slice(&data[..len]);
        self.end = self.end.max(self.at + self.buffer.len() as u64);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        write_all(self.calls, self.fd, &self.buffer)?;
        self.at += self.buffer.len() as u64;
        self.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl Seek for Buffered<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let here = self.at + self.buffer.len() as u64;
        let target = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(by) => here.checked_add_signed(by),
            SeekFrom::End(by) => self.end.checked_add_signed(by),
        };
        let target = target.ok_or_else(|| failed(Errno::EINVAL))?;
        if target != here {
            self.flush()?;
            self.calls.lseek(self.fd, target.cast_signed(), Whence::Set).map_err(failed)?;
            self.at = target;
        }
        Ok(target)
    }
}

/// An archive that unzip reads.
pub(super) struct Blocks<'a> {
    calls: &'a dyn Syscalls,
    fd: Fd,
    size: u64,
    block: Vec<u8>,
    /// Where the block begins; none yet.
    from: Option<u64>,
    /// Where the file's own offset is.
    offset: u64,
    at: u64,
    pub(super) bytes: u64,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(calls: &'a dyn Syscalls, fd: Fd, size: u64) -> Self {
        Self { calls, fd, size, block: Vec::new(), from: None, offset: 0, at: 0, bytes: 0 }
    }

    fn fetch(&mut self, from: u64) -> io::Result<()> {
        if self.offset != from {
            self.calls.lseek(self.fd, from.cast_signed(), Whence::Set).map_err(failed)?;
        }
        self.block.resize(BLOCK, 0);
        let read = self.calls.read(self.fd, &mut self.block).map_err(failed)?;
        self.block.truncate(read);
        (self.from, self.offset) = (Some(from), from + read as u64);
        self.bytes += read as u64;
        Ok(())
    }
}

impl Read for Blocks<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.size {
            return Ok(0);
        }
        let from = self.at / BLOCK as u64 * BLOCK as u64;
        if self.from != Some(from) {
            self.fetch(from)?;
        }
        let rest = self.block.get((self.at - from) as usize..).unwrap_or_default();
        let len = buffer.len().min(rest.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        self.at += len as u64;
        Ok(len)
    }
}

impl Seek for Blocks<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.size.checked_add_signed(by),
        };
        self.at = target.ok_or_else(|| failed(Errno::EINVAL))?;
        Ok(self.at)
    }
}
