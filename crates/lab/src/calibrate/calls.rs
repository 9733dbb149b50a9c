//! What a call costs before the design is asked: entering it, finding the descriptor, walking the path.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use design::Options;
use media::Storage;
use sim::{Bytes, Op, Work};
use vfs::{Credentials, Errno, Mount, MountOptions, OpenFlags, Process, Syscalls, Whence};

use super::{Measured, median_ps, region};
use crate::error::Error;
use crate::plan::matrix::design;

/// An operation of the ledger that nothing else uses.
const PROBE: Op = Op::new(39, "probe");
const CALLS: u64 = 20_000;

pub(super) fn measure() -> Result<Vec<Measured>, Error> {
    let process = process()?;
    let failed = |errno: Errno| Error::Host(format!("calibration failed: {errno}"));
    process.mkdir(b"/a", 0o755).map_err(failed)?;
    process.mkdir(b"/a/b", 0o755).map_err(failed)?;
    process.mkdir(b"/a/b/c", 0o755).map_err(failed)?;
    process.mkdir(b"/a/b/c/d", 0o755).map_err(failed)?;
    process.mkdir(b"/a/b/c/d/e", 0o755).map_err(failed)?;
    let fd = process
        .open(b"/file", OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREATE, 0o644)
        .map_err(failed)?;
    let entry = median_ps(CALLS, || drop(sim::op(black_box(PROBE))));
    let seek = median_ps(CALLS, || _ = black_box(process.lseek(fd, 0, Whence::Set)));
    let open = median_ps(CALLS, || {
        let opened = process.open(b"/file", OpenFlags::READ, 0).and_then(|fd| process.close(fd));
        black_box(opened).expect("the file is there");
    });
    let near = median_ps(CALLS, || _ = black_box(process.stat(b"/a")));
    let far = median_ps(CALLS, || _ = black_box(process.stat(b"/a/b/c/d/e")));
    let component = (far.saturating_sub(near) / 4).max(1);
    Ok(vec![
        Measured::new(
            Work::SYSCALL,
            entry,
            "entering and leaving a call in this process: the ledger's clock readings",
        ),
        Measured::new(
            Work::CALL,
            seek.saturating_sub(entry).max(1),
            "lseek in this process, less entering it",
        ),
        Measured::new(
            vfs::charges::OPEN_FILE,
            open.saturating_sub(2 * seek + component).max(1),
            "open and close in this process, less two calls and a component",
        ),
        Measured::new(
            vfs::charges::PATH_COMPONENT,
            component,
            "stat of a path of five components against one of one",
        ),
    ])
}

/// A process on an empty file system over a medium without cost.
fn process() -> Result<Process, Error> {
    let design = design("pmfs")?;
    let fail = |error: design::FsError| Error::Host(format!("calibration failed: {error}"));
    let options = Options::resolve(design.name(), design.options(), &BTreeMap::new())
        .map_err(|error| Error::Host(error.to_string()))?;
    let region = Arc::new(region("dram", Bytes::mib(64))?);
    design.format().mkfs(&Storage::from(&region), &options).map_err(fail)?;
    let mounted = design.mount(&Storage::from(&region), &options).map_err(fail)?;
    let mount = Mount::new(mounted, MountOptions::default());
    let mount = mount.map_err(|errno| Error::Host(format!("calibration failed: {errno}")))?;
    Ok(Process::new(mount, Credentials::root()))
}
