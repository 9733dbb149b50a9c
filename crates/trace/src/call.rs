//! Calls: their names, which fields each has, and in which order a trace writes them.
//!
//! A [`Call`] is one structure for every kind of call, so that tools which treat all calls alike (writing, anonymizing, compiling)
//! need no case for each. [`Op::fields`] says which of its members a call uses; the others have their default. A path stands as
//! the recorder resolved it: relative to the trace's root, without a leading slash; outside the root it is absolute.

/// A member of [`Call`], as far as a call uses it, and how a trace writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `fd`: a descriptor of the calling process.
    Fd,
    /// `fd2`: the second descriptor.
    Fd2,
    /// `path`: a path.
    Path,
    /// `path2`: the second path.
    Path2,
    /// `path2`: what a symbolic link contains.
    Target,
    /// `path2`: the name of an extended attribute.
    Attr,
    /// `len`: bytes.
    Len,
    /// `offset`: bytes from the beginning of the file, or of `lseek` from where `flags` says; −1: at the descriptor's position.
    Offset,
    /// `offset2`: likewise of the second descriptor.
    Offset2,
    /// `mode`: permission bits, octal.
    Mode,
    /// `mode`: a number, decimal: advice, a thread, a mapping.
    Number,
    /// `offset`: a device number.
    Device,
    /// `offset`: a user; −1: unchanged.
    Uid,
    /// `offset2`: a group; −1: unchanged.
    Gid,
    /// `offset`: an access time in nanoseconds since 1970, `now` or `omit` ([`NOW`], [`OMIT`]).
    Atime,
    /// `offset2`: a modification time, likewise.
    Mtime,
    /// `flags`: words of one of the tables in [`crate::words`].
    Words(crate::words::Table),
}

/// "Now" as a time.
pub const NOW: i64 = i64::MAX;
/// "Leave as it is" as a time.
pub const OMIT: i64 = i64::MAX - 1;

macro_rules! ops {
    ($($(#[doc = $about:literal])+ $op:ident $name:literal [$($field:expr),*];)*) => {
        /// A kind of call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Op { $($(#[doc = $about])+ $op,)* }

        impl Op {
            /// Every kind of call.
            pub const ALL: &[Self] = &[$(Self::$op,)*];

            /// The word in a trace.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$op => $name,)* }
            }

            /// The arguments in the order in which a trace writes them.
            pub const fn fields(self) -> &'static [Field] {
                use Field::*;
                use crate::words::Table::*;
                match self { $(Self::$op => &[$($field),*],)* }
            }

            /// The sentence about it in the documentation.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$op => concat!($($about),+),)* }
            }

            /// The call with this word.
            pub fn named(word: &[u8]) -> Option<Self> {
                match word { $(word if word == $name.as_bytes() => Some(Self::$op),)* _ => None }
            }
        }
    };
}

ops! {
    /// Opens a file; the result is the descriptor. Also creat(2), openat(2), openat2(2).
    Open "open" [Path, Words(Open), Mode];
    /// Closes a descriptor. Also each descriptor of close_range(2).
    Close "close" [Fd];
    /// Makes the result another descriptor of the same open file, which closes what was open under that number. Also dup2, dup3,
    /// fcntl(F_DUPFD).
    Dup "dup" [Fd, Words(Descriptor)];
    /// Sets whether exec closes the descriptor: fcntl(F_SETFD).
    SetFd "setfd" [Fd, Words(Descriptor)];
    /// Sets `append`, `direct` and others of an open file: fcntl(F_SETFL).
    SetFl "setfl" [Fd, Words(Open)];
    /// Reads at the position; the result is the bytes read. Also readv(2).
    Read "read" [Fd, Len];
    /// Reads at an offset. Also preadv(2), preadv2(2).
    Pread "pread" [Fd, Len, Offset];
    /// Writes at the position, or at the end of a file opened for appending; the result is the bytes written. Also writev(2).
    Write "write" [Fd, Len];
    /// Writes at an offset. Also pwritev(2), pwritev2(2).
    Pwrite "pwrite" [Fd, Len, Offset];
    /// Moves the position; the result is the new one.
    Lseek "lseek" [Fd, Offset, Words(Whence)];
    /// Lists a directory from its position; the result is bytes of the kernel's entries.
    Getdents "getdents" [Fd, Len];
    /// Makes a file durable.
    Fsync "fsync" [Fd];
    /// Makes the data of a file durable.
    Fdatasync "fdatasync" [Fd];
    /// Starts or awaits write-back of a range.
    SyncRange "syncrange" [Fd, Len, Offset, Words(SyncRange)];
    /// Makes the file system of a descriptor durable.
    Syncfs "syncfs" [Fd];
    /// Makes all file systems durable.
    Sync "sync" [];
    /// Sets the size of a file.
    Truncate "truncate" [Path, Len];
    /// Sets the size of an open file.
    Ftruncate "ftruncate" [Fd, Len];
    /// Allocates or frees a range.
    Fallocate "fallocate" [Fd, Len, Offset, Words(Fallocate)];
    /// Gets attributes of what a path leads to, through symbolic links. Also statx(2).
    Stat "stat" [Path];
    /// Gets attributes of what a path names. Also statx(2) with AT_SYMLINK_NOFOLLOW.
    Lstat "lstat" [Path];
    /// Gets attributes of an open file.
    Fstat "fstat" [Fd];
    /// Asks whether a file is accessible; the mode is R_OK and the like.
    Access "access" [Path, Mode];
    /// Gets the space of a file system.
    Statfs "statfs" [Path];
    /// Gets the space of the file system of a descriptor.
    Fstatfs "fstatfs" [Fd];
    /// Makes a directory.
    Mkdir "mkdir" [Path, Mode];
    /// Removes an empty directory.
    Rmdir "rmdir" [Path];
    /// Removes a name.
    Unlink "unlink" [Path];
    /// Renames. Also renameat2(2).
    Rename "rename" [Path, Path2, Words(Rename)];
    /// Gives a file a second name. From an open file without a name (linkat of `/proc/self/fd/N`) the descriptor is given too.
    Link "link" [Path, Path2];
    /// Gives an open file a name: linkat(2) with AT_EMPTY_PATH or through `/proc/self/fd`.
    LinkFd "linkfd" [Fd, Path2];
    /// Makes a symbolic link at the path, with what it contains.
    Symlink "symlink" [Path, Target];
    /// Reads a symbolic link; the result is its length, at most `len`.
    Readlink "readlink" [Path, Len];
    /// Makes a file, FIFO, socket or device; the mode includes the kind (S_IFREG and others).
    Mknod "mknod" [Path, Mode, Device];
    /// Sets permissions.
    Chmod "chmod" [Path, Mode];
    /// Sets permissions of an open file.
    Fchmod "fchmod" [Fd, Mode];
    /// Sets owner and group.
    Chown "chown" [Path, Uid, Gid];
    /// Sets owner and group of a symbolic link itself.
    Lchown "lchown" [Path, Uid, Gid];
    /// Sets owner and group of an open file.
    Fchown "fchown" [Fd, Uid, Gid];
    /// Sets times.
    Utimes "utimes" [Path, Atime, Mtime];
    /// Sets times of a symbolic link itself.
    Lutimes "lutimes" [Path, Atime, Mtime];
    /// Sets times of an open file.
    Futimes "futimes" [Fd, Atime, Mtime];
    /// Gets an extended attribute; the result is its length.
    Getxattr "getxattr" [Path, Attr, Len];
    /// Likewise of a symbolic link itself.
    Lgetxattr "lgetxattr" [Path, Attr, Len];
    /// Likewise of an open file.
    Fgetxattr "fgetxattr" [Fd, Attr, Len];
    /// Sets an extended attribute to `len` bytes.
    Setxattr "setxattr" [Path, Attr, Len, Words(Xattr)];
    /// Likewise of a symbolic link itself.
    Lsetxattr "lsetxattr" [Path, Attr, Len, Words(Xattr)];
    /// Likewise of an open file.
    Fsetxattr "fsetxattr" [Fd, Attr, Len, Words(Xattr)];
    /// Lists the names of extended attributes; the result is their length.
    Listxattr "listxattr" [Path, Len];
    /// Likewise of a symbolic link itself.
    Llistxattr "llistxattr" [Path, Len];
    /// Likewise of an open file.
    Flistxattr "flistxattr" [Fd, Len];
    /// Removes an extended attribute.
    Removexattr "removexattr" [Path, Attr];
    /// Likewise of a symbolic link itself.
    Lremovexattr "lremovexattr" [Path, Attr];
    /// Likewise of an open file.
    Fremovexattr "fremovexattr" [Fd, Attr];
    /// Changes the working directory. Paths of a trace do not depend on it.
    Chdir "chdir" [Path];
    /// Changes the working directory to an open one.
    Fchdir "fchdir" [Fd];
    /// Sets the mask of permissions; the result is the old one.
    Umask "umask" [Mode];
    /// Takes or gives back a lock of a whole open file.
    Flock "flock" [Fd, Words(Lock)];
    /// Takes, tests or gives back a lock of a range: fcntl(F_SETLK and others). Length 0: to the end, however far that is.
    Lock "lock" [Fd, Words(Lock), Len, Offset];
    /// Copies within the kernel from the first descriptor to the second; −1: at the position. Also sendfile(2) between files.
    Copy "copy" [Fd, Fd2, Len, Offset, Offset2];
    /// Shares the blocks of the second file with the first: ioctl(FICLONE).
    Clone "clone" [Fd, Fd2];
    /// Moves bytes from a file to what is none: sendfile(2), splice(2).
    SendFile "sendfile" [Fd, Len, Offset];
    /// Moves bytes to a file from what is none: splice(2).
    ReceiveFile "receivefile" [Fd, Len, Offset];
    /// Maps a range of a file; the result is the number of the mapping. What is then read and written through it is not recorded.
    Mmap "mmap" [Fd, Len, Offset, Words(Map)];
    /// Writes a range of a mapping back; the offset counts in the mapping.
    Msync "msync" [Number, Len, Offset, Words(Msync)];
    /// Unmaps a mapping.
    Munmap "munmap" [Number];
    /// Reads ahead into the page cache.
    Readahead "readahead" [Fd, Len, Offset];
    /// Says how a range will be used; the number is POSIX_FADV_…
    Fadvise "fadvise" [Fd, Len, Offset, Number];
    /// Begins another program: descriptors with `cloexec` are closed.
    Exec "exec" [Path];
    /// Has made a thread or process; the number is the child thread's in this trace. An `F` record stands where the child began.
    Fork "fork" [Number];
    /// Has waited for the end of a process; the number is that of its main thread.
    Wait "wait" [Number];
}

impl Op {
    /// Whether a successful call gives a new descriptor as its result.
    pub const fn opens(self) -> bool {
        matches!(self, Self::Open | Self::Dup)
    }

    /// Whether the call moves bytes from a file to the program or elsewhere.
    pub const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Pread | Self::SendFile | Self::Copy)
    }

    /// Whether the call moves bytes to a file.
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Pwrite | Self::ReceiveFile | Self::Copy)
    }

    /// Whether its last path component is followed when it is a symbolic link, as far as this depends on the call alone.
    pub const fn follows(self) -> bool {
        !matches!(
            self,
            Self::Lstat
                | Self::Mkdir
                | Self::Rmdir
                | Self::Unlink
                | Self::Rename
                | Self::Link
                | Self::Symlink
                | Self::Readlink
                | Self::Mknod
                | Self::Lchown
                | Self::Lutimes
                | Self::Lgetxattr
                | Self::Lsetxattr
                | Self::Llistxattr
                | Self::Lremovexattr
        )
    }
}

/// A call: what is called and with which arguments. `P` is how paths are given, `D` how descriptors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<P = Box<[u8]>, D = i32> {
    /// The kind.
    pub op: Op,
    /// A descriptor.
    pub fd: Option<D>,
    /// The second descriptor.
    pub fd2: Option<D>,
    /// A path.
    pub path: Option<P>,
    /// The second path, the contents of a link, or the name of an attribute.
    pub path2: Option<P>,
    /// Bytes.
    pub len: u64,
    /// An offset, user, device or access time.
    pub offset: i64,
    /// The second offset, a group or modification time.
    pub offset2: i64,
    /// Words, as bits of a table of [`crate::words`].
    pub flags: u32,
    /// Permission bits or a number.
    pub mode: u32,
}

impl<P, D> Call<P, D> {
    /// A call without arguments.
    pub const fn new(op: Op) -> Self {
        Self {
            op,
            fd: None,
            fd2: None,
            path: None,
            path2: None,
            len: 0,
            offset: 0,
            offset2: 0,
            flags: 0,
            mode: 0,
        }
    }

    /// The same call with other paths and descriptors. `path` is told which field it converts.
    pub(crate) fn try_map<Q, E, F>(
        self,
        mut path: impl FnMut(Field, P) -> Result<Q, F>,
        mut fd: impl FnMut(D) -> Result<E, F>,
    ) -> Result<Call<Q, E>, F> {
        let second =
            self.op.fields().iter().find(|field| matches!(field, Field::Path2 | Field::Target | Field::Attr));
        Ok(Call {
            op: self.op,
            fd: self.fd.map(&mut fd).transpose()?,
            fd2: self.fd2.map(&mut fd).transpose()?,
            path: self.path.map(|p| path(Field::Path, p)).transpose()?,
            path2: self.path2.map(|p| path(*second.unwrap_or(&Field::Path2), p)).transpose()?,
            len: self.len,
            offset: self.offset,
            offset2: self.offset2,
            flags: self.flags,
            mode: self.mode,
        })
    }

    /// Whether the file's end is where a write goes: of `open` and `setfl`.
    pub const fn has(&self, bits: u32) -> bool {
        self.flags & bits != 0
    }
}
