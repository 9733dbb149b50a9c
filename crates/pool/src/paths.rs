//! A pool, and its calls that take a path.

use std::ffi::OsStr;
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use media::Region;
use sim::{Bytes, Clock};
use vfs::scrub::Scrubbed;
use vfs::{OpenFlags, Process, RenameFlags, SetAttr, SetTime, Syscalls, Timestamp, XattrMode};

use crate::attributes::{DirEntry, Metadata, Space};
use crate::file::{File, OpenOptions};
use crate::open::{PoolError, PoolOptions};
#[cfg(feature = "serve")]
use crate::serve::Place;
use crate::{io_error, io_result};

/// What a pool and its open files share. The last of them unmounts.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) process: Process,
    pub(crate) region: Arc<Region>,
    pub(crate) volatile: bool,
    #[cfg(feature = "serve")]
    pub(crate) place: Place,
}

impl Inner {
    /// What the design has made durable on its medium, the host writes to its disk where there is one below.
    pub(crate) fn harden(&self) -> io::Result<()> {
        let synced = if self.volatile { Ok(()) } else { self.region.sync() };
        synced.map_err(|_| io_error(vfs::Errno::EIO))
    }

    /// Why it cannot be closed.
    fn in_use(&self) -> io::Error {
        #[cfg(feature = "serve")]
        if let Some(directory) = self.place.directory() {
            let shown = directory.display();
            let why = format!("the pool is served on {shown}: unmount that first (Served::unmount)");
            return io::Error::new(io::ErrorKind::ResourceBusy, why);
        }
        io_error(vfs::Errno::EBUSY)
    }

    fn unmount(&self) -> io::Result<()> {
        io_result(self.process.mount().unmount())?;
        self.region.sync().map_err(|_| io_error(vfs::Errno::EIO))
    }
}

impl Drop for Inner {
    /// The design is unmounted when the pool and its files have been dropped; [`Pool::close`] reports whether that succeeded. So it
    /// is when a thread panics, which may have nothing to do with the pool: else its background tasks would keep the file in use.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = self.unmount();
        } else if sim::clock() == Clock::Real {
            // If it was the design that panicked, it may do so again, which must not leave a destructor.
            let _ = catch_unwind(AssertUnwindSafe(|| self.unmount()));
        }
    }
}

pub(crate) fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// A file system in a file or in memory, open in this process and in no other.
///
/// Paths begin at its root, with or without `/`. Its calls may come from any thread. Permissions are recorded, not enforced: the
/// program is root in it.
#[derive(Debug)]
pub struct Pool(Arc<Inner>);

/// # Opening and closing
impl Pool {
    /// Makes a pool in a file of this size; `EEXIST` when the file is there.
    pub fn create(path: impl Into<PathBuf>, design: &str, size: Bytes) -> Result<Self, PoolError> {
        PoolOptions::new(design).create(path.into(), size)
    }

    /// Opens the pool in a file, and recovers it where its last user has not closed it.
    pub fn open(path: impl Into<PathBuf>, design: &str) -> Result<Self, PoolError> {
        PoolOptions::new(design).open(path)
    }

    pub(crate) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }

    fn process(&self) -> &Process {
        &self.0.process
    }

    /// Makes everything durable.
    pub fn sync(&self) -> io::Result<()> {
        io_result(self.process().sync())?;
        self.0.harden()
    }

    /// Unmounts and gives the file back; `EBUSY` while files of it are open or it is served, and then the last of these does it
    /// when it is dropped. Dropping a pool does the same, but cannot report a failure.
    pub fn close(self) -> io::Result<()> {
        match Arc::try_unwrap(self.0) {
            Ok(inner) => inner.unmount(),
            Err(inner) => Err(inner.in_use()),
        }
    }

    /// Its space.
    pub fn space(&self) -> io::Result<Space> {
        io_result(self.process().statfs(b"/")).map(Space)
    }

    /// Reads all that is there, and compares it with checksums where the design has some; says what is damaged. Other calls may be
    /// made meanwhile.
    pub fn scrub(&self) -> Scrubbed {
        vfs::scrub::scrub(self.process().mount().file_system(), &mut |_| ())
    }
}

/// # Files
impl Pool {
    /// Opens a file for reading.
    pub fn open_file(&self, path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().read(true).open(self, path)
    }

    /// Opens a file for reading and writing; makes it if it is missing, empties it if it is not.
    pub fn create_file(&self, path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(self, path)
    }

    /// All bytes of a file.
    pub fn read(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open_file(path)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// All of a file that holds UTF-8.
    pub fn read_to_string(&self, path: impl AsRef<Path>) -> io::Result<String> {
        let mut text = String::new();
        self.open_file(path)?.read_to_string(&mut text)?;
        Ok(text)
    }

    /// Makes a file of these bytes, in the place of what was there.
    pub fn write(&self, path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
        self.create_file(path)?.write_all(contents.as_ref())
    }

    /// Copies the contents of a file to a new one, or in the place of what was there, and its permissions; returns the bytes. The
    /// two share blocks where the design can (`crest`).
    pub fn copy(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
        let (source, mode) = (self.open_file(from.as_ref())?, self.metadata(from)?.mode());
        let target = self.create_file(to.as_ref())?;
        let copied = target.copy_from(&source)?;
        self.set_mode(to, mode)?;
        Ok(copied)
    }

    /// Removes a name of a file.
    pub fn remove_file(&self, path: impl AsRef<Path>) -> io::Result<()> {
        io_result(self.process().unlink(bytes(path.as_ref())))
    }

    /// Makes `path` a symbolic link to `target`.
    pub fn symlink(&self, target: impl AsRef<Path>, path: impl AsRef<Path>) -> io::Result<()> {
        io_result(self.process().symlink(bytes(target.as_ref()), bytes(path.as_ref())))
    }

    /// The target of a symbolic link.
    pub fn read_link(&self, path: impl AsRef<Path>) -> io::Result<PathBuf> {
        let target = io_result(self.process().readlink(bytes(path.as_ref())))?;
        Ok(PathBuf::from(std::ffi::OsString::from_vec(target)))
    }

    /// Another name for a file.
    pub fn hard_link(&self, path: impl AsRef<Path>, new: impl AsRef<Path>) -> io::Result<()> {
        io_result(self.process().link(bytes(path.as_ref()), bytes(new.as_ref())))
    }

    /// Renames, in the place of what was there.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
        self.rename_with(from, to, RenameFlags::empty())
    }

    /// Renames without replacing anything, or exchanges two names.
    pub fn rename_with(
        &self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        flags: RenameFlags,
    ) -> io::Result<()> {
        io_result(self.process().rename(bytes(from.as_ref()), bytes(to.as_ref()), flags))
    }
}

/// # Directories
impl Pool {
    /// Makes a directory.
    pub fn create_dir(&self, path: impl AsRef<Path>) -> io::Result<()> {
        io_result(self.process().mkdir(bytes(path.as_ref()), 0o777))
    }

    /// Makes a directory and those above it that are missing.
    pub fn create_dir_all(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let mut above = PathBuf::new();
        for part in path.as_ref().components() {
            above.push(part);
            if !matches!(part, Component::Normal(_)) {
                continue;
            }
            match self.create_dir(&above) {
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists && self.metadata(&above)?.is_dir() => {}
                made => made?,
            }
        }
        Ok(())
    }

    /// The entries of a directory, `.` and `..` left out, in no order.
    pub fn read_dir(&self, path: impl AsRef<Path>) -> io::Result<Vec<DirEntry>> {
        let process = self.process();
        let fd = io_result(process.open(bytes(path.as_ref()), OpenFlags::READ | OpenFlags::DIRECTORY, 0))?;
        let mut entries = Vec::new();
        let listed = process.getdents(fd, &mut |entry| {
            if !matches!(entry.name, b"." | b"..") {
                let name = OsStr::from_bytes(entry.name).to_owned();
                entries.push(DirEntry { name, kind: entry.kind });
            }
            true
        });
        io_result(process.close(fd).and(listed))?;
        Ok(entries)
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self, path: impl AsRef<Path>) -> io::Result<()> {
        io_result(self.process().rmdir(bytes(path.as_ref())))
    }

    /// Removes a directory and everything in it. Symbolic links are removed, not followed, `path` among them.
    pub fn remove_dir_all(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        if self.symlink_metadata(path)?.is_symlink() {
            return self.remove_file(path);
        }
        for entry in self.read_dir(path)? {
            let below = path.join(entry.file_name());
            if self.symlink_metadata(&below)?.is_dir() {
                self.remove_dir_all(&below)?;
            } else {
                self.remove_file(&below)?;
            }
        }
        self.remove_dir(path)
    }
}

/// # Attributes
impl Pool {
    /// Attributes; follows symbolic links.
    pub fn metadata(&self, path: impl AsRef<Path>) -> io::Result<Metadata> {
        io_result(self.process().stat(bytes(path.as_ref()))).map(Metadata)
    }

    /// Attributes of a link itself.
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> io::Result<Metadata> {
        io_result(self.process().lstat(bytes(path.as_ref()))).map(Metadata)
    }

    /// Whether a path leads to anything.
    pub fn exists(&self, path: impl AsRef<Path>) -> io::Result<bool> {
        match self.metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            found => found.map(|_| true),
        }
    }

    /// Sets the permission bits.
    pub fn set_mode(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
        self.set(path.as_ref(), &SetAttr { perm: Some(mode), ..SetAttr::default() })
    }

    /// Sets user and group.
    pub fn set_owner(&self, path: impl AsRef<Path>, uid: u32, gid: u32) -> io::Result<()> {
        self.set(path.as_ref(), &SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() })
    }

    /// Sets the times of the last access and of the last change of the contents.
    pub fn set_times(
        &self,
        path: impl AsRef<Path>,
        accessed: Timestamp,
        modified: Timestamp,
    ) -> io::Result<()> {
        let (atime, mtime) = (Some(SetTime::To(accessed)), Some(SetTime::To(modified)));
        self.set(path.as_ref(), &SetAttr { atime, mtime, ..SetAttr::default() })
    }

    fn set(&self, path: &Path, set: &SetAttr) -> io::Result<()> {
        io_result(self.process().setattr(bytes(path), set))
    }

    /// The value of an extended attribute (`user.note`).
    pub fn xattr(&self, path: impl AsRef<Path>, name: &str) -> io::Result<Vec<u8>> {
        io_result(self.process().getxattr(bytes(path.as_ref()), name.as_bytes()))
    }

    /// Sets an extended attribute.
    pub fn set_xattr(
        &self,
        path: impl AsRef<Path>,
        name: &str,
        value: &[u8],
        mode: XattrMode,
    ) -> io::Result<()> {
        io_result(self.process().setxattr(bytes(path.as_ref()), name.as_bytes(), value, mode))
    }

    /// The names of the extended attributes.
    pub fn xattrs(&self, path: impl AsRef<Path>) -> io::Result<Vec<String>> {
        let names = io_result(self.process().listxattr(bytes(path.as_ref())))?;
        let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
    }

    /// Removes an extended attribute.
    pub fn remove_xattr(&self, path: impl AsRef<Path>, name: &str) -> io::Result<()> {
        io_result(self.process().removexattr(bytes(path.as_ref()), name.as_bytes()))
    }
}
