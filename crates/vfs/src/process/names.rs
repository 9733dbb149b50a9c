//! Calls that change names.
//!
//! Each call walks to the directory, claims the name (`dentry.rs`), checks in the kernel's order (existence,
//! permission, kind), and calls the design under the claim. Where the design resolves paths (`paths.rs`), a call on a
//! name that does not lead to a directory is first tried in the directory that the design finds, and walks only if that
//! fails.

use std::sync::Arc;

use super::Process;
use crate::attr::{FileKind, Ino, NewInode};
use crate::credentials::{Access, GROUP_EXECUTE, SETGID, SETUID, Subject};
use crate::directory::Place;
use crate::errno::{Errno, Result};
use crate::file_system::Renaming;
use crate::flags::RenameFlags;
use crate::mount::Claim;
use crate::rename;
use crate::vnode::Vnode;
use crate::walk::{Last, PATH_MAX, Walk, check_name};

impl Process {
    /// The right to add names to `dir`, or take them out.
    pub(super) fn check_change(&self, dir: &Subject) -> Result<()> {
        self.mount.check_writable()?;
        if self.who.is_root() { Ok(()) } else { self.who.check(dir, Access::WRITE | Access::EXECUTE) }
    }

    fn place_by_design<'a>(&self, path: &'a [u8]) -> Option<Place<'a>> {
        self.mount.place_by_design(&self.who, || self.cwd.lock().ino, path)
    }

    /// What a call does at the last name of a path, in the directory that the design finds; none where the walk has to find it or
    /// the call fails, which has changed nothing then.
    pub(super) fn by_design<T>(&self, path: &[u8], call: impl FnOnce(Place<'_>) -> Result<T>) -> Option<T> {
        self.place_by_design(path).and_then(|place| call(place).ok())
    }

    /// Walks to the directory of a name that is to be made.
    fn walk_to_new<'a>(&'a self, path: &'a [u8]) -> Result<Walk<'a>> {
        let mut walk = self.walk(path)?;
        walk.parent()?;
        match walk.last() {
            Last::Name(name) => check_name(walk.dir(), name)?,
            _ => return Err(Errno::EEXIST),
        }
        Ok(walk)
    }

    /// Makes a name that does not lead to a directory.
    fn make_name(&self, path: &[u8], make: impl Fn(Place<'_>) -> Result<()>) -> Result<()> {
        if self.by_design(path, &make).is_some() {
            return Ok(());
        }
        let walk = self.walk_to_new(path)?;
        walk.place().ok_or(Errno::EEXIST).and_then(make)
    }

    /// Claims a name, which must be free.
    fn claim_new<'w>(&'w self, place: Place<'w>, kind: FileKind) -> Result<Claim<'w>> {
        let claim = self.mount.claim(place)?;
        if claim.vnode().is_some() {
            return Err(Errno::EEXIST);
        }
        if place.has_slash && kind != FileKind::Directory {
            return Err(Errno::ENOENT);
        }
        Ok(claim)
    }

    /// Makes a name: `make` gets the claim and what the inode starts with.
    fn make<'w>(
        &'w self,
        place: Place<'w>,
        kind: FileKind,
        mode: u32,
        make: impl FnOnce(Claim<'w>, &NewInode) -> Result<Arc<Vnode>>,
    ) -> Result<()> {
        let claim = self.claim_new(place, kind)?;
        let dir = place.dir.subject();
        self.check_change(&dir)?;
        make(claim, &self.who.new_inode(&dir, kind, mode, self.umask())).map(drop)
    }

    pub(super) fn make_directory(&self, path: &[u8], mode: u32) -> Result<()> {
        let walk = self.walk_to_new(path)?;
        let place = walk.place().ok_or(Errno::EEXIST)?;
        self.make(place, FileKind::Directory, mode, Claim::mkdir)
    }

    pub(super) fn make_node(&self, path: &[u8], kind: FileKind, mode: u32, rdev: u64) -> Result<()> {
        match kind {
            FileKind::Directory => return Err(Errno::EPERM),
            FileKind::Symlink => return Err(Errno::EINVAL),
            _ => {}
        }
        self.make_name(path, |place| {
            self.make(place, kind, mode, |claim, new| {
                let device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
                // Device 0:0 stands for nothing, and every user may make it.
                let whiteout = kind == FileKind::CharDevice && rdev == 0;
                if device && !whiteout && !self.who.is_root() {
                    return Err(Errno::EPERM);
                }
                claim.mknod(kind, if device { rdev } else { 0 }, new)
            })
        })
    }

    pub(super) fn make_symlink(&self, target: &[u8], path: &[u8]) -> Result<()> {
        match target {
            [] => return Err(Errno::ENOENT),
            long if long.len() > PATH_MAX => return Err(Errno::ENAMETOOLONG),
            // No system call can carry it, and a walk that follows the link would make a name of it.
            zero if zero.contains(&0) => return Err(Errno::EINVAL),
            _ => {}
        }
        // The permission bits of a symbolic link have no meaning, and no mask applies.
        let link =
            |claim: Claim<'_>, new: &NewInode| claim.symlink(target, &NewInode { perm: 0o777, ..*new });
        self.make_name(path, |place| self.make(place, FileKind::Symlink, 0o777, link))
    }

    pub(super) fn add_name(&self, from: &[u8], to: &[u8]) -> Result<()> {
        let source = self.resolve(from, false)?;
        self.make_name(to, |place| {
            let claim = self.claim_new(place, FileKind::Regular)?;
            self.check_link_source(&source)?;
            self.check_change(&place.dir.subject())?;
            if source.is_dir() { Err(Errno::EPERM) } else { claim.link(&source) }
        })
    }

    /// Linux's `protected_hardlinks`, which every distribution sets: a user who does not own a file may give
    /// it another name only if they may read and write it, and if it has no set-id bits.
    fn check_link_source(&self, source: &Vnode) -> Result<()> {
        let subject = source.subject();
        if self.who.check_owner(&subject).is_ok() {
            return Ok(());
        }
        let safe = source.kind == FileKind::Regular
            && !gives_rights(subject.perm)
            && self.who.check(&subject, Access::READ | Access::WRITE).is_ok();
        if safe { Ok(()) } else { Err(Errno::EPERM) }
    }

    pub(super) fn remove_file(&self, path: &[u8]) -> Result<()> {
        if self.by_design(path, |place| self.remove_file_at(place)).is_some() {
            return Ok(());
        }
        let mut walk = self.walk(path)?;
        walk.parent()?;
        let place = walk.place().ok_or(Errno::EISDIR)?;
        self.mount.check_writable()?; // before the name is looked up, as the kernel does
        check_name(walk.dir(), place.name)?;
        self.remove_file_at(place)
    }

    fn remove_file_at(&self, place: Place<'_>) -> Result<()> {
        let claim = self.mount.claim(place)?;
        let victim = claim.vnode().ok_or(Errno::ENOENT)?;
        if place.has_slash {
            return Err(if victim.is_dir() { Errno::EISDIR } else { Errno::ENOTDIR });
        }
        self.check_removal(&place.dir.subject(), victim)?;
        if victim.is_dir() {
            return Err(Errno::EISDIR);
        }
        let gone = victim.ino;
        claim.unlink()?;
        self.removed(place, gone);
        Ok(())
    }

    /// A name has lost what it led to, and is not claimed any more.
    fn removed(&self, place: Place<'_>, gone: Ino) {
        self.mount.watch.tell(|watcher| watcher.removed(place.dir.ino(), place.name, gone));
    }

    pub(super) fn remove_directory(&self, path: &[u8]) -> Result<()> {
        let mut walk = self.walk(path)?;
        walk.parent()?;
        let place = walk.place().ok_or(match walk.last() {
            Last::Dot => Errno::EINVAL,
            Last::DotDot => Errno::ENOTEMPTY,
            Last::Name(_) | Last::Root => Errno::EBUSY,
        })?;
        self.mount.check_writable()?;
        check_name(walk.dir(), place.name)?;
        let claim = self.mount.claim(place)?;
        let victim = claim.vnode().ok_or(Errno::ENOENT)?;
        self.check_removal(&place.dir.subject(), victim)?;
        if !victim.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        let gone = victim.ino;
        claim.rmdir()?;
        self.removed(place, gone);
        Ok(())
    }

    /// The right to take the name of `victim` out of `dir`.
    fn check_removal(&self, dir: &Subject, victim: &Vnode) -> Result<()> {
        self.mount.check_writable()?;
        if self.who.is_root() { Ok(()) } else { self.who.check_removal(dir, &victim.subject()) }
    }

    pub(super) fn rename_paths(&self, from: &[u8], to: &[u8], flags: RenameFlags) -> Result<()> {
        let alone = flags.contains(RenameFlags::EXCHANGE);
        if alone && flags.intersects(RenameFlags::NOREPLACE | RenameFlags::WHITEOUT) {
            return Err(Errno::EINVAL);
        }
        if self.rename_by_design(from, to, flags).is_some() {
            return Ok(());
        }
        let mut old = self.walk(from)?;
        old.parent()?;
        let mut new = self.walk(to)?;
        new.parent()?;
        let from = old.place().ok_or(Errno::EBUSY)?;
        let taken = if flags.contains(RenameFlags::NOREPLACE) { Errno::EEXIST } else { Errno::EBUSY };
        let to = new.place().ok_or(taken)?;
        self.mount.check_writable()?;
        check_name(old.dir(), from.name)?;
        if Arc::ptr_eq(old.dir(), new.dir()) && from.name == to.name {
            return self.rename_onto_itself((old.dir(), from), to, flags);
        }
        if let Err(errno) = check_name(new.dir(), to.name) {
            // A missing old name is reported first.
            return self.mount.lookup(old.dir(), from.name).and(Err(errno));
        }
        self.rename_places(from, to, flags)
    }

    /// Renames in the directories that the design finds, where no name leads to a directory.
    fn rename_by_design(&self, from: &[u8], to: &[u8], flags: RenameFlags) -> Option<()> {
        let (from, to) = (self.place_by_design(from)?, self.place_by_design(to)?);
        let is_itself = from.dir.ino() == to.dir.ino() && from.name == to.name;
        if is_itself { None } else { self.rename_places(from, to, flags).ok() }
    }

    fn rename_places(&self, old: Place<'_>, new: Place<'_>, flags: RenameFlags) -> Result<()> {
        let (from, to) = self.mount.claim_two(old, new)?;
        let source = from.vnode().ok_or(Errno::ENOENT)?;
        let differs = rename::check_target(flags, Arc::as_ptr(source), to.vnode().map(Arc::as_ptr))?;
        check_slashes((old, source), (new, to.vnode()), flags)?;
        if let (Some(old), Some(new)) = (old.dir.vnode(), new.dir.vnode()) {
            let is_below =
                |dir: &Arc<Vnode>, above: &Arc<Vnode>| Ok(above.is_dir() && above.is_ancestor_of(dir));
            // The design checks this again under its own locks.
            rename::check_subtrees::<_, Errno>(flags, (old, new), (source, to.vnode()), is_below)?;
        } else if source.is_dir() || to.vnode().is_some_and(|target| target.is_dir()) {
            return Err(Errno::EISDIR);
        }
        if !differs {
            return Ok(());
        }
        self.check_rename((old, source), (new, to.vnode()), flags)?;
        // The umask does not matter to a whiteout, which has no permission.
        let leaves = flags.contains(RenameFlags::WHITEOUT);
        let whiteout = leaves.then(|| self.who.new_inode(&old.dir.subject(), FileKind::CharDevice, 0, 0));
        let gone = to.vnode().filter(|_| !flags.contains(RenameFlags::EXCHANGE)).map(|gone| gone.ino);
        from.rename(to, Renaming { flags: flags - RenameFlags::WHITEOUT, whiteout: whiteout.as_ref() })?;
        gone.inspect(|gone| self.removed(new, *gone));
        Ok(())
    }

    fn rename_onto_itself(
        &self,
        (dir, old): (&Arc<Vnode>, Place<'_>),
        new: Place<'_>,
        flags: RenameFlags,
    ) -> Result<()> {
        let vnode = self.mount.lookup(dir, old.name)?;
        rename::check_target(flags, (), Some(()))?;
        check_slashes((old, &vnode), (new, Some(&vnode)), flags)
    }

    fn check_rename(
        &self,
        (old, source): (Place<'_>, &Vnode),
        (new, target): (Place<'_>, Option<&Arc<Vnode>>),
        flags: RenameFlags,
    ) -> Result<()> {
        self.check_removal(&old.dir.subject(), source)?;
        match target {
            None => self.check_change(&new.dir.subject())?,
            Some(target) => {
                self.check_removal(&new.dir.subject(), target)?;
                rename::check_kinds(flags, source.is_dir(), target.is_dir())?;
            }
        }
        if old.dir.ino() == new.dir.ino() {
            return Ok(());
        }
        // A directory that moves to another gets a new "..".
        let moved =
            [Some(source), target.filter(|_| flags.contains(RenameFlags::EXCHANGE)).map(|target| &**target)];
        moved
            .into_iter()
            .flatten()
            .filter(|vnode| vnode.is_dir())
            .try_for_each(|dir| self.check(dir, Access::WRITE))
    }
}

/// Set-user-id, or set-group-id that is not a mark of mandatory locking.
fn gives_rights(perm: u32) -> bool {
    perm & SETUID != 0 || perm & (SETGID | GROUP_EXECUTE) == SETGID | GROUP_EXECUTE
}

/// A slash may follow only the name of a directory.
fn check_slashes(
    (old, source): (Place<'_>, &Vnode),
    (new, target): (Place<'_>, Option<&Arc<Vnode>>),
    flags: RenameFlags,
) -> Result<()> {
    let new_must_be_dir = if flags.contains(RenameFlags::EXCHANGE) {
        new.has_slash && target.is_some_and(|target| !target.is_dir())
    } else {
        new.has_slash && !source.is_dir()
    };
    let old_must_be_dir = old.has_slash && !source.is_dir();
    if new_must_be_dir || old_must_be_dir { Err(Errno::ENOTDIR) } else { Ok(()) }
}
