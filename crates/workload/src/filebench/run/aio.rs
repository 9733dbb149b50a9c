//! Asynchronous writes.
//!
//! As in Linux's library for POSIX asynchronous I/O, requests are carried out by writers: those for one
//! slot in turn by one writer, those for different slots side by side, at most twenty at once. A writer is
//! a background task of the thread that started it, so completion is a matter of (virtual) time and repeats
//! from the seed.

use std::collections::VecDeque;
use std::sync::Arc;

use sim::{Condvar, JoinHandle, LockClass, Mutex, TaskSpec};
use vfs::{Errno, Fd, Syscalls};

use crate::filebench::pattern::{Pattern, Phase};

pub(super) static AIO: LockClass = LockClass::new("filebench.aio");

/// A write to be done.
pub(crate) struct Request {
    pub(crate) fd: Fd,
    pub(crate) phase: Phase,
    pub(crate) offset: u64,
    pub(crate) len: usize,
}

/// The asynchronous writes of one thread.
pub(crate) struct Aio {
    shared: Arc<Shared>,
    writers: Vec<JoinHandle<()>>,
    /// Started and not reaped yet.
    outstanding: u64,
}

struct Shared {
    queues: Mutex<Queues>,
    /// Something to do, or the end.
    work: Condvar,
    /// Something was done.
    done: Condvar,
}

struct Queues {
    waiting: Vec<VecDeque<Request>>,
    /// Done and not reaped yet.
    completed: u64,
    error: Option<Errno>,
    closing: bool,
}

impl Aio {
    /// Starts `writers` writers for the thread called `name` on `core`.
    pub(crate) fn start(
        writers: usize,
        name: &str,
        core: u16,
        pattern: &Arc<Pattern>,
        calls: &Arc<dyn Syscalls>,
    ) -> Self {
        let waiting = (0..writers).map(|_| VecDeque::new()).collect();
        let queues = Queues { waiting, completed: 0, error: None, closing: false };
        let shared = Arc::new(Shared {
            queues: Mutex::new(&AIO, queues),
            work: Condvar::of_class(&AIO),
            done: Condvar::of_class(&AIO),
        });
        let writer = |number: usize| {
            let (shared, pattern, calls) = (Arc::clone(&shared), Arc::clone(pattern), Arc::clone(calls));
            let spec = TaskSpec::named(format!("{name}/aio-{number}")).on_core(core).background();
            sim::spawn(spec, move || shared.serve(number, &pattern, &*calls))
        };
        Self { writers: (0..writers).map(writer).collect(), shared, outstanding: 0 }
    }

    /// Hands a write to the writer of its slot.
    pub(crate) fn submit(&mut self, slot: usize, request: Request) {
        let mut queues = self.shared.queues.lock();
        let queue = slot % queues.waiting.len();
        queues.waiting[queue].push_back(request);
        drop(queues);
        self.shared.work.notify_all();
        self.outstanding += 1;
    }

    /// Waits for about half of the writes that are under way, at least one. With nothing under way it
    /// returns at once.
    pub(crate) fn wait_for_half(&mut self) -> Result<(), Errno> {
        self.reap((self.outstanding / 2).max(1).min(self.outstanding))
    }

    fn reap(&mut self, wanted: u64) -> Result<(), Errno> {
        let mut queues = self.shared.queues.lock();
        while queues.completed < wanted && queues.error.is_none() {
            queues = self.shared.done.wait(queues);
        }
        self.outstanding -= queues.completed.min(self.outstanding);
        queues.completed = 0;
        queues.error.take().map_or(Ok(()), Err)
    }

    /// Waits for all writes and ends the writers.
    pub(crate) fn finish(mut self) -> Result<(), Errno> {
        let result = self.reap(self.outstanding);
        self.shared.queues.lock().closing = true;
        self.shared.work.notify_all();
        self.writers.into_iter().for_each(JoinHandle::join);
        result
    }
}

impl Shared {
    /// A writer: does the writes of queue `number` in turn.
    fn serve(&self, number: usize, pattern: &Pattern, calls: &dyn Syscalls) {
        let mut scratch = Vec::new();
        while let Some(request) = self.next(number) {
            let data = pattern.bytes(request.phase, request.offset, request.len, &mut scratch);
            let result = calls.pwrite(request.fd, data, request.offset);
            let mut queues = self.queues.lock();
            queues.completed += 1;
            match result {
                Ok(written) if written == request.len => {}
                Ok(_) => queues.error = Some(Errno::EIO),
                Err(errno) => queues.error = Some(errno),
            }
            drop(queues);
            self.done.notify_all();
        }
    }

    fn next(&self, number: usize) -> Option<Request> {
        let mut queues = self.queues.lock();
        loop {
            if let Some(request) = queues.waiting[number].pop_front() {
                return Some(request);
            }
            if queues.closing {
                return None;
            }
            queues = self.work.wait(queues);
        }
    }
}
