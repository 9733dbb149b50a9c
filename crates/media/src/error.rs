//! Errors of a medium.

use crate::fault::Target;

/// Why a medium refused an access, or could not be opened. It does not repeat the path of a file: the caller that
/// opens one knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MediaError {
    /// The range is not inside the medium.
    #[error("access to bytes {offset}..{offset}+{len} of a medium of {size} bytes")]
    OutOfRange {
        /// First byte.
        offset: u64,
        /// Length.
        len: u64,
        /// Size of the medium.
        size: u64,
    },
    /// A word access that does not start at a multiple of its size.
    #[error("word at byte {offset} is not aligned to {align} bytes")]
    Misaligned {
        /// First byte.
        offset: u64,
        /// What it must be a multiple of.
        align: u64,
    },
    /// The medium has lost what was in this line: an uncorrectable error.
    #[error(
        "line at byte {offset} is unreadable (poisoned); it becomes readable when the whole line is written"
    )]
    Poisoned {
        /// First byte of the line.
        offset: u64,
    },
    /// A fault that a test asked for.
    #[error("injected fault on {target} of bytes {offset}..{offset}+{len}")]
    Injected {
        /// What was refused.
        target: Target,
        /// First byte.
        offset: u64,
        /// Length.
        len: u64,
    },
    /// A store to a medium that was opened for reading.
    #[error("store at byte {offset} of a medium that was opened read-only")]
    ReadOnly {
        /// First byte.
        offset: u64,
    },
    /// A request that is longer than the block device takes.
    #[error("request of {len} bytes to a block device that takes {most} at once")]
    TransferTooLarge {
        /// Length of the request.
        len: u64,
        /// Largest that the device takes.
        most: u64,
    },
    /// The block device does not know the command.
    #[error("the block device has no discard")]
    NoDiscard,
    /// A flash device found no erased block to write to.
    #[error(
        "the SSD has no free line left to write byte {offset} to: its mapping is full, or collection frees nothing"
    )]
    NoFreeLine {
        /// First byte of the write.
        offset: u64,
    },
    /// A design that needs byte-addressable memory was given none.
    #[error("this needs byte-addressable memory, and the storage has only a block device")]
    NoMemory,
    /// A design that needs a block device was given none.
    #[error("this needs a block device, and the storage has only byte-addressable memory")]
    NoBlockDevice,
    /// A medium of no bytes.
    #[error("the medium has no bytes: give a length, or a file that has one")]
    Empty,
    /// What is to be a pool is a directory, a pipe or a device.
    #[error("not a regular file, which a pool must be")]
    NoFile,
    /// Another user has the medium open.
    #[error("the medium is in use by another process or mount: unmount it there first")]
    InUse,
    /// The file is not on a file system that can map persistent memory (`MAP_SYNC`), or the processor cannot
    /// write it back.
    #[error("not persistent memory that can be mapped directly: open it as a file instead")]
    NotPersistent,
    /// The file system of the host cannot take space out of a file.
    #[error("the file system of the host cannot punch holes, so it cannot take back space of a file")]
    NoHoles,
    /// The host has no space for a part of a file that has holes.
    #[error("the disk of the host is full: free space on it, or use another")]
    HostFull,
    /// The host has failed to write a part of a file to its disk, and has dropped it.
    #[error("an earlier write of the file to its disk failed, and what was stored then may be lost")]
    NotWritten,
    /// The host refused.
    #[error("cannot {doing}: {}", std::io::Error::from_raw_os_error(*errno))]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The host's error number.
        errno: i32,
    },
}

impl MediaError {
    /// The host's error while `doing` something.
    pub fn io(doing: &'static str, error: &std::io::Error) -> Self {
        Self::Io { doing, errno: error.raw_os_error().unwrap_or(0) }
    }
}
