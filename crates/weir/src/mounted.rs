//! What is mounted where: the lists of mounts of this process and of others.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
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
    fn of(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let (source, dir) = (fields.next()?, fields.next()?);
        let [kind, words] = [fields.next()?, fields.next()?].map(String::from_utf8_lossy);
        let owner = words.split(',').find_map(|word| word.strip_prefix("user_id="));
        Some(Self {
            source: plain(source).into(),
            dir: plain(dir).into(),
            owner: owner.and_then(|user| user.parse().ok()),
            kind: kind.into_owned(),
            words: words.into_owned(),
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
    let by_parent = by_parent(dir);
    match is_mounted(&by_parent)? {
        true => Ok(by_parent),
        false => Ok(by_parent.canonicalize().unwrap_or(by_parent)),
    }
}

/// A directory without symbolic links but in its last part, which is not looked at.
fn by_parent(dir: PathBuf) -> PathBuf {
    match (dir.parent(), dir.file_name()) {
        (Some(parent), Some(name)) => parent.canonicalize().map(|parent| parent.join(name)).unwrap_or(dir),
        _ => dir,
    }
}

/// Programs that unmount, and what they say to do so; umount(8) always does.
const UNMOUNTS: [(&str, Option<&str>); 4] =
    [("weir", Some("umount")), ("umount", None), ("umount.fuse.weir", None), ("fusermount3", Some("-u"))];

/// Whether another program that runs unmounts `dir`, by what its command line says. One that asks this has unmounted already:
/// what is on the directory then is a new mount.
pub(crate) fn is_being_unmounted(dir: &Path) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    let own = std::process::id().to_string();
    let is_another =
        |name: &OsStr| name != OsStr::new(&own) && name.as_bytes().iter().all(u8::is_ascii_digit);
    processes.flatten().filter(|process| is_another(&process.file_name())).any(|process| {
        let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let Ok(cwd) = std::fs::read_link(process.path().join("cwd")) else { return false };
        unmounts(&command, &cwd, dir)
    })
}

/// Whether a command line, given in a working directory, unmounts `dir`.
fn unmounts(command: &[u8], cwd: &Path, dir: &Path) -> bool {
    let mut words = command.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    let program = words.next().map(|program| Path::new(OsStr::from_bytes(program)));
    let name = program.and_then(Path::file_name);
    let Some((_, asks)) = UNMOUNTS.iter().find(|(program, _)| name == Some(OsStr::new(program))) else {
        return false;
    };
    let words: Vec<_> = words.collect();
    asks.is_none_or(|asks| words.contains(&asks.as_bytes()))
        && words.iter().any(|word| by_parent(cwd.join(OsStr::from_bytes(word))) == dir)
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
    let text = std::fs::read(list).map_err(|error| Failure::io("read", list, &error))?;
    Ok(lines(&text).filter_map(Mounted::of).filter(|mounted| mounted.dir == dir).last())
}

/// The directories on which a pool is mounted, in the mount namespace of this process.
pub(crate) fn places_of(pool: &Path) -> Vec<PathBuf> {
    let pool = std::path::absolute(pool).map_or_else(|_| pool.to_owned(), |pool| found(&pool));
    let text = std::fs::read(LIST).unwrap_or_default();
    let mounts = lines(&text).filter_map(Mounted::of);
    let of_it = mounts.filter(|mounted| mounted.is_ours() && found(&mounted.source) == pool);
    of_it.map(|mounted| mounted.dir).collect()
}

/// The directories on which a pool is mounted in the mount namespace of a process, and not in this one. The pool may have another
/// path there: its name has to do.
pub(crate) fn places_elsewhere(pool: &Path, process: u32) -> Vec<PathBuf> {
    // Each namespace numbers its mounts anew, the root first.
    let root = |list: &str| {
        let text = std::fs::read(list).ok()?;
        text.split(|byte| *byte == b' ').next().map(<[u8]>::to_owned)
    };
    if root(LIST_OF_DEVICES) == root(&format!("/proc/{process}/mountinfo")) {
        return Vec::new();
    }
    let here = std::fs::read(LIST).unwrap_or_default();
    let there = std::fs::read(format!("/proc/{process}/mounts")).unwrap_or_default();
    let mounts =
        lines(&there).filter(|line| !lines(&here).any(|known| known == *line)).filter_map(Mounted::of);
    let of_it = mounts.filter(|mounted| mounted.is_ours() && mounted.source.file_name() == pool.file_name());
    of_it.map(|mounted| mounted.dir).collect()
}

/// The device of the mount that a file lies on, by which `/proc/locks` names it. That of stat(2) may differ, on overlay and Btrfs.
pub(crate) fn device_of(file: &Path) -> Option<u64> {
    let known = rustix::fs::statx(CWD, file, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    let list = std::fs::read(LIST_OF_DEVICES).ok()?;
    let list = String::from_utf8_lossy(&list);
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

/// The loop device by which the host's kernel writes to a file, if there is one.
pub(crate) fn loop_device_of(file: &Path) -> Option<PathBuf> {
    let file = found(&std::path::absolute(file).ok()?);
    let devices = std::fs::read_dir("/sys/block").ok()?.flatten().map(|device| device.path());
    let is_on_it = |device: &PathBuf| {
        let backing = std::fs::read(device.join("loop/backing_file")).unwrap_or_default();
        let writes = std::fs::read(device.join("ro")).is_ok_and(|flag| flag.starts_with(b"0"));
        writes && backing.strip_suffix(b"\n").is_some_and(|path| Path::new(OsStr::from_bytes(path)) == file)
    };
    devices.into_iter().find(is_on_it).and_then(|device| Some(Path::new("/dev").join(device.file_name()?)))
}

/// The lines of a list, in which a name need not be text: any user may have made it.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// A field of the list, in which spaces and the like are written as `\040`.
fn plain(field: &[u8]) -> OsString {
    let mut bytes = Vec::new();
    let mut rest = field;
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
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_list_are_read_as_they_were_meant() {
        assert_eq!(plain(br"/mnt/a\040b\134c"), r"/mnt/a b\c");
        assert_eq!(plain(br"/plain\"), r"/plain\");
        assert_eq!(plain(b"/no text \xff").as_bytes(), b"/no text \xff");
    }

    #[test]
    fn a_program_that_unmounts_is_known_by_its_command_line() {
        let says =
            |words: &[&str]| unmounts(words.join("\0").as_bytes(), Path::new("/srv"), Path::new("/srv/x"));
        assert!(says(&["/usr/bin/weir", "umount", "x"]) && says(&["weir", "umount", "--lazy", "/srv/x"]));
        assert!(says(&["umount", "-l", "/srv/x"]) && says(&["fusermount3", "-u", "--", "/srv/x"]));
        assert!(!says(&["weir", "mount", "pmfs", "pool", "x"]) && !says(&["weir", "umount", "/srv/y"]));
        assert!(!says(&["fusermount3", "/srv/x"]) && !says(&["ls", "umount", "x"]) && !says(&[]));
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
