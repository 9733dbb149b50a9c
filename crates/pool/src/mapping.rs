//! A mapped range of a file.

use std::fmt;
use std::io;
use std::sync::Arc;

use vfs::syscalls::Fd;
use vfs::{MappingKind, Protection, Syscalls};

use crate::io_result;
use crate::paths::Inner;

/// A range of a file in memory, which ends when it is dropped. Offsets count from its beginning, and accesses copy: there is no
/// reference into the file. It stays when the [`File`](crate::File) is dropped.
pub struct Mapping {
    // Dropped first: it ends before the pool may be unmounted.
    inner: Box<dyn vfs::Mapping>,
    pool: Arc<Inner>,
}

impl Mapping {
    pub(crate) fn new(
        pool: &Arc<Inner>,
        fd: Fd,
        (offset, len): (u64, u64),
        writes: bool,
        kind: MappingKind,
    ) -> io::Result<Self> {
        let protection = if writes { Protection::READ | Protection::WRITE } else { Protection::READ };
        let inner = io_result(pool.process.mmap_as(fd, offset, len, protection, kind))?;
        Ok(Self { inner, pool: Arc::clone(pool) })
    }

    /// Loads bytes. `EFAULT` outside of the mapping, and from a page beyond the end of the file.
    pub fn load(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        io_result(self.inner.read(offset, buffer))
    }

    /// Stores bytes. `EFAULT` as for loads, `ENOSPC` where a page needs a block and none is free.
    pub fn store(&self, data: &[u8], offset: u64) -> io::Result<()> {
        io_result(self.inner.write(offset, data))?;
        // Before later stores of other threads, one of which may sync.
        self.pool.region.fence();
        Ok(())
    }

    /// Makes durable what was stored to the pages of a range, which begins with a page: of a mapping of
    /// [`MappingKind::Atomic`] all of it, or nothing if it fails or the power does.
    pub fn sync(&self, offset: u64, len: u64) -> io::Result<()> {
        io_result(self.inner.sync(offset, len))?;
        self.pool.harden()
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping").finish_non_exhaustive()
    }
}
