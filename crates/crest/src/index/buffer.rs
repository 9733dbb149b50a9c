//! The dirty frames of a file, and how it is written (`calls/buffered.rs`).

use std::fmt;

use sim::Nanos;
use sim::map::TreeMap;

use crate::store::frames::{Frame, Listed};

/// What a file has in DRAM only, and what is known of its writes. A file without frames may have one that says how it is
/// written.
#[derive(Default)]
pub(crate) struct Buffer {
    pub(crate) frames: TreeMap<u64, Frame>,
    pub(crate) listed: Option<Listed>,
    /// While there are frames: the size that the records say.
    pub(crate) durable: u64,
    /// While there are frames: a record of a time of change with a smaller stamp than this is older than one that counts.
    pub(crate) kept: u64,
    /// The time of the last lazy write, for the record.
    pub(crate) stamp: u64,
    /// When that was.
    pub(crate) written: Nanos,
    /// Write-back has left it for another round, because it had been written since it was listed.
    pub(crate) spared: bool,
    /// Frames of blocks that the file does not have.
    pub(crate) over_holes: u64,
    /// Frames of blocks that end behind the durable size.
    pub(crate) beyond: u64,
    /// Writes since the last sync.
    pub(crate) writes: u32,
    pub(crate) eager: bool,
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("frames", &self.frames.len()).finish_non_exhaustive()
    }
}
