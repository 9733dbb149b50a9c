//! The evidence ledger: a line of JSON for each run of a check, appended when it ends.
//!
//! Figures get into it from the checks themselves, and from `weir check record` for the suites that other programs run; never by
//! hand. The tree's own ledger (`evidence/ledger.jsonl`, written by `make evidence`) is built into the command.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::code;
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::output::Output;
use crate::store;

/// The ledger that this build comes with.
const SHIPPED: &str = include_str!("../../../shipped/ledger.jsonl");

/// What one run of a check did and found on one subject.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// The check: `crash/depth-1`.
    pub(super) check: String,
    /// What was checked: a design, with its options.
    pub(super) subject: String,
    /// What is counted: `distinct images`.
    pub(super) unit: String,
    /// How many.
    pub(super) count: u64,
    /// Of how many, where not all can be had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) of: Option<u64>,
    /// What was wrong.
    pub(super) failures: u64,
    /// First and last seed, where there is randomness.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) seeds: Option<(u64, u64)>,
    /// What else was asked for: with the same words and at least the same seeds the same is done again, and counts once.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) asked: String,
}

/// An entry as it stands in the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Line {
    #[serde(flatten)]
    pub(super) entry: Entry,
    /// When the run ended: seconds since 1970.
    pub(super) at: u64,
    /// How long it took.
    pub(super) seconds: u64,
    /// What it was built from: commit, with `+` where the tree had changes, and profile.
    pub(super) build: String,
    /// The hash of the code that was tested ([`code::tested`]); entries of older builds have none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) code: String,
}

/// Why an entry does not speak of the code of this build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Old {
    /// The code has changed since.
    Code,
    /// It was of a tree with changes that no commit has, so what was tested cannot be looked up.
    Tree,
}

impl Old {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Code => "old: the code has changed since",
            Self::Tree => "old: of a tree with uncommitted changes",
        }
    }
}

impl Line {
    /// Whether it speaks of this build's code; if not, why.
    pub(super) fn old(&self) -> Option<Old> {
        let commit = self.build.split(' ').next().unwrap_or_default();
        if commit.ends_with('+') {
            return Some(Old::Tree);
        }
        (self.code != code::tested(&self.entry.check, &self.entry.subject)).then_some(Old::Code)
    }
}

/// Where a run is recorded.
#[derive(Debug)]
pub(super) struct Ledger<'a> {
    path: Option<PathBuf>,
    began: Instant,
    output: &'a Output,
}

impl<'a> Ledger<'a> {
    /// The file that was named, or the user's own. A named file that cannot be appended to is an error before anything runs.
    pub(super) fn new(named: Option<PathBuf>, output: &'a Output) -> Result<Self, Failure> {
        if let Some(path) = &named {
            let is_new = !path.exists();
            append(path, "").map_err(|error| Failure::io("append to the ledger", path, &error))?;
            if is_new {
                let _ = std::fs::remove_file(path);
            }
        }
        Ok(Self { path: named.or_else(|| own().ok()), began: Instant::now(), output })
    }

    /// Appends what was done by this command, as [`Ledger::record_build`] does.
    pub(super) fn record(&self, entries: &[Entry]) {
        let host = lab::environment::capture();
        let words = [host.commit, host.profile].map(|word| word.unwrap_or_else(|| "unknown".to_owned()));
        self.record_build(entries, &words.join(" "));
    }

    /// Appends what was done since the ledger was opened, unless it was interrupted: it would stand for the whole. Where it is not
    /// possible that is told, and nothing else is lost.
    pub(super) fn record_build(&self, entries: &[Entry], build: &str) {
        if interrupt::happened() {
            return;
        }
        let Some(path) = &self.path else {
            return self.output.note("not recorded as evidence: neither XDG_DATA_HOME nor HOME is set");
        };
        if let Err(error) = append(path, &self.lines(entries, build)) {
            self.output.note(&format!("not recorded as evidence: {}: {error}", path.display()));
        }
    }

    fn lines(&self, entries: &[Entry], build: &str) -> String {
        let at = store::now();
        let line = |entry: &Entry| {
            let (entry, build) = (entry.clone(), build.to_owned());
            let code = code::tested(&entry.check, &entry.subject);
            let line = Line { entry, at, seconds: self.began.elapsed().as_secs(), build, code };
            serde_json::to_string(&line).expect("strings and numbers only") + "\n"
        };
        entries.iter().map(line).collect()
    }
}

/// `$XDG_DATA_HOME/weir/evidence.jsonl`.
fn own() -> Result<PathBuf, Failure> {
    Ok(store::data()?.join("evidence.jsonl"))
}

/// One write, so that lines of runs side by side do not mix.
fn append(path: &Path, lines: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::OpenOptions::new().create(true).append(true).open(path)?.write_all(lines.as_bytes())
}

/// The lines of the file that was named; or those of this build and the user's own.
pub(super) fn read(named: Option<&Path>) -> Result<Vec<Line>, Failure> {
    let of_file = |path: &Path| {
        let text = std::fs::read_to_string(path).map_err(|error| Failure::io("read", path, &error))?;
        parse(&text, &path.display().to_string())
    };
    if let Some(path) = named {
        return of_file(path);
    }
    let mut lines = shipped();
    if let Some(path) = own().ok().filter(|path| path.exists()) {
        lines.extend(of_file(&path)?);
    }
    Ok(lines)
}

/// The lines of the ledger that this build comes with.
pub(super) fn shipped() -> Vec<Line> {
    parse(SHIPPED, "evidence/ledger.jsonl").expect("a test reads the shipped ledger")
}

fn parse(text: &str, name: &str) -> Result<Vec<Line>, Failure> {
    let parse = |(number, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| {
            Failure::new(
                Exit::Usage,
                format!("{name}, line {}: not an entry of the ledger: {error}", number + 1),
            )
        })
    };
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(parse).collect()
}
