//! The structures and numbers of the kernel's protocol (`include/uapi/linux/fuse.h`, version 7.40), as far as they are used here.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The version that we speak. A kernel with an older minor version speaks its own.
pub(crate) const MAJOR: u32 = 7;
/// Its minor version.
pub(crate) const MINOR: u32 = 40;
/// The oldest minor version that we understand: Linux 5.4, which has all structures as they are here.
pub(crate) const OLDEST_MINOR: u32 = 31;

/// Numbers of requests.
pub(crate) mod opcode {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const SETATTR: u32 = 4;
    pub(crate) const READLINK: u32 = 5;
    pub(crate) const SYMLINK: u32 = 6;
    pub(crate) const MKNOD: u32 = 8;
    pub(crate) const MKDIR: u32 = 9;
    pub(crate) const UNLINK: u32 = 10;
    pub(crate) const RMDIR: u32 = 11;
    pub(crate) const RENAME: u32 = 12;
    pub(crate) const LINK: u32 = 13;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const READ: u32 = 15;
    pub(crate) const WRITE: u32 = 16;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const RELEASE: u32 = 18;
    pub(crate) const FSYNC: u32 = 20;
    pub(crate) const SETXATTR: u32 = 21;
    pub(crate) const GETXATTR: u32 = 22;
    pub(crate) const LISTXATTR: u32 = 23;
    pub(crate) const REMOVEXATTR: u32 = 24;
    pub(crate) const INIT: u32 = 26;
    pub(crate) const OPENDIR: u32 = 27;
    pub(crate) const READDIR: u32 = 28;
    pub(crate) const RELEASEDIR: u32 = 29;
    pub(crate) const FSYNCDIR: u32 = 30;
    pub(crate) const CREATE: u32 = 35;
    pub(crate) const DESTROY: u32 = 38;
    pub(crate) const IOCTL: u32 = 39;
    pub(crate) const BATCH_FORGET: u32 = 42;
    pub(crate) const FALLOCATE: u32 = 43;
    pub(crate) const READDIRPLUS: u32 = 44;
    pub(crate) const RENAME2: u32 = 45;
    pub(crate) const LSEEK: u32 = 46;
    pub(crate) const COPY_FILE_RANGE: u32 = 47;
    pub(crate) const TMPFILE: u32 = 51;
    pub(crate) const STATX: u32 = 52;
}

/// What a server asks of the kernel when they negotiate (`FUSE_INIT`).
pub(crate) mod init {
    pub(crate) const ASYNC_READ: u64 = 1;
    pub(crate) const EXPORT_SUPPORT: u64 = 1 << 4;
    pub(crate) const BIG_WRITES: u64 = 1 << 5;
    pub(crate) const DONT_MASK: u64 = 1 << 6;
    pub(crate) const DO_READDIRPLUS: u64 = 1 << 13;
    pub(crate) const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub(crate) const ASYNC_DIO: u64 = 1 << 15;
    pub(crate) const PARALLEL_DIROPS: u64 = 1 << 18;
    pub(crate) const POSIX_ACL: u64 = 1 << 20;
    pub(crate) const MAX_PAGES: u64 = 1 << 22;
    pub(crate) const CACHE_SYMLINKS: u64 = 1 << 23;
    pub(crate) const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    pub(crate) const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub(crate) const SETXATTR_EXT: u64 = 1 << 29;
    pub(crate) const INIT_EXT: u64 = 1 << 30;
    pub(crate) const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
}

/// What an answer to an open tells the kernel.
pub(crate) mod open {
    pub(crate) const DIRECT_IO: u32 = 1;
    pub(crate) const KEEP_CACHE: u32 = 1 << 1;
    pub(crate) const CACHE_DIR: u32 = 1 << 3;
    pub(crate) const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// Which attributes a `SETATTR` sets.
pub(crate) mod set {
    pub(crate) const MODE: u32 = 1;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ATIME: u32 = 1 << 4;
    pub(crate) const MTIME: u32 = 1 << 5;
    pub(crate) const ATIME_NOW: u32 = 1 << 7;
    pub(crate) const MTIME_NOW: u32 = 1 << 8;
}

/// Which attributes an answer to `STATX` has: all that `GETATTR` has; the time of birth.
pub(crate) const STATX_BASIC: u32 = 0x7FF;
/// The same: the time of birth.
pub(crate) const STATX_BTIME: u32 = 0x800;

/// A write of pages that the kernel has kept.
pub(crate) const WRITE_CACHE: u32 = 1;
/// A write that takes away set-id bits.
pub(crate) const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// A read or write that names the owner of its locks.
pub(crate) const READ_LOCKOWNER: u32 = 1 << 1;
/// The same of a write.
pub(crate) const WRITE_LOCKOWNER: u32 = 1 << 1;
/// An fsync that leaves out attributes that reading does not need.
pub(crate) const FSYNC_DATA: u32 = 1;
/// A `SETXATTR` of an access-control list that takes away the set-group-id bit.
pub(crate) const SETXATTR_ACL_KILL_SGID: u32 = 1;
/// "Drop the pages of this range."
pub(crate) const NOTIFY_INVAL_INODE: i32 = 2;
/// "Forget this name."
pub(crate) const NOTIFY_INVAL_ENTRY: i32 = 3;

macro_rules! incoming {
    ($($(#[$about:meta])* $name:ident { $($field:ident: $kind:ty,)* })*) => {
        $($(#[$about])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
        pub(crate) struct $name { $(pub(crate) $field: $kind,)* })*
    };
}

macro_rules! outgoing {
    ($($(#[$about:meta])* $name:ident { $($field:ident: $kind:ty,)* })*) => {
        $($(#[$about])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
        pub(crate) struct $name { $(pub(crate) $field: $kind,)* })*
    };
}

incoming! {
    /// What every request begins with.
    InHeader {
        len: u32, opcode: u32, unique: u64, nodeid: u64, uid: u32, gid: u32, pid: u32, extensions: u32,
    }
    InitIn { major: u32, minor: u32, max_readahead: u32, flags: u32, flags2: u32, unused: [u32; 11], }
    ForgetIn { lookups: u64, }
    ForgetOne { nodeid: u64, lookups: u64, }
    BatchForgetIn { count: u32, unused: u32, }
    GetattrIn { flags: u32, unused: u32, fh: u64, }
    SetattrIn {
        valid: u32, unused: u32, fh: u64, size: u64, lock_owner: u64, atime: i64, mtime: i64, ctime: i64,
        atime_nanos: u32,
        mtime_nanos: u32, ctime_nanos: u32, mode: u32, unused4: u32, uid: u32, gid: u32, unused5: u32,
    }
    MknodIn { mode: u32, rdev: u32, umask: u32, unused: u32, }
    MkdirIn { mode: u32, umask: u32, }
    RenameIn { new_parent: u64, }
    Rename2In { new_parent: u64, flags: u32, unused: u32, }
    LinkIn { nodeid: u64, }
    OpenIn { flags: i32, open_flags: u32, }
    CreateIn { flags: i32, mode: u32, umask: u32, open_flags: u32, }
    ReleaseIn { fh: u64, flags: i32, release_flags: u32, lock_owner: u64, }
    /// Also of `READDIR` and `READDIRPLUS`.
    ReadIn { fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: i32, unused: u32, }
    WriteIn { fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: i32, unused: u32, }
    FsyncIn { fh: u64, flags: u32, unused: u32, }
    SetxattrIn { size: u32, flags: u32, setxattr_flags: u32, unused: u32, }
    /// The same without `SETXATTR_EXT`.
    SetxattrShort { size: u32, flags: u32, }
    GetxattrIn { size: u32, unused: u32, }
    FallocateIn { fh: u64, offset: u64, len: u64, mode: u32, unused: u32, }
    LseekIn { fh: u64, offset: i64, whence: u32, unused: u32, }
    IoctlIn { fh: u64, flags: u32, command: u32, argument: u64, in_size: u32, out_size: u32, }
    CopyFileRangeIn { fh: u64, offset: u64, to: u64, to_fh: u64, to_offset: u64, len: u64, flags: u64, }
}

outgoing! {
    /// What every answer begins with.
    OutHeader { len: u32, error: i32, unique: u64, }
    InitOut {
        major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16, congestion: u16,
        max_write: u32, time_gran: u32,
        max_pages: u16, map_alignment: u16, flags2: u32, max_stack_depth: u32, request_timeout: u16,
        unused16: u16,
        unused: [u32; 10 - 5],
    }
    AttrRecord {
        ino: u64, size: u64, blocks: u64, atime: i64, mtime: i64, ctime: i64, atime_nanos: u32, mtime_nanos:
        u32,
        ctime_nanos: u32, mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32, block_size: u32, flags: u32,
    }
    EntryOut {
        nodeid: u64, generation: u64, entry_valid: u64, attr_valid: u64, entry_valid_nanos: u32,
        attr_valid_nanos: u32,
        attr: AttrRecord,
    }
    AttrOut { valid: u64, valid_nanos: u32, unused: u32, attr: AttrRecord, }
    SxTime { secs: i64, nanos: u32, unused: i32, }
    StatxRecord {
        mask: u32, block_size: u32, attributes: u64, nlink: u32, uid: u32, gid: u32, mode: u16, unused16: u16, ino: u64,
        size: u64, blocks: u64, attributes_mask: u64, atime: SxTime, btime: SxTime, ctime: SxTime, mtime: SxTime,
        rdev_major: u32, rdev_minor: u32, dev_major: u32, dev_minor: u32, unused: [u64; 14],
    }
    StatxOut { valid: u64, valid_nanos: u32, flags: u32, unused: [u64; 2], stat: StatxRecord, }
    IoctlOut { result: i32, flags: u32, in_vectors: u32, out_vectors: u32, }
    OpenOut { fh: u64, open_flags: u32, backing_id: u32, }
    WriteOut { size: u32, unused: u32, }
    StatfsOut {
        blocks: u64, blocks_free: u64, blocks_available: u64, files: u64, files_free: u64, block_size: u32,
        name_max: u32,
        fragment_size: u32, unused: u32, spare: [u32; 6],
    }
    GetxattrOut { size: u32, unused: u32, }
    LseekOut { offset: u64, }
    Dirent { ino: u64, next: u64, name_bytes: u32, kind: u32, }
    InvalInode { nodeid: u64, offset: i64, len: i64, }
    /// The name follows, ended by a zero byte.
    InvalEntry { parent: u64, name_bytes: u32, flags: u32, }
}

const _: () =
    assert!(size_of::<InHeader>() == 40 && size_of::<InitIn>() == 64 && size_of::<SetattrIn>() == 88);
const _: () =
    assert!(size_of::<OutHeader>() == 16 && size_of::<InitOut>() == 64 && size_of::<AttrRecord>() == 88);
const _: () =
    assert!(size_of::<EntryOut>() == 128 && size_of::<AttrOut>() == 104 && size_of::<StatfsOut>() == 80);
const _: () =
    assert!(size_of::<StatxRecord>() == 256 && size_of::<StatxOut>() == 288 && size_of::<IoctlIn>() == 32);
const _: () = assert!(size_of::<ReadIn>() == 40 && size_of::<WriteIn>() == 40 && size_of::<Dirent>() == 24);
