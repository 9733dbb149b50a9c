//! Names: making, linking, removing and renaming inodes.

use std::sync::Arc;

use ::vfs::{Attr, FileKind, NewInode, RenameFlags, Renaming, Timestamp, rename};
use sim::Run;

use super::Volume;
use super::extent;
use super::inode::{Change, Inode, InodeState, change_time};
use super::journal::Handle;
use super::journal::credits::NAME_CREDITS;
use super::layout::{LINK_MAX, flag};
use super::records::{Place, Target};
use super::runs::Mapped;
use base::error::{Error, Result};

/// What is to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'a> {
    pub(crate) kind: FileKind,
    pub(crate) rdev: u64,
    pub(crate) new: &'a NewInode,
    /// The target of a symbolic link.
    pub(crate) target: &'a [u8],
}

type Guard<'a> = Change<'a>;

impl Volume {
    /// Locks a directory for a change of its names.
    fn lock_dir(dir: &Inode) -> Result<Guard<'_>> {
        let state = dir.change();
        Self::check_dir(&state)?;
        Ok(state)
    }

    fn check_dir(state: &InodeState) -> Result<()> {
        if !state.raw.is_dir() {
            return Err(Error::NotDirectory);
        }
        if state.gone || state.raw.links.get() == 0 {
            return Err(Error::NoEntry);
        }
        if state.raw.has(flag::IMMUTABLE) { Err(Error::NotPermitted) } else { Ok(()) }
    }

    /// Refuses to take a name out of a directory that only grows (`chattr +a`), or from an inode that is not to change.
    fn check_removal(dir: &InodeState, inode: &InodeState) -> Result<()> {
        let kept = dir.raw.has(flag::APPEND) || inode.raw.has(flag::IMMUTABLE | flag::APPEND);
        if kept { Err(Error::NotPermitted) } else { Ok(()) }
    }

    /// The inode of a name.
    pub(crate) fn lookup(&self, parent: u64, name: &[u8]) -> Result<Attr> {
        let dir = self.inode(parent)?;
        let state = dir.state.read();
        if !state.raw.is_dir() {
            return Err(Error::NotDirectory);
        }
        // A removed directory that is open has no names, not even its own.
        if state.gone || state.raw.links.get() == 0 {
            return Err(Error::NoEntry);
        }
        let place = self.find(&dir, &state, name)?.ok_or(Error::NoEntry)?;
        if place.ino == parent {
            return state.attr(self.geo.block_bytes, parent);
        }
        drop(state);
        let inode = self.inode(place.ino)?;
        match inode.seen() {
            Some(attr) => Ok(attr),
            None => inode.state.read().attr(self.geo.block_bytes, place.ino),
        }
    }

    /// Makes an inode with a name.
    pub(crate) fn make(&self, parent: u64, name: &[u8], node: Node<'_>) -> Result<Attr> {
        self.with_space(|| self.try_make(parent, name, node))
    }

    fn try_make(&self, parent: u64, name: &[u8], node: Node<'_>) -> Result<Attr> {
        let dir = self.inode(parent)?;
        let mut dir_state = Self::lock_dir(&dir)?;
        if self.find(&dir, &dir_state, name)?.is_some() {
            return Err(Error::Exists);
        }
        let is_dir = node.kind == FileKind::Directory;
        if is_dir {
            self.check_links(&dir_state)?;
        }
        let handle = self.begin(NAME_CREDITS)?;
        let inode = self.make_inode(&handle, parent, node)?;
        let mut state = inode.change();
        let target = Target { ino: inode.ino, kind: node.kind };
        let made = self
            .fill_inode(&handle, &inode, &mut state, (parent, node))
            .and_then(|()| self.add_name(&handle, &dir, &mut dir_state, name, target));
        if let Err(error) = made {
            self.store_inode(&handle, &dir, &mut dir_state)?;
            self.undo_inode(&handle, &inode, &mut state)?;
            return Err(error);
        }
        if is_dir {
            self.add_link(&mut dir_state);
        }
        self.store_inode(&handle, &inode, &mut state)?;
        self.touch_dir(&handle, &dir, &mut dir_state)?;
        state.attr(self.geo.block_bytes, inode.ino)
    }

    /// A nameless file that is open once.
    pub(crate) fn make_nameless(&self, parent: u64, node: Node<'_>) -> Result<Attr> {
        let handle = self.begin(NAME_CREDITS)?;
        let inode = self.make_inode(&handle, parent, node)?;
        let mut state = inode.change();
        self.fill_inode(&handle, &inode, &mut state, (parent, node))?;
        state.raw.links = 0.into();
        (state.kept_open, state.nameless) = (true, true);
        inode.opens.begin_nameless();
        self.add_orphan(&handle, &inode, &mut state)?;
        self.store_inode(&handle, &inode, &mut state)?;
        state.attr(self.geo.block_bytes, inode.ino)
    }

    fn make_inode(&self, handle: &Handle<'_>, parent: u64, node: Node<'_>) -> Result<Arc<Inode>> {
        let ino = self.allocate_inode(handle, parent, node.kind == FileKind::Directory)?;
        let mode = node.kind.mode_bits() | node.new.perm & 0o7777;
        Ok(self.new_inode(ino, mode as u16))
    }

    fn fill_inode(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
        (parent, node): (u64, Node<'_>),
    ) -> Result<()> {
        state.raw.set_owner(node.new.owner.uid, node.new.owner.gid);
        state.raw.links = 1.into();
        let mapped = matches!(node.kind, FileKind::Regular | FileKind::Directory)
            || node.kind == FileKind::Symlink && node.target.len() >= 60;
        if mapped && self.geo.extents {
            state.raw.flags = flag::EXTENTS.into();
            extent::init(&mut state.raw.block);
        }
        match node.kind {
            FileKind::Directory => {
                state.raw.links = 2.into();
                self.init_dir(handle, inode, state, parent)
            }
            FileKind::Symlink => self.put_target(handle, inode, state, node.target),
            FileKind::Regular => Ok(()),
            FileKind::CharDevice | FileKind::BlockDevice | FileKind::Fifo | FileKind::Socket => {
                state.set_rdev(node.rdev);
                Ok(())
            }
        }
    }

    fn put_target(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
        target: &[u8],
    ) -> Result<()> {
        state.raw.set_size(target.len() as u64);
        if target.len() < 60 {
            state.raw.block[..target.len()].copy_from_slice(target);
            return Ok(());
        }
        if target.len() >= self.geo.block_bytes as usize {
            return Err(Error::TooLarge);
        }
        let block = self.map_new(handle, inode, state, Run::new(0, 1), false)?.first;
        self.change_new(handle, block, |bytes| bytes[..target.len()].copy_from_slice(target))
    }

    /// The target of a symbolic link.
    pub(crate) fn read_link(&self, ino: u64) -> Result<Vec<u8>> {
        let inode = self.inode(ino)?;
        let state = inode.state.read();
        if state.raw.kind() != Some(FileKind::Symlink) {
            return Err(Error::Invalid("not a symbolic link"));
        }
        let len = state.raw.size() as usize;
        if state.is_short_link(self) {
            return Ok(sim::ran::copied(&state.raw.block[..len.min(60)]));
        }
        if len >= self.geo.block_bytes as usize {
            return Err(inode.damaged(self, "the target of a symbolic link is too long"));
        }
        match self.map(&inode, &state, 0, 1)? {
            Mapped::Blocks { start, .. } => self.look(start, |bytes| sim::ran::copied(&bytes[..len])),
            Mapped::Hole(_) => Err(inode.damaged(self, "a symbolic link has no target")),
        }
    }

    /// Whether the target of a symbolic link is as long as its inode says, as e2fsck wants it.
    pub(crate) fn target_is_sound(&self, inode: &Inode, state: &InodeState) -> bool {
        let size = state.raw.size() as usize;
        let ends = |bytes: &[u8]| size > 0 && bytes.iter().position(|byte| *byte == 0) == Some(size);
        if state.is_short_link(self) {
            return ends(&state.raw.block);
        }
        match self.map(inode, state, 0, 1) {
            Ok(Mapped::Blocks { start, unwritten: false, .. }) => self.look(start, ends).unwrap_or(false),
            _ => false,
        }
    }

    /// Gives back an inode that got no name.
    fn undo_inode(&self, handle: &Handle<'_>, inode: &Arc<Inode>, state: &mut InodeState) -> Result<()> {
        let is_dir = state.raw.is_dir();
        state.gone = true;
        if state.has_map(self) {
            self.unmap(handle, inode, state, 0..u64::MAX)?;
        }
        state.raw.links = 0.into();
        state.raw.dtime = (Timestamp::now().secs as u32).into();
        self.store_inode(handle, inode, state)?;
        self.free_inode(handle, inode.ino, is_dir)?;
        self.forget_inode(inode);
        Ok(())
    }

    /// Whether a directory may have another subdirectory.
    fn check_links(&self, state: &InodeState) -> Result<()> {
        // As in Linux the feature must be there, and the directory must have an index.
        let may_overflow = self.geo.dir_nlink && state.raw.has(flag::INDEX);
        let full = state.raw.links.get() >= LINK_MAX && !may_overflow;
        if full { Err(Error::TooManyLinks) } else { Ok(()) }
    }

    /// A directory has one more subdirectory. With `dir_nlink` a count that does not fit is 1.
    fn add_link(&self, state: &mut InodeState) {
        let links = state.raw.links.get();
        state.raw.links = match links {
            1 => 1.into(),
            _ if links + 1 >= LINK_MAX && self.geo.dir_nlink => 1.into(),
            _ => (links + 1).into(),
        };
    }

    /// A directory has one subdirectory less.
    fn drop_link(state: &mut InodeState) {
        let links = state.raw.links.get();
        if links > 2 {
            state.raw.links = (links - 1).into();
        }
    }

    /// A directory's names have changed.
    fn touch_dir(&self, handle: &Handle<'_>, dir: &Inode, state: &mut InodeState) -> Result<()> {
        let now = change_time();
        state.raw.set_mtime(now);
        state.raw.set_ctime(now);
        self.store_inode(handle, dir, state)
    }

    /// Gives a file another name.
    pub(crate) fn link(&self, ino: u64, parent: u64, name: &[u8]) -> Result<Attr> {
        self.with_space(|| self.try_link(ino, parent, name))
    }

    fn try_link(&self, ino: u64, parent: u64, name: &[u8]) -> Result<Attr> {
        let (dir, inode) = (self.inode(parent)?, self.inode(ino)?);
        let is_dir = inode.state.read().raw.is_dir();
        let mut dir_state = Self::lock_dir(&dir)?;
        if self.find(&dir, &dir_state, name)?.is_some() {
            return Err(Error::Exists);
        }
        if is_dir {
            return Err(Error::NotPermitted);
        }
        let mut state = inode.change();
        // A file made without a name may get one; one whose last name is gone may not.
        if state.raw.has(flag::IMMUTABLE | flag::APPEND) {
            return Err(Error::NotPermitted);
        }
        let nameless = state.nameless && inode.opens.is_open();
        if state.gone || state.raw.links.get() == 0 && !nameless {
            return Err(Error::NoEntry);
        }
        if state.raw.links.get() >= LINK_MAX {
            return Err(Error::TooManyLinks);
        }
        let kind = state.raw.kind().ok_or_else(|| inode.damaged(self, "it is of no kind"))?;
        let handle = self.begin(NAME_CREDITS)?;
        if let Err(error) = self.add_name(&handle, &dir, &mut dir_state, name, Target { ino, kind }) {
            self.store_inode(&handle, &dir, &mut dir_state)?;
            return Err(error);
        }
        if std::mem::take(&mut state.nameless) {
            state.kept_open = false;
            inode.opens.keep_name();
            self.remove_orphan(&handle, &inode, &mut state)?;
        }
        state.raw.links = (state.raw.links.get() + 1).into();
        state.raw.set_ctime(change_time());
        self.store_inode(&handle, &inode, &mut state)?;
        self.touch_dir(&handle, &dir, &mut dir_state)?;
        state.attr(self.geo.block_bytes, ino)
    }

    /// Removes a name that is not a directory's.
    pub(crate) fn unlink(&self, parent: u64, name: &[u8]) -> Result<()> {
        let dir = self.inode(parent)?;
        let mut dir_state = Self::lock_dir(&dir)?;
        let place = self.find(&dir, &dir_state, name)?.ok_or(Error::NoEntry)?;
        if place.ino == parent {
            return Err(Error::IsDirectory);
        }
        let inode = self.inode(place.ino)?;
        let mut state = inode.change();
        if state.raw.is_dir() {
            return Err(Error::IsDirectory);
        }
        Self::check_removal(&dir_state, &state)?;
        let handle = self.begin(NAME_CREDITS)?;
        self.remove_name(&handle, &dir, &dir_state, place)?;
        self.touch_dir(&handle, &dir, &mut dir_state)?;
        self.drop_name(&handle, &inode, &mut state)?;
        drop((handle, state, dir_state));
        self.reap(&inode)
    }

    /// A file has one name less.
    fn drop_name(&self, handle: &Handle<'_>, inode: &Inode, state: &mut InodeState) -> Result<()> {
        let links = state.raw.links.get().saturating_sub(1);
        state.raw.links = links.into();
        state.raw.set_ctime(change_time());
        if links == 0 {
            state.kept_open = !inode.opens.lose_name();
            self.add_orphan(handle, inode, state)?;
        }
        self.store_inode(handle, inode, state)
    }

    /// A directory has lost its name.
    fn drop_dir(&self, handle: &Handle<'_>, inode: &Inode, state: &mut InodeState) -> Result<()> {
        state.raw.links = 0.into();
        state.raw.set_ctime(change_time());
        state.kept_open = !inode.opens.lose_name();
        self.add_orphan(handle, inode, state)?;
        self.store_inode(handle, inode, state)
    }

    /// Removes an empty directory.
    pub(crate) fn rmdir(&self, parent: u64, name: &[u8]) -> Result<()> {
        let dir = self.inode(parent)?;
        let mut dir_state = Self::lock_dir(&dir)?;
        let place = self.find(&dir, &dir_state, name)?.ok_or(Error::NoEntry)?;
        if place.ino == parent {
            return Err(Error::Invalid("a directory is not in itself"));
        }
        let inode = self.inode(place.ino)?;
        let mut state = inode.change();
        if !state.raw.is_dir() {
            return Err(Error::NotDirectory);
        }
        if !self.dir_is_empty(&inode, &state)? {
            return Err(Error::NotEmpty);
        }
        Self::check_removal(&dir_state, &state)?;
        let handle = self.begin(NAME_CREDITS)?;
        self.remove_name(&handle, &dir, &dir_state, place)?;
        Self::drop_link(&mut dir_state);
        self.touch_dir(&handle, &dir, &mut dir_state)?;
        self.drop_dir(&handle, &inode, &mut state)?;
        drop((handle, state, dir_state));
        self.reap(&inode)
    }

    /// A directory and its ancestors up to the root. Renames are locked out, and the caller holds no inode.
    fn ancestry(&self, ino: u64) -> Result<Vec<u64>> {
        let mut chain = sim::ran::collected([ino]);
        let mut at = ino;
        while at != super::layout::ROOT_INO {
            let dir = self.inode(at)?;
            let state = dir.state.read();
            at = self.find(&dir, &state, b"..")?.ok_or(Error::NoEntry)?.ino;
            if chain.len() as u64 > self.geo.inodes() {
                return Err(self.corrupt(format!("directory {ino} is its own ancestor")));
            }
            sim::ran::push(&mut chain, at);
        }
        Ok(chain)
    }

    /// Renames, and gives the old name to a whiteout if one is wanted.
    pub(crate) fn rename(&self, from: (u64, &[u8]), to: (u64, &[u8]), how: Renaming<'_>) -> Result<()> {
        let freed = self.with_space(|| self.try_rename(from, to, how))?;
        freed.map_or(Ok(()), |inode| self.reap(&inode))
    }

    fn try_rename(
        &self,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        Renaming { flags, whiteout }: Renaming<'_>,
    ) -> Result<Option<Arc<Inode>>> {
        let _renames = self.renames.lock();
        let (old_dir, new_dir) = (self.inode(from.0)?, self.inode(to.0)?);
        let chains = (self.ancestry(from.0)?, self.ancestry(to.0)?);
        let same = from.0 == to.0;
        let is_below = |dir, above| {
            let chain = if dir == from.0 { &chains.0 } else { &chains.1 };
            Ok::<_, Error>(chain.contains(&above))
        };
        let old_first = same || rename::is_locked_first(from.0, to.0, is_below)?;
        let (mut old_state, mut new_state) = if same {
            (Self::lock_dir(&old_dir)?, None)
        } else if old_first {
            let old = Self::lock_dir(&old_dir)?;
            (old, Some(Self::lock_dir(&new_dir)?))
        } else {
            let new = Self::lock_dir(&new_dir)?;
            (Self::lock_dir(&old_dir)?, Some(new))
        };
        let moved = self.find(&old_dir, &old_state, from.1)?.ok_or(Error::NoEntry)?;
        let target = self.find(&new_dir, new_state.as_ref().unwrap_or(&old_state), to.1)?;
        let inos = (moved.ino, target.map(|target| target.ino));
        // A damaged directory may have an entry of itself, and it is locked already.
        if inos.0 == from.0 || inos.1 == Some(to.0) {
            return Err(Error::Invalid("a directory is not in itself"));
        }
        if !rename::check_target(flags, inos.0, inos.1)? {
            return Ok(None);
        }
        rename::check_subtrees(flags, (from.0, to.0), inos, is_below)?;
        let mut work = Rename {
            volume: self,
            from: (&old_dir, &mut old_state, from.1, moved),
            to: (&new_dir, new_state.as_mut(), to.1),
            whiteout: whiteout.map(|new| Node { kind: FileKind::CharDevice, rdev: 0, new, target: &[] }),
        };
        match target {
            Some(target) if flags.contains(RenameFlags::EXCHANGE) => work.exchange(target).map(|()| None),
            Some(target) => work.replace(target).map(Some),
            None => work.simple().map(|()| None),
        }
    }
}

/// A rename whose directories are locked: from where, and to where unless it is the same.
struct Rename<'a, 'b> {
    volume: &'a Volume,
    from: (&'a Arc<Inode>, &'a mut Guard<'b>, &'a [u8], Place),
    to: (&'a Arc<Inode>, Option<&'a mut Guard<'b>>, &'a [u8]),
    /// What the old name leads to then.
    whiteout: Option<Node<'a>>,
}

impl Rename<'_, '_> {
    fn moved(&self) -> Result<Arc<Inode>> {
        self.volume.inode(self.from.3.ino)
    }

    fn crosses(&self) -> bool {
        self.to.1.is_some()
    }

    fn new_state(&mut self) -> &mut InodeState {
        match &mut self.to.1 {
            Some(state) => state,
            None => self.from.1,
        }
    }

    /// Ends the change of both directories.
    fn touch(&mut self, handle: &Handle<'_>) -> Result<()> {
        self.volume.touch_dir(handle, self.from.0, self.from.1)?;
        match &mut self.to.1 {
            Some(state) => self.volume.touch_dir(handle, self.to.0, state),
            None => Ok(()),
        }
    }

    /// Lets `..` of a directory lead to another parent.
    fn reparent(&self, handle: &Handle<'_>, inode: &Inode, state: &InodeState, parent: u64) -> Result<()> {
        let place = self.volume.find(inode, state, b"..")?;
        let place = place.ok_or_else(|| inode.damaged(self.volume, "it has no `..`"))?;
        let target = Target { ino: parent, kind: FileKind::Directory };
        self.volume.redirect_name(handle, inode, state, place, target)
    }

    /// Makes the whiteout, before anything else is changed: it may find no space.
    fn make_whiteout(&self, handle: &Handle<'_>) -> Result<Option<Arc<Inode>>> {
        let Some(node) = self.whiteout else { return Ok(None) };
        let (volume, parent) = (self.volume, self.from.0.ino);
        let inode = volume.make_inode(handle, parent, node)?;
        let mut state = inode.change();
        volume.fill_inode(handle, &inode, &mut state, (parent, node))?;
        volume.store_inode(handle, &inode, &mut state)?;
        drop(state);
        Ok(Some(inode))
    }

    /// Takes the old name, or gives it to the whiteout.
    fn leave(&mut self, handle: &Handle<'_>, old: Place, whiteout: Option<&Arc<Inode>>) -> Result<()> {
        let (volume, (dir, state, ..)) = (self.volume, &mut self.from);
        match whiteout {
            Some(inode) => {
                let target = Target { ino: inode.ino, kind: FileKind::CharDevice };
                volume.redirect_name(handle, dir, state, old, target)
            }
            None => volume.remove_name(handle, dir, state, old),
        }
    }

    fn simple(&mut self) -> Result<()> {
        let (volume, moved) = (self.volume, self.moved()?);
        let mut state = moved.change();
        Volume::check_removal(self.from.1, &state)?;
        let is_dir = state.raw.is_dir();
        if is_dir && self.crosses() {
            let new = self.new_state();
            volume.check_links(new)?;
        }
        let kind = state.raw.kind().ok_or_else(|| moved.damaged(volume, "it is of no kind"))?;
        let handle = volume.begin(2 * NAME_CREDITS)?;
        let whiteout = self.make_whiteout(&handle)?;
        let (new_dir, name) = (self.to.0, self.to.2);
        let target = Target { ino: moved.ino, kind };
        let added = volume.add_name(&handle, new_dir, self.new_state(), name, target);
        if let Err(error) = added {
            let new_dir = Arc::clone(self.to.0);
            volume.store_inode(&handle, &new_dir, self.new_state())?;
            if let Some(inode) = &whiteout {
                volume.undo_inode(&handle, inode, &mut inode.change())?;
            }
            return Err(error);
        }
        // The old name may have moved to another block: adding has perhaps split the one it was in.
        let old = volume.find(self.from.0, self.from.1, self.from.2)?.ok_or(Error::NoEntry)?;
        self.leave(&handle, old, whiteout.as_ref())?;
        if is_dir && self.crosses() {
            self.reparent(&handle, &moved, &state, self.to.0.ino)?;
            Volume::drop_link(self.from.1);
            let new = self.new_state();
            volume.add_link(new);
        }
        state.raw.set_ctime(change_time());
        volume.store_inode(&handle, &moved, &mut state)?;
        self.touch(&handle)
    }

    fn replace(&mut self, target: Place) -> Result<Arc<Inode>> {
        let (volume, moved, gone) = (self.volume, self.moved()?, self.volume.inode(target.ino)?);
        let (mut state, mut gone_state) = lock_two(&moved, &gone);
        let is_dir = state.raw.is_dir();
        rename::check_kinds(RenameFlags::empty(), is_dir, gone_state.raw.is_dir())?;
        if is_dir && !volume.dir_is_empty(&gone, &gone_state)? {
            return Err(Error::NotEmpty);
        }
        Volume::check_removal(self.from.1, &state)?;
        Volume::check_removal(self.new_state(), &gone_state)?;
        // A program that replaces a file by a new one expects the old or the new contents after a crash.
        volume.allocate_delayed(&moved, &mut state)?;
        let kind = state.raw.kind().ok_or_else(|| moved.damaged(volume, "it is of no kind"))?;
        let handle = volume.begin(2 * NAME_CREDITS)?;
        let whiteout = self.make_whiteout(&handle)?;
        let new_dir = Arc::clone(self.to.0);
        let into = Target { ino: moved.ino, kind };
        volume.redirect_name(&handle, &new_dir, self.new_state(), target, into)?;
        self.leave(&handle, self.from.3, whiteout.as_ref())?;
        if is_dir {
            if self.crosses() {
                self.reparent(&handle, &moved, &state, new_dir.ino)?;
            }
            // The moved one replaces a subdirectory of the new parent, and leaves the old.
            Volume::drop_link(self.from.1);
            volume.drop_dir(&handle, &gone, &mut gone_state)?;
        } else {
            volume.drop_name(&handle, &gone, &mut gone_state)?;
        }
        state.raw.set_ctime(change_time());
        volume.store_inode(&handle, &moved, &mut state)?;
        self.touch(&handle)?;
        drop((state, gone_state));
        Ok(gone)
    }

    fn exchange(&mut self, target: Place) -> Result<()> {
        let (volume, moved, other) = (self.volume, self.moved()?, self.volume.inode(target.ino)?);
        let (mut state, mut other_state) = lock_two(&moved, &other);
        Volume::check_removal(self.from.1, &state)?;
        Volume::check_removal(self.new_state(), &other_state)?;
        let none = |inode: &Inode| inode.damaged(volume, "it is of no kind");
        let kind = state.raw.kind().ok_or_else(|| none(&moved))?;
        let other_kind = other_state.raw.kind().ok_or_else(|| none(&other))?;
        let handle = volume.begin(2 * NAME_CREDITS)?;
        let (new_dir, old_dir) = (Arc::clone(self.to.0), Arc::clone(self.from.0));
        let into = Target { ino: moved.ino, kind };
        volume.redirect_name(&handle, &new_dir, self.new_state(), target, into)?;
        let back = Target { ino: other.ino, kind: other_kind };
        volume.redirect_name(&handle, &old_dir, self.from.1, self.from.3, back)?;
        if self.crosses() {
            if state.raw.is_dir() {
                self.reparent(&handle, &moved, &state, new_dir.ino)?;
            }
            if other_state.raw.is_dir() {
                self.reparent(&handle, &other, &other_state, old_dir.ino)?;
            }
            match (state.raw.is_dir(), other_state.raw.is_dir()) {
                (true, false) => {
                    Volume::drop_link(self.from.1);
                    volume.add_link(self.new_state());
                }
                (false, true) => {
                    volume.add_link(self.from.1);
                    let new = self.new_state();
                    Volume::drop_link(new);
                }
                _ => {}
            }
        }
        let now = change_time();
        state.raw.set_ctime(now);
        other_state.raw.set_ctime(now);
        volume.store_inode(&handle, &moved, &mut state)?;
        volume.store_inode(&handle, &other, &mut other_state)?;
        self.touch(&handle)
    }
}

/// Locks two different inodes in order. What an inode is stays so while it has a name.
fn lock_two<'a>(a: &'a Inode, b: &'a Inode) -> (Guard<'a>, Guard<'a>) {
    let place = |inode: &Inode| rename::place_of_lock(inode.state.read().raw.is_dir(), inode.ino);
    if place(a) < place(b) {
        let first = a.change();
        (first, b.change())
    } else {
        let second = b.change();
        (a.change(), second)
    }
}
