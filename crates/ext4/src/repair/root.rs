//! The root directory, made anew where there is none: everything else gets a name in `lost+found` of the new one.

use ::vfs::FileKind;

use super::records::{DOT_BYTES, put_dots};
use super::{INODE, Repair};
use crate::extent;
use crate::inode::{Inode, InodeState, change_time};
use crate::journal::Handle;
use crate::layout::{EXTRA_ISIZE, OLD_INODE_BYTES, RAW_INODE_BYTES, ROOT_INO, RawInode, flag, put16, put32};
use crate::runs::Extent;
use base::error::{Error, Result};

/// A directory that everyone may read.
const MODE: u16 = 0o04_0755;

impl Repair<'_> {
    /// Makes a root if the file system has none. It is known which blocks are free.
    pub(super) fn mend_root(&mut self) -> Result<()> {
        if self.tree.is_dir(ROOT_INO) {
            return Ok(());
        }
        let volume = self.volume;
        let mut raw = RawInode::zero();
        raw.mode = MODE.into();
        raw.links = 2.into();
        if volume.geo.inode_bytes > OLD_INODE_BYTES {
            raw.extra_isize = EXTRA_ISIZE.into();
        }
        let now = change_time();
        raw.set_atime(now);
        raw.set_mtime(now);
        raw.set_ctime(now);
        raw.set_crtime(now);
        let extra = vec![0; volume.geo.inode_bytes.saturating_sub(RAW_INODE_BYTES)].into_boxed_slice();
        let inode = Inode::alone(ROOT_INO, &INODE, InodeState::of(raw, extra));
        if !self.give_first_block(&inode)? {
            return Err(Error::NoSpace);
        }
        self.note("root directories made anew");
        self.tree.insert(ROOT_INO, FileKind::Directory, 2, Some(ROOT_INO));
        Ok(())
    }

    /// Gives directories that have no block their first one, as e2fsck does; without space they go.
    pub(super) fn fill_directories(&mut self) -> Result<()> {
        for ino in std::mem::take(&mut self.empty) {
            let inode = self.inode(ino)?;
            if self.give_first_block(&inode)? {
                self.note("directories without a block given one");
            } else {
                self.tree.nodes.remove(&ino);
                self.clear(&inode, &mut inode.state.write())?;
            }
        }
        Ok(())
    }

    /// Gives a directory a block with `.` and `..`; false if none is free.
    fn give_first_block(&mut self, inode: &Inode) -> Result<bool> {
        let (volume, end) = (self.volume, self.volume.records_end());
        let Some(block) = self.take_free() else { return Ok(false) };
        let mut state = inode.state.write();
        state.raw.set_size(volume.block_bytes());
        state.raw.block.fill(0);
        state.raw.flags = (state.raw.flags.get() & !(flag::EXTENTS | flag::INDEX)).into();
        if volume.geo.extents {
            state.raw.flags = (state.raw.flags.get() | flag::EXTENTS).into();
            let one = Extent { index: 0, len: 1, start: block, unwritten: false };
            extent::rebuild(volume, &Handle::none(), inode, &mut state, &[one], &mut || Err(Error::NoSpace))?;
        } else {
            put32(&mut state.raw.block, 0, block as u32);
        }
        let attributes = u64::from(state.raw.file_acl() != 0);
        self.set_blocks(&mut state, 1 + attributes);
        let (seed, kind) = (state.seed(volume, inode.ino), volume.kind_byte(FileKind::Directory));
        volume.change_new(&self.handle, block, |bytes| {
            put16(bytes, 4, end as u16);
            put_dots(bytes, end, (inode.ino as u32, kind));
            put32(bytes, DOT_BYTES, ROOT_INO as u32);
            volume.seal_dir(seed, bytes);
        })?;
        volume.store_inode(&self.handle, inode, &mut state)?;
        Ok(true)
    }
}
