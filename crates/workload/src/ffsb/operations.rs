//! What each operation calls, and how it is counted: each block that is read or written is an operation, and so is a call that
//! moves no data.
//!
//! | operation | calls |
//! |---|---|
//! | read, readall | open, reads of blocks, an lseek before each where they are random or some are left out, close |
//! | write, writeall | open, writes over what is there, never beyond, fsync if it is said, close |
//! | create | open (new), writes, close |
//! | append | open (append), writes, close |
//! | delete | unlink |
//! | metaop | mkdir twice, rename of the one, rmdir of the other |
//! | createdir, stat, open_close | mkdir; stat; open and close |

use rand::RngExt as _;
use sim::{Nanos, Rng};
use vfs::{Errno, OpenFlags, RenameFlags, Syscalls, Whence};

use super::files::{self, Files};
use super::profile::{Group, Piece};
use crate::app::control::{self, Does, Failure};
use crate::tree::CallFailed;

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    ReadAll,
    Write,
    WriteAll,
    Create,
    Append,
    Delete,
    Meta,
    CreateDir,
    Stat,
    OpenClose,
}

/// How often an operation is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weight {
    pub(super) kind: Kind,
    /// With an fsync before close.
    pub(super) fsync: bool,
    pub(super) share: u64,
    /// Its line in the profile.
    pub(super) line: usize,
}

/// In the order of [`Kind`].
pub(super) const KINDS: &[control::Kind] = &[
    control::Kind { name: "read", does: Does::Reads },
    control::Kind { name: "readall", does: Does::Reads },
    control::Kind { name: "write", does: Does::Writes },
    control::Kind { name: "writeall", does: Does::Writes },
    control::Kind { name: "create", does: Does::Writes },
    control::Kind { name: "append", does: Does::Writes },
    control::Kind { name: "delete", does: Does::Other },
    control::Kind { name: "metaop", does: Does::Other },
    control::Kind { name: "createdir", does: Does::Other },
    control::Kind { name: "stat", does: Does::Other },
    control::Kind { name: "open_close", does: Does::Other },
];

/// The counter of each kind's draws.
pub(super) const DRAWN: [&str; KINDS.len()] = [
    "ffsb.drawn.read",
    "ffsb.drawn.readall",
    "ffsb.drawn.write",
    "ffsb.drawn.writeall",
    "ffsb.drawn.create",
    "ffsb.drawn.append",
    "ffsb.drawn.delete",
    "ffsb.drawn.metaop",
    "ffsb.drawn.createdir",
    "ffsb.drawn.stat",
    "ffsb.drawn.open_close",
];

/// What alignment rounds offsets to.
const ALIGNED: u64 = 4096;

/// A thread of a group, at one file system.
pub(super) struct Thread<'a> {
    pub(super) calls: &'a dyn Syscalls,
    pub(super) files: &'a Files,
    pub(super) group: &'a Group,
    pub(super) rng: &'a mut Rng,
    pub(super) is_direct: bool,
    pub(super) is_aligned: bool,
    /// Takes the bytes of each block, or 0 of an operation without any, and when it began.
    pub(super) each: &'a mut dyn FnMut(u64, Nanos),
}

impl Weight {
    /// Draws one of these weights.
    pub(super) fn draw(weights: &[Self], rng: &mut Rng) -> Option<Self> {
        let sum: u64 = weights.iter().map(|weight| weight.share).sum();
        let mut drawn = if sum > 0 { rng.random_range(0..sum) } else { return None };
        weights.iter().copied().find(|weight| match drawn.checked_sub(weight.share) {
            Some(rest) => {
                drawn = rest;
                false
            }
            None => true,
        })
    }
}

impl Thread<'_> {
    /// Makes an operation. False: there was no file for it, or it was removed meanwhile.
    pub(super) fn make(&mut self, weight: Weight) -> Result<bool, Failure> {
        match self.operation(weight) {
            Ok(done) => Ok(done),
            Err(CallFailed { errno: Errno::ENOENT, .. }) if weight.kind != Kind::Create => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn operation(&mut self, weight: Weight) -> Result<bool, CallFailed> {
        match weight.kind {
            Kind::Create => self.create(weight.fsync)?,
            Kind::Delete => return self.delete(),
            Kind::Meta => self.meta()?,
            Kind::CreateDir => {
                let (started, path) = (sim::now(), self.files.directory());
                self.mkdir(&path)?;
                (self.each)(0, started);
            }
            _ => {
                let Some((file, size)) = self.files.draw(self.rng) else { return Ok(false) };
                self.on_file(weight, file, size)?;
            }
        }
        Ok(true)
    }

    fn on_file(&mut self, weight: Weight, file: u64, size: u64) -> Result<(), CallFailed> {
        let path = self.files.path(file);
        let (read, write) = (self.group.read, self.group.write);
        let whole = |piece: Piece| Piece { size, is_random: false, ..piece };
        let started = sim::now();
        match weight.kind {
            Kind::Read => self.blocks(&path, size, read, false, weight.fsync),
            Kind::ReadAll => self.blocks(&path, size, whole(read), false, weight.fsync),
            Kind::Write => self.blocks(&path, size, write, true, weight.fsync),
            Kind::WriteAll => self.blocks(&path, size, whole(write), true, weight.fsync),
            Kind::Append => self.append(&path, file, weight.fsync),
            Kind::Stat => {
                self.calls.stat(path.as_bytes()).map_err(CallFailed::of("stat", &path))?;
                (self.each)(0, started);
                Ok(())
            }
            _ => {
                let fd = self.open(&path, OpenFlags::READ)?;
                self.calls.close(fd).map_err(CallFailed::of("close", &path))?;
                (self.each)(0, started);
                Ok(())
            }
        }
    }

    fn open(&self, path: &str, flags: OpenFlags) -> Result<vfs::Fd, CallFailed> {
        let flags = if self.is_direct { flags | OpenFlags::DIRECT } else { flags };
        self.calls.open(path.as_bytes(), flags, 0o644).map_err(CallFailed::of("open", path))
    }

    /// Reads or overwrites blocks of a file.
    fn blocks(
        &mut self,
        path: &str,
        size: u64,
        piece: Piece,
        writes: bool,
        fsync: bool,
    ) -> Result<(), CallFailed> {
        let fd =
            self.open(path, if writes { OpenFlags::READ | OpenFlags::WRITE } else { OpenFlags::READ })?;
        let mut buffer = vec![0; piece.block.min(size.max(1)) as usize];
        let (mut left, mut offset) = (piece.size.min(size), 0);
        while left > 0 && offset < size {
            let len = left.min(piece.block).min(size - offset);
            if piece.is_random {
                offset = self.rng.random_range(0..=size - len);
                offset = if self.is_aligned { offset / ALIGNED * ALIGNED } else { offset };
            }
            let started = sim::now();
            let skips = !writes && self.group.skip > 0;
            if piece.is_random || (skips && offset > 0) {
                self.calls
                    .lseek(fd, offset.cast_signed(), Whence::Set)
                    .map_err(CallFailed::of("lseek", path))?;
            }
            let bytes = &mut buffer[..len as usize];
            let moved = if writes {
                self.calls.write(fd, bytes).map_err(CallFailed::of("write", path))?
            } else {
                self.calls.read(fd, bytes).map_err(CallFailed::of("read", path))?
            };
            if moved as u64 != len {
                return Err(CallFailed::of(if writes { "write" } else { "read" }, path)(Errno::EIO));
            }
            (self.each)(len, started);
            left -= len;
            offset = match piece.is_random {
                true => 0,
                false => offset + len + if skips { self.group.skip } else { 0 },
            };
        }
        if fsync {
            self.calls.fsync(fd).map_err(CallFailed::of("fsync", path))?;
        }
        self.calls.close(fd).map_err(CallFailed::of("close", path))
    }

    fn create(&mut self, fsync: bool) -> Result<(), CallFailed> {
        let (file, size) = (self.files.number(), self.files.draw_size(self.rng));
        let mut started = sim::now();
        let each = &mut self.each;
        let mut tell = |bytes| {
            each(bytes, started);
            started = sim::now();
        };
        files::write_new(self.calls, &self.files.path(file), size, self.group.write.block, fsync, &mut tell)?;
        self.files.made(file, size);
        Ok(())
    }

    fn append(&mut self, path: &str, file: u64, fsync: bool) -> Result<(), CallFailed> {
        let fd = self.open(path, OpenFlags::WRITE | OpenFlags::APPEND)?;
        let mut started = sim::now();
        let each = &mut self.each;
        let mut tell = |bytes| {
            each(bytes, started);
            started = sim::now();
        };
        let write = self.group.write;
        files::write_on(self.calls, fd, path, write.size, write.block, &mut tell)?;
        if fsync {
            self.calls.fsync(fd).map_err(CallFailed::of("fsync", path))?;
        }
        self.calls.close(fd).map_err(CallFailed::of("close", path))?;
        self.files.grown(file, write.size);
        Ok(())
    }

    fn delete(&mut self) -> Result<bool, CallFailed> {
        let Some(file) = self.files.take(self.rng) else { return Ok(false) };
        let (started, path) = (sim::now(), self.files.path(file));
        self.calls.unlink(path.as_bytes()).map_err(CallFailed::of("unlink", &path))?;
        (self.each)(0, started);
        Ok(true)
    }

    fn mkdir(&self, path: &str) -> Result<(), CallFailed> {
        self.calls.mkdir(path.as_bytes(), 0o755).map_err(CallFailed::of("mkdir", path))
    }

    fn meta(&mut self) -> Result<(), CallFailed> {
        let (one, other, renamed) = (self.files.directory(), self.files.directory(), self.files.directory());
        let started = sim::now();
        self.mkdir(&one)?;
        self.mkdir(&other)?;
        let moved = self.calls.rename(one.as_bytes(), renamed.as_bytes(), RenameFlags::empty());
        moved.map_err(CallFailed::of("rename", &one))?;
        self.calls.rmdir(other.as_bytes()).map_err(CallFailed::of("rmdir", &other))?;
        (self.each)(0, started);
        Ok(())
    }
}
