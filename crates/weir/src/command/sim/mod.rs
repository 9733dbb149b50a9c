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
    /// Transactions under software and hardware logging: cores, caches, controller, NVRAM
    Logging(logging::Logging),
    /// Block traces on an SSD, or an experiment on one
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
