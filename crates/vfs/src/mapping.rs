//! Mapped files: what a program holds ([`Mapping`]), and what a design offers for them ([`MappedFiles`]).
//!
//! A mapping gives no reference into a file: every access copies to or from a buffer of the caller. What the kernel says by a
//! signal is an error here:
//!
//! | a program's access | the kernel | here |
//! |---|---|---|
//! | to a page that lies wholly beyond the end of the file | `SIGBUS` | `EFAULT` |
//! | outside of the mapping, or one that its protection forbids | `SIGSEGV` | `EFAULT` |
//! | the first store to a page that needs a block, and no space is left | `SIGBUS` | `ENOSPC` |
//! | to a page that the medium refuses | `SIGBUS` | `EIO` |
//!
//! An access goes page by page, as a copy of a program does: one that fails has moved the bytes of the pages before. In the page
//! that holds the end of the file, bytes beyond the end read as zeros, and stores to them are dropped (POSIX leaves open what a
//! program sees of them; Linux shows them until the page leaves memory).
//!
//! A store is durable after [`Mapping::sync`] or an fsync of the file. Before that a crash may leave any of its words of 8 bytes,
//! and in memory that is mapped directly it is atomic by such words only. A mapping of [`MappingKind::Atomic`] promises more: a
//! sync makes all pages of its range durable as they are at one moment of the call, or none; and nothing else but an fsync, sync
//! or unmount makes them durable, all of a file at once.
//!
//! # Cost
//!
//! Under the virtual clock an access costs what the design and the medium charge for it, and no system call. A page fault is one
//! entry into the kernel and one [`Work::CALL`]: that is a reading, as no machine preset has a measured price of a fault. Faults
//! are the first access of a mapping to a page, and the first store to a page since it was last made durable, when the design
//! takes the page as clean. That a change of the file under a mapping takes its page away, so that the next access faults again,
//! is not charged.

use std::ops::Range;

use sim::{PAGE_BYTES, Work};

use crate::attr::Ino;
use crate::errno::{Errno, Result};
use crate::flags::MappingKind;

/// Bytes of a page: the unit in which files are mapped.
pub const PAGE: u64 = PAGE_BYTES as u64;

/// A range of a file in memory, which ends when it is dropped. Offsets count from the beginning of the mapping.
pub trait Mapping: Send + Sync {
    /// Loads bytes. `EFAULT`, `EIO`.
    fn read(&self, at: u64, buffer: &mut [u8]) -> Result<()>;

    /// Stores bytes. `EFAULT`, `ENOSPC`, `EIO`.
    fn write(&self, at: u64, data: &[u8]) -> Result<()>;

    /// Makes what was stored to the pages of a range durable: `msync(MS_SYNC)`. `EINVAL` when `at` is no multiple of a page,
    /// `ENOMEM` beyond the mapping.
    fn sync(&self, at: u64, len: u64) -> Result<()>;
}

/// What a design does for mapped files. The caller keeps a file open while it is mapped, and hands over accesses page by page.
pub trait MappedFiles: Send + Sync {
    /// Begins a mapping of these pages of a file, for loads or, if `writable`, for stores, too. `ENODEV` for what is not a regular
    /// file.
    fn map(&self, ino: Ino, pages: &Range<u64>, writable: bool) -> Result<()>;

    /// The same, of a kind that the program has chosen, which means something where `writable`. `EOPNOTSUPP` for one that the
    /// design does not have; `EBUSY` where a mapping of another kind may store to the file; `ENOMEM` and `EFBIG` where more pages
    /// are asked for than one of this kind can have.
    fn map_as(&self, ino: Ino, pages: &Range<u64>, writable: bool, kind: MappingKind) -> Result<()> {
        match kind {
            MappingKind::AsMounted => self.map(ino, pages, writable),
            MappingKind::Direct | MappingKind::Atomic => Err(Errno::EOPNOTSUPP),
        }
    }

    /// Ends a mapping that was begun with the same arguments. What was stored stays, and stays to be synced.
    fn unmap(&self, ino: Ino, pages: &Range<u64>, writable: bool);

    /// Loads bytes within one page; those beyond the end of the file are zeros. `EFAULT` when the page lies beyond the end.
    fn load(&self, ino: Ino, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Stores bytes within one page; those beyond the end of the file are dropped. `EFAULT` when the page lies beyond the end,
    /// `ENOSPC` when it needs a block. True: the page was clean, and a processor would have faulted; the file's mtime has changed.
    fn store(&self, ino: Ino, offset: u64, data: &[u8]) -> Result<bool>;

    /// Makes what was stored to the pages of these bytes durable, and what is needed to read it.
    fn sync(&self, ino: Ino, bytes: Range<u64>) -> Result<()>;
}

/// How many of `len` bytes at `offset`, within one page, lie in a file of `size` bytes. `EFAULT` when the page lies beyond its end.
pub fn within_file(size: u64, offset: u64, len: usize) -> Result<usize> {
    if offset / PAGE >= size.div_ceil(PAGE) {
        return Err(Errno::EFAULT);
    }
    Ok((size.saturating_sub(offset)).min(len as u64) as usize)
}

/// Splits `len` bytes at `offset` at the borders of pages: the place of each piece in the buffer, and its offset.
pub fn page_pieces(offset: u64, len: usize) -> impl Iterator<Item = (Range<usize>, u64)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let piece = ((PAGE - at % PAGE) as usize).min(len - done);
        let range = done..done + piece;
        done += piece;
        (piece > 0).then_some((range, at))
    })
}

/// `EFAULT` unless a mapping of `size` bytes has these.
pub(crate) fn check_access(size: u64, at: u64, len: usize) -> Result<()> {
    match at.checked_add(len as u64) {
        Some(end) if end <= size => Ok(()),
        _ => Err(Errno::EFAULT),
    }
}

/// The range of an msync, cut to whole pages.
pub(crate) fn check_sync(size: u64, at: u64, len: u64) -> Result<Range<u64>> {
    if !at.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    let end = at.checked_add(len).and_then(|end| end.checked_next_multiple_of(PAGE)).ok_or(Errno::ENOMEM)?;
    if end > size { Err(Errno::ENOMEM) } else { Ok(at..end) }
}

/// The bytes that a new mapping takes: whole pages. `EINVAL` for a range that is empty, or an offset that is no page's; `ENOMEM`
/// and `EOVERFLOW` for one that reaches too far.
pub(crate) fn check_range(offset: u64, len: u64) -> Result<u64> {
    if len == 0 || !offset.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    let size = len.checked_next_multiple_of(PAGE).filter(|size| *size <= MAPPING_MAX).ok_or(Errno::ENOMEM)?;
    offset.checked_add(size).filter(|end| *end <= crate::syscalls::OFFSET_MAX).ok_or(Errno::EOVERFLOW)?;
    Ok(size)
}

/// The largest mapping: what a process of x86-64 has for all of its memory.
const MAPPING_MAX: u64 = 1 << 47;

/// Charges a page fault.
pub(crate) fn charge_fault() {
    sim::work(Work::SYSCALL, 1);
    sim::work(Work::CALL, 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_at_pages() {
        let cut = |offset, len| page_pieces(offset, len).collect::<Vec<_>>();
        assert_eq!(cut(0, 0), []);
        assert_eq!(cut(4095, 2), [(0..1, 4095), (1..2, 4096)]);
        assert_eq!(cut(100, 8192), [(0..3996, 100), (3996..8092, 4096), (8092..8192, 8192)]);
    }

    #[test]
    fn an_access_beyond_the_page_of_the_end_is_a_fault() {
        assert_eq!(within_file(0, 0, 1), Err(Errno::EFAULT));
        assert_eq!(within_file(1, 0, 10), Ok(1));
        assert_eq!(within_file(1, 4095, 1), Ok(0));
        assert_eq!(within_file(1, 4096, 1), Err(Errno::EFAULT));
        assert_eq!(within_file(4096, 4096, 1), Err(Errno::EFAULT));
        assert_eq!(within_file(4097, 4096, 9), Ok(1));
    }

    #[test]
    fn ranges_are_checked_as_the_kernel_checks_them() {
        assert_eq!(check_range(0, 1), Ok(4096));
        assert_eq!(check_range(0, 0), Err(Errno::EINVAL));
        assert_eq!(check_range(1, 1), Err(Errno::EINVAL));
        assert_eq!(check_range(0, u64::MAX), Err(Errno::ENOMEM));
        assert_eq!(check_range((1 << 63) - 4096, 8192), Err(Errno::EOVERFLOW));
        assert_eq!(check_sync(8192, 4096, 1), Ok(4096..8192));
        assert_eq!(check_sync(8192, 1, 1), Err(Errno::EINVAL));
        assert_eq!(check_sync(8192, 8192, 1), Err(Errno::ENOMEM));
    }
}
