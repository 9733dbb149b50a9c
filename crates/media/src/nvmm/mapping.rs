//! The memory behind a region.
//!
//! | mapping | bytes live in | what a fence makes durable |
//! |---|---|---|
//! | anonymous | memory of this process | nothing |
//! | file | the host's page cache, shared with the file | nothing: that takes [`sync`] (`msync`) |
//! | private | the same pages, until a store copies one to memory of this process | nothing |
//! | direct | persistent memory itself (`MAP_SYNC`) | all that was flushed or stored past the cache |
//! | part | a range of another region | what that of the whole makes durable |
//!
//! What was stored to a file survives the end of the process in any case: the page cache has it. A write-back that fails is
//! different: the host says so once, and takes the pages for clean, so that no later one contains them. From then on every sync
//! fails.
//!
//! A new file can be read and written by its owner only: the permissions inside guard nothing that another user can read past them.
//! A file is locked (`flock`) while it is mapped: exclusively for writing, shared for reading. The lock stops
//! other users of Weir, not other programs: a program that truncates a mapped file makes this process end by
//! `SIGBUS` (`lost.rs`). To leave no other way to that end, a file that is created or grown gets its blocks at once (a
//! full disk is an error then, not a signal later); one that has holes gets them as they are needed (`sparse.rs`).
//!
//! [`sync`]: super::Region::sync

use std::ffi::c_void;
use std::fs::{File, OpenOptions, TryLockError};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use memmap2::{Advice, MmapOptions, MmapRaw};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use sim::Bytes;

use super::Region;
use super::instruction::Instructions;
use super::sparse::{Backed, data_from};
use crate::MediaError;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Stores are refused.
    ReadOnly,
    /// Stores go to a copy of the page that is gone with the region: the file stays as it is, and need not be writable.
    Private,
    /// The file is created when it is missing and a length is given.
    ReadWrite,
    /// The file is created with the length that is given, and must not exist. When that fails nothing is left of it.
    New,
}

impl Access {
    fn writes(self) -> bool {
        matches!(self, Self::ReadWrite | Self::New)
    }
}

/// The write-back of a file.
#[derive(Debug, Default)]
pub(super) struct WriteBack {
    failed: AtomicBool,
}

impl WriteBack {
    /// Has the host write the file with `write`, unless that has failed before.
    fn sync(&self, write: impl FnOnce() -> std::io::Result<()>) -> Result<(), MediaError> {
        let written = write();
        if let Err(error) = written {
            self.failed.store(true, SeqCst);
            return Err(MediaError::io("write the file back", &error));
        }
        // Looked at afterwards: the host tells one of those that sync at a time.
        if self.failed.load(SeqCst) { Err(MediaError::NotWritten) } else { Ok(()) }
    }
}

#[derive(Debug)]
pub(super) enum Mapping {
    Anonymous(MmapRaw),
    /// The file holds the lock.
    File(MmapRaw, File, Backed, WriteBack),
    Private(MmapRaw, File),
    Direct(Direct, File),
    /// The whole, and the range of it.
    Part(Arc<Region>, Range<u64>),
}

/// The lock goes with the region, though a child that is being started may have the file open for a moment longer.
impl Drop for Mapping {
    fn drop(&mut self) {
        if let Self::File(_, file, ..) | Self::Private(_, file) | Self::Direct(_, file) = self {
            let _ = file.unlock();
        }
    }
}

impl Mapping {
    pub(super) fn anonymous(len: Bytes) -> Result<Self, MediaError> {
        crate::memory::anonymous(len).map(Self::Anonymous)
    }

    /// Takes the pages of anonymous memory from the host now, which otherwise clears each when it is used first.
    pub(super) fn populate(&self) {
        if let Self::Anonymous(map) = self {
            // Advice only: a kernel before Linux 5.14 does not take it.
            let _ = map.advise(Advice::PopulateWrite);
        }
    }

    /// Anonymous memory of the same length, zero: this one, of which only what was touched is cleared, where the host says what
    /// that is.
    pub(super) fn renewed(self) -> Result<Self, MediaError> {
        match &self {
            Self::Anonymous(map) if clear(map).is_ok() => Ok(self),
            _ => Self::anonymous(Bytes(self.len())),
        }
    }

    pub(super) fn file(path: &Path, len: Option<Bytes>, access: Access) -> Result<Self, MediaError> {
        let (file, size) = open(path, len, access)?;
        let mut options = MmapOptions::new();
        let failed = |e| MediaError::io("map the file", &e);
        let map = match access {
            Access::ReadOnly => options.map_raw_read_only(&file),
            Access::ReadWrite | Access::New => options.map_raw(&file),
            Access::Private => {
                // SAFETY: the mapping is only used as raw memory; what another program does to the file can change its bytes or
                // end this process, as for the mappings that are shared.
                let map = unsafe { options.no_reserve_swap().map_copy(&file) };
                let map = MmapRaw::from(map.map_err(failed)?);
                cover_holes(&map, &file)
                    .map_err(|error| MediaError::io("map the holes of the file", &error.into()))?;
                return Ok(Self::Private(map, file));
            }
        };
        let backed = Backed::of(&file, size);
        Ok(Self::File(map.map_err(failed)?, file, backed, WriteBack::default()))
    }

    pub(super) fn direct(
        path: &Path,
        len: Option<Bytes>,
        access: Access,
    ) -> Result<(Self, Instructions), MediaError> {
        let instructions = Instructions::detect().ok_or(MediaError::NotPersistent)?;
        let (file, size) = open(path, len, access)?;
        let direct = Direct::map(&file, size).inspect_err(|_| take_back(path, access))?;
        Ok((Self::Direct(direct, file), instructions))
    }

    pub(super) fn base(&self) -> *mut u8 {
        match self {
            Self::Anonymous(map) | Self::File(map, ..) | Self::Private(map, _) => map.as_mut_ptr(),
            Self::Direct(direct, _) => direct.base.cast(),
            // SAFETY: `Region::part` has checked that the range lies inside the whole.
            Self::Part(whole, range) => unsafe { whole.mapping.base().add(range.start as usize) },
        }
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Anonymous(map) | Self::File(map, ..) | Self::Private(map, _) => map.len() as u64,
            Self::Direct(direct, _) => direct.len as u64,
            Self::Part(_, range) => range.end - range.start,
        }
    }

    /// Whether a range can be stored to: the host has blocks for it, or reserves them now.
    #[inline]
    pub(super) fn back(&self, offset: u64, len: u64) -> bool {
        match self {
            Self::File(map, file, backed, _) => backed.ensure(file, (offset, len), map.len() as u64),
            Self::Part(whole, range) => whole.back(range.start + offset, len),
            Self::Anonymous(_) | Self::Private(..) | Self::Direct(..) => true,
        }
    }

    /// The first range at or after `from` that can be stored to without asking the host for blocks.
    pub(super) fn backed_from(&self, from: u64) -> Option<Range<u64>> {
        match self {
            Self::File(map, file, backed, _) => backed.next_from(file, from, map.len() as u64),
            Self::Part(whole, range) => within(range, from, |from| whole.backed_from(from)),
            Self::Anonymous(_) | Self::Private(..) | Self::Direct(..) => {
                (from < self.len()).then(|| from..self.len())
            }
        }
    }

    /// The first range at or after `from` that may hold anything but zeros.
    pub(super) fn data_from(&self, from: u64) -> Option<Range<u64>> {
        let all = (from < self.len()).then(|| from..self.len());
        match self {
            Self::File(map, file, ..) => data_from(file, from, map.len() as u64).unwrap_or(all),
            Self::Part(whole, range) => within(range, from, |from| whole.data_from(from)),
            Self::Anonymous(_) | Self::Private(..) | Self::Direct(..) => all,
        }
    }

    /// Gives the host the blocks of a range back; false where there are none to give.
    pub(super) fn punch(&self, offset: u64, len: u64) -> Result<bool, MediaError> {
        match self {
            Self::File(map, file, backed, _) => {
                backed.punch(file, (offset, len), map.len() as u64).map(|()| true)
            }
            Self::Part(whole, range) => whole.mapping.punch(range.start + offset, len),
            Self::Anonymous(_) | Self::Private(..) | Self::Direct(..) => Ok(false),
        }
    }

    /// Whether only [`Mapping::sync`] makes what was stored survive a power loss.
    pub(super) fn needs_sync(&self) -> bool {
        match self {
            Self::File(..) => true,
            Self::Part(whole, _) => whole.needs_sync(),
            Self::Anonymous(_) | Self::Private(..) | Self::Direct(..) => false,
        }
    }

    pub(super) fn sync(&self) -> Result<(), MediaError> {
        match self {
            Self::File(map, .., write_back) => write_back.sync(|| map.flush()),
            Self::Part(whole, _) => whole.sync(),
            Self::Anonymous(_) | Self::Private(..) | Self::Direct(..) => Ok(()),
        }
    }
}

/// Puts memory of this process over the holes of a file that is mapped privately. Where the host keeps files in memory (tmpfs), a
/// store to a hole, and even a look at it, would take space there, which may be full. Short holes and those after many others stay.
fn cover_holes(map: &MmapRaw, file: &File) -> rustix::io::Result<()> {
    const LEAST: u64 = 64 << 10;
    const MOST: usize = 8192;
    let (len, page) = (map.len() as u64, rustix::param::page_size() as u64);
    let (mut at, mut covered) = (0, 0);
    while at < len && covered < MOST {
        // A file system that does not tell has none.
        let Ok(data) = data_from(file, at, len) else { return Ok(()) };
        let (start, end) = data.map_or((len, len), |data| (data.start, data.end));
        let hole = at.next_multiple_of(page)..start / page * page;
        if hole.end >= hole.start + LEAST {
            let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: the pages lie inside the mapping, which is new and used by nobody yet; it unmaps them with the others.
            unsafe {
                let first = map.as_mut_ptr().add(hole.start as usize).cast::<c_void>();
                mmap_anonymous(first, (hole.end - hole.start) as usize, protection, flags)?;
            }
            covered += 1;
        }
        at = end.max(at + 1);
    }
    Ok(())
}

/// What `find` says of the whole from `from` on, as a range of the part.
fn within(part: &Range<u64>, from: u64, find: impl FnOnce(u64) -> Option<Range<u64>>) -> Option<Range<u64>> {
    let found = find(part.start + from)?;
    let range = found.start.max(part.start) - part.start..found.end.min(part.end).saturating_sub(part.start);
    (!range.is_empty()).then_some(range)
}

/// Makes private memory zero. Pages that were never touched are left alone (`/proc/self/pagemap`: bit 63 of a page's entry is set
/// while it is present, bit 62 while it is swapped out; proc(5)).
fn clear(map: &MmapRaw) -> std::io::Result<()> {
    const ENTRIES: usize = 1024;
    const ENTRY: usize = size_of::<u64>();
    let page = rustix::param::page_size();
    let pages = map.len().div_ceil(page);
    let pagemap = File::open("/proc/self/pagemap")?;
    let mut entries = [0_u8; ENTRIES * ENTRY];
    for first in (0..pages).step_by(ENTRIES) {
        let entries = &mut entries[..(pages - first).min(ENTRIES) * ENTRY];
        pagemap.read_exact_at(entries, ((map.as_ptr() as usize / page + first) * ENTRY) as u64)?;
        let mut touched = entries.chunks_exact(ENTRY).map(|entry| entry[ENTRY - 1] >> 6 != 0).peekable();
        let mut at = first * page;
        while let Some(present) = touched.next() {
            let mut end = at + page;
            while touched.next_if_eq(&present).is_some() {
                end += page;
            }
            if present {
                let len = end.min(map.len()) - at;
                // SAFETY: the range lies in the mapping, which the caller has to itself; every value of its bytes is valid.
                unsafe { map.as_mut_ptr().add(at).write_bytes(0, len) };
            }
            at = end;
        }
    }
    Ok(())
}

/// Permissions of a new file, as of a disk's device: a user who can read it reads every file in it, whatever their modes are.
const OWNER_ONLY: u32 = 0o600;

/// Removes a file that this process has made.
fn take_back(path: &Path, access: Access) {
    if access == Access::New {
        // It may lie where nothing can be removed.
        let _ = std::fs::remove_file(path);
    }
}

/// Opens, locks and, if asked, grows a file. Returns its size.
fn open(path: &Path, len: Option<Bytes>, access: Access) -> Result<(File, u64), MediaError> {
    let (write, is_new) = (access.writes(), access == Access::New);
    let mut options = OpenOptions::new();
    options.read(true).write(write).create(write && len.is_some()).create_new(is_new).truncate(false);
    // Without waiting for the other end of a pipe.
    options.mode(OWNER_ONLY).custom_flags(libc::O_NONBLOCK);
    let file = options.open(path).map_err(|e| MediaError::io("open the file", &e))?;
    match prepared(&file, len, write) {
        // Who has locked a new file meanwhile may make something of it.
        Err(error) if error != MediaError::InUse => {
            take_back(path, access);
            Err(error)
        }
        size => Ok((file, size?)),
    }
}

/// Locks and, if asked, grows a file that was opened. Returns its size.
fn prepared(file: &File, len: Option<Bytes>, write: bool) -> Result<u64, MediaError> {
    let data = file.metadata().map_err(|e| MediaError::io("read the size of the file", &e))?;
    if !data.is_file() {
        return Err(MediaError::NoFile);
    }
    let locked = if write { file.try_lock() } else { file.try_lock_shared() };
    match locked {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(MediaError::InUse),
        Err(TryLockError::Error(e)) => return Err(MediaError::io("lock the file", &e)),
    }
    // Read again under the lock: its last user may have grown it.
    let mut size = file.metadata().map_err(|e| MediaError::io("read the size of the file", &e))?.len();
    if let Some(len) = len.filter(|len| write && len.0 > size) {
        grow(file, size, len.0)?;
        if size > 0 {
            // A superblock that says the new size may be written back at any time, and must not survive a power loss alone.
            file.sync_all().map_err(|e| MediaError::io("make the size of the file durable", &e))?;
        }
        size = len.0;
    }
    if size == 0 { Err(MediaError::Empty) } else { Ok(size) }
}

/// Gives the file blocks up to `to`; on a host file system that cannot reserve, a hole. A file that cannot have them is as before.
fn grow(file: &File, from: u64, to: u64) -> Result<(), MediaError> {
    match fallocate(file, FallocateFlags::empty(), from, to - from) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::OPNOTSUPP) => {
            file.set_len(to).map_err(|e| MediaError::io("grow the file", &e))
        }
        Err(errno) => {
            // ext4 leaves what it had reserved when its space ran out, which may be all of the disk.
            let _ = file.set_len(from);
            Err(MediaError::io("reserve space for the file", &errno.into()))
        }
    }
}

/// A mapping with `MAP_SYNC`: the file's blocks are the memory, and the file system keeps them where they
/// are.
#[derive(Debug)]
pub(super) struct Direct {
    base: *mut c_void,
    len: usize,
}

impl Direct {
    fn map(file: &File, size: u64) -> Result<Self, MediaError> {
        let len = size as usize;
        let flags = MapFlags::SHARED_VALIDATE | MapFlags::SYNC;
        // SAFETY: a new mapping at an address that the kernel chooses touches nothing of ours.
        let base = unsafe { mmap(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags, file, 0) };
        match base {
            Ok(base) => Ok(Self { base, len }),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::INVAL) => Err(MediaError::NotPersistent),
            Err(errno) => Err(MediaError::io("map the persistent memory", &errno.into())),
        }
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        // SAFETY: the range is the one that `map` made, and the region that used it is going.
        let _ = unsafe { munmap(self.base, self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_write_back_that_failed_none_succeeds() {
        let write_back = WriteBack::default();
        assert_eq!(write_back.sync(|| Ok(())), Ok(()));
        let broken = || Err(std::io::Error::from_raw_os_error(libc::EIO));
        assert!(matches!(write_back.sync(broken), Err(MediaError::Io { errno: libc::EIO, .. })));
        // The host says that all is well: it has dropped what it could not write.
        assert_eq!(write_back.sync(|| Ok(())), Err(MediaError::NotWritten));
    }
}
