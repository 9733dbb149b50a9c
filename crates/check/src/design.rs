//! The interface of the harnesses to a design: make, mount, recover and check it on a region.
//!
//! The crate that has the designs implements [`Design`] for all of them. A design with other options is another [`Design`].

use std::sync::Arc;
use std::time::Duration;

use media::nvmm::Region;
use media::nvmm::null::Null;
use rustix::time::{ClockId, clock_gettime};
use sim::{Bytes, Machine, Seed, Setup};
use vfs::FileSystem;

/// A design with its options. Its errors say what is wrong and where.
pub trait Design: Send + Sync {
    /// Its name, for reports.
    fn name(&self) -> &str;

    /// Its options as one gives them on a command line (`-O dir_index=false`), for reports and for a command that replays a
    /// failure; empty when all have their defaults.
    fn arguments(&self) -> String {
        String::new()
    }

    /// The smallest region that holds it.
    fn min_size(&self) -> Bytes;

    /// Makes an empty file system.
    fn mkfs(&self, region: &Arc<Region>) -> Result<(), String>;

    /// Mounts, after recovery where it is needed.
    fn mount(&self, region: &Arc<Region>) -> Result<Arc<dyn FileSystem>, String>;

    /// Brings an image that was not unmounted to the state in which mounting would use it.
    fn recover(&self, region: &Arc<Region>) -> Result<(), String>;

    /// The violations that fsck finds in an image. An image that cannot be checked is a violation, too.
    fn fsck(&self, region: &Arc<Region>) -> Vec<String>;

    /// The parts of an image that [`Design::dump`] shows; one that ends in ` N` takes an inode number there.
    fn dump_parts(&self) -> Vec<String> {
        Vec::new()
    }

    /// Describes a part of an image for people.
    fn dump(&self, _region: &Arc<Region>, part: &str) -> Result<String, String> {
        Err(format!("{} shows no {part}", self.name()))
    }
}

impl std::fmt::Debug for dyn Design {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The first violation that fsck finds in an image.
pub fn fsck(design: &dyn Design, region: &Arc<Region>) -> Result<(), String> {
    design.fsck(region).into_iter().next().map_or(Ok(()), |violation| Err(format!("fsck: {violation}")))
}

/// A region of memory without a cost model.
pub fn region(size: Bytes) -> Arc<Region> {
    Arc::new(Region::anonymous(size, Box::new(Null)).expect("memory for a region"))
}

/// The region that a check takes for a design where none is asked for: programs need room beside a format that is large itself, as
/// one with a journal of jbd2 is.
pub fn usual_size(design: &dyn Design) -> Bytes {
    Bytes((design.min_size().0 + Bytes::kib(512).0).next_multiple_of(Bytes::mib(1).0))
}

/// Whether a design maps files, on a region of this size.
pub fn maps_files(design: &Arc<dyn Design>, size: Bytes) -> Result<bool, String> {
    let design = Arc::clone(design);
    let maps = try_virtually(1, move || {
        let region = region(size);
        design.mkfs(&region)?;
        let fs = design.mount(&region)?;
        let maps = fs.mapped_files().is_some();
        unmount(&*fs)?;
        Ok(maps)
    });
    maps?
}

/// Runs `body` under the virtual clock, on a thread of its own. A run that deadlocks or panics is an error that names the seed.
pub fn try_virtually<T: Send + 'static>(
    seed: u64,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let setup = Setup::virtual_clock(Machine::unit(), Seed(seed));
    sim::run(&setup, body).map_err(|error| format!("seed {seed}: {error}"))
}

/// The same; panics when the run fails.
pub fn virtually<T: Send + 'static>(seed: u64, body: impl FnOnce() -> T + Send + 'static) -> T {
    try_virtually(seed, body).unwrap_or_else(|error| panic!("{error}"))
}

/// What `body` returns, and the CPU time that it takes. Call it within a run, which has a thread of its own; under the virtual
/// clock all its tasks are on that one.
pub(crate) fn timed<T>(body: impl FnOnce() -> T) -> (T, Duration) {
    let began = cpu_time(ClockId::ThreadCPUTime);
    let done = body();
    (done, cpu_time(ClockId::ThreadCPUTime).saturating_sub(began))
}

/// The CPU time of a thread or of this process.
pub(crate) fn cpu_time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

pub(crate) fn unmount(fs: &dyn FileSystem) -> Result<(), String> {
    fs.unmount().map_err(|errno| format!("unmount: {}", errno.name()))
}
