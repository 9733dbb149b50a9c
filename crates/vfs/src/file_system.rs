//! The interface of a design: inodes and names.
//!
//! # Rules for every call
//!
//! * Calls come from many tasks at once; a design does its own locking.
//! * The caller has checked permissions, name lengths (1..=255 bytes, no `/`, not `.` or `..`) and open
//!   modes. A design checks everything else: existence, kinds, emptiness, space, its own limits.
//! * An inode that is open ([`FileSystem::open`] without its [`FileSystem::release`]) stays usable after its
//!   last name is gone. A directory that was removed while open has no names, not even `.`; adding one is
//!   `ENOENT`.
//! * A call that fails has changed nothing that a program can see, except that a write may have been cut
//!   short.
//! * What is durable when a call returns is the design's promise (`SEMANTICS.md`); `fsync` makes at least one
//!   file durable.
//!
//! Calls that a design leaves out answer `EOPNOTSUPP`.

use crate::attr::{Attr, DirEntry, FileExtent, FileKind, Ino, NewInode, SetAttr, SetTime, StatFs, Timestamp};
use crate::errno::{Errno, Result};
use crate::flags::{FallocateMode, InodeFlags, IoFlags, OpenFlags, RenameFlags, SeekTo, XattrMode};
use crate::kernel::KernelWays;
use crate::mapping::MappedFiles;
use crate::paths::Paths;

/// How [`FileSystem::rename`] renames: by flags alone, or leaving a whiteout.
#[derive(Clone, Copy, Debug, Default)]
pub struct Renaming<'a> {
    /// Never [`RenameFlags::WHITEOUT`].
    pub flags: RenameFlags,
    /// In the same change, which a crash does not split, the old name is given to a new whiteout: a character device 0:0 with this
    /// permission and owner. Union file systems want this of their upper layer (Linux: `RENAME_WHITEOUT`). Where both names lead to
    /// one inode nothing happens, and no whiteout is made. Never beside [`RenameFlags::EXCHANGE`].
    pub whiteout: Option<&'a NewInode>,
}

impl From<RenameFlags> for Renaming<'_> {
    fn from(flags: RenameFlags) -> Self {
        Self { flags, whiteout: None }
    }
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Where it began: with [`IoFlags::APPEND`] the old end of the file.
    pub offset: u64,
    /// Bytes written; fewer than asked when space ran out on the way.
    pub bytes: usize,
}

/// What [`FileSystem::verify`] has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Bytes read from the medium.
    pub read: u64,
    /// Of these, bytes that were compared with a checksum.
    pub compared: u64,
}

/// Is told what an operator should know ([`FileSystem::listen`]).
pub type Listener = Box<dyn Fn(&str) + Send + Sync>;

/// A mounted file system. Object-safe: the call through this trait is the only virtual one on the path of a
/// write.
pub trait FileSystem: Send + Sync {
    // ---- the whole ----

    /// The design as one that resolves paths itself, if it does.
    fn paths(&self) -> Option<&dyn Paths> {
        None
    }

    /// The root directory.
    fn root(&self) -> Ino;

    /// Space and inodes.
    fn statfs(&self) -> Result<StatFs>;

    /// Of the free blocks, those that files can have: a design needs some of them to find the others.
    fn blocks_available(&self, space: &StatFs) -> u64 {
        space.blocks_free
    }

    /// Makes everything durable that was done before the call.
    fn sync(&self) -> Result<()>;

    /// Ends background work, makes everything durable and leaves a clean image. No other call may follow.
    fn unmount(&self) -> Result<()>;

    /// What the design counts about itself since it was mounted, by name: buffer hits, blocks written back.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Forgets what is cached and can be read again, as `echo 3 > /proc/sys/vm/drop_caches` does. A design without such caches has
    /// nothing to do.
    fn drop_caches(&self) -> Result<()> {
        Ok(())
    }

    /// Hears from now on what an operator should know: what the mount has found, at once, and errors as they come. By default the
    /// design has nothing to tell.
    fn listen(&self, _listener: Listener) {}

    /// Gives the host the space of free blocks back; returns the bytes. `EOPNOTSUPP` where free blocks must keep theirs.
    fn trim(&self) -> Result<u64> {
        Err(Errno::EOPNOTSUPP)
    }

    /// What a kernel's objects above this file system do, where a mount stands for a kernel ([`crate::MountOptions::kernel`]).
    fn kernel_ways(&self) -> KernelWays {
        KernelWays::default()
    }

    // ---- names ----

    /// The inode called `name` in `parent`. `ENOENT`, `ENOTDIR`.
    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr>;

    /// A new regular file. `EEXIST`, `ENOSPC`.
    fn create(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr>;

    /// A new directory. `EEXIST`, `EMLINK`, `ENOSPC`.
    fn mkdir(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Attr>;

    /// A new device, FIFO or socket (or regular file). `EEXIST`, `ENOSPC`.
    fn mknod(&self, parent: Ino, name: &[u8], kind: FileKind, rdev: u64, new: &NewInode) -> Result<Attr>;

    /// A new symbolic link to `target` (1..=4095 bytes). `EEXIST`, `ENOSPC`.
    fn symlink(&self, parent: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Attr>;

    /// The target of a symbolic link. `EINVAL` for any other kind.
    fn readlink(&self, ino: Ino) -> Result<Vec<u8>>;

    /// Another name for `ino`, which is not a directory. `EEXIST`, `EMLINK`, `ENOSPC`; `EPERM` for a
    /// directory.
    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr>;

    /// Removes a name that is not a directory's. `ENOENT`, `EISDIR`.
    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()>;

    /// Removes an empty directory. `ENOENT`, `ENOTDIR`, `ENOTEMPTY`.
    fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()>;

    /// Renames, replacing what has the new name: a file by a file, an empty directory by a directory.
    /// `ENOENT`, `EEXIST` with `NOREPLACE`, `ENOTDIR`, `EISDIR`, `ENOTEMPTY`, `EINVAL` for a directory into
    /// its own subtree, `EMLINK`; `EINVAL` for a whiteout where the design can leave none.
    fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), how: Renaming<'_>) -> Result<()>;

    /// Gives the entries of a directory from `cursor` on (0: the beginning; else the `next` of an entry given
    /// before) to `sink` until it answers false. `.` and `..` are among them. An entry that exists throughout
    /// is given exactly once, even if other entries change meanwhile.
    fn readdir(&self, ino: Ino, cursor: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()>;

    // ---- attributes ----

    /// The attributes of an inode. `ENOENT` for a number that is not in use.
    fn getattr(&self, ino: Ino) -> Result<Attr>;

    /// Changes attributes, the size among them, and returns the new ones. `EFBIG`, `ENOSPC`.
    fn setattr(&self, ino: Ino, set: &SetAttr) -> Result<Attr>;

    /// Sets the access time to the present, and no other time, after the contents were read. It need not be
    /// durable, nor exact after a crash; `vfs` calls it by the mount's policy. A design should do this by one
    /// store, if it can. The default uses [`FileSystem::setattr`], which also changes the time of the
    /// attributes.
    fn accessed(&self, ino: Ino) -> Result<()> {
        self.setattr(ino, &SetAttr { atime: Some(SetTime::Now), ..SetAttr::default() }).map(drop)
    }

    /// When the inode was made (Linux: `STATX_BTIME`); none where this inode does not say it. `EOPNOTSUPP` where no inode does.
    fn birth_time(&self, _ino: Ino) -> Result<Option<Timestamp>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// The flags that lsattr(1) prints. By default an inode has none.
    fn inode_flags(&self, ino: Ino) -> Result<InodeFlags> {
        self.getattr(ino).map(|_| InodeFlags::empty())
    }

    /// Sets all flags at once; the caller has checked that the user may. `EOPNOTSUPP` for a change of one that the design does
    /// not keep and obey.
    fn set_inode_flags(&self, ino: Ino, flags: InodeFlags) -> Result<()> {
        if self.inode_flags(ino)? == flags { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
    }

    // ---- open files ----

    /// Notes that `ino` is open once more.
    fn open(&self, ino: Ino, flags: OpenFlags) -> Result<()>;

    /// Notes that it is open once less; the last release of an inode without a name frees it.
    fn release(&self, ino: Ino);

    /// Makes a nameless regular file that is open once (`O_TMPFILE`). [`FileSystem::link`] can give it a name
    /// while it is open; else its last release frees it, and so does a crash.
    fn tmpfile(&self, _new: &NewInode) -> Result<Attr> {
        Err(Errno::EOPNOTSUPP)
    }

    // ---- contents ----

    /// Reads into `buffer` from `offset`; returns how many bytes, fewer only at the end of the file.
    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8], flags: IoFlags) -> Result<usize>;

    /// Writes `data` at `offset`, or at the end. `ENOSPC`, `EFBIG`.
    fn write(&self, ino: Ino, offset: u64, data: &[u8], flags: IoFlags) -> Result<Written>;

    /// Reserves, zeroes or frees a range. `EOPNOTSUPP` for a mode that the design does not have, and for one that only reserves
    /// where a reservation cannot be kept ([`crate::Promises::reservations`]).
    fn fallocate(&self, _ino: Ino, _mode: FallocateMode, _offset: u64, _len: u64) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Bytes of the blocks that files can share ([`FileSystem::clone_range`]); none where the design has no clones.
    fn clone_unit(&self) -> Option<u64> {
        None
    }

    /// Gives one file the contents of another, or of another part of itself, from an offset of each on: both then share the blocks,
    /// and a later change of one does not show in the other. One change, which a crash does not split; the file may grow by it.
    /// Linux: `FICLONERANGE`. `EOPNOTSUPP` where the design has no clones; `EINVAL` for an offset that is no multiple of
    /// [`FileSystem::clone_unit`], a length that is none unless the range ends where the source ends and not before the end of the
    /// target, a range that the source does not have, or two that overlap in one file; `ENOSPC`.
    fn clone_range(&self, _from: (Ino, u64), _to: (Ino, u64), _len: u64) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// The next data or hole at or after `offset`. `ENXIO` at or beyond the end. By default all of a file is
    /// data.
    fn seek(&self, ino: Ino, offset: u64, to: SeekTo) -> Result<u64> {
        to.without_holes(self.getattr(ino)?.size, offset)
    }

    /// Reads a range of a regular file from the medium and compares it with its checksums, where it has some and even if that was
    /// done before. `EIO` where it is damaged. By default it is only read.
    fn verify(&self, ino: Ino, offset: u64, len: u64) -> Result<Verified> {
        let mut buffer = vec![0; len.min(1 << 20) as usize];
        let (mut at, end) = (offset, offset.saturating_add(len));
        while at < end {
            let piece = (end - at).min(buffer.len() as u64) as usize;
            match self.read(ino, at, &mut buffer[..piece], IoFlags::empty())? {
                0 => break,
                read => at += read as u64,
            }
        }
        Ok(Verified { read: at - offset, compared: 0 })
    }

    /// Where the contents of a file lie on the device, in the order of the file; holes are left out (Linux: FIEMAP).
    fn extents(&self, _ino: Ino) -> Result<Vec<FileExtent>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Makes one inode durable; with `data_only`, what is needed to read its data.
    fn fsync(&self, ino: Ino, data_only: bool) -> Result<()>;

    /// What the design offers for mapped files. None: a file cannot be mapped (`ENODEV`).
    fn mapped_files(&self) -> Option<&dyn MappedFiles> {
        None
    }

    // ---- extended attributes ----

    /// The value of an extended attribute. `ENODATA`.
    fn getxattr(&self, _ino: Ino, _name: &[u8]) -> Result<Vec<u8>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Sets an extended attribute. `EEXIST`, `ENODATA`, `ENOSPC`.
    fn setxattr(&self, _ino: Ino, _name: &[u8], _value: &[u8], _mode: XattrMode) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// The names of all extended attributes, each ended by a zero byte.
    fn listxattr(&self, _ino: Ino) -> Result<Vec<u8>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Removes an extended attribute. `ENODATA`.
    fn removexattr(&self, _ino: Ino, _name: &[u8]) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
}
