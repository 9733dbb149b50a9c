//! `weir fxmark-worker`: one worker of FxMark on a directory of the host. `weir counted-cell`: one cell while a plugin of qemu
//! counts. Only `weir` itself starts them.

use std::io;

use clap::Args;

use lab::{Runner, Silent};

use crate::failure::Failure;
use crate::interrupt;
use crate::output::Output;

/// What the subcommand is called.
pub(crate) const NAME: &str = "fxmark-worker";

/// Work as one worker of a benchmark; `weir bench fxmark` starts it
#[derive(Args, Debug)]
pub(crate) struct Worker {}

impl Worker {
    pub(crate) fn run() -> Result<(), Failure> {
        Ok(lab::cell::worker()?)
    }
}

/// What the subcommand is called that runs one cell while it is watched.
pub(crate) const COUNTED: &str = "counted-cell";

/// Run one cell while its instructions are counted; `weir bench --counters simulated` starts it
#[derive(Args, Debug)]
pub(crate) struct CountedCell {}

impl CountedCell {
    pub(crate) fn run(output: &Output) -> Result<(), Failure> {
        let settings = lab::Settings { interrupt: interrupt::flag(), ..lab::Settings::default() };
        let task = io::read_to_string(io::stdin())
            .map_err(|error| Failure::usage(format!("this command is started by weir only: {error}")))?;
        output.data(&Runner::new(settings, &Silent).watched(&task)?);
        Ok(())
    }
}
