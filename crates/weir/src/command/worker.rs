//! `weir fxmark-worker`: one worker of FxMark on a directory of the host. `weir counted-cell`: one cell while a plugin of qemu
//! counts. Only `weir` itself starts them.

use clap::Args;

use lab::{Runner, Silent};

use crate::failure::Failure;
use crate::interrupt;

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
    pub(crate) fn run() -> Result<(), Failure> {
        let settings = lab::Settings { interrupt: interrupt::flag(), ..lab::Settings::default() };
        Ok(Runner::new(settings, &Silent).watched()?)
    }
}
