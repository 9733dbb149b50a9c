//! Names: what adds and removes one. A name is identified by the record that added it, which a removal names.

use std::sync::Arc;

use sim::map::TreeMap;
use sim::ran;
use sim::sync::{AtomicU32, Ordering::Relaxed};
use vfs::{Attr, FileKind, NewInode};

use super::Volume;
use super::draft::Freed;
use crate::format::layout::{ROOT_INO, item};
use crate::format::mutant;
use crate::format::record::{self, AddId, Create, Id, Item, Names, Record};
use crate::format::zone::Want;
use crate::index::beside::Naming;
use crate::index::dir::Dir;
use crate::index::follow::Shown;
use crate::index::inode::{Body, Changing, INODE_LINES, Inode, LINKS_MAX, State, implicit, now};
use crate::index::lines::{lines_of, name_lines};
use crate::index::map::BlockMap;
use crate::parts;
use crate::store::commit::Committed;
use crate::store::log::{Call, Ticket};
use base::error::{Error, Result};

/// What a new inode is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'a> {
    pub(crate) kind: FileKind,
    pub(crate) rdev: u32,
    pub(crate) new: &'a NewInode,
    /// Of a symbolic link.
    pub(crate) target: &'a [u8],
}

/// The removal of a name.
pub(crate) fn removal(dir: u64, ino: u64, (added, index): AddId) -> Item {
    let what = item::REMOVE | item::DIR | item::INODE;
    Item { what, index, dir, ino, added, name: Vec::new() }
}

/// A name that is added.
pub(crate) fn add(index: u8, dir: u64, ino: u64, name: &[u8]) -> Item {
    let what = item::ADD | item::DIR | item::INODE;
    Item { what, index, dir, ino, added: Id::default(), name: ran::copied(name) }
}

impl Node<'_> {
    pub(crate) fn mode(&self) -> u32 {
        self.kind.mode_bits() | self.new.perm & 0o7777
    }

    /// The record that makes it.
    pub(crate) fn create(&self, ino: u64, (dir, name): (u64, &[u8]), time: u64) -> record::Body {
        record::Body::Create(Create {
            ino,
            dir,
            name: ran::copied(name),
            mode: self.mode() as u16,
            uid: self.new.owner.uid,
            gid: self.new.owner.gid,
            rdev: self.rdev,
            time,
            target: ran::copied(self.target),
        })
    }

    /// What it is in DRAM when its record counts.
    pub(crate) fn state(&self, ticket: &Ticket, time: u64) -> State {
        let (links, body) = match self.kind {
            FileKind::Directory => (2, Body::Dir(ran::shared(Dir::default()))),
            FileKind::Regular => (1, Body::File(BlockMap::default())),
            FileKind::Symlink => (1, Body::Symlink(ran::copied(self.target).into())),
            _ => (1, Body::Node),
        };
        let (atime, mtime, ctime) = (implicit(time), implicit(time), implicit(time));
        State {
            mode: self.mode(),
            uid: self.new.owner.uid,
            gid: self.new.owner.gid,
            rdev: self.rdev,
            links,
            birth: time,
            atime,
            mtime,
            ctime,
            last: ticket.id.time(),
            ..State::new(ticket.ino, body)
        }
    }
}

impl Volume {
    /// Makes the records of a change of names durable.
    pub(crate) fn commit_names(&self, want: Want, time: u64, items: &[Item]) -> Result<Committed<'_>> {
        let call = Call { want, after: 0, makes: false, needs: &[] };
        self.commit(call, |ticket| {
            // The list and its names.
            let named = items.iter().filter(|item| !item.name.is_empty()).count();
            ran::allocate(1 + named as u64);
            let names = Names { time, items: items.to_vec() };
            [Record::alone(ticket.id, record::Body::Names(names))]
        })
    }

    /// The number of the inode that `name` leads to.
    pub(crate) fn lookup_name(&self, parent: u64, name: &[u8]) -> Result<u64> {
        let _part = sim::part(&parts::LOOKUP);
        let dir = self.inodes.get(parent)?;
        let state = dir.reading()?;
        let _bucket = dir.bucket(&state, name)?;
        state.dir()?.find(name).map(|found| found.ino).ok_or(Error::NoEntry)
    }

    /// Locks a directory for changes of one or two names.
    pub(crate) fn naming<'a>(&self, dir: &'a Inode, name: &[u8], other: Option<&[u8]>) -> Result<Naming<'a>> {
        if self.rules.lacks(mutant::BUCKET_BY_CORE) {
            return dir.naming(&[self.shard() as u8], None);
        }
        dir.naming(name, other)
    }

    /// Adds an inode that a record has made.
    pub(crate) fn publish_inode(&self, state: State, parent: u64) {
        self.zones.add_lines(lines_of(&state));
        let inode = ran::shared(Inode::new(state, parent, self.sharing));
        inode.recency.touch(INODE_LINES);
        self.inodes.insert(inode);
    }

    /// Makes a new inode called `name`.
    pub(crate) fn make(&self, parent: u64, name: &[u8], node: Node<'_>) -> Result<Attr> {
        let _scope = sim::scope(media::charges::METADATA);
        self.tend();
        let inode = self.inodes.get(parent)?;
        let is_dir = node.kind == FileKind::Directory;
        let mut dir = if is_dir { inode.naming_alone()? } else { self.naming(&inode, name, None)? };
        if dir.dir()?.find(name).is_some() {
            return Err(Error::Exists);
        }
        if is_dir && dir.links >= LINKS_MAX {
            return Err(Error::TooManyLinks);
        }
        if !self.region.grants_space() {
            return Err(Error::NoSpace);
        }
        let time = dir.stamp(self.shard(), now());
        let call = Call { want: Want::Records, after: 0, makes: true, needs: &[] };
        let done = self.commit(call, |ticket| {
            [Record::alone(ticket.id, node.create(ticket.ino, (parent, name), time))]
        })?;
        let _part = sim::part(&parts::PUBLISH);
        let state = node.state(&done.ticket, time);
        let attr = state.attr();
        self.publish_inode(state, parent);
        self.publish_name(&dir, name, done.ticket.ino, (done.ticket.id, 0));
        dir.changed(self.shard(), time, i32::from(is_dir));
        Ok(attr)
    }

    /// Adds a name whose record counts.
    pub(crate) fn publish_name(&self, dir: &State, name: &[u8], ino: u64, add: AddId) {
        if let Ok(dir) = dir.names() {
            dir.insert(name, ino, add);
            self.zones.add_lines(name_lines(name));
        }
    }

    /// Takes a name out whose removal counts.
    pub(crate) fn unpublish_name(&self, dir: &State, name: &[u8]) {
        if let Ok(dir) = dir.names()
            && dir.remove(name)
        {
            self.zones.sub_lines(name_lines(name));
        }
    }

    /// Makes a regular file without a name that is open once.
    pub(crate) fn make_nameless(&self, new: &NewInode) -> Result<Attr> {
        let _scope = sim::scope(media::charges::METADATA);
        self.tend();
        if !self.region.grants_space() {
            return Err(Error::NoSpace);
        }
        let (node, time) = (Node { kind: FileKind::Regular, rdev: 0, new, target: &[] }, now());
        let call = Call { want: Want::Records, after: 0, makes: true, needs: &[] };
        let done =
            self.commit(call, |ticket| [Record::alone(ticket.id, node.create(ticket.ino, (0, b""), time))])?;
        let state =
            State { links: 0, opens: AtomicU32::new(1), nameless: true, ..node.state(&done.ticket, time) };
        let attr = state.attr();
        self.orphans.lock().insert(done.ticket.ino);
        self.publish_inode(state, ROOT_INO);
        Ok(attr)
    }

    /// Adds a name to an inode that is not a directory.
    pub(crate) fn link(&self, number: u64, parent: u64, name: &[u8]) -> Result<Attr> {
        let _scope = sim::scope(media::charges::METADATA);
        self.tend();
        let above = self.inodes.get(parent)?;
        let mut dir = self.naming(&above, name, None)?;
        if dir.dir()?.find(name).is_some() {
            return Err(Error::Exists);
        }
        let inode = self.inodes.get(number)?;
        // A directory must not be locked here: it may be above `parent`.
        if inode.is_dir {
            return Err(Error::NotPermitted);
        }
        let mut file = inode.changing()?;
        match file.links {
            0 if !file.nameless => return Err(Error::NoEntry),
            LINKS_MAX.. => return Err(Error::TooManyLinks),
            _ => {}
        }
        self.settle_named(&mut file)?;
        let now = now();
        let time = dir.stamp(self.shard(), now).max(file.stamp(now));
        ran::allocate(1);
        let items = [add(0, parent, number, name)];
        let done = self.commit_names(Want::Records, time, &items)?;
        self.publish_name(&dir, name, number, (done.ticket.id, 0));
        dir.changed(self.shard(), time, 0);
        file.links += 1;
        file.ctime = implicit(time);
        if file.links == 1 {
            file.nameless = false;
            self.orphans.lock().remove(&number);
        }
        Ok(file.attr())
    }

    /// Removes a name that is not a directory's.
    pub(crate) fn unlink(&self, parent: u64, name: &[u8]) -> Result<()> {
        let _scope = sim::scope(media::charges::METADATA);
        self.tend();
        let dir = self.inodes.get(parent)?;
        let check =
            |inode: &Inode, _: Option<&State>| if inode.is_dir { Err(Error::IsDirectory) } else { Ok(()) };
        self.remove(self.naming(&dir, name, None)?, name, check)
    }

    /// Removes an empty directory.
    pub(crate) fn rmdir(&self, parent: u64, name: &[u8]) -> Result<()> {
        let _scope = sim::scope(media::charges::METADATA);
        self.tend();
        let dir = self.inodes.get(parent)?;
        self.remove(dir.naming_alone()?, name, |inode, state| match state {
            _ if !inode.is_dir => Err(Error::NotDirectory),
            Some(state) if state.dir()?.len() > 0 => Err(Error::NotEmpty),
            _ => Ok(()),
        })
    }

    /// Removes a name, and with its last name the inode, unless that is open. `check` is asked before the inode is locked, and
    /// again with its state.
    fn remove(
        &self,
        mut dir: Naming<'_>,
        name: &[u8],
        check: impl Fn(&Inode, Option<&State>) -> Result<()>,
    ) -> Result<()> {
        let found = dir.dir()?.find(name).ok_or(Error::NoEntry)?;
        let (number, add) = (found.ino, found.add);
        let inode = self.inodes.get(number)?;
        check(&inode, None)?;
        let mut child = inode.changing()?;
        check(&inode, Some(&child))?;
        let now = now();
        let time = dir.stamp(self.shard(), now).max(child.stamp(now));
        let done = self.commit_names(Want::Removals, time, &[removal(dir.ino, number, add)])?;
        let _part = sim::part(&parts::PUBLISH);
        self.unpublish_name(&dir, name);
        dir.changed(self.shard(), time, -i32::from(inode.is_dir));
        self.lose_name(&mut child, time, &done);
        Ok(())
    }

    /// An inode has lost a name, and its records count: with the last one it goes, unless it is open.
    pub(crate) fn lose_name(&self, inode: &mut Changing<'_>, time: u64, _done: &Committed<'_>) {
        inode.links = if inode.is_dir() { 0 } else { inode.links.saturating_sub(1) };
        inode.ctime = implicit(time);
        if inode.is_gone() {
            self.free_inode(inode);
        } else if inode.links == 0 {
            self.orphans.lock().insert(inode.ino);
        }
    }

    /// Frees what an inode has that neither a name nor a user leads to.
    fn free_inode(&self, inode: &mut Changing<'_>) {
        self.zones.sub_lines(lines_of(inode));
        self.drop_frames(inode, 0);
        self.shown(inode, &Shown::Nothing);
        let mut freed = Freed::default();
        if let Body::File(blocks) = &mut inode.body {
            blocks.cut(0, |place| freed.add(place.block));
            self.zones.change_inlines(blocks.take_change());
        }
        self.free(&freed);
        inode.xattrs = TreeMap::new();
        // Its records are dead, though none says so.
        self.logs.changed.store(true, Relaxed);
        self.maps.forget(inode.ino);
        self.inodes.remove(inode.ino);
    }

    /// An inode is open once less.
    pub(crate) fn release(&self, number: u64) {
        let Ok(inode) = self.inodes.get(number) else { return };
        if inode.close() {
            // No other task can find it in use again, or was the last to close it.
            let mut state = inode.write();
            self.orphans.lock().remove(&number);
            self.free_inode(&mut state);
        }
    }

    /// The directory above one.
    pub(crate) fn parent_of(&self, dir: u64) -> Result<u64> {
        Ok(self.inodes.get(dir)?.parent())
    }

    /// Notes that a directory is below another one.
    pub(crate) fn set_parent(inode: &Arc<Inode>, parent: u64) {
        if inode.is_dir {
            inode.parent.store(parent, Relaxed);
        }
    }
}
