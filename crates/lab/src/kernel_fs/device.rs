//! RAM disks that the kernel does not remove with their last user.
//!
//! Each has a shell that waits until this process has closed a pipe, or has died, and removes the device then. The shell is in the
//! namespace of the cell, so it unmounts first.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use sim::Bytes;

use super::{Refused, found, told};

/// Waits for the end of its input; then `$1` removes the device, once nothing is mounted on it. 100 attempts take ten seconds.
const SCRIPT: &str = r#"trap "" INT TERM HUP
cat >/dev/null
umount -n "$2/fs" 2>/dev/null
for attempt in $(seq 100); do
    if eval "$1" 2>/dev/null; then umount -n "$2" 2>/dev/null; exit 0; fi
    sleep 0.1
    umount -n "$2/fs" 2>/dev/null
done
echo "not removed: $1" >&2
exit 1"#;

/// The shell of a device.
#[derive(Debug)]
pub(super) struct Guard(Child);

impl Guard {
    fn start(remove: &str, top: &Path) -> Result<Self, Refused> {
        let shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "weir-device", remove])
            .arg(top)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn();
        shell.map(Self).map_err(|error| told("start the shell that removes a RAM disk", &error))
    }

    /// Has the device removed.
    pub(super) fn end(mut self) -> Result<(), Refused> {
        drop(self.0.stdin.take());
        let output = self.0.wait_with_output().map_err(|error| told("remove a RAM disk", &error))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!("a RAM disk is {}", String::from_utf8_lossy(&output.stderr).trim())),
        }
    }
}

/// A compressed RAM disk (Documentation/admin-guide/blockdev/zram.rst).
pub(super) fn zram(size: Bytes, top: &Path) -> Result<(PathBuf, Guard), Refused> {
    let number = std::fs::read_to_string("/sys/class/zram-control/hot_add")
        .map_err(|error| told("add a zram", &error))?;
    let number = number.trim();
    let remove = format!("echo {number} >/sys/class/zram-control/hot_remove");
    let guard = Guard::start(&remove, top).inspect_err(|_| {
        // Nothing else removes it.
        let _ = std::fs::write("/sys/class/zram-control/hot_remove", number);
    })?;
    let sized = std::fs::write(format!("/sys/block/zram{number}/disksize"), size.0.to_string());
    match sized {
        Ok(()) => Ok((PathBuf::from(format!("/dev/zram{number}")), guard)),
        Err(error) => {
            guard.end()?;
            Err(told(&format!("give zram{number} its size"), &error))
        }
    }
}

/// The RAM disk of a module that is loaded for it (Documentation/admin-guide/blockdev/ramdisk.rst).
pub(super) fn brd(size: Bytes, top: &Path) -> Result<(PathBuf, Guard), Refused> {
    let kib = format!("rd_size={}", size.0 / 1024);
    let program = found("modprobe").unwrap_or_else(|| "modprobe".into());
    let loaded = Command::new(program)
        .args(["--first-time", "brd", "rd_nr=1", "max_part=0", &kib])
        .stdin(Stdio::null())
        .output();
    match loaded {
        // Only a module that was loaded here is removed: the RAM disk of another may hold data.
        Ok(output) if output.status.success() => {
            Ok((PathBuf::from("/dev/ram0"), Guard::start("rmmod brd", top)?))
        }
        Ok(output) => Err(format!("modprobe brd: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(told("load the module brd", &error)),
    }
}
