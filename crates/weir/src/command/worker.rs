//! `weir fxmark-worker`: one worker of FxMark on a directory of the host. Only `weir` itself starts it.

use clap::Args;

use crate::failure::Failure;

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
