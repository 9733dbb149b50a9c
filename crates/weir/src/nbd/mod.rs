//! A block device as a server of the network block device protocol, on a Unix socket.
//!
//! ```text
//! client ──► negotiate: fixed newstyle, options ──► reader: requests ──► device.submit
//!                                                                             │ ticket
//!        ◄──────────────── replies, in order of completion ◄── writer: waits until the device is done
//! ```
//!
//! The device runs under the real clock: a request takes as long as the model says, or longer when this host is late, and how
//! late each completion was is recorded. Requests of a connection are pipelined, as many as the device's queue takes.
//!
//! | module | holds |
//! |---|---|
//! | this one | [`Export`], [`serve`], [`Lateness`] |
//! | `wire` | numbers of the protocol |
//! | `negotiate` | the handshake and its options |
//! | `transmit` | requests, replies, errors |
//!
//! A client that breaks the protocol is disconnected, with the reason in the log; one that asks for what cannot be gets an
//! error with a sentence, if it has negotiated structured replies. Others go on.
//!
//! Reference: the NBD protocol (proto.md of the NetworkBlockDevice project).

mod negotiate;
mod transmit;
mod wire;

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use media::BlockDevice;
use results::Histogram;
use rustix::fs::Mode;
use rustix::process::umask;
use sim::task::{Handle, TaskSpec};

/// What is served.
#[derive(Debug)]
pub(crate) struct Export {
    /// The name that clients ask for; the empty name means it as well.
    pub(crate) name: String,
    /// A line about it.
    pub(crate) description: String,
    /// The device.
    pub(crate) device: Arc<dyn BlockDevice>,
    /// How late completions were.
    pub(crate) lateness: Lateness,
}

/// How long requests took, and how late their completions were, in ns.
#[derive(Debug, Default)]
pub(crate) struct Lateness {
    histograms: Mutex<Option<(Histogram, Histogram)>>,
    connections: AtomicU64,
}

impl Lateness {
    /// A request was to take `service_ns` and was answered `late_ns` after that.
    pub(crate) fn record(&self, service_ns: u64, late_ns: u64) {
        let mut both = locked(&self.histograms);
        let (service, late) = both.get_or_insert_with(|| (Histogram::new(), Histogram::new()));
        service.record(service_ns);
        late.record(late_ns);
    }

    /// Service times and lateness so far.
    pub(crate) fn histograms(&self) -> (Histogram, Histogram) {
        let both = locked(&self.histograms);
        both.clone().unwrap_or_else(|| (Histogram::new(), Histogram::new()))
    }

    /// Connections so far.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Relaxed)
    }
}

/// How often the server looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);

/// A socket at `path`, for its user alone. One that a dead server has left is replaced; one that is served is not, nor is a file of
/// another kind.
pub(crate) fn listen(path: &Path) -> io::Result<UnixListener> {
    // From its first moment: who can connect reads and writes the device.
    let mask = umask(Mode::RWXG | Mode::RWXO | Mode::XUSR);
    let bound = bind(path);
    umask(mask);
    bound
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            // Whatever else has this name is not ours to remove.
            if !std::fs::symlink_metadata(path)?.file_type().is_socket() {
                let message = "the file exists and is no socket; name one that does not exist";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
            }
            if UnixStream::connect(path).is_ok() {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        bound => bound,
    }
}

/// Serves until `stop`. Call it inside a run of the real clock. `log` is told what clients did wrong.
pub(crate) fn serve(
    listener: &UnixListener,
    export: &Arc<Export>,
    stop: &AtomicBool,
    log: fn(&str),
) -> io::Result<()> {
    let handle = Handle::current().ok_or_else(|| io::Error::other("the server needs the real clock"))?;
    listener.set_nonblocking(true)?;
    let open: Arc<Mutex<BTreeMap<u64, UnixStream>>> = Arc::default();
    let mut threads = Vec::new();
    while !stop.load(Relaxed) {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(LOOK);
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        stream.set_nonblocking(false)?;
        let (export, handle, shared) = (Arc::clone(export), handle.clone(), Arc::clone(&open));
        let number = export.lateness.connections.fetch_add(1, Relaxed);
        locked(&open).insert(number, stream.try_clone()?);
        threads.push(std::thread::spawn(move || {
            let _task = handle.attach(TaskSpec::named(format!("nbd {number}")));
            if let Err(error) = connection(stream, &export, &handle) {
                log(&format!("connection {number} ended: {error}"));
            }
            // The client sees the end at once, though the list still holds the socket.
            if let Some(stream) = locked(&shared).remove(&number) {
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
        }));
    }
    for stream in locked(&open).values() {
        // The client may have gone already.
        let _ = stream.shutdown(std::net::Shutdown::Read);
    }
    for thread in threads {
        let _ = thread.join();
    }
    Ok(())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn connection(mut stream: UnixStream, export: &Arc<Export>, handle: &Handle) -> io::Result<()> {
    match negotiate::negotiate(&mut stream, export)? {
        Some(session) => transmit::transmit(stream, export, session, handle),
        None => Ok(()),
    }
}
