//! What is mounted where: the lists of mounts of this process and of others.

use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags};
use rustix::io::Errno;

use crate::failure::Failure;
use crate::pool_file::found;

/// The list.
const LIST: &str = "/proc/self/mounts";

/// The list that has the number of each mount, and of its device.
const LIST_OF_DEVICES: &str = "/proc/self/mountinfo";

/// A line of the list of mounts.
pub(crate) struct Mounted {
    /// The pool, or `memory`.
    pub(crate) source: PathBuf,
    dir: PathBuf,
    kind: String,
    /// The words with which it is mounted, separated by commas.
    pub(crate) words: String,
    /// The user who has mounted it, where that may be another than root.
    pub(crate) owner: Option<u32>,
}

impl Mounted {
    fn of(line: &str) -> Option<Self> {
        let mut fields = line.split(' ');
        let (source, dir, kind, words) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let owner = words.split(',').find_map(|word| word.strip_prefix("user_id="));
        Some(Self {
            source: plain(source).into(),
            dir: plain(dir).into(),
            kind: kind.to_owned(),
            words: words.to_owned(),
            owner: owner.and_then(|user| user.parse().ok()),
        })
    }

    fn is_ours(&self) -> bool {
        self.kind.starts_with("fuse.weir")
    }

    /// Why its server does not answer a command, and what to do.
    pub(crate) fn why_silent(&self, errno: Errno) -> String {
        match (errno, self.owner) {
            (Errno::NOTCONN, _) => {
                let dir = self.dir.display();
                format!("{errno}; its server has gone: `weir umount {dir}`, then mount it again")
            }
            (Errno::ACCESS | Errno::PERM, Some(owner)) => {
                format!("{errno}; user {owner} has mounted it, and can do this")
            }
            _ => errno.to_string(),
        }
    }

    /// The design that serves it.
    pub(crate) fn design(&self) -> Option<&str> {
        self.kind.strip_prefix("fuse.weir.")
    }
}

/// A directory as the list names it: without symbolic links. The last part of the path may be a mount whose server has gone, or
/// does not answer: it is not asked.
pub(crate) fn absolute(dir: &Path) -> Result<PathBuf, Failure> {
    let dir = std::path::absolute(dir).map_err(|error| Failure::io("find", dir, &error))?;
    let by_parent = match (dir.parent(), dir.file_name()) {
        (Some(parent), Some(name)) => parent.canonicalize().map(|parent| parent.join(name)).unwrap_or(dir),
        _ => dir,
    };
    match is_mounted(&by_parent)? {
        true => Ok(by_parent),
        false => Ok(by_parent.canonicalize().unwrap_or(by_parent)),
    }
}

/// What we have mounted on `dir`; `otherwise` names the program for mounts that are not ours.
pub(crate) fn ours(dir: &Path, otherwise: &str) -> Result<Mounted, Failure> {
    let shown = dir.display();
    let mounted = on(dir)?.ok_or_else(|| Failure::usage(format!("nothing is mounted on {shown}")))?;
    if mounted.is_ours() {
        return Ok(mounted);
    }
    let kind = mounted.kind;
    Err(Failure::usage(format!("{shown} is a mount of type {kind}, not of Weir: use {otherwise}")))
}

/// Whether what is mounted on `dir` is ours and its server has gone.
pub(crate) fn is_stale(dir: &Path) -> Result<bool, Failure> {
    const NOT_CONNECTED: i32 = 107;
    const ABORTED: i32 = 103;
    let gone = std::fs::metadata(dir)
        .and_then(|_| std::fs::read_dir(dir))
        .err()
        .and_then(|error| error.raw_os_error());
    let gone = gone.is_some_and(|errno| errno == NOT_CONNECTED || errno == ABORTED);
    Ok(gone && on(dir)?.is_some_and(|mounted| mounted.is_ours()))
}

/// Whether something is mounted on `dir`.
pub(crate) fn is_mounted(dir: &Path) -> Result<bool, Failure> {
    on(dir).map(|mounted| mounted.is_some())
}

/// What is mounted on `dir` last. A mount whose server has gone is in the list, too.
fn on(dir: &Path) -> Result<Option<Mounted>, Failure> {
    let list = Path::new(LIST);
    let text = std::fs::read_to_string(list).map_err(|error| Failure::io("read", list, &error))?;
    Ok(text.lines().filter_map(Mounted::of).rfind(|mounted| mounted.dir == dir))
}

/// The directories on which a pool is mounted, in the mount namespace of this process.
pub(crate) fn places_of(pool: &Path) -> Vec<PathBuf> {
    let pool = std::path::absolute(pool).map_or_else(|_| pool.to_owned(), |pool| found(&pool));
    let text = std::fs::read_to_string(LIST).unwrap_or_default();
    let mounts = text.lines().filter_map(Mounted::of);
    let of_it = mounts.filter(|mounted| mounted.is_ours() && found(&mounted.source) == pool);
    of_it.map(|mounted| mounted.dir).collect()
}

/// The directories on which a pool is mounted in the mount namespace of a process, and not in this one. The pool may have another
/// path there: its name has to do.
pub(crate) fn places_elsewhere(pool: &Path, process: u32) -> Vec<PathBuf> {
    // Each namespace numbers its mounts anew, the root first.
    let root = |list: &str| {
        let text = std::fs::read_to_string(list).ok()?;
        text.split(' ').next().map(str::to_owned)
    };
    if root(LIST_OF_DEVICES) == root(&format!("/proc/{process}/mountinfo")) {
        return Vec::new();
    }
    let here = std::fs::read_to_string(LIST).unwrap_or_default();
    let there = std::fs::read_to_string(format!("/proc/{process}/mounts")).unwrap_or_default();
    let mounts =
        there.lines().filter(|line| !here.lines().any(|known| known == *line)).filter_map(Mounted::of);
    let of_it = mounts.filter(|mounted| mounted.is_ours() && mounted.source.file_name() == pool.file_name());
    of_it.map(|mounted| mounted.dir).collect()
}

/// The device of the mount that a file lies on, by which `/proc/locks` names it. That of stat(2) may differ, on overlay and Btrfs.
pub(crate) fn device_of(file: &Path) -> Option<u64> {
    let known = rustix::fs::statx(CWD, file, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    let list = std::fs::read_to_string(LIST_OF_DEVICES).ok()?;
    StatxFlags::from_bits_retain(known.stx_mask)
        .contains(StatxFlags::MNT_ID)
        .then(|| device_in(&list, known.stx_mnt_id))
        .flatten()
}

fn device_in(list: &str, mount: u64) -> Option<u64> {
    list.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let number: u64 = fields.next()?.parse().ok()?;
        let (major, minor) = fields.nth(1)?.split_once(':')?;
        (number == mount)
            .then(|| Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?)))
            .flatten()
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_list_are_read_as_they_were_meant() {
        assert_eq!(plain(r"/mnt/a\040b\134c"), r"/mnt/a b\c");
        assert_eq!(plain(r"/plain\"), r"/plain\");
    }

    #[test]
    fn the_list_of_mounts_names_the_device_that_a_mount_is_of() {
        let list = "22 27 0:21 / /proc rw,relatime - proc proc rw\n\
                    37 27 254:3 /sub /srv/pools rw - btrfs /dev/vda3 rw,subvol=/sub\n";
        assert_eq!(device_in(list, 37), Some(rustix::fs::makedev(254, 3)));
        assert_eq!(device_in(list, 22), Some(rustix::fs::makedev(0, 21)));
        assert_eq!(device_in(list, 7), None);
    }
}
