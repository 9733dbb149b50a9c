//! Errors inside a design. They become errno once, in the design's `vfs.rs`.

use media::MediaError;
use vfs::Errno;
use vfs::rename::Refusal;

/// Why an operation of a design failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No such name or inode.
    #[error("no such entry")]
    NoEntry,
    /// The name exists.
    #[error("the name exists")]
    Exists,
    /// A directory was needed.
    #[error("not a directory")]
    NotDirectory,
    /// Anything but a directory was needed.
    #[error("is a directory")]
    IsDirectory,
    /// A directory with entries cannot be removed.
    #[error("the directory is not empty")]
    NotEmpty,
    /// No free block or inode.
    #[error("no space left")]
    NoSpace,
    /// Beyond the largest file.
    #[error("the file would be too large")]
    TooLarge,
    /// The link count is at its limit.
    #[error("too many links")]
    TooManyLinks,
    /// The arguments make no sense together.
    #[error("invalid argument: {0}")]
    Invalid(&'static str),
    /// A seek found nothing.
    #[error("no data or hole at or after the offset")]
    NothingThere,
    /// No extended attribute has the name.
    #[error("no such attribute")]
    NoAttribute,
    /// The design does not have this operation.
    #[error("not supported: {0}")]
    NotSupported(&'static str),
    /// A directory has no links by name; or the inode is not to be changed (`chattr +i`, `+a`).
    #[error("operation not permitted on this inode")]
    NotPermitted,
    /// Data that was read does not fit its checksum.
    #[error("{0}")]
    Damaged(String),
    /// The image contradicts itself.
    #[error("corrupt image: {0}")]
    Corrupt(String),
    /// An earlier error has made the file system read-only.
    #[error("the file system is read-only since an earlier error; unmount it and run fsck")]
    ReadOnly,
    /// The medium refused the end of an earlier change, which nothing may overtake.
    #[error("an earlier change could not be ended; mount again to undo it")]
    Failed,
    /// The medium failed.
    #[error(transparent)]
    Media(#[from] MediaError),
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Exists => Self::Exists,
            Refusal::Missing => Self::NoEntry,
            Refusal::IntoItself => Self::Invalid("a directory cannot be moved below itself"),
            Refusal::NotEmpty => Self::NotEmpty,
            Refusal::NotDirectory => Self::NotDirectory,
            Refusal::IsDirectory => Self::IsDirectory,
        }
    }
}

/// The result of an operation of a design.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        match error {
            Error::NoEntry => Self::ENOENT,
            Error::Exists => Self::EEXIST,
            Error::NotDirectory => Self::ENOTDIR,
            Error::IsDirectory => Self::EISDIR,
            Error::NotEmpty => Self::ENOTEMPTY,
            Error::NoSpace | Error::Media(MediaError::HostFull) => Self::ENOSPC,
            Error::TooLarge => Self::EFBIG,
            Error::TooManyLinks => Self::EMLINK,
            Error::Invalid(_) => Self::EINVAL,
            Error::NothingThere => Self::ENXIO,
            Error::NoAttribute => Self::ENODATA,
            Error::NotSupported(_) | Error::Media(MediaError::NoHoles) => Self::EOPNOTSUPP,
            Error::NotPermitted => Self::EPERM,
            Error::Corrupt(_) => Self::EUCLEAN,
            Error::ReadOnly => Self::EROFS,
            Error::Damaged(_) | Error::Failed | Error::Media(_) => Self::EIO,
        }
    }
}
