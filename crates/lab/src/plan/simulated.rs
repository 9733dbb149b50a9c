//! The cells of simulators: a processor under a logging scheme, crashes of it, a bare SSD.
//!
//! An axis `scheme` makes the cells of a plan those of a processor: `machine` then names one of `presets/archsim` or its file,
//! `[processor]`, axes that set `processor.KEY`, and variables of values and workloads change it, `threads` are its hardware
//! threads, and `stop` counts transactions. The variable `timeline` is the number of a transaction that is recorded span by span
//! instead. The workloads are `archsim/NAME`. With `archsim/crash` the processor is crashed, `stop` times at least. There an axis
//! `mutant` may stand in the place of `scheme`: each value is a seeded bug, which knows its scheme, and is crashed until one crash
//! shows it.
//!
//! `fs = ["ssd"]` gives requests (`requests/NAME`, [`crate::flash::stream`]) to the queues of the SSD that `medium` names.

use std::collections::BTreeMap;
use std::sync::Arc;

use archsim::crash::{self, mutant::Mutant};
use archsim::{Config, Machine};
use media::Medium;
use media::block::BlockModel;
use serde_json::Value;
use sim::{Clock, Nanos};
use workload::suite::{How, Job, JobError, Processes, Settings};

use super::matrix::{self, BESIDE, CellSpec, Draft, SSD, Subject};
use super::{Plan, Stop, Target, Workload, identity};
use crate::error::Error;
use crate::flash::stream::{self, Stream};

/// The folder of the processor's programs.
const PROGRAMS: &str = "archsim/";
/// Its crashes.
const CRASH: &str = "archsim/crash";

/// Work that makes no calls of a file system.
#[derive(Debug)]
struct NoCalls {
    name: String,
    bytes: u64,
    tasks: u64,
}

impl workload::Workload for NoCalls {
    fn settings(&self) -> String {
        self.name.clone()
    }

    fn variables(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn data_bytes(&self) -> u64 {
        self.bytes
    }

    fn tasks(&self) -> u64 {
        self.tasks
    }

    fn ends(&self) -> bool {
        true
    }

    fn sizes(&self) -> &'static [&'static str] {
        &[]
    }

    fn job(&self, _: &How, _: Arc<dyn Processes>) -> Result<Arc<dyn Job>, JobError> {
        Err(JobError::Failed(format!("{} makes no calls of a file system", self.name)))
    }
}

impl Plan {
    /// Whether its cells are those of simulated processors.
    pub fn is_of_processors(&self) -> bool {
        self.axis
            .iter()
            .any(|axis| axis.sets.iter().any(|set| matches!(set, Target::Scheme | Target::Mutant)))
    }

    /// The cell of a simulator; none if calls of a file system go to the subject.
    pub(super) fn simulated(&self, workload: &Workload, draft: &Draft) -> Option<Result<CellSpec, Error>> {
        let cell = if draft.scheme.is_some() || draft.mutant.is_some() {
            self.on_processor(workload, draft)
        } else if draft.design.as_ref().is_some_and(|design| design.value == SSD) {
            self.on_ssd(workload, draft)
        } else if let Some(needed) = needs(&workload.name) {
            let message = format!("\"{}\" makes no calls of a file system: it needs {needed}", workload.name);
            Err(workload.at.problem(message))
        } else {
            return None;
        };
        let at_real_clock =
            || Err(Error::Setting(format!("plan {}: a simulator has the virtual clock", self.name)));
        Some(if self.clock == Clock::Real { at_real_clock() } else { cell })
    }

    fn on_processor(&self, workload: &Workload, draft: &Draft) -> Result<CellSpec, Error> {
        let told = |error: archsim::Error| workload.at.problem(error.to_string());
        let name = workload.name.strip_prefix(PROGRAMS).ok_or_else(|| {
            let message =
                format!("\"{}\": a processor runs {PROGRAMS}NAME (`weir sim logging --list`)", workload.name);
            workload.at.problem(message)
        })?;
        let Stop::Operations(ops) = workload.stop.unwrap_or(self.stop) else {
            let message = format!("plan {}: a processor runs until a count: stop = \"20k ops\"", self.name);
            return Err(Error::Setting(message));
        };
        let mutant = draft.mutant.as_deref().map(Mutant::by_name).transpose().map_err(told)?;
        let mut config = Config { workload: name.to_owned(), seed: 0, ops, ..Config::default() };
        let mut vars = draft.vars.clone();
        let timeline = vars.remove("timeline").map(|number| number.parse::<u64>()).transpose();
        let timeline =
            timeline.map_err(|_| workload.at.problem("\"timeline\" must be the number of a transaction"))?;
        config.machine = self.processor(draft, &vars).map_err(told)?;
        let scheme = draft.scheme.clone().or_else(|| Some(mutant?.scheme().to_owned()));
        config.scheme = scheme.unwrap_or_default();
        let threads = draft.threads.as_deref().map_or(Ok(1), str::parse);
        config.threads = threads.map_err(|_| workload.at.problem("\"threads\" must be a number"))?;
        let mut axes = draft.labels.clone();
        axes.insert("workload".to_owned(), workload.label.clone().unwrap_or_else(|| workload.name.clone()));
        axes.entry("scheme".to_owned()).or_insert_with(|| config.scheme.clone());
        axes.entry("machine".to_owned()).or_insert_with(|| config.machine.name.clone());
        let subject = if workload.name == CRASH {
            config.ops = crash::OPERATIONS;
            "hash".clone_into(&mut config.workload);
            config.check().map_err(told)?;
            Subject::Crashes(Box::new(config.clone()), mutant)
        } else if mutant.is_some() {
            return Err(workload
                .at
                .problem(format!("a mutant is shown by crashes: give the workload {CRASH}")));
        } else {
            axes.entry("threads".to_owned()).or_insert_with(|| config.threads.to_string());
            config.check().map_err(told)?;
            Subject::Processor { config: Box::new(config.clone()), timeline }
        };
        let work =
            NoCalls { name: workload.name.clone(), bytes: config.machine.footprint, tasks: config.threads };
        let described = identity::of_no_calls(&workload.name, &BTreeMap::new());
        no_calls(axes, subject, None, (work, described), Stop::Operations(ops))
    }

    /// The processor of a cell, with all that the plan and its axes set.
    fn processor(&self, draft: &Draft, vars: &BTreeMap<String, String>) -> Result<Machine, archsim::Error> {
        let mut machine = Machine::load(draft.machine.as_deref().unwrap_or(&self.machine))?;
        let of_axes = draft.processor.iter().map(|(key, value)| (key, value));
        self.processor
            .iter()
            .chain(of_axes)
            .chain(vars)
            .try_for_each(|(key, value)| machine.set(key, value))?;
        machine.check()?;
        Ok(machine)
    }

    fn on_ssd(&self, workload: &Workload, draft: &Draft) -> Result<CellSpec, Error> {
        let told = |error: &dyn std::fmt::Display| workload.at.problem(error.to_string());
        if !workload.name.starts_with(stream::FOLDER) {
            let message = format!("\"{}\": an SSD by itself takes {}NAME", workload.name, stream::FOLDER);
            return Err(workload.at.problem(message));
        }
        let (vars, threads) = (draft.vars.clone(), draft.threads.clone());
        let settings = Settings { vars, threads, switches: workload.switches.clone() };
        let stream = Stream::load(&workload.name, &settings).map_err(|error| told(&error))?;
        let (medium, block) = matrix::medium(draft)?;
        if block.as_ref().is_none_or(|block| block.ssd().is_none()) {
            let name = block.as_ref().map_or(medium.name(), |block| block.name());
            return Err(told(&format!(
                "fs = [\"{SSD}\"] needs an SSD, and {name} is none: give medium = [\"fast24\"]"
            )));
        }
        let mut axes = draft.labels.clone();
        axes.insert("workload".to_owned(), workload.label.clone().unwrap_or_else(|| workload.name.clone()));
        let name = block.as_ref().map_or("", |block| block.name()).to_owned();
        axes.entry("medium".to_owned()).or_insert(name);
        let work = NoCalls { name: workload.name.clone(), bytes: stream.bytes(), tasks: 1 };
        let described = identity::of_no_calls(&workload.name, &settings.vars);
        let cell = no_calls(axes, Subject::Ssd(stream), block, (work, described), Stop::After(Nanos::MAX));
        if workload.stop.unwrap_or(self.stop) != Stop::After(Nanos::MAX) {
            return Err(told(&format!("\"{}\" ends by itself: give stop = \"end\"", workload.name)));
        }
        cell
    }
}

/// What a workload needs that makes no calls.
fn needs(name: &str) -> Option<&'static str> {
    if name.starts_with(PROGRAMS) {
        Some("a simulated processor, [[axis]] scheme = [\"fwb\"]")
    } else {
        name.starts_with(stream::FOLDER).then_some("an SSD by itself, [[axis]] fs = [\"ssd\"]")
    }
}

fn no_calls(
    axes: BTreeMap<String, String>,
    subject: Subject,
    block: Option<BlockModel>,
    (workload, work): (NoCalls, Value),
    stop: Stop,
) -> Result<CellSpec, Error> {
    let medium = Medium::named(BESIDE).map_err(|error| Error::Setting(error.to_string()))?;
    Ok(CellSpec {
        axes,
        subject,
        medium,
        block,
        workload: Arc::new(workload),
        work,
        free: None,
        warm_up: Nanos::ZERO,
        stop,
        region: None,
        churn: None,
        prices: None,
    })
}
