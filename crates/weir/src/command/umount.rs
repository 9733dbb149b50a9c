//! `weir umount`: ends a mount and waits until its pool is clean.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::failure::{Exit, Failure};
use crate::mounted;
use crate::output::Output;

/// Unmount a file system
#[derive(Args, Debug)]
#[command(after_help = "Returns when everything is on the medium and the pool can be mounted again.")]
pub(crate) struct Umount {
    /// The directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Take the directory back now, though something on it is in use; the rest follows when it is not
    #[arg(short, long)]
    lazy: bool,
}

/// How often the pool is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

impl Umount {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let dir = mounted::absolute(&self.dir)?;
        let pool = mounted::ours(&dir, "umount")?;
        self.unmount(&dir)?;
        if pool.is_absolute() && !self.lazy {
            wait_for(&pool, output);
        }
        Ok(())
    }

    fn unmount(&self, dir: &Path) -> Result<(), Failure> {
        let flags = if self.lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
        let shown = dir.display();
        match rustix::mount::unmount(dir, flags) {
            Ok(()) => Ok(()),
            Err(Errno::BUSY) => Err(Failure::new(
                Exit::Run,
                format!("{shown} is in use: end what uses it (`fuser -m {shown}`), or take --lazy"),
            )),
            Err(Errno::PERM) => self.by_helper(dir),
            Err(errno) => Err(Failure::new(Exit::Run, format!("cannot unmount {shown}: {errno}"))),
        }
    }

    /// Users other than root unmount by the helper by which they have mounted.
    fn by_helper(&self, dir: &Path) -> Result<(), Failure> {
        let mut helper = Command::new("fusermount3");
        helper.arg("-u").args(self.lazy.then_some("-z")).arg("--").arg(dir);
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

/// Waits until the server has let go of the pool.
fn wait_for(pool: &Path, output: &Output) {
    let Ok(file) = File::open(pool) else { return };
    let mut told = false;
    while let Err(std::fs::TryLockError::WouldBlock) = file.try_lock_shared() {
        if !told {
            output.detail(&format!("waiting until {} is clean", pool.display()));
            told = true;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
