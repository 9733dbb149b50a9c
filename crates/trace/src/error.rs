//! What can be wrong with a trace: where, and what to do.

use std::io;

/// Why a trace could not be read, written or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The host refused.
    #[error("{file}: {error}")]
    Io {
        /// Which file.
        file: String,
        /// Why.
        error: io::Error,
    },
    /// It is something else.
    #[error("{file} is not a trace of Weir: {what}")]
    Foreign {
        /// Which file.
        file: String,
        /// What it is, and what to do.
        what: String,
    },
    /// A later Weir has written it.
    #[error(
        "{file} is a trace of version {version}, and this Weir reads up to version {}: use a newer Weir",
        crate::VERSION
    )]
    Newer {
        /// Which file.
        file: String,
        /// Its version.
        version: u32,
    },
    /// A line is wrong.
    #[error("{file}:{line}: {what}")]
    Line {
        /// Which file.
        file: String,
        /// Which line, from 1.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The compressed data is damaged.
    #[error(
        "{file}: the compressed data is damaged after line {line} ({error}); `weir trace cut --calls` can save what is before"
    )]
    Damaged {
        /// Which file.
        file: String,
        /// The last whole line.
        line: u64,
        /// What the decompressor says.
        error: io::Error,
    },
    /// Calls are missing in the trace.
    #[error("{file}: {what}; --allow-drops uses it all the same")]
    Lossy {
        /// Which file.
        file: String,
        /// What is missing.
        what: String,
    },
}

impl Error {
    /// An error of the host on a file.
    pub fn io(file: &str, error: io::Error) -> Self {
        Self::Io { file: file.to_owned(), error }
    }

    /// An error in a line.
    pub fn line(file: &str, line: u64, what: impl Into<String>) -> Self {
        Self::Line { file: file.to_owned(), line, what: what.into() }
    }
}

/// What this crate answers.
pub type Result<T, E = Error> = std::result::Result<T, E>;
