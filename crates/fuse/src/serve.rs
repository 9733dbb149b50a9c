//! Mounting, serving, unmounting.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fuser::{Config, Session, SessionACL};
use vfs::FileSystem;

use crate::attach::{self, Attached};
use crate::handler::Handler;
use crate::options::Options;
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
    #[error("{0} is not empty, and a mount would hide what is in it: take another directory, or -o nonempty")]
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
    session: Session<Handler>,
    mount: Attached,
}

impl Server {
    /// Mounts `fs` on `dir`. Requests wait until [`Server::serve`]. Its threads will join the current run.
    ///
    /// The thread should have called [`become_flusher`](crate::become_flusher) before the design was mounted, which starts threads.
    pub fn new(fs: Arc<dyn FileSystem>, dir: &Path, options: &Options) -> Result<Self, MountError> {
        check_directory(dir, options.non_empty)?;
        let (invalidator, invalidations) = invalidate::channel();
        let handler = Handler::new(fs, options, invalidator);
        let (fuse, mount) = attach::attach(dir, options)?;
        let session = Session::from_fd(handler, fuse, acl(options), config(options)).map_err(|error| {
            let _ = mount.detach();
            MountError::Io { dir: dir.into(), error }
        })?;
        if let Err(error) = invalidations.start(session.notifier()) {
            let _ = mount.detach();
            return Err(MountError::Io { dir: dir.into(), error });
        }
        writeback::lift_limit(mount.dir());
        Ok(Self { session, mount })
    }

    /// What unmounts it, from any thread.
    pub fn unmounter(&self) -> Unmounter {
        Unmounter(self.mount.clone())
    }

    /// Serves requests until the file system is unmounted, by whomever. The design stays mounted.
    pub fn serve(self) -> io::Result<()> {
        self.session.run()
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
}

fn acl(options: &Options) -> SessionACL {
    if options.allow_other { SessionACL::All } else { SessionACL::Owner }
}

fn config(options: &Options) -> Config {
    let mut config = Config::default();
    config.acl = acl(options);
    config.n_threads = Some(options.threads.max(1));
    config.clone_fd = true;
    config
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
