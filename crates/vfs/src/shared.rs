//! A mounted file system by inode numbers, for a front end beside the program that has it mounted: that of a kernel.
//!
//! ```text
//!   program ──► Process ──┐
//!                         ├──► Mount: names, vnodes, claims ──► a design
//!   kernel ──► Shared ────┘
//! ```
//!
//! Both change names by claims of one [`Mount`], so that they see the same names at once, and neither finds a number given to
//! another file: an inode to which the other front end has a reference is a held vnode (`vnode.rs`).
//!
//! # References
//!
//! Each call that answers with an inode to which a name leads (lookup, create, mkdir, mknod, symlink, link) has opened it once
//! more, and so has `open`; `release` gives one back. So between the answer and its use no other call can free the inode. A number
//! without a reference is `ENOENT`, but for the root's, and for attributes.
//!
//! What the program's calls are told of (`watch.rs`) is not told of these: who made them knows.
//!
//! Lock order: a shard of the references is taken last, and nothing is taken under it.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::attr::{Attr, DirEntry, FileExtent, FileKind, Ino, NewInode, SetAttr, StatFs, Timestamp};
use crate::directory::{Directory, Place};
use crate::errno::{Errno, Result};
use crate::file_system::{FileSystem, Renaming, Written};
use crate::flags::{FallocateMode, InodeFlags, IoFlags, OpenFlags, SeekTo, XattrMode};
use crate::mount::{Claim, Mount};
use crate::rename;
use crate::vnode::Vnode;
use crate::walk::check_name;

const SHARDS: usize = 16;

/// An inode to which there are references.
struct Held {
    vnode: Arc<Vnode>,
    /// Each is an open inode of the design.
    references: u64,
}

/// A mount as a [`FileSystem`] of its own, whose names may change beside it.
pub struct Shared {
    mount: Arc<Mount>,
    held: [Mutex<FxHashMap<Ino, Held>>; SHARDS],
}

impl Shared {
    /// The files of `mount`.
    pub fn new(mount: Arc<Mount>) -> Self {
        Self { mount, held: std::array::from_fn(|_| Mutex::default()) }
    }

    /// Gives back all references. Who had them has gone.
    pub fn end(&self) {
        for shard in &self.held {
            let held = std::mem::take(&mut *shard.lock());
            for (ino, held) in held {
                (0..held.references).for_each(|_| self.fs().release(ino));
            }
        }
        self.mount.reap();
    }

    fn fs(&self) -> &dyn FileSystem {
        self.mount.file_system()
    }

    fn shard(&self, ino: Ino) -> &Mutex<FxHashMap<Ino, Held>> {
        // Numbers may be offsets of slots, whose low bits are all alike.
        &self.held[(ino.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as usize % SHARDS]
    }

    /// The vnode of an inode to which there is a reference.
    fn vnode(&self, ino: Ino) -> Result<Arc<Vnode>> {
        let held = self.shard(ino).lock().get(&ino).map(|held| Arc::clone(&held.vnode));
        let root = self.mount.root();
        held.or_else(|| (root.ino == ino).then(|| Arc::clone(root))).ok_or(Errno::ENOENT)
    }

    /// Notes that an inode was opened once more.
    fn note(&self, vnode: Arc<Vnode>) {
        let mut shard = self.shard(vnode.ino).lock();
        match shard.entry(vnode.ino) {
            Entry::Occupied(mut held) => held.get_mut().references += 1,
            Entry::Vacant(place) => {
                place.insert(Held { vnode, references: 1 });
            }
        }
    }

    /// A reference to an inode, and its attributes.
    fn refer(&self, vnode: Arc<Vnode>) -> Result<Attr> {
        let ino = vnode.ino;
        self.fs().open(ino, OpenFlags::PATH)?;
        self.note(vnode);
        self.fs().getattr(ino).inspect_err(|_| self.release(ino))
    }

    /// Makes a name, and refers to what it leads to.
    fn make(
        &self,
        parent: Ino,
        name: &[u8],
        make: impl FnOnce(Claim<'_>) -> Result<Arc<Vnode>>,
    ) -> Result<Attr> {
        let dir = self.vnode(parent)?;
        let claim = self.mount.claim(place(&dir, name)?)?;
        let vnode = if claim.vnode().is_some() { Err(Errno::EEXIST) } else { make(claim) }?;
        self.refer(vnode)
    }

    /// Removes a name: a directory's, or another's.
    fn remove(&self, parent: Ino, name: &[u8], of_directory: bool) -> Result<()> {
        let dir = self.vnode(parent)?;
        let claim = self.mount.claim(place(&dir, name)?)?;
        let is_dir = claim.vnode().ok_or(Errno::ENOENT)?.is_dir();
        match of_directory {
            true if !is_dir => Err(Errno::ENOTDIR),
            false if is_dir => Err(Errno::EISDIR),
            true => claim.rmdir(),
            false => claim.unlink(),
        }
    }

    /// Changes contents or attributes of an inode.
    fn change<T>(&self, ino: Ino, change: impl FnOnce(&dyn FileSystem) -> Result<T>) -> Result<T> {
        let vnode = self.vnode(ino)?;
        let done = change(self.fs());
        vnode.changed();
        done
    }
}

/// A name in a directory.
fn place<'a>(dir: &'a Arc<Vnode>, name: &'a [u8]) -> Result<Place<'a>> {
    if !dir.is_dir() {
        return Err(Errno::ENOTDIR);
    }
    check_name(dir, name)?;
    Ok(Place { dir: Directory::Held(dir), name, has_slash: false })
}

impl FileSystem for Shared {
    fn root(&self) -> Ino {
        self.fs().root()
    }

    fn statfs(&self) -> Result<StatFs> {
        self.fs().statfs()
    }

    fn blocks_available(&self, space: &StatFs) -> u64 {
        self.fs().blocks_available(space)
    }

    fn sync(&self) -> Result<()> {
        self.mount.reap();
        self.fs().sync()
    }

    /// Ends nothing: the file system stays mounted for the program.
    fn unmount(&self) -> Result<()> {
        self.end();
        Ok(())
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.fs().counters()
    }

    fn trim(&self) -> Result<u64> {
        self.fs().trim()
    }

    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        let dir = self.vnode(parent)?;
        place(&dir, name)?;
        self.refer(self.mount.lookup(&dir, name)?)
    }

    fn create(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.make(parent, name, |claim| claim.create(new))
    }

    fn mkdir(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.make(parent, name, |claim| claim.mkdir(new))
    }

    fn mknod(&self, parent: Ino, name: &[u8], kind: FileKind, rdev: u64, new: &NewInode) -> Result<Attr> {
        self.make(parent, name, |claim| claim.mknod(kind, rdev, new))
    }

    fn symlink(&self, parent: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Attr> {
        self.make(parent, name, |claim| claim.symlink(target, new))
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        self.fs().readlink(self.vnode(ino)?.ino)
    }

    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        let source = self.vnode(ino)?;
        if source.is_dir() {
            return Err(Errno::EPERM);
        }
        self.make(parent, name, |claim| claim.link(&source).map(|()| Arc::clone(&source)))
    }

    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.remove(parent, name, false)
    }

    fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.remove(parent, name, true)
    }

    fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), how: Renaming<'_>) -> Result<()> {
        let (old_dir, new_dir) = (self.vnode(from.0)?, self.vnode(to.0)?);
        let (old, new) = (place(&old_dir, from.1)?, place(&new_dir, to.1)?);
        if from == to {
            // One name is not claimed twice.
            self.mount.lookup(&old_dir, from.1)?;
            rename::check_target(how.flags, (), Some(()))?;
            return Ok(());
        }
        let (old, new) = self.mount.claim_two(old, new)?;
        let source = old.vnode().ok_or(Errno::ENOENT)?;
        let differs = rename::check_target(how.flags, Arc::as_ptr(source), new.vnode().map(Arc::as_ptr))?;
        // The design checks what lies below what, under its own locks.
        if differs { old.rename(new, how) } else { Ok(()) }
    }

    fn readdir(&self, ino: Ino, cursor: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        self.fs().readdir(self.vnode(ino)?.ino, cursor, sink)
    }

    /// Also without a reference: of an entry of a directory, which may not say its kind.
    fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.fs().getattr(ino)
    }

    fn setattr(&self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let vnode = self.vnode(ino)?;
        self.mount.setattr(&vnode, |_| Ok(*set))?;
        self.fs().getattr(ino)
    }

    /// By the policy of the mount: both front ends see the same access times.
    fn accessed(&self, ino: Ino) -> Result<()> {
        self.mount.accessed(&self.vnode(ino)?);
        Ok(())
    }

    fn birth_time(&self, ino: Ino) -> Result<Option<Timestamp>> {
        self.fs().birth_time(self.vnode(ino)?.ino)
    }

    fn inode_flags(&self, ino: Ino) -> Result<InodeFlags> {
        self.fs().inode_flags(self.vnode(ino)?.ino)
    }

    fn set_inode_flags(&self, ino: Ino, flags: InodeFlags) -> Result<()> {
        self.change(ino, |fs| fs.set_inode_flags(ino, flags))
    }

    fn open(&self, ino: Ino, flags: OpenFlags) -> Result<()> {
        let vnode = self.vnode(ino)?;
        self.fs().open(ino, flags)?;
        self.note(vnode);
        Ok(())
    }

    fn release(&self, ino: Ino) {
        let mut shard = self.shard(ino).lock();
        let Entry::Occupied(mut held) = shard.entry(ino) else { return };
        held.get_mut().references -= 1;
        let gone = (held.get().references == 0).then(|| held.remove());
        drop(shard);
        self.fs().release(ino);
        drop(gone);
        self.mount.reap();
    }

    fn tmpfile(&self, new: &NewInode) -> Result<Attr> {
        let attr = self.fs().tmpfile(new)?;
        self.note(Vnode::new(&attr, None, self.mount.ways()));
        Ok(attr)
    }

    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8], flags: IoFlags) -> Result<usize> {
        self.fs().read(self.vnode(ino)?.ino, offset, buffer, flags)
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], flags: IoFlags) -> Result<Written> {
        self.change(ino, |fs| fs.write(ino, offset, data, flags))
    }

    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64) -> Result<()> {
        self.change(ino, |fs| fs.fallocate(ino, mode, offset, len))
    }

    fn clone_unit(&self) -> Option<u64> {
        self.fs().clone_unit()
    }

    fn clone_range(&self, from: (Ino, u64), to: (Ino, u64), len: u64) -> Result<()> {
        let _source = self.vnode(from.0)?;
        self.change(to.0, |fs| fs.clone_range(from, to, len))
    }

    fn seek(&self, ino: Ino, offset: u64, to: SeekTo) -> Result<u64> {
        self.fs().seek(self.vnode(ino)?.ino, offset, to)
    }

    fn extents(&self, ino: Ino) -> Result<Vec<FileExtent>> {
        self.fs().extents(self.vnode(ino)?.ino)
    }

    fn fsync(&self, ino: Ino, data_only: bool) -> Result<()> {
        self.fs().fsync(self.vnode(ino)?.ino, data_only)
    }

    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.fs().getxattr(self.vnode(ino)?.ino, name)
    }

    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.change(ino, |fs| fs.setxattr(ino, name, value, mode))
    }

    fn listxattr(&self, ino: Ino) -> Result<Vec<u8>> {
        self.fs().listxattr(self.vnode(ino)?.ino)
    }

    fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        self.change(ino, |fs| fs.removexattr(ino, name))
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}
