//! An open file.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use vfs::syscalls::Fd;
use vfs::{FallocateMode, MappingKind, OpenFlags, SeekTo, Syscalls, Whence};

use crate::attributes::Metadata;
use crate::mapping::Mapping;
use crate::paths::{Inner, Pool, bytes};
use crate::{io_error, io_result};

/// How to open a file; as `std::fs::OpenOptions`.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    flags: OpenFlags,
    mode: u32,
}

impl OpenOptions {
    /// Nothing is allowed yet.
    pub fn new() -> Self {
        Self { flags: OpenFlags::empty(), mode: 0o666 }
    }

    fn set(&mut self, flag: OpenFlags, on: bool) -> &mut Self {
        self.flags.set(flag, on);
        self
    }

    /// Reading.
    pub fn read(&mut self, read: bool) -> &mut Self {
        self.set(OpenFlags::READ, read)
    }

    /// Writing.
    pub fn write(&mut self, write: bool) -> &mut Self {
        self.set(OpenFlags::WRITE, write)
    }

    /// Writing, always at the end.
    pub fn append(&mut self, append: bool) -> &mut Self {
        self.set(OpenFlags::APPEND | OpenFlags::WRITE, append)
    }

    /// Cuts the file to length zero.
    pub fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.set(OpenFlags::TRUNCATE, truncate)
    }

    /// Makes the file if it is missing.
    pub fn create(&mut self, create: bool) -> &mut Self {
        self.set(OpenFlags::CREATE, create)
    }

    /// Makes the file, and fails if it is there.
    pub fn create_new(&mut self, create_new: bool) -> &mut Self {
        self.set(OpenFlags::CREATE | OpenFlags::EXCLUSIVE, create_new)
    }

    /// Every write is durable when it returns (`O_SYNC`).
    pub fn sync(&mut self, sync: bool) -> &mut Self {
        self.set(OpenFlags::SYNC, sync)
    }

    /// Permission bits of a new file, before the umask.
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = mode;
        self
    }

    /// Opens a file of a pool.
    pub fn open(&self, pool: &Pool, path: impl AsRef<Path>) -> io::Result<File> {
        let pool = pool.inner();
        let fd = io_result(pool.process.open(bytes(path.as_ref()), self.flags, self.mode))?;
        Ok(File { pool: Arc::clone(pool), fd, syncs: self.flags.contains(OpenFlags::SYNC) })
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// An open file. Its reads and writes at given places need no exclusive access; those at the cursor share one cursor.
#[derive(Debug)]
pub struct File {
    pool: Arc<Inner>,
    fd: Fd,
    syncs: bool,
}

impl File {
    /// Reads at `offset`; returns how many bytes there were.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        io_result(self.pool.process.pread(self.fd, buffer, offset))
    }

    /// Fills `buffer` from `offset`, or fails with `UnexpectedEof`.
    pub fn read_exact_at(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !buffer.is_empty() {
            let read = self.read_at(buffer, offset)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer = &mut buffer[read..];
            offset += read as u64;
        }
        Ok(())
    }

    /// Writes at `offset`; returns how many bytes there was space for.
    pub fn write_at(&self, data: &[u8], offset: u64) -> io::Result<usize> {
        let written = io_result(self.pool.process.pwrite(self.fd, data, offset))?;
        self.written()?;
        Ok(written)
    }

    /// Writes all of `data` at `offset`.
    pub fn write_all_at(&self, mut data: &[u8], mut offset: u64) -> io::Result<()> {
        while !data.is_empty() {
            let written = self.write_at(data, offset)?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            data = &data[written..];
            offset += written as u64;
        }
        Ok(())
    }

    /// Copies all of another file of the pool to the beginning; returns the bytes. The two share blocks where the design can.
    pub fn copy_from(&self, source: &Self) -> io::Result<u64> {
        let mut done = 0;
        loop {
            let (from, to) = ((source.fd, done), (self.fd, done));
            match io_result(self.pool.process.copy_file_range(from, to, 1 << 40))? {
                0 => break,
                copied => done += copied,
            }
        }
        self.written()?;
        Ok(done)
    }

    /// Orders the stores of this thread before later ones of other threads, one of which may sync the file.
    fn written(&self) -> io::Result<()> {
        self.pool.region.fence();
        if self.syncs { self.pool.harden() } else { Ok(()) }
    }

    /// Makes contents and attributes durable.
    pub fn sync_all(&self) -> io::Result<()> {
        io_result(self.pool.process.fsync(self.fd))?;
        self.pool.harden()
    }

    /// Makes the contents durable, and what is needed to read them.
    pub fn sync_data(&self) -> io::Result<()> {
        io_result(self.pool.process.fdatasync(self.fd))?;
        self.pool.harden()
    }

    /// Sets the size: cuts, or extends by a hole, which reads as zeros.
    pub fn set_len(&self, size: u64) -> io::Result<()> {
        io_result(self.pool.process.ftruncate(self.fd, size))
    }

    /// Reserves, zeroes or frees a range. Designs that give a block a new place with each write (nova, rcache, crest) reserve
    /// nothing, nor do ext2, squirrelfs and wofs: the error is `EOPNOTSUPP`.
    pub fn allocate(&self, mode: FallocateMode, offset: u64, len: u64) -> io::Result<()> {
        io_result(self.pool.process.fallocate(self.fd, mode, offset, len))
    }

    /// The first byte from `offset` on that is in no hole, or that is in one, and moves the cursor there. `None`: there is no more
    /// data.
    pub fn seek_to(&self, what: SeekTo, offset: u64) -> io::Result<Option<u64>> {
        let offset = i64::try_from(offset).map_err(|_| io_error(vfs::Errno::EINVAL))?;
        match self.pool.process.lseek(self.fd, offset, Whence::Find(what)) {
            Err(vfs::Errno::ENXIO) => Ok(None),
            found => io_result(found).map(Some),
        }
    }

    /// Maps `len` bytes from `offset` on, a multiple of 4096, for loads and, if `writes`, for stores. The file must be open for
    /// reading, and for writing if `writes`. `EOPNOTSUPP` for a kind that the design does not have, `EBUSY` while the file is
    /// mapped for stores as another kind, `ENOMEM` and `EFBIG` for more pages than one of this kind can have.
    pub fn map(&self, offset: u64, len: u64, writes: bool, kind: MappingKind) -> io::Result<Mapping> {
        Mapping::new(&self.pool, self.fd, (offset, len), writes, kind)
    }

    /// Its attributes.
    pub fn metadata(&self) -> io::Result<Metadata> {
        io_result(self.pool.process.fstat(self.fd)).map(Metadata)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // This descriptor was open until now; a failure cannot be reported to a caller any more.
        let _ = self.pool.process.close(self.fd);
    }
}

impl Read for &File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        io_result(self.pool.process.read(self.fd, buffer))
    }
}

impl Write for &File {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let written = io_result(self.pool.process.write(self.fd, data))?;
        self.written()?;
        Ok(written)
    }

    /// The library buffers nothing; see [`File::sync_all`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        let (offset, whence) = match position {
            SeekFrom::Start(offset) => {
                (i64::try_from(offset).map_err(|_| io_error(vfs::Errno::EINVAL))?, Whence::Set)
            }
            SeekFrom::Current(offset) => (offset, Whence::Current),
            SeekFrom::End(offset) => (offset, Whence::End),
        };
        io_result(self.pool.process.lseek(self.fd, offset, whence))
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for File {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        (&*self).write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        (&*self).seek(position)
    }
}
