//! Operations by path, in which programs are written, and their execution on a mounted design.

use std::collections::BTreeMap;
use std::sync::Arc;

use vfs::mapping::{PAGE, page_pieces};
use vfs::{
    Attr, Errno, FallocateMode, FileKind, FileSystem, Ino, IoFlags, NewInode, OpenFlags, Owner, RenameFlags,
    Renaming, SetAttr, SetTime, Timestamp, XattrMode,
};

use crate::names;

/// A file by its path, or one that was opened before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum File {
    /// By path from the root, without a leading `/`.
    At(String),
    /// By the number under which it was opened.
    Opened(usize),
}

/// Bytes that tell where (of an append: where in it) and by which write they were written; none is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// How many.
    pub len: usize,
    /// Differs between the writes of a program.
    pub tag: u8,
}

impl Pattern {
    /// The bytes, for a write at `offset`.
    pub fn bytes(self, offset: u64) -> Vec<u8> {
        let byte = |at: u64| (1 + (at * 31 + at / 253 + u64::from(self.tag) * 97) % 255) as u8;
        (0..self.len as u64).map(|index| byte(offset + index)).collect()
    }
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // POSIX's words
pub enum Op {
    Create(String),
    Mkdir(String),
    Mknod(String, FileKind, u64),
    Symlink(String, usize),
    /// At an offset, or at the end.
    Write(File, Option<u64>, Pattern),
    Read(File, u64, usize),
    Truncate(File, u64),
    Fallocate(File, FallocateMode, u64, u64),
    /// Shares blocks: from a file and an offset, to a file and an offset, so many bytes.
    Clone((File, u64), (File, u64), u64),
    Link(String, String),
    Unlink(String),
    Rmdir(String),
    Rename(String, String, RenameFlags),
    Chmod(String, u32),
    Chown(String, u32, u32),
    /// Permission and owner in one call.
    ChmodChown(String, u32, u32, u32),
    /// Sets atime, mtime or both.
    Utimes(String, Option<Timestamp>, Option<Timestamp>),
    SetXattr(String, String, Pattern, XattrMode),
    RemoveXattr(String, String),
    /// Opens under a number.
    Open(String, usize),
    Close(usize),
    /// Makes a regular file without a name and opens it under a number (`O_TMPFILE`).
    Nameless(usize),
    /// Gives the file that is open under a number a name.
    LinkOpened(usize, String),
    Fsync(File),
    Sync,
    ReadDir(String),
    /// Opens and maps, for stores, under a number.
    Map(String, usize),
    Unmap(usize),
    /// By a mapping.
    Store(usize, u64, Pattern),
    Load(usize, u64, usize),
    /// The whole mapping.
    Msync(usize),
    /// Carried out by the harness: unmount, mount.
    Remount,
}

impl Op {
    /// Its kind, for crash points and figures.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Create(_) => "create",
            Self::Mkdir(_) => "mkdir",
            Self::Mknod(..) => "mknod",
            Self::Symlink(..) => "symlink",
            Self::Write(..) => "write",
            Self::Read(..) => "read",
            Self::Truncate(..) => "truncate",
            Self::Fallocate(..) => "fallocate",
            Self::Clone(..) => "clone",
            Self::Link(..) | Self::LinkOpened(..) => "link",
            Self::Unlink(_) => "unlink",
            Self::Rmdir(_) => "rmdir",
            Self::Rename(..) => "rename",
            Self::Chmod(..) | Self::Chown(..) | Self::ChmodChown(..) | Self::Utimes(..) => "setattr",
            Self::SetXattr(..) => "setxattr",
            Self::RemoveXattr(..) => "removexattr",
            Self::Open(..) => "open",
            Self::Close(_) => "close",
            Self::Nameless(_) => "tmpfile",
            Self::Fsync(_) => "fsync",
            Self::Sync => "sync",
            Self::ReadDir(_) => "readdir",
            Self::Map(..) => "map",
            Self::Unmap(_) => "unmap",
            Self::Store(..) => "store",
            Self::Load(..) => "load",
            Self::Msync(_) => "msync",
            Self::Remount => "remount",
        }
    }

    /// Whether it changes the data of a file, which need not be atomic.
    pub fn changes_data(&self) -> bool {
        let zeroes = FallocateMode::PUNCH_HOLE | FallocateMode::ZERO_RANGE;
        matches!(self, Self::Write(..) | Self::Clone(..))
            || matches!(self, Self::Fallocate(_, mode, ..) if mode.intersects(zeroes))
    }
}

/// What an operation answered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // as their names say
pub enum Reply {
    Done,
    Written(usize),
    Data(Vec<u8>),
    Names(Vec<String>),
}

/// The attributes that a call of `utimensat` changes.
pub(crate) fn times(atime: Option<Timestamp>, mtime: Option<Timestamp>) -> SetAttr {
    SetAttr { atime: atime.map(SetTime::To), mtime: mtime.map(SetTime::To), ..SetAttr::default() }
}

/// What new inodes get.
pub const NEW: NewInode = NewInode { perm: 0o644, owner: Owner { uid: 7, gid: 8 } };

/// The owner and permissions of whiteouts: none for any user.
pub(crate) const WHITEOUT: NewInode = NewInode { perm: 0, ..NEW };

/// Pages of every mapping: more than programs write.
pub(crate) const MAPPED_PAGES: u64 = 1024;

/// A mounted design on which operations are carried out.
pub struct Runner {
    /// The design.
    pub fs: Arc<dyn FileSystem>,
    opened: BTreeMap<usize, Ino>,
    mapped: BTreeMap<usize, Ino>,
    pinned: BTreeMap<String, Ino>,
}

/// Directory part and last name of a path.
pub fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// The inode that a path leads to.
pub(crate) fn find(fs: &dyn FileSystem, path: &str) -> Result<Ino, Errno> {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    parts.try_fold(fs.root(), |at, name| Ok(fs.lookup(at, &names::bytes(name))?.ino))
}

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("opened", &self.opened).finish_non_exhaustive()
    }
}

impl Runner {
    /// Nothing is open.
    pub fn new(fs: Arc<dyn FileSystem>) -> Self {
        Self { fs, opened: BTreeMap::new(), mapped: BTreeMap::new(), pinned: BTreeMap::new() }
    }

    /// Looks a path up and opens what it leads to, once for all: later operations on that path use this inode, even if another
    /// file gets the name. So an operation is one call of the design, and no call of another task comes between lookup and call.
    pub fn pin(&mut self, path: &str) -> Result<(), Errno> {
        let ino = self.find(path)?;
        self.fs.open(ino, OpenFlags::READ)?;
        self.pinned.insert(path.to_owned(), ino);
        Ok(())
    }

    /// A runner for another task, with the same pins, which stay this one's to close.
    #[must_use]
    pub fn beside(&self) -> Self {
        let (opened, mapped) = (BTreeMap::new(), BTreeMap::new());
        Self { fs: Arc::clone(&self.fs), opened, mapped, pinned: self.pinned.clone() }
    }

    pub(crate) fn find(&self, path: &str) -> Result<Ino, Errno> {
        self.pinned.get(path).map_or_else(|| find(&*self.fs, path), |ino| Ok(*ino))
    }

    fn parent<'p>(&self, path: &'p str) -> Result<(Ino, &'p [u8]), Errno> {
        let (dir, name) = split(path);
        Ok((self.find(dir)?, name.as_bytes()))
    }

    fn file(&self, file: &File) -> Result<Ino, Errno> {
        match file {
            File::At(path) => self.find(path),
            File::Opened(number) => self.opened.get(number).copied().ok_or(Errno::EBADF),
        }
    }

    fn set(&self, path: &str, set: SetAttr) -> Result<Reply, Errno> {
        self.fs.setattr(self.find(path)?, &set).map(|_| Reply::Done)
    }

    /// Closes everything that is open or pinned.
    pub fn close_all(&mut self) {
        self.close_opened();
        for ino in std::mem::take(&mut self.pinned).into_values() {
            self.fs.release(ino);
        }
    }

    /// Closes everything that operations have opened or mapped.
    pub(crate) fn close_opened(&mut self) {
        for ino in std::mem::take(&mut self.mapped).into_values() {
            self.unmap(ino);
        }
        for ino in std::mem::take(&mut self.opened).into_values() {
            self.fs.release(ino);
        }
    }

    /// Carries out one operation ([`Op::Remount`] is the harness's).
    pub fn run(&mut self, op: &Op) -> Result<Reply, Errno> {
        let done = |_: Attr| Reply::Done;
        match op {
            Op::Create(path) => {
                self.parent(path).and_then(|(dir, name)| self.fs.create(dir, name, &NEW)).map(done)
            }
            Op::Mkdir(path) => {
                self.parent(path).and_then(|(dir, name)| self.fs.mkdir(dir, name, &NEW)).map(done)
            }
            Op::Mknod(path, kind, rdev) => {
                let (dir, name) = self.parent(path)?;
                self.fs.mknod(dir, name, *kind, *rdev, &NEW).map(done)
            }
            Op::Symlink(path, len) => {
                let (dir, name) = self.parent(path)?;
                // A file system may allow shorter targets than others (SYMLINK_MAX): it has no space for this one.
                let short = |errno| if errno == Errno::ENAMETOOLONG { Errno::ENOSPC } else { errno };
                self.fs.symlink(dir, name, &vec![b't'; *len], &NEW).map(done).map_err(short)
            }
            Op::Write(file, offset, pattern) => {
                let ino = self.file(file)?;
                let (at, flags) = offset.map_or((0, IoFlags::APPEND), |at| (at, IoFlags::empty()));
                self.fs.write(ino, at, &pattern.bytes(at), flags).map(|written| Reply::Written(written.bytes))
            }
            Op::Read(file, offset, len) => {
                let mut bytes = vec![0xEE; *len];
                let read = self.fs.read(self.file(file)?, *offset, &mut bytes, IoFlags::empty())?;
                bytes.truncate(read);
                Ok(Reply::Data(bytes))
            }
            Op::Truncate(file, size) => {
                let set = SetAttr { size: Some(*size), ..SetAttr::default() };
                self.fs.setattr(self.file(file)?, &set).map(done)
            }
            Op::Fallocate(file, mode, offset, len) => {
                self.fs.fallocate(self.file(file)?, *mode, *offset, *len).map(|()| Reply::Done)
            }
            Op::Clone((from, from_offset), (to, to_offset), len) => {
                let (from, to) = (self.file(from)?, self.file(to)?);
                self.fs.clone_range((from, *from_offset), (to, *to_offset), *len).map(|()| Reply::Done)
            }
            Op::Fsync(file) => self.fs.fsync(self.file(file)?, false).map(|()| Reply::Done),
            Op::Sync => self.fs.sync().map(|()| Reply::Done),
            Op::Open(path, number) => self.open(path, *number),
            Op::Close(number) => {
                let ino = self.opened.remove(number).ok_or(Errno::EBADF)?;
                self.fs.release(ino);
                Ok(Reply::Done)
            }
            Op::Nameless(number) if self.opened.contains_key(number) => Err(Errno::EMFILE),
            Op::Nameless(number) => {
                self.opened.insert(*number, self.fs.tmpfile(&NEW)?.ino);
                Ok(Reply::Done)
            }
            Op::Map(..) | Op::Unmap(_) | Op::Store(..) | Op::Load(..) | Op::Msync(_) => self.run_mapped(op),
            _ => self.run_on_names(op),
        }
    }

    fn run_mapped(&mut self, op: &Op) -> Result<Reply, Errno> {
        if let Op::Map(path, number) = op {
            return self.map(path, *number);
        }
        let maps = self.fs.mapped_files().ok_or(Errno::ENODEV);
        let mapped = |number: &usize| self.mapped.get(number).copied().ok_or(Errno::EBADF);
        match op {
            Op::Store(number, offset, pattern) => {
                let (ino, data) = (mapped(number)?, pattern.bytes(*offset));
                for (piece, at) in page_pieces(*offset, data.len()) {
                    match maps?.store(ino, at, &data[piece.clone()]) {
                        // The pages before have their bytes.
                        Err(Errno::ENOSPC) if piece.start > 0 => return Ok(Reply::Written(piece.start)),
                        stored => stored?,
                    };
                }
                Ok(Reply::Written(data.len()))
            }
            Op::Load(number, offset, len) => {
                let (ino, mut bytes) = (mapped(number)?, vec![0xEE; *len]);
                for (piece, at) in page_pieces(*offset, *len) {
                    maps?.load(ino, at, &mut bytes[piece])?;
                }
                Ok(Reply::Data(bytes))
            }
            Op::Msync(number) => {
                let ino = mapped(number)?;
                maps?.sync(ino, 0..MAPPED_PAGES * PAGE).map(|()| Reply::Done)
            }
            Op::Unmap(number) => {
                let ino = self.mapped.remove(number).ok_or(Errno::EBADF)?;
                self.unmap(ino);
                Ok(Reply::Done)
            }
            _ => unreachable!("{op:?} is not run here"),
        }
    }

    fn map(&mut self, path: &str, number: usize) -> Result<Reply, Errno> {
        let ino = self.find(path)?;
        if self.mapped.contains_key(&number) {
            return Err(Errno::EMFILE);
        }
        let maps = self.fs.mapped_files().ok_or(Errno::ENODEV)?;
        self.fs.open(ino, OpenFlags::READ | OpenFlags::WRITE)?;
        maps.map(ino, &(0..MAPPED_PAGES), true).inspect_err(|_| self.fs.release(ino))?;
        self.mapped.insert(number, ino);
        Ok(Reply::Done)
    }

    fn unmap(&self, ino: Ino) {
        if let Some(maps) = self.fs.mapped_files() {
            maps.unmap(ino, &(0..MAPPED_PAGES), true);
        }
        self.fs.release(ino);
    }

    fn open(&mut self, path: &str, number: usize) -> Result<Reply, Errno> {
        let ino = self.find(path)?;
        if self.opened.contains_key(&number) {
            return Err(Errno::EMFILE);
        }
        self.fs.open(ino, OpenFlags::READ | OpenFlags::WRITE)?;
        self.opened.insert(number, ino);
        Ok(Reply::Done)
    }

    fn run_on_names(&mut self, op: &Op) -> Result<Reply, Errno> {
        match op {
            Op::Link(from, to) => {
                let ino = self.find(from)?;
                let (dir, name) = self.parent(to)?;
                self.fs.link(ino, dir, name).map(|_| Reply::Done)
            }
            Op::LinkOpened(number, to) => {
                let ino = self.file(&File::Opened(*number))?;
                let (dir, name) = self.parent(to)?;
                self.fs.link(ino, dir, name).map(|_| Reply::Done)
            }
            Op::Unlink(path) => {
                let (dir, name) = self.parent(path)?;
                self.fs.unlink(dir, name).map(|()| Reply::Done)
            }
            Op::Rmdir(path) => {
                let (dir, name) = self.parent(path)?;
                self.fs.rmdir(dir, name).map(|()| Reply::Done)
            }
            Op::Rename(from, to, flags) => {
                let (from, to) = (self.parent(from)?, self.parent(to)?);
                let whiteout = flags.contains(RenameFlags::WHITEOUT).then_some(&WHITEOUT);
                let how = Renaming { flags: *flags - RenameFlags::WHITEOUT, whiteout };
                self.fs.rename(from, to, how).map(|()| Reply::Done)
            }
            Op::Chmod(path, perm) => self.set(path, SetAttr { perm: Some(*perm), ..SetAttr::default() }),
            Op::Chown(path, uid, gid) => {
                self.set(path, SetAttr { uid: Some(*uid), gid: Some(*gid), ..SetAttr::default() })
            }
            Op::ChmodChown(path, perm, uid, gid) => self.set(
                path,
                SetAttr { perm: Some(*perm), uid: Some(*uid), gid: Some(*gid), ..SetAttr::default() },
            ),
            Op::Utimes(path, atime, mtime) => self.set(path, times(*atime, *mtime)),
            Op::SetXattr(path, name, value, mode) => {
                let value = value.bytes(0);
                self.fs.setxattr(self.find(path)?, name.as_bytes(), &value, *mode).map(|()| Reply::Done)
            }
            Op::RemoveXattr(path, name) => {
                self.fs.removexattr(self.find(path)?, name.as_bytes()).map(|()| Reply::Done)
            }
            Op::ReadDir(path) => {
                let mut found = Vec::new();
                self.fs.readdir(self.find(path)?, 0, &mut |entry| {
                    found.push(names::shown(entry.name));
                    true
                })?;
                found.sort();
                Ok(Reply::Names(found))
            }
            _ => unreachable!("{op:?} is not run here"),
        }
    }
}
