//! `weir umount`: ends a mount and waits until its pool is clean.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::failure::{Exit, Failure};
use crate::mounted;
use crate::output::Output;
use crate::server_end::{self, Report};

/// Unmount a directory, and wait until its server has ended
#[derive(Args, Debug)]
#[command(
    after_help = "Returns when all data is on the medium and the pool can be mounted again; with --lazy, at once.\n\
    Fails if the server could not write everything back, or does not answer for ten seconds."
)]
pub(crate) struct Umount {
    /// The directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Detach the directory at once, even if files on it are open; the mount ends when they are closed
    #[arg(short, long)]
    lazy: bool,
    /// Ask the server to say through this socket how it ends, and unmount nothing.
    #[arg(long, hide = true, value_name = "SOCKET")]
    ask: Option<PathBuf>,
}

impl Umount {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        if let Some(socket) = &self.ask {
            std::process::exit(server_end::ask_here(&self.dir, socket));
        }
        let dir = mounted::absolute(&self.dir)?;
        let mount = mounted::ours(&dir, "umount")?;
        check_owner(&dir, mount.owner)?;
        let has_file = mount.source.is_absolute() && !self.lazy;
        let report = if has_file { Report::ask(&dir, &mount.source)? } else { None };
        let gone = report.as_ref().is_some_and(Report::has_gone);
        Unmounting { dir: &dir, lazy: self.lazy }.run()?;
        if has_file {
            output.detail(&format!("waiting until {} is clean", mount.source.display()));
            let left = report.map_or(Ok(()), |report| report.wait(&mount.source));
            left.and(server_end::wait_until_left(&mount.source))?;
        }
        if gone {
            output.note(&format!(
                "{}: the server had gone, because it was killed or has ended itself; the next mount recovers {} as after a crash",
                dir.display(),
                mount.source.display()
            ));
        }
        if output.is_json() {
            output.document(
                &serde_json::json!({ "schema": "weir.umount/1", "dir": dir, "clean": has_file && !gone, "server_gone": gone }),
            );
        }
        Ok(())
    }
}

/// Only root and the user who has mounted may unmount.
fn check_owner(dir: &Path, owner: Option<u32>) -> Result<(), Failure> {
    let user = rustix::process::getuid();
    match owner.filter(|owner| !user.is_root() && *owner != user.as_raw()) {
        Some(owner) => {
            let dir = dir.display();
            Err(Failure::new(
                Exit::Run,
                format!("{dir} was mounted by user {owner}: only that user and root may unmount it"),
            ))
        }
        None => Ok(()),
    }
}

/// An unmount that is to be done.
#[derive(Clone, Copy)]
pub(super) struct Unmounting<'a> {
    pub(super) dir: &'a Path,
    pub(super) lazy: bool,
}

impl Unmounting<'_> {
    pub(super) fn run(self) -> Result<(), Failure> {
        let flags = if self.lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
        let shown = self.dir.display();
        match rustix::mount::unmount(self.dir, flags) {
            Ok(()) => Ok(()),
            Err(Errno::BUSY) => Err(Failure::new(
                Exit::Run,
                format!(
                    "{shown} is in use: end the programs that use it (`fuser -m {shown}` lists them), or give --lazy"
                ),
            )),
            Err(Errno::PERM) => self.by_helper(),
            Err(errno) => Err(Failure::new(Exit::Run, format!("cannot unmount {shown}: {errno}"))),
        }
    }

    /// Users other than root unmount by the helper by which they have mounted.
    fn by_helper(self) -> Result<(), Failure> {
        let mut helper = Command::new("fusermount3");
        helper.arg("-u").args(self.lazy.then_some("-z")).arg("--").arg(self.dir);
        match helper.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(_) => Err(Failure::new(Exit::Run, "")), // it has said why
            Err(error) => Err(Failure::new(
                Exit::Host,
                format!("only root may unmount without fusermount3 (Debian's package fuse3): {error}"),
            )),
        }
    }
}
