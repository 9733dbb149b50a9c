//! `weir trace tree`: what a recorded program has left.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use trace::compile::{Options, Program};
use trace::record::{Entry, Kind};

use crate::failure::Failure;
use crate::output::Output;

/// Print the tree that a recorded program has left, as far as its calls show it
#[derive(Args, Debug)]
#[command(
    after_help = "A line is the kind (f, d, l, …), the size of a file, and the path; of a link, what it contains."
)]
pub(crate) struct Tree {
    /// The trace, or a compiled one
    #[arg(value_name = "TRACE")]
    file: PathBuf,
    /// Print the tree before the program began instead
    #[arg(long)]
    before: bool,
    /// Take a trace that has lost calls
    #[arg(long)]
    allow_drops: bool,
}

impl Tree {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let program = Program::open(&self.file, Options { allow_drops: self.allow_drops })?;
        if let Some(line) = program.summary.cut_after {
            output.note(&super::stat::cut_note(&self.file, line));
        }
        let mut entries = if self.before { program.initial } else { program.last };
        entries.retain(|entry| !entry.path.is_empty() && entry.path.first() != Some(&b'/'));
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        if output.is_json() {
            let all: Vec<_> = entries.iter().map(document).collect();
            output.document(&json!({ "schema": "weir.trace-tree/1", "file": self.file, "entries": all }));
        } else {
            output.data(&entries.iter().fold(String::new(), |text, entry| text + &line(entry)));
        }
        Ok(())
    }
}

fn document(entry: &Entry) -> serde_json::Value {
    let target = entry.target.as_ref().map(|target| target.escape_ascii().to_string());
    json!({
        "kind": char::from(entry.kind.letter()).to_string(),
        "size": entry.size,
        "path": entry.path.escape_ascii().to_string(),
        "target": target,
    })
}

fn line(entry: &Entry) -> String {
    let mut text = char::from(entry.kind.letter()).to_string();
    if entry.kind == Kind::File {
        let _ = write!(text, " {}", entry.size);
    }
    let _ = write!(text, " {}", entry.path.escape_ascii());
    if let Some(target) = &entry.target {
        let _ = write!(text, " -> {}", target.escape_ascii());
    }
    text + "\n"
}
