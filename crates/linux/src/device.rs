//! The block device below a model, where the medium is one: requests take its time, and carry nothing.
//!
//! A page of the log goes behind the one before it, in an area of its own at the front of the device, as journals lie; a page of
//! data goes behind the one before it in the rest, as allocation at the time of writing places what several files wrote.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use media::block::{BlockDevice, WriteFlags};
use media::charges::BLOCK_REQUEST;

const PAGE: u64 = sim::PAGE_BYTES as u64;
/// The journal that mke2fs makes at 32 GiB (lib/ext2fs/mkjournal.c, ext2fs_default_journal_size): 128 MiB.
const LOG: u64 = 128 << 20;

/// The device.
pub(super) struct Disk {
    device: Arc<dyn BlockDevice>,
    pub(super) log: Stream,
    pub(super) data: Stream,
}

/// Places that are written one after the other, round and round.
pub(super) struct Stream {
    range: Range<u64>,
    pages: AtomicU64,
}

impl Stream {
    fn new(range: Range<u64>) -> Self {
        Self { range, pages: AtomicU64::new(0) }
    }

    fn next(&self) -> u64 {
        let room = ((self.range.end - self.range.start) / PAGE).max(1);
        self.range.start + self.pages.fetch_add(1, Relaxed) % room * PAGE
    }
}

impl Disk {
    pub(super) fn new(device: Arc<dyn BlockDevice>) -> Self {
        let bytes = device.geometry().bytes.0;
        let front = LOG.min(bytes / 2 / PAGE * PAGE);
        Self { device, log: Stream::new(0..front), data: Stream::new(front..bytes) }
    }

    /// Writes a page and waits.
    pub(super) fn write(&self, to: &Stream) {
        sim::work(BLOCK_REQUEST, 1);
        let flags = WriteFlags::default();
        self.device.write(to.next(), &[0; PAGE as usize], flags).expect("the page is on the device");
    }

    /// Has the device write its cache, and waits.
    pub(super) fn flush(&self) {
        sim::work(BLOCK_REQUEST, 1);
        self.device.flush().expect("a model has no faults");
    }
}
