//! One cell, run once: a region, a fresh file system, the workload, a sample.
//!
//! ```text
//! region on the medium ─ mkfs ─ mount ─ (churn) ─ files made ─ [ measured window ] ─ unmount ─ fsck, image
//!                               └───────────────── inside one `sim::run` ─────────────────┘   └─ after it ─┘
//! ```
//!
//! The ledger is read at the beginning and the end of the window; the difference is in the sample. Files of the host are
//! touched only outside the run, except under the real clock by a workload on `host:`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use design::{Design, Options};
use media::Storage;
use media::block::{BlockDevice, Built, MemoryDevice};
use results::Sample;
use rustix::time::{ClockId, clock_gettime};
use sim::{Bytes, Clock, MIB, Machine, Nanos, Seed, Setup};
use vfs::Linux;
use workload::suite::Growth;

use crate::counters::counting::Counting;
use crate::counters::events::Of;
use crate::environment::available_bytes;
use crate::error::Error;
use crate::kernel_fs::{self, KernelFs};
use crate::plan::matrix::{Subject, resolve};
use crate::plan::{CellSpec, Stop};
use crate::watch::Watch;

mod churn;
mod device;
mod image;
mod ledger;
mod region_pool;
mod simulated;
mod timed;
mod work;

pub(crate) use churn::{LIVE, SHARE, files_in};
pub use ledger::so_far;
pub use region_pool::RegionPool;

/// How a cell is run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The clock under which the cell runs.
    pub clock: Clock,
    /// The costs of CPU work under the virtual clock.
    pub machine: Machine,
    /// The kernel whose locks are charged beside those of the file system; none: only the design's own.
    pub kernel: Option<Linux>,
    /// Whether the plan compares no other design: a design may then resolve paths itself.
    pub alone: bool,
    /// The seed of all random numbers.
    pub seed: Seed,
    /// The number of the repeat, from 0.
    pub repeat: u32,
    /// Where to keep the unmounted image.
    pub save_image: Option<PathBuf>,
    /// Whether to check the image and every file's content afterwards.
    pub check: bool,
    /// Whether to look what tasks wait for in the kernel, on a directory of the host.
    pub kernel_locks: bool,
    /// Whether to leave the files that it has made in a directory of the host.
    pub keep_files: bool,
    /// Whether events of the host's processor and kernel are counted.
    pub counts: bool,
    /// Whether this process is watched by the plugin that counts, which is told the measured time.
    pub is_watched: bool,
    /// Those events, while the workload runs.
    pub(crate) counting: Arc<Mutex<Option<Counting>>>,
    /// Set to end early.
    pub interrupt: Arc<AtomicBool>,
    /// The command that works as one worker on a directory of the host: see [`worker`].
    pub worker: Vec<OsString>,
    /// Where the region comes from, and is left.
    pub spare: Arc<RegionPool>,
    /// Processor time that threads of the cell's own have taken, which is added when they end.
    pub spent_ns: Arc<AtomicU64>,
}

impl Run {
    /// The events that count while the workload runs; none where none do.
    fn counting(&self) -> MutexGuard<'_, Option<Counting>> {
        self.counting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Work for the thread of a run of `sim`, whose processor time is added to that of the cell.
    fn counted<T, W: FnOnce() -> T>(&self, work: W) -> impl FnOnce() -> T + use<T, W> {
        let spent_ns = Arc::clone(&self.spent_ns);
        move || {
            let done = work();
            spent_ns.fetch_add(thread_cpu_ns(), Relaxed);
            done
        }
    }
}

/// Processor time that this thread has taken since it began.
pub(crate) fn thread_cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// The clock's name in results.
pub fn clock(clock: Clock) -> results::Clock {
    match clock {
        Clock::Virtual => results::Clock::Virtual,
        Clock::Real => results::Clock::Real,
    }
}

/// The name of a cell in messages and on progress lines: `fileserver hinfs threads 8`.
pub fn title(axes: &BTreeMap<String, String>) -> String {
    let value = |axis: &str| axes.get(axis).map_or("", String::as_str);
    let workload = value("workload").rsplit('/').next().unwrap_or_default();
    let rest = axes.iter().filter(|(axis, _)| !["workload", "fs", "medium"].contains(&axis.as_str()));
    let rest: Vec<_> = rest.map(|(axis, value)| format!(" {axis} {value}")).collect();
    format!("{workload} {}{}", value("fs"), rest.concat())
}

/// What [`Run::worker`] does: it works for the run that has started it, and ends with it.
pub fn worker() -> Result<(), Error> {
    workload::fxmark::child::work(ledger::operations).map_err(Error::Host)
}

/// Runs a cell.
pub fn run(spec: &CellSpec, run: &Run) -> Result<Sample, Error> {
    let watch = (run.clock == Clock::Real).then(Watch::begin);
    if run.counts {
        let of = if matches!(spec.subject, Subject::Design { .. }) { Of::User } else { Of::UserAndKernel };
        *run.counting() = Some(Counting::open(of));
    }
    let mut sample = match &spec.subject {
        Subject::Design { design, options } => on_design(spec, run, *design, options)?,
        Subject::Host(path) => on_host(spec, run, path.clone())?,
        Subject::Kernel(kernel) => on_kernel(spec, run, *kernel)?,
        Subject::Device => on_device(spec, run)?,
        Subject::Ssd(stream) => simulated::on_ssd(spec, run, *stream)?,
        Subject::Processor { config, timeline: None } => simulated::on_processor(spec, run, config)?,
        Subject::Processor { config, timeline: Some(number) } => {
            simulated::timeline(spec, run, config, *number)?
        }
        Subject::Crashes(config, mutant) => simulated::on_crashes(spec, run, config, *mutant)?,
    };
    sample.host = watch.map(Watch::end);
    sample.axes.clone_from(&spec.axes);
    (sample.repeat, sample.seed) = (run.repeat, run.seed.0);
    Ok(sample)
}

/// Memory that a cell is expected to fill: of its region the files with their metadata, and what the design buffers. It fills
/// the rest of a region of the usual size only while its files are large.
pub fn memory(spec: &CellSpec) -> Result<Bytes, Error> {
    let (design, options) = match &spec.subject {
        Subject::Design { design, options } => (design, options),
        Subject::Host(_) | Subject::Ssd(_) => return Ok(Bytes(0)),
        Subject::Device | Subject::Kernel(_) => return Ok(Bytes(spec.workload.data_bytes())),
        Subject::Processor { config, .. } | Subject::Crashes(config, _) => {
            return Ok(simulated::memory(config));
        }
    };
    let options = resolve(*design, options)?;
    let files = spec.workload.data_bytes();
    if spec.block.is_some() {
        // The cache of a block design fills with the files, which the device has as well.
        let cached = design.dram(&options, Bytes(files)).min(Bytes(files.saturating_add(256 * MIB)));
        return Ok(Bytes(files.saturating_add(BESIDE.0 / 2)) + cached);
    }
    let grown = match spec.stop {
        Stop::Operations(_) => growth(spec),
        // What really is written in the time is not known: the files are what counts.
        Stop::After(_) => 0,
    };
    let usual = files.saturating_add(files / 4 + 256 * MIB).saturating_add(grown);
    let region = spec.region.unwrap_or_else(|| design.format().size_for(Bytes(usual), &options));
    let region = region.max(design.format().min_size(&options));
    Ok(region + design.dram(&options, region))
}

/// How long a cell keeps its host thread, to compare cells with: a thread's second of the clock takes about as long as making
/// a gibibyte of files, or 100 thousand operations.
pub fn effort(spec: &CellSpec) -> u64 {
    let running = match spec.stop {
        // It ends by itself: its files say how much it does.
        Stop::After(Nanos::MAX) => spec.workload.data_bytes().saturating_mul(4),
        Stop::After(time) => (time + spec.warm_up).0.saturating_mul(spec.workload.tasks()),
        Stop::Operations(count) => count.saturating_mul(10_000),
    };
    // Most of what a churn stores are records of a line or two: a thread's second stores about 32 MiB.
    let churn = spec.churn.map_or(0, |churn| churn.0.saturating_mul(32));
    running.saturating_add(spec.workload.data_bytes()).saturating_add(churn)
}

/// Bytes for the workload's files and half as much more, since files grow before they are removed, and for their growth.
fn room(spec: &CellSpec) -> u64 {
    let files = spec.workload.data_bytes();
    files.saturating_add(files / 2 + 256 * MIB).saturating_add(growth(spec))
}

/// The region: the size that the plan says, or that which the design needs for so many bytes or so many inodes.
fn region_size(spec: &CellSpec, design: &'static dyn Design, options: &Options) -> Bytes {
    if spec.block.is_some() {
        return spec.region.unwrap_or(BESIDE);
    }
    let inodes = spec.workload.small_files();
    let of_inodes =
        inodes.saturating_add(inodes / 8).saturating_mul(design.format().bytes_per_inode(options));
    spec.region.unwrap_or_else(|| {
        design
            .format()
            .size_for(Bytes(room(spec).max(of_inodes)), options)
            .max(design.format().min_size(options))
    })
}

/// Bytes that the files grow by in the run, at the rate of [`GROWTH_PER_S`] where the time decides. Memory of a region that is
/// not written is not taken from the host, so that a bound costs nothing.
fn growth(spec: &CellSpec) -> u64 {
    match (spec.workload.growth(), spec.stop) {
        (Growth::None, _) => 0,
        (Growth::ToBytes(bytes), _) => bytes,
        (Growth::PerOperation(bytes), Stop::Operations(count)) => bytes.saturating_mul(count),
        (Growth::PerOperation(_), Stop::After(time)) => {
            let time = time.0.saturating_add(spec.warm_up.0);
            let rate = u128::from(GROWTH_PER_S) * u128::from(time) / 1_000_000_000;
            u64::try_from(rate).unwrap_or(u64::MAX).min(MOST_GROWTH)
        }
    }
}

/// As fast as HiNFS's emulated NVMM takes writes (EuroSys 2016, table 2: 1 GB/s).
const GROWTH_PER_S: u64 = 1 << 30;
/// A run of a minute at most: a longer one is told the size to give when it fills its region.
const MOST_GROWTH: u64 = 64 << 30;
/// Memory beside a block device when nothing is said: room for a journal that is never short of it.
const BESIDE: Bytes = Bytes(2 << 30);

/// An error of this cell.
fn failed(spec: &CellSpec, what: impl std::fmt::Display) -> Error {
    Error::Cell { cell: spec.title(), what: what.to_string() }
}

fn setup(spec: &CellSpec, run: &Run) -> Setup {
    let free = spec.free.iter().flat_map(|names| names.split('+')).map(str::to_owned).collect();
    let setup = match run.clock {
        Clock::Virtual => Setup::virtual_clock(run.machine.clone(), run.seed),
        Clock::Real => Setup::real_clock(run.machine.clone(), run.seed),
    };
    Setup { free, ..setup }
}

/// The counter of samples whose image was to be kept and could not be written; the last note says why.
pub const IMAGE_LOST: &str = "image.lost";

/// What a run needs that its design has no image for.
fn refuse_without_image(spec: &CellSpec, run: &Run, design: &dyn Design) -> Result<(), Error> {
    match design.without_image() {
        Some(why) if run.save_image.is_some() => Err(failed(spec, format!("no image can be kept: {why}"))),
        _ => Ok(()),
    }
}

fn on_design(
    spec: &CellSpec,
    run: &Run,
    design: &'static dyn Design,
    options: &BTreeMap<String, String>,
) -> Result<Sample, Error> {
    let options = resolve(design, options)?;
    refuse_without_image(spec, run, design)?;
    let size = region_size(spec, design, &options);
    let model = spec.medium.build().map_err(|error| failed(spec, error))?;
    let region = Arc::new(run.spare.take(size, model).map_err(|error| failed(spec, error))?);
    if run.clock == Clock::Real && size.0 < available_bytes() {
        region.populate();
    }
    let built = spec.block.as_ref().map(media::block::BlockModel::build).transpose();
    let built = built.map_err(|error| failed(spec, error))?;
    let storage = Storage::from(&region);
    let storage = match &built {
        Some(built) => storage.with_block(Arc::clone(&built.device)),
        None => storage,
    };
    let work = work::Work::new(spec, run);
    let work_jitter_per_mille = (design.work_jitter(&options) * 1000.0).round() as u32;
    let setup = Setup { work_jitter_per_mille, ..setup(spec, run) };
    let inside = {
        let storage = storage.clone();
        move || work.on_design(design, &storage, built.as_ref(), &options)
    };
    let sample = sim::run(&setup, run.counted(inside)).map_err(|error| failed(spec, error))?;
    let mut sample = sample.map_err(|what| failed(spec, what))?;
    for count in design.counts() {
        // What never happened is told as well.
        sample.counters.entry(count.name().to_owned()).or_insert(0);
    }
    image::after(spec, run, design, &storage, &mut sample)?;
    drop(storage);
    run.spare.keep(region);
    Ok(sample)
}

/// Memory that is a device holds the workload's files, and half as much more.
fn on_device(spec: &CellSpec, run: &Run) -> Result<Sample, Error> {
    let built = match &spec.block {
        Some(model) => model.build(),
        None => {
            let size = spec.region.unwrap_or(Bytes(room(spec).next_multiple_of(MIB)));
            let model = spec.medium.build().map_err(|error| failed(spec, error))?;
            MemoryDevice::nvmm(size, model).map(|device| Built::from(device as Arc<dyn BlockDevice>))
        }
    };
    let built = built.map_err(|error| failed(spec, error))?;
    let work = work::Work::new(spec, run);
    let sample = sim::run(&setup(spec, run), run.counted(move || work.on_device(&built)));
    sample.map_err(|error| failed(spec, error))?.map_err(|what| failed(spec, what))
}

fn on_host(spec: &CellSpec, run: &Run, path: PathBuf) -> Result<Sample, Error> {
    let work = work::Work::new(spec, run);
    let sample =
        sim::run(&setup(spec, run), move || work.on_host(&path)).map_err(|error| failed(spec, error))?;
    sample.map_err(|what| failed(spec, what))
}

/// In the run's own thread, whose mounts no other thread sees.
fn on_kernel(spec: &CellSpec, run: &Run, kernel: KernelFs) -> Result<Sample, Error> {
    let size = kernel_fs::size(Bytes(spec.workload.data_bytes().saturating_add(growth(spec))), spec.region);
    let work = work::Work::new(spec, run);
    let sample = sim::run(&setup(spec, run), move || work.on_kernel(kernel, size));
    sample.map_err(|error| failed(spec, error))?.map_err(|what| failed(spec, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    #[test]
    fn every_design_has_inodes_for_the_files_that_a_benchmark_begins_with() {
        for fs in fs::FILE_SYSTEMS.iter().map(|design| design.name()) {
            let text = format!(
                "[plan]\nname = \"t\"\nwhy = \"w\"\nstop = \"1ms\"\nmachine = \"fxmark-server\"\n[[axis]]\nfs = [\"{fs}\"]\n\
                 [[axis]]\nmedium = [\"dram\"]\n[[axis]]\nthreads = [80]\n[[workload]]\nname = \"fxmark/MWRM\"\n"
            );
            let plan = Plan::parse("t.toml", &text, false).unwrap();
            for spec in plan.cells().unwrap() {
                let Subject::Design { design, options } = &spec.subject else { continue };
                let options = resolve(*design, options).unwrap();
                let (files, each) = (spec.workload.small_files(), design.format().bytes_per_inode(&options));
                assert!(files >= 800_000 && region_size(&spec, *design, &options).0 >= files * each, "{fs}");
            }
        }
    }
}
