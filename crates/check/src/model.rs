//! The reference model: inodes and names in maps, with the rules of POSIX.

use std::collections::BTreeMap;
use std::sync::Arc;

use vfs::copy::check_clone;
use vfs::mapping::{PAGE, page_pieces, within_file};
use vfs::{
    Errno, FallocateMode, FileKind, FileSystem, LeftOut, NewInode, Promises, RenameFlags, Timestamp,
    XattrMode,
};

use crate::op::{File, NEW, Op, Reply, WHITEOUT, split};
use crate::tree::{Entry, Tree};

/// The number of an inode; none is used twice.
pub type Id = usize;
const ROOT: Id = 0;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Body {
    File(Arc<Vec<u8>>),
    Dir { names: BTreeMap<String, Id>, parent: Id },
    Symlink(Arc<Vec<u8>>),
    Special,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    kind: FileKind,
    perm: u32,
    owner: (u32, u32),
    rdev: u64,
    nlink: u32,
    opens: u32,
    /// It was made without a name and never had one, so it can still get one.
    nameless: bool,
    /// Times that were set, as long as nothing has changed them.
    atime: Option<Timestamp>,
    mtime: Option<Timestamp>,
    xattrs: BTreeMap<String, Vec<u8>>,
    body: Body,
}

impl Node {
    fn new(kind: FileKind, perm: u32, owner: (u32, u32), body: Body) -> Self {
        let nlink = 1 + u32::from(kind == FileKind::Directory);
        let (atime, mtime, xattrs) = (None, None, BTreeMap::new());
        Self { kind, perm, owner, rdev: 0, nlink, opens: 0, nameless: false, atime, mtime, xattrs, body }
    }
}

/// The reference file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    nodes: BTreeMap<Id, Node>,
    next: Id,
    opened: BTreeMap<usize, Id>,
    mapped: BTreeMap<usize, Id>,
    pinned: BTreeMap<String, Id>,
    /// What new inodes get.
    new: NewInode,
    /// Files can be mapped.
    maps: bool,
    /// Bytes of the blocks that files can share.
    clone_unit: Option<u64>,
    promises: Promises,
}

impl Model {
    /// An empty file system whose root has the given permission and owner.
    pub fn new(perm: u32, owner: (u32, u32)) -> Self {
        Self::making(NEW, perm, owner)
    }

    /// An empty file system like that one, which makes these promises.
    pub(crate) fn of(fs: &dyn FileSystem, promises: Promises) -> Result<Self, String> {
        let root = fs.getattr(fs.root()).map_err(|errno| format!("root: {}", errno.name()))?;
        let (maps, clone_unit) = (fs.mapped_files().is_some(), fs.clone_unit());
        Ok(Self { maps, clone_unit, promises, ..Self::new(root.perm, (root.owner.uid, root.owner.gid)) })
    }

    /// The same, where new inodes get `new`.
    pub fn making(new: NewInode, perm: u32, owner: (u32, u32)) -> Self {
        let body = Body::Dir { names: BTreeMap::new(), parent: ROOT };
        let root = Node::new(FileKind::Directory, perm, owner, body);
        Self {
            nodes: BTreeMap::from([(ROOT, root)]),
            next: 1,
            opened: BTreeMap::new(),
            mapped: BTreeMap::new(),
            pinned: BTreeMap::new(),
            new,
            maps: true,
            clone_unit: Some(PAGE),
            promises: Promises::STRICT,
        }
    }

    fn node(&mut self, id: Id) -> &mut Node {
        self.nodes.get_mut(&id).expect("ids lead to nodes")
    }

    fn names(&self, id: Id) -> Result<&BTreeMap<String, Id>, Errno> {
        match &self.nodes[&id].body {
            Body::Dir { names, .. } => Ok(names),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// The names of a directory, for a change.
    fn names_mut(&mut self, id: Id) -> &mut BTreeMap<String, Id> {
        let node = self.node(id);
        node.mtime = None;
        match &mut node.body {
            Body::Dir { names, .. } => names,
            _ => unreachable!("checked before"),
        }
    }

    fn is_dir(&self, id: Id) -> bool {
        self.nodes[&id].kind == FileKind::Directory
    }

    fn find(&self, path: &str) -> Result<Id, Errno> {
        if let Some(id) = self.pinned.get(path) {
            return Ok(*id);
        }
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        parts.try_fold(ROOT, |at, name| {
            self.check_name(name)?;
            self.names(at)?.get(name).copied().ok_or(Errno::ENOENT)
        })
    }

    /// Refuses a name that the design has no room for.
    fn check_name(&self, name: &str) -> Result<(), Errno> {
        if name.len() > self.promises.name_max as usize { Err(Errno::ENAMETOOLONG) } else { Ok(()) }
    }

    /// Refuses, with its errno, a call that the design leaves out.
    fn check_has(&self, call: LeftOut, errno: Errno) -> Result<(), Errno> {
        if self.promises.left_out.contains(call) { Err(errno) } else { Ok(()) }
    }

    fn parent<'p>(&self, path: &'p str) -> Result<(Id, &'p str), Errno> {
        let (dir, name) = split(path);
        let dir = self.find(dir)?;
        // Found by a pin, although it is gone.
        if self.nodes[&dir].nlink == 0 { Err(Errno::ENOENT) } else { Ok((dir, name)) }
    }

    /// See [`crate::Runner::pin`].
    pub fn pin(&mut self, path: &str) -> Result<(), Errno> {
        let id = self.find(path)?;
        self.node(id).opens += 1;
        self.pinned.insert(path.to_owned(), id);
        Ok(())
    }

    fn file(&self, file: &File) -> Result<Id, Errno> {
        match file {
            File::At(path) => self.find(path),
            File::Opened(number) => self.opened.get(number).copied().ok_or(Errno::EBADF),
        }
    }

    /// The contents of a file, for a change.
    fn bytes_mut(&mut self, file: &File) -> Result<&mut Vec<u8>, Errno> {
        let id = self.file(file)?;
        let node = self.node(id);
        match &mut node.body {
            Body::File(bytes) => {
                node.mtime = None;
                Ok(Arc::make_mut(bytes))
            }
            Body::Dir { .. } => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    fn bytes(&self, file: &File) -> Result<&[u8], Errno> {
        match &self.nodes[&self.file(file)?].body {
            Body::File(bytes) => Ok(bytes),
            Body::Dir { .. } => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    /// The size of a file.
    pub fn size(&self, file: &File) -> Option<u64> {
        self.bytes(file).ok().map(|bytes| bytes.len() as u64)
    }

    fn make(&mut self, path: &str, kind: FileKind, rdev: u64, body: Body) -> Result<Reply, Errno> {
        let (dir, name) = self.parent(path)?;
        self.check_name(name)?;
        if matches!(body, Body::Special) && kind != FileKind::Directory {
            self.check_has(LeftOut::NODES, Errno::EOPNOTSUPP)?;
        }
        if self.names(dir)?.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        let is_dir = kind == FileKind::Directory;
        let body = if is_dir { Body::Dir { names: BTreeMap::new(), parent: dir } } else { body };
        let id = self.add_node(kind, rdev, body);
        self.names_mut(dir).insert(name.to_owned(), id);
        self.node(dir).nlink += u32::from(is_dir);
        Ok(Reply::Done)
    }

    fn add_node(&mut self, kind: FileKind, rdev: u64, body: Body) -> Id {
        let id = self.next;
        self.next += 1;
        let owner = (self.new.owner.uid, self.new.owner.gid);
        self.nodes.insert(id, Node { rdev, ..Node::new(kind, self.new.perm, owner, body) });
        id
    }

    fn make_nameless(&mut self, number: usize) -> Result<Reply, Errno> {
        if self.opened.contains_key(&number) {
            return Err(Errno::EMFILE);
        }
        self.check_has(LeftOut::NAMELESS, Errno::EOPNOTSUPP)?;
        let id = self.add_node(FileKind::Regular, 0, Body::File(Arc::default()));
        let node = self.node(id);
        (node.nlink, node.opens, node.nameless) = (0, 1, true);
        self.opened.insert(number, id);
        Ok(Reply::Done)
    }

    fn link(&mut self, id: Id, to: &str) -> Result<(), Errno> {
        let (dir, name) = self.parent(to)?;
        self.check_name(name)?;
        match () {
            () if self.names(dir)?.contains_key(name) => return Err(Errno::EEXIST),
            () if self.is_dir(id) => return Err(Errno::EPERM),
            () if self.nodes[&id].nlink == 0 && !self.nodes[&id].nameless => return Err(Errno::ENOENT),
            () => {}
        }
        self.names_mut(dir).insert(name.to_owned(), id);
        let node = self.node(id);
        (node.nlink, node.nameless) = (node.nlink + 1, false);
        Ok(())
    }

    fn drop_links(&mut self, id: Id, count: u32) {
        self.node(id).nlink -= count;
        self.forget_if_dead(id);
    }

    fn forget_if_dead(&mut self, id: Id) {
        if self.nodes[&id].nlink == 0 && self.nodes[&id].opens == 0 {
            self.nodes.remove(&id);
        }
    }

    /// Closes everything that is open or pinned, as an unmount does.
    pub fn close_all(&mut self) {
        for id in std::mem::take(&mut self.pinned).into_values() {
            self.node(id).opens -= 1;
            self.forget_if_dead(id);
        }
        while let Some(number) = self.mapped.keys().next().copied() {
            let _ = self.run(&Op::Unmap(number), None);
        }
        while let Some(number) = self.opened.keys().next().copied() {
            let _ = self.run(&Op::Close(number), None);
        }
    }

    /// Carries out an operation. `limit`: how many bytes a write may write, because the design ran out of space.
    pub fn run(&mut self, op: &Op, limit: Option<usize>) -> Result<Reply, Errno> {
        match op {
            Op::Create(path) => self.make(path, FileKind::Regular, 0, Body::File(Arc::default())),
            Op::Mkdir(path) => self.make(path, FileKind::Directory, 0, Body::Special),
            Op::Mknod(path, kind, rdev) => self.make(path, *kind, *rdev, Body::Special),
            Op::Symlink(path, len) => {
                self.make(path, FileKind::Symlink, 0, Body::Symlink(Arc::new(vec![b't'; *len])))
            }
            Op::Write(file, offset, pattern) => {
                let at = offset.unwrap_or(self.bytes(file)?.len() as u64);
                let mut data = pattern.bytes(offset.unwrap_or(0));
                data.truncate(limit.unwrap_or(data.len()));
                if !data.is_empty() {
                    let bytes = self.bytes_mut(file)?;
                    let end = at as usize + data.len();
                    bytes.resize(bytes.len().max(end), 0);
                    bytes[at as usize..end].copy_from_slice(&data);
                }
                Ok(Reply::Written(data.len()))
            }
            Op::Read(file, offset, len) => {
                let bytes = self.bytes(file)?;
                let from = bytes.len().min(*offset as usize);
                Ok(Reply::Data(bytes[from..bytes.len().min(from + len)].to_vec()))
            }
            Op::Truncate(file, size) => {
                self.bytes_mut(file)?.resize(*size as usize, 0);
                Ok(Reply::Done)
            }
            Op::Fallocate(file, mode, offset, len) => self.fallocate(file, *mode, *offset, *len),
            Op::Clone((from, at), (to, target), len) => self.clone_range((from, *at), (to, *target), *len),
            Op::Fsync(file) => self.file(file).map(|_| Reply::Done),
            Op::Sync | Op::Remount => Ok(Reply::Done),
            Op::Chmod(..) | Op::Chown(..) | Op::ChmodChown(..) | Op::Utimes(..) => self.set_attributes(op),
            Op::SetXattr(path, name, value, mode) => self.set_xattr(path, name, value.bytes(0), *mode),
            Op::RemoveXattr(path, name) => self.remove_xattr(path, name),
            Op::Open(path, number) => {
                let id = self.find(path)?;
                if self.opened.contains_key(number) {
                    return Err(Errno::EMFILE);
                }
                self.opened.insert(*number, id);
                self.node(id).opens += 1;
                Ok(Reply::Done)
            }
            Op::Close(number) => {
                let id = self.opened.remove(number).ok_or(Errno::EBADF)?;
                self.node(id).opens -= 1;
                self.forget_if_dead(id);
                Ok(Reply::Done)
            }
            Op::ReadDir(path) => {
                let id = self.find(path)?;
                let mut names: Vec<_> = self.names(id)?.keys().cloned().collect();
                if self.nodes[&id].nlink == 0 {
                    return Ok(Reply::Names(names));
                }
                names.extend([".".to_owned(), "..".to_owned()]);
                names.sort();
                Ok(Reply::Names(names))
            }
            Op::Map(..) | Op::Unmap(_) | Op::Store(..) | Op::Load(..) | Op::Msync(_) => {
                self.run_mapped(op, limit)
            }
            Op::Nameless(_) | Op::Link(..) | Op::LinkOpened(..) | Op::Unlink(_) | Op::Rmdir(_) => {
                self.run_on_names(op)
            }
            Op::Rename(from, to, flags) => self.rename(from, to, *flags),
        }
    }

    /// An access goes page by page, and ends at the first page that lies beyond the end of the file.
    fn run_mapped(&mut self, op: &Op, limit: Option<usize>) -> Result<Reply, Errno> {
        if let Op::Map(path, number) = op {
            let id = self.find(path)?;
            return match self.nodes[&id].body {
                _ if self.mapped.contains_key(number) => Err(Errno::EMFILE),
                Body::File(_) if self.maps => {
                    self.mapped.insert(*number, id);
                    self.node(id).opens += 1;
                    Ok(Reply::Done)
                }
                _ => Err(Errno::ENODEV),
            };
        }
        let (Op::Unmap(number) | Op::Store(number, ..) | Op::Load(number, ..) | Op::Msync(number)) = op
        else {
            unreachable!("{op:?} is not run here")
        };
        let id = *self.mapped.get(number).ok_or(Errno::EBADF)?;
        match op {
            Op::Store(_, offset, pattern) => return self.store(id, *offset, &pattern.bytes(*offset), limit),
            Op::Load(_, offset, len) => return self.load(id, *offset, *len),
            Op::Unmap(_) => {
                self.mapped.remove(number);
                self.node(id).opens -= 1;
                self.forget_if_dead(id);
            }
            _ => {}
        }
        Ok(Reply::Done)
    }

    fn store(&mut self, id: Id, at: u64, data: &[u8], limit: Option<usize>) -> Result<Reply, Errno> {
        let node = self.node(id);
        let Body::File(bytes) = &mut node.body else { return Err(Errno::ENODEV) };
        let (size, data) = (bytes.len() as u64, &data[..limit.unwrap_or(data.len())]);
        for (piece, at) in page_pieces(at, data.len()) {
            let len = within_file(size, at, piece.len())?;
            if len > 0 {
                node.mtime = None;
                Arc::make_mut(bytes)[at as usize..][..len].copy_from_slice(&data[piece][..len]);
            }
        }
        Ok(Reply::Written(data.len()))
    }

    fn load(&self, id: Id, at: u64, len: usize) -> Result<Reply, Errno> {
        let Body::File(bytes) = &self.nodes[&id].body else { return Err(Errno::ENODEV) };
        let mut loaded = vec![0; len];
        for (piece, at) in page_pieces(at, len) {
            let inside = within_file(bytes.len() as u64, at, piece.len())?;
            loaded[piece][..inside].copy_from_slice(&bytes[bytes.len().min(at as usize)..][..inside]);
        }
        Ok(Reply::Data(loaded))
    }

    fn set_attributes(&mut self, op: &Op) -> Result<Reply, Errno> {
        let none = (None, None);
        let (path, perm, owner, times) = match op {
            Op::Chmod(path, perm) => (path, Some(*perm), None, none),
            Op::Chown(path, uid, gid) => (path, None, Some((*uid, *gid)), none),
            Op::ChmodChown(path, perm, uid, gid) => (path, Some(*perm), Some((*uid, *gid)), none),
            Op::Utimes(path, atime, mtime) => (path, None, None, (*atime, *mtime)),
            _ => unreachable!("{op:?} sets no attributes"),
        };
        let id = self.find(path)?;
        let node = self.node(id);
        node.perm = perm.unwrap_or(node.perm);
        node.owner = owner.unwrap_or(node.owner);
        node.atime = times.0.or(node.atime);
        node.mtime = times.1.or(node.mtime);
        Ok(Reply::Done)
    }

    fn set_xattr(&mut self, path: &str, name: &str, value: Vec<u8>, mode: XattrMode) -> Result<Reply, Errno> {
        let id = self.find(path)?;
        self.check_has(LeftOut::ATTRIBUTES, Errno::EOPNOTSUPP)?;
        let xattrs = &mut self.node(id).xattrs;
        match (mode, xattrs.contains_key(name)) {
            (XattrMode::Create, true) => Err(Errno::EEXIST),
            (XattrMode::Replace, false) => Err(Errno::ENODATA),
            _ => {
                xattrs.insert(name.to_owned(), value);
                Ok(Reply::Done)
            }
        }
    }

    fn remove_xattr(&mut self, path: &str, name: &str) -> Result<Reply, Errno> {
        let id = self.find(path)?;
        self.check_has(LeftOut::ATTRIBUTES, Errno::EOPNOTSUPP)?;
        self.node(id).xattrs.remove(name).map(|_| Reply::Done).ok_or(Errno::ENODATA)
    }

    /// An operation found no space: it has changed nothing, except perhaps the time of its file, and may have reserved a part of
    /// it.
    pub(crate) fn found_no_space(&mut self, op: &Op) {
        let id = match op {
            Op::Fallocate(file, ..) => self.file(file).ok(),
            Op::Store(number, ..) => self.mapped.get(number).copied(),
            _ => None,
        };
        if let Some(id) = id {
            self.node(id).mtime = None;
        }
    }

    /// The target gets the bytes of the source.
    fn clone_range(&mut self, from: (&File, u64), to: (&File, u64), len: u64) -> Result<Reply, Errno> {
        let ((source, at), (target, to)) = (from, to);
        let same = self.file(source)? == self.file(target)?;
        let unit = self.clone_unit.ok_or(Errno::EOPNOTSUPP)?;
        let kinds = [source, target].map(|file| self.bytes(file).map(|bytes| bytes.len() as u64));
        if kinds.contains(&Err(Errno::EISDIR)) {
            return Err(Errno::EISDIR);
        }
        let sizes = (kinds[0]?, kinds[1]?);
        check_clone(unit, (at, to), len, sizes, same)?;
        if len > 0 {
            let data = self.bytes(source)?[at as usize..(at + len) as usize].to_vec();
            let bytes = self.bytes_mut(target)?;
            bytes.resize(bytes.len().max((to + len) as usize), 0);
            bytes[to as usize..(to + len) as usize].copy_from_slice(&data);
        }
        Ok(Reply::Done)
    }

    fn fallocate(&mut self, file: &File, mode: FallocateMode, offset: u64, len: u64) -> Result<Reply, Errno> {
        self.file(file)?;
        self.check_has(LeftOut::RANGES, Errno::EOPNOTSUPP)?;
        if len == 0 {
            return Err(Errno::EINVAL);
        }
        let promises = self.promises;
        let bytes = self.bytes_mut(file)?;
        promises.check_reserving(mode)?;
        let end = (offset + len) as usize;
        if !mode.contains(FallocateMode::KEEP_SIZE) {
            bytes.resize(bytes.len().max(end), 0);
        }
        if mode.intersects(FallocateMode::PUNCH_HOLE | FallocateMode::ZERO_RANGE) {
            let size = bytes.len();
            bytes[size.min(offset as usize)..size.min(end)].fill(0);
        }
        Ok(Reply::Done)
    }

    fn run_on_names(&mut self, op: &Op) -> Result<Reply, Errno> {
        match op {
            Op::Link(from, to) => {
                let id = self.find(from)?;
                self.link(id, to)?;
            }
            Op::Nameless(number) => return self.make_nameless(*number),
            Op::LinkOpened(number, to) => {
                let id = self.file(&File::Opened(*number))?;
                self.link(id, to)?;
            }
            Op::Unlink(path) => {
                let (dir, name) = self.parent(path)?;
                self.check_name(name)?;
                let id = *self.names(dir)?.get(name).ok_or(Errno::ENOENT)?;
                if self.is_dir(id) {
                    return Err(Errno::EISDIR);
                }
                self.names_mut(dir).remove(name);
                self.drop_links(id, 1);
            }
            Op::Rmdir(path) => {
                let (dir, name) = self.parent(path)?;
                self.check_name(name)?;
                let id = *self.names(dir)?.get(name).ok_or(Errno::ENOENT)?;
                if !self.names(id)?.is_empty() {
                    return Err(Errno::ENOTEMPTY);
                }
                self.names_mut(dir).remove(name);
                self.node(dir).nlink -= 1;
                self.drop_links(id, 2);
            }
            _ => unreachable!("{op:?} is not run here"),
        }
        Ok(Reply::Done)
    }

    fn is_below(&self, mut id: Id, ancestor: Id) -> bool {
        while id != ancestor && id != ROOT {
            id = match &self.nodes[&id].body {
                Body::Dir { parent, .. } => *parent,
                _ => return false,
            };
        }
        id == ancestor
    }

    fn rename(&mut self, from: &str, to: &str, flags: RenameFlags) -> Result<Reply, Errno> {
        let ((from, old), (to, new)) = (self.parent(from)?, self.parent(to)?);
        self.check_name(old).and_then(|()| self.check_name(new))?;
        if flags.intersects(RenameFlags::EXCHANGE | RenameFlags::WHITEOUT) {
            self.check_has(LeftOut::EXCHANGES, Errno::EINVAL)?;
        }
        let target = self.names(to)?.get(new).copied();
        let moved = *self.names(from)?.get(old).ok_or(Errno::ENOENT)?;
        let exchange = flags.contains(RenameFlags::EXCHANGE);
        match target {
            Some(_) if flags.contains(RenameFlags::NOREPLACE) => return Err(Errno::EEXIST),
            None if exchange => return Err(Errno::ENOENT),
            Some(target) if target == moved => return Ok(Reply::Done),
            _ if self.is_below(to, moved) => return Err(Errno::EINVAL),
            Some(target) if self.is_below(from, target) => {
                return Err(if exchange { Errno::EINVAL } else { Errno::ENOTEMPTY });
            }
            Some(target) if !exchange => self.check_replace(moved, target)?,
            _ => {}
        }
        self.names_mut(from).remove(old);
        if let (Some(target), true) = (target, exchange) {
            self.names_mut(from).insert(old.to_owned(), target);
            self.settle(target, to, from);
        } else if let Some(target) = target {
            let is_dir = self.is_dir(target);
            self.node(to).nlink -= u32::from(is_dir);
            self.drop_links(target, 1 + u32::from(is_dir));
        }
        self.names_mut(to).insert(new.to_owned(), moved);
        self.settle(moved, from, to);
        if flags.contains(RenameFlags::WHITEOUT) {
            let id = self.add_node(FileKind::CharDevice, 0, Body::Special);
            self.node(id).perm = WHITEOUT.perm;
            self.names_mut(from).insert(old.to_owned(), id);
        }
        Ok(Reply::Done)
    }

    fn check_replace(&self, moved: Id, target: Id) -> Result<(), Errno> {
        match (self.is_dir(moved), self.is_dir(target)) {
            (true, false) => Err(Errno::ENOTDIR),
            (false, true) => Err(Errno::EISDIR),
            (true, true) if !self.names(target)?.is_empty() => Err(Errno::ENOTEMPTY),
            _ => Ok(()),
        }
    }

    /// A directory has come from one parent to another.
    fn settle(&mut self, id: Id, from: Id, to: Id) {
        if let Body::Dir { parent, .. } = &mut self.node(id).body {
            *parent = to;
            self.node(from).nlink -= 1;
            self.node(to).nlink += 1;
        }
    }

    /// The regular files that have a path, by path.
    pub fn files(&self) -> BTreeMap<String, Id> {
        let mut files = BTreeMap::new();
        self.add_files(&mut files, "", ROOT);
        files
    }

    /// Contents of all regular files, also of those that are open and have no name.
    pub(crate) fn contents(&self) -> BTreeMap<Id, Arc<Vec<u8>>> {
        let content = |(id, node): (&Id, &Node)| match &node.body {
            Body::File(bytes) if node.kind == FileKind::Regular => Some((*id, Arc::clone(bytes))),
            _ => None,
        };
        self.nodes.iter().filter_map(content).collect()
    }

    fn add_files(&self, files: &mut BTreeMap<String, Id>, path: &str, id: Id) {
        if self.nodes[&id].kind == FileKind::Regular {
            files.insert(path.to_owned(), id);
        }
        for (name, child) in self.names(id).into_iter().flatten() {
            let below = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            self.add_files(files, &below, *child);
        }
    }

    /// The inode that an operation is about, before it is carried out.
    pub fn subject(&self, op: &Op) -> Option<Id> {
        match op {
            Op::Write(file, ..)
            | Op::Truncate(file, _)
            | Op::Fallocate(file, ..)
            | Op::Clone(_, (file, _), _)
            | Op::Fsync(file) => self.file(file).ok(),
            Op::Store(number, ..) | Op::Msync(number) => self.mapped.get(number).copied(),
            // To another name of the same file it does nothing.
            Op::Rename(from, to, _) => self.find(from).ok().filter(|id| self.find(to).ok() != Some(*id)),
            Op::Link(from, _) => self.find(from).ok(),
            Op::LinkOpened(number, _) => self.opened.get(number).copied(),
            _ => None,
        }
    }

    /// Follows an operation as a model of what is durable, where stores of mappings are so after a sync: `about` is the inode of
    /// one that succeeded, and `after` knows all.
    pub(crate) fn follow(&mut self, op: &Op, about: Option<Id>, after: &Self) {
        let mut sync = |id: Id| {
            if let (Some(own), Some(other)) = (self.nodes.get_mut(&id), after.nodes.get(&id)) {
                own.body = other.body.clone();
            }
        };
        match op {
            Op::Store(..) => return,
            Op::Fsync(_) | Op::Msync(_) => about.into_iter().for_each(sync),
            Op::Sync | Op::Remount => {
                after.contents().into_keys().for_each(sync);
            }
            // A clone names what is durable.
            Op::Clone((from, _), ..) => after.file(from).into_iter().for_each(&mut sync),
            _ => {}
        }
        match op {
            Op::Remount => self.close_all(),
            _ => _ = self.run(op, None),
        }
    }

    /// As programs see it.
    pub fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        self.add(&mut tree, &mut BTreeMap::new(), "", ROOT);
        tree
    }

    fn add(&self, tree: &mut Tree, first: &mut BTreeMap<Id, String>, path: &str, id: Id) {
        let node = &self.nodes[&id];
        let content = match &node.body {
            Body::File(bytes) | Body::Symlink(bytes) => Arc::clone(bytes),
            _ => Arc::default(),
        };
        let entry = Entry {
            kind: node.kind,
            perm: node.perm,
            owner: node.owner,
            rdev: node.rdev,
            nlink: node.nlink,
            same_as: first.entry(id).or_insert_with(|| path.to_owned()).clone(),
            atime: node.atime,
            mtime: node.mtime,
            xattrs: node.xattrs.clone(),
            content,
        };
        tree.insert(path.to_owned(), entry);
        for (name, child) in self.names(id).into_iter().flatten() {
            let below = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            self.add(tree, first, &below, *child);
        }
    }
}
