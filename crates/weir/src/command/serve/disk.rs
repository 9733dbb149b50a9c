//! A block device as the one file of a mounted directory, for kernels without nbd: a loop device makes a block device of it again.
//!
//! ```text
//! mkfs, mount ──► /dev/loopN ──► FUSE: DIR/disk ──► DiskFile ──► device.submit, wait ──► the model
//! ```
//!
//! Nothing is cached on the way (`losetup --direct-io=on`, [`Cache::Direct`]): every request of the loop device reaches the model.
//! Reads may begin and end anywhere; writes are whole blocks, as on a device. fsync is a flush, a punched hole a discard.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use fuse::{Backing, Cache, MountError, MountFlags, Server};
use media::MediaError;
use media::block::{Request, Ticket, WriteFlags};
use sim::Nanos;
use vfs::{
    AccessTimes, Attr, DirEntry, Errno, FallocateMode, FileKind, FileSystem, Ino, IoFlags, NewInode,
    OpenFlags, Owner, Renaming, SetAttr, StatFs, Timestamp, Written,
};

use crate::nbd::Export;

type Result<T> = std::result::Result<T, Errno>;

const ROOT: Ino = Ino(1);
const DISK: Ino = Ino(2);
/// The name of the file.
pub(super) const NAME: &[u8] = b"disk";

/// A directory that holds the device as a file.
struct DiskFile {
    export: Arc<Export>,
    owner: Owner,
}

/// Why it ended.
pub(super) enum Ended {
    Refused(MountError),
    Served(std::io::Error),
}

/// Mounts the device on a directory and serves it until `stop`, or until it is unmounted. Call it inside a run of the real clock.
pub(super) fn serve(
    dir: &Path,
    export: &Arc<Export>,
    stop: &Arc<AtomicBool>,
    ready: impl FnOnce(),
) -> std::result::Result<(), Ended> {
    let owner = vfs::Credentials::of_this_process().owner();
    let disk = Arc::new(DiskFile { export: Arc::clone(export), owner });
    let server = Server::new(disk, dir, &options(export)).map_err(Ended::Refused)?;
    let (unmounter, stop, over) = (server.unmounter(), Arc::clone(stop), Arc::new(AtomicBool::new(false)));
    let ends = Arc::clone(&over);
    let watch = std::thread::spawn(move || {
        while !ends.load(Relaxed) {
            if stop.load(Relaxed) {
                // A loop device that still uses it keeps it; the next look tries again.
                let _ = unmounter.unmount();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    ready();
    let served = server.serve().map_err(Ended::Served);
    over.store(true, Relaxed);
    let _ = watch.join();
    served
}

fn options(export: &Export) -> fuse::Options {
    fuse::Options {
        source: export.name.clone(),
        design: "block".to_owned(),
        flags: MountFlags::NOSUID | MountFlags::NODEV,
        allow_other: false,
        non_empty: false,
        access_times: AccessTimes::Never,
        cache: Cache::Direct,
        // Each waits for one request at a time: this is the queue depth that the device sees.
        threads: 8,
        readers: 8,
        poll: Duration::ZERO,
        lists: false,
        result_so_far: Arc::new(|_| Vec::new()),
        backing: Arc::new(Memory),
        recorder: None,
    }
}

/// The device lies in memory: there is nothing more to make durable.
struct Memory;

impl Backing for Memory {
    fn fence(&self) {}

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

impl DiskFile {
    fn size(&self) -> u64 {
        self.export.device.geometry().bytes.0
    }

    /// Waits for requests that arrived at `arrived`, and notes how late this host was.
    fn wait(&self, arrived: Nanos, tickets: Vec<Ticket>) -> Result<()> {
        let done_at = tickets.iter().map(Ticket::done_at).fold(arrived, Nanos::max);
        let outcome = self.export.device.wait_all(tickets);
        let late = sim::now().since(done_at);
        self.export.lateness.record(done_at.since(arrived).0, late.0);
        outcome.map_err(|error| errno(&error))
    }

    /// `EINVAL` unless these are whole blocks of the device.
    fn check(&self, offset: u64, len: u64) -> Result<()> {
        let block = u64::from(self.export.device.geometry().block_bytes);
        match offset.checked_add(len) {
            Some(end) if end <= self.size() && offset.is_multiple_of(block) && len.is_multiple_of(block) => {
                Ok(())
            }
            Some(end) if end > self.size() => Err(Errno::ENOSPC),
            _ => Err(Errno::EINVAL),
        }
    }

    fn attr(&self, ino: Ino) -> Attr {
        let is_disk = ino == DISK;
        let size = if is_disk { self.size() } else { 0 };
        let (kind, perm) = if is_disk { (FileKind::Regular, 0o600) } else { (FileKind::Directory, 0o700) };
        let at = Timestamp::default();
        Attr {
            ino,
            kind,
            perm,
            nlink: if is_disk { 1 } else { 2 },
            owner: self.owner,
            rdev: 0,
            size,
            blocks: size / 512,
            blksize: 4096,
            atime: at,
            mtime: at,
            ctime: at,
            generation: 0,
        }
    }

    fn write_zeros(&self, offset: u64, len: u64) -> Result<()> {
        let zeros = vec![0; (1 << 20).min(len) as usize];
        for at in (offset..offset + len).step_by(zeros.len().max(1)) {
            let bytes = &zeros[..(offset + len - at).min(zeros.len() as u64) as usize];
            self.write(DISK, at, bytes, IoFlags::empty())?;
        }
        Ok(())
    }
}

fn errno(error: &MediaError) -> Errno {
    match error {
        MediaError::NoFreeLine { .. } => Errno::ENOSPC,
        MediaError::OutOfRange { .. } | MediaError::Misaligned { .. } => Errno::EINVAL,
        MediaError::NoDiscard => Errno::EOPNOTSUPP,
        _ => Errno::EIO,
    }
}

impl FileSystem for DiskFile {
    fn root(&self) -> Ino {
        ROOT
    }

    fn statfs(&self) -> Result<StatFs> {
        let blocks = self.size() / 4096;
        Ok(StatFs { frsize: 4096, blocks, blocks_free: 0, files: 2, files_free: 0, name_max: 255 })
    }

    fn sync(&self) -> Result<()> {
        self.fsync(DISK, true)
    }

    fn unmount(&self) -> Result<()> {
        Ok(())
    }

    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        match (parent, name) {
            (ROOT, NAME) => Ok(self.attr(DISK)),
            (ROOT, _) => Err(Errno::ENOENT),
            _ => Err(Errno::ENOTDIR),
        }
    }

    fn create(&self, _: Ino, _: &[u8], _: &NewInode) -> Result<Attr> {
        Err(Errno::EPERM)
    }

    fn mkdir(&self, _: Ino, _: &[u8], _: &NewInode) -> Result<Attr> {
        Err(Errno::EPERM)
    }

    fn mknod(&self, _: Ino, _: &[u8], _: FileKind, _: u64, _: &NewInode) -> Result<Attr> {
        Err(Errno::EPERM)
    }

    fn symlink(&self, _: Ino, _: &[u8], _: &[u8], _: &NewInode) -> Result<Attr> {
        Err(Errno::EPERM)
    }

    fn readlink(&self, _: Ino) -> Result<Vec<u8>> {
        Err(Errno::EINVAL)
    }

    fn link(&self, _: Ino, _: Ino, _: &[u8]) -> Result<Attr> {
        Err(Errno::EPERM)
    }

    fn unlink(&self, _: Ino, _: &[u8]) -> Result<()> {
        Err(Errno::EPERM)
    }

    fn rmdir(&self, _: Ino, _: &[u8]) -> Result<()> {
        Err(Errno::EPERM)
    }

    fn rename(&self, _: (Ino, &[u8]), _: (Ino, &[u8]), _: Renaming<'_>) -> Result<()> {
        Err(Errno::EPERM)
    }

    fn readdir(&self, ino: Ino, cursor: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        if ino != ROOT {
            return Err(Errno::ENOTDIR);
        }
        let all: [(Ino, FileKind, &[u8]); 3] = [
            (ROOT, FileKind::Directory, b"."),
            (ROOT, FileKind::Directory, b".."),
            (DISK, FileKind::Regular, NAME),
        ];
        for (next, (ino, kind, name)) in (1..).zip(all).skip(cursor as usize) {
            if !sink(DirEntry { ino, kind: Some(kind), name, next }) {
                break;
            }
        }
        Ok(())
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        if ino == ROOT || ino == DISK { Ok(self.attr(ino)) } else { Err(Errno::ENOENT) }
    }

    /// A device keeps its size and its owner; times are accepted and forgotten.
    fn setattr(&self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let attr = self.getattr(ino)?;
        let changes =
            set.size.is_some_and(|size| size != attr.size) || set.perm.or(set.uid).or(set.gid).is_some();
        if changes { Err(Errno::EPERM) } else { Ok(attr) }
    }

    fn open(&self, _: Ino, _: OpenFlags) -> Result<()> {
        Ok(())
    }

    fn release(&self, _: Ino) {}

    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8], _: IoFlags) -> Result<usize> {
        if ino != DISK {
            return Err(Errno::EISDIR);
        }
        let bytes = (buffer.len() as u64).min(self.size().saturating_sub(offset));
        if bytes == 0 {
            return Ok(0);
        }
        let geometry = self.export.device.geometry();
        let block = u64::from(geometry.block_bytes);
        let (first, end) = (offset / block * block, (offset + bytes).next_multiple_of(block));
        let mut data = vec![0; (end - first) as usize];
        let (arrived, most) = (sim::now(), geometry.max_transfer_bytes as usize);
        let pieces = (first..end).step_by(most).zip(data.chunks_mut(most));
        let tickets =
            pieces.map(|(off, buf)| self.export.device.submit(Request::Read { off, buf })).collect();
        self.wait(arrived, tickets)?;
        let skipped = (offset - first) as usize;
        buffer[..bytes as usize].copy_from_slice(&data[skipped..skipped + bytes as usize]);
        Ok(bytes as usize)
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], flags: IoFlags) -> Result<Written> {
        if ino != DISK {
            return Err(Errno::EISDIR);
        }
        self.check(offset, data.len() as u64)?;
        let most = self.export.device.geometry().max_transfer_bytes as usize;
        let fua = flags.intersects(IoFlags::SYNC | IoFlags::DSYNC);
        let how = if fua { WriteFlags::FUA } else { WriteFlags::default() };
        let arrived = sim::now();
        let pieces = (offset..).step_by(most).zip(data.chunks(most));
        let submit = |(off, data)| self.export.device.submit(Request::Write { off, data, flags: how });
        self.wait(arrived, pieces.map(submit).collect())?;
        Ok(Written { offset, bytes: data.len() })
    }

    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64) -> Result<()> {
        if ino != DISK {
            return Err(Errno::EISDIR);
        }
        self.check(offset, len)?;
        let punches = mode.contains(FallocateMode::PUNCH_HOLE);
        if punches && self.export.device.geometry().discard {
            let arrived = sim::now();
            let ticket = self.export.device.submit(Request::Discard { off: offset, len });
            return self.wait(arrived, vec![ticket]);
        }
        match punches || mode.contains(FallocateMode::ZERO_RANGE) {
            true => self.write_zeros(offset, len),
            // Every block of a device is there already.
            false => Ok(()),
        }
    }

    fn fsync(&self, _: Ino, _: bool) -> Result<()> {
        let arrived = sim::now();
        let ticket = self.export.device.submit(Request::Flush);
        self.wait(arrived, vec![ticket])
    }
}

#[cfg(test)]
mod tests {
    use media::block::MemoryDevice;
    use sim::{Bytes, Machine, Seed, Setup};

    use super::*;
    use crate::nbd::Lateness;

    #[test]
    fn beyond_the_end_there_is_nothing_to_read() {
        let device = MemoryDevice::ram(Bytes::mib(1)).unwrap();
        let (name, description) = ("disk".to_owned(), String::new());
        let export = Arc::new(Export { name, description, device, lateness: Lateness::default() });
        let owner = Owner { uid: 0, gid: 0 };
        let read = sim::run(&Setup::real_clock(Machine::unit(), Seed(0)), move || {
            let disk = DiskFile { export, owner };
            let end = disk.size();
            let places = [end - 10, end, end + 1, end + 100_000, u64::MAX];
            places.map(|offset| disk.read(DISK, offset, &mut [0; 4096], IoFlags::empty()))
        });
        assert_eq!(read.unwrap(), [Ok(10), Ok(0), Ok(0), Ok(0), Ok(0)]);
    }
}
