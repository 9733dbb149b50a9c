//! The mount itself: a directory that the kernel connects with a descriptor of `/dev/fuse`.
//!
//! Root calls mount(2), with every flag that it has. Other users have `fusermount3` do it (Debian's package `fuse3`), which is
//! set-user-id root, checks what they may, and passes the descriptor back over the socket that `_FUSE_COMMFD` names
//! (`util/fusermount.c` of libfuse). It knows fewer flags. Those of access times are the server's to keep, and the list of mounts
//! may show others; `nosymfollow` is the kernel's, and `weir mount` refuses it to these users.
//!
//! The crate `fuser` could mount as well, but it then unmounts the directory once more after its own mount has gone: that would
//! take away what lies below, or what was mounted there since.

use std::ffi::CString;
use std::fs::OpenOptions;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use rustix::fs::{AtFlags, CWD, StatxFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{getegid, geteuid};

use crate::options::Options;
use crate::serve::MountError;

/// The program by which users other than root mount.
const HELPER: &str = "fusermount3";

/// A directory on which we have mounted.
#[derive(Clone, Debug)]
pub(crate) struct Attached {
    dir: PathBuf,
    /// The number that the kernel gave the mount as a device.
    device: Option<(u32, u32)>,
}

/// Mounts on `dir`. Returns the descriptor by which requests come, the first of which is waiting.
pub(crate) fn attach(dir: &Path, options: &Options) -> Result<(OwnedFd, Attached), MountError> {
    let failed = |error| MountError::Io { dir: dir.into(), error };
    let dir = dir.canonicalize().map_err(failed)?;
    let fuse = if geteuid().is_root() { by_call(&dir, options) } else { by_helper(&dir, options) }?;
    let device = device(&dir);
    Ok((fuse, Attached { dir, device }))
}

impl Attached {
    /// Takes the directory back at once; what is open stays served until it is closed. Does nothing where another mount is on top.
    pub(crate) fn detach(&self) -> io::Result<()> {
        if !self.is_on_top() {
            return Ok(());
        }
        match rustix::mount::unmount(&self.dir, UnmountFlags::DETACH) {
            Err(rustix::io::Errno::PERM) => Self::helper(&["-z"], &self.dir).map(drop),
            done => Ok(done?),
        }
    }

    /// Takes the directory back if nothing of it is in use: `EBUSY`. Does nothing where another mount is on top.
    pub(crate) fn detach_unused(&self) -> io::Result<()> {
        if !self.is_on_top() {
            return Ok(());
        }
        match rustix::mount::unmount(&self.dir, UnmountFlags::empty()) {
            // The helper says why in words alone; what is in use is the reason that is left.
            Err(rustix::io::Errno::PERM) => match Self::helper(&[], &self.dir)?.success() {
                true => Ok(()),
                false => Err(rustix::io::Errno::BUSY.into()),
            },
            done => Ok(done?),
        }
    }

    fn helper(more: &[&str], dir: &Path) -> io::Result<ExitStatus> {
        let mut helper = Command::new(HELPER);
        helper.args(["-u", "-q"]).args(more).arg("--").arg(dir).stderr(Stdio::null());
        helper.status()
    }

    fn is_on_top(&self) -> bool {
        self.device.is_some() && device(&self.dir) == self.device
    }

    /// Aborts the connection: all that wait for an answer, and the threads that wait for a request, hear that the mount has gone.
    /// Takes root, or the kernel's control files (fusectl), which may not be mounted: then nothing happens.
    pub(crate) fn abort(&self) {
        let Some((_, number)) = self.device.filter(|known| device(&self.dir) == Some(*known)) else { return };
        if rustix::mount::unmount(&self.dir, UnmountFlags::FORCE | UnmountFlags::DETACH).is_err() {
            let _ = std::fs::write(format!("/sys/fs/fuse/connections/{number}/abort"), "1");
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
}

/// The device of what is mounted on `dir`. Asks the kernel alone: the server may not answer yet, or no longer.
fn device(dir: &Path) -> Option<(u32, u32)> {
    let known = rustix::fs::statx(CWD, dir, AtFlags::STATX_DONT_SYNC, StatxFlags::empty()).ok()?;
    Some((known.stx_dev_major, known.stx_dev_minor))
}

fn by_call(dir: &Path, options: &Options) -> Result<OwnedFd, MountError> {
    let failed = |error| refused(dir, error);
    let fuse = OpenOptions::new().read(true).write(true).open("/dev/fuse").map_err(failed)?;
    let mode = std::fs::metadata(dir).map_err(failed)?.mode();
    let mut words = vec![
        format!("fd={}", fuse.as_raw_fd()),
        format!("rootmode={mode:o}"),
        format!("user_id={}", geteuid().as_raw()),
        format!("group_id={}", getegid().as_raw()),
        "default_permissions".to_owned(),
        format!("subtype=weir.{}", options.design),
    ];
    words.extend(options.allow_other.then(|| "allow_other".to_owned()));
    let words = CString::new(words.join(",")).map_err(|error| failed(error.into()))?;
    rustix::mount::mount(options.source.as_str(), dir, "fuse", options.kernel_flags(), words.as_c_str())
        .map_err(|errno| failed(errno.into()))?;
    Ok(fuse.into())
}

fn by_helper(dir: &Path, options: &Options) -> Result<OwnedFd, MountError> {
    const NAMES: [(MountFlags, &str); 6] = [
        (MountFlags::RDONLY, "ro"),
        (MountFlags::NOSUID, "nosuid"),
        (MountFlags::NODEV, "nodev"),
        (MountFlags::NOEXEC, "noexec"),
        (MountFlags::NOATIME, "noatime"),
        (MountFlags::DIRSYNC, "dirsync"),
    ];
    let escaped = options.source.replace('\\', r"\\").replace(',', r"\,");
    let mut words = vec![format!("fsname={escaped},subtype=weir.{},default_permissions", options.design)];
    let flags = options.kernel_flags();
    words
        .extend(NAMES.into_iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, name)| name.to_owned()));
    words.extend(options.allow_other.then(|| "allow_other".to_owned()));
    let failed = |error| refused(dir, error);
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    let mut helper = Command::new(HELPER);
    helper.arg("-o").arg(words.join(",")).arg("--").arg(dir);
    // The socket is its standard input.
    let helper = helper.env("_FUSE_COMMFD", "0").stdin(OwnedFd::from(theirs)).output();
    let said = match helper {
        Ok(output) if output.status.success() => return received(&ours).map_err(failed),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(no_helper(dir)),
        Err(error) => return Err(failed(error)),
    };
    Err(MountError::NotAllowed { dir: dir.into(), why: why_refused(&said, dir) })
}

/// What the helper's answer means for the user who has called us.
fn why_refused(said: &str, dir: &Path) -> String {
    if said.contains("user_allow_other") {
        return "-o allow_other takes a line \"user_allow_other\" in /etc/fuse.conf, which only root can add; \
                leave it out to be the only user of the mount"
            .to_owned();
    }
    if said.contains("no write access") || said.contains("not owned") {
        return format!(
            "a user may mount only on a directory that the user owns, which {} is not: use another",
            dir.display()
        );
    }
    if said.contains("failed to open /dev/fuse") {
        return "users need the right to open /dev/fuse, which root can give (`chmod 666 /dev/fuse`)"
            .to_owned();
    }
    format!("{HELPER} says: {said}")
}

fn received(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut messages = RecvAncillaryBuffer::new(&mut space);
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut messages, RecvFlags::CMSG_CLOEXEC)?;
    let descriptors = messages.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    descriptors.ok_or_else(|| io::Error::other(format!("{HELPER} passed no descriptor")))
}

fn no_helper(dir: &Path) -> MountError {
    let why = format!("{HELPER} is not installed (Debian's package fuse3), and only root can do without it");
    MountError::NotAllowed { dir: dir.into(), why }
}

fn refused(dir: &Path, error: io::Error) -> MountError {
    let dir = dir.to_owned();
    match error.kind() {
        _ if !Path::new("/dev/fuse").exists() => MountError::NoDevice,
        io::ErrorKind::PermissionDenied => {
            let why = format!(
                "only root may, or a user with {HELPER} (Debian's package fuse3) and the right to open /dev/fuse"
            );
            MountError::NotAllowed { dir, why }
        }
        _ => MountError::Io { dir, error },
    }
}
