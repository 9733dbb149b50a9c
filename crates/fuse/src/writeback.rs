//! How much that programs stored through shared maps the kernel may keep back before it makes them wait.
//!
//! By default the kernel grants a FUSE file system a hundredth of what it grants others, because a server may never take the
//! pages: beyond 50 MB on a host of 24 GB, random stores are several times slower. A mount by root is as trustworthy as a disk,
//! so the server gives it the limits of a disk: `max_ratio` of its backing device is 100, and `strict_limit` is off (since Linux
//! 6.2; see the kernel's `Documentation/ABI/testing/sysfs-class-bdi`). If it has the right, the server also declares itself an
//! I/O flusher (`PR_SET_IO_FLUSHER`, prctl(2)), so that the kernel does not make it wait for memory that only the server can
//! clean.

use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxFlags};

/// What the kernel grants to a disk.
const AS_A_DISK: [(&str, &str); 2] = [("max_ratio", "100"), ("strict_limit", "0")];

/// Counts this thread, and those that it starts from now on, among the flushers of I/O. Takes `CAP_SYS_RESOURCE`.
pub fn become_flusher() {
    let _ = rustix::process::configure_io_flusher_behavior(true);
}

/// Lifts the limit of what is mounted on `dir`. Takes root; without it the limit stays, which costs speed only.
pub(crate) fn lift_limit(dir: &Path) {
    // Asks the kernel alone: the server does not answer yet.
    let Ok(known) = rustix::fs::statx(CWD, dir, AtFlags::STATX_DONT_SYNC, StatxFlags::empty()) else {
        return;
    };
    let device = format!("/sys/class/bdi/{}:{}", known.stx_dev_major, known.stx_dev_minor);
    for (limit, value) in AS_A_DISK {
        let _ = std::fs::write(Path::new(&device).join(limit), value);
    }
}
