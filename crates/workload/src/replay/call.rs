//! Each kind of call of a trace, made on the subject.
//!
//! | of a trace | here |
//! |---|---|
//! | what acts on the program: umask, chdir, exec, fork, wait | nothing; the order of steps has it |
//! | advice and flags: fadvise, readahead, sync_file_range, fcntl | nothing |
//! | sendfile, splice, copies within the kernel | reads and writes of as many bytes |
//! | FICLONE | a copy of the whole file |
//! | access | a look at the attributes |
//! | attributes of links themselves | those of what is no link; of a link, no call, which is counted |

use trace::call::{Call, NOW, OMIT, Op};
use trace::compile::Step;
use trace::words;
use vfs::{
    Errno, FallocateMode, Fd, FileKind, LockAction, LockKind, LockOwner, OpenFlags, Protection, RenameFlags,
    SeekTo, SetAttr, SetTime, Syscalls, Timestamp, Whence, XattrMode,
};

use super::compare::number;
use super::copy::Copy;
use super::load::{LONGEST, Loaded};

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    /// A call was made, with this result.
    Result(i64),
    /// A listing has given so many bytes in all, and gave so many in the recording.
    Listed(i64, i64),
    /// None was made, because it acts on the program and not on files.
    Nothing,
    /// None was made: why.
    Left(&'static str),
}

/// Why advice is not given.
const ADVICE: &str = "are advice or flags, which no file system here takes";
/// Why a copy within the kernel that failed is not made.
const FAILED_COPY: &str = "had failed to copy between files, which here is reads and writes";
/// Why an attribute of a link is not looked at.
const OF_LINK: &str = "act on attributes of symbolic links themselves, which calls by path do not reach";
/// Why a value of an attribute is not set.
const MEANING: &str = "set attributes whose contents have a meaning, and contents are not in a trace";

/// Bytes of memory that begin at a multiple of a page, as files opened with `direct` want them.
#[derive(Debug, Default)]
pub(super) struct Aligned {
    bytes: Vec<u8>,
    start: usize,
}

const PAGE: usize = 4096;

impl Aligned {
    /// `len` bytes of a pattern without zeros.
    pub(super) fn pattern(len: usize) -> Self {
        let mut buffer = Self::default();
        let bytes = buffer.of(len.max(1));
        bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 31 % 251) as u8 + 1);
        buffer
    }

    /// Room for `len` bytes.
    fn of(&mut self, len: usize) -> &mut [u8] {
        if self.bytes.len() < len + PAGE {
            self.bytes = vec![0; len + PAGE];
            self.start = self.bytes.as_ptr().align_offset(PAGE).min(PAGE);
        }
        &mut self.bytes[self.start..self.start + len]
    }

    /// At most `len` bytes of it.
    pub(super) fn first(&self, len: u64) -> &[u8] {
        let all = &self.bytes[self.start..self.bytes.len() - PAGE + self.start];
        &all[..all.len().min(usize::try_from(len).unwrap_or(usize::MAX))]
    }
}

/// What a task has for its calls.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    buffer: Aligned,
    first: Vec<u8>,
    second: Vec<u8>,
}

/// Where a step is made.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) loaded: &'a Loaded,
    pub(super) copy: &'a Copy,
    /// What is written.
    pub(super) data: &'a Aligned,
    /// The program's process.
    pub(super) process: usize,
}

type NumberedCall = Call<u32, u32>;

/// Makes the call of a step.
pub(super) fn make(place: Place<'_>, scratch: &mut Scratch, step: &Step) -> Made {
    let call = &step.call;
    match call.op {
        Op::Munmap if place.copy.unmap(call.mode) => Made::Result(0),
        Op::Chdir | Op::Fchdir | Op::Umask | Op::Exec | Op::Fork | Op::Wait | Op::Munmap => Made::Nothing,
        Op::SetFd | Op::SetFl | Op::SyncRange | Op::Readahead | Op::Fadvise => Made::Left(ADVICE),
        Op::Open => place.open(scratch, step),
        Op::Close => place.close(step),
        Op::Dup => place.dup(step),
        Op::Sync | Op::Syncfs => Made::Result(number(place.calls().sync().map(|()| 0))),
        Op::Fstatfs => Made::Result(unit(place.calls().statfs(b".").map(drop))),
        Op::Msync => place.copy.mapping(call.mode).map_or(Made::Nothing, |mapping| {
            Made::Result(unit(mapping.sync(call.offset.max(0) as u64, call.len)))
        }),
        Op::Copy | Op::Clone => place.between(scratch, step),
        _ if call.path.is_some() => place.by_path(scratch, step),
        _ if call.fd.is_some() => place.by_descriptor(scratch, step),
        // A call on a descriptor that the program had not open.
        _ => Made::Nothing,
    }
}

/// Success without a count.
fn unit(result: Result<(), Errno>) -> i64 {
    number(result.map(|()| 0))
}

impl<'a> Place<'a> {
    fn calls(&self) -> &'a dyn Syscalls {
        self.copy.process(self.process).1
    }

    fn path<'p>(&self, path: Option<u32>, buffer: &'p mut Vec<u8>) -> &'p [u8]
    where
        'a: 'p,
    {
        let cut = path.and_then(|path| self.loaded.plan.cuts.get(path as usize)).copied().unwrap_or(0);
        self.copy.path(self.loaded.program.path_of(path), cut, buffer)
    }

    fn open(&self, scratch: &mut Scratch, step: &Step) -> Made {
        let (process, calls) = self.copy.process(self.process);
        let path = self.path(step.call.path, &mut scratch.first);
        let opened = calls.open(path, open_flags(step.call.flags), step.call.mode & 0o7777);
        Made::Result(self.opened(step, process, calls, opened))
    }

    /// Keeps a descriptor, as long as the program has kept its own.
    fn opened(&self, step: &Step, process: usize, calls: &dyn Syscalls, opened: Result<Fd, Errno>) -> i64 {
        match (opened, step.opens) {
            (Ok(fd), Some(handle)) => {
                self.copy.opened(handle, process, fd);
                0
            }
            (Ok(fd), None) => {
                // The recorded call has failed.
                let _ = calls.close(fd);
                0
            }
            (Err(errno), _) => -i64::from(errno.number()),
        }
    }

    fn close(&self, step: &Step) -> Made {
        let Some(handle) = step.call.fd else { return Made::Nothing };
        match self.copy.closed(handle) {
            Some((calls, fd)) => Made::Result(unit(calls.close(fd))),
            None => Made::Result(BAD),
        }
    }

    fn dup(&self, step: &Step) -> Made {
        let Some(handle) = step.call.fd else { return Made::Nothing };
        let Some((process, calls, fd)) = self.copy.handle(handle) else { return Made::Result(BAD) };
        if step.result >= 0 && step.opens.is_none() {
            return Made::Nothing; // to itself
        }
        Made::Result(self.opened(step, process, calls, calls.dup(fd)))
    }

    // ---- descriptors ----

    fn by_descriptor(&self, scratch: &mut Scratch, step: &Step) -> Made {
        let call = &step.call;
        let Some((_, calls, fd)) = call.fd.and_then(|handle| self.copy.handle(handle)) else {
            return Made::Result(BAD);
        };
        let at = call.offset.max(0) as u64;
        let done = match call.op {
            Op::Pread | Op::SendFile if call.offset >= 0 => {
                number(calls.pread(fd, scratch.buffer.of(length(step)), at))
            }
            Op::Read | Op::Pread | Op::SendFile => number(calls.read(fd, scratch.buffer.of(length(step)))),
            Op::Pwrite | Op::ReceiveFile if call.offset >= 0 => {
                number(calls.pwrite(fd, self.written(step), at))
            }
            Op::Write | Op::Pwrite | Op::ReceiveFile => number(calls.write(fd, self.written(step))),
            Op::Lseek => return self.seek(calls, fd, step),
            Op::Getdents => return self.list(calls, fd, step),
            Op::Fsync => unit(calls.fsync(fd)),
            Op::Fdatasync => unit(calls.fdatasync(fd)),
            Op::Ftruncate => unit(calls.ftruncate(fd, call.len)),
            Op::Fallocate => unit(allocate(calls, fd, call)),
            Op::Fstat => unit(calls.fstat(fd).map(drop)),
            Op::Fchmod | Op::Fchown | Op::Futimes => unit(calls.fsetattr(fd, &attributes(call))),
            Op::Mmap => return self.map(calls, fd, step),
            Op::Fgetxattr | Op::Fsetxattr | Op::Flistxattr | Op::Fremovexattr => {
                return self.attribute_of_file(calls, fd, step);
            }
            Op::Flock | Op::Lock => return self.lock(calls, fd, step),
            Op::LinkFd => -i64::from(Errno::EOPNOTSUPP.number()),
            _ => return Made::Nothing,
        };
        Made::Result(done)
    }

    /// What a write writes: as much as it did, or as was asked where it failed.
    fn written(&self, step: &Step) -> &'a [u8] {
        self.data.first(u64::try_from(step.result).map_or(step.call.len, |done| done.min(step.call.len)))
    }

    fn seek(&self, calls: &dyn Syscalls, fd: Fd, step: &Step) -> Made {
        let call = &step.call;
        let is_directory = call.fd.is_some_and(|handle| self.loaded.plan.directories.contains(&handle));
        if is_directory {
            if let Some(handle) = call.fd {
                self.copy.listing(handle, |listing| *listing = super::copy::Listing::default());
            }
            if step.result != 0 {
                return Made::Left(
                    "sought places in directories, which each file system numbers its own way",
                );
            }
        }
        let whence = match call.flags {
            1 => Whence::Set,
            2 => Whence::Current,
            4 => Whence::End,
            8 => Whence::Find(SeekTo::Data),
            _ => Whence::Find(SeekTo::Hole),
        };
        let found = number(calls.lseek(fd, call.offset, whence));
        if !matches!(whence, Whence::Find(_)) {
            return Made::Result(found);
        }
        // Where holes are is the file system's affair; the program goes on where it did.
        if step.result >= 0 && found != step.result {
            let moved = calls.lseek(fd, step.result, Whence::Set);
            return Made::Result(number(moved));
        }
        Made::Result(step.result)
    }

    /// A read of a directory. How many names a read gives is the file system's affair; all of them together must be those of the
    /// recording, where it had them in one read.
    fn list(&self, calls: &dyn Syscalls, fd: Fd, step: &Step) -> Made {
        let read = |room: u64| {
            let mut bytes = 0;
            let done = calls.getdents(fd, &mut |entry| {
                bytes += (19 + entry.name.len() as u64 + 1).next_multiple_of(8);
                bytes + LONGEST_ENTRY <= room
            });
            done.map(|()| bytes)
        };
        let first = match read(step.call.len) {
            Ok(bytes) => bytes,
            Err(errno) => return Made::Result(-i64::from(errno.number())),
        };
        let Some(handle) = step.call.fd.filter(|_| step.result >= 0) else {
            return Made::Result(first.cast_signed());
        };
        let mut made = first;
        if step.result == 0 {
            while let Ok(more @ 1..) = read(u64::MAX) {
                made += more;
            }
        }
        let seen = self.copy.listing(handle, |listing| {
            listing.pieces += u32::from(step.result > 0);
            listing.recorded += step.result as u64;
            listing.made += made;
            if step.result == 0 { std::mem::take(listing) } else { *listing }
        });
        let is_whole = step.result == 0 && seen.pieces <= 1;
        if is_whole && self.loaded.program.summary.listed && self.copy.suffix.is_empty() {
            return Made::Listed(seen.made.cast_signed(), seen.recorded.cast_signed());
        }
        Made::Result(step.result)
    }

    /// A lock. On the host all processes of the copy are one, which never excludes itself from a range.
    fn lock(&self, calls: &dyn Syscalls, fd: Fd, step: &Step) -> Made {
        let call = &step.call;
        let (exclusive, unlocks, nonblocking, of_file, asks) =
            (call.has(2), call.has(words::LOCK_UN), call.has(4), call.has(16), call.has(32));
        let kind = if exclusive { LockKind::Exclusive } else { LockKind::Shared };
        let action = match (unlocks, asks, nonblocking) {
            (true, ..) => LockAction::Release,
            (_, true, _) => LockAction::Test(kind),
            (_, _, true) => LockAction::Try(kind),
            _ => LockAction::Wait(kind),
        };
        if call.op == Op::Flock {
            return Made::Result(unit(calls.flock(fd, action)));
        }
        if asks {
            return Made::Left("asked for locks of others, which the answer of a trace does not name");
        }
        let refused = matches!(step.result, AGAIN | DENIED);
        if refused && self.copy.is_one_process() {
            return Made::Left("had met locks of other processes, and a copy is one process on the host");
        }
        let owner = if of_file { LockOwner::File } else { LockOwner::Process };
        let done = unit(calls.lock(fd, action, owner, call.offset.max(0) as u64, call.len));
        // POSIX lets a lock that is refused be either.
        Made::Result(if refused && matches!(done, AGAIN | DENIED) { step.result } else { done })
    }

    fn map(&self, calls: &dyn Syscalls, fd: Fd, step: &Step) -> Made {
        let call = &step.call;
        let shared = call.has(words::MAP_SHARED);
        let protection =
            if shared && call.has(2) { Protection::READ | Protection::WRITE } else { Protection::READ };
        match calls.mmap(fd, call.offset.max(0) as u64, call.len, protection) {
            Ok(mapping) => {
                if step.result >= 0 {
                    self.copy.map(step.result as u32, mapping);
                }
                Made::Result(step.result.max(0))
            }
            Err(errno) => Made::Result(-i64::from(errno.number())),
        }
    }

    /// Moves bytes from one file to another.
    fn between(&self, scratch: &mut Scratch, step: &Step) -> Made {
        let call = &step.call;
        let files = call.fd.zip(call.fd2);
        let files = files.and_then(|(fd, fd2)| self.copy.handle(fd).zip(self.copy.handle(fd2)));
        let Some(((_, from, fd), (_, to, fd2))) = files else {
            return if step.result < 0 { Made::Left(FAILED_COPY) } else { Made::Result(BAD) };
        };
        if step.result < 0 {
            return Made::Left(FAILED_COPY);
        }
        let copied = match call.op {
            Op::Clone => copy_all((to, fd2), (from, fd), &mut scratch.buffer),
            _ => copy(
                (from, fd, call.offset),
                (to, fd2, call.offset2),
                step.result as u64,
                &mut scratch.buffer,
            ),
        };
        Made::Result(number(copied))
    }

    // ---- paths ----

    fn by_path(&self, scratch: &mut Scratch, step: &Step) -> Made {
        let (call, calls) = (&step.call, self.calls());
        let path = self.path(call.path, &mut scratch.first);
        let done = match call.op {
            Op::Stat => unit(calls.stat(path).map(drop)),
            Op::Lstat => unit(calls.lstat(path).map(drop)),
            Op::Access => unit(access(calls, path, call.mode)),
            Op::Statfs => unit(calls.statfs(path).map(drop)),
            Op::Mkdir => unit(calls.mkdir(path, call.mode & 0o7777)),
            Op::Rmdir => unit(calls.rmdir(path)),
            Op::Unlink => unit(calls.unlink(path)),
            Op::Truncate => unit(calls.truncate(path, call.len)),
            Op::Symlink => unit(calls.symlink(self.loaded.program.path_of(call.path2), path)),
            Op::Readlink => number(calls.readlink(path).map(|target| target.len().min(call.len as usize))),
            Op::Mknod => unit(make_node(calls, path, call)),
            Op::Chmod | Op::Chown | Op::Utimes => unit(calls.setattr(path, &attributes(call))),
            Op::Lchown | Op::Lutimes => unit(calls.lsetattr(path, &attributes(call))),
            Op::Rename => unit(rename(calls, path, self.path(call.path2, &mut scratch.second), call.flags)),
            // With a descriptor: from a file without a name, which paths do not reach.
            Op::Link if call.fd.is_some() => -i64::from(Errno::EOPNOTSUPP.number()),
            Op::Link => unit(calls.link(path, self.path(call.path2, &mut scratch.second))),
            _ => return self.attribute_of_path(calls, path, step),
        };
        Made::Result(done)
    }

    // ---- extended attributes ----

    fn attribute_of_file(&self, calls: &dyn Syscalls, fd: Fd, step: &Step) -> Made {
        let name = self.loaded.program.path_of(step.call.path2);
        match step.call.op {
            Op::Fgetxattr => unknown(step, calls.fgetxattr(fd, name).map(drop)),
            Op::Flistxattr => unknown(step, calls.flistxattr(fd).map(drop)),
            Op::Fsetxattr if has_meaning(name) => Made::Left(MEANING),
            Op::Fsetxattr => {
                let value = self.data.first(step.call.len);
                Made::Result(unit(calls.fsetxattr(fd, name, value, xattr_mode(step.call.flags))))
            }
            _ => unknown(step, calls.fremovexattr(fd, name)),
        }
    }

    fn attribute_of_path(&self, calls: &dyn Syscalls, path: &[u8], step: &Step) -> Made {
        let name = self.loaded.program.path_of(step.call.path2);
        let of_link =
            matches!(step.call.op, Op::Lgetxattr | Op::Lsetxattr | Op::Llistxattr | Op::Lremovexattr);
        if of_link {
            match calls.lstat(path) {
                Ok(found) if found.kind == FileKind::Symlink => return Made::Left(OF_LINK),
                Ok(_) => {}
                Err(errno) => return Made::Result(-i64::from(errno.number())),
            }
        }
        match step.call.op {
            Op::Getxattr | Op::Lgetxattr => unknown(step, calls.getxattr(path, name).map(drop)),
            Op::Listxattr | Op::Llistxattr => unknown(step, calls.listxattr(path).map(drop)),
            Op::Setxattr | Op::Lsetxattr if has_meaning(name) => Made::Left(MEANING),
            Op::Setxattr | Op::Lsetxattr => {
                let value = self.data.first(step.call.len);
                Made::Result(unit(calls.setxattr(path, name, value, xattr_mode(step.call.flags))))
            }
            Op::Removexattr | Op::Lremovexattr => unknown(step, calls.removexattr(path, name)),
            _ => Made::Nothing,
        }
    }
}

/// "Bad file descriptor": of a handle that a step which differed has not opened.
const BAD: i64 = -9;

/// "Resource temporarily unavailable".
const AGAIN: i64 = -11;
/// "Permission denied".
const DENIED: i64 = -13;

/// The longest entry of a directory as the kernel gives it: a name of 255 bytes.
const LONGEST_ENTRY: u64 = 280;

/// Bytes of the buffer of a read: as asked, unless it was asked for far more than there was.
fn length(step: &Step) -> usize {
    step.call.len.min(LONGEST.max(step.result.max(0) as u64 + 1)) as usize
}

/// Which attributes a file had before the trace began it does not say, so a call for one agrees with the recorded one if there was
/// or is none, too.
fn unknown(step: &Step, got: Result<(), Errno>) -> Made {
    match got {
        Ok(()) | Err(Errno::ENODATA | Errno::EOPNOTSUPP | Errno::ERANGE) => Made::Result(step.result),
        Err(errno) => Made::Result(-i64::from(errno.number())),
    }
}

fn has_meaning(name: &[u8]) -> bool {
    !name.starts_with(b"user.") && !name.starts_with(b"trusted.")
}

fn xattr_mode(flags: u32) -> XattrMode {
    match flags {
        1 => XattrMode::Create,
        2 => XattrMode::Replace,
        _ => XattrMode::Set,
    }
}

fn open_flags(bits: u32) -> OpenFlags {
    let (sync, dsync) = (0o401_0000, 0o1_0000);
    let mut flags = match bits & words::ACCESS {
        0 => OpenFlags::READ,
        1 => OpenFlags::WRITE,
        _ => OpenFlags::READ | OpenFlags::WRITE,
    };
    let tmpfile = bits & words::TMPFILE == words::TMPFILE;
    flags.set(OpenFlags::CREATE, bits & words::CREAT != 0);
    flags.set(OpenFlags::EXCLUSIVE, bits & words::EXCL != 0);
    flags.set(OpenFlags::TRUNCATE, bits & words::TRUNC != 0);
    flags.set(OpenFlags::APPEND, bits & words::APPEND != 0);
    flags.set(OpenFlags::SYNC, bits & sync == sync);
    flags.set(OpenFlags::DSYNC, bits & sync == dsync);
    flags.set(OpenFlags::DIRECT, bits & 0o4_0000 != 0);
    flags.set(OpenFlags::DIRECTORY, bits & words::DIRECTORY != 0 && !tmpfile);
    flags.set(OpenFlags::NOFOLLOW, bits & words::NOFOLLOW != 0);
    flags.set(OpenFlags::NOATIME, bits & 0o100_0000 != 0);
    flags.set(OpenFlags::TMPFILE, tmpfile);
    flags.set(OpenFlags::PATH, bits & 0o1000_0000 != 0);
    flags
}

/// What chmod, chown and utimes change.
fn attributes(call: &NumberedCall) -> SetAttr {
    let id = |id: i64| u32::try_from(id).ok();
    let time = |time: i64| match time {
        NOW => Some(SetTime::Now),
        OMIT => None,
        ns => {
            let (secs, nanos) = (ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000));
            Some(SetTime::To(Timestamp { secs, nanos: nanos as u32 }))
        }
    };
    match call.op {
        Op::Chmod | Op::Fchmod => SetAttr { perm: Some(call.mode & 0o7777), ..SetAttr::default() },
        Op::Chown | Op::Lchown | Op::Fchown => {
            SetAttr { uid: id(call.offset), gid: id(call.offset2), ..SetAttr::default() }
        }
        _ => SetAttr { atime: time(call.offset), mtime: time(call.offset2), ..SetAttr::default() },
    }
}

fn allocate(calls: &dyn Syscalls, fd: Fd, call: &NumberedCall) -> Result<(), Errno> {
    let mode = FallocateMode::from_bits(call.flags).ok_or(Errno::EOPNOTSUPP)?;
    calls.fallocate(fd, mode, call.offset.max(0) as u64, call.len)
}

fn rename(calls: &dyn Syscalls, from: &[u8], to: &[u8], flags: u32) -> Result<(), Errno> {
    calls.rename(from, to, RenameFlags::from_bits(flags).ok_or(Errno::EINVAL)?)
}

/// access(2) by a user who may read and write everything, as root: what no one may execute, he may not.
fn access(calls: &dyn Syscalls, path: &[u8], mode: u32) -> Result<(), Errno> {
    let found = calls.stat(path)?;
    let is_barred = mode & 1 != 0 && found.kind != FileKind::Directory && found.perm & 0o111 == 0;
    if is_barred { Err(Errno::EACCES) } else { Ok(()) }
}

fn make_node(calls: &dyn Syscalls, path: &[u8], call: &NumberedCall) -> Result<(), Errno> {
    // Without a kind, a file (mknod(2)).
    let kind =
        if call.mode & 0o17_0000 == 0 { Some(FileKind::Regular) } else { FileKind::from_mode(call.mode) };
    let device = call.offset.max(0) as u64;
    calls.mknod(path, kind.ok_or(Errno::EINVAL)?, call.mode & 0o7777, device)
}

/// Bytes that are copied at once.
const PIECE: u64 = 1 << 20;

/// A file with a descriptor and an offset, −1: at its position.
type At<'a> = (&'a dyn Syscalls, Fd, i64);

/// Copies `len` bytes; says how many there were.
fn copy(from: At<'_>, to: At<'_>, len: u64, buffer: &mut Aligned) -> Result<i64, Errno> {
    let mut copied = 0;
    while copied < len {
        let piece = buffer.of((len - copied).min(PIECE) as usize);
        let read = match from {
            (calls, fd, ..0) => calls.read(fd, piece)?,
            (calls, fd, at) => calls.pread(fd, piece, at as u64 + copied)?,
        };
        if read == 0 {
            break;
        }
        let mut written = 0;
        while written < read {
            let rest = &piece[written..read];
            written += match to {
                (calls, fd, ..0) => calls.write(fd, rest)?,
                (calls, fd, at) => calls.pwrite(fd, rest, at as u64 + copied + written as u64)?,
            };
        }
        copied += read as u64;
    }
    Ok(copied.cast_signed())
}

/// Copies a whole file.
fn copy_all(from: (&dyn Syscalls, Fd), to: (&dyn Syscalls, Fd), buffer: &mut Aligned) -> Result<i64, Errno> {
    let size = from.0.fstat(from.1)?.size;
    copy((from.0, from.1, 0), (to.0, to.1, 0), size, buffer).map(|_| 0)
}
