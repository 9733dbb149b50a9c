//! The adapter: makes the change of a call in memory, and charges the steps of its row.

use ::vfs::{
    Attr, DirEntry, Errno, FallocateMode, FileKind, FileSystem, Ino, IoFlags, KernelWays, NewInode,
    OpenFlags, Renaming, Result, SeekTo, SetAttr, StatFs, Written, XattrMode,
};
use parking_lot::{Mutex, MutexGuard};
use sim::{ByteRun, PAGE_BYTES};

use super::file::{FILE_MAX, PAGE};
use super::objects::{At, Objects};
use super::preset::{Call, System};
use super::state::{Body, Gone, ROOT, State};

/// Entries that a listing takes out at once.
const LISTED: usize = 128;
/// Inodes that a file system is said to have room for: they cost nothing here.
const INODES: u64 = 1 << 32;

/// A mounted model.
pub(super) struct Model {
    system: &'static System,
    objects: Objects,
    state: Mutex<State>,
}

impl Model {
    /// An empty file system of `pages` pages.
    pub(super) fn new(system: &'static System, objects: Objects, pages: u64) -> Self {
        Self { system, objects, state: Mutex::new(State::new(pages)) }
    }

    /// The state, in the order of virtual time.
    fn state(&self) -> MutexGuard<'_, State> {
        sim::interact();
        self.state.lock()
    }

    fn charge(&self, call: Call, at: &At) {
        self.objects.run(self.system.steps(call), at);
    }

    /// Charges the eviction of an inode that was freed.
    fn evict(&self, gone: Option<Gone>) {
        if let Some(gone) = gone {
            self.charge(Call::Evict, &gone.at);
            self.objects.forget(gone.at.ino, &gone.pages);
        }
    }

    fn make(&self, name: (Ino, &[u8]), node: (FileKind, u64, &[u8]), new: &NewInode) -> Result<Attr> {
        let mut state = self.state();
        let ino = state.create((name.0.0, name.1), node, new)?;
        let (attr, at) = (state.attr(ino)?, state.at(ino, name.0.0));
        drop(state);
        self.charge(Call::Create, &at);
        Ok(attr)
    }

    fn remove(&self, parent: Ino, name: &[u8], directory: bool) -> Result<()> {
        let mut state = self.state();
        let at = state.at(state.child(parent.0, name)?, parent.0);
        let (_, gone) = state.remove(parent.0, name, directory)?;
        drop(state);
        self.charge(Call::Unlink, &at);
        self.evict(gone);
        Ok(())
    }

    /// Charges a cut of a file.
    fn cut(&self, gone: &Gone) {
        self.charge(Call::Truncate, &gone.at);
        self.objects.forget(0, &gone.pages);
    }

    fn set_xattrs(
        &self,
        ino: Ino,
        change: impl FnOnce(&mut super::state::Inode) -> Result<()>,
    ) -> Result<()> {
        let mut state = self.state();
        let at = state.at(ino.0, ino.0);
        let inode = state.inode_mut(ino.0)?;
        change(inode)?;
        inode.changed();
        drop(state);
        self.charge(Call::Setattr, &at);
        Ok(())
    }
}

impl FileSystem for Model {
    fn root(&self) -> Ino {
        Ino(ROOT)
    }

    fn kernel_ways(&self) -> KernelWays {
        let lines = |lines| self.objects.touches.scaled(lines);
        let ways = self.system.ways;
        KernelWays {
            directory_change: lines(ways.directory_change),
            directory_listing: lines(ways.directory_listing),
            new_inode: lines(ways.new_inode),
            old_inode: lines(ways.old_inode),
            inode_hash: lines(ways.inode_hash),
            rename: lines(ways.rename),
            ..ways
        }
    }

    fn statfs(&self) -> Result<StatFs> {
        let state = self.state();
        Ok(StatFs {
            frsize: PAGE_BYTES as u32,
            blocks: state.limit,
            blocks_free: state.limit - state.pages,
            files: INODES,
            files_free: INODES - state.inodes.len() as u64,
            name_max: 255,
        })
    }

    fn sync(&self) -> Result<()> {
        let mut state = self.state();
        for inode in state.inodes.values_mut() {
            if let Body::File(file) = &mut inode.body {
                file.clean();
            }
        }
        Ok(())
    }

    fn unmount(&self) -> Result<()> {
        Ok(())
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let served = self.objects.served.load(std::sync::atomic::Ordering::Relaxed);
        vec![("device_requests", served)]
    }

    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        let state = self.state();
        let found = state.child(parent.0, name);
        let at = state.at(*found.as_ref().unwrap_or(&0), parent.0);
        let attr = found.and_then(|ino| state.attr(ino));
        drop(state);
        self.charge(Call::Lookup, &at);
        Ok(attr?)
    }

    fn create(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.make((parent, name), (FileKind::Regular, 0, b""), new)
    }

    fn mkdir(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.make((parent, name), (FileKind::Directory, 0, b""), new)
    }

    fn mknod(&self, parent: Ino, name: &[u8], kind: FileKind, rdev: u64, new: &NewInode) -> Result<Attr> {
        self.make((parent, name), (kind, rdev, b""), new)
    }

    fn symlink(&self, parent: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Attr> {
        self.make((parent, name), (FileKind::Symlink, 0, target), new)
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        match &self.state().inode(ino.0)?.body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(Errno::EINVAL),
        }
    }

    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        let mut state = self.state();
        state.link(ino.0, parent.0, name)?;
        let (attr, at) = (state.attr(ino.0)?, state.at(ino.0, parent.0));
        drop(state);
        self.charge(Call::Link, &at);
        Ok(attr)
    }

    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.remove(parent, name, false)
    }

    fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.remove(parent, name, true)
    }

    fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), how: Renaming<'_>) -> Result<()> {
        let mut state = self.state();
        let moved = state.child(from.0.0, from.1);
        let (did, gone) = state.rename((from.0.0, from.1), (to.0.0, to.1), &how)?;
        let at = state.at(moved?, to.0.0);
        drop(state);
        if did {
            self.charge(Call::Rename, &at);
        }
        self.evict(gone);
        Ok(())
    }

    fn readdir(&self, ino: Ino, cursor: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let mut cursor = cursor;
        self.charge(Call::Readdir, &At { ino: ino.0, dir: ino.0, ..At::default() });
        loop {
            let state = self.state();
            let entries = state.dir(ino.0)?.list(ino.0, cursor, LISTED);
            let kinds: Vec<_> =
                entries.iter().map(|(_, ino, _)| state.inode(*ino).ok().map(|inode| inode.kind)).collect();
            drop(state);
            sim::work(sim::Work::STEP, entries.len() as u64);
            for ((cookie, ino, name), kind) in entries.iter().zip(kinds) {
                if !sink(DirEntry { ino: Ino(*ino), kind, name, next: cookie + 1 }) {
                    return Ok(());
                }
                cursor = cookie + 1;
            }
            if entries.len() < LISTED {
                return Ok(());
            }
        }
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        let state = self.state();
        let (attr, at) = (state.attr(ino.0)?, state.at(ino.0, ino.0));
        drop(state);
        self.charge(Call::Getattr, &at);
        Ok(attr)
    }

    fn setattr(&self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        if let Some(size) = set.size {
            let mut state = self.state();
            state.file(ino.0)?;
            if size > FILE_MAX {
                return Err(Errno::EFBIG);
            }
            let gone = state.cut(ino.0, |file| file.resize(size))?;
            drop(state);
            self.cut(&gone);
        }
        let mut state = self.state();
        let at = state.at(ino.0, ino.0);
        let others = *set != (SetAttr { size: set.size, ..SetAttr::default() }) || set.size.is_none();
        if others {
            state.inode_mut(ino.0)?.set(set);
        }
        let attr = state.attr(ino.0)?;
        drop(state);
        if others {
            self.charge(Call::Setattr, &at);
        }
        Ok(attr)
    }

    fn accessed(&self, ino: Ino) -> Result<()> {
        self.state().inode_mut(ino.0)?.accessed();
        Ok(())
    }

    fn open(&self, ino: Ino, _: OpenFlags) -> Result<()> {
        self.state().inode_mut(ino.0)?.opens += 1;
        Ok(())
    }

    fn release(&self, ino: Ino) {
        let mut state = self.state();
        if let Ok(inode) = state.inode_mut(ino.0) {
            inode.opens = inode.opens.saturating_sub(1);
        }
        let gone = state.free_unused(ino.0);
        drop(state);
        self.evict(gone);
    }

    fn tmpfile(&self, new: &NewInode) -> Result<Attr> {
        let mut state = self.state();
        let ino = state.tmpfile(new)?;
        let (attr, at) = (state.attr(ino)?, state.at(ino, ino));
        drop(state);
        self.charge(Call::Create, &at);
        Ok(attr)
    }

    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8], _: IoFlags) -> Result<usize> {
        let state = self.state();
        let (len, used) = state.file(ino.0)?.read(offset, buffer);
        let at = At { used, ..state.at(ino.0, ino.0) };
        drop(state);
        self.charge(Call::Read, &at);
        Ok(len)
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], flags: IoFlags) -> Result<Written> {
        let offset = (!flags.contains(IoFlags::APPEND)).then_some(offset);
        let (offset, at) = self.state().write(ino.0, offset, data)?;
        if !data.is_empty() {
            self.charge(Call::Write, &at);
        }
        Ok(Written { offset, bytes: data.len() })
    }

    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64) -> Result<()> {
        let (punch, zero) =
            (mode.contains(FallocateMode::PUNCH_HOLE), mode.contains(FallocateMode::ZERO_RANGE));
        mode.check(len)?;
        let mut state = self.state();
        let size = state.file(ino.0)?.size;
        let end = offset.checked_add(len).filter(|end| *end <= FILE_MAX).ok_or(Errno::EFBIG)?;
        if punch {
            let gone = state.cut(ino.0, |file| file.punch(offset, end))?;
            drop(state);
            self.cut(&gone);
            return Ok(());
        }
        let size = if mode.contains(FallocateMode::KEEP_SIZE) { size } else { size.max(end) };
        let at = state.allocate(ino.0, ByteRun::new(offset, len), size, zero)?;
        drop(state);
        self.charge(Call::Write, &at);
        Ok(())
    }

    fn seek(&self, ino: Ino, offset: u64, to: SeekTo) -> Result<u64> {
        let state = self.state();
        let file = state.file(ino.0)?;
        if offset >= file.size {
            return Err(Errno::ENXIO);
        }
        file.seek(offset, to == SeekTo::Data).ok_or(Errno::ENXIO)
    }

    fn fsync(&self, ino: Ino, _: bool) -> Result<()> {
        let mut state = self.state();
        let mut at = state.at(ino.0, ino.0);
        if let Body::File(file) = &mut state.inode_mut(ino.0)?.body {
            at.dirty_pages = file.clean();
        }
        drop(state);
        self.charge(Call::Fsync, &at);
        Ok(())
    }

    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.state().inode(ino.0)?.xattrs.get(name).cloned().ok_or(Errno::ENODATA)
    }

    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.set_xattrs(ino, |inode| {
            match (mode, inode.xattrs.contains_key(name)) {
                (XattrMode::Create, true) => return Err(Errno::EEXIST),
                (XattrMode::Replace, false) => return Err(Errno::ENODATA),
                _ => {}
            }
            inode.xattrs.insert(name.to_vec(), value.to_vec());
            Ok(())
        })
    }

    fn listxattr(&self, ino: Ino) -> Result<Vec<u8>> {
        let state = self.state();
        let names = state.inode(ino.0)?.xattrs.keys();
        Ok(names.flat_map(|name| name.iter().copied().chain([0])).collect())
    }

    fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        self.set_xattrs(ino, |inode| inode.xattrs.remove(name).map(drop).ok_or(Errno::ENODATA))
    }
}

/// Pages that storage of `bytes` stands for.
pub(super) fn pages(bytes: u64) -> u64 {
    bytes / PAGE
}
