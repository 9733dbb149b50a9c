//! Inside the run: the file system is made, mounted, worked on and unmounted, and the ledger is read around the work.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use fs::{FsType, Options};
use media::Region;
use media::Storage;
use results::Sample;
use sim::ledger::Snapshot;
use sim::{Bytes, Clock};
use vfs::host::Host;
use vfs::{Credentials, Errno, FileSystem, Mount, MountOptions, Process, Syscalls};
use workload::filebench::run::Phase;
use workload::filebench::{Engine, EngineError, Outcome};

use super::timed::Timed;
use super::{Run, ledger};
use crate::plan::{CellSpec, Stop};

/// A cell's work, ready to be moved into a run.
pub(super) struct Job {
    spec: CellSpec,
    run: Run,
}

/// Why the work failed, in words that the cell's name is put before.
type Failed = String;

fn words(error: impl std::fmt::Display) -> Failed {
    error.to_string()
}

/// An error of the engine; `full` says what is full when a call found no space, and how to get more.
fn told(error: &EngineError, full: &str) -> Failed {
    match error {
        EngineError::Call { errno: Errno::ENOSPC, .. } | EngineError::Short { .. } => {
            format!("{error}; {full}, or take fewer or smaller files (-D nfiles=…) or a shorter run")
        }
        _ => error.to_string(),
    }
}

fn full_region(size: Bytes) -> String {
    format!("the region of {size} is full: give it more with --region (in a plan: region = \"…\")")
}

/// A design's counters by name.
type Counters = BTreeMap<&'static str, u64>;

impl Job {
    pub(super) fn new(spec: &CellSpec, run: &Run) -> Self {
        Self { spec: spec.clone(), run: run.clone() }
    }

    /// On a design in this process.
    pub(super) fn on_design(
        &self,
        design: &'static dyn FsType,
        region: &Arc<Region>,
        options: &Options,
    ) -> Result<Sample, Failed> {
        design.mkfs(&Storage::from(region), options).map_err(words)?;
        let mounted = design.mount(&Storage::from(region), options).map_err(words)?;
        let mount = Mount::new(Arc::clone(&mounted), MountOptions::default()).map_err(words)?;
        let process = Process::new(Arc::clone(&mount), Credentials::root());
        let engine = self.engine()?;
        let sample = measure(&engine, Arc::new(process), || counters(&*mounted));
        let sample = sample.map_err(|error| told(&error, &full_region(Bytes(region.len()))))?;
        // Under the virtual clock what is still in a buffer is of no use to anybody, unless the image is.
        if self.run.clock == Clock::Real || self.run.check || self.run.save_image.is_some() {
            mount.unmount().map_err(words)?;
        }
        if self.run.check {
            verify_again(&engine, design, region, options)?;
        }
        Ok(sample)
    }

    /// On a directory of the host.
    pub(super) fn on_host(&self, path: &Path) -> Result<Sample, Failed> {
        let host = Host::new(path).map_err(words)?;
        let engine = self.engine()?;
        let full = format!("the file system of {} is full: make room", path.display());
        measure(&engine, Arc::new(host), Counters::new).map_err(|error| told(&error, &full))
    }

    fn engine(&self) -> Result<Arc<Engine>, Failed> {
        let mut options = workload::filebench::Options::new(self.run.seed);
        match self.spec.stop {
            Stop::After(time) => options.duration = Some(time),
            Stop::Operations(count) => options.stop_after_ops = Some(count),
        }
        for (name, on) in &self.spec.quirks {
            options.quirks.set(name, *on);
        }
        options.check = self.run.check;
        // A cell of the virtual clock ends by itself soon enough, and a whole one is worth more than a part.
        options.interrupt = (self.run.clock == Clock::Real).then(|| Arc::clone(&self.run.interrupt));
        Engine::new(Arc::clone(&self.spec.script.program), options).map_err(words)
    }
}

/// Makes the files, then measures.
fn measure(
    engine: &Arc<Engine>,
    calls: Arc<dyn Syscalls>,
    counters: impl Fn() -> Counters,
) -> Result<Sample, EngineError> {
    let timed = Arc::new(Timed::new(calls));
    let calls: Arc<dyn Syscalls> = Arc::clone(&timed) as _;
    engine.prepare(&calls)?;
    let mut before = (Counters::new(), Snapshot::default());
    let outcome = engine.run_with(&|| Arc::clone(&calls), &mut |phase| {
        if phase == Phase::Begins {
            timed.restart();
            before = (counters(), Snapshot::of_run());
        }
    });
    let outcome = outcome?;
    // All threads have ended: the ledger holds whole operations.
    let window = Snapshot::of_run().since(&before.1);
    let mut sample = sample(&outcome);
    ledger::fill(&mut sample, &window, &timed.tallies());
    for (name, count) in counters() {
        let earlier = before.0.get(name).copied().unwrap_or(0);
        sample.counters.insert(format!("fs.{name}"), count.saturating_sub(earlier));
    }
    Ok(sample)
}

fn counters(mounted: &dyn FileSystem) -> Counters {
    mounted.counters().into_iter().collect()
}

/// What the engine counts.
fn sample(outcome: &Outcome) -> Sample {
    let mut sample = Sample {
        read_ops: outcome.read_ops(),
        write_ops: outcome.write_ops(),
        read_bytes: outcome.read_bytes(),
        written_bytes: outcome.written_bytes(),
        flowops: outcome.records(),
        notes: outcome.messages.clone(),
        ..Sample::default()
    };
    sample.finish(outcome.ops(), outcome.elapsed.0);
    sample
}

/// Mounts the image again and compares every file with its pattern.
fn verify_again(
    engine: &Engine,
    design: &'static dyn FsType,
    region: &Arc<Region>,
    options: &Options,
) -> Result<(), Failed> {
    let mounted = design.mount(&Storage::from(region), options).map_err(words)?;
    let mount = Mount::new(mounted, MountOptions::default()).map_err(words)?;
    let process = Process::new(Arc::clone(&mount), Credentials::root());
    let verified = engine.verify(&process).map_err(words);
    drop(process);
    let ended = mount.unmount().map_err(words);
    verified.and(ended)
}
