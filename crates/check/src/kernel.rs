//! Runs the same operations on a directory of the host and compares them with the model, so that the model, and through it every
//! design, agrees with an independent kernel.
//!
//! A design is driven by inode, the kernel by path, so each path is resolved step by step here, without following symbolic
//! links. The directory should be on tmpfs. Any file system of the host works that counts the links of directories, or has no
//! such count.
//!
//! | not compared | because |
//! |---|---|
//! | inode numbers, blocks, block sizes | every file system has its own |
//! | times of access | reading a tree moves them |
//! | times of changes, unless a call has set them and the host keeps such times | the kernel's clock is not the run's |
//! | set-user-id, set-group-id, permissions that shut out their owner | the kernel acts on them, designs only store them |
//! | permissions and times of symbolic links | no call sets them, or none by path |
//! | number of a device that is none (a FIFO's) | the kernel forgets it |
//! | reads, writes, sizes and syncs of anything but regular files | a call by path would follow a link, or wait for a reader |
//! | owners, devices | where this process may not set or make them: taken out of the operations, in the model as well |
//! | extended attributes of anything but regular files and directories | programs may give them none by these names |
//! | modes of `fallocate`, and extended attributes, where the host does not have them | left out in the model as well |
//! | files without a name (`O_TMPFILE`) | random operations make none |
//! | clones | the host may have none; they are left out in the model as well |
//! | mapped files | Linux shows what was stored beyond the end of a file until the page leaves memory, a design never |
//! | operations for which the design, or the host, had no space | left out in the model as well |
//!
//! The umask of the process is 0 while a [`HostDir`] lives.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::Mode;
use vfs::{
    Attr, Errno, FallocateMode, Fd, FileKind, Host, Ino, NewInode, OpenFlags, Owner, RenameFlags, SetAttr,
    Syscalls, Timestamp,
};

use crate::lockstep::{Difference, Space, same_answer};
use crate::model::Model;
use crate::op::{File, Op, Reply, split, times};
use crate::tree::{Entry, Tree, difference};

/// Trees are compared after this many operations.
const COMPARE_EVERY: usize = 200;
const NEW_PERM: u32 = 0o755;

/// A directory of the host in which rounds make theirs, and what may be done there.
#[derive(Clone, Debug)]
pub struct HostDir {
    path: PathBuf,
    /// Files may be given away.
    owners: bool,
    /// Devices may be made.
    devices: bool,
    /// It can leave a whiteout in the place of a name (tmpfs and ext4 can, overlayfs cannot).
    whiteouts: bool,
    /// Times keep their nanoseconds, and reach far enough.
    times: bool,
    /// A directory's links are counted.
    dir_links: bool,
    /// Operations of this kind are not carried out here.
    left_out: Option<&'static str>,
    _umask: Arc<NoUmask>,
}

/// While one lives, the umask of the process is 0: a file gets the permissions that a call gives it. It is the user's again before
/// anything else is written.
#[derive(Debug)]
struct NoUmask(());

/// How many of them live, and the umask before the first.
static NO_UMASK: Mutex<(usize, u32)> = Mutex::new((0, 0));

impl NoUmask {
    fn begin() -> Arc<Self> {
        let mut held = NO_UMASK.lock().unwrap_or_else(PoisonError::into_inner);
        let before = rustix::process::umask(Mode::empty());
        *held = (held.0 + 1, if held.0 == 0 { before.as_raw_mode() } else { held.1 });
        Arc::new(Self(()))
    }
}

impl Drop for NoUmask {
    fn drop(&mut self) {
        let mut held = NO_UMASK.lock().unwrap_or_else(PoisonError::into_inner);
        held.0 -= 1;
        if held.0 == 0 {
            rustix::process::umask(Mode::from_raw_mode(held.1));
        }
    }
}

/// A directory that is removed with all that is in it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(below: &Path) -> Result<Self, String> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("weir-check-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let path = below.join(name);
        // Calls follow symbolic links: other users must not be able to create any here.
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| format!("cannot make {}: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A directory that remains can be found by its name.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl HostDir {
    /// Tries what this process may do in a directory of the host.
    pub fn new(path: &Path) -> Result<Self, String> {
        let scratch = Scratch::new(path)?;
        let host = Host::new(&scratch.0).map_err(|error| error.to_string())?;
        let umask = NoUmask::begin();
        let owner = SetAttr { uid: Some(5), gid: Some(6), ..SetAttr::default() };
        let owners =
            host.mknod(b"fifo", FileKind::Fifo, 0o600, 0).and_then(|()| host.setattr(b"fifo", &owner));
        let devices = host.mknod(b"device", FileKind::CharDevice, 0o600, 0x0501);
        let links = host.lstat(b".").map_err(|errno| format!("{}: {}", path.display(), errno.name()))?.nlink;
        Ok(Self {
            path: path.to_owned(),
            owners: owners.is_ok(),
            devices: devices.is_ok(),
            whiteouts: devices.is_ok() && host.rename(b"fifo", b"old", RenameFlags::WHITEOUT).is_ok(),
            times: keeps_times(&host),
            dir_links: links == 2,
            left_out: None,
            _umask: umask,
        })
    }

    /// The same, where operations of one kind ([`Op::name`]) do not reach the host: a canary, which must be found.
    #[must_use]
    pub fn leaving_out(self, kind: &'static str) -> Self {
        Self { left_out: Some(kind), ..self }
    }

    /// An operation as it can be carried out here.
    fn possible(&self, op: &Op) -> Op {
        let perm = |perm: u32| perm & 0o1777 | 0o700;
        match op {
            Op::ChmodChown(path, bits, uid, gid) if self.owners => {
                Op::ChmodChown(path.clone(), perm(*bits), *uid, *gid)
            }
            Op::Chmod(path, bits) | Op::ChmodChown(path, bits, ..) => Op::Chmod(path.clone(), perm(*bits)),
            Op::Chown(path, ..) if !self.owners => Op::Chmod(path.clone(), NEW_PERM),
            Op::Mknod(path, FileKind::CharDevice | FileKind::BlockDevice, _) if !self.devices => {
                Op::Mknod(path.clone(), FileKind::Fifo, 0)
            }
            Op::Rename(from, to, flags) if !self.whiteouts => {
                Op::Rename(from.clone(), to.clone(), *flags - RenameFlags::WHITEOUT)
            }
            _ => op.clone(),
        }
    }

    /// What can be compared of a tree.
    fn comparable(&self, tree: Tree) -> Tree {
        let entry = |entry: Entry| Entry {
            perm: if entry.kind == FileKind::Symlink { 0 } else { entry.perm },
            rdev: if entry.kind == FileKind::CharDevice { entry.rdev } else { 0 },
            nlink: if entry.kind == FileKind::Directory && !self.dir_links { 0 } else { entry.nlink },
            atime: None,
            mtime: entry.mtime.filter(|_| self.times),
            ..entry
        };
        tree.into_iter().map(|(path, seen)| (path, entry(seen))).collect()
    }
}

/// Carries out a program in a fresh directory of the host and on the model; `space` is what the design had for each operation
/// (nothing said: enough). Returns how many operations were compared. Call it outside any virtual run.
pub fn run(dir: &HostDir, ops: &[Op], space: &[Space]) -> Result<usize, Difference> {
    let failed = |ops| move |what| Difference { ops, what };
    let scratch = Scratch::new(&dir.path).map_err(failed(0))?;
    let mut kernel = Kernel::new(&scratch.0).map_err(failed(0))?;
    let root = kernel.attr("").map_err(|errno| failed(0)(errno.name().to_owned()))?;
    let owner = root.owner;
    let new = NewInode { perm: NEW_PERM, owner };
    let mut model = Model::making(new, root.perm, (owner.uid, owner.gid));
    let compare = |kernel: &Kernel, model: &Model| {
        let seen = dir.comparable(kernel.tree()?);
        difference(&seen, &dir.comparable(model.tree())).map_or(Ok(()), Err)
    };
    let mut compared = 0;
    for (number, op) in ops.iter().enumerate() {
        let space = space.get(number).copied().unwrap_or(Space::Enough);
        if dir.left_out == Some(op.name()) {
            let _ = model.run(op, None);
            continue;
        }
        let agreed = step(&mut kernel, &mut model, &dir.possible(op), space);
        compared += usize::from(agreed.map_err(failed(number + 1))?);
        if number % COMPARE_EVERY == 0 {
            compare(&kernel, &model).map_err(failed(number + 1))?;
        }
    }
    compare(&kernel, &model).map_err(failed(ops.len()))?;
    Ok(compared)
}

/// One operation on both; whether there was something to compare.
fn step(kernel: &mut Kernel, model: &mut Model, op: &Op, space: Space) -> Result<bool, String> {
    let op = match (op, space) {
        (_, Space::None) => return Ok(false),
        (Op::Remount, _) => {
            kernel.close_all();
            model.close_all();
            return Ok(false);
        }
        (Op::Write(file, offset, pattern), Space::Bytes(len)) => {
            Op::Write(file.clone(), *offset, crate::op::Pattern { len: len.min(pattern.len), ..*pattern })
        }
        _ => op.clone(),
    };
    let limit = match kernel.run(&op) {
        None | Some(Err(Errno::ENOSPC)) => return Ok(false),
        Some(Err(Errno::EOPNOTSUPP))
            if matches!(op, Op::Fallocate(..) | Op::SetXattr(..) | Op::RemoveXattr(..)) =>
        {
            return Ok(false);
        }
        Some(done) => (done.clone(), if let Ok(Reply::Written(bytes)) = done { Some(bytes) } else { None }),
    };
    let (done, limit) = limit;
    same_answer(&op, &done, &model.run(&op, limit)).map(|()| true)
}

/// Operations by path on the host, without following symbolic links.
struct Kernel {
    host: Host,
    opened: BTreeMap<usize, (Fd, FileKind)>,
}

const NOFOLLOW: OpenFlags = OpenFlags::NOFOLLOW;

/// The answer of a call; none: this operation has no call here, and was skipped.
type Answer = Option<Result<Reply, Errno>>;

impl Kernel {
    fn new(directory: &Path) -> Result<Self, String> {
        let host = Host::new(directory).map_err(|error| error.to_string())?;
        Ok(Self { host, opened: BTreeMap::new() })
    }

    fn close_all(&mut self) {
        for (_, (fd, _)) in std::mem::take(&mut self.opened) {
            let _ = self.host.close(fd);
        }
    }

    fn attr(&self, path: &str) -> Result<Attr, Errno> {
        self.host.lstat(if path.is_empty() { b"." } else { path.as_bytes() })
    }

    /// What a path leads to, each part a directory.
    fn find(&self, path: &str) -> Result<Attr, Errno> {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        let mut found = self.attr("")?;
        for end in ends.filter(|_| !path.is_empty()) {
            is_dir(&found)?;
            found = self.attr(&path[..end])?;
        }
        Ok(found)
    }

    fn find_parent(&self, path: &str) -> Result<(), Errno> {
        is_dir(&self.find(split(path).0)?)
    }

    /// Does something with a regular file that is open.
    fn with_file(&self, file: &File, act: impl FnOnce(Fd) -> Result<Reply, Errno>) -> Answer {
        match file {
            File::Opened(number) => match self.opened.get(number) {
                None => Some(Err(Errno::EBADF)),
                Some((fd, FileKind::Regular)) => Some(act(*fd)),
                Some(_) => None,
            },
            File::At(path) => match self.find(path) {
                Err(errno) => Some(Err(errno)),
                Ok(attr) if attr.kind != FileKind::Regular => None,
                Ok(_) => Some(self.with_path(path, act)),
            },
        }
    }

    fn with_path(&self, path: &str, act: impl FnOnce(Fd) -> Result<Reply, Errno>) -> Result<Reply, Errno> {
        let fd = self.host.open(path.as_bytes(), OpenFlags::READ | OpenFlags::WRITE | NOFOLLOW, 0)?;
        let done = act(fd);
        self.host.close(fd)?;
        done
    }

    fn run(&mut self, op: &Op) -> Answer {
        match op {
            Op::Write(file, offset, pattern) => self.with_file(file, |fd| {
                let at = offset.map_or_else(|| self.host.fstat(fd).map(|attr| attr.size), Ok)?;
                self.host.pwrite(fd, &pattern.bytes(offset.unwrap_or(0)), at).map(Reply::Written)
            }),
            Op::Read(file, offset, len) => self.with_file(file, |fd| {
                let mut bytes = vec![0xEE; *len];
                let read = self.host.pread(fd, &mut bytes, *offset)?;
                bytes.truncate(read);
                Ok(Reply::Data(bytes))
            }),
            Op::Truncate(file, size) => {
                self.with_file(file, |fd| self.host.ftruncate(fd, *size).map(|()| Reply::Done))
            }
            Op::Fallocate(file, mode, offset, len) => self.with_file(file, |fd| {
                let mode = FallocateMode::from_bits_retain(mode.bits());
                self.host.fallocate(fd, mode, *offset, *len).map(|()| Reply::Done)
            }),
            Op::Fsync(file) => self.with_file(file, |fd| self.host.fsync(fd).map(|()| Reply::Done)),
            Op::SetXattr(path, ..) | Op::RemoveXattr(path, _) => match self.find(path) {
                Ok(attr) if !has_user_attributes(attr.kind) => None,
                found => Some(found.and_then(|_| self.change_xattrs(op, path.as_bytes()))),
            },
            Op::Chmod(path, _) | Op::Chown(path, ..) | Op::ChmodChown(path, ..) | Op::Utimes(path, ..) => {
                match self.find(path) {
                    Ok(attr) if attr.kind == FileKind::Symlink => None,
                    found => Some(found.and_then(|_| self.set_attributes(op, path))),
                }
            }
            Op::Sync
            | Op::Remount
            | Op::Nameless(_)
            | Op::LinkOpened(..)
            | Op::Clone(..)
            | Op::Map(..)
            | Op::Unmap(_)
            | Op::Store(..)
            | Op::Load(..)
            | Op::Msync(_) => None,
            Op::Open(path, number) => Some(self.open(path, *number)),
            Op::Close(number) => Some(self.close(*number)),
            _ => Some(self.run_on_names(op)),
        }
    }

    fn set_attributes(&self, op: &Op, path: &str) -> Result<Reply, Errno> {
        let set = match *op {
            Op::Chmod(_, perm) => SetAttr { perm: Some(perm), ..SetAttr::default() },
            Op::Chown(_, uid, gid) => SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() },
            Op::ChmodChown(_, perm, uid, gid) => {
                SetAttr { perm: Some(perm), uid: Some(uid), gid: Some(gid), ..SetAttr::default() }
            }
            Op::Utimes(_, atime, mtime) => times(atime, mtime),
            _ => unreachable!("{op:?} sets no attributes"),
        };
        self.host.setattr(path.as_bytes(), &set).map(|()| Reply::Done)
    }

    fn change_xattrs(&self, op: &Op, path: &[u8]) -> Result<Reply, Errno> {
        match op {
            Op::SetXattr(_, name, value, mode) => {
                self.host.setxattr(path, name.as_bytes(), &value.bytes(0), *mode)
            }
            Op::RemoveXattr(_, name) => self.host.removexattr(path, name.as_bytes()),
            _ => unreachable!("{op:?} changes no extended attributes"),
        }
        .map(|()| Reply::Done)
    }

    /// Attributes that programs may set; a host may have others of its own.
    fn xattrs(&self, path: &str, kind: FileKind) -> Result<BTreeMap<String, Vec<u8>>, Errno> {
        if !has_user_attributes(kind) {
            return Ok(BTreeMap::new());
        }
        let path = if path.is_empty() { b"." } else { path.as_bytes() };
        let listed = match self.host.listxattr(path) {
            Err(Errno::EOPNOTSUPP) => Vec::new(),
            listed => listed?,
        };
        let names = listed.split(|byte| *byte == 0).filter(|name| name.starts_with(b"user."));
        let value = |name: &[u8]| {
            let value = self.host.getxattr(path, name)?;
            Ok((String::from_utf8_lossy(name).into_owned(), value))
        };
        names.map(value).collect()
    }

    fn open(&mut self, path: &str, number: usize) -> Result<Reply, Errno> {
        let kind = self.find(path)?.kind;
        if self.opened.contains_key(&number) {
            return Err(Errno::EMFILE);
        }
        let flags = match kind {
            FileKind::Regular => OpenFlags::READ | OpenFlags::WRITE,
            FileKind::Directory => OpenFlags::READ | OpenFlags::DIRECTORY,
            _ => OpenFlags::PATH,
        };
        let fd = self.host.open(path.as_bytes(), flags | NOFOLLOW, 0)?;
        self.opened.insert(number, (fd, kind));
        Ok(Reply::Done)
    }

    fn close(&mut self, number: usize) -> Result<Reply, Errno> {
        let (fd, _) = self.opened.remove(&number).ok_or(Errno::EBADF)?;
        self.host.close(fd).map(|()| Reply::Done)
    }

    fn run_on_names(&self, op: &Op) -> Result<Reply, Errno> {
        let (host, flags) = (&self.host, OpenFlags::READ | NOFOLLOW);
        match op {
            Op::Create(path) => {
                self.find_parent(path)?;
                let flags = flags | OpenFlags::CREATE | OpenFlags::EXCLUSIVE;
                host.close(host.open(path.as_bytes(), flags, NEW_PERM)?)?;
            }
            Op::Mkdir(path) => {
                self.find_parent(path)?;
                host.mkdir(path.as_bytes(), NEW_PERM)?;
            }
            Op::Mknod(path, kind, rdev) => {
                self.find_parent(path)?;
                host.mknod(path.as_bytes(), *kind, NEW_PERM, *rdev)?;
            }
            Op::Symlink(path, len) => {
                self.find_parent(path)?;
                host.symlink(&vec![b't'; *len], path.as_bytes())?;
            }
            Op::Link(from, to) => {
                self.find(from)?;
                self.find_parent(to)?;
                host.link(from.as_bytes(), to.as_bytes())?;
            }
            Op::Unlink(path) => {
                self.find_parent(path)?;
                host.unlink(path.as_bytes())?;
            }
            Op::Rmdir(path) => {
                self.find_parent(path)?;
                host.rmdir(path.as_bytes())?;
            }
            Op::Rename(from, to, flags) => {
                // Both parents are looked up before either must be a directory, as in a design.
                let parents = [self.find(split(from).0)?, self.find(split(to).0)?];
                parents.iter().try_for_each(is_dir)?;
                host.rename(from.as_bytes(), to.as_bytes(), *flags)?;
            }
            Op::ReadDir(path) => {
                is_dir(&self.find(path)?)?;
                return Ok(Reply::Names(self.list(path)?.into_iter().map(|(name, _)| name).collect()));
            }
            _ => unreachable!("{op:?} is not run here"),
        }
        Ok(Reply::Done)
    }

    /// Names of a directory in order, `.` and `..` among them.
    fn list(&self, path: &str) -> Result<Vec<(String, Ino)>, Errno> {
        let path = if path.is_empty() { "." } else { path };
        let fd = self.host.open(path.as_bytes(), OpenFlags::READ | OpenFlags::DIRECTORY | NOFOLLOW, 0)?;
        let mut names = Vec::new();
        let listed = self.host.getdents(fd, &mut |entry| {
            names.push((String::from_utf8_lossy(entry.name).into_owned(), entry.ino));
            true
        });
        self.host.close(fd)?;
        names.sort();
        listed.map(|()| names)
    }

    fn tree(&self) -> Result<Tree, String> {
        let mut tree = Tree::new();
        let mut first = BTreeMap::new();
        let walked = self.add(&mut tree, &mut first, "");
        walked.map_err(|errno| format!("reading the directory: {}", errno.name()))?;
        Ok(tree)
    }

    fn add(&self, tree: &mut Tree, first: &mut BTreeMap<Ino, String>, path: &str) -> Result<(), Errno> {
        let attr = self.attr(path)?;
        let Owner { uid, gid } = attr.owner;
        let content = match attr.kind {
            FileKind::Symlink => self.host.readlink(path.as_bytes())?,
            FileKind::Regular => self.read_all(path, attr.size)?,
            _ => Vec::new(),
        };
        let entry = Entry {
            kind: attr.kind,
            perm: attr.perm,
            owner: (uid, gid),
            rdev: attr.rdev,
            nlink: attr.nlink,
            same_as: first.entry(attr.ino).or_insert_with(|| path.to_owned()).clone(),
            atime: None,
            mtime: Some(attr.mtime),
            xattrs: self.xattrs(path, attr.kind)?,
            content: Arc::new(content),
        };
        tree.insert(path.to_owned(), entry);
        if attr.kind == FileKind::Directory {
            for (name, _) in self.list(path)?.into_iter().filter(|(name, _)| name != "." && name != "..") {
                let below = if path.is_empty() { name } else { format!("{path}/{name}") };
                self.add(tree, first, &below)?;
            }
        }
        Ok(())
    }

    fn read_all(&self, path: &str, size: u64) -> Result<Vec<u8>, Errno> {
        let fd = self.host.open(path.as_bytes(), OpenFlags::READ | NOFOLLOW, 0)?;
        let mut bytes = vec![0; size as usize + 1];
        let read = self.host.pread(fd, &mut bytes, 0);
        self.host.close(fd)?;
        bytes.truncate(read?);
        Ok(bytes)
    }
}

/// Whether a host keeps a time to the nanosecond that 32 bits of seconds cannot hold.
fn keeps_times(host: &Host) -> bool {
    let time = Timestamp { secs: 1 << 32, nanos: 123_456_789 };
    let set = host.setattr(b".", &times(None, Some(time)));
    set.and_then(|()| host.lstat(b".")).is_ok_and(|attr| attr.mtime == time)
}

/// Whether the kernel lets a program give it attributes of the namespace `user`.
fn has_user_attributes(kind: FileKind) -> bool {
    matches!(kind, FileKind::Regular | FileKind::Directory)
}

fn is_dir(attr: &Attr) -> Result<(), Errno> {
    if attr.kind == FileKind::Directory { Ok(()) } else { Err(Errno::ENOTDIR) }
}
