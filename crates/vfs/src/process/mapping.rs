//! Mapped files of a process. A mapping holds the open file, as it does in the kernel, so that neither `close` nor the removal of
//! the last name ends it.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use sim::Clock;

use super::{OpenFile, Process, end, enter};
use crate::attr::FileKind;
use crate::descriptors::Descriptors;
use crate::errno::{Errno, Result};
use crate::flags::{MappingKind, OpenFlags, Protection};
use crate::mapping::{
    MappedFiles, Mapping, PAGE, charge_fault, check_access, check_range, check_sync, page_pieces,
};
use crate::mount::Mount;
use crate::ops;
use crate::syscalls::Fd;
use crate::watch::span;

impl Process {
    pub(super) fn map_file(
        &self,
        fd: Fd,
        (offset, len): (u64, u64),
        protection: Protection,
        kind: MappingKind,
    ) -> Result<Box<dyn Mapping>> {
        if !offset.is_multiple_of(PAGE) {
            return Err(Errno::EINVAL);
        }
        let file = self.files.get(fd)?;
        match self.begin_mapping(&file, (offset, len), protection, kind) {
            Ok(size) => {
                let present = Mutex::default();
                let (mount, file) = (Arc::clone(&self.mount), Some(file));
                Ok(Box::new(FileMapping { mount, file, offset, size, protection, present }))
            }
            Err(errno) => {
                self.put(file);
                Err(errno)
            }
        }
    }

    fn begin_mapping(
        &self,
        file: &OpenFile,
        (offset, len): (u64, u64),
        protection: Protection,
        kind: MappingKind,
    ) -> Result<u64> {
        file.check_usable()?;
        let size = check_range(offset, len)?;
        let writable = protection.contains(Protection::WRITE);
        if !file.flags.contains(OpenFlags::READ) || (writable && !file.flags.contains(OpenFlags::WRITE)) {
            return Err(Errno::EACCES);
        }
        if file.vnode.kind != FileKind::Regular {
            return Err(Errno::ENODEV);
        }
        let mapped = self.mount.file_system().mapped_files().ok_or(Errno::ENODEV)?;
        mapped.map_as(file.vnode.ino, &pages(offset, size), writable, kind)?;
        self.accessed(file);
        Ok(size)
    }
}

fn pages(offset: u64, size: u64) -> Range<u64> {
    offset / PAGE..(offset + size) / PAGE
}

/// A mapping of a file of a [`Mount`].
struct FileMapping {
    mount: Arc<Mount>,
    /// There until the mapping ends.
    file: Option<Arc<OpenFile>>,
    offset: u64,
    size: u64,
    protection: Protection,
    /// Pages that this mapping has touched, of a run that charges faults. Held for one look.
    present: Mutex<FxHashSet<u64>>,
}

impl FileMapping {
    fn parts(&self) -> Result<(&OpenFile, &dyn MappedFiles)> {
        let file = self.file.as_ref().ok_or(Errno::EFAULT)?;
        Ok((file, self.mount.file_system().mapped_files().ok_or(Errno::ENODEV)?))
    }

    fn check(&self, want: Protection, at: u64, len: usize) -> Result<()> {
        if self.protection.intersects(want) { check_access(self.size, at, len) } else { Err(Errno::EFAULT) }
    }

    /// Whether this is the first access to a page, in a run that charges for it.
    fn is_first(&self, at: u64) -> bool {
        sim::clock() == Clock::Virtual && self.present.lock().insert(at / PAGE)
    }
}

impl Mapping for FileMapping {
    fn read(&self, at: u64, buffer: &mut [u8]) -> Result<()> {
        let _op = sim::op(ops::LOAD);
        self.check(Protection::READ | Protection::WRITE, at, buffer.len())?;
        let (file, mapped) = self.parts()?;
        for (piece, at) in page_pieces(at, buffer.len()) {
            if self.is_first(at) {
                charge_fault();
            }
            let bytes = span(self.offset + at, piece.len());
            self.mount.watch.tell(|watcher| watcher.about_to_use(file.vnode.ino, bytes));
            mapped.load(file.vnode.ino, self.offset + at, &mut buffer[piece])?;
        }
        Ok(())
    }

    fn write(&self, at: u64, data: &[u8]) -> Result<()> {
        let _op = sim::op(ops::STORE);
        self.check(Protection::WRITE, at, data.len())?;
        let (file, mapped) = self.parts()?;
        for (piece, at) in page_pieces(at, data.len()) {
            let (ino, bytes) = (file.vnode.ino, span(self.offset + at, piece.len()));
            self.mount.watch.tell(|watcher| watcher.about_to_use(ino, bytes.clone()));
            let was_clean = mapped.store(ino, self.offset + at, &data[piece])?;
            self.mount.watch.tell(|watcher| watcher.changed(ino, bytes));
            if was_clean {
                file.vnode.changed();
            }
            if self.is_first(at) | was_clean {
                charge_fault();
            }
        }
        Ok(())
    }

    fn sync(&self, at: u64, len: u64) -> Result<()> {
        let _op = enter(ops::MSYNC);
        let range = check_sync(self.size, at, len)?;
        let (file, mapped) = self.parts()?;
        mapped.sync(file.vnode.ino, self.offset + range.start..self.offset + range.end)
    }
}

impl Drop for FileMapping {
    /// Ends the mapping, unless the run is over: then the design may not be called.
    fn drop(&mut self) {
        if crate::run_is_over() {
            return;
        }
        let Some(file) = self.file.take() else { return };
        let _op = enter(ops::MUNMAP);
        if let Some(mapped) = self.mount.file_system().mapped_files() {
            let writable = self.protection.contains(Protection::WRITE);
            mapped.unmap(file.vnode.ino, &pages(self.offset, self.size), writable);
        }
        if let Some(file) = Descriptors::put(file) {
            end(&self.mount, file);
        }
    }
}
