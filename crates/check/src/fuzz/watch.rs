//! Records what is read of a region, and stops endless loops.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use media::event::{Event, Tap, TaskId};
use sim::LINE_BYTES;

/// How a run says that it did not end.
pub(super) const ENDLESS: &str = "the image was read and written without end";

/// A tap that knows which lines were read since the last [`Watch::take`], counts lines read and written, and panics when there
/// are too many.
#[derive(Debug)]
pub(super) struct Watch {
    /// A bit for each line.
    read: Box<[AtomicU64]>,
    touched: AtomicU64,
    limit: u64,
}

impl Watch {
    /// For a region of `len` bytes; stops a task that touches more than `limit` lines, counting repeats.
    pub(super) fn new(len: u64, limit: u64) -> Self {
        let words = len.div_ceil(64 * LINE_BYTES as u64);
        Self { read: (0..words).map(|_| AtomicU64::new(0)).collect(), touched: AtomicU64::new(0), limit }
    }

    /// The lines that were read since the last time.
    pub(super) fn take(&self) -> Vec<usize> {
        let mut lines = Vec::new();
        for (index, word) in self.read.iter().enumerate() {
            let mut bits = word.swap(0, Relaxed);
            while bits != 0 {
                lines.push(index * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
        lines
    }

    /// Lines touched so far.
    pub(super) fn touched(&self) -> u64 {
        self.touched.load(Relaxed)
    }
}

impl Tap for Watch {
    fn event(&self, _: TaskId, event: Event<'_>) {
        let (off, len, reads) = match event {
            Event::Load { off, len } => (off, len, true),
            Event::Store { off, data, .. } | Event::NtStore { off, data } => (off, data.len() as u64, false),
            Event::Flush { off, len } => (off, len, false),
            Event::Fence | Event::Block(_) | Event::Mark(_) => return,
        };
        let lines = off / LINE_BYTES as u64..(off + len).div_ceil(LINE_BYTES as u64);
        let touched = self.touched.fetch_add(1 + lines.end - lines.start, Relaxed);
        // A destructor of the stopped task may still read.
        assert!(touched < self.limit || std::thread::panicking(), "{ENDLESS}: {touched} lines");
        for line in lines.filter(|_| reads) {
            if let Some(word) = self.read.get((line / 64) as usize) {
                word.fetch_or(1 << (line % 64), Relaxed);
            }
        }
    }

    fn hears_loads(&self) -> bool {
        true
    }
}
