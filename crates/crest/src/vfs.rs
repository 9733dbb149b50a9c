//! The adapter from [`FileSystem`] to Crest: locks an inode, calls the design, translates errors.

use std::sync::Arc;

use sim::sync::Ordering::Relaxed;
use sim::{ByteRun, Work, ran};
use vfs::{
    Attr, DirEntry, Errno, FallocateMode, FileKind, FileSystem, Ino, IoFlags, Listener, MappedFiles,
    NewInode, OpenFlags, Paths, Promises, Renaming, Result, SeekTo, SetAttr, StatFs, Timestamp, Verified,
    Written, XattrMode,
};

use crate::ablation::Without;
use crate::calls::Volume;
use crate::calls::file::seek;
use crate::calls::namei::Node;
use crate::calls::xattr;
use crate::format::layout;
use crate::format::layout::{BLOCK, ROOT_INO};
use crate::format::record::{self, Times, group};
use crate::format::tree::Stamped;
use crate::format::zone::Want;
use crate::index::inode::{Body, now, unpack};
use crate::pool::save::save;
use crate::store::log::Call;
use base::dax::WHOLE_FILE;
use base::error::{Error, Result as DesignResult};

/// The promises with every option. A write may need new blocks and a record, for which no reservation keeps space.
pub(crate) const PROMISES: Promises = Promises { reservations: false, ..Promises::STRICT };

/// A mounted pool.
pub(crate) struct Mounted(pub(crate) Arc<Volume>);

/// Cursors before those of names: the beginning, after `.`, after `..`.
const FIRST_NAME: u64 = 2;
/// Lines that a small file takes in the log: birth, name, size.
const FILE_LINES: u64 = 8;
/// Times of access that are made durable by one group.
const ACCESSES: usize = 64;

impl Volume {
    fn read_dir(
        &self,
        number: u64,
        mut cursor: u64,
        sink: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> DesignResult<()> {
        let inode = self.inodes.get(number)?;
        let state = inode.settled()?;
        let dir = match state.dir() {
            Err(Error::NoEntry) => return Ok(()),
            dir => dir?,
        };
        let mut give = |name: &[u8], ino, next| sink(DirEntry { ino: Ino(ino), kind: None, name, next });
        if cursor == 0 {
            if !give(b".", number, 1) {
                return Ok(());
            }
            cursor = 1;
        }
        if cursor == 1 {
            if !give(b"..", inode.parent(), FIRST_NAME) {
                return Ok(());
            }
            cursor = FIRST_NAME;
        }
        let steps = dir.list(cursor - FIRST_NAME, |name, ino, next| give(name, ino, next + FIRST_NAME));
        sim::work(Work::STEP, steps);
        Ok(())
    }

    /// Makes the times of accesses durable that are in DRAM only; whether there was space for all.
    fn keep_accesses(&self) -> DesignResult<bool> {
        let mut bodies = Vec::new();
        for ino in self.inodes.numbers() {
            let Ok(inode) = self.inodes.get(ino) else { continue };
            let mut state = inode.write();
            if state.accessed && state.links > 0 {
                let Stamped { stamp, value, .. } = state.atime;
                let times = Times { ino, mask: layout::times::ATIME, stamp, atime: value, mtime: 0 };
                bodies.push(record::Body::Times(times));
                state.accessed = false;
            }
        }
        for part in bodies.chunks(ACCESSES) {
            let call = Call { want: Want::Records, after: 0, makes: false, needs: &[] };
            match self.commit(call, |ticket| group(ticket.id, part.to_vec())) {
                Err(Error::NoSpace) => return Ok(false),
                done => drop(done?),
            }
        }
        Ok(true)
    }
}

impl Mounted {
    fn mknod_of(&self, parent: Ino, name: &[u8], node: Node<'_>) -> Result<Attr> {
        Ok(self.0.make(parent.0, name, node)?)
    }
}

impl FileSystem for Mounted {
    fn root(&self) -> Ino {
        Ino(ROOT_INO)
    }

    fn paths(&self) -> Option<&dyn Paths> {
        (self.0.without != Without::Paths).then_some(&*self.0)
    }

    fn statfs(&self) -> Result<StatFs> {
        let (blocks, blocks_free) = self.0.zones.counts();
        let files = self.0.inodes.len();
        let files_free = blocks_free * (BLOCK / layout::LINE as u64) / FILE_LINES;
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
        // Each block may need a line of the log.
        let lines = BLOCK / layout::LINE as u64;
        space.blocks_free.saturating_sub(space.blocks_free / lines + 1)
    }

    /// Everything was durable when it returned, but for what is in frames, and what mappings have stored.
    fn sync(&self) -> Result<()> {
        self.0.settle_all()?;
        Ok(self.0.flush_all_mapped()?)
    }

    fn unmount(&self) -> Result<()> {
        self.0.frames.stop();
        self.0.settle_all()?;
        self.0.flush_all_mapped()?;
        if self.0.losses.is_read_only() {
            return Ok(());
        }
        let is_kept = self.0.keep_accesses()?;
        self.0.end_zones();
        if is_kept {
            save(&self.0);
        }
        Ok(())
    }

    fn listen(&self, listener: Listener) {
        self.0.losses.listen(listener);
    }

    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.getattr(Ino(self.0.lookup_name(parent.0, name)?))
    }

    fn create(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.mknod(parent, name, FileKind::Regular, 0, new)
    }

    fn mkdir(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.mknod(parent, name, FileKind::Directory, 0, new)
    }

    fn mknod(&self, parent: Ino, name: &[u8], kind: FileKind, rdev: u64, new: &NewInode) -> Result<Attr> {
        let rdev = u32::try_from(rdev).map_err(|_| Errno::EINVAL)?;
        self.mknod_of(parent, name, Node { kind, rdev, new, target: &[] })
    }

    fn symlink(&self, parent: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Attr> {
        if target.len() as u64 >= BLOCK {
            return Err(Errno::ENAMETOOLONG);
        }
        self.mknod_of(parent, name, Node { kind: FileKind::Symlink, rdev: 0, new, target })
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        match &self.0.inodes.get(ino.0)?.reading()?.body {
            Body::Symlink(target) => Ok(ran::copied(target)),
            _ => Err(Errno::EINVAL),
        }
    }

    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        Ok(self.0.link(ino.0, parent.0, name)?)
    }

    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        Ok(self.0.unlink(parent.0, name)?)
    }

    fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        Ok(self.0.rmdir(parent.0, name)?)
    }

    fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), how: Renaming<'_>) -> Result<()> {
        Ok(self.0.rename((from.0.0, from.1), (to.0.0, to.1), how)?)
    }

    fn readdir(&self, ino: Ino, cursor: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        Ok(self.0.read_dir(ino.0, cursor, sink)?)
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        let found = self.0.inodes.get(ino.0).map_err(|error| self.0.losses.errno(ino.0, error))?;
        Ok(found.attr()?)
    }

    fn setattr(&self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        self.0.tend();
        let inode = self.0.inodes.get(ino.0)?;
        let mut state = inode.changing()?;
        if set.size.is_some() {
            state.blocks()?;
        }
        if *set != SetAttr::default() {
            self.0.set_attributes(&mut state, set)?;
            inode.note_rights(&state);
        }
        Ok(state.attr())
    }

    fn birth_time(&self, ino: Ino) -> Result<Option<Timestamp>> {
        Ok(Some(unpack(self.0.inodes.get(ino.0)?.reading()?.birth)))
    }

    /// In DRAM only, until an unmount or a change of the times.
    fn accessed(&self, ino: Ino) -> Result<()> {
        let inode = self.0.inodes.get(ino.0)?;
        if !inode.accessed_beside()? {
            inode.changing()?.accessed_at(now());
        }
        Ok(())
    }

    fn open(&self, ino: Ino, _flags: OpenFlags) -> Result<()> {
        Ok(self.0.inodes.get(ino.0)?.open()?)
    }

    fn release(&self, ino: Ino) {
        self.0.release(ino.0);
    }

    fn tmpfile(&self, new: &NewInode) -> Result<Attr> {
        Ok(self.0.make_nameless(new)?)
    }

    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8], _flags: IoFlags) -> Result<usize> {
        let inode = self.0.inodes.get(ino.0)?;
        let file = inode.reading()?;
        Ok(self.0.read_file(&file, offset, buffer)?)
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], flags: IoFlags) -> Result<Written> {
        let inode = self.0.inodes.get(ino.0)?;
        let offset = (!flags.contains(IoFlags::APPEND)).then_some(offset);
        Ok(self.0.write(&inode, offset, data, flags.contains(IoFlags::SYNC))?)
    }

    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64) -> Result<()> {
        mode.check(len)?;
        self.0.tend();
        let inode = self.0.inodes.get(ino.0)?;
        inode.is_special.store(true, Relaxed);
        let mut file = inode.changing()?;
        file.blocks()?;
        PROMISES.check_reserving(mode)?;
        Ok(self.0.fallocate(&mut file, mode, ByteRun::new(offset, len))?)
    }

    fn clone_unit(&self) -> Option<u64> {
        Some(BLOCK)
    }

    fn clone_range(&self, from: (Ino, u64), to: (Ino, u64), len: u64) -> Result<()> {
        self.0.tend();
        self.0.clone_range((from.0.0, from.1), (to.0.0, to.1), len)
    }

    fn verify(&self, ino: Ino, offset: u64, len: u64) -> Result<Verified> {
        let inode = self.0.inodes.get(ino.0)?;
        let file = inode.reading()?;
        Ok(self.0.verify_file(&file, offset, len)?)
    }

    fn seek(&self, ino: Ino, offset: u64, to: SeekTo) -> Result<u64> {
        let inode = self.0.inodes.get(ino.0)?;
        let file = inode.reading()?;
        if !file.is_dirty() {
            return Ok(seek(&file, offset, to)?);
        }
        drop(file);
        let mut file = inode.changing()?;
        self.0.settle(&mut file)?;
        Ok(seek(&file, offset, to)?)
    }

    /// Nothing is left to do but for what is in frames, and what mappings have stored: what has returned is durable otherwise.
    fn fsync(&self, ino: Ino, _data_only: bool) -> Result<()> {
        if self.0.has_unsynced(ino.0) {
            self.0.flush_mapped(ino.0, WHOLE_FILE)?;
        }
        let inode = self.0.inodes.get(ino.0)?;
        if self.0.frames.are_used() {
            self.0.sync_file(&mut inode.changing()?)?;
        } else {
            drop(inode.reading()?);
        }
        Ok(())
    }

    fn mapped_files(&self) -> Option<&dyn MappedFiles> {
        Some(&*self.0)
    }

    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let inode = self.0.inodes.get(ino.0)?;
        let state = inode.reading()?;
        state.xattrs.get(name).map(|attribute| ran::copied(&attribute.value)).ok_or(Errno::ENODATA)
    }

    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.0.tend();
        let inode = self.0.inodes.get(ino.0)?;
        Ok(self.0.set_attribute(&mut inode.changing()?, (name, value), mode)?)
    }

    fn listxattr(&self, ino: Ino) -> Result<Vec<u8>> {
        Ok(xattr::names(&*self.0.inodes.get(ino.0)?.reading()?))
    }

    fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        self.0.tend();
        let inode = self.0.inodes.get(ino.0)?;
        Ok(self.0.remove_attribute(&mut inode.changing()?, name)?)
    }
}
