//! Mapped files of the host: mmap(2).
//!
//! The kernel tells an access beyond the page of the end of the file by `SIGBUS`, which has no way back. So the size of the file is
//! checked first, and such an access is `EFAULT`, as on a design. The size is asked again when a call of any [`Host`] of this
//! process may have made a file shorter, and when an access goes beyond what was known. What remains are a truncation by another
//! program, one by another task between the check and the access, and a full disk under a hole: these end the process by the
//! signal.
//!
//! [`Host`]: crate::Host

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use parking_lot::Mutex;
use rustix::fs;
use sim::host_memory::HostMemory;

use crate::errno::{Errno, Result};
use crate::flags::Protection;
use crate::mapping::{Mapping, PAGE, check_access, check_range, check_sync};
use crate::ops;

/// How often files may have become shorter by calls of this process.
static CUTS: AtomicU64 = AtomicU64::new(0);

/// A file may have become shorter.
pub(crate) fn note_cut() {
    CUTS.fetch_add(1, SeqCst);
}

/// A mapping of a file of the host.
pub(crate) struct HostMapping {
    memory: HostMemory,
    /// To ask for its size.
    file: Arc<OwnedFd>,
    offset: u64,
    size: u64,
    protection: Protection,
    /// How far the pages of the file reach, and [`CUTS`] before that was asked for.
    known: Mutex<(u64, u64)>,
}

impl HostMapping {
    pub(crate) fn new(file: Arc<OwnedFd>, offset: u64, len: u64, protection: Protection) -> Result<Self> {
        let size = check_range(offset, len)?;
        let allowed = (protection.contains(Protection::READ), protection.contains(Protection::WRITE));
        let memory = HostMemory::map(&file, offset, size as usize, allowed)
            .map_err(|error| Errno::from_number(error.raw_os_error().unwrap_or(5)))?;
        let known = Mutex::default();
        Ok(Self { memory, file, offset, size, protection, known })
    }

    /// `EFAULT` for an access that the kernel would answer by a signal.
    fn check(&self, want: Protection, at: u64, len: usize) -> Result<()> {
        if !self.protection.intersects(want) {
            return Err(Errno::EFAULT);
        }
        check_access(self.size, at, len)?;
        let end = self.offset + at + len as u64;
        let cuts = CUTS.load(SeqCst);
        let mut known = self.known.lock();
        if known.1 == cuts && end <= known.0 {
            return Ok(());
        }
        let size = fs::fstat(&self.file).map_err(|errno| Errno::from_number(errno.raw_os_error()))?.st_size;
        let reach = size.cast_unsigned().next_multiple_of(PAGE);
        *known = (reach, cuts);
        if len > 0 && end > reach { Err(Errno::EFAULT) } else { Ok(()) }
    }
}

impl Mapping for HostMapping {
    fn read(&self, at: u64, buffer: &mut [u8]) -> Result<()> {
        let _op = sim::op(ops::LOAD);
        self.check(Protection::READ | Protection::WRITE, at, buffer.len())?;
        self.memory.load(at as usize, buffer);
        Ok(())
    }

    fn write(&self, at: u64, data: &[u8]) -> Result<()> {
        let _op = sim::op(ops::STORE);
        self.check(Protection::WRITE, at, data.len())?;
        self.memory.store(at as usize, data);
        Ok(())
    }

    fn sync(&self, at: u64, len: u64) -> Result<()> {
        let _op = sim::op(ops::MSYNC);
        let range = check_sync(self.size, at, len)?;
        let synced = self.memory.sync(range.start as usize, (range.end - range.start) as usize);
        synced.map_err(|error| Errno::from_number(error.raw_os_error().unwrap_or(5)))
    }
}
