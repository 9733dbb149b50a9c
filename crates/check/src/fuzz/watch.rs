//! Records what is read of a region, and stops endless loops.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use media::event::{BlockEvent, Event, Tap, TaskId};
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
            Event::Store { off, data, .. }
            | Event::NtStore { off, data }
            | Event::Block(BlockEvent::Write { off, data, .. }) => (off, data.len() as u64, false),
            Event::Flush { off, len } | Event::Block(BlockEvent::Discard { off, len, .. }) => {
                (off, len, false)
            }
            Event::Block(BlockEvent::Flush { .. }) => (0, 0, false),
            Event::Fence | Event::Block(BlockEvent::Complete { .. }) | Event::Mark(_) => return,
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

#[cfg(test)]
mod tests {
    use media::block::WriteFlags;

    use super::*;

    /// A design on a block device that writes without end must be stopped as one that stores without end is.
    #[test]
    fn requests_of_a_block_device_count_as_stores_do() {
        let (watch, data) = (Watch::new(1 << 20, 1_000), [0; 4096]);
        let write = |id| {
            let flags = WriteFlags::default();
            watch.event(0, Event::Block(BlockEvent::Write { id, off: 0, data: &data, flags }));
        };
        write(1);
        assert!(watch.touched() >= 64, "{}", watch.touched());
        watch.event(0, Event::Block(BlockEvent::Flush { id: 2 }));
        watch.event(0, Event::Block(BlockEvent::Discard { id: 3, off: 8192, len: 4096 }));
        assert!(watch.touched() >= 129, "{}", watch.touched());
        assert_eq!(watch.take(), [0_usize; 0], "nothing was read");
        let many = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (4..100).for_each(write)));
        assert!(many.is_err(), "100 writes of 64 lines are more than 1,000 lines");
    }
}
