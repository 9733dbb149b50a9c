//! A minimal complete file system: everything in maps, behind one lock.
//!
//! The tests of `vfs` run on it, and it is the reference for what a design must answer. It reuses inode
//! numbers at once, last freed first, so that a caller that uses a stale number is detected; but one that resolves
//! paths gives each number once, as it must.
//!
//! | call | how |
//! |---|---|
//! | names | a map from name to cookie and one from cookie to entry; cookies only grow, so a cursor is a cookie |
//! | contents | pages of 4 KiB that exist or are holes |
//! | open files | a count; the last release of an inode without a name frees it |

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sim::{LockClass, Mutex, MutexGuard, Nanos, Work};
use vfs::credentials::Subject;
use vfs::{
    Attr, DirEntry, Errno, FallocateMode, FileKind, FileSystem, Ino, IoFlags, KernelWays, Names, NewInode,
    OpenFlags, Owner, Parent, Paths, RenameFlags, Renaming, Result, SeekTo, SetAttr, SetTime, StatFs,
    Timestamp, Written, XattrMode,
};

static STATE: LockClass = LockClass::new("memfs.state");

const PAGE: u64 = 4096;
const ROOT: u64 = 1;
/// Cookies of `.` and `..`; names follow.
const DOT: u64 = 0;
const DOTDOT: u64 = 1;
const FIRST_NAME: u64 = 2;
/// Entries given out under one hold of the lock.
const BATCH: usize = 64;

/// The file system.
pub(crate) struct MemFs {
    state: Mutex<State>,
    /// Calls of `lookup`: what the dentry cache is there to save.
    pub lookups: AtomicU64,
    /// What `unlink` takes, and what freeing an inode at its last release takes, in nanoseconds.
    pub takes_ns: [AtomicU64; 2],
    /// Calls of `unlink` that have begun.
    pub unlinks: AtomicU64,
    /// What a kernel's objects above it do.
    pub ways: KernelWays,
    /// It resolves paths itself.
    resolves: bool,
}

struct State {
    /// By number; number 0 is none.
    inodes: Vec<Option<Inode>>,
    /// Numbers to be given again; none where each is given once.
    free: Option<Vec<u64>>,
    generation: u32,
}

struct Inode {
    attr: Attr,
    body: Body,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    opens: u32,
}

type Pages = BTreeMap<u64, Box<[u8; PAGE as usize]>>;

enum Body {
    File(Pages),
    Dir(Dir),
    Symlink(Vec<u8>),
    Node,
}

#[derive(Default)]
struct Dir {
    parent: u64,
    next_cookie: u64,
    cookies: BTreeMap<Vec<u8>, u64>,
    entries: BTreeMap<u64, (Vec<u8>, u64)>,
}

impl Dir {
    fn get(&self, name: &[u8]) -> Option<u64> {
        self.cookies.get(name).map(|cookie| self.entries[cookie].1)
    }

    fn add(&mut self, name: &[u8], ino: u64) {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        assert!(self.cookies.insert(name.to_vec(), cookie).is_none(), "the caller saw that the name is free");
        self.entries.insert(cookie, (name.to_vec(), ino));
    }

    fn remove(&mut self, name: &[u8]) {
        let cookie = self.cookies.remove(name).expect("the caller saw the name");
        self.entries.remove(&cookie);
    }

    fn replace(&mut self, name: &[u8], ino: u64) {
        self.entries.get_mut(&self.cookies[name]).expect("names and entries agree").1 = ino;
    }
}

impl State {
    fn inode(&mut self, ino: Ino) -> Result<&mut Inode> {
        self.inodes.get_mut(ino.0 as usize).and_then(Option::as_mut).ok_or(Errno::ENOENT)
    }

    fn dir(&mut self, ino: Ino) -> Result<&mut Dir> {
        match &mut self.inode(ino)?.body {
            Body::Dir(dir) => Ok(dir),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// A directory that has a name (or is the root); names cannot be added to others.
    fn live_dir(&mut self, ino: Ino) -> Result<&mut Dir> {
        self.dir(ino)?;
        if self.inode(ino)?.attr.nlink == 0 { Err(Errno::ENOENT) } else { self.dir(ino) }
    }

    fn child(&mut self, parent: Ino, name: &[u8]) -> Result<Ino> {
        self.live_dir(parent)?.get(name).map(Ino).ok_or(Errno::ENOENT)
    }

    fn kind(&mut self, ino: Ino) -> Result<FileKind> {
        Ok(self.inode(ino)?.attr.kind)
    }

    fn file(&mut self, ino: Ino) -> Result<(&mut Attr, &mut Pages)> {
        let inode = self.inode(ino)?;
        match &mut inode.body {
            Body::File(pages) => Ok((&mut inode.attr, pages)),
            Body::Dir(_) => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    fn allocate(&mut self, kind: FileKind, body: Body, rdev: u64, new: &NewInode) -> Ino {
        let freed = self.free.as_mut().and_then(Vec::pop);
        let ino = freed.unwrap_or(self.inodes.len() as u64);
        if ino == self.inodes.len() as u64 {
            self.inodes.push(None);
        }
        self.generation += 1;
        let now = Timestamp::now();
        let attr = Attr {
            ino: Ino(ino),
            kind,
            perm: new.perm,
            nlink: if kind == FileKind::Directory { 2 } else { 1 },
            owner: new.owner,
            rdev,
            size: if let Body::Symlink(target) = &body { target.len() as u64 } else { 0 },
            blocks: 0,
            blksize: PAGE as u32,
            atime: now,
            mtime: now,
            ctime: now,
            generation: self.generation,
        };
        self.inodes[ino as usize] = Some(Inode { attr, body, xattrs: BTreeMap::new(), opens: 0 });
        Ino(ino)
    }

    fn make(
        &mut self,
        parent: Ino,
        name: &[u8],
        kind: FileKind,
        body: Body,
        rdev: u64,
        new: &NewInode,
    ) -> Result<Attr> {
        if self.live_dir(parent)?.get(name).is_some() {
            return Err(Errno::EEXIST);
        }
        let ino = self.allocate(kind, body, rdev, new);
        self.dir(parent)?.add(name, ino.0);
        if kind == FileKind::Directory {
            self.inode(parent)?.attr.nlink += 1;
        }
        self.changed(parent)?;
        Ok(self.inode(ino)?.attr)
    }

    fn changed(&mut self, ino: Ino) -> Result<()> {
        let attr = &mut self.inode(ino)?.attr;
        attr.mtime = Timestamp::now();
        attr.ctime = attr.mtime;
        Ok(())
    }

    /// One name of `ino` less; a directory loses all links.
    fn unname(&mut self, ino: Ino) -> Result<()> {
        let inode = self.inode(ino)?;
        inode.attr.ctime = Timestamp::now();
        inode.attr.nlink = if inode.attr.kind == FileKind::Directory { 0 } else { inode.attr.nlink - 1 };
        self.free_if_unused(ino);
        Ok(())
    }

    fn free_if_unused(&mut self, ino: Ino) {
        if self.inode(ino).is_ok_and(|inode| inode.attr.nlink == 0 && inode.opens == 0) {
            self.inodes[ino.0 as usize] = None;
            self.free.as_mut().into_iter().for_each(|free| free.push(ino.0));
        }
    }

    fn is_above(&mut self, above: Ino, mut below: Ino) -> bool {
        while below != above && below.0 != ROOT {
            below = Ino(self.dir(below).expect("a directory's parent is one").parent);
        }
        below == above
    }
}

impl MemFs {
    /// An empty file system, whose root belongs to `owner`.
    pub(crate) fn owned_by(owner: Owner) -> Self {
        let mut state = State { inodes: vec![None], free: Some(Vec::new()), generation: 0 };
        let dir = Dir { parent: ROOT, next_cookie: FIRST_NAME, ..Dir::default() };
        let root = state.allocate(FileKind::Directory, Body::Dir(dir), 0, &NewInode { perm: 0o755, owner });
        assert_eq!(root, Ino(ROOT));
        Self {
            state: Mutex::new(&STATE, state),
            lookups: AtomicU64::new(0),
            takes_ns: Default::default(),
            unlinks: AtomicU64::new(0),
            ways: KernelWays::default(),
            resolves: false,
        }
    }

    /// An empty file system of root's.
    pub(crate) fn new() -> Self {
        Self::owned_by(Owner::default())
    }

    /// The same file system, which resolves paths itself, or does not.
    pub(crate) fn resolving(self, resolves: bool) -> Self {
        self.state().free = (!resolves).then(Vec::new);
        Self { resolves, ..self }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        sim::work(Work::STEP, 1);
        self.state.lock()
    }

    /// Inodes that exist.
    pub(crate) fn inodes(&self) -> usize {
        self.state().inodes.iter().flatten().count()
    }

    /// Sum of the open counts.
    pub(crate) fn opens(&self) -> u32 {
        self.state().inodes.iter().flatten().map(|inode| inode.opens).sum()
    }
}

fn apply(attr: &mut Attr, set: &SetAttr) {
    let now = Timestamp::now();
    let value = |time| if let SetTime::To(time) = time { time } else { now };
    attr.perm = set.perm.unwrap_or(attr.perm);
    attr.owner.uid = set.uid.unwrap_or(attr.owner.uid);
    attr.owner.gid = set.gid.unwrap_or(attr.owner.gid);
    attr.atime = set.atime.map_or(attr.atime, value);
    attr.mtime = set.mtime.map_or(attr.mtime, value);
    attr.ctime = now;
}

/// Frees what lies in `start..end`; the edges are zeroed in place.
fn punch(pages: &mut Pages, start: u64, end: u64) {
    let touched: Vec<u64> = pages.range(start / PAGE..end.div_ceil(PAGE)).map(|(page, _)| *page).collect();
    for page in touched {
        let (from, to) = (start.max(page * PAGE) - page * PAGE, end.min((page + 1) * PAGE) - page * PAGE);
        if to - from == PAGE {
            pages.remove(&page);
        } else if let Some(bytes) = pages.get_mut(&page) {
            bytes[from as usize..to as usize].fill(0);
        }
    }
}

fn subject(attr: &Attr) -> Subject {
    Subject { kind: attr.kind, perm: attr.perm, owner: attr.owner }
}

impl Paths for MemFs {
    fn stat(&self, from: Ino, names: Names<'_>, searches: &dyn Fn(&Subject) -> bool) -> Option<Attr> {
        let mut state = self.state();
        let mut at = state.inode(from).ok()?.attr;
        for name in names {
            if !searches(&subject(&at)) {
                return None;
            }
            let ino = state.child(at.ino, name).ok()?;
            at = state.inode(ino).ok()?.attr;
        }
        Some(at)
    }

    fn parent(&self, from: Ino, names: Names<'_>, searches: &dyn Fn(&Subject) -> bool) -> Option<Parent> {
        let dir = self.stat(from, names, searches)?;
        let subject = subject(&dir);
        (dir.kind == FileKind::Directory && searches(&subject)).then_some(Parent { ino: dir.ino, subject })
    }
}

impl FileSystem for MemFs {
    fn paths(&self) -> Option<&dyn Paths> {
        self.resolves.then_some(self)
    }

    fn kernel_ways(&self) -> KernelWays {
        self.ways
    }

    fn root(&self) -> Ino {
        Ino(ROOT)
    }

    fn statfs(&self) -> Result<StatFs> {
        let files = self.inodes() as u64;
        Ok(StatFs {
            frsize: PAGE as u32,
            blocks: 1 << 20,
            blocks_free: 1 << 20,
            files: files + (1 << 20),
            files_free: 1 << 20,
            name_max: 255,
        })
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn unmount(&self) -> Result<()> {
        Ok(())
    }

    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.lookups.fetch_add(1, Relaxed);
        let mut state = self.state();
        let ino = state.child(parent, name)?;
        Ok(state.inode(ino)?.attr)
    }

    fn create(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.mknod(parent, name, FileKind::Regular, 0, new)
    }

    fn mkdir(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        let dir = Dir { parent: parent.0, next_cookie: FIRST_NAME, ..Dir::default() };
        self.state().make(parent, name, FileKind::Directory, Body::Dir(dir), 0, new)
    }

    fn mknod(&self, parent: Ino, name: &[u8], kind: FileKind, rdev: u64, new: &NewInode) -> Result<Attr> {
        let body = if kind == FileKind::Regular { Body::File(BTreeMap::new()) } else { Body::Node };
        self.state().make(parent, name, kind, body, rdev, new)
    }

    fn symlink(&self, parent: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Attr> {
        self.state().make(parent, name, FileKind::Symlink, Body::Symlink(target.to_vec()), 0, new)
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        match &self.state().inode(ino)?.body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(Errno::EINVAL),
        }
    }

    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        let mut state = self.state();
        match state.inode(ino)?.attr {
            Attr { kind: FileKind::Directory, .. } => return Err(Errno::EPERM),
            Attr { nlink: 0, .. } => return Err(Errno::ENOENT),
            _ => {}
        }
        if state.live_dir(parent)?.get(name).is_some() {
            return Err(Errno::EEXIST);
        }
        state.dir(parent)?.add(name, ino.0);
        state.changed(parent)?;
        let attr = &mut state.inode(ino)?.attr;
        attr.nlink += 1;
        attr.ctime = Timestamp::now();
        Ok(*attr)
    }

    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.unlinks.fetch_add(1, Relaxed);
        sim::medium(Nanos(self.takes_ns[0].load(Relaxed)));
        let mut state = self.state();
        let ino = state.child(parent, name)?;
        if state.kind(ino)? == FileKind::Directory {
            return Err(Errno::EISDIR);
        }
        state.dir(parent)?.remove(name);
        state.changed(parent)?;
        state.unname(ino)
    }

    fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        let mut state = self.state();
        let ino = state.child(parent, name)?;
        if !state.dir(ino)?.cookies.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        state.dir(parent)?.remove(name);
        state.inode(parent)?.attr.nlink -= 1;
        state.changed(parent)?;
        state.unname(ino)
    }

    fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), how: Renaming<'_>) -> Result<()> {
        if how.whiteout.is_some() {
            return Err(Errno::EINVAL);
        }
        let mut state = self.state();
        let moved = state.child(from.0, from.1)?;
        let replaced = state.live_dir(to.0)?.get(to.1).map(Ino);
        let moved_dir = state.kind(moved)? == FileKind::Directory;
        if moved_dir && state.is_above(moved, to.0) {
            return Err(Errno::EINVAL);
        }
        if how.flags.contains(RenameFlags::EXCHANGE) {
            return exchange(&mut state, (from, moved), (to, replaced.ok_or(Errno::ENOENT)?));
        }
        if let Some(replaced) = replaced {
            if how.flags.contains(RenameFlags::NOREPLACE) {
                return Err(Errno::EEXIST);
            }
            if replaced == moved {
                return Ok(());
            }
            check_replacement(&mut state, moved_dir, replaced)?;
        }
        state.dir(from.0)?.remove(from.1);
        match replaced {
            Some(_) => state.dir(to.0)?.replace(to.1, moved.0),
            None => state.dir(to.0)?.add(to.1, moved.0),
        }
        if moved_dir {
            state.dir(moved)?.parent = to.0.0;
            state.inode(from.0)?.attr.nlink -= 1;
            state.inode(to.0)?.attr.nlink += u32::from(replaced.is_none());
        }
        state.changed(from.0)?;
        state.changed(to.0)?;
        state.inode(moved)?.attr.ctime = Timestamp::now();
        replaced.map_or(Ok(()), |replaced| state.unname(replaced))
    }

    fn readdir(&self, ino: Ino, cursor: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let mut cursor = cursor;
        loop {
            let batch = entries_from(&mut self.state(), ino, cursor)?;
            let Some(last) = batch.last() else { return Ok(()) };
            cursor = last.0 + 1;
            for (cookie, name, ino, kind) in &batch {
                if !sink(DirEntry { ino: *ino, kind: Some(*kind), name, next: cookie + 1 }) {
                    return Ok(());
                }
            }
        }
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        let mut state = self.state();
        let inode = state.inode(ino)?;
        let pages = if let Body::File(pages) = &inode.body { pages.len() as u64 } else { 0 };
        Ok(Attr { blocks: pages * (PAGE / 512), ..inode.attr })
    }

    fn setattr(&self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let mut state = self.state();
        if let Some(size) = set.size {
            let (attr, pages) = state.file(ino)?;
            punch(pages, size, attr.size.max(size).next_multiple_of(PAGE));
            attr.size = size;
            attr.mtime = Timestamp::now();
        }
        let attr = &mut state.inode(ino)?.attr;
        apply(attr, set);
        Ok(*attr)
    }

    fn accessed(&self, ino: Ino) -> Result<()> {
        self.state().inode(ino)?.attr.atime = Timestamp::now();
        Ok(())
    }

    fn open(&self, ino: Ino, _flags: OpenFlags) -> Result<()> {
        self.state().inode(ino)?.opens += 1;
        Ok(())
    }

    fn release(&self, ino: Ino) {
        let mut state = self.state();
        state.inode(ino).expect("an open inode exists").opens -= 1;
        state.free_if_unused(ino);
        let freed = state.inode(ino).is_err();
        drop(state);
        if freed {
            sim::medium(Nanos(self.takes_ns[1].load(Relaxed)));
        }
    }

    fn tmpfile(&self, new: &NewInode) -> Result<Attr> {
        let mut state = self.state();
        let ino = state.allocate(FileKind::Regular, Body::File(BTreeMap::new()), 0, new);
        let inode = state.inode(ino)?;
        inode.opens = 1;
        inode.attr.nlink = 0;
        Ok(inode.attr)
    }

    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8], _flags: IoFlags) -> Result<usize> {
        let mut state = self.state();
        let (attr, pages) = state.file(ino)?;
        let len = buffer.len().min(attr.size.saturating_sub(offset) as usize);
        let (mut at, mut rest) = (offset, &mut buffer[..len]);
        while !rest.is_empty() {
            let start = (at % PAGE) as usize;
            let (piece, tail) = rest.split_at_mut(rest.len().min(PAGE as usize - start));
            match pages.get(&(at / PAGE)) {
                Some(page) => piece.copy_from_slice(&page[start..start + piece.len()]),
                None => piece.fill(0),
            }
            at += piece.len() as u64;
            rest = tail;
        }
        sim::copy(len as u64);
        Ok(len)
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], flags: IoFlags) -> Result<Written> {
        let mut state = self.state();
        let (attr, pages) = state.file(ino)?;
        let offset = if flags.contains(IoFlags::APPEND) { attr.size } else { offset };
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            let start = (at % PAGE) as usize;
            let (piece, tail) = rest.split_at(rest.len().min(PAGE as usize - start));
            let page = pages.entry(at / PAGE).or_insert_with(|| Box::new([0; PAGE as usize]));
            page[start..start + piece.len()].copy_from_slice(piece);
            at += piece.len() as u64;
            rest = tail;
        }
        attr.size = attr.size.max(at);
        attr.mtime = Timestamp::now();
        attr.ctime = attr.mtime;
        sim::copy(data.len() as u64);
        Ok(Written { offset, bytes: data.len() })
    }

    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64) -> Result<()> {
        let mut state = self.state();
        let (attr, pages) = state.file(ino)?;
        let end = offset + len;
        if mode.intersects(FallocateMode::PUNCH_HOLE | FallocateMode::ZERO_RANGE) {
            punch(pages, offset, end);
        }
        if !mode.contains(FallocateMode::PUNCH_HOLE) {
            for page in offset / PAGE..end.div_ceil(PAGE) {
                pages.entry(page).or_insert_with(|| Box::new([0; PAGE as usize]));
            }
            if !mode.contains(FallocateMode::KEEP_SIZE) {
                attr.size = attr.size.max(end);
            }
        }
        attr.mtime = Timestamp::now();
        attr.ctime = attr.mtime;
        Ok(())
    }

    fn seek(&self, ino: Ino, offset: u64, to: SeekTo) -> Result<u64> {
        let mut state = self.state();
        let (attr, pages) = state.file(ino)?;
        if offset >= attr.size {
            return Err(Errno::ENXIO);
        }
        let is_data = |page: &u64| pages.contains_key(page);
        let mut candidates = offset / PAGE..attr.size.div_ceil(PAGE);
        let found = match to {
            SeekTo::Data => candidates.find(is_data).ok_or(Errno::ENXIO)?,
            SeekTo::Hole => candidates.find(|page| !is_data(page)).unwrap_or(attr.size.div_ceil(PAGE)),
        };
        Ok((found * PAGE).max(offset).min(attr.size))
    }

    fn fsync(&self, ino: Ino, _data_only: bool) -> Result<()> {
        self.state().inode(ino).map(drop)
    }

    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.state().inode(ino)?.xattrs.get(name).cloned().ok_or(Errno::ENODATA)
    }

    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let mut state = self.state();
        let inode = state.inode(ino)?;
        match (mode, inode.xattrs.contains_key(name)) {
            (XattrMode::Create, true) => return Err(Errno::EEXIST),
            (XattrMode::Replace, false) => return Err(Errno::ENODATA),
            _ => inode.xattrs.insert(name.to_vec(), value.to_vec()),
        };
        inode.attr.ctime = Timestamp::now();
        Ok(())
    }

    fn listxattr(&self, ino: Ino) -> Result<Vec<u8>> {
        let mut state = self.state();
        let names = state.inode(ino)?.xattrs.keys();
        Ok(names.flat_map(|name| name.iter().copied().chain([0])).collect())
    }

    fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        let mut state = self.state();
        let inode = state.inode(ino)?;
        inode.xattrs.remove(name).map(drop).ok_or(Errno::ENODATA)
    }
}

/// Whether the inode may take the place of `replaced`.
fn check_replacement(state: &mut State, moved_dir: bool, replaced: Ino) -> Result<()> {
    match (moved_dir, &state.inode(replaced)?.body) {
        (true, Body::Dir(dir)) if dir.cookies.is_empty() => Ok(()),
        (true, Body::Dir(_)) => Err(Errno::ENOTEMPTY),
        (true, _) => Err(Errno::ENOTDIR),
        (false, Body::Dir(_)) => Err(Errno::EISDIR),
        (false, _) => Ok(()),
    }
}

fn exchange(state: &mut State, a: ((Ino, &[u8]), Ino), b: ((Ino, &[u8]), Ino)) -> Result<()> {
    let (((a_dir, a_name), a_ino), ((b_dir, b_name), b_ino)) = (a, b);
    if state.kind(b_ino)? == FileKind::Directory && state.is_above(b_ino, a_dir) {
        return Err(Errno::EINVAL);
    }
    state.dir(a_dir)?.replace(a_name, b_ino.0);
    state.dir(b_dir)?.replace(b_name, a_ino.0);
    for (ino, from, to) in [(a_ino, a_dir, b_dir), (b_ino, b_dir, a_dir)] {
        if let Ok(dir) = state.dir(ino) {
            dir.parent = to.0;
            state.inode(from)?.attr.nlink -= 1;
            state.inode(to)?.attr.nlink += 1;
        }
        state.inode(ino)?.attr.ctime = Timestamp::now();
    }
    state.changed(a_dir)?;
    state.changed(b_dir)
}

/// Cookie, name, inode and kind of a name.
type Entry = (u64, Vec<u8>, Ino, FileKind);

fn entries_from(state: &mut State, ino: Ino, cursor: u64) -> Result<Vec<Entry>> {
    let dir = state.live_dir(ino)?;
    let dots = [(DOT, b".".to_vec(), ino.0), (DOTDOT, b"..".to_vec(), dir.parent)];
    let names = dir.entries.range(cursor..).map(|(cookie, (name, ino))| (*cookie, name.clone(), *ino));
    let all = dots.into_iter().filter(|(cookie, ..)| *cookie >= cursor).chain(names);
    let batch: Vec<_> = all.take(BATCH).collect();
    batch.into_iter().map(|(cookie, name, ino)| Ok((cookie, name, Ino(ino), state.kind(Ino(ino))?))).collect()
}
