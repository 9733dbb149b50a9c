//! How to mount.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::mount::MountFlags;
use vfs::{AccessTimes, Errno, Result};

use crate::record::Recorder;

/// An attribute of the root that is computed when it is asked for, and in no list.
pub(crate) const RESULT_XATTR: &str = "weir.result";

/// The longest value of an attribute that a kernel passes on.
pub(crate) const RESULT_BYTES_MAX: usize = 64 << 10;

/// Bytes that requests of the kernel have moved since the mount was made. What its page cache serves is no request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes that reads have returned.
    pub read: u64,
    /// Bytes that writes have taken.
    pub written: u64,
}

/// What the mount whose root is `dir` has done so far, as its [`Options::result_so_far`] tells it. Another directory answers with
/// ENODATA or EOPNOTSUPP, a mount whose server has gone with ENOTCONN.
pub fn result_of(dir: &Path) -> rustix::io::Result<Vec<u8>> {
    let mut text = vec![0; RESULT_BYTES_MAX];
    let len = rustix::fs::getxattr(dir, RESULT_XATTR, &mut text)?;
    text.truncate(len);
    Ok(text)
}

/// An attribute of the root, in no list: to ask for it makes everything durable, and gets nothing. The kernel does not tell
/// this server of sync(2) and syncfs(2).
pub const SYNC_XATTR: &str = "weir.sync";

/// An attribute of the root, in no list: root, or the user who serves, asks for it to have the space of free blocks given
/// back to the host; it answers how many bytes that was, in decimal digits.
pub const TRIM_XATTR: &str = "weir.trim";

/// The beginning of an attribute of the root, in no list: root asks for it with the words that follow to tell the server how the
/// kernel has changed the mount ([`remount_xattr`]). The kernel itself tells nothing.
pub(crate) const REMOUNT_XATTR: &str = "weir.remount:";

/// The word of a remount after which a change of names is durable when it returns.
pub(crate) const NAMES_WAIT: &str = "dirsync";

/// The attribute of the root that tells the server of a remount with these flags; of access times only what was said.
pub fn remount_xattr(flags: MountFlags, access_times: Option<AccessTimes>) -> String {
    let state = if flags.contains(MountFlags::RDONLY) { "ro" } else { "rw" };
    let directories = if flags.contains(MountFlags::NODIRATIME) { "nodiratime" } else { "diratime" };
    let times = access_times.map_or("", |times| match times {
        AccessTimes::Never => ",noatime",
        AccessTimes::Relative => ",relatime",
        AccessTimes::Strict => ",strictatime",
    });
    let names_wait = flags.intersects(MountFlags::DIRSYNC | MountFlags::SYNCHRONOUS);
    // A server of an older version does not know the word.
    let names = if names_wait { format!(",{NAMES_WAIT}") } else { String::new() };
    format!("{REMOUNT_XATTR}{state},{directories}{times}{names}")
}

/// The beginning of an attribute of the root, in no list: root, or the user who serves, asks for it with the path of a socket, to
/// which the server then says how it ends ([`end_xattr`]).
pub(crate) const END_XATTR: &str = "weir.end:";

/// The longest name of an attribute that a kernel passes on.
const NAME_BYTES_MAX: usize = 255;

/// The attribute of the root that has the server connect to `socket`; none where the path is too long for a name.
pub fn end_xattr(socket: &Path) -> Option<String> {
    let name = format!("{END_XATTR}{}", socket.to_str()?);
    (name.len() <= NAME_BYTES_MAX).then_some(name)
}

/// The medium under a design, as far as a mount has to do with it.
pub trait Backing: Send + Sync {
    /// Orders what the calling thread has written before everything that comes later: the thread that syncs a file may be another
    /// than the one that wrote it.
    fn fence(&self);

    /// Makes durable what the design has made durable on its medium: where that is a file, the host writes it to its disk.
    fn sync(&self) -> Result<()>;

    /// Whether what the design stores is lost at the unmount: a mount for reading, on a private copy. Then every change is refused,
    /// whatever the kernel was told by a remount.
    fn discards(&self) -> bool {
        false
    }

    /// Connects to a socket, and says there how the server ends when it has ended.
    fn tell_end(&self, socket: &Path) -> Result<()> {
        let _ = socket;
        Err(Errno::EOPNOTSUPP)
    }

    /// A call of the design has panicked while it served `operation`, and its caller was answered `EIO`. `changes`: half of a
    /// change may be left in memory. Called once for each operation; by default the panic is only reported, and the mount goes on.
    fn panicked(&self, operation: &str, changes: bool) {
        let _ = changes;
        // A message that cannot be written is no reason to end.
        let what = "the file system has panicked; its callers are answered EIO";
        let _ = writeln!(std::io::stderr(), "{operation}: {what}");
    }
}

/// What the kernel keeps of file data; of names and attributes it keeps all but in [`Cache::Shared`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cache {
    /// Pages that were read or written.
    #[default]
    Pages,
    /// Nothing: every read and write reaches the design.
    Direct,
    /// The same, and no names and attributes. The file system is a [`vfs::Shared`], which the program that serves it changes by
    /// calls of its own, too: the server's [`crate::Beside`] is to watch them.
    Shared,
}

/// Words of mount(8) that set a flag, and those that clear it.
pub const FLAG_WORDS: [(&str, &str, MountFlags); 9] = [
    ("ro", "rw", MountFlags::RDONLY),
    ("sync", "async", MountFlags::SYNCHRONOUS),
    ("nosuid", "suid", MountFlags::NOSUID),
    ("nodev", "dev", MountFlags::NODEV),
    ("noexec", "exec", MountFlags::NOEXEC),
    ("nodiratime", "diratime", MountFlags::NODIRATIME),
    ("dirsync", "nodirsync", MountFlags::DIRSYNC),
    ("lazytime", "nolazytime", MountFlags::LAZYTIME),
    ("nosymfollow", "symfollow", MountFlags::NOSYMFOLLOW),
];

/// How to mount.
#[derive(Clone)]
pub struct Options {
    /// What stands for the device in the list of mounts.
    pub source: String,
    /// The design's name, for the list of mounts: `fuse.weir.NAME`.
    pub design: String,
    /// What the kernel does or refuses by itself, as for any file system: read-only, no set-id bits, no devices, no programs.
    /// Only root may leave out `NOSUID` and `NODEV`. The flags of access times follow from `access_times`. With `SYNCHRONOUS` the
    /// server makes each write durable before it answers.
    pub flags: MountFlags,
    /// Users other than the one who mounts may use it; the kernel lets root ask for this, others only if the host's
    /// `/etc/fuse.conf` says so.
    pub allow_other: bool,
    /// Mount on a directory that has entries, and hide them.
    pub non_empty: bool,
    /// When reading sets access times.
    pub access_times: AccessTimes,
    /// What the kernel keeps of file data.
    pub cache: Cache,
    /// Threads that serve requests, those that wait among them.
    pub threads: usize,
    /// How many of them may serve at once while none waits: no more than there are cores to spare for the server.
    pub readers: usize,
    /// How long a thread looks for the next request before it sleeps.
    pub poll: Duration,
    /// Keep access-control lists (acl(5)), and let the kernel check them.
    pub lists: bool,
    /// What [`result_of`] answers: what the file system has done so far. At most 64 KiB.
    pub result_so_far: Arc<dyn Fn(Moved) -> Vec<u8> + Send + Sync>,
    /// The medium.
    pub backing: Arc<dyn Backing>,
    /// Records the requests.
    pub recorder: Option<Arc<Recorder>>,
}

impl Options {
    /// The flags of the mount, those of access times among them. The kernel is not told of `SYNCHRONOUS`: it would ask for a sync
    /// after each write that the server has already made durable.
    pub(crate) fn kernel_flags(&self) -> MountFlags {
        (self.flags - MountFlags::SYNCHRONOUS) | time_flags(self.access_times)
    }
}

/// The flags by which the kernel knows when reading sets access times; it shows them, and leaves the rest to the server.
pub fn time_flags(access_times: AccessTimes) -> MountFlags {
    match access_times {
        AccessTimes::Never => MountFlags::NOATIME,
        AccessTimes::Relative => MountFlags::RELATIME,
        AccessTimes::Strict => MountFlags::STRICTATIME,
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("source", &self.source).finish_non_exhaustive()
    }
}
