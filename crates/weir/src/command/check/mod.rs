//! `weir check`: the reliability harnesses, on any designs.
//!
//! | module | does |
//! |---|---|
//! | `model` | random operations beside a reference model and, if asked, beside the host's kernel |
//! | `crash` | crashes at every point of small programs |
//! | `program` | crashes of a user's own program, which `crash trace:FILE` means |
//! | `faults` | failures of every access of small programs |
//! | `recall` | what the checks find of bugs that were seeded |
//! | `schedules` | several tasks at once, in many orders |
//! | `fuzz` | images with edits |
//! | `parts` | `crash` and `faults` in parts, which a campaign runs on many hosts |
//! | `chosen` | which programs `crash` and `faults` take |
//! | `ledger` | records what every run did and found |
//! | `evidence` | prints that as a table, a row for each claim |
//! | `code` | knows which code each of them tests |
//! | `record` | takes in what suites outside of this command found |

mod chosen;
mod code;
mod crash;
mod evidence;
mod faults;
mod fuzz;
mod ledger;
mod model;
mod parts;
mod program;
mod recall;
mod record;
mod schedules;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use check::configured::{maps_files, usual_size};
use check::crash::{Subject, programs};
use check::{Configured, Limits};
use clap::{Args, Subcommand};
use design::Mutant;
use media::recorder::Mode;
use sim::{Bytes, KIB};

use self::ledger::Ledger;
pub(crate) use self::parts::{Parts, Tallied};
pub(crate) use self::program::{WORD as PROGRAM, arguments as program_arguments};
use super::mkfs::options;
use crate::checked::{Size, checked, mounts, promises, seeded};
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::output::Output;

/// Test what designs promise: against a model, after crashes and with faults; show the evidence.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples: weir check model --fs pmfs,hinfs · weir check crash --fs pmfs --depth 2 --sample 500"
)]
pub(crate) struct Check {
    #[command(subcommand)]
    what: Option<What>,
    /// Print how much each check has tested, when, and what it found
    #[arg(long)]
    evidence: bool,
    /// The file to which checks append their results [default: evidence.jsonl in the user's data folder; `--evidence` also
    /// reads the results that this build contains]
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    ledger: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Run random operations on designs and on a reference model, and compare each answer
    Model(model::ModelCheck),
    /// Crash small programs at every point, recover, and judge the result
    Crash(crash::CrashCheck),
    /// Fail each access of small programs to the medium in turn
    Faults(faults::FaultsCheck),
    /// Seed known bugs, and report which ones the checks find
    Recall(recall::RecallCheck),
    /// Run several tasks at once in many interleavings: every call must be atomic
    Schedules(schedules::SchedulesCheck),
    /// Edit images: nothing may panic or hang, and fsck and mount must agree
    Fuzz(fuzz::FuzzCheck),
    #[command(name = program::WORD, hide = true)]
    Program(program::ProgramCheck),
    #[command(hide = true)]
    Record(record::Record),
}

/// Violations that are told one by one.
const TOLD: usize = 10;

/// What all of them have.
#[derive(Args, Debug)]
struct Shared {
    /// Designs (`weir list fs`)
    #[arg(long, value_delimiter = ',', required = true, value_name = "A,B")]
    fs: Vec<String>,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// An option of the designs (`weir show DESIGN`); repeatable
    #[arg(short = 'O', long = "option", value_name = "KEY=VALUE")]
    options: Vec<String>,
    /// Host threads to use [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,
}

impl Check {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let named = self.ledger.clone().filter(|_| self.what.is_some());
        let ledger = Ledger::new(named, output)?;
        let done = match (self.evidence, self.what) {
            (true, None) => evidence::print(self.ledger.as_deref(), output),
            (false, Some(What::Model(check))) => check.run(output, &ledger),
            (false, Some(What::Crash(check))) => check.run(output, &ledger),
            (false, Some(What::Faults(check))) => check.run(output, &ledger),
            (false, Some(What::Recall(check))) => check.run(output, &ledger),
            (false, Some(What::Schedules(check))) => check.run(output, &ledger),
            (false, Some(What::Fuzz(check))) => check.run(output, &ledger),
            (false, Some(What::Program(check))) => check.run(output),
            (false, Some(What::Record(record))) => record.run(&ledger),
            _ => Err(Failure::usage(
                "name a check, or give --evidence for what was checked before; `weir check -h` lists the checks",
            )),
        };
        done.and_then(|()| if interrupt::happened() { Err(interrupted()) } else { Ok(()) })
    }
}

impl Shared {
    /// To the end, unless a signal comes.
    fn limits(&self) -> Limits {
        let limits = Limits { stop: interrupt::flag(), ..Limits::default() };
        Limits { jobs: self.jobs.map_or(limits.jobs, |jobs| jobs as usize), ..limits }
    }

    /// The designs, made small.
    fn designs(&self, size: Size) -> Result<Vec<Arc<Configured>>, Failure> {
        let given: BTreeMap<String, String> = options(&self.options)?;
        self.fs.iter().map(|name| checked(name, &given, size)).collect()
    }

    /// The same, each of which must have an image.
    fn stored_designs(&self, size: Size) -> Result<Vec<Arc<Configured>>, Failure> {
        self.fs.iter().try_for_each(|name| lab::plan::matrix::stored(name).map(drop))?;
        self.designs(size)
    }

    /// The designs, in each way in which they are mounted, with what each promises then; as a canary with the bug
    /// that shows when the medium fails.
    fn subjects(&self, size: Bytes, canary: bool) -> Result<Vec<Subject>, Failure> {
        let given: BTreeMap<String, String> = options(&self.options)?;
        let subjects = self.fs.iter().map(|name| {
            let mut mutants = lab::plan::matrix::stored(name)?.mutants().iter().copied();
            let bug = if canary { mutants.find(Mutant::needs_failure) } else { None };
            subjects_of(name, &given, size, bug)
        });
        subjects.collect::<Result<Vec<_>, _>>().map(|subjects| subjects.concat())
    }
}

/// One design, in each way in which it is mounted.
fn subjects_of(
    name: &str,
    given: &BTreeMap<String, String>,
    size: Bytes,
    mutant: Option<Mutant>,
) -> Result<Vec<Subject>, Failure> {
    let subject = |given: &BTreeMap<String, String>| {
        let design = match mutant {
            Some(mutant) => seeded(name, given, mutant)?,
            None => checked(name, given, Size::Small)?,
        };
        let size = if size == chosen::REGION { size.max(usual_size(&design)) } else { size };
        check_size(&design, size)?;
        Ok(Subject { design, size, promises: promises(name, given)?, mode: Mode::Adr })
    };
    mounts(name, given)?.iter().map(subject).collect()
}

fn interrupted() -> Failure {
    Failure::new(Exit::Interrupted, "interrupted; the checks so far are printed and not recorded")
}

/// No program has a name that contains these words.
fn no_program(words: &str) -> Failure {
    let all = programs::alone();
    let some: Vec<_> = all.iter().step_by(all.len() / 8).map(|one| one.name.as_str()).collect();
    Failure::usage(format!(
        "no program has a name that contains \"{words}\"; some names: {} …",
        some.join(", ")
    ))
}

/// Panics inside of runs are results here: they are told with the failures, and shrinking one repeats it many times.
fn keep_panics_of_runs_quiet() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() != Some("run") {
            usual(panic);
        }
    }));
}

/// How the results of a check are finished.
struct End<'a> {
    /// Whether every program has its result; if not, nothing is recorded.
    whole: bool,
    /// Files into which the document goes.
    files: &'a [PathBuf],
}

impl End<'_> {
    /// All programs have run here, and the results are printed.
    const HERE: End<'static> = End { whole: true, files: &[] };

    /// Writes the document into the files.
    fn write(&self, mut document: serde_json::Value) -> Result<(), Failure> {
        if !self.whole {
            document["partial"] = true.into();
        }
        let text = serde_json::to_string_pretty(&document).expect("our documents have string keys only");
        let write = |path: &PathBuf| results::file::write_atomic(path, &(text.clone() + "\n"));
        Ok(self.files.iter().try_for_each(write)?)
    }
}

/// A design with its options, as tables and the ledger name it.
fn subject(design: &Configured) -> String {
    format!("{} {}", design.name(), design.arguments()).trim_end().to_owned()
}

/// How many were tried, of how many that there are.
fn tried(count: usize, all: usize) -> String {
    if count == all { all.to_string() } else { format!("{count} of {all}") }
}

/// A size as one writes it on a command line.
fn written(size: Bytes) -> String {
    format!("{}KiB", size.0 / KIB)
}

/// Refuses a design that maps no files: its programs would store nothing.
fn refuse_without_maps(design: &Arc<Configured>, size: Bytes) -> Result<(), Failure> {
    let name = design.name();
    if maps_files(design, size).map_err(|what| Failure::new(Exit::Run, format!("{name}: {what}")))? {
        return Ok(());
    }
    Err(Failure::usage(format!("{name} maps no files: leave it out of --fs, or leave out --mapped")))
}

fn check_size(design: &Configured, size: Bytes) -> Result<(), Failure> {
    let (name, needed) = (design.name(), design.min_size());
    if size >= needed {
        return Ok(());
    }
    let enough = lab::error::rounded_up(needed);
    Err(Failure::usage(format!("{name} needs at least {needed}: give --size {enough} or more")))
}
