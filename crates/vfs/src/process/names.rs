//! Calls that change names.
//!
//! Each call walks to the directory, claims the name (`dentry.rs`), checks in the kernel's order (existence,
//! permission, kind), and calls the design under the claim.

use std::sync::Arc;

use super::Process;
use crate::attr::{FileKind, NewInode};
use crate::credentials::{Access, GROUP_EXECUTE, SETGID, SETUID};
use crate::errno::{Errno, Result};
use crate::file_system::Renaming;
use crate::flags::RenameFlags;
use crate::mount::Claim;
use crate::rename;
use crate::vnode::Vnode;
use crate::walk::{Last, PATH_MAX, Walk, check_name};

impl Process {
    /// The right to add names to `dir`, or take them out.
    pub(super) fn check_change(&self, dir: &Vnode) -> Result<()> {
        self.mount.check_writable()?;
        if self.who.is_root() { Ok(()) } else { self.check(dir, Access::WRITE | Access::EXECUTE) }
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

    /// Claims the name at which `walk` stands, which must be free.
    fn claim_new<'w>(&'w self, walk: &'w Walk<'_>, kind: FileKind) -> Result<Claim<'w>> {
        let Last::Name(name) = walk.last() else { return Err(Errno::EEXIST) };
        let claim = self.mount.claim(walk.dir(), name)?;
        if claim.vnode().is_some() {
            return Err(Errno::EEXIST);
        }
        if walk.has_slash() && kind != FileKind::Directory {
            return Err(Errno::ENOENT);
        }
        Ok(claim)
    }

    /// Makes the name at which `walk` stands: `make` gets the claim and what the inode starts with.
    fn make<'w>(
        &'w self,
        walk: &'w Walk<'_>,
        kind: FileKind,
        mode: u32,
        make: impl FnOnce(Claim<'w>, &NewInode) -> Result<()>,
    ) -> Result<()> {
        let claim = self.claim_new(walk, kind)?;
        self.check_change(walk.dir())?;
        make(claim, &self.who.new_inode(&walk.dir().subject(), kind, mode, self.umask()))
    }

    pub(super) fn make_directory(&self, path: &[u8], mode: u32) -> Result<()> {
        let walk = self.walk_to_new(path)?;
        self.make(&walk, FileKind::Directory, mode, Claim::mkdir)
    }

    pub(super) fn make_node(&self, path: &[u8], kind: FileKind, mode: u32, rdev: u64) -> Result<()> {
        match kind {
            FileKind::Directory => return Err(Errno::EPERM),
            FileKind::Symlink => return Err(Errno::EINVAL),
            _ => {}
        }
        let walk = self.walk_to_new(path)?;
        self.make(&walk, kind, mode, |claim, new| {
            let device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
            // Device 0:0 stands for nothing, and every user may make it.
            let whiteout = kind == FileKind::CharDevice && rdev == 0;
            if device && !whiteout && !self.who.is_root() {
                return Err(Errno::EPERM);
            }
            claim.mknod(kind, if device { rdev } else { 0 }, new)
        })
    }

    pub(super) fn make_symlink(&self, target: &[u8], path: &[u8]) -> Result<()> {
        match target {
            [] => return Err(Errno::ENOENT),
            long if long.len() > PATH_MAX => return Err(Errno::ENAMETOOLONG),
            _ => {}
        }
        let walk = self.walk_to_new(path)?;
        // The permission bits of a symbolic link have no meaning, and no mask applies.
        self.make(&walk, FileKind::Symlink, 0o777, |claim, new| {
            claim.symlink(target, &NewInode { perm: 0o777, ..*new })
        })
    }

    pub(super) fn add_name(&self, from: &[u8], to: &[u8]) -> Result<()> {
        let source = self.resolve(from, false)?;
        let walk = self.walk_to_new(to)?;
        let claim = self.claim_new(&walk, FileKind::Regular)?;
        self.check_link_source(&source)?;
        self.check_change(walk.dir())?;
        if source.is_dir() { Err(Errno::EPERM) } else { claim.link(&source) }
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
        let mut walk = self.walk(path)?;
        walk.parent()?;
        let Last::Name(name) = walk.last() else { return Err(Errno::EISDIR) };
        self.mount.check_writable()?; // before the name is looked up, as the kernel does
        check_name(walk.dir(), name)?;
        let claim = self.mount.claim(walk.dir(), name)?;
        let victim = claim.vnode().ok_or(Errno::ENOENT)?;
        if walk.has_slash() {
            return Err(if victim.is_dir() { Errno::EISDIR } else { Errno::ENOTDIR });
        }
        self.check_removal(walk.dir(), victim)?;
        if victim.is_dir() {
            return Err(Errno::EISDIR);
        }
        claim.unlink()
    }

    pub(super) fn remove_directory(&self, path: &[u8]) -> Result<()> {
        let mut walk = self.walk(path)?;
        walk.parent()?;
        let name = match walk.last() {
            Last::Name(name) => name,
            Last::Dot => return Err(Errno::EINVAL),
            Last::DotDot => return Err(Errno::ENOTEMPTY),
            Last::Root => return Err(Errno::EBUSY),
        };
        self.mount.check_writable()?;
        check_name(walk.dir(), name)?;
        let claim = self.mount.claim(walk.dir(), name)?;
        let victim = claim.vnode().ok_or(Errno::ENOENT)?;
        self.check_removal(walk.dir(), victim)?;
        if !victim.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        claim.rmdir()
    }

    /// The right to take the name of `victim` out of `dir`.
    fn check_removal(&self, dir: &Vnode, victim: &Vnode) -> Result<()> {
        self.mount.check_writable()?;
        if self.who.is_root() { Ok(()) } else { self.who.check_removal(&dir.subject(), &victim.subject()) }
    }

    pub(super) fn rename_paths(&self, from: &[u8], to: &[u8], flags: RenameFlags) -> Result<()> {
        let alone = flags.contains(RenameFlags::EXCHANGE);
        if alone && flags.intersects(RenameFlags::NOREPLACE | RenameFlags::WHITEOUT) {
            return Err(Errno::EINVAL);
        }
        let mut old = self.walk(from)?;
        old.parent()?;
        let mut new = self.walk(to)?;
        new.parent()?;
        let Last::Name(old_name) = old.last() else { return Err(Errno::EBUSY) };
        let Last::Name(new_name) = new.last() else {
            return Err(if flags.contains(RenameFlags::NOREPLACE) { Errno::EEXIST } else { Errno::EBUSY });
        };
        self.mount.check_writable()?;
        check_name(old.dir(), old_name)?;
        if Arc::ptr_eq(old.dir(), new.dir()) && old_name == new_name {
            return self.rename_onto_itself(&old, &new, flags);
        }
        if let Err(errno) = check_name(new.dir(), new_name) {
            // A missing old name is reported first.
            return self.mount.lookup(old.dir(), old_name).and(Err(errno));
        }
        let (from, to) = self.mount.claim_two((old.dir(), old_name), (new.dir(), new_name))?;
        self.rename_claimed((&old, from), (&new, to), flags)
    }

    fn rename_claimed(
        &self,
        (old, from): (&Walk<'_>, Claim<'_>),
        (new, to): (&Walk<'_>, Claim<'_>),
        flags: RenameFlags,
    ) -> Result<()> {
        let source = from.vnode().ok_or(Errno::ENOENT)?;
        let differs = rename::check_target(flags, Arc::as_ptr(source), to.vnode().map(Arc::as_ptr))?;
        check_slashes((old, source), (new, to.vnode()), flags)?;
        let is_below = |dir: &Arc<Vnode>, above: &Arc<Vnode>| Ok(above.is_dir() && above.is_ancestor_of(dir));
        // The design checks this again under its own locks.
        rename::check_subtrees::<_, Errno>(flags, (old.dir(), new.dir()), (source, to.vnode()), is_below)?;
        if !differs {
            return Ok(());
        }
        self.check_rename((old.dir(), source), (new.dir(), to.vnode()), flags)?;
        // The umask does not matter to a whiteout, which has no permission.
        let leaves = flags.contains(RenameFlags::WHITEOUT);
        let whiteout = leaves.then(|| self.who.new_inode(&old.dir().subject(), FileKind::CharDevice, 0, 0));
        from.rename(to, Renaming { flags: flags - RenameFlags::WHITEOUT, whiteout: whiteout.as_ref() })
    }

    fn rename_onto_itself(&self, old: &Walk<'_>, new: &Walk<'_>, flags: RenameFlags) -> Result<()> {
        let Last::Name(name) = old.last() else { return Err(Errno::EBUSY) };
        let vnode = self.mount.lookup(old.dir(), name)?;
        rename::check_target(flags, (), Some(()))?;
        check_slashes((old, &vnode), (new, Some(&vnode)), flags)
    }

    fn check_rename(
        &self,
        (old_dir, source): (&Vnode, &Vnode),
        (new_dir, target): (&Vnode, Option<&Arc<Vnode>>),
        flags: RenameFlags,
    ) -> Result<()> {
        self.check_removal(old_dir, source)?;
        match target {
            None => self.check_change(new_dir)?,
            Some(target) => {
                self.check_removal(new_dir, target)?;
                rename::check_kinds(flags, source.is_dir(), target.is_dir())?;
            }
        }
        if old_dir.ino == new_dir.ino {
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
    (old, source): (&Walk<'_>, &Vnode),
    (new, target): (&Walk<'_>, Option<&Arc<Vnode>>),
    flags: RenameFlags,
) -> Result<()> {
    let new_must_be_dir = if flags.contains(RenameFlags::EXCHANGE) {
        new.has_slash() && target.is_some_and(|target| !target.is_dir())
    } else {
        new.has_slash() && !source.is_dir()
    };
    let old_must_be_dir = old.has_slash() && !source.is_dir();
    if new_must_be_dir || old_must_be_dir { Err(Errno::ENOTDIR) } else { Ok(()) }
}
