//! The system calls of a program, on paths and descriptors.
//!
//! Workloads see only this trait, so the same workload runs on a design in this process, through a mount, or
//! on a file system of the host. Every call is an operation of the ledger (`ops.rs`).

use crate::attr::{Attr, DirEntry, FileExtent, FileKind, SetAttr, StatFs};
use crate::errno::{Errno, Result};
use crate::flags::{FallocateMode, MappingKind, OpenFlags, Protection, RenameFlags, Whence, XattrMode};
use crate::locks::{LockAction, LockOwner};
use crate::mapping::Mapping;

/// A file descriptor of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fd(pub u32);

/// The system calls of one process. Its threads share it by reference.
///
/// Paths are bytes, at most 4095 of them, relative to the working directory unless they begin with `/` (the
/// root of the file system under test).
pub trait Syscalls: Send + Sync {
    // ---- descriptors ----

    /// Opens a path; `mode` are the permission bits of a file that is made.
    fn open(&self, path: &[u8], flags: OpenFlags, mode: u32) -> Result<Fd>;
    /// Closes a descriptor.
    fn close(&self, fd: Fd) -> Result<()>;
    /// Another descriptor for the same open file.
    fn dup(&self, fd: Fd) -> Result<Fd>;
    /// Reads at the offset and moves it.
    fn read(&self, fd: Fd, buffer: &mut [u8]) -> Result<usize>;
    /// Writes at the offset (with `O_APPEND` at the end) and moves it.
    fn write(&self, fd: Fd, data: &[u8]) -> Result<usize>;
    /// Reads at a given offset.
    fn pread(&self, fd: Fd, buffer: &mut [u8], offset: u64) -> Result<usize>;
    /// Writes at a given offset (with `O_APPEND`, as Linux does it, at the end).
    fn pwrite(&self, fd: Fd, data: &[u8], offset: u64) -> Result<usize>;
    /// Moves the offset and returns it.
    fn lseek(&self, fd: Fd, offset: i64, whence: Whence) -> Result<u64>;
    /// Makes the file durable.
    fn fsync(&self, fd: Fd) -> Result<()>;
    /// Makes the file's data durable, and what is needed to read it.
    fn fdatasync(&self, fd: Fd) -> Result<()>;
    /// Attributes of an open file.
    fn fstat(&self, fd: Fd) -> Result<Attr>;
    /// Changes the size of an open file.
    fn ftruncate(&self, fd: Fd, size: u64) -> Result<()>;
    /// Takes or gives back a lock of a whole file, which belongs to the open file: flock(2). `EAGAIN`.
    fn flock(&self, _fd: Fd, _action: LockAction) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
    /// Takes, gives back or asks for a lock of `len` bytes from `offset` on (0: to the end, however far that is): fcntl(2).
    /// `EAGAIN`.
    fn lock(&self, _fd: Fd, _action: LockAction, _owner: LockOwner, _offset: u64, _len: u64) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
    /// Changes attributes of an open file: fchmod, fchown, futimens in one.
    fn fsetattr(&self, _fd: Fd, _set: &SetAttr) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
    /// An extended attribute's value, of an open file.
    fn fgetxattr(&self, _fd: Fd, _name: &[u8]) -> Result<Vec<u8>> {
        Err(Errno::EOPNOTSUPP)
    }
    /// Sets an extended attribute of an open file.
    fn fsetxattr(&self, _fd: Fd, _name: &[u8], _value: &[u8], _mode: XattrMode) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
    /// Names of the extended attributes of an open file, each ended by a zero byte.
    fn flistxattr(&self, _fd: Fd) -> Result<Vec<u8>> {
        Err(Errno::EOPNOTSUPP)
    }
    /// Removes an extended attribute of an open file.
    fn fremovexattr(&self, _fd: Fd, _name: &[u8]) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
    /// Reserves, zeroes or frees a range.
    fn fallocate(&self, fd: Fd, mode: FallocateMode, offset: u64, len: u64) -> Result<()>;
    /// Copies `len` bytes between two open files of one file system, from an offset of each on, and moves no offset. The files
    /// share blocks where the design can. Answers how many bytes: fewer at the end of the source, or when space ran out on the way.
    /// `EBADF` for a file that is not open for reading, or not for writing, or for writing at its end only; `EINVAL` for two ranges
    /// of one file that overlap: copy_file_range(2).
    fn copy_file_range(&self, _from: (Fd, u64), _to: (Fd, u64), _len: u64) -> Result<u64> {
        Err(Errno::EOPNOTSUPP)
    }
    /// The same by sharing blocks alone, all of it or nothing, with the rules of [`crate::FileSystem::clone_range`]; a length of 0
    /// means as far as the source goes: `FICLONERANGE`.
    fn clone_range(&self, _from: (Fd, u64), _to: (Fd, u64), _len: u64) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
    /// Maps `len` bytes of a regular file from `offset` on into memory, shared with all who read, write or map the file
    /// (`MAP_SHARED`). The mapping stays when the descriptor is closed and the file loses its names, and ends when it is dropped,
    /// which must be before the file system is unmounted. `EINVAL` for an offset that is no multiple of 4096 or an empty range,
    /// `EACCES` for a file that is not open for reading, or not for writing though `protection` says so, `ENODEV` for what cannot
    /// be mapped.
    fn mmap(&self, fd: Fd, offset: u64, len: u64, protection: Protection) -> Result<Box<dyn Mapping>> {
        self.mmap_as(fd, offset, len, protection, MappingKind::AsMounted)
    }
    /// The same, of a kind that the program chooses. `EOPNOTSUPP` where there is no such kind, `EBUSY` while the file is mapped for
    /// stores as another one, `ENOMEM` and `EFBIG` for more pages than one of this kind can have.
    fn mmap_as(
        &self,
        _fd: Fd,
        _offset: u64,
        _len: u64,
        _protection: Protection,
        _kind: MappingKind,
    ) -> Result<Box<dyn Mapping>> {
        Err(Errno::ENODEV)
    }
    /// Reads directory entries from the descriptor's cursor until `sink` answers false.
    fn getdents(&self, fd: Fd, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()>;

    // ---- paths ----

    /// Attributes; follows symbolic links.
    fn stat(&self, path: &[u8]) -> Result<Attr>;
    /// Attributes of the link itself.
    fn lstat(&self, path: &[u8]) -> Result<Attr>;
    /// Makes a directory.
    fn mkdir(&self, path: &[u8], mode: u32) -> Result<()>;
    /// Removes an empty directory.
    fn rmdir(&self, path: &[u8]) -> Result<()>;
    /// Makes a node.
    fn mknod(&self, path: &[u8], kind: FileKind, mode: u32, rdev: u64) -> Result<()>;
    /// Removes a name.
    fn unlink(&self, path: &[u8]) -> Result<()>;
    /// Renames.
    fn rename(&self, from: &[u8], to: &[u8], flags: RenameFlags) -> Result<()>;
    /// Adds a name.
    fn link(&self, from: &[u8], to: &[u8]) -> Result<()>;
    /// Makes a symbolic link at `path`.
    fn symlink(&self, target: &[u8], path: &[u8]) -> Result<()>;
    /// The target of a symbolic link.
    fn readlink(&self, path: &[u8]) -> Result<Vec<u8>>;
    /// Changes the size.
    fn truncate(&self, path: &[u8], size: u64) -> Result<()>;
    /// Changes attributes: chmod, chown, utimens in one.
    fn setattr(&self, path: &[u8], set: &SetAttr) -> Result<()>;
    /// The same of a symbolic link itself, if the path names one. `EOPNOTSUPP` for the permissions and the size of a link.
    fn lsetattr(&self, _path: &[u8], _set: &SetAttr) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
    /// An extended attribute's value.
    fn getxattr(&self, path: &[u8], name: &[u8]) -> Result<Vec<u8>>;
    /// Sets an extended attribute.
    fn setxattr(&self, path: &[u8], name: &[u8], value: &[u8], mode: XattrMode) -> Result<()>;
    /// Names of the extended attributes, each ended by a zero byte.
    fn listxattr(&self, path: &[u8]) -> Result<Vec<u8>>;
    /// Removes an extended attribute.
    fn removexattr(&self, path: &[u8], name: &[u8]) -> Result<()>;

    // ---- the process and the whole ----

    /// Changes the working directory.
    fn chdir(&self, path: &[u8]) -> Result<()>;
    /// Sets the mask of permission bits that new files do not get; returns the one before.
    fn umask(&self, mask: u32) -> u32;
    /// Makes everything durable.
    fn sync(&self) -> Result<()>;
    /// Space of the file system that holds `path`.
    fn statfs(&self, path: &[u8]) -> Result<StatFs>;

    // ---- for experiments ----

    /// Forgets what is cached and can be read again, as `echo 3 > /proc/sys/vm/drop_caches` does.
    fn drop_caches(&self) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Where an open file lies on its device.
    fn extents(&self, _fd: Fd) -> Result<Vec<FileExtent>> {
        Err(Errno::EOPNOTSUPP)
    }
}

/// The largest offset and the largest size of a file: to the kernel both are signed.
pub(crate) const OFFSET_MAX: u64 = i64::MAX as u64;

/// `EINVAL` for what would be a negative offset or size; asked before the descriptor is looked at.
#[inline]
pub(crate) fn check_offset(offset: u64) -> Result<()> {
    if offset > OFFSET_MAX { Err(Errno::EINVAL) } else { Ok(()) }
}
