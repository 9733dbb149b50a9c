//! `weir check crash trace:FILE`: what a power loss leaves of a user's own program.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use check::crash::Subject;
use check::program::cause::{Cause, Kept, Promise, shown, state_of};
use check::program::checker::Checker;
use check::program::designs::{self, Gathered, OnDesign};
use check::program::folder::{self, FolderError, LeftOut};
use check::program::judge::{ByCommand, Explored, Limits, Oracle};
use check::program::model::{MODELS, Model};
use check::program::operations::Operations;
use check::program::promises::{ByPromises, Promised};
use check::program::run::{Finding, Outcome, run};
use check::program::story::{Acknowledge, Story, StoryError};
use check::program::tree::Trees;
use clap::{Args, ValueEnum};
use media::recorder::Mode;
use serde_json::{Value, json};

use crate::checked::{Size, checked, promises};
use crate::failure::{Exit, Failure};
use crate::output::{Output, several};

/// What the first words of a command line say: `check crash trace:FILE` is the other form of `check crash`.
pub(crate) const WORD: &str = "program";
const PREFIX: &str = "trace:";

/// The command line with the form of `weir check crash` that is about a trace under its own name.
pub(crate) fn arguments(mut given: Vec<OsString>) -> Vec<OsString> {
    let place = given.iter().position(|word| word == "crash");
    let is_check = place.is_some_and(|at| given[..at].iter().any(|word| word == "check"));
    let is_trace = given.iter().any(|word| word.to_str().is_some_and(|word| word.starts_with(PREFIX)));
    if let (Some(at), true, true) = (place, is_check, is_trace) {
        given[at] = WORD.into();
    }
    given
}

/// Say what a power loss leaves of a recorded program, on models of file systems.
#[derive(Args, Debug)]
#[command(
    override_usage = "weir check crash trace:FILE --check COMMAND [OPTIONS]",
    after_help = "Exit codes: 0 nothing found, 1 findings, 2 usage, 3 it cannot run, 4 the checker is at fault.\n\
                  Example: weir record --contents -o db.wtrace -- ./mydb load; \
                  weir check crash trace:db.wtrace --check './mydb verify'"
)]
pub(super) struct ProgramCheck {
    /// `trace:FILE`, recorded by `weir record --contents`
    #[arg(value_name = "trace:FILE")]
    trace: String,
    /// A shell command that judges the recovered tree, in whose folder it runs: exit code 0 sound, 1 broken (its last line says
    /// how), 77 says nothing. `WEIR_ACKED` names a file with what was acknowledged before the crash
    #[arg(long, value_name = "COMMAND")]
    check: Option<String>,
    /// Promises that need no checker: durable, atomic, prefix, no-garbage [default without --check: all; then findings do not
    /// decide the exit code]
    #[arg(long, value_delimiter = ',', value_name = "A,B", conflicts_with = "check")]
    promise: Vec<String>,
    /// What the program acknowledges: lines or writes on its standard output, sends on sockets, its end with exit code 0
    #[arg(long, value_enum, default_value_t = Acknowledged::Lines, value_name = "WHAT")]
    acknowledge: Acknowledged,
    /// Models of file systems, with options (`ext4:zeros=no,replace=yes`), and designs of Weir (`design:ext4` where a model has the
    /// name) [default: posix,ext4,xfs,btrfs,f2fs and crest,nova,pmfs]
    #[arg(long, value_name = "A,B")]
    fs: Vec<String>,
    /// Distinct trees that are judged of each file system, at most
    #[arg(long, default_value_t = 2000, value_name = "N")]
    states: usize,
    /// Time for each file system, at most, in seconds
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    time: u64,
    /// Time for one run of the checker, in seconds
    #[arg(long, default_value_t = 20.0, value_name = "SECONDS")]
    timeout: f64,
    /// Smallest unit that persists whole: 512, 4096 or none [default: of each model]
    #[arg(long, value_name = "BYTES")]
    tear: Option<String>,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// Checkers that run at once [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,
    /// Also take a trace that has not seen everything; then nothing is ever said to be sound
    #[arg(long)]
    allow_unseen: bool,
    /// Do not try which sync would help
    #[arg(long)]
    no_fix: bool,
    /// Put the tree of finding N into the folder of --into, and run nothing else
    #[arg(long, value_name = "N", requires = "into")]
    show: Option<usize>,
    /// A folder that does not exist yet, for --show
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Findings that are known: the JSON of an earlier run; only new ones give exit code 1
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Acknowledged {
    None,
    Lines,
    Writes,
    Socket,
    Exit,
}

/// The models that are searched where none is named.
const USUAL: [&str; 5] = ["posix", "ext4", "xfs", "btrfs", "f2fs"];
/// The designs, likewise.
const USUAL_DESIGNS: [&str; 3] = ["crest", "nova", "pmfs"];
/// The prefix of a design.
const DESIGN: &str = "design:";
/// Findings on these never decide: one loses everything, the others are no models.
const UNDECIDED: [&str; 3] = ["tmpfs", "null-random", "null-unsynced"];

/// What came of a design.
struct Designed {
    name: String,
    gathered: Gathered,
    found: Vec<OnDesign>,
    /// Why it could not be tried.
    refused: Option<String>,
}

/// A run and all that it was about.
struct Ran<'a> {
    asked: &'a ProgramCheck,
    story: &'a Story,
    operations: &'a Operations,
    outcome: Outcome,
    designs: Vec<Designed>,
    left_out: LeftOut,
    took: Duration,
}

impl ProgramCheck {
    pub(super) fn run(self, output: &Output) -> Result<(), Failure> {
        let (models, designs) = self.models()?;
        let promised = self.promised()?;
        let path = self.trace.strip_prefix(PREFIX).map(PathBuf::from);
        let path = path.ok_or_else(|| Failure::usage("name the trace as trace:FILE"))?;
        let story = Story::open(&path, &self.acknowledge(), self.allow_unseen);
        let story = Arc::new(story.map_err(|error| unread(&error))?);
        let operations = Operations::of(&story);
        let began = Instant::now();
        let scratch = folder::scratch().map_err(|error| unput(&error))?;
        let judged = match self.by_command(&story, scratch.clone()) {
            Some(oracle) => {
                self.judged(&oracle, &story, &operations, (&models, &designs)).map(|(outcome, designs)| {
                    let left_out = oracle.left_out.into_inner().unwrap_or_default();
                    (outcome, designs, left_out)
                })
            }
            None => ByPromises::new(&story, &operations, &promised)
                .map_err(|error| unput(&error))
                .and_then(|oracle| self.judged(&oracle, &story, &operations, (&models, &[])))
                .map(|(outcome, designs)| (outcome, designs, LeftOut::default())),
        };
        folder::remove(&scratch);
        let (outcome, designs, left_out) = judged?;
        let (asked, took) = (&self, began.elapsed());
        let ran = Ran { asked, story: &story, operations: &operations, outcome, designs, left_out, took };
        match (self.show, &self.into) {
            (Some(number), Some(into)) => ran.show(number, into, &models, output),
            _ => ran.finish(&path, output),
        }
    }

    fn judged(
        &self,
        oracle: &dyn Oracle,
        story: &Arc<Story>,
        operations: &Operations,
        (models, designs): (&[Model], &[String]),
    ) -> Result<(Outcome, Vec<Designed>), Failure> {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let limits = Limits {
            states: self.states.max(1),
            time: Duration::from_secs(self.time),
            seed: self.seed,
            jobs: self.jobs.map_or(jobs, |jobs| jobs as usize),
        };
        let fixes = !self.no_fix && self.show.is_none();
        let outcome = run(story, operations, oracle, models, &limits, fixes);
        let mut outcome = outcome.map_err(|error| unput(&error))?;
        if !outcome.faults.is_empty() || self.show.is_some() {
            return Ok((outcome, Vec::new()));
        }
        let designs = Self::designs(designs, story, oracle, &limits, &mut outcome)?;
        Ok((outcome, designs))
    }

    fn acknowledge(&self) -> Acknowledge {
        match self.acknowledge {
            Acknowledged::None => Acknowledge::None,
            Acknowledged::Lines => Acknowledge::Lines,
            Acknowledged::Writes => Acknowledge::Writes,
            Acknowledged::Socket => Acknowledge::Socket,
            Acknowledged::Exit => Acknowledge::Exit,
        }
    }

    fn by_command<'a>(&self, story: &'a Story, scratch: PathBuf) -> Option<ByCommand<'a>> {
        let command = self.check.clone().filter(|command| !command.trim().is_empty())?;
        let largest = story.inodes.iter().map(|node| node.size).max().unwrap_or(0);
        let timeout = Duration::from_secs_f64(self.timeout.clamp(0.01, 1e6));
        let checker = Checker { command, timeout, largest };
        Some(ByCommand { story, checker, scratch, left_out: Mutex::new(LeftOut::default()) })
    }

    /// The promises that are judged without a checker.
    fn promised(&self) -> Result<Vec<Promised>, Failure> {
        if self.promise.is_empty() {
            return Ok(Promised::NAMED.iter().map(|(_, promise)| *promise).collect());
        }
        let one = |word: &String| {
            let known = Promised::NAMED.iter().find(|(known, _)| known == word).map(|(_, promise)| *promise);
            let near = || document::nearest(word, Promised::NAMED.iter().map(|(known, _)| *known));
            known.ok_or_else(|| Failure::usage(format!("--promise {word}: {}", near())))
        };
        self.promise.iter().map(one).collect()
    }

    /// The program on designs.
    fn designs(
        names: &[String],
        story: &Arc<Story>,
        oracle: &dyn Oracle,
        limits: &Limits,
        outcome: &mut Outcome,
    ) -> Result<Vec<Designed>, Failure> {
        let mut all = Vec::new();
        for name in names {
            let given = std::collections::BTreeMap::new();
            let design = checked(name, &given, Size::Small)?;
            let size = designs::size_for(&design, story);
            let subject = Subject { design, size, promises: promises(name, &given)?, mode: Mode::Adr };
            let gathered = designs::gather(story, &subject, limits.states, limits.seed);
            let name = name.clone();
            let (gathered, refused) = match gathered {
                Ok(gathered) => (gathered, None),
                Err(what) => (Gathered::default(), Some(what)),
            };
            let judged = designs::judge(story, &name, &gathered, oracle, limits.jobs);
            let (found, faults) = judged.map_err(|error| unput(&error))?;
            outcome.faults.extend(faults.into_iter().map(|what| format!("{what} (on {name})")));
            all.push(Designed { name, gathered, found, refused });
        }
        Ok(all)
    }

    /// The models and the designs that are asked for.
    fn models(&self) -> Result<(Vec<Model>, Vec<String>), Failure> {
        let named: Vec<String> = if self.fs.is_empty() {
            USUAL.iter().chain(&USUAL_DESIGNS).map(|name| (*name).to_owned()).collect()
        } else {
            self.fs.iter().flat_map(|given| split(given)).collect()
        };
        let tear = match self.tear.as_deref() {
            None => None,
            Some("none") => Some(0),
            Some(number) => match number.parse() {
                Ok(bytes @ (8 | 64 | 512 | 4096)) => Some(bytes),
                _ => return Err(Failure::usage(format!("--tear {number}: give 8, 64, 512, 4096 or none"))),
            },
        };
        let (mut models, mut designs) = (Vec::new(), Vec::new());
        for name in &named {
            let base = name.split(':').next().unwrap_or_default();
            let is_model = MODELS.iter().any(|(known, _)| *known == base) || base.starts_with("null-");
            if let Some(design) = name
                .strip_prefix(DESIGN)
                .or_else(|| (!is_model && !name.contains(':')).then_some(name.as_str()))
            {
                lab::plan::matrix::stored(design).map_err(|_| {
                    let all = MODELS.iter().map(|(known, _)| *known).chain(USUAL_DESIGNS);
                    Failure::usage(format!(
                        "--fs {name}: neither a model nor a stored design: {}",
                        document::nearest(design, all)
                    ))
                })?;
                designs.push(design.to_owned());
                continue;
            }
            let mut model =
                Model::named(name).map_err(|what| Failure::usage(format!("--fs {name}: {what}")))?;
            model.tear = tear.unwrap_or(model.tear);
            models.push(model);
        }
        Ok((models, designs))
    }
}

/// `posix,ext4:zeros=no,replace=yes,xfs` as three: a word with `=` belongs to the one before.
fn split(given: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for word in given.split(',') {
        match all.last_mut() {
            Some(last) if word.contains('=') && !word.contains(':') => drop(write!(last, ",{word}")),
            _ => all.push(word.to_owned()),
        }
    }
    all
}

fn unread(error: &StoryError) -> Failure {
    let exit = match error {
        StoryError::Trace(trace::Error::Io { .. }) | StoryError::Contents(_) | StoryError::Unseen { .. } => {
            Exit::Host
        }
        _ => Exit::Usage,
    };
    Failure::new(exit, error.to_string())
}

fn unput(error: &FolderError) -> Failure {
    Failure::new(Exit::Host, error.to_string())
}

impl Ran<'_> {
    fn finish(&self, path: &Path, output: &Output) -> Result<(), Failure> {
        let known = self.asked.baseline.as_deref().map_or(Ok(Vec::new()), known)?;
        if output.is_json() {
            output.document(&self.document(path));
        } else {
            output.data(&self.text(path));
        }
        if let Some(fault) = self.outcome.faults.first() {
            return Err(Failure::new(Exit::Run, format!("the checker is at fault: {fault}")));
        }
        let decides =
            |finding: &&Finding| finding.models.iter().any(|model| !UNDECIDED.contains(&model.as_str()));
        let new = |finding: &&Finding| !known.contains(&finding.cause.key);
        let count = self.outcome.findings.iter().filter(decides).filter(new).count();
        let on_designs = self.designs.iter().map(|one| one.found.len() + one.gathered.bugs.len());
        let count = count + on_designs.sum::<usize>();
        if count > 0 && self.asked.check.is_none() && self.asked.promise.is_empty() {
            let what = "strict promises: a finding here may be harmless if your program repairs it; give that as --check, or name \
                        --promise";
            output.note(what);
        } else if count > 0 {
            return Err(Failure::new(Exit::Check, several(count, "finding")));
        }
        if let Some(what) = self.story.unseen.first() {
            let what = format!("nothing was found in what could be seen, and that is not everything: {what}");
            return Err(Failure::new(Exit::Host, what));
        }
        Ok(())
    }

    fn show(&self, number: usize, into: &Path, models: &[Model], output: &Output) -> Result<(), Failure> {
        let finding = number.checked_sub(1).and_then(|at| self.outcome.findings.get(at));
        let Some(finding) = finding else {
            let there = self.outcome.findings.len();
            return Err(Failure::usage(format!(
                "--show {number}: this run has {}",
                several(there, "finding")
            )));
        };
        let model = models.iter().find(|model| finding.models.contains(&model.name)).unwrap_or(&models[0]);
        std::fs::create_dir(into).map_err(|error| Failure::io("create", into, &error))?;
        let mut trees = Trees::new(self.story, self.operations, model.stale, model.tear);
        let names = trees.names(&finding.cause.state.set);
        folder::put(&trees, &names, &finding.cause.state, into).map_err(|error| unput(&error))?;
        let told = finding.cause.acks.checked_sub(1).map_or(0, |last| self.story.acks[last].bytes);
        output.data(&self.finding(number, finding));
        let shown = String::from_utf8_lossy(&self.story.told[..told]).into_owned();
        let shown = if shown.is_empty() { "nothing".to_owned() } else { format!("\n{}", shown.trim_end()) };
        output.note(&format!("{} has the tree; acknowledged before the crash: {shown}", into.display()));
        Ok(())
    }

    fn name(path: &Path) -> String {
        path.file_stem().map_or_else(|| "program".to_owned(), |name| name.to_string_lossy().into_owned())
    }

    fn text(&self, path: &Path) -> String {
        let Outcome { explored, findings, faults, warnings, runs } = &self.outcome;
        let states: usize = explored.iter().map(|one| one.states).sum();
        let points = explored.iter().map(|one| one.points).max().unwrap_or(0);
        let mut text = format!(
            "{}: {} in {states} states of {} on {}; {} in {:.1} s\n",
            Self::name(path),
            several(findings.len(), "finding"),
            several(points, "crash point"),
            several(explored.len(), "file system"),
            several(*runs, "check"),
            self.took.as_secs_f64()
        );
        for (number, finding) in findings.iter().enumerate() {
            text.push('\n');
            text += &self.finding(number + 1, finding);
        }
        if findings.is_empty() && faults.is_empty() && self.story.unseen.is_empty() {
            text += "Nothing was found in what was explored.\n";
        }
        text.push('\n');
        for one in explored {
            let _ = writeln!(text, "{}", row(one, &self.outcome.broken(&one.model)));
        }
        for one in &self.designs {
            text += &one.text();
        }
        for what in warnings.iter().chain(faults) {
            let _ = writeln!(text, "warning: {what}");
        }
        let _ = writeln!(text, "not judged: {}", self.not_judged().join("; "));
        text += "Not covered: errors of fsync, damaged bits, drives that lose what they have flushed.\n";
        text
    }

    fn finding(&self, number: usize, finding: &Finding) -> String {
        let cause = &finding.cause;
        let mut text = format!(
            "{number}  {}   [{} · {}]\n",
            cause.message,
            cause.promise.name(),
            finding.models.join(" ")
        );
        for (call, how) in self.calls(cause) {
            let _ = writeln!(
                text,
                "   {:<44} line {:<6} {how}",
                shown(self.story, call),
                self.story.calls[call as usize].line
            );
        }
        match cause.kept {
            Kept::Ack(_) => {
                let told = cause.acks.checked_sub(1).map_or(0, |last| self.story.acks[last].bytes);
                let last =
                    String::from_utf8_lossy(&self.story.told[..told]).lines().last().unwrap_or("").to_owned();
                let last = format!("\"{last}\"");
                let _ = writeln!(text, "   {last:<44}             told");
            }
            Kept::Nothing if cause.lost.is_empty() => {
                text += "   Nothing is lost here: the crash alone, between two calls, is enough, and no sync helps.\n";
            }
            _ => {}
        }
        if !cause.lost.is_empty() {
            let many = cause.lost.len();
            let enough = if many == 1 {
                "One lost piece is enough.".to_owned()
            } else {
                format!("{many} lost pieces together.")
            };
            let torn = if cause.state.torn.is_some() { " One of them has persisted in part." } else { "" };
            let _ = writeln!(text, "   Nothing orders them. {enough}{torn}");
            match &finding.fix {
                Some(fix) => {
                    let _ =
                        writeln!(text, "   Fix: {} (tried: removes it in {} trees).", fix.what, fix.trees);
                }
                None if self.asked.no_fix || self.asked.show.is_some() => {}
                None => text += "   Fix: no sync that was tried before the second of them removes it.\n",
            }
        }
        text
    }

    /// The calls of a cause, with what became of each.
    fn calls(&self, cause: &Cause) -> Vec<(u32, &'static str)> {
        let mut all: Vec<(u32, &'static str)> = Vec::new();
        for number in &cause.lost {
            let call = self.operations.all[*number as usize].call;
            let torn = cause.state.torn.is_some_and(|torn| torn.number == *number);
            let how = if torn { "persisted in part" } else { "not persisted" };
            if all.last().is_none_or(|(last, _)| *last != call) {
                all.push((call, how));
            }
        }
        if let Kept::Operation(number) = cause.kept {
            all.push((self.operations.all[number as usize].call, "persisted"));
        }
        all
    }

    fn not_judged(&self) -> Vec<String> {
        let mut all = self.story.unseen.clone();
        all.extend(self.story.notes.iter().cloned());
        if !self.left_out.special.is_empty() {
            all.push(format!(
                "left out of trees: {} (FIFOs, sockets, devices)",
                self.left_out.special.join(", ")
            ));
        }
        if self.left_out.attributes > 0 {
            all.push(format!(
                "{} that the scratch folder refuses",
                several(self.left_out.attributes, "extended attribute")
            ));
        }
        if self.left_out.owners > 0 {
            all.push("owners, which are not set in trees".to_owned());
        }
        all
    }

    fn document(&self, path: &Path) -> Value {
        let one = |(number, finding): (usize, &Finding)| {
            let cause = &finding.cause;
            let call = |call: u32| {
                let about = &self.story.calls[call as usize];
                json!({
                    "call": about.name, "line": about.line, "paths": about.paths.iter().flatten().collect::<Vec<_>>(),
                    "range": about.range,
                })
            };
            let missing = cause.lost.iter().map(|number| call(self.operations.all[*number as usize].call));
            let whole = state_of(self.operations, cause.at_ns, &cause.lost, cause.state.torn);
            let kept = match cause.kept {
                Kept::Operation(number) => call(self.operations.all[number as usize].call),
                Kept::Ack(at) => json!({ "acknowledgement": at + 1 }),
                Kept::Nothing => Value::Null,
            };
            json!({
                "number": number + 1,
                "promise": cause.promise.name(),
                "message": cause.message,
                "cause": cause.key,
                "models": finding.models,
                "missing": missing.collect::<Vec<_>>(),
                "kept": kept,
                "trees": finding.trees,
                "fix": finding.fix.as_ref().map(|fix| json!({ "what": fix.what, "trees": fix.trees })),
                "state": { "at_ns": cause.at_ns, "lost": cause.lost, "acknowledged": cause.acks,
                           "all_else_persisted": whole == cause.state },
            })
        };
        let model = |one: &Explored| {
            json!({
                "model": one.model, "broken": self.outcome.broken(&one.model), "points": one.points,
                "points_left_out": one.points_left_out, "explored": one.states, "legal": one.legal,
                "legal_is_exact": one.is_exact, "trees": one.trees, "cut_by_time": one.cut, "says_nothing": one.nothing,
            })
        };
        let findings: Vec<_> = self.outcome.findings.iter().enumerate().map(one).collect();
        let models =
            self.outcome.explored.iter().map(model).chain(self.designs.iter().map(Designed::document));
        json!({
            "schema": "weir.crash-program/1",
            "trace": path,
            "seed": self.asked.seed,
            "findings": findings,
            "models": models.collect::<Vec<_>>(),
            "warnings": self.outcome.warnings,
            "faults": self.outcome.faults,
            "unseen": self.story.unseen,
            "not_judged": self.not_judged(),
        })
    }
}

impl Designed {
    fn broken(&self) -> String {
        let has = |promise| self.found.iter().any(|found| found.promise == promise);
        let letters = [(Promise::Atomicity, 'A'), (Promise::Durability, 'D')];
        letters.iter().filter(|(promise, _)| has(*promise)).map(|(_, letter)| letter).collect()
    }

    fn text(&self) -> String {
        let Self { name, gathered, found, refused } = self;
        if let Some(what) = refused {
            return format!("  {name:<28} not tried: {what}\n");
        }
        let broken =
            Some(self.broken()).filter(|letters| !letters.is_empty()).unwrap_or_else(|| "–".to_owned());
        let cut = if gathered.cut { ", cut by --states" } else { "" };
        let (trees, images, points) = (gathered.trees.len(), gathered.images, gathered.points);
        let mut text =
            format!("  {name:<28} {broken:<3} {trees} trees of {images} images at {points} points{cut}\n");
        for one in found {
            let _ = writeln!(
                text,
                "      {} [{}], {} ({} trees)",
                one.message,
                one.promise.name(),
                one.moment,
                one.trees
            );
        }
        for bug in &gathered.bugs {
            let _ = writeln!(text, "      a bug of the design, not of the program: {bug}");
        }
        text
    }

    fn document(&self) -> Value {
        let found = self.found.iter().map(|one| {
            json!({ "promise": one.promise.name(), "message": one.message, "moment": one.moment, "trees": one.trees })
        });
        json!({
            "design": self.name, "broken": self.broken(), "points": self.gathered.points, "images": self.gathered.images,
            "trees": self.gathered.trees.len(), "cut_by_states": self.gathered.cut, "refused": self.refused,
            "findings": found.collect::<Vec<_>>(), "bugs": self.gathered.bugs,
        })
    }
}

fn row(one: &Explored, broken: &str) -> String {
    let legal = if one.is_exact {
        format!("all {}", one.legal)
    } else {
        format!("{} of more than {}", one.states, one.legal)
    };
    let cut = if one.cut { ", cut by --time" } else { "" };
    let out = if one.points_left_out > 0 {
        format!(", {} points left out", one.points_left_out)
    } else {
        String::new()
    };
    let broken = if broken.is_empty() { "–" } else { broken };
    format!(
        "  {:<28} {broken:<3} {} trees; {legal} legal states at {} points{out}{cut}",
        one.model, one.trees, one.points
    )
}

/// The causes that an earlier run has found.
fn known(path: &Path) -> Result<Vec<String>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::io("read", path, &error))?;
    let document: Value = serde_json::from_str(&text).map_err(|error| {
        Failure::usage(format!("{}: {error}; give the JSON of an earlier run", path.display()))
    })?;
    if document["schema"] != "weir.crash-program/1" {
        return Err(Failure::usage(format!(
            "{}: give the JSON of an earlier run of this check",
            path.display()
        )));
    }
    let all = document["findings"].as_array().into_iter().flatten();
    Ok(all.filter_map(|finding| finding["cause"].as_str().map(str::to_owned)).collect())
}
