//! Filebench's workload language (WML, as of version 1.5).
//!
//! A script becomes a run in four steps, a module each:
//!
//! ```text
//! text ──lexer──▶ tokens ──parse──▶ ast::Script ──check──▶ program::Program
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`parse`](mod@parse) | the grammar: tokens to tree |
//! | [`ast`] | the tree, as written |
//! | [`check`](mod@check) | the meaning: names, variables, ranges; everything wrong is found before the run |
//! | [`program`] | the checked script |
//! | [`problem`] | what can be wrong, and how it is said |
//! | [`vocabulary`] | the words: attributes, types of flowops, distributions, Filebench's limits |
//! | [`distribution`] | random variables |
//! | [`fileset`] | trees of files, and which file is next |
//! | [`personalities`] | the well-known workloads |
//! | [`run`] | the engine: prepares the files, runs the threads, verifies what is left |
//! | `flowop` | the operations, a file for each family |
//! | [`pattern`] | what is written, so that it can be checked |
//! | [`quirks`] | Filebench's quirks, each a named switch |
//! | [`outcome`] | what a run has measured, and how Filebench prints it |
//! | `suite` | all of it as one of Weir's suites |
//!
//! The whole language is understood. What makes no sense inside Weir is refused with the reason: `system`
//! (a workload cannot start programs of the host), `enable multi` and `domultisync` (no clients on other
//! machines), loops and arithmetic (gone since 1.5). Older spellings (`define randvar`, `cached=`, `usage`)
//! are taken with a warning.

pub mod ast;
pub mod check;
pub mod distribution;
pub mod fileset;
mod flowop;
mod lexer;
pub mod outcome;
pub mod parse;
pub mod pattern;
pub mod personalities;
mod print;
pub mod problem;
pub mod program;
pub mod quirks;
pub mod run;
pub mod span;
mod suite;
pub mod vocabulary;

pub use check::Overrides;
pub use outcome::Outcome;
pub use personalities::{PERSONALITIES, Personality};
pub use problem::{Problem, Report};
pub use program::{Program, Value};
pub use quirks::Quirks;
pub use run::{Engine, EngineError, Options};
pub use suite::Filebench;

/// Reads and checks the script `source`, called `name` in messages, with `overrides` for its variables.
///
/// # Errors
/// All errors and warnings at once, when there is an error; warnings alone are in [`Program::warnings`].
pub fn load(name: &str, source: &str, overrides: &Overrides) -> Result<Program, Report> {
    let (script, problems) = parse::parse(source);
    check::check(name, source, &script, overrides, problems)
}
