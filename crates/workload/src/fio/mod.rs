//! fio's job files, run as they are: `weir bench job.fio`, or `name = "job.fio"` in a plan.
//!
//! J. Axboe, fio (github.com/axboe/fio); its HOWTO says what each option means, and `docs/fio.md` which are honoured here. No line
//! of fio is in this: the files are read and carried out by what follows.
//!
//! ```text
//! text ─ parse ─▷ sections ─ read ─▷ JobSpec ─ clones ─▷ JobClone, files ─ run ─▷ stages ─▷ Measured
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `options` | every option of fio by name: honoured, ignored, or refused with the reason |
//! | `parse` | the ini format, variables; all problems of a file at once |
//! | `value` | numbers with units, times, ranges, lists, patterns |
//! | `job`, `read` | a job with all its values; how they are read and checked |
//! | `clones` | `numjobs`, names and sizes of files, groups, stages |
//! | `distribution`, `map` | where random I/O goes |
//! | `source` | which I/O is next, and when it is due |
//! | `content`, `verify` | what is written, and how it is checked |
//! | `layout` | files before the measured time |
//! | `log` | recorded I/O that is replayed |
//! | `limits` | rates and latencies that a job must keep; the search for a depth |
//! | `task`, `tally` | the tasks of a clone, their I/Os and latencies |
//! | `run` | a [`Job`] of all that |
//!
//! # What engines are
//!
//! Every I/O is a system call through [`vfs::Syscalls`]. `sync` seeks and reads or writes; `psync`, `vsync`, `pvsync` and `pvsync2`
//! are `pread` and `pwrite`. `mmap` loads from and stores to a mapping of the whole file; its syncs, and with `sync` or `direct`
//! each of its writes, are an `msync`. A file system or a front end that maps no files fails such a job (`ENODEV`). `libaio` and
//! `io_uring` are `iodepth` tasks on the job's core, each with one call at a time: what a call does on the processor excludes the
//! others, and what it waits for does not, as when one thread submits. `posixaio` is the same with each task on a core of its own.
//! Under the real clock tasks are threads that the host places. A note of each run says which it was.
//!
//! # What differs from fio
//!
//! Files are below `/fio`, made by each run. Latency under a rate counts from the intended start. Sequences of random offsets
//! are of the same kind and not the same. `runtime` ends writing, not the verification of what was written. The page cache of a
//! host is not dropped (`invalidate`).

mod clones;
mod content;
mod distribution;
mod job;
mod layout;
mod limits;
mod log;
mod map;
mod options;
mod parse;
mod read;
mod run;
mod source;
mod steady;
mod tally;
mod task;
mod value;
mod verify;

use std::collections::BTreeMap;
use std::sync::Arc;

use sim::{LockClass, Nanos};

use crate::suite::{Entry, How, Job, JobError, LoadError, Processes, Settings, Suite, Switch, Workload};
use clones::JobClone;
use job::{Engine, JobSpec};
use parse::{Outside, Parsed, Problems};

static CLASSES: &[&LockClass] = &[&run::RUN, &steady::STEADY, &task::CLONE, &task::RUN];

/// The suite.
#[derive(Clone, Copy, Debug)]
pub struct Fio;

/// The job files that come with Weir.
const EXAMPLES: &[(Entry, &str)] = &[
    example(
        "sequential",
        "a large file written, then read, in blocks of 128 KiB",
        include_str!("jobs/sequential.fio"),
    ),
    example("mixed", "random reads and writes, 70 to 30, 16 outstanding", include_str!("jobs/mixed.fio")),
    example("zipf", "random reads by Zipf's law, so that caches matter", include_str!("jobs/zipf.fio")),
    example("log", "a log: small appends, each synced", include_str!("jobs/log.fio")),
    example("verified", "random writes with checksums, read back", include_str!("jobs/verified.fio")),
    example("phases", "jobs in sequence, then two in parallel", include_str!("jobs/phases.fio")),
    example(
        "openloop",
        "I/Os at a given rate, independent of their latency",
        include_str!("jobs/openloop.fio"),
    ),
    example("sizes", "blocks of several sizes, by percentages", include_str!("jobs/sizes.fio")),
    example("timed", "a time-based job after a ramp time", include_str!("jobs/timed.fio")),
    example("micro", "one pass over a file: -D rw=, bs=, fsync= say which", include_str!("jobs/micro.fio")),
    example("mapped", "loads from and stores to a mapped file", include_str!("jobs/mapped.fio")),
];

const fn example(name: &'static str, summary: &'static str, text: &'static str) -> (Entry, &'static str) {
    (Entry { name, summary }, text)
}

const SWITCHES: &[Switch] = &[Switch {
    name: "lenient",
    default: false,
    help: "ignore options that are refused otherwise, and note which",
}];

/// A job file, checked.
#[derive(Debug)]
struct Loaded {
    name: String,
    jobs: Vec<Arc<JobSpec>>,
    clones: Vec<JobClone>,
    variables: BTreeMap<String, String>,
    notes: Vec<String>,
}

impl Suite for Fio {
    fn name(&self) -> &'static str {
        "fio"
    }

    fn summary(&self) -> &'static str {
        "fio's job files, run as they are (files ending in .fio)"
    }

    fn entries(&self) -> Vec<Entry> {
        EXAMPLES.iter().map(|(entry, _)| *entry).collect()
    }

    fn usual(&self) -> Vec<Entry> {
        self.entries()
    }

    /// A job file says itself when it ends.
    fn usual_time(&self, _modelled: bool) -> Nanos {
        Nanos::MAX
    }

    fn extension(&self) -> Option<&'static str> {
        Some("fio")
    }

    fn switches(&self) -> &'static [Switch] {
        SWITCHES
    }

    fn classes(&self) -> &'static [&'static LockClass] {
        CLASSES
    }

    fn load(&self, name: &str, settings: &Settings) -> Result<Arc<dyn Workload>, LoadError> {
        let found = EXAMPLES.iter().find(|(entry, _)| entry.name == name);
        let (_, text) = found.ok_or_else(|| LoadError::Unknown(name.to_owned()))?;
        self.read(&format!("fio/{name}"), text, settings)
    }

    fn read(&self, name: &str, text: &str, settings: &Settings) -> Result<Arc<dyn Workload>, LoadError> {
        let mut vars: Vec<_> =
            settings.vars.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        if let Some(threads) = &settings.threads {
            vars.push(("numjobs".to_owned(), threads.clone()));
        }
        let lenient = settings.switches.get("lenient").copied().unwrap_or(false);
        let mut parsed = parse::parse(text, &Outside { vars: &vars, lenient });
        let mut jobs = Vec::new();
        for section in &parsed.sections {
            jobs.push(Arc::new(read::read(section, &mut parsed.problems)));
        }
        // Files of jobs that are wrong would only be wrong again.
        let clones =
            if parsed.problems.is_empty() { clones::all(&jobs, &mut parsed.problems) } else { Vec::new() };
        let tasks: u64 = clones.iter().map(|clone| clone.spec.tasks()).sum();
        if tasks > MAX_TASKS {
            let what = format!("numjobs x iodepth of all jobs are {tasks} tasks, more than {MAX_TASKS}");
            parsed.problems.push(parse::Problem { line: 0, what });
        }
        if !parsed.problems.is_empty() {
            let mut all = std::mem::take(&mut parsed.problems);
            // What stands in a global section is wrong in each job.
            all.sort();
            all.dedup();
            return Err(LoadError::Wrong(Problems { file: name.to_owned(), all }.to_string()));
        }
        let notes = notes(&parsed, &jobs);
        let (name, variables) = (name.to_owned(), parsed.variables);
        Ok(Arc::new(Loaded { name, jobs, clones, variables, notes }))
    }

    fn describe(&self, name: &str) -> Option<String> {
        EXAMPLES.iter().find(|(entry, _)| entry.name == name).map(|(_, text)| (*text).to_owned())
    }
}

/// Each task has a stack, and under the real clock a thread.
const MAX_TASKS: u64 = 4096;

/// What a reader must know of how a file is carried out.
fn notes(parsed: &Parsed, jobs: &[Arc<JobSpec>]) -> Vec<String> {
    let mut notes = Vec::new();
    let listed = |options: &[(&'static str, usize)]| {
        let texts: Vec<_> = options.iter().map(|(name, line)| format!("{name} (line {line})")).collect();
        texts.join(", ")
    };
    if !parsed.ignored.is_empty() {
        notes.push(format!("without influence here, and ignored: {}", listed(&parsed.ignored)));
    }
    if !parsed.left_out.is_empty() {
        notes.push(format!(
            "cannot be honoured, and left out (--switch lenient): {}",
            listed(&parsed.left_out)
        ));
    }
    let mut engines: Vec<String> = jobs.iter().filter_map(|job| engine(job)).collect();
    engines.sort();
    engines.dedup();
    notes.extend(engines);
    notes
}

/// What an engine is here, where that is not what its name says.
fn engine(job: &JobSpec) -> Option<String> {
    match job.engine {
        Engine::Sync | Engine::Mapped | Engine::Positioned("psync") => (job.depth > 1).then(|| {
            format!(
                "iodepth={} has no influence with ioengine=psync, sync or mmap, which wait for each I/O",
                job.depth
            )
        }),
        Engine::Positioned(name) => Some(format!("ioengine={name} is pread and pwrite of one buffer here")),
        Engine::Tasks { name, spread } => {
            let place = if spread { "on cores of their own" } else { "on the job's core" };
            let depth = job.depth;
            let tasks = if depth == 1 { "one task".to_owned() } else { format!("{depth} tasks") };
            Some(format!(
                "ioengine={name} with iodepth={depth} is {tasks} {place}, with one call at a time each"
            ))
        }
    }
}

impl Workload for Loaded {
    fn settings(&self) -> String {
        format!("{} {:?}", self.name, self.jobs)
    }

    fn variables(&self) -> Vec<(String, String)> {
        self.variables.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    fn data_bytes(&self) -> u64 {
        clones::data_bytes(&self.clones)
    }

    fn tasks(&self) -> u64 {
        self.clones.iter().map(|clone| clone.spec.tasks()).sum()
    }

    fn ends(&self) -> bool {
        true
    }

    fn works_on_a_device(&self) -> bool {
        true
    }

    fn sizes(&self) -> &'static [&'static str] {
        &[]
    }

    /// Every option of a job file can be set from outside.
    fn how_to_shrink(&self) -> String {
        "fewer or smaller files (-D size=…; in a plan: vars)".to_owned()
    }

    fn job(&self, how: &How, processes: Arc<dyn Processes>) -> Result<Arc<dyn Job>, JobError> {
        Ok(Arc::new(run::Run::new(&self.clones, self.jobs.len(), self.notes.clone(), how, &*processes)))
    }
}
