//! Requests to a block device, as plain data: what a trace or an experiment asks for, without any device.
//!
//! | module | holds |
//! |---|---|
//! | this one | [`Request`], [`Op`], [`Hint`] |
//! | [`trace`] | requests out of the public formats of block traces |

pub mod trace;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it is issued, in ns since the first request of its trace.
    pub at_ns: u64,
    /// What to do.
    pub op: Op,
    /// First byte; a multiple of 512.
    pub offset: u64,
    /// Length in bytes; a multiple of 512. Nothing for a flush.
    pub bytes: u64,
    /// What the file system knows about the block before.
    pub hint: Hint,
    /// Of a write: it is durable when it is done.
    pub fua: bool,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Make everything durable.
    Flush,
    /// Forget the content.
    Discard,
}

/// What a write says about its file (FAST 2024).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hint {
    /// Nothing.
    #[default]
    None,
    /// It follows the block at this byte in its file.
    Append {
        /// The byte.
        previous: u64,
    },
    /// It replaces what is there.
    Overwrite,
}

impl Request {
    /// A request without a time or hint.
    pub fn new(op: Op, offset: u64, bytes: u64) -> Self {
        Self { at_ns: 0, op, offset, bytes, hint: Hint::None, fua: false }
    }
}
