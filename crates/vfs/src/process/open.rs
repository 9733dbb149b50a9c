//! `open` and `dup`.

use std::sync::Arc;

use super::{OpenFile, Process};
use crate::attr::FileKind;
use crate::credentials::{Access, Subject};
use crate::directory::Place;
use crate::errno::{Errno, Result};
use crate::flags::OpenFlags;
use crate::mount::LookupOrClaim;
use crate::syscalls::Fd;
use crate::vnode::Vnode;
use crate::walk::{Walk, check_name};

/// What `open` has found.
enum Found {
    /// A file that was there.
    Old(Arc<Vnode>),
    /// A file that it has made: its permission bits do not restrict its maker.
    New(Arc<Vnode>),
}

impl Process {
    /// Takes a descriptor first, as the kernel does: without one it makes no file. Returns whether it has
    /// made a file.
    pub(super) fn open_path(&self, path: &[u8], flags: OpenFlags, mode: u32) -> Result<(Fd, bool)> {
        let flags = check_flags(flags)?;
        let fd = self.files.reserve()?;
        match self.open_file(path, flags, mode) {
            Ok((file, new)) => {
                sim::work(crate::charges::OPEN_FILE, 1);
                self.files.install(fd, file);
                Ok((fd, new))
            }
            Err(errno) => {
                self.files.cancel(fd);
                Err(errno)
            }
        }
    }

    /// The open file, and whether it is new.
    fn open_file(&self, path: &[u8], flags: OpenFlags, mode: u32) -> Result<(Arc<OpenFile>, bool)> {
        if flags.contains(OpenFlags::CREATE) {
            let found = match self.by_design(path, |place| self.find_or_create_at(place, flags, mode)) {
                Some(found) => found,
                None => self.find_or_create(self.walk(path)?, flags, mode)?,
            };
            return match found {
                Found::Old(vnode) => Ok((self.open_existing(vnode, flags)?, false)),
                Found::New(vnode) => {
                    self.mount.file_system().open(vnode.ino, flags)?;
                    Ok((OpenFile::new(vnode, flags), true))
                }
            };
        }
        let walk = self.walk(path)?;
        if flags.contains(OpenFlags::TMPFILE) {
            return Ok((self.open_nameless(walk, flags, mode)?, true));
        }
        let vnode = find_existing(walk, flags)?;
        if flags.contains(OpenFlags::PATH) {
            return Ok((OpenFile::new(vnode, flags), false));
        }
        Ok((self.open_existing(vnode, flags)?, false))
    }

    fn open_existing(&self, vnode: Arc<Vnode>, flags: OpenFlags) -> Result<Arc<OpenFile>> {
        self.check_open(&vnode, flags)?;
        let fs = self.mount.file_system();
        fs.open(vnode.ino, flags)?;
        if flags.contains(OpenFlags::TRUNCATE) && vnode.kind == FileKind::Regular {
            self.set_size(&vnode, 0).inspect_err(|_| fs.release(vnode.ino))?;
        }
        Ok(OpenFile::new(vnode, flags))
    }

    /// Kind, permission and flags of a file that is there.
    fn check_open(&self, vnode: &Vnode, flags: OpenFlags) -> Result<()> {
        let want = wanted_access(flags);
        match vnode.kind {
            FileKind::Symlink => return Err(Errno::ELOOP),
            FileKind::Directory if want.contains(Access::WRITE) => return Err(Errno::EISDIR),
            FileKind::Directory | FileKind::Regular => {}
            FileKind::Fifo | FileKind::Socket | FileKind::CharDevice | FileKind::BlockDevice => {
                self.check(vnode, want)?;
                return Err(Errno::ENXIO); // no process has the other end open
            }
        }
        if want.contains(Access::WRITE) {
            self.mount.check_writable()?;
        }
        self.check(vnode, want)?;
        if flags.contains(OpenFlags::NOATIME) { self.who.check_owner(&vnode.subject()) } else { Ok(()) }
    }

    /// `O_CREAT`: the last component, followed through symbolic links unless `O_EXCL` or `O_NOFOLLOW` says
    /// otherwise.
    fn find_or_create(&self, mut walk: Walk<'_>, flags: OpenFlags, mode: u32) -> Result<Found> {
        loop {
            walk.parent()?;
            let exclusive = flags.contains(OpenFlags::EXCLUSIVE);
            let place = walk.place().ok_or(if exclusive { Errno::EEXIST } else { Errno::EISDIR })?;
            if place.has_slash {
                return Err(Errno::EISDIR);
            }
            check_name(walk.dir(), place.name)?;
            match self.old_or_new(place, mode)? {
                Found::Old(link)
                    if link.kind == FileKind::Symlink
                        && !flags.intersects(OpenFlags::EXCLUSIVE | OpenFlags::NOFOLLOW) =>
                {
                    walk.follow(&link)?;
                }
                Found::Old(old) => return self.found(&place.dir.subject(), old, flags),
                new @ Found::New(_) => return Ok(new),
            }
        }
    }

    /// The same at one name, where no link is followed.
    fn find_or_create_at(&self, place: Place<'_>, flags: OpenFlags, mode: u32) -> Result<Found> {
        match self.old_or_new(place, mode)? {
            Found::Old(old) => self.found(&place.dir.subject(), old, flags),
            new @ Found::New(_) => Ok(new),
        }
    }

    /// `O_CREAT` has found `old` in `dir`; of a symbolic link, that one.
    fn found(&self, dir: &Subject, old: Arc<Vnode>, flags: OpenFlags) -> Result<Found> {
        if flags.contains(OpenFlags::EXCLUSIVE) {
            return Err(Errno::EEXIST);
        }
        if old.is_dir() {
            return Err(Errno::EISDIR);
        }
        self.who.check_found_by_create(dir, &old.subject())?;
        if old.kind == FileKind::Symlink {
            return Err(Errno::ELOOP);
        }
        old.touch(); // until the file is closed
        Ok(Found::Old(old))
    }

    /// What has the name, or a new file.
    fn old_or_new(&self, place: Place<'_>, mode: u32) -> Result<Found> {
        let claim = match self.mount.lookup_or_claim(place)? {
            LookupOrClaim::There(old) => return Ok(Found::Old(old)),
            LookupOrClaim::Free(claim) => claim,
        };
        let dir = place.dir.subject();
        self.check_change(&dir)?;
        let new = self.who.new_inode(&dir, FileKind::Regular, mode, self.umask());
        claim.create(&new).map(Found::New)
    }

    fn open_nameless(&self, walk: Walk<'_>, flags: OpenFlags, mode: u32) -> Result<Arc<OpenFile>> {
        let dir = walk.resolve(!flags.contains(OpenFlags::NOFOLLOW))?;
        if !dir.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        self.check_change(&dir.subject())?;
        let new = self.who.new_inode(&dir.subject(), FileKind::Regular, mode, self.umask());
        let attr = self.mount.file_system().tmpfile(&new)?;
        Ok(OpenFile::new(Vnode::new(&attr, None, self.mount.ways()), flags))
    }

    pub(super) fn dup_file(&self, fd: Fd) -> Result<Fd> {
        let file = self.files.get(fd)?;
        let copy = self.files.reserve();
        match copy {
            Ok(copy) => self.files.install(copy, file),
            Err(_) => self.put(file),
        }
        copy
    }
}

/// `O_PATH` and an open of what must exist. The reference is dropped when the file is closed.
fn find_existing(walk: Walk<'_>, flags: OpenFlags) -> Result<Arc<Vnode>> {
    let found = walk.resolve(!flags.contains(OpenFlags::NOFOLLOW))?;
    if flags.contains(OpenFlags::DIRECTORY) && !found.is_dir() {
        return Err(Errno::ENOTDIR);
    }
    Ok(found.keep())
}

/// `O_TRUNC` needs the right to write, whatever the open mode.
fn wanted_access(flags: OpenFlags) -> Access {
    let mut want = Access::empty();
    want.set(Access::READ, flags.contains(OpenFlags::READ));
    want.set(Access::WRITE, flags.intersects(OpenFlags::WRITE | OpenFlags::TRUNCATE));
    want
}

/// Combinations that the kernel refuses, and flags that others make void.
fn check_flags(flags: OpenFlags) -> Result<OpenFlags> {
    if flags.contains(OpenFlags::PATH) {
        return Ok(flags & (OpenFlags::PATH | OpenFlags::DIRECTORY | OpenFlags::NOFOLLOW));
    }
    let nameless = flags.contains(OpenFlags::TMPFILE);
    let refused = !flags.intersects(OpenFlags::READ | OpenFlags::WRITE)
        || flags.contains(OpenFlags::CREATE | OpenFlags::DIRECTORY)
        || (nameless && (flags.contains(OpenFlags::CREATE) || !flags.contains(OpenFlags::WRITE)));
    if refused { Err(Errno::EINVAL) } else { Ok(flags) }
}
