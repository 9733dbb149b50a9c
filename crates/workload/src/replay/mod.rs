//! Replays of recorded programs: `weir bench trace:FILE`, or `name = "trace:FILE"` in a plan.
//!
//! A trace (`docs/traces.md`) becomes a program (`trace::compile`), whose threads are tasks here. Steps wait for each other as the
//! program's own order has it, by the resources that they share; each call is made on the subject, and its result is compared with
//! the recorded one.
//!
//! ```text
//! trace ─ load ─▷ Program, Plan ─ run ─▷ copies, each with its tree, processes, descriptors ─ task ─▷ call ─ compare
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `variables` | pace, order, copies and the other variables, with their checks |
//! | `load` | a trace from its file, once a process; what a replay must know of it beforehand |
//! | `copy` | what a copy of the program has: its processes, descriptors, mappings, paths |
//! | `order` | waits of steps for steps of other threads |
//! | `task` | a thread: waiting, computing, calling, comparing |
//! | `call` | each kind of call on the subject |
//! | `slices` | the threads' time by class of call, in parts of the run |
//! | `compare` | which results agree; what differed |
//! | `initial`, `last` | the tree before the first step, and after the last |
//! | `run` | a [`Job`] of all that |
//!
//! # What a replay is not
//!
//! Contents are the replayer's own: a pattern. A replay is one user's, root's in this process, so calls that failed for their
//! user's rights, or for what the recording host could not do, are not made; they are counted. What programs load from and store
//! to mappings is in no trace.

mod call;
mod compare;
mod copy;
mod initial;
mod last;
mod load;
mod order;
mod run;
mod slices;
mod task;
mod variables;

use std::path::Path;
use std::sync::Arc;

use sim::{LockClass, Nanos};

use crate::suite::{
    Entry, Growth, How, Job, JobError, LoadError, Processes, Settings, Suite, Switch, Workload,
};
use load::Loaded;
use variables::Variables;

static CLASSES: &[&LockClass] = &[&order::ORDER, &run::RUN];

/// The suite.
#[derive(Clone, Copy, Debug)]
pub struct Replay;

const SWITCHES: &[Switch] = &[Switch {
    name: "allow_drops",
    default: false,
    help: "replay a trace that has lost calls, and leave out calls on descriptors that no call has opened",
}];

/// A trace with its variables.
#[derive(Debug)]
struct Trace {
    loaded: Arc<Loaded>,
    variables: Variables,
}

impl Suite for Replay {
    fn name(&self) -> &'static str {
        "trace"
    }

    fn summary(&self) -> &'static str {
        "recorded programs, replayed call for call: trace:FILE (`weir record`; files ending in .wtrace)"
    }

    /// None: a trace is a file.
    fn entries(&self) -> Vec<Entry> {
        Vec::new()
    }

    fn usual(&self) -> Vec<Entry> {
        Vec::new()
    }

    /// A program ends when it has ended.
    fn usual_time(&self, _modelled: bool) -> Nanos {
        Nanos::MAX
    }

    fn extension(&self) -> Option<&'static str> {
        Some("wtrace")
    }

    fn switches(&self) -> &'static [Switch] {
        SWITCHES
    }

    fn classes(&self) -> &'static [&'static LockClass] {
        CLASSES
    }

    fn load(&self, name: &str, _settings: &Settings) -> Result<Arc<dyn Workload>, LoadError> {
        Err(LoadError::Unknown(name.to_owned()))
    }

    fn open(&self, path: &Path, settings: &Settings) -> Option<Result<Arc<dyn Workload>, LoadError>> {
        Some(open(path, settings))
    }

    fn describe(&self, _name: &str) -> Option<String> {
        None
    }
}

fn open(path: &Path, settings: &Settings) -> Result<Arc<dyn Workload>, LoadError> {
    let variables = Variables::read(settings)?;
    let allow_drops = settings.switches.get("allow_drops").copied().unwrap_or(false);
    // The advice is for `weir trace compile`; here the same is a switch.
    let told = |error: trace::Error| error.to_string().replace("--allow-drops", "--switch allow_drops");
    let loaded = load::load(path, allow_drops).map_err(|error| LoadError::Wrong(told(error)))?;
    loaded.check(&variables).map_err(LoadError::Wrong)?;
    Ok(Arc::new(Trace { loaded, variables }))
}

impl Workload for Trace {
    fn settings(&self) -> String {
        format!("trace {} {:?}", self.loaded.digest, self.variables)
    }

    fn variables(&self) -> Vec<(String, String)> {
        self.variables.list()
    }

    fn data_bytes(&self) -> u64 {
        self.loaded.plan.sizes.initial_bytes.saturating_mul(self.variables.trees())
    }

    fn small_files(&self) -> u64 {
        self.loaded.plan.sizes.names.saturating_mul(self.variables.copies.into())
    }

    fn growth(&self) -> Growth {
        Growth::ToBytes(self.loaded.plan.sizes.written_bytes.saturating_mul(self.variables.copies.into()))
    }

    fn tasks(&self) -> u64 {
        u64::from(self.variables.copies) * self.loaded.program.threads.len() as u64
    }

    fn ends(&self) -> bool {
        true
    }

    /// A trace may be anyone's: its links and paths must not lead out of a directory of the host.
    fn is_foreign(&self) -> bool {
        true
    }

    fn sizes(&self) -> &'static [&'static str] {
        &["copies"]
    }

    fn job(&self, how: &How, processes: Arc<dyn Processes>) -> Result<Arc<dyn Job>, JobError> {
        Ok(Arc::new(run::Run::new(&self.loaded, &self.variables, how, &*processes)))
    }
}
