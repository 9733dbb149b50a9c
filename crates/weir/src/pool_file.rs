//! The file of a pool: its permissions and its size.

use std::fmt;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use sim::Bytes;

use crate::failure::{Exit, Failure};
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
    let file = File::options().write(true).open(path).map_err(failed)?;
    file.try_lock().map_err(|error| failed(error.into()))?;
    // Under the lock: another command may have made it larger than this meanwhile.
    let data = file.metadata().map_err(failed)?;
    if data.len() >= size.0 || data.blocks() * 512 >= data.len() {
        return Ok(());
    }
    file.set_len(size.0).map_err(|error| too_large(path, size, &error))?;
    file.sync_all().map_err(failed)
}

/// Makes a file shorter, durably. `now`: what it has, unless another command has changed that meanwhile.
pub(crate) fn cut(path: &Path, now: Bytes, size: Bytes) -> Result<(), Failure> {
    let failed = |error| Failure::io("make smaller", path, &error);
    let file = File::options().write(true).open(path).map_err(failed)?;
    file.try_lock().map_err(|error| failed(error.into()))?;
    if file.metadata().map_err(failed)?.len() != now.0 {
        let what =
            format!("{} has another size than before: another command is at work on it", path.display());
        return Err(Failure::new(Exit::Run, what));
    }
    file.set_len(size.0).map_err(failed)?;
    file.sync_all().map_err(failed)
}

/// A path as the kernel finds it, or as it was given where there is none any more.
pub(crate) fn found(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its size may have been read before another command made it larger.
    #[test]
    fn holes_never_make_a_file_shorter() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        make_sparse(&path, Bytes::mib(8)).unwrap();
        let len = || std::fs::metadata(&path).unwrap().len();
        extend_holes(&path, Bytes::mib(4)).unwrap();
        assert_eq!(len(), 8 << 20);
        let in_use = File::open(&path).unwrap();
        in_use.try_lock().unwrap();
        assert!(extend_holes(&path, Bytes::mib(16)).is_err(), "a mount may have it");
        assert_eq!(len(), 8 << 20);
        drop(in_use);
        extend_holes(&path, Bytes::mib(16)).unwrap();
        assert_eq!(len(), 16 << 20);
    }

    #[test]
    fn permissions_are_read_as_chmod_reads_them() {
        assert_eq!("0640".parse::<Mode>().unwrap().to_string(), "0640");
        for wrong in ["", "8", "1777", "rw-"] {
            assert!(wrong.parse::<Mode>().is_err(), "{wrong}");
        }
    }
}
