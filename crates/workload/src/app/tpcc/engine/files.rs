//! Files of a database: whole reads and writes, counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use vfs::{Errno, Fd, OpenFlags, RenameFlags, Syscalls};

use crate::app::control::Failure;
use crate::app::tpcc::COUNTS;
use crate::tree::CallFailed;

/// What the engine does, or why it cannot go on.
pub(in crate::app::tpcc) type Done<T = ()> = Result<T, Failure>;

/// Calls and bytes at the boundary of the file system.
#[derive(Debug, Default)]
pub(super) struct Counts([AtomicU64; COUNTS.len()]);

impl Counts {
    fn add(&self, at: usize, more: u64) {
        self.0[at].fetch_add(more, Relaxed);
    }

    /// Names and values.
    pub(super) fn values(&self) -> Vec<(&'static str, u64)> {
        COUNTS.into_iter().zip(self.0.iter().map(|count| count.load(Relaxed))).collect()
    }
}

/// An open file with its name, for messages.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) fd: Fd,
    pub(super) path: String,
}

/// The calls of a process.
#[derive(Clone)]
pub(in crate::app::tpcc) enum Calls<'a> {
    /// Of the server, whose tasks share them.
    Own(Arc<dyn Syscalls>),
    /// Of another process, for a while.
    Lent(&'a dyn Syscalls),
}

impl<'a> Calls<'a> {
    fn get(&self) -> &(dyn Syscalls + 'a) {
        match self {
            Self::Own(calls) => &**calls,
            Self::Lent(calls) => *calls,
        }
    }
}

/// Calls of the server.
pub(super) struct Files<'a> {
    calls: Calls<'a>,
    pub(super) counts: Counts,
}

impl<'a> Files<'a> {
    pub(super) fn new(calls: Calls<'a>) -> Self {
        Self { calls, counts: Counts::default() }
    }

    /// Opens a file, which must exist unless it is made.
    pub(super) fn open(&self, path: &str, makes: bool) -> Done<File> {
        let flags = OpenFlags::READ | OpenFlags::WRITE;
        let flags = if makes { flags | OpenFlags::CREATE } else { flags };
        let fd =
            self.calls.get().open(path.as_bytes(), flags, 0o600).map_err(CallFailed::of("open", path))?;
        Ok(File { fd, path: path.to_owned() })
    }

    /// The same where it may be missing.
    pub(super) fn open_if_there(&self, path: &str) -> Done<Option<File>> {
        match self.calls.get().open(path.as_bytes(), OpenFlags::READ | OpenFlags::WRITE, 0) {
            Ok(fd) => Ok(Some(File { fd, path: path.to_owned() })),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(CallFailed::of("open", path)(errno).into()),
        }
    }

    pub(super) fn close(&self, file: &File) -> Done {
        Ok(self.calls.get().close(file.fd).map_err(CallFailed::of("close", &file.path))?)
    }

    pub(super) fn mkdir(&self, path: &str) -> Done {
        Ok(self.calls.get().mkdir(path.as_bytes(), 0o700).map_err(CallFailed::of("mkdir", path))?)
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> Done {
        let renamed = self.calls.get().rename(from.as_bytes(), to.as_bytes(), RenameFlags::empty());
        Ok(renamed.map_err(CallFailed::of("rename", from))?)
    }

    pub(super) fn unlink(&self, path: &str) -> Done {
        Ok(self.calls.get().unlink(path.as_bytes()).map_err(CallFailed::of("unlink", path))?)
    }

    /// Makes the names in a directory durable.
    pub(super) fn sync_directory(&self, path: &str) -> Done {
        let flags = OpenFlags::READ | OpenFlags::DIRECTORY;
        let fd = self.calls.get().open(path.as_bytes(), flags, 0).map_err(CallFailed::of("open", path))?;
        self.calls.get().fsync(fd).map_err(CallFailed::of("fsync", path))?;
        Ok(self.calls.get().close(fd).map_err(CallFailed::of("close", path))?)
    }

    /// Reads; what is behind the end of the file is zero.
    pub(super) fn read(&self, file: &File, into: &mut [u8], offset: u64) -> Done {
        let mut at = 0;
        while at < into.len() {
            let read = self.calls.get().pread(file.fd, &mut into[at..], offset + at as u64);
            let read = read.map_err(CallFailed::of("pread", &file.path))?;
            self.counts.add(0, 1);
            self.counts.add(1, read as u64);
            if read == 0 {
                into[at..].fill(0);
                break;
            }
            at += read;
        }
        Ok(())
    }

    pub(super) fn write(&self, file: &File, bytes: &[u8], offset: u64) -> Done {
        let mut at = 0;
        while at < bytes.len() {
            let wrote = self.calls.get().pwrite(file.fd, &bytes[at..], offset + at as u64);
            let wrote = wrote.map_err(CallFailed::of("pwrite", &file.path))?;
            self.counts.add(2, 1);
            self.counts.add(3, wrote as u64);
            if wrote == 0 {
                return Err(CallFailed::of("pwrite", &file.path)(Errno::EIO).into());
            }
            at += wrote;
        }
        Ok(())
    }

    /// A write of the log.
    pub(super) fn write_log(&self, file: &File, bytes: &[u8], offset: u64) -> Done {
        self.write(file, bytes, offset)?;
        self.counts.add(4, 1);
        self.counts.add(5, bytes.len() as u64);
        Ok(())
    }

    /// The sync that makes commits durable.
    pub(super) fn sync_log(&self, file: &File) -> Done {
        self.counts.add(6, 1);
        Ok(self.calls.get().fdatasync(file.fd).map_err(CallFailed::of("fdatasync", &file.path))?)
    }

    pub(super) fn sync(&self, file: &File) -> Done {
        self.counts.add(7, 1);
        Ok(self.calls.get().fsync(file.fd).map_err(CallFailed::of("fsync", &file.path))?)
    }
}
