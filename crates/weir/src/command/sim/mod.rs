//! `weir sim`: the hardware simulators by themselves.

pub(crate) mod claims;
mod flash;
mod logging;

use clap::{Args, Subcommand};

use crate::failure::Failure;
use crate::output::Output;

/// Run a hardware simulator.
#[derive(Args, Debug)]
pub(crate) struct Sim {
    #[command(subcommand)]
    simulator: Simulator,
}

/// Every simulator.
#[derive(Subcommand, Debug)]
enum Simulator {
    /// Simulate transactions under software and hardware logging: cores, caches, controller, NVRAM
    Logging(logging::Logging),
    /// Replay a block trace on a simulated SSD, or run an experiment on it
    Flash(flash::Flash),
}

impl Sim {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        match self.simulator {
            Simulator::Logging(command) => command.run(output),
            Simulator::Flash(command) => command.run(output),
        }
    }
}
