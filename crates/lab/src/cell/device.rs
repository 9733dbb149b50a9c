//! A block device without a file system: the subject `device`.
//!
//! Workloads speak in files, so a file here is ranges of the device, given out one after the other. Nothing is cached and no
//! metadata is written: names and ranges are in DRAM, and are gone with the cell. A read or write of a file is the same read or
//! write of the device, as with `O_DIRECT` on `/dev/nvme0n1`: it begins and ends at multiples of the logical block (`EINVAL`),
//! and a sync is a flush.
//!
//! | call | what reaches the device |
//! |---|---|
//! | `read`, `write` | the requests of the bytes, through [`Queue`]; with `O_SYNC` or `O_DSYNC` with FUA |
//! | `fsync`, `fdatasync`, `sync` | a flush, where the device has a volatile cache |
//! | everything else | nothing |
//!
//! A file that grows takes [`GROWTH`] bytes at least; what is removed is given out again. As on a device, bytes that were not
//! written are those that were there before. Calls that a device has no use for answer `EOPNOTSUPP`.
//!
//! Lock order: `device.names` is a leaf; no request is made under it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use media::block::{BlockDevice, Hint, Piece, Queue};
use sim::{LockClass, MIB, Mutex, MutexGuard};
use vfs::{
    Attr, DirEntry, Errno, FallocateMode, FileExtent, FileKind, FileSystem, Ino, IoFlags, NewInode,
    OpenFlags, Renaming, Result, SetAttr, StatFs, Timestamp, Written,
};

static NAMES: LockClass = LockClass::new("device.names");

/// What a file that grows takes at least.
const GROWTH: u64 = MIB;
const ROOT: Ino = Ino(1);

/// The device with its files.
pub(super) struct RawDevice {
    queue: Queue,
    block_bytes: u64,
    bytes: u64,
    files: Mutex<Files>,
}

struct Files {
    /// A directory's entries, by its number.
    dirs: BTreeMap<Ino, BTreeMap<Vec<u8>, Ino>>,
    nodes: BTreeMap<Ino, Node>,
    /// Where nothing was given out yet.
    end: u64,
    /// What was given back.
    free: Vec<Range<u64>>,
}

struct Node {
    attr: Attr,
    /// The ranges of the device that a file has, in its order.
    ranges: Vec<Range<u64>>,
    opens: u32,
}

impl Files {
    fn node(&mut self, ino: Ino) -> Result<&mut Node> {
        self.nodes.get_mut(&ino).ok_or(Errno::ENOENT)
    }

    fn dir(&mut self, ino: Ino) -> Result<&mut BTreeMap<Vec<u8>, Ino>> {
        self.dirs.get_mut(&ino).ok_or(Errno::ENOTDIR)
    }

    fn child(&mut self, parent: Ino, name: &[u8]) -> Result<Ino> {
        self.dir(parent)?.get(name).copied().ok_or(Errno::ENOENT)
    }

    fn add(&mut self, kind: FileKind, new: &NewInode) -> Attr {
        let ino = Ino(self.nodes.last_key_value().map_or(ROOT.0, |(last, _)| last.0 + 1));
        let now = Timestamp::now();
        let attr = Attr {
            ino,
            kind,
            perm: new.perm,
            nlink: if kind == FileKind::Directory { 2 } else { 1 },
            owner: new.owner,
            rdev: 0,
            size: 0,
            blocks: 0,
            blksize: 4096,
            atime: now,
            mtime: now,
            ctime: now,
            generation: 0,
        };
        if kind == FileKind::Directory {
            self.dirs.insert(ino, BTreeMap::new());
        }
        self.nodes.insert(ino, Node { attr, ranges: Vec::new(), opens: 0 });
        attr
    }

    /// Gives a file more of the device until it has `size` bytes, or none of it.
    fn reserve(&mut self, ino: Ino, size: u64, (block_bytes, bytes): (u64, u64)) -> Result<()> {
        let has: u64 = self.node(ino)?.ranges.iter().map(|range| range.end - range.start).sum();
        let Some(more) = size.checked_sub(has).filter(|more| *more > 0) else { return Ok(()) };
        let wanted = more.max(GROWTH).next_multiple_of(block_bytes);
        let fits = |range: &Range<u64>| range.end - range.start >= wanted;
        let range = if let Some(place) = self.free.iter().position(fits) {
            let (start, end) = (self.free[place].start, self.free[place].start + wanted);
            match end == self.free[place].end {
                true => drop(self.free.swap_remove(place)),
                false => self.free[place].start = end,
            }
            start..end
        } else {
            let (start, left) = (self.end, bytes - self.end);
            // The last of it may be less than a file takes at least.
            let taken = wanted.min(left);
            if taken < more {
                return Err(Errno::ENOSPC);
            }
            self.end += taken;
            start..start + taken
        };
        let ranges = &mut self.node(ino)?.ranges;
        match ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => ranges.push(range),
        }
        Ok(())
    }

    /// The places of `len` bytes from `offset` of a file, which has them.
    fn places(&mut self, ino: Ino, offset: u64, len: u64) -> Result<Vec<Range<u64>>> {
        let (mut places, mut skipped, mut left) = (Vec::new(), offset, len);
        for range in &self.node(ino)?.ranges {
            let (size, from) = (range.end - range.start, skipped.min(range.end - range.start));
            let taken = left.min(size - from);
            skipped -= from;
            left -= taken;
            if taken > 0 {
                places.push(range.start + from..range.start + from + taken);
            }
        }
        Ok(places)
    }

    fn free_if_unused(&mut self, ino: Ino) {
        if self.nodes.get(&ino).is_some_and(|node| node.attr.nlink == 0 && node.opens == 0)
            && let Some(node) = self.nodes.remove(&ino)
        {
            self.dirs.remove(&ino);
            self.free.extend(node.ranges);
        }
    }

    fn used(&self) -> u64 {
        self.end - self.free.iter().map(|range| range.end - range.start).sum::<u64>()
    }
}

impl RawDevice {
    /// The device, with an empty root.
    pub(super) fn new(device: &Arc<dyn BlockDevice>) -> Self {
        let geometry = *device.geometry();
        let mut files = Files { dirs: BTreeMap::new(), nodes: BTreeMap::new(), end: 0, free: Vec::new() };
        files.add(FileKind::Directory, &NewInode { perm: 0o755, owner: vfs::Owner::default() });
        Self {
            queue: Queue::new(Arc::clone(device)),
            block_bytes: u64::from(geometry.block_bytes),
            bytes: geometry.bytes.0,
            files: Mutex::new(&NAMES, files),
        }
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock()
    }

    fn check_aligned(&self, offset: u64, len: usize) -> Result<()> {
        let whole = |number: u64| number.is_multiple_of(self.block_bytes);
        if whole(offset) && whole(len as u64) { Ok(()) } else { Err(Errno::EINVAL) }
    }

    fn make(&self, parent: Ino, name: &[u8], kind: FileKind, new: &NewInode) -> Result<Attr> {
        let mut files = self.files();
        if files.dir(parent)?.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        let attr = files.add(kind, new);
        files.dir(parent)?.insert(name.to_vec(), attr.ino);
        Ok(attr)
    }

    fn remove(&self, parent: Ino, name: &[u8], directory: bool) -> Result<()> {
        let mut files = self.files();
        let ino = files.child(parent, name)?;
        match (files.dirs.get(&ino), directory) {
            (Some(entries), true) if !entries.is_empty() => return Err(Errno::ENOTEMPTY),
            (Some(_), false) => return Err(Errno::EISDIR),
            (None, true) => return Err(Errno::ENOTDIR),
            _ => {}
        }
        files.dir(parent)?.remove(name);
        files.node(ino)?.attr.nlink = 0;
        files.free_if_unused(ino);
        Ok(())
    }

    fn grow(&self, files: &mut Files, ino: Ino, size: u64) -> Result<()> {
        files.reserve(ino, size, (self.block_bytes, self.bytes))?;
        let attr = &mut files.node(ino)?.attr;
        attr.size = attr.size.max(size);
        attr.blocks = attr.size.div_ceil(512);
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        let device = self.queue.device();
        if !device.geometry().volatile_cache {
            return Ok(());
        }
        device.flush().map_err(|_| Errno::EIO)
    }
}

impl FileSystem for RawDevice {
    fn root(&self) -> Ino {
        ROOT
    }

    fn statfs(&self) -> Result<StatFs> {
        let files = self.files();
        let (used, inodes) = (files.used(), files.nodes.len() as u64);
        Ok(StatFs {
            frsize: self.block_bytes as u32,
            blocks: self.bytes / self.block_bytes,
            blocks_free: (self.bytes - used) / self.block_bytes,
            files: u64::from(u32::MAX),
            files_free: u64::from(u32::MAX) - inodes,
            name_max: 255,
        })
    }

    fn sync(&self) -> Result<()> {
        self.flush()
    }

    fn unmount(&self) -> Result<()> {
        self.flush()
    }

    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        let mut files = self.files();
        let ino = files.child(parent, name)?;
        Ok(files.node(ino)?.attr)
    }

    fn create(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.make(parent, name, FileKind::Regular, new)
    }

    fn mkdir(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.make(parent, name, FileKind::Directory, new)
    }

    fn mknod(&self, _: Ino, _: &[u8], _: FileKind, _: u64, _: &NewInode) -> Result<Attr> {
        Err(Errno::EOPNOTSUPP)
    }

    fn symlink(&self, _: Ino, _: &[u8], _: &[u8], _: &NewInode) -> Result<Attr> {
        Err(Errno::EOPNOTSUPP)
    }

    fn readlink(&self, _: Ino) -> Result<Vec<u8>> {
        Err(Errno::EINVAL)
    }

    fn link(&self, _: Ino, _: Ino, _: &[u8]) -> Result<Attr> {
        Err(Errno::EOPNOTSUPP)
    }

    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.remove(parent, name, false)
    }

    fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.remove(parent, name, true)
    }

    fn rename(&self, _: (Ino, &[u8]), _: (Ino, &[u8]), _: Renaming<'_>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    fn readdir(&self, ino: Ino, cursor: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let entries: Vec<_> = {
            let mut files = self.files();
            let named = files.dir(ino)?.iter().map(|(name, ino)| (name.clone(), *ino));
            [(b".".to_vec(), ino), (b"..".to_vec(), ROOT)].into_iter().chain(named).collect()
        };
        for ((name, ino), next) in entries.iter().zip(1..).skip(cursor as usize) {
            if !sink(DirEntry { ino: *ino, kind: None, name, next }) {
                break;
            }
        }
        Ok(())
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        Ok(self.files().node(ino)?.attr)
    }

    fn setattr(&self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let mut files = self.files();
        if let Some(size) = set.size {
            self.grow(&mut files, ino, size)?;
            files.node(ino)?.attr.size = size;
        }
        Ok(files.node(ino)?.attr)
    }

    fn accessed(&self, _: Ino) -> Result<()> {
        Ok(())
    }

    fn open(&self, ino: Ino, _: OpenFlags) -> Result<()> {
        self.files().node(ino)?.opens += 1;
        Ok(())
    }

    fn release(&self, ino: Ino) {
        let mut files = self.files();
        if let Ok(node) = files.node(ino) {
            node.opens = node.opens.saturating_sub(1);
        }
        files.free_if_unused(ino);
    }

    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8], _: IoFlags) -> Result<usize> {
        self.check_aligned(offset, buffer.len())?;
        let (places, len) = {
            let mut files = self.files();
            let len = files.node(ino)?.attr.size.saturating_sub(offset).min(buffer.len() as u64);
            (files.places(ino, offset, len.next_multiple_of(self.block_bytes))?, len)
        };
        let mut rest = buffer;
        let mut pieces = Vec::with_capacity(places.len());
        for place in &places {
            let (part, after) = rest.split_at_mut((place.end - place.start) as usize);
            pieces.push((place.start, part));
            rest = after;
        }
        self.queue.read(&mut pieces).map_err(|_| Errno::EIO)?;
        Ok(len as usize)
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], flags: IoFlags) -> Result<Written> {
        let (places, offset) = {
            let mut files = self.files();
            let appends = flags.contains(IoFlags::APPEND);
            let offset = if appends { files.node(ino)?.attr.size } else { offset };
            self.check_aligned(offset, data.len())?;
            let end = offset.checked_add(data.len() as u64).ok_or(Errno::EFBIG)?;
            self.grow(&mut files, ino, end)?;
            (files.places(ino, offset, data.len() as u64)?, offset)
        };
        let mut rest = data;
        let mut pieces = Vec::with_capacity(places.len());
        for place in &places {
            let (part, after) = rest.split_at((place.end - place.start) as usize);
            pieces.push(Piece { off: place.start, data: part, hint: Hint::None });
            rest = after;
        }
        let fua = flags.intersects(IoFlags::SYNC | IoFlags::DSYNC);
        self.queue.write(&pieces, fua).map_err(|_| Errno::EIO)?;
        Ok(Written { offset, bytes: data.len() })
    }

    /// Reserves; a device has no holes.
    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64) -> Result<()> {
        if !mode.is_empty() {
            return Err(Errno::EOPNOTSUPP);
        }
        self.grow(&mut self.files(), ino, offset.checked_add(len).ok_or(Errno::EFBIG)?)
    }

    fn extents(&self, ino: Ino) -> Result<Vec<FileExtent>> {
        let mut offset = 0;
        let extent = |range: &Range<u64>| {
            let len = range.end - range.start;
            offset += len;
            FileExtent { offset: offset - len, physical: range.start, len, unwritten: false }
        };
        Ok(self.files().node(ino)?.ranges.iter().map(extent).collect())
    }

    fn fsync(&self, ino: Ino, _: bool) -> Result<()> {
        self.getattr(ino)?;
        self.flush()
    }
}
