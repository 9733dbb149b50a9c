//! `weir check crash trace:FILE`: what a power loss leaves of a user's own program.
//!
//! | module | does |
//! |---|---|
//! | `ran` | what came of a run, and words for its parts |
//! | `text` | the answer for a terminal |
//! | `json` | the answer as JSON, and the findings of an earlier one |
//! | `page` | the answer as a page |

mod json;
mod page;
mod ran;
mod text;

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use check::crash::Subject;
use check::program::checker::Checker;
use check::program::designs::{self, Gathered};
use check::program::folder::{self, FolderError, LeftOut};
use check::program::judge::{ByCommand, Limits, Oracle};
use check::program::model::{MODELS, Model};
use check::program::operations::Operations;
use check::program::promises::{ByPromises, Promised};
use check::program::run::{Outcome, run};
use check::program::story::{Acknowledge, Story, StoryError};
use check::program::tree::Trees;
use check::program::world::{self, World};
use clap::Args;
use media::recorder::Mode;

use self::ran::{Designed, Ran};
use crate::checked::{Size, checked, promises};
use crate::failure::{Exit, Failure};
use crate::interrupt;
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
    /// Let the checker use the network; otherwise it has one of its own with nothing but a loopback, where the host allows that
    #[arg(long, requires = "check")]
    network: bool,
    /// Put each tree at PATH, which must not exist, one after the other: for checkers that need the path at which the program was
    /// recorded, where the host lets no user namespace put the trees there [default: a scratch folder, seen at that path]
    #[arg(long, value_name = "PATH", requires = "check")]
    root_at: Option<PathBuf>,
    /// Promises that need no checker: durable, atomic, prefix, no-garbage [default without --check: these; then findings do not
    /// decide the exit code]; durable-prefix, for logs: a file may have more behind what was told
    #[arg(long, value_delimiter = ',', value_name = "A,B", conflicts_with = "check")]
    promise: Vec<String>,
    /// What the program acknowledges: none; lines or writes on its standard output; socket: what it sends; exit: its end with exit
    /// code 0; file:PATH: lines that it writes to a file below the root of the trace
    #[arg(long, default_value = "lines", value_parser = acknowledge, value_name = "WHAT")]
    acknowledge: Acknowledge,
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
    /// Put the tree of finding N into the folder DIR of --into, what was acknowledged into DIR.acked, and the crash as JSON into
    /// DIR.crash
    #[arg(long, value_name = "N", requires = "into")]
    show: Option<usize>,
    /// A folder that does not exist yet, for --show
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Findings that are known: the JSON of an earlier run; only new ones give exit code 1
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Also write the page to a .html, or the document to a .json file; repeatable
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    outputs: Vec<PathBuf>,
}

/// The words of --acknowledge.
const ACKNOWLEDGED: [(&str, Acknowledge); 5] = [
    ("none", Acknowledge::None),
    ("lines", Acknowledge::Lines),
    ("writes", Acknowledge::Writes),
    ("socket", Acknowledge::Socket),
    ("exit", Acknowledge::Exit),
];

fn acknowledge(word: &str) -> Result<Acknowledge, String> {
    if let Some(path) = word.strip_prefix("file:").filter(|path| !path.is_empty()) {
        return Ok(Acknowledge::File(path.to_owned()));
    }
    let known = ACKNOWLEDGED.iter().find(|(known, _)| *known == word);
    let words = ACKNOWLEDGED.iter().map(|(known, _)| *known).chain(["file:PATH"]);
    known.map(|(_, what)| what.clone()).ok_or_else(|| document::nearest(word, words))
}

/// The models that are searched where none is named.
const USUAL: [&str; 5] = ["posix", "ext4", "xfs", "btrfs", "f2fs"];
/// The designs, likewise.
const USUAL_DESIGNS: [&str; 3] = ["crest", "nova", "pmfs"];
/// The prefix of a design.
const DESIGN: &str = "design:";

impl ProgramCheck {
    pub(super) fn run(self, output: &Output) -> Result<(), Failure> {
        if self.check.as_ref().is_some_and(|command| command.trim().is_empty()) {
            let what = "--check: the command is empty; give one that judges a tree, or leave --check out for promises";
            return Err(Failure::usage(what));
        }
        let (models, designs) = self.models()?;
        let promised = self.promised()?;
        self.check_outputs()?;
        let root_at = self.root_at.as_deref().map(free).transpose()?;
        if self.check.is_some() {
            world::enter();
        }
        let known = self.baseline.as_deref().map_or(Ok(Vec::new()), json::known)?;
        let path = self.trace.strip_prefix(PREFIX).map(PathBuf::from);
        let path = path.ok_or_else(|| Failure::usage("name the trace as trace:FILE"))?;
        let story = Story::open(&path, &self.acknowledge, self.allow_unseen);
        let story = Arc::new(story.map_err(|error| unread(&error))?);
        let operations = Operations::of(&story);
        let began = Instant::now();
        let scratch = folder::scratch().map_err(|error| unput(&error))?;
        let judged = match self.by_command(&story, scratch.clone(), root_at) {
            Some(oracle) => self.judged(&oracle, &story, &operations, (&models, &designs)).map(
                |(mut outcome, designs)| {
                    outcome.warnings.extend(self.at_root(&oracle, &outcome));
                    let left_out = oracle.left_out.into_inner().unwrap_or_default();
                    (outcome, designs, (left_out, oracle.world.lacks))
                },
            ),
            None => ByPromises::new(&story, &operations, &promised)
                .map_err(|error| unput(&error))
                .and_then(|oracle| self.judged(&oracle, &story, &operations, (&models, &designs)))
                .map(|(outcome, designs)| (outcome, designs, Default::default())),
        };
        folder::remove(&scratch);
        let (mut outcome, designs, (left_out, lacks)) = judged?;
        outcome.warnings.extend(self.check.as_ref().and_then(|_| many_files(&story)));
        let ran = Ran {
            path: &path,
            story: &story,
            operations: &operations,
            outcome,
            designs,
            left_out,
            lacks,
            took: began.elapsed(),
            seed: self.seed,
            tries_fixes: !self.no_fix && self.show.is_none(),
            is_strict: self.check.is_none(),
        };
        match (self.show, &self.into) {
            (Some(number), Some(into)) => self.show(&ran, number, into, &models, output),
            _ => self.finish(&ran, &known, output),
        }
    }

    /// Warns of a command that names the path at which the program was recorded, where that is not what it may expect.
    fn at_root(&self, oracle: &ByCommand<'_>, outcome: &Outcome) -> Option<String> {
        let root = String::from_utf8_lossy(&oracle.story.root).into_owned();
        let leads_there = |rest: &str| {
            !rest.starts_with("/..") && !rest.starts_with(|c: char| c.is_alphanumeric() || "-_.".contains(c))
        };
        let command = self.check.as_deref().filter(|_| root.len() > 1)?;
        let mut named = command.match_indices(&root).map(|(at, _)| &command[at + root.len()..]);
        let is_named = named.any(leads_there);
        let is_there =
            oracle.world.is_bound() || oracle.root_at.as_deref().is_some_and(|at| at == Path::new(&root));
        match (is_named, is_there) {
            (true, true) if !outcome.faults.is_empty() => Some(format!(
                "--check names {root}, where the checker sees the recovered tree and nothing else: put what it needs besides into \
                 another folder"
            )),
            (true, false) => Some(format!(
                "--check names {root}, where the program was recorded: if it looks at data there and not in its own folder, it \
                 judges live data"
            )),
            _ => None,
        }
    }

    /// Prints and writes what came of it, and says how it ends.
    fn finish(&self, ran: &Ran<'_>, known: &[String], output: &Output) -> Result<(), Failure> {
        let document = json::of(ran);
        if output.is_json() {
            output.document(&document);
        } else {
            output.data(&text::of(ran));
        }
        for path in &self.outputs {
            let bytes = match path.extension().and_then(|ending| ending.to_str()) {
                Some("html") => page::of(ran)?,
                _ => {
                    serde_json::to_string_pretty(&document).expect("our documents have string keys only")
                        + "\n"
                }
            };
            results::file::write_atomic(path, bytes)?;
            output.note(&format!("written  {}", path.display()));
        }
        if let Some(fault) = ran.outcome.faults.first() {
            return Err(Failure::new(Exit::Run, format!("the checker is at fault: {fault}")));
        }
        let count = ran.deciding(known);
        if count > 0 && self.check.is_none() && self.promise.is_empty() {
            let what = "strict promises: a finding here may be harmless if your program repairs it; give that as --check, or name \
                        --promise";
            output.note(what);
        } else if count > 0 {
            return Err(Failure::new(Exit::Check, several(count, "finding")));
        }
        if let Some(what) = ran.story.unseen.first() {
            let what = format!(
                "what was seen of the program is not everything, so nothing is said to be sound: {what}"
            );
            return Err(Failure::new(Exit::Host, what));
        }
        Ok(())
    }

    /// Refuses files that cannot be written in the end, before anything runs.
    fn check_outputs(&self) -> Result<(), Failure> {
        for path in &self.outputs {
            let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            if !["html", "json"].contains(&ending) {
                return Err(Failure::usage(format!("-o {}: give a .html or a .json file", path.display())));
            }
        }
        let into = self.into.iter().flat_map(|into| [into.clone(), beside(into, ACKED), beside(into, CRASH)]);
        let taken = into.filter(|into| into.symlink_metadata().is_ok()).min();
        taken.map_or(Ok(()), |into| {
            let into = into.display();
            Err(Failure::usage(format!(
                "--into {into}: it is there already; name a folder that does not exist yet"
            )))
        })
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
            // One path has one tree at a time.
            jobs: if self.root_at.is_some() { 1 } else { self.jobs.map_or(jobs, |jobs| jobs as usize) },
            stop: Some(interrupt::flag()),
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

    fn by_command<'a>(
        &self,
        story: &'a Story,
        scratch: PathBuf,
        root_at: Option<PathBuf>,
    ) -> Option<ByCommand<'a>> {
        let command = self.check.clone()?;
        let largest = story.inodes.iter().map(|node| node.size).max().unwrap_or(0);
        let timeout = Duration::from_secs_f64(self.timeout.clamp(0.01, 1e6));
        let checker = Checker { command, timeout, largest };
        let root = Path::new(OsStr::from_bytes(&story.root));
        let root = Some(root).filter(|_| root_at.is_none() && story.is_whole);
        let world = World::new(root, self.network, &scratch);
        Some(ByCommand { story, checker, scratch, root_at, world, left_out: Mutex::new(LeftOut::default()) })
    }

    /// The promises that are judged without a checker.
    fn promised(&self) -> Result<Vec<Promised>, Failure> {
        if self.promise.is_empty() {
            return Ok(Promised::USUAL.to_vec());
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

/// A path that nothing has yet, in a folder that is there; where links lead.
fn free(path: &Path) -> Result<PathBuf, Failure> {
    let shown = path.display();
    if path.symlink_metadata().is_ok() {
        return Err(Failure::usage(format!(
            "--root-at {shown}: it is there already, and trees must not mix with it: move it away for the time of the check"
        )));
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (folder, name) = (absolute.parent().unwrap_or(Path::new("/")), absolute.file_name());
    let real = folder.canonicalize().map_err(|error| {
        Failure::usage(format!("--root-at {shown}: {}: {error}; make that folder", folder.display()))
    })?;
    Ok(real.join(name.unwrap_or_default()))
}

/// Trees of so many names take longer to make than most checkers run: making 10,000 files in memory takes 0.2 s.
const MANY_FILES: usize = 10_000;

/// Advice where each tree is large.
fn many_files(story: &Story) -> Option<String> {
    let count = story.before.len();
    (count >= MANY_FILES).then(|| {
        format!(
            "each tree has {count} names or more, and each check makes all of them: record with --root FOLDER that has only the \
             program's data, or give fewer --states"
        )
    })
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
    let exit = if matches!(error, FolderError::Interrupted) { Exit::Interrupted } else { Exit::Host };
    Failure::new(exit, error.to_string())
}

/// Writes files beside the tree that `--show` shows: the acknowledgements before its crash, and the crash as JSON.
const ACKED: &str = ".acked";
const CRASH: &str = ".crash";

fn beside(folder: &Path, ending: &str) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// A word of a shell's command line.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl ProgramCheck {
    /// Puts the tree of a finding into a folder, and beside it what a checker that runs there by hand may read: in a search a tree
    /// stands for many crashes, so that only here there is one.
    fn show(
        &self,
        ran: &Ran<'_>,
        number: usize,
        into: &Path,
        models: &[Model],
        output: &Output,
    ) -> Result<(), Failure> {
        let finding = number.checked_sub(1).and_then(|at| ran.outcome.findings.get(at));
        let Some(finding) = finding else {
            let there = several(ran.outcome.findings.len(), "finding");
            return Err(Failure::usage(format!("--show {number}: this run has {there}")));
        };
        let model = models.iter().find(|model| finding.models.contains(&model.name)).unwrap_or(&models[0]);
        let unmade = |path: &Path, error: std::io::Error| {
            Failure::new(Exit::Host, format!("cannot create {}: {error}", path.display()))
        };
        std::fs::create_dir(into).map_err(|error| unmade(into, error))?;
        let mut trees = Trees::new(ran.story, ran.operations, model.stale, model.tear);
        let names = trees.names(&finding.cause.state.set);
        folder::put(&trees, &names, &finding.cause.state, into).map_err(|error| unput(&error))?;
        let mut crash = json::finding(ran, number, finding);
        crash["model"] = model.name.clone().into();
        let (acked, crash_file) = (beside(into, ACKED), beside(into, CRASH));
        std::fs::write(&acked, ran.told(&finding.cause)).map_err(|error| unmade(&acked, error))?;
        std::fs::write(&crash_file, format!("{crash:#}\n")).map_err(|error| unmade(&crash_file, error))?;
        output.data(&text::finding(ran, number, finding));
        let (folder, told, crash) = (into.display(), acked.display(), crash_file.display());
        output.note(&format!("{folder} has the tree, {told} what was acknowledged, {crash} the crash"));
        if let Some(command) = &self.check {
            let full = |path: &Path| {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
                quoted(&path.to_string_lossy())
            };
            let (folder, told, crash) = (full(into), full(&acked), full(&crash_file));
            let command = quoted(command);
            output.note(&format!(
                "the checker by hand: cd {folder} && WEIR_ACKED={told} WEIR_CRASH={crash} sh -c {command}"
            ));
        }
        Ok(())
    }
}
