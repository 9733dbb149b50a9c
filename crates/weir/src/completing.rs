//! Completion of names: designs, media, machines, workloads, plans, papers and results, in every shell.
//!
//! The scripts of `weir completion` ask this command for the words that may come next, with `COMPLETE` in its environment.

use std::ffi::{OsStr, OsString};

use clap::{Arg, Command, CommandFactory};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _};

use crate::cli::Cli;
use crate::command::check::{PROGRAM, program_arguments};
use crate::command::list::{Kind, Row};
use crate::store;

/// The variable that a shell sets when it asks.
pub(crate) const VARIABLE: &str = "COMPLETE";

/// Answers a shell that asks for completions, and ends this process then.
pub(crate) fn answer() {
    CompleteEnv::with_factory(|| command(&std::env::args_os().collect::<Vec<_>>())).var(VARIABLE).complete();
}

/// The command line with completers of names, and where these words have a trace with the form of `weir check crash` for one.
fn command(words: &[OsString]) -> Command {
    let command = with_names(Cli::command());
    if program_arguments(words.to_vec()) == words {
        return command;
    }
    command.mut_subcommand("check", |check| {
        let check = check.mut_subcommand("crash", |crash| crash.name("crash-designs").hide(true));
        check.mut_subcommand(PROGRAM, |program| program.name("crash").hide(false))
    })
}

fn with_names(command: Command) -> Command {
    let of = command.get_name().to_owned();
    command.mut_args(|arg| named(&of, arg)).mut_subcommands(with_names)
}

/// The argument of `command` with what completes it: names, and paths where it takes files as well. The engine has cut a list at
/// its last comma before.
fn named(command: &str, arg: Arg) -> Arg {
    let kind = match (command, arg.get_id().as_str()) {
        (_, "fs" | "designs") => Kind::Fs,
        (_, "medium") => Kind::Media,
        (_, "machine") => Kind::Machines,
        (_, "workloads" | "workload") => Kind::Workloads,
        (_, "targets") => Kind::Papers,
        ("run", "name") => Kind::Plans,
        (_, "results" | "like" | "base" | "new") => return arg.add(ArgValueCompleter::new(results)),
        _ => return arg,
    };
    let takes_files = !matches!(kind, Kind::Fs | Kind::Papers);
    let complete = move |typed: &OsStr| {
        let names = kind.rows().unwrap_or_default().into_iter().map(Row::named);
        if takes_files { with_paths(typed, names) } else { candidates(typed, names) }
    };
    arg.add(ArgValueCompleter::new(complete))
}

/// The names that begin with what was typed.
fn candidates(typed: &OsStr, names: impl Iterator<Item = (String, String)>) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    let begins = names.filter(|(name, _)| name.starts_with(typed));
    begins.map(|(name, about)| CompletionCandidate::new(name).help(Some(about.into()))).collect()
}

/// These, then the paths that do.
fn with_paths(typed: &OsStr, names: impl Iterator<Item = (String, String)>) -> Vec<CompletionCandidate> {
    let mut all = candidates(typed, names);
    all.extend(PathCompleter::any().complete(typed));
    all
}

/// The names of kept runs, and paths.
fn results(typed: &OsStr) -> Vec<CompletionCandidate> {
    with_paths(typed, store::names().into_iter().map(|name| (name, "a run".to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(words: &[&str]) -> Vec<String> {
        let words: Vec<OsString> = words.iter().map(Into::into).collect();
        let (last, mut command) = (words.len() - 1, command(&words));
        let found = clap_complete::engine::complete(&mut command, words, last, None).unwrap();
        found.iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn names_are_completed_wherever_they_are_taken() {
        for (words, wanted) in [
            (&["weir", "bench", "--fs", "hin"][..], "hinfs"),
            (&["weir", "bench", "--fs", "pmfs,no"], "pmfs,nova"),
            (&["weir", "bench", "--medium", "cxl.a"], "cxl.asic"),
            (&["weir", "bench", "--machine", "spr"], "spr-server"),
            (&["weir", "bench", "filebench/var"], "filebench/varmail"),
            (&["weir", "run", "hinfs-7"], "hinfs-7"),
            (&["weir", "reproduce", "rcac"], "rcache"),
            (&["weir", "check", "crash", "--fs", "re"], "redo"),
            (&["weir", "check", "crash", "trace:x.wtrace", "--ackn"], "--acknowledge"),
            (&["weir", "bench", "src/mai"], "src/main.rs"),
            (&["weir", "report", "src/mai"], "src/main.rs"),
        ] {
            let found = complete(words);
            assert!(found.iter().any(|name| name == wanted), "{words:?}: {found:?}");
        }
    }
}
