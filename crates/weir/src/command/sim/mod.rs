//! `weir sim`: the hardware simulators by themselves.

mod flash;
mod logging;
pub(crate) mod medium;
mod medium_load;

use clap::{Args, Subcommand};

use crate::failure::Failure;
use crate::output::Output;

/// Run a hardware simulator.
#[derive(Args, Debug)]
pub(crate) struct Sim {
    #[command(subcommand)]
    pub(in crate::command) simulator: Simulator,
}

/// Every simulator.
#[derive(Subcommand, Debug)]
pub(in crate::command) enum Simulator {
    /// Simulate transactions under software and hardware logging: cores, caches, controller, NVRAM
    Logging(logging::Logging),
    /// Replay a block trace on a simulated SSD, or run an experiment on it
    Flash(flash::Flash),
    /// Measure a medium by loads and stores: latency and bandwidth by pattern, size and threads
    Medium(medium::MediumLoops),
}

impl Sim {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        match self.simulator {
            Simulator::Logging(command) => command.run(output),
            Simulator::Flash(command) => command.run(output),
            Simulator::Medium(command) => command.run(output),
        }
    }
}
