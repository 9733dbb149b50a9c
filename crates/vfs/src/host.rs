//! The real kernel: [`Syscalls`] on a directory of the host.
//!
//! The same workload runs here as on a design, so that the two can be compared. The root of the file system
//! under test is the directory given; a leading `/` means it.
//!
//! | | [`Host::new`] | [`Host::confined`] |
//! |---|---|---|
//! | for | measuring | tests, and paths that are not trusted |
//! | a call is | one system call, relative to the directory | one or two more: the kernel resolves below the root |
//! | `..` and symbolic links | may lead out of the tree | stay inside (`RESOLVE_IN_ROOT`) |
//!
//! Works under the real clock only: a virtual run would not count the host's time, and would stop while the
//! host works. Credentials and umask are those of the process that runs this; [`Syscalls::umask`] changes
//! them for all of it.

use std::borrow::Cow;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use sim::Clock;

use crate::attr::{Attr, DirEntry, FileKind, Ino, Owner, SetAttr, SetTime, StatFs, Timestamp};
use crate::descriptors::Descriptors;
use crate::errno::{Errno, Result};
use crate::flags::{
    FallocateMode, MappingKind, OpenFlags, Protection, RenameFlags, SeekTo, Whence, XattrMode,
};
use crate::host_mapping::{HostMapping, note_cut};
use crate::locks::{LockAction, LockKind, LockOwner};
use crate::mapping::Mapping;
use crate::ops;
use crate::syscalls::{Fd, Syscalls, check_offset};
use crate::walk::PATH_MAX;
use crate::xattr;

/// Why a host directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The virtual clock cannot measure the host's time.
    #[error("{} is a directory of the host, which works only under the real clock: run with --clock real", .0.display())]
    VirtualClock(PathBuf),
    /// The directory cannot be opened.
    #[error("cannot open {} as a directory: {errno}; create it first, and check its permissions", .path.display())]
    Open {
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        errno: Errno,
    },
}

/// A directory of the host as a file system under test.
pub struct Host {
    root: Arc<OwnedFd>,
    cwd: Mutex<Arc<OwnedFd>>,
    confined: bool,
    files: Descriptors<OwnedFd>,
}

/// Where a path leads: a directory, and a path relative to it.
struct Place<'a> {
    dir: Arc<OwnedFd>,
    path: Cow<'a, [u8]>,
}

const OPEN_DIR: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// A call that races with a rename may have to be made again.
const EAGAIN_TRIES: usize = 100;
/// Bytes read from a directory at once.
const DIRENTS_BYTES: usize = 16 << 10;

impl Host {
    /// Uses `directory`. Each call is one system call, which follows `..` and symbolic links out of the directory. The caller gives
    /// paths without `..`, in a directory in which other users cannot create symbolic links.
    pub fn new(directory: &Path) -> Result<Self, HostError> {
        Self::open_root(directory, false)
    }

    /// Uses `directory`, and keeps every path inside.
    pub fn confined(directory: &Path) -> Result<Self, HostError> {
        Self::open_root(directory, true)
    }

    fn open_root(directory: &Path, confined: bool) -> Result<Self, HostError> {
        if sim::clock() == Clock::Virtual {
            return Err(HostError::VirtualClock(directory.to_owned()));
        }
        let root = fs::open(directory, OPEN_DIR, Mode::empty())
            .map_err(|errno| HostError::Open { path: directory.to_owned(), errno: errno_of(errno) })?;
        let root = Arc::new(root);
        let cwd = Mutex::new(Arc::clone(&root));
        Ok(Self { root, cwd, confined, files: Descriptors::new(1 << 20) })
    }

    /// The place of a path whose last component is not followed.
    fn name<'a>(&self, path: &'a [u8]) -> Result<Place<'a>> {
        if !self.confined {
            return Ok(self.direct(path));
        }
        match path.len() {
            0 => return Err(Errno::ENOENT),
            // Its two parts would be short enough.
            1..=PATH_MAX => {}
            _ => return Err(Errno::ENAMETOOLONG),
        }
        let Some(last) = path.iter().rposition(|byte| *byte != b'/') else {
            // The host's own root: the kernel refuses all calls on names there, as it would for this root.
            return Ok(Place { dir: Arc::clone(&self.root), path: Cow::Borrowed(b"/") });
        };
        let start = path[..last].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        // The dot makes the kernel check the right to search the directory, as the walk to the name would.
        let dir = Arc::new(self.resolve(&[&path[..start], b"."].concat(), OPEN_DIR)?);
        Ok(Place { dir, path: Cow::Borrowed(&path[start..]) })
    }

    /// The place of a path whose last component is followed only when a slash or a dot makes it a directory,
    /// and the flag with which the kernel gets it there.
    fn unfollowed<'a>(&self, path: &'a [u8], follow: AtFlags, keep: AtFlags) -> Result<(Place<'a>, AtFlags)> {
        let directory =
            path.ends_with(b"/") || matches!(path.rsplit(|byte| *byte == b'/').next(), Some(b"." | b".."));
        if self.confined && directory {
            Ok((self.target(path)?, follow))
        } else {
            Ok((self.name(path)?, keep))
        }
    }

    /// The place of a path whose last component is followed.
    fn target<'a>(&self, path: &'a [u8]) -> Result<Place<'a>> {
        if !self.confined {
            return Ok(self.direct(path));
        }
        let dir = Arc::new(self.resolve(path, OFlags::PATH | OFlags::CLOEXEC)?);
        let path = format!("/proc/self/fd/{}", dir.as_raw_fd()).into_bytes();
        Ok(Place { dir, path: Cow::Owned(path) })
    }

    fn direct<'a>(&self, path: &'a [u8]) -> Place<'a> {
        if path.first() != Some(&b'/') {
            return Place { dir: Arc::clone(&self.cwd.lock()), path: Cow::Borrowed(path) };
        }
        let start = path.iter().position(|byte| *byte != b'/').unwrap_or(path.len());
        let path = if start == path.len() { b"." } else { &path[start..] };
        Place { dir: Arc::clone(&self.root), path: Cow::Borrowed(path) }
    }

    /// Confined: opens a path below the root.
    fn resolve(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd> {
        self.open_below(path, flags, Mode::empty())
    }

    fn open_below(&self, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        let cwd = Arc::clone(&self.cwd.lock());
        if path.first() == Some(&b'/') || Arc::ptr_eq(&cwd, &self.root) {
            return open_resolved(&self.root, path, flags, mode, ResolveFlags::IN_ROOT);
        }
        match open_resolved(&cwd, path, flags, mode, ResolveFlags::BENEATH) {
            Err(Errno::EXDEV) => {} // it leads out of the working directory, perhaps not out of the root
            result => return result,
        }
        let mut from_root = path_of(cwd.as_fd())?.split_off(path_of(self.root.as_fd())?.len());
        from_root.push(b'/');
        from_root.extend_from_slice(path);
        open_resolved(&self.root, &from_root, flags, mode, ResolveFlags::IN_ROOT)
    }

    #[inline]
    fn with<T>(&self, fd: Fd, call: impl FnOnce(BorrowedFd<'_>) -> rustix::io::Result<T>) -> Result<T> {
        let file = self.files.get(fd)?;
        call(file.as_fd()).map_err(errno_of)
    }

    fn open_path(&self, path: &[u8], flags: OpenFlags, mode: u32) -> Result<OwnedFd> {
        let oflags = open_flags(flags)?;
        let makes = oflags.intersects(OFlags::CREATE) || oflags.contains(OFlags::TMPFILE);
        let mode = if makes { Mode::from_raw_mode(mode & 0o7777) } else { Mode::empty() };
        if self.confined {
            return self.open_below(path, oflags, mode);
        }
        let place = self.direct(path);
        fs::openat(&place.dir, &*place.path, oflags, mode).map_err(errno_of)
    }

    fn stat_at(place: &Place<'_>, flags: AtFlags) -> Result<Attr> {
        fs::statat(&place.dir, &*place.path, flags).map_err(errno_of).and_then(|stat| attr_of(&stat))
    }

    /// A path that calls without a directory argument can use, and what it needs to stay valid.
    fn path_for_xattr(&self, path: &[u8]) -> Result<(OwnedFd, String)> {
        let fd = if self.confined {
            self.resolve(path, OFlags::PATH | OFlags::CLOEXEC)?
        } else {
            let place = self.direct(path);
            fs::openat(&place.dir, &*place.path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
                .map_err(errno_of)?
        };
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        Ok((fd, path))
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("confined", &self.confined).finish_non_exhaustive()
    }
}

impl Syscalls for Host {
    fn open(&self, path: &[u8], flags: OpenFlags, mode: u32) -> Result<Fd> {
        // The kernel does not say whether it has made the file.
        let _op = sim::op(if flags.contains(OpenFlags::CREATE) { ops::CREATE } else { ops::OPEN });
        let file = self.open_path(path, flags, mode)?;
        if flags.contains(OpenFlags::TRUNCATE) {
            note_cut();
        }
        let fd = self.files.reserve()?;
        self.files.install(fd, Arc::new(file));
        Ok(fd)
    }

    fn close(&self, fd: Fd) -> Result<()> {
        let _op = sim::op(ops::CLOSE);
        self.files.take(fd).map(drop)
    }

    fn dup(&self, fd: Fd) -> Result<Fd> {
        let _op = sim::op(ops::OPEN);
        let file = self.files.get(fd)?;
        let copy = self.files.reserve()?;
        self.files.install(copy, file);
        Ok(copy)
    }

    fn read(&self, fd: Fd, buffer: &mut [u8]) -> Result<usize> {
        let _op = sim::op(ops::READ);
        self.with(fd, |file| rustix::io::read(file, buffer))
    }

    fn write(&self, fd: Fd, data: &[u8]) -> Result<usize> {
        let _op = sim::op(ops::WRITE);
        self.with(fd, |file| rustix::io::write(file, data))
    }

    #[inline]
    fn pread(&self, fd: Fd, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let _op = sim::op(ops::READ);
        check_offset(offset)?;
        self.with(fd, |file| rustix::io::pread(file, buffer, offset))
    }

    #[inline]
    fn pwrite(&self, fd: Fd, data: &[u8], offset: u64) -> Result<usize> {
        let _op = sim::op(ops::WRITE);
        check_offset(offset)?;
        self.with(fd, |file| rustix::io::pwrite(file, data, offset))
    }

    fn lseek(&self, fd: Fd, offset: i64, whence: Whence) -> Result<u64> {
        let _op = sim::op(ops::SEEK);
        let start = offset.cast_unsigned();
        let from = match whence {
            Whence::Set => fs::SeekFrom::Start(start),
            Whence::Current => fs::SeekFrom::Current(offset),
            Whence::End => fs::SeekFrom::End(offset),
            Whence::Find(SeekTo::Data) => fs::SeekFrom::Data(start),
            Whence::Find(SeekTo::Hole) => fs::SeekFrom::Hole(start),
        };
        self.with(fd, |file| fs::seek(file, from))
    }

    fn fsync(&self, fd: Fd) -> Result<()> {
        let _op = sim::op(ops::FSYNC);
        self.with(fd, |file| fs::fsync(file))
    }

    fn fdatasync(&self, fd: Fd) -> Result<()> {
        let _op = sim::op(ops::FSYNC);
        self.with(fd, |file| fs::fdatasync(file))
    }

    fn fstat(&self, fd: Fd) -> Result<Attr> {
        let _op = sim::op(ops::STAT);
        self.with(fd, |file| fs::fstat(file)).and_then(|stat| attr_of(&stat))
    }

    fn ftruncate(&self, fd: Fd, size: u64) -> Result<()> {
        let _op = sim::op(ops::TRUNCATE);
        check_offset(size)?;
        let done = self.with(fd, |file| fs::ftruncate(file, size));
        note_cut();
        done
    }

    fn flock(&self, fd: Fd, action: LockAction) -> Result<()> {
        let _op = sim::op(ops::LOCK);
        self.with(fd, |file| fs::flock(file, flock_operation(action)?))
    }

    /// Of a range of any size the whole file is locked, for this process: descriptors of one process do not exclude each other.
    fn lock(&self, fd: Fd, action: LockAction, _owner: LockOwner, offset: u64, _len: u64) -> Result<()> {
        let _op = sim::op(ops::LOCK);
        check_offset(offset)?;
        match action {
            LockAction::Test(_) => self.files.get(fd).map(drop),
            action => self.with(fd, |file| fs::fcntl_lock(file, flock_operation(action)?)),
        }
    }

    fn fsetattr(&self, fd: Fd, set: &SetAttr) -> Result<()> {
        let _op = sim::op(ops::SETATTR);
        change_file(self.files.get(fd)?.as_fd(), set)
    }

    fn fgetxattr(&self, fd: Fd, name: &[u8]) -> Result<Vec<u8>> {
        let _op = sim::op(ops::XATTR);
        xattr::check_name(name)?;
        self.with(fd, |file| filled(|value| fs::fgetxattr(file, name, value)))
    }

    fn fsetxattr(&self, fd: Fd, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let _op = sim::op(ops::XATTR);
        xattr::check_name(name)?;
        self.with(fd, |file| fs::fsetxattr(file, name, value, xattr_flags(mode)))
    }

    fn flistxattr(&self, fd: Fd) -> Result<Vec<u8>> {
        let _op = sim::op(ops::XATTR);
        self.with(fd, |file| filled(|names| fs::flistxattr(file, names)))
    }

    fn fremovexattr(&self, fd: Fd, name: &[u8]) -> Result<()> {
        let _op = sim::op(ops::XATTR);
        xattr::check_name(name)?;
        self.with(fd, |file| fs::fremovexattr(file, name))
    }

    fn fallocate(&self, fd: Fd, mode: FallocateMode, offset: u64, len: u64) -> Result<()> {
        let _op = sim::op(ops::FALLOCATE);
        let flags = fs::FallocateFlags::from_bits_retain(mode.bits());
        self.with(fd, |file| fs::fallocate(file, flags, offset, len))
    }

    fn copy_file_range(&self, from: (Fd, u64), to: (Fd, u64), len: u64) -> Result<u64> {
        let _op = sim::op(ops::WRITE);
        let (mut at, mut target) = (from.1, to.1);
        let source = self.files.get(from.0)?;
        let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
        let copy =
            |file: BorrowedFd<'_>| fs::copy_file_range(&source, Some(&mut at), file, Some(&mut target), len);
        self.with(to.0, copy).map(|bytes| bytes as u64)
    }

    fn mmap_as(
        &self,
        fd: Fd,
        offset: u64,
        len: u64,
        protection: Protection,
        kind: MappingKind,
    ) -> Result<Box<dyn Mapping>> {
        if kind != MappingKind::AsMounted {
            return Err(Errno::EOPNOTSUPP);
        }
        let _op = sim::op(ops::MMAP);
        Ok(Box::new(HostMapping::new(self.files.get(fd)?, offset, len, protection)?))
    }

    fn getdents(&self, fd: Fd, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let _op = sim::op(ops::READDIR);
        self.with(fd, |file| {
            let mut buffer = [MaybeUninit::uninit(); DIRENTS_BYTES];
            let mut entries = fs::RawDir::new(file, &mut buffer);
            while let Some(entry) = entries.next() {
                let entry = entry?;
                let next = entry.next_entry_cookie();
                let (name, kind) = (entry.file_name().to_bytes(), kind_of(entry.file_type()));
                if !sink(DirEntry { ino: Ino(entry.ino()), kind, name, next }) {
                    // The kernel has read ahead: seek back to the position after this entry.
                    fs::seek(file, fs::SeekFrom::Start(next))?;
                    break;
                }
            }
            Ok(())
        })
    }

    fn stat(&self, path: &[u8]) -> Result<Attr> {
        let _op = sim::op(ops::STAT);
        Self::stat_at(&self.target(path)?, AtFlags::empty())
    }

    fn lstat(&self, path: &[u8]) -> Result<Attr> {
        let _op = sim::op(ops::STAT);
        let (place, flags) = self.unfollowed(path, AtFlags::empty(), AtFlags::SYMLINK_NOFOLLOW)?;
        Self::stat_at(&place, flags)
    }

    fn mkdir(&self, path: &[u8], mode: u32) -> Result<()> {
        let _op = sim::op(ops::MKDIR);
        let place = self.name(path)?;
        fs::mkdirat(&place.dir, &*place.path, Mode::from_raw_mode(mode)).map_err(errno_of)
    }

    fn rmdir(&self, path: &[u8]) -> Result<()> {
        let _op = sim::op(ops::RMDIR);
        if is_root(path) {
            return Err(Errno::EBUSY); // as a root answers; to the kernel this is any directory
        }
        let place = self.name(path)?;
        fs::unlinkat(&place.dir, &*place.path, AtFlags::REMOVEDIR).map_err(errno_of)
    }

    fn mknod(&self, path: &[u8], kind: FileKind, mode: u32, rdev: u64) -> Result<()> {
        let _op = sim::op(ops::MKNOD);
        let place = self.name(path)?;
        let file_type = FileType::from_raw_mode(kind.mode_bits());
        fs::mknodat(&place.dir, &*place.path, file_type, Mode::from_raw_mode(mode), rdev).map_err(errno_of)
    }

    fn unlink(&self, path: &[u8]) -> Result<()> {
        let _op = sim::op(ops::UNLINK);
        let place = self.name(path)?;
        fs::unlinkat(&place.dir, &*place.path, AtFlags::empty()).map_err(errno_of)
    }

    fn rename(&self, from: &[u8], to: &[u8], flags: RenameFlags) -> Result<()> {
        let _op = sim::op(ops::RENAME);
        let (from, to) = (self.name(from)?, self.name(to)?);
        if from.path.starts_with(b"/") || to.path.starts_with(b"/") {
            let replaces = is_name(&from.path) && flags.contains(RenameFlags::NOREPLACE);
            return Err(if replaces { Errno::EEXIST } else { Errno::EBUSY });
        }
        let flags = fs::RenameFlags::from_bits_retain(flags.bits());
        fs::renameat_with(&from.dir, &*from.path, &to.dir, &*to.path, flags).map_err(errno_of)
    }

    fn link(&self, from: &[u8], to: &[u8]) -> Result<()> {
        let _op = sim::op(ops::LINK);
        let (from, flags) = self.unfollowed(from, AtFlags::SYMLINK_FOLLOW, AtFlags::empty())?;
        if self.confined {
            // A missing source comes before a missing directory.
            Self::stat_at(&from, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        let to = self.name(to)?;
        fs::linkat(&from.dir, &*from.path, &to.dir, &*to.path, flags).map_err(errno_of)
    }

    fn symlink(&self, target: &[u8], path: &[u8]) -> Result<()> {
        let _op = sim::op(ops::SYMLINK);
        if target.is_empty() {
            return Err(Errno::ENOENT);
        }
        let place = self.name(path)?;
        fs::symlinkat(target, &place.dir, &*place.path).map_err(errno_of)
    }

    fn readlink(&self, path: &[u8]) -> Result<Vec<u8>> {
        let _op = sim::op(ops::READLINK);
        let (place, flags) = self.unfollowed(path, AtFlags::SYMLINK_FOLLOW, AtFlags::empty())?;
        if !flags.is_empty() {
            return Err(Errno::EINVAL); // a directory; the place's own path is a link
        }
        fs::readlinkat(&place.dir, &*place.path, Vec::new())
            .map(std::ffi::CString::into_bytes)
            .map_err(errno_of)
    }

    fn truncate(&self, path: &[u8], size: u64) -> Result<()> {
        let _op = sim::op(ops::TRUNCATE);
        check_offset(size)?;
        truncate(&self.target(path)?, size)
    }

    fn setattr(&self, path: &[u8], set: &SetAttr) -> Result<()> {
        let _op = sim::op(ops::SETATTR);
        change(&self.target(path)?, set, AtFlags::empty())
    }

    fn lsetattr(&self, path: &[u8], set: &SetAttr) -> Result<()> {
        let _op = sim::op(ops::SETATTR);
        let (place, flags) = self.unfollowed(path, AtFlags::empty(), AtFlags::SYMLINK_NOFOLLOW)?;
        let is_link = || -> Result<bool> { Ok(Self::stat_at(&place, flags)?.kind == FileKind::Symlink) };
        if (set.perm.is_some() || set.size.is_some()) && is_link()? {
            return Err(Errno::EOPNOTSUPP);
        }
        change(&place, set, flags)
    }

    fn getxattr(&self, path: &[u8], name: &[u8]) -> Result<Vec<u8>> {
        let _op = sim::op(ops::XATTR);
        xattr::check_name(name)?;
        let (_fd, path) = self.path_for_xattr(path)?;
        filled(|value| fs::getxattr(&path, name, value)).map_err(errno_of)
    }

    fn setxattr(&self, path: &[u8], name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let _op = sim::op(ops::XATTR);
        xattr::check_name(name)?;
        let (_fd, path) = self.path_for_xattr(path)?;
        fs::setxattr(&path, name, value, xattr_flags(mode)).map_err(errno_of)
    }

    fn listxattr(&self, path: &[u8]) -> Result<Vec<u8>> {
        let _op = sim::op(ops::XATTR);
        let (_fd, path) = self.path_for_xattr(path)?;
        filled(|names| fs::listxattr(&path, names)).map_err(errno_of)
    }

    fn removexattr(&self, path: &[u8], name: &[u8]) -> Result<()> {
        let _op = sim::op(ops::XATTR);
        xattr::check_name(name)?;
        let (_fd, path) = self.path_for_xattr(path)?;
        fs::removexattr(&path, name).map_err(errno_of)
    }

    fn chdir(&self, path: &[u8]) -> Result<()> {
        let _op = sim::op(ops::STAT);
        let dir = if self.confined {
            self.resolve(path, OPEN_DIR)?
        } else {
            let place = self.direct(path);
            fs::openat(&place.dir, &*place.path, OPEN_DIR, Mode::empty()).map_err(errno_of)?
        };
        fs::accessat(&dir, ".", fs::Access::EXEC_OK, AtFlags::EACCESS).map_err(errno_of)?;
        *self.cwd.lock() = Arc::new(dir);
        Ok(())
    }

    fn umask(&self, mask: u32) -> u32 {
        rustix::process::umask(Mode::from_raw_mode(mask)).as_raw_mode()
    }

    fn sync(&self) -> Result<()> {
        let _op = sim::op(ops::SYNC);
        let root =
            fs::openat(&self.root, ".", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(errno_of)?;
        fs::syncfs(root).map_err(errno_of)
    }

    /// Needs the right to write to /proc/sys/vm/drop_caches: root's.
    fn drop_caches(&self) -> Result<()> {
        let told = |error: std::io::Error| Errno::from_number(error.raw_os_error().unwrap_or(5));
        std::fs::write("/proc/sys/vm/drop_caches", "3").map_err(told)
    }

    fn statfs(&self, path: &[u8]) -> Result<StatFs> {
        let _op = sim::op(ops::STATFS);
        let (fd, _) = self.path_for_xattr(path)?;
        let stat = fs::fstatvfs(fd).map_err(errno_of)?;
        Ok(StatFs {
            frsize: stat.f_frsize as u32,
            blocks: stat.f_blocks,
            blocks_free: stat.f_bfree,
            files: stat.f_files,
            files_free: stat.f_ffree,
            name_max: stat.f_namemax as u32,
        })
    }
}

fn is_root(path: &[u8]) -> bool {
    !path.is_empty() && path.iter().all(|byte| *byte == b'/')
}

/// Whether a last component is more than dots and slashes.
fn is_name(last: &[u8]) -> bool {
    !matches!(last.split(|byte| *byte == b'/').next(), Some(b"" | b"." | b".."))
}

fn errno_of(errno: rustix::io::Errno) -> Errno {
    Errno::from_number(errno.raw_os_error())
}

fn path_of(fd: BorrowedFd<'_>) -> Result<Vec<u8>> {
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    fs::readlinkat(CWD, link, Vec::new()).map(std::ffi::CString::into_bytes).map_err(errno_of)
}

fn open_resolved(
    dir: &OwnedFd,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
    how: ResolveFlags,
) -> Result<OwnedFd> {
    for _ in 0..EAGAIN_TRIES {
        match fs::openat2(dir, path, flags, mode, how) {
            Err(rustix::io::Errno::AGAIN) => {}
            result => return result.map_err(errno_of),
        }
    }
    Err(Errno::EAGAIN)
}

/// The kernel has no call that truncates relative to a directory.
fn truncate(place: &Place<'_>, size: u64) -> Result<()> {
    let kind = Host::stat_at(place, AtFlags::empty())?.kind;
    if !matches!(kind, FileKind::Regular | FileKind::Directory) {
        return Err(Errno::EINVAL);
    }
    let file = fs::openat(&place.dir, &*place.path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(errno_of)?;
    let done = fs::ftruncate(file, size).map_err(errno_of);
    note_cut();
    done
}

/// What a call fills a buffer of the largest size with.
fn filled(call: impl FnOnce(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<u8>> {
    let mut value = vec![0; 1 << 16];
    let len = call(&mut value)?;
    value.truncate(len);
    Ok(value)
}

/// `EINVAL` for a question, which flock(2) has not.
fn flock_operation(action: LockAction) -> rustix::io::Result<fs::FlockOperation> {
    Ok(match action {
        LockAction::Wait(LockKind::Shared) => fs::FlockOperation::LockShared,
        LockAction::Wait(LockKind::Exclusive) => fs::FlockOperation::LockExclusive,
        LockAction::Try(LockKind::Shared) => fs::FlockOperation::NonBlockingLockShared,
        LockAction::Try(LockKind::Exclusive) => fs::FlockOperation::NonBlockingLockExclusive,
        LockAction::Release => fs::FlockOperation::Unlock,
        LockAction::Test(_) => return Err(rustix::io::Errno::INVAL),
    })
}

fn xattr_flags(mode: XattrMode) -> fs::XattrFlags {
    match mode {
        XattrMode::Set => fs::XattrFlags::empty(),
        XattrMode::Create => fs::XattrFlags::CREATE,
        XattrMode::Replace => fs::XattrFlags::REPLACE,
    }
}

fn times_of(set: &SetAttr) -> Option<fs::Timestamps> {
    (set.atime.is_some() || set.mtime.is_some())
        .then(|| fs::Timestamps { last_access: timespec(set.atime), last_modification: timespec(set.mtime) })
}

/// As [`change`], of an open file.
fn change_file(file: BorrowedFd<'_>, set: &SetAttr) -> Result<()> {
    if set.uid.is_some() || set.gid.is_some() {
        let (uid, gid) = (set.uid.map(fs::Uid::from_raw), set.gid.map(fs::Gid::from_raw));
        fs::fchown(file, uid, gid).map_err(errno_of)?;
    }
    if let Some(perm) = set.perm {
        fs::fchmod(file, Mode::from_raw_mode(perm)).map_err(errno_of)?;
    }
    if let Some(size) = set.size {
        fs::ftruncate(file, size).map_err(errno_of)?;
        note_cut();
    }
    match times_of(set) {
        Some(times) => fs::futimens(file, &times).map_err(errno_of),
        None => Ok(()),
    }
}

/// The attributes that one system call each changes: owner, permission, size, times.
fn change(place: &Place<'_>, set: &SetAttr, flags: AtFlags) -> Result<()> {
    let (dir, path) = (&place.dir, &*place.path);
    if set.uid.is_some() || set.gid.is_some() {
        let (uid, gid) = (set.uid.map(fs::Uid::from_raw), set.gid.map(fs::Gid::from_raw));
        fs::chownat(dir, path, uid, gid, flags).map_err(errno_of)?;
    }
    if let Some(perm) = set.perm {
        fs::chmodat(dir, path, Mode::from_raw_mode(perm), AtFlags::empty()).map_err(errno_of)?;
    }
    if let Some(size) = set.size {
        truncate(place, size)?;
    }
    match times_of(set) {
        Some(times) => fs::utimensat(dir, path, &times, flags).map_err(errno_of),
        None => Ok(()),
    }
}

fn open_flags(flags: OpenFlags) -> Result<OFlags> {
    let pairs = [
        (OpenFlags::CREATE, OFlags::CREATE),
        (OpenFlags::EXCLUSIVE, OFlags::EXCL),
        (OpenFlags::TRUNCATE, OFlags::TRUNC),
        (OpenFlags::APPEND, OFlags::APPEND),
        (OpenFlags::SYNC, OFlags::SYNC),
        (OpenFlags::DSYNC, OFlags::DSYNC),
        (OpenFlags::DIRECT, OFlags::DIRECT),
        (OpenFlags::DIRECTORY, OFlags::DIRECTORY),
        (OpenFlags::NOFOLLOW, OFlags::NOFOLLOW),
        (OpenFlags::NOATIME, OFlags::NOATIME),
        (OpenFlags::TMPFILE, OFlags::TMPFILE),
        (OpenFlags::PATH, OFlags::PATH),
    ];
    let path_only = OpenFlags::PATH | OpenFlags::DIRECTORY | OpenFlags::NOFOLLOW;
    let flags = if flags.contains(OpenFlags::PATH) { flags & path_only } else { flags };
    let access = match (flags.contains(OpenFlags::READ), flags.contains(OpenFlags::WRITE)) {
        (false, false) if flags.contains(OpenFlags::PATH) => OFlags::empty(),
        (false, false) => return Err(Errno::EINVAL),
        (true, false) => OFlags::RDONLY,
        (false, true) => OFlags::WRONLY,
        (true, true) => OFlags::RDWR,
    };
    let given = pairs.into_iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, oflag)| oflag);
    Ok(given.fold(access | OFlags::CLOEXEC, |all, oflag| all | oflag))
}

fn timespec(time: Option<SetTime>) -> fs::Timespec {
    let (tv_sec, tv_nsec) = match time {
        None => (0, fs::UTIME_OMIT),
        Some(SetTime::Now) => (0, fs::UTIME_NOW),
        Some(SetTime::To(time)) => (time.secs, time.nanos.into()),
    };
    fs::Timespec { tv_sec, tv_nsec }
}

fn kind_of(file_type: FileType) -> Option<FileKind> {
    FileKind::from_mode(file_type.as_raw_mode())
}

fn attr_of(stat: &fs::Stat) -> Result<Attr> {
    let time = |secs: i64, nanos: u64| Timestamp { secs, nanos: nanos as u32 };
    Ok(Attr {
        ino: Ino(stat.st_ino),
        kind: FileKind::from_mode(stat.st_mode).ok_or(Errno::EIO)?,
        perm: stat.st_mode & 0o7777,
        nlink: stat.st_nlink as u32,
        owner: Owner { uid: stat.st_uid, gid: stat.st_gid },
        rdev: stat.st_rdev,
        size: stat.st_size.cast_unsigned(),
        blocks: stat.st_blocks.cast_unsigned(),
        blksize: stat.st_blksize as u32,
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        generation: 0,
    })
}
