//! One file of 8 MiB, written in pieces with other files between them, then read past the cache: the study's own programs.
//!
//! Every piece is followed by fdatasync, so the device gets the writes in the order of the program. Dummies are zeros: a device
//! that keeps none of these takes no memory for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use sim::{KIB, MIB, Nanos};
use vfs::{Errno, Fd, OpenFlags, Syscalls};

use super::layout::{PUBLISHED, mixed};
use super::{GRANULE, TARGET};
use crate::suite::{How, Job, JobError, Measured, Phase, Processes};

/// How the device is left alone between dropping caches and reading.
const PAUSE: Nanos = Nanos::from_secs(5);
/// The page that operations count.
const PAGE: u64 = 4 * KIB;

/// The size of the files between pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spacing {
    /// Always this.
    Bytes(u64),
    /// 1 to 32 granules, as the artifact's generator gives them.
    Published,
    /// 1 to 32 granules, by the seed of the run.
    Random,
}

/// What is written, and how it is read.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// The file is whole before the pieces are written over it.
    pub(super) overwrite: bool,
    /// Pieces that are written with a dummy after each.
    pub(super) pieces: u64,
    pub(super) spacing: Spacing,
    /// Which draw of random sizes, of those that a seed gives.
    pub(super) draw: u64,
    /// Bytes of a read call.
    pub(super) call: u64,
    /// Times that it is read.
    pub(super) reads: u64,
    /// Dummies are removed before it is read.
    pub(super) removes: bool,
}

impl Default for Target {
    fn default() -> Self {
        Self {
            overwrite: false,
            pieces: 0,
            spacing: Spacing::Bytes(0),
            draw: 0,
            call: MIB,
            reads: 1,
            removes: false,
        }
    }
}

/// A target on the processes of a subject.
struct Run {
    target: Target,
    seed: u64,
    check: bool,
    calls: Arc<dyn Syscalls>,
}

const NAME: &[u8] = b"/target";

/// An error of a call, in words.
pub(super) fn told(what: &str) -> impl Fn(Errno) -> JobError + '_ {
    move |errno| match errno {
        Errno::ENOSPC => JobError::Full(format!("{what}: no space left")),
        errno => JobError::Failed(format!("{what}: {errno}")),
    }
}

/// Writes all of `data` at `offset`.
pub(super) fn write_all(calls: &dyn Syscalls, fd: Fd, data: &[u8], offset: u64) -> Result<(), JobError> {
    match calls.pwrite(fd, data, offset).map_err(told("write"))? {
        bytes if bytes == data.len() => Ok(()),
        bytes => Err(JobError::Full(format!("write: {bytes} of {} bytes", data.len()))),
    }
}

/// What a file holds at an offset: each word is its own place.
pub(super) fn content(offset: u64, bytes: u64) -> Vec<u8> {
    (offset / 8..(offset + bytes) / 8).flat_map(|word| (word ^ 0x5eed_5eed_5eed_5eed).to_le_bytes()).collect()
}

/// Drops caches and waits until the device is idle.
pub(super) fn settle(calls: &dyn Syscalls) -> Result<(), JobError> {
    calls.drop_caches().map_err(told("dropping caches"))?;
    sim::sleep(PAUSE);
    Ok(())
}

impl Target {
    pub(super) fn job(self, how: &How, processes: &dyn Processes) -> Arc<dyn Job> {
        Arc::new(Run { target: self, seed: how.seed.0, check: how.check, calls: processes.start() })
    }

    pub(super) fn data_bytes(&self) -> u64 {
        let dummies: u64 = (0..self.pieces).map(|piece| self.dummy(piece, 1)).sum();
        TARGET + dummies
    }

    fn dummy(&self, piece: u64, seed: u64) -> u64 {
        match self.spacing {
            Spacing::Bytes(bytes) => bytes,
            Spacing::Published => u64::from(PUBLISHED[piece as usize % PUBLISHED.len()]) * GRANULE,
            Spacing::Random => (mixed(seed.wrapping_add(self.draw << 32), piece) % 32 + 1) * GRANULE,
        }
    }
}

impl Run {
    fn piece_bytes(&self) -> u64 {
        TARGET / self.target.pieces.max(1)
    }

    /// Writes the whole file in calls of 1 MiB.
    fn write_whole(&self, fd: Fd) -> Result<(), JobError> {
        for at in (0..TARGET).step_by(MIB as usize) {
            write_all(&*self.calls, fd, &content(at, MIB), at)?;
        }
        self.calls.fsync(fd).map_err(told("fsync"))
    }

    fn write_dummy(&self, piece: u64, zeros: &[u8]) -> Result<(), JobError> {
        let bytes = self.target.dummy(piece, self.seed) as usize;
        if bytes == 0 {
            return Ok(());
        }
        let name = dummy_name(piece);
        let fd = self.calls.open(&name, OpenFlags::WRITE | OpenFlags::CREATE, 0o644).map_err(told("open"))?;
        write_all(&*self.calls, fd, &zeros[..bytes], 0)?;
        self.calls.fdatasync(fd).map_err(told("fdatasync"))?;
        self.calls.close(fd).map_err(told("close"))
    }

    /// Reads the file once past the cache; the time of the calls.
    fn read(&self, fd: Fd, buffer: &mut [u8]) -> Result<Nanos, JobError> {
        let mut took = Nanos::ZERO;
        for at in (0..TARGET).step_by(buffer.len()) {
            let begin = sim::now();
            let bytes = self.calls.read(fd, buffer).map_err(told("read"))?;
            took += sim::now().since(begin);
            if bytes != buffer.len() {
                return Err(JobError::Failed(format!("read: {bytes} of {} bytes at {at}", buffer.len())));
            }
            if self.check && buffer != content(at, bytes as u64) {
                return Err(JobError::Failed(format!("the target holds something else at {at}")));
            }
        }
        Ok(took)
    }
}

fn dummy_name(piece: u64) -> Vec<u8> {
    format!("/dummy{piece}").into_bytes()
}

impl Job for Run {
    fn prepare(&self) -> Result<(), JobError> {
        let calls = &*self.calls;
        let fd = calls.open(NAME, OpenFlags::WRITE | OpenFlags::CREATE, 0o644).map_err(told("open"))?;
        if self.target.overwrite {
            self.write_whole(fd)?;
        }
        let piece = self.piece_bytes();
        let zeros = vec![0; TARGET as usize];
        for number in 0..self.target.pieces {
            let at = number * piece;
            write_all(calls, fd, &content(at, piece), at)?;
            calls.fdatasync(fd).map_err(told("fdatasync"))?;
            self.write_dummy(number, &zeros)?;
        }
        calls.fsync(fd).map_err(told("fsync"))?;
        calls.close(fd).map_err(told("close"))?;
        if self.target.removes {
            let dummies = (0..self.target.pieces).filter(|piece| self.target.dummy(*piece, self.seed) > 0);
            for piece in dummies {
                calls.unlink(&dummy_name(piece)).map_err(told("unlink"))?;
            }
        }
        Ok(())
    }

    fn work(&self, watch: &mut dyn FnMut(Phase)) -> Result<Measured, JobError> {
        let mut buffer = vec![0; self.target.call as usize];
        let (mut measured, mut extents) = (Measured::default(), 0);
        watch(Phase::Begins);
        for _ in 0..self.target.reads.max(1) {
            settle(&*self.calls)?;
            let flags = OpenFlags::READ | OpenFlags::DIRECT;
            let fd = self.calls.open(NAME, flags, 0).map_err(told("open"))?;
            measured.elapsed += self.read(fd, &mut buffer)?;
            extents = self.calls.extents(fd).map_or(0, |extents| extents.len() as u64);
            self.calls.close(fd).map_err(told("close"))?;
            measured.ops += TARGET / PAGE;
            measured.read_ops += TARGET / PAGE;
            measured.read_bytes += TARGET;
        }
        watch(Phase::Ends);
        measured.counters = BTreeMap::from([("extents".to_owned(), extents)]);
        Ok(measured)
    }

    fn verify(&self, calls: &dyn Syscalls) -> Result<(), JobError> {
        let fd = calls.open(NAME, OpenFlags::READ, 0).map_err(told("open"))?;
        let mut buffer = vec![0; MIB as usize];
        for at in (0..TARGET).step_by(MIB as usize) {
            let bytes = calls.pread(fd, &mut buffer, at).map_err(told("read"))?;
            if buffer[..bytes] != content(at, MIB) {
                return Err(JobError::Failed(format!("the target holds something else at {at}")));
            }
        }
        calls.close(fd).map_err(told("close"))
    }

    fn placed(&self) -> Option<&[u8]> {
        Some(NAME)
    }

    fn conclude(&self) -> Result<(), JobError> {
        let names = (0..self.target.pieces).map(dummy_name).chain([NAME.to_vec()]);
        for name in names {
            match self.calls.unlink(&name) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(errno) => return Err(told("unlink")(errno)),
            }
        }
        Ok(())
    }
}
