//! One worker: what it opens, and one operation of its loop.
//!
//! A call that a signal has interrupted is made again: it is no failure of the file system.

use std::collections::BTreeSet;

use rand::{Rng as _, RngExt};
use rand_distr::{Distribution, Normal};
use serde::{Deserialize, Serialize};
use sim::Work;
use vfs::{Errno, Fd, OpenFlags, RenameFlags, Syscalls, Whence};

use super::block::Block;
use super::names::{self, Numbered, ROOT, TreePath};
use super::parameters::{BLOCK, FANOUT, LEVELS};
use super::prepare::{CREATE, Prepared};
use super::run::Plan;
use super::table::{Loop, Sharing};
use crate::tree::CallFailed;

/// Bytes of entries that the C library reads at once.
const LIBRARY_BUFFER: usize = 32 << 10;
/// What an entry takes in that buffer besides its name: inode, offset, length, kind, and the zero at the end (getdents64).
const ENTRY_BYTES: usize = 20;

/// The call that a comparison of what was read with what was written names.
const NOT_WRITTEN: &str = "pread, which read what was not written,";

/// How an operation ended.
#[derive(Debug)]
pub(super) enum Done {
    /// It moved so many bytes.
    Moved(u64),
    /// There was nothing left to work on: no call was made.
    NothingLeft,
    /// The file system was full.
    Full,
    /// A call failed.
    Failed(CallFailed),
}

/// A worker with what it has open.
pub(super) struct Worker<'a> {
    plan: &'a Plan,
    /// Its number.
    pub(super) w: u64,
    work: Loop,
    calls: &'a dyn Syscalls,
    fd: Option<Fd>,
    /// The offset at which it reads or overwrites.
    offset: u64,
    path: String,
    names: Numbered,
    targets: Numbered,
    tree: TreePath,
    block: Block,
    /// What it reads into, where a read is longer than a block.
    long: Vec<u8>,
    /// What it reads, where that is compared and no worker overwrites it.
    expected: Option<Block>,
    rng: sim::Rng,
    /// Number of the next operation.
    next: u64,
    prepared: Prepared,
    listing: Listing,
    /// In the background of MRPM: the files that it has made.
    toggled: BTreeSet<String>,
}

/// How far a directory has been read.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Listing {
    /// Entries in the library's buffer that were not asked for yet.
    buffered: u64,
    /// Entries that were listed.
    pub(super) entries: u64,
    /// Calls of getdents64.
    pub(super) calls: u64,
    /// Times that the end was reached.
    pub(super) passes: u64,
}

impl<'a> Worker<'a> {
    pub(super) fn new(plan: &'a Plan, w: u64, calls: &'a dyn Syscalls, prepared: Prepared) -> Self {
        let work = plan.own_work(w);
        let shared = matches!(work, Loop::Read(Sharing::Medium) | Loop::Overwrite(Sharing::Medium));
        Self {
            plan,
            w,
            work,
            calls,
            fd: None,
            offset: if shared { w * plan.parameters.region } else { 0 },
            path: names::file(work, w),
            names: names::numbered(work, w),
            targets: names::moved(w),
            tree: TreePath::new(),
            block: Block::new(plan.seed, w, plan.parameters.switches.zero_data),
            long: vec![0; if plan.parameters.io == BLOCK { 0 } else { plan.parameters.io as usize }],
            expected: (plan.check && plan.parameters.background == 0).then(|| {
                let writer =
                    if matches!(work, Loop::Read(Sharing::Medium | Sharing::High)) { u64::MAX } else { w };
                Block::new(plan.seed, writer, plan.parameters.switches.zero_data)
            }),
            rng: plan.seed.derive("fxmark.worker", w).rng(),
            // The first block of each file has the number 0.
            next: u64::from(matches!(work, Loop::Overwrite(_) | Loop::OverwriteSync)),
            prepared,
            listing: Listing::default(),
            toggled: BTreeSet::new(),
        }
    }

    /// Opens what the loop needs.
    pub(super) fn open(&mut self) -> Result<(), CallFailed> {
        let flags = match self.work {
            Loop::Read(_)
            | Loop::ReadThrough
            | Loop::ReadSkewed
            | Loop::WriteThrough
            | Loop::WriteThroughSync
            | Loop::Overwrite(_)
            | Loop::OverwriteSync
            | Loop::Append
            | Loop::Truncate => OpenFlags::READ | OpenFlags::WRITE,
            Loop::List(_) => OpenFlags::READ | OpenFlags::DIRECTORY,
            _ => return Ok(()),
        };
        let direct = if self.plan.benchmark.direct { OpenFlags::DIRECT } else { OpenFlags::empty() };
        let fd = self.calls.open(self.path.as_bytes(), flags | direct, 0);
        self.fd = Some(fd.map_err(CallFailed::of("open", &self.path))?);
        self.read_first().map_err(|(call, errno)| CallFailed::of(call, &self.path)(errno))
    }

    /// The passes over the file that come before the measured time.
    fn read_first(&mut self) -> Result<(), (&'static str, Errno)> {
        if !matches!(self.work, Loop::WriteThrough | Loop::WriteThroughSync) {
            return Ok(());
        }
        let (passes, blocks) = (self.plan.parameters.read_first, self.prepared.blocks);
        (0..passes * blocks).try_for_each(|number| self.read(number % blocks * BLOCK).map(drop))
    }

    /// Closes it.
    pub(super) fn close(&mut self) -> Result<(), CallFailed> {
        match self.fd.take() {
            Some(fd) => self.calls.close(fd).map_err(CallFailed::of("close", &self.path)),
            None => Ok(()),
        }
    }

    /// How far the directory was read.
    pub(super) fn listing(&self) -> Listing {
        self.listing
    }

    /// The number of the next operation: so many were done, or tried.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// One operation.
    #[inline]
    pub(super) fn once(&mut self) -> Done {
        let done = match self.work {
            Loop::Read(_) => self.read(self.offset),
            Loop::Overwrite(_) => self.overwrite(),
            Loop::OverwriteSync => self.overwrite().and_then(|bytes| self.sync().map(|()| bytes)),
            Loop::Append => self.append(),
            Loop::Truncate => return self.truncate(),
            Loop::ReadThrough => {
                let number = self.next_of(self.reads());
                self.read_at(number)
            }
            Loop::WriteThrough => self.write_through(),
            Loop::WriteThroughSync => self.write_through().and_then(|bytes| self.sync().map(|()| bytes)),
            Loop::ReadSkewed => self.read_skewed(),
            Loop::Stat(sharing) => self.stat(sharing),
            Loop::List(_) => self.list(),
            Loop::Create(_) => self.create(false),
            Loop::CreateWrite => self.create(true),
            Loop::Unlink(_) => return self.unlink(),
            Loop::RenameWithin => self.rename_within(),
            Loop::RenameAcross => return self.rename_across(),
        };
        self.finish(done)
    }

    #[inline]
    fn finish(&mut self, done: Result<u64, (&'static str, Errno)>) -> Done {
        match done {
            Ok(bytes) => {
                self.next += 1;
                Done::Moved(bytes)
            }
            Err((_, Errno::ENOSPC | Errno::EDQUOT)) => Done::Full,
            Err((call, errno)) => Done::Failed(CallFailed { call, path: self.failing_path(), errno }),
        }
    }

    #[cold]
    fn failing_path(&mut self) -> String {
        match self.work {
            Loop::Create(_)
            | Loop::CreateWrite
            | Loop::Unlink(_)
            | Loop::RenameWithin
            | Loop::RenameAcross => String::from_utf8_lossy(self.names.at(self.next, false)).into_owned(),
            Loop::Stat(Sharing::Medium) => ROOT.to_owned(),
            _ => self.path.clone(),
        }
    }

    #[inline]
    fn fd(&self) -> Fd {
        self.fd.expect("the loop begins when everything is open")
    }

    #[inline]
    fn read(&mut self, offset: u64) -> Outcome {
        let (calls, fd) = (self.calls, self.fd());
        let len = again("pread", || calls.pread(fd, self.block.bytes_mut(), offset))?;
        if let Some(expected) = &mut self.expected
            && self.block.bytes() != expected.numbered(offset / BLOCK)
        {
            return Err((NOT_WRITTEN, Errno::EIO));
        }
        whole("pread", len)
    }

    /// Reads of the file from start to end.
    #[inline]
    fn reads(&self) -> u64 {
        self.prepared.blocks * BLOCK / self.plan.parameters.io
    }

    /// The read with this number in a pass over the file.
    #[inline]
    fn read_at(&mut self, number: u64) -> Outcome {
        if self.long.is_empty() {
            return self.read(number * BLOCK);
        }
        let (calls, fd, offset) = (self.calls, self.fd(), number * self.plan.parameters.io);
        let len = again("pread", || calls.pread(fd, &mut self.long, offset))?;
        if len < self.long.len() {
            return Err(("pread", Errno::EIO));
        }
        if let Some(expected) = &mut self.expected {
            let mut blocks = (offset / BLOCK..).zip(self.long.chunks(BLOCK as usize));
            if blocks.any(|(number, found)| found != expected.numbered(number)) {
                return Err((NOT_WRITTEN, Errno::EIO));
            }
        }
        Ok(len as u64)
    }

    fn read_skewed(&mut self) -> Outcome {
        let reads = self.reads() as f64;
        let normal = Normal::new(reads / 2.0, reads / self.plan.parameters.skew as f64);
        let normal = normal.expect("a deviation that is positive");
        let number = loop {
            let drawn: f64 = normal.sample(&mut self.rng);
            if (0.0..reads).contains(&drawn) {
                break drawn as u64;
            }
        };
        self.read_at(number)
    }

    #[inline]
    fn overwrite(&mut self) -> Outcome {
        let (calls, fd, offset) = (self.calls, self.fd(), self.offset);
        let data = self.block.numbered(self.next);
        let len = again("pwrite", || calls.pwrite(fd, data, offset))?;
        whole("pwrite", len)
    }

    /// Which of the `count` parts of the file is next.
    #[inline]
    fn next_of(&mut self, count: u64) -> u64 {
        match self.plan.parameters.at_random {
            true => self.rng.random_range(0..count),
            false => self.next % count,
        }
    }

    /// Blocks go on being numbered where those of the preparation ended.
    #[inline]
    fn write_through(&mut self) -> Outcome {
        let (calls, fd, offset) = (self.calls, self.fd(), self.next_of(self.prepared.blocks) * BLOCK);
        let data = self.block.numbered(self.prepared.blocks + self.next);
        let len = again("pwrite", || calls.pwrite(fd, data, offset))?;
        whole("pwrite", len)
    }

    #[inline]
    fn sync(&mut self) -> Result<(), (&'static str, Errno)> {
        again("fsync", || self.calls.fsync(self.fd()))
    }

    #[inline]
    fn append(&mut self) -> Outcome {
        let (calls, fd) = (self.calls, self.fd());
        let data = self.block.numbered(self.next);
        let len = again("write", || calls.write(fd, data))?;
        whole("write", len)
    }

    fn truncate(&mut self) -> Done {
        let Some(blocks) = self.prepared.blocks.checked_sub(self.next + 1) else { return Done::NothingLeft };
        let done = again("ftruncate", || self.calls.ftruncate(self.fd(), blocks * BLOCK));
        self.finish(done.map(|()| 0))
    }

    #[inline]
    fn stat(&mut self, sharing: Sharing) -> Outcome {
        let formatted = self.plan.parameters.switches.format_in_window;
        let digits = match sharing {
            Sharing::Low => {
                return again("stat", || self.calls.stat(self.path.as_bytes())).map(|_| 0);
            }
            Sharing::High => [0; LEVELS as usize],
            Sharing::Medium if self.plan.parameters.switches.eight_paths => digits_of_period_eight(self.next),
            Sharing::Medium => random_digits(&mut self.rng),
        };
        let path = self.tree.at(digits, formatted);
        again("stat", || self.calls.stat(path)).map(|_| 0)
    }

    /// One `readdir` of the C library: an entry of its buffer, which a call fills when it is empty.
    fn list(&mut self) -> Outcome {
        sim::work(Work::LOCK, 1);
        sim::work(Work::STEP, 1);
        if self.listing.buffered == 0 && self.fill()? == 0 {
            self.listing.passes += 1;
            if self.plan.parameters.switches.empty_getdents {
                return Ok(0);
            }
            again("lseek", || self.calls.lseek(self.fd(), 0, Whence::Set))?;
            self.fill()?;
        }
        let entry = u64::from(self.listing.buffered > 0);
        self.listing.buffered -= entry;
        self.listing.entries += entry;
        Ok(0)
    }

    /// Reads as many entries as fit into the library's buffer; returns how many.
    fn fill(&mut self) -> Outcome {
        let (mut entries, mut bytes) = (0, 0);
        again("getdents", || {
            self.calls.getdents(self.fd(), &mut |entry| {
                bytes += (ENTRY_BYTES + entry.name.len()).next_multiple_of(8);
                entries += 1;
                bytes < LIBRARY_BUFFER
            })
        })?;
        self.listing.calls += 1;
        self.listing.buffered = entries;
        Ok(entries)
    }

    fn create(&mut self, write: bool) -> Outcome {
        let formatted = self.plan.parameters.switches.format_in_window;
        let (calls, path) = (self.calls, self.names.at(self.next, formatted));
        let fd = again("open", || calls.open(path, CREATE, 0o700))?;
        let written = if write {
            let data = self.block.numbered(self.next);
            again("write", || calls.write(fd, data)).and_then(|len| whole("write", len))
        } else {
            Ok(0)
        };
        again("close", || calls.close(fd))?;
        written
    }

    fn unlink(&mut self) -> Done {
        if self.next == self.prepared.files {
            return Done::NothingLeft;
        }
        let path = self.names.at(self.next, self.plan.parameters.switches.format_in_window);
        let done = again("unlink", || self.calls.unlink(path));
        self.finish(done.map(|()| 0))
    }

    fn rename_within(&mut self) -> Outcome {
        let formatted = self.plan.parameters.switches.format_in_window;
        let from = self.names.at(self.next, formatted).to_vec();
        let to = self.names.at(self.next + 1, formatted);
        again("rename", || self.calls.rename(&from, to, RenameFlags::empty())).map(|()| 0)
    }

    fn rename_across(&mut self) -> Done {
        if self.next == self.prepared.files {
            return Done::NothingLeft;
        }
        let formatted = self.plan.parameters.switches.format_in_window;
        let from = self.names.at(self.next, formatted);
        let to = self.targets.at(self.next, formatted);
        let done = again("rename", || self.calls.rename(from, to, RenameFlags::empty()));
        self.finish(done.map(|()| 0))
    }
}

/// Bytes that were moved, or which call failed.
type Outcome = Result<u64, (&'static str, Errno)>;

/// Makes a call, and again as long as signals interrupt it.
#[inline]
pub(super) fn again<T>(
    call: &'static str,
    mut make: impl FnMut() -> vfs::Result<T>,
) -> Result<T, (&'static str, Errno)> {
    loop {
        match make() {
            Ok(value) => return Ok(value),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err((call, errno)),
        }
    }
}

/// A transfer of less than a block: a write found no space for the rest, a read found the file shorter than it was made.
#[inline]
fn whole(call: &'static str, len: usize) -> Outcome {
    match len as u64 {
        BLOCK => Ok(BLOCK),
        _ if call == "pread" => Err((call, Errno::EIO)),
        _ => Err((call, Errno::ENOSPC)),
    }
}

/// Independent digits.
#[inline]
fn random_digits(rng: &mut sim::Rng) -> [u8; LEVELS as usize] {
    let drawn = rng.next_u64();
    std::array::from_fn(|level| ((drawn >> (8 * level)) % FANOUT) as u8)
}

/// The digits of the original: its generator, taken modulo eight, is x ← 5x + 1, and each path begins one step after the one
/// before it.
#[inline]
fn digits_of_period_eight(number: u64) -> [u8; LEVELS as usize] {
    const PERIOD: [u8; 8] = [0, 1, 6, 7, 4, 5, 2, 3];
    std::array::from_fn(|level| PERIOD[((number + level as u64) % 8) as usize])
}

impl Worker<'_> {
    /// One operation of a worker in the background.
    pub(super) fn disturb(&mut self) -> Done {
        let done = match self.plan.benchmark.work {
            Loop::Read(Sharing::Medium) if !self.plan.parameters.switches.idle_writers => {
                let reader = self.rng.random_range(0..self.plan.parameters.foreground());
                self.offset = reader * self.plan.parameters.region;
                self.overwrite()
            }
            Loop::Read(Sharing::Low) if !self.plan.parameters.switches.idle_writers => self.overwrite(),
            Loop::Read(Sharing::High) => self.overwrite(),
            Loop::Read(_) => self.read(self.offset),
            Loop::List(_) => self.remake(),
            _ => self.toggle(),
        };
        self.finish(done)
    }

    /// Removes a random file of a worker's directory and makes it again. Two that disturb take different halves of the files,
    /// so that neither removes what the other is about to make.
    fn remake(&mut self) -> Outcome {
        let (parameters, work) = (&self.plan.parameters, self.plan.benchmark.work);
        let reader = self.next % parameters.foreground();
        let (own, others) = (self.w - parameters.foreground(), parameters.background);
        let choices = (parameters.files.saturating_sub(own)).div_ceil(others);
        if choices == 0 {
            return Ok(0);
        }
        let k = own + others * self.rng.random_range(0..choices);
        let mut names = names::numbered(work, reader);
        let path = names.at(k, false);
        again("unlink", || self.calls.unlink(path))?;
        let fd = again("open", || self.calls.open(path, CREATE, 0o700))?;
        again("close", || self.calls.close(fd)).map(|()| 0)
    }

    /// Makes a file at a random depth of the tree, or removes it where it is.
    fn toggle(&mut self) -> Outcome {
        let depth = self.rng.random_range(1..=LEVELS as usize);
        let digits = random_digits(&mut self.rng);
        let mut path = ROOT.to_owned();
        for digit in &digits[..depth - 1] {
            path.push('/');
            path.push(char::from(b'0' + digit));
        }
        // The name is none that the others ask for, and another for each that disturbs.
        let name = 1000 * (self.w + 1) + u64::from(digits[depth - 1]);
        path = format!("{path}/{name}");
        if self.toggled.remove(&path) {
            return again("unlink", || self.calls.unlink(path.as_bytes())).map(|()| 0);
        }
        let flags = CREATE | OpenFlags::EXCLUSIVE;
        let fd = again("open", || self.calls.open(path.as_bytes(), flags, 0o700))?;
        again("close", || self.calls.close(fd))?;
        self.toggled.insert(path);
        Ok(0)
    }
}
