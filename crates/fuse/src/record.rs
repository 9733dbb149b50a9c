//! What the server sees, as a trace: `weir mount --record`.
//!
//! A request thread hands over what a request asked and what came of it ([`Recorder::seen`]), before it answers: so whatever a
//! program does after the answer stands behind it. A thread of its own makes records of that and compresses them; when it falls
//! behind, request threads wait for it, and nothing is lost. Without a recorder a request costs one branch more.
//!
//! The kernel sends numbers of inodes, not paths: the recorder keeps the names under which each was found, and takes the last
//! that is still there. A request on an inode of which no name is known is one on a file that is open there; where none is, it is
//! lost. Open files get handles of their own, which stand for descriptors; all callers share one table of them. Directories are
//! listed without attributes while a recorder is there (`READDIRPLUS`), so that every inode comes by a lookup of its name.

mod requests;

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use trace::import::{Emitter, Sums};
use trace::record::Shares;

pub(crate) use requests::Seen;

use crate::convert::KERNEL_ROOT;

/// Requests that may wait to become records.
const WAITING: usize = 1 << 14;

/// How often what was recorded is handed to the file.
const FLUSH_EVERY: Duration = Duration::from_secs(2);

/// Where a trace goes.
type Out = Box<dyn Write + Send>;

/// Records requests.
pub struct Recorder {
    began: Instant,
    handles: AtomicU64,
    sender: Mutex<Option<SyncSender<Seen>>>,
    writer: Mutex<Option<JoinHandle<io::Result<Sums>>>>,
}

impl Recorder {
    /// Begins to record into a trace.
    pub fn new(out: Emitter<Out>) -> io::Result<Arc<Self>> {
        let (sender, receiver) = sync_channel(WAITING);
        let run = move || Trace::new(out).run(&receiver);
        let writer = thread::Builder::new().name("weir-record".to_owned()).spawn(run)?;
        Ok(Arc::new(Self {
            began: Instant::now(),
            handles: AtomicU64::new(3),
            sender: Mutex::new(Some(sender)),
            writer: Mutex::new(Some(writer)),
        }))
    }

    /// Nanoseconds since the beginning.
    pub(crate) fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// The handle of a file that is opened.
    pub(crate) fn handle(&self) -> u64 {
        self.handles.fetch_add(1, Relaxed)
    }

    /// A request was served.
    pub(crate) fn seen(&self, seen: Seen) {
        if let Some(sender) = &*self.sender.lock() {
            // The thread that writes has ended only after an error, of which `finish` tells.
            let _ = sender.send(seen);
        }
    }

    /// Ends the trace, once no request is served any more. Tells of the first error in writing it.
    pub fn finish(&self) -> io::Result<Sums> {
        drop(self.sender.lock().take());
        let writer = self.writer.lock().take().ok_or_else(|| io::Error::other("it has ended before"))?;
        writer.join().unwrap_or_else(|_| Err(io::Error::other("the thread that writes it has panicked")))
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Recorder")
    }
}

/// A name of an inode that the kernel knows.
#[derive(PartialEq, Eq)]
struct Known {
    parent: u64,
    name: Box<[u8]>,
}

/// The trace, on the thread that writes it.
struct Trace {
    out: Emitter<Out>,
    threads: HashMap<u32, u32>,
    /// Where each inode was found; the last name is the newest.
    nodes: HashMap<u64, Vec<Known>>,
    /// The same by directory and name.
    names: HashMap<(u64, Box<[u8]>), u64>,
    /// Handles of files that were opened when no name of them was known.
    nameless: HashSet<u64>,
    /// Handles of the other open files by inode.
    opened: HashMap<u64, Vec<u64>>,
    /// Inodes that requests have made: nothing needs to be said of what they were before.
    made: HashSet<u64>,
}

impl Trace {
    fn new(out: Emitter<Out>) -> Self {
        Self {
            out,
            threads: HashMap::new(),
            nodes: HashMap::new(),
            names: HashMap::new(),
            nameless: HashSet::new(),
            opened: HashMap::new(),
            made: HashSet::new(),
        }
    }

    fn run(mut self, receiver: &Receiver<Seen>) -> io::Result<Sums> {
        let mut flushed = Instant::now();
        loop {
            match receiver.recv_timeout(FLUSH_EVERY) {
                Ok(seen) => self.request(&seen)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if flushed.elapsed() >= FLUSH_EVERY {
                self.out.flush()?;
                flushed = Instant::now();
            }
        }
        self.out.finish(None).and_then(|(mut out, sums)| out.flush().map(|()| sums))
    }

    /// The number of the thread that made a request; 0 is the kernel by itself.
    fn thread(&mut self, tid: u32, at_ns: u64) -> io::Result<u32> {
        if let Some(number) = self.threads.get(&tid) {
            return Ok(*number);
        }
        let name: &[u8] = if tid == 0 { b"kernel" } else { b"" };
        // The first begins with the trace; all share its table of handles.
        let number = match self.threads.values().min().copied() {
            None => self.out.thread((tid, tid), name, at_ns)?,
            Some(first) => {
                let shares = Shares { files: true, ..Shares::default() };
                self.out.fork(first, (tid, tid), name, shares, at_ns)?
            }
        };
        self.threads.insert(tid, number);
        Ok(number)
    }

    /// The path of an inode; none of one that has no name any more.
    fn path(&self, node: u64) -> Option<Vec<u8>> {
        let (mut parts, mut at) = (Vec::new(), node);
        while at != KERNEL_ROOT {
            let known = self.nodes.get(&at)?.last()?;
            parts.push(&*known.name);
            at = known.parent;
        }
        parts.reverse();
        Some(parts.join(&b'/'))
    }

    /// The path of a name in a directory.
    fn path_in(&self, directory: u64, name: &[u8]) -> Option<Box<[u8]>> {
        let mut path = self.path(directory)?;
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        Some(path.into())
    }
}
