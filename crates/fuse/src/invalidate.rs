//! Dropping cached pages after a direct write.
//!
//! For a program that waits for its direct write (`pwrite` on a file opened with `O_DIRECT`), the kernel drops the cached pages
//! of the range before the write and again after it. For asynchronous direct writes (libaio, `io_uring`) Linux drops them only
//! before (`generic_file_direct_write` leaves the rest to `dio_complete`, which FUSE does not use): pages that a reader brings
//! into the cache before the server has written are outdated, and stay. The server cannot distinguish the two kinds of write, so
//! it drops the range itself (`FUSE_NOTIFY_INVAL_INODE`) before it answers.
//!
//! The kernel answers a notification only when no page of the range is locked, and a page is locked while a read of it waits for
//! the server. A thread that serves requests therefore must not wait for a notification; a separate thread does, and then answers
//! the write.
//!
//! Nor may too many writes wait at once: each takes one of the kernel's places for background requests, and a reader that finds
//! none keeps its pages locked until there is one. So the handler asks for many places ([`PLACES`]), and at most [`most_waiting`]
//! writes wait; what comes beyond is answered first, and its pages are dropped right after.
//!
//! The same thread has the kernel forget names that a program has removed beside it (`beside.rs`).
//!
//! A file of which the kernel has no pages needs none of this: [`crate::nodes`] keeps whether it may have any.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use crate::wire::abi::WriteOut;
use crate::wire::{Device, Reply};

/// Background requests that the kernel is asked to admit at a time, instead of 12: as many as it can be asked for.
pub(crate) const PLACES: u16 = u16::MAX;

/// Writes that wait at most: half of the places that the kernel grants to a user on a host of this memory (`sanitize_global_limit`
/// in its `fs/fuse/inode.c`), and no more than programs have in flight.
fn most_waiting() -> u64 {
    const IN_FLIGHT: u64 = 4096;
    let host = rustix::system::sysinfo();
    let memory = (host.totalram as u64).saturating_mul(u64::from(host.mem_unit));
    ((memory >> 13) / 392 / 2).min(IN_FLIGHT)
}

/// A direct write that is done.
#[derive(Debug)]
pub(crate) struct Written {
    node: u64,
    offset: u64,
    bytes: usize,
    /// The number of the request. None when it was answered.
    unique: Option<u64>,
}

impl Written {
    pub(crate) fn new(node: u64, offset: u64, bytes: usize, unique: u64) -> Self {
        Self { node, offset, bytes, unique: Some(unique) }
    }

    /// Answers it, if that has not been done. The program may have gone.
    fn answer(&mut self, reply: &mut Reply, device: &Device) {
        if let Some(unique) = self.unique.take() {
            reply.clear();
            reply.put(&WriteOut { size: self.bytes as u32, unused: 0 });
            let _ = reply.send(device, unique, 0);
        }
    }
}

/// What the thread does.
enum Task {
    /// Drops the pages over which it was written, and answers the write.
    Written(Written),
    /// Has the kernel forget a name in a directory.
    Removed(u64, Box<[u8]>),
}

/// What hands direct writes over, and names that the kernel is to forget.
pub(crate) struct Invalidator {
    sender: Sender<Task>,
    waiting: Arc<AtomicU64>,
    most: u64,
    device: Arc<Device>,
}

/// The other end, until the thread starts.
pub(crate) struct Invalidations {
    receiver: Receiver<Task>,
    waiting: Arc<AtomicU64>,
    device: Arc<Device>,
}

pub(crate) fn channel(device: &Arc<Device>) -> (Invalidator, Invalidations) {
    let (sender, receiver) = mpsc::channel();
    let waiting = Arc::new(AtomicU64::new(0));
    let device = Arc::clone(device);
    let invalidations =
        Invalidations { receiver, waiting: Arc::clone(&waiting), device: Arc::clone(&device) };
    (Invalidator { sender, waiting, most: most_waiting(), device }, invalidations)
}

impl Invalidator {
    /// Has the pages dropped over which it was written, and then answers.
    pub(crate) fn answer(&self, mut written: Written) {
        if self.waiting.fetch_add(1, Relaxed) >= self.most {
            written.answer(&mut Reply::new(), &self.device);
        }
        // The thread ends with the handler, not before.
        let _ = self.sender.send(Task::Written(written));
    }

    /// Has the kernel forget a name that the program has removed beside it.
    pub(crate) fn forget_name(&self, parent: u64, name: &[u8]) {
        let _ = self.sender.send(Task::Removed(parent, name.into()));
    }

    /// Has the kernel ask for attributes that were changed by a call of which it does not expect that.
    pub(crate) fn attributes_changed(&self, node: u64) {
        // It refuses when it has no such inode any more.
        let _ = self.device.drop_attributes(node);
    }
}

impl Invalidations {
    /// Starts the thread, which ends when the [`Invalidator`] goes.
    pub(crate) fn start(self) -> std::io::Result<()> {
        let run = move || {
            let mut reply = Reply::new();
            for task in self.receiver {
                // The kernel refuses when it has no such inode or name any more.
                match task {
                    Task::Written(mut written) => {
                        let _ = self.device.drop_pages(written.node, written.offset, written.bytes as u64);
                        written.answer(&mut reply, &self.device);
                        self.waiting.fetch_sub(1, Relaxed);
                    }
                    Task::Removed(parent, name) => drop(self.device.drop_name(parent, &name)),
                }
            }
        };
        thread::Builder::new().name("weir-invalidate".to_owned()).spawn(run).map(drop)
    }
}
