//! The file of a pool: who may read it, and who has it open.
//!
//! A server that was unmounted still has its pool open (`flock`) while it writes back what it had buffered. The list of locks names
//! its process, and the list of mounts says that it no longer serves a directory: such a pool is waited for, any other that is in
//! use is refused.

use std::fmt;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use sim::Bytes;

use crate::failure::{Exit, Failure};
use crate::mounted;
use crate::output::Output;

/// Permissions of the file: of a new one, or the widest that an existing one is expected to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode(u32);

impl Mode {
    /// What a new pool has where nothing else is asked for.
    const OWNER_ONLY: Self = Self(0o600);
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
        mode.map(Self).ok_or_else(|| "write permissions in octal, from 0 to 777: 640".to_owned())
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

/// Gives a new pool the permissions that were asked for, and says so when an existing one has wider ones.
pub(crate) fn permit(path: &Path, is_new: bool, asked: Option<Mode>, output: &Output) -> Result<(), Failure> {
    let refused = |action, error| Failure::io(action, path, &error);
    if let Some(Mode(mode)) = asked.filter(|_| is_new) {
        let permissions = std::fs::Permissions::from_mode(mode);
        return std::fs::set_permissions(path, permissions)
            .map_err(|error| refused("change the permissions of", error));
    }
    let found = std::fs::metadata(path).map_err(|error| refused("read the permissions of", error))?;
    let found = Mode(found.permissions().mode() & 0o777);
    let expected = asked.unwrap_or(Mode::OWNER_ONLY);
    if found.0 & 0o077 & !expected.0 != 0 {
        let shown = path.display();
        output.note(&format!(
            "note: {shown} has mode {found}: other users can read every file in it, whatever the modes of these files; \
             run `chmod {expected} {shown}`, or give --mode {found} if this is intended"
        ));
    }
    Ok(())
}

/// Makes a file that takes no space of the host yet.
pub(crate) fn make_sparse(path: &Path, size: Bytes) -> Result<(), Failure> {
    let file = File::options().write(true).create_new(true).mode(Mode::OWNER_ONLY.0).open(path);
    let file = file.map_err(|error| Failure::io("make", path, &error))?;
    file.set_len(size.0).map_err(|error| {
        let _ = std::fs::remove_file(path);
        too_large(path, size, &error)
    })
}

/// Why a file cannot have this size.
fn too_large(path: &Path, size: Bytes, error: &std::io::Error) -> Failure {
    let shown = path.display();
    let why = match error.kind() {
        ErrorKind::FileTooLarge => {
            "the file system of the host does not support files of that size".to_owned()
        }
        _ => error.to_string(),
    };
    Failure::new(Exit::Run, format!("{shown} cannot have {size}: {why}; give a smaller size"))
}

/// Makes a file longer by a hole, durably, if it takes less space than its size; any other gets its space when it is opened with
/// its new size. Reserved blocks that were never stored to count as space here.
pub(crate) fn extend_holes(path: &Path, size: Bytes) -> Result<(), Failure> {
    let failed = |error| Failure::io("make larger", path, &error);
    let data = std::fs::metadata(path).map_err(failed)?;
    if data.blocks() * 512 >= data.len() {
        return Ok(());
    }
    let file = File::options().write(true).open(path).map_err(failed)?;
    file.set_len(size.0).map_err(|error| too_large(path, size, &error))?;
    file.sync_all().map_err(failed)
}

/// How often a pool that is being left is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// After this long the wait is told, and then as often again.
const TELL_EVERY: Duration = Duration::from_secs(2);

/// The longest wait: gigabytes onto a slow disk.
const PATIENCE: Duration = Duration::from_secs(600);

/// Waits while a server that was unmounted has not left its pool yet. Any other that uses it is not waited for.
pub(crate) fn wait_until_left(path: &Path) {
    let began = Instant::now();
    let mut told = Duration::ZERO;
    while let Some(server) = leaving(path) {
        let waited = began.elapsed();
        if waited >= PATIENCE {
            return;
        }
        if waited >= told + TELL_EVERY {
            let (path, secs) = (path.display(), waited.as_secs());
            anstream::eprintln!("waiting for process {server}, which writes {path} back ({secs} s)");
            told = waited;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The process of the server that has the pool open without serving a directory any more.
fn leaving(path: &Path) -> Option<u32> {
    let server = holder(path)?;
    let command = std::fs::read(format!("/proc/{server}/cmdline")).ok()?;
    let serves = command.split(|byte| *byte == 0).any(|argument| argument == b"mount");
    (serves && mounted::places_of(path).is_empty()).then_some(server)
}

/// What to do about a pool that is in use.
pub(crate) fn advice_in_use(path: &Path) -> String {
    let places = mounted::places_of(path);
    match (places.first(), holder(path)) {
        (Some(dir), _) => format!(": it is mounted on {0}; `weir umount {0}` ends that", dir.display()),
        (None, Some(process)) => format!(" (process {process})"),
        (None, None) => String::new(),
    }
}

/// The process that has locked the file: `/proc/locks`, proc(5). None as well where it is out of sight, in another container.
fn holder(path: &Path) -> Option<u32> {
    let file = std::fs::metadata(path).ok()?;
    let (major, minor) = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
    let id = format!("{major:02x}:{minor:02x}:{}", file.ino());
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    holder_in(&locks, &id)
}

fn holder_in(locks: &str, id: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let &[_, "FLOCK", _, _, process, file, ..] = fields.as_slice() else { return None };
        (file == id).then(|| process.parse().ok().filter(|process| *process > 0)).flatten()
    })
}

/// A path as the kernel finds it, or as it was given where there is none any more.
pub(crate) fn found(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_locks_names_the_process_that_holds_one() {
        let locks = "1: POSIX  ADVISORY  WRITE 12 fd:01:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 4711 fd:01:77 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 99 fd:01:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 0 fd:01:78 0 EOF\n";
        assert_eq!(holder_in(locks, "fd:01:77"), Some(4711));
        assert_eq!(holder_in(locks, "fd:01:78"), None, "it is in another container");
        assert_eq!(holder_in(locks, "fd:01:79"), None);
    }

    #[test]
    fn permissions_are_read_as_chmod_reads_them() {
        assert_eq!("0640".parse::<Mode>().unwrap().to_string(), "0640");
        for wrong in ["", "8", "1777", "rw-"] {
            assert!(wrong.parse::<Mode>().is_err(), "{wrong}");
        }
    }
}
