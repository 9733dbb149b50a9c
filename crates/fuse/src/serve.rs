//! Mounting, serving, unmounting.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use vfs::FileSystem;

use crate::attach::{self, Attached};
use crate::beside::Beside;
use crate::handler::{Handler, REQUEST_BYTES};
use crate::options::Options;
use crate::threads::{Limits, RequestThreads};
use crate::wire::{Device, Read, Reply};
use crate::{invalidate, writeback};

/// Why a directory could not be mounted on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// The kernel has no FUSE, or this container hides it.
    #[error(
        "this host has no /dev/fuse: load the module (`modprobe fuse`), or start the container with the device"
    )]
    NoDevice,
    /// The user may not mount.
    #[error("mounting on {dir} is not allowed: {why}")]
    NotAllowed {
        /// The directory.
        dir: PathBuf,
        /// What is missing.
        why: String,
    },
    /// The directory does not exist.
    #[error("{0} does not exist: make it first")]
    NoDirectory(PathBuf),
    /// The path leads to something else.
    #[error("{0} is not a directory: a file system is mounted on a directory")]
    NotADirectory(PathBuf),
    /// The directory has entries, which the mount would hide.
    #[error("{0} is not empty, and a mount would hide its contents: use another directory")]
    NotEmpty(PathBuf),
    /// An earlier server has gone without unmounting.
    #[error("{0} is a mount whose server has gone: unmount it first (`weir umount {0}`)")]
    Stale(PathBuf),
    /// Anything else.
    #[error("cannot mount on {dir}: {error}")]
    Io {
        /// The directory.
        dir: PathBuf,
        /// What the host says.
        error: io::Error,
    },
}

/// A mounted file system, before and while its requests are served.
pub struct Server {
    device: Arc<Device>,
    handler: Arc<Handler>,
    limits: Limits,
    mount: Attached,
}

/// How long a thread that sleeps until a request comes may take to end after the connection was aborted.
const ABORT: Duration = Duration::from_secs(5);

/// How often the threads are looked at that have not ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What a request takes beyond its data.
const HEAD_BYTES: usize = 4096;

impl Server {
    /// Mounts `fs` on `dir`. Requests wait until [`Server::serve`]. Its threads will join the current run.
    ///
    /// The thread should have called [`become_flusher`](crate::become_flusher) before the design was mounted, which starts threads.
    pub fn new(fs: Arc<dyn FileSystem>, dir: &Path, options: &Options) -> Result<Self, MountError> {
        check_directory(dir, options.non_empty)?;
        let (fuse, mount) = attach::attach(dir, options)?;
        Self::negotiate(fs, fuse, mount.clone(), options).map_err(|error| {
            let _ = mount.detach();
            MountError::Io { dir: dir.into(), error }
        })
    }

    /// Negotiates the protocol with the kernel (`FUSE_INIT`), and starts what serving needs.
    fn negotiate(
        fs: Arc<dyn FileSystem>,
        fuse: OwnedFd,
        mount: Attached,
        options: &Options,
    ) -> io::Result<Self> {
        let device = Arc::new(Device::new(fuse)?);
        let (invalidator, invalidations) = invalidate::channel(&device);
        let handler = Arc::new(Handler::new(fs, options, invalidator));
        let mut buffer = vec![0; HEAD_BYTES + REQUEST_BYTES as usize];
        let bytes = loop {
            device.wait();
            match device.read(&mut buffer)? {
                Read::Bytes(bytes) => break bytes,
                Read::Nothing => {}
                Read::End => return Err(io::Error::other("the mount has gone")),
            }
        };
        if !handler.negotiate(&buffer[..bytes], &mut Reply::new(), &device)? {
            return Err(io::Error::other("this kernel speaks another FUSE protocol than 7.31 and later"));
        }
        invalidations.start()?;
        writeback::lift_limit(mount.dir());
        let limits = Limits { threads: options.threads.max(1), most: options.readers, poll: options.poll };
        Ok(Self { device, handler, limits, mount })
    }

    /// What tells the kernel of calls that the program makes beside it, where the mount is one of [`Cache::Shared`](crate::Cache).
    pub fn beside(&self) -> Beside {
        Beside::new(Arc::clone(&self.handler), Arc::clone(&self.device))
    }

    /// What unmounts it, from any thread.
    pub fn unmounter(&self) -> Unmounter {
        Unmounter(self.mount.clone())
    }

    /// Serves requests until the file system is unmounted, by this server or by any other program. The design stays mounted.
    ///
    /// When a thread cannot read requests any more, the mount ends: callers hear `ENOTCONN`. In any case no thread uses the design
    /// when this returns, so that it can be unmounted.
    pub fn serve(self) -> io::Result<()> {
        let threads = RequestThreads::new(Arc::clone(&self.device), self.limits);
        let (sender, ends) = mpsc::channel();
        for number in 0..self.limits.threads {
            let buffer = vec![0; HEAD_BYTES + REQUEST_BYTES as usize];
            if let Err(error) = self.start_thread(&threads, number, buffer, sender.clone()) {
                threads.end();
                let _ = sender.send(Err(error));
                break;
            }
        }
        drop(sender);
        let ended = self.wait_for_end(&threads, &ends);
        self.handler.end();
        ended
    }

    /// Starts a request thread that reads into `buffer`, and tells how it ended.
    fn start_thread(
        &self,
        threads: &Arc<RequestThreads>,
        number: usize,
        mut buffer: Vec<u8>,
        ends: Sender<io::Result<()>>,
    ) -> io::Result<()> {
        let (threads, handler) = (Arc::clone(threads), Arc::clone(&self.handler));
        let device = Arc::clone(&self.device);
        let run = move || {
            let mut reply = Reply::new();
            let end = threads.work(&mut buffer, |request| handler.serve(request, &mut reply, &device));
            let _ = ends.send(end);
        };
        thread::Builder::new().name(format!("weir-fuse-{number}")).spawn(run).map(drop)
    }

    /// Waits until all threads have ended. After an error the connection is aborted, which ends those that sleep until a request
    /// comes; where that is not allowed they are left behind, and serve no request that comes. Those that serve a request are
    /// waited for, however long that takes: the caller unmounts the design next.
    fn wait_for_end(&self, threads: &RequestThreads, ends: &Receiver<io::Result<()>>) -> io::Result<()> {
        let Some(error) = ends.iter().find_map(Result::err) else { return Ok(()) };
        self.mount.abort();
        let aborted = Instant::now();
        loop {
            match ends.recv_timeout(LOOK_EVERY) {
                Err(RecvTimeoutError::Timeout) if aborted.elapsed() < ABORT || threads.is_serving() => {}
                Err(_) => return Err(error),
                Ok(_) => {}
            }
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Server")
    }
}

/// Unmounts a [`Server`].
#[derive(Clone, Debug)]
pub struct Unmounter(Attached);

impl Unmounter {
    /// Takes the directory back at once; what is open stays served until it is closed.
    pub fn unmount(&self) -> io::Result<()> {
        self.0.detach()
    }

    /// Takes the directory back if nothing of it is in use; else fails with `EBUSY`.
    pub fn unmount_unused(&self) -> io::Result<()> {
        self.0.detach_unused()
    }

    /// Takes the directory back at once, and ends the service of what is open: its users hear that the mount has gone. Where the
    /// host does not let this user do that (`/sys/fs/fuse/connections` is not there), what is open stays served until it is closed.
    pub fn end(&self) -> io::Result<()> {
        self.0.abort();
        self.0.detach()
    }
}

/// Whether a directory can be mounted on: it is there, no mount whose server has gone, and empty or allowed not to be.
pub fn check_directory(dir: &Path, non_empty: bool) -> Result<(), MountError> {
    // The kernel may still know the attributes of a mount whose server has gone.
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => MountError::NoDirectory(dir.into()),
        io::ErrorKind::NotConnected | io::ErrorKind::ConnectionAborted => MountError::Stale(dir.into()),
        _ => MountError::Io { dir: dir.into(), error },
    };
    if !std::fs::metadata(dir).map_err(failed)?.is_dir() {
        return Err(MountError::NotADirectory(dir.into()));
    }
    let mut entries = std::fs::read_dir(dir).map_err(failed)?;
    match entries.next().transpose().map_err(failed)? {
        Some(_) if !non_empty => Err(MountError::NotEmpty(dir.into())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
