//! `-o remount`: changes the flags of a mount while it serves.
//!
//! The kernel changes them by itself and tells the server nothing; what the server does about access times it is told through an
//! attribute of the root. mount(8) says all words of the mount again beside those that change, so words of the server (`cache=`,
//! `threads=`, options of the design) cannot be told from changes; they stay as they were mounted.

use std::path::Path;

use fuse::MountFlags;
use rustix::io::Errno;

use super::words::Words;
use crate::failure::{Exit, Failure};
use crate::mounted;

pub(super) fn remount(dir: &Path, words: &[String]) -> Result<(), Failure> {
    let words = Words::parse(words, None)?;
    let dir = mounted::absolute(dir)?;
    mounted::ours(&dir, "mount")?;
    let flags = words.flags | words.access_times.map_or(MountFlags::empty(), fuse::time_flags);
    let refused = |errno| Failure::new(Exit::Run, why_refused(&dir, errno));
    if !flags.contains(MountFlags::RDONLY)
        && let Err(Errno::ROFS) = ask(&dir, &fuse::remount_xattr(flags, words.access_times))
    {
        return Err(refused(Errno::ROFS));
    }
    rustix::mount::mount_remount(&dir, flags, c"").map_err(refused)?;
    let failed = |errno| {
        let what = format!(
            "{}: the kernel has remounted it, but its server does not answer ({errno})",
            dir.display()
        );
        Failure::new(Exit::Run, what)
    };
    ask(&dir, &fuse::remount_xattr(flags, words.access_times)).map_err(failed)?;
    if flags.contains(MountFlags::RDONLY) {
        // From now on nothing changes: what was written is to be on the medium, as with any file system.
        ask(&dir, fuse::SYNC_XATTR).map_err(failed)?;
    }
    Ok(())
}

/// Asks for an attribute that has no value.
fn ask(dir: &Path, name: &str) -> Result<(), Errno> {
    rustix::fs::getxattr(dir, name, &mut [0_u8; 1]).map(drop)
}

fn why_refused(dir: &Path, errno: Errno) -> String {
    let dir = dir.display();
    match errno {
        Errno::PERM => format!("only root may remount {dir}"),
        Errno::BUSY => {
            format!("{dir} cannot become read-only: a file is open for writing (`fuser -vm {dir}` names who)")
        }
        Errno::ROFS => {
            format!(
                "{dir} was mounted read-only and cannot become writable: `weir umount {dir}`, and mount it without ro"
            )
        }
        errno => format!("cannot remount {dir}: {errno}"),
    }
}
