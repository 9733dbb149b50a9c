//! Words for flags and errors: the names that a trace uses, and Linux's numbers (x86-64) for them.
//!
//! A flag that a table lacks is written as `0x…`, so that nothing is lost.

/// A table of flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Of open(2). One of `rdonly`, `wronly`, `rdwr` always stands first.
    Open,
    /// Of a descriptor.
    Descriptor,
    /// Of lseek(2); exactly one.
    Whence,
    /// Of sync_file_range(2).
    SyncRange,
    /// Of fallocate(2).
    Fallocate,
    /// Of renameat2(2).
    Rename,
    /// Of setxattr(2).
    Xattr,
    /// Of flock(2) and fcntl(2): `sh`, `ex` or `un`; `nb`: does not wait; `ofd`: of the open file; `test`: only asks.
    Lock,
    /// Of mmap(2): protection and kind.
    Map,
    /// Of msync(2).
    Msync,
}

/// `O_ACCMODE`.
pub const ACCESS: u32 = 3;
/// `O_CREAT`.
pub const CREAT: u32 = 0o100;
/// `O_EXCL`.
pub const EXCL: u32 = 0o200;
/// `O_TRUNC`.
pub const TRUNC: u32 = 0o1000;
/// `O_APPEND`.
pub const APPEND: u32 = 0o2000;
/// `O_DIRECTORY`.
pub const DIRECTORY: u32 = 0o20_0000;
/// `O_NOFOLLOW`.
pub const NOFOLLOW: u32 = 0o40_0000;
/// `O_CLOEXEC`, also of descriptors.
pub const CLOEXEC: u32 = 0o200_0000;
/// `__O_TMPFILE`.
pub const TMPFILE: u32 = 0o2000_0000;
/// `RENAME_NOREPLACE`.
pub const NOREPLACE: u32 = 1;
/// `RENAME_EXCHANGE`.
pub const EXCHANGE: u32 = 2;
/// `FALLOC_FL_KEEP_SIZE`.
pub const KEEP_SIZE: u32 = 1;
/// The table's own bits of locks.
pub const LOCK_UN: u32 = 8;
/// `MAP_SHARED` beside protections.
pub const MAP_SHARED: u32 = 0x10;

type Words = &'static [(&'static str, u32)];

const OPEN: Words = &[
    ("creat", CREAT),
    ("excl", EXCL),
    ("noctty", 0o400),
    ("trunc", TRUNC),
    ("append", APPEND),
    ("nonblock", 0o4000),
    ("sync", 0o401_0000),
    ("dsync", 0o1_0000),
    ("async", 0o2_0000),
    ("direct", 0o4_0000),
    ("largefile", 0o10_0000),
    ("directory", DIRECTORY),
    ("nofollow", NOFOLLOW),
    ("noatime", 0o100_0000),
    ("cloexec", CLOEXEC),
    ("path", 0o1000_0000),
    ("tmpfile", TMPFILE),
];

impl Table {
    /// The words with their numbers; a word of several bits stands before those of fewer.
    pub const fn words(self) -> Words {
        match self {
            Self::Open => OPEN,
            Self::Descriptor => &[("cloexec", CLOEXEC)],
            Self::Whence => &[("set", 1), ("cur", 2), ("end", 4), ("data", 8), ("hole", 16)],
            Self::SyncRange => &[("wait_before", 1), ("write", 2), ("wait_after", 4)],
            Self::Fallocate => &[
                ("keep_size", KEEP_SIZE),
                ("punch_hole", 2),
                ("collapse_range", 8),
                ("zero_range", 16),
                ("insert_range", 32),
                ("unshare_range", 64),
            ],
            Self::Rename => &[("noreplace", NOREPLACE), ("exchange", EXCHANGE), ("whiteout", 4)],
            Self::Xattr => &[("create", 1), ("replace", 2)],
            Self::Lock => &[("sh", 1), ("ex", 2), ("nb", 4), ("un", LOCK_UN), ("ofd", 16), ("test", 32)],
            Self::Map => &[
                ("read", 1),
                ("write", 2),
                ("exec", 4),
                ("shared", MAP_SHARED),
                ("private", 0x20),
                ("fixed", 0x40),
                ("populate", 0x80),
            ],
            Self::Msync => &[("async", 1), ("invalidate", 2), ("sync", 4)],
        }
    }

    /// Writes flags as words, `-` for none.
    pub(crate) fn print(self, flags: u32, out: &mut Vec<u8>) {
        let (start, mut left) = (out.len(), flags);
        let mut put = |word: &str| {
            if out.len() > start {
                out.push(b',');
            }
            out.extend_from_slice(word.as_bytes());
        };
        if self == Self::Open {
            put(["rdonly", "wronly", "rdwr", "accmode"][(flags & ACCESS) as usize]);
            left &= !ACCESS;
        }
        for (word, bits) in self.words() {
            if left & bits == *bits {
                put(word);
                left &= !bits;
            }
        }
        if left != 0 {
            put(&format!("{left:#x}"));
        } else if flags == 0 && self != Self::Open {
            put("-");
        }
    }

    /// The number of one word.
    pub fn bit(self, word: &[u8]) -> Option<u32> {
        let own = self.words().iter().find(|(name, _)| name.as_bytes() == word).map(|(_, bits)| *bits);
        own.or(match (self, word) {
            (Self::Open, b"rdonly") => Some(0),
            (Self::Open, b"wronly") => Some(1),
            (Self::Open, b"rdwr") => Some(2),
            (Self::Open, b"accmode") => Some(3),
            _ => hexadecimal(word),
        })
    }

    /// Reads words with commas between them.
    pub(crate) fn parse(self, text: &[u8]) -> Option<u32> {
        if text == b"-" {
            return Some(0);
        }
        text.split(|byte| *byte == b',').try_fold(0, |all, word| Some(all | self.bit(word)?))
    }
}

fn hexadecimal(word: &[u8]) -> Option<u32> {
    u32::from_str_radix(std::str::from_utf8(word.strip_prefix(b"0x")?).ok()?, 16).ok()
}

/// Errors by number (`asm-generic/errno-base.h`, `errno.h`), from 1.
const ERRORS: &[&str] = &[
    "EPERM",
    "ENOENT",
    "ESRCH",
    "EINTR",
    "EIO",
    "ENXIO",
    "E2BIG",
    "ENOEXEC",
    "EBADF",
    "ECHILD",
    "EAGAIN",
    "ENOMEM",
    "EACCES",
    "EFAULT",
    "ENOTBLK",
    "EBUSY",
    "EEXIST",
    "EXDEV",
    "ENODEV",
    "ENOTDIR",
    "EISDIR",
    "EINVAL",
    "ENFILE",
    "EMFILE",
    "ENOTTY",
    "ETXTBSY",
    "EFBIG",
    "ENOSPC",
    "ESPIPE",
    "EROFS",
    "EMLINK",
    "EPIPE",
    "EDOM",
    "ERANGE",
    "EDEADLK",
    "ENAMETOOLONG",
    "ENOLCK",
    "ENOSYS",
    "ENOTEMPTY",
    "ELOOP",
    "E41",
    "ENOMSG",
    "EIDRM",
    "ECHRNG",
    "EL2NSYNC",
    "EL3HLT",
    "EL3RST",
    "ELNRNG",
    "EUNATCH",
    "ENOCSI",
    "EL2HLT",
    "EBADE",
    "EBADR",
    "EXFULL",
    "ENOANO",
    "EBADRQC",
    "EBADSLT",
    "E58",
    "EBFONT",
    "ENOSTR",
    "ENODATA",
    "ETIME",
    "ENOSR",
    "ENONET",
    "ENOPKG",
    "EREMOTE",
    "ENOLINK",
    "EADV",
    "ESRMNT",
    "ECOMM",
    "EPROTO",
    "EMULTIHOP",
    "EDOTDOT",
    "EBADMSG",
    "EOVERFLOW",
    "ENOTUNIQ",
    "EBADFD",
    "EREMCHG",
    "ELIBACC",
    "ELIBBAD",
    "ELIBSCN",
    "ELIBMAX",
    "ELIBEXEC",
    "EILSEQ",
    "ERESTART",
    "ESTRPIPE",
    "EUSERS",
    "ENOTSOCK",
    "EDESTADDRREQ",
    "EMSGSIZE",
    "EPROTOTYPE",
    "ENOPROTOOPT",
    "EPROTONOSUPPORT",
    "ESOCKTNOSUPPORT",
    "EOPNOTSUPP",
    "EPFNOSUPPORT",
    "EAFNOSUPPORT",
    "EADDRINUSE",
    "EADDRNOTAVAIL",
    "ENETDOWN",
    "ENETUNREACH",
    "ENETRESET",
    "ECONNABORTED",
    "ECONNRESET",
    "ENOBUFS",
    "EISCONN",
    "ENOTCONN",
    "ESHUTDOWN",
    "ETOOMANYREFS",
    "ETIMEDOUT",
    "ECONNREFUSED",
    "EHOSTDOWN",
    "EHOSTUNREACH",
    "EALREADY",
    "EINPROGRESS",
    "ESTALE",
    "EUCLEAN",
    "ENOTNAM",
    "ENAVAIL",
    "EISNAM",
    "EREMOTEIO",
    "EDQUOT",
    "ENOMEDIUM",
    "EMEDIUMTYPE",
    "ECANCELED",
    "ENOKEY",
    "EKEYEXPIRED",
    "EKEYREVOKED",
    "EKEYREJECTED",
    "EOWNERDEAD",
    "ENOTRECOVERABLE",
    "ERFKILL",
    "EHWPOISON",
];

/// "No such file or directory".
pub const ENOENT: i64 = -2;
/// "Not a directory".
pub const ENOTDIR: i64 = -20;

/// The name of an error; `E` and the number where it has none.
pub fn error_name(errno: u32) -> String {
    let known = ERRORS.get((errno as usize).wrapping_sub(1));
    known.map_or_else(|| format!("E{errno}"), |name| (*name).to_owned())
}

/// The number of an error.
pub(crate) fn error_number(name: &[u8]) -> Option<u32> {
    match name {
        b"EWOULDBLOCK" => return Some(11),
        b"ENOTSUP" => return Some(95),
        b"EDEADLOCK" => return Some(35),
        _ => {}
    }
    let known = ERRORS.iter().position(|known| known.as_bytes() == name).map(|at| at as u32 + 1);
    known.or_else(|| std::str::from_utf8(name.strip_prefix(b"E")?).ok()?.parse().ok())
}
