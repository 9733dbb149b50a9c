//! Errors of a medium.

/// Why a medium refused an access.
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
}
