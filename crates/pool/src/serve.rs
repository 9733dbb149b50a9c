//! A pool that is open in a program, shown to other programs on a directory.
//!
//! ```text
//!   program ──► Pool, File ──► vfs::Process ──┐                         the program's calls tell the kernel what it may
//!                                  │          ├──► vfs::Mount ──► design  not show any more (fuse::Beside)
//!   tools ──► kernel ──► threads of fuse::Server ──► vfs::Shared
//! ```
//!
//! No other process maps the pool: the tools' calls are served by threads of the program.
//!
//! # What each side sees
//!
//! | change | the other side sees it | by |
//! |---|---|---|
//! | of names, attributes, contents, by the program | in its next call, and in its maps | the kernel keeps mapped pages only (1) |
//! | the same by a tool | in its next call | both change names by claims of one `vfs::Mount` |
//! | by a tool's store to a shared map | in its next call on the file | such pages are written before that call |
//! | removal of a file that the other has open | the file lives until both have closed it | both open it in the design |
//! | `flock`, `fcntl` of tools | not | the kernel keeps them among tools; the program has none |
//!
//! (1) Which are dropped before the program's call returns. The tables of `fuse::beside` and `vfs::shared` say when the kernel is
//! told, under which locks, and what happens in each race.
//!
//! # Ends
//!
//! * [`Served::unmount`] fails with `EBUSY` while a tool uses the directory, and it stays served; else the directory is free.
//! * When a [`Served`] is dropped, the directory is free at once, and tools that use it hear that the mount has gone.
//! * umount(8) and `fusermount3 -u` end the service; [`Served`] has nothing left to do.
//! * [`Pool::close`] of a pool that is served fails with `EBUSY` and names the directory: a call that does not say so does not cut
//!   off what tools are doing. The pool is unmounted when the [`Served`] is dropped, as with an open file.
//! * When the program is killed, calls of tools fail with `ENOTCONN` until `fusermount3 -u` frees the directory. The pool is as
//!   after any crash of the program.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fuse::{Backing, Cache, MountError, MountFlags, Server, Unmounter};
use media::Region;
use vfs::{AccessTimes, Mount, Shared};

use crate::io_error;
use crate::paths::{Inner, Pool};
use crate::source::Source;

/// Why a pool cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// It is served already.
    #[error("the pool is served on {} already: unmount that first", .0.display())]
    Served(PathBuf),
    /// The directory cannot be mounted on.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The host gives no thread.
    #[error("the pool cannot be served: {0}")]
    Thread(io::Error),
}

/// What a pool is called, and where it is served.
#[derive(Debug)]
pub(crate) struct Place {
    design: &'static str,
    source: Source,
    /// The directory on which it is served.
    served: Mutex<Option<PathBuf>>,
}

impl Place {
    pub(crate) fn new(design: &'static str, source: Source) -> Self {
        Self { design, source, served: Mutex::default() }
    }

    pub(crate) fn directory(&self) -> Option<PathBuf> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<PathBuf>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the pool is served, unless it is already.
    fn begin(&self, directory: &Path) -> Result<(), ServeError> {
        let mut served = self.lock();
        if let Some(place) = &*served {
            return Err(ServeError::Served(place.clone()));
        }
        *served = Some(directory.to_owned());
        Ok(())
    }

    fn end(&self) {
        *self.lock() = None;
    }
}

/// A directory on which a pool is served. Dropping it ends that.
#[derive(Debug)]
pub struct Served {
    pool: Arc<Inner>,
    directory: PathBuf,
    unmounter: Unmounter,
    /// Serves until the mount has gone. None: it has ended.
    serving: Option<JoinHandle<io::Result<()>>>,
}

/// # Serving
impl Pool {
    /// Shows the files to other programs on a directory, which must be empty, as a mount of the kernel (FUSE), while this program
    /// goes on using them. Takes `/dev/fuse`, and root or `fusermount3`. Only programs of this user may use the mount.
    ///
    /// # Errors
    ///
    /// [`ServeError::Served`] if it is served already, [`ServeError::Mount`] for what the directory or the host refuses.
    pub fn serve(&self, directory: impl AsRef<Path>) -> Result<Served, ServeError> {
        Served::new(Arc::clone(self.inner()), directory.as_ref())
    }
}

impl Served {
    fn new(pool: Arc<Inner>, directory: &Path) -> Result<Self, ServeError> {
        let directory = std::path::absolute(directory)
            .map_err(|error| MountError::Io { dir: directory.into(), error })?;
        pool.place.begin(&directory)?;
        match start(&pool, &directory) {
            Ok((unmounter, serving)) => Ok(Self { pool, directory, unmounter, serving: Some(serving) }),
            Err(error) => {
                pool.place.end();
                Err(error)
            }
        }
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Ends the service.
    ///
    /// # Errors
    ///
    /// `EBUSY` while another program uses the directory: it has a file of it open, or works in it. Then it stays served. A copy of
    /// the mount in another mount namespace is not in the way; its users are waited for. So are those of a mount that another
    /// program has detached or covered by its own.
    pub fn unmount(&mut self) -> io::Result<()> {
        if self.serving.as_ref().is_none_or(JoinHandle::is_finished) {
            return self.join();
        }
        self.unmounter.unmount_unused()?;
        self.join()
    }

    /// Waits for the threads: none of them uses the pool afterwards.
    fn join(&mut self) -> io::Result<()> {
        let Some(serving) = self.serving.take() else { return Ok(()) };
        let ended = serving.join().unwrap_or_else(|_| Err(io_error(vfs::Errno::EIO)));
        self.pool.place.end();
        ended
    }
}

impl Drop for Served {
    /// Where the host does not let the service of open files end, this waits until they are closed: a thread must not use the pool
    /// that is unmounted next.
    fn drop(&mut self) {
        if self.serving.is_some() {
            // A failure cannot be reported to a caller any more.
            let _ = self.unmounter.end();
            let _ = self.join();
        }
    }
}

/// Mounts, and starts the thread that serves; it returns when the mount has gone.
fn start(pool: &Inner, directory: &Path) -> Result<(Unmounter, JoinHandle<io::Result<()>>), ServeError> {
    let mount = Arc::clone(pool.process.mount());
    let shared = Arc::new(Shared::new(Arc::clone(&mount)));
    let (options, directory) = (options(pool), directory.to_owned());
    let (sender, mounted) = mpsc::channel();
    let serve = move || {
        // The threads that serve are children of this one; those of the program stay as they are.
        fuse::become_flusher();
        let server = match Server::new(Arc::clone(&shared) as Arc<dyn vfs::FileSystem>, &directory, &options)
        {
            Ok(server) => server,
            Err(error) => {
                let _ = sender.send(Err(error));
                return Ok(());
            }
        };
        // No request is answered before the program's calls are watched.
        mount.watch(Some(Arc::new(server.beside())));
        let _watching = Watching { mount, shared };
        let _ = sender.send(Ok(server.unmounter()));
        server.serve()
    };
    let serving = thread::Builder::new().name("weir-serve".to_owned()).spawn(serve);
    let serving = serving.map_err(ServeError::Thread)?;
    match mounted.recv() {
        Ok(unmounter) => Ok((unmounter?, serving)),
        Err(_) => Err(ServeError::Thread(io_error(vfs::Errno::EIO))),
    }
}

/// Calls of the program are watched, for the kernel's sake.
struct Watching {
    mount: Arc<Mount>,
    shared: Arc<Shared>,
}

impl Drop for Watching {
    /// The kernel has gone, and what it had open with it.
    fn drop(&mut self) {
        self.mount.watch(None);
        self.shared.end();
    }
}

fn options(pool: &Inner) -> fuse::Options {
    let mount = pool.process.mount();
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    flags.set(MountFlags::RDONLY, mount.options().read_only);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    fuse::Options {
        source: pool.place.source.to_string(),
        design: pool.place.design.to_owned(),
        flags,
        allow_other: false,
        non_empty: false,
        // Each access is passed on, and the mount has its own policy.
        access_times: AccessTimes::Strict,
        cache: Cache::Shared,
        threads: cores.max(2) + WAITING,
        readers: cores,
        // The cores are the program's.
        poll: Duration::ZERO,
        lists: false,
        result_so_far: Arc::new(|_| Vec::new()),
        backing: Arc::new(Medium {
            region: Arc::clone(&pool.region),
            volatile: pool.volatile,
            read_only: mount.options().read_only,
        }),
        recorder: None,
    }
}

/// Threads beside those that compute, for requests that wait: for a lock of the program's calls, or for the disk.
const WAITING: usize = 4;

/// The medium under a pool that is served.
struct Medium {
    region: Arc<Region>,
    volatile: bool,
    read_only: bool,
}

impl Backing for Medium {
    fn fence(&self) {
        self.region.fence();
    }

    fn sync(&self) -> vfs::Result<()> {
        if self.volatile { Ok(()) } else { self.region.sync().map_err(|_| vfs::Errno::EIO) }
    }

    /// A pool that is open for reading stays so, whatever the kernel is told by a remount.
    fn discards(&self) -> bool {
        self.read_only
    }
}
