//! All inodes in memory, and changes of them. A change is made as a whole or not at all, and says what its steps need to know.

use std::collections::BTreeMap;

use ::vfs::{
    Attr, FileKind, Ino, NewInode, Owner, RenameFlags, Renaming, SetAttr, SetTime, Timestamp, rename,
};
use rustc_hash::FxHashMap;
use sim::ByteRun;

use super::component::Memory;
use super::dir::Dir;
use super::file::{File, PAGE};
use super::objects::At;
use super::places::{Place, Places};
use base::error::{Error, Result};

pub(super) const ROOT: u64 = 1;
/// Links of an inode, at most.
const LINKS_MAX: u32 = 65_000;
/// Directories above this depth are spread over the device: the root of a run of FxMark stands for the root of its mount.
const SPREAD_DEPTH: u32 = 2;

/// An inode.
#[derive(Debug)]
pub(super) struct Inode {
    pub(super) kind: FileKind,
    perm: u32,
    owner: Owner,
    rdev: u64,
    pub(super) links: u32,
    times: [Timestamp; 3],
    pub(super) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) body: Body,
    pub(super) opens: u32,
    /// It was made without a name, and may get one while it is open.
    nameless: bool,
    depth: u32,
    place: Place,
    remembered: Memory,
}

const ACCESS: usize = 0;
const MODIFIED: usize = 1;
const CHANGED: usize = 2;

/// What an inode holds.
#[derive(Debug)]
pub(super) enum Body {
    File(File),
    Dir(Dir),
    Symlink(Vec<u8>),
    Node,
}

/// An inode that was freed: what its eviction is about, and the numbers of its pages.
pub(super) struct Gone {
    pub(super) at: At,
    pub(super) pages: Vec<u64>,
}

/// The state of a mount.
#[derive(Debug)]
pub(super) struct State {
    pub(super) inodes: FxHashMap<u64, Inode>,
    next: u64,
    next_page: u64,
    pub(super) pages: u64,
    pub(super) limit: u64,
    places: Places,
}

impl State {
    /// A root directory and nothing else, with room for so many pages.
    pub(super) fn new(limit: u64) -> Self {
        let mut state = Self {
            inodes: FxHashMap::default(),
            next: ROOT,
            next_page: 0,
            pages: 0,
            limit,
            places: Places::default(),
        };
        let new = NewInode { perm: 0o755, owner: Owner { uid: 0, gid: 0 } };
        state.make(ROOT, FileKind::Directory, 0, &new);
        state
    }

    pub(super) fn inode(&self, ino: u64) -> Result<&Inode> {
        self.inodes.get(&ino).ok_or(Error::NoEntry)
    }

    pub(super) fn inode_mut(&mut self, ino: u64) -> Result<&mut Inode> {
        self.inodes.get_mut(&ino).ok_or(Error::NoEntry)
    }

    /// A directory that has a name, or is the root.
    pub(super) fn dir(&self, ino: u64) -> Result<&Dir> {
        let inode = self.inode(ino)?;
        match &inode.body {
            Body::Dir(_) if inode.links == 0 => Err(Error::NoEntry),
            Body::Dir(dir) => Ok(dir),
            _ => Err(Error::NotDirectory),
        }
    }

    fn dir_mut(&mut self, ino: u64) -> Result<&mut Dir> {
        match &mut self.inode_mut(ino)?.body {
            Body::Dir(dir) => Ok(dir),
            _ => Err(Error::NotDirectory),
        }
    }

    /// The inode of a name.
    pub(super) fn child(&self, parent: u64, name: &[u8]) -> Result<u64> {
        self.dir(parent)?.get(name).ok_or(Error::NoEntry)
    }

    /// What steps about an inode need to know; `dir` is the directory whose names are read or changed.
    pub(super) fn at(&self, ino: u64, dir: u64) -> At {
        let inode = self.inodes.get(&ino);
        let place = inode.map_or_else(Place::default, |inode| inode.place);
        let remembered = inode.map_or_else(Memory::default, |inode| Memory::clone(&inode.remembered));
        At { ino, dir, place, remembered, ..At::default() }
    }

    pub(super) fn attr(&self, ino: u64) -> Result<Attr> {
        let inode = self.inode(ino)?;
        let (size, pages) = match &inode.body {
            Body::File(file) => (file.size, file.pages.len() as u64),
            Body::Symlink(target) => (target.len() as u64, 0),
            Body::Dir(dir) => (dir.len() as u64, 0),
            Body::Node => (0, 0),
        };
        Ok(Attr {
            ino: Ino(ino),
            kind: inode.kind,
            perm: inode.perm,
            nlink: inode.links,
            owner: inode.owner,
            rdev: inode.rdev,
            size,
            blocks: pages * (PAGE / 512),
            blksize: PAGE as u32,
            atime: inode.times[ACCESS],
            mtime: inode.times[MODIFIED],
            ctime: inode.times[CHANGED],
            // Numbers are given once.
            generation: 0,
        })
    }

    fn make(&mut self, parent: u64, kind: FileKind, rdev: u64, new: &NewInode) -> u64 {
        let ino = self.next;
        self.next += 1;
        let is_dir = kind == FileKind::Directory;
        let (links, body) = match kind {
            FileKind::Directory => (2, Body::Dir(Dir::new(parent))),
            FileKind::Regular => (1, Body::File(File::default())),
            _ => (1, Body::Node),
        };
        let (above, depth) =
            self.inodes.get(&parent).map_or((Place::default(), 0), |dir| (dir.place, dir.depth + 1));
        let place = self.places.choose(above, is_dir, depth <= SPREAD_DEPTH);
        let inode = Inode {
            kind,
            perm: new.perm & 0o7777,
            owner: new.owner,
            rdev,
            links,
            times: [Timestamp::now(); 3],
            xattrs: BTreeMap::new(),
            body,
            opens: 0,
            nameless: false,
            depth,
            place,
            remembered: Memory::default(),
        };
        self.inodes.insert(ino, inode);
        ino
    }

    /// A new inode with a name.
    pub(super) fn create(
        &mut self,
        (parent, name): (u64, &[u8]),
        (kind, rdev, target): (FileKind, u64, &[u8]),
        new: &NewInode,
    ) -> Result<u64> {
        if self.dir(parent)?.get(name).is_some() {
            return Err(Error::Exists);
        }
        let is_dir = kind == FileKind::Directory;
        if is_dir && self.inode(parent)?.links >= LINKS_MAX {
            return Err(Error::TooManyLinks);
        }
        let ino = self.make(parent, kind, rdev, new);
        if kind == FileKind::Symlink {
            self.inode_mut(ino)?.body = Body::Symlink(target.to_vec());
        }
        self.dir_mut(parent)?.set(name, ino);
        self.names_changed(parent, i32::from(is_dir))?;
        Ok(ino)
    }

    /// A new file without a name, which is open once.
    pub(super) fn tmpfile(&mut self, new: &NewInode) -> Result<u64> {
        let ino = self.make(ROOT, FileKind::Regular, 0, new);
        let inode = self.inode_mut(ino)?;
        (inode.links, inode.opens, inode.nameless) = (0, 1, true);
        Ok(ino)
    }

    pub(super) fn link(&mut self, ino: u64, parent: u64, name: &[u8]) -> Result<()> {
        if self.dir(parent)?.get(name).is_some() {
            return Err(Error::Exists);
        }
        let inode = self.inode_mut(ino)?;
        match inode.links {
            _ if inode.kind == FileKind::Directory => return Err(Error::NotPermitted),
            0 if !inode.nameless => return Err(Error::NoEntry),
            LINKS_MAX.. => return Err(Error::TooManyLinks),
            _ => {}
        }
        inode.links += 1;
        inode.nameless = false;
        inode.times[CHANGED] = Timestamp::now();
        self.dir_mut(parent)?.set(name, ino);
        self.names_changed(parent, 0)
    }

    /// Removes a name, of an empty directory or of anything else; what it led to, and what was freed of it.
    pub(super) fn remove(
        &mut self,
        parent: u64,
        name: &[u8],
        directory: bool,
    ) -> Result<(u64, Option<Gone>)> {
        let ino = self.child(parent, name)?;
        let inode = self.inode(ino)?;
        match (&inode.body, directory) {
            (Body::Dir(dir), true) if !dir.is_empty() => return Err(Error::NotEmpty),
            (Body::Dir(_), true) => {}
            (Body::Dir(_), false) => return Err(Error::IsDirectory),
            (_, true) => return Err(Error::NotDirectory),
            (_, false) => {}
        }
        self.dir_mut(parent)?.remove(name)?;
        self.names_changed(parent, -i32::from(directory))?;
        Ok((ino, self.unname(ino)?))
    }

    /// Renames; false: there was nothing to do. What was replaced may be freed.
    pub(super) fn rename(
        &mut self,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        how: &Renaming<'_>,
    ) -> Result<(bool, Option<Gone>)> {
        let replaced = self.dir(to.0)?.get(to.1);
        let moved = self.child(from.0, from.1)?;
        let differs = rename::check_target(how.flags, moved, replaced)?;
        rename::check_subtrees(how.flags, (from.0, to.0), (moved, replaced), |dir, above| {
            self.is_below(dir, above)
        })?;
        if !differs {
            return Ok((false, None));
        }
        if how.flags.contains(RenameFlags::EXCHANGE) {
            self.exchange(from, to)?;
            return Ok((true, None));
        }
        let moves_dir = self.inode(moved)?.kind == FileKind::Directory;
        match replaced.map(|replaced| self.inode(replaced)).transpose()? {
            Some(other) => {
                rename::check_kinds(how.flags, moves_dir, other.kind == FileKind::Directory)?;
                if matches!(&other.body, Body::Dir(dir) if !dir.is_empty()) {
                    return Err(Error::NotEmpty);
                }
            }
            None if moves_dir && from.0 != to.0 && self.inode(to.0)?.links >= LINKS_MAX => {
                return Err(Error::TooManyLinks);
            }
            None => {}
        }
        self.dir_mut(from.0)?.remove(from.1)?;
        self.dir_mut(to.0)?.set(to.1, moved);
        if moves_dir {
            self.dir_mut(moved)?.parent = to.0;
        }
        self.names_changed(from.0, -i32::from(moves_dir))?;
        self.names_changed(to.0, i32::from(moves_dir && replaced.is_none()))?;
        self.inode_mut(moved)?.times[CHANGED] = Timestamp::now();
        if let Some(whiteout) = how.whiteout {
            let ino = self.make(from.0, FileKind::CharDevice, 0, whiteout);
            self.dir_mut(from.0)?.set(from.1, ino);
        }
        let gone = replaced.map(|ino| self.unname(ino)).transpose()?.flatten();
        Ok((true, gone))
    }

    fn exchange(&mut self, a: (u64, &[u8]), b: (u64, &[u8])) -> Result<()> {
        let (first, second) = (self.child(a.0, a.1)?, self.child(b.0, b.1)?);
        self.dir_mut(a.0)?.set(a.1, second);
        self.dir_mut(b.0)?.set(b.1, first);
        for (ino, from, to) in [(first, a.0, b.0), (second, b.0, a.0)] {
            let is_dir = self.inode(ino)?.kind == FileKind::Directory;
            if is_dir {
                self.dir_mut(ino)?.parent = to;
            }
            self.names_changed(from, -i32::from(is_dir))?;
            self.names_changed(to, i32::from(is_dir))?;
            self.inode_mut(ino)?.times[CHANGED] = Timestamp::now();
        }
        Ok(())
    }

    fn is_below(&self, dir: u64, above: u64) -> Result<bool> {
        let below = rename::is_below(dir, above, self.inodes.len() as u64, |dir| {
            Ok::<_, Error>(self.dir(dir)?.parent)
        })?;
        below.ok_or_else(|| Error::Corrupt(format!("directory {dir} is below itself")))
    }

    /// Notes that the names of a directory have changed, and its links by `links`.
    fn names_changed(&mut self, dir: u64, links: i32) -> Result<()> {
        let inode = self.inode_mut(dir)?;
        inode.links = inode.links.saturating_add_signed(links);
        inode.modified();
        Ok(())
    }

    /// Takes one name from an inode, a directory's last one with its own `.`; frees it when it is not open.
    fn unname(&mut self, ino: u64) -> Result<Option<Gone>> {
        let inode = self.inode_mut(ino)?;
        inode.links = if inode.kind == FileKind::Directory { 0 } else { inode.links.saturating_sub(1) };
        inode.times[CHANGED] = Timestamp::now();
        Ok(self.free_unused(ino))
    }

    /// Frees an inode that has no name and is not open.
    pub(super) fn free_unused(&mut self, ino: u64) -> Option<Gone> {
        let inode = self.inodes.get(&ino).filter(|inode| inode.links == 0 && inode.opens == 0)?;
        let pages: Vec<u64> = match &inode.body {
            Body::File(file) => file.pages.values().map(|page| page.shared.id).collect(),
            _ => Vec::new(),
        };
        let at = At { freed_pages: pages.len() as u64, ..self.at(ino, ino) };
        self.pages -= pages.len() as u64;
        self.inodes.remove(&ino);
        Some(Gone { at, pages })
    }

    /// Writes; says where, and what its steps need to know.
    pub(super) fn write(&mut self, ino: u64, offset: Option<u64>, data: &[u8]) -> Result<(u64, At)> {
        let room = self.limit.saturating_sub(self.pages);
        let mut at = self.at(ino, ino);
        let mut next = self.next_page;
        let file = self.file_mut(ino)?;
        let offset = offset.unwrap_or(file.size);
        if offset.checked_add(data.len() as u64).is_none_or(|end| end > super::file::FILE_MAX) {
            return Err(Error::TooLarge);
        }
        if data.is_empty() {
            return Ok((offset, at));
        }
        at.new_pages = file.missing(offset, data.len() as u64);
        if at.new_pages > room {
            return Err(Error::NoSpace);
        }
        at.used = file.write(offset, data, &mut next);
        at.writes = true;
        self.inode_mut(ino)?.modified();
        (self.next_page, self.pages) = (next, self.pages + at.new_pages);
        Ok((offset, at))
    }

    /// Gives the holes of a range pages, after making it read as zeros if `zero`.
    pub(super) fn allocate(
        &mut self,
        ino: u64,
        ByteRun { at: offset, len }: ByteRun,
        size: u64,
        zero: bool,
    ) -> Result<At> {
        let room = self.limit.saturating_sub(self.pages);
        let (mut at, mut next) = (self.at(ino, ino), self.next_page);
        let file = self.file_mut(ino)?;
        at.new_pages = file.missing(offset, len);
        if at.new_pages > room {
            return Err(Error::NoSpace);
        }
        if zero {
            let gone = file.punch(offset, offset + len);
            at.freed_pages = gone.len() as u64;
            at.new_pages += at.freed_pages;
        }
        file.allocate(offset, len, &mut next);
        file.size = file.size.max(size);
        self.inode_mut(ino)?.modified();
        self.next_page = next;
        self.pages = self.pages + at.new_pages - at.freed_pages;
        Ok(at)
    }

    /// Makes a range read as zeros, or sets the size; what went is given to `objects` by the caller.
    pub(super) fn cut(&mut self, ino: u64, cut: impl FnOnce(&mut File) -> Vec<u64>) -> Result<Gone> {
        let mut at = self.at(ino, ino);
        let pages = cut(self.file_mut(ino)?);
        at.freed_pages = pages.len() as u64;
        self.pages -= at.freed_pages;
        self.inode_mut(ino)?.modified();
        Ok(Gone { at, pages })
    }

    pub(super) fn file(&self, ino: u64) -> Result<&File> {
        match &self.inode(ino)?.body {
            Body::File(file) => Ok(file),
            Body::Dir(_) => Err(Error::IsDirectory),
            _ => Err(Error::Invalid("not a regular file")),
        }
    }

    pub(super) fn file_mut(&mut self, ino: u64) -> Result<&mut File> {
        match &mut self.inode_mut(ino)?.body {
            Body::File(file) => Ok(file),
            Body::Dir(_) => Err(Error::IsDirectory),
            _ => Err(Error::Invalid("not a regular file")),
        }
    }
}

impl Inode {
    fn modified(&mut self) {
        let now = Timestamp::now();
        (self.times[MODIFIED], self.times[CHANGED]) = (now, now);
    }

    /// Notes that attributes have changed.
    pub(super) fn changed(&mut self) {
        self.times[CHANGED] = Timestamp::now();
    }

    pub(super) fn accessed(&mut self) {
        self.times[ACCESS] = Timestamp::now();
    }

    /// Sets attributes other than the size.
    pub(super) fn set(&mut self, set: &SetAttr) {
        self.perm = set.perm.map_or(self.perm, |perm| perm & 0o7777);
        self.owner.uid = set.uid.unwrap_or(self.owner.uid);
        self.owner.gid = set.gid.unwrap_or(self.owner.gid);
        for (time, set) in [(ACCESS, &set.atime), (MODIFIED, &set.mtime)] {
            match set {
                None => {}
                Some(SetTime::Now) => self.times[time] = Timestamp::now(),
                Some(SetTime::To(to)) => self.times[time] = *to,
            }
        }
        self.changed();
    }
}
