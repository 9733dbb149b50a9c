//! Mounting, serving, unmounting.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};
use vfs::FileSystem;

use crate::door::Door;
use crate::options::Options;
use crate::writeback;

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
    session: Session<Door>,
}

impl Server {
    /// Mounts `fs` on `dir`. Requests wait until [`Server::serve`]. Its threads will join the current run.
    ///
    /// The thread should have called [`become_flusher`](crate::become_flusher) before the design was mounted, which starts threads.
    pub fn new(fs: Arc<dyn FileSystem>, dir: &Path, options: &Options) -> Result<Self, MountError> {
        check_directory(dir, options.non_empty)?;
        let door = Door::new(fs, options);
        let session = Session::new(door, dir, &config(options)).map_err(|error| refused(dir, error))?;
        writeback::lift_limit(dir);
        Ok(Self { session })
    }

    /// What unmounts it, from any thread.
    pub fn unmounter(&mut self) -> Unmounter {
        Unmounter(self.session.unmount_callable())
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
#[derive(Debug)]
pub struct Unmounter(SessionUnmounter);

impl Unmounter {
    /// Takes the directory back at once; what is open stays served until it is closed.
    pub fn unmount(&mut self) -> io::Result<()> {
        self.0.unmount()
    }
}

fn config(options: &Options) -> Config {
    let mut mount_options = vec![
        MountOption::FSName(options.source.clone()),
        // Not `Subtype`, which fuser keeps to itself when root mounts.
        MountOption::CUSTOM(format!("subtype=weir.{}", options.design)),
        MountOption::DefaultPermissions,
        if options.read_only { MountOption::RO } else { MountOption::RW },
    ];
    mount_options.extend(match options.privileged {
        true => [MountOption::Dev, MountOption::Suid],
        false => [MountOption::NoDev, MountOption::NoSuid],
    });
    if options.no_exec {
        mount_options.push(MountOption::NoExec);
    }
    let mut config = Config::default();
    config.mount_options = mount_options;
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(options.threads.max(1));
    config.clone_fd = true;
    config
}

fn check_directory(dir: &Path, non_empty: bool) -> Result<(), MountError> {
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

fn refused(dir: &Path, error: io::Error) -> MountError {
    let dir = dir.to_owned();
    match error.kind() {
        _ if !Path::new("/dev/fuse").exists() => MountError::NoDevice,
        io::ErrorKind::PermissionDenied => {
            let why = "only root may, or a user with fusermount3 (Debian's package fuse3) and the right to open /dev/fuse";
            MountError::NotAllowed { dir, why: why.to_owned() }
        }
        io::ErrorKind::NotFound => {
            let why =
                "fusermount3 is not installed (Debian's package fuse3), and only root can do without it";
            MountError::NotAllowed { dir, why: why.to_owned() }
        }
        _ => MountError::Io { dir, error },
    }
}
