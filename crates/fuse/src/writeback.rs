//! How much that programs stored through shared maps the kernel may keep back before it makes them wait.
//!
//! Of a FUSE file system that is a hundredth of what it grants all others, because it cannot know whether the server will ever
//! take the pages: beyond 50 MB on a host of 24 GB, storing at random is several times slower. A mount that root made is no less
//! to be trusted than a disk, and gets what a disk gets: all (`max_ratio` of its backing device), and before it has shown how fast
//! it takes pages back (`strict_limit`, since Linux 6.2); see the kernel's `Documentation/ABI/testing/sysfs-class-bdi`. Where it
//! may, the server also asks to be counted among the flushers of I/O (`PR_SET_IO_FLUSHER`, prctl(2)), which the kernel does not
//! make wait for memory that only they can clean.

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
