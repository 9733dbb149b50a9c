//! Reading directories as programs do: glibc's readdir(3) asks the kernel for a buffer of entries, gives them one by one, and asks
//! again when it has given all.

use vfs::{DirEntry, Fd, FileKind, OpenFlags, Result, Syscalls};

/// Bytes of the buffer: glibc takes 32 KiB where blocks of a file are no larger.
const BUFFER: usize = 32 << 10;
/// What an entry takes at most: getdents64(2), with a name of 255 bytes.
const LARGEST: usize = 280;

/// What one call of getdents has given.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    names: Vec<u8>,
    entries: Vec<(usize, Option<FileKind>)>,
}

impl Listing {
    /// Opens a directory as opendir(3) does.
    pub(crate) fn open(calls: &dyn Syscalls, path: &[u8]) -> Result<Fd> {
        let fd = calls.open(path, OpenFlags::READ | OpenFlags::DIRECTORY, 0)?;
        calls.fstat(fd).map(|_| fd)
    }

    /// Reads on; says whether there was anything.
    pub(crate) fn fill(&mut self, calls: &dyn Syscalls, fd: Fd) -> Result<bool> {
        self.names.clear();
        self.entries.clear();
        let mut left = BUFFER;
        calls.getdents(fd, &mut |entry: DirEntry<'_>| {
            self.names.extend_from_slice(entry.name);
            self.entries.push((self.names.len(), entry.kind));
            left = left.saturating_sub((20 + entry.name.len()).next_multiple_of(8));
            left >= LARGEST
        })?;
        Ok(!self.entries.is_empty())
    }

    /// The names in their order, `.` and `..` among them.
    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.entries.iter().map(|(end, _)| *end));
        starts.zip(&self.entries).map(|(start, (end, _))| &self.names[start..*end])
    }
}
