//! File systems of the host's kernel, each made for one cell, in memory, and gone with it: `kernel:ext4@loop`.
//!
//! A cell runs in a host thread of its own (`sim::run`), which leaves the mounts of the process for a mount namespace of its own
//! (mount_namespaces(7)): no other thread and no other program sees what is mounted there, and the kernel unmounts it when the last
//! thread and process of the cell has ended, however that came. A loop device clears itself with its last user; other devices have
//! a shell that outlives this process and removes them (`device`).
//!
//! | medium | what it is |
//! |---|---|
//! | `loop` | the kernel's loop device over a file in memory (tmpfs) |
//! | `brd` | the RAM disk of the module `brd` |
//! | `zram` | a compressed RAM disk; what workloads write does not compress |
//!
//! tmpfs needs none of them.

mod device;

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use document::nearest;
use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};
use rustix::process::geteuid;
use sim::{Bytes, GIB, MIB};

use crate::environment::available_bytes;
use device::Guard;

/// A file system of the kernel on a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelFs {
    /// The file system.
    pub system: System,
    /// What it lies on.
    pub medium: Medium,
}

/// A file system of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// tmpfs.
    Tmpfs,
    /// ext4.
    Ext4,
    /// ext4 without a journal.
    Ext4NoJournal,
    /// XFS.
    Xfs,
    /// btrfs.
    Btrfs,
    /// F2FS.
    F2fs,
}

/// What it lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A loop device over a file in memory.
    Loop,
    /// The RAM disk of a module.
    Brd,
    /// A compressed RAM disk.
    Zram,
}

/// Those of [`System`] with their names, as the models of the kernel's file systems have them.
const SYSTEMS: [(&str, System); 6] = [
    ("tmpfs", System::Tmpfs),
    ("ext4", System::Ext4),
    ("ext4nj", System::Ext4NoJournal),
    ("xfs", System::Xfs),
    ("btrfs", System::Btrfs),
    ("f2fs", System::F2fs),
];
const MEDIA: [(&str, Medium); 3] = [("loop", Medium::Loop), ("brd", Medium::Brd), ("zram", Medium::Zram)];

/// The largest file system of the usual size: that of the FxMark study's RAM disk (USENIX ATC 2016, section 4).
const LARGEST: Bytes = Bytes(32 * GIB);
/// Beside the workload's files.
const ROOM: u64 = 512 * MIB;
/// How long an unmount waits for processes that end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why it could not be made or removed.
pub type Refused = String;

impl FromStr for System {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = SYSTEMS.map(|(name, _)| name);
        let found = SYSTEMS.iter().find(|(name, _)| *name == text);
        found.map(|(_, system)| *system).ok_or_else(|| {
            format!("there is no file system of the kernel called \"{text}\" here; {}", nearest(text, names))
        })
    }
}

impl FromStr for Medium {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = MEDIA.map(|(name, _)| name);
        let found = MEDIA.iter().find(|(name, _)| *name == text);
        found.map(|(_, medium)| *medium).ok_or_else(|| {
            format!("\"{text}\" is no medium of the kernel's file systems; {}", nearest(text, names))
        })
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = SYSTEMS.iter().find(|(_, system)| system == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MEDIA.iter().find(|(_, medium)| medium == self).map_or("", |(name, _)| name))
    }
}

impl fmt::Display for KernelFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}@{}", Self::PREFIX, self.system, self.medium)
    }
}

impl FromStr for KernelFs {
    type Err = String;

    /// `ext4@loop`, or `ext4` for the usual medium.
    fn from_str(text: &str) -> Result<Self, String> {
        let (system, medium) = match text.split_once('@') {
            Some((system, medium)) => (system.parse()?, medium.parse()?),
            None => (text.parse()?, Medium::usual()),
        };
        Ok(Self { system, medium })
    }
}

impl Medium {
    /// The one whose own work is the least, of those that this host has: `brd`, `zram`, `loop`.
    pub fn usual() -> Self {
        let has = |medium: &Self| medium.missing().is_none();
        [Self::Brd, Self::Zram].into_iter().find(has).unwrap_or(Self::Loop)
    }

    /// What this host lacks for it.
    fn missing(self) -> Option<String> {
        let there = |path: &str| Path::new(path).exists();
        match self {
            Self::Loop if there("/dev/loop-control") => None,
            Self::Loop => {
                Some("the kernel has no loop devices (/dev/loop-control; modprobe loop)".to_owned())
            }
            Self::Brd if there("/sys/module/brd") => Some(
                "the module brd is loaded, with devices of another size: unload it (rmmod brd)".to_owned(),
            ),
            Self::Brd if succeeds("modprobe", &["-n", "brd"]) => None,
            Self::Brd => Some("the kernel has no module brd".to_owned()),
            Self::Zram
                if there("/sys/class/zram-control") || succeeds("modprobe", &["zram", "num_devices=0"]) =>
            {
                None
            }
            Self::Zram => Some("the kernel has no zram (/sys/class/zram-control)".to_owned()),
        }
    }
}

impl System {
    /// The kernel's name of its type.
    fn kind(self) -> &'static str {
        match self {
            Self::Tmpfs => "tmpfs",
            Self::Ext4 | Self::Ext4NoJournal => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
            Self::F2fs => "f2fs",
        }
    }

    /// The program that makes it, with its arguments: the host's defaults, whatever is there before. None for tmpfs.
    fn maker(self) -> Option<(&'static str, &'static [&'static str])> {
        match self {
            Self::Tmpfs => None,
            Self::Ext4 => Some(("mkfs.ext4", &["-q", "-F"])),
            Self::Ext4NoJournal => Some(("mkfs.ext4", &["-q", "-F", "-O", "^has_journal"])),
            Self::Xfs => Some(("mkfs.xfs", &["-q", "-f"])),
            Self::Btrfs => Some(("mkfs.btrfs", &["-q", "-f"])),
            Self::F2fs => Some(("mkfs.f2fs", &["-q", "-f"])),
        }
    }
}

/// The size of a file system for files of `data`: `wanted`, or a quarter of the host's free memory, which holds what is written
/// twice, in the medium and in the page cache.
pub fn size(data: Bytes, wanted: Option<Bytes>) -> Bytes {
    let usual = Bytes(available_bytes() / 4).min(LARGEST);
    let needed = Bytes(data.0.saturating_add(data.0 / 2).saturating_add(ROOM));
    let size = wanted.unwrap_or_else(|| usual.max(needed));
    Bytes(size.0.next_multiple_of(MIB))
}

/// Why no file system of the kernel can be made here; none where some can.
pub fn impossible() -> Option<String> {
    if !geteuid().is_root() {
        return Some("only root can mount a file system of the kernel: run it as root".to_owned());
    }
    // A thread that ends at once: what it leaves behind is not ours.
    let tried = std::thread::spawn(enter).join();
    tried.unwrap_or_else(|_| Err("the attempt failed".to_owned())).err()
}

impl KernelFs {
    /// What stands before its name where designs are named.
    pub const PREFIX: &str = "kernel:";

    /// What this host lacks for it: the file system, the program that makes it, the medium.
    pub fn missing(self) -> Option<String> {
        let kind = self.system.kind();
        let loaded = || succeeds("modprobe", &[kind]) && is_known(kind);
        if !is_known(kind) && !loaded() {
            return Some(format!("this kernel has no {kind}, and no module of that name"));
        }
        let (program, _) = self.system.maker()?;
        if found(program).is_none() {
            return Some(format!("there is no program {program}"));
        }
        self.medium.missing()
    }

    /// Makes it with room for `size` and mounts it, seen by this thread and those that it starts alone.
    pub(crate) fn make(self, size: Bytes) -> Result<Mounted, Refused> {
        if let Some(why) = impossible().or_else(|| self.missing()) {
            return Err(why);
        }
        enter()?;
        // A directory that is there in any case, so that none is left behind; only this cell sees what is mounted on it.
        let top = std::env::temp_dir();
        let limit = format!("size={},mode=0700", size.0.saturating_add(16 * MIB));
        mount_at("none", &top, "tmpfs", Some(&limit))?;
        let mut mounted =
            Mounted { root: top.join("fs"), top, told: Vec::new(), guard: None, unmounted: false };
        std::fs::create_dir(&mounted.root).map_err(|error| told("make a directory to mount on", &error))?;
        let Some((program, arguments)) = self.system.maker() else {
            mount_at("none", &mounted.root, "tmpfs", Some(&format!("size={}", size.0)))?;
            mounted.told.push(format!("tmpfs of {size}"));
            return Ok(mounted);
        };
        let device = self.medium(size, &mut mounted)?;
        let mut make = Command::new(found(program).unwrap_or_else(|| program.into()));
        finish(make.args(arguments).arg(&device), program)?;
        let mut mounting = Command::new(found("mount").unwrap_or_else(|| "mount".into()));
        mounting.args(["-n", "-t", self.system.kind()]);
        if self.medium == Medium::Loop {
            mounting.args(["-o", "loop"]);
        }
        finish(mounting.arg(&device).arg(&mounted.root), "mount")?;
        mounted.told.push(format!(
            "{} of {size} on {}, made by {program} {}",
            self.system.kind(),
            self.medium.what(),
            arguments.join(" ")
        ));
        Ok(mounted)
    }

    /// The file or device to make it in.
    fn medium(self, size: Bytes, mounted: &mut Mounted) -> Result<PathBuf, Refused> {
        match self.medium {
            Medium::Loop => {
                let image = mounted.top.join("image");
                let file = File::create_new(&image).map_err(|error| told("make an image", &error))?;
                file.set_len(size.0).map_err(|error| told("make an image", &error))?;
                Ok(image)
            }
            Medium::Brd => {
                let (device, guard) = device::brd(size, &mounted.top)?;
                mounted.guard = Some(guard);
                Ok(device)
            }
            Medium::Zram => {
                let (device, guard) = device::zram(size, &mounted.top)?;
                mounted.guard = Some(guard);
                Ok(device)
            }
        }
    }
}

impl Medium {
    fn what(self) -> &'static str {
        match self {
            Self::Loop => "a loop device over a file in memory",
            Self::Brd => "a RAM disk (brd)",
            Self::Zram => "a compressed RAM disk (zram)",
        }
    }
}

/// A file system that is there until it is removed or dropped.
#[derive(Debug)]
pub(crate) struct Mounted {
    /// Where nothing else is mounted but this: a file system in memory, with the image.
    top: PathBuf,
    root: PathBuf,
    told: Vec<String>,
    guard: Option<Guard>,
    unmounted: bool,
}

impl Mounted {
    /// The directory on which it is mounted.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// What was made, for the reader of a result.
    pub(crate) fn told(&self) -> &[String] {
        &self.told
    }

    /// Unmounts it and removes its medium.
    pub(crate) fn remove(mut self) -> Result<(), Refused> {
        self.unmount()?;
        self.guard.take().map_or(Ok(()), Guard::end)
    }

    fn unmount(&mut self) -> Result<(), Refused> {
        if std::mem::replace(&mut self.unmounted, true) {
            return Ok(());
        }
        let began = Instant::now();
        // A process that has just ended may still be in it.
        while let Err(error) = unmount(&self.root, UnmountFlags::empty()) {
            if error == rustix::io::Errno::INVAL {
                break;
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("cannot unmount {}: {error}", self.root.display()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        unmount(&self.top, UnmountFlags::empty())
            .map_err(|error| format!("cannot unmount {}: {error}", self.top.display()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // It failed already with an error of its own; what is left here goes with the thread's namespace.
        let _ = self.unmount();
        let _ = self.guard.take().map_or(Ok(()), Guard::end);
    }
}

/// Leaves the mounts of the process for a copy that only this thread has, and those that it starts from now on.
pub(crate) fn enter() -> Result<(), Refused> {
    let refused = |error: &dyn fmt::Display| {
        format!("this process may not have mounts of its own (CAP_SYS_ADMIN, unshare(2)): {error}")
    };
    unshare(CloneFlags::CLONE_NEWNS).map_err(|error| refused(&error))?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|error| refused(&error))
}

fn mount_at(source: &str, place: &Path, kind: &str, options: Option<&str>) -> Result<(), Refused> {
    let options = options.map(std::ffi::CString::new).transpose().map_err(|error| error.to_string())?;
    mount(source, place, kind, MountFlags::empty(), options.as_deref())
        .map_err(|error| format!("cannot mount {kind} on {}: {error}", place.display()))
}

fn told(action: &str, error: &io::Error) -> Refused {
    format!("cannot {action}: {error}")
}

/// Whether the kernel knows a type of file system now.
fn is_known(kind: &str) -> bool {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    known.lines().any(|line| line.split_ascii_whitespace().last() == Some(kind))
}

/// Where a program is: in `PATH`, or where Debian has those of root.
fn found(program: &str) -> Option<PathBuf> {
    let of_root = ["/usr/sbin", "/sbin"].map(|folder| Path::new(folder).join(program));
    workload::app::found(program).or_else(|| of_root.into_iter().find(|file| workload::app::is_program(file)))
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let Some(program) = found(program) else { return false };
    let quiet = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    quiet.is_ok_and(|output| output.status.success())
}

/// Runs a program to its end, which must be a success.
fn finish(command: &mut Command, name: &str) -> Result<(), Refused> {
    use std::os::unix::process::CommandExt as _;
    // A group of its own: Ctrl-C is for the run, which ends between two of its operations.
    let output = command.stdin(Stdio::null()).process_group(0).output();
    let output = output.map_err(|error| format!("{name} cannot be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name} failed ({}): {}", output.status, said.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_file_system_and_perhaps_a_medium_and_what_is_wrong_is_told_with_the_nearest() {
        let ext4: KernelFs = "ext4nj@zram".parse().unwrap();
        assert_eq!(ext4, KernelFs { system: System::Ext4NoJournal, medium: Medium::Zram });
        assert_eq!(ext4.to_string(), "kernel:ext4nj@zram");
        for name in SYSTEMS.map(|(name, _)| name) {
            assert_eq!(name.parse::<KernelFs>().unwrap().system.to_string(), name);
        }
        let told = |text: &str| text.parse::<KernelFs>().unwrap_err();
        assert!(told("ext5@loop").contains("did you mean \"ext4\"?"), "{}", told("ext5@loop"));
        assert!(told("ext4@lopp").contains("did you mean \"loop\"?"), "{}", told("ext4@lopp"));
        assert!("".parse::<KernelFs>().is_err() && "ext4@".parse::<KernelFs>().is_err());
    }

    #[test]
    fn a_file_system_has_room_for_the_files_or_the_size_that_was_asked_for() {
        assert!(size(Bytes(8 * GIB), None) >= Bytes(12 * GIB));
        assert_eq!(size(Bytes(8 * GIB), Some(Bytes(GIB - 1))), Bytes(GIB));
    }

    #[test]
    fn what_a_program_says_that_fails_is_told() {
        let failed = finish(Command::new("sh").args(["-c", "echo why >&2; exit 3"]), "sh").unwrap_err();
        assert!(failed.contains("exit status: 3") && failed.ends_with("why"), "{failed}");
        let missing = finish(&mut Command::new("/no/such/program"), "mkfs.none").unwrap_err();
        assert!(missing.starts_with("mkfs.none cannot be started"), "{missing}");
    }
}
