//! A design with its options, as the harnesses make, mount, recover and check it on a region.

use std::sync::Arc;
use std::time::Duration;

use design::{Design, Options};
use media::Storage;
use media::nvmm::Region;
use media::nvmm::null::Null;
use rustix::time::{ClockId, clock_gettime};
use sim::{Bytes, Machine, Seed, Setup};
use vfs::{FileSystem, Promises};

/// A design with its options; with a flaw, or a judge of its own, in tests of the harnesses. Errors say what is wrong and where.
#[derive(Clone)]
pub struct Configured {
    sound: Sound,
    arguments: String,
    steps: Arc<dyn Altered>,
}

/// A design with its options and nothing else.
#[derive(Clone)]
pub struct Sound {
    design: &'static dyn Design,
    options: Options,
}

/// What a test of a harness does in place of a design's own steps.
pub trait Altered: Send + Sync {
    /// Makes an empty file system.
    fn mkfs(&self, sound: &Sound, region: &Arc<Region>) -> Result<(), String> {
        sound.mkfs(region)
    }

    /// Mounts.
    fn mount(&self, sound: &Sound, region: &Arc<Region>) -> Result<Arc<dyn FileSystem>, String> {
        sound.mount(region)
    }

    /// Recovers.
    fn recover(&self, sound: &Sound, region: &Arc<Region>) -> Result<(), String> {
        sound.recover(region)
    }

    /// Lists violations.
    fn fsck(&self, sound: &Sound, region: &Arc<Region>) -> Vec<String> {
        sound.fsck(region)
    }
}

/// The design's own steps.
struct AsItIs;

impl Altered for AsItIs {}

impl Sound {
    fn storage(&self, region: &Arc<Region>) -> Storage {
        self.design.format().needs(&self.options).on(region)
    }

    /// Makes an empty file system.
    pub fn mkfs(&self, region: &Arc<Region>) -> Result<(), String> {
        let made = self.design.format().mkfs(&self.storage(region), &self.options);
        made.map_err(|error| error.to_string())
    }

    /// Mounts, after recovery where it is needed.
    pub fn mount(&self, region: &Arc<Region>) -> Result<Arc<dyn FileSystem>, String> {
        self.design.mount(&self.storage(region), &self.options).map_err(|error| error.to_string())
    }

    /// Brings an image that was not unmounted to the state in which mounting would use it.
    pub fn recover(&self, region: &Arc<Region>) -> Result<(), String> {
        self.design.format().recover(&self.storage(region)).map(drop).map_err(|error| error.to_string())
    }

    /// The violations that fsck finds in an image. An image that cannot be checked is a violation, too.
    pub fn fsck(&self, region: &Arc<Region>) -> Vec<String> {
        let report = self.design.format().fsck(&self.storage(region));
        if report.violations.is_empty() && report.checked.is_empty() {
            return vec![format!("nothing could be checked: {}", report.notes.join("; "))];
        }
        report.violations.iter().map(ToString::to_string).collect()
    }
}

impl Configured {
    /// A design with options; `arguments` are those given, as on a command line (`-O dir_index=false`): reports have them, and
    /// commands that replay a failure.
    pub fn new(design: &'static dyn Design, options: Options, arguments: String) -> Self {
        Self { sound: Sound { design, options }, arguments, steps: Arc::new(AsItIs) }
    }

    /// The same, altered.
    #[must_use]
    pub fn altered(&self, altered: impl Altered + 'static) -> Self {
        Self { steps: Arc::new(altered), ..self.clone() }
    }

    /// The design.
    pub fn design(&self) -> &'static dyn Design {
        self.sound.design
    }

    /// All its options.
    pub fn options(&self) -> &Options {
        &self.sound.options
    }

    /// The promises with its options.
    pub fn promises(&self) -> Promises {
        self.sound.design.promises(&self.sound.options)
    }

    /// The design's name, for reports.
    pub fn name(&self) -> &'static str {
        self.sound.design.name()
    }

    /// The options given, as on a command line; empty when all have their defaults.
    pub fn arguments(&self) -> &str {
        &self.arguments
    }

    /// The smallest region that holds it.
    pub fn min_size(&self) -> Bytes {
        let Sound { design, options } = &self.sound;
        design.format().needs(options).least(design.format().min_size(options))
    }

    /// Makes an empty file system.
    pub fn mkfs(&self, region: &Arc<Region>) -> Result<(), String> {
        self.steps.mkfs(&self.sound, region)
    }

    /// Mounts, after recovery where it is needed.
    pub fn mount(&self, region: &Arc<Region>) -> Result<Arc<dyn FileSystem>, String> {
        self.steps.mount(&self.sound, region)
    }

    /// Brings an image that was not unmounted to the state in which mounting would use it.
    pub fn recover(&self, region: &Arc<Region>) -> Result<(), String> {
        self.steps.recover(&self.sound, region)
    }

    /// The violations that fsck finds in an image.
    pub fn fsck(&self, region: &Arc<Region>) -> Vec<String> {
        self.steps.fsck(&self.sound, region)
    }

    /// The parts of an image that [`Configured::dump`] shows; one that ends in ` N` takes an inode number there.
    pub fn dump_parts(&self) -> Vec<String> {
        self.design().format().dump_parts().iter().map(|(part, _)| (*part).to_owned()).collect()
    }

    /// Describes a part of an image for people.
    pub fn dump(&self, region: &Arc<Region>, part: &str) -> Result<String, String> {
        let mut text = Vec::new();
        let dumped = self.design().format().dump(&self.sound.storage(region), part, &mut text);
        dumped.map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

impl std::fmt::Debug for Configured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The first violation that fsck finds in an image.
pub fn fsck(design: &Configured, region: &Arc<Region>) -> Result<(), String> {
    design.fsck(region).into_iter().next().map_or(Ok(()), |violation| Err(format!("fsck: {violation}")))
}

/// A region of memory without a cost model.
pub fn region(size: Bytes) -> Arc<Region> {
    Arc::new(Region::anonymous(size, Box::new(Null)).expect("memory for a region"))
}

/// The region that a check takes for a design where none is asked for: programs need room beside a format that is large itself, as
/// one with a journal of jbd2 is.
pub fn usual_size(design: &Configured) -> Bytes {
    Bytes((design.min_size().0 + Bytes::kib(512).0).next_multiple_of(Bytes::mib(1).0))
}

/// Whether a design maps files, on a region of this size.
pub fn maps_files(design: &Arc<Configured>, size: Bytes) -> Result<bool, String> {
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
