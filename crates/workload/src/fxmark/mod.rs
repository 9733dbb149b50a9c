//! FxMark: nineteen closed loops, each on one part of a file system, with more and more workers.
//!
//! C. Min, S. Kashyap, S. Maass, W. Kang, T. Kim: Understanding Manycore Scalability of File Systems, USENIX ATC 2016, and
//! its program (sslab-gatech/fxmark on GitHub, commit 3f29552). What each benchmark does is in `table`; what differs from the
//! program is told by its switches (`parameters`), which bring each difference back.
//!
//! | module | holds |
//! |---|---|
//! | `table` | the benchmarks as data |
//! | `parameters` | variables with their checks, switches |
//! | `names` | paths |
//! | `block` | what is written |
//! | `prepare` | before the measured time |
//! | `worker` | one operation of each loop, and what disturbs it in the background |
//! | `control` | start, end, and the loop between them |
//! | `worker_processes`, [`child`], `link` | workers as processes of the host: the run's side, theirs, and what both say |
//! | `run` | a [`Job`] of all that |
//! | `verify` | what must be there afterwards |
//!
//! Workers are tasks with a process of their own each: descriptors and working directory are not shared. In this process, under
//! either clock, that is what processes are. On a directory of the host a worker is a process of the host with one thread, pinned
//! to a core, as the original's are.

mod block;
pub mod child;
mod control;
mod link;
mod names;
mod parameters;
mod prepare;
mod run;
mod table;
mod verify;
mod worker;
mod worker_processes;

use std::sync::Arc;

use sim::{LockClass, Nanos};

use crate::suite::{
    Entry, How, Job, JobError, LoadError, Processes, Settings, Suite, Switch, Workload, full_name,
};
use parameters::{Parameters, SWITCHES};
use run::{Plan, Run};
use table::{BENCHMARKS, Benchmark, PUBLISHED};

static CLASSES: &[&LockClass] = &[&control::RUN, &run::RUN];

/// The suite.
#[derive(Clone, Copy, Debug)]
pub struct FxMark;

/// A benchmark with its parameters.
#[derive(Clone, Debug)]
struct Loaded {
    benchmark: &'static Benchmark,
    parameters: Parameters,
}

impl Suite for FxMark {
    fn name(&self) -> &'static str {
        "fxmark"
    }

    fn summary(&self) -> &'static str {
        "FxMark: loops on one part of a file system each, with increasing numbers of workers (USENIX ATC 2016)"
    }

    fn entries(&self) -> Vec<Entry> {
        BENCHMARKS.iter().map(|benchmark| benchmark.entry).collect()
    }

    fn usual(&self) -> Vec<Entry> {
        self.entries()[..PUBLISHED].to_vec()
    }

    fn usual_time(&self, modelled: bool) -> Nanos {
        // Under the virtual clock a loop is in its steady state at once, and tells the same of milliseconds as of seconds.
        if modelled { Nanos::from_millis(10) } else { Nanos::from_secs(5) }
    }

    fn switches(&self) -> &'static [Switch] {
        SWITCHES
    }

    fn classes(&self) -> &'static [&'static LockClass] {
        CLASSES
    }

    fn load(&self, name: &str, settings: &Settings) -> Result<Arc<dyn Workload>, LoadError> {
        let benchmark = Benchmark::find(name).ok_or_else(|| LoadError::Unknown(name.to_owned()))?;
        Ok(Arc::new(Loaded { benchmark, parameters: Parameters::read(benchmark, settings)? }))
    }

    fn describe(&self, name: &str) -> Option<String> {
        Benchmark::find(name).map(|benchmark| format!("{}\n", benchmark.detail))
    }
}

impl Workload for Loaded {
    fn settings(&self) -> String {
        format!("{} {:?}", full_name(&FxMark, self.benchmark.entry), self.parameters)
    }

    fn variables(&self) -> Vec<(String, String)> {
        self.parameters.variables()
    }

    fn data_bytes(&self) -> u64 {
        self.parameters.data_bytes(self.benchmark)
    }

    fn small_files(&self) -> u64 {
        self.parameters.small_files(self.benchmark)
    }

    fn tasks(&self) -> u64 {
        self.parameters.workers
    }

    fn sizes(&self) -> &'static [&'static str] {
        &["workers", "files", "blocks", "file", "room"]
    }

    fn job(&self, how: &How, processes: Arc<dyn Processes>) -> Result<Arc<dyn Job>, JobError> {
        let mut parameters = self.parameters.clone();
        parameters.warmup = parameters.warmup.max(how.warm_up);
        let plan =
            Plan { benchmark: self.benchmark, parameters, seed: how.seed, stop: how.stop, check: how.check };
        Ok(Arc::new(Run::new(plan, how, &*processes)?))
    }
}
