//! The adapter: checks a call against the state, and makes the change that it comes to.

use ::vfs::{
    Attr, DirEntry, Errno, FallocateMode, FileKind, FileSystem, Ino, IoFlags, NewInode, OpenFlags, Owner,
    Renaming, Result, SeekTo, SetAttr, SetTime, StatFs, Timestamp, Written, XattrMode,
};
use sim::{ByteRun, Bytes, LockClass, RwLock, RwLockReadGuard, RwLockWriteGuard, Work, ran};

use super::inode::{BLOCK_COST, Body, Inode};
use super::log::Volume;
use super::namei::{LINKS_MAX, rename_change};
use super::state::{BLOCK, Change, ROOT, Time, now};
use base::error::Result as DesignResult;

pub(super) static VOLUME: LockClass = LockClass::new("redo.volume").under(&[]);

/// Largest file: block numbers and sizes stay far from the end of 64 bits.
const FILE_MAX: u64 = 1 << 60;
/// What an inode with its name costs beside the bytes of the name: see `state.rs`.
const NEW_COST: u64 = 256;

/// A mounted file system.
pub(super) struct Redo(RwLock<Volume>);

impl Redo {
    pub(super) fn new(volume: Volume) -> Self {
        Self(RwLock::new(&VOLUME, volume))
    }

    fn read(&self) -> RwLockReadGuard<'_, Volume> {
        sim::work(Work::STEP, 1);
        self.0.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Volume> {
        sim::work(Work::STEP, 1);
        self.0.write()
    }

    fn make(&self, parent: Ino, name: &[u8], node: (u32, u64, &[u8]), owner: Owner) -> Result<Attr> {
        let mut volume = self.write();
        if volume.state.find(parent.0, name)?.is_some() {
            return Err(Errno::EEXIST);
        }
        let (mode, rdev, target) = node;
        let is_dir = FileKind::from_mode(mode) == Some(FileKind::Directory);
        if is_dir && volume.state.inode(parent.0)?.links >= LINKS_MAX {
            return Err(Errno::EMLINK);
        }
        let ino = volume.state.next;
        let growth = NEW_COST + (name.len() + target.len()) as u64;
        let (name, target, owner) = (ran::copied(name), ran::copied(target), (owner.uid, owner.gid));
        volume.change(&Change::Make { ino, parent: parent.0, name, mode, owner, rdev, target }, growth)?;
        Ok(attr(ino, volume.state.inode(ino)?))
    }
}

fn timestamp((secs, nanos): Time) -> Timestamp {
    Timestamp { secs, nanos }
}

fn time(time: Option<SetTime>, old: Time) -> Time {
    match time {
        None => old,
        Some(SetTime::Now) => now(),
        Some(SetTime::To(time)) => (time.secs, time.nanos),
    }
}

/// Sets all attributes but the size.
fn set_attributes(volume: &mut Volume, ino: Ino, set: &SetAttr) -> Result<()> {
    let inode = volume.state.inode(ino.0)?;
    let change = Change::Attributes {
        ino: ino.0,
        mode: set.perm.unwrap_or(inode.mode),
        owner: (set.uid.unwrap_or(inode.uid), set.gid.unwrap_or(inode.gid)),
        atime: time(set.atime, inode.atime),
        mtime: time(set.mtime, inode.mtime),
    };
    Ok(volume.change(&change, 0)?)
}

fn attr(ino: u64, inode: &Inode) -> Attr {
    let (size, blocks) = match &inode.body {
        Body::File { size, blocks } => (*size, blocks.len() as u64),
        Body::Symlink(target) => (target.len() as u64, 0),
        Body::Dir(dir) => (dir.names.len() as u64, 0),
        Body::Node => (0, 0),
    };
    Attr {
        ino: Ino(ino),
        kind: FileKind::from_mode(inode.mode).unwrap_or(FileKind::Regular),
        perm: inode.mode & 0o7777,
        nlink: inode.links,
        owner: Owner { uid: inode.uid, gid: inode.gid },
        rdev: inode.rdev,
        size,
        blocks: blocks * (BLOCK / 512),
        blksize: BLOCK as u32,
        atime: timestamp(inode.atime),
        mtime: timestamp(inode.mtime),
        ctime: timestamp(inode.ctime),
        // Numbers are given once.
        generation: 0,
    }
}

/// What new blocks of a range cost. `None` beyond what any region holds.
fn new_blocks(inode: &Inode, offset: u64, len: u64) -> DesignResult<u64> {
    let range = offset / BLOCK..offset.saturating_add(len).div_ceil(BLOCK);
    let there = inode.file()?.1.range(range.clone()).count() as u64;
    Ok((range.end - range.start - there).saturating_mul(BLOCK_COST))
}

impl FileSystem for Redo {
    fn root(&self) -> Ino {
        Ino(ROOT)
    }

    fn statfs(&self) -> Result<StatFs> {
        let volume = self.read();
        let (blocks, blocks_free) = volume.blocks();
        let files = volume.state.inodes.len() as u64;
        let files_free = blocks_free * (BLOCK / NEW_COST);
        Ok(StatFs {
            frsize: BLOCK as u32,
            blocks,
            blocks_free,
            files: files + files_free,
            files_free,
            name_max: 255,
        })
    }

    fn blocks_available(&self, space: &StatFs) -> u64 {
        (space.blocks_free * BLOCK).saturating_sub(2 * NEW_COST) / BLOCK_COST
    }

    fn sync(&self) -> Result<()> {
        // Every change was durable when its call returned.
        Ok(())
    }

    fn unmount(&self) -> Result<()> {
        Ok(self.write().end()?)
    }

    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        let volume = self.read();
        let ino = volume.state.child(parent.0, name)?;
        Ok(attr(ino, volume.state.inode(ino)?))
    }

    fn create(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.mknod(parent, name, FileKind::Regular, 0, new)
    }

    fn mkdir(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.mknod(parent, name, FileKind::Directory, 0, new)
    }

    fn mknod(&self, parent: Ino, name: &[u8], kind: FileKind, rdev: u64, new: &NewInode) -> Result<Attr> {
        self.make(parent, name, (kind.mode_bits() | new.perm & 0o7777, rdev, b""), new.owner)
    }

    fn symlink(&self, parent: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Attr> {
        let mode = FileKind::Symlink.mode_bits() | new.perm & 0o7777;
        self.make(parent, name, (mode, 0, target), new.owner)
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        match &self.read().state.inode(ino.0)?.body {
            Body::Symlink(target) => Ok(ran::copied(target)),
            _ => Err(Errno::EINVAL),
        }
    }

    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        let mut volume = self.write();
        if volume.state.find(parent.0, name)?.is_some() {
            return Err(Errno::EEXIST);
        }
        let inode = volume.state.inode(ino.0)?;
        match inode.links {
            _ if inode.is_dir() => return Err(Errno::EPERM),
            0 if !inode.nameless => return Err(Errno::ENOENT),
            LINKS_MAX.. => return Err(Errno::EMLINK),
            _ => {}
        }
        let growth = NEW_COST + name.len() as u64;
        volume.change(&Change::Link { ino: ino.0, parent: parent.0, name: ran::copied(name) }, growth)?;
        Ok(attr(ino.0, volume.state.inode(ino.0)?))
    }

    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        let mut volume = self.write();
        let ino = volume.state.child(parent.0, name)?;
        if volume.state.inode(ino)?.is_dir() {
            return Err(Errno::EISDIR);
        }
        Ok(volume.change(&Change::Remove { parent: parent.0, name: ran::copied(name) }, 0)?)
    }

    fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        let mut volume = self.write();
        let ino = volume.state.child(parent.0, name)?;
        volume.state.dir(ino)?;
        volume.state.inode(ino)?.check_empty()?;
        Ok(volume.change(&Change::Remove { parent: parent.0, name: ran::copied(name) }, 0)?)
    }

    fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), how: Renaming<'_>) -> Result<()> {
        let mut volume = self.write();
        let Some(change) = rename_change(&volume, from, to, how.flags)? else { return Ok(()) };
        let (change, needed) = match (change, how.whiteout) {
            (Change::Rename { from, to }, Some(whiteout)) => {
                let (names, owner) = (from.1.len() + to.1.len(), (whiteout.owner.uid, whiteout.owner.gid));
                let (ino, perm) = (volume.state.next, whiteout.perm);
                (Change::RenameWhiteout { from, to, ino, perm, owner }, 2 * NEW_COST + names as u64)
            }
            (change, _) => (change, NEW_COST + to.1.len() as u64),
        };
        Ok(volume.change(&change, needed)?)
    }

    fn readdir(&self, ino: Ino, cursor: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let entries = {
            let volume = self.read();
            let dir = volume.state.dir(ino.0)?;
            let dots = [(ran::copied(b"."), (ino.0, 0)), (ran::copied(b".."), (dir.parent, 1))];
            let names = dir.names.iter().map(|(name, entry)| (ran::copied(name), *entry));
            let ahead = dots.into_iter().chain(names).filter(|(_, (_, cookie))| *cookie >= cursor);
            let kind = |ino| volume.state.inode(ino).ok().and_then(|inode| FileKind::from_mode(inode.mode));
            let mut entries =
                ran::collected(ahead.map(|(name, (ino, cookie))| (cookie, ino, kind(ino), name)));
            sim::work(Work::STEP, entries.len() as u64);
            entries.sort_unstable_by_key(|(cookie, ..)| *cookie);
            entries
        };
        for (cookie, ino, kind, name) in &entries {
            if !sink(DirEntry { ino: Ino(*ino), kind: *kind, name, next: cookie + 1 }) {
                break;
            }
        }
        Ok(())
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        Ok(attr(ino.0, self.read().state.inode(ino.0)?))
    }

    fn setattr(&self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let mut volume = self.write();
        let mut rest = SetAttr { size: None, ..*set };
        if let Some(size) = set.size {
            volume.state.inode(ino.0)?.file()?;
            if size > FILE_MAX {
                return Err(Errno::EFBIG);
            }
            if let Some(perm) = rest.perm.take() {
                // The set-id bits that a truncation clears go first: no crash may leave them with other contents.
                set_attributes(&mut volume, ino, &SetAttr { perm: Some(perm), ..SetAttr::default() })?;
            }
            volume.change(&Change::Resize { ino: ino.0, size }, 0)?;
        }
        if rest != SetAttr::default() || set.size.is_none() {
            set_attributes(&mut volume, ino, &rest)?;
        }
        Ok(attr(ino.0, volume.state.inode(ino.0)?))
    }

    fn accessed(&self, ino: Ino) -> Result<()> {
        Ok(self.write().change(&Change::Accessed { ino: ino.0 }, 0)?)
    }

    fn open(&self, ino: Ino, _: OpenFlags) -> Result<()> {
        self.write().state.inode_mut(ino.0)?.opens += 1;
        Ok(())
    }

    fn release(&self, ino: Ino) {
        self.write().release(ino.0);
    }

    fn tmpfile(&self, new: &NewInode) -> Result<Attr> {
        let mut volume = self.write();
        let (ino, mode) = (volume.state.next, FileKind::Regular.mode_bits() | new.perm & 0o7777);
        let (owner, name, target) = ((new.owner.uid, new.owner.gid), Vec::new(), Vec::new());
        volume.change(&Change::Make { ino, parent: ROOT, name, mode, owner, rdev: 0, target }, NEW_COST)?;
        Ok(attr(ino, volume.state.inode(ino)?))
    }

    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8], _: IoFlags) -> Result<usize> {
        let volume = self.read();
        let (size, blocks) = volume.state.inode(ino.0)?.file()?;
        let len = size.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let out = &mut buffer[..len];
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let within = (at % BLOCK) as usize;
            let piece = &mut out[done..len.min(done + BLOCK as usize - within)];
            let block = blocks.get(&(at / BLOCK));
            match block {
                Some(block) => block.copied_out(piece.len() as u64),
                None => sim::copy(piece.len() as u64),
            }
            let held = block.and_then(|block| block.get(within..)).unwrap_or_default();
            let held = &held[..held.len().min(piece.len())];
            piece[..held.len()].copy_from_slice(held);
            piece[held.len()..].fill(0);
            done += piece.len();
        }
        Ok(len)
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], flags: IoFlags) -> Result<Written> {
        let mut volume = self.write();
        let (size, _) = volume.state.inode(ino.0)?.file()?;
        let offset = if flags.contains(IoFlags::APPEND) { size } else { offset };
        if offset.checked_add(data.len() as u64).is_none_or(|end| end > FILE_MAX) {
            return Err(Errno::EFBIG);
        }
        if data.is_empty() {
            return Ok(Written { offset, bytes: 0 });
        }
        let growth = new_blocks(volume.state.inode(ino.0)?, offset, data.len() as u64)?;
        volume.change(&Change::Write { ino: ino.0, offset, data: ran::copied(data) }, growth)?;
        volume.state.inode(ino.0)?.copied_in(ByteRun::new(offset, data.len() as u64))?;
        Ok(Written { offset, bytes: data.len() })
    }

    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64) -> Result<()> {
        let (punch, zero) =
            (mode.contains(FallocateMode::PUNCH_HOLE), mode.contains(FallocateMode::ZERO_RANGE));
        mode.check(len)?;
        let mut volume = self.write();
        let inode = volume.state.inode(ino.0)?;
        let (size, _) = inode.file()?;
        let end = offset.checked_add(len).filter(|end| *end <= FILE_MAX).ok_or(Errno::EFBIG)?;
        let growth = if punch { 0 } else { new_blocks(inode, offset, len)? };
        let size = if mode.contains(FallocateMode::KEEP_SIZE) { size } else { size.max(end) };
        let ino = ino.0;
        if punch {
            return Ok(volume.change(&Change::Punch { ino, offset, len }, 0)?);
        }
        Ok(volume.change(&Change::Allocate { ino, offset, len, size, zero }, growth)?)
    }

    fn seek(&self, ino: Ino, offset: u64, to: SeekTo) -> Result<u64> {
        let volume = self.read();
        let (size, blocks) = volume.state.inode(ino.0)?.file()?;
        if offset >= size {
            return Err(Errno::ENXIO);
        }
        let first = offset / BLOCK;
        let found = match to {
            SeekTo::Data => *blocks.range(first..).next().ok_or(Errno::ENXIO)?.0,
            SeekTo::Hole => {
                let run = blocks.range(first..).zip(first..).take_while(|((block, _), at)| *block == at);
                first + run.count() as u64
            }
        };
        let found = (found * BLOCK).max(offset);
        if to == SeekTo::Data && found >= size { Err(Errno::ENXIO) } else { Ok(found.min(size)) }
    }

    fn fsync(&self, ino: Ino, _: bool) -> Result<()> {
        self.read().state.inode(ino.0)?;
        Ok(())
    }

    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.read().state.inode(ino.0)?.xattrs.get(name).map(|value| ran::copied(value)).ok_or(Errno::ENODATA)
    }

    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let mut volume = self.write();
        match (mode, volume.state.inode(ino.0)?.xattrs.contains_key(name)) {
            (XattrMode::Create, true) => return Err(Errno::EEXIST),
            (XattrMode::Replace, false) => return Err(Errno::ENODATA),
            _ => {}
        }
        let growth = NEW_COST + (name.len() + value.len()) as u64;
        let (name, value) = (ran::copied(name), ran::copied(value));
        Ok(volume.change(&Change::SetXattr { ino: ino.0, name, value }, growth)?)
    }

    fn listxattr(&self, ino: Ino) -> Result<Vec<u8>> {
        let volume = self.read();
        let names = volume.state.inode(ino.0)?.xattrs.keys();
        Ok(ran::collected(names.flat_map(|name| name.iter().copied().chain([0]))))
    }

    fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        let mut volume = self.write();
        if !volume.state.inode(ino.0)?.xattrs.contains_key(name) {
            return Err(Errno::ENODATA);
        }
        Ok(volume.change(&Change::RemoveXattr { ino: ino.0, name: ran::copied(name) }, 0)?)
    }
}

/// The smallest region: a half holds a checkpoint, and a record with the largest attribute.
pub(super) const MIN_SIZE: Bytes = Bytes::kib(768);
