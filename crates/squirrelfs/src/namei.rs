//! Calls that make and remove names. Each locks and checks first, then stores in the order of its table in
//! `docs/designs/squirrelfs.md`; the index follows the medium.

use sim::sync::Ordering::SeqCst;
use sim::{RwLockWriteGuard, ran};
use vfs::{Attr, FileKind, NewInode, Timestamp};

use crate::dir::{DirIndex, Entry};
use crate::inode::{Inode, State, new_fields};
use crate::layout::{DIRECTORY, INODE_BYTES, LINKS_MAX, time_word};
use crate::object::{
    self, Cleared, Complete, Dead, Dentry, Disowned, Durable, Free, Initialised, Live, MoreLinks, OfNames,
    Owned, PagePlace, Pages, Part, Source, Unused,
};
use crate::{Volume, mutant};
use base::error::{Error, Result};
use base::opens::LosingName;

/// The kind and attributes of a new inode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'a> {
    pub(crate) kind: FileKind,
    pub(crate) new: &'a NewInode,
    /// Of a symbolic link.
    pub(crate) target: &'a [u8],
}

/// A directory that is locked for a change.
pub(crate) struct Dir<'a> {
    pub(crate) inode: &'a Inode,
    pub(crate) state: RwLockWriteGuard<'a, State>,
}

/// Where a new name goes: a free dentry, or the page that gets it as its first.
pub(crate) enum Place {
    Free(u64),
    NewPage(PagePlace),
}

impl Dir<'_> {
    pub(crate) fn find(&self, name: &[u8]) -> Result<Option<Entry>> {
        Ok(self.state.dir()?.find(name))
    }
}

impl Volume {
    /// Locks a directory that has a name.
    pub(crate) fn lock_dir(&self, ino: u64) -> Result<Dir<'_>> {
        let inode = self.inodes.get(ino)?;
        let state = inode.state.write();
        state.dir()?;
        if state.raw.links == 0 {
            return Err(Error::NoEntry);
        }
        Ok(Dir { inode, state })
    }

    /// The inode that a name leads to.
    pub(crate) fn lookup_name(&self, parent: u64, name: &[u8]) -> Result<u64> {
        let state = self.inodes.get(parent)?.state.read();
        state.dir()?.find(name).map(|entry| entry.ino).ok_or(Error::NoEntry)
    }

    /// Finds room for a name, and takes `more` pages beside it.
    pub(crate) fn find_place(&self, dir: &Dir<'_>, more: u64) -> Result<(Place, Vec<PagePlace>)> {
        let free = dir.state.dir()?.free_dentry(&self.region, self.settings.hint)?;
        let count = more + u64::from(free.is_none());
        let mut taken = if count > 0 { self.pages.take(count) } else { Vec::new() };
        if (taken.len() as u64) < count {
            self.pages.put(&taken)?;
            return Err(Error::NoSpace);
        }
        let place = free.map_or_else(|| taken.pop().map(Place::NewPage), |at| Some(Place::Free(at)));
        place.map(|place| (place, taken)).ok_or(Error::NoSpace)
    }

    /// A free dentry at this place; a new page gets its owner after it is zero.
    pub(crate) fn dentry_at(&self, dir: &mut Dir<'_>, place: &Place) -> Result<Dentry<'_, Durable, Free>> {
        let page = match *place {
            Place::Free(at) => return Ok(Dentry::found(&self.region, at)),
            Place::NewPage(page) => page,
        };
        let owner = dir.inode.object::<Live>(self);
        ran::allocate(1);
        let described = Pages::<Durable, Unused>::found(&self.region, vec![page]).describe()?;
        let described = self.fence(described.flush());
        if self.has(mutant::OWNER_BEFORE_ZERO) {
            let early = Pages::found(&self.region, vec![page]).own_names(&owner)?;
            let _ = self.fence(early.flush());
        }
        let zero = self.fence(described.zero()?);
        let _ = self.fence(zero.own_names(&owner)?.flush());
        dir.state.dir_mut()?.add_page(page.page);
        Ok(Dentry::found(&self.region, page.page))
    }

    /// Makes a new inode called `name`.
    pub(crate) fn make(&self, parent: u64, name: &[u8], node: Node<'_>) -> Result<Attr> {
        let mut dir = self.lock_dir(parent)?;
        if dir.find(name)?.is_some() {
            return Err(Error::Exists);
        }
        if node.kind == FileKind::Directory && dir.state.raw.links == LINKS_MAX {
            return Err(Error::TooManyLinks);
        }
        let inode = self.claim()?;
        let more = u64::from(node.kind == FileKind::Symlink);
        let (place, pages) = self.find_place(&dir, more).inspect_err(|_| self.numbers.put(inode.ino))?;
        let mut state = inode.state.write();
        self.change(|| self.make_at(&mut dir, (inode, &mut state), (place, name), (node, pages)))?;
        inode.opens.admit();
        inode.attr(&state)
    }

    fn make_at(
        &self,
        dir: &mut Dir<'_>,
        (inode, state): (&Inode, &mut State),
        (place, name): (Place, &[u8]),
        (node, pages): (Node<'_>, Vec<PagePlace>),
    ) -> Result<()> {
        let is_dir = node.kind == FileKind::Directory;
        let mut fields = new_fields(inode.ino, node.kind, node.new);
        self.touch(dir.inode, &mut dir.state, true)?;
        if is_dir {
            let links = dir.state.raw.links + 1;
            let _ = self.fence(dir.inode.object::<Live>(self).add_link(links)?.flush());
            dir.state.raw.links = links;
        }
        let dentry = self.dentry_at(dir, &place)?;
        let named = dentry.name(name, is_dir)?;
        let named = if self.has(mutant::NAME_AFTER_INO) { named.unflushed() } else { named.flush() };
        let named = self.fence(named);
        let made = inode.object::<Free>(self).initialise(&fields)?;
        let mut made = self.fence_unless(mutant::INO_BEFORE_INODE, made.flush());
        if node.kind == FileKind::Symlink {
            inode.pages.lock().insert(0, pages[0].page);
            made = self.store_target(made, (node.target, pages), fields.mtime)?;
            fields.size = node.target.len() as u64;
        }
        let whole = self.fence(named.lead_to(&made)?.flush());
        *state = State { raw: fields, generation: state.generation.wrapping_add(1), names: None };
        if is_dir {
            inode.parent.store(dir.inode.ino, SeqCst);
            state.names = Some(ran::boxed(DirIndex::new()));
        }
        dir.state.dir_mut()?.insert(name, Entry { ino: inode.ino, at: whole.at() });
        Ok(())
    }

    /// Gives a new symbolic link its target.
    fn store_target<'v>(
        &'v self,
        made: object::Inode<'v, Durable, Initialised>,
        (target, pages): (&[u8], Vec<PagePlace>),
        time: u64,
    ) -> Result<object::Inode<'v, Durable, Initialised>> {
        let at = pages[0].page;
        let placed = self.fence(Pages::<Durable, Unused>::found(&self.region, pages).place(0)?.flush());
        let owned = self.fence(placed.own(&made)?.flush());
        let zero = self.fence(owned.zero()?);
        let text = std::iter::once(Part { at, bytes: Source::Bytes(target) });
        let written = self.fence(zero.write(text, false)?);
        Ok(self.fence(made.grow(target.len() as u64, time, &written)?.flush()))
    }

    /// Adds a name to an inode that is not a directory.
    pub(crate) fn link(&self, ino: u64, parent: u64, name: &[u8]) -> Result<Attr> {
        let mut dir = self.lock_dir(parent)?;
        if dir.find(name)?.is_some() {
            return Err(Error::Exists);
        }
        let inode = self.inodes.get(ino)?;
        // A directory must not be locked here: it may be above `parent`. What an inode is stays so while its number is in use.
        if ino == parent || self.is_dir(inode)? {
            return Err(Error::NotPermitted);
        }
        let mut state = inode.state.write();
        match state.raw.links {
            _ if state.raw.is_dir() => return Err(Error::NotPermitted),
            0 => return Err(Error::NoEntry),
            LINKS_MAX => return Err(Error::TooManyLinks),
            _ => {}
        }
        let (place, _) = self.find_place(&dir, 0)?;
        self.change(|| self.link_at(&mut dir, (inode, &mut state), (place, name)))?;
        inode.attr(&state)
    }

    fn link_at(
        &self,
        dir: &mut Dir<'_>,
        (inode, state): (&Inode, &mut State),
        (place, name): (Place, &[u8]),
    ) -> Result<()> {
        self.touch_both((dir.inode, &mut dir.state, true), (inode, state, false))?;
        let (late, links) = (self.has(mutant::LINK_COUNT_LATE), state.raw.links + 1);
        let counted = match late {
            true => inode.object::<MoreLinks>(self),
            false => self.fence(inode.object::<Live>(self).add_link(links)?.flush()),
        };
        let named = self.fence(self.dentry_at(dir, &place)?.name(name, false)?.flush());
        let whole = self.fence(named.lead_to(&counted)?.flush());
        if late {
            let _ = self.fence(counted.live().add_link(links)?.flush());
        }
        state.raw.links = links;
        dir.state.dir_mut()?.insert(name, Entry { ino: inode.ino, at: whole.at() });
        Ok(())
    }

    /// Stores new times of two inodes with one fence.
    #[track_caller]
    pub(crate) fn touch_both(
        &self,
        one: (&Inode, &mut State, bool),
        other: (&Inode, &mut State, bool),
    ) -> Result<()> {
        let now = time_word(Timestamp::now());
        let store = |(inode, state, contents): (&Inode, &mut State, bool)| {
            let raw = &mut state.raw;
            raw.ctime = now;
            raw.mtime = if contents { now } else { raw.mtime };
            inode.object::<Live>(self).set_times(raw.ctime, [raw.atime, raw.mtime]).map(|_| inode.at)
        };
        for at in [store(one)?, store(other)?] {
            self.region.flush(at, INODE_BYTES);
        }
        self.region.fence();
        Ok(())
    }

    /// Whether an inode is a directory.
    pub(crate) fn is_dir(&self, inode: &Inode) -> Result<bool> {
        let kind = self.region.load_u32(inode.at)?;
        Ok(kind == DIRECTORY)
    }

    /// Removes a name that is not a directory's; its inode, too, when that was the last one and nothing has it open.
    pub(crate) fn unlink(&self, parent: u64, name: &[u8]) -> Result<()> {
        let mut dir = self.lock_dir(parent)?;
        let entry = dir.find(name)?.ok_or(Error::NoEntry)?;
        let inode = self.inodes.get(entry.ino)?;
        if entry.ino == parent || self.is_dir(inode)? {
            return Err(Error::IsDirectory);
        }
        let mut state = inode.state.write();
        let last = (state.raw.links == 1).then(|| inode.opens.losing_name());
        let frees = last.as_ref().is_some_and(|last| last.frees);
        self.change(|| self.unlink_at(&mut dir, (inode, &mut state), (name, entry)))?;
        last.map(LosingName::done);
        if frees { self.change(|| self.free_dead(inode, &mut state)) } else { Ok(()) }
    }

    fn unlink_at(
        &self,
        dir: &mut Dir<'_>,
        (inode, state): (&Inode, &mut State),
        (name, entry): (&[u8], Entry),
    ) -> Result<()> {
        self.touch(dir.inode, &mut dir.state, true)?;
        self.touch(inode, state, false)?;
        let dentry = Dentry::<Durable, Complete>::found(&self.region, entry.at);
        let links = state.raw.links - 1;
        if self.has(mutant::DEC_LINK_BEFORE_CLEAR) {
            let early = Dentry::<Durable, Cleared>::found(&self.region, entry.at);
            let _ = self.fence(inode.object::<Live>(self).drop_link(links, &early)?.flush());
        }
        let cleared = self.fence(dentry.clear()?.flush());
        let dropped = inode.object::<Live>(self).drop_link(links, &cleared)?.flush();
        let (_, free) = self.fence((dropped, cleared.erase()?.flush()));
        state.raw.links = links;
        self.forget_name(dir, name, &free)
    }

    /// Takes a name out of the index; its page, too, where it was the last one in it.
    pub(crate) fn forget_name(
        &self,
        dir: &mut Dir<'_>,
        name: &[u8],
        free: &Dentry<'_, Durable, Free>,
    ) -> Result<()> {
        let names = dir.state.dir_mut()?;
        let Some(page) = names.remove(name) else { return Ok(()) };
        names.remove_page(page);
        ran::allocate(1);
        let pages = Pages::<Durable, OfNames>::found(&self.region, vec![self.layout.place_of(page)]);
        let disowned = self.fence(pages.disown_empty(free)?.flush());
        self.free_pages(disowned)
    }

    /// Makes the descriptors of pages free, which have no owner, and gives the pages back.
    pub(crate) fn free_pages(&self, pages: Pages<'_, Durable, Disowned>) -> Result<()> {
        let places = ran::collected(pages.places().iter().copied());
        if !self.has(mutant::PAGE_REUSED_BEFORE_TYPE_CLEAR) {
            let _ = self.fence(pages.forget()?.flush());
        }
        self.pages.put(&places)
    }

    /// Removes an empty directory.
    pub(crate) fn rmdir(&self, parent: u64, name: &[u8]) -> Result<()> {
        let mut dir = self.lock_dir(parent)?;
        let entry = dir.find(name)?.ok_or(Error::NoEntry)?;
        let inode = self.inodes.get(entry.ino)?;
        if entry.ino == parent {
            return Err(Error::Corrupt(format!("directory {parent} contains itself")));
        }
        let mut state = inode.state.write();
        if !state.dir()?.is_empty() {
            return Err(Error::NotEmpty);
        }
        let last = inode.opens.losing_name();
        let frees = last.frees;
        self.change(|| self.rmdir_at(&mut dir, (inode, &mut state), (name, entry), frees))?;
        last.done();
        Ok(())
    }

    fn rmdir_at(
        &self,
        dir: &mut Dir<'_>,
        (inode, state): (&Inode, &mut State),
        (name, entry): (&[u8], Entry),
        frees: bool,
    ) -> Result<()> {
        self.touch(dir.inode, &mut dir.state, true)?;
        let dentry = Dentry::<Durable, Complete>::found(&self.region, entry.at);
        let cleared = self.fence(dentry.clear()?.flush());
        let links = dir.state.raw.links.saturating_sub(1);
        let _ = self.fence(dir.inode.object::<Live>(self).drop_link(links, &cleared)?.flush());
        dir.state.raw.links = links;
        let _ = self.fence(inode.object::<Live>(self).drop_link(0, &cleared)?.flush());
        state.raw.links = 0;
        let free = if frees {
            let dead = inode.object::<Dead>(self);
            let unused = self.free_all_pages(inode, state, &dead)?;
            let erased = dead.erase(&unused)?.flush();
            let (_, free) = self.fence((erased, cleared.erase()?.flush()));
            self.forget_inode(inode, state);
            free
        } else {
            self.fence(cleared.erase()?.flush())
        };
        self.forget_name(dir, name, &free)
    }

    /// Frees an inode that has no name and is not open: first its pages lose their owner, then their descriptors are cleared,
    /// then the inode is.
    pub(crate) fn free_dead(&self, inode: &Inode, state: &mut State) -> Result<()> {
        let dead = inode.object::<Dead>(self);
        let unused = self.free_all_pages(inode, state, &dead)?;
        let _ = self.fence(dead.erase(&unused)?.flush());
        self.forget_inode(inode, state);
        Ok(())
    }

    /// Frees the pages of a dead inode, of contents or of names.
    fn free_all_pages<'v>(
        &'v self,
        inode: &Inode,
        state: &State,
        dead: &object::Inode<'_, Durable, Dead>,
    ) -> Result<Pages<'v, Durable, Unused>> {
        let of_names = state.names.iter().flat_map(|names| names.page_list());
        let list = inode.pages.lock();
        let places =
            ran::collected(list.values().copied().chain(of_names).map(|page| self.layout.place_of(page)));
        drop(list);
        if !places.is_empty() {
            let disowned = match state.names {
                Some(_) => Pages::<Durable, OfNames>::found(&self.region, places).disown(dead)?,
                None => Pages::<Durable, Owned>::found(&self.region, places).disown(dead)?,
            };
            let disowned = self.fence(disowned.flush());
            self.free_pages(disowned)?;
        }
        Ok(Pages::found(&self.region, Vec::new()))
    }

    /// An inode is free on the medium: so it is in DRAM.
    fn forget_inode(&self, inode: &Inode, state: &mut State) {
        self.maps.forget(inode.ino);
        inode.parent.store(0, SeqCst);
        *inode.pages.lock() = sim::map::TreeMap::new();
        *state = State { generation: state.generation, ..State::default() };
        self.numbers.put(inode.ino);
    }

    /// The last descriptor of an inode without a name is closed: it is freed, unless it was opened again.
    pub(crate) fn reap(&self, inode: &Inode) -> Result<()> {
        self.check_sound()?;
        let mut state = inode.state.write();
        if state.raw.is_free() || state.raw.links > 0 || !inode.opens.lose_name() {
            return Ok(());
        }
        self.change(|| self.free_dead(inode, &mut state))
    }

    /// The names of a directory, as the interface wants them.
    pub(crate) fn read_dir(
        &self,
        ino: u64,
        cursor: u64,
        sink: &mut dyn FnMut(&[u8], u64, u64) -> bool,
    ) -> Result<()> {
        let inode = self.inodes.get(ino)?;
        let state = inode.state.read();
        inode.check_usable(&state)?;
        let names = state.dir()?;
        if state.raw.links == 0 { Ok(()) } else { names.list(inode, cursor, &self.region, sink) }
    }
}
