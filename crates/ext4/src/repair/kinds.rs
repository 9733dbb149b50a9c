//! The kind of an inode, where its mode or its count of links says something else than what it holds.

use ::vfs::FileKind;

use super::Repair;
use super::records::has_dots;
use crate::inode::{Inode, InodeState};
use crate::layout::{ROOT_INO, flag, le32};
use crate::records::records;

impl Repair<'_> {
    /// The kind of an inode, where need be by what it holds: a special file whose first block is that of a directory is one, as
    /// e2fsck has it; where a person asks for the repair, so is an inode of another kind, or of none, all of whose first block is
    /// one of its own records, with names in it unless it has no kind.
    pub(super) fn true_kind(
        &mut self,
        inode: &Inode,
        state: &mut InodeState,
        kind: Option<FileKind>,
    ) -> Option<FileKind> {
        use FileKind::{Directory, Regular, Symlink};
        let is_one = match kind {
            Some(Directory) => return kind,
            None => self.asked && holds_directory(self, inode, state).is_some(),
            // One that is empty has nothing to keep.
            Some(Regular | Symlink) => self.asked && holds_directory(self, inode, state).unwrap_or(0) > 0,
            Some(_) => self.looks_like_directory(inode, state),
        };
        if !is_one {
            return kind;
        }
        self.note("inodes of another kind that are directories");
        let perm =
            if kind.is_none() && state.raw.mode.get() == 0 { 0o755 } else { state.raw.mode.get() & 0o7777 };
        state.raw.mode = (perm | 0o04_0000).into();
        Some(Directory)
    }

    /// A directory whose count of links is 0 and that was not deleted: the root, and one that holds names.
    pub(super) fn is_linked_directory(&mut self, inode: &Inode, state: &mut InodeState) -> bool {
        let in_use = self.volume.inode_in_use(inode.ino).unwrap_or(false);
        if !self.asked || state.raw.dtime.get() != 0 || !in_use || self.is_special(inode.ino) {
            return false;
        }
        let names = holds_directory(self, inode, state);
        let is_one = names.is_some_and(|names| names > 0 || inode.ino == ROOT_INO);
        if is_one {
            self.note("directories without links given theirs");
            state.raw.links = 2.into();
        }
        is_one
    }

    fn looks_like_directory(&self, inode: &Inode, state: &InodeState) -> bool {
        let (first, blocks) = (self.volume.geo.first_data_block, self.volume.geo.blocks);
        let slots: Vec<u64> = (0..15).map(|slot| u64::from(le32(&state.raw.block, slot * 4))).collect();
        let extents = state.raw.has(flag::EXTENTS);
        let is_block = |block: &u64| {
            *block > first
                && *block < blocks
                && self.counts.get(*block as usize).is_some_and(|count| *count == 0)
        };
        if slots[0] == 0 || !extents && !slots.iter().filter(|block| **block != 0).all(is_block) {
            return false;
        }
        let is_device = matches!(state.raw.kind(), Some(FileKind::CharDevice | FileKind::BlockDevice));
        let may_be_device = !extents && slots[4..].iter().all(|block| *block == 0);
        if is_device && may_be_device && state.raw.links.get() == 1 {
            return false;
        }
        let Ok(block) = self.volume.dir_block(inode, state, 0) else { return false };
        let end = self.volume.records_end();
        self.volume
            .look(block, |bytes| has_dots(bytes, end) && u64::from(le32(bytes, 0)) == inode.ino)
            .unwrap_or(false)
    }
}

/// Counts the names in the first block of an inode, if that is the first block of a directory of its number.
fn holds_directory(repair: &Repair<'_>, inode: &Inode, state: &InodeState) -> Option<usize> {
    let block = repair.volume.dir_block(inode, state, 0).ok()?;
    if repair.counts[block as usize] != 0 {
        return None;
    }
    let (end, inodes) = (repair.volume.records_end(), repair.volume.geo.inodes());
    let names = repair.volume.look(block, |bytes| {
        let sound = has_dots(bytes, end)
            && u64::from(le32(bytes, 0)) == inode.ino
            && records(bytes, end).all(|record| record.is_ok_and(|record| u64::from(record.ino) <= inodes));
        sound
            .then(|| records(bytes, end).flatten().filter(|record| record.ino != 0).count().saturating_sub(2))
    });
    names.ok().flatten()
}
