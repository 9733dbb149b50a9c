//! Reading, writing, offsets, sizes of open files.

use super::{OpenFile, Process};
use crate::attr::{DirEntry, FileKind, SetAttr};
use crate::errno::{Errno, Result};
use crate::file_system::Written;
use crate::flags::{FallocateMode, IoFlags, OpenFlags, SeekTo, Whence};
use crate::syscalls::{OFFSET_MAX, check_offset};
use crate::vnode::Vnode;
use crate::watch::{ALL, span};

impl Process {
    #[inline]
    pub(super) fn read_at(&self, file: &OpenFile, buffer: &mut [u8], offset: u64) -> Result<usize> {
        if !file.flags.contains(OpenFlags::READ) {
            return Err(Errno::EBADF);
        }
        check_range(offset, buffer.len())?;
        if file.vnode.is_dir() {
            return Err(Errno::EISDIR);
        }
        self.mount.watch.tell(|watcher| watcher.about_to_use(file.vnode.ino, span(offset, buffer.len())));
        sim::priced(crate::charges::READ_ITER, 1);
        let bytes = self.mount.file_system().read(file.vnode.ino, offset, buffer, file.io)?;
        if !buffer.is_empty() {
            self.accessed(file);
        }
        Ok(bytes)
    }

    #[inline]
    pub(super) fn write_at(&self, file: &OpenFile, data: &[u8], offset: u64) -> Result<Written> {
        if !file.flags.contains(OpenFlags::WRITE) {
            return Err(Errno::EBADF);
        }
        check_range(offset, data.len())?;
        if data.is_empty() {
            return Ok(Written { offset, bytes: 0 });
        }
        let room = self.room_for(file, offset, data.len())?;
        if file.vnode.perm() & 0o6000 != 0 {
            self.clear_set_id(&file.vnode)?;
        }
        let ino = file.vnode.ino;
        let about = if file.io.contains(IoFlags::APPEND) { ALL } else { span(offset, room) };
        self.mount.watch.tell(|watcher| watcher.about_to_use(ino, about.clone()));
        sim::priced(crate::charges::WRITE_ITER, 1);
        let written = self.mount.file_system().write(ino, offset, &data[..room], file.io);
        file.vnode.changed();
        self.mount.watch.tell(|watcher| match written {
            Ok(Written { offset, bytes }) => watcher.changed(ino, span(offset, bytes)),
            Err(_) => watcher.changed(ino, about),
        });
        written
    }

    /// How many of `len` bytes may be written without exceeding the limit of sizes. `EFBIG` when none.
    #[inline]
    pub(super) fn room_for(&self, file: &OpenFile, offset: u64, len: usize) -> Result<usize> {
        let limit = self.limits.file_size;
        let known = limit == OFFSET_MAX || !file.io.contains(IoFlags::APPEND);
        if known && offset.saturating_add(len as u64) <= limit {
            return Ok(len);
        }
        self.room_at_limit(file, offset, len)
    }

    /// Another task may move the end of the file before an append: the limit of the process is not exact
    /// then.
    #[cold]
    fn room_at_limit(&self, file: &OpenFile, offset: u64, len: usize) -> Result<usize> {
        let limit = self.limits.file_size;
        let start = match file.io.contains(IoFlags::APPEND) {
            true => self.mount.file_system().getattr(file.vnode.ino)?.size,
            false => offset,
        };
        if start >= limit { Err(Errno::EFBIG) } else { Ok(len.min((limit - start) as usize)) }
    }

    pub(super) fn read_on(&self, file: &OpenFile, buffer: &mut [u8]) -> Result<usize> {
        let mut position = file.position.lock();
        let bytes = self.read_at(file, buffer, *position)?;
        *position += bytes as u64;
        Ok(bytes)
    }

    pub(super) fn write_on(&self, file: &OpenFile, data: &[u8]) -> Result<usize> {
        let mut position = file.position.lock();
        let written = self.write_at(file, data, *position)?;
        if written.bytes > 0 {
            *position = written.offset + written.bytes as u64;
        }
        Ok(written.bytes)
    }

    pub(super) fn seek(&self, file: &OpenFile, offset: i64, whence: Whence) -> Result<u64> {
        let fs = self.mount.file_system();
        let ino = file.vnode.ino;
        let mut position = file.position.lock();
        let from = match whence {
            Whence::Set => 0,
            Whence::Current => *position,
            Whence::End => fs.getattr(ino)?.size,
            Whence::Find(to) => {
                *position = self.find(file, offset, to)?;
                return Ok(*position);
            }
        };
        let target =
            i64::try_from(from).ok().and_then(|from| from.checked_add(offset)).ok_or(Errno::EINVAL)?;
        *position = u64::try_from(target).map_err(|_| Errno::EINVAL)?;
        Ok(*position)
    }

    fn find(&self, file: &OpenFile, offset: i64, to: SeekTo) -> Result<u64> {
        let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
        if file.vnode.kind != FileKind::Regular {
            return Err(Errno::EINVAL);
        }
        self.mount.watch.tell(|watcher| watcher.about_to_use(file.vnode.ino, ALL));
        self.mount.file_system().seek(file.vnode.ino, offset, to)
    }

    /// Sets the access time of a file that was read.
    #[inline]
    pub(super) fn accessed(&self, file: &OpenFile) {
        if !file.flags.contains(OpenFlags::NOATIME) {
            self.mount.accessed(&file.vnode);
        }
    }

    /// A user who is not root writes to a file with set-id bits.
    #[cold]
    pub(super) fn clear_set_id(&self, vnode: &Vnode) -> Result<()> {
        let subject = vnode.subject();
        if self.who.perm_after_write(&subject) == subject.perm {
            return Ok(());
        }
        self.mount.setattr(vnode, |subject| {
            Ok(SetAttr { perm: Some(self.who.perm_after_write(subject)), ..SetAttr::default() })
        })
    }

    /// Truncates or extends a regular file.
    pub(super) fn set_size(&self, vnode: &Vnode, size: u64) -> Result<()> {
        check_offset(size)?;
        if size > self.limits.file_size {
            return Err(Errno::EFBIG);
        }
        self.mount.watch.tell(|watcher| watcher.about_to_use(vnode.ino, ALL));
        let done = self.mount.setattr(vnode, |subject| {
            let perm = Some(self.who.perm_after_write(subject)).filter(|perm| *perm != subject.perm);
            Ok(SetAttr { size: Some(size), perm, ..SetAttr::default() })
        });
        self.mount.watch.tell(|watcher| watcher.changed(vnode.ino, size..u64::MAX));
        done
    }

    pub(super) fn truncate_file(&self, file: &OpenFile, size: u64) -> Result<()> {
        if file.vnode.kind != FileKind::Regular || !file.flags.contains(OpenFlags::WRITE) {
            return Err(Errno::EINVAL);
        }
        self.set_size(&file.vnode, size)
    }

    pub(super) fn allocate(&self, file: &OpenFile, mode: FallocateMode, offset: u64, len: u64) -> Result<()> {
        if offset > OFFSET_MAX || len > OFFSET_MAX {
            return Err(Errno::EINVAL);
        }
        mode.check(len)?;
        match file.vnode.kind {
            _ if !file.flags.contains(OpenFlags::WRITE) => return Err(Errno::EBADF),
            FileKind::Regular => {}
            FileKind::Directory => return Err(Errno::EISDIR),
            _ => return Err(Errno::ENODEV),
        }
        if !mode.contains(FallocateMode::PUNCH_HOLE) && offset.saturating_add(len) > self.limits.file_size {
            return Err(Errno::EFBIG);
        }
        self.clear_set_id(&file.vnode)?;
        let (ino, range) = (file.vnode.ino, offset..offset.saturating_add(len));
        self.mount.watch.tell(|watcher| watcher.about_to_use(ino, range.clone()));
        let done = self.mount.file_system().fallocate(ino, mode, offset, len);
        file.vnode.changed();
        self.mount.watch.tell(|watcher| watcher.changed(ino, range));
        done
    }

    pub(super) fn read_entries(
        &self,
        file: &OpenFile,
        sink: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        if !file.vnode.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        if file.vnode.is_removed() {
            return Err(Errno::ENOENT);
        }
        let mut position = file.position.lock();
        let mut cursor = *position;
        let _directory = self.mount.list_directory(&file.vnode);
        self.mount.file_system().readdir(file.vnode.ino, cursor, &mut |entry| {
            let next = entry.next;
            let more = sink(entry);
            cursor = next;
            more
        })?;
        *position = cursor;
        self.accessed(file);
        Ok(())
    }
}

/// `EINVAL` unless the range lies within what signed offsets reach.
#[inline]
fn check_range(offset: u64, len: usize) -> Result<()> {
    match offset.checked_add(len as u64) {
        Some(end) if end <= OFFSET_MAX => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}
