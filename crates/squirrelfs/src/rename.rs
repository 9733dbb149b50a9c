//! Renaming, by a pointer from the new dentry to the old one: a mount after a crash finishes a rename whose new name leads to the
//! inode, and forgets any other.

use sim::ran;
use sim::sync::Ordering::SeqCst;
use vfs::{RenameFlags, rename};

use crate::dir::Entry;
use crate::inode::{Inode, State};
use crate::layout::LINKS_MAX;
use crate::namei::{Dir, Place};
use crate::object::{Complete, Dentry, Durable, Live, MovedAway, Named, Pointing, Renamed};
use crate::{Volume, mutant};
use base::error::{Error, Result};
use base::opens::LosingName;

/// An inode whose state is locked for a change.
type Locked<'a> = (&'a Inode, sim::RwLockWriteGuard<'a, State>);

/// The dentry with the new name.
enum New<'v> {
    /// It leads nowhere yet.
    Fresh(Dentry<'v, Durable, Named>),
    /// It leads to the inode that is replaced.
    Over(Dentry<'v, Durable, Complete>),
}

/// A rename that is checked, with all locks.
struct Move<'a, 'n> {
    /// Directories of the old and the new name, among `dirs`.
    places: (usize, usize),
    source: Entry,
    target: Option<Entry>,
    moved: Locked<'a>,
    replaced: Option<Locked<'a>>,
    old: &'n [u8],
    new: &'n [u8],
}

impl Volume {
    /// The directory above one.
    fn parent_of(&self, dir: u64) -> Result<u64> {
        match self.inodes.get(dir)?.parent.load(SeqCst) {
            0 => Err(Error::NoEntry),
            parent => Ok(parent),
        }
    }

    /// Whether `above` is directory `dir` or above it. The caller prevents renames between directories.
    fn is_below(&self, dir: u64, above: u64) -> Result<bool> {
        let below = rename::is_below(dir, above, self.layout.inodes, |dir| self.parent_of(dir))?;
        below.ok_or_else(|| Error::Corrupt(format!("directory {dir} is below itself")))
    }

    /// Locks one or two directories in order; the places of `from` and `to` in the result.
    fn lock_dirs(&self, from: u64, to: u64) -> Result<(Vec<Dir<'_>>, usize, usize)> {
        ran::allocate(1);
        if from == to {
            return Ok((vec![self.lock_dir(from)?], 0, 0));
        }
        for dir in [from, to] {
            self.inodes.get(dir)?.state.read().dir()?;
        }
        match rename::is_locked_first(from, to, |dir, above| self.is_below(dir, above))? {
            true => Ok((vec![self.lock_dir(from)?, self.lock_dir(to)?], 0, 1)),
            false => Ok((vec![self.lock_dir(to)?, self.lock_dir(from)?], 1, 0)),
        }
    }

    /// Locks one or two inodes in order.
    fn lock_in_order<'a>(
        &'a self,
        one: &'a Inode,
        other: Option<&'a Inode>,
    ) -> Result<(Locked<'a>, Option<Locked<'a>>)> {
        let Some(other) = other else { return Ok(((one, one.state.write()), None)) };
        // What an inode is stays so while it has a name, and the directories of both names are locked.
        let place = |inode: &Inode| Ok::<_, Error>(rename::place_of_lock(self.is_dir(inode)?, inode.ino));
        if place(one)? < place(other)? {
            let first = one.state.write();
            return Ok(((one, first), Some((other, other.state.write()))));
        }
        let first = other.state.write();
        Ok(((one, one.state.write()), Some((other, first))))
    }

    /// Renames; a file or an empty directory that had the new name loses it.
    pub(crate) fn rename(
        &self,
        (from, old): (u64, &[u8]),
        (to, new): (u64, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        let _rename = (from != to).then(|| self.renames.lock());
        let (mut dirs, src, dst) = self.lock_dirs(from, to)?;
        let source = dirs[src].find(old)?.ok_or(Error::NoEntry)?;
        let target = dirs[dst].find(new)?;
        if !rename::check_target(flags, source.ino, target.map(|target| target.ino))? {
            return Ok(());
        }
        let inos = (source.ino, target.map(|target| target.ino));
        rename::check_subtrees(flags, (from, to), inos, |dir, above| {
            // Only who holds the lock of renames may climb.
            Ok::<_, Error>(from != to && self.is_below(dir, above)?)
        })?;
        let moved = self.inodes.get(source.ino)?;
        let replaced = target.map(|target| self.inodes.get(target.ino)).transpose()?;
        if [Some(moved), replaced].iter().flatten().any(|inode| inode.ino == from || inode.ino == to) {
            return Err(Error::Corrupt(format!("directory {from} or {to} contains itself")));
        }
        let (moved, replaced) = self.lock_in_order(moved, replaced)?;
        check_kinds(&dirs[dst], (&moved.1, replaced.as_ref().map(|(_, state)| &**state)), src != dst)?;
        let work = Move { places: (src, dst), source, target, moved, replaced, old, new };
        match work.target {
            None => {
                let (place, _) = self.find_place(&dirs[dst], 0)?;
                self.change(|| self.move_to(&mut dirs, work, &place))
            }
            Some(target) => self.move_over(&mut dirs, work, target),
        }
    }

    /// Gives a moved inode a name that nothing has.
    fn move_to(&self, dirs: &mut [Dir<'_>], work: Move<'_, '_>, place: &Place) -> Result<()> {
        let ((src, dst), source, (moved, mut state)) = (work.places, work.source, work.moved);
        for at in [src, dst] {
            let dir = &mut dirs[at];
            self.touch(dir.inode, &mut dir.state, true)?;
        }
        self.touch(moved, &mut state, false)?;
        let (is_dir, crosses) = (state.raw.is_dir(), src != dst);
        let named = self.dentry_at(&mut dirs[dst], place)?.name(work.new, is_dir)?;
        let named = self.fence(named.flush());
        if is_dir && crosses {
            let to = &mut dirs[dst];
            to.state.raw.links += 1;
            let _ = self.fence(to.inode.object::<Live>(self).add_link(to.state.raw.links)?.flush());
        }
        let old = Dentry::<Durable, Complete>::found(&self.region, source.at);
        let (renamed, away) = self.swing(old, New::Fresh(named), source.ino)?;
        if is_dir && crosses {
            self.lose_subdirectory(&mut dirs[src], &away)?;
        }
        let complete = self.fence(renamed.clear_source(&away)?.flush());
        let free = self.fence(away.erase(&complete)?.flush());
        dirs[dst].state.dir_mut()?.insert(work.new, Entry { ino: source.ino, at: complete.at() });
        self.set_parent(moved, dirs[dst].inode.ino, is_dir);
        self.forget_name(&mut dirs[src], work.old, &free)
    }

    /// Gives a moved inode the name of another, which loses it.
    fn move_over(&self, dirs: &mut [Dir<'_>], work: Move<'_, '_>, target: Entry) -> Result<()> {
        let Some((replaced, mut lost)) = work.replaced else { return Err(Error::NoEntry) };
        let ((src, dst), source, (moved, state)) = (work.places, work.source, work.moved);
        let is_dir = state.raw.is_dir();
        let links = if is_dir { 0 } else { lost.raw.links.saturating_sub(1) };
        let last = (links == 0).then(|| replaced.opens.losing_name());
        let frees = last.as_ref().is_some_and(|last| last.frees);
        self.change(|| {
            for at in [src, dst] {
                let dir = &mut dirs[at];
                self.touch(dir.inode, &mut dir.state, true)?;
            }
            self.touch(replaced, &mut lost, false)?;
            let old = Dentry::<Durable, Complete>::found(&self.region, source.at);
            let new = Dentry::<Durable, Complete>::found(&self.region, target.at);
            let (renamed, away) = self.swing(old, New::Over(new), source.ino)?;
            if is_dir {
                self.lose_subdirectory(&mut dirs[src], &away)?;
            }
            let dropped = replaced.object::<Live>(self).drop_link(links, &renamed)?.flush();
            let (_, complete) = self.fence((dropped, renamed.clear_source(&away)?.flush()));
            let free = self.fence(away.erase(&complete)?.flush());
            lost.raw.links = links;
            dirs[dst].state.dir_mut()?.redirect(work.new, source.ino);
            self.set_parent(moved, dirs[dst].inode.ino, is_dir);
            self.forget_name(&mut dirs[src], work.old, &free)
        })?;
        last.map(LosingName::done);
        if frees { self.change(|| self.free_dead(replaced, &mut lost)) } else { Ok(()) }
    }

    /// The new dentry points to the old one, leads to its inode, then the old one leads nowhere.
    fn swing<'v>(
        &'v self,
        old: Dentry<'v, Durable, Complete>,
        new: New<'v>,
        number: u64,
    ) -> Result<(Dentry<'v, Durable, Renamed>, Dentry<'v, Durable, MovedAway>)> {
        let new_at = match &new {
            New::Fresh(dentry) => dentry.at(),
            New::Over(dentry) => dentry.at(),
        };
        if self.has(mutant::SOURCE_CLEARED_FIRST) {
            let early = Dentry::<Durable, Complete>::found(&self.region, old.at());
            let _ = self.fence(early.give_way(&Dentry::found(&self.region, new_at))?.flush());
        }
        if self.has(mutant::RENAME_POINTER_LATE) {
            let early = Dentry::<Durable, Pointing>::found(&self.region, new_at);
            let _ = self.fence(early.take_over(number, &old)?.flush());
        }
        let pointing = match new {
            New::Fresh(dentry) => self.fence(dentry.point_to(&old)?.flush()),
            New::Over(dentry) => self.fence(dentry.point_over(&old)?.flush()),
        };
        let renamed = self.fence(pointing.take_over(number, &old)?.flush());
        if self.has(mutant::POINTER_CLEARED_BEFORE_SOURCE) {
            let early = Dentry::<Durable, Renamed>::found(&self.region, new_at);
            let _ = self.fence(early.clear_source(&Dentry::found(&self.region, old.at()))?.flush());
        }
        let away = self.fence(old.give_way(&renamed)?.flush());
        Ok((renamed, away))
    }

    /// A directory has a subdirectory less.
    fn lose_subdirectory(&self, dir: &mut Dir<'_>, gone: &Dentry<'_, Durable, MovedAway>) -> Result<()> {
        let links = dir.state.raw.links.saturating_sub(1);
        let _ = self.fence(dir.inode.object::<Live>(self).drop_link(links, gone)?.flush());
        dir.state.raw.links = links;
        Ok(())
    }

    fn set_parent(&self, moved: &Inode, parent: u64, is_dir: bool) {
        if is_dir && !self.has(mutant::DOTDOT_NOT_MOVED) {
            moved.parent.store(parent, SeqCst);
        }
    }
}

/// Checks that what is moved may take the place of what is replaced, and that the new parent can count it.
fn check_kinds(to: &Dir<'_>, (moved, replaced): (&State, Option<&State>), crosses: bool) -> Result<()> {
    let is_dir = moved.raw.is_dir();
    match replaced {
        Some(old) => {
            rename::check_kinds(RenameFlags::empty(), is_dir, old.raw.is_dir())?;
            match &old.names {
                Some(names) if !names.is_empty() => Err(Error::NotEmpty),
                _ => Ok(()),
            }
        }
        None if is_dir && crosses && to.state.raw.links == LINKS_MAX => Err(Error::TooManyLinks),
        None => Ok(()),
    }
}
