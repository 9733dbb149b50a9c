//! `weir umount`: ends a mount and waits until its pool is clean.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::failure::{Exit, Failure};
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

/// A line of the list of mounts.
struct Mounted {
    source: String,
    kind: String,
}

/// How often the pool is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

impl Umount {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let dir = std::path::absolute(&self.dir).map_err(|error| Failure::io("find", &self.dir, &error))?;
        let shown = dir.display();
        let mounted = find(&dir)?.ok_or_else(|| Failure::usage(format!("nothing is mounted on {shown}")))?;
        if !mounted.kind.starts_with("fuse.weir") {
            let kind = mounted.kind;
            return Err(Failure::usage(format!(
                "what is mounted on {shown} is not ours but {kind}: use umount"
            )));
        }
        self.unmount(&dir)?;
        let pool = Path::new(&mounted.source);
        if pool.is_absolute() && !self.lazy {
            wait_for(pool, output);
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

/// What is mounted on `dir` last. A mount whose server has gone is in the list, too.
fn find(dir: &Path) -> Result<Option<Mounted>, Failure> {
    let list = Path::new("/proc/self/mounts");
    let text = std::fs::read_to_string(list).map_err(|error| Failure::io("read", list, &error))?;
    let mut lines = text.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (source, target, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (Path::new(&plain(target)) == dir).then(|| Mounted { source: plain(source), kind: kind.to_owned() })
    });
    Ok(lines.next_back())
}

/// A field of the list, in which spaces and the like are written as `\040`.
fn plain(field: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = field.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = (byte == b'\\').then(|| after.get(..3)).flatten();
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(code) => {
                bytes.push(code);
                rest = &after[3..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_list_are_read_as_they_were_meant() {
        assert_eq!(plain(r"/mnt/a\040b\134c"), r"/mnt/a b\c");
        assert_eq!(plain(r"/plain\"), r"/plain\");
    }
}
