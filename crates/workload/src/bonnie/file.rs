//! A large file, of which Bonnie++ makes several where it is larger than a gibibyte.

use vfs::{Fd, OpenFlags, Syscalls, Whence};

use crate::app::control::Failure;
use crate::tree::CallFailed;

/// Bytes of a piece: `-s` of Bonnie++'s manual.
const PIECE: u64 = 1 << 30;

/// An open large file.
pub(super) struct Large<'a> {
    calls: &'a dyn Syscalls,
    pieces: Vec<(String, Fd)>,
    at: u64,
}

/// The names of a file of so many bytes.
fn names(size: u64) -> Vec<String> {
    match size.div_ceil(PIECE) {
        0 | 1 => vec!["Bonnie.large".to_owned()],
        many => (0..many).map(|number| format!("Bonnie.large.{number:03}")).collect(),
    }
}

/// Removes a file of so many bytes, which need not be there.
pub(super) fn remove(calls: &dyn Syscalls, size: u64) -> Result<(), Failure> {
    for name in names(size) {
        match calls.unlink(name.as_bytes()) {
            Ok(()) | Err(vfs::Errno::ENOENT) => {}
            Err(errno) => return Err(CallFailed::of("unlink", &name)(errno).into()),
        }
    }
    Ok(())
}

impl<'a> Large<'a> {
    /// Opens a file of so many bytes with these flags besides reading and writing.
    pub(super) fn open(calls: &'a dyn Syscalls, size: u64, flags: OpenFlags) -> Result<Self, Failure> {
        let mut pieces = Vec::new();
        for name in names(size) {
            let flags = OpenFlags::READ | OpenFlags::WRITE | flags;
            let fd = calls.open(name.as_bytes(), flags, 0o600).map_err(CallFailed::of("open", &name))?;
            pieces.push((name, fd));
        }
        Ok(Self { calls, pieces, at: 0 })
    }

    /// The piece of the current position.
    fn piece(&self) -> (&str, Fd) {
        let number = (self.at / PIECE) as usize;
        let (name, fd) = &self.pieces[number.min(self.pieces.len() - 1)];
        (name, *fd)
    }

    /// Goes to an offset. No chunk lies in two pieces.
    pub(super) fn seek(&mut self, to: u64) -> Result<(), Failure> {
        self.at = to;
        let (name, fd) = self.piece();
        self.calls
            .lseek(fd, (to % PIECE).cast_signed(), Whence::Set)
            .map_err(CallFailed::of("lseek", name))?;
        Ok(())
    }

    /// Goes back by so many bytes.
    pub(super) fn back(&mut self, by: u64) -> Result<(), Failure> {
        self.at -= by;
        let (name, fd) = self.piece();
        self.calls.lseek(fd, -by.cast_signed(), Whence::Current).map_err(CallFailed::of("lseek", name))?;
        Ok(())
    }

    /// Fills `buffer`; says how many bytes there were before the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        let (name, fd) = self.piece();
        let read = self.calls.read(fd, buffer).map_err(CallFailed::of("read", name))?;
        self.at += read as u64;
        Ok(read)
    }

    /// Writes all of `data`.
    pub(super) fn write(&mut self, data: &[u8]) -> Result<(), Failure> {
        let (name, fd) = self.piece();
        let wrote = self.calls.write(fd, data).map_err(CallFailed::of("write", name))?;
        if wrote < data.len() {
            return Err(Failure::new(
                format!("write of {name}: {wrote} of {} bytes", data.len()),
                Some(vfs::Errno::ENOSPC),
            ));
        }
        self.at += wrote as u64;
        Ok(())
    }

    /// Makes all that was written durable.
    pub(super) fn sync(&self) -> Result<(), Failure> {
        for (name, fd) in &self.pieces {
            self.calls.fsync(*fd).map_err(CallFailed::of("fsync", name))?;
        }
        Ok(())
    }

    /// Closes it.
    pub(super) fn close(self) -> Result<(), Failure> {
        for (name, fd) in &self.pieces {
            self.calls.close(*fd).map_err(CallFailed::of("close", name))?;
        }
        Ok(())
    }
}
