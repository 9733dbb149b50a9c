//! Error numbers, as the kernel gives them to programs.

/// The result of a file-system call.
pub type Result<T, E = Errno> = std::result::Result<T, E>;

macro_rules! errnos {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        /// A POSIX error, with Linux's number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
        #[repr(i32)]
        #[non_exhaustive]
        #[allow(missing_docs)] // each is named and described by POSIX; its text is its description
        pub enum Errno {
            $(#[error($text)] $name = $number,)*
        }

        impl Errno {
            /// Every error with its name.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$name, stringify!($name)),)*];
        }
    };
}

errnos! {
    EPERM = 1, "operation not permitted";
    ENOENT = 2, "no such file or directory";
    EINTR = 4, "interrupted system call";
    EIO = 5, "input/output error";
    ENXIO = 6, "no such data or address";
    E2BIG = 7, "argument list too long";
    EBADF = 9, "bad file descriptor";
    EAGAIN = 11, "resource temporarily unavailable";
    ENOMEM = 12, "out of memory";
    EACCES = 13, "permission denied";
    EFAULT = 14, "bad address";
    EBUSY = 16, "device or resource busy";
    EEXIST = 17, "file exists";
    EXDEV = 18, "invalid cross-device link";
    ENODEV = 19, "no such device";
    ENOTDIR = 20, "not a directory";
    EISDIR = 21, "is a directory";
    EINVAL = 22, "invalid argument";
    ENFILE = 23, "too many open files in system";
    EMFILE = 24, "too many open files";
    ENOTTY = 25, "inappropriate ioctl for device";
    ETXTBSY = 26, "text file busy";
    EFBIG = 27, "file too large";
    ENOSPC = 28, "no space left on device";
    ESPIPE = 29, "illegal seek";
    EROFS = 30, "read-only file system";
    EMLINK = 31, "too many links";
    ERANGE = 34, "result too large";
    ENAMETOOLONG = 36, "file name too long";
    ENOSYS = 38, "function not implemented";
    ENOTEMPTY = 39, "directory not empty";
    ELOOP = 40, "too many levels of symbolic links";
    ENODATA = 61, "no data available";
    EOVERFLOW = 75, "value too large for defined data type";
    EILSEQ = 84, "invalid byte sequence";
    EOPNOTSUPP = 95, "operation not supported";
    EDQUOT = 122, "disk quota exceeded";
    EUCLEAN = 117, "structure needs cleaning";
}

impl Errno {
    /// Linux's number.
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// The error with Linux's number `number`; `EIO` for a number that no file system of ours gives.
    pub fn from_number(number: i32) -> Self {
        Self::ALL.iter().map(|(errno, _)| *errno).find(|errno| errno.number() == number).unwrap_or(Self::EIO)
    }

    /// Its name: "ENOENT".
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(errno, _)| *errno == self).map_or("?", |(_, name)| name)
    }
}
