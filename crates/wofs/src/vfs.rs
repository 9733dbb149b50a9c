//! The adapter to the interface of designs: where errors become errno.
//!
//! Left out, as the format has no place for it: extended attributes, fallocate, files without a name (`O_TMPFILE`), all
//! `EOPNOTSUPP`; exchanging two names and whiteouts (`EINVAL`), mapped files (`ENODEV`), names of more than 91 bytes
//! (`ENAMETOOLONG`).

use std::sync::Arc;

use ::vfs::{
    Attr, DirEntry, Errno, FileKind, FileSystem, Ino, IoFlags, NewInode, OpenFlags, RenameFlags, Renaming,
    Result, SeekTo, SetAttr, SetTime, StatFs, Written,
};
use media::nvmm::Region;
use sim::sync::{AtomicU64, Ordering::SeqCst};
use sim::{Mutex, Run, ran};

use crate::alloc::{Slot, Space};
use crate::inode::{Inodes, now, pack};
use crate::layout::{BLOCK, FILE_MAX, Geometry, INODES_MAX, Kind, NAME_MAX, PINNED, ROOT};
use crate::mutant::Rules;
use crate::namei::New;
use crate::parts;
use crate::superblock;
use crate::traffic::{Regulation, Traffic};
use base::error::Error;

/// The options of a mount.
pub(crate) struct Ways {
    /// Blocks that an append takes at once.
    pub(crate) extend: u64,
    /// Tables of names and inodes grow.
    pub(crate) grows: bool,
    /// The rule for writers that sleep.
    pub(crate) regulation: Option<&'static Regulation>,
}

/// A mounted file system.
pub(crate) struct Wofs {
    pub(crate) region: Arc<Region>,
    pub(crate) inodes: Inodes,
    pub(crate) space: Mutex<Space>,
    pub(crate) traffic: Traffic,
    pub(crate) renames: Mutex<()>,
    /// The number of the next package.
    pub(crate) next: AtomicU64,
    /// Blocks that an append takes at once.
    pub(crate) extend: u64,
    /// Tables of names grow.
    pub(crate) grows: bool,
    pub(crate) rules: Rules,
}

impl Wofs {
    /// Takes so many numbers for packages, which follow one another; returns the first.
    pub(crate) fn numbers(&self, count: u64) -> u64 {
        self.next.fetch_add(count, SeqCst)
    }

    /// Takes a place for a package.
    pub(crate) fn take(&self, kind: Kind) -> base::error::Result<Slot> {
        let _part = sim::part(&parts::RESERVE);
        self.space.lock().take(kind)
    }

    /// Takes so many blocks, as [`Space::take_blocks`] does.
    pub(crate) fn take_blocks(&self, count: u64, more: u64) -> base::error::Result<(Vec<Run>, u64)> {
        let _part = sim::part(&parts::BLOCKS);
        self.space.lock().take_blocks(count, more)
    }

    /// Stores an ATTR of each inode whose times no package of its own says.
    fn save_times(&self) {
        for inode in self.inodes.all() {
            let mut state = inode.write();
            let at_risk = state.times_at_risk || state.access_at_risk;
            if at_risk && state.named && self.store_attributes(&inode, &mut state, None).is_ok() {
                (state.times_at_risk, state.access_at_risk) = (false, false);
            }
        }
    }
}

/// Refuses what has no contents that a program may read or change: symbolic links have theirs in another way.
fn check_file(kind: FileKind) -> Result<()> {
    match kind {
        FileKind::Regular => Ok(()),
        FileKind::Directory => Err(Errno::EISDIR),
        _ => Err(Errno::EINVAL),
    }
}

fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_MAX { Err(Errno::ENAMETOOLONG) } else { Ok(()) }
}

fn check_names(names: &[&[u8]]) -> Result<()> {
    names.iter().try_for_each(|name| check_name(name))
}

impl FileSystem for Wofs {
    fn root(&self) -> Ino {
        Ino(u64::from(ROOT))
    }

    fn statfs(&self) -> Result<StatFs> {
        let geometry = Geometry::of(self.region.len());
        let (files, inodes) = (u64::from(INODES_MAX - ROOT), self.inodes.len());
        Ok(StatFs {
            frsize: BLOCK as u32,
            blocks: geometry.blocks - geometry.first() - PINNED,
            blocks_free: self.space.lock().free_blocks(),
            files,
            files_free: files.saturating_sub(inodes),
            name_max: NAME_MAX as u32,
        })
    }

    fn sync(&self) -> Result<()> {
        // Every change was durable when its call returned.
        self.region.fence();
        Ok(())
    }

    fn unmount(&self) -> Result<()> {
        self.save_times();
        Ok(superblock::save(&self.region, Some(self.next.load(SeqCst)))?)
    }

    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        check_name(name)?;
        let _part = sim::part(&parts::LOOKUP);
        let dir = self.inodes.get(parent)?;
        let held = dir.read();
        let entry = held.dir()?.find(name).ok_or(Error::NoEntry)?;
        let inode = self.inodes.search(entry.ino)?;
        let state = inode.read();
        Ok(inode.attr(&state))
    }

    fn create(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.mknod(parent, name, FileKind::Regular, 0, new)
    }

    fn mkdir(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.mknod(parent, name, FileKind::Directory, 0, new)
    }

    fn mknod(&self, parent: Ino, name: &[u8], kind: FileKind, rdev: u64, new: &NewInode) -> Result<Attr> {
        check_name(name)?;
        Ok(self.make((parent, name), New { kind, perm: new.perm, owner: new.owner, rdev, target: b"" })?)
    }

    fn symlink(&self, parent: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Attr> {
        check_name(name)?;
        if target.len() as u64 > BLOCK {
            return Err(Errno::ENAMETOOLONG);
        }
        let (kind, rdev) = (FileKind::Symlink, 0);
        Ok(self.make((parent, name), New { kind, perm: new.perm, owner: new.owner, rdev, target })?)
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        let inode = self.inodes.get(ino)?;
        if inode.kind != FileKind::Symlink {
            return Err(Errno::EINVAL);
        }
        let state = inode.read_used()?;
        let contents = state.contents()?;
        let mut target = ran::zeroed(contents.size.min(BLOCK) as usize);
        self.read_bytes(contents, 0, &mut target)?;
        Ok(target)
    }

    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        check_name(name)?;
        Ok(self.add_link(ino, (parent, name))?)
    }

    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        check_name(name)?;
        Ok(self.remove((parent, name), false)?)
    }

    fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        check_name(name)?;
        Ok(self.remove((parent, name), true)?)
    }

    fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), how: Renaming<'_>) -> Result<()> {
        check_names(&[from.1, to.1])?;
        if how.whiteout.is_some() || how.flags.contains(RenameFlags::EXCHANGE) {
            return Err(Errno::EINVAL);
        }
        Ok(self.rename_name(from, to, how.flags)?)
    }

    fn readdir(&self, ino: Ino, cursor: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let inode = self.inodes.get(ino)?;
        let entries = {
            let state = inode.read_used()?;
            state.dir()?.from(cursor)
        };
        let (own, parent) = (u64::from(inode.key.0), u64::from(inode.parent()));
        let kind = Some(FileKind::Directory);
        let dots: [(u64, u64, &[u8]); 2] = [(0, own, b"."), (1, parent, b"..")];
        for (cookie, number, name) in dots.into_iter().filter(|(cookie, ..)| *cookie >= cursor) {
            if !sink(DirEntry { ino: Ino(number), kind, name, next: cookie + 1 }) {
                return Ok(());
            }
        }
        for (cookie, entry, name) in &entries {
            let ino = Ino(u64::from(entry.ino));
            if !sink(DirEntry { ino, kind: Some(entry.kind), name, next: cookie + 1 }) {
                break;
            }
        }
        Ok(())
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        let inode = self.inodes.get(ino)?;
        let state = inode.read_used()?;
        Ok(inode.attr(&state))
    }

    fn setattr(&self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let inode = self.inodes.get(ino)?;
        let mut state = inode.write_used()?;
        if let Some(size) = set.size {
            check_file(inode.kind)?;
            if size > FILE_MAX {
                return Err(Errno::EFBIG);
            }
        }
        let (old, now) = (state.attributes, now());
        let time = |time: SetTime| match time {
            SetTime::Now => now,
            SetTime::To(time) => pack(time),
        };
        let new = &mut state.attributes;
        new.mode = new.mode & !0o7777 | set.perm.unwrap_or(new.mode) & 0o7777;
        (new.uid, new.gid) = (set.uid.unwrap_or(new.uid), set.gid.unwrap_or(new.gid));
        (new.atime, new.ctime) = (set.atime.map_or(new.atime, time), now);
        new.mtime = set.mtime.map_or(if set.size.is_some() { now } else { new.mtime }, time);
        if let Err(error) = self.store_attributes(&inode, &mut state, set.size) {
            state.attributes = old;
            return Err(error.into());
        }
        (state.times_at_risk, state.access_at_risk) = (false, false);
        Ok(inode.attr(&state))
    }

    fn accessed(&self, ino: Ino) -> Result<()> {
        let inode = self.inodes.get(ino)?;
        let mut state = inode.write_used()?;
        // A read stores nothing: an unmount does.
        (state.attributes.atime, state.access_at_risk) = (now(), true);
        Ok(())
    }

    fn open(&self, ino: Ino, _: OpenFlags) -> Result<()> {
        let inode = self.inodes.get(ino)?;
        if inode.opens.add() {
            return Ok(());
        }
        let state = inode.write_used()?;
        if !state.named && !inode.opens.is_open() {
            return Err(Errno::ENOENT);
        }
        inode.opens.add_locked();
        Ok(())
    }

    fn release(&self, ino: Ino) {
        let Ok(inode) = self.inodes.get(ino) else { return };
        self.region.fence();
        let closed = inode.opens.remove();
        if closed.last {
            let mut state = inode.write();
            // Another task may have opened it meanwhile, and closed it again.
            if !inode.opens.is_open() {
                self.space.lock().unreserve(inode.key);
            }
            if closed.frees && !state.is_free && inode.opens.lose_name() {
                self.evict(&inode, &mut state);
            }
        }
    }

    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8], _: IoFlags) -> Result<usize> {
        let inode = self.inodes.get(ino)?;
        check_file(inode.kind)?;
        let state = inode.read_used()?;
        Ok(self.read_bytes(state.contents()?, offset, buffer)?)
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], flags: IoFlags) -> Result<Written> {
        let inode = self.inodes.get(ino)?;
        check_file(inode.kind)?;
        let offset = self.write_bytes(&inode, offset, data, flags)?;
        Ok(Written { offset, bytes: data.len() })
    }

    fn seek(&self, ino: Ino, offset: u64, to: SeekTo) -> Result<u64> {
        let inode = self.inodes.get(ino)?;
        check_file(inode.kind)?;
        let state = inode.read_used()?;
        let contents = state.contents()?;
        if offset >= contents.size {
            return Err(Errno::ENXIO);
        }
        let mut at = offset / BLOCK;
        let found = match to {
            SeekTo::Data => contents.map.next_from(at).ok_or(Errno::ENXIO)?,
            SeekTo::Hole => {
                while let Some(piece) = contents.map.find(at) {
                    at += piece.blocks;
                }
                at
            }
        };
        let found = (found * BLOCK).max(offset);
        if to == SeekTo::Data && found >= contents.size {
            Err(Errno::ENXIO)
        } else {
            Ok(found.min(contents.size))
        }
    }

    fn fsync(&self, ino: Ino, _: bool) -> Result<()> {
        self.inodes.get(ino)?;
        self.region.fence();
        Ok(())
    }
}
