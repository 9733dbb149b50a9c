//! The shape of the command line. Each subcommand is a file in `command/` and a line in [`Command`].

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::command as c;
use crate::command::list::{Kind, Row};
use crate::failure::Failure;
use crate::output::Output;

/// File systems for byte-addressable storage, and a laboratory that measures them.
#[derive(Parser, Debug)]
#[command(name = "weir", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(
    after_help = "First steps: weir run · weir reproduce hinfs --quick · weir list workloads · weir doctor"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of every subcommand.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct Global {
    /// Print one JSON document to the standard output and nothing else
    #[arg(long, global = true, display_order = 900)]
    pub(crate) json: bool,
    /// Print fewer messages on the standard error
    #[arg(short, long, global = true, hide_short_help = true, display_order = 901)]
    pub(crate) quiet: bool,
    /// Print more messages on the standard error
    #[arg(short, long, global = true, hide_short_help = true, display_order = 902)]
    pub(crate) verbose: bool,
}

/// Every subcommand.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Measure a paper's figures; print published values beside measured ones
    Reproduce(c::reproduce::Reproduce),
    /// Run workloads on designs
    Bench(c::bench::Bench),
    /// Run a plan; without NAME, the plan `quick`
    Run(c::run::Run),
    /// Run plans, readings and checks on many hosts: Slurm, GNU parallel over ssh, or any other scheduler
    Campaign(c::campaign::CampaignCommand),
    /// Write an example plan, or check plans without running them
    Plan(c::plan::PlanCommand),
    /// Show results as tables, JSON, CSV, Markdown or one HTML page
    Report(c::report::Report),
    /// Compare two results cell by cell
    Compare(c::compare::Compare),
    /// Keep a result under a name, as a baseline for later comparisons
    Baseline(c::baseline::Baseline),
    /// List designs, media, workloads, plans, papers, machines
    List(c::list::List),
    /// Show everything about a design, medium, workload, plan, paper or machine
    Show(c::show::Show),
    /// Explain where a result's time went, what a file's extents cost, a term or an error
    Explain(c::explain::Explain),
    /// Show which events of processors go with throughput, in results of `weir bench --counters`
    Characterize(c::characterize::Characterize),
    /// Hold the model against published measurements: errors, orders of designs, limits
    Validate(c::validate::Validate),
    /// Run a simulator by itself: a medium, an SSD, logging hardware
    Sim(c::sim::Sim),
    /// Run a program and record its calls of files
    Record(c::record::Record),
    /// Show, import, anonymize, cut and compile recorded traces
    Trace(c::trace::Trace),
    /// Serve a modelled device to other programs
    Serve(c::serve::Serve),
    /// Measure what CPU work costs on this host
    Calibrate(c::calibrate::Calibrate),
    /// Report what this host supports, what is missing, and how to get it
    Doctor(c::doctor::Doctor),
    /// Make a file system in a pool
    Mkfs(c::mkfs::Mkfs),
    /// Mount a file system
    Mount(c::mount::Mount),
    /// Make everything on a mount durable
    Sync(c::sync::Sync),
    /// Unmount a directory, and wait until its server has ended
    Umount(c::umount::Umount),
    /// Make an unmounted pool larger
    Resize(c::resize::Resize),
    /// Return the space of a pool's free blocks to the host
    Trim(c::trim::Trim),
    /// Check a pool, and repair it on request
    Fsck(c::fsck::Fsck),
    /// Read all of a pool, and name the files that are damaged
    Scrub(c::scrub::Scrub),
    /// Test what designs promise: against a model, after crashes and with faults
    Check(c::check::Check),
    /// Print structures of a pool
    Dump(c::dump::Dump),
    /// Print the used and free space of a pool
    Df(c::df::Df),
    /// Print the completion script of a shell
    Completion(c::completion::Completion),
    /// Write the man pages into a folder
    Man(c::man::Man),
    /// Work as one worker of a benchmark, for the run that starts it
    #[command(name = c::worker::NAME, hide = true)]
    Worker(c::worker::Worker),
    /// Run one cell while its instructions are counted, for the run that starts it
    #[command(name = c::worker::COUNTED, hide = true)]
    CountedCell(c::worker::CountedCell),
}

impl Command {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        match self {
            Self::Reproduce(command) => command.run(output),
            Self::Bench(command) => command.run(output),
            Self::Run(command) => command.run(output),
            Self::Campaign(command) => command.run(output),
            Self::Plan(command) => command.run(output),
            Self::Report(command) => command.run(output),
            Self::Compare(command) => command.run(output),
            Self::Baseline(command) => command.run(output),
            Self::List(command) => command.run(output),
            Self::Show(command) => command.run(output),
            Self::Explain(command) => command.run(output),
            Self::Characterize(command) => command.run(output),
            Self::Validate(command) => command.run(output),
            Self::Sim(command) => command.run(output),
            Self::Record(command) => command.run(output),
            Self::Trace(command) => command.run(output),
            Self::Serve(command) => command.run(output),
            Self::Calibrate(command) => command.run(output),
            Self::Doctor(command) => command.run(output),
            Self::Mkfs(command) => command.run(output),
            Self::Mount(command) => command.run(output),
            Self::Sync(command) => command.run(output),
            Self::Umount(command) => command.run(output),
            Self::Resize(command) => command.run(output),
            Self::Trim(command) => command.run(output),
            Self::Fsck(command) => command.run(output),
            Self::Scrub(command) => command.run(output),
            Self::Check(command) => command.run(output),
            Self::Dump(command) => command.run(output),
            Self::Df(command) => command.run(output),
            Self::Completion(command) => command.run(output),
            Self::Man(command) => command.run(output),
            Self::Worker(_) => c::worker::Worker::run(),
            Self::CountedCell(_) => c::worker::CountedCell::run(output),
        }
    }
}

/// The command that the arguments say.
pub(crate) fn parse(arguments: Vec<OsString>) -> Result<Cli, clap::Error> {
    let mut command = with_numbers(Cli::command());
    let matches = command.try_get_matches_from_mut(with_help(arguments))?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// A number with a sign behind an option is its value, which its parser refuses, and no option of another name.
fn with_numbers(command: clap::Command) -> clap::Command {
    let named = |arg: clap::Arg| {
        let takes = arg.get_action().takes_values() && !arg.is_positional();
        if takes { arg.allow_negative_numbers(true) } else { arg }
    };
    command.mut_args(named).mut_subcommands(with_numbers)
}

/// `weir help` and `weir help bench` are `weir --help` and `weir bench --help`.
fn with_help(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.get(1).is_some_and(|first| first == "help") {
        arguments.remove(1);
        arguments.push("--help".into());
    }
    arguments
}

/// Says how a trace is named, for a command line of `weir check crash` that names the file alone.
pub(crate) fn trace_for(arguments: Vec<OsString>) -> Option<String> {
    let words: Vec<String> = arguments.into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let file = words.iter().find(|word| word.ends_with(".wtrace") && !word.starts_with("trace:"))?;
    let is_check = words.windows(2).any(|pair| pair[0] == "check" && pair[1] == "crash");
    is_check
        .then(|| format!("a program's trace is named with `trace:` before it: weir check crash trace:{file}"))
}

/// The names that an option takes which was given without one, or is missing, in a line.
pub(crate) fn names_for(error: &clap::Error) -> Option<String> {
    const KINDS: [(&str, Kind); 3] =
        [("--fs", Kind::Fs), ("--medium", Kind::Media), ("--machine", Kind::Machines)];
    let is_empty =
        matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value)) if value.is_empty());
    let asked = match (error.kind(), error.get(ContextKind::InvalidArg)?) {
        (ErrorKind::InvalidValue, ContextValue::String(option)) if is_empty => vec![option.clone()],
        (ErrorKind::MissingRequiredArgument, ContextValue::Strings(options)) => options.clone(),
        _ => return None,
    };
    let is = |option: &&(&str, Kind)| asked.iter().any(|text| text.split(' ').next() == Some(option.0));
    let (option, kind) = KINDS.iter().find(is)?;
    let names: Vec<String> = kind.rows().ok()?.into_iter().map(|row| Row::named(row).0).collect();
    Some(format!("{option}: there are: {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    /// The texts of README, CONTRIBUTING and every page below `docs/`.
    fn documents() -> Vec<String> {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let (mut files, mut folders) =
            (vec![root.join("README.md"), root.join("CONTRIBUTING.md")], vec![root.join("docs")]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|ending| ending == "md") {
                    files.push(path);
                }
            }
        }
        files.sort();
        files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
    }

    #[test]
    fn a_trace_that_is_named_by_its_file_alone_is_answered_with_how_to_name_it() {
        let told = |command: &str| trace_for(words(command));
        let hint = told("weir check crash save.wtrace --check true").unwrap();
        assert!(hint.ends_with("weir check crash trace:save.wtrace"), "{hint}");
        assert_eq!(told("weir check crash trace:save.wtrace --chek true"), None);
        assert_eq!(told("weir trace stat save.wtrace"), None);
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// The words of a command up to what a shell does after it failed; what is in quotes is one word.
    fn words(command: &str) -> Vec<OsString> {
        let (mut words, mut quote) = (vec![String::new()], None);
        for c in command.split(" || ").next().unwrap_or_default().chars() {
            match quote {
                Some(open) if c == open => quote = None,
                None if c == '\'' || c == '"' => quote = Some(c),
                None if c.is_whitespace() => words.push(String::new()),
                _ => words.last_mut().expect("one at least").push(c),
            }
        }
        words.into_iter().filter(|word| !word.is_empty()).map(OsString::from).collect()
    }

    /// Commands in blocks of code, where two blanks end one, and those in backquotes, which may leave out what goes without saying.
    #[test]
    fn commands_in_the_documents_are_right() {
        let documents = documents();
        let blocks = documents.iter().flat_map(|text| text.lines()).filter(|line| line.starts_with("weir "));
        let blocks = blocks.flat_map(|line| line.split("  ").next().unwrap_or(line).split("; "));
        let quoted = documents.iter().flat_map(|text| text.split('`').skip(1).step_by(2));
        let commands = blocks.chain(quoted).filter(|words| words.starts_with("weir ")).collect::<Vec<_>>();
        assert!(commands.len() > 10);
        for command in commands {
            let words = crate::command::check::program_arguments(super::with_help(words(command)));
            let Err(error) = Cli::try_parse_from(words) else { continue };
            // `weir help` is one of them.
            let names_only = [
                ErrorKind::MissingRequiredArgument,
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
                ErrorKind::DisplayHelp,
            ];
            // An option may be named without its value.
            let no_value = error.to_string().contains("a value is required");
            assert!(no_value || names_only.contains(&error.kind()), "{command}: {error}");
        }
    }

    #[test]
    fn the_page_of_commands_has_every_command() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let page = std::fs::read_to_string(root.join("docs/commands.md")).unwrap();
        let mut cli = Cli::command();
        cli.build();
        let commands =
            cli.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help");
        let missing: Vec<_> = commands
            .map(clap::Command::get_name)
            .filter(|name| !page.contains(&format!("weir {name}")))
            .collect();
        assert_eq!(missing, [""; 0], "docs/commands.md");
    }

    /// Every command, and every option and argument of it, to the last subcommand.
    #[test]
    fn every_command_and_option_has_help() {
        fn silent(command: &clap::Command, path: &str, found: &mut Vec<String>) {
            let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set());
            for argument in arguments {
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                if help.trim().is_empty() {
                    found.push(format!("{path} {}", argument.get_id()));
                }
            }
            for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
                let path = format!("{path} {}", inner.get_name());
                if inner.get_about().is_none() {
                    found.push(path.clone());
                }
                silent(inner, &path, found);
            }
        }
        let (mut cli, mut found) = (Cli::command(), Vec::new());
        cli.build();
        silent(&cli, "weir", &mut found);
        assert_eq!(found, [""; 0]);
    }

    /// The short help; the long one has every flag.
    #[test]
    fn help_of_every_subcommand_fits_a_screen() {
        let fits = |command: &mut clap::Command, most: usize| {
            let help = command.render_help().to_string();
            let lines = help.lines().count();
            assert!(lines <= most, "{} -h has {lines} lines:\n{help}", command.get_name());
            assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
        };
        let mut cli = Cli::command();
        cli.build();
        let lines = cli.get_subcommands().count() + 12; // a line for each subcommand, and what stands around them
        fits(&mut cli, lines);
        cli.get_subcommands_mut().for_each(|command| fits(command, 24));
    }
}
