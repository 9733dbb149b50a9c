//! Copies between open files.

use super::{OpenFile, Process};
use crate::copy::{copy_range, overlap};
use crate::errno::{Errno, Result};
use crate::flags::OpenFlags;
use crate::{FileKind, Ino, syscalls};

impl Process {
    /// Copies bytes; returns how many.
    pub(super) fn copy(&self, from: (&OpenFile, u64), to: (&OpenFile, u64), len: u64) -> Result<u64> {
        let ((source, from), (target, to)) = (from, to);
        check_files(source, target)?;
        let size = self.mount.file_system().getattr(source.vnode.ino)?.size;
        let len = len.min(size.saturating_sub(from));
        check_ranges((source, from), (target, to), len)?;
        if len == 0 {
            return Ok(0);
        }
        let len = self.room_for(target, to, usize::try_from(len).map_err(|_| Errno::EINVAL)?)? as u64;
        self.clear_set_id(&target.vnode)?;
        let files = ((source.vnode.ino, from), (target.vnode.ino, to));
        self.about_to_copy(files.0, files.1, len);
        let copied = copy_range(self.mount.file_system(), files.0, files.1, len, target.io);
        target.vnode.changed();
        self.mount.watch.tell(|watcher| watcher.changed(target.vnode.ino, to..to.saturating_add(len)));
        self.accessed(source);
        copied
    }

    /// Lets a file have the blocks of another.
    pub(super) fn clone_blocks(&self, from: (&OpenFile, u64), to: (&OpenFile, u64), len: u64) -> Result<()> {
        let ((source, from), (target, to)) = (from, to);
        check_files(source, target)?;
        let fs = self.mount.file_system();
        let len = match len {
            0 => fs.getattr(source.vnode.ino)?.size.checked_sub(from).ok_or(Errno::EINVAL)?,
            len => len,
        };
        check_ranges((source, from), (target, to), len)?;
        if to + len > self.limits.file_size {
            return Err(Errno::EFBIG);
        }
        self.clear_set_id(&target.vnode)?;
        self.about_to_copy((source.vnode.ino, from), (target.vnode.ino, to), len);
        let done = fs.clone_range((source.vnode.ino, from), (target.vnode.ino, to), len);
        target.vnode.changed();
        self.mount.watch.tell(|watcher| watcher.changed(target.vnode.ino, to..to.saturating_add(len)));
        done
    }

    fn about_to_copy(&self, from: (Ino, u64), to: (Ino, u64), len: u64) {
        self.mount.watch.tell(|watcher| {
            for (ino, offset) in [from, to] {
                watcher.about_to_use(ino, offset..offset.saturating_add(len));
            }
        });
    }
}

/// Whether bytes may be copied from one to the other.
fn check_files(source: &OpenFile, target: &OpenFile) -> Result<()> {
    let writes = target.flags.contains(OpenFlags::WRITE) && !target.flags.contains(OpenFlags::APPEND);
    if !source.flags.contains(OpenFlags::READ) || !writes {
        return Err(Errno::EBADF);
    }
    match [source.vnode.kind, target.vnode.kind] {
        [FileKind::Regular, FileKind::Regular] => Ok(()),
        kinds if kinds.contains(&FileKind::Directory) => Err(Errno::EISDIR),
        _ => Err(Errno::EINVAL),
    }
}

fn check_ranges(from: (&OpenFile, u64), to: (&OpenFile, u64), len: u64) -> Result<()> {
    let end = from.1.max(to.1).checked_add(len).filter(|end| *end <= syscalls::OFFSET_MAX);
    let twice = from.0.vnode.ino == to.0.vnode.ino && overlap(from.1, to.1, len);
    if end.is_none() || twice { Err(Errno::EINVAL) } else { Ok(()) }
}
