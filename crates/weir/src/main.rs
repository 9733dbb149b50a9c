//! The command: everything that Weir can do, from a shell.
//!
//! Data goes to the standard output or the named file, everything else to the standard error. Exit codes:
//!
//! | code | means |
//! |---:|---|
//! | 0 | success |
//! | 1 | a check or a threshold failed |
//! | 2 | usage, or a plan with an error |
//! | 3 | this host cannot do it; `weir doctor` says why |
//! | 4 | the run failed: I/O, out of space |
//! | 5 | corruption |
//! | 70 | internal error |
//! | 130 | interrupted; partial results are written |

#![forbid(unsafe_code)]

mod beside;
mod bundle;
mod checked;
mod cli;
mod command;
mod completing;
mod contents;
mod experiment;
mod failure;
mod inputs;
mod interrupt;
mod mounted;
mod nbd;
mod output;
mod partition;
mod pool_file;
mod progress;
mod server_end;
mod store;
mod topics;

use std::process::ExitCode;

use failure::{Exit, Failure};
use output::Output;

/// Index nodes, log records and pages come and go all the time, on many threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What is said when a mapped image is cut short, or the disk under one with holes is full.
const LOST: &str = "error: an image in use has lost part of its file: it was cut short, or its disk is full; \
                    the rest is as after a crash\n";

fn main() -> ExitCode {
    completing::answer();
    media::nvmm::lost::say_when_lost(LOST, Exit::Run as i32);
    let arguments = command::mount::by_type::arguments(std::env::args_os());
    let arguments = command::check::program_arguments(arguments);
    let json = arguments.iter().any(|argument| argument == "--json");
    let cli = match cli::parse(arguments) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, json),
    };
    let output = Output::new(&cli.global);
    let outcome = std::panic::catch_unwind(|| cli.command.run(&output)).unwrap_or_else(|_| {
        let advice = "internal error; please report it with the message above and the command";
        Err(Failure::new(Exit::Internal, advice))
    });
    let outcome = outcome.and_then(|()| output::unwritten().map_or(Ok(()), Err));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output.failure(&failure);
            failure.exit.into()
        }
    }
}

/// Help and version go to the standard output; a usage error is told as every other.
fn usage(error: &clap::Error, json: bool) -> ExitCode {
    let names = cli::trace_for(std::env::args_os().collect()).or_else(|| cli::names_for(error));
    if error.use_stderr() && json {
        let message = error.render().to_string();
        let told: Vec<&str> = [message.trim()].into_iter().chain(names.as_deref()).collect();
        output::print_failure_json(&Failure::new(Exit::Usage, told.join("\n")));
    }
    // Nothing is left to be done when the terminal is gone.
    let _ = error.print();
    if let Some(names) = names {
        output::say(&names);
    }
    if error.use_stderr() { Exit::Usage.into() } else { ExitCode::SUCCESS }
}
