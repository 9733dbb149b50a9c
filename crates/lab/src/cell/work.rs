//! Inside the run: the file system is made, mounted, worked on and unmounted, and the ledger is read around the work.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use design::{Design, Options};
use media::block::{Built, SsdDevice};
use media::{Storage, flash};
use results::{OperationRecord, PlacementRecord, Sample};
use sim::ledger::Snapshot;
use sim::{Bytes, Clock, Nanos};
use vfs::host::Host;
use vfs::{Credentials, FileSystem, Mount, MountOptions, OpenFlags, Process, Syscalls};
use workload::suite::{Cores, How, Job, JobError, Measured, Phase, Processes, Program};

use super::churn::{Churn, Churned, most_changes};
use super::device::RawDevice;
use super::timed::{Tallies, Timed};
use super::{Run, ledger};
use crate::counters::simulated;
use crate::kernel_fs::KernelFs;
use crate::kernel_locks::Recorder;
use crate::plan::{CellSpec, Stop};

/// A cell's work, ready to be moved into a run.
pub(super) struct Work {
    spec: CellSpec,
    run: Run,
}

/// Why the work failed, in words that the cell's name is put before.
type Failed = String;

fn words(error: impl std::fmt::Display) -> Failed {
    error.to_string()
}

/// How much of a file a sample says the place of.
const PLACED: u64 = 8 << 20;

/// What the subject itself counts.
#[derive(Default)]
struct Account {
    /// A design's counters by name.
    counters: BTreeMap<&'static str, u64>,
    /// What the server of a mount has done since it began; none where there is none, or where it does not tell.
    served: Option<Vec<OperationRecord>>,
}

impl Work {
    pub(super) fn new(spec: &CellSpec, run: &Run) -> Self {
        Self { spec: spec.clone(), run: run.clone() }
    }

    /// On a design in this process.
    pub(super) fn on_design(
        &self,
        design: &'static dyn Design,
        storage: &Storage,
        built: Option<&Built>,
        options: &Options,
    ) -> Result<Sample, Failed> {
        design.format().mkfs(storage, options).map_err(words)?;
        let mounted = design.mount(storage, options).map_err(words)?;
        if let Some(built) = built {
            built.align().map_err(words)?;
        }
        let (tallies, mount) = (self.tallies(), self.mount(&mounted)?);
        let start = processes(&mount);
        let churned = self.churn(&start)?;
        let full = || match (storage.block(), storage.memory()) {
            (Err(_), Ok(region)) => {
                let size = Bytes(region.len());
                let enough = self.enough(size, tallies.running_for());
                format!(
                    "the region of {size} is full: give it --region {enough} or more (in a plan: region = \"{enough}\")"
                )
            }
            _ => "the block device is full: use a larger one".to_owned(),
        };
        let told = |error| self.told(error, full);
        let job = self.job(start, &tallies, None).map_err(told)?;
        let mut sample = self.measure(&*job, &tallies, || Account::of_design(&*mounted)).map_err(told)?;
        if let Some(churned) = churned {
            churned.put(&mut sample);
        }
        if let (Some(ssd), Some(path)) = (built.and_then(|built| built.ssd.as_ref()), job.placed()) {
            sample.placement = placement(ssd, path, &Process::new(Arc::clone(&mount), Credentials::root()));
        }
        if self.run.check && design.without_image().is_some() {
            job.verify(&Process::new(Arc::clone(&mount), Credentials::root())).map_err(words)?;
            return Ok(sample);
        }
        // Under the virtual clock what is still in a buffer is of no use, unless the image is.
        if self.run.clock == Clock::Real || self.run.check || self.run.save_image.is_some() {
            mount.unmount().map_err(words)?;
        }
        if self.run.check {
            verify_again(&*job, design, storage, options)?;
        }
        Ok(sample)
    }

    /// On a block device without a file system.
    pub(super) fn on_device(&self, built: &Built) -> Result<Sample, Failed> {
        let device: Arc<dyn FileSystem> = Arc::new(RawDevice::new(&built.device));
        built.align().map_err(words)?;
        let (tallies, mount) = (self.tallies(), self.mount(&device)?);
        let full = || "the device is full: use a larger one, or on memory a larger --region".to_owned();
        let told = |error| self.told(error, full);
        let job = self.job(processes(&mount), &tallies, None).map_err(told)?;
        let mut sample = self.measure(&*job, &tallies, Account::default).map_err(told)?;
        let process = Process::new(Arc::clone(&mount), Credentials::root());
        if let (Some(ssd), Some(path)) = (&built.ssd, job.placed()) {
            sample.placement = placement(ssd, path, &process);
        }
        if self.run.check {
            job.verify(&process).map_err(words)?;
        }
        Ok(sample)
    }

    /// The churn before the workload, if the cell has one.
    fn churn(&self, start: impl Fn() -> Arc<dyn Syscalls>) -> Result<Option<Churned>, Failed> {
        let Some((stores, region)) = self.spec.churn.zip(self.spec.region) else { return Ok(None) };
        let churn = Churn {
            region,
            stores,
            tasks: self.spec.workload.tasks(),
            seed: self.run.seed,
            interrupt: Arc::clone(&self.run.interrupt),
            most: most_changes(stores),
        };
        churn.run(start).map(Some)
    }

    fn mount(&self, mounted: &Arc<dyn FileSystem>) -> Result<Arc<Mount>, Failed> {
        let (kernel, own_paths) = (self.run.kernel, self.run.alone);
        let how = MountOptions { kernel, own_paths, ..MountOptions::default() };
        Mount::new(Arc::clone(mounted), how).map_err(words)
    }

    /// In a new folder of a directory of the host, which is left as it was found.
    pub(super) fn on_host(&self, path: &Path) -> Result<Sample, Failed> {
        let folder = Folder::new(path).map_err(words)?;
        let mut sample = self.in_folder(&folder.0)?;
        if self.run.keep_files {
            sample.notes.push(format!("its files are left in {}", folder.leave().display()));
        }
        Ok(sample)
    }

    /// In an empty directory of the host.
    fn in_folder(&self, path: &Path) -> Result<Sample, Failed> {
        // The directory is opened once here, so that its errors are told; each process then has it from its own opening.
        drop(Host::new(path).map_err(words)?);
        let (tallies, root, confined) = (self.tallies(), path.to_owned(), self.spec.workload.is_foreign());
        let start = move || -> Arc<dyn Syscalls> {
            let host = if confined { Host::confined(&root) } else { Host::new(&root) };
            Arc::new(host.expect("the directory was opened when the cell began"))
        };
        let full =
            || format!("the file system of {} is full: make room", path.parent().unwrap_or(path).display());
        let told = |error| self.told(error, full);
        let program = Program { command: self.run.worker.clone(), directory: path.to_owned() };
        let job = self.job(start, &tallies, Some(program)).map_err(told)?;
        let root = ledger::root_of_mount(path);
        let account = || Account::of_server(root.as_deref());
        let measured = self.measure(&*job, &tallies, account).map_err(told);
        let concluded = job.conclude().map_err(told);
        measured.and_then(|sample| concluded.map(|()| sample))
    }

    /// On a new file system of the host's kernel, which is gone when this returns. The calling thread sees mounts of its own from
    /// then on.
    pub(super) fn on_kernel(&self, kernel: KernelFs, size: Bytes) -> Result<Sample, Failed> {
        let mounted = kernel.make(size).map_err(words)?;
        let sample = Folder::new(mounted.root()).map_err(words).and_then(|folder| self.in_folder(&folder.0));
        let told = mounted.told().to_vec();
        let removed = mounted.remove().map_err(words);
        let mut sample = sample?;
        sample.notes.extend(told);
        removed.map(|()| sample)
    }

    fn tallies(&self) -> Arc<Tallies> {
        let window = match self.spec.stop {
            // The workload ends by itself; the length of the run is not known beforehand.
            Stop::After(Nanos::MAX) | Stop::Operations(_) => None,
            Stop::After(time) => Some(time),
        };
        Arc::new(Tallies::new(&self.run.interrupt, window))
    }

    /// The size that a region would have needed which filled up in `ran` of the measured time: what a run as long as it was to be
    /// writes at that rate, and a quarter more. Twice the size if it filled up before.
    fn enough(&self, size: Bytes, ran: Option<Nanos>) -> String {
        let whole = match (self.spec.stop, ran) {
            // One that ends by itself has no length beforehand.
            (Stop::After(time), Some(ran)) if ran.0 > 0 && time != Nanos::MAX => time.0 as f64 / ran.0 as f64,
            _ => 1.6,
        };
        crate::error::rounded_up(Bytes((size.0 as f64 * whole.max(1.6) * 1.25) as u64))
    }

    /// Makes the files, then measures.
    fn measure(
        &self,
        job: &dyn Job,
        tallies: &Arc<Tallies>,
        account: impl Fn() -> Account,
    ) -> Result<Sample, JobError> {
        job.prepare()?;
        let (mut before, mut is_ready) = (None, false);
        let mut recorder = self.run.kernel_locks.then(Recorder::open);
        let measured = job.work(&mut |phase| {
            match (phase, &mut recorder) {
                (Phase::Begins, Some(recorder)) => recorder.begin(),
                (Phase::Ends, Some(recorder)) => recorder.end(),
                _ => {}
            }
            self.count(phase, tallies);
            match phase {
                // What is booked from here on counts: on a busy host this thread may be late at the beginning.
                Phase::Ready => {
                    tallies.restart();
                    is_ready = true;
                }
                Phase::Begins if is_ready => tallies.begin(),
                Phase::Begins => tallies.restart(),
                Phase::Ends => {}
            }
            if phase != Phase::Ends {
                before.get_or_insert_with(|| (account(), Snapshot::of_run()));
            }
        })?;
        let before = before.unwrap_or_default();
        // All tasks have ended: the ledger holds whole operations.
        let window = Snapshot::of_run().since(&before.1);
        let (errors, provided_for) = (measured.errors, measured.provided_for);
        let elsewhere = measured.operations.clone();
        let mut sample = sample(measured);
        let interrupted = self.run.interrupt.load(Relaxed);
        if self.spec.warm_up > Nanos::ZERO && sample.elapsed_ns == 0 && !interrupted {
            return Err(JobError::Failed(format!(
                "it ended within its warm-up of {}, so that nothing was measured: give it --warm-up 0s, or more to do",
                self.spec.warm_up
            )));
        }
        ledger::fill(&mut sample, &window, &tallies.sum());
        if !elsewhere.is_empty() {
            sample.operations = elsewhere;
        }
        sample.errors = sample.errors.saturating_sub(provided_for).max(errors);
        sample.series = tallies.series(Nanos(sample.elapsed_ns));
        // A signal ends the workload between two of its operations.
        sample.partial |= interrupted;
        let after = account();
        for (name, count) in after.counters {
            let earlier = before.0.counters.get(name).copied().unwrap_or(0);
            sample.counters.insert(format!("fs.{name}"), count.saturating_sub(earlier));
        }
        if let Some(counting) = self.run.counting().take() {
            counting.put(&mut sample);
        }
        if let Some(recorder) = recorder {
            recorder.put(&mut sample, self.spec.workload.tasks());
        }
        sample.served = served_between(before.0.served.as_deref(), after.served.as_deref());
        Ok(sample)
    }

    /// Begins and ends the counts of events, here and in the plugin that watches this process.
    fn count(&self, phase: Phase, tallies: &Arc<Tallies>) {
        let (length, tallies) = (tallies.length(), Arc::clone(tallies));
        match (phase, &mut *self.run.counting()) {
            (Phase::Begins, Some(counting)) => counting.begin(length, Arc::new(move || tallies.calls())),
            (Phase::Ends, Some(counting)) => counting.end(),
            _ => {}
        }
        match phase {
            Phase::Begins if self.run.is_watched => simulated::begins(),
            Phase::Ends if self.run.is_watched => simulated::ends(),
            _ => {}
        }
    }

    /// The job, whose processes `start` starts, or `program` does where a worker is to be a process of the host.
    fn job(
        &self,
        start: impl Fn() -> Arc<dyn Syscalls> + Send + Sync + 'static,
        tallies: &Arc<Tallies>,
        program: Option<Program>,
    ) -> Result<Arc<dyn Job>, JobError> {
        let tallies = Arc::clone(tallies);
        let processes = Arc::new(Timing { start, tallies, clock: self.run.clock, program });
        let sockets = self.run.machine.sockets;
        let how = How {
            seed: self.run.seed,
            warm_up: self.spec.warm_up,
            stop: self.spec.stop.into(),
            cores: Cores { sockets, per_socket: self.run.machine.processors() / sockets.max(1) },
            check: self.run.check,
            interrupt: Some(Arc::clone(&self.run.interrupt)),
        };
        self.spec.workload.job(&how, processes)
    }

    /// An error of the job; `full` says what is full when a call found no space, and how to get more.
    fn told(&self, error: JobError, full: impl Fn() -> String) -> Failed {
        match error {
            JobError::Full(what) => {
                let shrink = self.spec.workload.how_to_shrink();
                format!("{what}; {}, or take {shrink} or a shorter run", full())
            }
            error => error.to_string(),
        }
    }
}

/// Starts processes of root on a mount.
fn processes(mount: &Arc<Mount>) -> impl Fn() -> Arc<dyn Syscalls> + Send + Sync + 'static {
    let mount = Arc::clone(mount);
    move || Arc::new(Process::new(Arc::clone(&mount), Credentials::root()))
}

/// A folder of the host that goes away with what is in it.
struct Folder(PathBuf);

impl Folder {
    fn new(parent: &Path) -> std::io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!(".weir-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let folder = Self(parent.join(name));
        // Calls on the host follow symbolic links: other users must not be able to create any here.
        std::fs::DirBuilder::new().mode(0o700).create(&folder.0)?;
        Ok(folder)
    }

    /// Leaves it and what is in it.
    fn leave(self) -> PathBuf {
        std::mem::ManuallyDrop::new(self).0.clone()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left where its name says whose it is.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Starts processes whose calls are timed.
struct Timing<F> {
    start: F,
    tallies: Arc<Tallies>,
    clock: Clock,
    program: Option<Program>,
}

impl<F: Fn() -> Arc<dyn Syscalls> + Send + Sync> Processes for Timing<F> {
    fn start(&self) -> Arc<dyn Syscalls> {
        Arc::new(Timed::new((self.start)(), &self.tallies))
    }

    fn start_plain(&self) -> Arc<dyn Syscalls> {
        match self.clock {
            Clock::Virtual => self.start(),
            Clock::Real => (self.start)(),
        }
    }

    fn program(&self) -> Option<Program> {
        self.program.clone()
    }
}

/// Where a file lies on an SSD, as far as the first [`PLACED`] bytes of it go; none if the design does not say, or nothing of it is
/// on the device.
fn placement(ssd: &SsdDevice, path: &[u8], process: &Process) -> Option<PlacementRecord> {
    let fd = process.open(path, OpenFlags::READ, 0).ok()?;
    let extents = process.extents(fd);
    // Nothing was written through this descriptor.
    let _ = process.close(fd);
    let pages = extents
        .ok()?
        .into_iter()
        .flat_map(|extent| (extent.physical..extent.physical + extent.len).step_by(flash::PAGE as usize));
    let placed = ssd.with(|ssd| {
        let dies = pages.take((PLACED / flash::PAGE) as usize).filter_map(|page| ssd.layout(page));
        dies.map(|place| place.die).collect::<Vec<_>>()
    });
    let runs = placed.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u32)).collect::<Vec<_>>();
    let (dies, granule) = ssd.with(|ssd| (ssd.config().dies(), ssd.config().oneshot_pages() as u32));
    (!runs.is_empty()).then_some(PlacementRecord { dies, stripe_pages: dies * granule, runs })
}

impl Account {
    fn of_design(mounted: &dyn FileSystem) -> Self {
        Self { counters: mounted.counters().into_iter().collect(), served: None }
    }

    /// Nothing where the directory is on no mount of ours, or the server does not tell this user.
    fn of_server(root: Option<&Path>) -> Self {
        Self { counters: BTreeMap::new(), served: root.and_then(ledger::of_mount) }
    }
}

/// What a server has done between two looks at it: nothing is known where one of them has failed.
fn served_between(
    before: Option<&[OperationRecord]>,
    after: Option<&[OperationRecord]>,
) -> Vec<OperationRecord> {
    let both = before.zip(after);
    both.map_or_else(Vec::new, |(before, after)| ledger::since(after, before))
}

/// What the job counts.
fn sample(measured: Measured) -> Sample {
    let mut sample = Sample {
        read_ops: measured.read_ops,
        write_ops: measured.write_ops,
        read_bytes: measured.read_bytes,
        written_bytes: measured.written_bytes,
        steps: measured.steps,
        workers: measured.workers,
        jobs: measured.jobs,
        spans: measured.spans,
        counters: measured.counters,
        notes: measured.notes,
        ..Sample::default()
    };
    sample.partial = measured.cut_short;
    sample.finish(measured.ops, measured.elapsed.0);
    sample
}

/// Mounts the image again and compares every file with what must be in it.
fn verify_again(
    job: &dyn Job,
    design: &'static dyn Design,
    storage: &Storage,
    options: &Options,
) -> Result<(), Failed> {
    let mounted = design.mount(storage, options).map_err(words)?;
    let mount = Mount::new(mounted, MountOptions::default()).map_err(words)?;
    let process = Process::new(Arc::clone(&mount), Credentials::root());
    let verified = job.verify(&process).map_err(words);
    drop(process);
    let ended = mount.unmount().map_err(words);
    verified.and(ended)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_folder_on_the_host_is_open_to_its_user_alone() {
        let host = tempfile::tempdir().unwrap();
        let folder = Folder::new(host.path()).unwrap();
        assert_eq!(folder.0.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn what_a_server_did_before_the_window_is_not_shown_where_the_first_look_at_it_failed() {
        let looked = |count| vec![OperationRecord { count, ..OperationRecord::new("write") }];
        let counts = |before: Option<u64>, after: Option<u64>| {
            let (before, after) = (before.map(looked), after.map(looked));
            let served = served_between(before.as_deref(), after.as_deref());
            served.iter().map(|record| record.count).collect::<Vec<_>>()
        };
        assert_eq!(counts(Some(900), Some(1000)), [100]);
        assert!(counts(None, Some(1000)).is_empty() && counts(Some(900), None).is_empty());
    }
}
