//! Files before anything is measured.
//!
//! As fio does it: a file that is read, or overwritten, is written whole with random bytes; one that is only written is made
//! empty, with its space reserved as `fallocate` says. A write of the layout is as large as the largest of the job, and so is a
//! read ahead: the page cache of a host keeps a file in folios as large as the writes that made it, and a small write into a large
//! folio costs more (ext4 of Linux looks at the state of every block of the folio).

use rand::Rng as _;
use sim::Seed;
use vfs::{Errno, FallocateMode, Fd, OpenFlags, Syscalls};

use super::clones::{JobClone, Laid, ROOT};
use super::job::Fallocate;
use super::task::MODE;
use crate::tree::CallFailed;

type Result<T> = std::result::Result<T, CallFailed>;

/// Makes the root, which must not be there: what an earlier run left would be measured, and user's files are not touched.
pub(super) fn root(calls: &dyn Syscalls) -> std::result::Result<(), String> {
    match calls.mkdir(ROOT.as_bytes(), 0o755) {
        Ok(()) => Ok(()),
        Err(Errno::EEXIST) => Err(format!(
            "{ROOT} exists, from an earlier run or another program: remove it or use another directory"
        )),
        Err(errno) => Err(CallFailed::of("mkdir", ROOT)(errno).to_string()),
    }
}

/// Makes the directories above a file.
pub(super) fn directories(calls: &dyn Syscalls, path: &str) -> Result<()> {
    let above = path.match_indices('/').map(|(at, _)| &path[..at]).filter(|path| path.len() > ROOT.len());
    for directory in above {
        match calls.mkdir(directory.as_bytes(), 0o755) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(CallFailed::of("mkdir", directory)(errno)),
        }
    }
    Ok(())
}

/// Makes one file.
pub(super) fn file(calls: &dyn Syscalls, path: &str, laid: &Laid, seed: Seed) -> Result<()> {
    let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREATE;
    let fd = calls.open(path.as_bytes(), flags, MODE).map_err(CallFailed::of("open", path))?;
    reserve(calls, fd, path, laid)?;
    if laid.data {
        write(calls, fd, path, laid, seed)?;
    }
    if laid.fsync {
        calls.fsync(fd).map_err(CallFailed::of("fsync", path))?;
    }
    if laid.pre_read {
        read(calls, fd, path, laid.chunks[1])?;
    }
    calls.close(fd).map_err(CallFailed::of("close", path))
}

/// Makes the files of a clone again, for another pass that reads them.
pub(super) fn again(calls: &dyn Syscalls, clone: &JobClone) -> Result<()> {
    for (path, laid) in super::clones::laid(std::slice::from_ref(clone)) {
        file(calls, &path, &laid, Seed(clone.number))?;
    }
    Ok(())
}

fn reserve(calls: &dyn Syscalls, fd: Fd, path: &str, laid: &Laid) -> Result<()> {
    let reserved = match laid.fallocate {
        Fallocate::None => Ok(()),
        Fallocate::Native => match calls.fallocate(fd, FallocateMode::empty(), 0, laid.size) {
            // A design, or a file system of the host, without the call: fio goes on without it too.
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EINVAL) => Ok(()),
            other => other,
        },
        Fallocate::Posix => reserve_or_write(calls, fd, laid.size),
        Fallocate::Keep => calls.fallocate(fd, FallocateMode::KEEP_SIZE, 0, laid.size),
        Fallocate::Truncate => calls.ftruncate(fd, laid.size),
    };
    reserved.map_err(CallFailed::of("fallocate", path))
}

/// posix_fallocate(3) as glibc has it: where the file system reserves nothing, a zero byte is written to each block that has none
/// at its start, so that it has its space.
fn reserve_or_write(calls: &dyn Syscalls, fd: Fd, size: u64) -> std::result::Result<(), Errno> {
    /// glibc takes the block size of the file system, and this at most.
    const STEP: u64 = 4096;
    match calls.fallocate(fd, FallocateMode::empty(), 0, size) {
        Err(Errno::EOPNOTSUPP) => {}
        other => return other,
    }
    let was = calls.fstat(fd)?.size;
    let mut at = (size - 1) % STEP;
    while at < size {
        let mut byte = [0];
        let has_data = at < was && calls.pread(fd, &mut byte, at)? == 1 && byte[0] != 0;
        if !has_data {
            calls.pwrite(fd, &[0], at)?;
        }
        at += STEP;
    }
    Ok(())
}

fn write(calls: &dyn Syscalls, fd: Fd, path: &str, laid: &Laid, seed: Seed) -> Result<()> {
    let (size, chunk) = (laid.size, laid.chunks[0]);
    let mut data = vec![0; chunk.min(size) as usize];
    let mut rng = seed.derive(path, 0).rng();
    let mut done = 0;
    while done < size {
        let len = (size - done).min(chunk) as usize;
        rng.fill_bytes(&mut data[..len]);
        match calls.pwrite(fd, &data[..len], done) {
            Ok(0) => return Err(CallFailed::of("write", path)(Errno::ENOSPC)),
            Ok(written) => done += written as u64,
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(CallFailed::of("write", path)(errno)),
        }
    }
    Ok(())
}

fn read(calls: &dyn Syscalls, fd: Fd, path: &str, chunk: u64) -> Result<()> {
    let (mut data, mut done) = (vec![0; chunk as usize], 0);
    loop {
        match calls.pread(fd, &mut data, done) {
            Ok(0) => return Ok(()),
            Ok(read) => done += read as u64,
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(CallFailed::of("read", path)(errno)),
        }
    }
}
