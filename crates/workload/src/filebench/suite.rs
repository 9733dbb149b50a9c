//! Filebench as a suite: personalities and files ending in `.f`.
//!
//! The number of threads is the variable `nthreads`, which every personality of ours has. All threads share one process, as
//! all personalities have one or give each the same work; the switches are the [`Quirks`](super::Quirks).

use std::collections::BTreeMap;
use std::sync::Arc;

use sim::{LockClass, Nanos};
use vfs::{Errno, Syscalls};

use super::program::Fileset;
use super::quirks::SWITCHES;
use super::run::Advice;
use super::{Engine, EngineError, Options, Outcome, Overrides, PERSONALITIES, Personality, Program, Value};
use crate::suite::{
    Entry, Growth, How, Job, JobError, LoadError, Measured, Phase, Processes, Settings, Stop, Suite, Switch,
    Workload,
};

/// The suite.
#[derive(Clone, Copy, Debug)]
pub struct Filebench;

/// A checked script with the quirks that it is run with.
#[derive(Debug)]
struct Script {
    name: String,
    program: Arc<Program>,
    switches: BTreeMap<String, bool>,
}

/// An engine and the process that all its threads share.
struct Run {
    engine: Arc<Engine>,
    calls: Arc<dyn Syscalls>,
    /// What the script says that has no effect here, a line each.
    warnings: Vec<String>,
    /// Whether the script has a variable for its number of files.
    has_nfiles: bool,
}

/// The variable that holds the number of threads.
const THREADS: &str = "nthreads";
/// The variable that holds the number of files, in scripts that have one.
const FILES: &str = "nfiles";

/// The message on a script whose number of threads is asked for and cannot be set.
const NO_THREADS: &str = "the number of threads sets $nthreads, which the script does not have: write \"set $nthreads=1\" and \
                          \"instances=$nthreads\" behind its thread, or give no --threads";
/// The message on a script of definitions, or of comments alone.
const NOTHING_RUNS: &str = "the script defines no process with a thread, so that nothing runs: write \
                            \"define process name=p { thread name=t { … } }\" with operations in it (`weir show filebench`)";

/// Tries a script without a number of threads: it is right but for the variable that holds one.
fn lacks_threads(name: &str, text: &str, overrides: &Overrides) -> bool {
    let mut without = overrides.clone();
    without.remove(THREADS);
    let has = |program: Program| program.variables.iter().any(|(name, _)| name == THREADS);
    super::load(name, text, &without).is_ok_and(|program| !has(program))
}

impl Suite for Filebench {
    fn name(&self) -> &'static str {
        "filebench"
    }

    fn summary(&self) -> &'static str {
        "Filebench's workload language with its personalities (files ending in .f)"
    }

    fn entries(&self) -> Vec<Entry> {
        PERSONALITIES.iter().map(|entry| Entry { name: entry.name, summary: entry.summary }).collect()
    }

    /// The four classics: the others run for a given number of operations, or on more data than most hosts have memory.
    fn usual(&self) -> Vec<Entry> {
        self.entries()[..4].to_vec()
    }

    fn usual_time(&self, _modelled: bool) -> Nanos {
        Nanos::from_secs(10)
    }

    fn extension(&self) -> Option<&'static str> {
        Some("f")
    }

    fn warms_up(&self) -> bool {
        true
    }

    fn file_counts(&self) -> &'static [&'static str] {
        &[FILES]
    }

    fn switches(&self) -> &'static [Switch] {
        SWITCHES
    }

    fn classes(&self) -> &'static [&'static LockClass] {
        super::run::CLASSES
    }

    fn load(&self, name: &str, settings: &Settings) -> Result<Arc<dyn Workload>, LoadError> {
        let personality = Personality::find(name).ok_or_else(|| LoadError::Unknown(name.to_owned()))?;
        self.read(&format!("filebench/{name}"), personality.source, settings)
    }

    fn read(&self, name: &str, text: &str, settings: &Settings) -> Result<Arc<dyn Workload>, LoadError> {
        let named = |(name, text): (&String, &String)| Ok((name.clone(), value(name, text)?));
        let mut overrides = settings.vars.iter().map(named).collect::<Result<Overrides, LoadError>>()?;
        if let Some(threads) = &settings.threads {
            overrides.insert(THREADS.to_owned(), value(THREADS, threads)?);
        }
        let program = super::load(name, text, &overrides).map_err(|report| {
            let lacks = settings.threads.is_some() && lacks_threads(name, text, &overrides);
            LoadError::Wrong(if lacks { format!("{name}: {NO_THREADS}") } else { report.to_string() })
        })?;
        if program.processes.iter().all(|process| process.threads.is_empty()) {
            return Err(LoadError::Wrong(format!("{name}: {NOTHING_RUNS}")));
        }
        let (name, switches) = (name.to_owned(), settings.switches.clone());
        Ok(Arc::new(Script { name, program: Arc::new(program), switches }))
    }

    fn describe(&self, name: &str) -> Option<String> {
        Personality::find(name).map(|personality| personality.source.to_owned())
    }
}

/// What a variable is set to: a flag, a number (`4096`, `4k`, `1MiB`), a random variable (`cvar(…)`), or text.
fn value(name: &str, text: &str) -> Result<Value, LoadError> {
    if let Ok(flag) = text.parse() {
        return Ok(Value::Bool(flag));
    }
    if let Ok(number) = text.parse::<sim::Bytes>() {
        return Ok(Value::Int(number.0));
    }
    text.parse().map_err(|error| LoadError::Wrong(format!("{name}: {error}")))
}

impl Workload for Script {
    fn settings(&self) -> String {
        // With the script's own values: a plan may say what the script says anyway.
        format!("{} {:?} {:?}", self.name, self.program.variables, self.switches)
    }

    fn variables(&self) -> Vec<(String, String)> {
        let text = |value: &Value| match value {
            Value::Int(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            Value::Text(text) => text.clone(),
            Value::Random(distribution) => format!("random, mean {:.0}", distribution.mean()),
        };
        self.program.variables.iter().map(|(name, value)| (name.clone(), text(value))).collect()
    }

    /// Bytes of all its files together, when all of them exist at their nominal sizes.
    fn data_bytes(&self) -> u64 {
        let bytes = |set: &Fileset| {
            (set.entries.mean() as u64).saturating_mul((set.size.mean() as u64).next_multiple_of(4096))
        };
        self.program.filesets.iter().map(bytes).fold(0, u64::saturating_add)
    }

    fn growth(&self) -> Growth {
        self.program.growth()
    }

    fn tasks(&self) -> u64 {
        self.program.thread_instances()
    }

    fn sizes(&self) -> &'static [&'static str] {
        &[FILES, "ndirs", "filesize"]
    }

    fn job(&self, how: &How, processes: Arc<dyn Processes>) -> Result<Arc<dyn Job>, JobError> {
        let mut options = Options::new(how.seed);
        match how.stop {
            Stop::After(time) => options.duration = Some(time),
            Stop::Operations(count) => options.stop_after_ops = Some(count),
        }
        for (name, on) in &self.switches {
            options.quirks.set(name, *on);
        }
        (options.check, options.warmup) = (how.check, how.warm_up);
        options.interrupt.clone_from(&how.interrupt);
        let has_nfiles = self.program.variables.iter().any(|(name, _)| name == FILES);
        let engine =
            Engine::new(Arc::clone(&self.program), options).map_err(|error| told(&error, has_nfiles))?;
        let warnings = self.program.warnings.lines().collect();
        Ok(Arc::new(Run { engine, calls: processes.start(), warnings, has_nfiles }))
    }
}

/// An error of the engine in the words of the suite.
fn told(error: &EngineError, has_nfiles: bool) -> JobError {
    match error {
        EngineError::Call { errno: Errno::ENOSPC, .. } | EngineError::Short { .. } => {
            JobError::Full(error.to_string())
        }
        EngineError::NotEnoughFiles { advice: Advice::Entries(entries), .. } if has_nfiles => {
            JobError::Failed(format!("{error} (-D {FILES}={entries}; in a plan: vars)"))
        }
        _ => JobError::Failed(error.to_string()),
    }
}

impl Job for Run {
    fn prepare(&self) -> Result<(), JobError> {
        self.engine.prepare(&self.calls).map(drop).map_err(|error| told(&error, self.has_nfiles))
    }

    fn work(&self, watch: &mut dyn FnMut(Phase)) -> Result<Measured, JobError> {
        let outcome = self.engine.run_with(&|| Arc::clone(&self.calls), watch);
        let mut measured =
            outcome.map(|outcome| measured(&outcome)).map_err(|error| told(&error, self.has_nfiles))?;
        measured.notes.splice(..0, self.warnings.iter().cloned());
        Ok(measured)
    }

    fn verify(&self, calls: &dyn Syscalls) -> Result<(), JobError> {
        self.engine.verify(calls).map(drop).map_err(|error| told(&error, self.has_nfiles))
    }
}

fn measured(outcome: &Outcome) -> Measured {
    Measured {
        elapsed: outcome.elapsed,
        ops: outcome.ops(),
        read_ops: outcome.read_ops(),
        write_ops: outcome.write_ops(),
        read_bytes: outcome.read_bytes(),
        written_bytes: outcome.written_bytes(),
        steps: outcome.records(),
        notes: outcome.messages.clone(),
        ..Measured::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_flags_numbers_or_text() {
        let value = |text| value("v", text).map_err(|error| error.to_string());
        assert_eq!(value("true"), Ok(Value::Bool(true)));
        assert_eq!(value("4k"), Ok(Value::Int(4096)));
        assert_eq!(value("/tmp"), Ok(Value::Text("/tmp".to_owned())));
    }

    #[test]
    fn the_number_of_threads_reaches_the_script() {
        let settings = Settings { threads: Some("3".to_owned()), ..Settings::default() };
        assert_eq!(Filebench.load("varmail", &settings).unwrap().tasks(), 3);
    }

    #[test]
    fn a_script_that_cannot_do_what_is_asked_for_is_refused_in_a_sentence() {
        let told = |text: &str, threads: Option<&str>| {
            let settings = Settings { threads: threads.map(str::to_owned), ..Settings::default() };
            Filebench.read("x.f", text, &settings).map(drop).map_err(|error| error.to_string())
        };
        for nothing in ["", "# a comment\n"] {
            assert!(
                told(nothing, None).is_err_and(|what| what.contains("no process with a thread")),
                "{nothing}"
            );
        }
        let one = "define process name=p { thread name=t,memsize=1m { flowop eventlimit name=e } }\nrun 1\n";
        assert_eq!(told(one, None), Ok(()));
        assert!(told(one, Some("4")).unwrap_err().starts_with("x.f: the number of threads sets $nthreads"));
        let wrong = one.replace("eventlimit", "evntlimit");
        assert!(told(&wrong, Some("4")).unwrap_err().contains("evntlimit"), "what else is wrong comes first");
    }
}
