//! Which call of the trace a call of strace is.

use super::args::{self, FdRef};
use crate::call::{Call, NOW, OMIT, Op};
use crate::words::{CLOEXEC, CREAT, TRUNC, Table};

/// An argument of a system call: to which member of [`Call`] it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arg {
    Fd,
    Fd2,
    /// The directory of the next path.
    Dir,
    Path,
    Path2,
    /// What a symbolic link contains: no path of its own.
    Target,
    Attr,
    Len,
    Offset,
    /// A pointer to an offset: `NULL` or `[4096]`.
    OffsetAt,
    Offset2At,
    Mode,
    Number,
    Uid,
    Gid,
    Times,
    Vector,
    /// `AT_…`.
    At,
    Flags(&'static str, Table),
    /// The result structure of a stat.
    Stat,
    Skip,
}

/// A call as far as its line shows it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) call: Call,
    pub(super) fds: [FdRef; 2],
    /// Directories of the two paths: none for a path alone.
    pub(super) dirs: [Option<FdRef>; 2],
    /// `st_mode` and `st_size`.
    pub(super) attributes: Option<(u32, u64)>,
    /// The length is not shown and is that of the result.
    pub(super) cut: bool,
}

use Arg::{
    At, Attr, Dir, Fd, Fd2, Flags, Gid, Len, Mode, Number, Offset, Offset2At, OffsetAt, Path, Path2, Skip,
    Stat, Target, Times, Uid, Vector,
};

const OPEN: Arg = Flags("O_", Table::Open);
const RENAME: Arg = Flags("RENAME_", Table::Rename);
const XATTR: Arg = Flags("XATTR_", Table::Xattr);
const FALLOC: Arg = Flags("FALLOC_FL_", Table::Fallocate);

/// Every call that a trace stores, by its name in strace.
const CALLS: &[(&str, Op, &[Arg])] = &[
    ("open", Op::Open, &[Path, OPEN, Mode]),
    ("openat", Op::Open, &[Dir, Path, OPEN, Mode]),
    ("openat2", Op::Open, &[Dir, Path, Skip]),
    ("creat", Op::Open, &[Path, Mode]),
    ("close", Op::Close, &[Fd]),
    ("dup", Op::Dup, &[Fd]),
    ("dup2", Op::Dup, &[Fd, Skip]),
    ("dup3", Op::Dup, &[Fd, Skip, Flags("O_", Table::Descriptor)]),
    ("read", Op::Read, &[Fd, Skip, Len]),
    ("readv", Op::Read, &[Fd, Vector, Skip]),
    ("pread64", Op::Pread, &[Fd, Skip, Len, Offset]),
    ("pread", Op::Pread, &[Fd, Skip, Len, Offset]),
    ("preadv", Op::Pread, &[Fd, Vector, Skip, Offset]),
    ("preadv2", Op::Pread, &[Fd, Vector, Skip, Offset, Skip]),
    ("write", Op::Write, &[Fd, Skip, Len]),
    ("writev", Op::Write, &[Fd, Vector, Skip]),
    ("pwrite64", Op::Pwrite, &[Fd, Skip, Len, Offset]),
    ("pwrite", Op::Pwrite, &[Fd, Skip, Len, Offset]),
    ("pwritev", Op::Pwrite, &[Fd, Vector, Skip, Offset]),
    ("pwritev2", Op::Pwrite, &[Fd, Vector, Skip, Offset, Skip]),
    ("lseek", Op::Lseek, &[Fd, Offset, Flags("SEEK_", Table::Whence)]),
    ("getdents64", Op::Getdents, &[Fd, Skip, Len]),
    ("getdents", Op::Getdents, &[Fd, Skip, Len]),
    ("fsync", Op::Fsync, &[Fd]),
    ("fdatasync", Op::Fdatasync, &[Fd]),
    ("sync_file_range", Op::SyncRange, &[Fd, Offset, Len, Flags("SYNC_FILE_RANGE_", Table::SyncRange)]),
    ("syncfs", Op::Syncfs, &[Fd]),
    ("sync", Op::Sync, &[]),
    ("truncate", Op::Truncate, &[Path, Len]),
    ("ftruncate", Op::Ftruncate, &[Fd, Len]),
    ("fallocate", Op::Fallocate, &[Fd, FALLOC, Offset, Len]),
    ("stat", Op::Stat, &[Path, Stat]),
    ("lstat", Op::Lstat, &[Path, Stat]),
    ("fstat", Op::Fstat, &[Fd, Stat]),
    ("newfstatat", Op::Stat, &[Dir, Path, Stat, At]),
    ("fstatat64", Op::Stat, &[Dir, Path, Stat, At]),
    ("statx", Op::Stat, &[Dir, Path, At, Skip, Stat]),
    ("access", Op::Access, &[Path, Skip]),
    ("faccessat", Op::Access, &[Dir, Path, Skip]),
    ("faccessat2", Op::Access, &[Dir, Path, Skip, Skip]),
    ("statfs", Op::Statfs, &[Path, Skip]),
    ("fstatfs", Op::Fstatfs, &[Fd, Skip]),
    ("mkdir", Op::Mkdir, &[Path, Mode]),
    ("mkdirat", Op::Mkdir, &[Dir, Path, Mode]),
    ("rmdir", Op::Rmdir, &[Path]),
    ("unlink", Op::Unlink, &[Path]),
    ("unlinkat", Op::Unlink, &[Dir, Path, At]),
    ("rename", Op::Rename, &[Path, Path2]),
    ("renameat", Op::Rename, &[Dir, Path, Dir, Path2]),
    ("renameat2", Op::Rename, &[Dir, Path, Dir, Path2, RENAME]),
    ("link", Op::Link, &[Path, Path2]),
    ("linkat", Op::Link, &[Dir, Path, Dir, Path2, At]),
    ("symlink", Op::Symlink, &[Target, Path]),
    ("symlinkat", Op::Symlink, &[Target, Dir, Path]),
    ("readlink", Op::Readlink, &[Path, Skip, Len]),
    ("readlinkat", Op::Readlink, &[Dir, Path, Skip, Len]),
    ("mknod", Op::Mknod, &[Path, Mode, Skip]),
    ("mknodat", Op::Mknod, &[Dir, Path, Mode, Skip]),
    ("chmod", Op::Chmod, &[Path, Mode]),
    ("fchmodat", Op::Chmod, &[Dir, Path, Mode]),
    ("fchmodat2", Op::Chmod, &[Dir, Path, Mode, At]),
    ("fchmod", Op::Fchmod, &[Fd, Mode]),
    ("chown", Op::Chown, &[Path, Uid, Gid]),
    ("lchown", Op::Lchown, &[Path, Uid, Gid]),
    ("fchownat", Op::Chown, &[Dir, Path, Uid, Gid, At]),
    ("fchown", Op::Fchown, &[Fd, Uid, Gid]),
    ("utimensat", Op::Utimes, &[Dir, Path, Times, At]),
    ("utimes", Op::Utimes, &[Path, Times]),
    ("utime", Op::Utimes, &[Path, Times]),
    ("futimesat", Op::Utimes, &[Dir, Path, Times]),
    ("getxattr", Op::Getxattr, &[Path, Attr, Skip, Len]),
    ("lgetxattr", Op::Lgetxattr, &[Path, Attr, Skip, Len]),
    ("fgetxattr", Op::Fgetxattr, &[Fd, Attr, Skip, Len]),
    ("setxattr", Op::Setxattr, &[Path, Attr, Skip, Len, XATTR]),
    ("lsetxattr", Op::Lsetxattr, &[Path, Attr, Skip, Len, XATTR]),
    ("fsetxattr", Op::Fsetxattr, &[Fd, Attr, Skip, Len, XATTR]),
    ("listxattr", Op::Listxattr, &[Path, Skip, Len]),
    ("llistxattr", Op::Llistxattr, &[Path, Skip, Len]),
    ("flistxattr", Op::Flistxattr, &[Fd, Skip, Len]),
    ("removexattr", Op::Removexattr, &[Path, Attr]),
    ("lremovexattr", Op::Lremovexattr, &[Path, Attr]),
    ("fremovexattr", Op::Fremovexattr, &[Fd, Attr]),
    ("chdir", Op::Chdir, &[Path]),
    ("fchdir", Op::Fchdir, &[Fd]),
    ("umask", Op::Umask, &[Mode]),
    ("flock", Op::Flock, &[Fd, Flags("LOCK_", Table::Lock)]),
    ("copy_file_range", Op::Copy, &[Fd, OffsetAt, Fd2, Offset2At, Len, Skip]),
    ("sendfile", Op::Copy, &[Fd2, Fd, OffsetAt, Len]),
    ("sendfile64", Op::Copy, &[Fd2, Fd, OffsetAt, Len]),
    ("splice", Op::Copy, &[Fd, OffsetAt, Fd2, Offset2At, Len, Skip]),
    ("readahead", Op::Readahead, &[Fd, Offset, Len]),
    ("fadvise64", Op::Fadvise, &[Fd, Offset, Len, Number]),
    ("execve", Op::Exec, &[Path]),
    ("execveat", Op::Exec, &[Dir, Path]),
];

/// Sorted once: a line is looked up in it.
fn by_name(name: &[u8]) -> Option<&'static (&'static str, Op, &'static [Arg])> {
    use std::sync::OnceLock;
    static SORTED: OnceLock<rustc_hash::FxHashMap<&'static [u8], usize>> = OnceLock::new();
    let sorted = SORTED
        .get_or_init(|| CALLS.iter().enumerate().map(|(at, (name, ..))| (name.as_bytes(), at)).collect());
    sorted.get(name).map(|at| &CALLS[*at])
}

impl Seen {
    fn new(op: Op) -> Self {
        Self {
            call: Call::new(op),
            fds: [FdRef::default(), FdRef::default()],
            dirs: [None, None],
            attributes: None,
            cut: false,
        }
    }

    fn set_fd(&mut self, second: bool, text: &[u8]) -> Option<()> {
        let fd = args::fd(text)?;
        if second {
            self.call.fd2 = fd.number;
        } else {
            self.call.fd = fd.number;
        }
        self.fds[usize::from(second)] = fd;
        Some(())
    }

    fn set(&mut self, arg: Arg, text: &[u8]) -> Option<()> {
        let call = &mut self.call;
        match arg {
            Arg::Fd => self.set_fd(false, text)?,
            Arg::Fd2 => self.set_fd(true, text)?,
            Arg::Dir => {
                let at = usize::from(call.path.is_some() || self.dirs[0].is_some());
                self.dirs[at] = Some(args::fd(text)?);
            }
            // A null pointer is an empty path; the call has failed or takes the directory itself.
            Arg::Path => call.path = Some(args::string(text).map_or_else(Box::default, |(path, _)| path)),
            Arg::Path2 | Arg::Target | Arg::Attr => {
                call.path2 = Some(args::string(text).map_or_else(Box::default, |(path, _)| path));
            }
            Arg::Len => call.len = args::number(text)?.max(0).cast_unsigned(),
            Arg::Offset | Arg::Uid => call.offset = args::number(text)?,
            Arg::Gid => call.offset2 = args::number(text)?,
            Arg::OffsetAt => call.offset = pointed(text),
            Arg::Offset2At => call.offset2 = pointed(text),
            Arg::Mode => call.mode = args::mode(text),
            Arg::Number => call.mode = advice(text),
            Arg::Times => (call.offset, call.offset2) = times(text),
            Arg::Vector => match args::vector(text) {
                Some(len) => call.len = len,
                None => self.cut = true,
            },
            Arg::Flags(prefix, table) => call.flags = args::flags(text, prefix, table),
            Arg::Stat => {
                let member = |names: [&str; 2]| names.iter().find_map(|name| args::member(text, name));
                let mode = member(["st_mode", "stx_mode"]).map(args::mode);
                let size = member(["st_size", "stx_size"]).and_then(args::number);
                self.attributes = mode.map(|mode| (mode, size.unwrap_or(0).max(0).cast_unsigned()));
            }
            Arg::At | Arg::Skip => {}
        }
        Some(())
    }
}

/// What an offset in memory was: `[4096]`, `[4096] => [8192]`, or none.
fn pointed(text: &[u8]) -> i64 {
    text.strip_prefix(b"[").and_then(args::number_in_brackets).unwrap_or(-1)
}

fn advice(text: &[u8]) -> u32 {
    const WORDS: [&str; 6] = ["NORMAL", "RANDOM", "SEQUENTIAL", "WILLNEED", "DONTNEED", "NOREUSE"];
    let word = text.strip_prefix(b"POSIX_FADV_").unwrap_or(text);
    WORDS.iter().position(|known| known.as_bytes() == word).unwrap_or(0) as u32
}

/// Two times; without any, both are now.
fn times(text: &[u8]) -> (i64, i64) {
    let Some(inner) = text.strip_prefix(b"[").and_then(|inner| inner.strip_suffix(b"]")) else {
        return (NOW, NOW);
    };
    let parts = args::split(inner);
    let one = |at: usize| parts.get(at).map_or(NOW, |part| time(part));
    (one(0), one(1))
}

fn time(part: &[u8]) -> i64 {
    match part {
        b"UTIME_NOW" => return NOW,
        b"UTIME_OMIT" => return OMIT,
        _ => {}
    }
    let word = |name| args::member(part, name);
    if word("tv_nsec") == Some(b"UTIME_NOW") {
        return NOW;
    }
    if word("tv_nsec") == Some(b"UTIME_OMIT") {
        return OMIT;
    }
    let number = |name| word(name).and_then(args::number);
    let nanos = number("tv_nsec").or_else(|| number("tv_usec").map(|micros| micros.saturating_mul(1000)));
    number("tv_sec").map_or(NOW, |secs| secs.saturating_mul(1_000_000_000).saturating_add(nanos.unwrap_or(0)))
}

/// Whether the first argument of a call is a descriptor on which it acts.
pub(super) fn is_by_descriptor(name: &[u8]) -> bool {
    by_name(name).is_some_and(|(.., arguments)| arguments.first() == Some(&Fd))
}

/// Reads a call; none where it is none that a trace stores.
pub(super) fn parse(name: &[u8], text: &[u8]) -> Option<Seen> {
    let all = args::split(text);
    match name {
        b"fcntl" | b"fcntl64" => return fcntl(&all),
        b"ioctl" => return ioctl(&all),
        _ => {}
    }
    let (_, op, arguments) = by_name(name)?;
    let mut seen = Seen::new(*op);
    for (arg, text) in arguments.iter().zip(&all) {
        // A call with an argument that is not understood is one that the kernel has refused.
        seen.set(*arg, text)?;
    }
    match (name, *op) {
        (b"creat", _) => seen.call.flags = 1 | CREAT | TRUNC,
        (b"openat2", _) => open_how(&mut seen, &all),
        (b"access", _) => seen.call.mode = access(&all, 1),
        // It writes at the position of its output.
        (b"sendfile" | b"sendfile64", _) => seen.call.offset2 = -1,
        (_, Op::Access) => seen.call.mode = access(&all, 2),
        (_, Op::Mknod) => seen.call.offset = device(&all),
        _ => {}
    }
    let at = arguments.iter().position(|arg| *arg == At).and_then(|at| all.get(at).copied());
    adjust(&mut seen, at.unwrap_or_default());
    Some(seen)
}

fn access(all: &[&[u8]], at: usize) -> u32 {
    let text = all.get(at).copied().unwrap_or_default();
    [("R_OK", 4), ("W_OK", 2), ("X_OK", 1)]
        .iter()
        .filter(|(word, _)| args::has(text, word))
        .map(|(_, bit)| bit)
        .sum()
}

fn device(all: &[&[u8]]) -> i64 {
    let inner = all.last().and_then(|text| text.strip_prefix(b"makedev(")?.strip_suffix(b")"));
    let numbers = inner.map(args::split).unwrap_or_default();
    let number = |at: usize| numbers.get(at).and_then(|text| args::number(text)).unwrap_or(0);
    let (major, minor) = (number(0), number(1));
    // makedev(3)
    (major & 0xfff) << 8 | (minor & 0xff) | (minor & !0xff) << 12
}

fn open_how(seen: &mut Seen, all: &[&[u8]]) {
    let how = all.get(2).copied().unwrap_or_default();
    // The directory is the root then.
    let is_rooted = args::member(how, "resolve").is_some_and(|resolve| args::has(resolve, "RESOLVE_IN_ROOT"));
    if let Some(path) = seen.call.path.as_mut().filter(|_| is_rooted) {
        *path = path.iter().position(|byte| *byte != b'/').map_or(&b"."[..], |at| &path[at..]).into();
    }
    seen.call.flags = args::member(how, "flags").map_or(0, |text| args::flags(text, "O_", Table::Open));
    seen.call.mode = args::member(how, "mode").map_or(0, args::mode);
}

/// What `AT_…` flags, or the lack of a path, make of a call.
fn adjust(seen: &mut Seen, at: &[u8]) {
    let call = &mut seen.call;
    let nofollow = args::has(at, "AT_SYMLINK_NOFOLLOW");
    let is_empty = call.path.as_ref().is_some_and(|path| path.is_empty());
    let on_directory = is_empty && (args::has(at, "AT_EMPTY_PATH") || call.op == Op::Utimes);
    let op = match call.op {
        Op::Stat if on_directory => Op::Fstat,
        Op::Stat if nofollow => Op::Lstat,
        Op::Unlink if args::has(at, "AT_REMOVEDIR") => Op::Rmdir,
        Op::Chown if on_directory => Op::Fchown,
        Op::Chown if nofollow => Op::Lchown,
        Op::Utimes if on_directory => Op::Futimes,
        Op::Utimes if nofollow => Op::Lutimes,
        Op::Link if on_directory => Op::LinkFd,
        other => other,
    };
    call.op = op;
    if on_directory && matches!(op, Op::Fstat | Op::Fchown | Op::Futimes | Op::LinkFd) {
        call.path = None;
        if let Some(directory) = seen.dirs[0].take() {
            call.fd = directory.number;
            seen.fds[0] = directory;
        }
    }
    // O_TMPFILE files get their names this way (open(2)).
    let path = call.path.as_deref().filter(|_| call.op == Op::Link);
    if let Some(fd) = path.and_then(|path| path.strip_prefix(b"/proc/self/fd/")).and_then(args::number) {
        (call.op, call.path, call.fd) = (Op::LinkFd, None, i32::try_from(fd).ok());
    }
}

fn fcntl(all: &[&[u8]]) -> Option<Seen> {
    let command = *all.get(1)?;
    let third = all.get(2).copied().unwrap_or_default();
    let op = match command {
        b"F_DUPFD" | b"F_DUPFD_CLOEXEC" => Op::Dup,
        b"F_SETFD" => Op::SetFd,
        b"F_SETFL" => Op::SetFl,
        b"F_SETLK" | b"F_SETLKW" | b"F_SETLK64" | b"F_SETLKW64" | b"F_OFD_SETLK" | b"F_OFD_SETLKW"
        | b"F_GETLK" | b"F_OFD_GETLK" => Op::Lock,
        _ => return None,
    };
    let mut seen = Seen::new(op);
    seen.set(Fd, all.first()?)?;
    let call = &mut seen.call;
    match op {
        Op::Dup if command.ends_with(b"CLOEXEC") => call.flags = CLOEXEC,
        Op::SetFd if args::has(third, "FD_CLOEXEC") => call.flags = CLOEXEC,
        Op::SetFl => call.flags = args::flags(third, "O_", Table::Open),
        Op::Lock => lock(call, command, third),
        _ => {}
    }
    Some(seen)
}

fn lock(call: &mut Call, command: &[u8], third: &[u8]) {
    let bit = |word: &[u8]| Table::Lock.bit(word).unwrap_or(0);
    call.flags = match args::member(third, "l_type") {
        Some(b"F_RDLCK") => bit(b"sh"),
        Some(b"F_WRLCK") => bit(b"ex"),
        _ => bit(b"un"),
    };
    let text = command.strip_prefix(b"F_OFD_");
    call.flags |= text.map_or(0, |_| bit(b"ofd"));
    if command.windows(5).any(|part| part == b"GETLK") {
        call.flags |= bit(b"test");
    } else if !command.windows(6).any(|part| part == b"SETLKW") {
        call.flags |= bit(b"nb");
    }
    let number = |name| args::member(third, name).and_then(args::number).unwrap_or(0);
    (call.offset, call.len) = (number("l_start"), number("l_len").max(0).cast_unsigned());
}

fn ioctl(all: &[&[u8]]) -> Option<Seen> {
    if !matches!(*all.get(1)?, b"FICLONE" | b"BTRFS_IOC_CLONE" | b"BTRFS_IOC_CLONE or FICLONE") {
        return None;
    }
    let mut seen = Seen::new(Op::Clone);
    seen.set(Fd, all.first()?)?;
    seen.set(Fd2, all.get(2)?)?;
    Some(seen)
}
