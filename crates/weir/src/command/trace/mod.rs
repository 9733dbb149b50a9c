//! `weir trace`: what can be done with a recorded trace besides replaying it.

mod import;
mod into;
mod show;
mod stat;
mod tree;

use clap::{Args, Subcommand};

use crate::failure::Failure;
use crate::output::Output;

pub(crate) use into::NewTrace;
pub(crate) use stat::{losses_document, notes_of_counts, unkept, unkept_note};

/// Show, import, anonymize, cut and compile recorded traces.
#[derive(Args, Debug)]
#[command(after_help = "The format, and what each recorder sees: docs/traces.md")]
pub(crate) struct Trace {
    #[command(subcommand)]
    what: What,
}

/// Everything that can be done.
#[derive(Subcommand, Debug)]
enum What {
    /// Add up a trace: calls, errors, bytes, times, and what was not stored
    Stat(stat::StatOf),
    /// Print a trace as text
    Show(show::Show),
    /// Print the tree that a recorded program has left
    Tree(tree::Tree),
    /// Replace every name, so that a trace can be given away
    Anonymize(into::Anonymize),
    /// Keep a part of a trace, by time, process or count of calls
    Cut(into::Cut),
    /// Resolve names and descriptors, and find the order of a replay
    Compile(into::Compile),
    /// Make a trace of the output of strace, a load file of dbench, or a published trace
    Import(import::Import),
}

impl Trace {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        match self.what {
            What::Stat(command) => command.run(output),
            What::Show(command) => command.run(output),
            What::Tree(command) => command.run(output),
            What::Anonymize(command) => command.run(output),
            What::Cut(command) => command.run(output),
            What::Compile(command) => command.run(output),
            What::Import(command) => command.run(output),
        }
    }
}
